"""The page of `evalframe run --report` and `evalframe explain --html`: what is on it, and that it works in a browser."""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import evalframe
from evalframe import graph_svg
from test_steps_page import CHROMIUM, ask, assert_readable

PROGRAM = """\
import numpy as np

def toy(a, b):
    x = helper(a) / 3
    y = "</script><b>@TITLE@"
    if "é" and b.sum() < 0:
        b = b * -1
    return x * b

def helper(v):
    return np.abs(v) + 1

def main(arrays):
    for each in arrays:
        toy(each, each)

main([np.arange(5.0)] * 4 + [np.arange(5)] * 3)
"""
NEVER_CLOSED = {"meta", "br", "input"}


class Balance(HTMLParser):
    """Fails where a tag isn't closed, or another one is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        if tag not in NEVER_CLOSED:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())


def explain(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "evalframe", "explain", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = explain("--html", "page.html", "program.py", "<&>", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return (folder / "page.html").read_text(encoding="utf-8")


def test_the_page_is_well_formed_and_alone(page: str) -> None:
    seen = Balance(page).seen
    assert seen["svg"] >= 3 and seen["h1"] == 1
    assert "http" not in page and "src=" not in page and "@BODY@" not in page
    assert "<title>evalframe: program.py &lt;&amp;&gt;</title>" in page
    assert page.count("</script>") == 1 and "&lt;/script&gt;&lt;b&gt;@TITLE@" in page


def test_sources_are_tinted_and_breaks_marked_at_their_columns(page: str) -> None:
    tinted = re.findall(r'<div data-at="0:(\d+)" class="captured">', page)
    assert {"4", "6", "8"} <= set(tinted) and "7" not in tinted
    marked = re.search(r'<div data-at="0:6" class="captured"><i>    6  </i>(.*?)</div>', page)
    assert marked is not None and re.search(r'&quot;é&quot; and <mark title="branch on the value of an array">b.sum\(\) &lt; 0</mark>:', marked[1])
    assert 'class="why">       break, recorded 2 times: branch on the value of an array (numpy.bool); hint: ' in page
    assert "<h3>followed: helper (" in page


def test_graphs_guards_and_code_are_there(page: str) -> None:
    assert '<g class="node" data-at="0:11"><title>n0 = call absolute(i0): float64[5], line 11</title>' in page
    assert "n0 = call absolute(i0): float64[5]</span>" in page
    assert re.search(
        r'<li>a is an array of float64, rank 1 <span class="dim">[0-9.]+ ns</span> '
        r'<span class="failed">failed \d times, finding an array of int64, rank 1; hint: ', page
    )
    assert re.search(r"<summary>\d+ guards, 1 of them failed; [0-9.]+ ns a call</summary>", page)
    assert "  __compiled_fn_0\n" in page
    assert re.search(r"<pre tabindex=\"0\">def __resume_at_\d+_\d\(b, x\):\n    if False:\n        # never run: .*\n        a = y = None\n    b = b \* -1\n    return x \* b\n</pre>", page)
    assert re.search(r'<h3>kernel 0: LLVM IR</h3>.*?define .*?<h3>assembly</h3><pre tabindex="0">.*?evalframe_kernel:.*?\bret', page, re.DOTALL)
    assert re.search(r"; a call takes [0-9.]+ ms and not [0-9.]+ ms, [0-9.]+ ms (less|more); about [0-9.]+ ms (saved|lost)", page)
    assert '<p class="again">recorded, though there was another graph: not so any more: a is an array of float64, rank 1; found: an array of int64, rank 1</p>' in page
    assert "define " in page and "<rect class=\"record\"" in page and "<rect class=\"compile\"" in page


def test_a_function_alone(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    assert explain("--html", "page.html", "program.py:helper", cwd=tmp_path).returncode == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    Balance(text)
    assert "n0 = call absolute(i0)" in text and "served" in text
    refused = explain("--html", "no/page.html", "program.py", cwd=tmp_path)
    assert refused.returncode == 2 and "can't write 'no/page.html'" in refused.stderr


@pytest.mark.parametrize("given", [["program.py:toy", "x"], ["-m", "program:toy", "x"]])
def test_run_reports_of_a_function_alone(tmp_path: Path, given: list[str]) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "evalframe", "run", "--report", "page.html", *given]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0 and done.stderr.startswith("evalframe: "), done.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"<h2>toy ({tmp_path / 'program.py'}:3)</h2>" in page and f"<h2>main ({tmp_path / 'program.py'}" not in page


def test_nothing_captured_is_a_page_too(tmp_path: Path) -> None:
    assert explain("--html", "page.html", "-c", "x = 1", cwd=tmp_path).returncode == 0
    text = (tmp_path / "page.html").read_text()
    Balance(text)
    assert "nothing was captured" in text


def test_an_explanation_is_a_page() -> None:
    @evalframe.jit
    def work(x):
        y = inner(x)
        if y.sum() > 0:
            return y * 2
        return y

    def inner(x):
        return np.sqrt(x + 1)

    told = evalframe.explain(work)(np.ones(3))
    text = told.html("a <title>")
    Balance(text)
    assert "<title>evalframe: a &lt;title&gt;</title>" in text and "2 graphs, 1 break" in text
    assert '<mark title="branch on the value of an array">y.sum() &gt; 0</mark>' in text
    assert "n0 = binary +(i0, 1): float64[3]" in text and "__compiled_fn_0" in text and "followed: " in text
    assert told._repr_html_().startswith("<iframe") and "&lt;!DOCTYPE html&gt;" in told._repr_html_()


def leads(above: tuple[int, ...], below: tuple[int, ...], steps: set[tuple[int, ...]]) -> bool:
    """Whether lines go from the foot of one box to the head of the other, and through no third one."""

    def meets(point: tuple[int, ...], box: tuple[int, ...], y: int) -> bool:
        return abs(point[0] - (box[0] + box[2] // 2)) <= 1 and point[1] == y

    points = {step[:2] for step in steps if meets(step[:2], above, above[1] + above[3])}
    while points:
        points = {step[2:] for step in steps if step[:2] in points}
        if any(meets(point, below, below[1]) for point in points):
            return True
    return False


def summed(n: int) -> float:
    total = 0.0
    for k in range(n):
        total += k * 0.5
        if total > 1e6:
            total -= 1e6
    return total


@pytest.mark.usefixtures("native_loops_at_once")
def test_native_loops_have_their_code_beside_their_source() -> None:
    captured = evalframe.jit(summed)
    told = evalframe.explain(captured)(20_000)
    loop = next(loop for loop in told.loops if loop.native)
    assert loop.ir.startswith(("define", "declare", "@", "%", ";", "target")) and loop.ir.count("\n") >= loop.ir_lines - 1
    assert re.search(r"evalframe_kernel:.*\bret", loop.assembly(), re.DOTALL)
    assert loop.ir not in repr(loop)
    page = told.html()
    Balance(page)
    first = summed.__code__.co_firstlineno + 2
    assert re.search(rf"<summary>native loop in line {first}: \d+ blocks?, [0-9,]+ turns in \d+ runs?</summary>", page)
    shown = re.search(r'<h3>source</h3><pre tabindex="0">(.*?)</pre></div><div><h3>LLVM IR</h3>.*?define .*?<h3>assembly</h3>.*?evalframe_kernel:', page, re.DOTALL)
    assert shown is not None
    lines = [line[7:] for line in shown[1].splitlines()]
    assert lines == ["    for k in range(n):", "        total += k * 0.5", "        if total &gt; 1e6:", "            total -= 1e6"]


def test_json_has_code_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"{PROGRAM}\ntotal = 0.0\nfor k in range(2_000_000):\n    total += k * 0.5\n", encoding="utf-8")
    for options, wanted in (("--json",), False), (("--json", "--code"), True):
        rows = json.loads(explain(*options, "program.py", cwd=tmp_path).stdout)
        coded = [row for row in rows if "code" in row]
        assert {row["told"] for row in coded} == ({"graph", "loop"} if wanted else set())
        for told in {row["told"] for row in coded}:
            assert any("define " in code["ir"] and "evalframe_kernel:" in code["assembly"] for row in coded if row["told"] == told for code in row["code"]), told


def test_drawings_have_a_line_for_each_use_and_no_box_on_another() -> None:
    @evalframe.jit
    def work(x, y):
        a = x + y
        b = np.sqrt(a) * np.exp(a)
        return (a - b) / (b + x)

    work(np.ones(3), np.ones(3))
    (graph,) = evalframe.graphs(work)
    drawing = graph_svg.svg(graph)
    Balance(drawing)
    steps = {tuple(map(int, found)) for found in re.findall(r'<path d="M(\d+) (\d+)C.* (\d+) (\d+)"', drawing.replace("/>", "/>\n"))}
    steps |= {(int(x), int(y), int(x), int(y) + int(length)) for x, y, length in re.findall(r'<path d="M(\d+) (\d+)v(\d+)"', drawing)}
    of_name = {name: tuple(map(int, found)) for name, *found in re.findall(r'<title>(\w+) = .*?<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', drawing)}
    reached = {name: {below for below in of_name if below != name and leads(of_name[name], of_name[below], steps)} for name in of_name}
    for row in graph.rows:
        assert {name for name in reached if row.name in reached[name]} >= set(row.operands)
    assert not any(row.name in reached[row.name] for row in graph.rows)
    boxes = [tuple(map(float, found)) for found in re.findall(r'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', drawing)]
    assert len(boxes) == len(graph.rows)
    for x, y, width, height in boxes:
        others = [box for box in boxes if box != (x, y, width, height)]
        assert not any(x < left + w and left < x + width and y < top + h and top < y + height for left, top, w, h in others)
    assert drawing in graph._repr_html_()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_the_page_works_in_a_browser(page: str, tmp_path: Path) -> None:
    script = """
