"""Collections in the middle, finalizers that look at and change what runs, faulty objects; and what is made and dropped by thousands."""

# The programs are odd on purpose.
# ruff: noqa: F841

import contextlib
import functools
import gc
import itertools
import os
import sys
import threading
import traceback
import types
import weakref

here = sys.modules[__name__]


@contextlib.contextmanager
def _collecting(threshold=1):
    before = gc.get_threshold()
    gc.set_threshold(threshold)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _program():
    """A little of everything."""

    class Thing:
        made = 0

        def __init__(self, n):
            self.n = n
            self.me = self  # a cycle, so that only a collection drops it
            Thing.made += 1

        def method(self, n):
            return [self.n, *([] if n == 0 else self.method(n - 1))]

        @property
        def value(self):
            return self.n

    def generator(n):
        try:
            for i in range(n):
                yield Thing(i).value
        finally:
            yield_[0] += 1

    def delegate(n):
        result = yield from generator(n)
        return result

    def closure(n):
        def inner(m=[n]):
            return [n, m, [n for _ in m], Thing(n)]

        return inner

    async def coroutine(n):
        return [n, await coroutine(n - 1)] if n else []

    def fails(n):
        try:
            if n == 0:
                raise ValueError(Thing(n).n)
            fails(n - 1)
        except ValueError as error:
            raise KeyError(n) from error

    yield_ = [0]
    found = [list(delegate(5)), Thing(3).method(4), [closure(i)()[:3] for i in range(3)], {x: [Thing(x).n] for x in range(4)}]
    try:
        coroutine(5).send(None)
    except StopIteration as end:
        found.append(end.value)
    try:
        fails(4)
    except KeyError as error:
        found.append(len(traceback.format_exception(error)))
    match {"a": [1, {"b": Thing(2)}]}:
        case {"a": [x, {"b": Thing(n=n)}], **rest}:
            found.append((x, n, rest))
    found.append(f"{Thing(1).n!r:>5} {[Thing(2).n]}")
    a, *b = [[i] for i in range(4)]
    found += [a, b, sorted([[3], [1]], key=lambda x: x[0]), (lambda *a, **k: (a, k))(*[[1]], **{"x": [2]}), Thing.made, yield_]
    return found


def collections_at_every_allocation():
    with _collecting():
        return [_program() for _ in range(3)]


def collections_in_threads():
    found, threads = [], [threading.Thread(target=lambda: found.append(repr(_program()))) for _ in range(16)]
    sys.setswitchinterval(1e-6)
    with _collecting():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return len(found), len(set(found))


# --- finalizers that look at what runs --------------------------------------------------------------------------------


class Finalized:
    """Calls `act` when it's dropped."""

    def __init__(self, act):
        self.act = act

    def __del__(self):
        self.act()


def _seen_from(depth=2):
    frame = sys._getframe(depth)
    locals_ = {name: value for name, value in frame.f_locals.items() if isinstance(value, (int, str))}
    return frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, sorted(locals_.items())


def finalizers_see_the_frame():
    seen = []

    def look():
        seen.append(_seen_from(3))

    def run():
        x = 1
        odd = Finalized(look)
        y = 2
        odd = None
        z = 3
        odd = Finalized(look)
        del odd
        Finalized(look)
        x = Finalized(look)
        x = 5
        for x in [Finalized(look), 6]:
            pass
        a = [Finalized(look)]
        a[0] = 1
        a = {1: Finalized(look)}
        a[1] = 7
        _ = Finalized(look), 8
        _ = 9
        (lambda: Finalized(look))()
        return Finalized(look) and z

    def generator():
        odd = Finalized(look)
        yield 1
        odd = 2
        yield odd
        odd = Finalized(look)

    class Slot:
        def __init__(self):
            self.value = Finalized(look)

    def attributes():
        thing = Slot()
        thing.value = 1
        thing = Slot()
        thing = 2

    def raising():
        odd = Finalized(look)
        raise ValueError

    results = [run() for _ in range(3)]
    results.append(list(generator()))
    for _ in range(10):
        attributes()
    try:
        raising()
    except ValueError:
        pass
    return results, seen


