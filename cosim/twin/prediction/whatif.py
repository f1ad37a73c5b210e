"""What-if analysis from now: candidates for the next minutes of a run in progress, each answered with bands.

    found = what_if(Path("yard.yaml"), Path("runs/yard/..."), {"one more": ["nodes.gate-3={kind: gateway}"]},
                    horizon=300.0, folder=Path("work"))
    found[0].bands["response"]  # of "as it is"; found[1] of "one more"

The last seconds of the run are repeated from its recorded tasks, so that queues are as full as in the run. Then tasks
arrive at the rates measured in these seconds. All candidates get the same arrivals and the same draws of a posterior,
so that their differences have little noise; these are reported too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.units import show
from cosim.results.load import load as load_run
from cosim.scenario.free import free_values
from cosim.scenario.gather import SET
from cosim.scenario.load import Loaded, load
from cosim.twin.prediction.predict import Band
from cosim.twin.problem import Floats
from cosim.twin.scenario.batched import BatchedRuns
from cosim.twin.scenario.effects import NotBatchableError
from cosim.twin.scenario.replay import Span, shifted, tasks_of_run, traces
from cosim.twin.telemetry.quantities import Pairing, Quantity, Rows

AS_IT_IS = "as it is"
NEXT = "-next"  # of the workload that goes on where the recorded one ends
_FIGURES = ("response", "response_p95", "completed", "unfinished")
_HOSTS = ("power", "utilisation")


@dataclass(frozen=True, slots=True)
class Answer:
    """One candidate: bands of its figures over the horizon, and of the differences to the first one."""

    name: str
    bands: Mapping[str, Band]
    differences: Mapping[str, Band]


class _Told:
    """Stands where a `Pairing` does: the figures of one table over the horizon."""

    def __init__(self, quantity: Quantity, since: float) -> None:
        self._quantity, self._since = quantity, since

    def values(self, simulated: Rows, end: float) -> Floats:
        """Of tasks: mean and 95th percentile of the response (s), how many ended, how many did not; of hosts the sum
        over nodes, averaged over time."""
        later = simulated.only(simulated.times >= self._since)
        known = later.values[np.isfinite(later.values)]
        if self._quantity.of_tasks:
            mean, tail = (known.mean(), np.quantile(known, 0.95)) if len(known) else (np.nan, np.nan)
            return np.array([mean, tail, len(known), len(later.values) - len(known)], np.float64)
        times = len(np.unique(later.times)) or 1
        return np.array([known.sum() / times])


def what_if(
    scenario: Path,
    run: Path,
    candidates: Mapping[str, Sequence[str]],
    *,
    folder: Path,
    horizon: float = 300.0,
    warm: float = 60.0,
    now: float | None = None,
    draws: Sequence[Mapping[str, float]] = (),
    count: int = 40,
    level: float = 0.9,
    seed: int = 1,
    overrides: Sequence[str] = (),
    workers: int | None = None,
    hosts: bool = False,
) -> list[Answer]:
    """Answers for "as it is" and for every candidate (name -> overrides), from `now` (s of the run; its end so far) on.

    `draws` are values of the scenario's free parameters by name; without them, the scenario's values apply.
    `hosts` adds the power and the utilisation of all hosts, which takes longer. Raises `ScenarioError` for a scenario
    that cannot be run in batches.
    """
    loaded = load(scenario, overrides)
    recorded = load_run(run)
    try:
        reached = float(recorded.manifest.get("reached") or 0.0)
        last = recorded.execute("SELECT max(created) FROM task").fetchone() if "task" in recorded.signals else None
        at = now if now is not None else max(reached, float(last[0]) if last and last[0] is not None else 0.0)
        if not at > 0.0:
            raise ScenarioError(Problem("the run has recorded no task yet", "whatif", run))
        window: Span = (max(at - warm, 0.0), at)
        tasks = tasks_of_run(recorded, loaded.scenario.workloads, ("input", "output"), window)
    finally:
        recorded.close()
    settings = [*overrides, *traces(loaded, tasks, ("input", "output"), folder / "traces", window)]
    past = window[1] - window[0]
    settings += _continued(loaded, {name: len(rows) / past for name, rows in tasks.items()}, past, horizon, window)
    configs = {name: used.config for name, used in loaded.adapters.items()}
    free, _ = free_values(loaded.scenario, loaded.root, loaded.world, configs)
    free = [one for one in free if draws and one.name in draws[0]]
    if draws and not free:
        message = f"the scenario frees none of the values that were calibrated: {', '.join(draws[0])}"
        raise ScenarioError(
            Problem(message, "twin", loaded.path, hint="name the scenario that was calibrated, or include it")
        )
    values = np.array([[draws[k % len(draws)][one.name] for one in free] for k in range(count)]) if free else None
    quantities = {
        "tasks": Quantity("task", "response", since=past),
        **{name: Quantity("host", name, since=past) for name in (_HOSTS if hosts else ())},
    }
    pairs = {name: (one, cast(Pairing, _Told(one, past))) for name, one in quantities.items()}
    seeds = [int(word) for word in np.random.SeedSequence([seed, 0x77686174]).generate_state(count, np.uint32)]
    told: list[tuple[str, Mapping[str, Floats]]] = []
    for name, changes in {AS_IT_IS: (), **candidates}.items():
        tables = ("task", "host") if hosts else ("task",)
        try:
            runs = BatchedRuns(loaded.path, [*settings, *_both(changes)], free, tables=tables, workers=workers)
            told.append((name, _figures(runs, values, seeds, pairs)))
        except ScenarioError as error:
            raise ScenarioError(
                [replace(one, file=Path(f"change '{name}'")) if one.file == SET else one for one in error.problems]
            ) from None
        except NotBatchableError as error:
            message = f"the runs of '{name}' cannot be made in batches: {error}"
            raise ScenarioError(
                Problem(message, file=loaded.path, hint="leave other adapters than 'continuum' out")
            ) from None
    first = told[0][1]
    return [
        Answer(
            name,
            {figure: _band(column, level) for figure, column in found.items()},
            {figure: _band(column - first[figure], level) for figure, column in found.items()},
        )
        for name, found in told
    ]


def _continued(loaded: Loaded, rates: Mapping[str, float], past: float, horizon: float, window: Span) -> list[str]:
    """Overrides: every workload goes on at its measured rate, and the run lasts until the horizon."""
    step = loaded.scenario.run.step
    length = np.ceil((past + horizon) / step - 1e-9) * step
    events = loaded.data.get("events") or []
    found = [
        f"run.duration={json.dumps(show(float(length), 'time'))}",
        f"events={json.dumps(shifted(events, (window[0], window[1] + horizon)))}",
    ]
    for name, load_ in loaded.scenario.workloads.items():
        rate = rates.get(name, 0.0)
        devices = len(loaded.world.select(load_.source)) or 1
        if rate > 0.0:
            block = dict(loaded.data["workloads"][name])
            for key in ("active", "idle", "stop"):
                block.pop(key, None)
            block |= {"arrivals": f"poisson {rate / devices:.6g} Hz", "start": show(past, "time")}
            found.append(f"workloads.{name}{NEXT}={json.dumps(block)}")
    return found


def _both(changes: Sequence[str]) -> list[str]:
    """Changes of a workload are changes of what comes next."""
    found = []
    for change in changes:
        path, _, value = change.partition("=")
        keys = path.split(".")
        if keys[0] == "workloads" and len(keys) > 2:
            found.append(".".join([keys[0], keys[1] + NEXT, *keys[2:]]) + f"={value}")
        else:
            found.append(change)
    return found


def _figures(
    runs: BatchedRuns, values: Floats | None, seeds: Sequence[int], pairs: Mapping[str, tuple[Quantity, Pairing]]
) -> dict[str, Floats]:
    """Figure -> (count,) values, run by run under the same seeds."""
    rows: dict[str, list[Floats]] = {name: [] for name in pairs}
    for k, seed in enumerate(seeds):
        some = np.zeros((1, 0)) if values is None else values[k : k + 1]
        for name, answer in runs(some, seed, pairs).items():
            rows[name].append(answer[0])
    tasks = np.array(rows["tasks"])
    found: dict[str, Floats] = {figure: tasks[:, k] for k, figure in enumerate(_FIGURES)}
    return found | {name: np.array(column)[:, 0] for name, column in rows.items() if name != "tasks"}


def _band(column: Floats, level: float) -> Band:
    known = column[np.isfinite(column)]
    if not len(known):
        return Band(float("nan"), float("nan"), float("nan"), 0)
    low, middle, high = np.quantile(known, [(1 - level) / 2, 0.5, (1 + level) / 2])
    return Band(float(low), float(middle), float(high), len(known))
