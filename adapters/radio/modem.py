"""From SINR to MCS, block errors and rate, in either direction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.config import RadioConfig
from cosim.adapters.radio.scenery import Stations
from cosim.contract.records import Floats
from cosim.physics.radio import nr
from cosim.physics.radio.adaptation import adapt, ladder

Ints = NDArray[np.int32]

_ROUNDS = 16  # blocks per step by which the outer loop moves on


@dataclass(frozen=True, slots=True)
class LinkCapacity:
    """How n links carry data in one direction."""

    cqi: NDArray[np.integer[Any]]  # that the choice was made from
    mcs: NDArray[np.integer[Any]]
    bler: Floats  # 1, of first transmissions
    loss: Floats  # 1, after retransmissions
    rate: Floats  # bit/s with the cell for oneself, 0 without a cell


class Modem:
    """One direction of all links; the outer loop's state is per slot."""

    def __init__(self, config: RadioConfig, stations: Stations, capacity: int, period: float, *, up: bool) -> None:
        self._config, self._stations = config, stations
        self._share = 1.0 - config.downlink_share if up else config.downlink_share
        self._overhead = nr.OVERHEAD_UPLINK if up else nr.OVERHEAD_DOWNLINK
        self._loop = config.link_adaptation == "outer-loop"
        self._plain = not self._loop and config.harq == "independent"
        self._need = nr.thresholds(nr.MCS_EFFICIENCY, config.implementation)
        self._steps = ladder(config.implementation)
        lowest = nr.thresholds(nr.CQI_EFFICIENCY, config.implementation)
        self._of_cqi = np.concatenate([[lowest[0] - 6.0], lowest])  # dB that a report stands for
        late = math.ceil(config.cqi_delay / period - 1e-9) if self._loop else 0
        self._reports = np.full((late + 1, capacity if self._loop else 0), np.nan)  # dB, a ring of steps
        self._offset = np.zeros(capacity if self._loop else 0)  # dB
        self._step = 0

    def forget(self, rows: Ints) -> None:
        """Reset these slots, which belong to other nodes now."""
        if self._loop:
            self._offset[rows] = 0.0
            self._reports[:, rows] = np.nan

    def carry(self, rows: Ints, cell: Ints, sinr: Floats) -> LinkCapacity:
        """What the links of `rows` (n,) at `cell` (n,) carry at `sinr` (n,) dB."""
        config = self._config
        reported = self._reported(rows, sinr)
        cqi = nr.cqi(reported, config.implementation)
        if self._plain:
            mcs = nr.mcs(cqi)
            errors = nr.bler(sinr, mcs, config.implementation, config.bler_slope)
            net = self._gross(mcs, cell) * (1.0 - errors) * (1.0 - config.background)
            return LinkCapacity(cqi, mcs, errors, nr.residual_loss(errors), np.where(cell >= 0, net, 0.0))
        offset = self._offset[rows] if self._loop else np.full(len(rows), 0.01)  # dB, for rounded efficiencies
        chosen: NDArray[np.int64] = nr.mcs(cqi).astype(np.int64)
        rounds = _ROUNDS if self._loop else 0
        errors, residual, sent = adapt(
            self._of_cqi[cqi], sinr, offset, self._steps, self._need, config.bler_slope, rounds, chosen
        )
        if self._loop:
            self._offset[rows] = np.where(cell >= 0, offset, 0.0)
        if config.harq == "independent":
            residual = nr.residual_loss(errors)
            net = self._gross(chosen, cell) * (1.0 - errors) * (1.0 - config.background)
        else:
            net = self._gross(chosen, cell) * (1.0 - residual) / sent * (1.0 - config.background)
        return LinkCapacity(cqi, chosen, errors, residual, np.where(cell >= 0, net, 0.0))

    def _gross(self, mcs: NDArray[np.integer[Any]], cell: Ints) -> Floats:
        config, stations = self._config, self._stations
        return nr.rate(mcs, stations.blocks[cell], self._share, self._overhead, config.layers, stations.spacing)

    def _reported(self, rows: Ints, sinr: Floats) -> Floats:
        """What the scheduler knows (n,) dB: the SINR of `cqi_delay` ago; the present one of a new device."""
        if len(self._reports) == 1:
            return sinr
        self._reports[self._step % len(self._reports), rows] = sinr
        self._step += 1
        old = self._reports[self._step % len(self._reports), rows]
        return np.where(np.isnan(old), sinr, old)