def finalizers_change_variables():
    found = []

    def delete(name):
        here.__dict__.pop(name, None)

    def run():
        global changing
        changing = 1
        for _ in range(20):
            changing = Finalized(functools.partial(delete, "changing"))
            changing = 2
            try:
                found.append(changing)
            except NameError as error:
                found.append(str(error))
            changing = 3

    def cells():
        def change():
            nonlocal cell
            cell = "by the finalizer"

        cell = Finalized(change)
        cell = "by the frame"
        return cell

    def own():
        def change():
            frame = sys._getframe(2)
            if frame.f_code is own.__code__:
                # 3.13 writes through, others don't.
                frame.f_locals["x"] = "by the finalizer"

        x = 1
        odd = Finalized(change)
        odd = None
        return x

    def lists():
        items = [1]

        def change():
            items.clear()

        items[0] = Finalized(change)
        items[0] = 5
        return items

    def dicts():
        items = {}

        def change():
            items.clear()

        items[1] = Finalized(change)
        items[1] = 5
        return items

    def attributes():
        class Thing:
            pass

        for kept in range(3):
            thing = Thing()
            thing.a = 1
            thing.value = Finalized(lambda thing=thing: [thing.__dict__.clear(), setattr(thing, "value", "by the finalizer")])
            thing.value = 5
            found.append(vars(thing))

    run()
    for _ in range(10):
        attributes()
    return found, [cells() for _ in range(3)], [own() for _ in range(3)], [lists() for _ in range(3)], [dicts() for _ in range(3)]


def finalizers_change_classes():
    """A class loses what a cache has, while its instance's value is stored or its method is called."""
    found = []

    class Base:
        def method(self):
            return "first"

        shared = "first"

    def change():
        Base.method = lambda self: "second"
        Base.shared = "second"

    def restore():
        Base.method = lambda self: "first"
        Base.shared = "first"

    def run(thing):
        thing.value = None
        before = thing.method(), thing.shared
        thing.value = Finalized(change)
        thing.value = 1
        return before, thing.method(), thing.shared

    def argument(thing):
        return thing.method(), thing.take(Finalized(change)), thing.method()

    Base.take = lambda self, odd: None
    for _ in range(12):
        restore()
        found.append(run(Base()))
        restore()
        found.append(argument(Base()))

    def drops_itself():
        class Last:
            def method(self):
                nonlocal Last
                del Last
                del self
                gc.collect()
                return "done"

        return Last().method()

    return found, [drops_itself() for _ in range(5)]


def finalizers_clear_frames():
    found = []

    def clear():
        frame = sys._getframe(2)
        while frame and frame.f_code.co_filename == __file__:
            try:
                frame.clear()
                found.append(("cleared", frame.f_code.co_name))
            except RuntimeError as error:
                found.append((str(error), frame.f_code.co_name))
            frame = frame.f_back

    def generator():
        odd = Finalized(clear)
        yield 1
        odd = None
        yield 2

    def outer():
        return list(generator())

    def suspended():
        made = generator()
        next(made)
        if sys.version_info < (3, 13):  # there it's refused
            made.gi_frame.clear()
        return next(made, None)

    return outer(), suspended(), [entry for entry in found if entry[1] in ("outer", "generator", "suspended")]


def finalizers_raise():
    told = []
    before, sys.unraisablehook = sys.unraisablehook, lambda raised: told.append((raised.exc_type.__name__, str(raised.exc_value), len(traceback.extract_tb(raised.exc_traceback))))

    def fail():
        raise ValueError("in a finalizer")

    def run():
        odd = Finalized(fail)
        odd = 1
        try:
            odd = Finalized(fail)
            raise KeyError
        except KeyError as error:
            del odd
            told.append(sys.exc_info()[1] is error)
        return [Finalized(fail) and x for x in range(2)]

    def leaving():
        odd = Finalized(fail)
        raise OSError

    def generator():
        odd = Finalized(fail)
        yield 1

    try:
        found = [run() for _ in range(3)]
        try:
            leaving()
        except OSError as error:
            found.append(repr(error.__context__))
        found.append(list(generator()))
        made = generator()
        next(made)
        del made
    finally:
        sys.unraisablehook = before
    return found, told


