"""Predictors of the mean and peak utilisation of virtual machines over the next periods.

A `Predictor` is asked once per period with the utilisation of every VM so far and returns the mean and the peak of
each over the coming `HORIZON` periods, and its remaining life if it can predict it. `LastValue`, `LocalRegression`
and `Oracle` need no training; `Network` runs trained weights in numpy: `Network.shipped("gru-attention")` or
`"lstm"`. `cosim.extensions.extcloudsim.predict.train` makes such weights, and is the only part that needs torch.
"""

from cosim.extensions.extcloudsim.predict.predictors import (
    LastValue,
    LocalRegression,
    Network,
    Oracle,
    Prediction,
    Predictor,
)
from cosim.extensions.extcloudsim.predict.samples import HORIZON, WINDOW, future, recent

__all__ = [
    "HORIZON",
    "WINDOW",
    "LastValue",
    "LocalRegression",
    "Network",
    "Oracle",
    "Prediction",
    "Predictor",
    "future",
    "recent",
]
