"""Constructs: classes, instances, and how attributes are found."""

from __future__ import annotations

import abc
import functools
import types
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class Box:
    shared = 3
    made: ClassVar[list[int]] = []

    def __init__(self, gain: float) -> None:
        self.gain = gain
        self.last: Any = None

    @property
    def twice(self) -> float:
        return self.gain * 2

    @twice.setter
    def twice(self, value: float) -> None:
        self.gain = value / 2

    @classmethod
    def of_two(cls) -> Box:
        return cls(2.0)

    @staticmethod
    def plus(a: Any, b: Any) -> Any:
        return a + b

    def apply(self, a: Any) -> Any:
        return a * self.gain


class Louder(Box):
    def __init__(self, gain: float) -> None:
        super().__init__(gain * 2)

    def apply(self, a: Any) -> Any:
        return super().apply(a) + 1


class Slotted:
    __slots__ = ("gain", "offset")

    def __init__(self, gain: float, offset: float) -> None:
        self.gain, self.offset = gain, offset


class Vector:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.a + other.a, self.b + other.b)

    def __mul__(self, n: Any) -> Vector:
        return Vector(self.a * n, self.b * n)

    __rmul__ = __mul__

    def __neg__(self) -> Vector:
        return Vector(-self.a, -self.b)

    def __iadd__(self, other: Vector) -> Vector:
        self.a = self.a + other.a
        return self

    def __matmul__(self, other: Vector) -> Any:
        return self.a * other.a + self.b * other.b

    def __getitem__(self, i: int) -> Any:
        return (self.a, self.b)[i]

    def __setitem__(self, i: int, value: Any) -> None:
        if i == 0:
            self.a = value
        else:
            self.b = value

    def __len__(self) -> int:
        return 2

    def __contains__(self, n: int) -> bool:
        return n == 2

    def __iter__(self) -> Any:
        return iter((self.a, self.b))

    def __call__(self, n: Any) -> Any:
        return self.a + self.b * n

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vector)

    def __lt__(self, other: Vector) -> bool:
        return False

    def __hash__(self) -> int:
        return 7

    def __index__(self) -> int:
        return 3

    def __repr__(self) -> str:
        return "vector"

    def __format__(self, spec: str) -> str:
        return f"vector as {spec}"


class Fallback:
    def __init__(self) -> None:
        self.known = 2

    def __getattr__(self, name: str) -> Any:
        return len(name)


class Watching:
    def __init__(self) -> None:
        object.__setattr__(self, "names", [])

    def __setattr__(self, name: str, value: Any) -> None:
        self.names.append(name)
        object.__setattr__(self, name, value)


class Intercepting:
    gain = 2

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


class Positive:
    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(instance, self.name, abs(value))


class Described:
    gain = Positive()

    def __init__(self, gain: float) -> None:
        self.gain = gain


class Caching:
    def __init__(self, a: Any) -> None:
        self.a = a

    @functools.cached_property
    def doubled(self) -> Any:
        return self.a * 2


class Meta(type):
    def __call__(cls, *arguments: Any) -> Any:
        made = super().__call__(*arguments)
        made.tag = 3
        return made

    @property
    def doubled(cls) -> int:
        return 2


class Making(type):
    @classmethod
    def __prepare__(mcls, name: Any, bases: Any, **keywords: Any) -> Any:
        return {"prepared": True}

    def __new__(mcls, name: Any, bases: Any, names: Any, gain: Any = 1) -> Any:
        made = super().__new__(mcls, name, bases, names)
        made.gain = gain
        return made

    def __init__(cls, name: Any, bases: Any, names: Any, gain: Any = 1) -> None:
        super().__init__(name, bases, names)


class Initialising(type):
    def __init__(cls, name: Any, bases: Any, names: Any) -> None:
        super().__init__(name, bases, names)
        cls.more = len(names)


class WithMeta(metaclass=Meta):
    pass


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self, a: Any) -> Any: ...


class Square(Shape):
    def area(self, a: Any) -> Any:
        return a * a


class Registered:
    kinds: ClassVar[list[str]] = []

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__()
        cls.factor = options.get("factor", 1)


