"""Constructs: lists, tuples, dicts, sets, bytes and ranges."""

from __future__ import annotations

from typing import Any

OUTER: list[Any] = []
TABLE: dict[str, Any] = {}
SEEN: set[int] = set()


def reset() -> None:
    OUTER[:] = [3, 1, 2]
    TABLE.clear()
    TABLE.update(a=2, b=5)
    SEEN.clear()
    SEEN.update((1, 2))


def state() -> Any:
    return list(OUTER), dict(TABLE), sorted(SEEN)


def membership(x: Any, y: Any) -> Any:
    return x + 1 if "a" in ("a", "b") and 3 in {1, 3} else y


def unpack_ex(x: Any, y: Any) -> Any:
    a, *rest = (x, y, x)
    return a + rest[0]


def nested_unpacking(x: Any, y: Any) -> Any:
    (a, b), [c, *_] = (x, 2), [y, 3, 4]
    return a * b + c


def containers_inside_themselves(x: Any, y: Any) -> Any:
    rows: list[Any] = []
    pair = (rows, x)
    rows.append(pair)
    table: dict[str, Any] = {"rows": rows}
    table["self"] = table
    return rows[0] is pair, pair[0] is rows, table["self"] is table, repr(rows[0][0] is rows), x + y


def container_inside_itself_is_kept(x: Any, y: Any) -> Any:
    rows: list[Any] = [1]
    rows.append((rows, table := {"x": x}))
    table["rows"] = rows
    total = float((x * y).sum())
    return total, rows[1][0] is rows, table["rows"][1][1] is table, table["x"] is x


def text_of_container_inside_itself(x: Any, y: Any) -> Any:
    rows: list[Any] = [1]
    rows.append(rows)
    return x + y, repr(rows)


def swap(x: Any, y: Any) -> Any:
    x, y = y, x
    return x - y * 2


def slice_of_list(x: Any, y: Any) -> Any:
    return [x, y, x][1:][0] + (x, y)[:1][0]


def list_extend(x: Any, y: Any) -> Any:
    row = [x]
    row.extend([y, y])
    return row[0] + row[2]


def list_pop(x: Any, y: Any) -> Any:
    row = [x, y]
    return row.pop() + 1


def list_pop_first(x: Any, y: Any) -> Any:
    row = [x, y]
    return row.pop(0) * 2 + row[0]


def list_store(x: Any, y: Any) -> Any:
    row = [x, y]
    row[0] = y
    return row[0] + 1


def list_insert(x: Any, y: Any) -> Any:
    row = [x]
    row.insert(0, y)
    return row[0] - row[1]


def list_remove(x: Any, y: Any) -> Any:
    row = [1, 2, 3]
    row.remove(2)
    return x * row[1] + y


def list_reverse(x: Any, y: Any) -> Any:
    row = [x, y]
    row.reverse()
    return row[0] - row[1]


def list_sort(x: Any, y: Any) -> Any:
    row = [3, 1, 2]
    row.sort()
    return x * row[0] + y * row[2]


def list_sort_by_key(x: Any, y: Any) -> Any:
    rows = [(2, x), (1, y)]
    rows.sort(key=lambda row: row[0])
    return rows[0][1] - rows[1][1]


def list_index_and_count(x: Any, y: Any) -> Any:
    row = [3, 1, 3]
    return x * row.index(1) + y * row.count(3)


def list_clear_and_copy(x: Any, y: Any) -> Any:
    row = [x, y]
    other = row.copy()
    row.clear()
    return other[0] + other[1] * len(row)


def list_delete_item(x: Any, y: Any) -> Any:
    row = [x, y, x]
    del row[0]
    return row[0] + len(row)


def list_delete_slice(x: Any, y: Any) -> Any:
    row = [x, y, x, y]
    del row[:2]
    return row[0] * len(row)


def list_slice_store(x: Any, y: Any) -> Any:
    row = [x, 1, 2]
    row[1:] = [y, 5, 6]
    return row[0] + row[1] * row[3]


def list_concatenation(x: Any, y: Any) -> Any:
    row = [x] + [y]
    row += [x]
    return row[1] + row[2]


def list_repetition(x: Any, y: Any) -> Any:
    row = [x] * 3
    return row[2] + y


def list_of_lists(x: Any, y: Any) -> Any:
    grid = [[x, y], [y, x]]
    grid[0][1] = grid[1][1] + 1
    return grid[0][1] * 2


def list_comparison(x: Any, y: Any) -> Any:
    return x + 1 if [1, 2] < [1, 3] and (1, 2) == (1, 2) else y


def list_of_outer(x: Any, y: Any) -> Any:
    return x * OUTER[0] + len(OUTER)


def loop_over_outer_list(x: Any, y: Any) -> Any:
    for n in OUTER:
        x = x + y * n
    return x


def append_to_outer_list(x: Any, y: Any) -> Any:
    z = x + y
    OUTER.append(1)
    return z * 2


