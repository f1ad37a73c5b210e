"""Recovery: telemetry is made with known parameters, and calibration has to find them again.

Four devices send tasks over links to an edge host with two cores. Free are the clock, the work per task,
the delay of the links, idle and full power, the arrival rate and the price of a core. Only work over clock
matters, so these two cannot be told apart, and the price moves nothing that is measured: both have to be
named. Of the other four the truth has to lie in the 90 % interval in 80 to 97 % of the cases.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.engine.continuum import Batcher, Engine, Kind, System, WorkloadStream
from cosim.engine.continuum.layout import COMPLETED, DEVICE, EDGE, EXPONENTIAL
from cosim.twin.calibration import Calibration
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.fitting.judging import summed
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.search import Budget
from cosim.twin.space import Parameter, Space

Floats = NDArray[np.float64]
DEVICES, CORES, UNTIL, WINDOW = 4, 2, 60.0, 4.0  # s
TIMES = np.arange(WINDOW, UNTIL + 1e-9, WINDOW)
LEVELS = (np.arange(60) + 0.5) / 60  # quantiles that stand for a run's tasks
RUNS = 6_000  # per truth

SPACE = Space(
    [
        Parameter("clock", 1e9, 8e9, scale="log", unit="Hz", start=1.5e9),
        Parameter("work", 5e7, 1e9, scale="log", unit="cycles", start=6e8),
        Parameter("delay", 0.0, 0.1, unit="s", start=0.09),
        Parameter("idle", 1.0, 20.0, scale="log", unit="W", start=15.0),
        Parameter("full", 20.0, 200.0, scale="log", unit="W", start=30.0),
        Parameter("rate", 0.3, 5.0, scale="log", unit="1/s", start=0.5),
        Parameter("price", 0.0, 1.0),
    ]
)
FIELDS = ("kind.0.clock", "workload.0.work", "link.*.delay", "kind.0.power.idle", "kind.0.power.max",
          "workload.0.rate", "kind.0.price_cpu")  # fmt: skip
IDENTIFIABLE = ("delay", "idle", "full", "rate")
TOGETHER, WITHOUT = ("clock", "work"), ("price",)


def system() -> System:
    """The host is node 0, the devices are 1 to 4, each with a link of its own to the host."""
    links = np.arange(1, DEVICES + 1)
    return System(
        kinds=(Kind(cores=CORES, clock=2e9, power=(5.0, 50.0)), Kind()),
        kind=np.array([0, *[1] * DEVICES]),
        tier=np.array([EDGE, *[DEVICE] * DEVICES]),
        present=np.ones(1 + DEVICES, np.bool_),
        workloads=(WorkloadStream(rate=1.0, work=(int(EXPONENTIAL), 2e8, 0.0), input=(int(EXPONENTIAL), 20e3, 0.0)),),
        source_node=links,
        source_workload=np.zeros(DEVICES, np.int64),
        link_a=links,
        link_b=np.zeros(DEVICES, np.int64),
        link_rate=np.full(DEVICES, 50e6),
        link_delay=np.full(DEVICES, 0.01),
        link_loss=np.zeros(DEVICES),
        link_energy=np.zeros(DEVICES),
    )


def _read(engine: Engine) -> None:
    """Keep what the host's meters show; the readings of an earlier run go at time 0."""
    if engine.now == 0.0:
        vars(engine)["readings"] = []
    meters = engine.meters([0])
    vars(engine)["readings"].append((float(meters.energy[0]), float(meters.busy[0])))


def _measure(engine: Engine, ended: NDArray[np.void]) -> Mapping[str, float]:
    """Quantiles of the response times and of the gaps between arrivals; power and load by window."""
    good = ended[ended["status"] == COMPLETED]
    found: dict[str, float] = {}
    if len(good) < 10:
        return dict.fromkeys(NAMES, float("nan"))
    response = np.quantile(good["ended"] - good["created"], LEVELS)
    gap = np.quantile(np.diff(np.sort(good["created"])), LEVELS)
    power, load = np.diff(np.array(vars(engine)["readings"]), axis=0).T / WINDOW
    for values in (response, gap, power, load / CORES):
        found.update(zip(NAMES[len(found) :], values.tolist(), strict=False))
    return found


SIZES = {"response": len(LEVELS), "gap": len(LEVELS), "power": len(TIMES), "load": len(TIMES)}
NAMES = tuple(f"{signal}.{k}" for signal, size in SIZES.items() for k in range(size))
UNITS = {"response": "s", "gap": "s", "power": "W", "load": ""}


