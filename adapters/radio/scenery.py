"""What the scene holds for the radio: base stations and devices as arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapters.radio.config import SPACING, RadioConfig
from cosim.contract.adapter import Context
from cosim.contract.entities import SlotRange
from cosim.radio import nr, pathloss, power

Floats = NDArray[np.float64]

_SHADOWS = 3.0  # standard deviations of shadowing that are still taken into account
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
        cells = [cell for _, _, cell in found]
        blocks = [nr.resource_blocks(cell.bandwidth, spacing) for cell in cells]
        self.ids = [node.id for _, node, _ in found]
        self.slots = np.array([slot for slot, _, _ in found], np.int32)  # (m,)
        self.heights = np.array([cell.height for cell in cells])  # (m,) m
        self.base = np.array([node.position for _, node, _ in found], np.float64)  # (m, 3) m, foot of the mast
        self.transmit = np.array([cell.power for cell in cells])  # (m,) dBm
        self.emitted = np.array([cell.power + cell.gain for cell in cells])  # (m,) dBm
        self.carrier_hz = np.array([cell.carrier for cell in cells])  # (m,) Hz
        self.carrier = np.unique(self.carrier_hz, return_inverse=True)[1].astype(np.int32)  # (m,) number
        self.bandwidth = np.array([cell.bandwidth for cell in cells])  # (m,) Hz
        self.blocks = np.array(blocks)  # (m,) resource blocks
        self.spacing = spacing  # Hz
        self.noise = power.milliwatts(
            power.noise(self.bandwidth, np.array([cell.noise_figure for cell in cells]))
        )  # (m,) mW, at the base station
        self.least = power.milliwatts(config.coverage + 10.0 * np.log10(12.0 * self.blocks))  # (m,) mW to serve

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def antennas(self) -> Floats:
        """Where the antennas are: (m, 3) m."""
        antennas: Floats = self.base + np.column_stack([np.zeros((len(self), 2)), self.heights])
        return antennas

    def channels(self) -> list[tuple[float, float]]:
        """Lowest and highest frequency in Hz of the resource blocks of each cell."""
        half = 6.0 * self.blocks * self.spacing
        return [(float(f - h), float(f + h)) for f, h in zip(self.carrier_hz, half, strict=True)]

    def reach(self, config: RadioConfig, gain: float) -> float:
        """Distance in m beyond which no cell matters to a device with antenna `gain` (dB)."""
        if config.range is not None:
            return config.range
        quiet = power.noise(self.bandwidth, 0.0) - _BELOW_NOISE
        budget = self.emitted + gain - np.minimum(quiet, power.decibels(self.least))  # (m,) dB
        distances = np.geomspace(10.0, 1e6, 2001)
        farthest = 0.0
        for c in range(len(self)):
            frequency = float(self.carrier_hz[c])
            if config.model == "umi":
                loss = pathloss.umi_los(distances, float(self.heights[c]), np.full_like(distances, 1.5), frequency)
                spread = max(pathloss.UMI_SHADOWING)
            else:
                loss = pathloss.close_in(distances, frequency, exponent(config))
                spread = sigma(config)
            near = distances[loss <= budget[c] + _SHADOWS * spread]
            farthest = max(farthest, float(near[-1]) if len(near) else 10.0)
        return farthest


def exponent(config: RadioConfig) -> float:
    """The path loss exponent of the close-in law; 2 makes it the free-space law."""
    return config.exponent if config.model == "ci" else 2.0


def sigma(config: RadioConfig) -> float:
    """The standard deviation of the close-in law's shadowing in dB; there is none in free space."""
    return config.shadowing if config.model == "ci" else 0.0


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
