"""Classes that captured functions make: new ones at each call, as in plain Python, and no breaks for ordinary class statements."""

# mypy: disable-error-code="no-untyped-def"
# ruff: noqa: B023, C416

from __future__ import annotations

import abc
import gc
import sys
import traceback
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import leaving_before

X, Y = np.linspace(-1, 1, 5), np.ones(5)
CALLS = [(X, Y), (X * 3, Y + 2), (X.astype("f4"), Y), (X, Y)]
GAIN = 5
CASES: dict[str, Callable[..., Any]] = {}


def case(function: Callable[..., Any]) -> Callable[..., Any]:
    CASES[function.__name__] = function
    return function


class Box:
    shared = 7

    def __init__(self, gain=2.0):
        self.gain = gain

    def apply(self, a):
        return a * self.gain


@case
def attribute_and_method(x, y):
    class Local:
        gain = 2

        def apply(self, a):
            return a * self.gain

    return Local().apply(x) + y


@case
def descriptors(x, y):
    class Local:
        def __init__(self, a):
            self.a = a

        @property
        def twice(self):
            return self.a * 2

        @twice.setter
        def twice(self, value):
            self.a = value

        @staticmethod
        def more(a):
            return a + 1

        @classmethod
        def of(cls, a):
            return cls(a)

    local = Local.of(x)
    local.twice = y * 3
    return local.twice + Local.more(y) + local.more(x), Local


@case
def super_of_a_base(x, y):
    class Local(Box):
        def apply(self, a):
            return super().apply(a) - y

    return Local(3.0).apply(x)


@case
def made_by_type(x, y):
    made = type("Made", (Box,), {"shared": 7, "own": y})
    return x * made.shared + made().own, made


@case
def class_and_instance_returned(x, y):
    class Local:
        "Text."
        z = x
        w = [1, 2]

        def me(self):
            return Local

        def inside(self):
            return __class__  # noqa: F821

        @property
        def p(self):
            return self.q + x

    local = Local()
    local.q = y
    return Local, local, Local().me() is Local, local.inside() is Local


@case
def class_in_a_class(x, y):
    class Outer:
        class Inner:
            k = 4

            def f(self, a):
                return a * self.k

        def __init__(self):
            self.inner = Outer.Inner()

    return Outer().inner.f(x) + y, Outer


@case
def annotations(x, y):
    class Local:
        a: int = 3
        b: str

    return x * Local.a, Local.__annotations__, Local


@case
def slots(x, y):
    class Local:
        __slots__ = ("u", "v")

        def __init__(self, u):
            self.u = u

    local = Local(x)
    return local.u + y, local.__slots__, Local.u.__get__(local)


@case
def exception_class_caught(x, y):
    class Error(ValueError):
        def __init__(self, z):
            super().__init__("text")
            self.z = z

    try:
        raise Error(x)
    except Error as error:
        return error.z + y, Error


@case
def exception_class_raised(x, y):
    class Error(ValueError):
        pass

    raise Error(x.shape)


@case
def operators(x, y):
    class Vector:
        def __init__(self, a):
            self.a = a

        def __add__(self, other):
            return Vector(self.a + other.a)

        def __radd__(self, other):
            return Vector(self.a + other)

        def __eq__(self, other):
            return True

        def __call__(self, b):
            return self.a * b

        def __getitem__(self, i):
            return self.a[i]

        def __len__(self):
            return 3

        def __iter__(self):
            yield self.a

        def __enter__(self):
            return self

        def __exit__(self, *details):
            return None

    v = Vector(x) + Vector(y)
    v = 3 + v
    with v as w:
        pass
    return v(y) + v[1:2] + len(v), [item for item in w], v == w, Vector.__hash__


@case
def stores_into_the_class(x, y):
    class Local:
        n = 0
        items = []

        def __init__(self):
            Local.n += 1
            self.items.append(self)

    Local()
    Local()
    return x * Local.n, Local, all(type(item) is Local for item in Local.items)


@case
def questions_about_the_class(x, y):
    class Local(Box):
        pass

    class Derived(Local):
        pass

    d = Derived()
    right = isinstance(d, Local) and isinstance(d, Box) and issubclass(Derived, Local) and type(d) is Derived and d.__class__ is Derived
    return x * (2 if right and Local.__name__ == "Local" else 3), Derived.__mro__, Derived.__bases__, Derived.__base__, Derived.__module__


