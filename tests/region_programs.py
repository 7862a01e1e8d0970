"""Random functions of loops over numbers and elements of arrays, and what comes of a call of one."""

import ast
import random
import sys
import traceback
import warnings

import numpy as np

DTYPES = ["complex128", "complex64", "float64", "float64", "float64", "int64", "int64", "int32", "uint8", "float32", "bool", "uint64", "int16"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1e308, -1e308, 1e-308, float("inf"), float("nan"), 3.0, 255.0, 2.0**31, 1e19]
BINARY = ["+", "-", "*", "+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "**"]
ODD = ["/", "//", "%", "&", "|", "^", "<<", ">>", "**"]
COMPARE = ["<", "<=", ">", ">=", "==", "!="]
CALLS = ["abs({})", "int({})", "float({})", "min({}, {})", "max({}, {})", "math.sqrt(abs({}))", "math.sin({})", "math.floor({})",
         "np.sqrt({})", "np.minimum({}, {})", "bool({})", "np.float64({})", "math.exp({})", "np.absolute({})", "math.isnan({})", "max(0.0, {})", "min({}, 1)", "max({}, {})", "max(0, {}, {})", "min({}, {}, {}, 2.5)", "math.log10(abs({}) + 1)", "({}).real", "complex({}, {})", "math.erf({})", "sum(w - 1 for w in ({}, {}))", "next(w for w in ({}, {}) if True)"]


class Program:
    dtypes_to_choose = DTYPES

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops: list[str] = []
        self.numbers = ["n", "k", "x", "s", "t"]
        self.arrays = {"a": 1, "b": 1, "c": 2}
        self.depth = 0

    def pick(self, *choices):
        return self.random.choice(choices)

    def often(self, share: float) -> bool:
        return self.random.random() < share

    def line(self, text: str) -> None:
        self.lines.append("    " * (self.depth + 1) + text)

    def index(self) -> str:
        name = self.pick(*(self.loops or ["k"]), "k") if self.often(0.9) else self.pick("n", "-1", "0", "2")
        if self.often(0.35):
            name = f"{name} {self.pick('+', '-')} {self.pick('1', '2', '1')}"
        if self.often(0.5):
            name = f"({name}) % {self.pick('4', 'n', 'len(a)', '5')}"
        return name

    def element(self) -> str:
        name = self.random.choice(list(self.arrays))
        return f"{name}[{', '.join(self.index() for _ in range(self.arrays[name]))}]"

    def number(self, level: int = 0) -> str:
        kind = self.random.random()
        if level > 2 or kind < 0.3:
            return self.pick(*self.numbers, *self.loops, *self.loops)
        if kind < 0.42:
            return self.pick("0", "1", "2", "3", "-1", "7", "0.5", "1.5", "2.0", "0.1", "255", "1 << 40", "True", "0.5j", "(1 + 2j)")
        if kind < 0.65:
            return self.element()
        if kind < 0.73:
            call = self.random.choice(CALLS)
            # The size of complex numbers is an elementary function, which isn't NumPy's to the last bit.
            if call.startswith("np.absolute") and self.has_complex():
                call = "({}).real"
            return call.format(*(self.number(level + 1) for _ in range(call.count("{}"))))
        if kind < 0.78:
            return f"-({self.number(level + 1)})"
        if kind < 0.82:
            return f"({self.number(level + 1)} if {self.condition(level + 1)} else {self.number(level + 1)})"
        operator = self.random.choice(BINARY if self.often(0.3) else BINARY[:6])
        right = self.number(level + 1)
        if operator in ("<<", ">>", "**"):
            right = self.pick("1", "2", "3", "k % 5")
        elif operator in ODD and self.often(0.7):
            right = self.pick("3", "7", "2.0", "(k + 3)")
        return f"({self.number(level + 1)} {operator} {right})"

    def has_complex(self) -> bool:
        return any(np.dtype(dtype).kind == "c" for dtype in self.dtypes)

    def condition(self, level: int = 0) -> str:
        kind = self.random.random()
        if kind < 0.7 or level > 2:
            return f"{self.number(level + 1)} {self.random.choice(COMPARE)} {self.number(level + 1)}"
        if kind < 0.8:
            return f"{self.condition(level + 1)} {self.pick('and', 'or')} {self.condition(level + 1)}"
        if kind < 0.9:
            return f"not ({self.condition(level + 1)})"
        return self.number(level + 1)

    def statement(self, room: int) -> None:
        kind = self.random.random()
        if kind < 0.3:
            self.line(f"{self.element()} = {self.number()}")
        elif kind < 0.4:
            self.line(f"{self.element()} {self.pick('+=', '-=', '*=')} {self.number()}")
        elif kind < 0.6:
            self.line(f"{self.pick('k', 'x', 's', 't')} = {self.number()}")
        elif kind < 0.68:
            self.line(f"{self.pick('x', 's', 't')} {self.pick('+=', '-=', '*=')} {self.number()}")
        elif kind < 0.72:
            self.line(f"{self.pick('s, t = t, s', 'x, s, t = s, t, x', 'a, b = b, a', 't = s', 's = x')}")
        elif kind < 0.76:
            one, other = self.element(), self.element()
            self.line(f"{one}, {other} = {other}, {one}")
        elif kind < 0.9 and room > 0:
            self.line(f"if {self.condition()}:")
            self.block(room - 1)
            if self.often(0.4):
                self.line("else:")
                self.block(room - 1)
        elif kind < 0.94 and self.loops:
            self.line(f"if {self.condition()}:")
            self.depth += 1
            self.line(self.pick("break", "continue", "continue", "return s, t"))
            self.depth -= 1
        elif room > 1:
            self.loop(room - 1)
        else:
            self.line("k += 1")

    def block(self, room: int) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, 2)):
            self.statement(room)
        self.depth -= 1

    def items(self, room: int) -> None:
        """A loop over the items of arrays."""
        counter, item = f"i{len(self.loops)}", self.pick("v", "u")
        one, other = self.pick("a", "b"), self.pick("a", "b", "range(n)", "c[0]")
        if self.often(0.3):
            self.line(f"{counter} = 0")
            self.line(f"for {item} in {one}:")
        elif self.often(0.5):
            self.line(f"for {counter}, {item} in enumerate({one}):")
        elif self.often(0.7):
            self.line(f"{counter} = 1")
            self.line(f"for {item}, w in zip({one}, {other}):")
        else:
            self.line(f"{counter} = 2")
            self.line(f"for t, {item}, w in zip(range(k, 9), {one}, {other}):")
        self.loops.append(counter)
        self.numbers.append(item)
        self.body(room)
        self.numbers.pop()
        self.loops.pop()

    def loop(self, room: int) -> None:
        if self.often(0.25):
            return self.items(room)
        if self.often(0.75):
            name = f"i{len(self.loops)}"
            what = self.loops[-1] if self.loops and self.often(0.4) else "n"
            self.line(f"for {name} in range({self.pick('{}', '1, {}', '{} - 1', '{}, 0, -1', '0, {}, 2', '3', 'len(a)', 'c.shape[0]', '-2, {}').format(what)}):")
            self.loops.append(name)
            self.body(room)
            self.loops.pop()
            if self.often(0.2):
                self.line("else:")
                self.block(0)
        else:
            counter = f"w{len(self.lines)}"
            self.line(f"{counter} = 0")
            self.line(f"while {counter} < {self.pick('n', '6', 'k % 7', 'n + 3')} {self.pick('', 'and x == x', 'and s != 77')}:")
            self.loops.append(counter)
            self.depth += 1
            self.line(f"{counter} += {self.pick('1', '1', '2')}")
            self.depth -= 1
            self.body(room)
            self.loops.pop()

    def body(self, room: int) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, 3)):
            self.statement(room)
        self.depth -= 1

    def text(self) -> str:
        self.line(f"s = {self.pick('0', '0.0', '1.5', 'a[0]', 'np.float64(2)', 'np.int64(3)')}")
        self.line(f"t = {self.pick('0', '1.0', 'b[1]', 'k')}")
        for _ in range(self.random.randint(1, 2)):
            self.loop(2)
        self.line("return n, k, x, s, t")
        return "def f(a, b, c, n, k, x):\n" + "\n".join(self.lines) + "\n"

    def arguments(self):
        """Of one call; numbers vary from call to call."""
        choose = self.random
        number = np.random.default_rng(choose.randrange(2**32))

        def array(shape):
            dtype = np.dtype(self.dtypes[len(shape) - 1 + choose.randrange(2)])
            values = number.integers(0, 9, shape).astype(float) if dtype.kind in "iub" or choose.random() < 0.3 else number.random(shape)
            if dtype.kind == "c":
                values = values + 1j * number.random(shape)
            if choose.random() < 0.15:
                flat = values.reshape(-1)
                flat[choose.randrange(flat.size)] = choose.choice(SPECIAL if dtype.kind in "fc" else SPECIAL[:4])
            with np.errstate(all="ignore"):
                made = values.astype(dtype)
            return made[::2] if choose.random() < 0.1 else made

        a = array((choose.choice([12, 12, 7, 20]),))
        b = a if choose.random() < 0.05 else array((choose.choice([12, 12, 9]),))
        n = choose.choice([6, 6, 9, 5, 0, 1, 12])
        x = choose.choice([0.5, 2, 1.0, np.float64(0.25), -3, np.int64(4), choose.choice(SPECIAL)])
        return a, b, array((6, 6)), n, choose.choice([0, 1, 2, 3]), x

    @classmethod
    def of(cls, seed: int) -> "Program":
        program = cls(seed)
        program.dtypes = [program.random.choice(cls.dtypes_to_choose) for _ in range(3)]
        return program


