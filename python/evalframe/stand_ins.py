"""Python functions in the place of CPython's C functions that call back into Python.

Where a recording meets a call of `sum`, it follows that of `sum_of`, and with it the generator that is summed up.
Each function does what CPython's does, in its order. Nobody sees their frames: the core takes the RESUME out of their
code, and CPython passes over frames that haven't come to it. What they don't do themselves they leave to the C
function, whose errors are its own.
"""

import builtins
import functools
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from evalframe import _core

# Functions made from here on have the builtins as they are now, whatever a program puts in their place.
globals()["__builtins__"] = dict(vars(builtins))
_MISSING: Any = object()
_HEAP_TYPE = 1 << 9
_reduce = functools.reduce
_OrderedDict = OrderedDict
_deque = deque
_places_in_order = _core.places_in_order
_progress = _core.progress
_group = _core.group
_matches = _core.matches
_make_class = _core.make_class
_make_enum = _core.make_enum
_check_class_cell = _core.check_class_cell
_run_class_body = _core.run_class_body
_step_of_sort = _core.step_of_sort
_is_cached = _core.is_cached
_cached = _core.cached
_count_hit = _core.count_hit
_count_miss = _core.count_miss
_keep = _core.keep
_Key: Any = type(functools.cmp_to_key(max))
_new_tuple = tuple.__new__
_close_with = _core.close_with
_asked = _core.asked
_keys_like = _core.keys_like
_item_at = _core.item_at
_store_at = _core.store_at
_delete_at = _core.delete_at


def any_of(iterable: Iterable[Any], /) -> bool:
    for item in iterable:
        if item:
            return True
        del item
    return False


def all_of(iterable: Iterable[Any], /) -> bool:
    for item in iterable:
        if not item:
            return False
        del item
    return True