@case
def decorated_method(x, y):
    def doubled(f):
        def wrapper(self, a):
            return f(self, a) * 2

        return wrapper

    class Local:
        @doubled
        def f(self, a):
            return a + y

    return Local().f(x), Local


@case
def decorated_class(x, y):
    def marked(c):
        c.extra = 5
        return c

    @marked
    class Local:
        pass

    return x * Local.extra, Local


@case
def own_new(x, y):
    class Local:
        def __new__(cls, a):
            made = object.__new__(cls)
            made.a = a
            return made

        def __init__(self, a):
            self.b = a * 2

        def __class_getitem__(cls, item):
            return cls, item

    local = Local(x)
    return local.a + local.b, Local, Local[3][0] is Local


@case
def defaults_of_methods(x, y):
    class Local:
        def f(self, a=x, *, k=y):
            return a + k

    return Local().f(), Local


@case
def classes_of_a_loop(x, y):
    made = []
    for i in range(3):

        class Local:
            n = i

            def f(self):
                return x * self.n

        made.append(Local)
    return made, [c().f() for c in made], made[0] is made[1]


@case
def names_of_class_and_module(x, y):
    class Local:
        GAIN = GAIN

        def f(self):
            return GAIN

    return Local.GAIN + Local().f() + x


@case
def outer_variable_in_the_body(x, y):
    n = 3

    class Local:
        before = n
        own = 4
        after = own + n

    return x * Local.before + Local.after


@case
def printing_body(x, y):
    class Local:
        print("body")
        q = 3

        def f(self):
            return x

    return Local().f() + Local.q


@case
def raising_body(x, y):
    class Local:
        q = {}["a"]

    return x


@case
def raising_body_in_try(x, y):
    try:

        class Local:
            a = x * 2
            q = {}["a"]

    except KeyError as error:
        return x, str(error), error.__traceback__.tb_next.tb_lineno


@case
def deleting_body(x, y):
    class Local:
        q = 3
        r = x * q
        del q

    return Local.r, Local


@case
def frames_of_the_body(x, y):
    class Local:
        a = 1
        names = list(sys._getframe().f_locals)
        caller = sys._getframe().f_back.f_code.co_name
        seen = sorted(vars())

        def f(self):
            return x

    return Local.names, Local.caller, Local.seen, Local().f()


@case
def loop_in_the_body(x, y):
    class Local:
        total = 0
        for i in range(20):
            total += i

    return x * Local.total, Local


@case
def arrays_in_the_body(x, y):
    class Local:
        w = x * 2 + y
        v = w * 3

        def f(self):
            return self.v - x

    return Local().f(), Local


@case
def branch_on_arrays_in_the_body(x, y):
    class Local:
        w = 1 if x.sum() > y.sum() else 2

    return x * Local.w


@case
def descriptor_of_the_programs(x, y):
    class Descriptor:
        def __get__(self, instance, owner):
            return x if instance is None else instance.q

        def __set__(self, instance, value):
            instance.q = value

    class Local:
        d = Descriptor()

    local = Local()
    local.d = y
    return local.d + Local.d, local


@case
def told_its_name(x, y):
    class Descriptor:
        def __set_name__(self, owner, name):
            self.name = owner.__name__ + name

    class Local:
        d = Descriptor()

    return x, Local.d.name


@case
def method_of_a_function_from_outside(x, y):
    class Local:
        apply = Box.apply
        gain = 4

    return Local().apply(x) + y


@case
def bases_that_are_made_here(x, y):
    class First:
        def f(self):
            return x

    class Second(First):
        def f(self):
            return super().f() + y

    class Third(Second, Box):
        pass

    return Third().f() + Third.shared, Third


@case
def property_with_an_error(x, y):
    class Local:
        @property
        def p(self):
            return x

    try:
        Local().p = 3
    except AttributeError as error:
        return x + y, str(error)


@case
def hash_of_instances(x, y):
    class Local:
        def __eq__(self, other):
            return self is other

    class Key:
        def __hash__(self):
            return 3

    made = Local()
    return x + (made == made), len({Key(): 1}), Local.__hash__


class Meta(type):
    def __call__(cls, *arguments):
        made = super().__call__(*arguments)
        made.tag = 3
        return made

    @property
    def doubled(cls):
        return cls.own * 2


