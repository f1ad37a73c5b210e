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
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosim.contract.errors import RunError
from cosim.contract.seeds import stream
from cosim.results.executor import Executor, JobResult, Task, make_executor
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.prediction.draws import Settings, overrides
from cosim.twin.problem import Floats

LEVEL = 0.9
_SATURATED = 0.8  # utilisation above which a queue amplifies
_MUCH = 3.0  # % of a figure per % of a value: reported
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
class Prediction:
    """What a scenario will show, as far as its twin knows."""

    scenario: str
    bands: Mapping[str, Band]
    runs: int
    warnings: tuple[str, ...] = ()


def predict(
    scenario: Path,
    draws: Sequence[Settings],
    *,
    folder: Path,
    settings: Sequence[str] = (),
    count: int = 100,
    level: float = LEVEL,
    seed: int = 1,
    workers: int = 0,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Prediction:
    """Run `scenario` with `count` draws in processes of their own; `folder` is used for the runs and emptied.

    Raises `ScenarioError` for a scenario that lacks a field of the draws, `RunError` when hardly a run succeeds.
    """
    chosen = [draws[k * len(draws) // count] for k in range(count)] if len(draws) >= count else [
        draws[k % len(draws)] for k in range(count)
    ]  # fmt: skip
    base = folder / "making"
    for name in ("runs", "logs"):
        (base / name).mkdir(parents=True, exist_ok=True)
    tasks, name, warnings = [], "", list[str]()
    for k, values in enumerate(chosen):
        own = (*settings, *overrides(values), f"run.seed={_seed(seed, k)}", "calibrate=null")
        plan = compile_plan(load(scenario, own))
        name = plan.name
        if k == 0:
            warnings = [w for w in plan.warnings if "calibration" in w]
        tasks.append(Task(f"{k}-{plan.hash[:24]}", str(scenario.resolve()), own, {}, str(base.resolve())))
    made: dict[int, JobResult] = {}
    failures: list[str] = []
    try:
        runner = executor or make_executor("local", workers or len(os.sched_getaffinity(0)))
        with closing(runner.run(tasks)) as results:  # type: ignore[type-var]
            for result in results:
                if result.status == "complete":
                    made[int(result.key.partition("-")[0])] = result
                else:
                    failures.append(result.error)
                if progress is not None:
                    progress(len(made) + len(failures), len(tasks))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if len(made) < max(2, count // 2):
        raise RunError(f"{len(failures)} of {count} runs failed: {failures[0] if failures else 'no result'}")
    if failures:
        warnings.append(f"{len(failures)} of {count} runs failed and are not in the bands: {failures[0]}")
    order = sorted(made)
    bands = summarise([made[k].figures for k in order], [chosen[k] for k in order], level)
    return Prediction(name, bands, len(made), (*warnings, *told(bands)))


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
        low, middle, high = np.quantile(column[kept], [(1 - level) / 2, 0.5, (1 + level) / 2])
        amplification, by = _amplification(column, inputs)
        found[name] = Band(float(low), float(middle), float(high), int(kept.sum()), amplification, by)
    return found


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
        if abs(slopes[k]) > max(best, 3.0 * error):
            best, by = abs(float(slopes[k])), name
    return best, by


def told(bands: Mapping[str, Band]) -> tuple[str, ...]:
    """What a reader of the bands should know."""
    warnings = []
    for name, band in bands.items():
        if name.startswith("response") and band.amplification >= _MUCH:
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
