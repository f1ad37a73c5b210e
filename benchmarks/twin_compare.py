"""Exact search against surrogates: the same simulator, trace and budget for all (`--job compare`).

SimTune's published testbed log: the first rows to fit, the following ones to judge. The simulator is the
queueing model of `cosim.twin.models.intervals`; one run simulates one parameter vector under one seed, as
`LOGS` logs. Every method is judged on logs that it has not seen, each of the length of the measured one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np

from cosim.errors import SetupError
from cosim.twin.calibration import Gap
from cosim.twin.jobs import simtune
from cosim.twin.misfit import Misfit, gaps
from cosim.twin.problem import Floats, Problem
from cosim.twin.search.cma import cma_es
from cosim.twin.search.meter import Budget, Meter
from cosim.twin.space import Space
from cosim.twin.surrogate.methods import METHODS, Pipeline, tune
from cosim.twin.surrogate.network import Training
from cosim.twin.surrogate.target import Conditions
from cosim.twin.surrogate.tree import Tree

EXACT, CHANCE = "exact search", "random search"
LOGS = 8  # per run
JUDGED = 64  # logs per judgement
RUNS, SECONDS, SEEDS = 2000, 60.0, 5
QUICK_RUNS, QUICK_SEEDS = 160, 2

Method = Callable[[int], tuple[Floats, int, float, float]]  # seed -> values (d,), runs, CPU s, R2 of the surrogate


def logs(data: Path, held_back: Path | None) -> tuple[simtune.Log, simtune.Log]:
    """Fit and held-back rows; what lies in `held_back` follows the first rows of `data`."""
    log = simtune.read(data)
    if held_back is None:
        return simtune.split(log)
    fit, later = log.part(0, simtune.FIT_ROWS), simtune.read(held_back)
    if len(later) > len(fit):  # the whole log lies there
        return fit, later.part(len(fit), len(later))
    return fit, replace(later, first=len(fit))


def _neutral(problem: Problem) -> Problem:
    """Begun in the middle of all bounds: the job's own start lies near the answer, and no method should profit."""
    return replace(problem, space=Space([replace(p, start=None) for p in problem.space.parameters]))


def _exact(problem: Problem, runs: int) -> Method:
    def method(seed: int) -> tuple[Floats, int, float, float]:
        began, misfit = process_time(), Misfit(problem.fit.observed)
        streams = np.random.SeedSequence([seed, 1]).generate_state(4).tolist()

        def objective(units: Floats) -> Floats:
            values = problem.space.values(units)
            losses: Floats = np.mean([misfit.losses(problem.fit.simulate(values, s)) for s in streams], axis=0)
            return losses

        meter = Meter(objective, Budget(runs, SECONDS), runs_per_point=len(streams))
        start = problem.space.units(problem.space.start)[0]
        found = cma_es(meter, start, np.random.default_rng(np.random.SeedSequence([seed, 2])))
        return problem.space.values(found.units)[0], meter.runs, process_time() - began, float("nan")

    return method


def _chance(problem: Problem, runs: int) -> Method:
    """The control: the best of random vectors, the best eight of them looked at again."""

    def method(seed: int) -> tuple[Floats, int, float, float]:
        began, misfit = process_time(), Misfit(problem.fit.observed)
        random = np.random.default_rng(np.random.SeedSequence([seed, 3]))
        streams = np.random.SeedSequence([seed, 1]).generate_state(5).tolist()
        values = problem.space.values(problem.space.sample(runs - 32, random))
        order = np.argsort(misfit.losses(problem.fit.simulate(values, streams[0])), kind="stable")
        best = values[order[:8]]
        again = np.mean([misfit.losses(problem.fit.simulate(best, s)) for s in streams[1:]], axis=0)
        return best[int(np.argmin(again))], runs, process_time() - began, float("nan")

    return method


def _tuned(problem: Problem, name: str, pipeline: Pipeline, conditions: Conditions) -> Method:
    def method(seed: int) -> tuple[Floats, int, float, float]:
        found = tune(problem, name, pipeline=pipeline, conditions=conditions, seed=seed)
        return found.values, found.runs, found.cpu_seconds, found.r2

    return method


def _judged(problem: Problem, values: Floats, part: str) -> dict[str, Gap]:
    case = problem.fit if part == "fit" else problem.held_back
    assert case is not None
    rows = [case.simulate(values[None], 1_000_000 + k) for k in range(JUDGED)]
    simulated = {name: np.concatenate([row[name] for row in rows]) for name in case.observed}
    return {gap.signal: gap for gap in gaps(case.observed, simulated)}


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """The table: per method mean and deviation over seeds of the held-back gaps, CPU seconds and runs."""
    if data is None:
        raise SetupError("the testbed log of SimTune is needed: --data DIR")
    fit, later = logs(data, held_back)
    problem, judge = (_neutral(simtune.problem(fit, later, replicates=count)) for count in (LOGS, 1))
    conditions = Conditions.measured(fit.cpu / 100.0)
    runs, seeds = (QUICK_RUNS, QUICK_SEEDS) if quick else (RUNS, SEEDS)
    pipeline = Pipeline(runs=runs, seconds=SECONDS)
    if quick:
        pipeline = replace(
            pipeline, rounds=2, finalists=2, training=Training(epochs=10, patience=5), tree=Tree(rollouts=10)
        )
    methods: dict[str, Method] = {EXACT: _exact(problem, runs), CHANCE: _chance(problem, runs)}
    methods |= {name: _tuned(problem, name, pipeline, conditions) for name in METHODS}
    table: list[Mapping[str, object]] = []
    skipped: list[str] = []
    for name, method in methods.items():
        try:
            table.append(_row(name, method, judge, 1 if name == "human set" else seeds))
        except SetupError as error:  # the networks without torch
            skipped.append(f"{name}: {error}")
    floors = {signal: gap.floor for signal, gap in _judged(judge, problem.space.start, "held back").items()}
    return {
        "methods": table,
        "noise floor": floors,
        "fit": judge.fit.name,
        "held back": judge.held_back.name if judge.held_back else "",
        "budget": {"runs": runs, "CPU s": SECONDS, "logs per run": LOGS},
        "seeds": seeds,
        "start": "the middle of all bounds, along their scale (the row human set)",
        "assumptions": list(problem.assumptions),
        **({"left out": skipped} if skipped else {}),
    }


def _row(name: str, method: Method, judge: Problem, seeds: int) -> Mapping[str, object]:
    found = [method(seed) for seed in range(1, seeds + 1)]
    figures: dict[str, list[float]] = {}
    for values, spent, seconds, r2 in found:
        for part in ("fit", "held back"):
            told = _judged(judge, values, part)
            for label, figure in (
                ("W1 energy", told["energy"].w1), ("W1 response", told["response"].w1), ("G1", told["all"].g1)
            ):  # fmt: skip
                if part == "held back" or label != "G1":
                    figures.setdefault(f"{part} {label}", []).append(figure)
        for label, figure in (("runs", float(spent)), ("CPU s", seconds), ("R2", r2)):
            figures.setdefault(label, []).append(figure)
    row: dict[str, object] = {"method": name}
    for label, values_of in figures.items():
        row[label] = float(np.mean(values_of))
        if label not in ("runs", "CPU s", "R2"):
            row[f"sd {label}"] = float(np.std(values_of, ddof=1)) if len(values_of) > 1 else 0.0
    return row
