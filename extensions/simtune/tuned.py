"""Fig. 4 to 6, Table 1 and the percentages of SimTune's paper, made again: its Algorithm 1 around six schedulers.

Reality is the interval model under speeds and powers of its Raspberry Pis and of its machines, and an overhead of
transfers, that the simulator does not know, drawn by each seed from the whole space. A scheduler decides by the
simulator and learns from it. `TUNERS` differ in the simulator's values: as set by hand (as stated, no overhead); by the
three methods that the paper compares with, which tune once, from 20 intervals of reality under a random scheduler; by
SimTune after every interval; without one of its two models in the scheduler's data; by the simulator itself instead of
the surrogate; or, as a bound, the hidden ones. All else is equal: containers, the scheduler's weights to begin with,
and how it learns. With hosts named, fleets are those of the paper's scalability: a third of them Raspberry Pis, half of
these with 4 and half with 8 GB, the others B2s; containers come in proportion.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from time import process_time
from typing import Any

import numpy as np

from cosim.extensions.cosco.interval import ContainerArrivals, HostFleet, aiotbench, simtune_testbed
from cosim.extensions.metanet.catalogue.tuning import tuning
from cosim.extensions.simtune.surrogate import methods
from cosim.extensions.simtune.surrogate.layers import torch_module
from cosim.extensions.simtune.surrogate.methods import Pipeline
from cosim.extensions.simtune.surrogate.monitor import Decisions, IntervalRow, MonitorModel, Testbed, random_decisions
from cosim.extensions.simtune.surrogate.network import TrainingOptions
from cosim.extensions.simtune.surrogate.online import OfflineResult, OnlineOptions, prepare, run
from cosim.twin.problem import CalibrationProblem, Case, Floats, MeasuredSignal
from cosim.twin.space import Parameter, Space

SPACE = Space(
    [
        *(
            Parameter(f"{what} of {group}", 0.5, 1.5, start=1.0)
            for what in ("speed", "power")
            for group in ("pi", "vm")
        ),
        Parameter("overhead", 0.0, 120.0, unit="s", start=0.0),
    ]
)
GROUPS = {"pi": (0, 1), "vm": (2, 3, 4, 5)}  # types of `simtune_testbed`
BY_HAND = "set by hand"
ONCE = ("HGP+ES", "LSTM+SGD", "LSTM+Sim2Real")  # that do not tune while the system runs
_KEPT = OnlineOptions(tune=False, generator="simulator")
TUNERS = {  # how the simulator's values change, and whose data the scheduler learns from
    BY_HAND: _KEPT,
    **dict.fromkeys(ONCE, _KEPT),
    "SimTune": OnlineOptions(),
    "SimTune w/o HiFi": OnlineOptions(offline="surrogate"),
    "SimTune w/o LoFi": OnlineOptions(generator="simulator"),
    "by the simulator": OnlineOptions(generator="simulator", agree="simulator"),
    "hidden values": _KEPT,
}
ENDING = 10  # intervals without arrivals
HIDDEN, MEASURED = 0x68696464, 0x6D656173  # streams: of the hidden values, of what the three methods see
ROWS = 20  # intervals that these see
WHOLE = 50  # hosts of the testbed
HOSTS, LOAD = 18, 4.0  # of the testbed at a third of its size, and containers per interval there
KWH = 3.6e6
LONG = 100  # intervals of the paper's runs
FIGURES = ("energy", "response", "late", "cost", "deciding", "waiting")  # in the order of the paper's Table 1


def fleet(hosts: int | None) -> HostFleet:
    """SimTune's testbed at a third of its size, or whole for 50, or its fleet of so many hosts, a multiple of 6."""
    whole = simtune_testbed()
    if hosts == WHOLE:
        return whole
    if hosts is None:
        return replace(whole, place=(0,) * 3 + (1,) * 3 + (2,) * 4 + (3,) * 4 + (4,) * 2 + (5,) * 2)
    sixth = hosts // 6
    return replace(whole, place=(0,) * sixth + (1,) * sixth + (2,) * 4 * sixth)


