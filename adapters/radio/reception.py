"""What devices and base stations receive from each other: SINR with and without jammers, fading included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.channels import Fading
from cosim.adapters.radio.config import RadioConfig
from cosim.adapters.radio.interferers import Interferers, steady
from cosim.adapters.radio.jammers import JammerPower, Jammers
from cosim.adapters.radio.scenery import Devices, Stations
from cosim.adapters.radio.state import RadioRows, Traffic
from cosim.contract.records import Flags, Floats
from cosim.physics.radio import cells, power
from cosim.physics.radio.effective import FadedJam, borders, effective, jammed_parts
from cosim.physics.radio.jamming import ChannelGrid

Ints = NDArray[np.int32]


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
    expected: Floats  # noise, and interference as the network expects it; known where logs are written


@dataclass(frozen=True, slots=True)
class LinkReception:
    """Both directions of n links."""

    down: Way
    up: Way
    fade: Floats  # mean power gain of the fading, 1 without
    ssb_loss: Floats  # dB that the synchronisation block lost to jammers
    ssb_jam: Floats  # mW of jammers on it
    gain: Floats  # (n, B) power gain of the fading by block of the channel, 0 beyond the cell's own blocks


_LEAST = 1e-3  # of noise and interference: weaker jammers are left out of a SINR that fades


class Reception:
    """Turns powers into ratios."""

    def __init__(
        self, config: RadioConfig, stations: Stations, devices: Devices, jammers: Jammers, fading: Fading
    ) -> None:
        self._config, self._stations, self._devices = config, stations, devices
        self._jammers, self._fading = jammers, fading
        self._borders = borders(config.implementation)
        self._ssb_part = jammers.ssb_part()  # (m,)
        self._known = np.full(len(stations), config.background)  # (m,) load of the last step, which cells exchange
        self._interferers = Interferers(stations, jammers, fading) if fading.on else None

    def receive(
        self, rows: Ints, cell: Ints, state: RadioRows, traffic: Traffic, failed: Flags, heard: JammerPower | None
    ) -> LinkReception:
        """The links of the devices `rows` (n,) with `cell` (n,), -1 for none; `failed` (m,) cells are silent."""
        stations, devices, config = self._stations, self._devices, self._config
        signal = np.where(cell >= 0, state.power[rows, cell], 0.0)
        floor = power.milliwatts(power.noise(stations.occupied[cell], devices.noise_figure[rows]))
        sent = devices.power[rows]
        arriving = signal * power.milliwatts(sent - stations.transmit[cell])
        at_device, at_cell = np.zeros(len(rows)), np.zeros(len(stations))
        load, airtime = np.zeros(len(stations)), np.zeros(len(rows))
        low_known, high_known = floor.copy(), stations.noise.copy()
        if config.interference:
            load = np.minimum(config.background + traffic.down, 1.0)
            load[failed] = 0.0
            at_device = cells.downlink_interference(rows, cell, state.power, stations.carrier, load)
            airtime = np.where(state.serving[rows] >= 0, traffic.airtime, 0.0)
            at_cell = cells.uplink_interference(
                rows, state.serving[rows], state.power, stations.carrier, sent, stations.transmit, airtime
            )
            if config.log:
                sending = cells.Sending(stations.carrier, self._known, stations.transmit)
                cells.expected_interference(
                    rows, cell, state.power, sending, sent, airtime, state.key[rows], low_known, high_known
                )
        self._known = load
        place = devices.position[rows]
        place[:, 2] += devices.height[rows]
        away = place[:, :2] - stations.base[cell, :2]
        ground = np.sqrt(np.einsum("ij,ij->i", away, away))
        gain, fade = self._fading.gains(rows, cell, state, ground, place[:, 2])
        low, high = (at_device + floor)[:, None], (at_cell + stations.noise)[:, None]  # by fading block
        at_devices = at_stations = None
        if heard is not None:
            at_devices, at_stations = steady(heard.device), steady(heard.station)
        if self._interferers is not None:
            low, high = (np.repeat(part, gain.shape[1], axis=1) for part in (low, high))
            if config.interference:
                self._interferers.cells(
                    rows, cell, state, noise=floor, place=place, load=load, airtime=airtime, sent=sent,
                    down=low, up=high,
                )  # fmt: skip
                np.maximum(low, floor[:, None], out=low)  # against rounding: fading takes away no noise
                np.maximum(high, stations.noise[:, None], out=high)
            if heard is not None:
                at_devices = self._interferers.jam(rows, cell, heard, state, floor, place)
                at_stations = self._interferers.jam_at_masts(heard)
            self._interferers.advance()
            at_device, at_cell = self._fading.mean(low, cell) - floor, self._fading.mean(high, None) - stations.noise
        own = np.arange(len(rows), dtype=np.int32)
        down = self._way(cell, own, signal, at_device, floor, low, at_devices, gain, low_known, up=False)
        loud = at_cell[cell], stations.noise[cell], high, at_stations
        up = self._way(cell, cell, arriving, *loud, gain, high_known[cell], up=True)
        ssb_loss, ssb_jam = np.zeros((2, len(rows)))
        if at_devices is not None:
            part = self._ssb_part[cell]
            (ssb_jam,) = self._parts(cell, own, at_devices.power, (self._jammers.ssb,))
            ssb_loss = power.decibels(1.0 + ssb_jam / (part * down.disturbed))
        if self._fading.on and not self._fading.alike:
            gain = np.where(self._fading.used[cell], gain, 0.0)
        return LinkReception(down, up, fade, ssb_loss, ssb_jam, gain)

    def _parts(self, cell: Ints, at: Ints, jam: Floats, shares: Sequence[Floats]) -> Sequence[Floats]:
        """Power (n,) mW of the jammers `jam` (F, J) mW at the receivers `at` (n,), by parts (J, m) of `cell` (n,)."""
        if self._fading.on:
            return list(jammed_parts(cell, at, jam, np.array(shares)))
        return [np.einsum("ij,ji->i", jam[at], share[:, cell]) for share in shares]

    def _way(
        self, cell: Ints, at: Ints, signal: Floats, interference: Floats, noise: Floats, floor: Floats,
        heard: FadedJam | None, gain: Floats, expected: Floats, *, up: bool,
    ) -> Way:  # fmt: skip
        """One direction; receivers `at` (n,) have `floor` (F, B) mW by block and jammers `heard`, if there are any."""
        none = np.zeros(len(cell))
        disturbed = interference + noise
        if heard is None and not self._fading.on:
            sinr = power.sinr(signal, interference, noise)
            return Way(signal, disturbed, noise, none, none, sinr, sinr, none, expected)
        grid: ChannelGrid = self._jammers.uplink_grid if up else self._jammers.grid
        heard = steady(np.zeros((len(floor), len(self._jammers)))) if heard is None else heard
        on_data = whole = control = none
        if len(self._jammers):
            aimed = self._jammers.feedback if up else self._jammers.control
            shares = (grid.spread.sum(axis=2), self._jammers.whole, aimed)
            on_data, whole, beside = self._parts(cell, at, heard.power, shares)
            control = power.decibels(1.0 + beside / disturbed)
        if grid.plain and not self._fading.on:
            clean = power.sinr(signal, interference, noise)
            sinr = power.sinr(signal, interference + on_data, noise)
        else:
            least = _LEAST if self._fading.on else 0.0
            sinr, clean = effective(cell, at, signal, floor, heard, least, grid, gain, self._borders)
        return Way(signal, disturbed, noise, on_data, whole, sinr, clean, control, expected)
