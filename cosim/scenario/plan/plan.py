"""The plan: a scenario with every decision made, ready to be run, printed and hashed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from cosim.contract.entities import Event, Scene
from cosim.scenario.plan.compact import compact, expanded


@dataclass(frozen=True, slots=True)
class Wire:
    """One read of an adapter: the signal and the adapters that it comes from, in schedule order."""

    signal: str
    sources: tuple[str, ...]
    delayed: bool


@dataclass(frozen=True, slots=True)
class AdapterPlan:
    """One adapter: its kind and configuration, when it is stepped, and how it is wired."""

    name: str
    use: str  # the kind's name
    config: Mapping[str, Any]  # as written in the resolved scenario (text with units)
    period: int  # ticks between two steps
    reads: tuple[Wire, ...]
    writes: tuple[str, ...]
    origin: Literal["simulated", "emulated", "measured"]
    isolated: bool  # in a process of its own, started and stopped by the run
    connect: str  # address of a worker that runs elsewhere, or ""
    seed: tuple[int, ...]
    key: str = ""  # file with the private key that the worker at `connect` asks for
    media: tuple[str, ...] = ()  # of its kind, see `Context.serves`
    services: tuple[str, ...] = ()  # names of those that it gets
    offers: Mapping[str, Any] = field(default_factory=dict)  # of its configuration, what other adapters may know


@dataclass(frozen=True, slots=True)
class Lag:
    """What to do when a paced run falls behind the wall clock (s)."""

    policy: Literal["wait", "report", "strict"]
    warn: float
    fail: float


@dataclass(frozen=True, slots=True)
class Recording:
    """What of one signal is kept."""

    signal: str
    keep: bool
    every: float  # s, 0: every step of the adapter
    columns: tuple[str, ...]  # () for all
    slots: tuple[tuple[int, int], ...]  # (first, count), () for all
    summary: float = 0.0  # s that one row of statistics holds for; 0: rows are kept, not statistics
    by: tuple[str, ...] = ()  # columns by which statistics are grouped, () for all columns of codes


@dataclass(frozen=True)
class Plan:
    """Everything that a run does, decided.

    Time on the bus is counted in ticks of `step_ns` nanoseconds, so that no rounding accumulates:
    tick k holds for `k * step_ns / 1e9` s, and the last tick is `ticks`. `adapters` stand in the
    order in which they are stepped within a tick.
    """

    name: str
    title: str
    description: str
    step_ns: int
    ticks: int  # number of the last tick; the first is 0
    seed: int
    pacing: float  # simulated s per wall s, 0: as fast as possible
    lag: Lag
    timeout: float  # s, limit of every wait for another process
    scene: Scene
    adapters: tuple[AdapterPlan, ...]
    events: tuple[Event, ...]
    recordings: tuple[Recording, ...]
    root: Path  # folder of the scenario file
    resolved: str  # the scenario after includes and overrides, as YAML
    warnings: tuple[str, ...] = ()  # what a reader of the results should know: calibrated values that are extrapolated
    taken: tuple[str, ...] = ()  # what adapters took of files of others: rows, members, span
    held: Mapping[str, float] = field(default_factory=dict)  # B of memory that it needs, by its path in the scenario
    members: Mapping[str, int] = field(default_factory=dict)  # that an adapter's fleet has at most, as far as known

    @property
    def step(self) -> float:
        """Seconds between two ticks."""
        return self.step_ns / 1e9

    def time(self, tick: int) -> float:
        """Simulated seconds at `tick`."""
        return tick * self.step_ns / 1e9

    @property
    def duration(self) -> float:
        return self.time(self.ticks)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, without the folder that the scenario happens to lie in."""
        return expanded(self.compact)

    @cached_property
    def compact(self) -> dict[str, Any]:
        """The same data as `as_dict` in little room, see `cosim.scenario.plan.compact`; not to be changed."""
        return compact(self)

    @cached_property
    def hash(self) -> str:
        """SHA-256 over everything that can change the result, as 64 hexadecimal digits.

        Words for readers and the text of the scenario are left out: the order of keys and a better
        description make no other run.
        """
        data = dict(self.compact)
        for words in ("title", "description", "resolved", "warnings", "taken", "held", "members"):
            del data[words]
        text = json.dumps(data, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