class ArrayProgram(Program):
    """... and over rows, parts, and operations on whole arrays: most have six elements."""

    # NumPy rounds products of complex64 in several ways, by how the arrays lie in memory.
    dtypes_to_choose = [dtype for dtype in DTYPES if dtype != "complex64"]

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.vectors = ["p", "q", "a[:6]", "b[1:7]", "c[k]", "c[:, k]"]

    def part(self) -> str:
        i = self.index() if self.often(0.7) else "k"
        return self.pick("a[:6]", "a[1:7]", "b[:6]", "b[1:7]", "b[6:0:-1]", "a[:12:2]", f"c[{i}]", f"c[:, {i}]", f"c[{i}, ::-1]", "p", "q", f"a[{i}:{i} + 6]", f"c[{i}, :{i}]",
                         f"a[{i}:]", f"b[:{i}]", "c[1:-1, 1]", "c[1:, 1:]", "c", "c.T", "c[::2]", "p[1:]", "p[::-1]", f"b[-6:{i} - 7]", "c[k, None]", "c[..., 1]")

    def vector(self, level: int = 0) -> str:
        kind = self.random.random()
        if level > 2 or kind < 0.35:
            return self.part() if self.often(0.4) else self.random.choice(self.vectors)
        if kind < 0.6:
            return f"({self.vector(level + 1)} {self.pick('+', '-', '*', '*', '/')} {self.vector(level + 1)})"
        if kind < 0.78:
            operator = self.pick("+", "-", "*", "/", "**", "//", "%")
            # Other powers are elementary functions, too.
            return f"({self.vector(level + 1)} {operator} {'2' if operator == '**' else self.pick('2', '0.5', '3', '2.0', self.number(1))})"
        if kind < 0.83:
            return f"(-{self.vector(level + 1)})"
        if kind < 0.9:
            return f"np.{self.pick('maximum', 'minimum')}({self.vector(level + 1)}, {self.pick('0', '0.5', self.vector(level + 1))})"
        if kind < 0.93:
            return self.pick("c.sum(axis=0)", "np.max(c, axis=1)", "(c * {}).mean(axis=0)", "c.mean(axis=1)", "(c * {}).sum(axis=1)", "np.flip({})", "np.outer({}, p)[1]", "(c - {}).prod(axis=0)", "np.outer(p, {})[:, 2]", "({})[o]", "({})[o]", "c[o, k]", "c[k, o]", "c[o, o]", "(c * {})[o][k]", "c[o].sum(axis=0)", "(c.T + {}).sum(axis=0)", "({})[::-1]", "(c - {}).T[k]", "(c + {})[:, 1]", "np.outer({}, q)[::-1, k]", "(c @ {})", "({} @ c)", "np.zeros(6)").format(self.vector(level + 1))
        if kind < 0.96:
            return f"np.where({self.vector(level + 1)} {self.random.choice(COMPARE)} {self.pick('0', '1', self.vector(level + 1))}, {self.vector(level + 1)}, {self.pick('0.0', '1', self.vector(level + 1))})"
        if self.has_complex():
            return f"({self.vector(level + 1)}).copy()"
        return self.pick("np.abs({})", "np.sqrt(np.abs({}))", "({}).copy()", "({}).astype(np.float64)", "np.clip({}, 0, 1)", "(1 - {})", "np.floor({})").format(self.vector(level + 1))

    def reduced(self) -> str:
        if self.often(0.1):
            return self.pick("({})[m].sum()", "len(({})[m])", "(({})[m] * 2)[k]", "({})[q > 0.5].max()").format(self.vector(1))
        of = self.vector(1) if self.often(0.8) else self.pick("c", "c * 2", "(c * 2).T", "(c + p)[1:, ::-1]", "c.T", "c[1:]", "c[:, 1:] + 1", "c + p")
        return self.pick("({}).sum()", "np.sum({})", "({}).max()", "np.min({})", "({}).mean()", "np.argmax({})", "({}).std()", "({}).prod()", "np.any({})", "({}).var(ddof=1)").format(of) if self.often(0.7) else f"({of} @ {self.vector(2)})"

    def number(self, level: int = 0) -> str:
        return self.reduced() if level == 0 and self.often(0.2) else super().number(level)

    def statement(self, room: int) -> None:
        kind = self.random.random()
        if kind < 0.2:
            self.line(f"{self.part()} = {self.vector() if self.often(0.8) else self.number(1)}")
        elif kind < 0.23:
            target = self.pick("p[o]", "q[o]", "c[o, k]", "c[k, o]", "c[o, o]", "a[o]", "b[m.nonzero()[0]]", "p[m]", "q[q > 0.5]", "c[c > 0.75]", "c[0][m]", "a[:6][m]", "c[m]", "c[o]")
            self.line(f"{target} {self.pick('=', '=', '+=', '*=')} {self.number(1) if self.often(0.6) or '>' in target or 'm' in target else self.vector(1)}")
        elif kind < 0.34:
            self.line(f"{self.part()} {self.pick('+=', '-=', '*=')} {self.vector(1) if self.often(0.7) else self.number(1)}")
        elif kind < 0.5:
            self.line(f"{self.pick('p', 'q')} = {self.vector()}")
        elif kind < 0.55:
            self.line(self.pick("p, q = q, p", "p = q", "a, b = b, a", "q = p[:]", "p = np.zeros(6)", "q = np.ones_like(p)", "p = c[k]", "q = np.full(6, x)"))
        elif kind < 0.62:
            self.line(f"{self.pick('x', 's', 't')} = {self.reduced()}")
        elif kind < 0.66 and room > 0:
            if self.often(0.6):
                self.line(f"for r in {self.pick('c', 'c[1:]', 'c.T')}:")
                self.vectors.append("r")
                self.body(room - 1)
                self.vectors.pop()
            else:
                self.line(f"for e in {self.part()}:")
                self.numbers.append("e")
                self.body(room - 1)
                self.numbers.pop()
        else:
            super().statement(room)

    def text(self) -> str:
        self.line(f"p = {self.pick('np.zeros(6)', 'a[:6]', 'a[:6] * 1.5', 'c[1]', 'np.arange(6.0)')}")
        self.line(f"o = np.array({self.pick('[3, 0, -1, 5, 2, 2]', '[1, 1, 0, -6, 4, 3]', '[k, 1, 2, 3, 4, 5]')})")
        self.line(f"m = {self.pick('np.array([True, False, True, True, False, False])', 'c[0] > 0.5', 'c[:, 1] == c[1]')}")
        self.line(f"q = {self.pick('np.ones(6)', 'b[:6]', 'p', 'c[:, 2]')}")
        text = super().text()
        return text.replace("return n, k, x, s, t", "return n, k, x, s, t, p, q, p is q, p.base is c, np.shares_memory(p, q)")


