"""What-if analysis from now: candidates for the next minutes of a run in progress, each answered with bands.

    found = what_if(Path("yard.yaml"), Path("runs/yard/..."), {"one more": ["nodes.gate-3={kind: gateway}"]},
                    horizon=300.0, folder=Path("work"))
    found[0].bands["response"]  # of "as it is"; found[1] of "one more"

A scenario of the continuum alone is run in batches: the last seconds of the run are repeated from its recorded tasks,
so that queues are as full as in the run, then tasks arrive at the rates measured in these seconds. A rate is as
uncertain as the count of its arrivals leaves it, so each run draws it from its posterior. Tasks that a device makes
every so often go on at the period that it had. All candidates get the same
arrivals and the same draws, so that their differences have little noise; these are reported too. Any other scenario is
made again up to now and branched there (`cosim.twin.prediction.coupled`).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from cosim.contract.children import as_they_come
from cosim.contract.errors import Problem, RunError, ScenarioError
from cosim.contract.units import show
from cosim.engine.continuum.effects import NotBatchableError
from cosim.results.again import AdapterState, adapter_states
from cosim.results.load import load as load_run
from cosim.scenario.load import Loaded, load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.fitting.posterior import LEVEL
from cosim.twin.prediction.coupled import coupled, named_change, quantities_of, with_events
from cosim.twin.prediction.predict import Band, band
from cosim.twin.prediction.reported import Reported, named, quantities
from cosim.twin.problem import Floats
from cosim.twin.scenario.batched import BatchedRuns, free_of, unbatchable
from cosim.twin.scenario.replay import Span, moved, shifted, tasks_of_run, trace, traces
from cosim.twin.telemetry.quantities import Quantity, ValuePairing

if TYPE_CHECKING:
    from cosim.results.load import Run

AS_IT_IS = "as it is"
NEXT = "-next"  # of the workload that goes on where the recorded one ends
_RUNS = 40  # per candidate: two beyond each end of a 90 % band
_WARM = 60.0  # s: at 90 % load a queue of tasks of 0.1 s forgets within 40 s (M/M/1, S / (1 - sqrt(u))^2)


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    """One candidate: bands of its figures over the horizon, and of the differences to the first one."""

    name: str
    bands: Mapping[str, Band]
    differences: Mapping[str, Band]


def what_if(
    scenario: Path, run: Path, candidates: Mapping[str, Sequence[str]], *, folder: Path, horizon: float = 300.0,
    warm: float | None = None, now: float | None = None, draws: Sequence[Mapping[str, float]] = (),
    count: int | None = None, level: float = LEVEL, seed: int = 1, overrides: Sequence[str] = (),
    workers: int | None = None, hosts: bool = False, exact: bool = False,
) -> list[WhatIfAnswer]:  # fmt: skip
    """Answers for "as it is" and for every candidate (name -> overrides), from `now` (s of the run; its end so far) on.

    `draws` are values of the scenario's free parameters by name; without them, the scenario's values apply.
    `hosts` adds the power and the utilisation of all hosts, which takes longer. `warm` (s, default 60), `count` (runs
    of each candidate, default 40), `level`, `seed` and `draws` are for scenarios that are run in batches: a coupled
    run has one state, and a candidate one answer. With `exact`, a run of the continuum alone is branched like one.
    Raises `ScenarioError` for a scenario that cannot be branched.
    """
    courses = {AS_IT_IS: (), **candidates}
    recorded = load_run(run)
    try:
        at = _moment(recorded) if now is None else now
        if not at > 0.0:
            raise ScenarioError(Problem("the run has recorded no task yet", "whatif", run))
        if why := "the answers are to be exact" if exact else unbatchable(scenario, overrides):
            if draws:
                message = f"values of a posterior need runs in batches, and there are none: {why}"
                raise ScenarioError(Problem(message, "twin", scenario))
            asked = (scenario, run, courses, at, horizon, overrides, hosts, workers)
            if threading.active_count() == 1:
                found = coupled(*asked)
            else:  # a process with threads is not safe to fork
                ((_, found),) = as_they_come(coupled, [asked], 1, lost=_lost)
        else:
            window: Span = (max(at - (_WARM if warm is None else warm), 0.0), at)
            found = _batched(
                load(scenario, overrides), recorded, courses, window, horizon, draws, _RUNS if count is None else count,
                folder=folder, seed=seed, overrides=overrides, workers=workers, hosts=hosts,
            )  # fmt: skip
    finally:
        recorded.close()
    first = found[0][1]
    return [
        WhatIfAnswer(
            name,
            {figure: band(column, level) for figure, column in figures.items()},
            {figure: band(column - first[figure], level) for figure, column in figures.items()},
        )
        for name, figures in found
    ]


def states_of(scenario: Path, overrides: Sequence[str], *, hosts: bool = False) -> list[AdapterState]:
    """How candidates get the state of each adapter. Raises `ScenarioError`."""
    plan = compile_plan(load(scenario, overrides))
    if unbatchable(scenario, overrides):
        return adapter_states(plan, {one.table for one in quantities_of(plan, 0.0, hosts=hosts).values()})
    return [AdapterState(plan.adapters[0].name, "batches", "its last tasks are repeated, with new arrivals after them")]


def _lost(_case: int, status: int | None) -> NoReturn:
    raise RunError(f"the process that branched the run ended, status {status}")


def _moment(recorded: Run) -> float:
    """The end of a run so far (s), 0.0 when nothing has been recorded."""
    last = recorded.execute("SELECT max(created) FROM task").fetchone() if "task" in recorded.signals else None
    return max(float(recorded.manifest.get("reached") or 0.0), float(last[0]) if last and last[0] is not None else 0.0)


def _batched(
    loaded: Loaded, recorded: Run, courses: Mapping[str, Sequence[str]], window: Span, horizon: float,
    draws: Sequence[Mapping[str, float]], count: int, *, folder: Path, seed: int, overrides: Sequence[str],
    workers: int | None, hosts: bool,
) -> list[tuple[str, Mapping[str, Floats]]]:  # fmt: skip
    """Figures (count,) of every candidate, run by run."""
    past = window[1] - window[0]
    tasks = tasks_of_run(recorded, loaded.scenario.workloads, ("input", "output"), window)
    settings = [*overrides, *traces(loaded, tasks, ("input", "output"), folder / "traces", window)]
    # arrivals, and s that their sources were watched, each of them
    seen = {
        name: (len(rows), past * max(1, len(loaded.world.select(loaded.scenario.workloads[name].source))))
        for name, rows in tasks.items()
        if len(rows)
    }
    span = (window[0], window[1] + horizon)
    settings += moved(loaded, span)
    periodic = {
        name: trace(
            f"{name}{NEXT}", _periodic(tasks[name], 1.0 / load_.arrivals.rate, span), (), folder / "traces", span[0]
        )
        for name in seen
        if (load_ := loaded.scenario.workloads[name]).arrivals.law == "every" and not load_.quantities.active
    }
    settings += _continued(loaded, {name: n / t for name, (n, t) in seen.items()}, past, periodic)
    free = [one for one in free_of(loaded) if draws and one.name in draws[0]]
    if draws and not free:
        message = f"the scenario frees none of the values that were calibrated: {', '.join(draws[0])}"
        raise ScenarioError(
            Problem(message, "twin", loaded.path, hint="name the scenario that was calibrated, or include it")
        )
    values = np.array([[draws[k % len(draws)][one.name] for one in free] for k in range(count)])
    # n arrivals of a Poisson process in t s, under Jeffreys' prior: the rate is Gamma(n + 1/2, t)
    chance = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 0x72617465])))
    rates = {name: chance.gamma(n + 0.5, 1.0 / t, count) for name, (n, t) in seen.items()}
    chosen = quantities(past, hosts=hosts)
    pairs = {name: (one, cast(ValuePairing, Reported(one))) for name, one in chosen.items()}
    seeds = [int(word) for word in np.random.SeedSequence([seed, 0x77686174]).generate_state(count, np.uint32)]
    events = shifted(loaded.data.get("events") or [], span)
    found: list[tuple[str, Mapping[str, Floats]]] = []
    for name, changes in courses.items():
        with named_change(name):
            try:
                own = _both(with_events(changes, window[1], events, window[0]))
                tables = ("task", "host") if hosts else ("task",)
                given = {one.partition("=")[0] for one in own}
                drawn = [
                    load_
                    for load_ in rates
                    if load_ not in periodic and f"workloads.{load_}{NEXT}.arrivals" not in given
                ]
                laws = [(f"{load_}{NEXT}", "rate") for load_ in drawn]
                runs = BatchedRuns(loaded.path, [*settings, *own], free, tables=tables, workers=workers, laws=laws)
                every = np.column_stack([values, *(rates[load_] for load_ in drawn)])
                found.append((name, _figures(runs, every, seeds, pairs)))
            except NotBatchableError as error:
                message = f"the runs of '{name}' cannot be made in batches: {error}"
                raise ScenarioError(Problem(message, file=loaded.path)) from None
    return found


def _periodic(rows: Sequence[tuple[Any, ...]], period: float, span: Span) -> list[tuple[float, str]]:
    """When (s) and where tasks come after those of `rows` until the end of the span.

    The time between two is a device's mean, and `period` (s) where it has made one only.
    """
    times: dict[str, list[float]] = {}
    for created, device, *_ in rows:
        times.setdefault(device, []).append(created)
    found = []
    for device, one in times.items():
        own = (one[-1] - one[0]) / (len(one) - 1) if len(one) > 1 else period
        found += [(time, device) for time in np.arange(one[-1] + own, span[1], own).tolist()]
    return sorted(found)


def _continued(loaded: Loaded, rates: Mapping[str, float], past: float, periodic: Mapping[str, str]) -> list[str]:
    """Overrides: every workload goes on at its measured rate (Hz of each source) after `past` s, or as in a trace."""
    found = []
    for name, rate in rates.items():
        declared = loaded.data["workloads"][name].items()
        block = {key: value for key, value in declared if key not in ("active", "idle", "stop")}
        block |= {"arrivals": f"poisson {rate:.6g} Hz", "start": show(past, "time")}
        block |= {"arrivals": periodic[name], "start": "0 s", "share": "100 %"} if name in periodic else {}
        found.append(f"workloads.{name}{NEXT}={json.dumps(block)}")
    return found


def _both(changes: Sequence[str]) -> list[str]:
    """Changes of a workload are changes of what comes next."""
    return [re.sub(r"^(workloads\.[^.=]+)\.", rf"\1{NEXT}.", change) for change in changes]


def _figures(
    runs: BatchedRuns, values: Floats, seeds: Sequence[int], pairs: Mapping[str, tuple[Quantity, ValuePairing]]
) -> dict[str, Floats]:
    """Figure -> (count,) values, run by run under the same seeds."""
    rows = []
    for k, seed in enumerate(seeds):
        rows.append(named({name: answer[0] for name, answer in runs(values[k : k + 1], seed, pairs).items()}))
    return {figure: np.array([row[figure] for row in rows]) for figure in rows[0]}
