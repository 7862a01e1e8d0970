"""What a frame hook sees, what it may decide, and that nothing of it stays behind."""

import asyncio
import contextlib
import gc
import subprocess
import sys
import threading
import time
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import evalframe
from evalframe import FrameInfo, Result

Function = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("no_collections")


def fresh(function: Function) -> Function:
    """A function with a code object of its own, so that no test sees another's."""
    return types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def with_constant(code: types.CodeType, old: object, new: object) -> types.CodeType:
    def changed(value: object) -> object:
        if isinstance(value, types.CodeType):
            return with_constant(value, old, new)
        return new if value == old else value

    return code.replace(co_consts=tuple(map(changed, code.co_consts)))


def replacing(code: types.CodeType, replacement: types.CodeType) -> Callable[[FrameInfo], types.CodeType | None]:
    return lambda frame: replacement if frame.code is code else None


def add(a: int, b: int = 2) -> int:
    c = a + 1000
    return c + b


# --- what a callback sees ---------------------------------------------------------------------------------------------


def test_a_callback_sees_each_call_and_its_arguments() -> None:
    def function(a: int, /, b: int, *rest: int, k: int = 4, **more: int) -> int:
        return a

    seen = []

    def callback(frame: FrameInfo) -> None:
        assert frame.globals is globals()
        assert frame.builtins["len"] is len
        seen.append((frame.function, frame.code, frame.name, frame.locals))

    with evalframe.hook(callback):
        function(1, 2, 3, z=5)
        function(1, b=2)
    assert seen == [
        (function, function.__code__, "function", {"a": 1, "b": 2, "rest": (3,), "k": 4, "more": {"z": 5}}),
        (function, function.__code__, "function", {"a": 1, "b": 2, "rest": (), "k": 4, "more": {}}),
    ]


def test_a_callback_sees_module_and_class_bodies_with_their_namespace() -> None:
    seen = []
    with evalframe.hook(lambda frame: seen.append((frame.name, frame.locals))):
        namespace: dict[str, Any] = {}
        exec("class C:\n    x = 1\ny = 2", namespace)
    assert [name for name, _ in seen] == ["<module>", "C"]
    assert seen[0][1] is namespace
    assert seen[1][1]["x"] == 1


def test_nothing_is_seen_of_the_callback_itself() -> None:
    names = []

    def helper() -> None:
        names.append("helper")

    def callback(frame: FrameInfo) -> None:
        helper()
        names.append(frame.name)

    with evalframe.hook(callback):
        add(1)
    assert names == ["helper", "add"]


def test_evalframes_own_code_is_not_seen() -> None:
    modules = set()
    with evalframe.hook(lambda frame: modules.add(frame.globals["__name__"])):
        evalframe.variables(add)
    assert not any(module.startswith("evalframe") for module in modules)


def test_a_generator_is_seen_when_it_is_created() -> None:
    def numbers() -> Iterator[int]:
        yield from range(3)

    seen = []
    with evalframe.hook(lambda frame: seen.append((frame.name, frame.is_generator, frame.is_coroutine))):
        assert list(numbers()) == [0, 1, 2]
    assert seen == [("numbers", True, False)]


def test_coroutines_and_async_generators_are_told_apart() -> None:
    async def ticks() -> Any:
        yield 1

    async def total() -> int:
        return sum([tick async for tick in ticks()])

    seen: dict[str, tuple[bool, bool, bool]] = {}

    def callback(frame: FrameInfo) -> None:
        seen[frame.name] = (frame.is_generator, frame.is_coroutine, frame.is_async_generator)

    with evalframe.hook(callback):
        assert asyncio.run(total()) == 1
    assert seen["total"] == (False, True, False)
    assert seen["ticks"] == (False, False, True)


def test_a_frame_info_can_not_be_read_after_its_callback() -> None:
    kept = []
    with evalframe.hook(kept.append):
        add(1)
        add(2)
    assert len(kept) == 2 and kept[0] is not kept[1]
    for attribute in ("code", "function", "globals", "builtins", "locals", "name", "qualname", "is_generator"):
        with pytest.raises(RuntimeError, match="inside the hook's callback only"):
            getattr(kept[0], attribute)
    assert "gone on" in repr(kept[0])


