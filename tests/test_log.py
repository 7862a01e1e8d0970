"""EVALFRAME_LOG tells on stderr what happens, by channels, and is silent where it is off."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import numpy as np
import evalframe

@evalframe.jit
def toy(a, b):
    x = a / (np.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b

x = np.arange(5.0)
toy(x, x)
toy(x, x)
toy(x.astype("f4"), x)
print("done")
"""


def run(channels: str | None, tmp_path: Path, program: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(program)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("EVALFRAME_LOG", None)
    if channels is not None:
        environment["EVALFRAME_LOG"] = channels
    return subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)


def channels_of(text: str) -> list[str]:
    return sorted(set(re.findall(r"^\[evalframe (\w+)\]", text, re.MULTILINE)))


@pytest.mark.parametrize("channels", [None, "", " , "])
def test_is_silent_where_it_is_off(channels: str | None, tmp_path: Path) -> None:
    done = run(channels, tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


@pytest.mark.parametrize("channels", ["graphs", "guards", "breaks", "kernels", "backends", "recompiles", "graphs, breaks"])
def test_tells_of_the_channels_that_were_named(channels: str, tmp_path: Path) -> None:
    done = run(channels, tmp_path)
    assert done.stdout == "done\n"
    assert channels_of(done.stderr) == sorted(channels.replace(" ", "").split(","))


def test_all_is_everything(tmp_path: Path) -> None:
    assert len(channels_of(run("all", tmp_path).stderr)) == 6


def test_breaks_have_place_reason_and_hint(tmp_path: Path) -> None:
    text = run("breaks", tmp_path).stderr
    assert re.search(r"program.py:8:8: in toy: branch on the value of an array \(.*\)\n  hint: the branch runs", text)
    assert text.count("\n") == 2  # the same place is told once


def test_recompiles_name_the_guard_that_failed(tmp_path: Path) -> None:
    text = run("recompiles", tmp_path).stderr
    assert "toy (" in text and "program.py:5) is recorded again, recording 2 from there:" in text
    assert "not so any more: a is an array of float64, rank 1" in text


LIMITED = """
import numpy as np
import evalframe

@evalframe.jit(max_entries=2)
def cast(x):
    return x + 1

for _ in range(2):
    for dtype in ("f8", "f4", "i8", "i4"):
        cast(np.ones(3, dtype))
told = evalframe.explain(cast)(np.ones(3, "i2"))
print(told.limits[0].entries, told.limits[0].refused)
print(told)
"""


def test_the_limit_of_recordings_is_told_once_with_what_varies_and_what_to_do(tmp_path: Path) -> None:
    done = run("recompiles", tmp_path, LIMITED)
    assert done.stderr.count("isn't recorded again: there are 2 recordings from there") == 1
    assert re.search(r"isn't recorded again: .*\n  failing most: x is an array of float.*\n  hint: ", done.stderr)
    assert done.stdout.startswith("2 5\n")
    assert re.search(r"limit at .*program.py:5: cast has 2 recordings from here, and 5 calls that none .*\n    failing most: x ", done.stdout)


def test_an_unknown_channel_is_told_with_those_that_there_are(tmp_path: Path) -> None:
    done = run("graphs,nonsense", tmp_path)
    assert done.stdout == "done\n" and done.returncode == 0
    first, rest = done.stderr.split("\n", 1)
    assert first == (
        "evalframe: EVALFRAME_LOG has no channel 'nonsense'; there are: graphs, guards, breaks, kernels, recompiles, regions, backends, all"
    )
    assert channels_of(rest) == ["graphs"]


def test_a_stderr_that_fails_changes_nothing(tmp_path: Path) -> None:
    program = "import sys\nclass Bad:\n    def write(self, text): raise OSError('no')\n    def flush(self): pass\n"
    done = run("all", tmp_path, program + PROGRAM.replace("x = np.arange", "sys.stderr = Bad()\nx = np.arange"))
    assert done.stdout == "done\n" and done.returncode == 0
    assert run("all", tmp_path, "import sys\n" + PROGRAM.replace("x = np.a", "sys.stderr = None\nx = np.a")).stdout == "done\n"