def sum_of(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    # CPython adds ints and floats up in C, from 3.12 on with floats' errors made good; what comes behind other things
    # is added plainly.
    if isinstance(start, (str, bytes, bytearray)):
        return sum(iterable, start)
    total = start
    numbers: list[Any] = []
    counts = type(start) is int or type(start) is float
    for item in iterable:
        if counts and (type(item) is int or type(item) is float or type(item) is bool):
            numbers.append(item)
        else:
            if numbers:
                total = sum(numbers, total)
                numbers = []
            floats = type(total) is float
            total = total + item
            counts = counts and not floats and type(total) is float
        del item
    return sum(numbers, total) if numbers or counts else total


def max_of(*args: Any, key: Any = None, default: Any = _MISSING) -> Any:
    if len(args) == 1:
        items = args[0]
    elif default is _MISSING and args:
        items = args
    else:
        return max(*args, key=key, default=default)
    found = False
    best = best_item = None
    for item in items:
        value = item if key is None else key(item)
        if not found or value > best:
            found, best, best_item = True, value, item
        del item, value
    if found:
        return best_item
    return max(()) if default is _MISSING else default


def min_of(*args: Any, key: Any = None, default: Any = _MISSING) -> Any:
    if len(args) == 1:
        items = args[0]
    elif default is _MISSING and args:
        items = args
    else:
        return min(*args, key=key, default=default)
    found = False
    best = best_item = None
    for item in items:
        value = item if key is None else key(item)
        if not found or value < best:
            found, best, best_item = True, value, item
        del item, value
    if found:
        return best_item
    return min(()) if default is _MISSING else default


def list_of(iterable: Iterable[Any], /) -> list[Any]:
    result = []
    for item in iterable:
        result.append(item)
        del item
    return result


def tuple_of(iterable: Iterable[Any], /) -> tuple[Any, ...]:
    result = []
    for item in iterable:
        result.append(item)
        del item
    return tuple(result)


def sized_list(iterable: Any, /) -> list[Any]:
    iterator = iter(iterable)
    try:  # noqa: SIM105
        len(iterable)
    except TypeError:
        pass  # what it says is nothing but a hint
    result: list[Any] = []
    # Not by `for`, which would ask the iterator for one of its own.
    while True:
        try:
            item = next(iterator)
        except StopIteration:
            return result
        result.append(item)
        del item


def sized_tuple(iterable: Any, /) -> tuple[Any, ...]:
    return tuple(sized_list(iterable))


def new_tuple(cls: Any, iterable: Iterable[Any], /) -> Any:
    if not isinstance(cls, type) or not issubclass(cls, tuple):
        return _new_tuple(cls, iterable)
    result = []
    for item in iterable:
        result.append(item)
        del item
    return _new_tuple(cls, result)


def set_of(iterable: Iterable[Any], /) -> set[Any]:
    result = set()
    for item in iterable:
        result.add(item)
        del item
    return result


def frozenset_of(iterable: Iterable[Any], /) -> frozenset[Any]:
    # One made of a set may have another order.
    result = []
    seen = set()
    for item in iterable:
        seen.add(item)
        result.append(item)
        del item
    return frozenset(result)


def dict_of(iterable: Iterable[Any], /, **more: Any) -> dict[Any, Any]:
    result = {}
    number = -1
    for item in iterable:
        number += 1
        if type(item) is not tuple and type(item) is not list:
            try:
                item = [*item]
            except TypeError:
                item = None
            if item is None:
                raise TypeError(f"cannot convert dictionary update sequence element #{number} to a sequence")
        if len(item) != 2:
            raise ValueError(f"dictionary update sequence element #{number} has length {len(item)}; 2 is required")
        result[item[0]] = item[1]
        del item
    result.update(more)
    return result


def dict_from_keys(iterable: Iterable[Any], value: Any = None, /) -> dict[Any, Any]:
    result = {}
    for key in iterable:
        result[key] = value
        del key
    return result


def ordered_dict_of(iterable: Iterable[Any], /, **more: Any) -> OrderedDict[Any, Any]:
    result = _OrderedDict()
    for item in iterable:
        if (type(item) is not tuple and type(item) is not list) or len(item) != 2:
            ((key, value),) = _OrderedDict((item,)).items()
            item = key, value
        result[item[0]] = item[1]
        del item
    result.update(more)
    return result


def deque_of(iterable: Iterable[Any], maxlen: Any = None) -> deque[Any]:
    result: deque[Any] = _deque(maxlen=maxlen)
    for item in iterable:
        result.append(item)
        del item
    return result


def join(text: str, iterable: Iterable[str], /) -> str:
    parts = []
    for item in iterable:
        parts.append(item)
        del item
    return text.join(parts)


def extend(target: list[Any], iterable: Iterable[Any], /) -> None:
    for item in iterable:
        target.append(item)
        del item


def extended_list(target: list[Any], iterable: Iterable[Any], /) -> list[Any]:
    """What LIST_EXTEND leaves: ``[*target, *iterable]``."""
    for item in iterable:
        target.append(item)
        del item
    return target


def sorted_of(iterable: Iterable[Any], /, *, key: Any = None, reverse: bool = False) -> list[Any]:
    items = []
    for item in iterable:
        items.append(item)
        del item
    keys = items
    if key is not None:
        keys = []
        for item in items:
            keys.append(key(item))
    result = []
    for place in _places_in_order(keys, reverse):
        result.append(items[place])
    return result


def sort(target: list[Any], /, *, key: Any = None, reverse: bool = False) -> None:
    items = target[:]
    target.clear()
    try:
        keys = items
        if key is not None:
            keys = []
            for item in items:
                keys.append(key(item))
        numbers = texts = True
        for value in keys:
            kind = type(value)
            numbers = numbers and (kind is int or kind is float or kind is bool)
            texts = texts and kind is str
        if numbers or texts:
            result = []
            for place in _places_in_order(keys, reverse):
                result.append(items[place])
            items = result
        else:
            # Where a comparison fails, the list is left half sorted.
            items.sort(key=functools.partial(next, iter(keys)), reverse=reverse)
    finally:
        modified = len(target) > 0
        target[:] = items
    if modified:
        raise ValueError("list modified during sort")


def places_by_comparing(keys: list[Any], reverse: bool, /) -> Any:
    # Keys of one type are asked for their own __lt__, and where that doesn't know, once more as `<` does it.
    alike = len(keys) > 0 and type(keys[0]) is not _Key
    for key in keys:
        alike = alike and type(key) is type(keys[0])
    outcomes: list[bool] = []
    step = _step_of_sort(len(keys), reverse, outcomes)
    while len(step) == 2:
        left, right = keys[step[0]], keys[step[1]]
        lower: Any = NotImplemented
        if alike:
            lower = type(left).__lt__(left, right)
        if lower is NotImplemented:
            lower = left < right
        if lower:
            outcomes.append(True)
        else:
            outcomes.append(False)
        step = _step_of_sort(len(keys), reverse, outcomes)
    return step[0]


def cached_call(cache: Any, function: Callable[..., Any], call: Any, /, *args: Any, **keywords: Any) -> Any:
    if _is_cached(cache, call):
        found = _cached(cache, call)
        _count_hit(cache, call)
        return found
    _count_miss(cache)
    result = function(*args, **keywords)
    _keep(cache, call, result)
    return result


def compared(function: Callable[[Any, Any], Any], left: Any, right: Any, number: int, truth: bool, /) -> Any:
    # left < right and the like, of what functools.cmp_to_key has made.
    result = function(left, right)
    if number == 0:
        result = result < 0
    elif number == 1:
        result = result <= 0
    elif number == 2:
        result = result == 0
    elif number == 3:
        result = result != 0
    elif number == 4:
        result = result > 0
    else:
        result = result >= 0
    if truth:
        if result:
            return True
        result = False
    return result


def sequences_equal(left: Any, right: Any, differ: bool, /) -> bool:
    # Of two lists, or two tuples: lists of different lengths aren't looked into.
    if type(left) is list and len(left) != len(right):
        return differ
    place = 0
    while place < len(left) and place < len(right):
        if not (left[place] is right[place] or left[place] == right[place]):
            return differ
        place += 1
    return differ if len(left) != len(right) else not differ


# What a dict does with a key whose class has methods for that: it compares those of its keys that have the same hash.
def keyed_item(target: dict[Any, Any], key: Any, /) -> Any:
    for other in _keys_like(target, hash(key)):
        if other is key or other == key:
            return _item_at(target, other)
    raise KeyError(key)


def keyed_get(target: dict[Any, Any], key: Any, default: Any = None, /) -> Any:
    for other in _keys_like(target, hash(key)):
        if other is key or other == key:
            return _item_at(target, other)
    return default


def keyed_contains(target: dict[Any, Any], key: Any, /) -> bool:
    for other in _keys_like(target, hash(key)):
        if other is key or other == key:
            return True
        del other
    return False


def keyed_store(target: dict[Any, Any], key: Any, value: Any, /) -> None:
    number = hash(key)
    for other in _keys_like(target, number):
        if other is key or other == key:
            _store_at(target, other, number, value)
            return
    _store_at(target, key, number, value)


def keyed_delete(target: dict[Any, Any], key: Any, /) -> None:
    number = hash(key)
    for other in _keys_like(target, number):
        if other is key or other == key:
            _delete_at(target, other, number)
            return
    raise KeyError(key)


def keyed_pop(target: dict[Any, Any], key: Any, /, *default: Any) -> Any:
    if len(default) > 1:
        return target.pop(key, *default)
    number = hash(key)
    for other in _keys_like(target, number):
        if other is key or other == key:
            result = _item_at(target, other)
            _delete_at(target, other, number)
            return result
    if default:
        return default[0]
    raise KeyError(key)


def keyed_setdefault(target: dict[Any, Any], key: Any, default: Any = None, /) -> Any:
    number = hash(key)
    for other in _keys_like(target, number):
        if other is key or other == key:
            return _item_at(target, other)
    _store_at(target, key, number, default)
    return default


def keyed_dict(*parts: Any) -> dict[Any, Any]:
    result = {}
    for place in range(0, len(parts), 2):
        result[parts[place]] = parts[place + 1]
    return result


def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], /, *initial: Any) -> Any:
    if len(initial) > 1:
        return _reduce(function, iterable, *initial)
    found = len(initial) == 1
    result = initial[0] if found else None
    for item in iterable:
        result = function(result, item) if found else item
        found = True
        del item
    return result if found else _reduce(function, ())


