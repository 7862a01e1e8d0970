"""State machines: what the decompiler writes where it finds no structure does what the code does, exceptions and side effects included."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evalframe
from evalframe import _core
from evalframe.bytecode import Bytecode, Instruction
from fuzz.programs import RANDOM_SYNTAX
from helpers import fuzz
from test_evaluator_language import ADDRESS, PROGRAMS

PAGE = Path(__file__).parent.parent / "docs" / "13-decompiler.md"
# A state machine shows here, and why.
SHOWN = {
    "asynchronous: async with of everything": "errors for what `__aenter__` and `__aexit__` give don't name the statement",
    "execution: code.replace with other names, consts, and flags": "takes its own constants for others by their places",
    "generators: frames and locals of generators": "shows the variables of frames",
}
# Whole files: of frames, and of what tools are told.
SHOW_ALL = {"frames", "tools"}
# Their programs have no functions, or such as no state machine can hold.
WITHOUT_FUNCTIONS = {"imports", "large", "lifetimes", "type_parameters"}


def as_machines(code: types.CodeType) -> tuple[str, dict[str, str]]:
    """The source with functions as state machines even where they have a structure, and the status of each code object."""
    source, rows, _ = _core.decompiler.decompile(code, [], [], machines=True)
    return source or "", {code.co_qualname: status for code, status, _ in rows}


def told(error: BaseException | None, known: tuple[BaseException, ...] = ()) -> Any:
    if error is None or error in known:
        return None
    known += (error,)
    context = (told(error.__cause__, known), told(error.__context__, known), error.__suppress_context__)
    return type(error).__name__, ADDRESS.sub("0x", str(error)), context, [told(each, known) for each in getattr(error, "exceptions", ())]


def outcome(run: Callable[[], Any]) -> str:
    """What it gives, prints and raises, but for numbers, which may be those of lines."""
    output, error, result = io.StringIO(), None, None
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            result = run()
        except BaseException as raised:
            error = told(raised)
    return re.sub(r"\b\d+\b", "N", ADDRESS.sub("0x", repr((result, output.getvalue(), error))))


def run_program(code: types.CodeType) -> str:
    namespace = {"__name__": "__main__", "__builtins__": __builtins__}
    return outcome(lambda: exec(code, namespace))


@pytest.mark.parametrize("file", sorted({name.partition(":")[0] for name in PROGRAMS} - SHOW_ALL))
def test_the_language_as_state_machines(file: str) -> None:
    machines = 0
    for name, text in PROGRAMS.items():
        if not name.startswith(file + ":") or name in SHOWN or "recurs" in name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                code = compile(text, "<program>", "exec", dont_inherit=True)
            except SyntaxError:
                continue  # of a later version, or an error that is to be told
            source, statuses = as_machines(code)
            if "refused" in statuses.values():
                continue
            machines += list(statuses.values()).count("state machine")
            again = compile(source, "<program>", "exec", dont_inherit=True)
            assert run_program(again) == run_program(code), name
    assert machines > 0 or file in WITHOUT_FUNCTIONS


def into_the_middle(n: int) -> list[int]:
    """The test at the start jumps into the loop, which so has two ways in."""
    told = []
    if n > 3:
        told.append(0)
    while n > 0:
        told.append(n)
        n -= 2
        told.append(-n)
    return told


def between_two_loops(values: Any) -> list[Any]:
    """The handler goes on in the other loop's midst."""
    told = []
    for value in values:
        try:
            told.append(10 // value)
        except ZeroDivisionError as error:
            told.append(str(error))
        told.append("behind")
    while len(told) < 6:
        told.append("more")
        told.append("last")
    return told


def jump_at(body: Bytecode, number: int) -> Instruction:
    return [each for each in body if each.opname in ("POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE")][number]


def loading(body: Bytecode, value: object) -> Instruction:
    """The instruction that begins the statement with that constant."""
    at = next(i for i, each in enumerate(body.instructions) if each.opname == "LOAD_CONST" and each.argval == value)
    while body.instructions[at].opname != "LOAD_FAST":
        at -= 1
    return body.instructions[at]


def irreducible() -> list[tuple[Callable[..., Any], list[Any]]]:
    middle = Bytecode.from_code(into_the_middle)
    jump_at(middle, 0).target = loading(middle, 2)
    handled = Bytecode.from_code(between_two_loops)
    behind = [each for each in handled if each.opname == "DELETE_FAST"][0]
    after = handled.instructions[handled.instructions.index(behind) + 1]
    last = loading(handled, "last")
    direction = "FORWARD" if handled.instructions.index(last) > handled.instructions.index(after) else "BACKWARD"
    # The iterator of the loop that is left so is still on the stack.
    handled.replace(after, Instruction("POP_TOP"), Instruction(f"JUMP_{direction}", target=last))
    return [
        (with_code(into_the_middle, middle), [0, 1, 3, 4, 5, "a"]),
        (with_code(between_two_loops, handled), [[1, 2], [2, 0, 3], [0], [None], 5]),
    ]


def with_code(function: Callable[..., Any], body: Bytecode) -> Callable[..., Any]:
    return types.FunctionType(body.assemble(), function.__globals__)


@pytest.mark.parametrize(("function", "arguments"), irreducible(), ids=["into_the_middle", "between_two_loops"])
def test_code_without_structure(function: Callable[..., Any], arguments: list[Any]) -> None:
    report = evalframe.decompile_report(function)
    assert [row.status for row in report.rows] == ["state machine"]
    assert report.rows[0].reason
    assert report.source is not None and "# evalframe: a state machine, which does what the code does but isn't how it was written: " in report.source
    namespace: dict[str, Any] = {}
    exec(report.source, namespace)
    again = namespace[function.__code__.co_name]
    for argument in arguments:
        assert outcome(lambda: again(argument)) == outcome(lambda: function(argument))


def test_the_page_shows_one() -> None:
    (shown,) = re.findall(r"^```text\n(def into_the_middle.*?) *\.\.\.\n```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = evalframe.decompile(irreducible()[0][0]).splitlines(keepends=True)
    assert "".join([lines[0], *lines[2:]]).startswith(shown)  # without the docstring


NAMED = """
def f(_state, next, BaseException=3):
    global _s0
    _s0 = _state
    for _t0 in next:
        try:
            _s0 += _t0
        except ValueError:
            pass
    return [_s0, lambda: _error]
"""


@pytest.mark.parametrize("count", [10, 120, 2000])
@pytest.mark.parametrize("test", ["x == {}", "not x == {}"])
def test_long_chains_are_no_deep_nests(test: str, count: int) -> None:
    lines = [f"    if {test.format(i)}: return {i}" for i in range(count)]
    code = compile("\n".join(["def f(x):", *lines]), "<chain>", "exec", dont_inherit=True)
    source, statuses = as_machines(code)
    assert statuses["f"] == "state machine" and ("while True" in source or count < 2000)
    plain: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    exec(code, plain)
    exec(source, ours)
    assert [ours["f"](x) for x in (0, 1, count - 1, count)] == [plain["f"](x) for x in (0, 1, count - 1, count)]


LONG = {
    "early returns": "def f(x):\n" + "".join(f"    if x == {i}: return {i}\n" for i in range(200)),
    "elif": "def f(x):\n    if not x: y = 0\n" + "".join(f"    elif x == {i}: y = {i}\n" for i in range(90)) + "    return y\n",
    "and": "def f(x):\n    return " + " and ".join(f"x.a{i}" for i in range(60)) + "\n",
    "or": "def f(x):\n    return " + " or ".join(f"x.a{i}" for i in range(60)) + "\n",
    "both": "def f(x):\n    return " + " or ".join(f"x.a{i} and x.b{i}" for i in range(30)) + "\n",
}


@pytest.mark.parametrize("source", LONG.values(), ids=LONG)
def test_long_conditions_are_read_in_time(source: str) -> None:
    """Each was read once more by all that stood before it, or the code was walked to its end for each."""
    code = compile(source, "<long>", "exec", dont_inherit=True)
    assert {row.status for row in evalframe.decompile_report(code).rows} == {"exact"}


@pytest.mark.parametrize("test", ["1 < i < 4", "a[i - 1] < a[i] >= a[i + 1]", "0 < i < a[i] < 9"])
@pytest.mark.parametrize("loop", ["for i in range(1, 6):", "while (i := i + 1) < 6:"])
def test_chains_of_comparisons_before_another_test_that_goes_on_with_the_loop(loop: str, test: str) -> None:
    source = f"def f(a, last, found):\n    i = 0\n    {loop}\n        if {test}:\n            if last > i:\n                continue\n            found.append(i)\n    return found\n"
    code = compile(source, "<chain>", "exec", dont_inherit=True)
    report = evalframe.decompile_report(code)
    assert {row.status for row in report.rows} <= {"exact", "equivalent"} and report.source
    plain: dict[str, Any] = {}
    ours: dict[str, Any] = {}
    exec(code, plain)
    exec(report.source, ours)
    for last in range(6):
        given = [5, 1, 3, 2, 8, 4, 7]
        assert ours["f"](given, last, []) == plain["f"](given, last, [])


def test_names_of_a_state_machine_are_its_own() -> None:
    namespace: dict[str, Any] = {"_error": 5}
    source, statuses = as_machines(compile(NAMED, "<named>", "exec", dont_inherit=True))
    assert statuses["f"] == "state machine" and statuses["f.<locals>.<lambda>"] == "exact"
    exec(source, namespace)
    total, function = namespace["f"](1, [2, 3])
    assert (total, function(), namespace["_s0"]) == (6, 5, 6)


IN_PARTS = """
class Own(ExceptionGroup):
    def derive(self, excs):
        told.append(len(excs))
        return Own(self.message, excs)

class Odd(ExceptionGroup):
    def split(self, condition):
        raise LookupError("split")

class Meta(type):
    def __subclasscheck__(cls, other):
        raise AssertionError
    __instancecheck__ = __subclasscheck__

class Strict(ValueError, metaclass=Meta):
    pass

def seen():
    error = sys.exc_info()[1]
    return repr(error), repr(error and error.__context__)

def one(error):
    try:
        raise error
    except* ValueError as group:
        told.append((group, seen()))
    except* (KeyError, OSError):
        told.append(seen())
    else:
        told.append("else")
    finally:
        told.append(seen())
    return seen()

def again(error):
    try:
        raise error
    except* ValueError as group:
        told.append(seen())
        raise
    except* KeyError as group:
        raise TypeError(7)
    except* OSError as group:
        raise group
    except* TypeError as group:
        raise group.exceptions[0] from None

def nested(error):
    for number in range(3):
        try:
            try:
                raise error if number else OSError(number)
            except* OSError:
                told.append(seen())
                try:
                    raise
                except* (KeyError, OSError) as inner:
                    told.append((inner, seen()))
                    raise ExceptionGroup("more", [TypeError(number)])
                told.append(seen())
        except* TypeError:
            told.append((number, seen()))
    return seen()

def plain(error):
    try:
        raise LookupError(1)
    except LookupError as outer:
        try:
            raise error
        except* Strict:
            told.append(seen())
        except* ValueError:
            told.append(seen())
            raise
        told.append(seen())
        return seen()

def wrong(error, classes):
    try:
        raise error
    except* classes:
        told.append(seen())

def generator(error):
    try:
        try:
            yield seen()
            raise error
        except* ValueError as group:
            told.append((yield seen()))
            raise
    except* OSError:
        yield seen()
    yield seen()

def errors():
    yield ValueError(1)
    yield KeyError(2)
    yield Strict(5)
    yield ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(3), TypeError(4)])
    yield ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [ValueError(2), OSError(3), KeyError(4)])])
    yield Own("o", [ValueError(1), Own("p", [OSError(2), TypeError(3)]), Strict(4)])
    yield Odd("q", [ValueError(1), KeyError(2)])
    yield BaseExceptionGroup("b", [KeyboardInterrupt(1), ValueError(2)])
    known = ExceptionGroup("k", [ValueError(1), OSError(2)])
    known.add_note("known")
    known.__cause__ = KeyError("cause")
    yield known

def tried(function, *arguments):
    try:
        told.append(function(*arguments))
    except BaseException as error:
        told.append(shown(error))

def shown(error, known=()):
    if error is None or error in known:
        return None
    known += (error,)
    inner = [shown(each, known) for each in getattr(error, "exceptions", ())]
    return repr(error), inner, shown(error.__context__, known), shown(error.__cause__, known), getattr(error, "__notes__", None)

for function in [one, again, nested, plain, lambda error: list(generator(error))]:
    for error in errors():
        tried(function, error)
for classes in [int, (ValueError, 3), (), ExceptionGroup, (ValueError, Own), ((ValueError,),), None]:
    for error in errors():
        tried(wrong, error, classes)
"""


def test_exceptions_in_parts() -> None:
    """Classes are asked nothing, groups divide themselves, and what is handled meanwhile is the part."""
    code = compile(IN_PARTS, "<parts>", "exec", dont_inherit=True)
    source, statuses = as_machines(code)
    assert all(statuses[name] == "state machine" for name in ("one", "again", "nested", "plain", "wrong", "generator"))
    plain: list[Any] = []
    ours: list[Any] = []
    exec(code, {"sys": sys, "told": plain})
    exec(source, {"sys": sys, "told": ours})
    assert len(plain) > 100 and repr(ours) == repr(plain)


BY_KEYS = """
import collections
class Odd(dict):
    def get(self, key, default=None):
        told.append(("get", key))
        return super().get(key, default)
class K:
    A = "a"
    B = 1.0
def f(x):
    match x:
        case {"a": 1, **rest}: return "one", rest
        case {"a": [first, *_], "b": {"c": str(text)}}: return first, text
        case {K.A: K.B as y, **rest}: return y, sorted(rest)
        case {}: return "map", len(x)
        case [{"k": v} | {"j": v}, w]: return v, w
    return None
def g(x):
    try:
        match x:
            case {K.A: y, "a": z}: return y, z
    except ValueError as error:
        return str(error)
def h(xs):
    for x in xs:
        match x:
            case {"go": True}: continue
            case {"stop": n} if n > 1: break
            case {"n": n}: yield n
            case _: yield x
def run():
    for x in [{"a": 1, "b": 2}, {"a": [1, 2], "b": {"c": "d"}}, {"a": [1], "b": {"c": 3}}, {"a": 1.0, "z": 3}, {}, {3: 4}, [{"k": 1}, 2], [{"j": 1}, 3], [{}, 1], 5, None,
              Odd(a=1, q=2), collections.defaultdict(list), collections.OrderedDict(a=2), {"a": True}]:
        told.append(f(x)); told.append(g(x))
    told.append(list(h([{"go": True}, {"n": 1}, 3, {"stop": 1}, {"stop": 2}, {"n": 4}])))
run()
"""


def test_blocks_stand_in_their_order() -> None:
    """And not in that of addresses, so that a source is the same in each run."""
    numbers = []
    for node in ast.walk(ast.parse(as_machines(compile(IN_PARTS, "<parts>", "exec", dont_inherit=True))[0])):
        if isinstance(node, ast.Match):
            firsts = [re.match(r"\d+", ast.unparse(case.pattern)) for case in node.cases]
            numbers.append([int(first[0]) for first in firsts if first])
    assert len(numbers) > 5 and numbers == [sorted(each) for each in numbers]


def test_mapping_patterns() -> None:
    code = compile(BY_KEYS, "<keys>", "exec", dont_inherit=True)
    source, statuses = as_machines(code)
    assert all(statuses[name] == "state machine" for name in "fgh")
    plain: list[Any] = []
    ours: list[Any] = []
    exec(code, {"told": plain})
    exec(source, {"told": ours})
    assert len(plain) > 30 and repr(ours) == repr(plain)


DROPPED = """
def f(x, told):
    try:
        raise ValueError(x)
    except ValueError:
        raise KeyError(x)

def g(x, log):
    with x as y:
        for each in [log, log]:
            each.append(y)
    return [log.append(i) or i for i in range(3)][::-1]
"""


def test_a_state_machine_holds_nothing_longer() -> None:
    """Exceptions would be in a cycle with the frame that they came through."""
    import gc
    import weakref

    class Held(str):
        pass

    class Manager:
        def __enter__(self) -> int:
            return 5

        def __exit__(self, *details: object) -> None:
            pass

    namespace: dict[str, Any] = {}
    exec(as_machines(compile(DROPPED, "<dropped>", "exec", dont_inherit=True))[0], namespace)
    gc.disable()
    try:
        held = Held("x")
        ended = weakref.ref(held)
        with contextlib.suppress(KeyError):
            namespace["f"](held, None)
        del held
        assert ended() is None
    finally:
        gc.enable()
    log: list[int] = []
    assert namespace["g"](Manager(), log) == [2, 1, 0] and log == [5, 5, 0, 1, 2]


REFUSED = [
    ("def f(a):\n    return locals()", "a state machine has variables of its own, and `locals` may show them"),
    ("async def f(a):\n    async for b in a:\n        pass", "values that are used up in a region whose handler keeps them"),
    ("def f(a, *b):\n    return a(**b[0], **(b[1] if a else b[2]))", "keywords that are put together around a jump"),
]


@pytest.mark.parametrize(("source", "reason"), REFUSED, ids=["locals", "async for", "keywords"])
def test_what_a_state_machine_cant_hold_is_refused(source: str, reason: str) -> None:
    _, rows, _ = _core.decompiler.decompile(compile(source, "<refused>", "exec", dont_inherit=True), [], [], machines=True)
    assert [(status, reason in why) for _, status, why in rows] == [("exact", False), ("refused", True)]


def test_programs_do_not_differ() -> None:
    fuzz("decompile", "--strategy", "exceptions", "--strategy", "generators", "--strategy", "coroutines", "--programs", "30", "--seed", "1")


@pytest.mark.skipif(importlib.util.find_spec("pysource_codegen") is None, reason="pysource-codegen is not installed")
def test_programs_of_random_syntax_do_not_differ() -> None:
    fuzz("decompile", "--strategy", RANDOM_SYNTAX, "--programs", "15", "--seed", "3")


@pytest.mark.slow
def test_many_programs_do_not_differ(share: int) -> None:
    fuzz("decompile", "--programs", str(1000 // share), "--seed", "5", "--jobs", "2")
