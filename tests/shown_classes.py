"""What is seen of classes that functions make, and of their instances, for tests that compare them."""

import enum
import traceback
import types
from collections.abc import Callable
from typing import Any

import numpy as np


def shown_class(value: Any, seen: dict[int, Any]) -> Any:
    if "<locals>" not in value.__qualname__:
        return "class", value.__qualname__
    what = [(name, shown(item, seen)) for name, item in value.__dict__.items()]
    return "made", value.__name__, value.__qualname__, [base.__name__ for base in value.__bases__], type(value).__name__, what


def shown_function(value: Any, seen: dict[int, Any]) -> Any:
    parts = [value.__defaults__, value.__kwdefaults__, value.__annotations__, value.__dict__]
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    names = value.__name__, value.__qualname__, value.__module__, value.__doc__, value.__code__.co_filename
    return names, value.__code__.co_code, [shown(part, seen) for part in parts], [shown(cell, seen) for cell in cells]


def shown(value: Any, seen: dict[int, Any]) -> Any:
    """Contents and identity."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.str, value.tolist()
    if type(value) in (int, bool, float, str, bytes, types.NoneType):
        return value
    if id(value) in seen and value != ():
        return "seen", seen[id(value)][0]
    seen[id(value)] = len(seen), value
    if isinstance(value, type):
        return shown_class(value, seen)
    if isinstance(value, types.FunctionType):
        return shown_function(value, seen)
    if type(value) in (tuple, list):
        return type(value).__name__, [shown(one, seen) for one in value]
    if type(value) is dict:
        return "dict", [(shown(key, seen), shown(item, seen)) for key, item in value.items()]
    if isinstance(value, (staticmethod, classmethod)):
        return type(value).__name__, shown(value.__func__, seen)
    plain = object.__repr__(value).split(" at ")[0], repr(value) if isinstance(value, (enum.Enum, int, str)) else ""
    slots = [(name, shown(getattr(value, name, "missing"), seen)) for name in getattr(type(value), "__slots__", ())]
    return plain, slots, [(name, shown(item, seen)) for name, item in getattr(value, "__dict__", {}).items()]


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return shown(function(*arguments), {})
    except Exception as error:
        places = [(entry.name, entry.lineno, entry.filename) for entry in traceback.extract_tb(error.__traceback__)]
        hidden = "outcome", "call", "check_behaves_as_plain", "check_may_be_left"
        return type(error).__name__, str(error), [place for place in places if place[0] not in hidden]
