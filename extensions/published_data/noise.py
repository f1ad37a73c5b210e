"""How the speed of virtual machines varies: repeated benchmarks, as a law of work.

A benchmark's score is work over time, so a machine's typical score over that of a run is the time that
the same work took, in units of the typical one. Typical is the median of the runs before: the levels of
machines drift over weeks. The time is log-normal, and in a share of the runs longer by a factor, as where another
tenant or a limit interferes. A scenario writes this law as `work: log-normal 90 Mcycles +- 1 %, 2 % x 1.3`.

Settings: `benchmark`, a part of the files' names (default: the only file); `machine`, one that is judged
while the others are fitted (default: the first half of each machine's runs is fitted, the second judged);
`held_back`, a folder with runs that are judged; then all others are fitted; `work`, that of a task without noise
(default: 100 Mcycles).

Result for fields of a scenario: `work`, the same with noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import erf
from pathlib import Path

import numpy as np

from cosim.contract import units
from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError
from cosim.contract.records import Floats
from cosim.sources.tables.published import column, find, numbers, table
from cosim.twin.jobs import held_back
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.space import Parameter, Space, Value

SETTINGS = ("benchmark", "machine", "held_back", "work")

FILES = tuple(f"{folder}*__*_*.csv*" for folder in ("azure_vm_noise/", "vm-noise-data/", ""))  # BENCHMARK__REGION_KIND
KNOWN = 30  # runs of a machine that its typical score is taken from
LEVELS = np.arange(1, 100) / 100.0  # of the quantiles that are compared


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The runs of one benchmark on one machine, in the order of time."""

    machine: str
    values: Floats  # (runs,) work per time, in any unit
    source: str = ""

    def times(self) -> Floats:
        """(runs - KNOWN,) what each run took over what the `KNOWN` before it took typically."""
        before = np.lib.stride_tricks.sliding_window_view(self.values, KNOWN)[:-1]
        return np.asarray(np.median(before, axis=1) / self.values[KNOWN:])


def read(data: Path, benchmark: str = "") -> list[Scores]:
    """The scores below `data`, by machine. Raises `ScenarioError`, also where files of several benchmarks are meant."""
    every = find(data, *FILES)
    paths = [path for path in every if benchmark in path.name]
    if len(paths) != 1:
        names = ", ".join(path.name.split(".")[0] for path in paths or every)
        what = f"{len(paths)} files of {len(every)} have '{benchmark}' in their names"
        raise ScenarioError(Mistake(what, "calibrate.settings.benchmark", file=data, hint=f"choose one: {names}"))
    (path,) = paths
    found = table(path)
    values, machines = numbers(found, "value", path), np.array(column(found, "VM_id", path))
    bad = np.flatnonzero(~(values > 0.0) | ~np.isfinite(values))
    if len(bad):
        raise ScenarioError(Mistake("has a score that is missing or not above 0", file=path, line=int(bad[0]) + 2))
    order = np.argsort(np.array(column(found, "starttime", path)), kind="stable")  # ISO dates sort as text
    values, machines = values[order], machines[order]
    scores = [Scores(str(name), values[machines == name], path.name) for name in sorted(set(machines.tolist()))]
    for one in scores:
        if len(one.values) < 4 * KNOWN:
            text = f"machine {one.machine} has {len(one.values)} runs, and {4 * KNOWN} are needed"
            raise ScenarioError(Mistake(text, file=path))
    return scores


def space() -> Space:
    """Deviation of the logarithm of the time, share of the long runs, how many times longer they are."""
    return Space([
        Parameter("spread", 1e-5, 0.5, scale="log", start=0.01),
        Parameter("slow.share", 1e-3, 0.3, scale="log", start=0.01),
        Parameter("slow.times", 1.001, 4.0, scale="log", start=1.1),
    ])  # fmt: skip


