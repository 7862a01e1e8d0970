"""Numbers: primes, Collatz, checksums, polynomials, fractals, contour integrals, roots."""

import zlib

import numpy as np

from .table import kernel


def up_to(random, n):
    return (n,)


def primes_by_division(n):
    return np.array([p for p in range(2, n + 1) if all(p % d for d in range(2, int(p**0.5) + 1))])


@kernel(up_to, 50, 3_000_000, 15_000_000, 60_000_000, reference=primes_by_division, numba=True)
def sieve(n):
    is_prime = np.ones(n + 1, dtype=np.bool_)
    is_prime[:2] = False
    for p in range(2, int(n**0.5) + 1):
        if is_prime[p]:
            is_prime[p * p :: p] = False
    return np.nonzero(is_prime)[0]


def sieve_by_ranges(n):
    """For Numba: what 0.68 makes of the `while` below dies of it."""
    composite = np.zeros(n + 1, dtype=np.uint8)
    count = 0
    for i in range(2, n + 1):
        if composite[i] == 0:
            count += 1
            for j in range(i * i, n + 1, i):
                composite[j] = 1
    return count


@kernel(
    *(up_to, 60, 30_000, 300_000, 2_500_000),
    reference=lambda n: len(primes_by_division(n)),
    numba=sieve_by_ranges,
)
def sieve_elements(n):
    composite = np.zeros(n + 1, dtype=np.uint8)
    count = 0
    for i in range(2, n + 1):
        if composite[i] == 0:
            count += 1
            j = i * i
            while j <= n:
                composite[j] = 1
                j += i
    return count


def collatz_by_dict(n):
    known = {1: 0}
    for start in range(2, n):
        way, number = [], start
        while number not in known:
            way.append(number)
            number = 3 * number + 1 if number % 2 else number // 2
        for steps, passed in enumerate(reversed(way), known[number] + 1):
            known[passed] = steps
    longest = max(range(1, n), key=known.__getitem__)
    return longest, known[longest]


@kernel(up_to, 20, 1500, 12_000, 90_000, reference=collatz_by_dict, numba=True)
def collatz(n):
    best = 1
    longest = 0
    for start in range(1, n):
        number = start
        steps = 0
        while number != 1:
            if number % 2 == 0:
                number = number // 2
            else:
                number = 3 * number + 1
            steps += 1
        if steps > longest:
            longest = steps
            best = start
    return best, longest


def some_bytes(random, n):
    return (random.integers(0, 256, n, dtype=np.uint8),)


@kernel(some_bytes, 6, 8000, 80_000, 800_000, reference=lambda data: zlib.crc32(data.tobytes()))
def crc32(data):
    """Bit by bit, in Python's integers."""
    crc = 0xFFFFFFFF
    for byte in data.tolist():
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0xEDB88320 if crc & 1 else crc >> 1
    return crc ^ 0xFFFFFFFF


def bytes_and_table(random, n):
    entries = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        entries = np.where(entries & 1, (entries >> 1) ^ np.uint32(0xEDB88320), entries >> 1)
    return random.integers(0, 256, n, dtype=np.uint8), entries.astype(np.uint32)


@kernel(bytes_and_table, 9, 20_000, 200_000, 2_000_000, reference=lambda data, table: zlib.crc32(data.tobytes()))
def crc32_by_table(data, table):
    crc = np.uint32(0xFFFFFFFF)
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ np.uint32(0xFFFFFFFF)


def polynomial(random, degree, n):
    return random.random(degree + 1) - 0.5, 2.0 * random.random(n) - 1.0


@kernel(polynomial, (4, 6), (300, 30_000), (400, 150_000), (800, 600_000), reference=np.polyval, numba=True)
def horner(coefficients, x):
    result = np.zeros_like(x)
    for c in coefficients:
        result = result * x + c
    return result


@kernel(polynomial, (3, 5), (30, 1500), (40, 10_000), (50, 80_000), reference=np.polyval, numba=True)
def horner_elements(coefficients, x):
    result = np.empty(x.size)
    for i in range(x.size):
        total = 0.0
        for k in range(coefficients.size):
            total = total * x[i] + coefficients[k]
        result[i] = total
    return result


def plane(random, height, width, most):
    return np.linspace(-2.0, 0.6, width), np.linspace(-1.2, 1.2, height), most


def escape_times(xs, ys, most):
    counts = np.full((len(ys), len(xs)), most)
    for place in np.ndindex(counts.shape):
        c, z = complex(xs[place[1]], ys[place[0]]), 0j
        for n in range(most):
            if z.real**2 + z.imag**2 > 4.0:
                counts[place] = n
                break
            z = z * z + c
    return counts


@kernel(plane, (3, 5, 12), (25, 32, 60), (65, 85, 80), (170, 220, 130), reference=escape_times, numba=True)
def mandelbrot_elements(xs, ys, most):
    counts = np.zeros((len(ys), len(xs)), dtype=np.int64)
    for i in range(len(ys)):
        for j in range(len(xs)):
            x = 0.0
            y = 0.0
            n = 0
            while x * x + y * y <= 4.0 and n < most:
                x, y = x * x - y * y + xs[j], 2.0 * x * y + ys[i]
                n += 1
            counts[i, j] = n
    return counts


