"""A Gaussian process whose noise depends on the input: the surrogate of the method HGP+ES.

K. Kersting, C. Plagemann, P. Pfaff, W. Burgard, "Most likely heteroscedastic Gaussian process regression",
ICML 2007: a first process with constant noise gives residuals, a second one over their logarithm gives the
noise at each point, a third one is fitted with that noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cosim.compiled.compiling import entry
from cosim.contract.records import Floats

MOST = 400  # rows; more are thinned evenly, because the cost grows with their cube
_TRIALS = 40  # hyperparameter vectors tried
_JITTER = 1e-6


# Cholesky factors and triangular systems are on one thread: the threads of a linear algebra library cost these small
# systems more than they gain, and on a machine with other work they wait for one another; and its sums depend on how
# many there are.
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


class HeteroscedasticProcess:
    """Regression (n, e) -> (n, q), all outputs under one squared-exponential kernel and one noise per row.

    Length scales per input and the constant noise maximise the marginal likelihood over `_TRIALS`
    vectors drawn with `seed`, refined around the best.
    """

    def __init__(self, inputs: ArrayLike, outputs: ArrayLike, *, seed: int = 1) -> None:
        x, y = np.atleast_2d(np.asarray(inputs, np.float64)), np.atleast_2d(np.asarray(outputs, np.float64))
        if len(x) > MOST:
            kept = np.linspace(0, len(x) - 1, MOST).round().astype(np.int64)
            x, y = x[kept], y[kept]
        self._x = x
        self._mean, self._sd = y.mean(axis=0), np.maximum(y.std(axis=0), 1e-9)
        z = (y - self._mean) / self._sd
        random = np.random.default_rng(np.random.SeedSequence([seed, 0x4847]))
        self._scales, noise = _chosen(x, z, random)
        first = _posterior(_kernel(x, x, self._scales), np.full(len(x), noise), z)
        # The residual of a row is that of leaving it out, so that a process that follows every row has some.
        inverse = (solve(first[0], np.eye(len(x))) ** 2).sum(axis=0)  # its diagonal
        residual = (first[1] / inverse[:, None]) ** 2
        log_noise = np.log(np.maximum(residual.mean(axis=1), 1e-8))
        self._level = float(log_noise.mean())
        wide = 2.0 * self._scales
        second = _posterior(_kernel(x, x, wide), np.full(len(x), 1.0), (log_noise - self._level)[:, None])
        self._second, self._wide = second[1], wide
        _, self._alpha = _posterior(_kernel(x, x, self._scales), self._noise(x), z)

    def _noise(self, x: Floats) -> Floats:
        """(n,) variances of the noise in standardised outputs."""
        log = self._level + product(_kernel(x, self._x, self._wide), self._second)[:, 0]
        return np.asarray(np.exp(np.clip(log, -18.0, 4.0)), np.float64)

    def predict(self, inputs: ArrayLike) -> Floats:
        """(n, q) means."""
        x = np.atleast_2d(np.asarray(inputs, np.float64))
        said = product(_kernel(x, self._x, self._scales), self._alpha)
        return np.asarray(self._mean + self._sd * said, np.float64)


def _kernel(a: Floats, b: Floats, scales: Floats) -> Floats:
    """(n, m) squared-exponential covariances with unit variance."""
    a, b = a / scales, b / scales
    square = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2.0 * product(a, b.T)
    return np.asarray(np.exp(-0.5 * np.maximum(square, 0.0)), np.float64)


def _posterior(kernel: Floats, noise: Floats, z: Floats) -> tuple[Floats, Floats]:
    """The Cholesky factor of covariance plus noise, and the weights of the rows (n, q)."""
    lower = cholesky(kernel + np.diag(noise + _JITTER))
    return lower, solve(lower, solve(lower, z), transposed=True)


def _chosen(x: Floats, z: Floats, random: np.random.Generator) -> tuple[Floats, float]:
    """Length scales (e,) and the variance of the noise with the highest marginal likelihood of the trials."""
    thin = slice(None, None, max(1, len(x) // 200))
    x, z = x[thin], z[thin]

    def likelihood(log: Floats) -> float:
        lower, alpha = _posterior(_kernel(x, x, np.exp(log[:-1])), np.full(len(x), np.exp(log[-1])), z)
        return float(-0.5 * (z * alpha).sum() - z.shape[1] * np.log(np.diag(lower)).sum())

    best = np.concatenate([np.zeros(x.shape[1]), [np.log(0.1)]])
    most = likelihood(best)
    for k in range(_TRIALS):
        spread = 1.0 if k < _TRIALS // 2 else 0.3
        log = best + spread * random.standard_normal(len(best))
        log[:-1], log[-1] = np.clip(log[:-1], np.log(0.05), np.log(20.0)), np.clip(log[-1], np.log(1e-4), 0.0)
        found = likelihood(log)
        if found > most:
            best, most = log, found
    return np.exp(best[:-1]), float(np.exp(best[-1]))
