"""A running cluster in the loop: its state in, ranked configurations of its optical switches out.

The state is JSON:

    {"time": 0.0,
     "resources": {...},                                     as in a resource file
     "running": [{"id": "a", "ends": 600.0, "ranks": {"leaf-0": 8, "leaf-1": 8}, "pattern": "ring",
                  "circuits": [["leaf-0:up0", "leaf-1:up0"], ...]}],
     "waiting": [{"id": "b", "gpus": 16, "duration": 1200.0, "pattern": "all-to-all"}],
     "down": ["leaf-3", "leaf-0:up7"]}

The answer lists configurations, best first: an order of waiting jobs, which of them start now on which
leaves, and the matchings of each OCS, old circuits and new. Circuits of running jobs stay as they are.
The same state gives the same answer, and asking changes nothing; when the time limit is over, what has
been found until then is ranked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from cosim.contract.block import Block
from cosim.contract.errors import Problem, ScenarioError
from cosim.extensions.gpu_cluster.cluster.engine import layout as l
from cosim.extensions.gpu_cluster.cluster.fabric import Fabric, fabric
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs
from cosim.extensions.gpu_cluster.cluster.names import PATTERNS
from cosim.extensions.gpu_cluster.cluster.order import all_orders, better
from cosim.extensions.gpu_cluster.cluster.resources import Resources, document, from_json, located, parsed, said
from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSettings, ClusterSimulation

Name = Literal["local", "ring", "tree", "all-to-all", "pipeline", "experts"]
MOST = 5  # waiting jobs whose orders are tried


class RunningBlock(Block):
    """A job on GPUs."""

    id: str
    ends: float = Field(ge=0.0, allow_inf_nan=False, description="s, when it is expected to end")
    ranks: dict[str, Annotated[int, Field(ge=1, le=1_000_000)]] = Field(min_length=1, description="leaf -> GPUs")
    pattern: Name = "ring"
    circuits: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = []


class WaitingBlock(Block):
    """A job in line."""

    id: str
    gpus: Annotated[int, Field(ge=1, le=1_000_000)]
    duration: float = Field(gt=0.0, allow_inf_nan=False, description="s")
    pattern: Name = "ring"
    rails: Annotated[int, Field(ge=1, le=1_000_000)] = 8
    experts: Annotated[int, Field(ge=1, le=1_000_000)] = 8


class StateBlock(Block):
    """A running cluster at a time."""

    time: float = Field(0.0, ge=0.0, allow_inf_nan=False, description="s")
    resources: Resources
    running: list[RunningBlock] = []
    waiting: list[WaitingBlock] = []
    down: list[str] = Field([], description="leaves and uplinks that are out of order")


@dataclass(frozen=True, slots=True)
class Configuration:
    """One answer. `end` is when all jobs that it starts or finds running have ended (s)."""

    order: tuple[str, ...]
    starts: tuple[dict[str, Any], ...]  # id, ranks by leaf, circuits as pairs of ports
    matchings: dict[str, list[list[str]]]  # OCS -> pairs of uplinks that it joins
    set_up: int  # circuits that are new
    end: float
    last_start: float

    def as_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "order": list(self.order), "starts": list(self.starts), "matchings": self.matchings,
            "set_up": self.set_up, "end": self.end, "last_start": self.last_start,
        }  # fmt: skip


def read_state(source: Path | str | Mapping[str, Any]) -> StateBlock:
    """A state from a file, JSON text or data. Raises `ScenarioError` with every mistake, and its line in a text."""
    file = source if isinstance(source, Path) else None
    data, text = source, ""
    if isinstance(source, Path):
        data, text = document(source)
    elif isinstance(source, str):
        data, text = from_json(source), source
    if isinstance(data, Mapping) and isinstance(data.get("resources"), Mapping):
        parsed(data["resources"], file, text, ("resources",))
    try:
        return StateBlock.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(located(said(error), file, text)) from None


def simulation_of(state: StateBlock, placement: str = "exhaustive") -> ClusterSimulation:
    """The cluster as it runs, with the waiting jobs in line. Raises `ScenarioError` for what cannot be."""
    made = fabric(state.resources)
    running, waiting = state.running, state.waiting
    both: list[RunningBlock | WaitingBlock] = [*running, *waiting]
    ids = [one.id for one in both]
    if len(set(ids)) < len(ids):
        raise ScenarioError(Problem("two jobs have the same id", "running"))
    patterns = [PATTERNS.index(one.pattern) for one in both]
    jobs = Jobs(
        np.full(len(ids), state.time),
        np.array([sum(one.ranks.values()) for one in running] + [one.gpus for one in waiting], np.int64),
        np.array([max(one.ends - state.time, 1e-6) for one in running] + [one.duration for one in waiting], np.float64),
        np.array(patterns, np.int64),
        rails=np.array([8] * len(running) + [one.rails for one in waiting], np.int64),
        group=np.array([8] * len(running) + [one.experts for one in waiting], np.int64),
    )  # fmt: skip
    network = "circuits" if len(made.delay) and not (made.port_ocs < 0).any() else "packet"
    simulation = ClusterSimulation(made, jobs, ClusterSettings(network, placement, rows=2))
    simulation.state.grid["now"] = state.time
    simulation.state.leaf["since"] = state.time
    _take_down(simulation, made, state.down)
    for number, one in enumerate(running):
        _adopt(simulation, made, number, one)
    simulation.asking()
    simulation.advance(state.time, log=False)
    return simulation


def _take_down(simulation: ClusterSimulation, made: Fabric, down: list[str]) -> None:
    for i, name in enumerate(down):
        if name in made.names:
            simulation.happen("leaf", made.names.index(name))
        elif name in made.port_names:
            simulation.happen("port", made.port_names.index(name))
        else:
            raise ScenarioError(Problem(f"there is no leaf and no uplink '{name}'", f"down.{i}"))


def _adopt(simulation: ClusterSimulation, made: Fabric, number: int, one: RunningBlock) -> None:
    """Put a running job on its leaves and its circuits."""
    path = f"running.{number}"
    ports = {name: i for i, name in enumerate(made.port_names)}
    pairs = []
    for i, cable in enumerate(one.circuits):
        if any(name not in ports for name in cable):
            raise ScenarioError(Problem(f"{cable} are no uplinks", f"{path}.circuits.{i}"))
        pairs.append((ports[cable[0]], ports[cable[1]]))
    for name in one.ranks:
        if name not in made.names:
            raise ScenarioError(Problem(f"there is no leaf '{name}'", f"{path}.ranks.{name}"))
    ranks = sorted((made.names.index(name), count) for name, count in one.ranks.items())
    said = simulation.adopt(number, ranks, pairs)
    if said:
        raise ScenarioError(Problem(f"job '{one.id}' {said}", path))


def configurations(
    state: StateBlock, *, limit: float = 1.0, most: int = 10, placement: str = "exhaustive"
) -> list[Configuration]:
    """Feasible configurations for the waiting jobs, best first, found within `limit` s of wall time.

    The orders of the first five waiting jobs are tried, and of what starts now the circuits are given.
    """
    end = monotonic() + limit
    simulation = simulation_of(state, placement)
    line = simulation.line(MOST)
    if not line:
        return [_configuration(simulation, state, [], simulation.now, simulation.now)]
    orders = np.asarray(line)[all_orders(len(line))]
    tried = []
    for k in range(0, len(orders), 10):  # some at a time, so that the time limit holds
        tried.append(simulation.try_orders(orders[k : k + 10]))
        if monotonic() > end:
            break
    figures = np.concatenate(tried)
    found: dict[str, Configuration] = {}
    for i in better(figures):
        made = _configuration(simulation, state, [int(job) for job in orders[i]], figures[i, 0], figures[i, 1])
        found.setdefault(json.dumps([made.starts, made.matchings], sort_keys=True), made)
        if len(found) == most or monotonic() > end:
            break
    return list(found.values())


def _configuration(
    simulation: ClusterSimulation, state: StateBlock, order: list[int], end: float, last: float
) -> Configuration:
    branch = simulation.copy()
    names, ports = branch.fabric.names, branch.fabric.port_names
    ids = [*(one.id for one in state.running), *(one.id for one in state.waiting)]
    before = int(branch["reconfigured"])
    for job in reversed(order):
        branch.decide(job)
    branch.asking(False)
    branch.advance(branch.now, log=False)
    starts = []
    held = branch.circuits()
    for job in order:
        if branch.state.job["state"][job] == l.RUNNING:
            owned = np.flatnonzero(branch.state.gpu["owner"] == job)
            leaf = branch.state.server["leaf"][owned // branch.fabric.per_server]
            where, counts = np.unique(leaf, return_counts=True)
            starts.append({
                "id": ids[job],
                "ranks": {names[k]: int(c) for k, c in zip(where, counts, strict=True)},
                "circuits": [[ports[p], ports[q]] for p, q, _, j in held if j == job],
            })  # fmt: skip
    matchings: dict[str, list[list[str]]] = {one.id: [] for one in state.resources.ocs}
    for p, q, x, _ in held:
        matchings[state.resources.ocs[x].id].append([ports[p], ports[q]])
    return Configuration(
        tuple(ids[job] for job in order), tuple(starts), matchings, int(branch["reconfigured"]) - before, float(end),
        float(last),
    )  # fmt: skip
