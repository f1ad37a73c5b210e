"""The rows that phones and base stations log, and the truth about jammers, out of what the radio knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.config import RadioConfig
from cosim.adapters.radio.connection import Connections
from cosim.adapters.radio.jammers import Jammers
from cosim.adapters.radio.modem import LinkCapacity
from cosim.adapters.radio.reception import LinkReception, Way
from cosim.adapters.radio.scenery import Stations
from cosim.contract.frame import Array, Frame
from cosim.contract.records import Flags, Floats
from cosim.physics.radio import power
from cosim.physics.radio.reporting import modem_snr

Ints = NDArray[np.int32]
Keys = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Use:
    """One direction of n links as it is used."""

    carried: LinkCapacity
    rate: Floats  # bit/s granted
    share: Floats  # of the cell's airtime while it is active
    active: Flags  # a transfer is under way
    queue: Floats  # s
    time: float  # part of the time that the direction has


class RadioLog:
    """Writes the signals of `cosim.adapters.radio.signals`."""

    def __init__(self, config: RadioConfig, stations: Stations, jammers: Jammers, connections: Connections) -> None:
        self._config, self._stations = config, stations
        self._jammers, self._connections = jammers, connections
        self._ssb_part = jammers.ssb_part()  # (m,)
        self._step = 0

    def frames(
        self, time: float, rows: Ints, *, key: Keys, shown: Ints, cell: Ints, received: LinkReception, down: Use,
        up: Use, loss: Floats, busy: Floats,
    ) -> Sequence[Frame]:  # fmt: skip
        """The rows of `rows` (n,) at `cell` (n,), who look at `shown` (n,); `loss` (n,) of packets.

        `key` (n,) chooses what is drawn for each, `busy` (m,) is the airtime in use of each cell, of the busier
        direction.
        """
        served = cell >= 0
        slot = np.where(served, self._stations.slots[cell], -1).astype(np.int32)
        ue = self._ue(time, rows, shown, cell, received, down, loss)
        law = self._config.modem_snr
        if law is not None:
            ue["sinr"] = modem_snr(received.down.sinr, key, self._step, law.offset, law.slope, law.spread)
        self._step += 1
        gnb = self._gnb(rows, cell, received, up, loss)
        gnb["excess_cell"] = _mean_by_cell(ue["excess"], cell, len(self._stations))
        gnb = {name: np.ascontiguousarray(column[served]) for name, column in gnb.items()}
        jammers = Frame("jammer", time, self._jammers.slots, self._jammers.columns())
        return [
            Frame("ue", time, rows, {"cell": slot, **ue}),
            Frame("gnb", time, np.ascontiguousarray(rows[served]), {"cell": slot[served], **gnb}),
            Frame("jamming", time, rows, self._truth(shown, received)),
            jammers,
            Frame("impairment", time, rows, self._impairment(cell, received, busy)),
        ]

    def _ue(
        self, time: float, rows: Ints, shown: Ints, cell: Ints, received: LinkReception, use: Use, loss: Floats
    ) -> dict[str, Array]:
        way, part = received.down, self._ssb_part[shown]
        blocks = self._stations.blocks[shown]
        own = way.signal * received.fade
        rsrp = power.rsrp(power.decibels(own), blocks)
        on_ssb = power.decibels((own + way.disturbed) * part + received.ssb_jam)
        served = cell >= 0
        return {
            "rnti": self._connections.rnti[rows],
            "state": self._connections.state(rows, cell, time),
            "rsrp": rsrp,
            "rssi": on_ssb,
            "rsrq": 10.0 * np.log10(part * blocks) + rsrp - on_ssb,
            "rssi_wide": power.decibels(own + way.disturbed + way.jam_all),
            "sinr": way.sinr,
            "excess": _excess(way),
            "cqi": use.carried.cqi.astype(np.int8),
            "ri": np.where(served, self._config.layers, 0).astype(np.int8),
            "mcs": np.where(served, use.carried.mcs, 0).astype(np.int8),
            "bler": np.where(served, use.carried.bler, 1.0),
            **self._delivered(cell, use, loss),
        }

    def _gnb(self, rows: Ints, cell: Ints, received: LinkReception, use: Use, loss: Floats) -> dict[str, Array]:
        way = received.up
        slots = self._stations.spacing / 15.0  # 1/s: 1000 times the spacing over 15 kHz
        return {
            "rnti": self._connections.rnti[rows],
            "sinr": way.sinr,
            "rssi": power.decibels(way.signal * received.fade + way.disturbed + way.jam_all),
            "excess": _excess(way),
            "mcs": use.carried.mcs.astype(np.int8),
            "bler": use.carried.bler,
            "nack": slots * use.time * use.share * use.active * use.carried.bler,
            **self._delivered(cell, use, loss),
            "buffer": use.active * use.rate * use.queue / 8.0,
        }

    def _delivered(self, cell: Ints, use: Use, loss: Floats) -> dict[str, Array]:
        """The columns on packets and blocks that both logs have."""
        packets = use.active * use.rate / (8.0 * self._config.packet)
        return {
            "rate": use.rate,
            "pdr": 1.0 - loss,
            "drops": packets * loss,
            "prbs": np.where(cell >= 0, self._stations.blocks[cell] * use.share * use.active, 0.0),
        }

    def _truth(self, shown: Ints, received: LinkReception) -> dict[str, Array]:
        heard = shown >= 0

        def over(way: Way, base: Floats) -> Floats:
            ratio = np.divide(way.jam_all, base, out=np.zeros(len(base)), where=heard & (base > 0.0))
            return power.decibels(ratio)

        lost = [np.where(heard, np.maximum(w.clean - w.sinr, 0.0), 0.0) for w in (received.down, received.up)]
        beside = np.maximum(np.maximum(received.down.control, received.up.control), received.ssb_loss)
        return {
            "jn_down": over(received.down, received.down.noise),
            "js_down": over(received.down, received.down.signal),
            "loss_down": lost[0],
            "jn_up": over(received.up, received.up.noise),
            "js_up": over(received.up, received.up.signal),
            "loss_up": lost[1],
            "loss": np.where(heard, np.maximum(np.maximum(lost[0], lost[1]), beside), 0.0),
        }

    @staticmethod
    def _impairment(cell: Ints, received: LinkReception, busy: Floats) -> dict[str, Array]:
        ways = {"down": received.down, "up": received.up}
        found: dict[str, Array] = {
            f"snr_{name}": power.decibels(way.signal * received.fade / way.noise) for name, way in ways.items()
        }
        for name, way in ways.items():
            found[f"interference_{name}"] = np.maximum(power.decibels(way.disturbed / way.noise), 0.0)
        found["load"] = np.where(cell >= 0, busy[cell], 0.0)
        return found


def _excess(way: Way) -> Floats:
    """Power (n,) in dB on the channel beside the signal, over noise and the interference that the network expects."""
    return power.decibels((way.disturbed + way.jam_all) / way.expected)


def _mean_by_cell(values: Floats, cell: Ints, cells: int) -> Floats:
    """The mean (n,) of `values` (n,) over the devices with the same `cell` (n,); -1 is none, and counts as one."""
    total, count = (np.bincount(cell + 1, weights, cells + 1) for weights in (values, None))
    return np.asarray((total / np.maximum(count, 1))[cell + 1])
