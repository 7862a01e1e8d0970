"""Expressions of generated programs; what they come to is of any type, and now and then an exception."""

from __future__ import annotations

from fuzz.writing import Function, Writing

CONSTANTS = ["0", "1", "2", "-1", "7", "1.5", "'ab'", "''", "None", "True", "(1, 2)", "()", "b'xy'", "2 ** 70", "...", "1j", "Table(x=1)"]
ERRORS = ["1 / 0", "[][1]", "missing", "{}['k']", "None.nothing", "1 + 'a'", "int('x')", "(1)()", "len(5)", "[1] < 2", "-'a'", "next(iter(()))"]
EXCEPTIONS = ["Fault", "FirstFault", "SecondFault", "ValueError", "KeyError", "ZeroDivisionError", "StopIteration", "TypeError", "IndexError", "BaseFault", "GeneratorExit", "StopAsyncIteration"]
BUILTIN_CALLS = ["len({})", "list({})", "tuple({})", "str({})", "bool({})", "type({}).__name__", "sorted({}, key=repr)", "sum({})", "max({})", "abs({})", "iter({})", "next(iter({}))", "dict(x={})", "isinstance({}, int)", "callable({})", "repr({})", "getattr({}, 'real', 0)", "list(zip({}, (3, 4)))", "list(enumerate({}))", "list(map(note, {}))", "any({})", "int({})", "str({})", "format({}, '')", "list(reversed({}))"]


