"""Runs each C++ unit test (src/**/*_test.cpp) as a test of its own."""

import pytest

from evalframe import _core_tests

pytestmark = pytest.mark.usefixtures("no_collections")  # hooks count frames


@pytest.mark.parametrize("name", _core_tests.names())
def test_cpp(name: str) -> None:
    _core_tests.run(name)
