"""Generated programs by seed, made by one of the strategies, and how each is run."""

from __future__ import annotations

import ast
import builtins
import marshal
import types
import warnings
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from random import Random
from typing import Any, NamedTuple

from fuzz import magic, world
from fuzz.magic import Magic
from fuzz.strategies import STRATEGIES
from fuzz.world import Log, Stop, show

RANDOM_SYNTAX = "syntax"
EXCEPTIONS = [name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)]
OTHERS = """abs all any bool bytes callable chr classmethod complex dict dir divmod enumerate eval exec filter float format frozenset getattr
globals hasattr hash int isinstance issubclass iter len list locals map max min next object ord pow print property range repr reversed round set
setattr delattr slice sorted staticmethod str sum super tuple type vars zip aiter anext Ellipsis NotImplemented True False None __build_class__
__import__ __debug__""".split()
BUILTINS = {name: getattr(builtins, name) for name in EXCEPTIONS + OTHERS}


class Program(NamedTuple):
    source: str
    strategy: str  # RANDOM_SYNTAX programs are run piece by piece, with their names standing for magic objects


@lru_cache(4)
def compiled(program: Program) -> tuple[types.CodeType, ...]:
    """The whole as a module; of random syntax, each statement: an exception in one would end the rest."""
    if program.strategy != RANDOM_SYNTAX:
        return (compile(program.source, Log.program_file, "exec", dont_inherit=True),)
    codes = []
    for statement in ast.parse(program.source).body:
        try:
            codes.append(compile(ast.Module([statement], []), Log.program_file, "exec", dont_inherit=True))
        except SyntaxError:
            pass
    return tuple(codes)


def fresh_codes(program: Program) -> list[types.CodeType]:
    """Code that nothing has run yet."""
    return [marshal.loads(marshal.dumps(code)) for code in compiled(program)]


def exec_whole(codes: list[types.CodeType]) -> None:
    """As a module, with the names of `world`."""
    Log.begin(world.EVENT_LIMIT)
    namespace: dict[str, Any] = {"__name__": "program", "__builtins__": BUILTINS, "Magic": Magic, **world.names()}
    known = set(namespace)
    try:
        exec(codes[0], namespace)
    except BaseException as error:
        Log.events.append(f"raised {show(error, 3)}")
    finally:
        world.unwatch()
    Log.events.append(f"names {show({name: value for name, value in namespace.items() if name not in known}, 3)}")
    namespace.clear()
    Log.events.append("end")


def magic_import(name: str, names: Any = None, local_names: Any = None, wanted: Any = (), level: int = 0) -> Any:
    if name == "builtins":  # state machines of the decompiler ask for some
        return builtins
    magic.told("import", name, tuple(wanted or ()), level)
    return Magic(6)


# Without those that write, or whose work has no bounds.
MAGIC_BUILTINS = {name: value for name, value in BUILTINS.items() if name not in ("eval", "exec", "print", "dir", "__debug__")}
MAGIC_BUILTINS |= {"__import__": magic_import, "__fuel__": world.fuel}
PIECE_LIMIT = 300


def exec_pieces(codes: list[types.CodeType]) -> None:
    """Statement by statement, and each function of it by itself."""
    Log.begin(PIECE_LIMIT)
    namespace: dict[str, Any] = {"__name__": "program", "__builtins__": MAGIC_BUILTINS}
    for code in codes:
        try:
            run_piece(code, namespace)
        except Stop:
            Log.count = 0
            Log.events.append("limit")
    told = {name: magic.short(value) for name, value in namespace.items() if name != "__builtins__"}
    namespace.clear()
    Log.events.append(f"names {sorted(told.items())}")


def inner_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from inner_codes(constant)


def run_piece(code: types.CodeType, namespace: dict[str, Any]) -> None:
    inner = list(inner_codes(code))
    free = sorted({name for each in [code, *inner] for name in each.co_names if not name.startswith("__") and name not in BUILTINS})

    def guarded(what: str, run: Callable[[], Any]) -> Any:
        Log.count = 0
        namespace.update((name, Magic(number % 7)) for number, name in enumerate(free))
        try:
            return run()
        except Stop:
            raise
        except BaseException as error:
            Log.events.append(f"{what} raised {show(error, 2)}")

    guarded("module", lambda: exec(code, namespace))
    for each in inner:
        if each.co_flags & 2:  # CO_NEWLOCALS: those of functions
            try:
                guarded(each.co_name, lambda each=each: run_function(each, namespace))
            except Stop:
                Log.events.append("limit")


KINDS = {types.GeneratorType: "generator", types.CoroutineType: "coroutine", types.AsyncGeneratorType: "async_generator"}


def run_function(code: types.CodeType, namespace: dict[str, Any]) -> None:
    cells = tuple(types.CellType(Magic(number % 7)) for number in range(len(code.co_freevars)))
    function = types.FunctionType(code, namespace, code.co_name, None, cells)
    arguments: list[Any] = [Magic(number % 7) for number in range(code.co_argcount)]
    first = code.co_argcount
    named = {code.co_varnames[first + number]: Magic(number) for number in range(code.co_kwonlyargcount)}
    if code.co_varnames[:1] == (".0",):
        arguments[0] = iter([Magic(1), Magic(2)])
    result = function(*arguments, **named)
    Log.events.append(f"{code.co_name} returned {magic.short(result)}")
    if type(result) in KINDS:
        magic.drive(result, KINDS[type(result)])


def execute(program: Program, codes: list[types.CodeType]) -> None:
    (exec_pieces if program.strategy == RANDOM_SYNTAX else exec_whole)(codes)


class Bounded(ast.NodeTransformer):
    """Makes a random program end, and keeps its numbers and texts small."""

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, call("__fuel__"))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, call("__fuel__"))
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Pow | ast.LShift | ast.Mult | ast.Mod):
            node.op = ast.BitXor() if isinstance(node.op, ast.Pow | ast.LShift) and not magical(node) else node.op
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Pow | ast.LShift | ast.Mult):
            node.op = ast.Sub()
        return node


def magical(node: ast.BinOp) -> bool:
    """Whether one side is surely no number that an operation made."""
    return any(isinstance(side, ast.Attribute | ast.Await | ast.Constant) for side in (node.left, node.right))


def call(name: str) -> ast.Expr:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), [], []))


@cache
def source_generator() -> Callable[..., str]:
    from pysource_codegen import _codegen, generate

    # Most of its time goes into asking the same again.
    asked = lru_cache(100_000)(lambda parents, child, plain=_codegen.probability: plain(list(parents), child))
    _codegen.probability = lambda parents, child: asked(tuple(parents), child)
    return generate


def random_syntax(random: Random) -> str:
    nodes, depth = random.choice([(60, 5), (120, 7), (200, 8), (300, 8)])
    seed = random.randrange(1 << 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(source_generator()(seed, node_limit=nodes, depth_limit=depth))
        except ValueError:  # 3.11 can't write every formatted string that there can be
            return random_syntax(random)
    tree.body = [statement for statement in tree.body if not isinstance(statement, ast.Pass)]
    return ast.unparse(ast.fix_missing_locations(Bounded().visit(tree)))


def strategies() -> dict[str, Callable[[Random], str]]:
    return {RANDOM_SYNTAX: random_syntax, **STRATEGIES}


def make(strategy: str, seed: int, number: int) -> Program:
    return Program(strategies()[strategy](Random(f"{strategy} {seed} {number}")), strategy)
