"""Control flow: loops with every way out, exceptions and their contexts, context managers, generators, recursion, match, locals."""

import contextlib
import logging
import sys
import traceback
import warnings

import numpy as np

log = []


@contextlib.contextmanager
def noted(name):
    log.append(f"in {name}")
    try:
        yield name
    except ZeroDivisionError:
        log.append("swallowed")
    finally:
        log.append(f"out {name}")


class Timer:
    def __enter__(self):
        self.seen = []
        return self

    def __exit__(self, kind, value, trace):
        self.seen.append(kind and kind.__name__)
        return kind is KeyError


def loops(x, n):
    total = 0.0
    for i in range(n):
        if i == 3:
            continue
        for j, row in enumerate(x):
            if row.sum() > 8:
                break
            total = total + row * i + j
        else:
            total = total - 1
        if i > 6:
            return "early", total
    else:
        total = total * 2
    while n > 0:
        n -= 2
        if n == 1:
            break
        total = total + n
    return total


def handled(x, divisor):
    steps = []
    try:
        with noted("a") as name, Timer() as timer:
            y = x / 2
            steps.append(name)
            if divisor == 0:
                1 / divisor
            if divisor == 1:
                {}["missing"]
            if divisor == 2:
                raise ValueError("two") from KeyError("cause")
            y = y @ np.ones(divisor)
            steps.append("fine")
    except ValueError as error:
        steps += [str(error), repr(error.__cause__), error.__suppress_context__]
        try:
            x[99]
        except IndexError as second:
            steps += [str(second), repr(second.__context__)[:30]]
    else:
        steps.append("else")
    finally:
        steps.append(timer.seen)
        z = x + 1
    return steps, y, z


def returns_in_finally(x):
    try:
        return x @ np.ones(77)
    except ValueError:
        return x + 1
    finally:
        log.append(x.shape)


def deep(x, n):
    if n == 0:
        return x[5, 5]
    return deep(x + 1, n - 1) + 1


def endless(x):
    return endless(x + 1)


def where_from(x):
    try:
        deep(x, 2)
    except IndexError:
        kind, value, trace = sys.exc_info()
        return [(f.name, f.lineno, f.line) for f in traceback.extract_tb(trace)], str(value)


def generate(x, n):
    for i in range(n):
        got = yield x * i
        if got is not None:
            x = x + got


def consume(x, n):
    g = generate(x, n)
    out = [next(g), g.send(x), *g]
    return out, sum(generate(x, 3)), [y.max() for y in generate(x, 2)], dict(enumerate(generate(x, 1)))


def matched(value):
    match value:
        case np.ndarray(shape=(n,)):
            return "vector", n, value * 2
        case np.ndarray(ndim=2) as m if m.size > 4:
            return "matrix", m.T
        case [a, *rest]:
            return "list", a, len(rest)
        case {"x": x, **more}:
            return x + 1, more
        case int() | float():
            return "number", value + 1
        case None:
            return None
    return "else", value


def unbound(x, n):
    if n:
        y = x + 1
    del x
    try:
        return y, x
    except UnboundLocalError as error:
        return str(error), type(error.__context__)


def looked_at(x, k=2):
    y = x * k
    names = sorted(locals())
    z = eval("y + 1")
    return names, z, sys._getframe().f_code.co_name, sys._getframe().f_lineno, sorted(vars())


def warned(x, text):
    y = np.log(x)
    warnings.warn(f"take care: {text}", UserWarning, stacklevel=2)
    z = y / 0
    warnings.warn("here", DeprecationWarning)
    return z


def calls_warned(x):
    a = warned(x, "a")
    b = warned(
        x - 1,
        "b",
    )
    return a, b


def multi_line(x):
    return (
        np.sqrt(x)
        + np.log(
            x - 1
        )
        / (x
           - x)
    )


def ambiguous(x):
    if 0 < x < 2:
        return 1
    return 2


def unpacked(x):
    a, *b = x
    (c, d), e = (x[0], x[1]), x
    f, g = b[:2]
    return a, b, c, d, e, f, g, [*x, *b], (*b,), {**{"a": a}}