class Twofold(Registered, factor=2):
    pass


class Holder(Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item


class Single:
    instance: Any = None

    def __new__(cls) -> Any:
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance


class A:
    def walk(self, a: Any) -> Any:
        return a + 1


class B(A):
    def walk(self, a: Any) -> Any:
        return super().walk(a) * 2


class C(A):
    def walk(self, a: Any) -> Any:
        return super().walk(a) * 3


class Diamond(B, C):
    pass


class Point(NamedTuple):
    a: Any
    b: Any


class Row(list):
    def total(self) -> Any:
        return self[0] + self[1]


class Table(dict):
    def __missing__(self, key: str) -> Any:
        return len(key)


class Level(int):
    def doubled(self) -> int:
        return self * 2


class Name(str):
    def size(self) -> int:
        return len(self)


class Pair(tuple):
    __slots__ = ()


@functools.total_ordering
class Ranked:
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranked) and self.rank == other.rank

    def __lt__(self, other: Ranked) -> bool:
        return self.rank < other.rank


BOX = Box(2.0)
SLOTTED = Slotted(2.0, 1.0)
FALLBACK = Fallback()
INTERCEPTING = Intercepting()
DESCRIBED = Described(-2.0)


def reset() -> None:
    BOX.gain, BOX.last = 2.0, None
    Box.shared = 3
    SLOTTED.gain = 2.0
    DESCRIBED.gain = -2.0
    Single.instance = None


def state() -> Any:
    return BOX.gain, BOX.last, Box.shared, sorted(vars(BOX)), SLOTTED.gain, DESCRIBED.gain, Single.instance is None


def property_read(x: Any, y: Any) -> Any:
    return x * BOX.twice


def property_set(x: Any, y: Any) -> Any:
    BOX.twice = 6.0
    return x * BOX.gain


def attribute_read(x: Any, y: Any) -> Any:
    return x * BOX.gain


def attribute_store(x: Any, y: Any) -> Any:
    BOX.last = x + 1
    return BOX.last * 2


def attribute_increment(x: Any, y: Any) -> Any:
    z = x + y
    BOX.gain += 1.5
    return z * BOX.gain


def attribute_new_and_deleted(x: Any, y: Any) -> Any:
    box = Box(2.0)
    box.extra = x + 1
    z = box.extra * y
    del box.extra
    return z * (2 if hasattr(box, "extra") else 3)


def construction(x: Any, y: Any) -> Any:
    return x * Box(2.0).gain


def class_attribute(x: Any, y: Any) -> Any:
    return x * Box.shared + BOX.shared


def class_attribute_store(x: Any, y: Any) -> Any:
    z = x + y
    Box.shared = 5
    return z * BOX.shared


def method(x: Any, y: Any) -> Any:
    return BOX.apply(x) + y


def bound_method_value(x: Any, y: Any) -> Any:
    apply = BOX.apply
    return apply(x) + apply(y)


def function_of_class(x: Any, y: Any) -> Any:
    return Box.apply(BOX, x) + y


def class_method(x: Any, y: Any) -> Any:
    return x * Box.of_two().gain + y


def static_method(x: Any, y: Any) -> Any:
    return Box.plus(x, y) + BOX.plus(x, 1)


def super_call(x: Any, y: Any) -> Any:
    return Louder(2.0).apply(x) + y


def diamond_inheritance(x: Any, y: Any) -> Any:
    return Diamond().walk(x) + y


def slots(x: Any, y: Any) -> Any:
    return x * SLOTTED.gain + SLOTTED.offset


def slots_store(x: Any, y: Any) -> Any:
    z = x + y
    SLOTTED.gain = 4.0
    return z * SLOTTED.gain


def slots_construction(x: Any, y: Any) -> Any:
    made = Slotted(x, y)
    return made.gain + made.offset


def operators(x: Any, y: Any) -> Any:
    v = Vector(x, y) + Vector(y, x)
    return v.a * v.b


def reflected_operator(x: Any, y: Any) -> Any:
    v = 2 * Vector(x, y)
    return v.a + v.b


