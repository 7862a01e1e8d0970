"""Runs a script or module as `python` itself would run it, with the frames of the program captured."""

import importlib.machinery
import io
import linecache
import os
import pkgutil
import runpy
import sys
import types
from collections.abc import Callable
from contextlib import AbstractContextManager

_OUR_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Whose frames find a program and compile it.
_LOADERS = ("runpy", "pkgutil", "zipimport", "importlib._bootstrap", "importlib._bootstrap_external")


class CannotOpen(Exception):
    """The script can't be read; the text is what `python` says behind its own name, `status` what it exits with."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def script(path: str, arguments: list[str]) -> Callable[[], object]:
    """Prepares sys.argv, sys.path and __main__ for `path` as `python path ...` does; what it returns runs it."""
    sys.argv = [path, *arguments]
    if path == "-":
        return _standard_input()
    if pkgutil.get_importer(path) is not None:  # a folder or zip file: its __main__.py is run
        return _archive(path)
    full_path = os.path.abspath(path)
    code = _code_of_script(full_path)
    _set_first_path(os.path.dirname(os.path.realpath(path)))
    is_compiled = isinstance(code, types.CodeType)
    loader = importlib.machinery.SourcelessFileLoader if is_compiled else importlib.machinery.SourceFileLoader
    namespace = _new_main().__dict__
    namespace.update(__file__=full_path, __loader__=loader("__main__", full_path), __cached__=None)

    def run() -> None:
        # Compiling is part of the run: a SyntaxError is reported as the program's own.
        exec(code if isinstance(code, types.CodeType) else _compiled(code, full_path), namespace)

    return run


def module(name: str, arguments: list[str]) -> Callable[[], object]:
    """The same for `python -m name arguments...`."""
    sys.argv = ["-m", *arguments]
    _set_first_path(os.getcwd())
    _new_main()
    return lambda: _run_module_as_main(name, True)


def command(text: str, arguments: list[str]) -> Callable[[], object]:
    """The same for `python -c text arguments...`."""
    sys.argv = ["-c", *arguments]
    _set_first_path("")
    namespace = _new_main().__dict__
    namespace["__loader__"] = importlib.machinery.BuiltinImporter

    def run() -> None:
        code = compile(text + "\n", "<string>", "exec", dont_inherit=True)
        # From 3.13 on its lines are shown in tracebacks; 3.13.0 finds them by the file's name.
        if register := getattr(linecache, "_register_code", None):
            register(code if hasattr(linecache, "_getlines_from_code") else "<string>", text, "<string>")
        exec(code, namespace)

    return run


def run(
    program: Callable[[], object],
    capture: AbstractContextManager[object],
    collect: Callable[[], None],
    at_end: Callable[[], None],
) -> None:
    """Runs what `script` or `module` prepared, inside `capture`; then `collect`, still inside, and `at_end`, however it
    ended. A program that isn't there or can't be compiled has nothing to tell of: its error stands alone.

    Exceptions leave this function as they are to leave the interpreter: already printed through sys.excepthook, without
    the frames of this package, and silent when the interpreter ends with them.
    """
    begun = True
    try:
        with capture:
            try:
                program()
            finally:
                collect()
    except BaseException as error:
        begun = _has_frames(error.__traceback__)
        if not isinstance(error, SystemExit):
            _print_uncaught(error)
            sys.excepthook = lambda *_: None
        raise
    finally:
        if begun:
            at_end()


def _standard_input() -> Callable[[], object]:
    source = sys.stdin.buffer.read()
    _set_first_path("")
    namespace = _new_main().__dict__
    namespace.update(__file__="<stdin>", __loader__=importlib.machinery.BuiltinImporter, __cached__=None)
    return lambda: exec(_compiled(source, "<stdin>"), namespace)


def _archive(path: str) -> Callable[[], object]:
    path = os.path.abspath(path)
    if isinstance(pkgutil.get_importer(path), importlib.machinery.FileFinder) and not _has_main(path):
        raise CannotOpen(f"can't find '__main__' module in {path!r}", 1)
    _set_first_path(path, even_if_safe=True)
    _new_main()
    return lambda: _run_module_as_main("__main__", False)


def _has_main(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, "__main__" + end)) for end in (".py", ".pyc"))


def _run_module_as_main(name: str, alter_argv: bool) -> None:
    # What `python -m` calls; it has no public name. runpy.run_module leaves other traces in sys.argv and __main__.
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _code_of_script(full_path: str) -> types.CodeType | bytes:
    try:
        with io.open_code(full_path) as file:
            compiled = pkgutil.read_code(file)  # None: not a .pyc
        if isinstance(compiled, types.CodeType):
            return compiled
        with io.open_code(full_path) as file:
            return file.read()
    except OSError as error:
        raise CannotOpen(f"can't open file {full_path!r}: [Errno {error.errno}] {error.strerror}", 2) from None


def _compiled(source: bytes, full_path: str) -> types.CodeType:
    return compile(source, full_path, "exec", dont_inherit=True)


def _new_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__.update(__annotations__={}, __builtins__=sys.modules["builtins"])
    sys.modules["__main__"] = main
    return main


def _set_first_path(folder: str, even_if_safe: bool = False) -> None:
    """Puts `folder` where the interpreter put the folder of this package's own command."""
    if not sys.flags.safe_path:
        sys.path[0] = folder
    elif even_if_safe:
        sys.path.insert(0, folder)


def _has_frames(traceback: types.TracebackType | None) -> bool:
    """Whether frames of a program are in it, and not only those that look for one."""
    while traceback is not None:
        frame, traceback = traceback.tb_frame, traceback.tb_next
        is_ours = frame.f_code.co_filename.startswith(_OUR_FOLDER)
        if not is_ours and frame.f_globals.get("__name__") not in _LOADERS:
            return True
    return False


def _print_uncaught(error: BaseException) -> None:
    """Prints an exception that nobody caught, as the interpreter does: through sys.excepthook."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_OUR_FOLDER):
        traceback = traceback.tb_next
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)
    sys.stderr.flush()
