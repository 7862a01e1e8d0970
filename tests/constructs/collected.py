"""Constructs: deques, and dicts that do more than a dict, with arrays in them."""

from __future__ import annotations

import collections
import collections.abc
import copy
from typing import Any

NESTED: dict[str, Any] = {"rows": [1, 2], "names": {"a": 1}}
SETTINGS = collections.OrderedDict(gain=2, offset=3)


def deque_as_window(x: Any, y: Any) -> Any:
    recent: Any = collections.deque(maxlen=2)
    for a in (x, y, x + 1):
        recent.append(a)
    return recent[0] + recent[1], len(recent), recent.maxlen


def deque_from_both_ends(x: Any, y: Any) -> Any:
    queue = collections.deque((x, y), 3)
    queue.extendleft([1, x])
    queue.extend((y, 2))
    return list(queue), queue


def deque_searched(x: Any, y: Any) -> Any:
    names = collections.deque(["a", "b", "a"])
    names.remove("b")
    return x * names.count("a") + names.index("a", 1), "b" in names, str(names)


def deque_by_index(x: Any, y: Any) -> Any:
    queue = collections.deque([x, y, 3])
    queue[1] = y + 1
    queue[-1] = 4
    del queue[0]
    queue.insert(1, x)
    return queue[0] + queue[1] * queue[-1]


def deque_empty(x: Any, y: Any) -> Any:
    queue: Any = collections.deque()
    try:
        queue.popleft()
    except IndexError as error:
        return x + len(str(error))
    return y


def deque_full(x: Any, y: Any) -> Any:
    queue = collections.deque([1, 2], maxlen=2)
    try:
        queue.insert(0, 5)
    except IndexError:
        queue += [x, y]
    return queue[0] * 2 + queue[1]


def deque_breadth_first(x: Any, y: Any) -> Any:
    graph = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}
    queue, seen = collections.deque(["a"]), ["a"]
    while queue:
        for name in graph[queue.popleft()]:
            if name not in seen:
                seen.append(name)
                queue.append(name)
                x = x + y
    return x, seen


def deque_in_loop(x: Any, y: Any) -> Any:
    for a in reversed(collections.deque([x, y, 2])):
        x = x * 2 + a
    return x


def deque_copied_and_compared(x: Any, y: Any) -> Any:
    queue = collections.deque([1, 2, 3])
    other = queue.copy()
    other.rotate(-1)
    other.reverse()
    return x * (2 if queue == other else 3) + y * (queue < other), queue, other, bool(queue)


def deque_given_out(x: Any, y: Any) -> Any:
    queue: Any = collections.deque([x], maxlen=4)
    queue.append(queue)
    queue.append((y, 2))
    z = x * y
    same = queue[1] is queue
    del queue[1]
    return z, same, queue


def deque_changed_in_loop(x: Any, y: Any) -> Any:
    queue = collections.deque([1, 2])
    try:
        for n in queue:
            queue.append(n)
    except RuntimeError as error:
        return x + len(str(error))
    return y


def default_dict_of_numbers(x: Any, y: Any) -> Any:
    counts: Any = collections.defaultdict(int, start=2)
    for name in "abca":
        counts[name] += 1
    return x * counts["a"] + y * counts["start"], counts, str(counts)


def default_dict_of_dicts(x: Any, y: Any) -> Any:
    table: Any = collections.defaultdict(dict)
    table["a"]["x"] = x
    table["b"]["y"] = y
    return table["a"]["x"] + table["b"]["y"], "c" in table, table.get("c"), len(table)


def default_dict_of_sets(x: Any, y: Any) -> Any:
    table: Any = collections.defaultdict(set)
    table["a"].add(1)
    table["a"].add(2)
    return x * len(table["a"]) + y * len(table["b"]), table


def default_dict_without_factory(x: Any, y: Any) -> Any:
    table: Any = collections.defaultdict(None, {"a": x})
    try:
        return table["a"] + table["b"]
    except KeyError as error:
        return y + len(str(error)), table


def default_dict_grouping(x: Any, y: Any) -> Any:
    groups: Any = collections.defaultdict(list)
    for name, value in (("a", x), ("b", y), ("a", 2)):
        groups[name].append(value)
    return {name: sum(values) for name, values in groups.items()}


def default_dict_merged(x: Any, y: Any) -> Any:
    table: Any = collections.defaultdict(list, a=[x])
    table.update(b=[y])
    table.setdefault("c", []).append(3)
    other = dict(table)
    return other["a"][0] + other["b"][0] * table.pop("c")[0], table.popitem()[0], table.copy()


