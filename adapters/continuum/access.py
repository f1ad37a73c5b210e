"""The access network that the continuum computes itself, step by step, when no adapter writes `link`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.continuum.check import access_points
from cosim.adapters.continuum.network import NetworkConfig
from cosim.adapters.continuum.world import slots_of
from cosim.contract.entities import Node, Scene
from cosim.contract.frame import Frame
from cosim.contract.node_keys import Cell, Radio
from cosim.contract.records import Flags, Floats, Ints
from cosim.engine.continuum import network
from cosim.engine.continuum.engine import Engine
from cosim.physics.radio import power

Slots = Ints

_DEFAULT_CELL = Cell()  # of an access point without `cell`; as the block's defaults
_DEFAULT_RADIO = Radio()
_PAIRS = 2**21  # of devices and access points that are compared at once


class Access:
    """Who is served by whom and how, step by step."""

    def __init__(self, config: NetworkConfig, scene: Scene, engine: Engine, period: float) -> None:
        self._config, self._scene, self._engine, self._period = config, scene, engine, period
        cells = access_points(scene)
        self._points: Slots = np.array(cells, np.int64)
        nodes = [scene.nodes[slot] for slot in cells]
        templates: list[Node] = [scene.template(slot) for slot in range(scene.capacity)]
        self._device = np.array([one.tier == "device" for one in templates], np.bool_)
        masts = [node.cell or _DEFAULT_CELL for node in nodes]
        radios = [one.radio or _DEFAULT_RADIO for one in templates]
        lift = np.array([mast.height if node.cell else 0.0 for mast, node in zip(masts, nodes, strict=True)])
        self._at_points = np.array([node.position for node in nodes]) + np.outer(lift, [0.0, 0.0, 1.0])  # (m, 3)
        self._carrier = np.array([mast.carrier for mast in masts])
        self._bandwidth = np.array([mast.bandwidth for mast in masts])
        gains = np.array([mast.gain for mast in masts])
        self._down = np.array([mast.power for mast in masts]) + gains - power.noise(self._bandwidth, 0.0)
        quiet = np.array([mast.noise_figure for mast in masts])
        self._up = gains - power.noise(self._bandwidth, quiet)
        self._power = np.array([radio.power for radio in radios])
        self._gain = np.array([radio.gain for radio in radios])
        self._noise = np.array([radio.noise_figure for radio in radios])
        self._height = np.array([radio.height for radio in radios])
        self._place = np.zeros((scene.capacity, 3))
        for slot, node in enumerate(scene.nodes):
            if node.position is not None:
                self._place[slot] = node.position
        self._placed = np.arange(scene.capacity) < len(scene.nodes)
        self._load = np.zeros((2, len(nodes)))  # bit/s up and down
        self._carried = np.zeros((2, scene.capacity))  # B up and down at the last step
        self._size = _sizes(scene)
        self._cell = np.full(scene.capacity, -1, np.int64)  # index into the access points
        self._looked = np.full((scene.capacity, 3), np.nan)  # m, antennas whose nearest point was looked for
        self._found = np.full(scene.capacity, -1, np.int64)  # and that point
        self._failed = np.zeros(len(self._points), np.bool_)
        links = engine.system
        cloud = np.array([one.tier == "cloud" for one in templates], np.bool_)
        self._wide = np.flatnonzero(cloud[links.link_a] != cloud[links.link_b])
        self._nominal = links.link_rate[self._wide]

    def frame(self, time: float, present: Flags, mobility: Sequence[Frame]) -> Frame:
        """The columns of `link` that the continuum reads, for all devices that are there and have a place."""
        for frame in mobility:
            self._place[frame.slot] = np.column_stack([frame["x"], frame["y"], frame["z"]])
            self._placed[frame.slot] = True
        slots = np.flatnonzero(present & self._device & self._placed)
        up, down, cell, delay = self._figures(slots)
        served = cell >= 0
        self._cell[:] = -1
        self._cell[slots] = cell
        columns: dict[str, NDArray[np.generic]] = {
            "cell": np.where(served, np.append(self._points, -1)[cell], -1).astype(np.int32),
            "uplink_rate": up, "downlink_rate": down, "delay": delay, "loss": np.zeros(len(slots)),
        }  # fmt: skip
        return Frame("link", time, slots.astype(np.int32), columns)

    def wan_factor(self, links: int) -> Floats:
        """(links,) on the nominal rates of fixed links: 1 but for links to cloud nodes by measured throughput."""
        factor = np.ones(links)
        if self._config.wan == "empirical" and len(self._wide):
            first = 3 * self._scene.capacity + 2 * self._wide
            active = self._engine.state.stations["active"]
            there, back = active[first], active[first + 1]
            each = network.wan((there + back).astype(np.float64))
            factor[self._wide] = each * np.maximum(np.maximum(there, back), 1) / self._nominal
        return factor

    @property
    def wide(self) -> bool:
        """Whether the rates of fixed links change from step to step."""
        return self._config.wan == "empirical" and len(self._wide) > 0

    def _figures(self, slots: Slots) -> tuple[Floats, Floats, Slots, Floats]:
        """Uplink and downlink bit/s, access point's index and delay s of the devices at these slots."""
        config, points = self._config, len(self._points)
        antenna = self._place[slots] + np.outer(self._height[slots], [0.0, 0.0, 1.0])
        reach = float("inf") if config.range is None else config.range
        failed = self._engine.state.nodes["up"][self._points] == 0
        cell = self._nearest(slots, antenna, failed, reach)
        meters = self._engine.meters(slots)
        uploads, downloads = meters.uploads, meters.downloads
        delay = np.full(len(slots), config.delay)
        if config.model == "empirical-wlan":
            up, down = network.wlan(cell, uploads, downloads, points, config.gain)
        elif config.model == "cellular":
            rate = config.rate or 0.0
            up, down = (network.shared(cell, count, points, rate) for count in (uploads, downloads))
        elif config.model == "mm1":
            up, down, delay = self._queues(slots, cell, delay)
        else:
            distance = network.distances(antenna, self._at_points)
            level = network.snr(distance, self._carrier, config.exponent, self._down)
            level += (self._gain[slots] - self._noise[slots])[:, None]
            level[(distance > reach) | failed] = -np.inf
            if config.attach == "strongest":
                cell = network.strongest(level, config.minimum_snr)
            return *self._radio(slots, distance, level, cell), delay
        return up, down, cell, delay

    def _nearest(self, slots: Slots, antenna: Floats, failed: Flags, reach: float) -> Slots:
        """(n,) the nearest access point of each device; those that have not moved keep theirs until a point fails."""
        if not np.array_equal(failed, self._failed):
            self._looked[:] = np.nan
            self._failed = failed
        moved = np.flatnonzero((self._looked[slots] != antenna).any(axis=1))
        rows = max(1, _PAIRS // max(1, len(self._points)))
        for part in (moved[first : first + rows] for first in range(0, len(moved), rows)):
            distance = network.distances(antenna[part], self._at_points)
            self._found[slots[part]] = network.nearest(np.where(failed, np.inf, distance), reach)
        self._looked[slots[moved]] = antenna[moved]
        return self._found[slots]

    def _queues(self, slots: Slots, cell: Slots, delay: Floats) -> tuple[Floats, Floats, Floats]:
        """M/M/1 per access point and direction: every transfer at the full rate after the mean wait of both ways.

        The engine has one delay for both directions, so each gets half of the sum.
        """
        config, points = self._config, len(self._points)
        rate = config.rate or 1.0
        meters = self._engine.meters(np.arange(self._scene.capacity))
        carried = np.stack([meters.sent, meters.received])
        bits = 8.0 * (carried - self._carried)
        self._carried = carried
        wait = np.zeros(len(slots))
        for way in (0, 1):
            sent = network.per_point(self._cell, bits[way], points)
            self._load[way] = network.smoothed(self._load[way], sent, self._period, config.window)
            mean = network.queueing(self._load[way], rate, self._size[way], config.queue_limit)
            wait += 0.5 * np.append(mean, 0.0)[cell]
        meters = self._engine.meters(slots)
        each: Floats = np.where(cell >= 0, rate, 0.0)
        up: Floats = each * np.maximum(meters.uploads, 1)
        down: Floats = each * np.maximum(meters.downloads, 1)
        return up, down, delay + wait

    def _radio(self, slots: Slots, distance: Floats, level: Floats, cell: Slots) -> tuple[Floats, Floats, Slots]:
        """Shannon's rate at the device's distance, shared among the active devices of its cell."""
        config, points = self._config, len(self._points)
        meters = self._engine.meters(slots)
        row = np.arange(len(slots))
        own = np.where(cell >= 0, cell, 0)
        cell = np.where(level[row, own] >= config.minimum_snr, cell, -1)
        back = network.snr(distance, self._carrier, config.exponent, self._up)[row, own]
        back = back + self._power[slots] + self._gain[slots]
        width = self._bandwidth[own]
        rates = []
        for decibels, count in ((back, meters.uploads), (level[row, own], meters.downloads)):
            whole = network.shannon(decibels, width, config.efficiency)
            rates.append(network.shared(cell, count, points, whole))
        return rates[0], rates[1], cell


def _sizes(scene: Scene) -> Floats:
    """(2,) mean bit of uploads and downloads over all workloads, by their rates."""
    weight = np.array([load.rate * len(slots_of(load.sources)) for load in scene.workloads])
    if not len(weight) or weight.sum() <= 0.0:
        return np.zeros(2)
    means = [[8.0 * law.mean for law in (load.input, load.output)] for load in scene.workloads]
    return np.asarray(np.average(np.array(means), axis=0, weights=weight))
