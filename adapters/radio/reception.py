"""What devices and base stations receive from each other: SINR with and without jammers, fading included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapters.radio.config import RadioConfig
from adapters.radio.jammers import Heard, Jammers
from adapters.radio.propagation import in_sight, sights
from adapters.radio.scenery import Devices, Stations
from adapters.radio.state import State, Traffic
from cosim.radio import cells, fading, power
from cosim.radio.effective import borders, effective
from cosim.radio.jamming import Grid
from cosim.radio.pathloss import LIGHT

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of n links; powers in mW over the whole channel, ratios in dB."""

    signal: Floats
    disturbed: Floats  # noise and other cells
    noise: Floats
    jam: Floats  # on data
    jam_all: Floats  # on the channel, whatever it aims at
    sinr: Floats  # effective, of data
    clean: Floats  # the same without jammers
    control: Floats  # loss of the control channels in dB, 0 without jammers


@dataclass(frozen=True, slots=True)
class Received:
    """Both directions of n links."""

    down: Way
    up: Way
    fade: Floats  # mean power gain of the fading, 1 without
    ssb_loss: Floats  # dB that the synchronisation block lost to jammers
    ssb_jam: Floats  # mW of jammers on it
    gain: Floats  # (n, B) power gain of the fading by block of the channel, 0 beyond the cell's own blocks


class Fading:
    """The fading of the link between each device and the cell that it looks at; (slots, B) complex numbers."""

    def __init__(self, config: RadioConfig, stations: Stations, period: float) -> None:
        self._config, self._stations, self._period = config, stations, period
        wide = fading.coherence_bandwidth(config.delay_spread)
        most = np.minimum(np.maximum(np.rint(stations.bandwidth / wide), 1.0), _MOST_BLOCKS).astype(np.int64)
        self.on = config.fading != "none"
        self.blocks = most if self.on else np.ones(len(stations), np.int64)  # (m,)
        self._most = int(self.blocks.max(initial=1))
        self.used = np.arange(self._most) < self.blocks[:, None]  # (m, B)
        self._real = np.zeros((0, self._most))
        self._imaginary = np.zeros((0, self._most))
        self._cell = np.full(0, -1, np.int32)
        self._step = 0

    def gains(self, rows: Ints, cell: Ints, state: State, ground: Floats, height: Floats) -> tuple[Floats, Floats]:
        """Power gain (n, B) by block and its mean (n,) over the channel of `cell` (n,).

        `ground` (n,) m is the horizontal distance and `height` (n,) m that of the antenna.
        """
        if not self.on:
            return np.ones((len(rows), 1)), np.ones(len(rows))
        self._grow(int(rows[-1]) + 1 if len(rows) else 0, len(state.key))
        frequency = self._stations.carrier_hz[cell]
        way = np.where(np.isfinite(state.moved), np.maximum(state.moved, 0.0), 0.0)
        phase = 2.0 * np.pi * frequency / LIGHT * (way + self._config.surroundings * self._period)
        fresh = (self._cell[rows] != cell) | np.isinf(state.moved)
        ratio = np.full(len(rows), float(power.milliwatts(self._config.rician)))
        if self._config.fading == "rayleigh":
            ratio[:] = 0.0
        elif sights(self._config):
            ratio[~in_sight(self._config, rows, cell, state.sight, ground, height)] = 0.0
        gain = np.empty((len(rows), self._most))
        fading.fade(rows, fresh, phase, state.key[rows], self._step, ratio, self._real, self._imaginary, gain)
        self._cell[rows] = cell
        self._step += 1
        used = self.used[cell]
        mean = np.where(used, gain, 0.0).sum(axis=1) / used.sum(axis=1)
        return gain, mean

    def _grow(self, rows: int, most: int) -> None:
        have = len(self._cell)
        if rows > have:
            want = min(max(rows, 2 * have), most)
            for name in ("_real", "_imaginary"):
                grown = np.zeros((want, self._most))
                grown[:have] = getattr(self, name)
                setattr(self, name, grown)
            self._cell = np.concatenate([self._cell, np.full(want - have, -1, np.int32)])


_MOST_BLOCKS = 32.0  # fading blocks of a channel


