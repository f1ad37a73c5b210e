"""Exact search against surrogates: the same simulator, trace and budget for all (`--job compare`).

SimTune's published testbed log: the first rows to fit, the following ones to judge. The simulator is the
queueing model of `cosim.extensions.simtune.intervals`; one run simulates one parameter vector under one seed, as
`LOGS` logs. Every method is judged on logs that it has not seen, each of the length of the measured one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks import twin_algorithm1
from cosim.contract.errors import SetupError
from cosim.extensions.simtune import job as simtune
from cosim.extensions.simtune.surrogate.methods import METHODS, Pipeline, tune
from cosim.extensions.simtune.surrogate.network import TrainingOptions
from cosim.extensions.simtune.surrogate.target import Conditions
from cosim.extensions.simtune.surrogate.tree import Tree
from cosim.results.distances import wasserstein
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.fitting.misfit import Misfit
from cosim.twin.problem import CalibrationProblem, Case, Floats
from cosim.twin.search.meter import Budget
from cosim.twin.space import Space

EXACT, CHANCE = "exact search", "random search"
LOGS = 8  # per run
MORE = 20  # times the runs, for the exact search that is given the CPU seconds of a surrogate
JUDGED = 64  # logs per judgement
RUNS, SECONDS, SEEDS = 1000, 60.0, 5
QUICK_RUNS, QUICK_SEEDS = 160, 2

Method = Callable[[int], tuple[Floats, int, float, float]]  # seed -> values (d,), runs, CPU s, R2 of the surrogate


def logs(data: Path, held_back: Path | None) -> tuple[simtune.TestbedLog, simtune.TestbedLog]:
    """Fit and held-back rows; what lies in `held_back` follows the first rows of `data`."""
    log = simtune.read(data)
    if held_back is None:
        return simtune.split(log)
    fit, later = log.part(0, simtune.FIT_ROWS), simtune.read(held_back)
    if len(later) > len(fit):  # the whole log lies there
        return fit, later.part(len(fit), len(later))
    return fit, replace(later, first=len(fit))


def _neutral(problem: CalibrationProblem) -> CalibrationProblem:
    """Begun in the middle of all bounds: the job's own start lies near the answer, and no method should profit."""
    return replace(problem, space=Space([replace(p, start=None) for p in problem.space.parameters]))


def _exact(problem: CalibrationProblem, runs: int) -> Method:
    """Search alone: the others make no screen and no intervals either."""

    def method(seed: int) -> tuple[Floats, int, float, float]:
        alone = replace(problem, held_back=None)
        answer = calibrate(alone, budget=Budget(runs), seed=seed, screen=False, posterior=False)
        values = np.array([answer.value(name) for name in problem.space.names], np.float64)
        return values, answer.runs, answer.cpu_seconds, float("nan")

    return method


def _chance(problem: CalibrationProblem, runs: int) -> Method:
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


def _tuned(problem: CalibrationProblem, name: str, pipeline: Pipeline, conditions: Conditions) -> Method:
    def method(seed: int) -> tuple[Floats, int, float, float]:
        found = tune(problem, name, pipeline=pipeline, conditions=conditions, seed=seed)
        return found.values, found.runs, found.cpu_seconds, found.r2

    return method


def _judged(case: Case, values: Floats, spans: Mapping[str, float]) -> dict[str, float]:
    """W1 per signal and G1 over `JUDGED` logs, scaled by `spans`, the ranges of all measured rows."""
    logs = [case.simulate(values[None], 1_000_000 + k) for k in range(JUDGED)]
    rows = {name: np.concatenate([log[name] for log in logs]) for name in case.observed}
    real = {name: signal.values for name, signal in case.observed.items()}
    predicted = {f"W1 {name}": float(wasserstein(real[name], rows[name]).mean()) / spans[name] for name in rows}
    squares = [((rows[name] - real[name]) / spans[name]) ** 2 for name in rows]
    return predicted | {"G1": float(np.sqrt(np.sum(squares, axis=0)).mean())}


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """The table: per method mean and deviation over seeds of the held-back gaps, CPU seconds and runs."""
    if data is None:
        raise SetupError("the testbed log of SimTune is needed: --data DIR")
    fit, later = logs(data, held_back)
    problem, judge = (_neutral(simtune.problem(fit, later, replicates=count)) for count in (LOGS, 1))
    measured = {"energy": (fit.energy, later.energy), "response": (fit.response, later.response)}
    spans = {name: float(np.ptp(np.concatenate(both))) for name, both in measured.items()}
    problem.fit.simulate(problem.space.start[None], 0)  # machine code is made or loaded here
    conditions = Conditions.measured(fit.cpu / 100.0)
    runs, seeds = (QUICK_RUNS, QUICK_SEEDS) if quick else (RUNS, SEEDS)
    pipeline = Pipeline(runs=runs, seconds=SECONDS)
    if quick:
        pipeline = replace(
            pipeline, rounds=2, finalists=2, training=TrainingOptions(epochs=10, patience=5), tree=Tree(rollouts=10)
        )
    methods: dict[str, Method] = {
        EXACT: _exact(problem, runs),
        f"{EXACT}, {MORE} times the runs": _exact(problem, MORE * runs),
        CHANCE: _chance(problem, runs),
    }
    methods |= {name: _tuned(problem, name, pipeline, conditions) for name in METHODS}
    table: list[Mapping[str, object]] = []
    skipped: list[str] = []
    for name, method in methods.items():
        try:
            table.append(_row(name, method, judge, spans, 1 if name == "human set" else seeds))
        except SetupError as error:  # the networks without torch
            skipped.append(f"{name}: {error}")
    try:
        small, usual = {"runs": 12, "epochs": 2, "intervals": 4}, {"runs": 40, "epochs": 20}
        online = twin_algorithm1.rows(1, **small) if quick else twin_algorithm1.rows(3, **usual)
    except SetupError as error:
        online, skipped = [], [*skipped, f"Algorithm 1: {error}"]
    halves = {
        name: float(wasserstein(*np.array_split(np.concatenate(both), 2))[0]) / spans[name]
        for name, both in measured.items()
    }
    return {
        "methods": table,
        "Algorithm 1": online,
        "noise floor, half of all rows against half": halves,
        "scale, range of all rows": spans,
        "fit": judge.fit.name,
        "held back": judge.held_back.name if judge.held_back else "",
        "budget": {"runs": runs, "CPU s": SECONDS, "logs per run": LOGS},
        "seeds": seeds,
        "start": "the middle of all bounds, along their scale (the row human set)",
        "assumptions": list(problem.assumptions),
        **({"left out": skipped} if skipped else {}),
    }


def _row(
    name: str, method: Method, judge: CalibrationProblem, spans: Mapping[str, float], seeds: int
) -> Mapping[str, object]:
    assert judge.held_back is not None
    found = [method(seed) for seed in range(1, seeds + 1)]
    figures: dict[str, list[float]] = {}
    for values, *_ in found:
        for part, case in (("fit", judge.fit), ("held back", judge.held_back)):
            for label, figure in _judged(case, values, spans).items():
                figures.setdefault(f"{part} {label}", []).append(figure)
    row: dict[str, object] = {"method": name}
    for label, each in figures.items():
        row[label] = float(np.mean(each))
        if label.startswith("held back"):
            row[f"sd {label}"] = float(np.std(each, ddof=1)) if len(each) > 1 else 0.0
    row["runs"], row["CPU s"], row["R2"] = (float(np.mean([one[k] for one in found])) for k in (1, 2, 3))
    return row