# --- results ----------------------------------------------------------------------------------------------------------


def test_a_result_stands_for_the_call() -> None:
    with evalframe.hook(lambda frame: Result(frame.locals["a"] * 100) if frame.name == "add" else None):
        assert add(3) == 300
        assert [add(i) for i in range(3)] == [0, 100, 200]
        assert list(map(add, range(3))) == [0, 100, 200]
    assert add(3) == 1005


def test_a_result_may_stand_for_a_generator() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with evalframe.hook(lambda frame: Result([7, 8]) if frame.name == "numbers" else None):
        assert list(numbers()) == [7, 8]


# --- replacement code -------------------------------------------------------------------------------------------------


def bigger(a: int, b: int = 2) -> Any:
    c = a + 2000
    d = e = f = g = h = c
    return [d + b, (e, (f, (g, (h, (a, (b, (c, d)))))))][0]


def test_replacement_code_runs_in_place() -> None:
    function = fresh(add)
    with evalframe.hook(replacing(function.__code__, with_constant(function.__code__, 1000, 2000))):
        assert function(1) == 2003
        assert function(1, b=5) == 2006
    assert function(1) == 1003


def test_a_replacement_may_have_more_variables_and_a_deeper_stack() -> None:
    function = fresh(add)
    with evalframe.hook(replacing(function.__code__, bigger.__code__)):
        for depth in range(300):  # each depth once: somewhere the data stack's chunk has no room for the bigger frame
            assert at_depth(depth, lambda: function(1, b=5)) == 2006


def at_depth(depth: int, function: Function) -> Any:
    return at_depth(depth - 1, function) if depth else function()


def test_every_kind_of_parameter_survives_where_the_frame_has_no_room() -> None:
    def function(a: int, /, b: int, *rest: int, k: int = 4, **more: int) -> Any:
        return a, b, rest, k, more

    def larger(a: int, /, b: int, *rest: int, k: int = 4, **more: int) -> Any:
        c = d = e = f = g = h = i = j = 0
        return [[a, b, rest, k, more, (c, (d, (e, (f, (g, (h, (i, j)))))))]][0][:5]

    with evalframe.hook(replacing(function.__code__, larger.__code__)):
        for depth in range(200):
            expected = [1, 2, (3,), 6, {"a": 7, "z": 8}]
            assert at_depth(depth, lambda: function(1, 2, 3, k=6, a=7, z=8)) == expected


def test_replaced_code_shows_in_tracebacks_and_frames() -> None:
    def function(x: int) -> None:
        y = x + 1000
        raise ValueError(y, sys._getframe())

    original = fresh(function)
    replacement = with_constant(original.__code__, 1000, 2000)
    with evalframe.hook(replacing(original.__code__, replacement)), pytest.raises(ValueError) as caught:
        original(1)
    frame = caught.value.args[1]
    assert caught.value.args[0] == 2001
    assert frame.f_code is replacement
    assert frame.f_locals == {"x": 1, "y": 2001}
    assert frame.f_back.f_code.co_name == "test_replaced_code_shows_in_tracebacks_and_frames"
    assert traceback.extract_tb(caught.value.__traceback__)[-1].line == "raise ValueError(y, sys._getframe())"


def test_replaced_closures_keep_their_cells() -> None:
    def make(z: int) -> Function:
        def function(x: int) -> int:
            def inner() -> int:
                return x + z + 1000

            return inner() + 1000

        return function

    function, other = make(7), make(8)
    replacement = with_constant(function.__code__, 1000, 2000)
    with evalframe.hook(replacing(function.__code__, replacement)):
        assert function(1) == 4008
        assert other(1) == 4009


def test_an_argument_may_become_a_cell() -> None:
    def function(x: int) -> int:
        return x

    def replacement(x: int) -> int:
        return (lambda: x + 1)()

    with evalframe.hook(replacing(function.__code__, replacement.__code__)):
        assert function(1) == 2


