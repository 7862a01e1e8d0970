"""Source that is made of code objects: each construct of the language, and a sample of the standard library."""

import contextlib
import io
import os
import py_compile
import re
import sys
import textwrap
import time
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import evalframe
from evalframe.__main__ import main
from evalframe.lookup import codes_in

LIBRARY = Path(os.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "13-decompiler.md"
CONSTRUCTS = Path(__file__).parent / "decompiled"


def name_of(part: str) -> str:
    return re.split(r"[(:\[=]", part)[0].split()[-1]


def constructs() -> Iterator[tuple[str, str]]:
    for path in sorted(CONSTRUCTS.glob("*.py")):
        since = re.search(r"_3_(\d+)$", path.stem)
        if since and sys.version_info < (3, int(since[1])):
            continue
        for part in path.read_text().split("\n\n\n"):
            if part.startswith(("def ", "class ", "async def ", "@", "type ")):
                yield f"{path.stem}:{name_of(part)}", part


@pytest.mark.parametrize("source", [part for _, part in constructs()], ids=[name for name, _ in constructs()])
def test_a_construct_comes_back_as_it_was_written(source: str) -> None:
    """Each function of `decompiled/` is written as the decompiler writes it; those of files `..._3_12.py` are compiled since 3.12."""
    code = compile(source, "<test>", "exec", dont_inherit=True, optimize=0)
    module = evalframe.decompile_report(code)
    name = name_of(source)
    # The compiler has written a `return` behind each way out of the loop.
    otherwise = sys.version_info >= (3, 12) and name == "while_else"
    assert {row.name for row in module.rows if row.status != "exact"} == set()
    assert module.source is not None
    assert (module.source.strip() == source.strip()) is not otherwise


# Written otherwise than here, with the same meaning.
OTHERWISE = [
    """
    def endless_loop_in_context(f):
        with f:
            while True:
                try:
                    value = f()
                except ValueError:
                    break
                f(value)
    """,
    """
    def returns_from_loop_in_context(f, a):
        with f:
            while True:
                if f(a) != a:
                    return False
                if not a:
                    return True
    """,
    """
    def skips_turns(rows, f):
        try:
            for row in rows:
                if not row:
                    continue
                f(row)
            f(1)
        except:
            f(2)
            raise
    """,
    """
    def default_that_returns(rows, f):
        for row in rows:
            match row:
                case str() | int():
                    break
                case 'a' | 'b':
                    continue
                case 'd' | 'c' | 'e':
                    return 5
                case _:
                    f(row)
        return f
    """,
    """
    def skips_what_is_in(rows, f, a):
        for row in rows:
            if row in a:
                continue
            if row == f:
                continue
            if f(row):
                f(a)
        while f not in a:
            f(a)
    """,
    """
    def yields(f):
        x = yield (yield 3)
        x += yield f
        if (yield x):
            return (yield f)
        f((yield))
    """,
    """
    async def never_yields(f):
        while True:
            try:
                await f(None)
            except ValueError:
                pass
        yield
    """,
    """
    def tests_of_membership(f, a):
        f([x for x in a if '__' in x or not x.startswith('_')], [x for x in a if '__' in x and not x.startswith('_')])
        while f.pos < 8 and f.pos not in a:
            f.pos += 1
        for x in a:
            if x in f or not x in a:
                continue
            f(x)
    """,
    """
    def values_in_try(self, other):
        try:
            return (self.a == other.b and self.c == other.d and self.e)
        except AttributeError:
            return NotImplemented
    """,
    """
    def no_elements(f):
        return sum(x for x in (y for y in (z for z in range(10) if True) if False) if True)
    """,
    """
    def unused_cells(f):
        value = 0
        async def first():
            nonlocal value
            raise f
        return value
    """,
    """
    def raises_in_handlers(f, a):
        try:
            raise f
        except ValueError:
            try:
                raise a
            except KeyError as error:
                kept = error
        try:
            f(kept)
        except KeyError:
            if a not in f:
                return None
            try:
                f(1)
            except KeyError:
                return None
        return f(2)
    """,
    """
    def breaks_in_handlers(f, rows):
        for row in rows:
            for value in row:
                try:
                    f(value)
                except OSError as error:
                    f(error)
                    break
            else:
                f(row)
        with f:
            if rows:
                while True:
                    try:
                        row = f()
                    except ValueError:
                        break
                    if row is not None:
                        row.close()
            f(3)
        if rows:
            for row in rows:
                f(4)
    """,
    """
    class EndsInTwoWays:
        def first(self):
            self.x = 1
        if first:
            def second(self):
                self.y = 1
        else:
            def third(self):
                super().third()
            fourth = third
    """,
]


@pytest.mark.parametrize("source", OTHERWISE, ids=[name_of(source) for source in OTHERWISE])
def test_a_construct_comes_back_in_other_words(source: str) -> None:
    code = compile(textwrap.dedent(source), "<test>", "exec", dont_inherit=True, optimize=0)
    assert "refused" not in {row.status for row in evalframe.decompile_report(code).rows}


# Comes back as the same code, in words that may be others than here.
SAME = [
    """
    def is_signal(name):
        return (name.isupper()
                and (name.startswith('SIG') and not name.startswith('SIG_'))
                or name.startswith('CTRL_'))
    """,
    """
    def on_many_lines(a, b, c, d, e):
        x = ((b or
              c) and
             (d or e and
              (a or b)))
        return [not
                (a and b) or c, (a == 1 and
                                 (b < c < d or e) and x)]
    """,
    """
    def never_set(f):
        x: int
        if 0:
            y = 1
        return f(x, y, lambda: y)
    """,
    """
    def constants_alone(f):
        f'no docstring'
        match ...:
            case _:
                return f
    """,
    """
    def guards_of_anything(x, f):
        match x:
            case _ if x > 2:
                f(1)
            case 3 | 4:
                f(2)
            case _:
                f(3)
        f(0)
    """,
    """
    def goes_on_in_else(rows, names, f):
        for row in rows:
            for name in names:
                if row.startswith(name):
                    break
            else:
                continue
            f(row)
            while names:
                if f():
                    break
            else:
                continue
            f(names)
    """,
    """
    def loops_behind_a_handler(f, rows):
        try:
            return f()
        except KeyError:
            pass
        for x, y in rows:
            if x is not y:
                rows = tuple(rows)
                break
        else:
            rows = f
        return rows
    """,
]


@pytest.mark.parametrize("source", SAME, ids=[name_of(source) for source in SAME])
def test_a_construct_comes_back_as_the_same_code(source: str) -> None:
    code = compile(textwrap.dedent(source), "<test>", "exec", dont_inherit=True, optimize=0)
    expected = ["exact", "exact"]
    if name_of(source) == "guards_of_anything" and sys.version_info >= (3, 12):
        # Nothing is left of the pattern.
        expected = ["exact", "state machine"]
    assert [row.status for row in evalframe.decompile_report(code).rows][:2] == expected


def test_what_it_gives_runs_as_the_original_does() -> None:
    def original(values: list[int], limit: int = 3) -> tuple[list[int], str]:
        found = []
        for value in values:
            if value < 0:
                continue
            try:
                found.append(100 // value)
            except ZeroDivisionError as error:
                return found, str(error)
            finally:
                limit -= 1
        else:
            return found, "all"
        return found, "never"

    namespace: dict[str, types.FunctionType] = {}
    exec(evalframe.decompile(original), namespace)
    again = namespace["original"]
    for values in ([1, 2, -1, 3], [5, 0, 6], []):
        assert again(values) == original(values)
    assert again.__defaults__ == (3,)


def test_a_function_with_free_variables_is_checked_in_a_function_around_it() -> None:
    def outer(first: int) -> types.FunctionType:
        def inner(second: int) -> int:
            nonlocal first
            first += second
            return first

        return inner  # type: ignore[return-value]

    source = evalframe.decompile(outer(1))
    assert source == "def inner(second):\n    nonlocal first\n    first += second\n    return first\n"


def test_a_function_that_calls_what_its_module_imports() -> None:
    def lists() -> list[str]:
        return [os.path.basename(name) for name in os.listdir(os.getcwd())]

    assert [row.status for row in evalframe.decompile_report(lists).rows[:1]] == ["exact"]


ENDS = {
    "handlers": '''
try: raise ValueError(1)
except ValueError as a:
    try: raise KeyError(2)
    except KeyError as b:
        try: raise a
        except ValueError as c: print(c.__context__, b.__context__)
''',
    "call in a handler": "try: f()\nexcept OSError: g(1)\n",
    "branches in a handler": '''
try: f()
except OSError as e:
    if e.errno:
        try: g(e)
        except KeyError as k: g(k)
    else:
        with e as x: g(x)
else:
    g(2)
''',
    "choice that may raise": '''
if a == 1:
    f(a)
elif b:
    f(b)
else:
    raise ValueError(a)
''',
    "breaks of a while loop": '''
while 1:
    line = f()
    if not line:
        break
    if line == a:
        try: g(line)
        except OSError: break
    g(line)
''',
    "breaks of a for loop": '''
for x in a:
    with x:
        if f(x): break
    for y in x:
        if f(y): break
    else:
        break
    g(x)
''',
}


@pytest.mark.parametrize("source", ENDS.values(), ids=ENDS)
def test_a_module_may_end_anyhow(source: str) -> None:
    """The compiler writes a return behind each way to its end, and there no source can have one."""
    report = evalframe.decompile_report(compile(source, "<module>", "exec", dont_inherit=True))
    assert report.rows[0].status in ("exact", "equivalent"), report


DEFAULTS = '''
START = object()

class Table:
    def rows(self, first=START, *, last=len("abc"), step): pass
    async def rows(self, second={}): pass
    class Inner:
        def cell(self, value=(START, -1.5)):
            def text(width=value): pass
'''


def test_a_function_of_a_module_has_the_defaults_that_it_gets_there() -> None:
    module = compile(DEFAULTS, "<defaults>", "exec", dont_inherit=True)
    heads = [
        str(evalframe.decompile_report(code, module=module).source).partition(":")[0]
        for code in codes_in(module)
        if code.co_name in ("rows", "cell", "text")
    ]
    assert heads == [
        "def rows(self, first=START, *, last=len('abc'), step)",
        "async def rows(self, second={})",
        "def cell(self, value=(START, -1.5))",
        "def text(width=value)",
    ]


def test_a_method_with_super() -> None:
    class Base:
        def __init__(self) -> None:
            super().__init__()

    assert evalframe.decompile(Base.__init__) == "def __init__(self):\n    super().__init__()\n"


def test_what_is_refused_says_so_and_never_pretends() -> None:
    source = """
        def good(x):
            return x + 1

        def copied(x):
            return x * 3
    """
    code = compile(textwrap.dedent(source), "<test>", "exec")
    copied = next(constant for constant in code.co_consts if isinstance(constant, types.CodeType) and constant.co_name == "copied")
    # Nothing that is written in Python multiplies a list that it has just emptied so: a constant that no source can have.
    damaged = copied.replace(co_consts=tuple(object() if constant == 3 else constant for constant in copied.co_consts))
    code = code.replace(co_consts=tuple(damaged if constant is copied else constant for constant in code.co_consts))
    report = evalframe.decompile_report(code)
    assert [row.status for row in report.rows] == ["exact", "exact", "refused"]
    assert "a constant that no source text can have: object" in report.rows[2].reason
    assert report.source is not None
    assert "# evalframe can't decompile this: a constant that no source text can have: object" in report.source
    namespace: dict[str, types.FunctionType] = {}
    exec(report.source, namespace)
    assert namespace["good"](1) == 2
    with pytest.raises(NotImplementedError):
        namespace["copied"](1)
    with pytest.raises(evalframe.DecompileError, match="can't decompile copied: a constant that no source text can have: object"):
        evalframe.decompile(damaged)


def test_a_lambda_that_is_refused_is_refused_alone() -> None:
    source = "def f(b):\n    return [lambda: b" + ".a" * 300 + ", lambda: b + 1]"
    report = evalframe.decompile_report(compile(source, "<test>", "exec"))
    assert [row.status for row in report.rows] == ["exact", "exact", "refused", "exact"]
    namespace: dict[str, types.FunctionType] = {}
    exec(str(report.source), namespace)
    first, second = namespace["f"](2)
    assert second() == 3
    with pytest.raises(NotImplementedError, match="evalframe can't decompile this: expressions nested too deeply"):
        first()
    with pytest.raises(evalframe.DecompileError, match="nested too deeply"):
        evalframe.decompile(report.rows[2].code)


def test_long_sums_are_not_deep() -> None:
    for operator in (" + ", " * ", " - "):
        source = f"def f(a):\n    return {operator.join(['a'] * 900)} - 1\n"
        report = evalframe.decompile_report(compile(source, "<test>", "exec"))
        assert [row.status for row in report.rows] == ["exact", "exact"] and report.source == source


def test_what_isnt_a_function_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="a function or code object is needed, not int"):
        evalframe.decompile(3)  # type: ignore[arg-type]


def test_the_page_shows_what_comes_out() -> None:
    code, shown, second, told, *_ = re.findall(r"^```(?:python no-run|text)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    printed = io.StringIO()
    namespace: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
        exec(second, namespace)
    assert printed.getvalue() == shown + told


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "program.py"
    file.write_text("def twice(x):\n    return 2 * x  # a comment\n")
    assert main(["decompile", str(file)]) == 0
    assert capsys.readouterr().out == "def twice(x):\n    return 2 * x\n"
    compiled = py_compile.compile(str(file), cfile=str(tmp_path / "program.pyc"))
    assert main(["decompile", f"{compiled}:twice", "--report"]) == 0
    assert capsys.readouterr().out == "exact          twice\n"
    assert main(["decompile", f"{file}:thrice"]) == 2
    assert "has no function 'thrice'" in capsys.readouterr().err


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with 3.12")
@pytest.mark.parametrize("other", ["class Other[T]: pass", "type Other[T] = int"])
def test_defaults_for_what_has_none(other: str) -> None:
    """The code that makes a function's type parameters gets its defaults: other code in its place has no use for them."""

    def scope(code: types.CodeType) -> types.CodeType:
        return next(constant for constant in code.co_consts if isinstance(constant, types.CodeType))

    wanting = compile("def function[T](*, x=1): pass", "<test>", "exec", dont_inherit=True)
    there, damaged = scope(wanting), scope(compile(other, "<test>", "exec", dont_inherit=True)).replace(co_argcount=1)
    code = wanting.replace(co_consts=tuple(damaged if constant is there else constant for constant in wanting.co_consts))
    report = evalframe.decompile_report(code)
    assert "defaults of what isn't a function" in str([row.reason for row in report.rows])


class Holder:
    def method(self):
        class Inner:
            __slots__ = ()

            def name(self):
                return "inner"

        return Inner

    def renamed(self):
        class Inner:
            __qualname__ = "Other"

        return Inner


def test_a_method_alone_with_a_class_in_it() -> None:
    """Its class has another qualified name where the method is compiled without what stands around it."""
    for method, name in (Holder.method, "Inner"), (Holder.renamed, "Other"):
        report = evalframe.decompile_report(method)
        assert {row.status for row in report.rows} == {"exact"}, report
        found: dict[str, object] = {}
        exec(textwrap.dedent(report.source or ""), found)
        assert found[method.__name__](None).__qualname__.endswith(name)  # type: ignore[operator]


def test_a_match_with_many_cases_is_read_in_time() -> None:
    """Cases that follow each other look like alternatives of one pattern, whose number took the square of the time."""
    cases = "".join(f"        case {number}:\n            found = {number}\n" for number in range(3000))
    code = compile(f"def many(value):\n    match value:\n{cases}    return found\n", "<cases>", "exec")
    start = time.process_time()
    report = evalframe.decompile_report(code)
    assert time.process_time() - start < 5
    assert [row.status for row in report.rows] == ["exact", "exact"]


def counts(files: list[Path]) -> Counter[str]:
    found: Counter[str] = Counter()
    for file in files:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True, optimize=0)
            except (SyntaxError, ValueError):
                continue  # the library has files of what can't be compiled
        report = evalframe.decompile_report(code)
        found.update(row.status for row in report.rows)
        if report.source is not None:
            compile(report.source, str(file), "exec", dont_inherit=True, optimize=0)
    return found


def exact_share(found: Counter[str]) -> float:
    return (found["exact"] + found["equivalent"]) / found.total()


SAMPLE = ["argparse", "ast", "bdb", "calendar", "codecs", "copy", "csv", "heapq", "json/decoder", "statistics", "tarfile", "threading"]
# In percent: what is measured less a little.
FLOOR = 98
WHOLE_FLOOR = 99


def test_a_sample_of_the_standard_library() -> None:
    found = counts([LIBRARY / f"{name}.py" for name in SAMPLE])
    assert found.total() > 1000
    assert 100 * exact_share(found) >= FLOOR, found


@pytest.mark.slow
def test_the_whole_standard_library(share: int) -> None:
    files = [file for file in sorted(LIBRARY.rglob("*.py")) if "site-packages" not in file.parts and "bad" not in file.name]
    found = counts(files[::share])
    assert 100 * exact_share(found) >= WHOLE_FLOOR, found