class Reception:
    """Turns powers into ratios."""

    def __init__(
        self, config: RadioConfig, stations: Stations, devices: Devices, jammers: Jammers, fading: Fading
    ) -> None:
        self._config, self._stations, self._devices = config, stations, devices
        self._jammers, self._fading = jammers, fading
        self._borders = borders(config.implementation)
        self._ssb_part = jammers.ssb_part()  # (m,)

    def receive(
        self, rows: Ints, cell: Ints, state: State, traffic: Traffic, failed: Flags, heard: Heard | None
    ) -> Received:
        """The links of the devices `rows` (n,) with `cell` (n,), -1 for none; `failed` (m,) cells are silent."""
        stations, devices, config = self._stations, self._devices, self._config
        signal = np.where(cell >= 0, state.power[rows, cell], 0.0)
        floor = power.milliwatts(power.noise(stations.bandwidth[cell], devices.noise_figure[rows]))
        sent = devices.power[rows]
        arriving = signal * power.milliwatts(sent - stations.transmit[cell])
        at_device, at_cell = np.zeros(len(rows)), np.zeros(len(stations))
        if config.interference:
            load = np.minimum(config.background + traffic.down, 1.0)
            load[failed] = 0.0
            at_device = cells.downlink_interference(rows, cell, state.power, stations.carrier, load)
            airtime = np.where(state.serving[rows] >= 0, traffic.airtime, 0.0)
            at_cell = cells.uplink_interference(
                rows, state.serving[rows], state.power, stations.carrier, sent, stations.transmit, airtime
            )
        away = devices.position[rows, :2] - stations.base[cell, :2]
        height = devices.position[rows, 2] + devices.height[rows]
        gain, fade = self._fading.gains(rows, cell, state, np.sqrt(np.einsum("ij,ij->i", away, away)), height)
        down = self._way(cell, signal, at_device, floor, None if heard is None else heard.device, gain, up=False)
        at_stations = None if heard is None else heard.station[cell]
        up = self._way(cell, arriving, at_cell[cell], stations.noise[cell], at_stations, gain, up=True)
        ssb_loss, ssb_jam = np.zeros((2, len(rows)))
        if heard is not None:
            part = self._ssb_part[cell]
            ssb_jam = np.einsum("ij,ji->i", heard.device, self._jammers.ssb[:, cell])
            ssb_loss = power.decibels(1.0 + ssb_jam / (part * down.disturbed))
        own = self._fading.used[cell] if self._fading.on else np.ones(gain.shape, bool)
        return Received(down, up, fade, ssb_loss, ssb_jam, np.where(own, gain, 0.0))

    def _way(
        self, cell: Ints, signal: Floats, interference: Floats, noise: Floats, jam: Floats | None, gain: Floats, *,
        up: bool,
    ) -> Way:  # fmt: skip
        """One direction; `jam` (n, J) mW of each jammer at the receivers, None without jammers."""
        none = np.zeros(len(cell))
        disturbed = interference + noise
        if jam is None and not self._fading.on:
            sinr = power.sinr(signal, interference, noise)
            return Way(signal, disturbed, noise, none, none, sinr, sinr, none)
        grid: Grid = self._jammers.uplink_grid if up else self._jammers.grid
        jam = np.zeros((len(cell), len(self._jammers))) if jam is None else jam
        on_data = np.einsum("ij,ji->i", jam, grid.spread.sum(axis=2)[:, cell])
        whole = np.einsum("ij,ji->i", jam, self._jammers.whole[:, cell])
        aimed = self._jammers.feedback if up else self._jammers.control
        control = power.decibels(1.0 + np.einsum("ij,ji->i", jam, aimed[:, cell]) / disturbed)
        if grid.plain and not self._fading.on:
            clean = power.sinr(signal, interference, noise)
            sinr = power.sinr(signal, interference + on_data, noise)
        else:
            sinr, clean = np.empty(len(cell)), np.empty(len(cell))
            effective(
                cell, signal, disturbed, jam, grid.spread, grid.width, grid.block, gain, self._borders, sinr, clean
            )
        return Way(signal, disturbed, noise, on_data, whole, sinr, clean, control)
