"""Runs one of the cases in this folder and prints what it comes to: ``python run.py AREA CASE [evaluated]``.

A case is a function of an area's module that has no underscore before its name. One with the parameter `evaluate` is given what
switches evaluation on and off.
"""

import importlib
import inspect
import sys


def leave_plain(on):
    pass


def main():
    area, case = sys.argv[1:3]
    evaluate = leave_plain
    if sys.argv[3:] == ["evaluated"]:
        from evalframe import _core

        evaluate = _core.evaluate_all_frames
        evaluate(True)
    function = getattr(importlib.import_module(area), case)
    result = function(evaluate) if "evaluate" in inspect.signature(function).parameters else function()
    if evaluate is not leave_plain:
        evaluate(False)
        assert _core.evaluation_counts()["evaluated"] > 10
    print(repr(result))


if __name__ == "__main__":
    main()