def model(hosts: int | None = None, tasks: float | None = None) -> MonitorModel:
    """The simulator, with so many new containers per interval, by default `LOAD` in proportion.

    Hosts without containers are off, since otherwise energy hardly depends on who decides.
    """
    size = (hosts or HOSTS) / HOSTS
    mean = LOAD * size if tasks is None else tasks
    return MonitorModel(
        fleet(hosts), aiotbench(2e6, ContainerArrivals("poisson", mean)), SPACE, steps=4,
        options={"slots": max(12, round(40 * size)), "switch_off": True}, groups=GROUPS,
    )  # fmt: skip


class Reality(Testbed):
    """A testbed to which no container comes after `arriving` intervals."""

    arriving = 0

    def enact(self, decisions: Decisions) -> IntervalRow:
        """Let one interval pass."""
        self.arriving -= 1
        if self.arriving == 0:
            self.simulation.expect(0.0)
        return super().enact(decisions)


def watched(simulator: MonitorModel, hidden: Floats, seed: int) -> CalibrationProblem:
    """What the three methods are given: QoS of reality, and what the simulator makes of the same states."""
    reality = simulator.testbed(SPACE.values(hidden)[0], 3000 + seed)
    random = np.random.default_rng(np.random.SeedSequence([seed, MEASURED]))
    seen = []
    for _ in range(ROWS):
        moment, decisions = reality.snapshot(), random_decisions(reality.view(), random)
        seen.append((moment, decisions, reality.enact(decisions).qos))

    def simulate(values: Floats, _seed: int) -> dict[str, Floats]:
        rows = []
        for one in values:
            simulated = simulator.testbed(one, seed)
            rows.append([simulated.predicted(*moment, decisions) for moment, decisions, _ in seen])
        said = np.array(rows)  # (n, ROWS, 2)
        return {"energy": said[..., 0], "response": said[..., 1]}

    measured = np.array([qos for _, _, qos in seen])
    signals = {name: MeasuredSignal(measured[:, k], paired=True) for k, name in enumerate(("energy", "response"))}
    return CalibrationProblem("fleet", SPACE, Case(signals, simulate))


def _asked(how: OnlineOptions) -> bool:
    """Whether the surrogate is asked for anything."""
    return (how.tune and how.agree == "surrogate") or "surrogate" in (how.generator, how.offline)


@lru_cache(maxsize=2)
def _surrogate(
    seed: int, hosts: int | None, tasks: float | None, runs: int, epochs: int
) -> tuple[OfflineResult, float]:
    """The trained surrogate, and CPU s that it took."""
    begun = process_time()
    prepared = prepare(model(hosts, tasks), runs=runs, intervals=12, seed=seed, training=TrainingOptions(epochs=epochs))
    return prepared, process_time() - begun


@lru_cache(maxsize=len(ONCE))
def _once(
    method: str, seed: int, hosts: int | None, tasks: float | None, runs: int, epochs: int
) -> tuple[Floats, float]:
    """The values that one of the three methods finds (d,), as a point of the unit cube, and CPU s that it took."""
    how = Pipeline(runs=4 * runs, rounds=2, training=TrainingOptions(epochs=epochs, patience=10))
    found = methods.tune(watched(model(hosts, tasks), _hidden(seed), seed), method, pipeline=how, seed=seed)
    return found.unit, found.cpu_seconds


def _hidden(seed: int) -> Floats:
    found: Floats = SPACE.sample(1, np.random.default_rng(np.random.SeedSequence([seed, HIDDEN])))[0]
    return found