def finalizers_switch_tools_on():
    events = []

    def tracer(frame, event, argument):
        if frame.f_code.co_name in ("run", "step", "generator"):
            events.append((frame.f_code.co_name, event, frame.f_lineno - frame.f_code.co_firstlineno))
        return tracer

    def switch(tool):
        frame = sys._getframe(2)
        while frame:
            frame.f_trace = tracer
            frame = frame.f_back
        getattr(sys, tool)(tracer)

    def step(n):
        return n + 1

    def run(how, tool):
        odd = Finalized(functools.partial(switch, tool))
        if how == "store":
            odd = 1
            x = 2
            y = 3
        elif how == "delete":
            del odd
            x = 2
            y = 3
        elif how == "pop":
            held = [odd]
            del odd
            held.pop()
            x = 2
            y = 3
        elif how == "call":
            held = [odd]
            del odd
            step(held.clear() or 1)
            x = step(1)
        elif how == "loop":
            held = [0, 2, 1, odd]
            del odd
            for odd in iter(held.pop, 0):
                x = 1
        elif how == "return":
            return 1
        elif how == "attribute":
            thing = types.SimpleNamespace(odd=odd)
            del odd
            thing.odd = 1
            x = 2
        elif how == "compare":
            held = [odd]
            del odd
            held.pop() == 1
            x = 2
        elif how == "unpack":
            held = [odd]
            del odd
            (_,) = [held.pop()]
            _ = 1
            x = 2
        elif how == "cell":
            cell = odd
            del odd
            (lambda: cell)
            cell = 1
            x = 2
        elif how == "raise":
            held = [odd]
            del odd
            try:
                raise ValueError(held.pop())
            except ValueError:
                x = 1
            x = 2
        return 5

    def generator():
        odd = Finalized(functools.partial(switch, "settrace"))
        yield 1
        odd = 1
        yield 2
        x = 3

    found = []
    for tool in ("settrace", "setprofile"):
        for how in ("store", "delete", "pop", "call", "loop", "return", "attribute", "compare", "unpack", "cell", "raise"):
            for _ in range(2):
                events.clear()
                # New code each time: where tools have seen it once, it isn't evaluated.
                types.FunctionType(run.__code__.replace(), globals(), closure=run.__closure__)(how, tool)
                sys.settrace(None)
                sys.setprofile(None)
                # 3.13: where a tool is switched on by the last instruction of a line, the next line goes untold.
                found.append((tool, how, events[-2:] if sys.version_info >= (3, 13) else list(events)))
    events.clear()
    list(generator())
    sys.settrace(None)
    found.append(list(events))
    return found


def objects_are_resurrected():
    kept = []

    class Phoenix:
        def __init__(self, n):
            self.n = n

        def __del__(self):
            kept.append(self)

        def method(self):
            return self.n

    def run(n):
        odd = Phoenix(n)
        odd = Phoenix(n + 1)
        del odd
        return [thing.method() for thing in kept]

    def generator():
        odd = Phoenix(100)
        try:
            yield odd
        finally:
            kept.append(made)

    found = [run(n) for n in (1, 3)]
    made = generator()
    next(made)
    cycle = [made]
    cycle.append(cycle)
    del cycle
    gc.collect()
    made.close()
    found.append([type(thing).__name__ for thing in kept])
    kept.clear()
    return found


def weak_references_call_back():
    told = []

    class Thing:
        pass

    def callback(reference):
        told.append((reference() is None, _seen_from(2)[:2]))

    def run():
        thing = Thing()
        reference = weakref.ref(thing, callback)
        thing = None
        values = weakref.WeakValueDictionary(a=Thing())
        keys = weakref.WeakKeyDictionary()
        key = Thing()
        keys[key] = 1
        del key
        finalizer = weakref.finalize(Thing(), told.append, "finalized")
        return reference(), len(values), len(keys), finalizer.alive

    return [run() for _ in range(3)], told


def finalizers_go_on_with_generators():
    def generator():
        try:
            yield 1
            yield 2
        finally:
            told.append("closed")

    def inner(made):
        told.append(next(made, "ended"))

    def run():
        made = generator()
        odd = Finalized(functools.partial(inner, made))
        odd = None
        told.append(next(made, "ended"))
        return list(made)

    def in_itself():
        def act():
            try:
                next(made)
            except ValueError as error:
                told.append(str(error))

        def own():
            odd = Finalized(act)
            yield 1
            odd = None
            yield 2

        made = own()
        return list(made)

    def dropped_while_waiting():
        made = generator()
        next(made)
        del made
        return sys.exc_info()

    told = []
    return [run() for _ in range(2)], [in_itself() for _ in range(2)], dropped_while_waiting(), told


# --- faulty objects ---------------------------------------------------------------------------------------------------


