"""Write a scenario of one's own service, from tables with the times of requests and answers.

    found = scenario_of(Path("folder"), [Path("low.csv"), Path("mid.csv"), Path("high.csv")])
    found.scenario, found.identified.station

There is one table per load (`cosim.sources.tables.requests`). The station is identified from all tables but the last
ones, which are held back, unless one of them contradicts the others (`cosim.twin.models.station`). The scenario frees
the service time and the latency.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from cosim.contract.errors import Problem, ScenarioError
from cosim.sources.tables.requests import K6, RequestTable, requests
from cosim.twin.judgement.course import EXACT
from cosim.twin.models.station import Identified, ServiceStation, agreeing, written
from cosim.twin.telemetry.quantities import spacings

_RUNS = 6000  # of the calibration: two values need no more


@dataclass(frozen=True, slots=True)
class OwnService:
    """The scenario that was written, and what it rests on."""

    scenario: Path
    identified: Identified
    loads: tuple[float, ...]  # of each table: rate over what the service can do
    notes: tuple[str, ...] = ()  # on the tables


def scenario_of(folder: Path, tables: Sequence[Path], *, held_back: int = 1, seed: int = 1) -> OwnService:
    """Write the scenario into `folder`; the last `held_back` tables are for the judgement.

    Raises `ScenarioError` for tables that cannot be read, hold too few requests or are all of the same load.
    """
    if len(tables) - held_back < 1:
        raise ScenarioError(Problem("every table is held back, and none is left to fit", hint="give one table more"))
    found = [requests(path) for path in tables]
    for one, other in combinations(found, 2):
        if np.array_equal(one.created, other.created):
            raise ScenarioError(Problem(f"'{one.file.name}' and '{other.file.name}' hold the same data: one is a copy"))
    fitted = found[: len(found) - held_back]
    if len(fitted) > 1 and max(one.rate for one in fitted) < 1.1 * min(one.rate for one in fitted):
        hint = "measure loads that differ by a third or more, such as 30 % and 60 % of what the service can do"
        raise ScenarioError(Problem("the tables to fit are all of the same load, which determines no queue", hint=hint))
    identified, lying = agreeing([(one.created, one.ended) for one in found], len(fitted), seed=seed)
    loads = tuple(one.rate / identified.station.capacity for one in found)
    if lying is not None:  # what it would bend is fitted to the others, by which it is judged
        found.append(found.pop(lying))
    folder.mkdir(parents=True, exist_ok=True)
    found = [_with_both_times(folder / "requests", one) if one.answered == K6[1] else one for one in found]
    path = folder / "scenario.cosim.yaml"
    path.write_text(_text(folder, found, held_back, identified), encoding="utf-8")
    return OwnService(path, identified, loads, tuple(f"{one.file.name}: {note}" for one in found for note in one.notes))


def _with_both_times(folder: Path, table: RequestTable) -> RequestTable:
    """The table as a file in `folder` that says when requests came, which k6 does not."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{table.file.stem}.csv"
    rows = [f"{came:.6f},{ended:.6f}" for came, ended in zip(table.created.tolist(), table.ended.tolist(), strict=True)]
    path.write_text("\n".join(["created,ended", *rows, ""]), encoding="utf-8")
    return replace(table, file=path, came="created", answered="ended", lasted=False, units=(None, None))


def _text(folder: Path, tables: Sequence[RequestTable], held_back: int, identified: Identified) -> str:
    station = identified.station
    # The recording ends when its last answer came; requests in line at the end are in it.
    duration = math.ceil(max(float(one.ended.max()) for one in tables) + 1.0)
    names = _names([one.file for one in tables])
    recordings = "\n".join(
        f"    {name}: {{file: {json.dumps(os.path.relpath(one.file, folder))}}}"
        for name, one in zip(names, tables, strict=True)
    )
    late = f"  held-back: {{recordings: [{', '.join(names[len(names) - held_back :])}]}}\n" if held_back else ""
    count = len(identified.levels.windows)
    varies = min(identified.levels.deviation * math.sqrt(1.0 + 1.0 / count), 0.9)
    first = tables[0]
    same = all((one.came, one.answered, one.units) == (first.came, first.answered, first.units) for one in tables)
    if not same:
        hint = "give the columns the same names in all tables"
        raise ScenarioError(Problem("the tables have different columns", file=tables[-1].file, hint=hint))
    came, answered = json.dumps(first.came), json.dumps(first.answered)
    units = f", time-unit: {first.units[0]}" if first.units[0] else ""
    between = f"between: [{came}, {answered}], time: {came}{units}, paired: false"
    signals = ["response"]
    if all(np.isfinite(spacings(one.created, one.ended - one.created)).any() for one in tables):
        signals.append("spacing")  # which only requests have that meet others
    if first.lasted:
        between = f"column: {answered}, unit: {first.units[1] or 's'}, time: {came}{units}, paired: false"
    observed = "\n".join(f"    {name}: {{signal: task.{name}, {between}}}" for name in signals)
    low, high = (_work(station, factor) for factor in (0.6, 1.7))
    way = max(station.latency, EXACT * station.service) / 2.0  # a delay on a log scale is above 0
    return f"""\
# A cycle is a nanosecond of one server. Servers, discipline, spread and contention are those that make the loads.
apiVersion: cosim/v1
kind: Scenario
name: {_name(folder)}
run: {{duration: {duration} s, step: 1 s, seed: 1}}
adapters:
  continuum: {{scheduler: nearest, discipline: {"sharing" if station.sharing else "fcfs"}}}
nodes:
  client: {{kind: device}}
  worker: {{kind: edge, cpu: {station.servers} x 1 GHz, contention: {station.contention:.4g}}}
links:
  - {{between: [client, worker], rate: 100 Gbit/s, delay: {1e3 * way:.4g} ms, jitter: {1e3 * way:.4g} ms}}
workloads:
  ask: {{from: client, arrivals: poisson 1 Hz, work: "{_work(station, 1.0)}"}}
calibrate:
  recordings:
{recordings}
  budget: {{runs: {_RUNS}}}
  replay: {{sizes: [], time: {came}{units}}}
  observed:
{observed}
{late}  free:
    workloads.ask.work: {{bounds: ["{low}", "{high}"], scale: log, varies: {100 * varies:.3g} %}}
    links.0.delay: {{bounds: [{1e3 * way / 4:.4g} ms, {1e3 * way * 4:.4g} ms], scale: log}}
"""


def _work(station: ServiceStation, factor: float) -> str:
    share, times = station.slow_share, station.slow_times
    usual = 1e9 * station.service / (1.0 + share * (times - 1.0))  # of the first mode
    return written(usual * factor, station.spread, (share, times) if share > 0.0 else None)


def _name(folder: Path) -> str:
    return "".join(c if c.isalnum() else "-" for c in folder.name.lower()).strip("-") or "service"


def _names(files: Sequence[Path]) -> list[str]:
    """Names of recordings: those of the files where they differ."""
    plain = ["".join(c if c.isalnum() else "-" for c in file.stem.lower()).strip("-") for file in files]
    good = len(set(plain)) == len(plain) and all(name and name[0].isalpha() for name in plain)
    return plain if good else [f"load-{k + 1}" for k in range(len(files))]