@kernel(
    *(plane, (4, 5, 12), (100, 140, 80), (280, 360, 120), (600, 780, 200)),
    reference=escape_times,
    numba=mandelbrot_elements,
)
def mandelbrot(xs, ys, most):
    """All points at once; those that have escaped are left out by a mask."""
    c = xs + ys[:, None] * 1j
    z = np.zeros_like(c)
    counts = np.full(c.shape, most)
    inside = np.ones(c.shape, dtype=bool)
    for n in range(most):
        escaped = inside & (z.real**2 + z.imag**2 > 4.0)
        counts[escaped] = n
        inside &= ~escaped
        z[inside] = z[inside] * z[inside] + c[inside]
    return counts


def julia_points(random, n, most):
    x = np.linspace(-1.5, 1.5, n)
    return x + 1j * x[:, None], complex(-0.7, 0.27), most


def last_inside(z, c, most):
    counts = np.zeros(z.shape, dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        for n in range(most):
            counts[np.abs(z) <= 2.0] = n
            z = np.where(np.abs(z) <= 2.0, z * z + c, z)
    return counts


@kernel(julia_points, (4, 6), (35, 60), (115, 80), (280, 150), reference=last_inside)
def julia(z, c, most):
    """With complex scalars."""
    counts = np.zeros(z.shape, dtype=np.int64)
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            value = z[i, j]
            for n in range(most):
                if abs(value) > 2.0:
                    break
                value = value * value + c
                counts[i, j] = n
    return counts


def matrices_of_energy(random, points, n):
    A = random.random((n, n)) + 1j * random.random((n, n))
    return A / np.sqrt(n), random.random((n, 2)), points, 3.0


def resolvent_in_one_call(A, b, points, radius):
    z = radius * np.exp(2j * np.pi * (np.arange(points) + 0.5) / points)
    solved = np.linalg.solve(z[:, None, None] * np.eye(len(A)) - A, np.broadcast_to(b, (points, *b.shape)))
    return np.einsum("p,pij->ij", z / points, solved), np.einsum("p,pij->ij", z**2 / points, solved)


@kernel(
    *(matrices_of_energy, (3, 3), (250, 24), (700, 50), (1500, 110)),
    reference=resolvent_in_one_call,
    elementary=True,
)
def contour_integral(A, b, points, radius):
    """Moments of a resolvent on a circle."""
    P0 = np.zeros(b.shape, dtype=np.complex128)
    P1 = np.zeros(b.shape, dtype=np.complex128)
    for k in range(points):
        z = radius * np.exp(2j * np.pi * (k + 0.5) / points)
        X = np.linalg.solve(z * np.eye(A.shape[0]) - A, b)
        P0 += z / points * X
        P1 += z * z / points * X
    return P0, P1


def around_the_origin(random, points):
    return points, 1.5, random.random(5) + 1j * random.random(5)


@kernel(
    *(around_the_origin, 9, 2200, 22_000, 220_000),
    reference=lambda points, radius, c: c[0] * 2j * np.pi,
    elementary=True,
)
def residue(points, radius, coefficients):
    """The integral of p(z) / z around the origin, one point after the other."""
    total = 0j
    previous = radius + 0j
    for k in range(1, points + 1):
        angle = 2.0 * np.pi * k / points
        point = complex(radius * np.cos(angle), radius * np.sin(angle))
        middle = 0.5 * (previous + point)
        middle *= radius / abs(middle)
        value = 0j
        for c in coefficients[::-1]:
            value = value * middle + c
        total += value / middle * (point - previous)
        previous = point
    return total * (np.pi / points) / np.sin(np.pi / points)


def positive_numbers(random, n):
    return (1e3 * random.random(n) + 1.0,)


@kernel(positive_numbers, 5, 2000, 20_000, 200_000, reference=np.sqrt, numba=True)
def newton_roots(x):
    roots = np.empty_like(x)
    for i in range(len(x)):
        guess = x[i]
        for _ in range(50):
            better = 0.5 * (guess + x[i] / guess)
            if abs(better - guess) <= 1e-12 * better:
                break
            guess = better
        roots[i] = better
    return roots


def table_side(random, n):
    return random.integers(1, 10_000, n), random.integers(1, 10_000, n)


@kernel(table_side, 4, 90, 280, 900, reference=np.gcd.outer, numba=True)
def greatest_divisors(a, b):
    result = np.zeros((a.size, b.size), dtype=np.int64)
    for i in range(a.size):
        for j in range(b.size):
            x, y = a[i], b[j]
            while y != 0:
                x, y = y, x % y
            result[i, j] = x
    return result


def whole_numbers(random, n):
    return (random.integers(0, 2**62, n),)


@kernel(whole_numbers, 5, 700, 7000, 70_000, reference=np.bitwise_count, numba=True)
def set_bits(numbers):
    counts = np.zeros(numbers.size, dtype=np.uint8)
    for i in range(numbers.size):
        rest = int(numbers[i])
        while rest:
            rest &= rest - 1
            counts[i] += 1
    return counts
