"""The SUMO adapter: steps SUMO and shows its vehicles as the members of a fleet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.sumo.backend import Columns, LibsumoBackend, SumoBackend
from cosim.adapters.sumo.check import file_of, net_of, problems
from cosim.adapters.sumo.config import SumoConfig, option
from cosim.adapters.sumo.roster import PresentVehicles
from cosim.adapters.sumo.space import Alignment, RegionFence, write_streets
from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.errors import RunError, refuse
from cosim.contract.frame import Frame
from cosim.contract.slots import SlotBook

COLUMNS = ("x", "y", "z", "speed", "heading")


class SumoAdapter:
    """Vehicles of a SUMO simulation.

    The frame at time t holds what SUMO's own trajectory output stamps with begin + t: the state
    after the simulation step of that time, so that vehicles which depart at `begin` are there at
    time 0. A vehicle is absent while SUMO teleports it.
    """

    def __init__(self, config: SumoConfig) -> None:
        self._config = config
        self._backend: SumoBackend | None = None
        self._row_sums = [0.0, 0]  # sum of speeds (m/s), rows
        self._counted = {"departed": 0, "arrived": 0}
        self._step = 0

    def start(self, context: Context) -> None:
        config = self._config
        refuse(problems(config, context))
        fleet = next(fleet for fleet in context.scene.fleets if fleet.adapter == context.name)
        scratch = Path(context.scratch)
        scratch.mkdir(parents=True, exist_ok=True)
        log_file = scratch / "sumo.log"
        resolution = config.resolution or context.period
        arguments = [] if config.server else command(config, context, log_file, resolution)
        backend = self._backend = make_backend(config, log_file)
        backend.start(arguments)
        if abs(backend.step_length() - resolution) > 1e-9:
            raise RunError(
                f"the SUMO at {config.server} has steps of {backend.step_length():g} s, not of {resolution:g} s: "
                f"start it with another --step-length, or set adapters.{context.name}.resolution to its steps"
            )
        self._begin, self._resolution = backend.time(), resolution
        self._alignment = Alignment.between(context.scene.geo, backend.project, backend.elevated)
        network = net_of(config, context)
        if network is not None:
            write_streets(network, self._alignment, scratch)
        classes = frozenset(config.classes) if config.classes is not None else None
        self._roster = PresentVehicles(None if classes is None else lambda v: backend.vehicle_class(v) in classes)
        self._fence = RegionFence(config.region, context.period) if config.region is not None else None
        self._inside: dict[str, None] = {}  # vehicles that the frame shows, when there is a fence
        self._book = SlotBook(fleet.first, fleet.capacity, fleet.name)
        self._slots = np.empty(0, np.int32)
        self._buffers = [np.empty((5, 0)), np.empty((5, 0))]
        self._room = fleet.capacity

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        backend = self._backend
        assert backend is not None
        moves = backend.advance(self._begin + time + self._resolution)
        came, went = self._roster.update(moves, backend.visible)
        self._counted["departed"] += len(moves.departed)
        self._counted["arrived"] += len(moves.arrived)
        shown = self._roster.present
        if self._fence is None:
            for vehicle in came:
                backend.watch(vehicle)
            changed = bool(came or went)
        else:
            changed = self._move_fence(self._fence, came, went, moves.landed)
            shown = self._inside
        values = self._read(shown)
        if self._fence is not None and self._leave_region(self._fence, values):
            changed = True
            values = self._read(shown)
        if changed:
            self._slots = self._book.assign(list(shown))
        self._row_sums[0] += float(values[3].sum())
        self._row_sums[1] += values.shape[1]
        self._step += 1
        return [Frame("mobility", time, self._slots, dict(zip(COLUMNS, values, strict=True)), self._book.table())]

    def _read(self, vehicles: dict[str, None]) -> NDArray[np.float64]:
        """The state of `vehicles`, (5, n) in the scenario's frame; the buffers take turns by step."""
        assert self._backend is not None
        count, side = len(vehicles), self._step % 2
        if self._buffers[side].shape[1] < count:
            # the book refuses more than the capacity; with a region, some of these may still leave
            self._buffers[side] = np.empty((5, max(count, min(2 * count + 64, self._room))))
        values = self._buffers[side][:, :count]
        # items of a memoryview take half the time of those of an array
        self._backend.read(vehicles, cast("Columns", [memoryview(row) for row in values]))
        if not self._alignment.identity:
            self._alignment.apply(values[0], values[1], values[2], values[4])
        return values

    def _move_fence(self, fence: RegionFence, came: list[str], went: list[str], landed: Sequence[str]) -> bool:
        """Let in what has come into the region; true when the shown vehicles changed."""
        assert self._backend is not None
        changed = False
        for vehicle in went:
            if not fence.forget(vehicle):
                del self._inside[vehicle]
                changed = True
        for vehicle in (*fence.due(self._step, landed), *came):
            distance = fence.distance(*self._alignment.point(*self._backend.place(vehicle)))
            if distance > 0.0:
                fence.sleep(vehicle, distance, self._step)
            else:
                self._backend.watch(vehicle)
                self._inside[vehicle] = None
                changed = True
        return changed

    def _leave_region(self, fence: RegionFence, values: NDArray[np.float64]) -> bool:
        """Send vehicles that have left the region to sleep; true when there were any."""
        assert self._backend is not None
        rows = fence.outside(values[0], values[1]).tolist()
        if rows:
            names = list(self._inside)
            for row in rows:
                self._backend.unwatch(names[row])
                del self._inside[names[row]]
                fence.sleep(names[row], fence.distance(values[0, row], values[1, row]), self._step)
        return bool(rows)

    def finish(self) -> Summary:
        backend = self._backend
        assert backend is not None
        speed, rows = self._row_sums
        return {
            **self._counted,
            "running": backend.statistic("stats.vehicles.running"),
            "waiting": backend.statistic("stats.vehicles.waiting"),  # to be inserted, for lack of room
            "teleports": backend.statistic("stats.teleports.total"),
            "collisions": backend.statistic("stats.safety.collisions"),
            "mean_speed": speed / rows if rows else None,  # m/s, over all rows of the frames
            "rows": rows,
            "version": backend.version(),
            "interface": "traci" if self._config.over_traci else "libsumo",
        }

    def close(self) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.close()


