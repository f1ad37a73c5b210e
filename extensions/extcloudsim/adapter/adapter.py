"""Steps the model along the bus and turns its state into frames."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.errors import refuse
from cosim.contract.frame import Frame
from cosim.extensions.extcloudsim.adapter.books import summary
from cosim.extensions.extcloudsim.adapter.check import problems
from cosim.extensions.extcloudsim.adapter.config import DatacentreConfig
from cosim.extensions.extcloudsim.adapter.world import MB, DatacentreWorld, build
from cosim.extensions.extcloudsim.datacentre.model import Datacentres, Happening


class DatacentreAdapter:
    """Virtual machines on the hosts of the scene."""

    def __init__(self, config: DatacentreConfig) -> None:
        self._config = config

    def start(self, context: Context) -> None:
        """Build the model. Raises `ScenarioError` for what `check` finds."""
        refuse(problems(self._config, context))
        world = build(self._config, context)
        self._world, self._scene = world, context.scene
        self._model = Datacentres(
            world.hosts, world.kinds, world.machines, world.utilisation, world.settings, world.tariffs,
            wan=world.wan, life=world.life, caps=world.caps, cooling=world.cooling,
            gpu_utilisation=world.gpu_utilisation,
        )  # fmt: skip
        self._host_of = np.full(context.scene.capacity, -1, np.int64)
        self._host_of[world.slot] = np.arange(len(world.slot))
        self._coming = sorted(
            [*self._failures(context, world), *self._disasters(context, world)], key=lambda one: one[:2]
        )
        self._out = np.zeros(len(world.slot), np.int64)  # causes for which each host is down
        self._last = np.zeros((2, len(world.slot)))  # J, busy s at the last row
        self._time = 0.0

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        due: list[Happening] = []
        while self._coming and self._coming[0][0] <= time:
            due.append(self._coming.pop(0))
        for event in inputs.events:
            if event.do in ("fail", "recover"):
                slots = [slot for part in event.nodes for slot in range(part.first, part.first + part.count)]
                hosts = self._host_of[np.array(slots, np.int64)]
                due.append((event.at, int(event.do == "fail"), hosts[hosts >= 0]))
        moves: list[tuple[int, int, int, float, float]] = []
        for at, fails, hosts in sorted(due, key=lambda one: one[:2]):
            self._advance(min(at, time), moves)
            if fails:
                self._out[hosts] += 1
                self._model.fail(hosts)
            else:
                self._out[hosts] = np.maximum(0, self._out[hosts] - 1)
                self._model.recover(hosts[self._out[hosts] == 0])
        self._advance(time, moves)
        frames = (self._host_frame(time), self._server_frame(time), self._migration_frame(time, moves))
        self._time = time
        return frames

    def finish(self) -> Summary:
        return summary(self._model, self._world, self._scene)

    def close(self) -> None:
        """Nothing to release: all of it is memory."""

    def _advance(self, until: float, moves: list[tuple[int, int, int, float, float]]) -> None:
        """Run the model period by period, so that no move is missed."""
        model = self._model
        while model.time < until:
            boundary = (model.period + 1) * self._config.period
            decided = model.time <= model.period * self._config.period
            start = model.time
            model.advance(min(until, boundary))
            if decided:
                moves += [(v, a, b, start, float(model.arrival[v])) for v, a, b in model.moves]

    def _failures(self, context: Context, world: DatacentreWorld) -> list[Happening]:
        """When hosts fail and are repaired, drawn from exponential times."""
        found: list[Happening] = []
        for host, block in enumerate(world.blocks):
            if block.mtbf is None:
                continue
            rng, time = context.rng(1, host), 0.0
            which = np.array([host])
            while True:
                time += rng.exponential(block.mtbf)
                if time >= context.duration:
                    break
                found.append((time, 1, which))
                time += rng.exponential(block.repair)
                found.append((time, 0, which))
        return found

    def _disasters(self, context: Context, world: DatacentreWorld) -> list[Happening]:
        found: list[Happening] = []
        for number, one in enumerate(self._config.disasters):
            there = np.flatnonzero(world.hosts.place == world.places.index(one.place))
            count = ceil(one.share * len(there) - 1e-9)
            hosts = np.sort(context.rng(2, number).permutation(there)[:count])
            found.append((one.at, 1, hosts))
            if one.duration is not None:
                found.append((one.at + one.duration, 0, hosts))
        return found

    def _host_frame(self, time: float) -> Frame:
        """One row per host; means are over the time since the last row."""
        model, world = self._model, self._world
        sums, span = model.sums, time - self._time
        energy, busy = sums.energy, sums.busy
        safe = span if span > 0.0 else 1.0
        there = model.at[model.at >= 0]
        columns: dict[str, NDArray[np.generic]] = {
            "running": np.bincount(there, minlength=len(world.slot)).astype(np.int32),
            "utilisation": (busy - self._last[1]) / safe,
            "power": (energy - self._last[0]) / safe,
            "energy": energy.copy(),
            "cost": sums.energy_cost.copy(),
            "completed": np.zeros(len(world.slot), np.int64),
            "up": model.up.copy(),
        }
        self._last = np.stack([energy, busy])
        return Frame("host", time, world.slot.astype(np.int32), columns)

    def _server_frame(self, time: float) -> Frame:
        model, world = self._model, self._world
        kind = world.hosts.kind
        on = model.at >= 0
        where = model.at[on]
        demand = np.bincount(where, (model.utilisation(model.period) * world.machines.mips)[on], len(world.slot))
        columns: dict[str, NDArray[np.generic]] = {
            "frequency": world.kinds.frequency[kind, model.point] * 1e9,
            "machines": np.bincount(where, minlength=len(world.slot)).astype(np.int32),
            "demand": demand / world.hosts.mips,
            "price": model.prices()[world.hosts.place],
        }
        return Frame("server", time, world.slot.astype(np.int32), columns)

    def _migration_frame(self, time: float, moves: list[tuple[int, int, int, float, float]]) -> Frame:
        world = self._world
        machine, origin, host = (np.array([move[i] for move in moves], np.int64) for i in range(3))
        known = origin >= 0
        place = world.hosts.place
        columns: dict[str, NDArray[np.generic]] = {
            "machine": machine.astype(np.int32),
            "origin": np.where(known, world.slot[origin], -1).astype(np.int32),
            "at": np.array([move[3] for move in moves], np.float64),
            "arrival": np.array([move[4] for move in moves], np.float64),
            "moved": np.where(known, world.machines.ram[machine] * MB, 0.0),
            "between_places": known & (place[origin] != place[host]),
        }
        return Frame("migration", time, world.slot[host].astype(np.int32), columns)