def walrus(x):
    return [y for row in x if (y := row.sum()) > 1], (n := len(x)), n + x


def printed(x):
    print("x", x, x.dtype, f"{x.sum():8.3f} {x!r:>10}", sep="|")
    logging.getLogger("t").warning("mean %s", x.mean())
    return str(x)


def fibonacci(n, x):
    return x if n < 2 else fibonacci(n - 1, x) + fibonacci(n - 2, x)


def even(n, x):
    return x if n == 0 else odd(n - 1, x * 1.5)


def odd(n, x):
    return -x if n == 0 else even(n - 1, x - 1)


def sets(x):
    s = {float(v) for v in x.ravel()}
    d = {i: row for i, row in enumerate(x)}
    d[0] += 1
    del d[1]
    return sorted(s), d, x, 3.0 in s, None in d


def swap(x, y):
    x, y = y, x
    x[0], x[-1] = x[-1], x[0].copy()
    return x, y, x is y


def attempt(f, *args):
    try:
        return f(*args)
    except Exception as error:
        places = [(p.name, p.lineno, p.colno, p.end_colno) for p in traceback.extract_tb(error.__traceback__)[1:]]
        return type(error).__name__, str(error), places, repr(error.__context__), repr(error.__cause__)


class Raises:
    def __init__(self, after):
        self.after = after

    def __iter__(self):
        return self

    def __next__(self):
        self.after -= 1
        if self.after < 0:
            raise RuntimeError("no more")
        return np.ones(2) * self.after


def over(things):
    total = 0
    for thing in things:
        total = total + thing
        if total.sum() > 30:
            raise StopIteration(total.sum())
    return total


def main():
    log.clear()
    logging.getLogger("t").addHandler(logging.NullHandler())
    logging.getLogger("t").propagate = False
    x = np.arange(12.0).reshape(4, 3)
    out = []
    for n in (0, 2, 5, 9, 3, 12):
        out += [loops(x, n), loops(x[:, :2] / 9, n), attempt(loops, x[0], n)]
    for d in (3, 0, 1, 2, 5, 3, 0):
        out.append(attempt(handled, x, d))
    out += [returns_in_finally(x), returns_in_finally(x[0]), list(log), where_from(x), where_from(np.zeros((9, 9))), where_from(x)]
    out += [attempt(deep, x, 3), attempt(deep, np.zeros((7, 7)), 3), consume(x, 4), consume(x[0], 5)]
    for value in (x[0], x, x[:1], [1, 2], {"x": x, "y": 1}, 3, 2.5, None, "s", np.float64(1), (), np.array(1)):
        out.append(attempt(matched, value))
    out += [attempt(unbound, x, 0), attempt(unbound, x, 1), attempt(unbound, x, 0), looked_at(x), looked_at(x, k=3)]
    out += [calls_warned(x), calls_warned(x), multi_line(x), multi_line(x)]
    for kind in ("error", "ignore", "once", "default"):
        with warnings.catch_warnings():
            warnings.simplefilter(kind)
            out += [attempt(calls_warned, x), attempt(multi_line, x), attempt(multi_line, x)]
    out += [attempt(ambiguous, x), attempt(ambiguous, x[0, 0]), attempt(ambiguous, x[:1, 1]), attempt(ambiguous, 1)]
    out += [unpacked(x), attempt(unpacked, x[:1]), attempt(unpacked, x[0, 0]), walrus(x), printed(x), printed(x[0].astype("f4"))]
    out += [fibonacci(7, x), fibonacci(5, 2), fibonacci(6, x[0]), even(9, x), odd(4, x[0]), even(0, 1.0), attempt(even, 2, None)]
    out += [sets(x.copy()), attempt(sets, x[0].copy()), swap(x.copy(), x[:2].copy())]
    y = x.copy()
    out += [swap(y, y), attempt(over, Raises(3)), attempt(over, Raises(0)), attempt(over, [x] * 9), attempt(over, [x, 1]), over([]), attempt(over, 5)]
    out.append(attempt(endless, x)[0])
    return out
