"""Predictors of the mean and peak utilisation of virtual machines over the next periods.

A `Predictor` is asked once per period with the utilisation of every VM so far and returns the mean and the peak of
each over the coming `HORIZON` periods, and its remaining life if it can predict it. `LastValue`, `LocalRegression`
and `Oracle` need no training; `TrainedNetwork` runs weights in numpy: `TrainedNetwork.shipped("gru-attention")` or
`"lstm"`. `cosim.extensions.extcloudsim.predict.train` makes such weights, and is the only part that needs torch.
"""

from cosim.extensions.extcloudsim.predict.predictors import (
    LastValue,
    LocalRegression,
    Oracle,
    Predictor,
    TrainedNetwork,
    VmPrediction,
)
from cosim.extensions.extcloudsim.predict.samples import HORIZON, WINDOW, future, recent

__all__ = [
    "HORIZON",
    "WINDOW",
    "LastValue",
    "LocalRegression",
    "Oracle",
    "Predictor",
    "TrainedNetwork",
    "VmPrediction",
    "future",
    "recent",
]
