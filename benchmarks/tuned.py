"""SimTune's Algorithm 1 around its six schedulers; part of `benchmarks.schedulers`, `--job tuned`.

Reality is the interval model under speeds and powers of its Raspberry Pis and of its machines, and an overhead of
transfers, that nobody is told, drawn by each seed from the whole space. A scheduler decides by the simulator and learns
from it. `TUNERS` differ in the simulator's values: as set by hand (as said, no overhead); by the three methods that the
paper compares with, which tune once, from 20 intervals of reality under a random scheduler; by SimTune after every
interval; without one of its two models in the scheduler's data; by the simulator itself instead of the surrogate; or,
as a bound, the hidden ones. All else is equal: containers, the scheduler's weights to begin with, and how it learns.

The figure is that of the suite: the geometric mean of energy and response, over all intervals, those in which the
tuning is far off still included, and over those at the end in which no container comes. The paper's other figures
stand beside it. With hosts named, fleets are those of the paper's scalability: a third of them Raspberry Pis, half of
these with 4 and half with 8 GB, the others B2s; containers come in proportion.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import cosim.engine.interval
import cosim.schedulers
from benchmarks.measure import Table, resumed, verdict
from cosim.contract.errors import SetupError
from cosim.engine.interval import ContainerArrivals, HostFleet, aiotbench, simtune_testbed
from cosim.extensions.metanet import catalogue
from cosim.extensions.metanet.catalogue.tuning import TUNABLE, tuning
from cosim.extensions.simtune import surrogate
from cosim.extensions.simtune.surrogate import methods
from cosim.extensions.simtune.surrogate.layers import torch_module
from cosim.extensions.simtune.surrogate.methods import Pipeline
from cosim.extensions.simtune.surrogate.monitor import Decisions, Model, Row, Testbed, random_decisions
from cosim.extensions.simtune.surrogate.network import Training
from cosim.extensions.simtune.surrogate.online import Online, Prepared, prepare, run
from cosim.results import student
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
_KEPT = Online(tune=False, generator="simulator")
TUNERS = {  # how the simulator's values change, and whose data the scheduler learns from
    BY_HAND: _KEPT, **dict.fromkeys(ONCE, _KEPT), "SimTune": Online(), "SimTune w/o HiFi": Online(offline="surrogate"),
    "SimTune w/o LoFi": Online(generator="simulator"),
    "by the simulator": Online(generator="simulator", agree="simulator"), "hidden values": _KEPT,
}  # fmt: skip
ENDING = 10  # intervals without arrivals
ASKED = 5  # schedulers of six
HIDDEN, MEASURED = 0x68696464, 0x6D656173  # streams: of the hidden values, of what the three methods see
ROWS = 20  # intervals that these see
HOSTS, LOAD = 18, 4.0  # of the testbed at a third of its size, and containers per interval there
KWH = 3.6e6
FIGURES = ("energy", "response", "late", "cost", "deciding", "waiting")  # in the order of the paper's Table 1
_FOLDERS = tuple(
    Path(one.__file__ or "").parent for one in (cosim.engine.interval, cosim.schedulers, catalogue, surrogate)
)
CODE = (Path(__file__), _FOLDERS[0], *_FOLDERS[1].glob("*.py"), *_FOLDERS[2:])


def fleet(hosts: int | None) -> HostFleet:
    """SimTune's testbed at a third of its size, or its fleet of so many hosts, a multiple of 6."""
    whole = simtune_testbed()
    if hosts is None:
        return replace(whole, place=(0,) * 3 + (1,) * 3 + (2,) * 4 + (3,) * 4 + (4,) * 2 + (5,) * 2)
    sixth = hosts // 6
    return replace(whole, place=(0,) * sixth + (1,) * sixth + (2,) * 4 * sixth)


