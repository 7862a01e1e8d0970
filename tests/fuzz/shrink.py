"""Makes a program smaller as long as it still differs: without this statement, with a part in place of the whole."""

from __future__ import annotations

import ast
import copy
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from fuzz import compare
from fuzz.programs import Program

CRASH = "crash"
SECONDS = 120  # to shrink a program
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.AsyncFor, ast.AsyncWith, ast.FunctionDef, ast.ClassDef)


def outcome_kind(program: Program) -> tuple[str, str]:
    """In a child process, as it may crash: what differs in a word, and what was seen; ("", "") where nothing does."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 2)
        signal.alarm(10)
        try:
            compare.prepare()
            found = compare.compared(program, lambda: os.write(writer, b"\n") and None)
            os.write(writer, json.dumps(["", ""] if isinstance(found, str) else found).encode()[:60_000])
        except BaseException as error:
            os.write(writer, json.dumps(["harness", repr(error)]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        # Plainly it ran to its end where it has begun to be evaluated.
        return (CRASH, signal.Signals(os.WTERMSIG(status)).name) if answer else ("", "")
    try:
        kind, text = json.loads(answer)
    except ValueError:
        return "", ""
    return kind, text


def parts(node: ast.expr) -> Iterator[ast.expr]:
    """What an expression may be replaced by, the smallest first."""
    if isinstance(node, ast.Constant | ast.Name):
        return
    yield ast.Constant(None)
    yield ast.Constant(1)
    yield from (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr) and not isinstance(child, ast.Starred))


def fields(tree: ast.AST) -> Iterator[tuple[ast.AST, str, Any]]:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            yield node, name, value


def shorter_lists(tree: ast.AST) -> Iterator[Callable[[], Any]]:
    for node, name, value in list(fields(tree)):
        if isinstance(value, list) and value and isinstance(value[0], ast.AST):
            size = len(value)
            while size:
                for start in range(0, len(value), size):
                    yield lambda node=node, name=name, value=value, start=start, size=size: setattr(node, name, value[:start] + value[start + size :])
                size //= 2


def unwrapped(tree: ast.AST) -> Iterator[Callable[[], Any]]:
    """Blocks replaced by what is in them."""
    for node, name, value in list(fields(tree)):
        if not isinstance(value, list):
            continue
        for index, statement in enumerate(value):
            if not isinstance(statement, BLOCKS):
                continue
            for inner in ("body", "orelse", "finalbody"):
                inside = getattr(statement, inner, None)
                if inside:
                    yield lambda node=node, name=name, value=value, index=index, inside=inside: setattr(node, name, value[:index] + inside + value[index + 1 :])


def simpler_expressions(tree: ast.AST) -> Iterator[Callable[[], Any]]:
    for node, name, value in list(fields(tree)):
        if isinstance(value, ast.expr):
            for part in parts(value):
                yield lambda node=node, name=name, part=part: setattr(node, name, part)
            if not isinstance(node, ast.Expr | ast.Attribute | ast.Subscript):
                yield lambda node=node, name=name: setattr(node, name, None)
        elif isinstance(value, list):
            for index, each in enumerate(value):
                if isinstance(each, ast.expr):
                    for part in parts(each):
                        yield lambda value=value, index=index, part=part: value.__setitem__(index, part)


def candidates(source: str) -> Iterator[str]:
    """Programs that are one edit smaller."""
    for edits in (shorter_lists, unwrapped, simpler_expressions):
        number = 0
        while True:
            tree = copy.deepcopy(ast.parse(source))
            edit = next((edit for index, edit in enumerate(edits(tree)) if index == number), None)
            if edit is None:
                break
            number += 1
            edit()
            fill_empty_bodies(tree)
            try:
                made = ast.unparse(ast.fix_missing_locations(tree))
                compile(made, "<candidate>", "exec", dont_inherit=True)
            except (SyntaxError, ValueError, TypeError, AttributeError, RecursionError):
                continue
            if len(made) < len(source):
                yield made


def fill_empty_bodies(tree: ast.AST) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module) and getattr(node, "body", None) == []:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]


def shrunk(program: Program) -> Program:
    """The smallest found that differs in the same kind of thing; the program itself where it can't be told of its own."""
    wanted, _ = outcome_kind(program)
    deadline = time.monotonic() + SECONDS
    smaller = True
    while wanted and smaller and time.monotonic() < deadline:
        smaller = False
        for source in candidates(program.source):
            if outcome_kind(program._replace(source=source))[0] == wanted:
                program = program._replace(source=source)
                smaller = True
                break
            if time.monotonic() > deadline:
                break
    return program