class MadeProgram(ArrayProgram):
    """... and with a function that makes an array and stores into it before anyone else has it."""

    stores = ["y[1:] = v[:-1]", "y[:-1] += y[1:]", "y[0] = k", "y[k % 6] = y[2] + u[1]", "y[y > 0.5] = 0.25", "y[v > 1] *= 0.5", "y[[0, 2]] += v[[1, 3]]", "y *= 0.5", "y -= z", "y[:3] = 1.0, 2.0, 0.5",
              "rest = y[2:]\n    rest -= v[2:]", "rest = y[::-1]\n    rest[1] = k", "z = y * 2", "y = z + y", "y[::-1] = y", "y[:] = z", "z[1:4] = y[2:5]", "z = y + v", "y, z = z, y", "z = y[:]", "y[2:4] = 3",
              "y[np.array([3, 0, 3])] = z[:3]", "u[1:3] = z[:2]", "v[k % 6] = y[0]", "z = np.roll(y, 1)", "y /= z"]

    def vector(self, level: int = 0) -> str:
        return f"made({super().vector(level)}, {super().vector(level + 1)}, k)" if level < 2 and self.often(0.2) else super().vector(level)

    def text(self) -> str:
        first = self.pick("u * 1.5", "u + v", "u.copy()", "np.zeros(6)", "np.ones_like(u)", "np.maximum(u, v)")
        lines = [f"y = {first}", f"z = {self.pick('y', 'v + 1.0', 'y - v', 'v')}", *(self.pick(*self.stores) for _ in range(self.random.randint(1, 5)))]
        result = self.pick("y", "y + z", "z", "y[1:]", "y")
        return "def made(u, v, k):\n" + "".join(f"    {line}\n" for line in lines) + f"    return {result}\n" + super().text()


