"""A small world and plausible frames of any signal: what the contract checker feeds to an adapter.

The values mean nothing, but they keep to the signal catalogue: units in their usual ranges, links to
cells that exist, counters that grow, tasks whose moments stand in order, a fleet whose slots are
taken, left and taken again. Everything is a function of the step's number, so that two readers see
the same bits.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace

import numpy as np

from cosim.contract.entities import Event, Fleet, Geo, Link, Node, Scene, SlotRange, Workload
from cosim.contract.equipment import Power
from cosim.contract.frame import Array, Frame, SlotTable
from cosim.contract.laws import Law
from cosim.contract.link import LinkState
from cosim.contract.node_keys import Cell, Radio, Wifi
from cosim.contract.signals import TASK_STATUS, Column, Signal

# unit -> range of plausible values
_RANGES: dict[str, tuple[float, float]] = {
    "m": (0.0, 300.0),
    "m/s": (0.0, 20.0),
    "deg": (0.0, 360.0),
    "dBm": (-110.0, -60.0),
    "dB": (-5.0, 30.0),
    "bit/s": (1e6, 5e7),
    "s": (1e-3, 3e-2),
    "W": (2.0, 50.0),
    "J": (1.0, 50.0),
    "B": (1e3, 1e5),
    "cycles": (1e6, 1e8),
    "1": (0.0, 1.0),
}
_WIDEST = (0.0, 10.0)  # for units that the table does not know

# the fleet's members at each step, by place in the range: one leaves, later another takes its place
_PRESENT = ((0, 1), (0, 1, 2), (0, 2), (0, 1, 2), (0, 1, 2))


def small_scene(owner: str, *, fleet: bool = True) -> Scene:
    """Two base stations with edge hosts, one without, a cloud, two drones, a hub, and a fleet of `owner`'s."""
    device = Node(
        "", "uav", "device", radio=Radio(), radio_energy_sent=4.7e-8,
        wifi=Wifi(mode="station", network="field"),
    )  # fmt: skip
    drone = replace(device, keys=(("vehicle", '{"frame":"copter"}'),))
    site = Node(
        "",
        "edge",
        "edge",
        cores=4,
        clock=1.8e9,
        memory=8 * 2.0**30,
        slots=50,
        power=Power((2.7, 4.2, 6.4), "synthetic"),
        cell=Cell(),
        wifi=Wifi.si(mode="access-point", network="field", height=4.0),
    )
    nodes = (
        _named(drone, "uav-1", (10.0, 20.0, 30.0)),
        _named(drone, "uav-2", (150.0, 60.0, 40.0)),
        _named(site, "edge-1", (0.0, 0.0, 5.0)),
        _named(site, "edge-2", (300.0, 0.0, 5.0)),
        Node("bs-3", "bs", "edge", position=(150.0, 200.0, 0.0), cell=site.cell),
        Node("cloud", "cloud", "cloud", cores=16, clock=3e9, power=Power((90.0, 300.0), "synthetic")),
    )
    hosts = (SlotRange(2, 2), SlotRange(4))
    fleets = (Fleet("car", owner, 0, 6, _named(device, "car", None)),) if fleet else ()
    sources = (SlotRange(0, 2), *(SlotRange(len(nodes), f.capacity) for f in fleets))
    fixed = Law("fixed", 4e3)
    workloads = (
        Workload(
            "navigation", sources, "poisson", 2.0, Law("exponential", 2e4), fixed, Law("fixed", 5e7),
            deadline=0.5,
        ),
        Workload(
            "hazard", sources, "every", 1.0, Law("uniform", 1e4, 2e4), fixed, Law("exponential", 9e7),
            share=0.5, active=20.0, idle=10.0, start=1.0,
        ),
    )  # fmt: skip
    links = (
        Link(hosts, (SlotRange(5),), LinkState(1e8, 0.02, loss=0.001)),
        Link((SlotRange(2),), (SlotRange(3),), LinkState(1e9, 1e-3)),
    )
    return Scene.build(nodes, fleets, links, workloads, Geo(39.36, 22.95, 60.0))


def _named(node: Node, name: str, position: tuple[float, float, float] | None) -> Node:
    return replace(node, id=name, position=position)


def small_events(scene: Scene, period: float) -> list[list[Event]]:
    """What becomes due at each of the first steps: a link degrades, a host fails, both come back."""
    hosts = [SlotRange(slot) for slot, node in enumerate(scene.nodes) if node.cores]
    if not hosts:
        return []
    due: list[list[Event]] = [[], [], [], []]
    due[1].append(Event(0.9 * period, "fail", (hosts[0],)))
    due[2].append(Event(2.0 * period, "recover", (hosts[0],)))
    if scene.links:
        pair = (scene.links[0].a, scene.links[0].b)
        due[1].append(Event(period, "degrade", (), pair, delay=0.1, loss=0.05, rate=0.5))
        due[3].append(Event(2.5 * period, "restore", (), pair))
    return due


