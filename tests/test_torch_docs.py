"""Runs the examples of docs/12-torch.md and README.md that need torch."""

import pytest

from test_docs import PAGES, assert_same_output, blocks_of, run_python

pytestmark = pytest.mark.torch


def test_examples() -> None:
    ran = 0
    for page in PAGES:
        blocks = blocks_of(page)
        namespace: dict[str, object] = {"__name__": "__main__"}
        for block, following in zip(blocks, [*blocks[1:], None], strict=False):
            if block.language != "python" or "torch" not in block.marks:
                continue
            printed = run_python(block, namespace)
            ran += 1
            if following is not None and following.language == "text":
                assert_same_output(following.text, printed, following.marks)
    assert ran >= 1
