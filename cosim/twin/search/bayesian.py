"""Bayesian optimisation for simulations that take seconds: a Gaussian process proposes where to run next.

D. Jones, M. Schonlau, W. Welch, "Efficient global optimization of expensive black-box functions",
J. Global Optimization 13 (1998): expected improvement under a process with a Matern 5/2 kernel and a
length per parameter. Every proposal is simulated before it counts, and a process that cannot predict the
points left out of it (R2 below `CREDIBLE`) proposes nothing: then points are drawn around the best.
"""

from __future__ import annotations

import warnings

import numpy as np

from cosim.twin.search.cma import reflect
from cosim.twin.search.meter import CONVERGED, Floats, Meter, SearchResult

CREDIBLE = 0.3  # R2 below which a surrogate knows little


class Process:
    """A Gaussian process through points (n, d) and standardised losses (n,), of the greatest likelihood.

    `lengths` (d,) are of the kernel, `noise` is the variance of the losses' noise over that of the process.
    """

    def __init__(self, points: Floats, losses: Floats, random: np.random.Generator) -> None:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        smooth = ConstantKernel(1.0, (1e-3, 1e3)) * Matern(np.full(points.shape[1], 0.5), (0.03, 20.0), nu=2.5)
        process = GaussianProcessRegressor(
            smooth + WhiteKernel(1e-3, (1e-6, 1.6)), n_restarts_optimizer=2, random_state=int(random.integers(2**31))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: the loss does not follow it
            self._process = process.fit(points, losses)
        (scale, matern), white = (process.kernel_.k1.k1, process.kernel_.k1.k2), process.kernel_.k2
        self.lengths, self._white = np.atleast_1d(matern.length_scale), float(white.noise_level)
        self.noise = self._white / float(scale.constant_value)

    def predict(self, units: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation (n,) of the losses without noise."""
        mean, sd = self._process.predict(units, return_std=True)
        return mean, np.sqrt(np.maximum(sd**2 - self._white, 1e-12))

    @property
    def left_out_r2(self) -> float:
        """R2 of the prediction of every point from all others (Rasmussen and Williams 2006, equation 5.12)."""
        factor, losses = self._process.L_, self._process.y_train_
        errors = self._process.alpha_ / np.diag(np.linalg.inv(factor @ factor.T))
        return 1.0 - float((errors**2).sum()) / max(float(((losses - losses.mean()) ** 2).sum()), 1e-300)


def improvement(mean: Floats, sd: Floats, best: float) -> Floats:
    """Expected improvement on `best` of normal predictions."""
    from scipy.stats import norm

    z = (best - mean) / sd
    return np.asarray(sd * (z * norm.cdf(z) + norm.pdf(z)))


def bayesian(
    meter: Meter, first: Floats, random: np.random.Generator, *, at_once: int = 2, most: int = 400
) -> SearchResult:
    """Run `first` (n, d), then `at_once` proposals at a time until nothing more is to be expected.

    Losses are learned by their logarithm, as misfits span decades. The process keeps the `most` best
    points. Ends early when three proposals in succession promise less than 1 part in 10 000.
    """
    points, losses = np.asarray(first, np.float64), meter(np.asarray(first, np.float64))
    d, quiet = points.shape[1], 0
    while not meter.over:
        known = np.isfinite(losses)
        if known.sum() < d + 2:
            proposal = random.random((at_once, d))
        else:
            order = np.argsort(losses[known], kind="stable")[:most]
            kept, raw = points[known][order], losses[known][order]
            least = float(raw[0])
            logs = np.log(raw - min(0.0, least) + 1e-12)
            spread = float(logs.std()) or 1.0
            process = Process(kept, (logs - logs.mean()) / spread, random)
            if process.left_out_r2 < CREDIBLE:
                around = kept[random.integers(0, min(3, len(kept)), at_once)]
                proposal = reflect(around + 0.15 * random.standard_normal((at_once, d)))
            else:
                proposal, hope = _propose(process, kept[0], (logs[0] - logs.mean()) / spread, at_once, random)
                quiet = quiet + 1 if hope * spread < 1e-4 else 0
                if quiet == 3:
                    break
        points = np.concatenate([points, proposal])
        losses = np.concatenate([losses, meter(proposal)])
    return meter.found(points[0], meter.over or CONVERGED)


def _propose(
    process: Process, best_at: Floats, best: float, count: int, random: np.random.Generator
) -> tuple[Floats, float]:
    """`count` points of the greatest expected improvement, apart from each other, and the first one's."""
    d = len(best_at)
    scattered = [random.random((500, d))]
    scattered += [reflect(best_at + width * random.standard_normal((250, d))) for width in (0.2, 0.05, 0.01)]
    pool = np.concatenate(scattered)
    chosen: list[Floats] = []
    hope = 0.0
    for _ in range(count):
        gain = improvement(*process.predict(pool), best)
        for taken in chosen:  # a point beside one that runs already teaches little
            near = (((pool - taken) / (0.2 * process.lengths)) ** 2).sum(axis=1)
            gain = gain * (1.0 - np.exp(-near))
        top = int(np.argmax(gain))
        hope = hope or float(gain[top])
        chosen.append(pool[top])
    return np.stack(chosen), hope
