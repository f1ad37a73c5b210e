"""What-if analysis of a coupled run: it is made again up to now, and branched there for every candidate.

A candidate is a list of events from now on. Its figures are those that the run itself would have with these events in
its scenario, to the bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cosim.contract.errors import Problem, RunError, ScenarioError
from cosim.contract.units import parse, show
from cosim.results.again import branch, made_again
from cosim.results.folder import RunFolder
from cosim.results.load import load as load_run
from cosim.scenario.gather import SET
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.prediction.reported import PublishedTables, quantities
from cosim.twin.problem import Floats

if TYPE_CHECKING:
    from cosim.scenario.plan.plan import Plan, Recording
    from cosim.twin.telemetry.quantities import Quantity


@contextmanager
def named_change(name: str) -> Iterator[None]:
    """Within, mistakes in overrides are those of the change `name`."""
    try:
        yield
    except ScenarioError as error:
        raise ScenarioError(
            [replace(one, file=Path(f"change '{name}'")) if one.file == SET else one for one in error.problems]
        ) from None


def with_events(changes: Sequence[str], now: float, events: Sequence[object], zero: float = 0.0) -> list[str]:
    """`changes` as overrides: the keys of events, which have no dots and begin with `do`, join the scenario's `events`.

    An event without `at` happens at `now` (s). `zero` (s) is the time of the run at which the simulation begins.
    """
    found = [change for change in changes if "." in change.partition("=")[0] or change.startswith("events=")]
    own = list[dict[str, str]]()
    for key, _, value in (change.partition("=") for change in changes if change not in found):
        if key.strip() == "do":
            own.append({"at": show(now, "time")})
        if not own:
            hint = "begin an event with 'do', as 'do=fail; node=edge-1'"
            raise ScenarioError(Problem(f"'{key.strip()}' is no path of a scenario", "change", hint=hint))
        own[-1][key.strip()] = value
    if own:
        found.append(f"events={json.dumps([*events, *([{}] * len(own))])}")
    for number, event in enumerate(own, len(events)):
        with suppress(ValueError):  # which the scenario's check reports
            event["at"] = show(parse(event["at"], "time") - zero, "time")
        found += [f"events.{number}.{key}={value}" for key, value in event.items()]
    return found


def quantities_of(plan: Plan, since: float, *, hosts: bool) -> dict[str, Quantity]:
    """What is reported from `since` (s) on: tasks where an adapter writes them, else the hosts."""
    tasks = any("task" in one.writes for one in plan.adapters)
    return quantities(since, tasks=tasks, hosts=hosts or not tasks)


def coupled(
    scenario: Path, run: Path, candidates: Mapping[str, Sequence[str]], now: float, horizon: float,
    overrides: Sequence[str], hosts: bool, workers: int | None,
) -> list[tuple[str, Mapping[str, Floats]]]:  # fmt: skip
    """Figures (1,) of every candidate, from the first tick at or after `now` (s) on.

    Raises `ScenarioError` for a run of another plan, for what cannot be branched, and for a change that is no event.
    """
    loaded = load(scenario, overrides)
    plan, manifest = compile_plan(loaded), RunFolder.open(run).manifest
    if manifest["plan_hash"] != plan.hash or manifest["interactive"]:
        why = "it was steered" if manifest["interactive"] else "its plan is another one"
        hint = "name the scenario of that run, with the same --set"
        raise ScenarioError(Problem(f"the run cannot be made again from {scenario}: {why}", "run", hint=hint))
    begin = plan.time(ceil(now / plan.step - 1e-9))
    end = plan.time(ceil((begin + horizon) / plan.step - 1e-9))
    longer = [f"run.duration={json.dumps(show(end, 'time'))}"] if end > plan.duration else []
    if longer:
        plan = compile_plan(load(scenario, [*overrides, *longer]))
    events = loaded.data.get("events") or []
    courses = {}
    for name, changes in candidates.items():
        with named_change(name):
            other = compile_plan(load(scenario, [*overrides, *longer, *with_events(changes, begin, events)]))
        if replace(other, events=()).hash != replace(plan, events=()).hash:
            hint = "write an event, as 'do=fail; node=edge-1; for=20 s'"
            message = "only events can be added while a coupled run goes on, and this changes more"
            raise ScenarioError(Problem(message, file=Path(f"change '{name}'"), hint=hint))
        if [one for one in other.events if one.at < begin] != [one for one in plan.events if one.at < begin]:
            message = f"it changes what has happened before {begin:g} s"
            raise ScenarioError(Problem(message, file=Path(f"change '{name}'"), hint="write a later 'at', or none"))
        courses[name] = other.events
    chosen = quantities_of(plan, begin, hosts=hosts)
    past = PublishedTables(quantities(0.0, hosts=False))
    with made_again(plan, begin, {one.table for one in chosen.values()}, [past]) as runtime:
        _agree(past, run, runtime.reached, plan.recordings)
        found = branch(
            runtime, list(courses.values()), end - begin, measure=lambda: PublishedTables(chosen), workers=workers
        )  # fmt: skip
    return [(name, {figure: found[figure][k : k + 1] for figure in found}) for k, name in enumerate(courses)]


def _agree(past: PublishedTables, run: Path, until: float, recordings: Sequence[Recording]) -> None:
    """Raise `RunError` when the run made again had other tasks than the recorded one, which may lack the last."""
    with closing(load_run(run)) as recorded:
        if "task" not in recorded.signals or any(one.signal == "task" and one.slots for one in recordings):
            return
        query = "SELECT ended, created FROM task WHERE ended <= ? ORDER BY ended, created"
        then = np.array(recorded.execute(query, [until]).fetchall(), np.float64).reshape(-1, 2)
    table = past.table("task")
    now = np.stack([table["ended"], table["created"]], axis=1)[np.lexsort((table["created"], table["ended"]))]
    if not np.array_equal(then, now[: len(then)]):
        raise RunError(
            f"the run in {run} cannot be made again: its tasks up to {until:g} s were others; it was made "
            "by another version, or on another kind of machine"
        )
