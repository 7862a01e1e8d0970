"""What ``EVALFRAME_VERIFY`` found: compares a call that a graph served with the same call run by CPython.

``EVALFRAME_VERIFY=1`` runs the first, second, fourth, eighth ... and each hundredth hit of an entry both ways,
``all`` each of them. Verified are calls that are one graph to their end and do nothing besides but to write into
arrays: what was written is put back before CPython runs the call. The call gives what CPython gave. Warnings that
NumPy gives for other reasons than floating-point errors may come twice. A difference is told on stderr, written to a
folder with all that it takes to see it again, and counted in ``evalframe.stats()``; its function runs as plain Python
from then on.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Native kernels compute elementary functions to 2 units in the last place, which what follows may enlarge.
_TOLERANCES = {2: 1e-2, 4: 1e-4, 8: 1e-9}  # by bytes of a float
_FOLDER = "evalframe-difference-"

_REPRODUCE = '''"""Makes the call again, captured and plain. Run it where {module!r} can be imported."""

import importlib
import pickle
from pathlib import Path

import evalframe

here = Path(__file__).parent
function = importlib.import_module({module!r})
for name in {qualname!r}.split("."):
    function = getattr(function, name)
function = getattr(function, "__wrapped__", function)
arguments = pickle.loads((here / "arguments.pickle").read_bytes())
captured = evalframe.jit(function, backend={backend!r})
for call in range(3):
    for how, called in (("plain", function), ("captured", captured)):
        given = pickle.loads((here / "arguments.pickle").read_bytes())
        print(f"{{how}}, call {{call}}:", called(**given))
'''


def quiet() -> Any:
    """The error state for the graph's run: what NumPy would warn of, CPython's run warns of."""
    state: dict[str, Any] = {name: how if how == "raise" else "ignore" for name, how in np.geterr().items()}
    return np.errstate(**state)


def agree(
    function: Any,
    arguments: Mapping[str, Any],
    served: tuple[Any, BaseException | None],
    plain: tuple[Any, BaseException | None],
    arrays: Sequence[Any],
    written: Sequence[Any],
    entry: tuple[str, str, str, str, str],
) -> bool:
    """Whether both came to the same; if not, it is told.

    ``served`` and ``plain`` are results, or None and exceptions. ``arrays`` are arrays from outside as CPython left
    them, ``written`` their contents as the graph left them; ``entry`` is backend, graph, guards, schedule, kernels.
    """
    bits = entry[0] != "native"
    with np.errstate(all="ignore"):
        found = list(_differences("the result", served[0], plain[0], bits))
        found += _exception_differences(served[1], plain[1])
        for array, contents in zip(arrays, written, strict=True):
            found += _differences("an array from outside", contents, array, bits)
    if not found:
        return True
    folder = _write(function, arguments, found, entry, (served, plain))
    where = f"; see {folder}" if folder else ""
    name = f"{function.__module__}.{function.__qualname__}"
    print(f"evalframe: {name} differs from plain Python: {found[0]}{where}", file=sys.stderr)
    return False


def _exception_differences(served: BaseException | None, plain: BaseException | None) -> list[str]:
    if type(served) is type(plain) and str(served) == str(plain):
        return []
    return [f"the exception: {served!r} instead of {plain!r}"]


def _differences(what: str, served: Any, plain: Any, bits: bool) -> Iterator[str]:
    """In words. Objects of other types than arrays, numbers and containers are only compared by type."""
    if served is plain:
        return
    if type(served) is not type(plain):
        yield f"{what}: {type(served).__name__} instead of {type(plain).__name__}"
    elif isinstance(served, (np.ndarray, np.generic)):
        yield from _array_differences(what, np.asarray(served), np.asarray(plain), bits)
    elif isinstance(served, (tuple, list)):
        if len(served) != len(plain):
            yield f"{what}: {len(served)} elements instead of {len(plain)}"
        for number, (ours, theirs) in enumerate(zip(served, plain, strict=False)):
            yield from _differences(f"{what}[{number}]", ours, theirs, bits)
    elif isinstance(served, dict):
        if list(served) != list(plain):
            yield f"{what}: keys {list(served)} instead of {list(plain)}"
        for key in served.keys() & plain.keys():
            yield from _differences(f"{what}[{key!r}]", served[key], plain[key], bits)
    elif isinstance(served, float):
        yield from _array_differences(what, np.asarray(served), np.asarray(plain), bits)
    elif isinstance(served, (int, complex, str, bytes)) and served != plain:
        yield f"{what}: {served!r} instead of {plain!r}"


def _array_differences(what: str, served: Any, plain: Any, bits: bool) -> Iterator[str]:
    for name in ("dtype", "shape"):
        if getattr(served, name) != getattr(plain, name):
            yield f"{what}: {name} {getattr(served, name)} instead of {getattr(plain, name)}"
            return
    if served.dtype.kind not in "fc" or bits:
        differ = (served != plain) & ~((served != served) & (plain != plain))
    else:
        part = served.dtype.itemsize // (2 if served.dtype.kind == "c" else 1)
        tolerance = _TOLERANCES.get(part, 1e-9)
        finite = np.abs(plain[np.isfinite(plain)])
        scale = tolerance * (finite.max() if finite.size else 0.0)
        differ = ~np.isclose(served, plain, rtol=tolerance, atol=scale, equal_nan=True)
    if differ.any():
        at = tuple(int(index) for index in np.argwhere(differ)[0]) if served.ndim else ()
        place = f" at {list(at)}" if at else ""
        more = f", and {int(differ.sum()) - 1} more of {served.size}" if served.ndim else ""
        yield f"{what}{place}: {served[at]!r} instead of {plain[at]!r}{more}"


def _write(function: Any, arguments: Any, found: list[str], entry: tuple[str, ...], sides: Any) -> Path | None:
    """A folder with arguments, what was found, the entry, and a program that makes the call again."""
    parent = os.environ.get("EVALFRAME_VERIFY_FOLDER", ".")
    try:
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=parent))
    except OSError as error:
        print(f"evalframe: what it takes to see it again can't be written: {error}", file=sys.stderr)
        return None
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.platform()}"
    code = function.__code__
    report = [f"{function.__qualname__} ({code.co_filename}:{code.co_firstlineno})", versions, *found, ""]
    report += [f"{name} = {value!r}" for name, value in arguments.items()]
    titles = ("backend", "graph", "guards", "schedule", "kernels")
    report += [f"\n{title}:\n{text}" for title, text in zip(titles, entry, strict=True) if text]
    report += [f"\nserved: {sides[0]!r}", f"plain: {sides[1]!r}"]
    (folder / "report.txt").write_text("\n".join(report) + "\n", encoding="utf-8")
    # What can't be pickled is described by the report.
    with contextlib.suppress(Exception):
        (folder / "arguments.pickle").write_bytes(pickle.dumps(dict(arguments)))
        names = {"module": function.__module__, "qualname": function.__qualname__, "backend": entry[0]}
        (folder / "reproduce.py").write_text(_REPRODUCE.format(**names), encoding="utf-8")
    return folder