class Twin:
    """The system, simulated for many parameter vectors."""

    def __init__(self) -> None:
        timeline = [(time, _read) for time in (0.0, *TIMES)]
        self._batcher = Batcher(system(), UNTIL, timeline=timeline, quantiles=(), measure=_measure, scheduler=1)

    def simulate(self, values: Floats, seed: int) -> Mapping[str, Floats]:
        found = self._batcher.run({field: values[:, k] for k, field in enumerate(FIELDS)}, [seed])
        table = np.stack([found[name][:, 0] for name in NAMES], axis=1)
        ends = np.cumsum(list(SIZES.values()))[:-1]
        return dict(zip(SIZES, np.split(table, ends, axis=1), strict=True))


def truths(count: int, seed: int = 1) -> Floats:
    """(count, d) values from the inner part of the bounds whose load on the host is 10 to 80 %."""
    random = np.random.default_rng(np.random.SeedSequence([2017, seed]))
    found: list[Floats] = []
    while len(found) < count:
        values = SPACE.values(0.08 + 0.84 * random.random((1, len(SPACE))))[0]
        load = DEVICES * values[5] * values[1] / values[0] / CORES
        if 0.1 <= load <= 0.8:
            found.append(values)
    return np.stack(found)


def recover(twin: Twin, truth: Floats, number: int, runs: int = RUNS) -> Calibration:
    """Calibrate against telemetry of this truth; a second run of it is held back."""

    def part(seed: int, name: str) -> Case:
        observed = twin.simulate(truth[None], seed)
        return Case({key: MeasuredSignal(rows[0], UNITS[key]) for key, rows in observed.items()}, twin.simulate, name)

    problem = CalibrationProblem(
        f"recovery {number}", SPACE, part(10_000 + number, "first"), part(20_000 + number, "second")
    )
    return calibrate(problem, budget=Budget(runs), seed=1 + number)


def judge(answers: Sequence[Calibration], values: Floats) -> dict[str, object]:
    """Coverage by parameter, and how often the others were named for what they are."""
    inside = dict.fromkeys(IDENTIFIABLE, 0)
    fitted = dict.fromkeys(IDENTIFIABLE, 0)
    named = dict.fromkeys((*TOGETHER, *WITHOUT), 0)
    widths: dict[str, list[float]] = {name: [] for name in IDENTIFIABLE}
    for answer, truth in zip(answers, values, strict=True):
        for k, estimate in enumerate(answer.estimates):
            if estimate.name in inside:
                fitted[estimate.name] += estimate.verdict == "fitted"
                if estimate.low is not None and estimate.high is not None:
                    inside[estimate.name] += estimate.low <= truth[k] <= estimate.high
                    ends = np.tile(truth, (2, 1))
                    ends[:, k] = estimate.low, estimate.high
                    widths[estimate.name].append(float(np.diff(SPACE.units(ends)[:, k])[0]))
            else:
                named[estimate.name] += estimate.verdict == ("correlated" if estimate.name in TOGETHER else "no effect")
    rows = [
        {
            "parameter": name,
            "truth inside": inside[name] / len(answers),
            "called fitted": fitted[name] / len(answers),
            "width over bounds": float(np.mean(widths[name])) if widths[name] else float("nan"),
        }
        for name in IDENTIFIABLE
    ]
    return {
        "parameters": rows,
        "coverage": sum(inside.values()) / (len(answers) * len(IDENTIFIABLE)),
        "named": {name: count / len(answers) for name, count in named.items()},
        "named in all": all(count == len(answers) for count in named.values()),
    }


def run(data: Path | None, held_back: Path | None, quick: bool) -> dict[str, object]:  # noqa: ARG001
    """20 truths, with `quick` 3. Needs no data."""
    began = time.process_time()
    twin, values = Twin(), truths(3 if quick else 20)
    answers = [recover(twin, truth, number) for number, truth in enumerate(values)]
    held = [answer.held_back for answer in answers if answer.held_back is not None]
    return {
        "truths": len(values),
        **judge(answers, values),
        "before": float(np.mean([summed(one.before).w1 for one in held])),
        "after": float(np.mean([summed(one.after).w1 for one in held])),
        "noise floor": float(np.mean([summed(one.after).floor for one in held])),
        "runs": sum(answer.runs for answer in answers),
        "cpu_seconds": time.process_time() - began,
    }
