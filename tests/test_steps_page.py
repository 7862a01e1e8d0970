"""The page of `evalframe step --html` in a real browser: it loads without errors, and its buttons and keys work."""

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import Trace

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"),
]


def work(n):
    total, seen = 0.0, []
    for i in range(n):
        total = helper(total, i)
        seen.append(total)
    return total


def helper(a, b):
    if b % 3 == 0:
        return a - b
    return a + b * 0.5


# Before the page's own script: what it complains of. Behind it: what it's asked to do, and what it shows.
BEFORE = "<script>window.errors = []; addEventListener('error', e => errors.push(e.message));</script>"
BEHIND = """<script>
const shown = id => [...at(id).querySelectorAll("tr")].slice(1).map(row => [...row.children].map(cell => cell.textContent));
const key = name => document.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true}));
const answer = (() => { %s })();
parent.document.body.replaceChildren(element("pre", JSON.stringify({answer, errors})));
</script>"""
# No window of Chromium's is narrower than 500 pixels, but a frame in it can be.
FRAME = '<!doctype html><head><meta name="color-scheme" content="light dark"></head><body><iframe style="width:%dpx;height:860px;border:0" srcdoc="%s"></iframe></body>'
# Texts with their contrast, as WCAG has it, and the size of their letters.
READABLE = """
const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
const light = colour => { const [r, g, b] = numbers(colour).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const behind = at => { for (; at; at = at.parentElement) { const colour = getComputedStyle(at).backgroundColor, parts = numbers(colour); if (parts.length === 3 || parts[3] === 1) return colour; } return getComputedStyle(document.documentElement).colorScheme && matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(18, 18, 18)" : "rgb(255, 255, 255)"; };
const readable = () => [...document.querySelectorAll("body *")].filter(each => !["SCRIPT", "STYLE", "TITLE", "title"].includes(each.tagName) && each.checkVisibility() && [...each.childNodes].some(child => child.nodeType === 3 && child.data.trim())).map(each => {
  const style = getComputedStyle(each), box = each.ownerSVGElement && each.closest("g").querySelector("rect");
  const [one, other] = [light(box ? style.fill : style.color), light(box ? getComputedStyle(box).fill : behind(each))].sort((a, b) => b - a);
  return [(one + 0.05) / (other + 0.05), parseFloat(style.fontSize), each.tagName + "." + each.className + ": " + each.textContent.slice(0, 30)];
});
"""


def ask(page: str, script: str, folder: Path, width: int = 1280, dark: bool = False) -> Any:
    """What the script returns in the page, which has to be without errors."""
    file = folder / "page.html"
    page = page.replace("<head>", "<head>" + BEFORE, 1).replace("</body>", BEHIND % script + "</body>")
    file.write_text(page if width >= 500 else FRAME % (width, escape(page)))
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
        f"--window-size={width},900", "--virtual-time-budget=5000", f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        "--dump-dom", file.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-500:] + done.stderr[-500:]
    result = json.loads(unescape(found[1]))
    assert result["errors"] == []
    return result["answer"]


@pytest.fixture(scope="module")
def trace() -> Trace:
    return evalframe.step(work)(40)


def test_the_page_shows_the_states_that_the_trace_has(trace: Trace, tmp_path: Path) -> None:
    numbers = [*range(0, len(trace), 7), len(trace) - 1, 3, 500]
    script = f"return {numbers}.map(step => {{ show(step); return [shown('slots'), shown('stack'), at('where').textContent]; }});"
    for number, (slots, stack, where) in zip(numbers, ask(trace.html(), script, tmp_path)):
        step = trace[number]
        assert [row[3] for row in slots] == [slot.value for slot in step.slots if slot.kind != "stack"]
        assert [row[2] for row in stack if row[0]] == list(reversed(step.stack))
        assert where.startswith(f"{step.function}, line {step.line}: ")


def test_buttons_keys_and_clicks_lead_on(trace: Trace, tmp_path: Path) -> None:
    script = """
      const seen = [];
      at("next").click(); at("next").click(); seen.push(current);
      key("ArrowLeft"); seen.push(current);
      key("End"); seen.push(current);
      key("Home"); seen.push(current);
      key("c"); key("c"); seen.push(rowOf(current)[ROW.name], codeOf(current).name); const call = current;
      key("ArrowRight"); seen.push(codeOf(current).name);
      key("o"); seen.push(codeOf(current).name);
      show(call); key("ArrowDown"); seen.push(codeOf(current).name, current > call + 5); key("ArrowUp"); seen.push(current === call);
      const line = [...document.querySelectorAll("#source .row")].find(row => row.textContent.includes("seen.append"));
      line.click(); seen.push(rowOf(current)[ROW.line] === Number(line.dataset.index) + 1);
      const row = [...document.querySelectorAll("#slots tr")].find(row => row.children[2].textContent === "total");
      row.click(); seen.push(rowOf(current)[ROW.name], rowOf(current)[ROW.text]);
      return seen;"""
    answer = ask(trace.html(), script, tmp_path)
    assert answer[:4] == [2, 1, len(trace) - 1, 0]
    assert answer[4].startswith("CALL") and answer[5] == "work"
    assert answer[6:8] == ["helper", "work"]
    assert answer[8:11] == ["work", True, True]
    assert answer[11] is True
    assert answer[12].startswith("STORE_FAST") and "total" in answer[13]