def unpacked(iterable: Iterable[Any], count: int, /) -> Iterator[Any]:
    """What an instruction asks for that unpacks so many."""
    parts = []
    for item in iterable:
        parts.append(item)
        if len(parts) > count:
            break
    return iter(parts)


def called_with(function: Callable[..., Any], arguments: Iterable[Any], keywords: Any = None, /) -> Any:
    """``function(*arguments, **keywords)``."""
    given = []
    for argument in arguments:
        given.append(argument)
        del argument
    return function(*given) if keywords is None else function(*given, **keywords)


def map_next(function: Callable[[Any], Any], items: Iterator[Any], /) -> Any:
    for item in items:
        return function(item)
    raise StopIteration


def map_next_2(function: Callable[[Any, Any], Any], items: Iterator[Any], others: Iterator[Any], /) -> Any:
    for item in items:
        for other in others:
            return function(item, other)
        break
    raise StopIteration


def filter_next(function: Callable[[Any], Any] | None, items: Iterator[Any], /) -> Any:
    for item in items:
        if item if function is None or function is bool else function(item):
            return item
        del item
    raise StopIteration


def filterfalse_next(function: Callable[[Any], Any] | None, items: Iterator[Any], /) -> Any:
    for item in items:
        if not (item if function is None or function is bool else function(item)):
            return item
        del item
    raise StopIteration


