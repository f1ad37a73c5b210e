"""Edge nodes in simulation: the requests of measured windows, replayed by the continuum engine.

A node is a host of the engine with as many servers as it serves requests at once, first come first
served. A request's work is the service time of its service and size, times the scatter of single
runs; busy workers slow one another down by the node's contention, be it caches that they share or a limit on
cores that is below the number of workers. Transport and HTTP add a constant overhead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.engine.continuum import Engine, Kind, System, WorkloadStream
from cosim.engine.continuum.layout import EDGE, FIXED
from cosim.engine.continuum.parameters import follow_kinds
from cosim.engine.continuum.system import WorkloadTrace

CLOCK = 1e9  # cycles/s of a server; work is seconds x CLOCK
LONG = 1e5  # s after the last request: everything has ended by then


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    """The requests of some windows (n,), sorted by window and time."""

    window: Ints  # 0 to windows - 1
    time: Floats  # s since the start of the window
    work: Ints  # number of the (service, size)
    node: Ints  # (windows,) number of the node that serves the window
    workers: Ints  # (nodes,) requests served at once


class Replay:
    """Replays requests: `run` answers how long each was computed and took in all.

    `scatter[k]` (m,) holds ratios of single runs of work k to its service time.
    """

    def __init__(self, requests: Requests, scatter: Sequence[Floats]) -> None:
        self.requests, self._scatter = requests, [np.asarray(ratios, np.float64) for ratios in scatter]
        self._draws: dict[int, Floats] = {}
        count = len(requests.node)
        none, zero = np.zeros(0), (int(FIXED), 0.0, 0.0)
        streams = []
        for window in range(count):
            times = requests.time[requests.window == window]
            nothing = np.zeros(len(times))
            source = np.full(len(times), window, np.int64)
            streams.append(
                WorkloadStream(
                    rate=1.0, work=zero, trace=WorkloadTrace(source, times, nothing, nothing, nothing + CLOCK)
                )
            )
        system = System(
            kinds=tuple(Kind(cores=int(workers), clock=CLOCK, fcfs=True) for workers in requests.workers),
            kind=requests.node,
            tier=np.full(count, EDGE),
            present=np.ones(count, np.bool_),
            workloads=tuple(streams),
            source_node=np.arange(count),
            source_workload=np.arange(count),
            link_a=none.astype(np.int64), link_b=none.astype(np.int64), link_rate=none, link_delay=none,
            link_loss=none, link_energy=none,
        )  # fmt: skip
        self._engine = Engine(system, 0, 0)
        self._begin = self._engine.snapshot()
        self._until = float(requests.time.max(initial=0.0)) + LONG

    def run(self, seconds: Floats, contention: Floats, overhead: float, seed: int) -> tuple[Floats, Floats]:
        """(n,) s computed and (n,) s from sending to the answer, in the order of the requests.

        `seconds` are the service times by work, `contention` is by node; `seed` chooses the scatter of
        the single runs, the same for all values.
        """
        requests, engine = self.requests, self._engine
        engine.restore(self._begin)
        state = engine.state
        state.kinds["contention"][:] = contention
        follow_kinds(state)
        state.trace["work"][:] = seconds[requests.work] * self._drawn(seed) * CLOCK
        engine.advance(self._until)
        ended = engine.drain()
        order = np.lexsort((ended["serial"], ended["created"], ended["workload"]))
        computed = (ended["computed"] - ended["started"])[order]
        response = (ended["ended"] - ended["created"])[order]
        return computed, response + overhead

    def _drawn(self, seed: int) -> Floats:
        """(n,) ratios of the runs under a seed."""
        if seed not in self._draws:
            if len(self._draws) > 64:
                self._draws.clear()
            random = np.random.default_rng(np.random.SeedSequence(seed))
            place = random.random(len(self.requests.work))
            ratios = np.empty(len(place))
            for work, known in enumerate(self._scatter):
                mine = self.requests.work == work
                ratios[mine] = known[(place[mine] * len(known)).astype(np.int64)]
            self._draws[seed] = ratios
        return self._draws[seed]
