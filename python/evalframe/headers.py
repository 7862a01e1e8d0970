"""Where the C and C++ headers are, for extension modules that install frame hooks."""

import os


def get_include() -> str:
    """The folder to compile with (``-I``) for ``#include <evalframe/hook.h>``."""
    return os.path.join(os.path.dirname(__file__), "include")
