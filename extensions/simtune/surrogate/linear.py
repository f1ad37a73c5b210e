"""Cholesky factors and triangular systems on one thread.

The threads of a linear algebra library cost these small systems more than they gain, and on a machine
with other work they wait for one another; and its sums depend on how many there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry

Floats = NDArray[np.float64]


@entry()
def _factored(a: Floats) -> None:
    """The lower factor in the place of a symmetric positive definite matrix; NaN when it is not."""
    n = len(a)
    for j in range(n):
        for i in range(j, n):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = np.sqrt(total) if i == j else total / a[j, j]
        for i in range(j):
            a[i, j] = 0.0


@entry()
def _solved(lower: Floats, z: Floats, transposed: bool) -> None:
    """lower x = z, or lower^T x = z, in the place of z (n, q)."""
    n, q = z.shape
    for step in range(n):
        i = n - 1 - step if transposed else step
        first, last = (i + 1, n) if transposed else (0, i)
        for k in range(first, last):
            factor = lower[k, i] if transposed else lower[i, k]
            for c in range(q):
                z[i, c] -= factor * z[k, c]
        for c in range(q):
            z[i, c] /= lower[i, i]


def cholesky(matrix: Floats) -> Floats:
    """(n, n) lower factor. Raises `ValueError` when `matrix` is not positive definite."""
    lower = np.array(matrix, np.float64, order="C")
    _factored(lower)
    if not np.isfinite(np.diag(lower)).all():
        raise ValueError("the matrix is not positive definite")
    return lower


def solve(lower: Floats, right: Floats, *, transposed: bool = False) -> Floats:
    """(n, q) x with lower x = right, or with its transpose."""
    z = np.array(right, np.float64, order="C")
    _solved(lower, z, transposed)
    return z


def product(a: Floats, b: Floats) -> Floats:
    """a (n, m) times b (m, q)."""
    return np.asarray(np.einsum("nm,mq->nq", a, b, optimize=False), np.float64)
