"""Deep recursion: at which depth it ends, with which text, what handlers at the limit do, and that the program goes on."""

import copy
import functools
import gc
import json
import pickle
import sys
import threading
import traceback


def _plain(n):
    return _plain(n + 1)


def _two_by_turns(n):
    return _other(n + 1)


def _other(n):
    return _two_by_turns(n + 1)


class _Chain:
    def __init__(self, next=None):
        self.next = next

    def method(self):
        return self.method()

    def __call__(self):
        return self()

    @property
    def endless(self):
        return self.endless

    def __getattr__(self, name):
        return getattr(self, name + "_")

    def __eq__(self, other):
        return self == other

    def __lt__(self, other):
        return self < other

    def __add__(self, other):
        return self + other

    def __len__(self):
        return len(self)

    def __bool__(self):
        return bool(self)

    def __iter__(self):
        return iter(self)

    def __repr__(self):
        return repr(self)

    def __str__(self):
        return f"{self}"

    def __hash__(self):
        return hash(self)

    def __getitem__(self, index):
        return self[index]

    def __enter__(self):
        with self:
            pass

    def __exit__(self, *error):
        pass

    def __contains__(self, item):
        return item in self


class _Constructed:
    def __init__(self):
        self.next = _Constructed()


class _Made:
    def __new__(cls):
        return cls()


class _Sub(_Constructed):
    def __init__(self):
        super().__init__()
        self.__init__()


def _with_arguments(*args, **keywords):
    return _with_arguments(*args, 1, **keywords)


def _generator(n):
    yield from _generator(n + 1)


def _generators_by_next(n):
    yield next(_generators_by_next(n + 1))


def _comprehension(n):
    return [_comprehension(n + 1) for _ in range(1)]


def _by_generator_expression(n):
    return sum(_by_generator_expression(n + 1) for _ in range(1))


def _lambda(n):
    return (lambda: _lambda(n + 1))()


async def _coroutine(n):
    return await _coroutine(n + 1)


async def _async_generator(n):
    async for x in _async_generator(n + 1):
        yield x


def _mapped(n):
    return list(map(_mapped, [n + 1]))


def _sorted(n):
    return sorted([1], key=_sorted)


def _reduced(a, b):
    return functools.reduce(_reduced, [1, 2])


_partial = functools.partial(lambda: _partial())


@functools.lru_cache(None)
def _cached(n):
    return _cached(n + 1)


