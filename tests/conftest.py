"""What all tests share."""

import gc
import signal
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalframe import _core

# What these assert is told as in test files.
pytest.register_assert_rewrite("graphs", "helpers", "region_programs")

# What a test finds is not to depend on those that ran before; processes of their own have them (test_loop_hints.py).
_core.use_loop_hints(False)

# A script that runs the tests in the background has them ignore interrupts, and the processes that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that import torch, which is an extra, are looked at where the mark is asked for."""
    return True if collection_path.name.startswith("test_torch_") and not _asks_for_torch(config) else None


# Files whose tests hardly depend on the version of Python, and of how many of them one has to run on each: those about numbers, native loops and machine
# code, and those about whole programs, each of them a process or several.
ONE_OF = {
    **dict.fromkeys(["test_native", "test_region", "test_kernels", "test_vector_math", "test_numpy_suite", "test_benchmarks"], 7),
    **dict.fromkeys(["test_cli", "test_captured", "test_docs", "test_examples", "test_report_page", "test_steps_page", "test_stepper"], 3),
}

MANY = 50


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", type=int, default=1, metavar="N", help="of slow tests with many cases each N-th, and of what others generate an N-th")
    parser.addoption("--device", help="the default device of torch in tests/test_torch_*.py, such as cuda")


@pytest.fixture(scope="session")
def share(request: pytest.FixtureRequest) -> int:
    """A slow test runs one part in so many."""
    return int(request.config.getoption("--share"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """
    Of the tests in those files all but each seventh, or third, are marked: one version has to run them. So are cases that are slow together: of a test marked
    `mostly_slow(n)` all but each n-th.
    """
    places: Counter[int] = Counter()
    cases: Counter[str] = Counter()
    for item in items:
        share = next((share for name, share in ONE_OF.items() if item.path.name.startswith(name)), 1)
        if places[share] % share:
            item.add_marker("once")
        places[share] += 1
        mostly_slow = item.get_closest_marker("mostly_slow")
        if mostly_slow:
            if cases[_test_of(item)] % mostly_slow.args[0]:
                item.add_marker("slow")
            cases[_test_of(item)] += 1
    items[:] = _share_of(items, config.getoption("--share"))


def pytest_collection_finish() -> None:
    """What was collected stays: each garbage collection of a test would go through all of it."""
    gc.collect()
    gc.freeze()


def _share_of(items: list[pytest.Item], share: int) -> list[pytest.Item]:
    """Of a slow test's cases the first and each `share`-th behind it, where they are many, or marked because they are."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    cases = Counter(_test_of(item) for item in slow)
    places: Counter[str] = Counter()
    left_out = set()
    for item in slow:
        are_many = cases[_test_of(item)] >= MANY or item.get_closest_marker("mostly_slow")
        if are_many and places[_test_of(item)] % share:
            left_out.add(item)
        places[_test_of(item)] += 1
    return [item for item in items if item not in left_out]


def _test_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def pytest_report_header(config: pytest.Config) -> str | None:
    return (
        None
        if _asks_for_torch(config)
        else "tests/test_torch_*.py: left out; they need the extra `torch`, and run with -m torch"
    )


def pytest_collectstart(collector: pytest.Collector) -> None:
    if isinstance(collector, pytest.Module) and _asks_for_torch(collector.config):
        _seed()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _asks_for_torch(item.config):
        _seed()


def _seed() -> None:
    """torch begins with other numbers in each process: weights that a layer of a test file happens to have, and what a test draws, would be a run's own."""
    import torch

    torch.manual_seed(0)


def _asks_for_torch(config: pytest.Config) -> bool:
    expression = str(config.option.markexpr)
    return "torch" in expression and "not torch" not in expression


@pytest.fixture(scope="module", autouse=True)
def quick_collections() -> None:
    """What the test runner holds isn't looked at in each collection: of those, tests ask for thousands."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def captured_functions_stay_captured() -> Iterator[None]:
    """Tests call small functions often, and mean the captured ones, also where plain Python is quicker."""
    _core.set_call_trials(False)
    yield
    _core.set_call_trials(True)


@pytest.fixture(autouse=True)
def default_device(request: pytest.FixtureRequest) -> Iterator[None]:
    device = request.config.getoption("--device")
    if device is None or not request.node.get_closest_marker("torch"):
        yield
        return
    import torch

    if device.startswith("cuda") and request.node.get_closest_marker("raises_in_kernels"):
        pytest.skip("CUDA tells of it later, and the process can't use the device any more")
    torch.set_default_device(device)
    yield
    torch.set_default_device(None)


@pytest.fixture(autouse=True)
def most_machine_code_is_made_quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    """A third of the tests has optimised code: optimising would take most of their time, and is LLVM's."""
    _core.set_efforts(zlib.crc32(request.node.nodeid.encode()) % 3 == 0)
    yield
    _core.set_efforts(None)


@pytest.fixture
def optimised_code(most_machine_code_is_made_quickly: None) -> None:
    """Whichever test it is."""
    _core.set_efforts(True)


@pytest.fixture
def native_loops_at_once() -> Iterator[None]:
    """However short they are."""
    _core.set_region_seconds(0.0)
    yield
    _core.set_region_seconds(0.02)
    _core.set_region_turns(2**62)


@pytest.fixture
def call_trials() -> Iterator[None]:
    """Functions are left to CPython where that is quicker, as they are for users."""
    _core.set_call_trials(True)
    yield
    _core.set_call_trials(False)


@pytest.fixture
def no_collections() -> Iterator[None]:
    """Hypothesis has a function called at each garbage collection, whose frames a test's hooks would see."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def plain_collections() -> Iterator[None]:
    """Garbage collections run no Python code: nothing of other tests is left to be finalised, and nobody is told."""
    gc.collect()
    told = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = told
