"""Greenlets: C stacks that are switched in the middle of evaluated frames."""

import collections
import gc
import sys
import threading
import traceback

import greenlet


def generators_of_greenlets():
    """Each greenlet has frames of its own, in loops, with blocks, generators and handlers."""
    found = []

    def generator(n):
        try:
            for i in range(n):
                greenlet.getcurrent().parent.switch(i)
                yield i
        finally:
            found.append("closed")

    class Manager:
        def __enter__(self):
            greenlet.getcurrent().parent.switch("enter")

        def __exit__(self, *error):
            greenlet.getcurrent().parent.switch("exit")
            return True

    def body(which):
        total = 0
        with Manager():
            for x in generator(4):
                total += x
                try:
                    raise ValueError(x)
                except ValueError as error:
                    greenlet.getcurrent().parent.switch(error.args)
                    assert sys.exc_info()[1] is error
            raise KeyError(which)
        return which, total, sorted(range(3), key=lambda x: greenlet.getcurrent().parent.switch(x) or -x)

    for _ in range(3):
        running = [greenlet.greenlet(body) for _ in range(8)]
        for which, each in enumerate(running):
            found.append(each.switch(which))
        while running:
            for each in list(running):
                found.append(each.switch())
                if each.dead:
                    running.remove(each)
    return found


def deep_switches():
    def deep(n):
        if n == 0:
            return greenlet.getcurrent().parent.switch("bottom")
        return deep(n - 1) + 1

    def through_c(n):
        return next(map(lambda k: through_c(k - 1) if k else greenlet.getcurrent().parent.switch("c"), [n]))

    found = []
    for _ in range(3):
        all_ = [greenlet.greenlet(deep) for _ in range(20)] + [greenlet.greenlet(through_c) for _ in range(5)]
        for n, each in enumerate(all_):
            found.append(each.switch(n * 10 % 70))
        gc.collect()
        for n, each in enumerate(all_):
            found.append(each.switch(n))
    return found


def greenlets_are_thrown_into_and_dropped():
    found = []

    def body():
        try:
            while True:
                try:
                    greenlet.getcurrent().parent.switch(1)
                except ValueError as error:
                    found.append(str(error))
        finally:
            found.append("left")

    for _ in range(5):
        each = greenlet.greenlet(body)
        each.switch()
        found.append(each.throw(ValueError("thrown")))
        if _ % 2:
            each.throw(greenlet.GreenletExit)
        del each
        gc.collect()

    def fails(n):
        return n and fails(n - 1) or 1 / 0

    try:
        greenlet.greenlet(fails).switch(5)
    except ZeroDivisionError as error:
        found.append(len(traceback.extract_tb(error.__traceback__)))
    return found


def frames_of_others_are_seen():
    def body(n):
        local = [n]
        return n and body(n - 1) or greenlet.getcurrent().parent.switch(local)

    each = greenlet.greenlet(body)
    each.switch(5)
    names, frame = [], each.gr_frame
    while frame:
        names.append((frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno, frame.f_locals.get("n")))
        frame = frame.f_back
    each.switch()
    return names


def recursion_ends_in_each():
    def endless(n):
        return endless(n + 1)

    def body():
        try:
            endless(0)
        except RecursionError as error:
            greenlet.getcurrent().parent.switch(str(error))
        return "goes on"

    all_ = [greenlet.greenlet(body) for _ in range(5)]
    return [each.switch() for each in all_] + [each.switch() for each in all_]


def tracers_in_greenlets():
    events = collections.Counter()

    def tracer(frame, event, argument):
        if frame.f_code is body.__code__:
            events[event] += 1
        return tracer

    def body(n):
        for i in range(n):
            greenlet.getcurrent().parent.switch(i)
        return n

    found = []
    first, second = greenlet.greenlet(body), greenlet.greenlet(body)
    found += [first.switch(3), second.switch(3)]
    sys.settrace(tracer)
    found += [first.switch(), second.switch()]
    sys.settrace(None)
    found += [first.switch(), second.switch(), first.switch(), second.switch()]
    return found


def greenlets_in_threads():
    found = []

    def body(n):
        total = 0
        for i in range(n):
            total += greenlet.getcurrent().parent.switch(i)
        return total

    def work():
        all_ = [greenlet.greenlet(body) for _ in range(10)]
        for each in all_:
            each.switch(20)
        while not all(each.dead for each in all_):
            for each in all_:
                if not each.dead:
                    last = each.switch(1)
        found.append(last)

    threads = [threading.Thread(target=work) for _ in range(8)]
    sys.setswitchinterval(1e-6)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def evaluation_comes_and_goes(evaluate):
    def body(n):
        total = 0
        for i in range(n):
            total += greenlet.getcurrent().parent.switch(i) + sum(x for x in range(2))
        return total

    all_ = [greenlet.greenlet(body) for _ in range(10)]
    found = []
    for n, each in enumerate(all_):
        evaluate(n % 2 == 0)
        found.append(each.switch(10))
    for turn in range(10):
        for n, each in enumerate(all_):
            evaluate((n + turn) % 3 == 0)
            found.append(each.switch(turn))
    evaluate(True)
    return found
