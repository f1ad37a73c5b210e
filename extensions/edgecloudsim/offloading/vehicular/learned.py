"""The networks of the policy `ai-based`: per option one for success and one for the service time.

Each has one hidden layer of `HIDDEN` tanh units over the standardised features of the option. The
first answers with the log-odds of success, the second with the logarithm of the service time in s.
`learned.csv` beside this file holds the weights, a line per option; the module `learn` makes it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.memory import real
from cosim.extensions.edgecloudsim.offloading.vehicular.observed import FEATURES, OPTIONS

INPUTS: Final = len(FEATURES)
HIDDEN: Final = 8
ANSWERS: Final = 2  # success, service
SURE: Final = math.log(0.95 / 0.05)  # log-odds from which success is predicted
# Of one option: mean and 1 / standard deviation per input; per answer hidden weights (HIDDEN, INPUTS),
# hidden biases, weights of the output, its bias.
_OF_ANSWER: Final = HIDDEN * INPUTS + HIDDEN + HIDDEN + 1
_OF_OPTION: Final = 2 * INPUTS + ANSWERS * _OF_ANSWER
SHAPE: Final = (OPTIONS, _OF_OPTION)
FILE: Final = Path(__file__).with_name("learned.csv")


def load(file: Path = FILE) -> NDArray[np.float64]:
    """The weights, of `SHAPE`."""
    weights = np.loadtxt(file, delimiter=",", ndmin=2)
    if weights.shape != SHAPE:
        raise ValueError(f"{file}: expected weights of shape {SHAPE}, found {weights.shape}")
    return weights


@jit
def answer(s: Record, option: int, which: int) -> float:
    """The output of one of the option's networks for the features in `s.features`."""
    base = option * _OF_OPTION
    at = base + 2 * INPUTS + which * _OF_ANSWER
    total = real(s.weights, at + _OF_ANSWER - 1).v
    for h in range(HIDDEN):
        inner = real(s.weights, at + HIDDEN * INPUTS + h).v
        for k in range(INPUTS):
            z = (real(s.features, option * INPUTS + k).v - real(s.weights, base + k).v) * real(
                s.weights, base + INPUTS + k
            ).v
            inner += real(s.weights, at + h * INPUTS + k).v * z
        total += real(s.weights, at + HIDDEN * INPUTS + HIDDEN + h).v * math.tanh(inner)
    return float(total)
