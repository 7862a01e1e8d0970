"""Loops of modules, and of functions with globals, run as machine code: names that they store into are variables until they are left."""

from __future__ import annotations

import contextlib
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome
from region_programs import shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

PROGRAMS = {
    "harmonic": """
        total = 0.0
        n = 4000
        for i in range(1, n):
            total += 1.0 / i
    """,
    "prefix_sums": """
        x = np.linspace(0.0, 1.0, 3000)
        out = np.empty_like(x)
        running, k = 0.0, 0
        while k < len(x):
            running = running + x[k] * x[k]
            out[k] = running
            k += 1
    """,
    "sweeps": """
        A = np.arange(900.0).reshape(30, 30) % 7
        B = A.copy()
        for sweep in range(40):
            for i in range(1, 29):
                for j in range(1, 29):
                    B[i, j] = 0.25 * (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])
            A, B = B, A
    """,
    "time_steps": """
        u = np.exp(-np.linspace(-3.0, 3.0, 64) ** 2)
        dt = 0.1
        for step in range(400):
            u = u - dt * (u - np.roll(u, 1))
            highest = u.max()
    """,
    "branches": """
        state, evens, odds, longest = 27, 0, 0, 0
        history = np.zeros(200, dtype=np.int64)
        for start in range(1, 200):
            state, length = start, 0
            while state != 1:
                if state % 2:
                    state = 3 * state + 1
                    odds += 1
                else:
                    state //= 2
                    evens += 1
                length += 1
            history[start] = length
            if length > longest:
                longest = length
        else:
            last = start
    """,
    "overflow": """
        power = 1
        for i in range(100):
            power *= 3
            np.add(1, 2)
    """,
    "rows": """
        a = np.arange(600.0).reshape(200, 3)
        norms = np.zeros(200)
        for i, row in enumerate(a):
            norms[i] = np.sqrt((row * row).sum())
        for row, norm in zip(a, norms):
            if norm > 0:
                row /= norm
    """,
    "constants": """
        import math
        scale, count = 2.5, 0
        values = np.zeros(500)
        for k in range(500):
            values[k] = math.sin(k * scale) * scale
            if values[k] > 2.0:
                count += 1
    """,
    "rebound": """
        x = 0.0
        for i in range(500):
            x = x + np.sqrt(float(i))
            if i == 300:
                x = "text"
                break
    """,
    "new_in_the_midst": """
        total = 0.0
        for i in range(2000):
            total += i * 0.5
            if i == 1200:
                found_b = total
            if i == 1300:
                found_a = i
        np.zeros(1)
    """,
    "deleted": """
        total = 0.0
        for i in range(600):
            half = i * 0.5
            total += half
            del half
        np.zeros(1)
    """,
    "raises": """
        x = np.arange(50)
        total = 0
        for i in range(100):
            total += x[i]
    """,
    "warns": """
        x = np.linspace(1.0, -1.0, 100)
        y = np.zeros(100)
        for i in range(100):
            y[i] = np.sqrt(x[i])
    """,
    "function_globals": """
        def count(n):
            global total, hits
            for i in range(n):
                total += i * scale
                if i % 3 == 0:
                    hits += 1
            return np.float64(total)
        total, hits, scale = 0.0, 0, 0.5
        results = [count(800) for _ in range(3)]
        scale = 2.0
        results += [count(800)]
        total = 5
        results += [count(800)]
    """,
    "globals_read_by_others": """
        def now():
            return total
        total = 0.0
        seen = []
        for i in range(3000):
            total += np.sqrt(i)
            if i % 1000 == 500:
                seen.append(now())
    """,
    "shadows_builtin": """
        total = 0
        for i in range(400):
            total += abs(-i)
            if i == 200:
                abs = int
        np.zeros(1)
    """,
    "aliases": """
        a = np.zeros(40)
        b = a
        c = np.ones(40)
        for k in range(200):
            a[k % 40] += 1.0
            c[k % 40] += b[k % 40]
            b, c = c, b
    """,
    "complex": """
        z = 0.1 + 0.2j
        escaped = 0
        for k in range(300):
            z = z * z + (0.3 - 0.01j)
            if abs(z) > 2.0:
                escaped += 1
                z = 0.0j
        np.zeros(1)
    """,
}


def result_of(text: str, *, captured: bool) -> tuple[Any, ...]:
    names: dict[str, Any] = {"np": np, "__name__": "program"}
    code = compile(text, "program.py", "exec")

    def run() -> None:
        with evalframe.enabled() if captured else contextlib.nullcontext():
            exec(code, names)

    told = outcome(run)
    kept = [(name, shown(value)) for name, value in names.items() if not callable(value) and not name.startswith("__") and name not in ("np", "math")]
    return repr(told), kept, list(names)


@pytest.mark.parametrize("turns", [2**62, 1, 7])
@pytest.mark.parametrize("name", PROGRAMS)
def test_modules_do_the_same(name: str, turns: int) -> None:
    text = "import numpy as np\n" + textwrap.dedent(PROGRAMS[name])
    _core.set_region_turns(turns)
    for _ in range(2):
        assert result_of(text, captured=True) == result_of(text, captured=False)


@pytest.mark.parametrize("name", ["harmonic", "prefix_sums", "sweeps", "time_steps", "branches", "rows", "constants", "new_in_the_midst", "function_globals", "aliases", "complex"])
def test_loops_of_modules_are_native(name: str) -> None:
    before = evalframe.stats()["native_turns"]
    result_of("import numpy as np\n" + textwrap.dedent(PROGRAMS[name]), captured=True)
    assert evalframe.stats()["native_turns"] - before > 50


def test_another_thread_sees_names_and_is_seen() -> None:
    text = """
        import numpy as np
        count, stop = 0, False
        x = np.zeros(3000)
        while not stop:
            count += 1
            x[count % 3000] += np.sqrt(2.0)
            x = np.sort(x)
    """
    names: dict[str, Any] = {}

    def watch() -> None:
        seen = 0
        while seen < 3:
            before, known = names.get("count", 0), names.get("count", 0)
            while known == before:
                known = names.get("count", 0)
            seen += 1
        names["stop"] = True

    watcher = threading.Thread(target=watch)
    watcher.start()
    with evalframe.enabled():
        exec(compile(textwrap.dedent(text), "program.py", "exec"), names)
    watcher.join()
    assert names["stop"] and names["count"] > 2


def test_objects_that_names_lose_end_where_they_do() -> None:
    text = """
        import numpy as np
        class Told(float):
            def __del__(self):
                ended.append(round(float(total), 6))
        ended, total, one = [], 0.0, Told(1.0)
        for i in range(400):
            total += np.sqrt(i)
            if i % 100 == 50:
                one = Told(total)
    """
    both = []
    for captured in (False, True):
        names: dict[str, Any] = {}
        code = compile(textwrap.dedent(text), "program.py", "exec")
        with evalframe.enabled() if captured else contextlib.nullcontext():
            exec(code, names)
        both.append((names["ended"], float(names["one"])))
        del names["one"]
    assert both[0] == both[1]
