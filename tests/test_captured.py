"""`evalframe graph` and `guards`, and the objects that `evalframe.graphs` and `evalframe.guards` give."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe

PROGRAM = """\
import numpy as np

def scaled(x, factor):
    return shifted(x) * factor

def shifted(x):
    return x + 1

class Model:
    def __init__(self):
        self.weights = [np.ones(4)]

    def run(self, x):
        y = scaled(x, 2.0) @ self.weights[0]
        if y > 1e6:
            return x
        return x - y

model = Model()

def main(arrays):
    for array in arrays:
        model.run(array)

main([np.arange(4.0)] * 6 + [np.arange(4.0, dtype=np.float32)] * 2)
print("done")
"""

GRAPHS = """\
done
Model.run (FILE:13), graph 0, from start
       i0 = input x: float64[4]
       i1 = input self.weights[0]: float64[4]
   7 | return x + 1  [shifted]
       n0 = binary +(i0, 1): float64[4]
   4 | return shifted(x) * factor  [scaled]
       n1 = binary *(n0, 2.0): float64[4]
  14 | y = scaled(x, 2.0) @ self.weights[0]
       n2 = binary @(n1, i1): float64
  15 | if y > 1e6:
       n3 = compare >(n2, 1000000.0): bool_
  ends: branch on the value of an array (numpy.bool)
"""

GUARDS = """\
  self                 has the class Model, unchanged
    self.weights       is a list of length 1
      self.weights[0]  is an array of float64, rank 1
  x                    is an array of float64, rank 1  (failed 3 times, finding an array of float32, rank 1; convert to one dtype and rank before the call, or raise max_entries)

