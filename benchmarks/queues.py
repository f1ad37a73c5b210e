"""Queues beside a specialist: `python -m benchmarks.queues [--json] [--tasks 2000000] [--rounds 5]`.

M/M/1, M/M/4 and two M/M/1 in a row at 80 % load, on the continuum and on Cimba (`pip install cimba`; without it ours
alone), in rounds that take turns in one process. Cimba's models are those of its own page: a `Container` of customers
and processes that hold. Tasks per CPU second of a warm run; the mean numbers that wait are compared with Erlang's C.
Ours keeps a row of twenty figures of each task: rows off overwrites them, rows on hands them over every 10,000
tasks. Of two in a row the first is a link, whose transfers share it; its mean is the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import Table, parser, print_result, verdict
from cosim.engine.continuum import Engine, Kind, System, WorkloadStream
from cosim.engine.continuum.layout import DEVICE, EDGE, EXPONENTIAL, FCFS

try:
    import cimba as cb
except ModuleNotFoundError:
    cb = None

LOAD = 0.8
SERVERS = {"M/M/1": 1, "M/M/4": 4, "tandem": 1}
OFF, ON = 1.0, 0.8  # tasks per CPU s as multiples of Cimba's
NEAREST, LOCAL = 0, 3  # schedulers
PIECE = 10_000  # s between two looks

if cb is not None:

    def queue(servers: int) -> Any:
        """The model of a queue with so many servers."""

        class Queue(cb.Model):  # type: ignore[misc]
            interarrival: cb.Input[float] = cb.inputs.dist.exponential(mean=1.0 / (servers * LOAD))
            service: cb.Input[float] = cb.inputs.dist.exponential(mean=1.0)
            queue: cb.Container
            waiting: cb.Output[float]

            @cb.process
            def arrivals(self) -> None:
                while True:
                    cb.hold(self.interarrival.next())
                    self.queue.put(1)

            @cb.process(copies=servers)
            def server(self) -> None:
                while True:
                    self.queue.get(1)
                    cb.hold(self.service.next())

            @cb.on_end
            def measure(self) -> None:
                self.waiting = self.queue.mean_level()

        return Queue

    class Row(cb.Model):  # type: ignore[misc]
        """Two queues, one after the other."""

        interarrival: cb.Input[float] = cb.inputs.dist.exponential(mean=1.0 / LOAD)
        one: cb.Input[float] = cb.inputs.dist.exponential(mean=1.0)
        two: cb.Input[float] = cb.inputs.dist.exponential(mean=1.0)
        first: cb.Container
        second: cb.Container
        waiting: cb.Output[float]

        @cb.process
        def arrivals(self) -> None:
            while True:
                cb.hold(self.interarrival.next())
                self.first.put(1)

        @cb.process
        def server(self) -> None:
            while True:
                self.first.get(1)
                cb.hold(self.one.next())
                self.second.put(1)

        @cb.process
        def other(self) -> None:
            while True:
                self.second.get(1)
                cb.hold(self.two.next())

        @cb.on_end
        def measure(self) -> None:
            self.waiting = self.first.mean_level() + self.second.mean_level()

    MODELS = {name: Row if name == "tandem" else queue(servers) for name, servers in SERVERS.items()}


def expected(name: str) -> float:
    """Mean number of tasks that wait, by Erlang's C; for two in a row of both (Jackson)."""
    servers = SERVERS[name]
    offered = servers * LOAD
    last = offered**servers / math.factorial(servers) / (1.0 - LOAD)
    waits = last / (sum(offered**k / math.factorial(k) for k in range(servers)) + last)
    return (2.0 if name == "tandem" else 1.0) * waits * LOAD / (1.0 - LOAD)


