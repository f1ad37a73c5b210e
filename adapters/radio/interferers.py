"""The fading of what disturbs a link: the strongest other cells, and jammers; of all others the mean counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.channels import Channels, Fading, moved
from cosim.adapters.radio.jammers import JammerPower, Jammers
from cosim.adapters.radio.scenery import Stations
from cosim.adapters.radio.state import RadioRows
from cosim.contract.records import Floats
from cosim.physics.radio import power
from cosim.physics.radio.effective import FadedJam
from cosim.physics.radio.fading import add_faded, pair_keys, strongest_others

Ints = NDArray[np.int32]
Index = NDArray[np.int64]
Keys = NDArray[np.uint64]

OTHERS = 2  # other cells of each device that fade
BELOW_NOISE = 0.1  # of the noise: what is weaker has no fading. It would move the floor by less than 0.4 dB (1 sigma)


class Interferers:
    """Draws the fading of other cells and of jammers; on with the fading of the serving links."""

    def __init__(self, stations: Stations, jammers: Jammers, fading: Fading) -> None:
        self._stations, self._jammers, self._fading = stations, jammers, fading
        self._cells, self._devices, self._masts = (Channels(fading.most) for _ in range(3))
        self._others = np.full((0, OTHERS), -1, np.int32)
        self._step = 0

    def cells(
        self, rows: Ints, cell: Ints, state: RadioRows, *, noise: Floats, place: Floats, load: Floats, airtime: Floats,
        sent: Floats, down: Floats, up: Floats,
    ) -> None:  # fmt: skip
        """Let the strongest other cells fade: what arrives at devices, `down` (n, B), and at cells, `up` (m, B), mW.

        Devices `rows` (n,) at `place` (n, 3) m look at `cell` (n,) with `noise` (n,) mW; `load` (m,) and `airtime`
        (n,) are the parts of time in which cells and devices send, `sent` (n,) dBm.
        """
        stations = self._stations
        if len(self._others) < len(state.power):
            more = np.full((len(state.power) - len(self._others), OTHERS), -1, np.int32)
            self._others = np.concatenate([self._others, more])
        found = np.empty((len(rows), OTHERS), np.int32)
        strongest_others(rows, cell, state.power, stations.carrier, BELOW_NOISE * noise, self._others, found)
        device, column = np.nonzero(found >= 0)
        other = found[device, column]
        mine = rows[device]
        ratio = np.full(len(device), self._fading.ratio)
        if self._fading.sights:
            away = place[device, :2] - stations.base[other, :2]
            ratio = self._fading.ratios(mine, other, state.sight, np.hypot(away[:, 0], away[:, 1]), place[device, 2])
        who = state.generation[mine].astype(np.int64) * len(stations) + other
        gain = self._gains(
            self._cells, mine.astype(np.int64) * OTHERS + column, who, moved(state)[device],
            stations.carrier_hz[other], pair_keys(state.key[mine], other), ratio,
        )  # fmt: skip
        level = state.power[mine, other]
        back = (airtime * power.milliwatts(sent))[device] * power.milliwatts(-stations.transmit)[other] * level
        add_faded(device, other, gain, load[other] * level, back, down, up)

    def jam(
        self, rows: Ints, cell: Ints, heard: JammerPower, state: RadioRows, noise: Floats, place: Floats
    ) -> FadedJam:
        """The jammers at devices `rows` (n,) at `place` (n, 3) m that look at `cell` (n,) with `noise` (n,) mW."""
        jammers = self._jammers
        device, j = np.nonzero(heard.device * jammers.whole[:, cell].T > BELOW_NOISE * noise[:, None])
        mine = rows[device]
        ratio = np.full(len(device), self._fading.ratio)
        for one in np.unique(j).tolist() if self._fading.sights else ():
            its = j == one
            away = place[device[its], :2] - jammers.antennas[one, :2]
            ground, none = np.hypot(away[:, 0], away[:, 1]), np.zeros(len(away), np.int32)
            height = np.maximum(place[device[its], 2], jammers.antennas[one, 2])  # of the end that may be in the air
            ratio[its] = self._fading.ratios(mine[its], none, jammers.sight_of(one), ground, height)
        gain = self._gains(
            self._devices, mine.astype(np.int64) * len(jammers) + j, state.generation[mine].astype(np.int64),
            moved(state)[device] + heard.moved[j], jammers.carrier_hz[j],
            np.ascontiguousarray(heard.key[j, device]), ratio,
        )  # fmt: skip
        return self._faded(heard.device, device, j, gain, cell[device])

    def jam_at_masts(self, heard: JammerPower) -> FadedJam:
        """The jammers at the base stations."""
        stations, jammers = self._stations, self._jammers
        mast, j = np.nonzero(heard.station > 0.0)
        ratio = np.full(len(mast), self._fading.ratio)
        if self._fading.sights:
            antennas = jammers.antennas[j]
            away = antennas[:, :2] - stations.base[mast, :2]
            ground = np.hypot(away[:, 0], away[:, 1])
            sight = jammers.sight_at_masts()
            ratio = self._fading.ratios(j.astype(np.int32), mast.astype(np.int32), sight, ground, antennas[:, 2])
        gain = self._gains(
            self._masts, mast * len(jammers) + j, np.zeros(len(mast), np.int64), heard.moved[j], jammers.carrier_hz[j],
            pair_keys(heard.station_key[j], mast.astype(np.int32)), ratio,
        )  # fmt: skip
        return self._faded(heard.station, mast, j, gain, mast)

    def advance(self) -> None:
        """A step is over."""
        self._step += 1

    def _gains(
        self, channels: Channels, at: Index, who: Index, way: Floats, frequency: Floats, key: Keys, ratio: Floats
    ) -> Floats:
        """Power gain (k, B) of links whose ends have moved `way` (k,) m, at `frequency` (k,) Hz."""
        return channels.fade(at, who, self._step, self._fading.phase(frequency, way), key, ratio)

    def _faded(self, level: Floats, at: Index, j: Index, gain: Floats, cell: Ints | Index) -> FadedJam:
        fade = np.full(level.shape, -1, np.int32)
        fade[at, j] = np.arange(len(at))
        total = level.copy()
        total[at, j] *= self._fading.mean(gain, cell)
        return FadedJam(level, total, fade, gain)


def steady(level: Floats) -> FadedJam:
    """Jammers of power `level` (F, J) mW that do not fade."""
    return FadedJam(level, level, np.full(level.shape, -1, np.int32), np.ones((1, 1)))
