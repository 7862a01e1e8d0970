"""eval() and exec() of known text: its code is followed as a frame, with the names that it is given."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, differential_tests, outcome, same

X = np.linspace(-1.0, 2.0, 5)
BACKENDS = ["reference", "native"]
FACTOR = 2
CODE = compile("x * n + FACTOR", "<formula>", "eval")
STATEMENTS = compile("y = 3", "<statements>", "exec")
TEXT = "  x * FACTOR + n"
TABLE: dict[str, Any] = {"n": 5}


def constant(x: Any, n: Any) -> Any:
    return x * eval("1 + 2")


def variables(x: Any, n: Any) -> Any:
    k = 3
    y = eval(TEXT) + k
    return y + eval("k * n") + eval(CODE)


def given_names(x: Any, n: Any) -> Any:
    y = eval("a + b * FACTOR", globals(), {"a": x, "b": n})
    return y * eval("b", None, {"b": 2}), eval("len(row) + n", {"row": [1, 2], "n": n})


def walrus(x: Any, n: Any) -> Any:
    names = {"a": n}
    y = x * eval("(b := a + 1)", globals(), names)
    return y, sorted(names), names["b"]


def made_names(x: Any, n: Any) -> Any:
    names: dict[str, Any] = {"m": n}
    exec("k = m + 1\nrow = [k, m]\nrow.append(1)\ndel_me = None", names)
    return x * names["k"], names["row"], sorted(key for key in names if key != "__builtins__"), names["__builtins__"] is __builtins__


def into_locals(x: Any, n: Any) -> Any:
    k = 1
    exec("k = n + 5\nextra = k")
    y = x * k
    return y, "extra" in locals(), locals()["k"]


def into_names(x: Any, n: Any) -> Any:
    names: dict[str, Any] = {}
    exec("late = x2 * FACTOR", globals(), {"x2": n})
    exec("late = FACTOR + 1\nimport math\nroot = math.floor(2.5)", globals(), names)
    return x * names["late"] + names["root"], sorted(names)


def from_outside(x: Any, n: Any) -> Any:
    y = x * eval("n + 1", globals(), TABLE)
    exec("m = n * 2", globals(), TABLE)
    y = y + TABLE["m"]
    del TABLE["m"]
    return y, sorted(TABLE)


def raises(x: Any, n: Any) -> Any:
    y = x + 1
    return y * eval("1 // (n - 2)")


def names_missing(x: Any, n: Any) -> Any:
    y = x + 1
    try:
        return y * eval("nobody + 1")
    except NameError as error:
        return y * 2, str(error), error.__traceback__.tb_next.tb_frame.f_code.co_name


def wrong(x: Any, n: Any) -> Any:
    y = x + 1
    try:
        eval("1 +")
    except SyntaxError as error:
        return y, error.msg, error.text
    return y


def warns(x: Any, n: Any) -> Any:
    return x * eval("1 if n is 2 else 3")


def follows(x: Any, n: Any) -> Any:
    return eval("helper(x, n) + helper(x, 1)")


def helper(a: Any, b: Any) -> Any:
    return a * b + sys._getframe(1).f_code.co_name.count("m")


def inner_functions(x: Any, n: Any) -> Any:
    total = eval("sum(v * FACTOR for v in (1, 2, 3))")
    names: dict[str, Any] = {}
    exec("def twice(a):\n    return a * 2 + FACTOR", {**globals()}, names)
    return x * total + names["twice"](n)


def functions_in_dict(x: Any, n: Any) -> Any:
    names: dict[str, Any] = {"gain": n}
    exec("def scaled(a):\n    global seen\n    seen = gain\n    return a * gain", names)
    return names["scaled"](x), names["seen"]


def nodes_in_dict(x: Any, n: Any) -> Any:
    names = {"x": x, "n": n}
    return eval("x * n + 1", names) + len(names)


def divides(x: Any, n: Any) -> Any:
    return eval("x / (x - x)"), eval("1 / a", {"a": x - x})


def in_class(x: Any, n: Any) -> Any:
    class Holder:
        one = n
        two = eval("one + 1")
        exec("three = two + 1")

    return x * Holder.two + Holder.three


def nested(x: Any, n: Any) -> Any:
    return eval("eval('n + 1') * x"), eval("sorted(locals())"), eval("sorted(vars())", {"q": 1}).count("q")


def own_builtins(x: Any, n: Any) -> Any:
    try:
        return x * eval("len([1, 2])", {"__builtins__": {"len": lambda row: 7}})
    except NameError:
        return x


def code_objects(x: Any, n: Any) -> Any:
    y = 1
    exec(STATEMENTS)
    names: dict[str, Any] = {}
    exec(STATEMENTS, names)
    return x * y + names["y"]


def has_loop(x: Any, n: Any) -> Any:
    names: dict[str, Any] = {"n": n}
    for _ in range(3):
        exec("for i in (1, 2): n = n + i\nif n > 6: m = n\nelse: m = 0", names)
        exec("n = n + m\nk = n if n > 7 else -n", names)
    return x * names["n"] + names["k"]


def keeps(x: Any, n: Any) -> Any:
    names = locals()
    y = x + eval("n")
    exec("own = 4")
    z = y * 2
    return names is locals(), sorted(names), z


FUNCTIONS = [constant, variables, given_names, walrus, made_names, into_locals, into_names, from_outside, raises, names_missing, wrong, warns, follows,
             inner_functions, functions_in_dict, nodes_in_dict, divides, in_class, nested, own_builtins, code_objects, has_loop, keeps]  # fmt: skip
CALLS = [(X, 2), (X, 2), (X, 3), (X[:3], 2), (X.astype(np.float32), 3), (X, 1.5)]


test_text_does_what_it_does_plainly, test_may_be_left_before_every_node = differential_tests(FUNCTIONS, CALLS, left=CALLS[:3], nodes=8, left_on=BACKENDS)


@pytest.mark.parametrize("function", [constant, variables, walrus, made_names, into_names])
def test_text_costs_no_graph(function: Any) -> None:
    captured = evalframe.jit(function)
    for _ in range(2):
        captured(X, 2)
    assert _core.jit_counters(captured)["recordings"] == 1


def test_warnings_of_the_compiler_come_each_time() -> None:
    captured = evalframe.jit(warns)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            captured(X, 2)
        assert len([one for one in caught if issubclass(one.category, SyntaxWarning)]) == 1


def test_a_raised_error_has_plain_lines() -> None:
    captured = evalframe.jit(raises)
    for n in (3, 3, 2, 2, 3):
        assert same(outcome(captured, X, n), outcome(raises, X, n))


def test_future_flags_of_the_caller_hold() -> None:
    def f(x: Any) -> Any:
        names: dict[str, Any] = {}
        exec("value: undefined_name = 3", globals(), names)
        return x * names["value"], names["__annotations__"]

    check_behaves_as_plain(f, "native", [(X,), (X,)])
