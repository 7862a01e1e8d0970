"""evalframe: a frame evaluation framework for CPython.

It captures unmodified NumPy programs as graphs with guards and runs them as native code.
"""

__version__ = "0.1.0"

from evalframe import bytecode
from evalframe._core import FrameInfo, Hook, Result, hook
from evalframe.dis import dis
from evalframe.headers import get_include
from evalframe.variables import Variable, VariableTable, variables

__all__ = [
    "FrameInfo",
    "Hook",
    "Result",
    "Variable",
    "VariableTable",
    "bytecode",
    "dis",
    "get_include",
    "hook",
    "variables",
]