def unary_operator(x: Any, y: Any) -> Any:
    v = -Vector(x, y)
    return v.a + v.b


def inplace_operator(x: Any, y: Any) -> Any:
    v = Vector(x, y)
    v += Vector(y, y)
    return v.a + v.b


def matmul_operator(x: Any, y: Any) -> Any:
    return Vector(x, y) @ Vector(y, x)


def item_protocol(x: Any, y: Any) -> Any:
    v = Vector(x, y)
    v[0] = v[1] + 1
    return v[0] * y


def length_protocol(x: Any, y: Any) -> Any:
    return x * len(Vector(x, y)) + y


def contains_protocol(x: Any, y: Any) -> Any:
    return x * 2 if 2 in Vector(x, y) else y


def iter_protocol(x: Any, y: Any) -> Any:
    a, b = Vector(x, y)
    return a * 2 + b


def call_protocol(x: Any, y: Any) -> Any:
    return Vector(x, y)(3)


def truth_protocol(x: Any, y: Any) -> Any:
    return x * 2 if Vector(x, y) else y


def eq_protocol(x: Any, y: Any) -> Any:
    return x * 2 if Vector(x, y) == Vector(y, x) else y


def lt_protocol(x: Any, y: Any) -> Any:
    return x * 2 if Vector(x, y) < Vector(y, x) else y + 1


def hash_protocol(x: Any, y: Any) -> Any:
    d = {Vector(x, y): 2}
    return x * hash(Vector(x, y)) + len(d)


def index_protocol(x: Any, y: Any) -> Any:
    return x * (10, 20, 30, 40)[Vector(x, y)] + y


def repr_protocol(x: Any, y: Any) -> Any:
    return x * len(repr(Vector(x, y))) + y


def format_protocol(x: Any, y: Any) -> Any:
    return x * len(f"{Vector(x, y):wide}") + y


def getattr_fallback(x: Any, y: Any) -> Any:
    return x * FALLBACK.known + FALLBACK.missing


def setattr_hook(x: Any, y: Any) -> Any:
    watching = Watching()
    watching.a = x + 1
    return watching.a * len(watching.names)


def getattribute_hook(x: Any, y: Any) -> Any:
    return x * INTERCEPTING.gain + y


def descriptor_read(x: Any, y: Any) -> Any:
    return x * DESCRIBED.gain + y


def descriptor_store(x: Any, y: Any) -> Any:
    z = x + y
    DESCRIBED.gain = -5.0
    return z * DESCRIBED.gain


def cached_property(x: Any, y: Any) -> Any:
    caching = Caching(x)
    return caching.doubled + caching.doubled * y


def metaclass_call(x: Any, y: Any) -> Any:
    return x * WithMeta().tag + y


def metaclass_property(x: Any, y: Any) -> Any:
    return x * WithMeta.doubled + y


def abstract_base(x: Any, y: Any) -> Any:
    shape = Square()
    return shape.area(x) + y if isinstance(shape, Shape) else y


def init_subclass_attribute(x: Any, y: Any) -> Any:
    return x * Twofold.factor + y


def generic_class(x: Any, y: Any) -> Any:
    return Holder[int](x).item + Holder(y).item


def singleton_new(x: Any, y: Any) -> Any:
    return x * 2 if Single() is Single() else y


def named_tuple_class(x: Any, y: Any) -> Any:
    point = Point(x, y)
    return point.a + point[1]


def named_tuple_replace(x: Any, y: Any) -> Any:
    point = Point(x, y)._replace(a=y)
    a, b = point
    return a + b * 2


def list_subclass(x: Any, y: Any) -> Any:
    return Row([x, y]).total() * 2


def dict_subclass(x: Any, y: Any) -> Any:
    table = Table(a=x)
    return table["a"] * table["four"] + y


def int_subclass(x: Any, y: Any) -> Any:
    return x * Level(4).doubled() + y


def str_subclass(x: Any, y: Any) -> Any:
    return x * Name("four").size() + y


def tuple_subclass(x: Any, y: Any) -> Any:
    return Pair((x, y))[0] + 1


def ordering(x: Any, y: Any) -> Any:
    return x * 2 if Ranked(3) >= Ranked(2) else y