class SpaceProgram(ArrayProgram):
    """... and over arrays of three and four dimensions."""

    def space(self, level: int = 0) -> str:
        """An array of three dimensions, most often of three planes."""
        kind = self.random.random()
        if level > 2 or kind < 0.4:
            return self.pick("d", "w", "w", "d[::-1]", "d[:, ::-1]", "d[:, :, ::-1]", "e[0]", "e[k % 2]", "e[:, k % 3]", "d[:, None, 1]", "d[1:]", "d[..., :1]", "d.transpose(0, 2, 1)", "e[1, :, :, ::-1]", "d[k % 3, None]", f"e[{self.index()}]")
        if kind < 0.7:
            return f"({self.space(level + 1)} {self.pick('+', '-', '*', '*', '/')} {self.pick(self.space(level + 1), self.space(level + 1), self.vector(2), 'c', self.number(2))})"
        if kind < 0.8:
            return self.pick("np.maximum({}, 0.5)", "(-{})", "({}).copy()", "np.where({} > 1, d, w)", "({})[::-1]", "({})[:, :, ::-1]", "({}).transpose(0, 2, 1)", "(e * {}).sum(axis=0)", "(e + {}).max(axis=0)", "e.min(axis=1)", "(e - {}).mean(axis=1)", "np.zeros_like({})").format(self.space(level + 1))
        return f"({self.space(level + 1)} * {self.pick('2', '0.5', '2.0')})"

    def vector(self, level: int = 0) -> str:
        if level < 2 and self.often(0.12):
            made = self.pick("({}).sum(axis=(0, 1))", "({}).max(axis=(0, 2))", "({}).sum(axis=(1, 2))", "({}).mean(axis=0)[k]", "({}).prod(axis=2)[1]", "({}).sum(axis=1)[0]", "({})[1, k]", "e.sum(axis=(0, 1, 2)) + ({})[0, 0]", "e[:, :, 1:].sum(axis=(1, 2))[0] * ({})[0, 1]", "(e * {}).sum(axis=(0, 2))[1]")
            return made.format(self.space(level))
        return super().vector(level)

    def reduced(self) -> str:
        return self.pick("({}).sum()", "({}).max()", "np.min({})", "np.argmax({})", "({}).any()").format(self.space(1)) if self.often(0.2) else super().reduced()

    def statement(self, room: int) -> None:
        kind = self.random.random()
        if kind < 0.12:
            target = self.pick("d[:]", "d[::-1]", "e[k % 2]", "d[:, 1:-1]", "d[:, :, 1:]", "w[...]", "e[1, ..., ::-1]", "d[:, ::-1]", "e[:]")
            self.line(f"{target} {self.pick('=', '=', '+=', '-=')} {self.pick(self.space(), self.number(1), self.vector(1))}")
        elif kind < 0.16:
            inside = self.pick("1:-1, 1:-1", "1:-1, 1:", "::2, :3")
            self.line(f"d[:, {inside}] = d[:, {inside}] * 0.5 + w[:, {inside}]")
        elif kind < 0.24:
            self.line(f"w = {self.pick(self.space(), self.space(), 'd', 'd * 2.0', 'e[1]', 'd[:]')}")
        elif kind < 0.28 and room > 0:
            self.line(f"for r in {self.pick('d[k % 3]', 'd[:, k]', 'e[k % 2, 1]')}:")
            self.vectors.append("r")
            self.body(room - 1)
            self.vectors.pop()
        else:
            super().statement(room)

    def text(self) -> str:
        self.line(f"w = {self.pick('np.zeros((3, 6, 6))', 'd', 'd * 1.5', 'e[1]')}")
        text = super().text().replace("return n, k, x, s, t,", "return n, k, x, s, t, w, w is d, w.base is e,")
        return text.replace("def f(a, b, c, n, k, x):", "def f(a, b, c, n, k, x, d, e):")

    def arguments(self):
        return *super().arguments(), *(self.other(shape) for shape in ((3, 6, 6), (2, 3, 6, 6)))

    def other(self, shape):
        dtype = np.dtype(self.random.choice(self.dtypes))
        values = np.random.default_rng(self.random.randrange(2**32)).integers(0, 9, shape) / self.random.choice([1, 3])
        made = values.astype(dtype)
        return made if self.often(0.7) else np.repeat(made, 2, axis=0)[::2]