def append_array_to_outer_list(x: Any, y: Any) -> Any:
    z = x + y
    OUTER.append(z)
    return z * 2


def store_in_outer_list(x: Any, y: Any) -> Any:
    z = x + y
    OUTER[0] = 7
    return z * 2


def pop_from_outer_list(x: Any, y: Any) -> Any:
    z = x + y
    return z * OUTER.pop()


def sort_outer_list(x: Any, y: Any) -> Any:
    z = x + y
    OUTER.sort()
    return z * OUTER[0]


def tuple_methods(x: Any, y: Any) -> Any:
    row = (3, 1, 3)
    return x * row.index(1) + y * row.count(3)


def tuple_concatenation(x: Any, y: Any) -> Any:
    row = (x,) + (y, x) * 2
    return row[0] + row[3] * len(row)


def tuple_hash_as_key(x: Any, y: Any) -> Any:
    d = {(1, 2): x, (2, 1): y}
    return d[1, 2] - d[2, 1]


def dict_literal(x: Any, y: Any) -> Any:
    d = {"a": x, "b": y}
    return d["a"] + d["b"]


def dict_call(x: Any, y: Any) -> Any:
    d = dict(a=x, b=y)
    return d["a"] - d["b"]


def dict_of_pairs(x: Any, y: Any) -> Any:
    d = dict([("a", x), ("b", y)])
    return d["a"] - d["b"]


def dict_loop(x: Any, y: Any) -> Any:
    d = {"a": x, "b": y}
    d["c"] = x - y
    return sum([value * len(name) for name, value in d.items()])


def dict_keys_and_values(x: Any, y: Any) -> Any:
    d = {"a": x, "b": y}
    return x * len(list(d.keys())) + list(d.values())[1]


def dict_get(x: Any, y: Any) -> Any:
    d = {"a": x}
    return d.get("a") + d.get("b", 1) + y


def dict_setdefault(x: Any, y: Any) -> Any:
    d: dict[str, Any] = {"a": x}
    return d.setdefault("a", y) + d.setdefault("b", y)


def dict_update(x: Any, y: Any) -> Any:
    d = {"a": x}
    d.update({"b": y})
    d.update(c=x)
    return d["a"] + d["b"] * d["c"]


def dict_pop(x: Any, y: Any) -> Any:
    d = {"a": x, "b": y}
    return d.pop("a") * len(d) + d.pop("c", 1)


def dict_popitem(x: Any, y: Any) -> Any:
    d = {"a": x, "b": y}
    name, value = d.popitem()
    return value * len(name) + x


def dict_delete(x: Any, y: Any) -> Any:
    d = {"a": x, "b": y}
    del d["a"]
    return d["b"] * len(d)


def dict_union(x: Any, y: Any) -> Any:
    d = {"a": x} | {"b": y}
    d |= {"c": x}
    return d["b"] + d["c"]


def dict_unpacking(x: Any, y: Any) -> Any:
    d = {"a": x, "b": x}
    e = {**d, "b": y}
    return e["a"] + e["b"]


def dict_membership(x: Any, y: Any) -> Any:
    d = {"a": x}
    return d["a"] + 1 if "a" in d and "b" not in d else y


def dict_copy_and_clear(x: Any, y: Any) -> Any:
    d = {"a": x, "b": y}
    e = d.copy()
    d.clear()
    return e["a"] + e["b"] * len(d)


def dict_from_keys(x: Any, y: Any) -> Any:
    d = dict.fromkeys("ab", 2)
    return x * d["a"] + y * d["b"]


def dict_comparison(x: Any, y: Any) -> Any:
    return x + 1 if {"a": 1} == {"a": 1} else y


def dict_views(x: Any, y: Any) -> Any:
    shared = {"a": 1, "b": 2}.keys() & {"b": 3}.keys()
    return x * len(shared) + y


def dict_reversed(x: Any, y: Any) -> Any:
    d = {"a": x, "b": y}
    z = x
    for name in reversed(d):
        z = z * 2 + d[name]
    return z


def dict_of_lists(x: Any, y: Any) -> Any:
    d: dict[str, list[Any]] = {}
    for name, a in (("a", x), ("b", y), ("a", y)):
        d.setdefault(name, []).append(a)
    return d["a"][0] + d["a"][1] * len(d["b"])


def dict_counting(x: Any, y: Any) -> Any:
    counts: dict[str, int] = {}
    for letter in "abca":
        counts[letter] = counts.get(letter, 0) + 1
    return x * counts["a"] + y


def outer_dict_read(x: Any, y: Any) -> Any:
    return x * TABLE["a"] + TABLE.get("b", 1)


def outer_dict_store(x: Any, y: Any) -> Any:
    z = x + y
    TABLE["c"] = 3
    return z * 2


def outer_dict_store_array(x: Any, y: Any) -> Any:
    z = x + y
    TABLE["c"] = z
    return z * 2