def starmap_next(function: Callable[..., Any], items: Iterator[Any], /) -> Any:
    for item in items:
        if type(item) is not tuple:
            item = tuple(item)
        if len(item) == 2:
            return function(item[0], item[1])
        return function(item[0]) if len(item) == 1 else function(*item)
    raise StopIteration


def compress_next(data: Iterator[Any], selectors: Iterator[Any], /) -> Any:
    for item in data:
        for selected in selectors:
            if selected:
                return item
            break
        else:
            break
        del item, selected
    raise StopIteration


def takewhile_next(itself: Iterator[Any], function: Callable[[Any], Any], items: Iterator[Any], /) -> Any:
    for item in items:
        if function(item):
            return item
        _progress(itself, True)
        break
    raise StopIteration


def dropwhile_next(itself: Iterator[Any], function: Callable[[Any], Any], items: Iterator[Any], /) -> Any:
    for item in items:
        # The function may have asked for more itself.
        if _progress(itself):
            return item
        if not function(item):
            _progress(itself, True)
            return item
        del item
    raise StopIteration


def accumulate_initial(itself: Iterator[Any], initial: Any, /) -> Any:
    _progress(itself, initial)
    return initial


def accumulate_next(itself: Iterator[Any], function: Callable[[Any, Any], Any] | None, items: Iterator[Any], /) -> Any:
    for item in items:
        if known := _progress(itself):
            item = known[0] + item if function is None else function(known[0], item)
        _progress(itself, item)
        return item
    raise StopIteration


def zip_next_1(items: Iterator[Any], /) -> Any:
    for item in items:
        return (item,)
    raise StopIteration


def zip_next_2(items: Iterator[Any], others: Iterator[Any], /) -> Any:
    for item in items:
        for other in others:
            return item, other
        break
    raise StopIteration


def zip_next_3(items: Iterator[Any], others: Iterator[Any], more: Iterator[Any], /) -> Any:
    for item in items:
        for other in others:
            for third in more:
                return item, other, third
            break
        break
    raise StopIteration


def sequence_next(itself: Iterator[Any], sequence: Any, /) -> Any:
    number = _progress(itself)[0]
    if number is None:
        raise StopIteration
    try:
        item = sequence[number]
    except (IndexError, StopIteration):
        ended = True
    else:
        # The sequence may have asked the iterator itself.
        if (number := _progress(itself)[0]) is not None:
            _progress(itself, number + 1)
        return item
    if ended:
        _progress(itself, None)
    raise StopIteration


def called_next(itself: Iterator[Any], function: Callable[[], Any], sentinel: Any, /) -> Any:
    if _progress(itself):
        raise StopIteration
    try:
        item = function()
    except StopIteration:
        pass
    else:
        # An int that is the same is equal, too: the identity of a computed one isn't known.
        if not _progress(itself) and not ((type(item) is not int and item is sentinel) or sentinel == item):
            return item
    _progress(itself, True)
    raise StopIteration