def model(hosts: int | None = None) -> Model:
    """The simulator; hosts without containers are off, since otherwise energy hardly depends on who decides."""
    size = (hosts or HOSTS) / HOSTS
    return Model(
        fleet(hosts), aiotbench(2e6, ContainerArrivals("poisson", LOAD * size)), SPACE, steps=4,
        options={"slots": max(12, round(40 * size)), "switch_off": True}, groups=GROUPS,
    )  # fmt: skip


class Reality(Testbed):
    """A testbed to which no container comes after `arriving` intervals."""

    arriving = 0

    def enact(self, decisions: Decisions) -> Row:
        """Let one interval pass."""
        self.arriving -= 1
        if self.arriving == 0:
            self.simulation.expect(0.0)
        return super().enact(decisions)


def watched(simulator: Model, hidden: Floats, seed: int) -> CalibrationProblem:
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
            rows.append([simulated.foretold(*moment, decisions) for moment, decisions, _ in seen])
        said = np.array(rows)  # (n, ROWS, 2)
        return {"energy": said[..., 0], "response": said[..., 1]}

    measured = np.array([qos for _, _, qos in seen])
    signals = {name: MeasuredSignal(measured[:, k], paired=True) for k, name in enumerate(("energy", "response"))}
    return CalibrationProblem("fleet", SPACE, Case(signals, simulate))


def _asked(how: Online) -> bool:
    """Whether the surrogate is asked for anything."""
    return (how.tune and how.agree == "surrogate") or "surrogate" in (how.generator, how.offline)


@lru_cache(maxsize=2)
def _surrogate(seed: int, hosts: int | None, runs: int, epochs: int) -> tuple[Prepared, float]:
    """The trained surrogate, and CPU s that it took."""
    begun = process_time()
    prepared = prepare(model(hosts), runs=runs, intervals=12, seed=seed, training=Training(epochs=epochs))
    return prepared, process_time() - begun


@lru_cache(maxsize=len(ONCE))
def _once(method: str, seed: int, hosts: int | None, runs: int, epochs: int) -> tuple[Floats, float]:
    """The values that one of the three methods finds (d,), as a point of the unit cube, and CPU s that it took."""
    how = Pipeline(runs=4 * runs, rounds=2, training=Training(epochs=epochs, patience=10))
    found = methods.tune(watched(model(hosts), _hidden(seed), seed), method, pipeline=how, seed=seed)
    return found.unit, found.cpu_seconds


def _hidden(seed: int) -> Floats:
    found: Floats = SPACE.sample(1, np.random.default_rng(np.random.SeedSequence([seed, HIDDEN])))[0]
    return found


def ran(name: str, tuner: str, seed: int, hosts: int | None, intervals: int, runs: int, epochs: int) -> dict[str, Any]:
    """One run: the paper's figures, how far the simulator is off, and what was found."""
    asked = _asked(TUNERS[tuner])
    held, preparing = _surrogate(seed, hosts, *((runs, epochs) if asked else (2, 1)))
    torch = torch_module()  # no part of the copy
    prepared = copy.deepcopy(held, {id(torch): torch})  # its draws go on from question to question
    hidden, unit, tuning_s = _hidden(seed), SPACE.units(SPACE.start)[0], 0.0
    if tuner in ONCE:
        unit, tuning_s = _once(tuner, seed, hosts, runs, epochs)
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
        "energy": total["energy"] / KWH, "response": total["present"] / total["arrived"],
        "late": (total["late"] + total["arrived"] - total["completed"]) / total["arrived"],
        "cost": total["cost"] / total["completed"], "deciding": spent[0],
        "waiting": prepared.model.length * total["wait"] / total["completed"],
        "gap": float(history.simulator_gap.mean()), "hidden": SPACE.values(hidden)[0].tolist(),
        "found": history.values[-1].tolist(), "tuning": spent[1], "learning": spent[2], "once": tuning_s,
        "r2": prepared.learned.r2 if asked else None, "preparing": preparing if asked else 0.0,
    }  # fmt: skip


