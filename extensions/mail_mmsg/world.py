"""Where the logs come from: a continuum of three sub-scenarios, and how it drifts from day to day.

- broadband: users who come and go and send bursts, work of a log-normal law with the spread of Azure's requests to
  language models (Patel et al., ISCA 2024: the logarithm of context tokens, conversations, has deviation 0.97);
- sensors: fixed, one reading every 10 s, thinned by the time of day;
- vehicles: handed over after log-normal times, median 82 s and deviation 0.68 of the logarithm, which are those of
  SUMO's vehicles in Bologna (district Acosta) between six cells of 0.6 x 0.7 km.

A day lasts 1200 s in 12 parts. Rates follow the jobs that came in the same two hours of a day of Microsoft's Philly
cluster (Jeon et al., USENIX ATC 2019): 26 September 2017 and 1, 7 and 28 days later. Drift has three laws: those
rates; sizes that grow by 10 % per week; and a new kind of host, with many slow cores, after a week. In every part one
edge host fails for 15 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.engine.continuum import Engine, Kind, System, WorkloadStream
from cosim.engine.continuum.layout import CLOUD, DEVICE, EDGE, FIXED
from cosim.engine.continuum.system import WorkloadTrace
from cosim.extensions.mail_mmsg.platform import (
    ACTION,
    IN_TIME,
    SCENES,
    SEEN,
    OffloadRequest,
    Record,
    choose_one,
    level,
    masks,
    observe,
)
from cosim.schedulers.state import KEEP, Floats

Ints = NDArray[np.int64]
Act = Callable[[Floats, np.random.Generator], Floats]  # (52,) figures -> (10,) weights

DAY, PARTS = 1200.0, 12  # s
PART = DAY / PARTS
DRIFT = (0, 1, 7, 28)  # days
# Jobs per two hours over the mean of the first day.
PHILLY = {
    0: (0.45, 0.45, 1.59, 0.72, 0.28, 4.95, 2.03, 0.46, 0.23, 0.33, 0.28, 0.23),
    1: (0.99, 0.40, 0.22, 0.51, 1.56, 5.28, 1.33, 0.24, 0.41, 1.31, 0.45, 0.63),
    7: (0.42, 0.26, 0.22, 0.41, 0.22, 0.24, 0.28, 0.27, 0.58, 0.44, 0.50, 0.51),
    28: (2.62, 0.37, 1.69, 3.00, 0.99, 1.40, 1.81, 1.64, 5.13, 0.47, 0.97, 1.87),
}
GROWTH = 1.1  # of sizes, per week
CORES = ((4, 2.0e9), (2, 1.5e9), (8, 2.0e9), (4, 1.5e9), (2, 2.5e9), (6, 2.0e9), (16, 3.0e9))  # six edges, a cloud
SLOW = (12, 0.8e9)  # the new kind
EDGES = 6
POPULAR = (0.30, 0.20, 0.15, 0.15, 0.10, 0.10)  # of a client to be in each cell
CLIENTS = (40, 60, 40)
RATE = (0.30, 0.10, 0.30)  # requests per s of a client
WORK = (1.5e9, 0.4e9, 0.8e9)  # cycles, mean
INPUT = (600e3, 20e3, 200e3)  # B, mean
DEADLINE = (2.5, 4.0, 1.0)  # s
LIMIT = 180.0  # s within which a request ends, as in the paper
SPREAD = 0.97
DWELL = (4.406, 0.681)  # of the logarithm of s
UPLINK = (30e6, 2e6, 15e6)  # bit/s
WINDOW, WITHIN = 30.0, 0.05  # s and share, of the convergence time
_STEP = 1.0


class RequestLog(NamedTuple):
    """Requests of one day in the order in which they were made."""

    seen: NDArray[np.float32]  # (n, 52)
    action: NDArray[np.float32]  # (n, 10)
    chosen: Ints  # (n,) candidate
    level: Ints  # (n,) of feedback
    done: NDArray[np.bool_]  # (n,) offloaded and in time
    seconds: Floats  # (n,) NaN: not completed
    client: Ints  # (n,)
    scene: Ints  # (n,)
    cell: Ints  # (n,)
    time: Floats  # (n,) s
    changes: Floats  # (m, 2) cell, s: when a service group got or lost a member, or its edge failed

    @property
    def ratio(self) -> float:
        """Offloaded and in time, of all."""
        return float(self.done.mean())


def rates(day: int) -> Floats:
    """(12,) how many requests come in each part, as a multiple of the mean; drawn together and bounded."""
    return np.clip(np.sqrt(PHILLY[day]), 0.5, 1.6)


def history(seed: int, noise: float = 0.25) -> Act:
    """The engine that wrote the logs: least-loaded, at home from an hourly changing threshold on; undisclosed."""
    phase = 2.0 * np.pi * (seed % 7) / 7.0

    def act(seen: Floats, rng: np.random.Generator) -> Floats:
        scene = int(seen[35:38].argmax())
        hour = np.arctan2(seen[50], seen[51])
        weights = np.zeros(ACTION)
        load, tier = (8, 9) if scene == 1 else (3, 5)
        weights[load], weights[tier] = -0.8, 0.2 + 0.2 * np.sin(2.0 * hour + phase)
        weights += noise * rng.standard_normal(ACTION)
        bounded: Floats = np.clip(weights, -1.0, 1.0) * masks()[scene]
        return bounded

    return act


def fixed(load: float, tier: float, transfer: float = 0.0) -> Act:
    """The same weights always."""
    weights = np.zeros(ACTION)
    weights[[1, 3, 5]] = weights[[7, 8, 9]] = transfer, load, tier

    def act(seen: Floats, rng: np.random.Generator) -> Floats:  # noqa: ARG001 - as policies are called
        own: Floats = weights * masks()[int(seen[35:38].argmax())]
        return own

    return act


def at_random(seen: Floats, rng: np.random.Generator) -> Floats:
    """Any weights."""
    found: Floats = rng.uniform(-1.0, 1.0, ACTION) * masks()[int(seen[35:38].argmax())]
    return found


TRIVIAL: dict[str, Act] = {
    "random": at_random,
    "always": fixed(0.0, 1.0, -1.0),  # the nearest host
    "never": fixed(0.0, -1.0),
    "least-loaded": fixed(-0.3, 1.0),
}


def run(day: int, seed: int, act: Act, length: float = DAY) -> RequestLog:
    """The log of a day under an engine policy. What clients do depends on day and seed only."""
    rng = np.random.Generator(np.random.PCG64([seed, day]))
    clients = _clients(rng)
    requests, changes = _requests(day, clients, rng)
    system = _system(day, requests)
    moves = _moves(clients, rng, changes)
    first = len(system.kind) - len(clients.scene)
    drawn = np.random.Generator(np.random.PCG64([seed, day, 1]))
    records, shared = [Record() for _ in clients.scene], [0.5] * len(SCENES)
    serial: dict[int, int] = {}
    rows: list[tuple[Floats, Floats, int, int, int, float]] = []
    cell = clients.cell.copy()

    def choose(request: Any, reach: Floats, hosts: Any) -> int:  # noqa: ANN401 - the engine's
        who = request.device - first
        scene = int(clients.scene[who])
        asked = OffloadRequest(
            request.time, scene, request.input, request.work, request.deadline, request.own_speed, request.own_tasks
        )
        seen, places = observe(asked, reach, hosts, hosts["frequency"], records[who], shared[scene], DAY)
        weights = act(seen, drawn)
        pick = choose_one(seen, weights, scene)
        serial[engine.created - 1] = len(rows)
        rows.append((seen, weights, pick, who, int(cell[who]), request.time))
        return int(places[pick]) if places[pick] != KEEP else -1

    engine = Engine(system, seed, choose, drop_late=False)
    devices = first + np.arange(len(clients.scene))
    _serve(engine, clients, devices, cell)
    levels, done, seconds = {}, {}, {}
    at = 0
    for tick in range(1, int(length / _STEP) + 1):
        now = tick * _STEP
        while at < len(moves) and moves[at][0] <= now:
            _, what, who, where = moves[at]
            if what == "move":
                cell[who] = where
            else:
                (engine.fail if what == "fail" else engine.recover)([where])
            _serve(engine, clients, devices, cell)
            at += 1
        engine.advance(now)
        ended = engine.drain()
        for k in range(len(ended["serial"])):
            row = serial.get(int(ended["serial"][k]))
            if row is None:
                continue
            took = float(ended["ended"][k] - ended["created"][k])
            good = int(ended["status"][k]) == 0
            levels[row] = level(took, float(ended["deadline"][k]), good)
            away = rows[row][2] > 0
            done[row] = float(away and levels[row] < IN_TIME)
            seconds[row] = took if good else np.nan
            who = rows[row][3]
            records[who].hear(done[row], levels[row])
            scene = int(clients.scene[who])
            shared[scene] += 0.02 * (done[row] - shared[scene])
    count = len(rows)
    client = np.array([row[3] for row in rows], np.int64)
    return RequestLog(
        np.array([row[0] for row in rows], np.float32).reshape(count, SEEN),
        np.array([row[1] for row in rows], np.float32).reshape(count, ACTION),
        np.array([row[2] for row in rows], np.int64), np.array([levels.get(k, 5) for k in range(count)], np.int64),
        np.array([done.get(k, 0.0) > 0.0 for k in range(count)]),
        np.array([seconds.get(k, np.nan) for k in range(count)]), client, clients.scene[client],
        np.array([row[4] for row in rows], np.int64), np.array([row[5] for row in rows]), np.array(changes),
    )  # fmt: skip


_Change = tuple[int, float]  # of the members of a group: cell, s


class _Clients(NamedTuple):
    scene: Ints
    cell: Ints
    uplink: Floats  # bit/s


def _clients(rng: np.random.Generator) -> _Clients:
    scene = np.repeat(np.arange(len(SCENES)), CLIENTS)
    cell = rng.choice(EDGES, len(scene), p=POPULAR)
    rng.integers(0, 3, len(scene))  # drawn to reproduce the reported figures
    return _Clients(scene, cell, np.array(UPLINK)[scene] * rng.uniform(0.5, 1.5, len(scene)))


def _requests(
    day: int, clients: _Clients, rng: np.random.Generator
) -> tuple[list[tuple[Ints, Floats, Floats, Floats]], list[_Change]]:
    """Per sub-scenario: clients, times, inputs, cycles, by thinning; and when users come and go."""
    most, factor = 1.6, rates(day)
    growth = GROWTH ** (day / 7.0)
    found = []
    changes: list[_Change] = []
    for kind in range(len(SCENES)):
        who, when = [], []
        for c in np.flatnonzero(clients.scene == kind):
            if kind == 1:
                times = rng.random() * 10.0 + np.arange(0.0, DAY, 10.0 / most)
            else:
                times = np.cumsum(rng.exponential(1.0 / (RATE[kind] * most), int(DAY * RATE[kind] * most * 1.4) + 20))
            times = times[times < DAY]
            times = times[rng.random(len(times)) * most < factor[(times // PART).astype(int)]]
            if kind == 0:  # there for 200 s, away for 100 s on average
                edges = np.cumsum(rng.exponential(np.tile([200.0, 100.0], 20)))
                times = times[np.searchsorted(edges, times) % 2 == 0]
                changes += [(int(clients.cell[c]), float(at)) for at in edges[edges < DAY]]
            who.append(np.full(len(times), c))
            when.append(times)
        time = np.concatenate(when)
        work = WORK[kind] * np.exp(SPREAD * rng.standard_normal(len(time)) - SPREAD**2 / 2.0) * growth
        size = INPUT[kind] * rng.uniform(0.5, 1.5, len(time)) * growth
        found.append((np.concatenate(who), time, size, np.minimum(work, 20.0 * WORK[kind])))
    return found, changes


def _system(day: int, requests: list[tuple[Ints, Floats, Floats, Floats]]) -> System:
    """Hosts, a ring of edges, a star to the cloud, devices."""
    hosts = [*CORES, *([SLOW] if day >= 7 else [])]
    count = sum(CLIENTS)
    kinds = tuple(Kind(cores=c, clock=f) for c, f in hosts) + tuple(Kind(cores=1, clock=f) for f in (0.4e9, 0.7e9, 1e9))
    devices = len(hosts) + np.random.Generator(np.random.PCG64(5)).integers(0, 3, count)
    tier = [EDGE] * EDGES + [CLOUD] + [EDGE] * (len(hosts) - EDGES - 1)
    ring = [(k, (k + 1) % EDGES, 100e6, 0.004) for k in range(EDGES)] + [(k, EDGES, 40e6, 0.03) for k in range(EDGES)]
    ring += [(2, EDGES + 1, 1e9, 0.001)] if day >= 7 else []
    a, b, rate, delay = (np.array(column) for column in zip(*ring, strict=True))
    loads = []
    for kind, (who, time, size, work) in enumerate(requests):
        trace = WorkloadTrace(len(hosts) + who.astype(np.int64), time, size, np.full(len(time), 10e3), work)
        loads.append(WorkloadStream(0.0, (int(FIXED), 1.0, 0.0), deadline=DEADLINE[kind], limit=LIMIT, trace=trace))
    sources = np.arange(count)
    return System(
        kinds=kinds, kind=np.concatenate([np.arange(len(hosts)), devices]).astype(np.int64),
        tier=np.array(tier + [DEVICE] * count, np.int64), present=np.ones(len(hosts) + count, bool),
        workloads=tuple(loads), source_node=(len(hosts) + sources).astype(np.int64),
        source_workload=np.repeat(np.arange(len(SCENES)), CLIENTS).astype(np.int64),
        link_a=a.astype(np.int64), link_b=b.astype(np.int64), link_rate=rate.astype(float),
        link_delay=delay.astype(float), link_loss=np.zeros(len(a)), link_energy=np.zeros(len(a)),
    )  # fmt: skip


def _moves(clients: _Clients, rng: np.random.Generator, changes: list[_Change]) -> list[tuple[float, str, int, int]]:
    """What happens when (s): vehicles change cells, edges fail and come back; adds the changes of groups."""
    moves: list[tuple[float, str, int, int]] = []
    for c in np.flatnonzero(clients.scene == 2):
        time, cell = 0.0, int(clients.cell[c])
        while (time := time + float(rng.lognormal(*DWELL))) < DAY:
            new = int(rng.choice(EDGES, p=POPULAR))
            if new != cell:
                moves.append((time, "move", int(c), new))
                changes += [(cell, time), (new, time)]
                cell = new
    for part in range(PARTS):
        edge, time = int(rng.integers(EDGES)), part * PART + float(rng.uniform(0.0, PART - 20.0))
        moves += [(time, "fail", -1, edge), (time + 15.0, "back", -1, edge)]
        changes += [(edge, time), (edge, time + 15.0)]
    return sorted(moves)


def _serve(engine: Engine, clients: _Clients, devices: Ints, cell: Ints) -> None:
    """Attach devices to their cells, or to the next one on the ring while theirs is down."""
    up = engine.state.nodes["up"][:EDGES]
    serving = np.where(up[cell] != 0, cell, (cell + 1) % EDGES)
    zero = np.zeros(len(devices))
    engine.set_radio(devices, serving, clients.uplink, clients.uplink, zero + 0.004, zero)
