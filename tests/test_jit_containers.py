"""Lists, dicts, views and iterators around arrays: same results and effects, wherever the graph is left, and in one graph where it says so."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import collections
import itertools
import operator
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_is_one_graph, check_may_be_left, one_graph_tests, outcome, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
PARAMETERS: dict[Any, Any] = {"w": np.full(12, 0.5), "b": np.ones(12), 3: 2.0}
ROWS = [A * 2, B * 3, A - B]


def list_changes(x, y):
    row = [x, y, x + y]
    last = row.pop()
    row.insert(0, last * 2)
    row.insert(-1, y)
    first = row.pop(0)
    row[0] = first + 1
    row[-1] = row[0]
    del row[1]
    row.reverse()
    other = row.copy()
    row.append(3)
    row += [x, 1]
    return row, other, last


def list_changes_meet_exits(x, y):
    row = [x]
    row.append(y * 2)
    a = x + 1
    row.pop(0)
    b = a * y
    row.insert(0, b)
    c = b - 1
    row[1] = c
    d = c / 2
    row.clear()
    row.append(row)
    return len(row), d + 1, row[0] is row


def keyed_by_one_value(x, y):
    names = list(dict.fromkeys(["b", "a", "b", x.ndim, 1.0, True]))
    rows: Any = dict.fromkeys((name for name in names if name != "a"), y)
    rows["b"] = rows["b"] * 2
    return names, rows, dict.fromkeys("abca", []), dict.fromkeys({1: 2, 3: 4}), x + 1


def keyed_by_what_has_no_hash(x, y):
    z = x + y
    try:
        dict.fromkeys(["a", []])
    except TypeError as error:
        return str(error), z
    return z


def pop_from_empty(x, y):
    row = [x]
    z = row.pop() + 1
    try:
        row.pop()
    except IndexError as error:
        return str(error), z


def built_lists(x, y):
    row = list(range(3)) + [None] * 2 + list((x, y))
    row[3] = x * 2
    pair = tuple([x, row[0]])
    return row, pair, list(x.shape), tuple(x.shape) + (1,), list("ab"), tuple(pair) is pair, list()


def changed_while_iterated(x, y):
    row = [x]
    for a in row:
        if len(row) < 4:
            row.append(a + 1)
    return row


def enumerated(x, y):
    for i, a in enumerate((x, y)):
        x = x + a * i
    for i, a in enumerate([x, y], start=3):
        x = x - a * i
    return x, list(enumerate((x, 2), 1))


def zipped(x, y):
    total = x * 0
    for a, b in zip((x, y), (1, 2), strict=True):
        total = total + a * b
    for a, b, c in zip([x, y], range(5), (y, x)):
        total = total - a * b + c
    return total, list(zip((x, y), "ab"))


def zipped_unequally(x, y):
    z = x + 1
    try:
        for a, b in zip((x, y), (1,), strict=True):
            z = z + a * b
    except ValueError as error:
        return str(error), z
    return z


def nested_iterators(x, y):
    for i, (a, b) in enumerate(zip((x, y), reversed([1, 2]))):
        x = x + a * b + i
    return x, list(reversed((x, y, 1)))


def iterator_kept(x, y):
    pairs = zip((x, y, x), (1, 2, 3))
    a, n = next(pairs)
    z = a * n
    for b, m in pairs:
        z = z + b * m
        break
    rest = list(pairs)
    return z + 1, rest, list(pairs)


def iterator_escapes(x, y):
    numbers = enumerate([x, y, x])
    i, a = next(numbers)
    z = a + i
    return numbers, z * 2


def iterator_ends(x, y):
    it = iter([x])
    z = next(it) + 1
    try:
        next(it)
    except StopIteration:
        return z


def changed_before_it_comes(x, y):
    row, seen = [x, y, 3.0], []
    for i, a in enumerate(row):
        row[(i + 1) % 3] = a + 1
        seen.append(a)
    for a, n in zip(row, [1, 2, 3]):
        row[2] = x * n
        seen.append(a)
    for a in reversed(row):
        row[0] = y * 2
        seen.append(a)
    numbers = iter(row)
    row[2] = x * 3
    seen.extend(numbers)
    for _, (a, b) in enumerate(zip(row, row)):
        row[2] = a + 1
        seen.append(b)
    for _, a in zip(range(3), reversed(row)):
        row.reverse()
        seen.append(a)
    return row, seen


def values_changed_before_they_come(x, y):
    d, seen = {"a": x, "b": y}, []
    for _, value in d.items():
        d["b"] = value * 3
        seen.append(value)
    values = iter(d.values())
    d["a"] = y
    for value in values:
        d["b"] = x * 2
        seen.append(value)
    for key, value in d.items():
        d[key] = value + 1
    return d, seen


def grows_at_its_last_element(x, y):
    row, seen = [x], []
    for i, a in enumerate(row):
        if i < 3:
            row.append(a + i)
        seen.append(a)
    return seen


def grows_behind_an_inner_loop(x, y):
    row, seen = [x, y], []
    for i, a in enumerate(row):
        for _, b in enumerate(row):
            seen.append(a + b)
        if i == 0:
            row.append(x * 5)
    return seen


def exhausted_stays_exhausted(x, y):
    row = [x, y]
    numbers, pairs, rest = iter(row), enumerate(row), reversed(row)
    seen = [a + 1 for a in numbers] + list(pairs)
    a, b = rest
    row.append(x * 3)
    seen += [list(numbers), list(pairs), list(rest), next(numbers, None)]
    return seen, a - b


def at_its_end_but_not_exhausted(x, y):
    row = [x, y]
    numbers = iter(row)
    z = next(numbers) - next(numbers)
    row.append(z * 2)
    return list(numbers)


def one_iterator_twice(x, y):
    row = [x, y, x + 1, y + 1]
    numbers = iter(row)
    total = [a - b for a, b in zip(numbers, numbers)]
    return total + [a * b for a, b in zip(*[iter(row)] * 2)]


def what_zip_leaves(x, y):
    numbers = iter([x, y, x + y])
    pairs = list(zip(numbers, [1]))
    rest = iter([x, y, x * 2])
    seen = []
    for i, a in enumerate(rest):
        if i == 1:
            seen.append(next(rest) + 1)
        seen.append(a)
    return pairs, list(numbers), seen


def position_behind_the_end(x, y):
    row, seen = [x, y], []
    for a in row:
        row.clear()
        seen.append(a * 2)
        if seen[0].sum() < 1e9:
            row.append(x)
    return row, seen


def dict_changes(x, y):
    d = {"a": x, "b": y}
    d["c"] = d["a"] + 1
    d["a"] = d["b"] * 2
    z = d.pop("b") - 1
    d.setdefault("d", z)
    d.setdefault("a", 0)
    d.update({"e": 5, "c": x})
    e = {**d, "f": y, 4: None}
    del e["d"]
    return d, e, d.get("a"), d.get("zz"), d.get("zz", 7), "c" in d, "zz" in d, len(e), e.pop("none", 3)


def dict_views(x, y):
    d = dict(a=x, b=y, k=3)
    z = x * 0
    for name in d:
        z = z + len(name)
    for name, value in d.items():
        z = z + value * (name == "b")
    for value in d.values():
        z = z - value
    return z, list(d), list(d.keys()), list(d.items()), d.keys(), len(d.values()), dict(d, c=1), sorted(d)


def dict_comprehension(x, y):
    d = {k: a * 2 for k, a in {"x": x, "y": y}.items()}
    e = {i: i * x for i in range(3) if i != 1}
    return d["x"] + d["y"], d, e


def dict_missing(x, y):
    d = {"a": x}
    z = d["a"] + 1
    try:
        return d["b"]
    except KeyError as error:
        return repr(error), z, d


def dict_changed_while_iterated(x, y):
    d = {"a": x, "b": y}
    z = x
    try:
        for k in d:
            z = z + d[k]
            d[k + "2"] = z
    except RuntimeError as error:
        return str(error), d, z


def parameters(x, y):
    z = x * PARAMETERS["w"] + PARAMETERS["b"] * PARAMETERS[3]
    total = 0
    for key, value in PARAMETERS.items():
        total = total + value
    return z + total, PARAMETERS.get("w")[0], PARAMETERS.get("none", 1), "b" in PARAMETERS, len(PARAMETERS), list(PARAMETERS)


def rows_from_outside(x, y):
    z = x
    for i, row in enumerate(ROWS):
        z = z + row * i
    first, *rest = ROWS
    return z, rest, ROWS[1:][0] + first, [row.sum() for row in reversed(ROWS)]


def results_of_calls(x, y):
    m = np.outer(x[:4], y[:4]) + np.eye(4) * 20
    q, r = np.linalg.qr(m)
    values, counts = np.unique(np.sign(x), return_counts=True)
    (k,) = np.nonzero(x > 0)
    parts = np.split(x, 3)
    a, b, c = parts
    u, v = np.meshgrid(x[:2], y[:3])
    return q @ r, values, counts, y[k], a + b + c, u * v, np.where(x > 0)[0]


def results_that_vary(x, y):
    values, vectors = np.linalg.eig(np.array([[0.0, x[0]], [y[0], 0.0]]))
    return values * 2, vectors


def unpacked_arrays(x, y):
    a, b, c = x[:3]
    (p, q), (r, s) = y[:4].reshape(2, 2)
    return a * b + c, p * s - q * r, (x[:2] + 1).tolist()


def unpacked_wrongly(x, y):
    z = x + 1
    try:
        a, b = z
    except ValueError as error:
        return str(error), z


def unpacked_parts(x, y):
    a, b = {"p": x, "q": y}.values()
    (i, c), (j, d) = enumerate((a, b))
    *head, last = zip((a, b), (1, 2))
    return c * i + d * j, head, last


def collected(x, y):
    results = {"mean": [], "max": []}
    for a in (x, y, x - y):
        results["mean"].append(a.mean())
        results["max"].append(a.max())
    return {name: np.array(values) for name, values in results.items()}


def list_from_outside_changes(x, y):
    z = x + 1
    ROWS.append(z)
    w = z * 2
    return w + ROWS.pop()


FUNCTIONS: list[Callable[..., Any]] = [
    list_changes, list_changes_meet_exits, pop_from_empty, keyed_by_one_value, keyed_by_what_has_no_hash, built_lists, changed_while_iterated, enumerated,
    zipped, zipped_unequally, nested_iterators, iterator_kept, iterator_escapes, iterator_ends, dict_changes, dict_views,
    dict_comprehension, dict_missing, dict_changed_while_iterated, parameters, rows_from_outside, results_of_calls,
    results_that_vary, unpacked_arrays, unpacked_wrongly, unpacked_parts, collected, list_from_outside_changes,
    changed_before_it_comes, values_changed_before_they_come, grows_at_its_last_element, grows_behind_an_inner_loop,
    exhausted_stays_exhausted, at_its_end_but_not_exhausted, one_iterator_twice, what_zip_leaves, position_behind_the_end,
]  # fmt: skip
ARGUMENTS = [(A, B), (B, A), (A, -A)]
IN_ONE_GRAPH = [
    list_changes, list_changes_meet_exits, enumerated, zipped, nested_iterators, iterator_kept, iterator_escapes,
    dict_changes, dict_comprehension, keyed_by_one_value, parameters, rows_from_outside, results_of_calls, unpacked_parts, collected,
]  # fmt: skip


def plain(result: Any) -> Any:
    """Iterators and views are compared by what they give, a list that holds itself not at all."""
    if isinstance(result, (tuple, list)):
        return type(result)(map(plain, result))
    if isinstance(result, dict):
        return [(plain(key), plain(value)) for key, value in result.items()]
    return plain(list(result)) if isinstance(result, (enumerate, zip, type({}.keys()))) else result


def plain_outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    return plain(outcome(function, *arguments))


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_behaves_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    captured = check_behaves_as_plain(function, backend, ARGUMENTS * 5, plain_outcome)
    assert _core.jit_counters(captured)["plain_calls"] == 0


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any], backend: str) -> None:
    check_may_be_left(function, backend, ARGUMENTS, 24, plain_outcome)


test_is_one_graph = one_graph_tests(IN_ONE_GRAPH, (A, B))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_later_calls_record_nothing_more(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function)
    for _ in range(6):
        outcome(captured, A, B)
    before = _core.jit_counters(captured)["recordings"]
    for _ in range(6):
        outcome(captured, A, B)
    assert _core.jit_counters(captured)["recordings"] == before


def test_a_dict_from_outside_may_change() -> None:
    table: dict[str, Any] = {"a": A, "b": B}

    def total(d: dict[str, Any]) -> Any:
        z = A * 0
        for i, (name, value) in enumerate(d.items()):
            z = z + value * i * len(name)
        return z, d.get("c"), "b" in d

    captured = evalframe.jit(total)
    for _ in range(3):
        assert same(captured(table), total(table))
    for change in ({"c": A}, {"b": A - 1}, {"long": B}):
        table.update(change)
        assert same(captured(table), total(table))
    table["a"] = table.pop("a")  # another order
    assert same(captured(table), total(table))
    del table["b"]
    assert same(captured(table), total(table))


def test_each_call_has_its_own_containers() -> None:
    def fresh(x: Any) -> Any:
        d = {"rows": [x]}
        d["rows"].append(x + 1)
        return d

    captured = evalframe.jit(fresh)
    results = [captured(A) for _ in range(4)]
    results[0]["rows"].clear()
    assert all(len(result["rows"]) == 2 for result in results[1:])


OWN_BUILTINS = """
import builtins
import numpy as np
import evalframe

