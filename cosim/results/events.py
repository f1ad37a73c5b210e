"""What happened during a run, and which nodes took part: `events.parquet`, `nodes.parquet`."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from cosim.contract.entities import Event, Scene, SlotRange
from cosim.contract.seals import DamagedError
from cosim.results.arrays import table
from cosim.results.identity import SlotHolder
from cosim.scenario.plan.plan import Plan

JOURNAL = "events.jsonl"  # while running; events.parquet afterwards

RECENT = 200  # events kept in memory for observers

_EVENTS = pa.schema([
    pa.field("time", pa.float64()), pa.field("kind", pa.string()),
    pa.field("node", pa.string()), pa.field("detail", pa.string()),
])  # fmt: skip

_NODES = pa.schema([
    pa.field("node", pa.string()), pa.field("kind", pa.string()), pa.field("tier", pa.string()),
    pa.field("fleet", pa.string()), pa.field("slot", pa.int32()), pa.field("generation", pa.int32()),
    pa.field("x", pa.float64()), pa.field("y", pa.float64()), pa.field("z", pa.float64()),
    pa.field("first_seen", pa.float64()), pa.field("last_seen", pa.float64()), pa.field("color", pa.string()),
])  # fmt: skip


class EventLog:
    """Writes events to `events.jsonl` at once, so that those of a killed run are kept.

    The plan's own events are noted when they become due. `add` may be called from any thread.
    Events are few; a disk that refuses them refuses the frames too, so errors are kept for `close`.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._path = folder / JOURNAL
        self._scene = plan.scene
        self._planned = sorted(plan.events, key=lambda event: event.at)
        self._next = 0
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self.count = 0  # noted so far
        self.recent: deque[tuple[float, str, str, str]] = deque(maxlen=RECENT)  # the newest: time, kind, node, detail
        self.failure: OSError | None = None

    def due(self, time: float) -> None:
        """Note the plan's events up to `time` (s)."""
        while self._next < len(self._planned) and self._planned[self._next].at <= time:
            event = self._planned[self._next]
            self._next += 1
            self.note(event)

    def note(self, event: Event) -> None:
        """Note an event of the plan, or one that was injected."""
        self.add(event.at, event.do, *_target(event, self._scene))

    def add(self, time: float, kind: str, node: str = "", detail: str = "") -> None:
        """Note one occurrence at `time` (s)."""
        line = json.dumps([time, kind, node, detail]).encode() + b"\n"
        with self._lock:
            self.count += 1
            self.recent.append((time, kind, node, detail))
            try:
                if self._file is None:
                    self._file = self._path.open("ab", buffering=0)
                self._file.write(line)
            except OSError as error:
                self.failure = self.failure or error

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


def events_table(folder: Path) -> pa.Table:
    """The run's events in order of time, from its journal."""
    path = folder / JOURNAL
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    try:
        rows = sorted((json.loads(line) for line in lines), key=lambda row: float(row[0]))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from error
    return table(_EVENTS, [[row[i] for row in rows] for i in range(len(_EVENTS))])


def nodes_table(
    plan: Mapping[str, Any], members: Sequence[SlotHolder], last_seen: Mapping[int, float], reached: float
) -> pa.Table:
    """One row per static node and per taking of a fleet's slot, in order of appearance.

    `plan` is `Plan.as_dict()`. Static nodes are there from 0 to the end of the run (`reached`).
    """
    static = plan["scene"]["nodes"]
    templates = {fleet["name"]: fleet["template"] for fleet in plan["scene"]["fleets"]}
    empty = {"kind": "", "tier": "device", "color": ""}
    columns: dict[str, list[Any]] = {name: [] for name in _NODES.names}
    for member in members:
        fixed = member.slot < len(static)
        node = static[member.slot] if fixed else templates.get(member.fleet, empty)
        x, y, z = (node["position"] if fixed else None) or (None, None, None)
        seen = last_seen.get(member.serial, member.first_seen)
        row = (
            member.id, node["kind"], node["tier"], member.fleet or None, member.slot, member.generation,
            x, y, z, member.first_seen, max(seen, reached) if fixed else seen, node["color"],
        )  # fmt: skip
        for name, value in zip(_NODES.names, row, strict=True):
            columns[name].append(value)
    return table(_NODES, list(columns.values()))


def _target(event: Event, scene: Scene) -> tuple[str, str]:
    """Node and detail of a planned event."""
    if event.link is not None:
        a, b = (_names(side, scene) for side in event.link)
        change = [f"delay +{event.delay:g} s"] if event.delay else []
        change += [f"loss +{event.loss:g}"] if event.loss else []
        change += [f"rate x{event.rate:g}"] if event.rate != 1.0 else []
        return f"{a}/{b}", ", ".join(change)
    return _names(event.nodes, scene), ""


def _names(ranges: Sequence[SlotRange], scene: Scene) -> str:
    """Slots as text: ids of static nodes, names of fleets."""
    names: list[str] = []
    for some in ranges:
        if some.first < len(scene.nodes):
            names += [node.id for node in scene.nodes[some.first : some.first + some.count]]
        else:
            names += [fleet.name for fleet in scene.fleets if fleet.first <= some.first < fleet.first + fleet.capacity]
    return ", ".join(names)
