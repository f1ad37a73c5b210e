"""Worlds of the table that are scenario files: `cosim bench schedulers --world city-edge,./mine.cosim.yaml`.

Such a world is named as `cosim new --from` names it, or by its file or folder, or is one of the folder `worlds`;
` for 60 s` after the name shortens it.
A run of it is what `cosim run` does, with the entry as `adapters.continuum.scheduler` or `adapters.interval.policy`.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.errors import SetupError
from cosim.extensions.metanet.bench import suite
from cosim.results import session
from cosim.scenario import gallery
from cosim.scenario.load import load
from cosim.schedulers import SchedulerError, scheduler
from cosim.schedulers.state import State

MISSED = 10.0  # s that a task counts with that failed: longer than any deadline of the shipped worlds
SHIPPED = Path(__file__).parent / "worlds"
KEYS = {"continuum": "adapters.continuum.scheduler", "interval": "adapters.interval.policy"}
_KEPT = (".yaml", ".yml", ".csv", ".geojson", ".json", ".py", ".xml", ".parquet")  # suffixes of what a scenario reads
Timed: type  # the policy of the run under way; scenarios name it


def place(world: str) -> tuple[Path, list[str]]:
    """The file or folder of a world, and the override that shortens it. Raises `SetupError` when there is none."""
    name, _, duration = world.partition(" for ")
    path, ours = Path(name), SHIPPED / f"{name}.cosim.yaml"
    if path.suffix not in (".yaml", ".yml") and not path.is_dir():
        known = {one.name: one.folder for one in gallery.examples()}
        if not ours.is_file() and name not in known:
            worlds = ", ".join((*suite.names(), *(one.name.partition(".")[0] for one in sorted(SHIPPED.iterdir()))))
            raise SetupError(f"there is no world '{name}'; there are {worlds}, those of `cosim scenarios`, and files")
        path = ours if ours.is_file() else known[name]
    return path, [f"run.duration={duration}"] if duration else []


def model(world: str) -> str:
    """The model whose scheduler the entries are. Raises `ScenarioError`, and `SchedulerError` without such a model."""
    path, overrides = place(world)
    adapters = load(path, overrides).scenario.adapters
    for name in KEYS:
        if name in adapters:
            return name
    raise SchedulerError(f"world '{world}' has no adapter {' or '.join(KEYS)}, so nothing that schedulers decide about")


def files(world: str) -> list[Path]:
    """What the world is made of: the scenario, and for a folder what lies beside it."""
    path = place(world)[0]
    return [one for one in path.iterdir() if one.suffix in _KEPT] if path.is_dir() else [path]


def summary(world: str) -> str:
    """Its title."""
    return re.sub(r"\.$", "", load(*place(world)).scenario.title or world)


def _timed(name: str, spent: list[float], limit: float | None) -> str:
    """What a scenario names to have the policy `name` and its times: [s of CPU, s, decisions]."""
    found = scheduler(name)
    if found.make is None:
        return name

    class Measured:
        decisions = found.decisions

        def __init__(self) -> None:
            policy: Any = found.make()  # type: ignore[misc]  # it has one, see above
            if hasattr(policy, "learn"):
                self.learn = policy.learn
            self._decide = suite.timed(policy, spent, limit)

        def __call__(self, state: State) -> ArrayLike:
            return self._decide(state)

    globals()["Timed"] = Measured
    return f"{__name__}:Timed"


def run(world: str, policy: str, seed: int, limit: float | None = None) -> suite.WorldOutcome:
    """Run one scheduler in one world. Raises `SchedulerError` when the run does not reach its end."""
    path, overrides = place(world)
    spent = [0.0, 0.0, 0.0]
    named = _timed(policy, spent, limit)  # before the scenario's folder takes the place of the one that it is in
    asked = [*overrides, f"run.seed={seed}", f"{KEYS[model(world)]}={named}"]
    with TemporaryDirectory() as folder:
        outcome = session.run(path, overrides=asked, out=folder)
    if outcome.status != "complete":
        raise SchedulerError(f"the run does not reach its end: {outcome.error}")
    figures = {name: 0.0 if value is None else float(value) for name, value in outcome.figures.items()}
    created = figures["tasks_created"]
    completed, failed = figures["tasks_completed"], figures["tasks_failed"]
    each = 1e3 / max(spent[2], 1.0)
    return suite.WorldOutcome(
        energy=(figures["energy_total"] - figures.get("energy_vehicles", 0.0)) / suite.KWH,  # it is the hosts' matter
        response=(figures["response_mean"] * completed + MISSED * failed) / max(completed + failed, 1.0),
        late=(figures.get("late_share", 0.0) * completed + created - completed) / max(created, 1.0),
        cost=figures.get("cost_total", 0.0),
        waiting=figures.get("queue_mean", np.nan),
        migrations=figures.get("migrations", 0.0) / max(created, 1.0),
        unfinished=figures["tasks_in_flight"] / max(created, 1.0),
        cpu=spent[0] * each,
        wall=spent[1] * each,
        tasks=created,
    )
