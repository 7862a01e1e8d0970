"""Deques, and dicts that do more than a dict, in recorded code: whatever is done to them comes to what it comes to plainly."""

from __future__ import annotations

import collections
import operator
import random
import string
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, leaving_before, outcome, same

X, Y = np.arange(3.0), np.arange(3.0) + 2
VALUES = ("x", "y", "x + y", "1", "'a'", "[x]", "(y, 2)")
DEQUES = ("", "[x, 1, y]", "[x], 2", "[1, 2, 3], maxlen=2", "'abc'", "range(4)", "[1], 0")
ON_DEQUES = (
    *("q.append({v})", "q.appendleft({v})", "out.append(q.pop())", "out.append(q.popleft())", "q.extend(({v}, 1))", "q.extendleft([3, {v}])"),
    *("q.rotate({n})", "q.reverse()", "q.clear()", "out.append(q.copy())", "q.insert({n}, {v})", "q[{n}] = {v}", "del q[{n}]", "out.append(q[{n}])"),
    *("z = z + len(q)", "q += [{v}]", "out.append(list(q))", "out.append(tuple(reversed(q)))", "out.append(q.maxlen)", "z = z * 1.5"),
    *("for v in q: out.append(v)", "out.append(q)", "out.append(bool(q))", "a, *b = q; out.append(b)", "out.append([*q, {v}])"),
)
MAPPINGS = ("OrderedDict({a})", "defaultdict(list, {a})", "defaultdict(int, {a})", "defaultdict(None, {a})", "defaultdict(dict, {a})")
ITEMS = ("", "a=x, b=2", "{'a': 1, 'c': y}", "[('b', x), ('a', y)]", "{'a': 2}, d=x")
ON_MAPPINGS = (
    *("d['{k}'] = {v}", "out.append(d['{k}'])", "del d['{k}']", "out.append(d.pop('{k}', {v}))", "out.append(d.pop('{k}'))", "out.append(d.popitem())"),
    *("out.append(list(d))", "out.append(list(d.items()))", "out.append(tuple(d.values()))", "d.update({k}={v})", "d.update({{'{k}': {v}, 'e': 1}})"),
    *("out.append(d.setdefault('{k}', {v}))", "out.append(d.setdefault('{k}'))", "out.append(d.get('{k}'))", "out.append('{k}' in d)"),
    *("z = z + len(d)", "out.append(dict(d))", "out.append(d.copy())", "for k, v in d.items(): out.append((k, v))", "z = z * 1.5", "d |= {{'{k}': {v}}}"),
    *("out.append(d | {{'{k}': {v}}})", "out.append({{'{k}': {v}}} | d)", "out.append({{**d}})", "out.append(list(reversed(d)))", "d.clear()"),
    *("out.append(d)", "out.append(isinstance(d, dict))", "out.append(d == {{'a': 1}})", "out.append(list(zip(d, d.values())))"),
)
ON_ORDERED = ("d.move_to_end('{k}')", "d.move_to_end('{k}', last=False)", "out.append(d.popitem(last=False))", "d.move_to_end('{k}', False)")


def program(rng: random.Random) -> Callable[..., Any]:
    if rng.random() < 0.5:
        lines, steps = [f"q = d = collections.deque({rng.choice(DEQUES)})"], ON_DEQUES
    else:
        made = rng.choice(MAPPINGS)
        lines = ["q = d = collections." + made.format(a=rng.choice(ITEMS))]
        steps = ON_MAPPINGS + (ON_ORDERED * 2 if "Ordered" in made else ())
    lines += ["z = x * 2", "out = []"]
    lines += [rng.choice(steps).format(v=rng.choice(VALUES), n=rng.randrange(-4, 5), k=rng.choice("abcd")) for _ in range(rng.randrange(3, 12))]
    lines.append("return z, d, out")
    names: dict[str, Any] = {"collections": collections, "__source__": lines}
    exec("def f(x, y):\n    " + "\n    ".join(lines), names)
    function: Callable[..., Any] = names["f"]
    return function