def make_backend(config: SumoConfig, log_file: Path) -> SumoBackend:
    """libsumo in this process, or TraCI when the configuration asks for something that needs it."""
    if not config.over_traci:
        return LibsumoBackend(log_file)
    from cosim.adapters.sumo.traci_backend import TraciBackend

    return TraciBackend(log_file, gui=config.gui, server=config.server or "")


def command(config: SumoConfig, context: Context, log_file: Path, resolution: float) -> list[str]:
    """SUMO's command line."""
    arguments = ["-c", str(file_of(config.config, context))] if config.config is not None else []
    network = str(file_of(config.network, context)) if config.network is not None else ""
    routes = [str(file_of(text, context)) for text in config.files("routes")]
    additional = [str(file_of(text, context)) for text in config.files("additional")]
    if config.demand is not None:
        from cosim.adapters.sumo.demand import demand_file

        routes.append(str(demand_file(Path(network), config.demand, config.begin or 0.0)))
    for key, files in (("--net-file", [network] if network else []), ("--route-files", routes),
                          ("--additional-files", additional)):  # fmt: skip
        if files:
            arguments += [key, ",".join(files)]
    seed = config.seed
    if seed is None:
        seed = int(np.random.SeedSequence(context.seed).generate_state(1)[0]) & 0x7FFFFFFF
    values: dict[str, object] = {"step-length": f"{resolution:.3f}", "seed": seed, "begin": config.begin,
                                 "scale": config.scale, "time-to-teleport": config.teleport, "log": log_file,
                                 "no-step-log": True, "random": False, **config.options}  # fmt: skip
    for name, value in values.items():
        if value is not None:
            arguments += option(name, value)
    return arguments
