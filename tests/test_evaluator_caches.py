"""What the evaluator has noted down at an instruction doesn't outlive what it was true of."""

import collections
import dis
import math
import types
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import evalframe


class Plain:
    shared = "of the class"

    def __init__(self, value: Any) -> None:
        self.value = value

    def method(self) -> Any:
        return "method", self.value


class Child(Plain):
    def method(self) -> Any:
        return "child's", self.value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Bag(dict):  # type: ignore[type-arg]
    pass


def value_of(thing: Any) -> Any:
    return thing.value


def shared_of(thing: Any) -> Any:
    return thing.shared


def call_method(thing: Any) -> Any:
    return thing.method()


def set_value(thing: Any, value: Any) -> None:
    thing.value = value


def warm(*functions: Callable[..., Any]) -> Plain:
    thing = Plain(0)
    for _ in range(10):
        for function in functions:
            function(thing)
    return thing


def classes_change() -> Any:
    class Local(Plain):
        pass

    thing = Local(1)
    seen = [(call_method(thing), shared_of(thing)) for _ in range(4)]
    Local.method = lambda self: "new"  # type: ignore[method-assign]
    Local.shared = "new"
    seen.append((call_method(thing), shared_of(thing)))
    del Local.method, Local.shared
    seen.append((call_method(thing), shared_of(thing)))
    Local.value = property(lambda self: "a property")  # type: ignore[assignment]
    return seen, value_of(thing)


def an_instance_hides_its_class() -> Any:
    thing = warm(call_method, shared_of)
    thing.method = lambda: "its own"  # type: ignore[method-assign]
    thing.shared = "its own"
    seen = [call_method(thing), shared_of(thing)]
    del thing.method, thing.shared
    return [*seen, call_method(thing), shared_of(thing)]


def values_move_to_a_dict() -> Any:
    thing = warm(value_of, call_method)
    names = thing.__dict__
    set_value(thing, 2)
    seen = [value_of(thing), names["value"], call_method(thing)]
    names["value"] = 3
    names["method"] = lambda: "from the dict"
    seen += [value_of(thing), call_method(thing)]
    thing.__dict__ = {"value": 4}
    return [*seen, value_of(thing), call_method(thing), list(vars(thing))]


def order_of_attributes() -> Any:
    class Ordered:
        pass

    def fill(thing: Any, first: bool) -> None:
        if first:
            thing.a = 1
        thing.b = 2
        thing.c = 3
        thing.a = 4

    for _ in range(6):
        fill(Ordered(), True)
    things = [Ordered(), Ordered()]
    for thing, first in zip(things, (True, False), strict=True):
        fill(thing, first)
    return [list(vars(thing).items()) for thing in things]


def attributes_come_and_go() -> Any:
    seen: list[Any] = []
    for value in range(8):
        thing = Plain(value)
        seen.append(value_of(thing))
        del thing.value
        try:
            value_of(thing)
        except AttributeError as error:
            seen.append(str(error))
        set_value(thing, -value)
        seen.append(value_of(thing))
    return seen


def slots() -> Any:
    seen: list[Any] = []
    for value in range(6):
        thing = Slotted(value)
        set_value(thing, value + 1)
        seen.append(value_of(thing))
        del thing.value
        try:
            value_of(thing)
        except AttributeError as error:
            seen.append(str(error))
    return seen


def many_classes_pass_by() -> Any:
    things: list[Any] = [Plain(1), Child(2), Slotted(3), types.SimpleNamespace(value=4), Plain, math]
    seen = []
    for turn in range(60):
        thing = things[turn % len(things)]
        seen.append(getattr(thing, "__name__", None) or value_of(thing))
        if isinstance(thing, Plain):
            seen.append(call_method(thing))
    return seen


def another_class() -> Any:
    thing = warm(call_method)
    thing.__class__ = Child
    return call_method(thing)


def owners_are_classes_and_modules() -> Any:
    module = types.ModuleType("module")
    module.value = 1  # type: ignore[attr-defined]
    seen = []
    for value in range(6):
        module.value = value  # type: ignore[attr-defined]
        Plain.value = value  # type: ignore[attr-defined]
        seen += [value_of(module), value_of(Plain), value_of(Child), shared_of(Child)]
    del Plain.value  # type: ignore[attr-defined]
    return seen, math.floor(2.5)


def a_subclass_of_dict() -> Any:
    bag = Bag(x=1)
    seen = []
    for _ in range(4):
        seen.append(list(bag.items()))
        bag.items = lambda: ["hidden"]  # type: ignore[method-assign, assignment, return-value]
        seen.append(list(bag.items()))
        del bag.items  # type: ignore[method-assign]
    return seen


def functions_change() -> Any:
    def add(x: int, y: int = 1) -> int:
        return x + y

    def other(x: int, y: int = 1) -> int:
        return x * 10 + y

    def call() -> int:
        return add(2)

    seen = [call() for _ in range(3)]
    add.__defaults__ = (5,)
    seen.append(call())
    add.__code__ = other.__code__
    seen.append(call())
    add.__defaults__ = None
    try:
        call()
    except TypeError as error:
        seen.append(str(error))  # type: ignore[arg-type]
    return seen


