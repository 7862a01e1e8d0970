"""A call's arguments are the callee's alone while it runs, so what it deletes is released, and its variables in their order."""


def f(p, *t, q=None, **u):
    note(1)
    del p
    note(2)
    e = Token(0)
    t = u = q = None
    note(3)


class C:
    m = f


f(Token(2), None)
f(Token(3), q=Token(4))
f(Token(5), Token(6), Token(7), z=Token(8))
C().m(Token(9))
bound = C().m
bound(Token(10), q=Token(11))
f(*(Token(12),))
f(*(Token(13), Token(14)), **{'q': Token(15), 'z': Token(16)})
