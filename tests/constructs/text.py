"""Constructs: strings, their methods and their formatting."""

from __future__ import annotations

from typing import Any


def f_string(x: Any, y: Any) -> Any:
    n = 3
    return x * len(f"a{n}b{n:03d}")


def f_string_nested(x: Any, y: Any) -> Any:
    n, width = 3, 8
    return x * len(f"{n!r:>{width}}|{n=}") + y


def f_string_of_float(x: Any, y: Any) -> Any:
    return x * len(f"{2.5:.3f}|{1e10:g}") + y


def f_string_of_shape(x: Any, y: Any) -> Any:
    z = x + y
    return z, f"shape {z.shape}, type {z.dtype}"


def format_method(x: Any, y: Any) -> Any:
    return x * len("{:>5}|{name}|{}".format(1, 2, name="b")) + y


def format_function(x: Any, y: Any) -> Any:
    return x * len(format(255, "#x") + format(2.5, ".2f")) + y


def percent_format(x: Any, y: Any) -> Any:
    return x * len("%d|%5.2f|%s" % (1, 2.5, "a")) + y


def percent_format_of_dict(x: Any, y: Any) -> Any:
    return x * len("%(a)s" % {"a": 1}) + y


def str_method(x: Any, y: Any) -> Any:
    return x + 1 if "abc".upper() == "ABC" else y


def split_and_join(x: Any, y: Any) -> Any:
    return x * len("-".join("a b c".split())) + y


def strip_and_replace(x: Any, y: Any) -> Any:
    return x * len("  aba ".strip().replace("b", "cc")) + y


def find_and_count(x: Any, y: Any) -> Any:
    return x * "abcb".find("b") + y * "abcb".count("b")


def starts_and_ends(x: Any, y: Any) -> Any:
    return x + 1 if "abc".startswith("ab") and "abc".endswith(("c", "d")) else y


def partition(x: Any, y: Any) -> Any:
    name, _, value = "n=12".partition("=")
    return x * int(value) + y * len(name)


def case_methods(x: Any, y: Any) -> Any:
    return x * len("ab cd".title() + "AB".lower() + "ab".capitalize() + "aB".swapcase()) + y


def predicates(x: Any, y: Any) -> Any:
    return x + 1 if "12".isdigit() and "ab".isalpha() and not "a ".isalnum() else y


def padding(x: Any, y: Any) -> Any:
    return x * len("a".center(5) + "a".ljust(4) + "a".zfill(3)) + y


def encode_and_decode(x: Any, y: Any) -> Any:
    return x * len("é".encode()) + y * len(b"ab".decode("ascii"))


def translate(x: Any, y: Any) -> Any:
    return x * len("abc".translate(str.maketrans("ab", "xy", "c"))) + y


def indexing_and_slicing(x: Any, y: Any) -> Any:
    s = "abcdef"
    return x * len(s[1:4][::-1]) + y * ord(s[-1])


def concatenation(x: Any, y: Any) -> Any:
    s = "a" + "b" * 3
    s += "c"
    return x * len(s) + y


def comparison(x: Any, y: Any) -> Any:
    return x + 1 if "a" < "b" and "abc" != "abd" and "b" in "abc" else y


def split_lines(x: Any, y: Any) -> Any:
    return x * len("a\nb\nc".splitlines()) + y


def conversion(x: Any, y: Any) -> Any:
    return x * float("2.5") + int("7") + len(str(12)) + len(repr("a"))


def text_of_a_list(x: Any, y: Any) -> Any:
    return x * len(str([1, 2, (3, "a")])) + y


def remove_affixes(x: Any, y: Any) -> Any:
    return x * len("test_a.py".removeprefix("test_").removesuffix(".py")) + y


def text_of_an_array(x: Any, y: Any) -> Any:
    z = x + y
    return z * len(str(z))