def ordered_dict_reordered(x: Any, y: Any) -> Any:
    order: Any = collections.OrderedDict([("a", x), ("b", y), ("c", 2)])
    order.move_to_end("a")
    order.move_to_end("c", last=False)
    return list(order), list(order.values())[1] + x, order


def ordered_dict_as_cache(x: Any, y: Any) -> Any:
    cache: Any = collections.OrderedDict()
    for n in (1, 2, 1, 3):
        if n in cache:
            cache.move_to_end(n)
        cache[n] = x * n
        if len(cache) > 2:
            cache.popitem(last=False)
    return cache[1] + y, list(cache)


def ordered_dict_compared(x: Any, y: Any) -> Any:
    one, two = collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)
    return x * (2 if one == two else 3) + y * (one == {"b": 2, "a": 1}), str(one), one | two


def ordered_dict_emptied(x: Any, y: Any) -> Any:
    order: Any = collections.OrderedDict(a=x)
    popped = order.pop("a")
    try:
        order.popitem()
    except KeyError as error:
        return popped + y * len(str(error)), order.pop("b", 5), order
    return x


def ordered_dict_reversed(x: Any, y: Any) -> Any:
    order = collections.OrderedDict(a=x, b=y)
    del order["a"]
    order["a"] = y * 2
    total = x
    for name in reversed(order):
        total = total * 2 + order[name]
    return total, order


def counter_of_words(x: Any, y: Any) -> Any:
    counts = collections.Counter(["a", "b", "a"])
    counts["c"] += 5
    del counts["missing"], counts["b"]
    return x * counts["a"] + y * counts["z"], counts, len(counts), "a" in counts


def counter_of_numbers(x: Any, y: Any) -> Any:
    counts = collections.Counter(a=3, b=1)
    counts.update({"a": 2})
    counts.update("ab")
    counts.subtract(b=4)
    return x * counts["a"] + y * counts["b"], dict(counts)


def counter_with_arrays(x: Any, y: Any) -> Any:
    totals: Any = collections.Counter()
    for name, value in (("a", x), ("b", y), ("a", 2)):
        totals[name] += value
    return totals["a"] + totals["b"], list(totals)


class Table(dict[Any, Any]):
    def __init__(self, scale: Any, **values: Any) -> None:
        super().__init__(values)
        super().__setitem__("scale", scale)

    def __getitem__(self, name: str) -> Any:
        return super().__getitem__(name) * super().get("scale", 1)

    def __missing__(self, name: str) -> int:
        return len(name)


def dict_subclass_of_arrays(x: Any, y: Any) -> Any:
    table = Table(2, a=x, b=y)
    total = table["a"] + table["b"]
    table.update(c=1)
    return total, len(table), list(table), "c" in table, table.get("b") is y


def methods_that_are_values(x: Any, y: Any) -> Any:
    row: list[Any] = []
    add, table = row.append, {"a": x}
    find = table.get
    for n in (1, 2):
        add(x * n)
    return row[1] + find("a") + find("b", y), row


def bases_that_are_asked(x: Any, y: Any) -> Any:
    abc = collections.abc
    tests = [isinstance(a, b) for a in ({}, [], "a", x, 3) for b in (abc.Mapping, abc.Sequence, abc.Hashable)]
    return x * sum(tests) + y, tests


class Holder:
    def __init__(self, a: Any) -> None:
        self.a, self.rows = a, [a]


def copies_of_everything(x: Any, y: Any) -> Any:
    row = [x, {"y": y, "both": (x, 2)}]
    shallow, deep = copy.copy(row), copy.deepcopy(row)
    deep[0] += 1
    return deep[1]["both"][0] + 1, shallow, deep, row


def copies_of_instances(x: Any, y: Any) -> Any:
    holder = Holder(x + y)
    shallow, deep = copy.copy(holder), copy.deepcopy(holder)
    deep.a *= 2
    return shallow.rows is holder.rows, deep.rows[0] + 1, deep.a, shallow.a, holder.a


def copies_of_settings(x: Any, y: Any) -> Any:
    settings = copy.deepcopy(NESTED)
    settings["rows"].append(3)
    settings["names"]["b"] = x
    return x * len(settings["rows"]) + y * len(NESTED["rows"]), settings, NESTED


def copies_of_arrays(x: Any, y: Any) -> Any:
    z, w = copy.copy(x), copy.deepcopy((y, y))
    z += 1
    w[0][0] = 7
    return z, w, w[1] + 1, x, copy.copy(3), copy.deepcopy("a")


def ordered_dict_from_outside(x: Any, y: Any) -> Any:
    return x * SETTINGS["gain"] + y * len(SETTINGS)