def compare(
    seeds: int, intervals: int, workers: int, file: Path | None = None, *, hosts: Sequence[int] = (),
    schedulers: Sequence[str] | None = None, tuners: Sequence[str] | None = None, runs: int = 40, epochs: int = 20,
) -> tuple[dict[str, Any], list[Table]]:  # fmt: skip
    """The paper's tables, and ratios to values set by hand with 95 % intervals over seeds.

    `hosts` are sizes of fleets, without any the testbed at a third of its size. What `file` holds is not made again.
    Raises `SetupError` for a scheduler, tuner or size that there is not.
    """
    chosen = _chosen("--policies", schedulers, TUNABLE), _chosen("--tuners", tuners, tuple(TUNERS), BY_HAND)
    if wrong := [size for size in hosts if size < 6 or size % 6]:
        raise SetupError(f"--hosts: a fleet of {wrong[0]} hosts; sizes are multiples of 6")
    cases = {
        f"{name}, {tuner}, seed {seed}, {size or 'testbed'} hosts, {intervals} intervals, {runs} runs": (
            name, tuner, seed, size, intervals, runs, epochs,
        )
        for seed in range(1, seeds + 1) for size in (hosts or (None,)) for tuner in chosen[1] for name in chosen[0]
    }  # fmt: skip
    rows = resumed(ran, cases, file, CODE, workers=workers)
    data: dict[str, Any] = {"intervals": intervals, "seeds": seeds, "rows": rows}
    if hosts:
        data["sizes"], tables = _sizes(rows)
        return data, tables
    data["ratios"], data["counts"], tables = _ratios(rows)
    return data, [*_papers(rows), *tables]


def _chosen(option: str, given: Sequence[str] | None, known: Sequence[str], always: str = "") -> list[str]:
    strange = sorted(set(given or ()) - set(known))
    if strange:
        raise SetupError(f"{option}: there is no {', '.join(strange)}; there are {', '.join(known)}")
    return [one for one in known if not given or one in given or one == always]


def _papers(rows: Sequence[dict[str, Any]]) -> list[Table]:
    """Mean and standard deviation over seeds of each figure, as Figure 4 and Table 1 of the paper have them."""
    units = {"energy": "kWh", "response": "s", "late": "share", "cost": "USD per container", "deciding": "CPU s",
             "waiting": "s"}  # fmt: skip
    schedulers, tuners = (list(dict.fromkeys(row[key] for row in rows)) for key in ("scheduler", "tuner"))
    found = []
    for figure in FIGURES:
        table = Table(f"{figure}, {units[figure]}", ["", *schedulers, "mean"])
        for tuner in tuners:
            values = {
                name: [row[figure] for row in rows if (row["scheduler"], row["tuner"]) == (name, tuner)]
                for name in schedulers
            }
            cells = [f"{np.mean(each):.3f} +- {np.std(each, ddof=len(each) > 1):.3f}" for each in values.values()]
            table.add([tuner, *cells, f"{np.mean(list(values.values())):.3f}"])
        found.append(table)
    return found


def _logs(rows: Sequence[dict[str, Any]], figure: str) -> dict[tuple[Any, ...], float]:
    """By scheduler, tuner, seed and size."""
    names = ("energy", "response") if figure == "both" else (figure,)
    return {
        tuple(row[key] for key in ("scheduler", "tuner", "seed", "hosts")): float(
            np.mean([np.log(row[name]) for name in names])
        )
        for row in rows
    }


def _ratio(logs: Sequence[float]) -> list[float]:
    """The geometric mean and its 95 % interval."""
    mean, half = student.interval(logs) if len(logs) > 1 else (logs[0], float("inf"))
    return [float(np.exp(mean)), float(np.exp(mean - half)), float(np.exp(mean + half))]