@pytest.mark.parametrize("big", [False, True])
def test_replaced_generators(big: bool) -> None:
    def numbers(n: int) -> Iterator[Any]:
        for i in range(n):
            yield i + 1000

    def more(n: int) -> Iterator[Any]:
        for i in range(n):
            a = b = c = d = e = f = i
            yield [i + 2000, (a, (b, (c, (d, (e, (f, n))))))][0]

    function = fresh(numbers)
    replacement = more.__code__ if big else with_constant(function.__code__, 1000, 2000)
    with evalframe.hook(replacing(function.__code__, replacement)):
        for depth in range(100):
            generator = at_depth(depth, lambda: function(3))
            assert generator.gi_code is replacement
            assert list(generator) == [2000, 2001, 2002]


def test_replaced_coroutines_and_class_bodies() -> None:
    async def work(x: int) -> int:
        await asyncio.sleep(0)
        return x + 1000

    replacement = with_constant(work.__code__, 1000, 2000)
    with evalframe.hook(replacing(work.__code__, replacement)):
        assert asyncio.run(work(1)) == 2001

    def change_body(frame: FrameInfo) -> types.CodeType | None:
        return with_constant(frame.code, 1000, 2000) if frame.name == "C" else None

    namespace: dict[str, Any] = {}
    with evalframe.hook(change_body):
        exec("class C:\n    x = 1000", namespace)
    assert namespace["C"].x == 2000


def closure_over(value: int) -> Function:
    def function(a: int) -> int:
        return a + value

    return function


def refused() -> Iterator[Any]:
    def case(name: str, original: Function, replacement: Function, message: str) -> Any:
        return pytest.param(original, replacement, message, id=name)

    def with_locals(a: int) -> int:
        x = a
        y = x
        return y

    def lacks_y(a: int) -> int:
        x = a
        return x

    def swapped(a: int) -> int:
        y = a
        x = y
        return x

    def two(a: int, b: int) -> int:
        return a + b

    def keyword(*, a: int) -> int:
        return a

    def rest(a: int, *rest: int) -> int:
        return a

    def positional(a: int, /) -> int:
        return a

    def plain(a: int) -> int:
        return a

    def other_name(b: int) -> int:
        return b

    def with_cell(a: int) -> Function:
        cell = a
        return lambda: cell

    yield case("a missing local", with_locals, lacks_y, "lacks the local variable 'y'")
    yield case("another order", with_locals, swapped, r"local variable 'x' \(place 1\), it has 'y'")
    yield case("another argument", plain, other_name, "lacks the local variable 'a'")
    yield case("a missing cell", with_cell, plain, "lacks the cell variable 'cell'")
    yield case("a missing free variable", closure_over(1), plain, "lacks the free variable 'value'")
    yield case("a new free variable", plain, closure_over(1), "has the free variable 'value'")
    yield case("more parameters", plain, two, "positional parameters")
    yield case("keyword-only", plain, keyword, "positional parameters")
    yield case("positional-only", plain, positional, "positional-only parameters")
    yield case("variable arguments", plain, rest, "CO_VARARGS")


@pytest.mark.parametrize("original, replacement, message", list(refused()))
def test_an_unfit_replacement_is_refused_by_name(original: Function, replacement: Function, message: str) -> None:
    arguments = (1,)
    with evalframe.hook(replacing(original.__code__, replacement.__code__)):
        for _ in range(2):
            with pytest.raises(ValueError, match=message):
                original(*arguments)
    original(*arguments)


def test_module_code_is_refused_for_a_function() -> None:
    code = compile("x", "<module>", "exec")
    with (
        evalframe.hook(replacing(refused.__code__, code)),
        pytest.raises(ValueError, match=r"frame of refused\(\).*CO_OPTIMIZED"),
    ):
        refused()


# --- callbacks that fail ----------------------------------------------------------------------------------------------


def test_an_exception_of_the_callback_comes_out_of_the_call() -> None:
    def callback(frame: FrameInfo) -> None:
        if frame.name == "add":
            raise KeyError(frame.name)

    with evalframe.hook(callback), pytest.raises(KeyError, match="add") as caught:
        add(1)
    assert [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)] == [
        "test_an_exception_of_the_callback_comes_out_of_the_call",
        "callback",
    ]
    (note,) = caught.value.__notes__
    assert "raised by the frame hook" in note and f"called before add() ({__file__}:" in note
    assert add(1) == 1003