def enumerate_next(itself: Iterator[Any], items: Iterator[Any], /) -> Any:
    for item in items:
        number = _progress(itself)[0]
        _progress(itself, number + 1)
        return number, item
    raise StopIteration


def islice_next(itself: Iterator[Any], items: Iterator[Any], /) -> Any:
    known = _progress(itself)[0]
    if known is None:
        raise StopIteration
    count, wanted, stop, by = known
    ended = True
    try:
        while count < wanted:
            for item in items:
                del item
                break
            else:
                raise StopIteration
            count += 1
            _progress(itself, (count, wanted, stop, by))
        if stop == -1 or count < stop:
            for item in items:
                wanted += by
                _progress(itself, (count + 1, stop if stop != -1 and wanted > stop else wanted, stop, by))
                ended = False
                return item
    finally:
        # With an error, too, there is nothing more.
        if ended:
            _progress(itself, None)
    raise StopIteration


def groupby_next(itself: Iterator[Any], items: Iterator[Any], function: Callable[[Any], Any] | None, /) -> Any:
    state = _progress(itself)[0]
    _progress(itself, (0, state[1], state[2], state[3]))
    while True:
        _, target, key, _ = _progress(itself)[0]
        # An int that is the same is equal, too: the identity of a computed one isn't known.
        if key and not (target and ((type(target[0]) is not int and target[0] is key[0]) or target[0] == key[0])):
            break
        for item in items:
            key = (item if function is None else function(item),)
            state = _progress(itself)[0]
            _progress(itself, (state[0], state[1], key, (item,)))
            break
        else:
            raise StopIteration
    state = _progress(itself)[0]
    _progress(itself, (0, key, state[2], state[3]))
    return key[0], _group(itself, key[0])


def group_next(
    itself: Iterator[Any],
    groups: Iterator[Any],
    target: Any,
    items: Iterator[Any],
    function: Callable[[Any], Any] | None,
    /,
) -> Any:
    if not _progress(itself):
        raise StopIteration
    if not _progress(groups)[0][3]:
        for item in items:
            key = (item if function is None else function(item),)
            state = _progress(groups)[0]
            _progress(groups, (state[0], state[1], key, (item,)))
            break
        else:
            raise StopIteration
    key = _progress(groups)[0][2]
    if not ((type(target) is not int and target is key[0]) or target == key[0]):
        raise StopIteration
    state = _progress(groups)[0]
    _progress(groups, (state[0], state[1], (), ()))
    if not state[3]:
        # The comparison has asked for it.
        raise StopIteration
    return state[3][0]


def chain_next(itself: Iterator[Any], sources: Iterator[Any], /) -> Any:
    while True:
        if known := _progress(itself):
            if known[0] is None:
                raise StopIteration
            for item in known[0]:
                return item
        # With an error, too, there is nothing more.
        active = None
        try:
            for source in sources:
                active = iter(source)
                break
        finally:
            _progress(itself, active)


def step(items: Iterator[Any], /) -> Any:
    for item in items:
        return item
    raise StopIteration


def step_or(items: Iterator[Any], default: Any, /) -> Any:
    for item in items:
        return item
    return default


def close_in_turn(generator: Any, awaited: Any, /) -> Any:
    # What the generator waits for is closed first. What that raises goes on in the generator, outside of the handler
    # here.
    error = None
    try:
        awaited.close()
    except BaseException as raised:
        error = raised
    del awaited
    return generator.close() if error is None else _close_with(generator, error)


def ended() -> Any:
    raise StopIteration


def item_of(item: Any, key: Any, /) -> Any:
    return item[key]


def items_of(item: Any, /, *keys: Any) -> tuple[Any, ...]:
    result = []
    for key in keys:
        result.append(item[key])
    return tuple(result)


def attribute_of(item: Any, /, *names: str) -> Any:
    for name in names:
        item = getattr(item, name)
    return item


