"""Constructs: effects, and what lives outside of the function."""

from __future__ import annotations

import asyncio  # noqa: F401  (records of 3.12 and later ask it for the task, once it is imported)
import contextvars
import gc
import io
import itertools
import logging
import os
import random
import sys
import threading
import time
import uuid
import warnings
import weakref
from typing import Any

import numpy as np

LOG = logging.getLogger("evalframe.constructs")
LOG.propagate = False
LOG.setLevel(logging.INFO)
RECORDS = io.StringIO()
LOG.addHandler(logging.StreamHandler(RECORDS))
COUNT = 0
LAST: Any = None
CALLS: list[str] = []
NUMBERS = itertools.count()
STREAM = np.random.default_rng(3)
LOCK = threading.Lock()
VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=3)
LOCAL = threading.local()


class Tracked:
    total = 0

    def __init__(self) -> None:
        self.count = 0
        self.history: list[Any] = []

    def step(self) -> int:
        self.count += 1
        return self.count


class Mortal(Tracked):
    def __del__(self) -> None:
        CALLS.append("died")


TRACKED = Tracked()


def reset() -> None:
    global COUNT, LAST, NUMBERS
    COUNT, LAST, NUMBERS = 0, None, itertools.count()
    CALLS.clear()
    RECORDS.seek(0)
    RECORDS.truncate()
    TRACKED.count, TRACKED.history = 0, []
    Tracked.total = 0
    STREAM.bit_generator.state = np.random.default_rng(3).bit_generator.state
    random.seed(3)
    np.random.seed(3)
    VARIABLE.set(3)
    LOCAL.gain = 2


def state() -> Any:
    return (
        COUNT,
        LAST,
        list(CALLS),
        RECORDS.getvalue(),
        (TRACKED.count, list(TRACKED.history), Tracked.total),
        (STREAM.random(), random.random(), np.random.random()),
        (repr(NUMBERS), VARIABLE.get(), LOCAL.gain),
    )


def _noted(name: str) -> str:
    CALLS.append(name)
    return name


def printing(x: Any, y: Any) -> Any:
    z = x + 1
    print("in the middle", 3)
    return z * y


def printing_twice(x: Any, y: Any) -> Any:
    z = x + 1
    print("first", end=" ")
    z = z * y
    print("second", sep="-")
    return z - 1


def printing_metadata(x: Any, y: Any) -> Any:
    z = x + 1
    print("shape", z.shape, z.dtype)
    return z * y


def printing_to_file(x: Any, y: Any) -> Any:
    z = x + 1
    print("to the log", file=RECORDS)
    return z * y


def writing_to_stdout(x: Any, y: Any) -> Any:
    z = x + 1
    sys.stdout.write("direct\n")
    return z * y


def logging_text(x: Any, y: Any) -> Any:
    z = x + 1
    LOG.info("in the middle")
    return z * y


def logging_with_arguments(x: Any, y: Any) -> Any:
    z = x + 1
    LOG.warning("shape %s", z.shape)
    return z * y


def logging_disabled(x: Any, y: Any) -> Any:
    z = x + 1
    LOG.debug("unseen")
    return z * y


def warning(x: Any, y: Any) -> Any:
    z = x + 1
    warnings.warn("careful", stacklevel=1)
    return z * y


def warning_of_category(x: Any, y: Any) -> Any:
    z = x + 1
    warnings.warn("old", DeprecationWarning, stacklevel=2)
    return z * y


def time_read(x: Any, y: Any) -> Any:
    start = time.perf_counter()
    z = x + y
    return z * (2 if time.perf_counter() >= start else 3)


def random_of_python(x: Any, y: Any) -> Any:
    z = x + 1
    return z * random.random() + random.randint(1, 5)


def random_choice(x: Any, y: Any) -> Any:
    z = x + 1
    return z * random.choice((1, 2, 3)) + y


def random_instance(x: Any, y: Any) -> Any:
    z = x + 1
    return z * random.Random(3).random()


def random_numbers(x: Any, y: Any) -> Any:
    rng = np.random.default_rng(3)
    return x + rng.normal(size=x.shape)


def random_stream(x: Any, y: Any) -> Any:
    return x + STREAM.normal(size=x.shape)


def random_of_numpy(x: Any, y: Any) -> Any:
    return x + np.random.normal(size=x.shape)


def global_store(x: Any, y: Any) -> Any:
    global COUNT
    z = x + 1
    COUNT = 5
    return z * y


def global_counter(x: Any, y: Any) -> Any:
    global COUNT
    z = x + 1
    COUNT += 1
    return z * COUNT


