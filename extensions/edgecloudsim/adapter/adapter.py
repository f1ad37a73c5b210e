"""Steps the offloading model along the bus and turns its state into frames."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import Context, InMemory, Inputs, Summary
from cosim.contract.errors import refuse
from cosim.contract.frame import Frame, SlotTable
from cosim.contract.signals import OF_WORKLOADS, TASK_STATUS
from cosim.extensions.edgecloudsim.adapter.books import STATUS, OffloadingAccounts
from cosim.extensions.edgecloudsim.adapter.check import chosen, problems
from cosim.extensions.edgecloudsim.adapter.config import OffloadingConfig
from cosim.extensions.edgecloudsim.adapter.world import OffloadingWorld, build
from cosim.extensions.edgecloudsim.offloading.layout import CAUSES, COMPLETED
from cosim.extensions.edgecloudsim.offloading.logs import write_logs
from cosim.extensions.edgecloudsim.offloading.simulation import Simulation

Columns = Mapping[str, NDArray[Any]]

_CODES = np.array([TASK_STATUS.index(STATUS[cause]) for cause in CAUSES], np.int8)  # by cause


class OffloadingAdapter(InMemory[OffloadingConfig]):
    """One study of the offloading model, from its beginning to its end.

    step(t) advances the model to t. A frame stamped t holds where each device is at t, which tasks
    ended since the last step, and the machines' mean use since then.
    """

    def start(self, context: Context) -> None:
        """Build the study. Raises `ScenarioError` for what `check` finds."""
        refuse(problems(self._config, context))
        self._world: OffloadingWorld = build(self._config, context.scene, context.name, context.duration)
        study = self._world.study
        seed = int(np.random.SeedSequence(context.seed).generate_state(1, np.uint64)[0])
        self._simulation = Simulation(study, seed, choose=chosen(study), trace=True)
        self._books = OffloadingAccounts(self._world, context.scene)
        self._scratch = Path(context.scratch)
        self._begun = monotonic()
        self._kept: list[Columns] = []
        self._meters: list[list[float]] = []  # J of edge, cloud and devices at each sample of the load
        fleet = self._world.fleet
        names = tuple(f"{fleet.name}-{number + 1}" for number in range(study.devices))
        generation = np.zeros(study.devices, np.int32)
        generation.flags.writeable = False
        self._table = SlotTable(fleet.first, names, generation, 1)
        self._slots = np.arange(fleet.first, fleet.first + study.devices, dtype=np.int32)
        self._workloads = np.array(self._world.workloads, np.int16)
        # m; with app5 segments of equal length, each centred at its access point, make up a ring
        self._ring = 2.0 * study.places[0].x * len(study.places) if study.model == "app5" else 0.0
        self._before: NDArray[np.float64] | None = None
        self._time = 0.0
        self._ignored = 0

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """Go on to `time` (s); events of the scenario have no effect here and are counted."""
        self._ignored += len(inputs.events)
        if self._config.logs == "unical" and self._world.study.load_interval > 0.0:
            self._read_meters(time)
        self._simulation.advance(time)
        ended = self._simulation.drain()
        if self._config.logs is not None:
            self._kept.append(ended)
        machines = self._simulation.machines()
        hosts = self._books.host_frame(time, machines, ended)
        return self._mobility(time), self._tasks(time, ended), hosts

    def finish(self) -> Summary:
        """The ledgers, the figures of the model's own logs, and those logs if they are wanted."""
        outcome = self._simulation.outcome()
        summary = self._books.summary(outcome, self._simulation.machines())
        if self._config.logs is not None:
            columns = {name: np.concatenate([part[name] for part in self._kept]) for name in self._kept[0]}
            wall = monotonic() - self._begun
            meters = np.array(self._meters).reshape(-1, 3)
            written = write_logs(self._scratch, outcome, self._config.logs, rows=columns, meters=meters, wall=wall)
            summary["logs"] = [path.name for path in written]
        figures = {name: value for name, value in outcome.metrics().items() if math.isfinite(value)}
        return {**summary, "metrics": figures, "ignored_events": self._ignored}

    def _read_meters(self, until: float) -> None:
        """Stop at every sample of the load up to `until` (s) and note the energies."""
        interval = self._world.study.load_interval
        while (len(self._meters) + 1) * interval <= until * (1.0 + 1e-12):
            self._simulation.advance(min((len(self._meters) + 1) * interval, until))
            energy = self._simulation.outcome().energy
            self._meters.append([energy.get(meter, math.nan) for meter in ("edge", "cloud", "mobile")])

    def _mobility(self, time: float) -> Frame:
        at = self._simulation.positions()
        east, north = np.ascontiguousarray(at[:, 0]), np.ascontiguousarray(at[:, 1])
        speed, heading = np.zeros(len(at)), np.zeros(len(at))
        if self._before is not None and time > self._time:
            way = at - self._before
            if self._ring:  # the road ends where it begins
                way[:, 0] -= self._ring * np.round(way[:, 0] / self._ring)
            moved = np.hypot(way[:, 0], way[:, 1])
            if self._ring:  # who changes place by a jump has no speed on the way
                speed = moved / (time - self._time)
            heading = np.where(moved > 0.0, np.degrees(np.arctan2(way[:, 0], way[:, 1])) % 360.0, 0.0)
        self._before, self._time = at, time
        columns = {"x": east, "y": north, "z": np.zeros(len(at)), "speed": speed, "heading": heading}
        return Frame("mobility", time, self._slots.copy(), columns, self._table)

    def _tasks(self, time: float, ended: Columns) -> Frame:
        late = ended["ended"] - ended["created"]
        allowed = self._books.allowed[ended["application"]]
        completed = ended["cause"] == COMPLETED
        columns: dict[str, NDArray[Any]] = dict.fromkeys(OF_WORKLOADS, np.zeros(len(late))) | {
            "task": ended["serial"].astype(np.int64),
            "workload": self._workloads[ended["application"]],
            "host": self._books.slot_of(ended["vm"]),
            "status": _CODES[ended["cause"]],
            "created": ended["created"].astype(np.float64),
            "uploaded": ended["arrived"].astype(np.float64),
            "started": ended["arrived"].astype(np.float64),
            "computed": ended["computed"].astype(np.float64),
            "ended": ended["ended"].astype(np.float64),
            "input": 1e3 * ended["upload"],
            "output": 1e3 * ended["download"],
            "work": 1e6 * ended["length"],
            "deadline": allowed,
            "late": completed & (late > allowed),
        }
        slots = (self._world.fleet.first + ended["device"]).astype(np.int32)
        return Frame("task", time, slots, {name: np.ascontiguousarray(column) for name, column in columns.items()})
