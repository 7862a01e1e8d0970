"""The rules of the house that a script can check: borders between folders, comments of purpose, lint and types."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import evalframe

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for path in (ROOT / "src").rglob("*") if path.suffix in {".h", ".cpp", ".def"})
# In the order of the data, as the overview has them; a folder includes itself and those before it.
FOLDERS = re.findall(r"^\| `(\w+)/`", (ROOT / "docs" / "01-overview.md").read_text(), re.MULTILINE)
# Borders are crossed here, for a reason.
ALLOWED = {
    ("bytecode", "cpython"),  # code objects and names of the running version come through the border
    ("graph", "frontends"),  # nodes are made with the metadata of the arrays that NumPy's C API shows
}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def is_test(path: Path) -> bool:
    return path.stem.endswith("_test")


def test_only_the_border_knows_cpythons_versions() -> None:
    words = re.compile(r"PY_VERSION_HEX|pycore_|Py_BUILD_CORE|sys_version_info")
    wrong = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in SOURCES
        if (ROOT / "src" / "cpython") not in path.parents
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if words.search(line.split("//")[0])
    ]
    assert wrong == []


def test_folders_include_in_the_order_of_the_data() -> None:
    wrong = []
    for path in SOURCES:
        own = path.relative_to(ROOT / "src").parts[0]
        for other in re.findall(r'#include "(\w+)/', path.read_text()):
            if other not in FOLDERS or is_test(path) or (own, other) in ALLOWED:
                continue
            if FOLDERS.index(other) > FOLDERS.index(own):
                wrong.append(f"{relative(path)} includes {other}/")
    assert wrong == []
    assert {path.name for path in (ROOT / "src").iterdir() if path.is_dir()} == set(FOLDERS)


def test_nothing_is_left_over_from_merging() -> None:
    left = [relative(path) for folder in ("src", "python", "tests", "docs") for path in (ROOT / folder).rglob("*") if path.suffix in {".orig", ".rej"}]
    assert left == []


def test_every_file_opens_with_its_purpose() -> None:
    python = [path for folder in ("python", "tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    sources = [path for path in SOURCES if path.suffix != ".cpp" or not path.with_suffix(".h").exists()]
    wrong = [relative(path) for path in sources if not path.read_text().startswith("// ")]
    wrong += [relative(path) for path in python if not re.match(r'(#!.*\n)?r?"""\S', path.read_text())]
    assert wrong == []


def run(*command: str, cwd: Path = ROOT) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def needs(module: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(module) is None, reason=f"{module} is not installed")


@needs("ruff")
def test_lint() -> None:
    run("ruff", "check", "--no-cache", ".")


@needs("mypy")
def test_types(tmp_path: Path) -> None:
    """On a copy of the package, as `evalframe` may be a build with no stubs beside it."""
    package = tmp_path / "evalframe"
    shutil.copytree(ROOT / "python" / "evalframe", package, ignore=shutil.ignore_patterns("__pycache__"))
    stubs = Path(evalframe.__file__).parent / "_core"
    if stubs.is_dir():
        shutil.copytree(stubs, package / "_core")
    else:
        pytest.importorskip("nanobind")
        stubgen = ("nanobind.stubgen", "--quiet", "--recursive", "--module", "evalframe._core")
        run(*stubgen, "--output-dir", str(package))
    run("mypy", "--config-file", str(ROOT / "pyproject.toml"), "--strict", str(package), cwd=tmp_path)


def test_an_installed_package_has_headers_and_types() -> None:
    installed = Path(evalframe.__file__).parent
    assert (installed / "py.typed").exists()
    if installed.is_symlink() or (installed / "__init__.py").is_symlink():
        pytest.skip("a build tree")
    assert (Path(evalframe.get_include()) / "evalframe" / "hook.h").exists()
    assert (installed / "_core" / "__init__.pyi").exists()
