"""Searches for the point of the unit cube with the least loss.

All of them ask for the losses of many points at once, under a `Meter` that counts runs and time and
remembers the best points: `regression`, `cma_es`, `bayesian` (losses) and `least_squares`
(residuals). Noise in the losses is allowed, in the residuals of least squares it is not.
"""

from cosim.twin.search.bayesian import bayesian
from cosim.twin.search.cma import cma_es
from cosim.twin.search.least_squares import least_squares
from cosim.twin.search.meter import Budget, Meter, Progress, SearchResult
from cosim.twin.search.regression import regression

__all__ = ["Budget", "Meter", "Progress", "SearchResult", "bayesian", "cma_es", "least_squares", "regression"]