def test_a_line_or_a_name_is_typed(trace: Trace, tmp_path: Path) -> None:
    first = work.__code__.co_firstlineno
    script = """
      const seen = [], box = at("wanted");
      const enter = (text, shiftKey = false) => { box.value = text; box.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true, shiftKey})); seen.push([current, at("note").textContent]); };
      key("/"); seen.push(document.activeElement === box);
      enter("LINE"); enter("seen"); enter("seen"); enter("seen", true); enter(" b "); enter("nobody"); enter("99999", true);
      box.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", bubbles: true})); seen.push(document.activeElement === box);
      return seen;""".replace("LINE", str(first + 4))
    focused, line, seen, again, back, argument, nobody, nowhere, still = ask(trace.html(), script, tmp_path)
    assert (focused, still) == (True, False)
    appends = [index for index, step in enumerate(trace) if step.function == "work" and step.line == first + 4]
    assert line[0] == appends[0]
    changes = [index for index, step in enumerate(trace) if index > line[0] and any(slot.name == "seen" for slot in step.changed)]
    assert [seen[0], again[0], back[0]] == [changes[0], changes[1], changes[0]]
    held = {slot.name: slot.value for slot in trace[argument[0]].slots}
    assert trace[argument[0]].function == "helper" and held["b"] == "1"
    assert nobody == [argument[0], "no step behind this one changes nobody"]
    assert nowhere == [argument[0], "no step before this one comes to line 99999"]


def test_the_current_columns_are_marked(trace: Trace, tmp_path: Path) -> None:
    number = next(step.number for step in trace if step.instruction == "BINARY_OP" and step.argument == "%")
    script = f"show({number}); return [document.querySelector('#source mark').textContent, document.querySelector('#code .here').textContent];"
    mark, instruction = ask(trace.html(), script, tmp_path)
    assert mark == "b % 3" and instruction.startswith("-> ") and "BINARY_OP" in instruction


def assert_readable(page: str, show: str, folder: Path, width: int, dark: bool) -> None:
    script = f"{show}; {READABLE}; return [document.documentElement.scrollWidth, innerWidth, matchMedia('(prefers-color-scheme: dark)').matches, readable()];"
    wide, window, is_dark, texts = ask(page, script, folder, width, dark)
    assert (window, is_dark) == (width, dark) and wide <= window
    assert len(texts) > 20
    assert [text for text in texts if text[0] < 4.5 or text[1] < 12] == []  # WCAG's least for text, AA


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_is_readable(trace: Trace, tmp_path: Path, width: int, dark: bool) -> None:
    assert_readable(trace.html(), "show(20)", tmp_path, width, dark)


def test_a_long_trace_stays_responsive(tmp_path: Path) -> None:
    long = evalframe.step(work)(4000)
    assert len(long) == evalframe.steps.STEPS
    page = long.html()
    assert len(page) < 4_000_000
    script = """
      const begin = performance.now(); show(count - 1); const jump = performance.now() - begin;
      const then = performance.now();
      for (let each = 0; each < 100; each++) key("ArrowLeft");
      return [current, jump, (performance.now() - then) / 100, document.querySelectorAll("*").length, at("note").textContent];"""
    current, jump, step, elements, _ = ask(page, script, tmp_path)
    assert current == len(long) - 101
    assert jump < 5000 and step < 200  # milliseconds, with room for a busy machine
    assert elements < 1000
    assert ask(page, "show(count - 1); return at('note').textContent", tmp_path).startswith("... not recorded")


def scaled(x, k):
    y = x * k
    return y.sum()


def test_what_the_recorder_noted_is_shown_and_reached_by_a_key(tmp_path: Path) -> None:
    captured = evalframe.jit(scaled)
    captured(np.ones(3), 2.0)
    noted = evalframe.step(captured)(np.ones(3), 2.0)
    script = "key('g'); const one = [current, at('noted').textContent, at('recorded').hidden]; return one;"
    number, text, hidden = ask(noted.html(), script, tmp_path)
    assert noted[number].instruction == "BINARY_OP" and text.startswith("graph 0 of scaled: n0 = binary *(i0, i1): float64[3]guard of graph 0 of scaled: x is") and not hidden
    plain = evalframe.step(scaled)(np.ones(3), 2.0)
    assert ask(plain.html(), "return [at('graph').hidden, at('recorded').hidden]", tmp_path) == [True, True]
