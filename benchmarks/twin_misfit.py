"""Is a model that cannot make the data told to be so, and do intervals hold meanwhile (`--job misfit`)?

A queue of one's own: Poisson arrivals, one server with exponential service, a fixed overhead and an exponential
upload; 1,500 response times in order are all that is measured. Truths are drawn from the prior, others than those
with which the test was made; the data come from the model itself (right), from another law of service (gamma of
shape 4, log-normal of sigma 1.3), from arrivals in bursts, or from a service that slows down by two thirds. Every
truth is calibrated once.
"""

from __future__ import annotations

from pathlib import Path
from time import process_time

import numpy as np

from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.problem import CalibrationProblem, Case, Floats, MeasuredSignal
from cosim.twin.search import Budget
from cosim.twin.space import Parameter, Space

COUNT, TRUTHS, RUNS = 1500, 20, 4000
FIRST = 60  # number of the first truth: with those before it the thresholds of the test were chosen
SPACE = Space([
    Parameter("rate", 2.0, 8.0, unit="Hz", scale="log"),
    Parameter("service", 0.04, 0.11, unit="s", scale="log"),
    Parameter("overhead", 0.0, 0.2, unit="s"),
    Parameter("upload", 0.01, 0.2, unit="s", scale="log"),
])  # fmt: skip
LAWS = ("right", "gamma", "log-normal", "bursts", "drift")


def responses(values: Floats, random: np.random.Generator, law: str = "right") -> Floats:
    """(n, COUNT) s; all rows use the same random numbers. Lindley's recursion as a running minimum."""
    rate, service, overhead, upload = values.T[:, :, None]
    gaps = random.exponential(size=COUNT)
    works = random.exponential(size=COUNT)
    sent = random.exponential(size=COUNT)
    if law == "gamma":
        works = random.gamma(4.0, 0.25, COUNT)
    elif law == "log-normal":
        works = np.exp(1.3 * random.standard_normal(COUNT) - 1.3**2 / 2.0)
    elif law == "bursts":
        gaps = np.where(np.arange(COUNT) % 4 == 0, 4.0 * gaps, 0.02)
    elif law == "drift":
        works = works * np.linspace(0.75, 1.25, COUNT)
    steps = service * works[:-1] - gaps[1:] / rate
    path = np.concatenate([np.zeros((len(values), 1)), np.cumsum(steps, axis=1)], axis=1)
    waits = path - np.minimum.accumulate(path, axis=1)
    return np.asarray(waits + service * works + overhead + upload * sent, np.float64)


def _simulate(values: Floats, seed: int) -> dict[str, Floats]:
    return {"response": responses(values, np.random.default_rng(np.random.SeedSequence(seed)))}


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:
    """Per law: in how many truths the model was told to lack something, and the coverage of 90 % intervals."""
    del data, held_back
    truths = 3 if quick else TRUTHS
    table = []
    for law in LAWS:
        predicted, held, of, began = 0, np.zeros(len(SPACE)), np.zeros(len(SPACE)), process_time()
        at_end = 0
        for k in range(FIRST, FIRST + truths):
            random = np.random.default_rng(np.random.SeedSequence([11, k]))
            truth = SPACE.values(random.random((1, len(SPACE))))
            values = responses(truth, np.random.default_rng([12, k]), law)[0]
            observed = {"response": MeasuredSignal(values, "s", times=np.arange(COUNT, dtype=np.float64))}
            problem = CalibrationProblem(law, SPACE, Case(observed, _simulate), cost=2e-5)
            answer = calibrate(problem, budget=Budget(RUNS), seed=k + 1)
            predicted += any("cannot make" in line for line in answer.warnings)
            at_end += any("end of its interval" in line for line in answer.warnings)
            for j, estimate in enumerate(answer.estimates):
                if estimate.low is not None and estimate.high is not None:
                    of[j] += 1
                    held[j] += estimate.low <= truth[0, j] <= estimate.high
        row = {"law": law, "truths": truths, "told": predicted, "coverage": float(held.sum() / max(of.sum(), 1.0))}
        row |= {name: float(h / max(n, 1.0)) for name, h, n in zip(SPACE.names, held, of, strict=True)}
        table.append({**row, "value at an end": at_end, "CPU s": process_time() - began})
    return {"laws": table, "runs": RUNS, "values": COUNT}
