"""Constructs: functions and types of the library whose results follow from their arguments alone."""

from __future__ import annotations

import bisect
import datetime
import json
import re
import struct
import textwrap
from typing import Any

EPOCH = datetime.date(1970, 1, 1)
NUMBER = re.compile(r"(?P<sign>-?)(\d+)")
SETTINGS = {"scale": 2, "names": ["a", "b"]}


def dates_compared(x: Any, y: Any) -> Any:
    day = EPOCH + datetime.timedelta(weeks=1)
    return x * (day - EPOCH).total_seconds() + y if day > EPOCH and day != EPOCH else y, day, str(day), f"{day:%Y-%m}", repr(EPOCH)


def date_from_text(x: Any, y: Any) -> Any:
    moment = datetime.datetime.fromisoformat("2024-02-28T12:30:00")
    return x * moment.minute + y * moment.date().day, moment.replace(hour=1), moment.strftime("%d %H"), moment.tzinfo


def date_in_utc(x: Any, y: Any) -> Any:
    moment = datetime.datetime(2024, 2, 28, tzinfo=datetime.timezone.utc)
    return x + y, moment.isoformat(), moment.utcoffset(), {moment: 1}[moment]


def date_out_of_range(x: Any, y: Any) -> Any:
    try:
        return x + datetime.date(2024, 13, 1).day
    except ValueError as error:
        return y * 2, str(error)


def pattern_methods(x: Any, y: Any) -> Any:
    found = NUMBER.search("at -12")
    if found is None:
        return x
    return x * int(found["sign"] + found[2]) + y, found.groupdict(), found.span(), NUMBER.pattern, found.lastindex, found.string


def pattern_without_match(x: Any, y: Any) -> Any:
    return x + 1 if NUMBER.match("abc") is None and not re.fullmatch("a", "b") else y


def pattern_made_here(x: Any, y: Any) -> Any:
    words = re.compile(r"\w+", re.IGNORECASE)
    return x * len(words.findall("to be or")) + y, words.sub("_", "a b"), words.split("1-2"), words


def pattern_that_is_wrong(x: Any, y: Any) -> Any:
    try:
        re.compile("(")
    except re.error as error:
        return x + y, error.msg, error.pos
    return x


def substitution_by_function(x: Any, y: Any) -> Any:
    return x + y, re.sub(r"\d", lambda found: str(int(found[0]) + 1), "a1b2")


def settings_as_text(x: Any, y: Any) -> Any:
    return x * SETTINGS["scale"] + y, json.dumps(SETTINGS, sort_keys=True), str(SETTINGS), "{scale} {names[1]}".format(**SETTINGS)


def settings_from_text(x: Any, y: Any) -> Any:
    settings = json.loads('{"scale": 2, "rows": [[1], [2]], "on": true}')
    settings["rows"].append([x])
    z = x * settings["scale"]
    settings["scale"] = y
    return z, settings


def wrong_json(x: Any, y: Any) -> Any:
    try:
        json.loads("[1,")
    except json.JSONDecodeError as error:
        return x + y, error.pos, str(error)
    return x


def text_put_together(x: Any, y: Any) -> Any:
    return x + y, textwrap.wrap("a bb ccc", 4), textwrap.indent("a\nb", "> "), "%(a)s-%(b)03d" % {"a": [1], "b": 7}, "{:>5}|{!r}".format("a", "b")


def format_of_number(x: Any, y: Any) -> Any:
    return x + y, format(3.14159, ".2f"), format(12, "05d"), "{:n}".format(5), format(5, "n")


def packed_numbers(x: Any, y: Any) -> Any:
    data = struct.pack(">2sI", b"ab", 5) + bytes(2)
    return x * struct.unpack_from(">I", data, 2)[0] + y, data, struct.calcsize("q"), int.from_bytes(data[2:6], "big"), bytes.fromhex("00ff")


def position_in_table(x: Any, y: Any) -> Any:
    row = [1, 3, 5]
    return x * bisect.bisect(row, 3) + y * bisect.bisect_left(row, 3), row


def number_parts(x: Any, y: Any) -> Any:
    z = complex(1, 2) * 2
    return x * z.real + y * z.imag, z, (3).numerator, (2.5).real, range(3, 9, 2).start, slice(1, 2).stop
