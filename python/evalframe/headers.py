"""Where the C and C++ headers are, for extension modules that install frame hooks."""

from pathlib import Path


def get_include() -> str:
    """The folder to compile with (``-I``) for ``#include <evalframe/hook.h>``."""
    return str(Path(__file__).parent / "include")
