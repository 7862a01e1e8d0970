"""Factorisations of matrices, and solving systems."""

import jax.numpy as jnp
from jax import lax
from jax.scipy import linalg

from . import version


@version("cholesky", changed=(0,))
def cholesky(A):
    return None, jnp.triu(A, 1) + jnp.linalg.cholesky(A)


@version("cholesky_elements")
def cholesky_elements(A):
    return jnp.linalg.cholesky(A)


@version("lu", changed=(0,))
def lu(A):
    """Without pivots."""
    places = jnp.arange(len(A))

    def step(k, A):
        below = jnp.where(places > k, A[:, k] / A[k, k], 0.0)
        A = A - jnp.outer(below, jnp.where(places > k, A[k], 0.0))
        return A.at[:, k].set(jnp.where(places > k, below, A[:, k]))

    return None, lax.fori_loop(0, len(A), step, A)


@version("lu_pivoted")
def lu_pivoted(A):
    packed, _, order = lax.linalg.lu(A)
    place = jnp.zeros(len(A), int).at[order].set(jnp.arange(len(A)))
    return place, jnp.tril(packed, -1) + jnp.eye(len(A)), jnp.triu(packed)


@version("lu_solve_elements", changed=(0,))
def lu_solve(A, b):
    factors = lu(A)[1]
    y = linalg.solve_triangular(factors, b, lower=True, unit_diagonal=True)
    return linalg.solve_triangular(factors, y), factors


@version("forward_substitution")
def forward_substitution(L, b):
    return linalg.solve_triangular(L, b, lower=True)


@version("back_substitution")
def back_substitution(U, b):
    return linalg.solve_triangular(U, b)


def qr(A):
    Q, R = jnp.linalg.qr(A)
    signs = jnp.sign(jnp.diagonal(R))
    return Q * signs, R * signs[:, None]


@version("gram_schmidt")
def gram_schmidt(A):
    return qr(A)


@version("householder")
def householder(A):
    return qr(A)[1]


@version("jacobi_eigenvalues")
def eigenvalues(A):
    return jnp.linalg.eigvalsh(A + A.T)


@version("thomas")
def thomas(lower, diagonal, upper, right):
    return lax.linalg.tridiagonal_solve(lower.at[0].set(0.0), diagonal, upper.at[-1].set(0.0), right[:, None])[:, 0]


@version("gauss_jordan")
def gauss_jordan(A):
    return jnp.linalg.inv(A)


@version("gauss_seidel")
def gauss_seidel(A, b):
    lower, upper = jnp.tril(A), jnp.triu(A, 1)

    def goes_on(state):
        _, change, count = state
        return (change >= 1e-13) & (count < 200)

    def step(state):
        x, _, count = state
        new = linalg.solve_triangular(lower, b - upper @ x, lower=True)
        return new, jnp.max(jnp.abs(new - x)), count + 1

    return lax.while_loop(goes_on, step, (jnp.zeros_like(b), jnp.inf, 0))[0]