def ran(
    name: str, tuner: str, seed: int, hosts: int | None, intervals: int, runs: int, epochs: int,
    tasks: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    """One run: the paper's figures, how far the simulator is off, and what was found."""
    asked = _asked(TUNERS[tuner])
    held, preparing = _surrogate(seed, hosts, tasks, *((runs, epochs) if asked else (2, 1)))
    torch = torch_module()  # no part of the copy
    prepared = copy.deepcopy(held, {id(torch): torch})  # its draws go on from question to question
    hidden, unit, tuning_s = _hidden(seed), SPACE.units(SPACE.start)[0], 0.0
    if tuner in ONCE:
        unit, tuning_s = _once(tuner, seed, hosts, tasks, runs, epochs)
    elif tuner == "hidden values":
        unit = hidden
    reality = Reality(prepared.model, SPACE.values(hidden)[0], 1000 + seed)
    reality.arriving = intervals
    how = replace(TUNERS[tuner], intervals=intervals + ENDING)
    history, _ = run(prepared, reality, unit, online=how, seed=seed, tuned=tuning(name, seed))
    total = {key: sum(row[key] for row in reality.figures) for key in reality.figures[0]}
    spent = history.seconds.mean(axis=0).tolist()
    return {
        "scheduler": name, "tuner": tuner, "seed": seed, "hosts": hosts or HOSTS,
        "energy": total["energy"] / KWH, "response": total["present"] / max(total["arrived"], 1.0),
        "late": (total["late"] + total["arrived"] - total["completed"]) / max(total["arrived"], 1.0),
        "cost": total["cost"] / max(total["completed"], 1.0), "deciding": spent[0],
        "waiting": prepared.model.length * total["wait"] / max(total["completed"], 1.0),
        "gap": float(history.simulator_gap.mean()), "hidden": SPACE.values(hidden)[0].tolist(),
        "found": history.values[-1].tolist(), "tuning": spent[1], "learning": spent[2], "once": tuning_s,
        "r2": prepared.learned.r2 if asked else None, "preparing": preparing if asked else 0.0,
    }  # fmt: skip


PAPER = {"PSO": "pso", "GA": "ga", "DQL": "dqn", "A3C": "a3c", "GOBI": "gobi", "GOSH": "gosh"}
COLUMNS = ("energy, kWh", "response, s", "late, share", "cost, USD", "deciding, s", "waiting, s", "loss")  # of Fig. 4
Rows = Mapping[str, Mapping[str, float]]


def _row(tuner: str, seed: int, hosts: int, tasks: float, schedulers: str, **how: int) -> dict[str, dict[str, float]]:
    """The figures of one tuner by scheduler, energy of 100 intervals; how far off the simulator is; CPU s of tuning."""
    found = {}
    for name in schedulers.split():
        one = ran(PAPER[name], tuner, seed, hosts, how["intervals"], how["runs"], how["epochs"], tasks)
        one["energy"] *= LONG / (how["intervals"] + ENDING)
        found[name] = one | {"tuning CPU": one["once"] if tuner in ONCE else one["tuning"], "loss": one["gap"]}
    return found


def table1(case: str, seed: int, _: None, *, hosts: int, tasks: float, schedulers: str, **how: int) -> Rows:
    """A row of Table 1: each figure by scheduler, and how far the simulator is off."""
    found = _row(case, seed, hosts, tasks, schedulers, **how)
    return {case: {f"{figure} {name}": one[figure] for name, one in found.items() for figure in (*FIGURES, "loss")}}


def figure4(rows: Rows) -> Rows:
    """Fig. 4 of rows as in Table 1: means over schedulers."""

    def mean(row: Mapping[str, float], figure: str) -> float:
        return float(np.mean([value for name, value in row.items() if name.startswith(f"{figure} ")]))

    return {tuner: {name: mean(row, name.partition(",")[0]) for name in COLUMNS} for tuner, row in rows.items()}


def percentages(rows: Rows) -> Rows:
    """By how many percent SimTune's figures of Fig. 4 are below the least of the other methods that tune."""
    means = figure4(rows)
    best = {name: min(means[one][name] for one in ONCE) for name in COLUMNS[:4]}
    less = {name: 100.0 * (1.0 - means["SimTune"][name] / least) for name, least in best.items() if least}
    return {"SimTune": less, "best of the others": dict.fromkeys(less, 0.0)}


def sizes(case: str, seed: int, _: None, *, hosts: str, tasks: float, schedulers: str, **how: int) -> Rows:
    """A row of Fig. 5 and 6: means over schedulers by hosts; `tasks` are those of 6 hosts."""
    columns: dict[str, float] = {}
    for size in map(int, hosts.split()):
        found = _row(case, seed, size, tasks * size / 6.0, schedulers, **how).values()
        for figure in ("energy", "cost", "response", "late", "tuning CPU"):
            columns[f"{figure}, {size} hosts"] = float(np.mean([one[figure] for one in found]))
    return {case: columns}
