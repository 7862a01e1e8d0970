"""Statements of generated programs but for definitions."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.expressions import EXCEPTIONS, Expressions

CODES = ["a = 1", "import math; a = len('ab')", "a = [1 for a in (1, 2)]; note(a)", "class K:\n  def m(self): return a\nnote(K().m())", "del note", "len = 5\nnote(len)", "def g(): yield a\nb = list(g())", "a + 1", "b = a; del a", "missing", "def f(): return a\nr = f()", "class K: z = a", "[a for _ in (1, 2)]", "1 / 0", "a = a\nb = lambda: a\nc = b()",
         "global a\na = 3", "import math\nfrom math import pi", "from math import *", "x: int = 1", "note(sorted(locals()))", "for a in 'xy': pass"]  # fmt: skip


class Statements(Expressions):
    """Each `statement_` method writes one of its kind, where it may stand."""

    def body(self, least: int = 1, most: int = 3) -> None:
        for _ in range(self.number(least, most)):
            self.statement()

    def statement(self) -> None:
        self.budget -= 1
        if self.budget < 0 or self.depth > 7:
            return self.line(f"note({self.simple()})")
        impossible = self.impossible()
        possible = {name: weight for name, weight in self.kinds().items() if name not in impossible}
        if self.budget < 8 or self.depth > 5:
            possible = {name: weight for name, weight in possible.items() if name in SHORT}
        name = self.weighted(possible)
        write = getattr(self, f"statement_{name}")
        self.sheltered(write) if self.chance(97 if self.scope.kind == "module" and not self.scope.handlers else 12) else write()

    def sheltered(self, write: Callable[[], None]) -> None:
        with self.block("try:"):
            write()
        with self.block(f"except {'BaseException' if self.scope.kind == 'module' else 'Exception'} as x:"):
            self.line("note(x)")

    def kinds(self) -> dict[str, int]:
        if not self.statement_weights:
            self.statement_weights = {name: weight for name, weight in self.weights.items() if hasattr(self, f"statement_{name}")}
        return self.statement_weights

    def impossible(self) -> set[str]:
        """The statements that may not stand here, or have nothing to work with."""
        scope = self.scope
        found: set[str] = set()
        if scope.kind not in ("function", "generator", "coroutine", "async generator") or scope.star:
            found |= {"return"}
        if scope.loops == 0 or scope.star:
            found |= {"break", "continue"}
        if scope.kind != "generator":
            found |= {"delegate"}
        if scope.kind not in ("coroutine", "async generator"):
            found |= {"await", "async_for", "async_with"}
        if scope.kind not in ("generator", "async generator"):
            found |= {"yield"}
        if not scope.handlers:
            found |= {"reraise"}
        if scope.kind == "class":
            found |= {"hot_loop"}
        if scope.kind != "module":
            found |= {"star_import"}
        if self.version < (3, 12):
            found |= {"type_alias"}
        functions = scope.known("functions")
        if not functions:
            found |= {"call"}
        if not any(each.kind == "generator" for each in functions):
            found |= {"generator_object"}
        if not scope.known("generators"):
            found |= {"generator_use"}
        if not scope.known("classes"):
            found |= {"instance"}
        if not scope.known("instances"):
            found |= {"instance_use"}
        return found

    # --- simple ones -----------------------------------------------------------------------------------------------------
    def statement_note(self) -> None:
        self.line(f"note({self.value(3)})" if self.chance(85) else self.pick(["where()", "where(True)"]))

    def statement_expression(self) -> None:
        self.line(self.value(3))

    def statement_assign(self) -> None:
        kind = self.pick(["number", "number", "items", "magic", "any", *(["array"] * 4 if self.has_arrays else [])])
        value = self.value(3) if kind == "any" or self.chance(3) else getattr(self, f"value_{kind}")(3)
        self.line(f"{self.target(kind)} = {value}" if self.chance(85) else f"{self.target(kind)} = {self.target(kind)} = {value}")

    def statement_arrays(self) -> None:
        """What only arrays do: changes in place, and parts that are stored."""
        array, value = self.name("array"), self.value_array(2)
        self.line(
            self.pick(
                [f"{array} {self.pick('+-*')}= {self.pick([value, self.value_number(1)])}", f"{array}[{self.pick(['1:', ':-1', '::2', '0', '...'])}] = {self.pick(['1', '0.5', self.value_number(1)])}",
                 f"{array}[1:] {self.pick('+-*')}= {array}[:-1]", f"np.{self.pick(['add', 'multiply', 'maximum'])}({array}, {value}, out={array})", f"{array}[{array} > {self.number(-1, 2)}] = {self.number(0, 3)}", f"note({value})"]
            )  # fmt: skip
        )

    def statement_annotated(self) -> None:
        value = self.value(1)
        self.line(f"{self.target('any')}: {self.pick(['int', 'note(1)', 'missing', chr(39) + 'x' + chr(39)])} = {value}")

    def statement_augment(self) -> None:
        if self.chance(60):
            return self.line(f"{self.target('number')} {self.pick(['+', '-', '|', '&', '^', '*', '//', '%'])}= {self.number(1, 3)}")
        operator = self.pick("+-|&^%@")
        value = self.constant() if operator == "+" else self.value(1)
        self.line(f"{self.pick([self.target('magic'), self.name('items') + '[0]', self.name('magic') + '.x', self.target('magic')])} {operator}= {value}")

    def statement_unpack(self) -> None:
        targets = self.pick([("{}, {}", 2), ("{}, *{}", 2), ("*{}, {}", 2), ("{}, ({}, {})", 3), ("[{}, {}, {}]", 3), ("{}, *{}, {}", 3), ("{},", 1), ("*{},", 1), ("({}, *{}), {}", 3)])
        value = self.pick([self.iterable(), self.iterable(), f"({self.value(1)}, {self.value(1)})", f"(1, ({self.simple()}, 3))", self.value(1), "'ab', 'c'", "[1, 2, 3]", "1, 2, 3, 4"]) if self.chance(40) else str(self.pick(["(1, (2, 3))", f"({self.simple()}, [{self.simple()}, 2])"]) if "(" in targets[0] else "1, 2, 3"[: 3 * targets[1] - 1 - (targets[1] == 1)])
        text = targets[0].format(*(self.target("any", "number") for _ in range(targets[1])))
        self.line(f"{text} = {value}")

    def statement_delete(self) -> None:
        name = self.pick([each for each in self.scope.names if each in self.scope.own] or self.variables)
        if self.chance(70):
            if name in self.scope.names and not self.chance(10):
                self.scope.names.remove(name)
            return self.line(f"del {name}")
        self.line(f"del {name}{self.pick(['[0]', '[:1]', '.x', '[' + chr(39) + 'x' + chr(39) + ']'])}")

    def statement_store_item(self) -> None:
        self.line(f"{self.name('items', 'magic')}[{self.pick(['0', '-1', ':1', chr(39) + 'x' + chr(39), '1:, 2'])}] = {self.value(1)}")

    def statement_check(self) -> None:
        self.line(f"assert {self.value(2)}, {self.value(1)}")

    def statement_import(self) -> None:
        self.line(self.pick(["import math", "from math import pi as a", "from math import nothing_there", "import nothing.there", "import os.path as b", "from collections import abc, nothing",
                             "from . import c", "import xml.dom", "from os import path as e"]))  # fmt: skip

    def statement_star_import(self) -> None:
        self.line(self.pick(["from math import *", "from keyword import *"]))

    def statement_text(self) -> None:
        """Texts that grow in place, while others look at them or not."""
        name = self.target("items")
        self.line(f"{name} = 'start'")
        with self.block(f"for {self.target('any')} in range(3):"):
            if self.chance(40):
                self.line(f"{self.target('any')} = {name}")
            self.line(f"{name} += {self.pick([chr(39) + 'x' + chr(39), 'str(1)', name, '1'])}")
        self.line(f"note({name})")

    def statement_changing(self) -> None:
        """A loop over what it changes."""
        source, change = self.pick([("[1, 2, 3]", "append(4)"), ("[1, 2, 3]", "pop()"), ("{1: 2, 3: 4}", "clear()"), ("{1: 2}", "update({5: 6})"), ("{1, 2}", "add(7)"), ("[1, 2, 3]", "clear()"),
                                    ("{1: 2, 3: 4}", "pop(1, 0)"), ("bytearray(b'abc')", "append(1)")])  # fmt: skip
        name = self.target("any")
        self.line(f"{name} = {source}")
        with self.block(f"for each in {self.pick(['', '', 'enumerate', 'reversed', 'list', 'iter'])}({name}):"):
            self.line("fuel()")
            self.line(f"note(each, {name})")
            self.line(f"if len({name}) < 6: {name}.{change}")
        self.line("note(each)")

    def statement_long(self) -> None:
        """More constants, names and jumps than fit in a byte."""
        many = self.pick([130, 260])
        name = self.target("any")
        self.line(f"{name} = [{', '.join(str(1000 + each) for each in range(many))}]")
        with self.block(f"if {self.value(1)}:"):
            for each in range(0, many, 6):
                self.line("; ".join(f"w{number} = {name}[{number}]" for number in range(each, min(each + 6, many))))
            self.line(f"note(w{many - 1}, w{many // 2})")
        with self.block("else:"):
            self.line(f"note(len({name}))")

    def statement_callback(self) -> None:
        """Functions of the program that C code calls."""
        value = self.value(1)
        self.line(
            self.pick(
                [f"note(sorted([3, 1, 2], key=lambda p: {value}))", f"note(list(map(lambda p, *q: {value}, (1, 2), (3, 4))))", f"note(list(filter(lambda p: {value}, range(3))))",
                 f"note(max((1, 2), key=lambda p: {value}))", f"note(sum({value} for p in (1, 2)))", f"note(''.join(str({value}) for p in 'ab'))", f"note(dict((p, {value}) for p in 'ab'))",
                 f"note(all({value} for p in (1, 2)))", f"note(max({value} for p in (1, 2)))", f"a, b = ({value} for p in (1, 2))",
                 f"note([*({value} for p in (1, 2))])", f"c = sorted(({value} for p in (1, 2)), key=repr)", f"note(type('T', (), {{'m': lambda self: {value}}})().m())"]
            )  # fmt: skip
        )

    def statement_watch(self) -> None:
        """Tools that come and go."""
        on = f"watch({self.pick(['trace', 'trace', 'profile', 'opcodes', 'monitor'])!r}{self.pick(['', ', True'])})"
        if self.chance(40):
            return self.line(self.pick([on, "unwatch()"]))
        self.line(on)
        self.body(1, 3)
        self.line("unwatch()")

    def statement_frame(self) -> None:
        """What a frame tells of itself and its callers."""
        self.line(self.pick(["where(True)", "where()", "note(sorted(locals().items(), key=repr))", "note(getframe().f_lineno)", "note(getframe().f_code.co_name, getframe(1).f_lineno)",
                             "note(getframe().f_back is getframe(1))", "note(getrefcount(Token(3)))", f"note(getrefcount({self.name()}) > 1)", "note(sorted(getframe().f_locals))", "note(type(getframe().f_builtins))",
                             "note(exc_info()[1])"]))  # fmt: skip

    def statement_execute(self) -> None:
        code = repr(self.pick(CODES))
        space = self.pick(["", "", ", {'a': 1}", ", {'note': note}, {'a': 2}", ", {}", ", globals(), {}", ", {'__builtins__': {}}", ", {'__builtins__': {'len': note}, 'a': 3}", ", {'note': note, 'a': 1}, Names()", ", Names()", ", {'note': note, '__builtins__': Names(len=5)}"])
        self.line(f"exec({code}{space})" if self.chance(70) else f"note(eval({code}{space}))")

    def statement_type_alias(self) -> None:
        name = self.fresh("Alias")
        self.line(f"type {name}{self.pick(['', '[T]', '[T: int]', '[*Ts]', '[**P]', '[T: (int, note(2))]'])} = {self.pick(['list[T]', 'int', 'missing', 'note(1)', name])}")
        self.line(f"note({name}.__name__, {name}.__type_params__, {name}.__value__)" if self.chance(60) else f"note({name}.__type_params__[0].__bound__)")

    # --- ways out ----------------------------------------------------------------------------------------------------------
    def statement_raise(self) -> None:
        text = f"raise {self.exception()}"
        if self.chance(30):
            text += f" from {self.pick([self.exception(), 'None', self.name(), self.exception()])}"
        if self.chance(60):
            text = f"if {self.value(2)}: {text}"
        self.line(text if not self.chance(6) else f"raise {self.value(1)}")

    def statement_reraise(self) -> None:
        self.line("raise" if self.chance(70) else f"if {self.value(1)}: raise")

    def way_out(self, text: str) -> None:
        self.line(text if self.chance(30) else f"if {self.value(2)}: {text}")

    def statement_return(self) -> None:
        self.way_out("return" if self.scope.kind == "async generator" else f"return {self.value(2)}")

    def statement_break(self) -> None:
        self.way_out("break")

    def statement_continue(self) -> None:
        self.way_out("continue")

    def statement_yield(self) -> None:
        self.line(f"yield {self.value(2)}" if self.chance(50) else f"{self.target('any')} = yield {self.value(2)}")

    def statement_delegate(self) -> None:
        functions = [each for each in self.scope.known("functions") if each.kind == "generator"]
        source = self.called(self.pick(functions)) if functions and self.chance(70) else self.iterable()
        self.line(f"{self.target('any')} = yield from {source}")

    def statement_await(self) -> None:
        functions = [each for each in self.scope.known("functions") if each.kind == "coroutine"]
        source = self.called(self.pick(functions)) if functions and self.chance(60) else f"Pause({self.simple()})"
        self.line(f"{self.target('any')} = await {source if not self.chance(4) else self.value(1)}")

    # --- blocks ------------------------------------------------------------------------------------------------------------
    def statement_if(self) -> None:
        with self.block(f"if {self.value(2)}:"):
            self.body()
        if self.chance(25):
            with self.block(f"elif {self.value(2)}:"):
                self.body()
        if self.chance(50):
            with self.block("else:"):
                self.body()

    def loop(self, head: str) -> None:
        with self.block(head), self.changed(loops=self.scope.loops + 1, star=False):
            self.line("fuel()")
            self.body()
        if self.chance(30):
            with self.block("else:"):
                self.body(1, 2)

    def statement_for(self) -> None:
        iterable = self.iterable()
        generators = [each for each in self.scope.known("functions") if each.kind == "generator"]
        if generators and self.chance(30):
            iterable = self.called(self.pick(generators))
        self.loop(f"for {self.target('any', 'number') if self.chance(85) else f'{self.target()}, *{self.target()}'} in {iterable}:")

    def statement_while(self) -> None:
        count = self.fresh("w")
        self.line(f"{count} = {self.number(1, 4)}")
        with self.block(f"while {count} and {self.value(1)}:" if self.chance(60) else f"while ({count} := {count} - 1) >= 0 and ({self.value(1)}, 1):" if self.scope.kind != "class" else f"while {count}:"):
            with self.changed(loops=self.scope.loops + 1, star=False):
                self.line(f"{count} -= 1")
                self.line("fuel()")
                self.body()
        if self.chance(30):
            with self.block("else:"):
                self.body(1, 2)

    def caught(self) -> str:
        errors = [each.name for each in self.scope.known("classes") if each.is_error]
        kind = self.pick(["Exception", "Fault", "FirstFault", "ValueError", "(KeyError, Fault)", "(TypeError, NameError, ArithmeticError)", "BaseException", "Exception", "LookupError", *errors])
        return str(kind if not self.chance(4) else self.pick(["5", "()", "note(Fault)", "missing", "(int, 5)", "1 / 0", "Magic(1)"]))

    def handler(self, head: str, bound: str | None, star: bool) -> None:
        before = self.scope.star
        with self.block(head), self.changed(handlers=self.scope.handlers + 1, star=star or before):
            if bound:
                if self.chance(70):
                    self.line(f"note({bound})")
                if self.chance(15):
                    self.line(f"{bound}.add_note('noted')")
                if self.chance(15):
                    self.line(f"{self.target('any')} = {bound}")
                if self.chance(12):
                    self.line(f"raise {self.exception()} from {bound}")
                    return
            self.body(0, 2)

    def statement_try(self) -> None:
        with self.block("try:"):
            self.body(1, 3)
            if self.chance(40):
                self.statement_raise()
        star = self.chance(self.weights.get("star", 12))
        handlers = self.number(1, 3) if self.chance(80) else 0
        for number in range(handlers):
            caught = self.caught()
            if star and "BaseException" == caught:
                caught = "Exception"
            bound = self.pick(["x", "y", "a"]) if self.chance(60) else None
            self.handler(f"except{'*' if star else ''} {caught}{' as ' + bound if bound else ''}:", bound, star)
        if handlers and not star and self.chance(15):
            self.handler("except:", None, False)
        if handlers and self.chance(25):
            with self.block("else:"):
                self.body(1, 2)
        if not handlers or self.chance(40):
            with self.block("finally:"):
                self.body(1, 2)

    def manager(self, prefix: str) -> str:
        swallow = self.pick(["", ", Exception", ", Fault", ", (ValueError, KeyError)", ", BaseException"])
        trouble = "" if not self.chance(12) else self.pick([f", enter={self.exception()}", f", exit={self.exception()}"])
        text = f"{prefix}Manager({self.number(0, 9)}{swallow}{trouble})"
        return text if not self.chance(5) else self.pick([self.name(), "Magic(1)", "Magic(2)", "open", "object()"])

    def with_items(self, prefix: str) -> str:
        return ", ".join(self.manager(prefix) + (f" as {self.target('any')}" if self.chance(50) else "") for _ in range(self.number(1, 2)))

    def statement_with(self) -> None:
        with self.block(f"with {self.with_items('')}:"):
            self.body()

    def statement_async_with(self) -> None:
        with self.block(f"async with {self.with_items('Async')}:"):
            self.body()

    def statement_async_for(self) -> None:
        functions = [each for each in self.scope.known("functions") if each.kind == "async generator"]
        source = self.called(self.pick(functions)) if functions and self.chance(60) else self.pick(["AsyncItems(2)", "AsyncItems(3, 1)", "Magic(2)", self.name()])
        self.loop(f"async for {self.target('any')} in {source}:")

    def statement_hot_loop(self) -> None:
        """Something often enough to be learned, and changed on the way."""
        name = self.fresh("i")
        changes = [f"{self.pick(self.variables)} = {self.value(1)}"] if self.scope.kind == "module" else []
        for each in self.scope.known("classes"):
            changes += [f"{each.name}.{self.pick(each.attributes or ['x'])} = {self.value(1)}", f"{each.name}.x = property(lambda self: note(5))",
                        f"{each.name}.{self.pick(each.methods or ['m'])} = lambda *v: note(6)"]  # fmt: skip
            if each.attributes:
                changes.append(f"del {each.name}.{self.pick(each.attributes)}")
        for variable, _ in self.scope.known("instances"):
            changes += [f"{variable}.x = {self.value(1)}", f"{variable}.__dict__ = {{'x': 9}}", f"del {variable}.x", f"{variable}.new = 1"]
        for function in self.scope.known("functions")[:3]:
            changes += [f"{function.name}.__defaults__ = (7, 8)", f"{function.name}.__code__ = (lambda *v, **k: note(v, k)).__code__", f"{function.name} = note"]
        with self.block(f"for {name} in range({self.number(4, 12)}):"), self.changed(loops=self.scope.loops + 1, star=False):
            with self.block("try:"):
                for _ in range(self.number(1, 2)):
                    self.line(f"note({self.value_attribute(1) if self.scope.known('instances') and self.chance(70) else self.value_call(1)})")
            with self.block("except Exception as x:"):
                self.line("note(x)")
            if changes and self.chance(80):
                with self.block(f"if {name} == {self.number(2, 5)}:"):
                    self.line(self.pick(changes))

    # --- generators and calls ------------------------------------------------------------------------------------------------
    def statement_call(self) -> None:
        function = self.pick(self.scope.known("functions"))
        call = self.used(function, self.called(function, 2))
        self.line(f"{self.target('any')} = {call}" if self.chance(50) else f"note({call})")

    def statement_generator_object(self) -> None:
        function = self.pick([each for each in self.scope.known("functions") if each.kind == "generator"])
        name = self.fresh("g")
        self.line(f"{name} = {self.called(function)}")
        self.bind(name)
        self.scope.generators.append(name)

    def statement_generator_use(self) -> None:
        name = self.pick(self.scope.known("generators"))
        use = self.pick([f"next({name}, None)", f"drive({name}, {self.script()})", name, f"{name}.gi_frame", f"{name}.gi_yieldfrom", f"{name}.gi_running", f"list({name})", f"{name}.close()",
                         f"{name}.throw({self.exception()})", f"{name}.send({self.simple()})", f"next({name})", f"{name}.gi_frame.f_locals", f"{name}.gi_frame.clear()"])  # fmt: skip
        self.line(f"note({use})" if self.chance(90) else f"del {name}")


SHORT = {"note", "expression", "assign", "augment", "unpack", "delete", "raise", "return", "yield", "await", "call", "reraise", "break", "continue", "generator_use", "instance_use"}