def containers_change_while_asked():
    found = []

    class Key:
        def __init__(self, act):
            self.act = act

        def __hash__(self):
            return 7

        def __eq__(self, other):
            self.act()
            return self is other

    def attempt(function, *arguments):
        try:
            found.append(function(*arguments))
        except Exception as error:
            found.append((type(error).__name__, str(error).split(" at 0x")[0]))

    def look_up():
        items = {}
        items[Key(items.clear)] = 1
        return items[Key(lambda: None)]

    def store():
        items = {}
        items[Key(items.clear)] = 1
        items[Key(lambda: None)] = 2
        return len(items)

    def contains():
        items = []
        items += [Key(items.clear)] * 3
        return Key(lambda: None) in items, Key(lambda: None) in {Key(lambda: None)}

    def grows():
        items = {1: 2}
        for key in items:
            items[key + 1] = 1

    def grows_list():
        items = [1]
        for item in items:
            if len(items) < 50:
                items.append(item + 1)
        return len(items)

    def sorts():
        items = [3, 1, 2]

        def key(x):
            items.append(x)
            return x

        try:
            items.sort(key=key)
        except ValueError as error:
            return str(error), items

    def sort_lies():
        class Lies:
            def __lt__(self, other):
                return 1 / 0

        return sorted([Lies(), Lies()])

    def sets():
        items = set()
        items.add(Key(items.clear))
        items.add(Key(lambda: None))
        return len(items)

    def clears_itself():
        items = [Finalized(lambda: items.clear()), 1, 2]
        for i in range(3):
            items[0] = i
            items[1:] = []
        return items

    def unpacks():
        class Odd:
            def __iter__(self):
                yield from (1, 2)
                raise KeyError("in the middle")

        a, b, *c = Odd()

    def hashes():
        class Odd:
            hashes = itertools.count()

            def __hash__(self):
                return next(self.hashes)

        odd = Odd()
        items = {odd: 1}
        return odd in items, [odd in items for _ in range(3)], len(items)

    for function in (look_up, store, contains, grows, grows_list, sorts, sort_lies, sets, clears_itself, unpacks, hashes) * 3:
        attempt(function)
    return found


def iterators_are_faulty():
    found = []

    class Next:
        def __init__(self, act):
            self.act = act

        def __iter__(self):
            return self

        def __next__(self):
            return self.act()

    def over(iterable):
        got = []
        try:
            for x in iterable:
                got.append(x)
        except Exception as error:
            got.append((type(error).__name__, str(error)))
        return got

    def stops_with_value():
        raise StopIteration(5)

    def loses_its_next():
        class Loses:
            def __iter__(self):
                return self

            def __next__(self):
                del Loses.__next__
                return 1

        return over(Loses())

    def becomes_another():
        class First:
            def __iter__(self):
                return self

            def __next__(self):
                self.__class__ = Second
                return 1

        class Second(First):
            def __next__(self):
                raise StopIteration

        return over(First())

    def generator_raises_stop():
        yield 1
        raise StopIteration

    def endless_calls():
        raise RecursionError("own")

    for _ in range(3):
        found += [over(Next(stops_with_value)), over(Next(endless_calls)), loses_its_next(), becomes_another(), over(generator_raises_stop())]
        found += [over(iter(lambda: 1 / 0, 1)), over(5), over(map(lambda x: 1 / x, [1, 0]))]
    return found


def names_are_odd_objects():
    """Namespaces, keywords and attribute names that are subclasses of str with a mind of their own."""
    found = []

    class Name(str):
        def __hash__(self):
            return hash(str(self))

        def __eq__(self, other):
            compared.append(str(other))
            return str(self) == str(other)

    compared = []

    class Thing:
        pass

    def read(thing):
        return thing.value

    for _ in range(5):
        thing = Thing()
        thing.__dict__[Name("value")] = 1
        found.append(read(thing))
        setattr(thing, Name("other"), 2)
        found.append(thing.other)
        namespace = {Name("x"): 5, "__builtins__": {}}
        found.append(eval("x", namespace))
        found.append((lambda **k: sorted(map(str, k)))(**{Name("a"): 1}))
    return found, len(compared) > 0


def errors_without_memory():
    """MemoryError at every allocation in turn: it's raised, or the result is right."""
    try:
        import _testcapi
    except ImportError:
        return None

    class Thing:
        def __init__(self, n):
            self.n = n

        def method(self):
            return [self.n + 1000]

    def generator(n):
        for i in range(n):
            yield [i * 1000]

    def function(a, b=2, *c, d=4, **e):
        return [a, b, c, d, e]

    def work():
        try:
            result = [Thing(5).method(), list(generator(3)), function(1, 2, 3, d=5, f=6), {x: [x] for x in (1, 2)}]
            try:
                raise ValueError(1)
            except ValueError as error:
                result.append(error.args)
            return result
        except MemoryError:
            return None

    for _ in range(4):
        expected = work()
    wrong = []
    for at in range(1, 120):
        _testcapi.set_nomemory(at, at + 1)
        try:
            got = work()
        except MemoryError:
            got = None
        finally:
            _testcapi.remove_mem_hooks()
        if got is not None and got != expected:
            wrong.append((at, got))
    return wrong