def system(name: str) -> System:
    """A device with servers of its own, or behind a link to one host."""
    law, behind = int(EXPONENTIAL), name == "tandem"
    servers = Kind(cores=SERVERS[name], clock=1.0, fcfs=int(FCFS))
    links = np.zeros(1 if behind else 0, np.int64)
    return System(
        kinds=(Kind() if behind else servers, servers), kind=np.array([0, 1]), tier=np.array([DEVICE, EDGE]),
        present=np.ones(2, np.bool_),
        workloads=(
            WorkloadStream(
                rate=SERVERS[name] * LOAD, work=(law, 1.0, 0.0), input=(law, 1.0, 0.0) if behind else (0, 0.0, 0.0)
            ),
        ),
        source_node=np.zeros(1, np.int64), source_workload=np.zeros(1, np.int64),
        link_a=links, link_b=links + 1, link_rate=8.0 + links, link_delay=0.0 * links, link_loss=0.0 * links,
        link_energy=0.0 * links,
    )  # fmt: skip


def ours(name: str, tasks: int, seed: int, *, rows: bool) -> tuple[float, float]:
    """(tasks per CPU s, mean number that wait, or that are there less those in service)."""
    rate = SERVERS[name] * LOAD
    engine = Engine(system(name), seed, NEAREST if name == "tandem" else LOCAL)
    engine.advance(0.0)
    begun, done, there = time.process_time(), 0, 0.0
    for k in range(1, round(tasks / rate / PIECE) + 1):
        engine.advance(float(k * PIECE))
        if rows:
            ended = engine.drain()
            done += len(ended["ended"])
            there += float((ended["ended"] - ended["created"]).sum())
        else:
            done += int(engine.state.meta["done"][0])
            engine.state.meta["done"] = 0
    spent = time.process_time() - begun
    busy = (2.0 if name == "tandem" else SERVERS[name]) * LOAD
    return done / spent, rate * there / done - busy if rows else math.nan


def theirs(name: str, tasks: int, seed: int) -> tuple[float, float]:
    """The same of Cimba, one trial in one thread."""
    model = MODELS[name]()
    experiment = cb.Experiment(model, window=cb.Window(duration=tasks / (SERVERS[name] * LOAD)), seed=seed)
    begun = time.process_time()
    found = experiment.run()
    return tasks / (time.process_time() - begun), float(np.asarray(found[model].waiting).ravel()[0])


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--tasks", type=int, default=2_000_000)
    arguments.add_argument("--rounds", type=int, default=5, help="of which the best counts (default: %(default)s)")
    options = arguments.parse_args()
    ways: dict[str, Callable[[str, int, int], tuple[float, float]]] = {
        "rows off": lambda name, tasks, seed: ours(name, tasks, seed, rows=False),
        "rows on": lambda name, tasks, seed: ours(name, tasks, seed, rows=True),
    }
    if cb is not None:
        ways["cimba"] = theirs
    table = Table(
        "millions of tasks per CPU second",
        ["queue", *ways, "off / cimba", "on / cimba", "waiting: ours", "cimba's", "exact"],
    )
    data: dict[str, Any] = {}
    for name in SERVERS:
        for way in ways.values():
            way(name, 20_000, 1)  # compiled
        runs = [{key: way(name, options.tasks, seed) for key, way in ways.items()} for seed in range(options.rounds)]
        best = {key: max(run[key][0] for run in runs) for key in ways}
        wait = {key: float(np.mean([run[key][1] for run in runs])) for key in ways}
        data[name] = {"tasks_per_cpu_s": best, "waiting": wait, "exact": expected(name)}
        times = [best[key] / best["cimba"] for key in ("rows off", "rows on")] if cb is not None else []
        table.add([
            name, *(f"{one / 1e6:.2f}" for one in best.values()),
            *(f"{one:.2f}{verdict(one, target, at_least=True)}" for one, target in zip(times, (OFF, ON), strict=False)),
            *([] if times else ["", ""]), f"{wait['rows on']:.3f}", f"{wait.get('cimba', math.nan):.3f}",
            f"{expected(name):.3f}",
        ])  # fmt: skip
    print_result("queues", {"tasks": options.tasks, "queues": data}, [table], as_json=options.json)


if __name__ == "__main__":
    main()
