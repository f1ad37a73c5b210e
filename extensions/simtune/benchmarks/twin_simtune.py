"""The published testbed log: fitted on its first rows, judged on later ones.

W1 is scaled by the range of all rows of the real log at hand. It is told for single logs as long as
the judged rows (simulated over the same intervals), for single logs of 200 intervals, which is how the
published simulator is judged, and for the distribution over all simulated logs.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from cosim.contract.errors import ScenarioError, SetupError
from cosim.extensions.simtune import job as simtune
from cosim.results.distances import wasserstein
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.problem import Case, Floats
from cosim.twin.search import Budget

TARGETS = {"energy": 0.08, "response": 0.06}
SECONDS = 5.0
RUNS = 9_000
LOGS = 50  # simulated for the judgement
BLOCK = 200  # rows of a published block


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """The figures over several seeds of the calibration; rows of `held_back` beyond the fit rows are judged."""
    if data is None:
        raise SetupError("this job reads a published log: name its folder with --data")
    fit, judged, every = simtune.parts(data, held_back)
    spans = {"energy": float(np.ptp(every.energy)), "response": float(np.ptp(every.response))}
    problem = simtune.problem(fit, judged)
    assert problem.held_back is not None
    problem.fit.simulate(problem.space.start[None], 0)  # machine code is made or loaded here
    seeds = range(1, 3 if quick else 6)
    rows: list[dict[str, object]] = []
    spent: list[float] = []
    runs: list[int] = []
    warnings: set[str] = set()
    found: list[Floats] = []
    for seed in seeds:
        began = time.process_time()
        answer = calibrate(simtune.problem(fit, None), budget=Budget(runs=RUNS), seed=seed)
        spent.append(time.process_time() - began)
        runs.append(answer.runs)
        warnings |= set(answer.warnings)
        found.append(np.array([[float(estimate.value) for estimate in answer.estimates]]))
    for name, target in TARGETS.items():
        real = judged.energy if name == "energy" else judged.response
        row: dict[str, object] = {"signal": name, "W1 published, tuned": _published(data, name, real, spans[name])}
        row["W1 before"] = _judge(problem.held_back, problem.space.start[None], name, real)[0] / spans[name]
        each = [_judge(problem.held_back, values, name, real) for values in found]
        row["W1 after"] = float(np.mean([one for one, _ in each])) / spans[name]
        row["sd over seeds"] = float(np.std([one for one, _ in each])) / spans[name]
        row["target"] = target
        row["met"] = bool(row["W1 after"] <= target)
        row[f"W1 of {len(judged)} rows against 200"] = (
            float(np.mean([_blocks(fit, judged, values, name, real) for values in found])) / spans[name]
        )
        row["W1 of all logs together"] = float(np.mean([one for _, one in each])) / spans[name]
        half = len(real) // 2
        row["floor: half against half"] = float(wasserstein(real[:half], real[half:])[0]) / spans[name]
        first = fit.energy if name == "energy" else fit.response
        row["fit rows against judged"] = float(wasserstein(real, first[None])[0]) / spans[name]
        rows.append(row)
    return {
        "judged": rows,
        "estimates": [
            {"seed": seed, **dict(zip(problem.space.names, map(float, values[0]), strict=True)), "cpu_seconds": s}
            for seed, values, s in zip(seeds, found, spent, strict=True)
        ],
        "split": f"fit on {problem.fit.name}, judged on {problem.held_back.name} of {len(every)} real rows",
        "scale": f"energy {spans['energy']:.4f} J, response {spans['response']:.4g} intervals",
        "cpu_seconds": float(max(spent)),
        "cpu_seconds met": max(spent) <= SECONDS,
        "runs": max(runs),
        "warning": sorted(warnings),
        "assumption": list(problem.assumptions),
    }


def _judge(case: Case, values: Floats, name: str, real: Floats) -> tuple[float, float]:
    """W1 of single logs, mean, and of all of them as one distribution, in the signal's unit."""
    logs = np.concatenate([case.simulate(values, 10_000 + k)[name].reshape(-1, len(real)) for k in range(LOGS)])
    return float(wasserstein(real, logs).mean()), float(wasserstein(real, logs.reshape(1, -1))[0])


def _blocks(fit: simtune.TestbedLog, judged: simtune.TestbedLog, values: Floats, name: str, real: Floats) -> float:
    """Mean W1 of logs of 200 intervals from the start, in the signal's unit."""
    shape = simtune.TestbedLog(np.zeros((BLOCK, judged.cpu.shape[1])), np.zeros(BLOCK), np.zeros(BLOCK))
    case = simtune.problem(fit, shape).held_back
    assert case is not None
    logs = np.concatenate([case.simulate(values, 20_000 + k)[name].reshape(-1, BLOCK) for k in range(LOGS // 2)])
    return float(wasserstein(real, logs).mean())


def _published(data: Path, name: str, real: Floats, span: float) -> float:
    """W1 of the published tuned simulator's log to the judged rows; NaN when its log is not there."""
    try:
        log = simtune.read(data, "sim")
    except ScenarioError:
        return float("nan")
    blocks = (log.energy if name == "energy" else log.response)[: len(log) // BLOCK * BLOCK].reshape(-1, BLOCK)
    return float(wasserstein(real, blocks).mean()) / span
