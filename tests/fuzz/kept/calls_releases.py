"""Operands are released in the order in which they were pushed, whatever the instruction."""

class T(Token):

    def any(self, *others, **named):
        return None
    __add__ = __sub__ = __radd__ = __iadd__ = __call__ = __getitem__ = __setitem__ = __delitem__ = __lt__ = __neg__ = any
    __eq__ = any
    __hash__ = Token.__hash__

    def __contains__(self, other):
        return True

    def __format__(self, how):
        return 'F'

    def __setattr__(self, name, value):
        if name == 'name':
            object.__setattr__(self, name, value)


def both():
    note(1)
    T(1) + T(2)
    T(1) - 2
    1 + T(3)
    T(1) < T(2)
    T(1) == T(2)
    T(1) in T(2)
    T(1) is T(2)
    note(2)
    T(1)[T(2)]
    T(1)[T(2)] = T(3)
    del T(1)[T(2)]
    T(1)[T(2):T(3)]
    T(1)[T(2):T(3):T(4)]
    T(1)[T(2):T(3)] = T(4)
    T(1).x = T(2)
    note(3)
    T(1)(T(2), T(3))
    T(1)(T(2), k=T(3))
    T(1)(*(T(2), T(3)))
    T(1)(*(T(2), T(3)), **{'a': T(4), 'b': T(5)})
    T(1).any(T(2), T(3))
    T(1).any(T(2), k=T(3))
    note(4)
    [T(1), T(2)]
    (T(1), T(2))
    {T(1), T(2)}
    {T(1): T(2), T(3): T(4)}
    {'a': T(2), 'b': T(4)}
    slice(T(1), T(2))
    f'{T(1)}{T(2)}'
    note(5)
    isinstance(T(1), int)
    dict(a=T(1), b=T(2))
    getattr(T(1), 'x', T(2))
    min(3, 4, key=lambda p, q=T(1): p)
    [*[T(1), T(2)], *(T(3),)]
    {**{'a': T(1)}, **{'b': T(2)}}
    note(6)
    a, b = T(1), T(2)
    a, b = T(3), T(4)
    a, *b = [T(5), T(6), T(7)]
    a, b = b
    a = b = None
    for a in (T(1), T(2)):
        pass
    del a
    note(7)
    try:
        raise Fault(T(1)) from Fault(T(2))
    except Fault:
        pass
    try:
        T(1) * T(2)
    except TypeError:
        pass
    try:
        len(T(1), T(2))
    except TypeError:
        pass
    try:
        [T(1), T(2), 1 / 0]
    except ArithmeticError:
        pass
    try:
        T(1)[T(2)](T(3), 1 / 0)
    except ArithmeticError:
        pass
    note(8)
    lambda p=T(1), *, q=T(2): T(3)
    (lambda p=T(1), *, q=T(2): 0)()
    (lambda p, q: 0)(T(1), T(2))
    (lambda *p, **q: 0)(T(1), T(2), a=T(3), b=T(4))
    {T(1): 1, T(1): T(2)}
    [T(1) for T2 in (1, 2)]
    {1: T(1), 1: T(2)}
    {1: T(each) for each in (1, 2, 2)}
    note(9)
    match T(1):
        case T(name=2):
            pass
    match (T(1), T(2)):
        case (a, b):
            pass
    a = b = None
    match {'a': T(1), 'b': T(2)}:
        case {'a': a, **b}:
            pass
    a = b = None
    note(10)


for turn in range(12):
    both()