# --- what is made and dropped by thousands: no cache may take the new for the old -------------------------------------


def _read_value(thing):
    return thing.value


def _call_method(thing):
    return thing.method()


def _set_value(thing, value):
    thing.value = value
    return thing.value


def _construct(kind, value):
    return kind(value)


def _call(function):
    return function()


def classes_of_one_shape():
    wrong = []
    for n in range(4000):
        if n % 2:

            class Made:
                value = n

                def __init__(self, own):
                    self.own = own

                def method(self, n=n):
                    return n

        else:
            Made = type("Made", (), {"value": n, "method": lambda self, n=n: n, "__init__": lambda self, own, n=n: setattr(self, "own", own)})
        thing = Made(n)
        got = _read_value(thing), _read_value(Made), _call_method(thing), thing.own, _construct(Made, n).own, _set_value(thing, -n)
        if got != (n, n, n, n, n, -n):
            wrong.append((n, got))
        del Made, thing
        if n % 200 == 0:
            gc.collect()
    return wrong


def classes_change_all_the_time():
    """More versions than a class may have (3.12+: 1,000)."""
    wrong = []

    class Made:
        value = 0

        def method(self):
            return 0

        def __init__(self):
            self.own = 0

    class Child(Made):
        pass

    thing, child = Made(), Child()
    for n in range(5000):
        Made.value = n
        if _read_value(thing) != n or _read_value(child) != n or _read_value(Made) != n or _read_value(Child) != n:
            wrong.append(n)
        Made.method = lambda self, n=n: n
        if _call_method(thing) != n or _call_method(child) != n:
            wrong.append(-n)
        if n % 5 == 0:
            child.__class__ = type("Child", (Made,), {})
    return wrong


def functions_of_one_shape():
    wrong = []
    for n in range(4000):
        namespace = {"n": n}
        exec("def made(): return n", namespace)
        got = _call(namespace["made"]), _call(lambda n=n: n), _call(lambda: n)
        if got != (n, n, n):
            wrong.append((n, got))
    code = compile("def made(): return n, len('')", "<made>", "exec")
    for n in range(4000):
        namespace = {"n": n}
        exec(code, namespace)
        if _call(namespace["made"]) != (n, 0):
            wrong.append(n)
        if n % 3 == 0:
            namespace["len"] = lambda x, n=n: n
            if _call(namespace["made"]) != (n, n):
                wrong.append(n)
        del namespace
    return wrong


def modules_of_one_shape():
    wrong = []
    for n in range(4000):
        made = types.ModuleType("made")
        made.value = n
        made.method = lambda n=n: n
        got = _read_value(made), _call_method(made)
        made.value = -n
        got += (_read_value(made),)
        vars(made)["value"] = n + 1
        got += (_read_value(made),)
        vars(made).clear()
        try:
            _read_value(made)
        except AttributeError:
            got += ("none",)
        if got != (n, n, -n, n + 1, "none"):
            wrong.append((n, got))
        del made
    return wrong


def instances_of_one_shape():
    class Made:
        pass

    class Slots:
        __slots__ = ("value",)

    wrong = []
    for n in range(4000):
        made = Made() if n % 3 else Slots()
        made.value = n
        if _read_value(made) != n or _set_value(made, -n) != -n:
            wrong.append(n)
        if n % 3:
            made.__dict__ = {"value": n + 1}
            if _read_value(made) != n + 1:
                wrong.append(n)
            if n % 5 == 0:
                del made.value
                try:
                    _read_value(made)
                    wrong.append(n)
                except AttributeError:
                    pass
    return wrong


def globals_that_are_dropped():
    """Versions of dicts: a new dict at the old place, with the old number of changes."""
    code = compile("value", "<made>", "eval")
    reader = compile("def read():\n    return value\n", "<made>", "exec")
    wrong = []
    for n in range(5000):
        names = {"value": n, "__builtins__": {}}
        if eval(code, names) != n:
            wrong.append(n)
        exec(reader, names)
        read = names["read"]
        got = [read()]
        names["value"] = n + 1
        got.append(read())
        names.update(value=n + 2)
        got.append(read())
        names |= {"value": n + 3}
        got.append(read())
        names.pop("value")
        names.setdefault("value", n + 4)
        got.append(read())
        del names["value"]
        names["__builtins__"]["value"] = n + 5
        got.append(read())
        if got != [n, n + 1, n + 2, n + 3, n + 4, n + 5]:
            wrong.append((n, got))
    return wrong


