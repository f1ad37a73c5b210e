"""The jammers of the scene: where they are, how strong they are now, and what devices and cells hear of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.config import SPACING, RadioConfig
from cosim.adapters.radio.propagation import receive, receive_one
from cosim.adapters.radio.scenery import Stations
from cosim.contract.adapter import Context
from cosim.contract.frame import Array
from cosim.contract.jammer import Jammer
from cosim.contract.records import Flags, Floats
from cosim.physics.radio import jamming, nr, power
from cosim.physics.radio.cells import Receivers, Transmitters
from cosim.physics.radio.jammer_set import JammerSet, on_cells
from cosim.physics.radio.shadowing import device_keys

Ints = NDArray[np.int32]

_SSB_BLOCKS = 20  # resource blocks of a synchronisation block, TS 38.300 5.2.4
_PUCCH_BLOCKS = 1  # resource blocks for PUCCH at either edge of the channel
_EVERYWHERE = 1e7  # m; a jammer is looked at wherever it is


@dataclass(frozen=True, slots=True)
class JammerPower:
    """Power of the jammers at n receivers, in mW over their whole bands."""

    device: Floats  # (n, J) at the devices
    station: Floats  # (m, J) at the base stations
    moved: Floats  # (J,) m since the last step
    key: NDArray[np.uint64]  # (J, n) of the draws of each path
    station_key: NDArray[np.uint64]  # (J,)


class Jammers(JammerSet):
    """The J jammers of cells, in the order of the file."""

    def __init__(self, context: Context, config: RadioConfig, stations: Stations, fading_blocks: Sequence[int]) -> None:
        super().__init__(context, on_cells(context.scene))
        self._config, self._stations = config, stations
        channels, bands = stations.channels(), [band(block, SPACING[config.spacing]) for block in self.blocks]
        targets = np.array([block.target for block in self.blocks], object)
        self.aims_at_control = bool(np.isin(targets, ("pdcch", "pucch")).any())
        self.grid = jamming.grid(channels, bands, fading_blocks)
        self.uplink_grid = self.grid._replace(spread=self.grid.spread.copy())
        for aim in ("ssb", "pdcch", "pucch"):  # data is sent beside the control channels
            self.grid.spread[targets == aim] = 0.0
            self.uplink_grid.spread[targets == aim] = 0.0
        inside = np.array([[jamming.overlap(*ch, *bd) > 0.0 for ch in channels] for bd in bands], bool)
        self.touches = inside.reshape(len(self), len(stations))  # (J, m)
        self.ssb, self.whole = self._shares(channels, bands, targets)  # (J, m) of the power over the SSB, the channel
        self.control, self.feedback = self._control(targets)  # (J, m) density on PDCCH and PUCCH
        state = np.random.SeedSequence([*context.seed, 2]).generate_state(max(len(self), 1) + 1, np.uint64)
        self._seeds, self._station_seed = state[:-1], state[-1]
        capacity = context.scene.capacity
        self._draw = np.zeros((len(self), capacity), np.uint64)
        self._paths = [_Pairs(1) for _ in self.blocks]
        self._stations_draw = np.zeros(len(self), np.uint64)
        self._to_stations = _Pairs(len(stations))
        self.carrier_hz = np.array([block.carrier for block in self.blocks])
        self._before: Floats | None = None  # (J, 3) m, antennas at the last step
        self._stations_before: Floats | None = None

    def move(self, time: float, position: Floats, failed: Flags, busy: Flags) -> None:
        """Take in the `position` (slots, 3) and set the power at `time`; `busy` (m,) cells have traffic."""
        self.place = position[self.slots]
        self.emit(time, failed, np.asarray((self.touches & busy).any(axis=1)))

    def heard(self, rows: Ints, antenna: Floats, gain: Floats, moved: Floats, generation: Ints) -> JammerPower:
        """What the devices `rows` (n,) at `antenna` (n, 3) with antenna `gain` (n,) dB and the base stations receive.

        `moved` (n,) m since the last step, inf for new devices; `generation` (slots,) as in slot tables.
        Without movement nothing is computed again: shadowing belongs to places.
        """
        antennas = self.antennas
        own = np.zeros(len(self)) if self._before is None else np.linalg.norm(antennas - self._before, axis=1)
        first, self._before = self._before is None, antennas
        top = int(rows[-1]) + 1 if len(rows) else 0
        sent = np.where(self.now > jamming.OFF, power.milliwatts(self.now), 0.0)  # (J,) mW
        device = np.zeros((len(rows), len(self)))
        keys = np.empty((len(self), len(rows)), np.uint64)
        way, entered = np.maximum(moved, 0.0), np.isinf(moved).any()
        for j, pairs in enumerate(self._paths):
            pairs.grow(top, self._draw.shape[1])
            step = way + own[j] if not entered else np.where(np.isinf(moved), np.inf, way + own[j])
            drawn = self._draw[j, rows] + (step != 0.0)
            self._draw[j, rows] = drawn
            keys[j] = device_keys(self._seeds[j], rows, generation)
            at = Receivers(rows, antenna, gain, step, keys[j], drawn)
            emitted, carrier = float(self.gain[j]), float(self.carrier_hz[j])
            receive_one(self._config, at, antennas[j], emitted, carrier, _EVERYWHERE, pairs)
            device[:, j] = pairs.power[rows, 0] * sent[j]
        masts = np.arange(len(self), dtype=np.int32)
        station_key = device_keys(self._station_seed, masts, np.zeros(len(self), np.int32))
        return JammerPower(device, self._at_stations(antennas, own, first, sent, station_key), own, keys, station_key)

    def sight_of(self, j: int) -> Floats:
        """The line-of-sight state (slots, 1) of jammer `j` and the devices."""
        return self._paths[j].sight

    def sight_at_masts(self) -> Floats:
        """The line-of-sight state (J, m) of the jammers and the base stations."""
        return self._to_stations.sight

    def _at_stations(self, antennas: Floats, own: Floats, first: bool, sent: Floats, key: NDArray[np.uint64]) -> Floats:
        """A jammer is to a base station what a device is: the same law with the base station as its cell."""
        stations, pairs = self._stations, self._to_stations
        places = stations.antennas
        shifted = self._stations_before is None or not np.array_equal(places, self._stations_before)
        self._stations_before = places
        step = np.full(len(self), np.inf) if first else own.copy()
        if shifted:
            step[step == 0.0] = -1.0
        pairs.grow(len(self), len(self))
        self._stations_draw += (step != 0.0).astype(np.uint64)
        rows = np.arange(len(self), dtype=np.int32)
        at = Receivers(rows, antennas, self.gain, step, key, self._stations_draw)
        of = Transmitters(places, stations.emitted - stations.transmit, stations.carrier_hz)
        receive(self._config, at, of, _EVERYWHERE, pairs, stations.pattern)
        return np.ascontiguousarray((pairs.power[: len(self)] * sent[:, None]).T)

    def _shares(
        self, channels: list[tuple[float, float]], bands: list[tuple[float, float]], targets: Array
    ) -> tuple[Floats, Floats]:
        """Parts (J, m) of a jammer's power that fall on the synchronisation block and on the whole channel."""
        ssb, whole = np.zeros((2, len(bands), len(channels)))
        for j, (first, last) in enumerate(bands):
            for c, (low, high) in enumerate(channels):
                inner = self._ssb_band(low, high)
                whole[j, c] = jamming.overlap(low, high, first, last) / (last - first)
                if targets[j] == "band":
                    ssb[j, c] = jamming.overlap(*inner, first, last) / (last - first)
            if targets[j] in ("ssb", "pucch"):  # all of its power, divided among the channels on its band
                once = dict(zip(channels, whole[j].tolist(), strict=True))  # cells may share a channel
                whole[j] /= max(sum(once.values()), 1e-300)
            if targets[j] == "ssb":
                ssb[j] = whole[j]
        return ssb, whole

    def _ssb_band(self, low: float, high: float) -> tuple[float, float]:
        half = 0.5 * min(_SSB_BLOCKS * 12.0 * SPACING[self._config.spacing], high - low)
        return 0.5 * (low + high) - half, 0.5 * (low + high) + half

    def ssb_part(self) -> Floats:
        """Part (m,) of each channel that the synchronisation block takes."""
        widths = [(high - low, self._ssb_band(low, high)) for low, high in self._stations.channels()]
        return np.array([(inner[1] - inner[0]) / width for width, inner in widths])

    def _control(self, targets: Array) -> tuple[Floats, Floats]:
        """Density (J, m) on PDCCH and PUCCH, against a jammer whose whole power is spread over the channel.

        In the symbols of PDCCH a jammer is as strong as ever; on the blocks of PUCCH it puts all its power.
        """
        control, feedback = np.zeros((2, len(self), len(self._stations)))
        edge = 2.0 * _PUCCH_BLOCKS / self._stations.blocks
        for j, target in enumerate(targets):
            if target in ("band", "pdcch"):
                control[j] = self.whole[j]
            if target in ("band", "pucch"):
                feedback[j] = self.whole[j] if target == "band" else self.whole[j] / edge
        return control, feedback


class _Pairs:
    """Shadowing, line of sight and received power between jammers and receivers."""

    def __init__(self, columns: int) -> None:
        self.shadow = np.empty((0, columns))
        self.sight = np.empty((0, columns))
        self.power = np.empty((0, columns))  # mW, of 0 dBm sent

    def grow(self, rows: int, most: int) -> None:
        have = len(self.power)
        if rows <= have:
            return
        want = min(max(rows, 2 * have), most)
        for name, value in (("shadow", np.nan), ("sight", np.nan), ("power", 0.0)):
            grown = np.full((want, self.power.shape[1]), value)
            grown[:have] = getattr(self, name)
            setattr(self, name, grown)


def band(block: Jammer, spacing: float) -> tuple[float, float]:
    """Lowest and highest frequency in Hz on which a jammer sends; `spacing` of subcarriers in Hz."""
    if block.blocks is None:
        low = block.carrier - 0.5 * block.bandwidth
        return low, low + block.bandwidth
    first, last = block.blocks  # of the grid that a cell on this band has: it leaves a guard at either edge
    low = block.carrier - 6.0 * nr.resource_blocks(block.bandwidth, spacing) * spacing
    return low + first * 12.0 * spacing, low + (last + 1) * 12.0 * spacing