class TupleProgram(Program):
    """... and over lists and tuples of numbers and of tuples of numbers, a few of which are of another kind."""

    def items(self, room: int) -> None:
        counter, item = f"i{len(self.loops)}", self.pick("v", "u")
        pairs, row = self.pick("pairs", "pairs", "fixed"), self.pick("ints", "floats", "ints")
        self.line(f"{counter} = 0")
        one = self.pick("a", "range(n)", row)
        self.line(self.pick(f"for {item}, w in {pairs}:", f"for {counter}, ({item}, w) in enumerate({pairs}):", f"for {item} in {row}:", f"for {item}, (t, w) in zip({one}, {pairs}):",
                            f"for ({item}, t), w in zip({pairs}, {row}):", f"for {item}, w in zip({row}, {one}):", f"for {item}, w in {pairs}:"))
        self.numbers.append(item)
        self.loops.append(counter)
        self.body(room)
        if self.often(0.1):
            self.depth += 1
            self.line(self.pick("pairs = pairs[1:]", "ints.append(k)", "pairs = fixed"))
            self.depth -= 1
        self.loops.pop()
        self.numbers.pop()

    def loop(self, room: int) -> None:
        self.items(room) if self.often(0.5) else super().loop(room)

    def text(self) -> str:
        odd = self.pick("(1, 2.5)", "(1, 2.5)", "(2, 3)", "(True, 0.5)", "(1 << 70, 0.5)", "(1, 2.5, 3)", "[1, 2.5]", "(x, 1.0)")
        self.line(f"pairs = [(0, 1.5), (2, -1.0), (k, 0.5), (1, 0.25)] * {self.pick('1', '3', 'k')} + [{odd}, (3, 0.0)]")
        self.line(f"fixed = {self.pick('((0, 1), (1, 0), (2, 2))', 'tuple(pairs)', '((1, 2.0, 3), (0, 1.0, 2))')}")
        self.line(f"ints = [3, 1, k, 2, {self.pick('0', 'n', 'x', 'True', '1 << 70')}]")
        self.line(f"floats = [0.5, 2.0, {self.pick('1.5', 'x', '3')}]")
        return super().text()