def attribute_or(item: Any, name: str, default: Any, /) -> Any:
    try:
        return getattr(item, name)
    except AttributeError:
        return default


def attribute_or_asked(item: Any, name: str, hook: Callable[..., Any], get: Callable[..., Any], /, *args: Any) -> Any:
    # What a property gives, or another function of the class's, and else its __getattr__.
    try:
        return get(*args)
    except AttributeError:
        pass
    return hook(item, name)


def has_attribute(item: Any, name: str, /) -> bool:
    try:
        getattr(item, name)
    except AttributeError:
        return False
    return True


def method_of(item: Any, name: str, /, *args: Any) -> Any:
    method = getattr(item, name)
    if not args:
        return method()
    return method(args[0]) if len(args) == 1 else method(*args)


def substitute(pattern: re.Pattern[Any], by: Any, text: Any, count: int = 0) -> Any:
    if not callable(by) or type(text) is not str:
        return pattern.sub(by, text, count)
    parts = []
    end = 0
    for found in _matches(pattern, text, count):
        if end < (start := found.start()):
            parts.append(text[end:start])
        piece = by(found)
        if piece is not None:
            parts.append(piece)
        end = found.end()
        del found, piece
    if end < len(text):
        parts.append(text[end:])
    return "".join(parts)


def class_made(body: Callable[[], Any], name: str, /, *bases: type) -> type:
    # A class statement, where type makes the class.
    names: dict[str, Any] = {}
    _run_class_body(body, names)
    return type(name, bases, names)


def class_told(metaclass: type, told: Any, body: Callable[[], Any], name: str, /, *bases: type, **keywords: Any) -> Any:
    # ... or where another metaclass makes it in the same way, or a base has an __init_subclass__, `told`.
    names: dict[str, Any] = {}
    _run_class_body(body, names)
    made = _make_class(metaclass, name, bases, names)
    if told is not None:
        told(made, **keywords)
    return made


def class_called(
    metaclass: Any, prepares: bool, body: Callable[[], Any], name: str, /, *bases: type, **keywords: Any
) -> Any:
    # ... or where a metaclass of the program's has methods for it.
    names = metaclass.__prepare__(name, bases, **keywords) if prepares else {}
    cell = _run_class_body(body, names, metaclass)
    made = metaclass(name, bases, names, **keywords) if keywords else metaclass(name, bases, names)
    _check_class_cell(cell, made, name)
    return made


def _type_name(given: Any) -> str:
    # As C has it: with the module, where the type is one of C's.
    kind = type(given)
    plain = kind.__flags__ & _HEAP_TYPE or kind.__module__ == "builtins"
    return kind.__name__ if plain else f"{kind.__module__}.{kind.__name__}"


def class_initialised(
    metaclass: Any, told: Any, initialises: bool, name: str, bases: tuple[type, ...], names: dict[str, Any], /
) -> Any:
    # A call of such a metaclass that has no __new__.
    made = _make_class(metaclass, name, bases, names)
    if told is not None:
        told(made)
    if initialises and (given := metaclass.__init__(made, name, bases, names)) is not None:
        raise TypeError(f"__init__() should return None, not '{_type_name(given)}'")
    return made


def enum_made(metaclass: type, body: Callable[[], Any], name: str, /, *bases: type) -> Any:
    # ... or where the module enum makes it, and the body doesn't show that its dict is a plain one.
    names: dict[str, Any] = {}
    _run_class_body(body, names)
    return _make_enum(metaclass, name, bases, names)


# Calls of what has no frame of its own, with so many arguments.
_CALLS: list[Callable[..., Any]] = [
    lambda call: call(),
    lambda call, a: call(a),
    lambda call, a, b: call(a, b),
    lambda call, a, b, c: call(a, b, c),
    lambda call, a, b, c, d: call(a, b, c, d),
    lambda call, a, b, c, d, e: call(a, b, c, d, e),
]

