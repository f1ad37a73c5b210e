"""What the scene holds for the radio: base stations and devices as arrays."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.radio.config import SPACING, RadioConfig
from cosim.adapters.radio.keys import Sector
from cosim.adapters.radio.propagation import LAWS, exponent, sigma
from cosim.contract.adapter import Context
from cosim.contract.entities import SlotRange
from cosim.contract.records import Floats
from cosim.physics.radio import aerial, cells, nr, pathloss, power, sector

_SHADOWS = 3.0  # standard deviations of shadowing that are still taken into account
_DISTANCES = np.geomspace(10.0, 1e6, 2001)  # m
_BELOW_NOISE = 10.0  # dB under the noise floor at which a cell no longer counts


class Stations:
    """The m cells of the scene, in the order of the file."""

    def __init__(self, context: Context, config: RadioConfig) -> None:
        found = [
            (slot, node, node.cell)
            for slot, node in enumerate(context.scene.nodes)
            if node.cell is not None and context.serves(node.cell.by)
        ]
        spacing = SPACING[config.spacing]
        blocks = [nr.resource_blocks(cell.bandwidth, spacing) for _, _, cell in found]
        self.ids = [node.id for _, node, _ in found]
        self.slots = np.array([slot for slot, _, _ in found], np.int32)  # (m,)
        self.heights = np.array([cell.height for _, _, cell in found])  # (m,) m
        self.base = np.array([node.position for _, node, _ in found], np.float64)  # (m, 3) m, foot of the mast
        self.transmit = np.array([cell.power for _, _, cell in found])  # (m,) dBm
        self.emitted = np.array([cell.power + cell.gain for _, _, cell in found])  # (m,) dBm
        self.carrier_hz = np.array([cell.carrier for _, _, cell in found])  # (m,) Hz
        self.carrier = np.unique(self.carrier_hz, return_inverse=True)[1].astype(np.int32)  # (m,) number
        self.bandwidth = np.array([cell.bandwidth for _, _, cell in found])  # (m,) Hz
        self.blocks = np.array(blocks)  # (m,) resource blocks
        self.spacing = spacing  # Hz
        self.occupied = 12.0 * self.blocks * spacing  # (m,) Hz, of signal, noise and jammers
        sectors = [Sector.of(node) for _, node, _ in found]
        self.pattern: Floats | None = None  # (m, 6) as `cosim.physics.radio.sector.attenuate` has it
        if any(one is not None for one in sectors):
            self.pattern = np.array([one.row() if one is not None else (0.0,) * 6 for one in sectors])
        self.noise = power.milliwatts(
            power.noise(self.occupied, np.array([cell.noise_figure for _, _, cell in found]))
        )  # (m,) mW, at the base station
        self.least = power.milliwatts(config.coverage + 10.0 * np.log10(12.0 * self.blocks))  # (m,) mW to serve

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def antennas(self) -> Floats:
        """Where the antennas are: (m, 3) m."""
        antennas: Floats = self.base + np.column_stack([np.zeros((len(self), 2)), self.heights])
        return antennas

    def gains(self, cell: NDArray[np.int32], away: Floats) -> Floats:
        """Antenna gain (n,) dB of each `cell` (n,) towards a place `away` (n, 3) m from its antenna."""
        peak: Floats = (self.emitted - self.transmit)[cell]
        if self.pattern is None:
            return peak
        of = self.pattern[cell]
        with np.errstate(divide="ignore", invalid="ignore"):  # rows without a pattern have no widths
            lost = sector.attenuation(*(away[:, k] for k in range(3)), *(of[:, k] for k in range(6)))
        return peak - np.where(of[:, 5] > 0.0, lost, 0.0)

    def channels(self) -> list[tuple[float, float]]:
        """Lowest and highest frequency in Hz of the resource blocks of each cell."""
        half = 0.5 * self.occupied
        return [(float(f - h), float(f + h)) for f, h in zip(self.carrier_hz, half, strict=True)]

    def reach(self, config: RadioConfig, gain: float) -> float:
        """Distance in m beyond which no cell matters to a device with antenna `gain` (dB)."""
        if config.range is not None:
            return config.range
        quiet = power.noise(self.occupied, 0.0) - _BELOW_NOISE
        budget = self.emitted + gain - np.minimum(quiet, power.decibels(self.least))  # (m,) dB
        budget += max(-config.height_loss, 0.0) * aerial.HIGHEST / 100.0
        law = LAWS[config.model]
        distances = _DISTANCES
        farthest = 0.0
        for c in range(len(self)):
            frequency = float(self.carrier_hz[c])
            if config.model == "umi":
                loss = pathloss.umi_los(distances, float(self.heights[c]), np.full_like(distances, 1.5), frequency)
                spread = max(pathloss.UMI_SHADOWING)
            elif law != cells.CLOSE_IN:
                loss = _least_in_the_air(law, float(self.heights[c]), frequency)
                spread = 8.0  # dB, the largest of the three laws
            else:
                loss = pathloss.close_in(distances, frequency, exponent(config))
                spread = sigma(config)
            near = distances[loss <= budget[c] + _SHADOWS * spread]
            farthest = max(farthest, float(near[-1]) if len(near) else 10.0)
        return farthest


@lru_cache(maxsize=256)  # the cells of a scene are alike
def _least_in_the_air(law: int, cell_height: float, frequency: float) -> Floats:
    """The smallest path loss (n,) with line of sight at `_DISTANCES`, over all heights."""
    heights = (aerial.LOWEST, 10.0, 22.5, 30.0, 100.0, aerial.HIGHEST)
    away = _DISTANCES.tolist()
    losses = [[aerial.los_loss(law, d, cell_height, height, frequency) for d in away] for height in heights]
    return np.asarray(np.min(losses, axis=0))


class Devices:
    """The radios of all slots; slots without one are marked. Arrays are (capacity,)."""

    def __init__(self, context: Context) -> None:
        scene = context.scene
        self.is_device = np.zeros(scene.capacity, bool)
        self.fixed = np.zeros(scene.capacity, bool)  # present without anybody moving them
        self.position = np.zeros((scene.capacity, 3))  # m, latest known
        self.power = np.zeros(scene.capacity)  # dBm
        self.gain = np.zeros(scene.capacity)  # dB
        self.noise_figure = np.zeros(scene.capacity)  # dB
        self.height = np.zeros(scene.capacity)  # m
        for slot, node in enumerate(scene.nodes):
            if node.position is not None:
                self.position[slot] = node.position
        ranges = [(SlotRange(slot), node) for slot, node in enumerate(scene.nodes) if node.cell is None]
        ranges += [(SlotRange(fleet.first, fleet.capacity), fleet.template) for fleet in scene.fleets]
        for where, node in ranges:
            if node.radio is None or not context.serves(node.radio.by):
                continue
            slots = slice(where.first, where.first + where.count)
            self.is_device[slots] = True
            self.power[slots] = node.radio.power
            self.gain[slots] = node.radio.gain
            self.noise_figure[slots] = node.radio.noise_figure
            self.height[slots] = node.radio.height
            if where.first < len(scene.nodes) and node.position is not None:
                self.fixed[slots] = True
