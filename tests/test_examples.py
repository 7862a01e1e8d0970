"""Runs each example as a user would, with small sizes."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run_example(name: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=300, check=False)


def output_of(name: str, *arguments: str, cwd: Path | None = None) -> str:
    done = run_example(name, *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_black_scholes_agrees_and_prints_both_times() -> None:
    pytest.importorskip("scipy")
    text = output_of("black_scholes.py", "--count", "5000")
    assert "5,000 options" in text
    assert "plain NumPy" in text and "under evalframe" in text


def test_black_scholes_names_a_file_without_options(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    empty = tmp_path / "empty.csv"
    empty.write_text("spot,strike,years,rate,volatility\n")
    done = run_example("black_scholes.py", "--file", str(empty))
    assert done.returncode == 1
    assert "no options in this file" in done.stderr


def test_heat_writes_a_picture(tmp_path: Path) -> None:
    text = output_of("heat.py", "--size", "32", "--steps", "20", "--output", "out.png", cwd=tmp_path)
    assert "picture in out.png" in text
    data = (tmp_path / "out.png").read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", data[16:24]) == (32, 32)


def test_logistic_digits_learns() -> None:
    pytest.importorskip("sklearn")
    text = output_of("logistic_digits.py", "--steps", "60")
    share = float(text.split("% of")[0].split()[-1])
    assert share > 80


def test_pendulums_say_the_same_under_evalframe() -> None:
    plain = run_example("pendulums.py", "50", "1000")
    command = [sys.executable, "-m", "evalframe", "run", str(EXAMPLES / "pendulums.py"), "50", "1000"]
    captured = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert plain.stdout.count("have turned over") == 2
    assert captured.stdout == plain.stdout
    assert "graphs recorded" in captured.stderr


def test_toy_explains_its_break() -> None:
    text = output_of("toy.py")
    assert "break" in text
    assert "toy.py" in text


def test_toy_compiler_prints_graphs_and_agrees() -> None:
    text = output_of("toy_compiler.py")
    assert "graph of toy_function" in text and "v2 = a / v1: float64[s0]" in text
    assert text.endswith("both sides of the branch agree with plain Python\n")


def test_one_hook_counts_and_one_multiplies() -> None:
    assert output_of("hooks.py").splitlines() == [
        "fibonacci(15) = 610; calls: {'fibonacci': 1973}",
        "product_or_sum(2, 3, 4) = 9",
        "with + as *: 24",
        "afterwards: 9",
    ]


def test_variables_nest_prints_the_string_and_the_table() -> None:
    first, _, _, *rows = output_of("variables_nest.py").splitlines()
    assert first == "1 2 global_var 1 2 global_var 3 "
    kinds = {row.split()[3]: row.split()[0] for row in rows}
    assert (kinds["arg1"], kinds["value"], kinds["global_var"]) == ("free", "cell", "global")
