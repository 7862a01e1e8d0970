"""Constructs: collections, itertools, functools, and modules that compute with numbers and text."""

from __future__ import annotations

import bisect
import collections
import copy
import datetime
import decimal
import fractions
import functools
import hashlib
import heapq
import itertools
import json
import math
import operator
import pathlib
import re
import statistics
import string
import struct
import textwrap
from typing import Any

Point = collections.namedtuple("Point", "a b")
PATTERN = re.compile(r"(\w)(\d+)")
CACHE_CALLS: list[int] = []


@functools.lru_cache(maxsize=None)
def cached(n: int) -> int:
    CACHE_CALLS.append(n)
    return n * n


@functools.singledispatch
def dispatched(value: Any) -> int:
    return 1


@dispatched.register
def _(value: str) -> int:
    return len(value)


def reset() -> None:
    CACHE_CALLS.clear()
    cached.cache_clear()


def state() -> Any:
    return list(CACHE_CALLS)


def named_tuple(x: Any, y: Any) -> Any:
    point = Point(x, b=y)
    return point.a + point.b * len(point._fields)


def deque(x: Any, y: Any) -> Any:
    queue = collections.deque([x])
    queue.append(y)
    queue.appendleft(2)
    return queue.popleft() * queue.pop() + queue[0]


def deque_rotate(x: Any, y: Any) -> Any:
    queue = collections.deque([1, 2, 3], maxlen=3)
    queue.rotate(1)
    queue.append(9)
    return x * queue[0] + y * queue[2]


def default_dict(x: Any, y: Any) -> Any:
    d: Any = collections.defaultdict(list)
    d["a"].append(x)
    d["a"].append(y)
    return d["a"][0] + d["a"][1] * len(d["b"])


def counter(x: Any, y: Any) -> Any:
    counts = collections.Counter("abca")
    counts.update("b")
    return x * counts["a"] + y * counts.most_common(1)[0][1]


def ordered_dict(x: Any, y: Any) -> Any:
    d = collections.OrderedDict(a=x, b=y)
    d.move_to_end("a")
    return x * len(d) + d[next(iter(d))]


def chain_map(x: Any, y: Any) -> Any:
    d = collections.ChainMap({"a": x}, {"a": y, "b": y})
    return d["a"] + d["b"]


def itertools_chain(x: Any, y: Any) -> Any:
    z = x
    for a in itertools.chain((x,), [y]):
        z = z + a
    return z


def itertools_count(x: Any, y: Any) -> Any:
    numbers = itertools.count(2, 3)
    next(numbers)
    return x * next(numbers) + y


def itertools_product(x: Any, y: Any) -> Any:
    for n, m in itertools.product((1, 2), (3, 4)):
        x = x + y * n * m
    return x


def itertools_combinations(x: Any, y: Any) -> Any:
    for a, b in itertools.combinations([x, y, x], 2):
        x = x + a * b
    return x


def itertools_permutations(x: Any, y: Any) -> Any:
    return x * len(list(itertools.permutations(range(3)))) + y


def itertools_accumulate(x: Any, y: Any) -> Any:
    rows = list(itertools.accumulate([x, y, x]))
    return rows[2] - rows[0]


def itertools_islice(x: Any, y: Any) -> Any:
    for n in itertools.islice(itertools.count(), 1, 6, 2):
        x = x + y * n
    return x


def itertools_cycle(x: Any, y: Any) -> Any:
    turns = itertools.cycle((1, 2))
    for _ in range(3):
        x = x + y * next(turns)
    return x


def itertools_repeat(x: Any, y: Any) -> Any:
    for a, n in zip(itertools.repeat(y), (1, 2)):
        x = x + a * n
    return x


def itertools_takewhile(x: Any, y: Any) -> Any:
    for n in itertools.takewhile(lambda n: n < 3, (1, 2, 3, 1)):
        x = x + y * n
    return x


def itertools_dropwhile(x: Any, y: Any) -> Any:
    late = itertools.dropwhile(lambda n: n < 3, (1, 2, 3, 1))
    return x * next(late) + y * sum(late)


def itertools_filterfalse(x: Any, y: Any) -> Any:
    for n in itertools.filterfalse(lambda n: n % 2, range(5)):
        x = x + y * n
    return x