@pytest.mark.parametrize("seed", range(60))
def test_random_changes(seed: int) -> None:
    function = program(random.Random(seed))
    captured = evalframe.jit(function, backend="reference")
    expected = outcome(function, X, Y)
    for call in range(3):
        assert same(outcome(captured, X, Y), expected), (call, function.__globals__["__source__"])
    for node in range(max((entry["nodes"] for entry in _core.jit_entries(captured)), default=0)):
        with leaving_before(node):
            assert same(outcome(captured, X, Y), expected), (node, function.__globals__["__source__"])


def test_elements_keep_their_identity() -> None:
    def f(x: Any, y: Any) -> Any:
        row = [x]
        queue, table = collections.deque([row, row]), collections.defaultdict(list, a=row)
        z = x + y
        return queue, table, row, z

    captured = evalframe.jit(f, backend="native", fullgraph=True)
    captured(X, Y)
    queue, table, row, _ = captured(X, Y)
    assert queue[0] is row and queue[1] is row and table["a"] is row and row[0] is X
    assert table.default_factory is list and table["new"] == []
    assert sys.getrefcount(row) == 5


def test_factory_of_the_programs_is_called_each_time() -> None:
    calls: list[int] = []

    def f(x: Any) -> Any:
        def factory() -> list[int]:
            calls.append(len(calls))
            return [len(calls)]

        table: Any = collections.defaultdict(factory)
        table["a"].append(x)
        return table["a"], table["b"], x + 1

    captured = evalframe.jit(f, backend="reference")
    for _ in range(3):
        calls.clear()
        got = outcome(captured, X), list(calls)
        calls.clear()
        assert same(got, (outcome(f, X), list(calls)))


def test_types_may_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loud(dict[Any, Any]):
        def __missing__(self, key: str) -> str:
            return "missing"

    def f(x: Any) -> Any:
        table: Any = collections.OrderedDict(a=1)
        queue: Any = collections.deque([1])
        return x + 1, table.get("b") or ("b" in table), len(queue), type(table).__name__

    captured = evalframe.jit(f, backend="reference")
    for _ in range(3):
        assert same(outcome(captured, X), outcome(f, X))
    monkeypatch.setattr(collections, "OrderedDict", Loud)
    assert same(outcome(captured, X), outcome(f, X))
    monkeypatch.setattr(collections, "deque", list)
    assert same(outcome(captured, X), outcome(f, X))


def test_attributes_and_stores_break() -> None:
    def f(x: Any) -> Any:
        table: Any = collections.defaultdict(int)
        table.default_factory = list
        table["a"].append(x)
        order: Any = collections.OrderedDict(b=x)
        order.note = 3
        return table, order, vars(order), x + 1

    captured = evalframe.jit(f, backend="reference")
    for _ in range(3):
        got, expected = outcome(captured, X), outcome(f, X)
        assert same(got, expected) and got[0][1][0].default_factory is list


@pytest.mark.parametrize("call", ["'%(a)s' % lists", "'{a}'.format_map(lists)", "'{0[a]}'.format(lists)", "'ab'.translate(numbers)", "operator.getitem(lists, 'a')",
                                  "operator.itemgetter('a', 'b')(lists)", "list(map(lists.__getitem__, ['a']))", "string.Template('$a').substitute(lists)",
                                  "collections.ChainMap(lists)['a']", "operator.mod('%(a)s', lists)", "sorted(lists)", "repr(lists)", "len(numbers)",
                                  "f'{lists}'", "'%s' % (lists,)", "lists == {'a': []}", "'a' in lists"])  # fmt: skip
def test_text_that_is_put_together_adds_keys_to_a_defaultdict(call: str) -> None:
    names: dict[str, Any] = {"collections": collections, "operator": operator, "string": string}
    exec(
        f"def f(x):\n    lists, numbers = collections.defaultdict(list), collections.defaultdict(int)\n    found = {call}\n"
        "    return found, lists, numbers, dict(lists), dict(numbers), x + 1\n",
        names,
    )
    check_behaves_as_plain(names["f"], "reference", [(np.ones(2),)] * 3)