@pytest.mark.parametrize("answer", [5, "text", add, True, (1, 2), Result])
def test_an_unfit_answer_is_a_type_error(answer: object) -> None:
    with (
        evalframe.hook(lambda frame: answer if frame.name == "add" else None),  # type: ignore[arg-type,return-value]
        pytest.raises(TypeError, match=r"for add\(\).*None .*a code object.*evalframe\.Result"),
    ):
        add(1)
    assert add(1) == 1003


def test_a_hook_must_be_callable() -> None:
    for callback in (5, None):
        with pytest.raises(TypeError, match="wants a callable that takes a FrameInfo"):
            evalframe.hook(callback)  # type: ignore[arg-type]


# --- coming and going -------------------------------------------------------------------------------------------------


def test_a_hook_is_removed_by_its_handle_and_by_with() -> None:
    seen: list[str] = []
    hook = evalframe.hook(lambda frame: seen.append(frame.name))
    assert hook.installed
    add(1)
    hook.remove()
    assert not hook.installed
    hook.remove()
    add(1)
    with pytest.raises(ZeroDivisionError), evalframe.hook(lambda frame: seen.append("with")):
        add(1 // 0)
    add(1)
    assert seen == ["add"]


def test_the_last_hook_installed_decides_or_passes_on() -> None:
    seen = []

    def outer(frame: FrameInfo) -> Result:
        seen.append("outer")
        return Result("outer")

    def inner(frame: FrameInfo) -> Result | None:
        seen.append("inner")
        return Result("inner") if frame.locals["a"] else None

    with evalframe.hook(outer):
        with evalframe.hook(inner):
            assert (add(1), add(0)) == ("inner", "outer")
        assert add(1) == "outer"
    assert seen == ["inner", "inner", "outer", "outer"]


def test_hooks_may_be_removed_in_any_order_and_from_a_callback() -> None:
    seen = []
    first = evalframe.hook(lambda frame: seen.append("first"))
    second = evalframe.hook(lambda frame: (seen.append("second"), first.remove(), second.remove())[0])
    add(1)
    assert not first.installed and not second.installed
    assert seen == ["second"]
    add(1)
    assert seen == ["second"]


def test_a_hook_installed_by_a_callback_sees_the_next_call() -> None:
    seen = []
    hooks = []

    def callback(frame: FrameInfo) -> None:
        if not hooks:
            hooks.append(evalframe.hook(lambda frame: seen.append(frame.name)))

    with evalframe.hook(callback):
        add(1)
        assert seen == []
        add(1)
        assert seen == ["add"]
    hooks[0].remove()


def in_thread(function: Function) -> Any:
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_other_threads_are_unaffected_unless_asked() -> None:
    with evalframe.hook(lambda frame: Result(7) if frame.name == "add" else None):
        assert add(1) == 7
        assert in_thread(lambda: add(1)) == 1003
    with evalframe.hook(lambda frame: Result(8) if frame.name == "add" else None, all_threads=True):
        assert add(1) == 8
        assert in_thread(lambda: add(1)) == 8


def test_each_thread_has_hooks_of_its_own() -> None:
    barrier = threading.Barrier(4)
    wrong: list[object] = []

    def work(number: int) -> None:
        with evalframe.hook(lambda frame: Result(number) if frame.name == "add" else None):
            for _ in range(200):
                if add(1) != number:
                    wrong.append(number)
            barrier.wait()
            wrong.extend(result for result in map(add, range(500)) if result != number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert add(1) == 1003


def test_a_thread_that_ends_takes_its_hooks_along() -> None:
    callbacks = [replacing(deep.__code__, deep.__code__)]
    watched = weakref.ref(callbacks[0])
    hook = in_thread(lambda: evalframe.hook(callbacks.pop()))
    for _ in range(100):
        add(1)
        if not hook.installed:
            break
        time.sleep(0.01)
    assert not hook.installed
    gc.collect()
    assert watched() is None


# --- recursion --------------------------------------------------------------------------------------------------------


def deep(n: int) -> int:
    return 0 if n == 0 else deep(n - 1) + 1


def test_the_default_recursion_limit_stays_usable() -> None:
    with evalframe.hook(lambda frame: None):
        assert deep(850) == 850
        with pytest.raises(RecursionError):
            deep(10**6)
    assert deep(850) == 850


RECURSION = """
import sys, threading, evalframe
def deep(n):
    return 0 if n == 0 else deep(n - 1) + 1
def attempt():
    with evalframe.hook(lambda frame: {answer}):
        for _ in range(2):
            try:
                deep(10**6)
            except RecursionError:
                print("RecursionError")
        print(deep({usable}))
sys.setrecursionlimit(10**6)
threading.stack_size({stack})
thread = threading.Thread(target=attempt)
thread.start()
thread.join()
"""


@pytest.mark.parametrize("stack, usable", [(64 << 10, 10), (256 << 10, 100), (2 << 20, 1000), (8 << 20, 5000)])
@pytest.mark.parametrize("answer", ["None", "frame.code"])
def test_too_deep_a_recursion_is_an_exception_on_every_stack(stack: int, usable: int, answer: str) -> None:
    program = RECURSION.format(stack=stack, usable=usable, answer=answer)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == (f"RecursionError\nRecursionError\n{usable}\n", "", 0)


# --- nothing stays ----------------------------------------------------------------------------------------------------


def count_deltas(work: Callable[[], None], objects: list[object]) -> list[int]:
    work()
    gc.collect()
    before = [sys.getrefcount(item) for item in objects]
    blocks = sys.getallocatedblocks()
    work()
    gc.collect()
    assert abs(sys.getallocatedblocks() - blocks) < 1000  # far less than one for each call
    after = [sys.getrefcount(item) for item in objects]
    return [new - old for new, old in zip(after, before, strict=True)]


@pytest.mark.parametrize("answer", ["pass", "code", "bigger", "result", "raise", "unfit", "refused"])
def test_no_reference_is_lost_in_many_calls(answer: str) -> None:
    function = fresh(add)
    argument = 123456789
    code = function.__code__
    replacement = {"code": with_constant(code, 1000, 2000), "bigger": bigger.__code__}.get(answer, deep.__code__)

    def callback(frame: FrameInfo) -> Any:
        if frame.code is not code or answer == "pass":
            return None
        if answer == "raise":
            raise KeyError
        return {"result": Result(argument), "unfit": argument}.get(answer, replacement)

    def work() -> None:
        with evalframe.hook(callback):
            for _ in range(20_000):
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    function(argument)

    assert count_deltas(work, [argument, code, function, replacement, callback]) == [0] * 5


def test_no_reference_is_lost_by_generators_and_closures() -> None:
    def make(z: object) -> Function:
        def function(x: object) -> Iterator[object]:
            yield x
            yield z

        return function

    made = make(None)
    replacement = made.__code__.replace(co_name="replaced")
    argument = 123456789

    def work() -> None:
        with evalframe.hook(replacing(made.__code__, replacement)):
            for _ in range(10_000):
                function = make(argument)
                assert list(function(argument)) == [argument, argument]
                next(function(argument))

    assert count_deltas(work, [argument, made.__code__, replacement]) == [0] * 3


def test_a_removed_hook_holds_nothing() -> None:
    function = fresh(add)
    replacement = with_constant(function.__code__, 1000, 2000)
    callback = replacing(function.__code__, replacement)
    watched = [weakref.ref(item) for item in (function, function.__code__, replacement, callback)]
    with evalframe.hook(callback):
        assert function(1) == 2003
    del function, replacement, callback
    gc.collect()
    assert [reference() for reference in watched] == [None] * 4


def test_a_closure_is_not_kept_by_its_hook() -> None:
    class Value:
        pass

    def make(value: object) -> Function:
        return lambda: (value, 1000)

    value = Value()
    watched = weakref.ref(value)
    function = make(value)
    with evalframe.hook(replacing(function.__code__, with_constant(function.__code__, 1000, 2000))):
        assert function() == (value, 2000)
        del function, value
        gc.collect()
        assert watched() is None


def test_a_hook_left_installed_at_exit_does_no_harm() -> None:
    program = "import evalframe\nevalframe.hook(lambda frame: None)\ndef f(): print('ran')\nf()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("ran\n", "", 0)
