"""Functions, classes and match statements of generated programs."""

from __future__ import annotations

from fuzz.statements import Statements
from fuzz.writing import PREFIX, Class, Function

BASES = ["", "", "", "(int)", "(dict)", "(list)", "(Exception)", "(Fault)", "(str)", "(tuple)", "(Token)"]
OPERATORS = ["__add__", "__radd__", "__iadd__", "__sub__", "__eq__", "__lt__", "__gt__", "__getitem__", "__contains__", "__and__", "__matmul__", "__rsub__"]
UNARY = ["__neg__", "__bool__", "__len__", "__iter__", "__next__", "__repr__", "__str__", "__enter__", "__hash__", "__index__", "__del__", "__invert__", "__await__", "__aiter__"]


class Definitions(Statements):
    def parameters(self, function: Function) -> tuple[str, list[str]]:
        """The text of a parameter list, and the names in it."""
        names = ["p", "q", "s"][: self.number(0, 3)]
        optional = self.number(0, len(names)) if self.chance(50) else 0
        texts = [name if place < len(names) - optional else f"{name}={self.value(1)}" for place, name in enumerate(names)]
        function.positional, function.required = len(names), len(names) - optional
        function.names = list(names)
        if names and self.chance(15):
            texts.insert(self.number(1, len(texts)), "/")
        if self.chance(30) and self.version:
            texts = [text + f": {self.pick(['int', 'note(3)'])}" if text.isidentifier() and self.chance(20) else text for text in texts]
        star = self.chance(20)
        if star:
            texts.append("*t")
            names.append("t")
        if self.chance(20):
            texts += ([] if star else ["*"]) + ["k", f"m={self.value(1)}"]
            function.keyword_only = ["k"]
            names += ["k", "m"]
        if self.chance(15):
            texts.append("**u")
            names.append("u")
        return ", ".join(texts), names

    def define(self, name: str, kind: str, first: str = "", most: int = 4, known: bool = True) -> Function:
        function = Function(name, kind)
        text, names = self.parameters(function)
        generic = self.pick(["[T]", "[T: int]", "[*Ts]", "[T, **P]"]) if self.version >= (3, 12) and self.chance(self.weights.get("generic", 2)) else ""
        returns = self.pick(["", "", "", "", " -> note(4)", " -> None"])
        with self.block(f"{PREFIX[kind]}def {name}{generic}({', '.join(each for each in (first, text) if each)}){returns}:"):
            with self.inner(kind, [*([first] if first.isidentifier() else []), *names]):
                self.line(f"note({name!r}{''.join(', ' + each for each in names)})")
                self.begin_function()
                self.body(1, most)
                if kind == "generator" or kind == "async generator":
                    self.line(f"yield {self.value(1)}")
                if kind != "async generator" and self.chance(60):
                    self.line(f"return {self.value(2)}")
        if known:
            self.scope.functions.insert(0, function)
        return function

    def decorators(self) -> None:
        if self.chance(8):
            self.line(f"@{self.pick(['note', 'lambda f: f', 'lambda f: note(f)'] if self.chance(95) else ['missing', '1 / 0'])}")

    def statement_def(self) -> None:
        kinds = {"function": 10, "generator": self.weights.get("generators", 3), "coroutine": self.weights.get("coroutines", 2), "async generator": self.weights.get("async_generators", 1)}
        name = self.fresh("f")
        self.decorators()
        function = self.define(name, self.weighted(kinds))
        if self.scope.kind != "class":
            for _ in range(self.number(1, 2)):
                self.sheltered(lambda: self.line(f"note({self.used(function, self.called(function, 1))})"))

    def statement_closure(self) -> None:
        """Cells that several functions share and change, some of them late."""
        cell, read, write = self.pick(["a", "b"]), self.fresh("read"), self.fresh("write")
        outer = self.fresh("outer")
        parameter = self.pick(["", cell, f"{cell}=1"])
        argument = self.simple() if parameter == cell else ""
        with self.block(f"def {outer}({parameter}):"), self.inner("function"):
            self.line(f"note({outer!r})")
            self.scope.own += [cell, "d"]
            if self.chance(85):
                self.line(f"{cell} = {self.value(1)}")
            with self.block(f"def {read}():"), self.inner("function", [cell]):
                self.line("where()")
                self.line(f"return {self.pick([cell, f'[{cell} for _ in (1, 2)]', f'(lambda: {cell})()', f'note({cell}, 1)', f'[lambda: ({cell}, each) for each in (1, 2)][0]()'])}")
            with self.block(f"def {write}(p=None):"), self.inner("function", ["p"]):
                self.line(f"nonlocal {cell}")
                self.line(self.pick([f"{cell} = p", f"del {cell}", f"{cell} = {cell}, p", f"for {cell} in (p, 2): pass", f"with Manager(p) as {cell}: pass", f"({cell} := p)", f"try: 1 / 0\n{'    ' * self.depth}except ArithmeticError as {cell}: note({cell})"]))
                self.line(f"return {read}()")
            self.bind(cell)
            for name in (read, write):
                self.scope.functions.insert(0, Function(name, "function"))
            self.body(1, 3)
            self.line(self.pick([f"del {cell}", f"note({read}())", f"note({write}(5))", f"class Inner: z = {cell}; note(z)", f"note({read}.__closure__)", f"{read}.__closure__[0].cell_contents = 4"]))
            self.line(f"return {self.pick([f'{read}, {write}', f'{read}()', f'{write}()'])}")
        self.line(f"{self.target('any')} = {outer}({argument})" if self.chance(70) else f"note([f() for f in {outer}({argument})])")

    # --- classes -------------------------------------------------------------------------------------------------------------
    def statement_class(self) -> None:
        made = Class(self.fresh("C"), methods=[], attributes=["x"])
        known = [each for each in self.scope.known("classes")]
        base = self.pick(BASES)
        if known and self.chance(50):
            parents = self.random.sample(known, min(len(known), self.number(1, 2)))
            base = f"({', '.join(each.name for each in parents)})"
            made.attributes = sorted({name for each in parents for name in each.attributes})
            made.methods = sorted({name for each in parents for name in each.methods})
            made.is_error = any(each.is_error for each in parents)
        made.is_error = made.is_error or base in ("(Exception)", "(Fault)")
        if self.chance(self.weights.get("metaclass", 8)):
            base = f"{base[:-1]}{', ' if base else '('}metaclass={self.metaclass()})"
        if self.chance(6):
            base = f"{base[:-1]}{', ' if base else '('}option={self.value(1)})"
        generic = self.pick(["[T]", "[T: int, *Ts]", "[**P]"]) if self.version >= (3, 12) and self.chance(self.weights.get("generic", 2)) else ""
        self.decorators()
        with self.block(f"class {made.name}{generic}{base}:"), self.inner("class", []):
            if self.chance(8):
                self.line(f"__slots__ = {self.pick(['()', '(' + chr(39) + 'x' + chr(39) + ',)', '[' + chr(39) + 'x' + chr(39) + ', ' + chr(39) + 'y' + chr(39) + ']'])}")
            elif self.chance(60):
                self.line(f"x = {self.value(1)}")
            for _ in range(self.number(1, 5)):
                self.member(made)
        self.scope.classes.insert(0, made)
        if self.scope.kind != "class" and self.chance(80):
            self.statement_instance()

    def metaclass(self) -> str:
        name = self.fresh("Meta")
        with self.block(f"class {name}(type):"), self.inner("class"):
            if self.chance(40):
                with self.block("@classmethod"):
                    pass
                self.lines.pop()
                with self.block("def __prepare__(cls, name, bases, **options):"):
                    self.line("note('prepare', name, len(bases), options)")
                    self.line(f"return {self.pick(['{}', 'type(chr(65), (dict,), {chr(95) * 2 + chr(103) + chr(101) + chr(116) + chr(105) + chr(116) + chr(101) + chr(109) + chr(95) * 2: lambda self, key: note(dict.__getitem__(self, key))})()', '{chr(97): 1}'])}")
            if self.chance(50):
                with self.block("def __new__(meta, name, bases, names, **options):"):
                    self.line("note('new', name, sorted(names), options)")
                    self.line("return super().__new__(meta, name, bases, names)")
            if self.chance(50):
                with self.block("def __init__(cls, name, bases, names, **options):"):
                    self.line("note('init', cls)")
                    self.line("super().__init__(name, bases, names)")
            if self.chance(40):
                with self.block("def __call__(cls, *values, **named):"):
                    self.line("note('call', values, named)")
                    self.line("return super().__call__(*values, **named)")
            if self.chance(30):
                with self.block("def __getattr__(cls, name):"):
                    self.line("note('meta getattr', name)")
                    self.line(self.pick(["raise AttributeError(name)", "return 5"]))
            self.line("kind = 'meta'")
        return name

    def member(self, made: Class) -> None:
        options = {"method": 8, "init": 3, "property": 4, "static": 3, "operator": 5, "unary": 3, "getattr": 2, "setattr": 1, "descriptor": 3, "subclass": 2, "statement": 5, "super": 4, "new": 1, "call": 2}
        getattr(self, f"member_{self.weighted(options)}")(made)

    def member_method(self, made: Class) -> None:
        name = self.pick(["m", "n", "o"])
        self.define(name, self.weighted({"function": 8, "generator": 1, "coroutine": 1}), "self", 2, known=False)
        made.methods.append(name)

    def member_statement(self, made: Class) -> None:
        before = set(self.scope.names)
        self.statement()
        made.attributes += [name for name in self.scope.names if name not in before]

    def member_init(self, made: Class) -> None:
        self.write_method("__init__", "self, *values", [f"self.{self.pick('xyz')} = {self.pick(['values', '1', 'note(2)'])}", *self.super_call("__init__", "")])
        made.attributes += ["y"]

    def member_new(self, made: Class) -> None:
        self.write_method("__new__", "cls, *values", [f"return {self.pick(['super().__new__(cls)', 'super().__new__(cls, *values)', '5'])}"])

    def member_property(self, made: Class) -> None:
        name = self.pick("xyz")
        self.line("@property")
        self.write_method(name, "self", [f"return {self.pick(['self._v', '5', 'note(self.__class__)', 'super().x', '1 / 0'])}"])
        if self.chance(60):
            self.line(f"@{name}.setter")
            self.write_method(name, "self, value", ["self._v = value"])
        if self.chance(30):
            self.line(f"@{name}.deleter")
            self.write_method(name, "self", ["del self._v"])
        made.attributes.append(name)

    def member_static(self, made: Class) -> None:
        kind = self.pick(["staticmethod", "classmethod"])
        self.line(f"@{kind}")
        name = self.pick(["m", "c"])
        self.write_method(name, "cls" if kind == "classmethod" else "", [f"return {self.pick(['__class__', '5', 'note(cls)' if kind == 'classmethod' else 'note(6)', 'super()'])}"])
        made.methods.append(name)

    def member_operator(self, made: Class) -> None:
        result = self.pick(["NotImplemented", "self", "5", "note(other)", "1 / 0", "type(self) is type(other)", "False", "super().__eq__(other)"])
        self.write_method(self.pick(OPERATORS), "self, other", [f"return {result}"])

    def member_unary(self, made: Class) -> None:
        result = self.pick(["self", "5", "'text'", "0", "iter((1, 2))", "1 / 0", "True", "note(6)", "-1"])
        self.write_method(self.pick(UNARY), "self", [f"return {result}"])

    def member_getattr(self, made: Class) -> None:
        self.write_method("__getattr__", "self, name", ["if name.startswith('__'): raise AttributeError(name)", f"return {self.pick(['5', 'note(name)', 'super().__getattribute__(name)'])}"])

    def member_setattr(self, made: Class) -> None:
        self.write_method(self.pick(["__setattr__", "__setattr__"]), "self, name, value", ["super().__setattr__(name, value)"])

    def member_call(self, made: Class) -> None:
        self.write_method("__call__", "self, *values, **named", [f"return {self.value(1)}"])

    def member_subclass(self, made: Class) -> None:
        name = self.pick(["__init_subclass__", "__class_getitem__", "__set_name__", "__instancecheck__"])
        parameters = {"__init_subclass__": "cls, **options", "__class_getitem__": "cls, key", "__set_name__": "self, owner, name", "__instancecheck__": "self, other"}
        self.write_method(name, parameters[name], [f"return {self.pick(['None', '5', 'note(__class__)'])}"])

    def member_super(self, made: Class) -> None:
        name = self.pick(["m", "n", "__repr__", "__init__"])
        self.write_method(name, "self, *values", self.super_call(name, "return "))
        if not name.startswith("__"):
            made.methods.append(name)

    def member_descriptor(self, made: Class) -> None:
        kind = self.fresh("D")
        with self.block(f"class {kind}:"):
            self.write_method("__get__", "self, instance, owner", [f"return {self.pick(['5', 'self', 'note(owner)', 'instance'])}"])
            if self.chance(50):
                self.write_method("__set__", "self, instance, value", ["note(value)"])
            if self.chance(50):
                self.write_method("__set_name__", "self, owner, name", ["note(name)"])
            if self.chance(30):
                self.write_method("__delete__", "self, instance", [])
        name = self.pick("xyz")
        self.line(f"{name} = {kind}()")
        made.attributes.append(name)

    def super_call(self, name: str, prefix: str) -> list[str]:
        form = self.pick(["super()", "super()", "super(__class__, self)", "(lambda: super(__class__, self))()", "super"])
        return [f"{prefix}{form}.{name}({self.pick(['', '*values'])})"] if self.chance(70) else []

    def write_method(self, name: str, parameters: str, lines: list[str]) -> None:
        with self.block(f"def {name}({parameters}):"):
            self.line(f"note({name!r})" if name != "__del__" else "fuel()")
            for text in lines:
                self.line(text)

    def statement_instance(self) -> None:
        kind = self.pick(self.scope.known("classes")[:3])
        name = self.fresh("o")
        arguments = self.pick(["", "", "", self.value(1), f"{self.value(1)}, {self.value(1)}", "y=1"])
        self.line(f"{name} = {kind.name}({arguments})")
        self.bind(name)
        self.scope.instances.insert(0, (name, kind))

    def statement_instance_use(self) -> None:
        name, kind = self.pick(self.scope.known("instances"))
        attribute = self.pick([*kind.attributes, "x"])
        self.line(
            self.pick(
                [f"note({self.value_attribute(1)})", f"{name}.{attribute} = {self.value(1)}", f"del {name}.{attribute}", f"note({name}.{attribute})", f"{name}.{attribute} += 1",
                 f"note({name} {self.pick(['+', '-', '==', '<', '@', '&', 'in', '>'])} {self.simple()})", f"note({self.simple()} {self.pick('+-<')} {name})", f"note(-{name})",
                 f"note({self.pick(['len', 'bool', 'list', 'repr', 'str', 'iter', 'next', 'hash', 'callable'])}({name}))", f"note({name}[{self.simple()}])", f"note({name}({self.simple()}))",
                 f"note({name}.{self.pick([*kind.methods, 'm'])}({self.pick(['', self.simple()])}))", f"{kind.name}.{attribute} = {self.value(1)}", f"note({kind.name}[{self.simple()}])",
                 f"note(isinstance({self.simple()}, {kind.name}))", f"{name} += 1", f"{self.target('number', 'items')} = {name}", f"{self.target('magic', 'any')} = {name}",
                 f"{name}.__class__ = {self.pick(self.scope.known('classes')).name}", f"note(vars({name}))", f"{name}.__dict__['{attribute}'] = {self.simple()}", f"setattr({kind.name}, '{attribute}', {self.value(1)})",
                 f"{kind.name}.__getattr__ = lambda self, name: note(name)", f"note({name} {self.pick(['<', '==', '+', 'in'])} {self.name('items')})", f"for each in {name}: note(each); fuel()", f"note({kind.name}.{self.pick([*kind.methods, 'm'])}({name}))", f"del {name}"]
            )  # fmt: skip
        )

    # --- match ---------------------------------------------------------------------------------------------------------------
    def pattern(self, depth: int, names: list[str]) -> str:
        """`names`: left to be captured, each once."""
        choice = self.number(0, 9) if depth > 0 else self.number(0, 3)
        if choice == 0 and names:
            return names.pop()
        if choice <= 2:
            return str(self.pick(["1", "'ab'", "None", "True", "-1", "1.5", "'x' 'y'", "0 + 1j", "b'xy'"]))
        if choice == 3:
            return "_"
        if choice <= 5:
            inside = [self.pattern(depth - 1, names) for _ in range(self.number(0, 3))]
            if self.chance(30):
                inside.insert(self.number(0, len(inside)), f"*{names.pop() if names and self.chance(60) else '_'}")
            return f"[{', '.join(inside)}]"
        if choice == 6:
            inside = [f"{key}: {self.pattern(depth - 1, names)}" for key in self.random.sample(["'x'", "1", "'0'", "None"], self.number(0, 2))]
            if names and self.chance(30):
                inside.append(f"**{names.pop()}")
            return f"{{{', '.join(inside)}}}"
        if choice == 7:
            classes = [each.name for each in self.scope.known("classes")]
            kind = self.pick(["int", "str", "Token", "Fault", "list", "dict", "Magic", "tuple", *classes, *classes])
            inside = [self.pattern(depth - 1, names) for _ in range(self.number(0, 2))]
            inside += [f"{each}={self.pattern(depth - 1, names)}" for each in self.random.sample(["x", "real", "name", "args"], self.number(0, 2))]
            return f"{kind}({', '.join(inside)})"
        if choice == 8:
            return f"({' | '.join(self.pattern(depth - 1, []) for _ in range(self.number(2, 3)))})"
        return f"({self.pattern(depth - 1, names)}{' as ' + names.pop() if names else ''})".replace("(_ as", "(1 as")

    def statement_match(self) -> None:
        subject = self.pick([self.value(2), self.value(1), "[1, 2, 3]", "{'x': 1, 1: 'ab'}", "(1, (2, 'ab'))", f"{self.value(1)}, {self.value(1)}", "{'x': [1, {'0': 2}]}", "Token(1)", "Sequence(2)", "'ab'"])
        with self.block(f"match {subject}:"):
            for _ in range(self.number(1, 4)):
                names = ["a", "b", "c", "d"]
                pattern = self.pattern(2, names)
                if pattern in ("a", "b", "c", "d", "_"):
                    pattern = f"[{pattern}]"
                guard = f" if {self.value(1)}" if self.chance(25) else ""
                with self.block(f"case {pattern}{guard}:"):
                    captured = [name for name in ("a", "b", "c", "d") if name not in names]
                    for name in captured:
                        self.bind(name)
                    if captured:
                        self.line(f"note({', '.join(captured)})")
                    self.body(0, 2)
            if self.chance(40):
                with self.block("case _:"):
                    self.body(1, 2)
