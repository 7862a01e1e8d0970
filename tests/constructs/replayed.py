"""Constructs: sets and other objects of C types that the function makes, changes, hands on and gives out."""

from __future__ import annotations

import hashlib
import heapq
from typing import Any

LETTERS = ("a", "b", "c")
NUMBERS = {1, 5, 3}


def reset() -> None:
    NUMBERS.clear()
    NUMBERS.update((1, 5, 3))


def state() -> Any:
    return list(NUMBERS)


def set_given_out(x: Any, y: Any) -> Any:
    s = {3, 1}
    z = x + y
    s.add(8)
    s.discard(3)
    return z * 2, s, [s]


def set_with_collisions(x: Any, y: Any) -> Any:
    s = {8, 0, 16, 24}
    z = x + y
    s.discard(0)
    s.add(32)
    return z - 1, list(s), s


def set_of_set(x: Any, y: Any) -> Any:
    a = {8, 0}
    b = a | {16}
    z = x * 2
    a.add(7)
    return a, b - {0}, z + y


def set_updated_by_others(x: Any, y: Any) -> Any:
    a = {1, 2, 3}
    other = {3, 4}
    a |= other
    z = x + y
    other.add(1)
    a &= {1, 3, 4}
    a -= {4}
    a ^= {9}
    a.update([10], ())
    a.update(range(2), {"k": 1})
    return a, other, z * len(a)


def set_in_function(x: Any, y: Any) -> Any:
    def add(to: set[int], n: int) -> int:
        to.add(n)
        return len(to)

    s: set[int] = set()
    return x * add(s, 1) + y * add(s, 1), s


def set_popped(x: Any, y: Any) -> Any:
    s = {1}
    z = x * s.pop()
    try:
        s.pop()
    except KeyError as error:
        return z + y, str(error), s
    return z


def set_removed_missing(x: Any, y: Any) -> Any:
    s = {1}
    try:
        s.remove(2)
    except KeyError as error:
        return x + y, error.args, s
    return x


def set_unhashable(x: Any, y: Any) -> Any:
    s = {1}
    try:
        s.update([2, []])
    except TypeError as error:
        return x + y, str(error), s
    return x


def set_changed_in_loop(x: Any, y: Any) -> Any:
    s = {1, 2}
    try:
        for n in s:
            s.add(n + 10)
            x = x + y
    except RuntimeError as error:
        return x, str(error), sorted(s)
    return x


def set_left_in_loop(x: Any, y: Any) -> Any:
    for n in {8, 16, 0}:
        x = x + y * n
        if n == 16:
            break
    return x, n


def iterator_of_set(x: Any, y: Any) -> Any:
    numbers = iter({5, 3, 1})
    first = next(numbers)
    z = x * first + y
    return z, list(numbers)


def set_comprehension_with_condition(x: Any, y: Any) -> Any:
    s = {len(word) for word in ("a", "bb", "cc") if word != "a"}
    return x * len(s) + y, s


def set_of_letters(x: Any, y: Any) -> Any:
    s = set("abca")
    return x * len(s) + y, "".join(sorted(s)), s == set(LETTERS)


def set_as_key(x: Any, y: Any) -> Any:
    d = {frozenset((1, 2)): x}
    return d[frozenset({2, 1})] + y


def set_text(x: Any, y: Any) -> Any:
    return x + y, f"{ {1, 2} } {set()!r}", str({3})


def set_unpacked(x: Any, y: Any) -> Any:
    a, b = {1, 2}
    return x * a + y * b, [*{3, 4}], {*{5}, 6}


def set_truth(x: Any, y: Any) -> Any:
    s = {1}
    if s and not set():
        s.clear()
    return x + 1 if not s else y


def set_is_itself(x: Any, y: Any) -> Any:
    s = {1}
    t = s
    t |= {2}
    return x + y, s is t, isinstance(s, set), type(s) is set


