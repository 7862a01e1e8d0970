"""What functions read from outside is changed between their calls, by chance: captured they come to what they come to plainly.

``python tests/test_change_fuzz.py SEED FUNCTIONS`` runs more of them.
"""

from __future__ import annotations

import collections
import functools
import math
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from fuzz.shown import Shown

WORLD = '''
import numpy as np, collections, functools, math
G = 2
H = 2.5
NAME = 'ab'
ROW = [1, 2, 3]
TAB = {'a': 1, 'b': 2}
PAIR = (1, 2)
ARR = np.arange(3.0)
SET = {1, 2}
NS = types.SimpleNamespace(gain=2, off=1)

class Base:
    kind = 'base'
    scale = 2
    table = {'a': 1}

    def __init__(self, n=1):
        self.n = n
        self.w = [n]

    def act(self, x):
        return x * self.scale + self.n

    @property
    def prop(self):
        return self.n * 2

    @classmethod
    def cm(cls, x):
        return x + cls.scale

    @staticmethod
    def sm(x):
        return x - 1

    def __len__(self):
        return self.n

    def __add__(self, o):
        return self.n + o

    def __call__(self, x):
        return x + self.n

    def __getitem__(self, i):
        return i + self.n

    def __bool__(self):
        return True

    def __eq__(self, o):
        return isinstance(o, Base) and self.n == o.n
    __hash__ = object.__hash__

class Child(Base):
    extra = 3

    def act(self, x):
        return super().act(x) + self.extra

class Slot:
    __slots__ = ('v',)

    def __init__(self, v):
        self.v = v
OBJ = Child(3)
OB2 = Base(2)
SL = Slot(4)

def helper(x, k=2, *, by=1):
    return x * k + by

def outer_():
    cell = 5

    def inner(x):
        return x + cell

    def setter(v):
        nonlocal cell
        cell = v
    return (inner, setter)
INNER, SETTER = outer_()

def deco(f):

    @functools.wraps(f)
    def w(*a, **k):
        return f(*a, **k) + 1
    return w

@deco
def wrapped(x):
    return x * 3
PART = functools.partial(helper, k=3)

@functools.lru_cache(None)
def cached(n):
    return n * 7
'''
READS = [
    "x * G", "x + H", "len(NAME)", "NAME.upper()", "ROW[0] * x", "sum(ROW)", "len(ROW)", "TAB['a'] + x",
    "TAB.get('c', 0)", "list(TAB)", "[k for k in TAB]", "PAIR[1] * x", "ARR + x", "ARR.sum()", "1 in SET", "len(SET)",
    "NS.gain * x + NS.off", "OBJ.act(x)", "OBJ.kind", "OBJ.scale * x", "OBJ.prop", "OBJ.cm(x)", "OBJ.sm(x)",
    "len(OBJ)", "OBJ + 1", "OBJ(x)", "OBJ[2]", "bool(OBJ)", "OB2.act(x)", "OB2.n * x", "OB2.w[0]", "Child.kind",
    "Base.scale * x", "isinstance(OBJ, Base)", "isinstance(OBJ, Child)", "type(OBJ).__name__",
    "getattr(OBJ, 'scale')", "hasattr(OBJ, 'fresh')", "getattr(OBJ, 'fresh', 0)", "helper(x)", "helper(x, 3, by=2)",
    "INNER(x)", "wrapped(x)", "PART(x)", "cached(3)", "SL.v * x", "abs(-G)", "max(G, H)", "math.sqrt(4.0) * x",
    "np.sum(x)", "np.abs(x)", "OBJ.table['a']", "OBJ == OB2", "Base(4).act(x)", "Child(5).prop",
    "[o.act(x) for o in (OBJ, OB2)]", "OBJ.w[-1]", "vars(OBJ).get('n')", "Base.__name__", "issubclass(Child, Base)",
    "helper.__defaults__", "helper.__name__", "str(G)", "f'{G}{H}'", "len(x)", "x.shape[0] * G", "sorted(ROW)",
    "any(ROW)", "ROW[-1] if ROW else 0", "G if G > 2 else H", "TAB is NS", "callable(OBJ)", "ARR.dtype", "ARR.shape",
    "ARR.flags.writeable", "round(H)", "list(zip(ROW, PAIR))", "dict(TAB)", "'a' in TAB", "NS.__dict__",
    "super(Child, OBJ).act(x)", "OBJ.act.__func__ is Child.act", "Child.__mro__[1].__name__", "SET | {5}",
    "list(map(abs, ROW))", "x[:G]", "np.float32(G) * x", "OBJ.__class__.kind", "min(ROW)", "Base.sm(x)", "Base.cm(x)",
    "Child.extra",
]  # fmt: skip
CHANGES = [
    "world.G = 3", "world.G = 2", "world.G = 2.0", "world.G = 's'", "world.H = 1.5", "world.H = 3",
    "world.NAME = 'xyz'", "world.ROW.append(9)", "world.ROW[0] = 7", "world.ROW = [4]", "world.ROW.clear()",
    "world.TAB['a'] = 5", "world.TAB['c'] = 6", "world.TAB.pop('b', 0)", "world.TAB = collections.OrderedDict(a=8)",
    "world.TAB.update(dict(reversed(list(world.TAB.items()))))", "world.PAIR = (5, 6, 7)", "world.PAIR = [3, 4]",
    "world.ARR = np.arange(3)", "world.ARR = np.arange(4.0)[:3]", "world.ARR[0] = 9", "world.ARR = np.ones((1, 3))",
    "world.SET.add(9)", "world.SET.discard(1)", "world.NS.gain = 4",
    "world.NS = types.SimpleNamespace(gain=1, off=0, z=1)", "del world.NS.off", "world.NS.off = 2",
    "world.Base.scale = 5", "world.Child.scale = 6", "del world.Child.scale", "world.OBJ.scale = 8",
    "del world.OBJ.scale", "world.Base.act = lambda s, x: x - s.n", "world.Child.act = world.Base.act",
    "del world.Child.act", "world.OBJ.act = lambda x: x + 100", "del world.OBJ.act", "world.Base.kind = 'k2'",
    "world.Child.kind = 'k3'", "world.OBJ.kind = 'k4'", "world.OBJ.n = 6", "world.OBJ.n = 1.5",
    "world.OBJ = world.Child(9)", "world.OBJ = world.Base(1)", "world.OB2.__class__ = world.Child",
    "world.OBJ.__class__ = world.Base", "world.Base.prop = property(lambda s: 77)", "world.Base.prop = 5",
    "world.Child.prop = property(lambda s: s.n)", "del world.Child.prop", "world.Base.__len__ = lambda s: 2",
    "world.Child.__len__ = lambda s: 3", "world.Base.__add__ = lambda s, o: 'added'",
    "world.Base.__call__ = lambda s, x: x * 2", "world.Child.__call__ = lambda s, x: x * 4",
    "world.Base.__getitem__ = lambda s, i: 'it'", "world.Base.__bool__ = lambda s: False",
    "world.Child.__bool__ = lambda s: False", "world.Base.cm = classmethod(lambda c, x: x * 9)",
    "world.Base.sm = staticmethod(lambda x: x * 8)", "world.Base.__getattr__ = lambda s, n: 'ga' + n",
    "del world.Base.__getattr__", "world.Base.fresh = 1", "world.OBJ.fresh = 2", "del world.OBJ.fresh",
    "del world.Base.fresh", "world.Child.__getattribute__ = lambda s, n: object.__getattribute__(s, n)",
    "del world.Child.__getattribute__", "world.helper.__defaults__ = (5,)", "world.helper.__kwdefaults__ = {'by': 7}",
    "world.helper.__code__ = (lambda x, k=2, *, by=1: x - k - by).__code__",
    "world.helper = lambda x, k=1, by=0: x + k + by", "world.helper.__name__ = 'hh'", "world.SETTER(11)",
    "world.SETTER(2.5)", "world.INNER.__closure__[0].cell_contents = 3", "world.INNER = abs", "world.wrapped = abs",
    "world.wrapped.__closure__[0].cell_contents = lambda x: x * 5",
    "world.PART = functools.partial(world.helper, k=8)", "world.cached = lambda n: n",
    "world.cached.cache_clear() if hasattr(world.cached, 'cache_clear') else 0", "world.SL.v = 9",
    "world.SL = world.Slot(2)", "world.abs = lambda v: 'A'", "del world.abs", "world.len = lambda v: 'L'",
    "del world.len", "world.max = min", "del world.max", "world.sum = lambda v: 0", "del world.sum",
    "world.isinstance = lambda a, b: 'I'", "del world.isinstance", "world.type = lambda o: o.__class__",
    "del world.type", "world.math = types.SimpleNamespace(sqrt=lambda v: 3.0)", "world.math = math",
    "world.np = types.SimpleNamespace(sum=lambda v: 0, abs=lambda v: 1, stack=np.stack, float32=float)",
    "world.np = np", "world.Base.table = {'a': 9}", "world.Base.table['a'] = 4", "world.OBJ.table = {'a': 0}",
    "world.OBJ.w.append(5)", "world.OBJ.w = [8]", "world.Base.__name__ = 'Renamed'",
    "world.Child.__bases__ = (world.Base,)", "world.Base.__init__ = lambda s, n=1: s.__dict__.update(n=n * 2, w=[n])",
    "world.Base.__eq__ = lambda s, o: 'eq'", "world.Base.__new__ = lambda c, *a: object.__new__(c)",
    "world.Child.extra = 1", "world.Child.extra = np.ones(3)", "world.OBJ.__dict__ = {'n': 4, 'w': [1]}",
    "world.OBJ.__dict__['scale'] = 3", "world.ARR.flags.writeable = False", "world.ARR = world.ARR.astype('f4')",
    "setattr(world.Base, 'scale', property(lambda s: 12))",
    "world.Base.act = functools.lru_cache(None)(lambda s, x=1: 4)", "world.Child.act = staticmethod(lambda x: x * 0)",
    "world.Base.__setattr__ = lambda s, n, v: object.__setattr__(s, n, v)",
    "world.Base.kind = property(lambda s: 'pk')", "world.G = np.float64(2)", "world.G = True",
    "world.Child.__len__ = None",
]  # fmt: skip
SHOWN = Shown()
STEPS = 12


