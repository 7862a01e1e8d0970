"""Runs the examples of README.md and docs/, so that what they show is what happens.

A ```python block is run; the ```text block behind it, if there is one, is what it prints. A ```console block holds
commands (`$ evalframe ...`, `$ python ...`) and their output, and is run in the repository's root. A ```cpp block is a
file of the name behind it, which a ```sh block marked `compile` compiles. A block marked `figures` may differ in its
numbers; one marked `no-run` isn't run.
"""

import contextlib
import difflib
import io
import linecache
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    marks: frozenset[str]
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], frozenset(match[2].split()), match[3], text.count("\n", 0, match.start()) + 2)
        for match in FENCE.finditer(text)
    ]


def assert_same_output(shown: str, printed: str, marks: frozenset[str]) -> None:
    shown, printed = (re.sub(r"[ \t]+$", "", text.strip(), flags=re.MULTILINE) for text in (shown, printed))
    if "figures" in marks:
        shown, printed = (re.sub(r"\s*[-+]?\d[\d.,]*(e[-+]?\d+)?", " 0", text) for text in (shown, printed))
        # A busy machine may turn what a short run saves into what it loses.
        times = r"about 0 m?s (saved|lost \(compiling took 0 m?s\))"
        shown, printed = (re.sub(times, "about 0 s saved", text) for text in (shown, printed))
    assert printed == shown, "\n".join(difflib.ndiff(shown.splitlines(), printed.splitlines()))


def run_python(block: Block, namespace: dict[str, object]) -> str:
    # The source has to be findable for tracebacks and for positions of breaks.
    name = "example.py"
    linecache.cache[name] = (len(block.text), None, block.text.splitlines(keepends=True), name)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, name, "exec"), namespace)
    return printed.getvalue()


def run_command(command: str) -> str:
    words = shlex.split(command)
    start = {"evalframe": [sys.executable, "-m", "evalframe"], "python": [sys.executable]}[words[0]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment["PYTHONUNBUFFERED"] = "1"  # both streams in the order in which a terminal shows them
    done = subprocess.run(
        [*start, *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=environment
    )
    return done.stdout


def check_console(block: Block) -> None:
    for session in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = session.partition("\n")
        assert_same_output(shown, run_command(command), block.marks)


def compile_extension(command: str, folder: Path) -> None:
    headers = shlex.quote(str(ROOT / "include"))  # a build tree has no copy of them
    words = command.replace("$(python ", f"-I{headers} $({shlex.quote(sys.executable)} ")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(["sh", "-c", words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def check_page(page: Path, folder: Path) -> None:
    blocks = blocks_of(page)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block, following in zip(blocks, [*blocks[1:], None], strict=False):
        if "no-run" in block.marks:
            continue
        if block.language == "python":
            printed = run_python(block, namespace)
            if following is not None and following.language == "text":
                assert_same_output(following.text, printed, following.marks)
        elif block.language == "console":
            check_console(block)
        elif block.language == "cpp":
            (folder / next(iter(block.marks))).write_text(block.text)
        elif block.language == "sh" and "compile" in block.marks:
            compile_extension(block.text, folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of(page: Path, tmp_path: Path) -> None:
    """In a process of its own, as a reader's: with no counts, hooks and captured functions of other tests."""
    program = (
        "import sys, test_docs; from pathlib import Path; from evalframe import _core\n"
        "_core.set_call_trials(False)\n"
        "test_docs.check_page(Path(sys.argv[1]), Path.cwd())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    done = subprocess.run(
        [sys.executable, "-c", program, str(page)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)[^):]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which doesn't exist"


def test_files_that_docs_name_exist() -> None:
    missing = []
    for page in PAGES:
        for name in re.findall(
            r"`((?:src|tests|examples|benchmarks)/[a-z0-9_/]+\.\w+)`", page.read_text(encoding="utf-8")
        ):
            if not (ROOT / name).exists():
                missing.append(f"{page.name}: {name}")
    assert not missing


def test_nothing_stands_twice_in_the_changelog() -> None:
    """It merges by union, which keeps both versions of a line that two changes touch."""
    beginnings = Counter(line.strip()[:60] for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines())
    assert [text for text, count in beginnings.items() if text and count > 1] == []
