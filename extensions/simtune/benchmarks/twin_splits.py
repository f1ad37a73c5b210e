"""Whether a split of a published log can rank methods of search (`--job splits`).

A split ranks two methods if they differ by more than seeds and the choice of rows do. So the search of `cosim
calibrate` and HGP+ES, the nearest of the surrogates, are given the same runs on several cuts of SimTune's testbed
log, each judged on the rows beside, and on logs that the simulator itself makes with known parameters, which are judged
by the law that made them: no chance of few rows is in that figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import twin_compare as compare
from cosim.contract.errors import SetupError
from cosim.extensions.simtune import job as simtune
from cosim.extensions.simtune.surrogate.methods import Pipeline
from cosim.extensions.simtune.surrogate.target import Conditions
from cosim.results.distances import wasserstein
from cosim.twin.problem import CalibrationProblem, Floats

# Shares of the log's rows: from, until of the fit, then of the judgement.
CUTS = (
    (0.0, 0.5, 0.5, 1.0), (0.5, 1.0, 0.0, 0.5), (0.0, 0.6, 0.6, 1.0), (0.25, 0.75, 0.75, 1.0),
    (0.4, 1.0, 0.0, 0.4), (0.0, 0.75, 0.75, 1.0), (0.5, 0.75, 0.75, 1.0), (0.25, 1.0, 0.0, 0.25),
)  # fmt: skip
HGP = "HGP+ES"
SEEDS, TRUTHS, TRUTH_SEEDS, LOGS = 3, 8, 2, 16
EQUAL_CPU = 5  # times the runs, for the search that is given the CPU seconds of HGP+ES


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """A row per cut and method, and one per drawn truth and method; sums of the W1 of both signals."""
    del held_back
    if data is None:
        raise SetupError("the testbed log of SimTune is needed: --data DIR")
    log = simtune.read(data)
    runs, seeds = (160, 1) if quick else (compare.RUNS, SEEDS)
    cuts = [_cut(log, cut, runs, seeds) for cut in (CUTS[:1] if quick else CUTS)]
    rows = [row for some in cuts for row in some]
    apart = [float(str(two["judged"])) - float(str(one["judged"])) for one, two in cuts]
    truths = _truths(log, runs, 1 if quick else TRUTHS, 1 if quick else TRUTH_SEEDS)
    return {
        "cuts": rows,
        "truths": truths,
        f"{HGP} less {compare.EXACT}, mean over cuts": float(np.mean(apart)),
        "its deviation over cuts": float(np.std(apart, ddof=1)) if len(apart) > 1 else float("nan"),
    }


def _cut(
    log: simtune.TestbedLog, cut: tuple[float, float, float, float], runs: int, seeds: int
) -> tuple[Mapping[str, object], Mapping[str, object]]:
    a, b, c, d = (round(share * len(log)) for share in cut)
    fit, later = log.part(a, b), log.part(c, d)
    problem, judge = (compare._neutral(simtune.problem(fit, later, replicates=n)) for n in (compare.LOGS, 1))
    spans = {"energy": float(np.ptp(log.energy)), "response": float(np.ptp(log.response))}
    found = []
    for name, method in _methods(problem, runs, fit).items():
        row = compare._row(name, method, judge, spans, seeds)
        predicted: dict[str, object] = {"fit rows": f"{a + 1} to {b}", "judged rows": f"{c + 1} to {d}", "method": name}
        for part in ("fit", "held back"):
            predicted["fitted" if part == "fit" else "judged"] = _sum(row, part)
        predicted["sd of W1 energy"], predicted["sd of W1 response"] = (
            row["sd held back W1 energy"],
            row["sd held back W1 response"],
        )
        found.append({**predicted, "CPU s": row["CPU s"]})
    return found[0], found[1]


def _methods(problem: CalibrationProblem, runs: int, log: simtune.TestbedLog) -> dict[str, compare.Method]:
    hgp = compare._tuned(problem, HGP, Pipeline(runs=runs), Conditions.measured(log.cpu / 100.0))
    return {compare.EXACT: compare._exact(problem, runs), HGP: hgp}


def _sum(row: Mapping[str, object], part: str) -> float:
    return sum(float(str(row[f"{part} W1 {name}"])) for name in ("energy", "response"))


def _truths(log: simtune.TestbedLog, runs: int, count: int, seeds: int) -> list[Mapping[str, object]]:
    """Methods on logs of known parameters, drawn from the middle half of the bounds."""
    many, single = (compare._neutral(simtune.problem(log, None, replicates=n)) for n in (compare.LOGS, 1))
    random = np.random.default_rng(4)
    found: list[Mapping[str, object]] = []
    for k in range(count):
        truth = many.space.values(random.uniform(0.25, 0.75, len(many.space))[None])[0]
        made = single.fit.simulate(truth[None], 77 + k)
        observed = {name: replace(s, values=np.asarray(made[name])[0]) for name, s in many.fit.observed.items()}
        problem = replace(many, fit=replace(many.fit, observed=observed), held_back=None)
        law = _law(problem, truth, 5_000_000)
        spans = {name: float(np.ptp(signal.values)) for name, signal in observed.items()}
        methods = _methods(problem, runs, log)
        methods[f"{compare.EXACT}, {EQUAL_CPU} times the runs"] = compare._exact(problem, EQUAL_CPU * runs)
        for name, method in methods.items():
            each, spent = [], []
            for seed in range(1, seeds + 1):
                values, _, cpu, _ = method(seed)
                other = _law(problem, values, 9_000_000)
                each.append(sum(float(wasserstein(law[n], other[n][None])[0]) / spans[n] for n in spans))
                spent.append(cpu)
            found.append({"truth": k + 1, "method": name, "W1": float(np.mean(each)), "CPU s": float(np.mean(spent))})
    return found


def _law(problem: CalibrationProblem, values: Floats, first: int) -> dict[str, Floats]:
    """Both signals of many logs with these parameters."""
    logs = [problem.fit.simulate(values[None], first + k) for k in range(LOGS)]
    return {name: np.concatenate([log[name].ravel() for log in logs]) for name in problem.fit.observed}
