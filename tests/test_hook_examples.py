"""The two worked examples of a frame hook, run as a user would."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "examples" / "hooks.py"


def test_one_hook_counts_and_one_multiplies() -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "fibonacci(15) = 610; calls: {'fibonacci': 1973}",
        "product_or_sum(2, 3, 4) = 9",
        "with + as *: 24",
        "afterwards: 9",
    ]