def itertools_compress(x: Any, y: Any) -> Any:
    return sum(itertools.compress([x, y, x], [1, 0, 1]))


def itertools_chain_from_iterable(x: Any, y: Any) -> Any:
    rows = [[x, y], (y,)]
    return sum(itertools.chain.from_iterable(row for row in rows))


def itertools_combinations_with_replacement(x: Any, y: Any) -> Any:
    for a, b in itertools.combinations_with_replacement((x, y), 2):
        x = x + a * b
    return x


def itertools_islice_of_generator(x: Any, y: Any) -> Any:
    for a in itertools.islice((x * n for n in range(5)), 1, 4, 2):
        y = y + a
    return y


def enumerated_generator(x: Any, y: Any) -> Any:
    for n, a in enumerate(part for part in (x, y)):
        x = x + a * n
    return x


def zipped_generators(x: Any, y: Any) -> Any:
    for n, a in zip((n for n in range(5)), (part for part in (x, y))):
        x = x + a * n
    return x


def itertools_groupby(x: Any, y: Any) -> Any:
    for key, group in itertools.groupby("aabccc"):
        x = x + y * len(list(group)) * ord(key)
    return x


def itertools_starmap(x: Any, y: Any) -> Any:
    for a in itertools.starmap(operator.mul, ((x, 2), (y, 3))):
        x = x + a
    return x


def itertools_zip_longest(x: Any, y: Any) -> Any:
    for a, n in itertools.zip_longest((x, y), (2,), fillvalue=5):
        x = x + a * n
    return x


def itertools_tee(x: Any, y: Any) -> Any:
    left, right = itertools.tee((1, 2))
    return x * sum(left) + y * sum(right)


def itertools_pairwise(x: Any, y: Any) -> Any:
    for a, b in itertools.pairwise((x, y, x)):
        x = x + a - b
    return x


def functools_reduce(x: Any, y: Any) -> Any:
    return functools.reduce(lambda a, b: a + b, (x, y, x))


def functools_reduce_operator(x: Any, y: Any) -> Any:
    return functools.reduce(operator.add, (x, y, x), 1)


def functools_partial(x: Any, y: Any) -> Any:
    double = functools.partial(operator.mul, 2)
    return double(x) + y


def functools_partial_of_function(x: Any, y: Any) -> Any:
    def inner(a: Any, b: Any, c: Any = 1) -> Any:
        return a * b + c

    return functools.partial(inner, x, c=3)(y)


def functools_lru_cache(x: Any, y: Any) -> Any:
    return x * cached(3) + y * cached(3)


def functools_singledispatch(x: Any, y: Any) -> Any:
    return x * dispatched("four") + y * dispatched(2)


def functools_cmp_to_key(x: Any, y: Any) -> Any:
    row = sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))
    return x * row[0] + y


def operator_functions(x: Any, y: Any) -> Any:
    return operator.add(x, y) * operator.mul(2, 3) - operator.sub(x, 1)


def operator_itemgetter(x: Any, y: Any) -> Any:
    return operator.itemgetter(1)((x, y)) + operator.itemgetter("a")({"a": x})


def operator_attrgetter(x: Any, y: Any) -> Any:
    return x * operator.attrgetter("real")(3) + y


def operator_methodcaller(x: Any, y: Any) -> Any:
    return x * len(operator.methodcaller("upper")("ab")) + y


def copy_of_list(x: Any, y: Any) -> Any:
    row = copy.copy([x, y])
    return row[0] + row[1]


def deepcopy_of_containers(x: Any, y: Any) -> Any:
    d = copy.deepcopy({"a": [1, 2], "b": (3,)})
    return x * d["a"][1] + y * d["b"][0]


def deepcopy_of_arrays(x: Any, y: Any) -> Any:
    row = copy.deepcopy([x, y])
    return row[0] + row[1]


def math_of_numbers(x: Any, y: Any) -> Any:
    return x * math.sqrt(2.0) + min(3, 4) + max(len(x), 2) + round(2.567, 1) + abs(-3) + int(2.5) + sum(range(4))


def math_functions(x: Any, y: Any) -> Any:
    return x * math.hypot(3.0, 4.0) + math.gcd(12, 18) + math.comb(5, 2) + math.prod([2, 3]) + math.log2(8) + math.pi