def _decorate(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@_decorate
def _decorated(n):
    return _decorated(n + 1)


def _class_body(n):
    class Body:
        _class_body(n + 1)


def _exec(n):
    exec("_exec(n + 1)", {"_exec": _exec, "n": n})


def _evaluated(n):
    return eval("_evaluated(n + 1)")


def _handled(n):
    try:
        return _handled(n + 1)
    except ZeroDivisionError:
        return n


def _finally(n):
    try:
        return _finally(n + 1)
    finally:
        len("")


def _matched(n):
    match n:
        case int():
            return _matched(n + 1)


def _star(n):
    return _star(*[n + 1])


def _keyword(n=0):
    return _keyword(n=n + 1)


def _nested():
    def inner():
        return inner()

    return inner()


class _Meta(type):
    def __call__(cls):
        return cls()

    def __getattr__(cls, name):
        return getattr(cls, name + "_")


class _OfMeta(metaclass=_Meta):
    pass


def _in_import(n):
    __import__("sys")
    return _in_import(n + 1)


def _run_coroutine(made):
    made.send(None)


def _run_async_generator(made):
    made.__anext__().send(None)


ENDLESS = {
    "plain": lambda: _plain(0), "by_turns": lambda: _two_by_turns(0), "method": _Chain().method, "call": _Chain(), "property": lambda: _Chain().endless,
    "getattr": lambda: _Chain().nothing, "eq": lambda: _Chain() == 1, "lt": lambda: _Chain() < 1, "add": lambda: _Chain() + 1, "len": lambda: len(_Chain()),
    "bool": lambda: bool(_Chain()), "iter": lambda: iter(_Chain()), "repr": lambda: repr(_Chain()), "str": lambda: str(_Chain()),
    "hash": lambda: hash(_Chain()), "getitem": lambda: _Chain()[0], "with": lambda: _Chain().__enter__(), "contains": lambda: 1 in _Chain(),
    "init": _Constructed, "new": _Made, "super": _Sub, "arguments": _with_arguments, "generator": lambda: list(_generator(0)),
    "next": lambda: next(_generators_by_next(0)), "comprehension": lambda: _comprehension(0), "generator_expression": lambda: _by_generator_expression(0),
    "lambda": lambda: _lambda(0), "coroutine": lambda: _run_coroutine(_coroutine(0)), "async_generator": lambda: _run_async_generator(_async_generator(0)),
    "map": lambda: _mapped(0), "sorted": lambda: _sorted(0), "reduce": lambda: _reduced(1, 2), "partial": _partial, "cached": lambda: _cached(0),
    "decorated": lambda: _decorated(0), "class_body": lambda: _class_body(0), "exec": lambda: _exec(0), "eval": lambda: _evaluated(0),
    "handled": lambda: _handled(0), "finally": lambda: _finally(0), "match": lambda: _matched(0), "star": lambda: _star(0), "keyword": _keyword,
    "nested": _nested, "meta": _OfMeta, "meta_getattr": lambda: _OfMeta.nothing, "import": lambda: _in_import(0),
}  # fmt: skip


def _depth_of(error):
    levels = 0
    traceback_ = error.__traceback__
    while traceback_:
        levels += 1
        traceback_ = traceback_.tb_next
    return levels


def _ended(function):
    try:
        function()
    except RecursionError as error:
        # With and without: both have to be at the same depth, as the text tells where it ended.
        return str(error), _depth_of(error)
    return "no error"


def _texts_and_depths(limits=(150, 400, 1000)):
    """At which limits each recursion ends how; the third time, as caches are warm."""
    import warnings

    warnings.simplefilter("ignore")
    found = {}
    before = sys.getrecursionlimit()
    for limit in limits:
        for name, function in ENDLESS.items():
            _cached.cache_clear()
            sys.setrecursionlimit(limit)
            try:
                found[name, limit] = [_ended(function) for _ in range(12)][-1]
            finally:
                sys.setrecursionlimit(before)
    return found


# --- handlers at the limit --------------------------------------------------------------------------------------------


def handlers_at_the_limit():
    told = []

    def deep(n):
        try:
            return deep(n + 1)
        except RecursionError:
            told.append(n)
            return n

    def deeper(n):
        try:
            return deeper(n + 1)
        except RecursionError:
            return helper(n)

    def helper(n):
        return sum(x for x in range(n))

    def formats(n):
        try:
            formats(n + 1)
        finally:
            if n % 50 == 0:
                try:
                    told.append(len(traceback.format_exc(limit=3)) > 50)
                except RecursionError:
                    pass

    found = [deep(0) > 900, len(told)]
    told.clear()
    found.append(deeper(0) > 900)
    for _ in range(2):
        try:
            formats(0)
        except RecursionError as error:
            found.append(str(error))
    return found


def the_limit_is_moved():
    def deep(n):
        return n and deep(n - 1)

    def deepest():
        low, high = 1, 5000
        while low < high:
            middle = (low + high + 1) // 2
            try:
                deep(middle)
                low = middle
            except RecursionError:
                high = middle - 1
        return low

    found = [deepest()]
    before = sys.getrecursionlimit()
    for limit in (200, 500, 3000, 1000):
        sys.setrecursionlimit(limit)
        found.append(deepest())

    def inside(n):
        if n:
            return inside(n - 1)
        try:
            sys.setrecursionlimit(100)
        except RecursionError as error:
            return str(error)
        return "set"

    found.append(inside(200))
    sys.setrecursionlimit(before)
    return found


def the_program_goes_on():
    for _ in range(30):
        for name in ("plain", "generator", "coroutine", "init", "finally", "map"):
            try:
                ENDLESS[name]()
            except RecursionError:
                pass
    gc.collect()

    def deep(n):
        return n and deep(n - 1)

    return deep(900), sum(x for x in range(10)), sorted([2, 1], key=lambda x: x)


def generators_at_the_limit():
    def generator():
        while True:
            try:
                yield 1
            except KeyError:
                yield 2

    def deep(n, made):
        """Resumed at each depth until it can't be, and then again with room."""
        try:
            next(made)
        except RecursionError:
            return n
        return deep(n + 1, made)

    def thrown(n, made):
        try:
            made.throw(KeyError)
            next(made)
        except RecursionError:
            return n
        return thrown(n + 1, made)

    found = []
    for run in (deep, thrown):
        made = generator()
        next(made)
        try:
            run(0, made)
            found.append("ended")
        except RecursionError as error:
            found.append(str(error))
        except StopIteration:
            found.append("stopped")
        try:
            found.append(next(made))
        except StopIteration:
            found.append("stopped")
    return found


# --- deep without an end ----------------------------------------------------------------------------------------------


def _with_stack(megabytes, limit, function):
    found = []
    before_size, before_limit = threading.stack_size(megabytes << 20), sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        thread = threading.Thread(target=lambda: found.append(function()))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before_size)
        sys.setrecursionlimit(before_limit)
    return found


