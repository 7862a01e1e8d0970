"""Expressions, one function each, written as the decompiler writes them."""


def operators(a, b):
    return (a + b) * -a ** b - ~a // b % (a << 1) @ b


def values(a, b, c):
    x = a and b or c
    y = a if b else c
    z = a < b < c
    return not x or (y, z, a not in b, a is not b)


def displays(a, b):
    return ([1, a], {a, b}, {'a': a, **b}, (*a, b), [*a, *b], {1: 2}, ())


def calls(f, a, b):
    f()
    f(a, key=b)
    f(*a, **b)
    f(a, *b, key=1, **b)
    return a.method(b).other


def comprehensions(rows):
    a = [x for x in rows if x]
    b = {x: y for x, y in rows}
    c = {x for row in rows for x in row if x}
    return (sum(x * 2 for x in a), b, c)


def strings(a, b):
    return f'{a}, {b!r} {a:>{b}} {{}} {a:.3f}'


def functions(a):
    def inner(x, /, y=1, *args, z: int=2, **kwargs) -> str:
        return x
    return lambda x, *, y=a: (x, y, inner)


def walrus(a):
    if (n := len(a)) > 3:
        print(n)
    return [(y := 1), y]


def slices(a, i):
    return (a[i], a[1:], a[:i], a[::2], a[1:2, i])


def generator(values):
    for value in values:
        got = yield value
        print(got)
    yield from values
    return 1


async def coroutine(f, values):
    await f()
    async for value in values:
        print(value)
    async with f as g:
        print(g)
    return [x async for x in values]


def complex_numbers(x):
    return (x + -1j, -2j ** x, (0 - 1j) * x, (1, -0j), 3j, -x - -1j)


def displays_of_conditions(a, b):
    f([1, *(() if a else (b,)), (2, 3)], *(), **({'a': 2} or {}), **{})
    return {1, *(a or b), 2}


def conditional_values(f, a, b, rows):
    f(a if a and b else 1)
    f(a if a or not b else 1)
    x = [a if x and b else x for x in rows]
    return (x, ''.join(c if c == b and c.a else '' for c in rows))


def assignments_in_comprehensions(f, rows):
    return [(y, z) for x in rows for y in [f(x)] if y for z in [y + 1]]


def displays_as_arguments(f, a, b):
    f(*(a, b))
    f(*(1, 2), a=b)
    f(*(a, b), *a)
    f(a, b, **f)
    f(*(a,), b=1)
    f(*a, b)
    class C(*(a, b)):
        pass
    return [*(a, b)]


def choices_as_operands(f, a, b):
    if f(a) is (True if f(b) else False if f(a) else None):
        f(a)
    return f in (a if a else b if b else f) and a


def texts_in_texts(f, a):
    f(f'''{', '.join(f"Load({x}).some('*')" for x in a)}''')
    return f'''{f("it's")}"{a}"s'''
