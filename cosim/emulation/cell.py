"""A 4G or 5G interface as a star: every device has one link up to a gateway and one down from it.

What the links are like comes from a cell model, in rows of the signal `link`. The gateway stands for the network behind
the base stations: it is the next hop of all devices, and so between two devices there is no link of their own. Which
cell serves a device shows in its rows only; a handover changes figures, not the topology.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.emulation.state import DOWN, LinkState

COLUMNS = ("cell", "rsrp", "uplink_rate", "downlink_rate", "delay", "loss")

States = dict[tuple[str, str, str], LinkState]


class Star:
    """The links between `gateway` and devices on `interface`.

    `backhaul` (s, one way) lies between base stations and gateway and is added to the delay of the rows.
    """

    def __init__(self, gateway: str, interface: str = "lte0", backhaul: float = 0.0) -> None:
        if not 0 <= backhaul < math.inf:
            raise ValueError(f"a backhaul of {backhaul} s; it must be 0 or more")
        self._gateway, self._interface, self._backhaul = gateway, interface, backhaul
        self._states: States = {}

    def update(self, devices: Sequence[str], rows: Mapping[str, NDArray[np.generic]]) -> States:
        """The states that `rows` change: (sender, receiver, interface) -> state, for a backend's `links`.

        `rows` has the arrays of `COLUMNS`, each as long as `devices`: cell (-1: no coverage), rsrp in dBm, rates in
        bit/s, delay in s (one way), loss as a fraction. Devices without a row are down from now on. Raises `ValueError`
        for arrays that are missing or too short or long, and for figures that no link can have.
        """
        columns = [self._column(rows, name, len(devices)) for name in COLUMNS]
        new: States = dict.fromkeys(self._states, DOWN)
        for device, cell, rsrp, up, down, delay, loss in zip(devices, *columns, strict=True):
            served = cell >= 0
            if served and not (up >= 0 and down >= 0 and 0 <= delay < math.inf and 0 <= loss <= 1):
                raise ValueError(f"no link of {device}: rates {up}, {down} bit/s, delay {delay} s, loss {loss}")
            for sender, receiver, rate in ((device, self._gateway, up), (self._gateway, device, down)):
                state = LinkState(rate, delay + self._backhaul, 0.0, loss, rsrp)
                if not served or rate == 0 or loss == 1:
                    state = DOWN._replace(rssi=rsrp)
                new[sender, receiver, self._interface] = state
        changed = {pair: state for pair, state in new.items() if not _same(state, self._states.get(pair))}
        self._states = new
        return changed

    def _column(self, rows: Mapping[str, NDArray[np.generic]], name: str, count: int) -> list[float]:
        if name not in rows:
            raise ValueError(f"link rows have no column {name}")
        values = np.asarray(rows[name], np.float64)
        if values.shape != (count,):
            raise ValueError(f"column {name} has the shape {values.shape}, there are {count} devices")
        return [float(value) for value in values]


def _same(a: LinkState, b: LinkState | None) -> bool:
    """Whether all that is imposed is equal."""
    return b is not None and a[:4] == b[:4]
