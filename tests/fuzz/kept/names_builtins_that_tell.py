"""3.13 asks builtins that are a dict's subclass for `__import__`."""

try:
    exec('import math', {'note': note, '__builtins__': Names(len=5)})
except ImportError as x:
    note(x)
exec('import math', {'note': note, '__builtins__': Names(__import__=__import__)})