def sorted_instances(x: Any, y: Any) -> Any:
    return x * sorted([Ranked(3), Ranked(1)])[0].rank + y


def isinstance_checks(x: Any, y: Any) -> Any:
    return x * 2 if isinstance(BOX, (int, Box)) and not isinstance(BOX, Louder) else y


def type_of_instance(x: Any, y: Any) -> Any:
    return x * type(BOX)(3.0).gain if type(BOX) is Box else y


def getattr_by_name(x: Any, y: Any) -> Any:
    return x * getattr(BOX, "gain") + getattr(BOX, "missing", 1)


def setattr_by_name(x: Any, y: Any) -> Any:
    z = x + y
    setattr(BOX, "gain", 5.0)
    return z * BOX.gain


def hasattr_by_name(x: Any, y: Any) -> Any:
    return x * 2 if hasattr(BOX, "gain") and not hasattr(BOX, "missing") else y


def vars_of_instance(x: Any, y: Any) -> Any:
    return x * vars(BOX)["gain"] + y


def dict_of_instance(x: Any, y: Any) -> Any:
    return x * BOX.__dict__["gain"] + y


def dunder_class(x: Any, y: Any) -> Any:
    return x * len(BOX.__class__.__name__) + y


def class_statement(x: Any, y: Any) -> Any:
    class Local:
        gain = 2

        def apply(self, a: Any) -> Any:
            return a * self.gain

    return Local().apply(x) + y


def class_statement_with_property(x: Any, y: Any) -> Any:
    class Local:
        def __init__(self, a: Any) -> None:
            self.a = a

        @property
        def twice(self) -> Any:
            return self.a * 2

    return Local(x).twice + y


def class_statement_with_base(x: Any, y: Any) -> Any:
    class Local(Box):
        def apply(self, a: Any) -> Any:
            return super().apply(a) - y

    return Local(3.0).apply(x)


def class_statement_with_metaclass(x: Any, y: Any) -> Any:
    class Local(metaclass=Meta):
        pass

    return x * Local().tag + y


def class_statement_with_metaclass_that_makes(x: Any, y: Any) -> Any:
    class Local(metaclass=Making, gain=3):
        def apply(self, a: Any) -> Any:
            return a * self.gain

    return Local().apply(x) + y


def class_statement_with_metaclass_that_initialises(x: Any, y: Any) -> Any:
    class Local(metaclass=Initialising):
        own = 2

    return x * Local.own + y * Local.more


class Made(metaclass=Making):
    gain: int


def class_statement_of_inherited_metaclass(x: Any, y: Any) -> Any:
    class Local(Made):
        def __init__(self) -> None:
            super().__init__()
            self.more = x * self.gain

    return Local().more + y


def metaclass_called_with_names(x: Any, y: Any) -> Any:
    made, finished = Making("Local", (), {"own": 3}, gain=2), Initialising("Local", (), {"own": x, "__module__": __name__})
    return finished.own * made.own + y * made.gain * finished.more


def class_statement_abstract(x: Any, y: Any) -> Any:
    class Local(Shape):
        def area(self, a: Any) -> Any:
            return a * 3

    return Local().area(x) + y


def class_statement_with_subclass_hook(x: Any, y: Any) -> Any:
    class Local(Registered, factor=3):
        pass

    return x * Local.factor + y


def type_with_three_arguments(x: Any, y: Any) -> Any:
    made = type("Made", (Box,), {"shared": 7})
    return x * made.shared + y


def simple_namespace(x: Any, y: Any) -> Any:
    space = types.SimpleNamespace(a=x, b=2)
    space.c = y
    return space.a * space.b + space.c


def method_type(x: Any, y: Any) -> Any:
    bound = types.MethodType(lambda self, a: a * self, 3)
    return bound(x) + y


def mapping_proxy(x: Any, y: Any) -> Any:
    view = types.MappingProxyType({"a": x})
    return view["a"] + y


def protocol_check(x: Any, y: Any) -> Any:
    class Has(Protocol):
        def apply(self, a: Any) -> Any: ...

    return BOX.apply(x) + y