def _chain_of_generators(n):
    def generator(k):
        if k:
            yield from generator(k - 1)
        else:
            yield 1
            yield 2

    return list(generator(n))


def _chain_of_coroutines(n):
    async def coroutine(k):
        return await coroutine(k - 1) + 1 if k else 0

    try:
        coroutine(n).send(None)
    except StopIteration as end:
        return end.value


def _deep_plain(n):
    return n and _deep_plain(n - 1) + 1


class _Deep:
    def __init__(self, n):
        self.n = n

    def method(self, n):
        return n and self.method(n - 1)

    def __getattr__(self, name):
        n = int(name[1:])
        return n and getattr(self, f"a{n - 1}")


def _deep_exception(n):
    if n == 0:
        raise ValueError("deep")
    try:
        _deep_exception(n - 1)
    finally:
        len("")


def _deep_exception_told(n):
    try:
        _deep_exception(n)
    except ValueError as error:
        return _depth_of(error)


def deep_in_a_large_stack():
    n = 50_000
    return _with_stack(512, 100_000, lambda: [_deep_plain(n), _Deep(0).method(n), _deep_exception_told(n)])


def generators_nested_deeply():
    return _with_stack(512, 100_000, lambda: [_chain_of_generators(3_000), _chain_of_coroutines(20_000)])


def through_c_deeply():
    def mapped(n):
        return n and next(map(mapped, [n - 1]))

    def keyed(n):
        return n and sorted([n - 1], key=keyed)[0]

    n = 300
    return [mapped(n), keyed(n), getattr(_Deep(0), f"a{n}")]


def nested_data():
    """C code that calls itself over data made by evaluated code."""
    found = []
    for n in (50, 200):
        nested = []
        for _ in range(n):
            nested = [nested]
        found += [len(repr(nested)), len(json.dumps(nested)), len(pickle.dumps(nested)), len(repr(copy.deepcopy(nested))), nested == copy.deepcopy(nested)]
    nested = []
    for _ in range(100_000):
        nested = [nested]
    for function in (repr, json.dumps, copy.deepcopy):
        try:
            function(nested)
        except RecursionError as error:
            found.append((function.__name__, str(error)))
    return found


def nested_data_of_classes():
    class Node:
        def __init__(self, next):
            self.next = next

        def __repr__(self):
            return f"Node({self.next!r})"

        def __eq__(self, other):
            return self.next == other.next

        def __reduce__(self):
            return Node, (self.next,)

    def nested(n):
        node = None
        for _ in range(n):
            node = Node(node)
        return node

    found = [len(repr(nested(100))), nested(100) == nested(100)]
    for function in (repr, lambda x: x == nested(100_000), copy.deepcopy):
        try:
            function(nested(100_000))
            found.append("done")
        except RecursionError:
            found.append("RecursionError")
    return found


def long_chains_are_dropped():
    class Node:
        def __init__(self, next):
            self.next = next

    class Finalized(Node):
        def __del__(self):
            dropped[0] += 1

    dropped = [0]
    for kind in (Node, Finalized):
        node = None
        for _ in range(100_000):
            node = kind(node)
        del node
    chain = iter([1])
    for _ in range(100_000):
        chain = (x for x in chain)
    del chain
    closure = None
    for _ in range(100_000):
        closure = (lambda held: lambda: held)(closure)
    del closure
    return dropped


def _endless_in_small_stacks():
    """Too small for the limit. Plain CPython dies of most of these."""
    import warnings

    warnings.simplefilter("ignore")
    found = []
    before = threading.stack_size()
    for kilobytes in (64, 128, 256, 512):
        threading.stack_size(kilobytes << 10)
        for name, function in ENDLESS.items():
            told = []
            thread = threading.Thread(target=lambda: told.append(_ended(function)[0]))
            thread.start()
            thread.join()
            found.append((kilobytes, name, *told))
    threading.stack_size(before)
    return found


def deep_threads_at_once():
    found = []

    def work():
        for _ in range(20):
            try:
                _plain(0)
            except RecursionError as error:
                found.append(_depth_of(error) > 900)
            assert _deep_plain(500) == 500
            assert len(_chain_of_generators(100)) == 2

    threads = [threading.Thread(target=work) for _ in range(16)]
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(found), set(found)