class Expressions(Writing):
    def constant(self) -> str:
        return str(self.pick(CONSTANTS))

    def name(self, *kinds: str) -> str:
        """A variable, most often one that is bound and holds what is asked for."""
        known = self.scope.known("names")
        fitting = [name for name in known if not kinds or self.kind_of.get(name, "any") in kinds]
        if self.chance(1):
            return "missing"
        if fitting and not self.chance(2):
            return str(self.pick(fitting))
        return str(self.pick(known)) if known and self.chance(60) else "d"

    def simple(self) -> str:
        return self.name() if self.chance(60) else self.constant()

    def iterable(self) -> str:
        return str(
            self.pick(
                [f"range({self.number(0, 4)})", "Items(2)", "'abc'", f"({self.simple()}, {self.simple()})", f"[{self.simple()}]", "Sequence(2)",
                 "{'x': 1, 'y': 2}", "Items(3, 1)" if self.chance(15) else "Items(3)", self.name("items"), self.name("items", "magic"), f"Magic({self.number(0, 4)})", "{1: 2}.items()", "iter([3, 4])", "zip('ab', (1, 2))", "Row([1, 2])", "Table(x=1)", "Pair((1, 2))", "reversed([1, 2])", "enumerate('ab')"]
            )  # fmt: skip
        )

    def exception(self) -> str:
        kind = self.pick(EXCEPTIONS) if self.chance(40) else self.pick(EXCEPTIONS[:6])
        errors = [each.name for each in self.scope.known("classes") if each.is_error]
        if errors and self.chance(30):
            kind = self.pick(errors)
        choice = self.number(0, 9)
        if choice == 0:
            return str(kind)
        if choice == 1:
            return f"ExceptionGroup('g', [ValueError({self.constant()}), {self.pick(EXCEPTIONS[:6])}({self.number(0, 3)}), ExceptionGroup('h', [KeyError(1), Fault(2)])])"
        if choice == 2:
            return f"SecondFault({self.simple()}, extra={self.simple()})"
        return f"{kind}({self.constant()})"

    def value(self, depth: int = 2) -> str:
        """Any expression."""
        if depth <= 0 or self.chance(20):
            return self.simple()
        options = {"number": 10, "items": 5, "magic": 5, "operator": 2, "compare": 3, "logic": 5, "choice": 3, "display": 8, "item": 3, "builtin": 5, "call": 6, "lambda": 2,
                   "comprehension": 5, "text": 4, "walrus": 3, "token": 3, "attribute": 4, "noted": 5, "error": 1, "suspended": 5, "namespace": 1}  # fmt: skip
        if self.has_arrays:
            options["array"] = 30
        return str(getattr(self, f"value_{self.weighted(options)}")(depth - 1))

    def value_array(self, depth: int) -> str:
        """Most often an array, or a number of one."""
        if depth <= 0 or self.chance(25):
            return self.name("array") if self.chance(80) else str(self.pick(["np.arange(6.0)", "np.ones(6)", "np.zeros((2, 3))", "np.arange(6)", "np.float64(1.5)"]))
        one, other = self.value_array(depth - 1), self.value_array(depth - 1)
        number = self.pick(["2", "0.5", "-1", self.value_number(0)])
        return str(
            self.pick(
                [f"({one} {self.pick('+-*/')} {other})", f"({one} {self.pick('+-*/')} {number})", f"({number} {self.pick('+-*')} {one})", f"np.{self.pick(['sqrt', 'abs', 'exp', 'square', 'sign'])}({one})",
                 f"np.{self.pick(['maximum', 'minimum', 'add'])}({one}, {number})", f"np.where({one} > {number}, {one}, {self.pick([one, number])})", f"{one}[{self.pick(['1:', ':-1', '::-1', '0', '..., 0', 'None'])}]",
                 f"{one}.{self.pick(['sum', 'mean', 'max', 'copy', 'any', 'tolist'])}()", f"{one}.{self.pick(['T', 'shape', 'ndim', 'size', 'dtype'])}", f"np.sum({one}, axis=-1)", f"(-{one})", f"note({one})", f"({one} if {one}.sum() > {number} else {other})",
                 f"float({one}.sum())", f"[{one}, {number}]", f"({one}, {other})[{self.number(0, 1)}]", f"[v * 2 for v in {one}]", f"sum({one})", f"{{'k': {one}}}['k']"]
            )  # fmt: skip
        )

    def value_number(self, depth: int) -> str:
        if depth < 0 or self.chance(30):
            if self.chance(8):
                return str(self.pick(["Number(3)", "Number(0)", "2 ** 63", "-(2 ** 62)", "True", "1.5", "2 ** 30", "1e300"])).join("()")
            return self.name("number") if self.chance(65) else str(self.number(-2, 9))
        choice = self.number(0, 13)
        if choice <= 4:
            operator = self.pick("+-*&|^") if self.chance(80) else self.pick(["//", "%", "/", "<<", ">>", "**"])
            right = self.value_number(depth - 1) if operator in "+-&|^" else str(self.number(1, 3))
            return f"({self.value_number(depth - 1)} {operator} {right})"
        if choice <= 6:
            operator = self.pick(["<", "<=", "==", "!=", ">", ">=", "is not", "=="])
            return f"({self.value_number(depth - 1)} {operator} {self.value_number(depth - 1)}{' < ' + self.value_number(depth - 1) if self.chance(25) else ''})"
        if choice == 7:
            return f"len({self.value_items(depth - 1)})"
        if choice == 8:
            return f"({self.value_number(depth - 1)} if {self.value_number(depth - 1)} else {self.value_number(depth - 1)})"
        if choice == 9:
            return f"({self.pick(['-', '~', '+', 'not '])}{self.value_number(depth - 1)})"
        if choice == 10:
            return f"note({self.value_number(depth - 1)})"
        if choice == 11:
            return f"({self.value_number(depth - 1)} {self.pick(['and', 'or'])} {self.value_number(depth - 1)})"
        if choice == 12 and self.scope.kind not in ("class", "comprehension"):
            value = self.value_number(depth - 1)
            return f"({self.target('number')} := {value})"
        return f"{self.pick(['max', 'min'])}({self.value_number(depth - 1)}, {self.value_number(depth - 1)})"

    def value_items(self, depth: int) -> str:
        if depth < 0 or self.chance(30):
            return self.name("items") if self.chance(60) else self.pick(["[1, 2]", "'text'", "(3, 4)", "'a', 5", "()", "Row([1, 2])", "Text('ab')", "Pair((1, 2))"]).join("()")
        choice = self.number(0, 5)
        if choice == 0:
            return f"{self.value_items(depth - 1)}[{self.pick(['1:', ':1', '::-1', ':-1', '0:2', '1:9:2'])}]"
        if choice == 1:
            return f"{self.pick(['list', 'tuple', 'sorted'])}({self.pick(['range(3)', 'Items(2)', chr(39) + 'ba' + chr(39), 'Sequence(2)'])})"
        if choice == 2:
            return self.value_comprehension(depth)
        if choice == 3:
            return self.value_text(depth)
        return f"[{self.value(depth)}, {self.value(depth)}]"

    def value_magic(self, depth: int) -> str:
        if depth < 0 or self.chance(30):
            return self.name("magic") if self.chance(40) else f"{self.pick(['Magic', 'Thing', 'Thing'])}({self.number(0, 6)})"
        inner = self.value_magic(depth - 1)
        return str(self.pick([f"({inner} {self.pick('+-*/%@&|^<>')} {self.value(depth)})", f"({self.value(depth)} {self.pick('+-*@&|^<')} {inner})", f"{inner}[{self.value(depth)}]", f"{inner}.x",
                              f"{inner}({self.value(depth)}, k={self.simple()})", f"(-{inner})", f"(not {inner})", f"{inner}.m({self.simple()})", f"({self.simple()} in {inner})"]))  # fmt: skip

    def value_operator(self, depth: int) -> str:
        operator = self.pick("+-%&|^@")
        left, right = self.value(depth), self.constant() if operator == "+" else self.value(depth)
        return f"({left} {operator} {right})"

    def value_compare(self, depth: int) -> str:
        parts = [self.value(depth)]
        for _ in range(self.number(1, 3)):
            operator = self.pick(["==", "!=", "is", "is not", "in", "not in", "==", "<"])
            parts += [operator, self.pick([self.value_items(depth), "{1: 2}"]) if operator.endswith("in") else self.value_magic(depth) if operator == "<" else self.value(depth)]
        return f"({' '.join(parts)})"

    def value_logic(self, depth: int) -> str:
        operator = self.pick([" and ", " or "])
        return f"({operator.join(self.value(depth) for _ in range(self.number(2, 3)))})"

    def value_choice(self, depth: int) -> str:
        return f"({self.value(depth)} if {self.value(depth)} else {self.value(depth)})"

    def value_display(self, depth: int) -> str:
        # One star at most: what is in it would double with each.
        items = [self.value(depth) for _ in range(self.number(0, 3))]
        kind = self.number(0, 4)
        star = self.chance(25)
        if kind == 0:
            return f"[{', '.join([*items, *(['*' + self.iterable()] if star else [])])}]"
        if kind == 1:
            return f"({''.join(each + ', ' for each in [*items, *(['*' + self.iterable()] if star else [])])})"
        if kind == 2:
            return f"{{{', '.join(repr(str(place)) + ': ' + each for place, each in enumerate(items))}{', ' if items and star else ''}{'**' + self.pick(['{1: 2}', self.name()]) if star else ''}}}"
        if kind == 3 and items:
            return f"{{{', '.join(self.constant() for _ in items)}}}"
        return f"[*{self.iterable()}, {self.simple()}]"

    def value_item(self, depth: int) -> str:
        key = self.pick(["0", "-1", "1:", ":1", "::2", "0:9:2", "0", self.value_number(depth)]) if self.chance(90) else self.pick([self.value(depth), "'x'", "1:, 0", "..."])
        return f"{self.pick([self.name('magic'), self.name('items'), self.value_items(depth), '(4, 5, 6)', 'Sequence(2)'])}[{key}]"

    def value_builtin(self, depth: int) -> str:
        return str(self.pick(BUILTIN_CALLS)).format(self.iterable() if self.chance(60) else self.value(depth))

    def value_call(self, depth: int) -> str:
        functions = self.scope.known("functions")
        if not functions:
            return self.value_builtin(depth)
        function = self.pick(functions[:4] if self.chance(60) else functions)
        return self.used(function, self.called(function, depth))

    def called(self, function: Function, depth: int = 1) -> str:
        """A call; the arguments fit, most often."""
        count = self.number(function.required, max(function.required, function.positional))
        if self.chance(3):
            count = max(0, count + self.pick([-1, 1, 2]))
        arguments = [self.value(depth - 1) for _ in range(count)]
        by_name = [name for name in function.keyword_only if not self.chance(3)]
        late = [name for name in function.names[count:] if self.chance(30)] + [name for name in function.names if self.chance(1)]
        named = {name: self.value(depth - 1) for name in [*by_name, *late]}
        if self.chance(1):
            named["unknown"] = "1"
        if self.chance(12) and arguments:
            arguments = [*arguments[:-1], f"*({arguments[-1]},)"]
        elif self.chance(1):
            arguments.append(f"*{self.simple()}")
        texts = [*arguments, *(f"{name}={value}" for name, value in named.items())]
        if self.chance(8):
            texts.append("**{}")
        elif self.chance(3):
            texts.append(self.pick(["**{'extra': 1}", f"**{self.name()}", f"**{{{self.pick(function.names or ['zz'])!r}: 2}}"]))
        return f"{function.name}({', '.join(texts)})"

    def used(self, function: Function, call: str) -> str:
        """A call's result: what a generator or coroutine gives."""
        if function.kind == "generator":
            options = [f"list({call})", f"drive({call}, {self.script()})", f"next({call}, 0)", f"[*{call}]", f"drive({call}, {self.script()})", call]
            if self.scope.kind == "generator":
                options += [f"(yield from {call})"] * 3
            return str(self.pick(options))
        if function.kind == "coroutine":
            if self.scope.kind in ("coroutine", "async generator") and self.chance(70):
                return f"(await {call})"
            return str(self.pick([f"run({call}, {self.script()})", f"drive({call}, {self.script()})", f"run({call})"]))
        if function.kind == "async generator":
            if self.scope.kind in ("coroutine", "async generator") and self.chance(60):
                return f"[each async for each in {call}]"
            return f"drive({call}, {self.script()})"
        return call

    def script(self) -> str:
        """What a driver does to a generator."""
        steps = ["'next'"] if self.chance(85) else []
        for _ in range(self.number(0, 5)):
            steps.append(self.pick(["'next'", "'next'", f"('send', {self.simple()})", f"('throw', {self.exception()})", "'close'", "'next'"]))
        return ", ".join(steps or ["'next'"])

    def value_lambda(self, depth: int) -> str:
        parameter = self.pick(["p", "p=1", "*p", "p, /", "*, p=2", "**p", ""])
        outer = self.scope
        with self.inner("function", ["p"] if parameter else []):
            body = self.value(depth)
        assert self.scope is outer
        return str(self.pick([f"(lambda {parameter}: {body})({self.simple()})", f"(lambda {parameter}: {body})()", f"(lambda {parameter}: {body})"]))

    def value_comprehension(self, depth: int) -> str:
        name = self.pick(["p", "q", "a"])
        iterable = self.iterable()
        with self.inner("function" if self.scope.kind not in ("coroutine", "async generator") else "coroutine", [name]) as scope:
            asynchronous = scope.kind == "coroutine" and self.chance(40)
            scope.kind = "comprehension"
            clause = f"{'async ' if asynchronous else ''}for {name} in {'AsyncItems(3)' if asynchronous else iterable}"
            if self.chance(25):
                clause += f" for r in {self.iterable()}"
                scope.names.append("r")
            if self.chance(30):
                clause += f" if {self.value(depth)}"
            item = self.value(depth)
        kind = self.number(0, 5)
        if kind == 0:
            return f"{{{item}: {self.constant()} {clause}}}" if self.chance(50) else f"{{repr({item}) {clause}}}"
        if kind == 1:
            return f"{{{name}: {item} {clause}}}"
        if kind == 2 and not asynchronous:
            return str(self.pick([f"list({item} {clause})", f"({item} {clause})", f"drive(({item} {clause}), {self.script()})", f"any({item} {clause})"]))
        if kind == 3:
            return f"[lambda: {item} {clause}]" if not self.chance(50) else f"[each() for each in [lambda: {item} {clause}]]"
        return f"[{item} {clause}]"

    def value_text(self, depth: int) -> str:
        pieces = ["x"] if self.chance(50) else []
        for _ in range(self.number(1, 3)):
            inside = self.name() if self.chance(70) else self.pick(["1 + 2", "(1, 2)", "note(5)", "missing", "not a"])
            how = self.pick(["!r:.20", "!s:.12", "!a:.12", "!r:>{3 + 4}.9", "!r:.20", ":.9" if self.chance(30) else "!r:^9.6"])
            pieces.append("{" + f"{inside}{how}" + "}")
        return 'f"' + "-".join(pieces) + '"'

    def value_walrus(self, depth: int) -> str:
        if self.scope.kind in ("class", "comprehension"):
            return self.simple()
        value = self.value(depth)
        return f"({self.target('any')} := {value})"

    def value_token(self, depth: int) -> str:
        return f"{self.pick(['Token', 'Thing'])}({self.number(0, 9)})"

    def value_attribute(self, depth: int) -> str:
        instances = self.scope.known("instances")
        if instances and self.chance(80):
            name, kind = self.pick(instances)
            options = [f"{name}.{each}" for each in kind.attributes or ["x"]] + [f"{name}.{each}()" for each in kind.methods]
            return str(self.pick([*options, f"{kind.name}.{self.pick(kind.attributes or ['x'])}", f"{name}.x", f"({name} {self.pick('+-<')} {self.simple()})"]))
        return f"{self.name()}.{self.pick(['real', 'x', 'name', '__class__', '__doc__', 'args'])}"

    def value_noted(self, depth: int) -> str:
        return f"note({self.value(depth)})"

    def value_error(self, depth: int) -> str:
        return f"({self.pick(ERRORS)})"

    def value_namespace(self, depth: int) -> str:
        return str(self.pick(["sorted(locals())", "sorted(dir())", f"eval({self.value(0)!r})", "note(__name__)", "'a' in globals()"]))

    def value_suspended(self, depth: int) -> str:
        """Where the function may: gives the control away."""
        kind = self.scope.kind
        if kind == "generator":
            return f"(yield {self.value(depth)})" if self.chance(75) else f"(yield from {self.iterable()})"
        if kind == "coroutine":
            return f"(await {self.pick(['Pause', 'Pause', 'Magic'])}({self.number(0, 4)}))"
        if kind == "async generator":
            return f"(yield {self.value(depth)})" if self.chance(50) else f"(await Pause({self.simple()}))"
        return self.value_noted(depth)
