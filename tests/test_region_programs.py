"""Random programs whose native loops store into attributes, are those of called functions, or take thousands of turns."""

from __future__ import annotations

import pytest

from region_programs import KINDS, differences

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

MORE = [kind for kind in KINDS if kind.startswith(("attribute", "called", "long", "whiles"))]


def native_loops_of(kind: str, seeds: range) -> int:
    native = 0
    for seed in seeds:
        text, found, counters = differences(seed, kind=KINDS[kind])
        assert not found, text
        native += counters["native_loops"]
    return native


@pytest.mark.parametrize("kind", MORE)
def test_do_not_differ(kind: str) -> None:
    assert native_loops_of(kind, range(12))


@pytest.mark.slow
@pytest.mark.parametrize("kind", MORE)
def test_many_do_not_differ(kind: str, share: int) -> None:
    assert native_loops_of(kind, range(1000, 1020, min(share, 5)))
