"""A call made by a frame that a profiler has gives its arguments away, so they are released with the variables, in their order."""

a, b, c, d, e = (1, 2, 1, None, None)

def f3(p, q):
    e = Token()
    watch('profile')
f3(b, c)
f3(Token(3), None)
