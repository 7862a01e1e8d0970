"""Prints how long two calls of the 20-operation chain take in a fresh process, plain and captured; run by run.py."""

import sys
import time
from importlib import import_module

import numpy as np

import evalframe

sys.modules["numba"] = None  # type: ignore[assignment]  # it would import what evalframe is timed for importing
chain = import_module("programs").chain

DATA = [np.linspace(0.1, 1.0, 1000), np.linspace(1.0, 2.0, 1000)]


def seconds(function) -> float:
    """CPU time of the process: kernels are compiled on a thread of their own."""
    start = time.process_time()
    function(*DATA)
    function(*DATA)
    return time.process_time() - start


seconds(chain)
plain = seconds(chain)
print(plain, seconds(evalframe.jit(chain)))