class GrowingProgram(Program):
    """... that append to lists, and look at them now and then."""

    def statement(self, room: int) -> None:
        kind = self.random.random()
        if kind < 0.2:
            self.line(f"{self.pick('grown', 'other')}.append({self.pick(self.number(1), self.number(1), self.element(), '1', 'x')})")
        elif kind < 0.22:
            self.line(self.pick("x = other[-1]", "s = len(grown)", "other[0] = k", "grown, other = other, grown"))
        else:
            super().statement(room)

    def text(self) -> str:
        self.line("grown, other = [], [1]")
        text = super().text().replace("return n, k, x, s, t", "return n, k, x, s, t, tuple(grown), tuple(other)")
        return text.replace("return s, t\n", "return s, t, tuple(grown), tuple(other)\n")


class InnerProgram(Program):
    """... of nests whose inner loops take dozens of turns, by indices that mostly vary evenly; what goes wrong does so in the midst."""

    scale = 1

    def index(self) -> str:
        if not self.loops or self.often(0.1):
            return self.pick("k", "3", "-1", "k + 1")
        inner = self.loops[-1] if self.often(0.7) else self.random.choice(self.loops)
        return self.pick("{}", "{}", "{}", "{} + 1", "{} - 1", "{} + k", "2 * {}", "n - {}", "-{}", "{} * k", "{} // 2", "({} * 7) % n", "({} + 1) % n", "({} - k) % n", "{} // (n + 1)", "idx[{}]").format(inner)

    def element(self) -> str:
        if self.arrays.get("c") != 2 or not self.often(0.15):
            return super().element()
        return self.pick("c[{0}][{1}]", "c[{0}, :][{1}]", "c[:, {1}][{0}]", "c[{0}, 1:][{1}]", "c[{0}, {1}:][0]", "c.T[{1}][{0}]").format(self.index(), self.index())

    def number(self, level: int = 0) -> str:
        kind = self.random.random()
        if level > 1 or kind < 0.45:
            return self.element() if self.often(0.7) else self.pick("x", "s", "t", "0.5", "2.0", "3", *self.loops)
        if kind < 0.5:
            return self.pick("math.sqrt(abs({}))", "np.sqrt({})", "abs({})", "np.float64({})", "max({}, 0.0)").format(self.number(level + 1))
        return f"({self.number(level + 1)} {self.pick('+', '-', '*', '*', '+', '/')} {self.number(level + 1)})"

    def statement(self, room: int) -> None:
        kind = self.random.random()
        if kind < 0.4:
            self.line(f"{self.element()} = {self.number()}")
        elif kind < 0.65:
            self.line(f"{self.element()} {self.pick('+=', '-=', '*=')} {self.number()}")
        elif kind < 0.9:
            self.line(f"{self.pick('s', 't', 's', 'x')} {self.pick('=', '+=', '+=', '-=')} {self.number()}")
        elif kind < 0.94 and room > 0:
            super().statement(room)
        else:
            self.line(self.pick("k = k * 3 % 5", "s, t = t, s", "t = i0"))

    def loop(self, room: int) -> None:
        name = f"i{len(self.loops)}"
        inner = self.loops[-1] if self.loops and self.often(0.4) else "n"
        self.line(f"for {name} in range({self.pick('{}', '1, {} - 1', '{} - 1', '{}, 60', 'len(a)', 'k, {}', '{}, 0, -1', '0, {}, 2').format(inner)}):")
        self.loops.append(name)
        if room > 0 and self.often(0.6):
            self.depth += 1
            if self.often(0.4):
                self.statement(0)
            self.loop(room - 1)
            self.depth -= 1
        else:
            self.body(0)
        self.loops.pop()

    def text(self) -> str:
        self.line(f"idx = (np.arange({70 * self.scale}) * 13) % {40 * self.scale}")
        return super().text()

    def arguments(self):
        choose = self.random
        number = np.random.default_rng(choose.randrange(2**32))

        def array(shape, dtype):
            values = number.integers(0, 9, shape).astype(float) if np.dtype(dtype).kind in "iub" else number.random(shape)
            if choose.random() < 0.3:
                flat = values.reshape(-1)
                flat[choose.randrange(flat.size)] = choose.choice(SPECIAL if np.dtype(dtype).kind in "fc" else SPECIAL[:4])
            with np.errstate(all="ignore"):
                made = values.astype(dtype)
            return made[::2] if choose.random() < 0.1 else made.T if choose.random() < 0.1 else made

        a = array((choose.choice([64, 64, 40, 90]) * self.scale,), self.dtypes[0])
        b = a if choose.random() < 0.05 else a[1:] if choose.random() < 0.05 else array((choose.choice([64, 70, 41]) * self.scale,), self.dtypes[1])
        n = choose.choice([20, 30, 30, 40, 41, 9, 0, 1]) * self.scale
        return a, b, array((42, 42), self.dtypes[2]), n, choose.choice([0, 1, 1, 2, 3]), choose.choice([0.5, 2, 1.0, -3.0, np.float64(0.25), 1e308])