class Registered:
    kinds: ClassVar[list[Any]] = []

    def __init_subclass__(cls, *, factor=1, **options):
        super().__init_subclass__(**options)
        cls.factor = factor


class Kept:
    kinds: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, name):
        Kept.kinds[name] = cls


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self, a): ...

    def twice(self, a):
        return self.area(a) * 2


@case
def metaclass(x, y):
    class Local(metaclass=Meta):
        own = 5

    return x * Local().tag + y * Local.doubled, Local, type(Local)


@case
def inherited_metaclass(x, y):
    class First(metaclass=Meta):
        own = 5

    class Local(First):
        def f(self):
            return x * self.own

    return Local().f() + y, Local, type(Local)


class Tagging(type):
    def __new__(mcls, name, bases, names, **keywords):
        names["tag"] = len(name)
        made = super().__new__(mcls, name, bases, names)
        made.keywords = keywords
        return made


class Counting(type):
    made = 0

    def __init__(cls, name, bases, names):
        super().__init__(name, bases, names)
        cls.number = len(bases) + 1


class Preparing(type):
    @classmethod
    def __prepare__(mcls, name, bases, **keywords):
        return {"prepared": len(name), **keywords}

    def __new__(mcls, name, bases, names, gain=1):
        return type.__new__(mcls, name, bases, dict(names))

    def __init__(cls, name, bases, names, gain=1):
        cls.gain = gain


@case
def metaclass_that_makes(x, y):
    class Local(metaclass=Tagging):
        def __init__(self, gain):
            self.gain = gain

    class More(Local, other=3):
        def __init__(self, gain):
            super().__init__(gain + 1)

    return x * More(2).gain + y * More.tag, Local, More, More.keywords


@case
def metaclass_that_initialises(x, y):
    class Local(metaclass=Counting):
        own = 5

    class More(Local):
        pass

    return x * Local.number + y * More.number, Local, More, Counting.made


@case
def metaclass_that_prepares(x, y):
    class Local(metaclass=Preparing, gain=4):
        twice = prepared * 2  # noqa: F821

    return x * Local.gain + y * Local.twice, Local, Local.prepared


@case
def metaclass_called(x, y):
    local = Tagging("Local", (Box,), {"own": 3}, flag=True)
    return local().apply(x) * local.own + y * local.tag, local, local.keywords


@case
def metaclass_that_gives_something_else(x, y):
    class Giving(type):
        def __new__(mcls, name, bases, names):
            return len(names)

    class Local(metaclass=Giving):
        own = 3

    return x * Local + y


@case
def abstract_base(x, y):
    class Local(Shape):
        def area(self, a):
            return a * 3

    return Local().twice(x) + y, Local, isinstance(Local(), Shape), issubclass(Local, Shape), Local.__abstractmethods__


@case
def still_abstract(x, y):
    class Local(Shape):
        @abc.abstractmethod
        def more(self): ...

    return Local, sorted(Local.__abstractmethods__), x + y


@case
def abstract_is_not_made(x, y):
    class Local(Shape):
        pass

    return Local().area(x)


@case
def told_base(x, y):
    class Local(Registered, factor=3):
        pass

    class Other(Registered):
        pass

    class Third(Local, factor=y):
        pass

    return x * Local.factor + Other.factor + Third.factor, Local, Third


@case
def base_that_keeps_classes(x, y):
    class Local(Kept, name="local"):
        def f(self):
            return x

    return Kept.kinds["local"]().f() + y, Kept.kinds["local"] is Local, list(Kept.kinds)


@case
def base_that_leads_to_its_subclass(x, y):
    class First:
        @property
        def p(self):
            return Second, p

        def f(self):
            return Second

    class Second(First):
        pass

    p = vars(First)["p"]
    made = Second()
    print(end="")
    return x, made.f() is Second, type(made) is Second, made.p[0] is Second, made.p[1] is vars(First)["p"], Second.__bases__[0] is First


@case
def wrong_keyword(x, y):
    class Local(Registered, other=3):
        pass

    return x


@case
def keyword_for_object(x, y):
    class Local(Box, other=3):
        pass

    return x


@case
def told_base_of_this_function(x, y):
    class Base:
        def __init_subclass__(cls, **options):
            cls.options = options
            cls.own = x

    class Local(Base, a=1, b=y):
        pass

    return Local.own + Local.options["b"], Local