def values_of_a_class_become_descriptors() -> Any:
    class Value:
        pass

    class Owner:
        value = Value()
        method = Value()

        def __init__(self) -> None:
            self.value = 1
            self.method = lambda: 2

    thing = Owner()
    seen = [(value_of(thing), call_method(thing), type(value_of(Owner)).__name__) for _ in range(4)]
    Value.__get__ = lambda *_: lambda: "got"  # type: ignore[attr-defined]
    seen.append((value_of(Owner)(), 0, ""))
    Value.__set__ = lambda *_: None  # type: ignore[attr-defined]
    set_value(thing, 3)
    return seen, value_of(thing)(), call_method(thing)


def classes_are_called() -> Any:
    class Local(Plain):
        def __init__(self, value: Any) -> None:
            self.value = value

    def make(value: Any) -> Any:
        return Local(value)

    seen: list[Any] = []
    for turn in range(8):
        thing = make(turn)
        seen.append((thing.value, list(vars(thing)), thing.__dict__ is vars(thing)))

    Local.__init__ = lambda self, value: value  # type: ignore[assignment, method-assign]
    for value in (None, 1):
        try:
            seen.append(vars(make(value)))
        except TypeError as error:
            seen.append(str(error))
    Local.__init__ = lambda self: None  # type: ignore[assignment, method-assign]
    try:
        make(1)
    except TypeError as error:
        seen.append(str(error))
    Local.__new__ = lambda cls, value: value  # type: ignore[method-assign, assignment]
    seen.append(make("made by __new__"))
    return seen


def text_grows() -> Any:
    text = held = ""
    for i in range(5):
        text += str(i)
        held = text
        text += "-"
    return text, held


def floats_are_reused() -> Any:
    x, y = 1.5, 2.5
    kept = [x + y, (x + y) * (x - y), (x * y) + x]
    z = x + y + x * y
    return kept, z, x, y, [v * 2.0 - v for v in kept]


class Key:
    asked = 0

    def __hash__(self) -> int:
        Key.asked += 1
        return 7

    def __eq__(self, other: object) -> bool:
        return self is other


def keys_are_asked_once() -> Any:
    Key.asked = 0
    for mapping in ({}, {Key(): 1}, Bag()):
        try:
            mapping[Key()]  # type: ignore[index]
        except KeyError as error:
            assert isinstance(error.args[0], Key)
    return Key.asked


PROGRAMS = [
    classes_change, an_instance_hides_its_class, values_move_to_a_dict, order_of_attributes, attributes_come_and_go, slots,
    many_classes_pass_by, another_class, owners_are_classes_and_modules, a_subclass_of_dict, functions_change, values_of_a_class_become_descriptors, classes_are_called, text_grows,
    floats_are_reused, keys_are_asked_once,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_cpython(program: Callable[[], Any]) -> None:
    expected = program()
    code = [bytes(function.__code__.co_code) for function in (program, value_of, call_method, set_value)]
    for _ in range(3):
        evalframe.enable(mode="evaluate")
        try:
            result = program()
        finally:
            evalframe.disable()
        assert repr(result) == repr(expected)
    assert code == [bytes(function.__code__.co_code) for function in (program, value_of, call_method, set_value)]


def test_nothing_is_written_into_code_objects() -> None:
    namespace: dict[str, Any] = {}
    exec("def loop(thing):\n    for i in range(100):\n        thing.value = thing.value + i\n    return thing.value", namespace)

    def adaptive() -> list[str]:
        return [instruction.opname for instruction in dis.get_instructions(namespace["loop"], adaptive=True)]

    before = adaptive()
    evalframe.enable(mode="evaluate")
    try:
        assert namespace["loop"](Plain(0)) == 4950
    finally:
        evalframe.disable()
    assert adaptive() == before


class Asked:
    """A key that is as good as the name, and tells when it's compared."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        self.log.append(f"{self.name}?")
        return False


@pytest.mark.parametrize("function", [value_of, shared_of, lambda thing: thing.method(), lambda thing: set_value(thing, 1)])
@pytest.mark.parametrize("place", ["class", "instance", "module"])
def test_keys_that_are_no_strings_are_asked_as_often_as_by_cpython(function: Callable[[Any], Any], place: str) -> None:
    def asked() -> list[str]:
        log: list[str] = []
        odd: dict[Any, Any] = {Asked(name, log): 0 for name in ("value", "shared", "method")}
        thing: Any
        if place == "class":
            # A new class each time, as CPython keeps what it has found.
            thing = type("Odd", (Plain,), odd)(0)
        elif place == "instance":
            thing = Plain(0)
            thing.__dict__.update(odd)
        else:
            thing = types.ModuleType("odd")
            thing.__dict__.update(odd)
            vars(thing).update(value=1, shared=2, method=int)
        log.clear()
        own(thing)
        return log

    def new() -> Callable[[Any], Any]:
        return types.FunctionType(function.__code__.replace(), function.__globals__)

    def most_often(answers: Iterable[list[str]]) -> tuple[tuple[str, ...], int]:
        return collections.Counter(map(tuple, answers)).most_common(1)[0]

    # CPython keeps what it found in types in 4096 places, chosen by the type's version and the name: now and then another type's
    # takes the place between two askings, and a new version moves it away.
    plain = []
    for _ in range(5):
        own = new()
        plain.append(asked())
    expected, _ = most_often(plain)
    for _ in range(12):
        own = new()
        answer, times = most_often(evalframe._core.evaluate_deep(asked) for _ in range(9))
        assert answer == expected and times >= 8