def world() -> types.ModuleType:
    module = types.ModuleType("world")
    vars(module)["types"] = types
    exec(WORLD, vars(module))
    return module


def source(choose: random.Random) -> str:
    lines = ["def function(x):", "    found = []"]
    for _ in range(choose.choice([1, 2, 3, 5])):
        read = f"found.append({choose.choice(READS)})"
        if choose.random() < 0.5:
            lines += ["    try:", f"        {read}", "    except Exception as error:", "        found.append((type(error).__name__, str(error)))"]
        else:
            lines.append(f"    {read}")
    return "\n".join([*lines, "    return found, x + 1"]) + "\n"


def outcome(function: Callable[..., Any]) -> str:
    try:
        return SHOWN.text(function(np.ones(3)), 4)
    except Exception as error:
        return SHOWN.text(error)


def change(text: str, module: types.ModuleType) -> bool:
    names = {"world": module, "np": np, "types": types, "functools": functools, "collections": collections, "math": math}
    try:
        exec(text, names)
    except Exception:  # what was changed before may be in the way
        return False
    return True


def first_difference(choose: random.Random) -> str | None:
    text = source(choose)
    plain, other = world(), world()
    for module in (plain, other):
        exec(text, vars(module))
    captured = evalframe.jit(other.function, backend="reference", max_entries=choose.choice([1000, 1000, 4]))
    changes: list[str] = []
    for step in range(STEPS):
        wanted, came = outcome(plain.function), outcome(captured)
        if wanted != came:
            return f"{text}behind {changes}\nplain:    {wanted}\ncaptured: {came}"
        for changed in choose.sample(CHANGES, choose.choice([1, 1, 2])) if step % 2 == 0 else []:
            assert change(changed, plain) == change(changed, other)
            changes.append(changed)
    return None


def differing(seed: int, functions: int) -> list[str]:
    choose = random.Random(seed)
    found = [first_difference(choose) for _ in range(functions)]
    return [each for each in found if each]


def test_changes_are_seen() -> None:
    assert differing(1, 120) == []


@pytest.mark.slow
def test_many_changes_are_seen(share: int) -> None:
    assert differing(2, 2000 // share) == []


if __name__ == "__main__":
    for difference in differing(int(sys.argv[1]), int(sys.argv[2])):
        print(difference)
