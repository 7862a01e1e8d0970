"""Products of matrices and vectors."""

import jax.numpy as jnp
from jax import lax, ops

from . import version


@version("gemm", "gemm_elements", changed=(2,))
def gemm(alpha, beta, C, A, B):
    return None, beta * C + alpha * A @ B


@version("two_products", changed=(5,))
def two_products(alpha, beta, A, B, C, D):
    return None, beta * D + alpha * A @ B @ C


@version("three_products")
def three_products(alpha, beta, A, B, C, D):
    return (A @ B) @ (C @ D)


@version("atax")
def atax(A, x, y):
    return A.T @ (A @ x)


@version("bicg")
def bicg(A, p, r):
    return r @ A, A @ p


@version("mvt", changed=(0, 1))
def mvt(x1, x2, y1, y2, A):
    return None, x1 + A @ y1, x2 + A.T @ y2


@version("gemver", changed=(2, 7, 8))
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A = A + jnp.outer(u1, v1) + jnp.outer(u2, v2)
    x = x + beta * y @ A + z
    return None, A, w + alpha * A @ x, x


@version("gesummv")
def gesummv(alpha, beta, A, B, x):
    return alpha * (A @ x) + beta * (B @ x)


@version("doitgen", changed=(0,))
def doitgen(A, C4):
    return None, A @ C4


@version("symm", changed=(2,))
def symm(alpha, beta, C, A, B):
    return None, beta * C + alpha * (jnp.tril(A) + jnp.tril(A, -1).T) @ B


def into_lower_triangle(C, full):
    return jnp.where(jnp.tri(len(C), dtype=bool), full, C)


@version("syrk", changed=(2,))
def syrk(alpha, beta, C, A, B):
    return None, into_lower_triangle(C, beta * C + alpha * A @ A.T)


@version("syr2k", changed=(2,))
def syr2k(alpha, beta, C, A, B):
    return None, into_lower_triangle(C, beta * C + alpha * (A @ B.T + B @ A.T))


@version("trmm", changed=(4,))
def trmm(alpha, beta, C, A, B):
    return None, alpha * (B + jnp.tril(A, -1).T @ B)


@version("sparse_rows", "sparse_elements")
def sparse(indptr, indices, data, x):
    count = indptr.size - 1
    rows = jnp.repeat(jnp.arange(count), jnp.diff(indptr), total_repeat_length=data.size)
    return ops.segment_sum(data * x[indices], rows, count, indices_are_sorted=True)


@version("conjugate_gradient")
def conjugate_gradient(A, b):
    def goes_on(state):
        *_, rr, steps = state
        return (rr > 1e-22 * b.size) & (steps < 10 * b.size)

    def step(state):
        x, r, p, rr, steps = state
        Ap = A @ p
        alpha = rr / (p @ Ap)
        x, r = x + alpha * p, r - alpha * Ap
        new = r @ r
        return x, r, r + (new / rr) * p, new, steps + 1

    return lax.while_loop(goes_on, step, (jnp.zeros_like(b), b, b, b @ b, 0))[0]


@version("power_iteration")
def power_iteration(A, b):
    def goes_on(state):
        _, before, value, count = state
        return (count < 500) & (jnp.abs(value - before) > 1e-14 * jnp.abs(value))

    def step(state):
        v, _, before, count = state
        w = A @ v
        return w / jnp.sqrt(w @ w), before, v @ w, count + 1

    start = b / jnp.sqrt(b @ b), jnp.inf, 0.0, 0
    return lax.while_loop(goes_on, step, start)[2]