def global_array(x: Any, y: Any) -> Any:
    global LAST
    LAST = x + 1
    return LAST * y


def global_deleted(x: Any, y: Any) -> Any:
    global LAST
    z = x + 1
    LAST = 3
    del LAST
    LAST = 4  # noqa: F841
    return z * y


def attribute_counter(x: Any, y: Any) -> Any:
    z = x + 1
    return z * TRACKED.step()


def class_counter(x: Any, y: Any) -> Any:
    z = x + 1
    Tracked.total += 1
    return z * Tracked.total


def history_of_arrays(x: Any, y: Any) -> Any:
    z = x + 1
    TRACKED.history.append(z)
    z = z * y
    TRACKED.history.append(z)
    return z - 1


def outer_iterator(x: Any, y: Any) -> Any:
    z = x + 1
    return z * next(NUMBERS)


def order_of_effects(x: Any, y: Any) -> Any:
    global COUNT
    print("one")
    z = x + 1
    COUNT = len(CALLS)
    CALLS.append("two")
    z = z * y
    print("three", COUNT)
    TRACKED.count = len(CALLS)
    return z


def effects_of_helpers(x: Any, y: Any) -> Any:
    z = x + len(_noted("first"))
    return z * len(_noted("second"))


def effects_in_loop(x: Any, y: Any) -> Any:
    for n in range(3):
        x = x + y * n
        CALLS.append(str(n))
    return x


def effect_before_error(x: Any, y: Any) -> Any:
    z = x + 1
    CALLS.append("before")
    z = z + x[:3]
    CALLS.append("after")
    return z


def write_into_argument(x: Any, y: Any) -> Any:
    z = x.copy()
    z[2:5] = y[2:5]
    z += 1
    return z


def write_of_mask(x: Any, y: Any) -> Any:
    z = x.copy()
    z[z > 0] = 0
    return z + y


def lock_from_outside(x: Any, y: Any) -> Any:
    with LOCK:
        z = x + y
    return z * 2


def context_variable(x: Any, y: Any) -> Any:
    z = x * VARIABLE.get()
    token = VARIABLE.set(5)
    z = z + VARIABLE.get()
    VARIABLE.reset(token)
    return z + y


def thread_local(x: Any, y: Any) -> Any:
    return x * LOCAL.gain + y


def environment_read(x: Any, y: Any) -> Any:
    return x * len(os.environ.get("EVALFRAME_MISSING", "abc")) + y


def string_io(x: Any, y: Any) -> Any:
    target = io.StringIO()
    target.write("abc")
    z = x + y
    target.write("de")
    return z * len(target.getvalue())


def file_write(x: Any, y: Any) -> Any:
    z = x + y
    with open(os.devnull, "w") as file:
        file.write("abc")
    return z * 2


def weak_reference(x: Any, y: Any) -> Any:
    ref = weakref.ref(TRACKED)
    return x * (2 if ref() is TRACKED else 3) + y


def weak_reference_to_local(x: Any, y: Any) -> Any:
    tracked = Mortal()
    ref = weakref.ref(tracked)
    z = x + y
    del tracked
    return z * (2 if ref() is None else 3)


def weak_dictionary(x: Any, y: Any) -> Any:
    table: Any = weakref.WeakKeyDictionary()
    table[TRACKED] = 5
    return x * table[TRACKED] + y


def finaliser(x: Any, y: Any) -> Any:
    z = x + 1
    tracked = Mortal()
    z = z * (tracked.count + 2)
    del tracked
    CALLS.append("behind")
    return z + y


def collection(x: Any, y: Any) -> Any:
    z = x + 1
    gc.collect()
    return z * y


def identity_numbers(x: Any, y: Any) -> Any:
    row = [x, y]
    return x * (2 if id(row) == id(row) else 3) + y


def reference_count(x: Any, y: Any) -> Any:
    row = [1]
    other = row
    return x * (2 if sys.getrefcount(row) == sys.getrefcount(other) else 3) + y


def frame_name(x: Any, y: Any) -> Any:
    z = x + y
    return z * len(sys._getframe().f_code.co_name)


def exception_info(x: Any, y: Any) -> Any:
    z = x + y
    return z * 2 if sys.exc_info() == (None, None, None) else z


def unique_identifier(x: Any, y: Any) -> Any:
    return x * len(uuid.UUID(int=5).hex) + y


def coroutine_run_by_hand(x: Any, y: Any) -> Any:
    async def scaled(a: Any) -> Any:
        return a * 2

    coroutine = scaled(x)
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value + y
