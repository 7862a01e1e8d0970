"""NumPy's own tests as programs: each ends under ``evalframe run`` as it does under plain Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import numpy as np
import pytest

MODULES = [
    "_core/tests/test_numeric.py",
    "_core/tests/test_indexing.py",
    "_core/tests/test_einsum.py",
    "lib/tests/test_arraysetops.py",
    "lib/tests/test_histograms.py",
    "lib/tests/test_index_tricks.py",
    "lib/tests/test_nanfunctions.py",
    "lib/tests/test_polynomial.py",
    "lib/tests/test_shape_base.py",
    "lib/tests/test_stride_tricks.py",
    "lib/tests/test_twodim_base.py",
]
# They count references to element types, which recordings hold, too.
MAY_DIFFER = {"test_small_regressions"}


def outcomes(folder: Path, name: str, *launcher: str) -> dict[str, str]:
    """What became of each test of a module."""
    page = folder / f"{name}.xml"
    command = [sys.executable, *launcher, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={page}", f"{name}.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTEST_ADDOPTS": ""})
    assert done.returncode in (0, 1), done.stdout[-4000:] + done.stderr[-4000:]
    result = {}
    for case in xml.parse(page).iter("testcase"):
        ended = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        result[f"{case.get('classname')}::{case.get('name')}"] = ended
    return result


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_ends_as_under_plain_python(module: str, tmp_path: Path) -> None:
    source = Path(np.__file__).parent / module
    name = "copied_" + source.stem.removeprefix("test_")  # under a name of NumPy's it would be left alone as a library
    shutil.copy(source, tmp_path / f"{name}.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    plain = outcomes(tmp_path, name)
    captured = outcomes(tmp_path, name, "-m", "evalframe", "run")
    assert len(plain) > 20
    different = {case: (ended, captured.get(case)) for case, ended in plain.items() if captured.get(case) != ended}
    assert {case for case in different if case.rpartition("::")[2] not in MAY_DIFFER} == set()
    assert captured.keys() == plain.keys()