def _ratios(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[Table]]:
    """Of each scheduler and of all together, each tuner over values set by hand, paired by seeds."""
    schedulers, tuners, seeds = (
        list(dict.fromkeys(row[key] for row in rows)) for key in ("scheduler", "tuner", "seed")
    )
    size, logs = rows[0]["hosts"], {figure: _logs(rows, figure) for figure in ("both", "energy", "response")}

    def against(name: str, tuner: str, figure: str) -> list[float]:
        one = logs[figure]
        return [one[name, tuner, seed, size] - one[name, BY_HAND, seed, size] for seed in seeds]

    ratios = []
    for tuner in tuners:
        for name in (*schedulers, "all") if tuner != BY_HAND else ():
            line: dict[str, Any] = {"scheduler": name, "tuner": tuner}
            for figure in logs:
                each = [against(one, tuner, figure) for one in (schedulers if name == "all" else (name,))]
                line[figure] = _ratio(np.mean(each, axis=0).tolist())
            ratios.append(line)
    board = Table(
        f"over values set by hand, 95 % over {len(seeds)} seeds",
        ["scheduler", "tuner", "energy x response", "energy", "response", "gap", "CPU s per interval"],
    )
    for line in ratios:
        mine = [row for row in rows if row["tuner"] == line["tuner"] and line["scheduler"] in (row["scheduler"], "all")]
        cells = [f"{a:.3f} ({b:.3f}-{c:.3f})" for a, b, c in (line[figure] for figure in logs)]
        gap, spent = (float(np.mean([sum(row[key] for key in of) for row in mine]))
                      for of in (("gap",), ("deciding", "tuning", "learning")))  # fmt: skip
        board.add([line["scheduler"], line["tuner"], *cells, f"{gap:.3f}", f"{spent:.3f}"])
    asked = Table(
        "schedulers whose energy x response is no higher than with values set by hand",
        ["tuner", "no higher", "shown by the interval", "shown to be higher"],
    )
    counts = []
    for tuner in tuners[1:]:
        both = [line["both"] for line in ratios if line["tuner"] == tuner and line["scheduler"] != "all"]
        count = {
            "tuner": tuner, "no_higher": sum(ratio <= 1.0 for ratio, _, _ in both),
            "shown": sum(high <= 1.0 for _, _, high in both), "higher": sum(low > 1.0 for _, low, _ in both),
        }  # fmt: skip
        counts.append(count)
        said = f"{count['no_higher']}{verdict(count['no_higher'], ASKED, at_least=True)}"
        asked.add([tuner, said, f"{count['shown']}", f"{count['higher']}"])
    return ratios, counts, [board, asked]


def _sizes(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Table]]:
    """Figures 5 and 6 of the paper: means over schedulers and seeds by size, and the ratio to values set by hand."""
    sizes, tuners = (list(dict.fromkeys(row[key] for row in rows)) for key in ("hosts", "tuner"))
    logs, found = _logs(rows, "both"), []
    table = Table(
        "by hosts, means over schedulers and seeds",
        ["hosts", "tuner", "energy kWh", "cost USD", "response s", "late", "tuning CPU s per interval", "once CPU s",
         "energy x response over set by hand"],
    )  # fmt: skip
    for size in sizes:
        for tuner in tuners:
            mine = [row for row in rows if (row["hosts"], row["tuner"]) == (size, tuner)]
            keys = ("energy", "cost", "response", "late", "tuning", "once")
            line: dict[str, Any] = {key: float(np.mean([row[key] for row in mine])) for key in keys}
            seeds = dict.fromkeys(row["seed"] for row in mine)
            names = dict.fromkeys(row["scheduler"] for row in mine)
            ratio = _ratio([
                float(np.mean([logs[name, tuner, seed, size] - logs[name, BY_HAND, seed, size] for name in names]))
                for seed in seeds
            ])  # fmt: skip
            found.append({"hosts": size, "tuner": tuner, **line, "both": ratio})
            band = f"{ratio[0]:.3f} ({ratio[1]:.3f}-{ratio[2]:.3f})"
            table.add([size, tuner, *(f"{line[key]:.3f}" for key in keys), band])
    return found, [table]