# ... that would ask some of their arguments for iterators: nobody else has these.
_OVER_ITERATORS: list[Callable[..., Any]] = [
    lambda call, asks, a: call(_asked(iter(a)) if asks[0] else a),
    lambda call, asks, a, b: call(_asked(iter(a)) if asks[0] else a, _asked(iter(b)) if asks[1] else b),
    lambda call, asks, a, b, c: call(
        _asked(iter(a)) if asks[0] else a, _asked(iter(b)) if asks[1] else b, _asked(iter(c)) if asks[2] else c
    ),
    lambda call, asks, a, b, c, d: call(
        _asked(iter(a)) if asks[0] else a,
        _asked(iter(b)) if asks[1] else b,
        _asked(iter(c)) if asks[2] else c,
        _asked(iter(d)) if asks[3] else d,
    ),
]


# What each C function goes through, by the number of the argument, or -1.
_core.add_stand_ins(
    {
        any: (any_of, 0),
        all: (all_of, 0),
        sum: (sum_of, 0),
        max: (max_of, 0),
        min: (min_of, 0),
        list: (list_of, 0),
        tuple: (tuple_of, 0),
        _new_tuple: (new_tuple, 1),
        set: (set_of, 0),
        frozenset: (frozenset_of, 0),
        dict: (dict_of, 0),
        OrderedDict: (ordered_dict_of, 0),
        deque: (deque_of, 0),
        str.join: (join, 1),
        list.extend: (extend, 1),
        sorted: (sorted_of, 0),
        list.sort: (sort, 0),
        functools.reduce: (reduce, 1),
        _places_in_order: (places_by_comparing, 0),
        dict.get: (keyed_get, 0),
        dict.pop: (keyed_pop, 0),
        dict.setdefault: (keyed_setdefault, 0),
        # What instructions and calls of made objects are, by name.
        "dict.fromkeys": (dict_from_keys, 0),
        "cached_call": (cached_call, 0),
        "compared": (compared, 0),
        "sequences_equal": (sequences_equal, 0),
        "unpacked": (unpacked, 0),
        "sized_list": (sized_list, -1),
        "sized_tuple": (sized_tuple, -1),
        "called_with": (called_with, 1),
        "extended_list": (extended_list, 1),
        "keyed_item": (keyed_item, 0),
        "keyed_contains": (keyed_contains, 0),
        "keyed_store": (keyed_store, 0),
        "keyed_delete": (keyed_delete, 0),
        "keyed_dict": (keyed_dict, 0),
        "map_next": (map_next, 0),
        "map_next_2": (map_next_2, 0),
        "filter_next": (filter_next, 0),
        "filterfalse_next": (filterfalse_next, 0),
        "starmap_next": (starmap_next, 0),
        "compress_next": (compress_next, 0),
        "takewhile_next": (takewhile_next, 0),
        "dropwhile_next": (dropwhile_next, 0),
        "accumulate_initial": (accumulate_initial, 0),
        "accumulate_next": (accumulate_next, 0),
        "zip_next_1": (zip_next_1, 0),
        "zip_next_2": (zip_next_2, 0),
        "zip_next_3": (zip_next_3, 0),
        "sequence_next": (sequence_next, 0),
        "called_next": (called_next, 0),
        "enumerate_next": (enumerate_next, 0),
        "islice_next": (islice_next, 0),
        "groupby_next": (groupby_next, 0),
        "group_next": (group_next, 0),
        "chain_next": (chain_next, 0),
        "close_in_turn": (close_in_turn, -1),
        "step": (step, 0),
        "step_or": (step_or, 0),
        "ended": (ended, 0),
        re.Pattern.sub: (substitute, -1),
        "item_of": (item_of, 0),
        "items_of": (items_of, 0),
        "attribute_of": (attribute_of, 0),
        "attribute_or": (attribute_or, -1),
        "attribute_or_asked": (attribute_or_asked, -1),
        "has_attribute": (has_attribute, -1),
        "method_of": (method_of, 0),
        "class_made": (class_made, 0),
        "class_told": (class_told, 0),
        "class_called": (class_called, 0),
        "class_initialised": (class_initialised, 0),
        "enum_made": (enum_made, 0),
        **{f"call_of_{count}": (function, 0) for count, function in enumerate(_CALLS)},
        **{f"over_iterators_{count}": (function, 0) for count, function in enumerate(_OVER_ITERATORS, 1)},
    }
)
