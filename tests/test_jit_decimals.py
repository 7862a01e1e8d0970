"""decimal.Decimal: results, the flags and traps of contexts, and what happens where a context is another one."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import evalframe
from evalframe import _core
from helpers import differential_tests, one_graph_tests, put_into, same
from test_jit_stand_ins import A, B, told

CALLS = [(A, B), (B, A), (A, B)]
CASES: list[Callable[..., Any]] = []
BREAKING: list[Callable[..., Any]] = []
PRICE = Decimal("19.99")
case = put_into(CASES)
breaking = put_into(BREAKING)  # those that aren't one graph


class Own(Decimal):
    def __add__(self, other: Any) -> Any:
        return "own"


@case
def arithmetic(a: Any, b: Any) -> Any:
    d = Decimal("1.10") + Decimal("2.20")
    e = d * 2 - PRICE
    return a * float(d) + b, d, e, -d, +d, d // 2, d % 2, d**2, 3 - d, d < e, d == Decimal("3.3"), d != 3, int(e), abs(e), hash(d)


@case
def text(a: Any, b: Any) -> Any:
    d = Decimal("1234.50")
    return a + b, f"{d}", f"{d:.1f}", f"{d!r}", str(d), repr(d), format(d, ","), d.to_eng_string()


@case
def methods(a: Any, b: Any) -> Any:
    d = Decimal("-7.125")
    return a * int(d.copy_abs()), d.adjusted(), d.is_nan(), d.is_signed(), d.copy_sign(Decimal(1)), d.max(PRICE), d.normalize(), PRICE.quantize(Decimal("1.00")), b


@case
def in_containers(a: Any, b: Any) -> Any:
    row = [Decimal(2), Decimal("1.5")]
    return sum(row), max(row), min(row), row, a * float(row[0]), b


@breaking
def with_flags(a: Any, b: Any) -> Any:
    context = decimal.getcontext()
    context.clear_flags()
    third = Decimal(1) / Decimal(3)
    told = [third, sorted(map(str, (flag for flag, on in context.flags.items() if on)))]
    context.clear_flags()
    quantized = PRICE.quantize(Decimal("1.0"), rounding=decimal.ROUND_UP)
    told += [quantized, sorted(map(str, (flag for flag, on in context.flags.items() if on))), Decimal("0.1") == 0.1]
    return told, sorted(map(str, (flag for flag, on in context.flags.items() if on))), a + b


@breaking
def errors(a: Any, b: Any) -> Any:
    told = []
    for wrong in (lambda: Decimal("x"), lambda: Decimal(1) / 0, lambda: Decimal("sNaN") < 1, lambda: Decimal(1) + 0.5, lambda: Decimal(1) + "1", lambda: Decimal([]), lambda: hash(Decimal("sNaN"))):
        try:
            told.append(wrong())
        except (ArithmeticError, TypeError, ValueError) as error:
            told.append((type(error).__name__, str(error)))
    return told, a + b


@breaking
def contexts(a: Any, b: Any) -> Any:
    with decimal.localcontext() as context:
        context.prec = 3
        short = Decimal("1.23456") + 0
    return short, Decimal("1.23456") + 0, PRICE.as_tuple(), a + b


@breaking
def others(a: Any, b: Any) -> Any:
    d = Own("1.5")
    return d + 1, 1 + d, round(PRICE, 1), f"{PRICE!s:>10}", Decimal(0.5), a + b, bool(Decimal(0)), not Decimal(1), {PRICE: 1}[PRICE], (PRICE,) < (Decimal(20),)


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(CASES + BREAKING, CALLS, told, left=CALLS[:2], nodes=12)
test_is_one_graph = one_graph_tests(CASES, (A, B))


@pytest.mark.parametrize("setting", [{"prec": 3}, {"rounding": decimal.ROUND_UP, "prec": 2}, {"capitals": 0}, {"traps": [decimal.Inexact]}, {"Emax": 1}])
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_another_context_is_seen(function: Callable[..., Any], setting: Any) -> None:
    captured = evalframe.jit(function, backend="reference")
    assert same(told(captured, A, B), told(function, A, B))
    outcomes = []
    for called in (function, captured):
        with decimal.localcontext(decimal.Context(**setting)) as context:
            outcomes.append((told(called, A, B), sorted(map(str, (flag for flag, on in context.flags.items() if on)))))
    assert same(outcomes[1], outcomes[0])
    assert same(told(captured, A, B), told(function, A, B))


def test_a_context_of_the_program_stays_its_own() -> None:
    def f(x: Any) -> Any:
        return x + 1, Decimal("1.5") + 1

    own = decimal.Context(prec=9)
    decimal.setcontext(own)
    try:
        captured = evalframe.jit(f, backend="reference")
        captured(A), captured(A)
        assert decimal.getcontext() is own
    finally:
        decimal.setcontext(decimal.Context())


@pytest.mark.parametrize("prices", [[Decimal("1.5"), Decimal("1.50")], [Decimal(1), 1, 1.0], [Decimal("NaN"), Decimal("2")]])
def test_decimals_from_outside(prices: Any) -> None:
    def f(x: Any, d: Any) -> Any:
        return x * 2, str(d + 1), d == d

    captured = evalframe.jit(f, backend="reference")
    for price in prices * 3:
        assert same(told(captured, A, price), told(f, A, price))


def test_each_argument_is_no_recording_of_its_own() -> None:
    def f(x: Any, d: Any) -> Any:
        return x * 2 + float(d * 2)

    captured = evalframe.jit(f, backend="reference")
    for n in range(12):
        assert same(captured(A, Decimal(n) / 4), f(A, Decimal(n) / 4))
    assert _core.jit_counters(captured)["recordings"] < 6