def views_combined(x: Any, y: Any) -> Any:
    a, b = {"k": 1, "l": 2}, {"l": 3, "m": 4}
    common = a.keys() & b.keys()
    z = x + y
    del a["l"]
    return z, common, a.keys() | {"z"}, b.keys() - {"m"}, a.keys() == {"k"}


def outer_set_reads(x: Any, y: Any) -> Any:
    return x * len(NUMBERS) + y * sum(NUMBERS), 5 in NUMBERS, sorted(NUMBERS), NUMBERS == {1, 3, 5}, NUMBERS > {1}


def outer_set_loop(x: Any, y: Any) -> Any:
    for n in NUMBERS:
        x = x + y * n
    return x


def outer_set_changes(x: Any, y: Any) -> Any:
    z = x + y
    NUMBERS.add(7)
    z = z * len(NUMBERS)
    NUMBERS.discard(5)
    NUMBERS.update((9, 10))
    return z - 5 in NUMBERS if False else z * len(NUMBERS), NUMBERS


def outer_set_changed_by_another_name(x: Any, y: Any) -> Any:
    numbers = NUMBERS
    z = x + y
    numbers |= {4}
    NUMBERS.remove(1)
    return z * len(numbers), numbers is NUMBERS, 1 in numbers


def byte_array_changes(x: Any, y: Any) -> Any:
    data = bytearray(b"abc")
    z = x + y
    data += b"d"
    data.append(1)
    data[0] = 7
    data[1:3] = b"xyz"
    del data[0]
    return z * len(data), data, bytes(data), data[1], data[:2], 7 in data


def list_sorted_in_place(x: Any, y: Any) -> Any:
    row = [3, 1, 2]
    row.sort(reverse=True)
    z = x * row[0]
    row.remove(2)
    row[:1] = [7, 8]
    return z + y, row


def sort_that_raises(x: Any, y: Any) -> Any:
    row: list[Any] = [3, 1, "a", 2]
    try:
        row.sort()
    except TypeError as error:
        return x + y, str(error), sorted(map(str, row))
    return x


def remove_that_raises(x: Any, y: Any) -> Any:
    row = [3, 1]
    try:
        row.remove(2)
    except ValueError:
        return x + y, row
    return x


def heap_of_numbers(x: Any, y: Any) -> Any:
    heap = [5, 3, 4]
    heapq.heapify(heap)
    z = x * heapq.heappop(heap)
    heapq.heappush(heap, 1)
    return z + y, heap, heapq.heappushpop(heap, 9)


def dict_of_zip(x: Any, y: Any) -> Any:
    d = dict(zip("ab", (x, y), strict=True), c=1)
    d.update([("a", y)])
    return d["a"] + d["b"], list(d), dict.fromkeys([1, 2])


def dict_of_wrong_pairs(x: Any, y: Any) -> Any:
    try:
        return dict([("a", x), ("b",)])  # type: ignore[list-item]
    except ValueError as error:
        return x + y, str(error)


def slices_of_list(x: Any, y: Any) -> Any:
    row = [x, y, 1, 2]
    row[1:2] = [y, y]
    del row[::2]
    row[5:] = "ab"
    row[::-1] = [1, *row[1:]]
    return x + y, row


def hash_given_out(x: Any, y: Any) -> Any:
    digest = hashlib.sha256(b"a")
    z = x + y
    other = digest.copy()
    digest.update(b"b")
    return z * len(digest.digest()), digest.hexdigest(), other.hexdigest(), digest.name


def view_of_bytes(x: Any, y: Any) -> Any:
    view = memoryview(b"abcd")
    z = x * view[0]
    part = view[1:3]
    part.release()
    return z + y, view.tobytes(), len(view)


def set_put_into_outer(x: Any, y: Any) -> Any:
    mine = {2}
    z = x + y
    NUMBERS.update(mine)
    mine.add(4)
    try:
        NUMBERS.remove(77)
    except KeyError:
        z = z * 2
    return z, mine
