"""Ant colony optimisation on demands that an LSTM forecasts."""

from __future__ import annotations

from functools import partial

from cosim.extensions.metanet.catalogue.aco.decide import Ants
from cosim.extensions.metanet.catalogue.aco_lstm.model import forecast
from cosim.extensions.metanet.catalogue.networks import stored
from cosim.schedulers.state import decides


@decides("interval")
class AntsLstm(Ants):
    """LSTM + ACO of MetaNet's comparison: as `aco`, with a network's forecast of the demands.

    One network of ten LSTM units (Hochreiter and Schmidhuber 1997) serves all containers: it sees the last demands of
    one and predicts the next. On series that it was not trained on, its error is smaller than that of ARIMA and of
    the last value.
    """

    def __init__(self) -> None:
        super().__init__(forecast=partial(forecast, stored("aco_lstm")))