def shown(value: Any, depth: int = 0) -> Any:
    """What can be compared of classes, functions and instances: two calls make two of each."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.tolist()
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *(shown(part, depth) for part in value)]
    if isinstance(value, type) and (value.__module__ != __name__ or value in (Box, Meta, Registered, Kept, Shape)):
        return value
    if isinstance(value, type):
        contents = [(name, shown(part, depth + 1)) for name, part in vars(value).items() if name != "_abc_impl"] if depth < 3 else []
        return value.__name__, value.__qualname__, value.__module__, value.__doc__, shown(value.__mro__[1:], 3), contents
    if isinstance(value, (staticmethod, classmethod)):
        return type(value).__name__, shown(value.__func__, depth)
    if isinstance(value, property):
        return "property", shown(value.fget, depth), shown(value.fset, depth), value.__doc__
    if hasattr(value, "__code__"):
        cells = [shown(cell.cell_contents, depth + 2) for cell in value.__closure__ or ()]
        return "function", value.__qualname__, cells, shown(value.__defaults__, depth), value.__module__, value.__code__
    if "<locals>" in type(value).__qualname__ and depth < 4:
        return "instance", shown(type(value), depth + 1), [(name, shown(part, depth + 2)) for name, part in vars(value).items()]
    return repr(value).partition(" at 0x")[0]


def told(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return shown(function(*arguments))
    except Exception as error:
        return type(error).__name__, str(error), [entry.lineno for entry in traceback.extract_tb(error.__traceback__)][1:]


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("name", CASES)
def test_comes_to_the_same(name: str, backend: str) -> None:
    captured = evalframe.jit(CASES[name], backend=backend)
    for arguments in CALLS:
        assert told(captured, arguments) == told(CASES[name], arguments)


@pytest.mark.parametrize("name", CASES)
def test_may_be_left_before_every_node(name: str) -> None:
    captured = evalframe.jit(CASES[name], backend="reference")
    told(captured, CALLS[0])
    for node in range(max((entry["nodes"] for entry in _core.jit_entries(captured)), default=0)):
        with leaving_before(node):
            for arguments in CALLS[:2]:
                assert told(captured, arguments) == told(CASES[name], arguments), node


BREAKING = {
    "base_that_leads_to_its_subclass",
    "still_abstract",
    "abstract_base",
    "abstract_is_not_made",
    "wrong_keyword",
    "keyword_for_object",
    "exception_class_raised",
    "printing_body",
    "raising_body",
    "raising_body_in_try",
    "deleting_body",
    "frames_of_the_body",
    "loop_in_the_body",
    "branch_on_arrays_in_the_body",
    "told_its_name",
    "own_new",
    "property_with_an_error",
    "hash_of_instances",
    "slots",
}


@pytest.mark.parametrize("name", [name for name in CASES if name not in BREAKING])
def test_is_one_graph(name: str) -> None:
    CASES[name](X, Y)  # what is kept from call to call is there
    captured = evalframe.jit(CASES[name], backend="reference")
    for _ in range(3):
        captured(X, Y)
    assert len(_core.jit_entries(captured)) == 1, _core.jit_breaks(captured)


@pytest.mark.parametrize("name", ["printing_body", "deleting_body", "branch_on_arrays_in_the_body", "loop_in_the_body"])
def test_a_body_that_breaks_is_one_break(name: str) -> None:
    captured = evalframe.jit(CASES[name], backend="reference")
    captured(X, Y)
    assert len(_core.jit_entries(captured)) <= 2, _core.jit_breaks(captured)


def test_each_call_makes_another_class() -> None:
    captured = evalframe.jit(CASES["class_and_instance_returned"], backend="reference")
    made = [captured(X, Y) for _ in range(4)]
    assert len({id(result[0]) for result in made}) == 4
    assert all(type(result[1]) is result[0] and result[1].me() is result[0] and result[1].inside() is result[0] for result in made)
    made[0][0].z = None
    assert made[1][0].z is X
    assert captured(X, Y)[0].z is X


def test_a_class_is_among_those_of_its_base() -> None:
    def function(x):
        class Local(Box):
            pass

        return Local, x + 1

    captured = evalframe.jit(function, backend="reference")
    for _ in range(3):
        made = captured(X)[0]
        assert made in Box.__subclasses__()


def test_what_a_recording_holds() -> None:
    captured = evalframe.jit(CASES["arrays_in_the_body"], backend="reference")
    x, y = X.copy(), Y.copy()
    weak = [weakref.ref(x), weakref.ref(y), weakref.ref(captured(x, y)[1])]
    del x, y
    gc.collect()
    assert [one() is None for one in weak] == [True, True, True]


def test_bases_of_several_kinds() -> None:
    def function(base, x):
        class Local(base):
            def f(self):
                return x * self.shared

        return Local().f()

    class Other(Box):
        shared = 8

    captured = evalframe.jit(function, backend="reference")
    for base in (Box, Other, Box, Other, Other):
        assert np.array_equal(captured(base, X), function(base, X))


@pytest.mark.parametrize("base", [None, 3])
def test_what_is_no_class_is_no_base(base: Any) -> None:
    captured = evalframe.jit(lambda base: type("Made", (base,), {}), backend="reference")
    for _ in range(2):
        with pytest.raises(TypeError):
            captured(base)


def tells_names_under_a_metaclass(fails: bool) -> Any:
    seen = []

    class Meta(type):
        pass

    class Told:
        def __set_name__(self, owner: Any, name: str) -> None:
            seen.append((owner.__name__, name))
            if fails:
                raise ValueError(name)

    try:

        class Made(metaclass=Meta):
            first = Told()
            second = Told()
    except (ValueError, RuntimeError) as error:
        return seen, type(error), type(error.__cause__), getattr(error, "__notes__", None) and str(error)
    return seen


@pytest.mark.parametrize("fails", [False, True])
def test_values_are_told_their_names_under_a_metaclass(fails: bool) -> None:
    captured = evalframe.jit(tells_names_under_a_metaclass, backend="reference")
    for _ in range(2):
        assert captured(fails) == tells_names_under_a_metaclass(fails)


class Losing(type):
    def __new__(mcls, name, bases, names):
        return super().__new__(mcls, name, bases, {key: value for key, value in names.items() if key != "__classcell__"})


class Confusing(type):
    @classmethod
    def __prepare__(mcls, name, bases):
        return 3


class Names(dict):
    pass


class Keeping(type):
    @classmethod
    def __prepare__(mcls, name, bases):
        return Names(own=3)


def loses_its_cell(x: Any) -> Any:
    class Local(metaclass=Losing):
        def f(self):
            return super().__repr__()

    return x


def has_no_mapping(x: Any) -> Any:
    class Local(metaclass=Confusing):
        pass

    return x


def conflicts(x: Any) -> Any:
    class First(metaclass=Tagging):
        pass

    class Second(metaclass=Counting):
        pass

    class Local(First, Second):
        pass

    return x


def takes_no_keywords(x: Any) -> Any:
    class Local(metaclass=Counting, flag=True):
        pass

    return x


def has_names_of_its_own(x: Any) -> Any:
    class Local(metaclass=Keeping):
        other = 4

    return x * Local.own + Local.other


def came_of(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error), [frame.lineno for frame in traceback.extract_tb(error.__traceback__)][1:]


@pytest.mark.parametrize("function", [loses_its_cell, has_no_mapping, conflicts, takes_no_keywords, has_names_of_its_own])
def test_metaclasses_that_refuse_or_want_more(function: Any) -> None:
    captured = evalframe.jit(function, backend="reference")
    for _ in range(3):
        assert repr(came_of(captured, X)) == repr(came_of(function, X))


def test_methods_of_metaclasses_are_guarded() -> None:
    def make(x: Any) -> Any:
        class Local(metaclass=Replaced):
            own = 2

        return x * Local.own

    class Replaced(type):
        def __new__(mcls, name, bases, names):
            return super().__new__(mcls, name, bases, names)

    captured = evalframe.jit(make, backend="reference")
    assert captured(X).tolist() == (X * 2).tolist() == captured(X).tolist()
    Replaced.__new__ = lambda mcls, name, bases, names: type.__new__(mcls, name, bases, {**names, "own": 7})
    assert captured(X).tolist() == (X * 7).tolist() == captured(X).tolist()
    Replaced.__init__ = lambda cls, name, bases, names: setattr(cls, "own", 9)
    assert captured(X).tolist() == (X * 9).tolist() == captured(X).tolist()
    del Replaced.__init__
    Replaced.__prepare__ = classmethod(lambda mcls, name, bases: {"other": 1})
    assert captured(X).tolist() == (X * 7).tolist() == captured(X).tolist()
