"""What a device hears of single cells: distance, level and path loss."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.config import RadioConfig
from cosim.adapters.radio.scenery import Devices, Stations
from cosim.contract.frame import Array, Frame
from cosim.contract.records import Floats
from cosim.physics.radio import power

Ints = NDArray[np.int32]


class Levels:
    """Derives path loss from received power, and finds the nearest cells."""

    def __init__(self, config: RadioConfig, stations: Stations, devices: Devices) -> None:
        self._count = min(config.neighbours, len(stations))
        self._stations, self._devices = stations, devices

    def shown(self, rows: Ints, cell: Ints, away: Floats, distance: Floats, received: Floats) -> dict[str, Array]:
        """The columns `distance` and `pathloss` of `link` towards `cell` (n,), -1 for none.

        `away` (n, 3) m and `distance` (n,) m from its antenna; `received` (slots, m) mW.
        """
        heard = (cell >= 0) & (received[rows, cell] > 0.0)
        loss = self._loss(rows, cell, away, received[rows, cell])
        return {"distance": np.where(heard, distance, np.nan), "pathloss": np.where(heard, loss, np.nan)}

    def nearest(self, time: float, rows: Ints, received: Floats) -> Frame:
        """The frame of `neighbour_cell`: rows by device, and by distance for each."""
        stations, count = self._stations, self._count
        antenna = self._devices.position[rows]
        antenna[:, 2] += self._devices.height[rows]
        away = antenna[:, None, :] - stations.antennas[None, :, :]  # (n, m, 3)
        distance = np.sqrt(np.einsum("ijk,ijk->ij", away, away))
        order = np.argsort(distance, axis=1, kind="stable")[:, :count]
        cell = order.ravel().astype(np.int32)
        device, which = np.repeat(rows, count), np.repeat(np.arange(len(rows)), count)
        level = received[device, cell]
        heard = level > 0.0
        rsrp = power.rsrp(power.decibels(level), stations.blocks[cell])
        loss = self._loss(device, cell, away[which, cell], level)
        columns: dict[str, Array] = {
            "cell": stations.slots[cell].astype(np.int32),
            "rank": np.tile(np.arange(1, count + 1, dtype=np.int32), len(rows)),
            "distance": distance[which, cell],
            "rsrp": np.where(heard, rsrp, np.nan),
            "pathloss": np.where(heard, loss, np.nan),
        }
        return Frame("neighbour_cell", time, device.astype(np.int32), columns)

    def _loss(self, rows: Ints, cell: Ints, away: Floats, level: Floats) -> Floats:
        """Path loss (n,) dB at a received `level` (n,) mW: what was sent and gained, less what arrives."""
        sent = self._stations.transmit[cell] + self._stations.gains(cell, away) + self._devices.gain[rows]
        return np.asarray(sent - power.decibels(level))