def law(values: Floats) -> Floats:
    """(n, levels) quantiles of the time at `LEVELS` by the law of `values` (n, 3), found by bisection."""
    spread, share, times = (values[:, k, None] for k in range(3))
    low, high = np.exp(-4.0 * spread), times * np.exp(4.0 * spread)
    low, high = np.repeat(low, len(LEVELS), axis=1), np.repeat(high, len(LEVELS), axis=1)
    for _ in range(40):
        middle = 0.5 * (low + high)
        below = (1.0 - share) * _normal(np.log(middle) / spread) + share * _normal(np.log(middle / times) / spread)
        less = below < LEVELS
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return 0.5 * (low + high)


def problem(
    fit: Sequence[Floats], judged: Sequence[Floats], what: str, work: str = "100 Mcycles"
) -> CalibrationProblem:
    """The law fitted to the times of `fit`, judged on those of `judged`; an array (runs,) each machine or part."""

    def case(parts: Sequence[Floats], name: str) -> Case:
        def simulate(values: Floats, _seed: int) -> Mapping[str, Floats]:
            return {"time": law(values)}

        quantiles = np.quantile(np.concatenate(parts), LEVELS)
        measured = MeasuredSignal(quantiles, paired=True, usual=frozenset({"outliers"}))  # the last ones lie apart
        return Case({"time": measured}, simulate, name)

    def fields(values: Mapping[str, Value]) -> dict[str, str]:
        deviation = np.sqrt(np.expm1(float(values["spread"]) ** 2))
        share, times = float(values["slow.share"]), float(values["slow.times"])
        return {"work": f"log-normal {work} +- {100 * deviation:.3g} %, {100 * share:.3g} % x {times:.4g}"}

    return CalibrationProblem(
        f"noise of {what}",
        space(),
        fit=case(fit, f"{sum(map(len, fit))} runs"),
        held_back=case(judged, f"{sum(map(len, judged))} runs"),
        deterministic=True,
        cost=1e-3,
        assumptions=(
            "machines of a kind vary alike about their own typical speed",
            "tasks are independent of one another; runs of the benchmark were hours apart",
        ),
        sources=(f"{what}: {sum(map(len, fit))} runs fitted, {sum(map(len, judged))} judged",),
        results=fields,
    )


def parts(data: Path, settings: Mapping[str, object]) -> tuple[list[Floats], list[Floats]]:
    """The times to fit and to judge, by machine. Raises `ScenarioError`."""
    name, later = str(settings.get("benchmark", "")), held_back(settings)
    scores = read(data, name)
    if later is not None:
        return [one.times() for one in scores], [one.times() for one in read(later, name)]
    machine = settings.get("machine")
    if machine is None:
        halves = [np.array_split(one.times(), 2) for one in scores]
        return [first for first, _ in halves], [second for _, second in halves]
    judged = [one.times() for one in scores if one.machine == str(machine)]
    fit = [one.times() for one in scores if one.machine != str(machine)]
    if not judged or not fit:
        known = ", ".join(one.machine for one in scores)
        raise ScenarioError(
            Mistake(f"machine {machine} cannot be held back", "calibrate.settings.machine", hint=f"there are {known}")
        )
    return fit, judged


def problems(data: Path, settings: Mapping[str, object]) -> list[CalibrationProblem]:
    """The problem of the benchmark asked for. Raises `ScenarioError`."""
    work = str(settings.get("work", "100 Mcycles"))
    try:
        units.parse(work, "work")
    except ValueError as error:
        raise ScenarioError(Mistake(str(error), "calibrate.settings.work")) from None
    source = read(data, str(settings.get("benchmark", "")))[0].source
    return [problem(*parts(data, settings), source.split(".")[0], work)]


_erf = np.frompyfunc(erf, 1, 1)


def _normal(deviations: Floats) -> Floats:
    """The normal law's distribution function."""
    return np.asarray(0.5 + 0.5 * _erf(deviations / np.sqrt(2.0)), np.float64)
