"""Bands for every figure of a scenario's report: a run per draw of the posterior, each under a seed of its own.

    found = predict(Path("other.yaml"), read(Path("calibrations/pi")), folder=Path("work"), draws=100)
    found.bands["response_mean"]  # low, middle, high

A band covers what the data leave open about the values, and the chance of the run. Near saturation a small change of a
value becomes a large change of the figure; this amplification is reported.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from cosim.contract.children import in_copies
from cosim.contract.errors import CosimError, RunError
from cosim.contract.seeds import stream
from cosim.engine.continuum.effects import NotBatchableError
from cosim.engine.continuum.prepared import Prepared
from cosim.results.executor import Executor, RunTask, made, make_executor
from cosim.results.load import ComputedRun
from cosim.results.metrics import measure
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.plan.plan import Plan, Recording
from cosim.twin.fitting.posterior import LEVEL
from cosim.twin.judgement.subject import SURE
from cosim.twin.prediction.draws import Settings, overrides
from cosim.twin.problem import Floats
from cosim.twin.scenario.batched import prepared, prepared_of

Ended = Generator[tuple[int, Mapping[str, float | None] | str], None, None]  # number of the run, figures or an error
_SATURATED = 0.8  # utilisation from which 1 % more makes a queue 5 % longer: M/M/1, 1 / (1 - u)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Band:
    """Where a figure lies: `LEVEL` of the runs are between low and high."""

    low: float
    middle: float
    high: float
    runs: int
    amplification: float = 1.0  # % by which the figure moves per % of the value that moves it most
    by: str = ""  # that value


@dataclass(frozen=True, slots=True)
class BandPrediction:
    """What a scenario will show, as far as its twin knows."""

    scenario: str
    bands: Mapping[str, Band]
    runs: int
    warnings: tuple[str, ...] = ()


def predict(
    scenario: Path, draws: Sequence[Settings], *, folder: Path, settings: Sequence[str] = (), count: int = 100,
    level: float = LEVEL, seed: int = 1, workers: int = 0, executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> BandPrediction:  # fmt: skip
    """Run `scenario` with `count` draws, which spread over those given; `folder` is used for the runs and emptied.

    The continuum alone is run in this process and copies of it; with an `executor`, and where anything else computes,
    every run has a process of its own. Figures are the same to the bit.

    Raises `ScenarioError` for a scenario that lacks a field of the draws, `RunError` when hardly a run succeeds.
    """
    chosen = [draws[k * len(draws) // count if len(draws) >= count else k % len(draws)] for k in range(count)]
    own = [(*settings, *overrides(one), f"run.seed={_seed(seed, k)}", "calibrate=null") for k, one in enumerate(chosen)]
    plan = compile_plan(loaded := load(scenario, own[0]))
    workers = workers or len(os.sched_getaffinity(0))
    other = any(one.signal == "task" and one != Recording("task", True, 0.0, (), ()) for one in plan.recordings)
    first = None
    with suppress(NotBatchableError):
        first = None if executor is not None or plan.pacing > 0.0 or other else prepared_of(loaded, plan)
    if first is not None:
        ended = _batched(scenario, own, workers, (first, plan))
    else:
        ended = _whole(scenario, own, folder / "making", executor or make_executor("local", workers))
    figures: dict[int, Mapping[str, float | None]] = {}
    failures: list[str] = []
    with closing(ended) as results:
        for k, found in results:
            if isinstance(found, str):
                failures.append(found)
            else:
                figures[k] = found
            if progress is not None:
                progress(len(figures) + len(failures), count)
    if len(figures) < max(2, count // 2):
        raise RunError(f"{len(failures)} of {count} runs failed: {failures[0] if failures else 'no result'}")
    warnings = [line for line in plan.warnings if "calibration" in line]
    if failures:
        warnings.append(f"{len(failures)} of {count} runs failed and are not in the bands: {failures[0]}")
    bands = summarise([figures[k] for k in sorted(figures)], [chosen[k] for k in sorted(figures)], level)
    return BandPrediction(plan.name, bands, len(figures), (*warnings, *reader_notes(bands)))


def _batched(scenario: Path, own: Sequence[Sequence[str]], workers: int, begun: tuple[Prepared, Plan]) -> Ended:
    """The figures of each run, or why it has none, from forks of this process where it has no other thread."""
    alone = len(own) if workers == 1 or threading.active_count() > 1 else 1  # one compiles for the copies
    yield from enumerate(_computed(scenario, own[:alone], begun))
    at_once = workers * max(len(own) // (20 * workers), 1)  # progress is reported twenty times
    for first in range(alone, len(own), at_once):
        some = own[first : first + at_once]
        calls = [partial(_computed, scenario, some[k::workers]) for k in range(min(workers, len(some)))]
        parts = in_copies([lambda _, call=call: list(call()) for call in calls], workers)  # type: ignore[misc]
        yield from ((first + k, parts[k % workers][k // workers]) for k in range(len(some)))


def _computed(
    scenario: Path, own: Sequence[Sequence[str]], begun: tuple[Prepared, Plan] | None = None
) -> Iterator[Mapping[str, float | None] | str]:
    """The figures of each run, or why it has none; of the first one it may be `begun` already."""
    with closing(ComputedRun()) as run:
        for settings in own:
            try:
                found, plan = begun or prepared(scenario, settings)
                begun = None
                run.take(plan, *found.run())
                yield {name: figure["value"] for name, figure in measure(run)["figures"].items()}
            except CosimError as error:
                yield str(error)


def _whole(scenario: Path, own: Sequence[tuple[str, ...]], base: Path, runner: Executor) -> Ended:
    """The same from runs that write a folder each, in processes of their own."""
    places = str(scenario.resolve()), str(base.resolve())
    tasks = [RunTask(str(k), places[0], one, {}, places[1]) for k, one in enumerate(own)]
    with closing(made(runner, tasks, base)) as results:
        for one in results:
            yield int(one.key), one.figures if one.status == "complete" else one.error


def _seed(seed: int, number: int) -> int:
    words = np.random.SeedSequence(stream(seed, f"predict {number}")).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(12))


def summarise(
    figures: Sequence[Mapping[str, float | None]], values: Sequence[Settings], level: float = LEVEL
) -> dict[str, Band]:
    """Figure -> its band over runs, and how strongly the drawn values move it."""
    found: dict[str, Band] = {}
    inputs = _inputs(values)
    for name in dict.fromkeys(name for one in figures for name in one):
        column = np.array([math.nan if one.get(name) is None else float(one[name] or 0.0) for one in figures])
        kept = np.isfinite(column)
        if kept.sum() < 2:
            continue
        found[name] = band(column, level, *_amplification(column, inputs))
    return found


def band(column: Floats, level: float, amplification: float = 1.0, by: str = "") -> Band:
    """The band of the finite values of `column`; NaN without any.

    Of n values the k-th is above a further one with probability k / (n + 1), so that the band holds that with `level`.
    """
    known = column[np.isfinite(column)]
    if not len(known):
        return Band(math.nan, math.nan, math.nan, 0, amplification, by)
    low, middle, high = np.quantile(known, [(1 - level) / 2, 0.5, (1 + level) / 2], method="weibull").tolist()
    return Band(low, middle, high, len(known), amplification, by)


def _inputs(values: Sequence[Settings]) -> dict[str, Floats]:
    """Path -> the number in its drawn values, of those that vary and are above 0."""
    found = {}
    for path in values[0] if values else ():
        numbers = [_number(one.get(path)) for one in values]
        column = np.array(numbers, np.float64)
        if np.isfinite(column).all() and (column > 0.0).all() and np.std(column) > 1e-9 * abs(column.mean()):
            found[path] = column
    return found


def _number(value: object) -> float:
    if isinstance(value, bool) or value is None:
        return math.nan
    if isinstance(value, int | float):
        return float(value)
    numbers = _NUMBER.findall(str(value))
    return float(numbers[-1]) if numbers else math.nan


def _amplification(column: Floats, inputs: Mapping[str, Floats]) -> tuple[float, str]:
    """The largest slope of the logarithm of a figure by that of a value, if it is more than chance; least squares."""
    kept = np.isfinite(column) & (column > 0.0)
    if not inputs or kept.sum() < 8 * (1 + len(inputs)) or not kept.all():
        return 1.0, ""
    x = np.stack([np.ones(len(column)), *(np.log(one) - np.log(one).mean() for one in inputs.values())], axis=1)
    y = np.log(column)
    slopes, *_ = np.linalg.lstsq(x, y, rcond=None)
    left = y - x @ slopes
    freedom = len(y) - x.shape[1]
    covariance = float(left @ left) / freedom * np.linalg.pinv(x.T @ x)
    names = list(inputs)
    best, by = 1.0, ""
    for k, name in enumerate(names, start=1):
        error = math.sqrt(max(float(covariance[k, k]), 0.0))
        if abs(slopes[k]) > max(best, SURE * error):
            best, by = abs(float(slopes[k])), name
    return best, by


def reader_notes(bands: Mapping[str, Band]) -> tuple[str, ...]:
    """What a reader of the bands should know."""
    warnings = []
    for name, band in bands.items():
        if name.startswith("response") and band.amplification * (1.0 - _SATURATED) >= 1.0:
            warnings.append(
                f"{name}: 1 % of {band.by} moves it by {band.amplification:.1f} %: near saturation; what is not in "
                "the model (overheads, pauses) is amplified as much"
            )
    for name in ("utilisation_max", "utilisation_mean"):
        if name in bands and bands[name].high > _SATURATED:
            reached = f"{name} reaches {bands[name].high:.0%}"
            warnings.append(f"{reached}: where hosts are that full, waiting times depend on every percent")
            break
    return tuple(warnings)