namespace = {"__builtins__": {"ValueError": ValueError}, "np": np}
exec('''
def function(x, **more):
    total = x * 2
    for name, value in more.items():
        total = total + value
    for row in [total, x]:
        total = total - row
    return np.stack([total, x[x > 0]])
''', namespace)
captured = evalframe.jit(namespace["function"])
for _ in range(3):
    assert (captured(np.ones(2), a=1, b=2.0) == [[-1, -1], [1, 1]]).all()

real = builtins.len, builtins.iter, builtins.abs
builtins.len, builtins.iter, builtins.abs = lambda x: 7, None, lambda x: x * 0

def changed(x):
    count = 0
    for y in (x, x):
        count = count + abs(y) + len(y)
    return count + x[x > 0]

captured = evalframe.jit(changed)
seen = [captured(np.ones(2)) for _ in range(3)]
builtins.len, builtins.iter, builtins.abs = real
assert all((found == 15).all() for found in seen)
assert all((captured(np.ones(2)) == 7).all() for _ in range(3))
"""


def test_functions_with_builtins_of_their_own() -> None:
    """In a process of its own, as what stands for `len` and `iter` is looked up once."""
    done = subprocess.run([sys.executable, "-c", OWN_BUILTINS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


HUGE = [2**62, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), -(10**30)]


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2] * n", "n * [x, 2]", "(1, x) * n", "n * (1, 2)", "[] * n", "n * ()", "operator.mul([1], n)", "list(zip(range(n), [1, x]))",
        "list(enumerate([1, 2], n))", "list(enumerate([1, 2], n - 1))", "[i for i in range(n)][:1] if n < 0 else 0", "next(iter(range(n)))",
        "[(i, j) for i, j in zip([1, 2], range(n))]", "max([n, 1])", "list(itertools.islice(itertools.count(n), 3))", "range(n)[1:3]", "[1, 2][n:]",
        "[1, x][-n:]", "collections.deque([1], n)", "[1, 2].pop(n)", "[1, x].insert(n, 2)", "(1, 2).index(1, n)", "sum([n, n], n)", "[i for i, j in zip(range(n), 'ab')]",
    ],
)  # fmt: skip
def test_numbers_beyond_what_memory_holds(text: str) -> None:
    names: dict[str, Any] = {"itertools": itertools, "operator": operator, "collections": collections}
    exec(f"def f(x, n):\n    found = {text}\n    return found, x + 1", names)
    for n in HUGE:
        check_behaves_as_plain(names["f"], "reference", [(A, n), (A, n), (B, n)])
    check_behaves_as_plain(names["f"], "reference", [(A, n) for n in [3, 4, 5, *HUGE, 3, 2**63, 2**63]])


@pytest.mark.parametrize("call", ["row.clear(x)", "row.reverse(1)", "row.sort(1)", "row.pop(1, 2)", "row.append()", "row.extend()", "row.insert(1)", "row.remove()",
                                  "table.clear(x)", "table.update(1, 2)", "table.popitem(1)", "table.pop()", "table.setdefault()", "names.clear(1)", "names.add()",
                                  "names.discard()", "queue.clear(1)", "queue.append()", "queue.rotate(1, 2)", "queue.reverse(x)", "ordered.clear(1)",
                                  "ordered.move_to_end()", "counts.clear(2)", "row.clear(*[1])", "table.clear(**{'a': 1})"])  # fmt: skip
def test_calls_with_wrong_arguments_change_nothing(call: str) -> None:
    names: dict[str, Any] = {"collections": collections}
    exec(
        "def f(x):\n"
        "    row, table, names, queue = [x, 3, 1], {'a': x}, {1, 2}, collections.deque([1, 2])\n"
        "    ordered, counts = collections.OrderedDict(a=1, b=2), collections.Counter('aab')\n"
        f"    try:\n        {call}\n    except TypeError as error:\n        caught = str(error)\n"
        "    return caught, row, table, names, queue, ordered, counts, x + 1\n",
        names,
    )
    check_behaves_as_plain(names["f"], "reference", [(A,)] * 3)


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_tuples_are_joined(backend: str) -> None:
    outside = (A, "text")

    def f(x: Any, given: Any) -> Any:
        rows: Any = ()
        for number in range(3):
            rows = rows + (x * number,)
        kept = rows
        rows += given
        alone = () + given
        again = given + ()
        both = outside + rows + ("end",)
        return rows, kept is rows, alone is given, again is given, kept + () is kept, len(both), both[0] is outside[0], both[3:]

    captured = evalframe.jit(f, backend=backend)
    for given in ((), (A,), (A, 1), (), (A, 2)):
        assert same(captured(A, given), f(A, given))
    check_is_one_graph(f, (A, (A, 1)))
