"""Fading channels: the law of the configuration, and their state from step to step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.config import RadioConfig
from cosim.adapters.radio.propagation import in_sight, sights
from cosim.adapters.radio.scenery import Stations
from cosim.adapters.radio.state import RadioRows
from cosim.contract.records import Flags, Floats
from cosim.physics.radio import fading, power
from cosim.physics.radio.pathloss import LIGHT

Ints = NDArray[np.int32]
Index = NDArray[np.int64]
Keys = NDArray[np.uint64]

_MOST_BLOCKS = 32.0  # fading blocks of a channel


class Channels:
    """The channels of links that may come and go between steps, each with B blocks; kept is how far each has come."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._way = np.zeros(0)  # rad, as of `fading.fade`
        self._who = np.full(0, -1, np.int64)  # what the link was with, when it was looked at last
        self._when = np.full(0, -2, np.int64)  # number of that step

    def fade(
        self, at: Index | Ints, who: Index | Ints, step: int, phase: Floats, key: Keys, ratio: Floats,
        fresh: Flags | None = None,
    ) -> Floats:  # fmt: skip
        """Power gain (k, B) of the links `at` (k,), which are with `who` (k,); other arguments as of `fading.fade`.

        A link begins anew when its other end has changed, and where it is `fresh` (k,), None: when it was not looked
        at in the step before.
        """
        gain = np.empty((len(at), self._blocks))
        more = int(at.max(initial=-1)) + 1 - len(self._who)
        if more > 0:
            more = max(more, len(self._who))
            self._way = np.append(self._way, np.zeros(more))
            self._who = np.append(self._who, np.full(more, -1, np.int64))
            self._when = np.append(self._when, np.full(more, -2, np.int64))
        anew = (self._who[at] != who) | (self._when[at] != step - 1 if fresh is None else fresh)
        fading.fade(at.astype(np.int32, copy=False), anew, phase, key, ratio, fading.clarke(), self._way, gain)
        self._who[at], self._when[at] = who, step
        return gain


class Fading:
    """The law of fading, and the channel between each device and the cell that it looks at."""

    def __init__(self, config: RadioConfig, stations: Stations, period: float) -> None:
        self._config, self._stations = config, stations
        wide = fading.coherence_bandwidth(config.delay_spread)
        most = np.minimum(np.maximum(np.rint(stations.bandwidth / wide), 1.0), _MOST_BLOCKS).astype(np.int64)
        self.on = config.fading != "none"
        self.blocks = most if self.on else np.ones(len(stations), np.int64)  # (m,)
        self.most = int(self.blocks.max(initial=1))
        self.used = np.arange(self.most) < self.blocks[:, None]  # (m, B)
        self.alike = bool(self.used.all())  # all channels have as many blocks
        self.still = config.surroundings * period  # m in a step, of what moves around
        self.ratio = 0.0 if config.fading == "rayleigh" else float(power.milliwatts(config.rician))  # Rice's K
        self.sights = config.fading != "rayleigh" and sights(config)  # K depends on line of sight
        self._channels = Channels(self.most)
        self._step = 0

    def phase(self, frequency: Floats, way: Floats) -> Floats:
        """Phase (k,) rad by which links at `frequency` (k,) Hz change whose ends have moved `way` (k,) m."""
        return np.asarray(2.0 * np.pi * frequency / LIGHT * (way + self.still))

    def ratios(self, rows: Ints, cell: Ints, sight: Floats, ground: Floats, height: Floats) -> Floats:
        """Rice's K (k,) as a ratio, 0 without line of sight; arguments as of `in_sight`."""
        return np.where(in_sight(self._config, rows, cell, sight, ground, height), self.ratio, 0.0)

    def mean(self, by_block: Floats, cell: Ints | Index | None) -> Floats:
        """Mean (k,) of `by_block` (k, B) over the blocks of the channels of `cell` (k,), None: of all cells."""
        if self.alike:
            return np.asarray(by_block.mean(axis=1))
        used = self.used if cell is None else self.used[cell]
        return np.asarray(np.where(used, by_block, 0.0).sum(axis=1) / used.sum(axis=1))

    def gains(self, rows: Ints, cell: Ints, state: RadioRows, ground: Floats, height: Floats) -> tuple[Floats, Floats]:
        """Power gain (n, B) by block and its mean (n,) over the channel of `cell` (n,).

        `ground` (n,) m is the horizontal distance and `height` (n,) m that of the antenna.
        """
        if not self.on:
            return np.ones((len(rows), 1)), np.ones(len(rows))
        phase = self.phase(self._stations.carrier_hz[cell], moved(state))
        ratio = self.ratios(rows, cell, state.sight, ground, height) if self.sights else np.full(len(rows), self.ratio)
        fresh = np.isinf(state.moved)
        gain = self._channels.fade(rows, cell, self._step, phase, state.key[rows], ratio, fresh)
        self._step += 1
        return gain, self.mean(gain, cell)


def moved(state: RadioRows) -> Floats:
    """Way (n,) in m of the devices that entered last, 0 for those that are new."""
    return np.where(np.isfinite(state.moved), np.maximum(state.moved, 0.0), 0.0)