class LongProgram(InnerProgram):
    """... of thousands of turns, with branches: what a checkpoint keeps grows in the meantime."""

    scale = 60

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.arrays = {"a": 1, "b": 1}

    def loop(self, room: int) -> None:
        super().loop(0)

    def statement(self, room: int) -> None:
        if not self.loops or not self.often(0.4):
            return super().statement(0)
        self.line(f"if {self.element()} {self.pick('<', '>', '<', '==')} {self.number()}:")
        self.depth += 1
        super().statement(0)
        if self.often(0.15):
            self.line(self.pick("continue", "continue", "break"))
        self.depth -= 1


class WhileProgram(InnerProgram):
    """... whose innermost loops are `while` loops: most indices in them are those of the loops around, which no turn changes."""

    def loop(self, room: int) -> None:
        if not self.loops:
            return super().loop(1)
        counter = f"w{len(self.lines)}"
        self.line(f"{counter} = {self.pick('0', '0', 'k', self.loops[-1] if self.loops else '1')}")
        self.line(f"while {counter} < {self.pick('n', '12', '5', self.loops[0] if self.loops else 'n')} {self.pick('', '', 'and s < 1e3', 'and x == x', f'and {self.element()} < 40')}:")
        self.depth += 1
        self.line(f"{counter} += {self.pick('1', '1', '2')}")
        self.depth -= 1
        is_index = self.often(0.4)
        self.loops += [counter] * is_index
        self.body(0)
        self.loops = self.loops[: len(self.loops) - is_index]


class OfGlobals:
    """... whose variables are all globals."""

    def text(self) -> str:
        text = super().text()
        _, _, body = text.partition("\n")
        names = compile_program(text).__code__.co_varnames
        return f"def f(*given):\n    global {', '.join(names)}\n    a, b, c, n, k, x = given\n{body}"


class GlobalProgram(OfGlobals, Program):
    pass


class GlobalArrayProgram(OfGlobals, ArrayProgram):
    pass


class GlobalInnerProgram(OfGlobals, InnerProgram):
    pass


class OfAttributes:
    """... some of whose variables are attributes of an object."""

    def text(self) -> str:
        text = super().text()
        names = [name for name in compile_program(text).__code__.co_varnames if self.often(0.6)]

        class AsAttributes(ast.NodeTransformer):
            def visit_Name(self, node):
                return ast.Attribute(ast.Name("o"), node.id, node.ctx) if node.id in names else node

        tree = ast.parse(text).body[0]
        body = ast.unparse(AsAttributes().visit(ast.Module(tree.body, []))).replace("\n", "\n    ")
        given = ", ".join(f"{'o.' if name in names else ''}{name}" for name in "abcnkx")
        return f"class Of:\n    pass\n\ndef g(o, given):\n    {given} = given\n    {body}\n\ndef f(*given):\n    return g(Of(), given)\n"


class AttributeProgram(OfAttributes, Program):
    pass


class AttributeArrayProgram(OfAttributes, ArrayProgram):
    pass


class AttributeInnerProgram(OfAttributes, InnerProgram):
    pass


class InCallee:
    """... in a function that the captured one calls, twice."""

    def text(self) -> str:
        parameters = "a, b, c, n, k, x"
        return super().text().replace("def f(", "def called(") + f"def f({parameters}):\n    first = called({parameters})\n    return first, called({parameters}), a[0]\n"


class CalledProgram(InCallee, Program):
    pass


class CalledArrayProgram(InCallee, ArrayProgram):
    pass


class CalledInnerProgram(InCallee, InnerProgram):
    pass


class CalledGlobalProgram(InCallee, GlobalProgram):
    pass


