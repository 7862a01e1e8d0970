"""Prints how long two calls of the 20-operation chain take in a fresh process, plain and captured; run by run.py."""

import time

import numpy as np
from programs import chain

import evalframe

DATA = [np.linspace(0.1, 1.0, 1000), np.linspace(1.0, 2.0, 1000)]


def seconds(function) -> float:
    start = time.perf_counter()
    function(*DATA)
    function(*DATA)
    return time.perf_counter() - start


seconds(chain)
plain = seconds(chain)
print(plain, seconds(evalframe.jit(chain)))
