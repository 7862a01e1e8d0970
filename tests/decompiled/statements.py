"""Statements, one function each, written as the decompiler writes them."""


def branches(a, b):
    if a:
        return 1
    if b:
        print(b)
    else:
        print(a)
    return 2


def conditions(a, b, c):
    if a and b or c:
        print(1)
    if not (a or b):
        print(2)
    if a < b < c:
        print(3)
    if a is None or b is not None:
        print(4)


def loops(values):
    for value in values:
        if value:
            continue
        print(value)
    while values:
        values.pop()
    while True:
        print(values)
        if values:
            break


def search(values):
    for value in values:
        if value > 3:
            break
    else:
        value = None
    return value


def nested_loops(rows):
    for row in rows:
        for cell in row:
            if cell < 0:
                return cell
            if cell == 0:
                break
        print(row)


def while_else(n):
    while n > 0:
        n -= 1
        if n == 5:
            break
    else:
        print('none')
    return n


def assignments(a, b):
    a, b = b, a
    x = y = a
    (c, d), *rest = b
    a.name = x
    a[0] = y
    a[1:2] = rest
    a.count += 1
    a[c] *= d
    del a.name
    return x


def globals_and_nonlocals():
    global counter
    counter = 1
    total = 0
    def inner():
        nonlocal total
        total += 1
    return inner


def raising(a):
    if a == 1:
        raise ValueError(a)
    if a == 2:
        raise ValueError from a
    assert a
    assert a > 3, 'small'


def imports():
    import os
    import os.path
    import os.path as path
    import sys as system
    from os import getcwd, sep as separator
    return (os, path, system, getcwd, separator)


def doc(a):
    'What it does.'
    return a


def chained_tests(x, i, j):
    if 2 <= i <= 8:
        x.i = i
    if not 0 < i < j < 9:
        x.j = j
    while 1 < j <= i:
        j += 1
    return x


def unused_parts(rows):
    for (first, _, _) in rows:
        print(first)


def returns_from_inner_loop(rows):
    for row in rows:
        for value in row:
            if value:
                return True
    return False


def breaks_in_try_of_loop_with_else(lines, f):
    for line in lines:
        if line:
            try:
                f(line)
                break
            except ValueError:
                continue
    else:
        raise ValueError
    while lines:
        try:
            f(lines)
        except KeyError:
            lines = f()
        else:
            break
    else:
        lines = None
    f(lines)


def goes_on_where_it_says(rows, f):
    for row in rows:
        if not row.strip():
            continue
        f(row)
    for row in rows:
        if row is None:
            continue
        if f(row):
            f(1)
    for row in rows:
        if f:
            print(1)


def breaks_of_inner_loops(a, f):
    while True:
        for x in a:
            for y in f(x):
                if y:
                    break
            else:
                continue
            break
        else:
            break
        f(y)
    f(a)


def loop_of_one_turn(f, a):
    while a:
        for x in f:
            a(x)
            break
        else:
            return None


def break_among_choices(f, a):
    for x in a:
        if x:
            if f(x):
                f(1)
            elif f(a):
                f(2)
            else:
                break
            return x
        f(3)
    f(4)


def assertions_of_nothing(a, b):
    if a is False:
        assert False, 'x'
    if a in b:
        assert False
    return b
