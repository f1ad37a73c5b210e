"""Events of tasks and nodes, reported as they happen: rows of the signals `task_event` and `node_event`.

Events since the last look are read from the engine's state, with their exact times; the engine does no extra work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.continuum.config import TraceConfig
from cosim.contract.entities import Scene
from cosim.contract.frame import Frame
from cosim.contract.selector import matcher
from cosim.contract.signals import NODE_EVENTS, TASK_EVENTS
from cosim.engine.continuum.engine import Engine
from cosim.engine.continuum.layout import ABSENT, ASLEEP, BOOTING, FREE, OFF, ON, WAKING

_BETWEEN = TASK_EVENTS[1:-1]  # neither creation nor end
_CARRIED = ("serial", "workload", "job", "stage", "host", "status", "created", "device")

Columns = dict[str, NDArray[Any]]


class TaskEvents:
    """What has happened to tasks since the last look.

    For a workload with a graph it reports every stage, and the creation and end of every job.
    """

    def __init__(self, engine: Engine, workloads: NDArray[np.bool_], events: tuple[str, ...]) -> None:
        self._engine = engine
        self._workloads = workloads  # (workloads,) that are followed
        self._events = np.array([name in events for name in TASK_EVENTS])
        self._next = engine.created  # serial of the first task whose creation has not been reported
        self._serial = np.empty(0, np.int64)  # tasks in flight at the last look, ascending
        self._reported = np.empty((0, len(_BETWEEN)), np.bool_)  # what of them had happened

    def frame(self, time: float, ended: Columns) -> Frame:
        """The events since the last frame, in the order of time; `ended` are the tasks that ended since then."""
        live = self._live()
        jobs = self._jobs()
        over = self._over(ended)
        rows = {name: np.concatenate([live[name], jobs[name], over[name]]) for name in live}
        at = np.stack([rows[name] for name in TASK_EVENTS], axis=1)  # NaN: has not happened
        at[rows["serial"] < self._next, 0] = np.nan
        if len(self._serial):
            place = np.minimum(np.searchsorted(self._serial, rows["serial"]), len(self._serial) - 1)
            reported = self._reported[place] & (self._serial[place] == rows["serial"])[:, None]
            at[:, 1:-1][reported] = np.nan
        order = np.argsort(live["serial"])
        self._serial = live["serial"][order]
        self._reported = np.stack([live[name] == live[name] for name in _BETWEEN], axis=1)[order]
        self._next = self._engine.created
        at[:, ~self._events] = np.nan
        row, event = np.nonzero(at == at)
        when = at[row, event]
        order = np.lexsort((event, rows["serial"][row], when))
        row, event, when = row[order], event[order], when[order]
        columns = {
            "task": rows["serial"][row],
            "workload": rows["workload"][row].astype(np.int16),
            "job": rows["job"][row],
            "stage": rows["stage"][row].astype(np.int16),
            "event": event.astype(np.int8),
            "at": when,
            "host": np.where(event > 0, rows["host"][row], -1).astype(np.int32),
            "status": np.where(event == len(TASK_EVENTS) - 1, rows["status"][row], -1).astype(np.int8),
            "created": rows["created"][row],
        }
        return Frame("task_event", time, rows["device"][row].astype(np.int32), columns)

    def _live(self) -> Columns:
        """Tasks and stages in flight; not what brings a stage its other inputs."""
        state = self._engine.state
        live = state.tasks[(state.tasks["phase"] != FREE) & (state.tasks["join"] < 0)]
        live = live[self._workloads[live["workload"]]]
        staged = live["job"] >= 0
        rows: Columns = {name: live[name].copy() for name in ("serial", "workload", "host", "created", "device")}
        rows |= {name: live[name].copy() for name in _BETWEEN}
        rows["job"] = np.where(staged, state.jobs["serial"][live["job"]] if len(state.jobs) else -1, -1)
        rows["stage"] = np.where(staged, live["stage"] - state.workloads["first_stage"][live["workload"]], -1)
        rows["status"] = np.full(len(live), -1)
        rows["ended"] = np.full(len(live), np.nan)
        return rows

    def _jobs(self) -> Columns:
        """Jobs in flight: each has a stage in flight."""
        state = self._engine.state
        tasks = state.tasks
        numbers = np.unique(tasks["job"][(tasks["phase"] != FREE) & (tasks["job"] >= 0)])
        jobs = state.jobs[numbers]
        jobs = jobs[self._workloads[jobs["workload"]]]
        rows: Columns = {name: jobs[name].copy() for name in ("serial", "workload", "created", "device")}
        rows |= {name: np.full(len(jobs), -1) for name in ("job", "stage", "host", "status")}
        rows |= {name: np.full(len(jobs), np.nan) for name in (*_BETWEEN, "ended")}
        return rows

    def _over(self, ended: Columns) -> Columns:
        """Tasks, stages and jobs that ended; events between creation and end are reported for stages, not for jobs."""
        kept = self._workloads[ended["workload"]]
        rows = {name: ended[name][kept] for name in (*_CARRIED, *TASK_EVENTS[1:])}
        whole = (rows["stage"] < 0) & (self._engine.state.workloads["stages"][rows["workload"]] > 0)
        for name in _BETWEEN:
            rows[name] = np.where(whole, np.nan, rows[name])
        return rows


class NodeTrace:
    """What has happened to nodes since the last frame.

    Call `look` whenever the engine has advanced and whenever it has been changed. If a machine falls asleep more
    than once between two looks, only the last time is reported.
    """

    def __init__(self, engine: Engine, slots: NDArray[np.bool_], events: tuple[str, ...]) -> None:
        self._engine = engine
        self._slots = slots  # (slots,) that are followed
        self._events = np.array([name in events for name in NODE_EVENTS])
        self._created = np.zeros(len(slots))  # s, since when the node at the slot is there
        self._rows: list[tuple[int, int, float, float]] = []  # event, slot, at, created
        self._note()

    def look(self) -> None:
        """Note what has happened since the last look."""
        nodes, now = self._engine.state.nodes, self._engine.now
        was, there = self._present != 0, nodes["present"] != 0
        other = nodes["generation"] != self._generation
        new = there & (~was | other)
        self._add("vanish", np.flatnonzero(was & (~there | other)), now)
        self._created[new] = now
        self._add("appear", np.flatnonzero(new), now)
        same = was & there & ~other
        self._batteries(same)
        turned = same & (nodes["up"] != self._up)
        self._add("fail", np.flatnonzero(turned & (nodes["up"] == 0)), now)
        self._add("recover", np.flatnonzero(turned & (nodes["up"] != 0)), now)
        if len(self._machine):
            self._machines(same)
        self._note()

    def frame(self, time: float) -> Frame:
        """The events since the last frame, in the order of time."""
        rows = sorted(self._rows, key=lambda row: (row[2], row[1], row[0]))
        self._rows = []
        columns: Columns = {
            "event": np.array([row[0] for row in rows], np.int8),
            "at": np.array([row[2] for row in rows], np.float64),
            "created": np.array([row[3] for row in rows], np.float64),
        }
        return Frame("node_event", time, np.array([row[1] for row in rows], np.int32), columns)

    def _note(self) -> None:
        """Keep how things are."""
        state = self._engine.state
        self._present, self._generation = state.nodes["present"].copy(), state.nodes["generation"].copy()
        self._up = state.nodes["up"].copy()
        self._empty = state.batteries["empty"].copy()
        self._machine = state.machines[["state", "since", "wakes"]].copy()
        self._asleep = state.spells[:, ASLEEP].copy() if len(state.machines) else np.empty(0)

    def _add(self, event: str, slots: NDArray[np.int64], at: float) -> None:
        code = NODE_EVENTS.index(event)
        if self._events[code]:
            reported = slots[self._slots[slots]].tolist()
            self._rows += [(code, slot, at, float(self._created[slot])) for slot in reported]

    def _batteries(self, same: NDArray[np.bool_]) -> None:
        batteries, stations = self._engine.state.batteries, self._engine.state.stations
        for slot in batteries["node"][(batteries["empty"] != 0) & (self._empty == 0)].tolist():
            if same[slot]:
                # nothing touches the processor of a node after it has died
                self._add("battery-empty", np.array([slot]), float(stations["since"][3 * slot]))
                self._up[slot] = 0

    def _machines(self, same: NDArray[np.bool_]) -> None:
        """The last change of state of each machine, and what must have gone before it."""
        machines, before, spells = self._engine.state.machines, self._machine, self._engine.state.spells
        changed = (machines["state"] != before["state"]) | (machines["since"] != before["since"])
        for m in np.flatnonzero(changed & same[machines["node"]]).tolist():
            row, state, old = machines[m], int(machines["state"][m]), int(before["state"][m])
            slot, since = machines["node"][m : m + 1], float(row["since"])
            if state == BOOTING:
                self._add("boot", slot, since)
            elif state == ASLEEP:
                self._add("sleep", slot, since)
            elif state == ON and old == BOOTING:
                self._add("ready", slot, since)
            elif state in (ON, WAKING) and old not in (OFF, ABSENT):
                if state == ON:
                    self._add("ready", slot, since)
                if old != WAKING:
                    woken = since - (float(row["wake_time"]) if state == ON else 0.0)
                    self._add("wake", slot, woken)
                    if old == ON:
                        self._add("sleep", slot, woken - float(spells[m, ASLEEP] - self._asleep[m]))


class EventTraces:
    """The traces that a configuration asks for."""

    def __init__(self, config: TraceConfig, scene: Scene, engine: Engine) -> None:
        wanted = config.signals()
        loads = _workloads(config, scene)
        slots = _slots(config, scene)
        self._tasks = TaskEvents(engine, loads, config.wanted(TASK_EVENTS)) if "task_event" in wanted else None
        self._nodes = NodeTrace(engine, slots, config.wanted(NODE_EVENTS)) if "node_event" in wanted else None

    def look(self) -> None:
        """Note what has happened to nodes; call it when the engine has advanced or has been changed."""
        if self._nodes is not None:
            self._nodes.look()

    def frames(self, time: float, ended: Columns) -> list[Frame]:
        """A frame for each signal, of what happened since the last ones; `ended` are the tasks that ended."""
        frames = [] if self._tasks is None else [self._tasks.frame(time, ended)]
        return frames if self._nodes is None else [*frames, self._nodes.frame(time)]


def _workloads(config: TraceConfig, scene: Scene) -> NDArray[np.bool_]:
    """(workloads,) whether each is followed."""
    names = [load.name for load in scene.workloads]
    asked = names if config.workloads == "all" else config.workloads
    return np.array([name in asked for name in names], np.bool_)


def _slots(config: TraceConfig, scene: Scene) -> NDArray[np.bool_]:
    """(slots,) whether each is followed."""
    found = np.zeros(scene.capacity, np.bool_)
    if config.nodes == "all":
        found[:] = True
        return found
    for part in [config.nodes] if isinstance(config.nodes, str) else config.nodes:
        hits, match = np.zeros(scene.capacity, np.bool_), matcher(part)
        for slot, node in enumerate(scene.nodes):
            hits[slot] = match(node.id, node)
        for fleet in scene.fleets:
            hits[fleet.first : fleet.first + fleet.capacity] = match(fleet.name, fleet.template)
        found |= hits
    return found