KINDS = {"numbers": Program, "arrays": ArrayProgram, "spaces": SpaceProgram, "tuples": TupleProgram, "growing": GrowingProgram, "inner": InnerProgram, "made": MadeProgram, "long": LongProgram, "whiles": WhileProgram,
         "globals": GlobalProgram, "global_arrays": GlobalArrayProgram, "global_inner": GlobalInnerProgram,
         "attributes": AttributeProgram, "attribute_arrays": AttributeArrayProgram, "attribute_inner": AttributeInnerProgram,
         "called": CalledProgram, "called_arrays": CalledArrayProgram, "called_inner": CalledInnerProgram, "called_globals": CalledGlobalProgram}


def shown(value):
    if isinstance(value, tuple):
        return tuple(shown(part) for part in value)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.strides, value.flags.writeable, nan_free_bytes(value)
    if isinstance(value, complex | np.complexfloating):
        return type(value).__name__, shown(float(value.real)), shown(float(value.imag))
    if isinstance(value, float | np.floating):
        # The bits of a NaN say where it comes from; its sign isn't anyone's promise.
        return type(value).__name__, "nan" if value != value else value.hex() if hasattr(value, "hex") else float(value).hex()
    return type(value).__name__, repr(value)


def outcome(function, arguments):
    """Result, or exception with its places; warnings with theirs; and what the arrays hold afterwards."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result = shown(function(*arguments))
        except Exception as error:
            places = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "program.py"]
            result = type(error).__name__, str(error), tuple(places)
    heard = [(str(one.message), one.lineno) for one in told]
    return result, heard, tuple(shown(part) for part in arguments if isinstance(part, np.ndarray))


def nan_free_bytes(array):
    if array.dtype.kind == "c":
        return nan_free_bytes(array.real), nan_free_bytes(array.imag)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return array.tobytes()


def copied(arguments):
    same = {}
    return tuple(same.setdefault(id(part), part.copy() if part.flags.c_contiguous else np.repeat(part, 2)[::2]) if isinstance(part, np.ndarray) else part for part in arguments)


def compile_program(text: str):
    namespace = {"np": np, "math": __import__("math")}
    exec(compile(text, "program.py", "exec"), namespace)
    return namespace["f"]


def differences(seed: int, calls: int = 6, kind: type[Program] = Program):
    """What differs between CPython and evalframe, call by call; nothing: all is the same."""
    import evalframe

    program = kind.of(seed)
    text = program.text()
    plain, captured = compile_program(text), evalframe.jit(compile_program(text))
    found = []
    for call in range(calls):
        arguments = program.arguments()
        evalframe._core.set_region_turns(program.random.choice([2**62, 2**62, 3, 1, 11]))
        want = outcome(plain, copied(arguments))
        got = outcome(captured, copied(arguments))
        if want != got:
            found.append((call, want, got))
    evalframe._core.set_region_turns(2**62)
    return text, found, evalframe._core.jit_counters(captured)


def copies(arguments):
    return tuple(a.copy("K") if isinstance(a, np.ndarray) else a for a in arguments)


class Kernels(dict):
    """Functions by name, each with one that makes the arguments of a call."""

    def kernel(self, make):
        def add(function):
            self[function.__name__] = function, make
            return function

        return add

    def counters(self, name: str, calls: int):
        """Those of the function, behind as many calls, which do the same captured."""
        import evalframe

        function, make = self[name]
        captured = evalframe.jit(function)
        for _ in range(calls):
            arguments = make()
            plain, native = copies(arguments), copies(arguments)
            assert shown(function(*plain)) == shown(captured(*native))
            assert [shown(a) for a in plain] == [shown(a) for a in native]
        return evalframe._core.jit_counters(captured)


def check(function, *calls, native: bool = True) -> None:
    """The function does the same captured, call by call."""
    import evalframe
    from helpers import outcome

    captured = evalframe.jit(function)
    for arguments in calls:
        plain, ours = copies(arguments), copies(arguments)
        want, got = outcome(function, *plain), outcome(captured, *ours)
        assert repr(want) == repr(got)
        assert [shown(a) for a in plain if isinstance(a, np.ndarray)] == [shown(a) for a in ours if isinstance(a, np.ndarray)]
    if native:
        assert evalframe._core.jit_counters(captured)["native_loops"]


if __name__ == "__main__":
    import evalframe

    evalframe._core.set_region_seconds(0.0)
    first, last = int(sys.argv[1]), int(sys.argv[2])
    kind = KINDS[sys.argv[3]] if len(sys.argv) > 3 else Program
    native = bad = 0
    for seed in range(first, last):
        text, found, counters = differences(seed, kind=kind)
        native += counters["native_loops"] > 0
        if found:
            bad += 1
            print("seed", seed)
            print(text)
            for call, want, got in found[:1]:
                print("call", call, "\n  want", want, "\n  got ", got, flush=True)
    print(f"{last - first} programs, {native} with native loops, {bad} differ")