@dataclass
class Source:
    """Frames of one signal over a scene, step by step, as some other adapter might write them.

    Without `renewed` a slot of the fleet that was left is taken by the same member again.
    """

    signal: Signal
    scene: Scene
    period: float  # s
    renewed: bool = True
    _seed: int = field(init=False)

    def __post_init__(self) -> None:
        self._seed = zlib.crc32(self.signal.name.encode())

    def frame(self, step: int) -> Frame:
        """The frame at `step`; its arrays are not shared, and read-only."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self._seed, step])))
        slots = self._slots(step)
        if self.signal.rows == "event":
            slots = rng.choice(slots, 3 if step else 0).astype(np.int32) if len(slots) else slots
        columns = {column.name: self._column(column, slots, step, rng) for column in self.signal.columns}
        if self.signal.name == "task":
            self._order(columns, step, rng)
        for array in (slots, *columns.values()):
            array.flags.writeable = False
        table = (
            fleet_table(self.scene, step, renewed=self.renewed)
            if self.signal.name == "mobility" and self.scene.fleets
            else None
        )
        return Frame(self.signal.name, step * self.period, slots, columns, table)

    def _slots(self, step: int) -> Array:
        nodes = self.scene.nodes
        members = [fleet.first + place for fleet in self.scene.fleets for place in _present(fleet, step)]
        devices = [slot for slot, node in enumerate(nodes) if node.tier == "device"]
        chosen = {
            "mobility": members + devices,
            "link": members + devices,
            "traffic": members + devices,
            "task": members + devices,
            "cell": [slot for slot, node in enumerate(nodes) if node.cell is not None],
            "host": [slot for slot, node in enumerate(nodes) if node.cores],
        }.get(self.signal.name, [*range(len(nodes)), *members])
        return np.array(sorted(chosen), np.int32)

    def _column(self, column: Column, slots: Array, step: int, rng: np.random.Generator) -> Array:
        n, dtype = len(slots), np.dtype(column.dtype)
        if column.role == "slot":
            stations = [slot for slot, node in enumerate(self.scene.nodes) if node.cell is not None] or [-1]
            return rng.choice(np.array([*stations, -1]), n).astype(dtype)
        if column.role == "code":
            codes = max(1, len(self.scene.workloads) if column.codes == "workloads" else len(column.codes))
            return rng.integers(0, codes, n).astype(dtype)
        if column.role == "counter":
            return (step * (slots % 3 + 1)).astype(dtype)
        if dtype == np.bool_:
            return np.ones(n, np.bool_)
        if column.name == "loss":
            return rng.uniform(0.0, 0.1, n).astype(dtype)
        if dtype.kind in "iu":
            least = int(max(column.low, 0.0))
            return rng.integers(least, least + 5, n).astype(dtype)
        low, high = _RANGES.get(column.unit, _WIDEST)
        return rng.uniform(low, high, n).astype(dtype)

    def _order(self, columns: dict[str, Array], step: int, rng: np.random.Generator) -> None:
        """Put the moments of tasks in order, the last of them within the step that has just passed."""
        n = len(columns["task"])
        columns["task"][:] = np.arange(n) + 3 * step
        columns["status"][:] = TASK_STATUS.index("completed")
        columns["host"][:] = next((slot for slot, node in enumerate(self.scene.nodes) if node.cores), -1)
        columns["deadline"][:] = np.inf
        columns["late"][:] = False
        moments = np.sort(rng.uniform(max(0, step - 1), max(step, 0), (5, n)) * self.period, axis=0)
        for name, moment in zip(("created", "uploaded", "started", "computed", "ended"), moments, strict=True):
            columns[name][:] = moment


def fleet_table(scene: Scene, step: int, *, renewed: bool = True) -> SlotTable:
    """The members at the slots of the scene's first fleet at `step`; with `renewed` a new one each time."""
    fleet = scene.fleets[0]
    names: list[str] = [""] * fleet.capacity
    generation = np.zeros(fleet.capacity, np.int32)
    epoch, before = 0, frozenset[int]()
    for k in range(step + 1):
        now = frozenset(_present(fleet, k))
        new = [place for place in now - before if renewed or not names[place]]
        for place in new:
            generation[place] += 1
            names[place] = f"{fleet.name}-{place}.{generation[place]}"
        epoch += bool(new)
        before = now
    return SlotTable(fleet.first, tuple(names), generation, epoch)


def _present(fleet: Fleet, step: int) -> list[int]:
    return [place for place in _PRESENT[min(step, len(_PRESENT) - 1)] if place < fleet.capacity]
