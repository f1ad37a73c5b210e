"""The tasks that a source of the continuum makes, in plain Python: real nodes make the same ones.

A source is a device and a workload. Its stream of random numbers depends on the model's seed, the device's slot and
generation and the workload's number only (see `cosim.engine.continuum.draw`), so that instants, sizes and stages can
be made anywhere, and a run with real nodes can be compared task by task with one that is simulated. The rules are
those of `cosim.engine.continuum.sources`, which are compiled and belong to the engine's state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cosim.compiled import splitmix
from cosim.contract.entities import Workload
from cosim.contract.laws import Law
from cosim.engine.continuum import draw

ACTIVE, CHOICE, GAP, IDLE, INPUT, OFFSET, OUTPUT, PART, SHARE, WORK = (
    int(one)
    for one in (
        draw.ACTIVE, draw.CHOICE, draw.GAP, draw.IDLE, draw.INPUT, draw.OFFSET, draw.OUTPUT, draw.PART, draw.SHARE,
        draw.WORK,
    )
)  # fmt: skip
_MASK = 2**64 - 1
_STEP, _SALT, _M1, _M2 = map(int, (splitmix.STEP, draw.SALT, splitmix.FIRST, splitmix.SECOND))


def engine_seed(seed: tuple[int, ...]) -> int:
    """The seed of the engine of an adapter whose stream has the entropy `seed`."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def _mix(z: int) -> int:
    z = (z ^ (z >> 30)) * _M1 & _MASK
    z = (z ^ (z >> 27)) * _M2 & _MASK
    return z ^ (z >> 31)


def stream(seed: int, slot: int, generation: int, workload: int) -> int:
    """The key of the stream of one source."""
    key = _mix((seed + _STEP) & _MASK)
    for part in (slot, generation, workload):
        key = _mix(key ^ ((part * _STEP + _SALT) & _MASK))
    return key


def uniform(key: int, n: int, purpose: int) -> float:
    """Draw n for `purpose` of the stream, in [0, 1) with 53 bits."""
    bits = _mix(_mix((key + n * _STEP) & _MASK) ^ ((purpose + 1) * _SALT & _MASK))
    return float(bits >> 11) * 2.0**-53


def exponential(key: int, n: int, purpose: int) -> float:
    """An exponential draw of mean 1."""
    return -math.log1p(-uniform(key, n, purpose))


def size(law: Law, key: int, n: int, purpose: int) -> float:
    """A draw from the law."""
    if law.law == "exponential":
        return law.a * exponential(key, n, purpose)
    if law.law == "uniform":
        return law.a + (law.b - law.a) * uniform(key, n, purpose)
    if law.law == "log-normal":
        radius, variance = math.sqrt(2.0 * exponential(key, n, purpose)), math.log1p(law.b * law.b)
        deviations = radius * math.cos(2.0 * math.pi * uniform(key, n, purpose + draw.ANGLE))
        return law.a * math.exp(math.sqrt(variance) * deviations - 0.5 * variance)
    return law.a


def cycles(law: Law, key: int, n: int, own: int = 0) -> float:
    """A draw of work from the law, of either mode; `own` is added to the purposes of a stage."""
    usual = size(law, key, n, own + WORK)
    return usual * law.times if law.share > 0.0 and uniform(key, n, own + int(draw.SLOW)) < law.share else usual


@dataclass(frozen=True, slots=True)
class SourceTask:
    """A task that a source makes."""

    at: float  # s, simulated
    device: int  # slot of the node that makes it
    input: float  # B
    output: float  # B that come back
    work: float  # cycles, of all stages
    sent: float  # B that leave the device: the input, or what the stages on board make of it
    onboard: float = 0.0  # cycles of the stages on board
    chance: float = 0.0  # uniform in [0, 1): below a share, the task is one of that share
    choice: float = 0.0  # uniform in [0, 1), for the scheduler: of the first stage that is not on board, if it has any


class TaskSource:
    """The tasks of workload `number` on the device in `slot` from `now` (s) on, in order of time.

    Arrivals are `poisson` or `every`, with active and idle times where the workload has them. Stages, if there are any,
    follow one another, those on board first. Raises `ValueError` for other workloads.
    """

    def __init__(
        self, seed: int, load: Workload, number: int, slot: int, generation: int = 0, now: float = 0.0
    ) -> None:
        if load.arrivals not in ("poisson", "every"):
            raise ValueError(f"arrivals by '{load.arrivals}' are made by the model only")
        self._load, self._slot = load, slot
        self._key = key = stream(seed, slot, generation, number)
        self._drawn = self._phases = self._step = 0
        self._base = start = max(now, load.start)
        self._end = math.inf
        self.next = math.inf  # s, when the next task is made
        if uniform(key, 0, SHARE) >= load.share or load.rate <= 0.0:
            return
        if load.active > 0.0:
            if uniform(key, 0, ACTIVE) * (load.active + load.idle) >= load.active:
                start += load.idle * exponential(key, 0, IDLE)
            self._phase(start)
        elif load.arrivals == "every":
            self._base = start + uniform(key, 0, OFFSET) / load.rate
        self._plan()

    def until(self, time: float) -> Iterator[SourceTask]:
        """The tasks up to `time` (s) that were not given yet."""
        while self.next <= time:
            at, n = self.next, self._drawn
            self._plan()
            yield self._task(at, n)

    def _phase(self, start: float) -> None:
        """Begin an active phase at `start`."""
        load = self._load
        self._phases += 1
        self._end = start + load.active * exponential(self._key, self._phases, ACTIVE)
        self._base, self._step = start, 0
        if load.arrivals == "every":
            self._base = start + uniform(self._key, self._phases, OFFSET) / load.rate

    def _plan(self) -> None:
        load, key = self._load, self._key
        while True:
            self._drawn += 1
            if load.arrivals == "every":
                time = self._base + self._step / load.rate
                self._step += 1
            else:
                time = self._base + exponential(key, self._drawn, GAP) / load.rate
            if time <= self._end:
                break
            start = self._end + load.idle * exponential(key, self._phases, IDLE)
            if start > load.stop:
                self.next = math.inf
                return
            self._phase(start)
        if load.arrivals == "poisson":
            self._base = time
        self.next = time if time < load.stop else math.inf

    def _task(self, at: float, n: int) -> SourceTask:
        load, key = self._load, self._key
        brought, chance = size(load.input, key, n, INPUT), uniform(key, n, PART)
        if not load.graph:
            back, work = size(load.output, key, n, OUTPUT), cycles(load.work, key, n)
            return SourceTask(at, self._slot, brought, back, work, brought, 0.0, chance, uniform(key, n, CHOICE))
        made = [
            (stage.pinned, cycles(stage.work, key, n, own), size(stage.output, key, n, own + OUTPUT))
            for own, stage in ((16 * (1 + k), stage) for k, stage in enumerate(load.graph))
        ]
        onboard = sum(work for pinned, work, _ in made if pinned)
        work = sum(work for _, work, _ in made)
        sent = next((output for pinned, _, output in reversed(made) if pinned), brought)
        first = next((k for k, (pinned, _, _) in enumerate(made) if not pinned), 0)
        choice = uniform(key, n, 16 * (1 + first) + CHOICE)
        return SourceTask(at, self._slot, brought, made[-1][2], work, sent, onboard, chance, choice)