const node = document.querySelector('.node[data-at="0:11"]'), line = document.querySelector('.lines [data-at="0:11"]');
const fire = (at, name) => at.dispatchEvent(new MouseEvent(name, {bubbles: true}));
fire(node, "mouseover"); const hot = [node, line].map(each => each.classList.contains("hot"));
fire(node, "mouseout"); const cold = [node, line].map(each => each.classList.contains("hot"));
document.querySelectorAll("details").forEach(each => each.open = false);
fire(line, "click"); const opened = node.closest("details").open;
const drawing = node.closest("svg"), before = Number(drawing.getAttribute("width"));
fire(drawing.closest(".drawn").querySelector('[data-zoom="1.25"]'), "click"); const larger = Number(drawing.getAttribute("width")) / before;
fire(drawing.closest(".drawn").querySelector('[data-zoom="0"]'), "click"); const again = Number(drawing.getAttribute("width")) === before;
return [hot, cold, opened, larger, again, document.documentElement.scrollWidth <= innerWidth];
"""
    for width in (1280, 400):
        assert ask(with_helper(page), script, tmp_path, width) == [[True, True], [False, False], True, 1.25, True, True]


def with_helper(page: str) -> str:
    helper = "<script>const element = (tag, text) => { const made = document.createElement(tag); made.textContent = text; return made; };</script>"
    return page.replace("</body>", helper + "</body>")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_is_readable(page: str, tmp_path: Path, width: int, dark: bool) -> None:
    assert_readable(with_helper(page), 'document.querySelectorAll("details").forEach(each => each.open = true)', tmp_path, width, dark)