"""


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-m", "evalframe", *arguments], capture_output=True, text=True, cwd=cwd, env=environment
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_graphs_stand_under_their_source_lines(file: Path) -> None:
    done = run("graph", "program.py:Model.run", cwd=file.parent)
    assert done.stderr == ""
    assert done.stdout.replace(str(file), "FILE").startswith(GRAPHS)
    assert run("graph", "program.py:Model.run", cwd=file.parent).stdout == done.stdout
    assert "Model.__init__ (" not in done.stdout and "Model.__init__ (" in run("graph", "program.py", cwd=file.parent).stdout


def test_guards_are_a_tree_with_counts(file: Path) -> None:
    done = run("guards", "program.py:Model.run", cwd=file.parent)
    assert "Model.run (" in done.stdout and "graph 0, from start: held 5 times, failed 3 times\n" in done.stdout
    assert GUARDS in done.stdout
    assert "  __main__.scaled      is the same object\n" in done.stdout
    with_costs = run("guards", "--costs", "program.py:Model.run", cwd=file.parent)
    assert re.sub(r"( +[0-9.]+ ns  )|; [0-9.]+ ns a call", lambda found: found[1] and "  ", with_costs.stdout) == done.stdout
    assert " ns a call\n" in with_costs.stdout


def test_documents_are_stable_and_have_the_program_s_output_elsewhere(file: Path) -> None:
    for command, key in (("graph", "text"), ("guards", "fact")):
        texts = []
        for _ in range(2):
            done = run(command, "--json", "--output", "told.json", "program.py", cwd=file.parent)
            assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
            texts.append((file.parent / "told.json").read_text())
        assert texts[0] == texts[1]
        rows: list[dict[str, Any]] = json.loads(texts[0])
        assert {row["function"] for row in rows} >= {"Model.run"} and all(row[key] and row["file"] == str(file) for row in rows)
        assert len(texts[0].split("\n")) == len(rows) + 3


def test_programs_of_all_forms(file: Path) -> None:
    whole = run("graph", "program.py", cwd=file.parent).stdout
    assert run("graph", "-m", "program", cwd=file.parent).stdout == whole
    one = run("graph", "-m", "program:scaled", cwd=file.parent).stdout
    assert one.startswith("done\nModel.run (") and one.count("[scaled]") == 2 and "line 17" not in one
    source = "import numpy as np\ndef f(x):\n    return x + 1\nfor i in range(3): f(np.ones(2))\n"
    told = run("graph", "-c", source, cwd=file.parent).stdout
    assert "   3 | return x + 1\n       n0 = binary +(i0, 1): float64[2]\n" in told
    assert run("guards", "-c", "print(1)", cwd=file.parent).stdout == "1\nnothing was captured\n"
    assert json.loads(run("guards", "--json", "-c", "pass", cwd=file.parent).stdout) == []


@pytest.mark.parametrize("command", ["graph", "guards", "explain"])
def test_what_is_wrong_is_told_before_the_program_runs(file: Path, command: str) -> None:
    for arguments, text in (
        (["program.py:Model.rum"], "program.py has no function 'Model.rum'; did you mean Model.run"),
        (["nope.py"], "can't open file"),
        (["-m", "program:nope"], "program.py has no function 'nope'; its functions are: scaled"),
        (["-m", "json:load"], "the package 'json' can't be run: it has no __main__"),
        ([], "no program to run: give FILE[:NAME], -m MODULE[:NAME] or -c SOURCE"),
        (["--output", "no/such/file", "program.py"], "can't write 'no/such/file': No such file or directory"),
    ):
        done = run(command, *arguments, cwd=file.parent)
        assert done.returncode == 2 and done.stdout == ""
        assert text in done.stderr and "Traceback" not in done.stderr


def test_loops_of_modules_are_told_of_behind_their_end(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text("import numpy as np\nu = np.ones(5)\nfor i in range(9):\n    u = np.sqrt(u + 0.5)\nprint(u.shape)\n")
    told = run("graph", "loop.py", cwd=tmp_path).stdout
    assert f"<module> ({tmp_path / 'loop.py'}:1), graph 1, from line 3\n" in told
    assert "   4 | u = np.sqrt(u + 0.5)\n       n0 = binary +(i0, 0.5): float64[5]\n" in told
    assert "<module> (" in run("explain", "loop.py", cwd=tmp_path).stdout


def test_a_program_s_exit_and_error_are_its_own(file: Path) -> None:
    done = run("graph", "-c", "import sys; sys.exit(3)", cwd=file.parent)
    assert (done.returncode, done.stdout) == (3, "nothing was captured\n")
    done = run("guards", "-c", "1 / 0", cwd=file.parent)
    assert done.returncode == 1 and done.stderr.count("ZeroDivisionError") == 1


def test_objects_of_a_captured_function() -> None:
    @evalframe.jit
    def work(x, k):
        y = np.sqrt(x) * k
        return inner(y)

    def inner(y):
        return y - y.mean()

    assert evalframe.graphs(work) == () and repr(evalframe.guards(work)) == "nothing was captured"
    for _ in range(3):
        work(np.arange(3.0), 2)
    (graph,) = evalframe.graphs(work)
    assert [row.name for row in graph.rows] == ["i0", "i1", "n0", "n1", "n2", "n3", "n4"]
    minus = graph.rows[-1]
    assert minus.operands == ("n1", "n2") and minus.place is not None and minus.place.function.endswith("inner")
    assert graph.ends == "" and graph.start == "start"
    assert repr(evalframe.graphs(work)) == str(graph)
    assert "<td>n0 = call sqrt(i0): float64[3]</td><td>y = np.sqrt(x) * k</td>" in evalframe.graphs(work)._repr_html_()
    (tree,) = evalframe.guards(work)
    assert (tree.held, tree.failed) == (2, 0)
    assert {"x", "k", "numpy.sqrt"} <= {guard.subject for guard in tree.guards}
    work(np.arange(3), 2)
    first = evalframe.guards(work)[0]
    assert first.failed and [(guard.subject, guard.failed) for guard in first.guards if guard.failed] == [("x", first.failed)]
    assert f">failed {first.failed} times, finding an array of int64, rank 1; convert" in first._repr_html_()


def test_objects_of_a_plain_function_that_is_captured_now() -> None:
    def work(x):
        return x * 2

    with evalframe.enabled():
        work(np.ones(2))
        assert [row.text for row in evalframe.graphs(work)[0].rows] == ["i0 = input x: float64[2]", "n0 = binary *(i0, 2): float64[2]"]
    with pytest.raises(TypeError, match="a function made by evalframe.jit or a plain one is needed, not int"):
        evalframe.guards(3)


@pytest.mark.parametrize("command", ["graph", "guards", "explain", "step"])
def test_options_behind_a_program_are_its_own(tmp_path: Path, command: str) -> None:
    (tmp_path / "program.py").write_text("import sys; print(sys.argv)\n")
    for form, name in ((["program.py"], "program.py"), (["-m", "program"], str(tmp_path / "program.py")), (["-c", "import sys; print(sys.argv)"], "-c")):
        done = run(command, *form, "-n", "3", "--json", "--", "-m", cwd=tmp_path)
        assert done.stdout.splitlines()[0] == repr([name, "-n", "3", "--json", "--", "-m"]), done.stderr
    done = run(command, "--", "program.py", "--json", cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "['program.py', '--json']"


@pytest.mark.parametrize("command", ["graph", "guards", "explain", "step"])
def test_programs_that_take_stdout_away(tmp_path: Path, command: str) -> None:
    done = run(command, "-c", "import sys; sys.stdout.close()", cwd=tmp_path)
    assert done.stderr == "evalframe: the program has closed stdout; --output FILE writes into a file\n"
    assert run(command, "-c", "import io, sys; sys.stdout = io.StringIO()", cwd=tmp_path).stdout.strip()
    assert run(command, "--output", "told", "-c", "import sys; sys.stdout.close()", cwd=tmp_path).stderr == ""
    assert (tmp_path / "told").read_text().strip()


def told_of(x, k):
    return np.sqrt(x * k)


def test_what_each_tool_gives_shows_itself_in_a_terminal_and_in_a_notebook() -> None:
    captured = evalframe.jit(told_of)
    captured(np.ones(3), 2.0)
    given = {
        "variables": evalframe.variables(told_of), "dis": evalframe.dis(told_of), "code": evalframe.code(told_of),
        "step": evalframe.step(told_of)(np.ones(3), 2.0), "explain": evalframe.explain(captured)(np.ones(3), 2.0),
        "graphs": evalframe.graphs(captured), "guards": evalframe.guards(captured), "decompile": evalframe.decompile_report(told_of),
    }  # fmt: skip
    for name, shown in given.items():
        short = {"step": "<Trace of ", "code": "<CodeObject told_of, "}
        readable = short.get(name) or str(shown).rstrip("\n")
        assert repr(shown).startswith(readable) and "told_of" in str(shown), name
        html = shown._repr_html_()
        assert html.startswith("<") and html.rstrip().endswith(">") and "told_of" in html, name
    for one in (*given["graphs"], *given["guards"]):
        assert repr(one) == str(one)


def test_explain_gives_a_document_without_times_and_tells_why_graphs_are_recorded(file: Path) -> None:
    texts = []
    for _ in range(2):
        done = run("explain", "--json", "--output", "told.json", "program.py", cwd=file.parent)
        assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
        texts.append((file.parent / "told.json").read_text())
    assert texts[0] == texts[1] and "seconds" not in texts[0]
    rows = json.loads(texts[0])
    assert {row["told"] for row in rows} >= {"function", "graph", "break"}
    again = [row["because"] for row in rows if row["told"] == "graph" and row["function"] == "Model.run" and row["start"] == "start"]
    assert again == [[], ["not so any more: x is an array of float64, rank 1; found: an array of float32, rank 1"]]
