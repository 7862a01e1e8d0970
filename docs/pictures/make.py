"""Makes the pictures of the docs with the tools that they show: `python docs/pictures/make.py`, which wants Chromium.

The stepper is drawn by textual itself; pages are loaded by a headless Chromium, at a step or with a part opened by a
script behind the page's own.
"""

import asyncio
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import evalframe
from evalframe.stepper import Stepper

HERE = Path(__file__).parent
NEST = HERE.parent.parent / "examples" / "variables_nest.py"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


TOY = """\
import numpy as np

def toy_function(a, b):
    x = a / (np.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b

a, b = np.linspace(-1, 1, 5), np.ones(5)
for sign in (1, -1) * 20:
    toy_function(a, b * sign)
toy_function(a.astype(np.float32), b)
"""


def run(folder: Path, *arguments: str) -> None:
    """A command of evalframe's."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "evalframe", *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def photograph(page: Path, script: str, name: str, width: int, height: int) -> None:
    """The page as Chromium shows it, behind the script."""
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        size = [f"--window-size={width},{height}", "--virtual-time-budget=3000", f"--screenshot={HERE / name}"]
        subprocess.run([str(CHROMIUM), *options, *size, page.as_uri()], check=True, capture_output=True)


def make_steps(folder: Path) -> None:
    """The page of the nest of functions, where a free variable is read."""
    page = folder / "steps.html"
    run(folder, "step", "--html", str(page), "variables_nest.py:function_1.function_2")
    find = "const found = data.codes[0].rows.findIndex(row => row[ROW.name] === 'LOAD_DEREF');"
    photograph(page, f"{find} for (let at = 0; at < count; at++) if (instruction[at] === found) {{ show(at); break; }}",
               "steps.png", 1280, 860)  # fmt: skip


def make_report(folder: Path) -> None:
    """The page of a function that branches on data."""
    page = folder / "report.html"
    (folder / "toy.py").write_text(TOY, encoding="utf-8")
    run(folder, "explain", "--html", str(page), "toy.py:toy_function")
    photograph(page, "", "report.png", 1100, 1250)


def make_stepper(folder: Path) -> None:
    """The stepper in the same nest, where a value has just been stored."""
    os.chdir(folder)  # where the file of the code object is found by its name
    names: dict[str, object] = {"__name__": "__main__"}
    program = compile(Path(NEST.name).read_text(), "variables_nest.py", "exec")
    with contextlib.redirect_stdout(io.StringIO()):
        trace = evalframe.step(lambda: exec(program, names), only="function_1.function_2")()
    number = next(step.number for step in trace if any(slot.name == "tmp" for slot in step.changed))

    async def draw() -> None:
        app = Stepper(trace, "variables_nest.py")
        async with app.run_test(size=(132, 38)) as pilot:
            app.walk.to(number)
            app.show()
            await pilot.pause()
            (HERE / "stepper.svg").write_text(app.export_screenshot(title="evalframe step"), encoding="utf-8")

    asyncio.run(draw())


if __name__ == "__main__":
    if CHROMIUM is None:
        sys.exit("pages are photographed by Chromium, which isn't here (Debian: apt-get install chromium)")
    made = Path(tempfile.gettempdir()) / "evalframe"  # its name is seen
    made.mkdir(exist_ok=True)
    shutil.copy(NEST, made)
    for make in (make_steps, make_report, make_stepper):
        make(made)
    shutil.rmtree(made)
