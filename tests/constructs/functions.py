"""Constructs: calls, arguments, closures, recursion and decorators."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def helper(a: Any, b: Any = 1) -> Any:
    return a * 2 + b


def gather(*arrays: Any) -> Any:
    return arrays[0] + arrays[1]


def keywords(**arrays: Any) -> Any:
    return arrays["a"] - arrays["b"]


def keyword_only(a: Any, *, by: Any = 3) -> Any:
    return a * by


def positional_only(a: Any, /, b: Any = 2) -> Any:
    return a - b


def everything(a: Any, b: Any = 2, *rest: Any, c: Any = 3, **more: Any) -> Any:
    return a * b + len(rest) + c + sum(more.values())


def _default_list(a: Any, seen: list[int] = []) -> Any:  # noqa: B006
    return a * (len(seen) + 1)


def _decorate(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs) + 1

    return inner


def _factor(n: Any) -> Any:
    def decorate(function: Any) -> Any:
        return lambda a: function(a) * n

    return decorate


@_decorate
def decorated(a: Any) -> Any:
    return a * 2


@_factor(3)
def with_factor(a: Any) -> Any:
    return a - 1


def factorial(n: int) -> int:
    return 1 if n < 2 else n * factorial(n - 1)


def down(a: Any, n: int) -> Any:
    return a if n == 0 else down(a + 1, n - 1)


def is_even(n: int) -> bool:
    return n == 0 or is_odd(n - 1)


def is_odd(n: int) -> bool:
    return n != 0 and is_even(n - 1)


def _counter() -> Any:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return count

    return step


def _annotated(a: int, b: str = "x", *, c: float = 2.0) -> None: ...


def positional_call(x: Any, y: Any) -> Any:
    return helper(x, y) + helper(y)


def keyword_call(x: Any, y: Any) -> Any:
    return helper(x, b=y)


def star_call(x: Any, y: Any) -> Any:
    pair = (x, y)
    return helper(*pair)


def double_star_call(x: Any, y: Any) -> Any:
    named = {"a": x, "b": y}
    return helper(**named)


def mixed_star_call(x: Any, y: Any) -> Any:
    return everything(x, *[2, 3], *(4,), c=5, **{"d": 6}) + y


def call_of_variadic(x: Any, y: Any) -> Any:
    return gather(x, y)


def call_of_keywords(x: Any, y: Any) -> Any:
    return keywords(a=x, b=y)


def call_of_keyword_only(x: Any, y: Any) -> Any:
    return keyword_only(x) + keyword_only(y, by=2)


def call_of_positional_only(x: Any, y: Any) -> Any:
    return positional_only(x, b=3) + y


def wrong_arguments(x: Any, y: Any) -> Any:
    z = x + y
    return helper(z, 1, 2)


def mutable_default(x: Any, y: Any) -> Any:
    return _default_list(x) + y


def keyword_default_of_local_function(x: Any, y: Any) -> Any:
    def inner(a: Any, *, by: Any = y) -> Any:
        return a * by

    return inner(x) + inner(x, by=2)


def local_function_is_looked_at(x: Any, y: Any) -> Any:
    def inner(a: int, b: float = 2.0, *, by: Any = 3) -> Any:
        return a * by + b

    z = inner(x) + y
    return z, inner.__annotations__, inner.__kwdefaults__, inner.__defaults__, inner.__name__


def lambda_call(x: Any, y: Any) -> Any:
    return (lambda a, b=2: a * b)(x) + y


def immediate_lambda_with_closure(x: Any, y: Any) -> Any:
    return (lambda a: a * x)(y)


def inner_function(x: Any, y: Any) -> Any:
    def inner(a: Any) -> Any:
        return a * y

    return inner(x) + 1


def closure_reads_later_value(x: Any, y: Any) -> Any:
    n = 2

    def inner() -> Any:
        return x * n

    n = 3
    return inner() + y


def nonlocal_store(x: Any, y: Any) -> Any:
    total = x

    def add(a: Any) -> None:
        nonlocal total
        total = total + a

    add(y)
    add(y)
    return total


def closure_counter(x: Any, y: Any) -> Any:
    step = _counter()
    step()
    return x * step() + y


def closure_over_loop(x: Any, y: Any) -> Any:
    functions = []
    for n in (1, 2):
        functions.append(lambda a: a * n)
    return functions[0](x) + functions[1](y)


def returned_closure(x: Any, y: Any) -> Any:
    def make(n: int) -> Any:
        return lambda a: a * n

    return make(2)(x) + make(3)(y)


def functions_in_a_dict(x: Any, y: Any) -> Any:
    table = {"double": lambda a: a * 2, "negate": lambda a: -a}
    return table["double"](x) + table["negate"](y)


def decorated_call(x: Any, y: Any) -> Any:
    return decorated(x) + y


def decorator_with_argument(x: Any, y: Any) -> Any:
    return with_factor(x) + y


def local_decorator(x: Any, y: Any) -> Any:
    @_decorate
    def local(a: Any) -> Any:
        return a * y

    return local(x)


def recursion_on_numbers(x: Any, y: Any) -> Any:
    return x * factorial(5) + y


def recursion_on_arrays(x: Any, y: Any) -> Any:
    return down(x, 5) + y


def recursion_of_depth_500(x: Any, y: Any) -> Any:
    return down(x, 500) + y


def mutual_recursion(x: Any, y: Any) -> Any:
    return x * 2 if is_even(6) else y


def recursive_closure(x: Any, y: Any) -> Any:
    def power(a: Any, n: int) -> Any:
        return a if n == 1 else a * power(a, n - 1)

    return power(x, 3) + y


def function_attributes(x: Any, y: Any) -> Any:
    return x * len(helper.__name__) + y * helper.__defaults__[0]


def function_attribute_store(x: Any, y: Any) -> Any:
    def inner(a: Any) -> Any:
        return a * inner.gain

    inner.gain = 3
    return inner(x) + y


def signature(x: Any, y: Any) -> Any:
    return x * len(inspect.signature(_annotated).parameters) + y


def signature_bound(x: Any, y: Any) -> Any:
    bound = inspect.signature(helper).bind(x, b=2)
    bound.apply_defaults()
    return bound.arguments["a"] * bound.arguments["b"] + y


def inspect_kinds(x: Any, y: Any) -> Any:
    return x * 2 if inspect.isfunction(helper) and not inspect.isclass(helper) else y


def locals_call(x: Any, y: Any) -> Any:
    n = 3
    return x * locals()["n"] + y


def globals_call(x: Any, y: Any) -> Any:
    return globals()["helper"](x) + y


def callable_check(x: Any, y: Any) -> Any:
    return x + 1 if callable(helper) and not callable(3) else y


def star_assignment_in_call(x: Any, y: Any) -> Any:
    first, *rest = [x, y, 2]
    return gather(first, *rest)


def walrus(x: Any, y: Any) -> Any:
    if (n := len(x)) > 3:
        return x * n
    return y


def conditional_expression(x: Any, y: Any) -> Any:
    return (x if len(x) > 3 else y) + 1


def chained_comparison(x: Any, y: Any) -> Any:
    return x + 1 if 0 < x.shape[0] < 100 else y


def boolean_operators(x: Any, y: Any) -> Any:
    n = 0 or 3
    m = n and 4
    return x * n + y * m if not (n > m) else y


def none_default(x: Any, y: Any) -> Any:
    def inner(a: Any, b: Any = None) -> Any:
        return a if b is None else a + b

    return inner(x) + inner(x, y)


def exec_call(x: Any, y: Any) -> Any:
    z = x + y
    names: dict[str, Any] = {}
    exec("n = 1 + 2", names)
    return z * names["n"]


def eval_call(x: Any, y: Any) -> Any:
    z = x + y
    return z * eval("1 + 2")


def import_statement(x: Any, y: Any) -> Any:
    import math

    return x * math.floor(2.5) + y


def from_import_statement(x: Any, y: Any) -> Any:
    from math import ceil, floor

    return x * floor(2.5) + y * ceil(2.5)


def deleted_local(x: Any, y: Any) -> Any:
    z = x + y
    n = 3
    del n
    try:
        return z * n
    except UnboundLocalError:
        return z - 1
