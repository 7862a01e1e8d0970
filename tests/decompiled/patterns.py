"""match statements, written as the decompiler writes them."""


def values(x, A):
    match x:
        case 1 | 'one':
            y = 1
        case None:
            y = 2
        case True if A:
            y = 3
        case A.b | -1:
            y = 4
        case _:
            y = 5
    return y


def sequences(x, f):
    match x:
        case [a, b, *rest]:
            f(a, b, rest)
        case [a, *_, b]:
            f(a, b)
        case [1, _, *_]:
            f(1)
        case [_, _]:
            f(2)
        case []:
            f(3)
        case [*_]:
            f(4)
    f(5)


def mappings(x, f, A):
    match x:
        case {'a': 1, 'b': b, **rest}:
            f(b, rest)
        case {A.key: A.value}:
            f(1)
        case {**rest}:
            f(rest)
        case {}:
            f(2)
    f(3)


def instances(x, f, A):
    match x:
        case A(x=0, y=y):
            f(y)
        case A.B(1, [a, b] as c, key=_):
            f(a, b, c)
        case str() as s:
            f(s)
        case int() | float():
            f(1)
    f(2)


def alternatives(x, f):
    match x:
        case [[1, a] | [a, 2], 3 | 4 as b, 'c' | 'd' | 'e']:
            f(a, b)
        case {'k': [1 | 2, (3 as c) | (4 as c)]}:
            f(c)
    f(0)


def guards(x, f):
    match x:
        case a if a > 4:
            f(a)
        case b if not b:
            f(b)
        case int() if f():
            f(1)
        case c:
            f(c)
    f(0)


def in_loop(x, f):
    for y in x:
        match y:
            case str() | int():
                break
            case 'd' | 'c' | 'e':
                f(5)
            case _:
                f(y)
        f(x)
    return f


def of_several(x, y):
    match (x, y):
        case ['a' | 'b' as z, [1, -1]]:
            return z
        case {'a': int() as b}:
            return b
    return 3


def constant_guards(x, f):
    match x:
        case 1 if False:
            pass
        case [2, a] if False:
            pass
        case 3:
            f(3)
        case _:
            f(4)
    f(0)
