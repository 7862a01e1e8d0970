"""Constructs: dataclasses and enums."""

from __future__ import annotations

import dataclasses
import enum
import typing
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Setting:
    gain: float
    offset: float = 1.0
    names: list[str] = field(default_factory=list)

    def apply(self, a: Any) -> Any:
        return a * self.gain + self.offset


@dataclass(frozen=True)
class Frozen:
    a: int
    b: int = 2


@dataclass(order=True)
class Ordered:
    rank: int
    name: str = field(default="a", compare=False)


@dataclass(slots=True, kw_only=True)
class Slotted:
    a: Any
    b: Any = 2


@dataclass
class Derived(Setting):
    extra: float = 3.0

    def __post_init__(self) -> None:
        self.total = self.gain + self.extra


class Color(enum.Enum):
    RED = 1
    GREEN = 2

    @property
    def doubled(self) -> int:
        return self.value * 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Permission(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Mode(str, enum.Enum):
    FAST = "fast"


class Options(typing.TypedDict):
    gain: float


SETTING = Setting(2.0)


def reset() -> None:
    SETTING.gain, SETTING.names = 2.0, []


def state() -> Any:
    return SETTING.gain, list(SETTING.names)


def dataclass_construction(x: Any, y: Any) -> Any:
    setting = Setting(2.0)
    return setting.apply(x) + y


def dataclass_of_arrays(x: Any, y: Any) -> Any:
    setting = Setting(x, offset=y)
    return setting.gain * setting.offset


def dataclass_from_outside(x: Any, y: Any) -> Any:
    return SETTING.apply(x) + y


def dataclass_store(x: Any, y: Any) -> Any:
    z = x + y
    SETTING.gain = 4.0
    return z * SETTING.gain


def dataclass_default_factory(x: Any, y: Any) -> Any:
    setting = Setting(2.0)
    setting.names.append("a")
    return x * len(setting.names) + y


def dataclass_eq(x: Any, y: Any) -> Any:
    return x * 2 if Setting(1.0) == Setting(1.0) and Setting(1.0) != Setting(2.0) else y


def dataclass_repr(x: Any, y: Any) -> Any:
    return x * len(repr(Frozen(1))) + y


def dataclass_frozen(x: Any, y: Any) -> Any:
    frozen = Frozen(3)
    return x * frozen.a + y * frozen.b


def dataclass_frozen_store(x: Any, y: Any) -> Any:
    z = x + y
    try:
        Frozen(3).a = 4  # type: ignore[misc]
    except dataclasses.FrozenInstanceError:
        z = z * 2
    return z


def dataclass_hash(x: Any, y: Any) -> Any:
    d = {Frozen(1): 5}
    return x * d[Frozen(1, 2)] + y


def dataclass_order(x: Any, y: Any) -> Any:
    return x * 2 if Ordered(1) < Ordered(2, "b") else y


def dataclass_slots(x: Any, y: Any) -> Any:
    slotted = Slotted(a=x)
    slotted.b = y
    return slotted.a + slotted.b


def dataclass_inherited(x: Any, y: Any) -> Any:
    derived = Derived(2.0)
    return derived.apply(x) * derived.total + y


def dataclass_replace(x: Any, y: Any) -> Any:
    frozen = dataclasses.replace(Frozen(3), b=7)
    return x * frozen.a + y * frozen.b


def dataclass_asdict(x: Any, y: Any) -> Any:
    return x * dataclasses.asdict(Frozen(3))["a"] + y


def dataclass_astuple(x: Any, y: Any) -> Any:
    a, b = dataclasses.astuple(Frozen(3))
    return x * a + y * b


def dataclass_fields(x: Any, y: Any) -> Any:
    return x * len(dataclasses.fields(Frozen)) + y


def dataclass_statement(x: Any, y: Any) -> Any:
    @dataclass
    class Local:
        a: Any
        b: Any = 2

    local = Local(x)
    return local.a * local.b + y


def enum_member(x: Any, y: Any) -> Any:
    return x * Color.RED.value + y * len(Color.GREEN.name)


def enum_by_value(x: Any, y: Any) -> Any:
    return x * 2 if Color(2) is Color.GREEN else y


def enum_by_name(x: Any, y: Any) -> Any:
    return x * 2 if Color["RED"] is Color.RED else y


def enum_comparison(x: Any, y: Any) -> Any:
    color = Color.RED
    return x * 2 if color == Color.RED and color != Color.GREEN else y


def enum_property(x: Any, y: Any) -> Any:
    return x * Color.GREEN.doubled + y


def enum_loop(x: Any, y: Any) -> Any:
    for color in Color:
        x = x + y * color.value
    return x


def enum_as_key(x: Any, y: Any) -> Any:
    d = {Color.RED: x, Color.GREEN: y}
    return d[Color.RED] - d[Color.GREEN]


def enum_of_ints(x: Any, y: Any) -> Any:
    return x * Level.HIGH + y if Level.HIGH > Level.LOW else y


def enum_flags(x: Any, y: Any) -> Any:
    both = Permission.READ | Permission.WRITE
    return x * 2 if Permission.READ in both and both & Permission.WRITE else y


def enum_of_strings(x: Any, y: Any) -> Any:
    return x * 2 if Mode.FAST == "fast" and Mode("fast") is Mode.FAST else y


def enum_statement(x: Any, y: Any) -> Any:
    class Local(enum.Enum):
        A = 1
        B = 2

    return x * Local.B.value + y


def enum_in_match(x: Any, y: Any) -> Any:
    match Color.GREEN:
        case Color.RED:
            return x
        case Color.GREEN:
            return x * 2 + y


def typed_dict(x: Any, y: Any) -> Any:
    options = Options(gain=2.0)
    return x * options["gain"] + y


def typing_cast(x: Any, y: Any) -> Any:
    return typing.cast(Any, x) + y