def math_predicates(x: Any, y: Any) -> Any:
    return x + 1 if math.isclose(0.1 + 0.2, 0.3) and not math.isnan(1.0) and math.isfinite(2.0) else y


def divmod_and_pow(x: Any, y: Any) -> Any:
    q, r = divmod(17, 5)
    return x * q + y * r + pow(2, 5, 7)


def int_methods(x: Any, y: Any) -> Any:
    return x * (10).bit_length() + y * (3).to_bytes(2, "big")[1] + int("ff", 16) + (7).bit_count()


def float_methods(x: Any, y: Any) -> Any:
    n, d = (0.75).as_integer_ratio()
    return x * n + y * d if (2.0).is_integer() else y


def complex_numbers(x: Any, y: Any) -> Any:
    z = complex(1, 2)
    return x * z.real + y * abs(z.conjugate().imag)


def number_texts(x: Any, y: Any) -> Any:
    return x * len(bin(10) + hex(255) + oct(8)) + y * ord(chr(98))


def fraction_numbers(x: Any, y: Any) -> Any:
    f = fractions.Fraction(1, 3) + fractions.Fraction(1, 6)
    return x * float(f) + y


def decimal_numbers(x: Any, y: Any) -> Any:
    d = decimal.Decimal("1.10") + decimal.Decimal("2.20")
    return x * float(d) + y


def statistics_functions(x: Any, y: Any) -> Any:
    return x * statistics.mean([1, 2, 3]) + y * statistics.median([3, 1, 2])


def bisect_functions(x: Any, y: Any) -> Any:
    row = [1, 3, 5]
    bisect.insort(row, 4)
    return x * bisect.bisect_left(row, 4) + y * len(row)


def heapq_functions(x: Any, y: Any) -> Any:
    heap = [3, 1, 2]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    return x * heapq.heappop(heap) + y * heapq.nlargest(1, heap)[0]


def re_match(x: Any, y: Any) -> Any:
    found = re.match(r"(\w+)-(\d+)", "ab-12")
    return x * int(found.group(2)) + y * len(found[1])


def re_compiled(x: Any, y: Any) -> Any:
    return x * int(PATTERN.search("see b42").group(2)) + y


def re_substitution(x: Any, y: Any) -> Any:
    return x * len(re.sub(r"\d", "##", "a1b2")) + y * len(re.findall(r"\w", "a b c"))


def re_named_groups(x: Any, y: Any) -> Any:
    d = re.fullmatch(r"(?P<name>\w+)=(?P<value>\d+)", "n=5").groupdict()
    return x * int(d["value"]) + y


def json_round_trip(x: Any, y: Any) -> Any:
    d = json.loads(json.dumps({"a": [1, 2], "b": None}))
    return x * d["a"][1] + y


def json_with_format(x: Any, y: Any) -> Any:
    return x * len(json.dumps({"b": 1, "a": 2.5}, indent=2, sort_keys=True)) + y


def date_arithmetic(x: Any, y: Any) -> Any:
    start = datetime.date(2024, 2, 28)
    later = start + datetime.timedelta(days=2)
    return x * later.day + y * (later - start).days


def datetime_format(x: Any, y: Any) -> Any:
    moment = datetime.datetime(2024, 2, 28, 12, 30)
    return x * len(moment.isoformat()) + y * len(moment.strftime("%H:%M"))


def datetime_attributes(x: Any, y: Any) -> Any:
    moment = datetime.datetime(2024, 2, 28, 12, 30)
    return x * moment.hour + y * moment.weekday()


def path_parts(x: Any, y: Any) -> Any:
    path = pathlib.PurePosixPath("/a/b") / "c.txt"
    return x * len(path.parts) + y * len(path.suffix)


def struct_packing(x: Any, y: Any) -> Any:
    n, m = struct.unpack("<ih", struct.pack("<ih", 7, 2))
    return x * n + y * m


def hash_digest(x: Any, y: Any) -> Any:
    return x * len(hashlib.sha256(b"a").hexdigest()) + y


def text_wrap(x: Any, y: Any) -> Any:
    return x * len(textwrap.dedent("  a\n  b")) + y * len(string.ascii_lowercase)


def string_template(x: Any, y: Any) -> Any:
    return x * len(string.Template("$a is $b").substitute(a=1, b="two")) + y
