"""Imported by every Python process of a test run, its children too: has all frames evaluated or captured.

A process in which that fails ends with status 97: it never runs plainly in silence.
"""

import os

_libraries = os.environ.get("EVALFRAME_SUITE_LIBRARIES")
if _libraries:
    import sys

    sys.path.insert(0, _libraries)
    import numpy  # noqa: F401

    sys.path.remove(_libraries)
    del sys, numpy
_path = os.environ.get("EVALFRAME_SUITE_CORE")
if _path:
    try:
        import _frozen_importlib
        import _frozen_importlib_external

        _loader = _frozen_importlib_external.ExtensionFileLoader("_core_tests", _path)
        _core = _frozen_importlib._load(_frozen_importlib.ModuleSpec("_core_tests", _loader, origin=_path))
        if os.environ.get("EVALFRAME_SUITE_MODE") == "capture":
            import sys
            import types

            # Its functions in Python, without the package, which isn't there.
            sys.modules["evalframe"] = types.ModuleType("evalframe")
            sys.modules["evalframe"]._core = _core
            with open(os.path.join(os.path.dirname(_path), "stand_ins.py"), encoding="utf-8") as _file:
                exec(compile(_file.read(), _file.name, "exec"), {"__name__": "evalframe.stand_ins"})
            del sys.modules["evalframe"], _file, sys, types
            _core.capture_all_frames()
        else:
            _core.evaluate_all_frames(True)
        if "EVALFRAME_SUITE_COUNTS" in os.environ:
            _core.write_counts_at_exit(os.environ["EVALFRAME_SUITE_COUNTS"])
        del _core, _loader
    except BaseException as error:
        if "interpreter" not in str(error):  # it isn't for subinterpreters, and says so
            os.write(2, f"evalframe could not be loaded: {error!r}\n".encode())
            os._exit(97)
del os, _path, _libraries