def outer_dict_increment(x: Any, y: Any) -> Any:
    z = x + y
    TABLE["a"] += 1
    return z * TABLE["a"]


def outer_dict_delete(x: Any, y: Any) -> Any:
    z = x + y
    del TABLE["a"]
    return z * len(TABLE)


def outer_dict_loop(x: Any, y: Any) -> Any:
    for name, n in TABLE.items():
        x = x + y * n * len(name)
    return x


def set_literal(x: Any, y: Any) -> Any:
    return x * len({1, 2, 2, 3}) + y


def set_add(x: Any, y: Any) -> Any:
    seen = set()
    for n in (1, 2, 1):
        seen.add(n)
    return x * len(seen) + y


def set_operations(x: Any, y: Any) -> Any:
    a, b = {1, 2, 3}, {2, 3, 4}
    return x * len(a & b) + y * len(a | b) - len(a - b) - len(a ^ b)


def set_methods(x: Any, y: Any) -> Any:
    a = {1, 2}
    a.update([3, 4])
    a.discard(1)
    a.remove(2)
    return x * sum(a) + y


def set_comparison(x: Any, y: Any) -> Any:
    return x + 1 if {1} <= {1, 2} and {1, 2}.issuperset({2}) and {1}.isdisjoint({2}) else y


def set_loop(x: Any, y: Any) -> Any:
    for n in sorted({3, 1, 2}):
        x = x + y * n
    return x


def outer_set_add(x: Any, y: Any) -> Any:
    z = x + y
    SEEN.add(9)
    return z * 2


def outer_set_membership(x: Any, y: Any) -> Any:
    return x * 2 if 1 in SEEN and 7 not in SEEN else y


def frozen_set(x: Any, y: Any) -> Any:
    return x * len(frozenset((1, 2)) | {3}) + y


def range_methods(x: Any, y: Any) -> Any:
    r = range(2, 12, 3)
    return x * r[1] + y * len(r) + r.index(8) + (5 in r)


def bytes_methods(x: Any, y: Any) -> Any:
    data = bytes([1, 2, 255])
    return x * len(data.hex()) + y * data[2] + int.from_bytes(data[:2], "big")


def byte_array(x: Any, y: Any) -> Any:
    data = bytearray(b"ab")
    data.append(3)
    data[0] = 7
    return x * data[0] + y * len(data)


def memory_view(x: Any, y: Any) -> Any:
    view = memoryview(b"abc")
    return x * view[1] + y * len(view[1:])


def enumerated(x: Any, y: Any) -> Any:
    for i, a in enumerate((x, y)):
        x = x + a * i
    return x


def zipped(x: Any, y: Any) -> Any:
    for a, b in zip((x, y), (1, 2), strict=True):
        x = x + a * b
    return x


def mapped(x: Any, y: Any) -> Any:
    a, b = map(lambda v: v * 2, (x, y))
    return a + b


def mapped_in_loop(x: Any, y: Any) -> Any:
    z = x
    for a in map(lambda v, n: v * n, (x, y), (2, 3)):
        z = z + a
    return z


def filtered(x: Any, y: Any) -> Any:
    z = x + y
    for n in filter(lambda n: n > 1, (1, 2, 3)):
        z = z * n
    return z


def reversed_list(x: Any, y: Any) -> Any:
    z = x
    for a in reversed([x, y]):
        z = z * 2 + a
    return z


def sorted_numbers(x: Any, y: Any) -> Any:
    low, *_, high = sorted([3, 1, 2], reverse=True)
    return x * low + y * high


def sorted_by_key(x: Any, y: Any) -> Any:
    rows = sorted([(2, x), (1, y)], key=lambda row: row[0])
    return rows[0][1] - rows[1][1]


def minimum_by_key(x: Any, y: Any) -> Any:
    best = min([(2, x), (1, y)], key=lambda row: row[0])
    return best[1] * 2


def any_and_all(x: Any, y: Any) -> Any:
    return x + 1 if any([0, 1]) and all((1, 2)) else y


def sum_with_start(x: Any, y: Any) -> Any:
    return sum([x, y], 3)


def tuple_of_results(x: Any, y: Any) -> Any:
    import numpy as np

    q, r = np.linalg.qr(np.outer(x, y))
    return q @ r


def array_unpacking(x: Any, y: Any) -> Any:
    a, b, c = x[:3]
    return a * y + b - c


def array_unpacking_with_star(x: Any, y: Any) -> Any:
    first, *others = x[:4]
    return first * y + others[-1]


def array_in_display(x: Any, y: Any) -> Any:
    parts = [y, *x[:3], *y[:2]]
    return len(parts), parts[1] + parts[-1]


def identity_of_results(x: Any, y: Any) -> Any:
    row = [x, y]
    both = (row, row)
    return both[0] is both[1], row, both, x + 1
