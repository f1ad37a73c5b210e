"""A made-up run: plan, frames with slots that are reused, tasks whose ledgers close.

Small, deterministic, and shaped like the real thing, so that recorder, figures and report can be
tested without any simulator: cars drive circles and come and go, three base stations with edge
hosts and a cloud run three kinds of tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.entities import Event, Fleet, Geo, Link, Node, Scene, SlotRange, Workload
from cosim.contract.equipment import Power
from cosim.contract.frame import Frame, SlotTable
from cosim.contract.laws import Law
from cosim.contract.link import LinkState
from cosim.contract.node_keys import Cell, Radio  # fmt: skip
from cosim.contract.seeds import stream
from cosim.contract.signals import CATALOGUE, TASK_STATUS
from cosim.results.folder import RunFolder, digests
from cosim.results.recorder import Recorder
from cosim.scenario.plan.plan import AdapterPlan, Lag, Plan, Recording, Wire

INF = float("inf")
EDGES, CLOUD, CARS = 3, 3, 4  # number of edge hosts; slot of the cloud; first slot of the cars


def scene(capacity: int = 24) -> Scene:
    """Three edge hosts with cells, a cloud, and a fleet of cars behind them."""
    nodes = tuple(
        Node(f"edge-{i + 1}", "edge", "edge", (400.0 * i, 250.0 * (i % 2), 0.0),
             cores=8, clock=2e9, memory=16e9, slots=200,
             power=Power((20.0, 60.0)), cell=Cell(), price_cpu=1e-4, price_transfer=1e-10, price_energy=7e-8,
             color="#1f77b4")
        for i in range(EDGES)
    )  # fmt: skip
    cloud = Node("cloud", "cloud", "cloud", (900.0, 600.0, 0.0), cores=64, clock=3e9,
                 power=Power((200.0, 700.0)),
                 price_cpu=2e-4, price_transfer=1e-9, price_energy=7e-8, color="#9467bd")  # fmt: skip
    car = Node("car", "car", "device", radio=Radio(), color="#2ca02c")
    link = Link((SlotRange(0), SlotRange(1), SlotRange(2)), (SlotRange(CLOUD),), LinkState(1e9, 0.02), energy=1e-9)
    cars = (SlotRange(CARS, capacity),)
    workloads = tuple(
        Workload(name, cars, "poisson", rate, Law("exponential", data), Law("fixed", 2e4), Law("exponential", work),
                 deadline=deadline, share=share)
        for name, rate, data, work, deadline, share in (
            ("navigation", 0.2, 2e4, 3e8, 1.0, 1.0), ("infotainment", 0.1, 4e5, 9e8, INF, 0.5),
            ("hazard", 0.1, 1e5, 2e8, 0.3, 0.8),
        )
    )  # fmt: skip
    fleet = Fleet("car", "traffic", 0, capacity, car)
    return Scene.build((*nodes, cloud), (fleet,), (link,), workloads, Geo(44.49, 11.34))


def plan(
    *,
    ticks: int = 120,
    seed: int = 1,
    capacity: int = 24,
    recordings: tuple[Recording, ...] = (),
    root: Path = Path(),
    name: str = "synthetic",
) -> Plan:
    """A plan of three adapters at a step of 0.5 s; `traffic` moves the cars at every second tick."""

    def adapter(who: str, use: str, period: int, reads: tuple[Wire, ...], writes: tuple[str, ...]) -> AdapterPlan:
        return AdapterPlan(who, use, {}, period, reads, writes, "simulated", use == "sumo", "", stream(seed, who))

    return Plan(
        name, "A synthetic run", "Cars drive circles between three base stations.", 500_000_000, ticks, seed, 0.0,
        Lag("report", 0.1, 2.0), 60.0, scene(capacity),
        (
            adapter("traffic", "sumo", 2, (), ("mobility",)),
            adapter("radio", "radio", 1, (Wire("mobility", ("traffic",), False),), ("link", "cell")),
            adapter("continuum", "continuum", 1, (Wire("link", ("radio",), False),), ("traffic", "host", "task")),
        ),
        (
            Event(10.0, "fail", (SlotRange(1),)),
            Event(15.0, "recover", (SlotRange(1),)),
            Event(20.0, "degrade", (), ((SlotRange(0),), (SlotRange(CLOUD),)), delay=0.12, loss=0.05, rate=0.5),
        ),
        recordings, root, f"apiVersion: cosim/v1\nkind: Scenario\nname: {name}\nrun: {{seed: {seed}}}\n",
    )  # fmt: skip


class World:
    """Makes the frames of every tick and keeps the ledgers that the continuum's summary reports."""

    def __init__(self, made: Plan) -> None:
        self.plan = made
        self.rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(stream(made.seed, "world"))))
        self.capacity = made.scene.capacity - CARS
        self.ids = [""] * self.capacity
        self.generation = np.zeros(self.capacity, np.int32)
        self.epoch = self.made = self.tasks = 0
        self.phase = np.zeros(self.capacity)
        self.cell = np.full(self.capacity, -1, np.int32)
        self.handovers = np.zeros(self.capacity, np.int32)
        self.moved = np.zeros((self.capacity, 2))
        self.sent = np.zeros(self.capacity)
        self.energy, self.cost = np.zeros(CARS), np.zeros(CARS)
        self.completed = np.zeros(CARS, np.int64)
        self.flight: list[tuple[float, list[Any]]] = []
        self.ledger = {w.name: _empty() for w in made.scene.workloads}
        self.bytes = {way: {"offered": 0.0, "delivered": 0.0, "dropped": 0.0} for way in ("input", "output")}
        self.open_bytes = {"input": 0.0, "output": 0.0}
        self.present = np.empty(0, np.intp)

    def frames(self) -> Iterator[tuple[int, float, list[tuple[str, Frame]]]]:
        """(tick, time, [(adapter, frame)]) of the whole run."""
        for tick in range(self.plan.ticks + 1):
            time = self.plan.time(tick)
            frames = [("traffic", self.mobility(time))] if tick % 2 == 0 else []
            frames += [("radio", frame) for frame in self.radio(time)]
            frames += [("continuum", frame) for frame in self.continuum(time)]
            yield tick, time, frames

    def mobility(self, time: float) -> Frame:
        """Cars leave at random and others take the lowest free slots."""
        taken = np.array([bool(name) for name in self.ids])
        here = np.isin(np.arange(self.capacity), self.present) if time else np.zeros(self.capacity, np.bool_)
        here &= self.rng.random(self.capacity) > 0.04
        for slot in np.flatnonzero(~here)[: int(self.rng.integers(0, 3)) + (self.capacity // 2 if time == 0 else 0)]:
            self.generation[slot] += bool(taken[slot])
            self.ids[slot] = f"car.{self.made}"
            self.phase[slot] = self.rng.random() * 2 * np.pi
            self.cell[slot], self.handovers[slot], self.sent[slot] = -1, 0, 0.0
            self.made += 1
            self.epoch += 1
            here[slot] = True
        self.present = np.flatnonzero(here)
        self.phase += 0.04
        angle = self.phase[self.present]
        radius = 150.0 + 12.0 * self.present
        x, y = 420.0 + radius * np.cos(angle) * 1.6, 150.0 + radius * np.sin(angle)
        self.moved[self.present] = np.stack([x, y], axis=1)
        columns = {
            "x": x, "y": y, "z": np.zeros(len(x)), "speed": 0.04 * radius,
            "heading": np.degrees(-angle) % 360.0,
        }  # fmt: skip
        table = SlotTable(CARS, tuple(self.ids), self.generation.copy(), self.epoch)
        return Frame("mobility", time, self.slots(), columns, table)

    def slots(self) -> Any:
        return (self.present + CARS).astype(np.int32)

    def radio(self, time: float) -> list[Frame]:
        sites = np.array([node.position[:2] for node in self.plan.scene.nodes[:EDGES] if node.position])
        distance = np.linalg.norm(self.moved[self.present, None] - sites[None], axis=2)
        best = distance.argmin(axis=1).astype(np.int32)
        near = np.maximum(distance.min(axis=1), 10.0)
        cell = np.where(near < 360.0, best, -1).astype(np.int32)
        old = self.cell[self.present]
        self.handovers[self.present] += (old >= 0) & (cell >= 0) & (old != cell)
        self.cell[self.present] = cell
        snr = 70.0 - 22.0 * np.log10(near) + self.rng.normal(0, 2, len(near))
        covered = cell >= 0
        rate = np.where(covered, 20e6 * np.log2(1 + 10 ** (snr / 10)), 0.0)
        link = {
            "cell": cell, "rsrp": np.where(covered, snr - 95.0, np.nan), "snr": np.where(covered, snr, np.nan),
            "uplink_rate": rate / 4, "downlink_rate": rate, "delay": np.where(covered, 0.004, np.nan),
            "loss": np.where(covered, 0.01, 1.0), "handovers": self.handovers[self.present],
            "distance": near, "pathloss": np.full(len(near), np.nan),
        }  # fmt: skip
        count = np.array([(cell == i).sum() for i in range(EDGES)], np.int32)
        load = {
            "attached": count, "active": count // 3, "utilisation": np.minimum(1.0, count / 12.0),
            "rate": np.array([rate[cell == i].sum() for i in range(EDGES)]),
        }  # fmt: skip
        return [
            Frame("link", time, self.slots(), link),
            Frame("cell", time, np.arange(EDGES, dtype=np.int32), load),
        ]

    def continuum(self, time: float) -> list[Frame]:
        step = self.plan.step
        for slot in self.present if time else ():
            for code, load in enumerate(self.plan.scene.workloads):
                if self.rng.random() < load.rate * load.share * step:
                    self.create(time, int(slot), code)
        ended = sorted((entry for entry in self.flight if entry[0] <= time), key=lambda entry: entry[0])
        self.flight = [entry for entry in self.flight if entry[0] > time]
        rows = [row for _, row in ended]
        for row in rows:
            self.book(row)
        running = np.bincount([row[2] for _, row in self.flight if row[2] >= 0], minlength=CARS).astype(np.int32)
        used = np.minimum(1.0, running / 16.0)
        power = 20.0 + 40.0 * used
        power[CLOUD] = 200.0 + 500.0 * used[CLOUD]
        self.energy += power * step if time else 0.0
        self.cost += used * step * 1e-3 if time else 0.0
        up = np.ones(CARS, np.bool_)
        up[1] = not 10.0 <= time < 15.0
        host = {
            "running": running, "utilisation": used, "power": power, "energy": self.energy.copy(),
            "cost": self.cost.copy(), "completed": self.completed.copy(), "up": up,
        }  # fmt: skip
        n = len(self.present)
        air = {
            "uploads": np.zeros(n, np.int32), "downloads": np.zeros(n, np.int32),
            "sent": self.sent[self.present], "received": self.sent[self.present] / 3,
        }  # fmt: skip
        task = CATALOGUE["task"]
        known = [c for c in task.columns if c.name != "value"]
        columns = {c.name: np.array([row[i] for row in rows], c.dtype) for i, c in enumerate(known)}
        columns["value"] = np.zeros(len(rows))
        slot = np.array([row[-1] for row in rows], np.int32)
        return [
            Frame("traffic", time, self.slots(), air),
            Frame("host", time, np.arange(CARS, dtype=np.int32), host),
            Frame("task", time, slot, columns),
        ]

    def create(self, time: float, slot: int, code: int) -> None:
        load = self.plan.scene.workloads[code]
        created = time - self.rng.random() * self.plan.step * 0.5
        data, work = float(self.rng.exponential(load.input.a)), float(self.rng.exponential(load.work.a))
        host = int(self.cell[slot]) if code != 1 else CLOUD
        status = 0
        if self.cell[slot] < 0:
            status, host = TASK_STATUS.index("no-coverage"), -1
        elif host == 1 and 10.0 <= time < 15.0:
            status = TASK_STATUS.index("node-failed")
        elif self.rng.random() < 0.03:
            status = TASK_STATUS.index("capacity")
        upload = created + data * 8 / 4e6 + 0.004 + (0.02 if host == CLOUD else 0)
        start = upload + (float(self.rng.exponential(0.02)) if code != 0 else 0.0)
        done = start + work / 2e9 * (1 + float(self.rng.exponential(0.5)))
        ended = done + load.output.a * 8 / 2e7
        if status:
            ended = created + 1.0 if host < 0 else start
            done = np.nan
            start = np.nan
            upload = np.nan if host < 0 else upload
        late = status == 0 and ended - created > load.deadline
        row = [self.tasks, code, host, status, created, upload, start, done, ended, data, load.output.a, work,
               load.deadline, late, slot + CARS]  # fmt: skip
        self.tasks += 1
        self.ledger[load.name]["created"] += 1
        self.bytes["input"]["offered"] += data
        self.open_bytes["input"] += data
        self.sent[slot] += data
        self.flight.append((ended, row))

    def book(self, row: Sequence[Any]) -> None:
        entry = self.ledger[self.plan.scene.workloads[row[1]].name]
        arrived = not np.isnan(row[5])
        self.bytes["input"]["delivered" if arrived else "dropped"] += row[9]
        self.open_bytes["input"] -= row[9]
        if row[3] == 0:
            entry["completed"] += 1
            entry["late"] += bool(row[13])
            self.completed[row[2]] += 1
            self.bytes["output"]["offered"] += row[10]
            self.bytes["output"]["delivered"] += row[10]
        else:
            cause = TASK_STATUS[row[3]]
            entry["failed"][cause] = entry["failed"].get(cause, 0) + 1

    def summary(self) -> dict[str, Any]:
        """The continuum's summary; its ledgers close."""
        total = _empty()
        for entry in self.ledger.values():
            entry["in_flight"] = entry["created"] - entry["completed"] - sum(entry["failed"].values())
            for key in ("created", "completed", "late", "in_flight"):
                total[key] += entry[key]
            for cause, count in entry["failed"].items():
                total["failed"][cause] = total["failed"].get(cause, 0) + count
        names = [node.id for node in self.plan.scene.nodes]
        energy = dict(zip(names, self.energy.tolist(), strict=True))
        cost = dict(zip(names, self.cost.tolist(), strict=True))
        tiers = {"edge": float(self.energy[:EDGES].sum()), "cloud": float(self.energy[CLOUD])}
        return {
            "tasks": total, "workloads": self.ledger,
            "bytes": {way: {**self.bytes[way], "in_transit": self.open_bytes[way]} for way in self.bytes},
            "energy": {"total": float(self.energy.sum()), "by_node": energy, "by_tier": tiers, "radio": 0.0,
                       "links": 0.0},
            "cost": {"total": float(self.cost.sum()), "by_node": cost, "cpu": float(self.cost.sum()), "transfer": 0.0,
                     "energy": 0.0},
        }  # fmt: skip


def write_run(
    base: Path, *, ticks: int = 120, seed: int = 1, capacity: int = 24, stop: int | None = None,
    recordings: tuple[Recording, ...] = (), name: str = "synthetic",
) -> Path:  # fmt: skip
    """Record a whole synthetic run below `base` and return its folder; `stop` ends it early, as partial."""
    made = plan(ticks=ticks, seed=seed, capacity=capacity, recordings=recordings, name=name, root=base)
    world = World(made)
    folder = RunFolder.create(base, made)
    recorder = Recorder(folder, made, CATALOGUE)
    for tick, time, frames in world.frames():
        if tick == stop:
            break
        recorder.tick(tick, time, frames)
    summaries = {"traffic": {"vehicles": world.made}, "radio": {}, "continuum": world.summary()}
    adapters = [
        {**entry, "steps": made.ticks // made.adapters[i].period + 1, "wall_seconds": 0.1 * (i + 1),
         "cpu_seconds": 0.1 * (i + 1), "summary": summaries[entry["name"]]}
        for i, entry in enumerate(folder.manifest["adapters"])
    ]  # fmt: skip
    recorder.close("complete" if stop is None else "partial", facts={"adapters": adapters})
    return folder.path


def sign(path: Path) -> None:
    """Take the files of a run as they are now for what it wrote, after a test has changed them."""
    folder = RunFolder.open(path)
    folder.update(files=digests(path))


def _empty() -> dict[str, Any]:
    return {"created": 0, "completed": 0, "late": 0, "failed": {}, "in_flight": 0}