def globals_that_are_an_objects_attributes():
    """Stored as attributes, read as globals."""
    wrong = []

    class Space:
        pass

    code = compile("def read():\n    return x", "<made>", "exec").co_consts[0]
    for n in range(60):
        space = Space()
        space.x = space.y = 0
        read = types.FunctionType(code, vars(space))
        for i in range(20):
            if read() != i:
                wrong.append((n, i))
            space.x = i + 1
        setattr(space, "x", "by setattr")
        got = [read()]
        del space.x
        try:
            read()
        except NameError:
            got.append("none")
        space.x = "again"
        got.append(read())
        space.__class__ = type("Space", (), {})
        space.x = "of another class"
        got.append(read())
        if got != ["by setattr", "none", "again", "of another class"]:
            wrong.append((n, got))
    return wrong


def code_objects_are_dropped():
    """Decoded forms and their notes go with them."""
    wrong = []
    for n in range(1500):
        namespace = {}
        exec(f"class A:\n    v = {n}\n    def m(self): return self.v + {n}\ndef f(a, b={n}):\n    return [a.v, a.m(), b, *(x for x in (b,))]\nr = [f(A()) for _ in range(4)]", namespace)
        if namespace["r"] != [[n, 2 * n, n, n]] * 4:
            wrong.append(n)
    return wrong


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _recursion(n):
    return n and _recursion(n - 1)


def _generators(n):
    def generator():
        yield from range(2)

    made = generator()
    next(made)
    return sum(generator())


def _exceptions(n):
    try:
        try:
            raise ValueError(n)
        except ValueError as error:
            raise KeyError from error
    except KeyError as error:
        return error.__cause__


def _classes(n):
    class Made:
        value = n

        def __init__(self):
            self.own = n

        def method(self):
            return self.own

    return Made().method()


def _coroutines(n):
    async def inner():
        return n

    async def outer():
        async with manager():
            return [await inner() for _ in range(2)]

    @contextlib.asynccontextmanager
    async def manager():
        yield

    try:
        outer().send(None)
    except StopIteration as end:
        return end.value


def _code(n):
    namespace = {}
    exec(f"def f(x, *a, **k):\n    return x + {n}\nr = f(1)", namespace)
    return namespace["r"]


def _frames(n):
    frame = sys._getframe()
    return frame.f_locals, frame.f_back.f_lineno


def _recursion_error(n):
    try:
        _endless()
    except RecursionError:
        pass


def _endless():
    return _endless()


def _many(function, n, times):
    for _ in range(times):
        function(n)


FLAT = {_recursion: (10, 30_000), _generators: (0, 60_000), _exceptions: (1, 60_000), _classes: (1, 4_000), _coroutines: (1, 6_000), _code: (1, 3_000), _frames: (1, 60_000), _recursion_error: (1, 100)}


def _grown(rounds):
    """What leaves blocks of Python's allocator behind, or lets the process grow."""
    grown = []
    for function, (n, times) in FLAT.items():
        times *= rounds
        _many(function, n, times // 4)
        gc.collect()
        blocks, resident = sys.getallocatedblocks(), _resident()
        _many(function, n, times)
        gc.collect()
        blocks, resident = sys.getallocatedblocks() - blocks, _resident() - resident
        if blocks > 300 or resident > 4 << 20:
            grown.append((function.__name__, blocks, resident))
    return grown


def memory_is_flat():
    return _grown(1)


def memory_is_flat_over_millions_of_calls():
    return _grown(12)


def memory_of_threads_is_flat():
    def work():
        _many(_recursion, 200, 3)
        _many(_generators, 1, 5)
        _many(_exceptions, 1, 5)

    def threads():
        for _ in range(40):
            made = [threading.Thread(target=work) for _ in range(4)]
            for thread in made:
                thread.start()
            for thread in made:
                thread.join()

    threads()
    gc.collect()
    blocks, resident = sys.getallocatedblocks(), _resident()
    threads()
    threads()
    gc.collect()
    blocks, resident = sys.getallocatedblocks() - blocks, _resident() - resident
    return [] if blocks < 300 and resident < 4 << 20 else [blocks, resident]
