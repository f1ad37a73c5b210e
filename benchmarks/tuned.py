"""SimTune's Algorithm 1 around its six schedulers; part of `benchmarks.schedulers`, `--job tuned`.

Reality is the interval model under speeds and powers of its Raspberry Pis and of its machines, and an overhead of
transfers, that nobody is told, drawn by each seed from the whole space. A scheduler decides by the simulator and learns
from it. The simulator has the values that were set by hand (as said, no overhead), those that the loop tunes after
every interval, by the surrogate as in the paper or by the simulator itself, or, as a bound, the hidden ones. All else
is equal: containers, the scheduler's weights to begin with, and how it learns.

The figure is that of the suite: the geometric mean of energy and response, over all intervals, those in which the
tuning is far off still included, and over those at the end in which no container comes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import process_time
from typing import Any

import numpy as np

from benchmarks.measure import Table, mapped, verdict
from cosim.peers.interval import ContainerArrivals, HostFleet, aiotbench, simtune_testbed
from cosim.results import student
from cosim.schedulers.catalogue.tuning import TUNABLE, tuning
from cosim.twin.space import Parameter, Space
from cosim.twin.surrogate.monitor import Decisions, Model, Row, Testbed
from cosim.twin.surrogate.network import Training
from cosim.twin.surrogate.online import Online, prepare, run

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
VALUES = {  # the simulator's, and how they change
    BY_HAND: Online(tune=False), "tuned": Online(), "tuned on the simulator": Online(agree="simulator"),
    "hidden": Online(tune=False),
}  # fmt: skip
ENDING = 10  # intervals without arrivals
ASKED = 5  # schedulers of six
HIDDEN = 0x68696464  # stream of the hidden values


def fleet() -> HostFleet:
    """SimTune's testbed at a third of its size: 18 hosts, types in its proportions."""
    return replace(simtune_testbed(), place=(0,) * 3 + (1,) * 3 + (2,) * 4 + (3,) * 4 + (4,) * 2 + (5,) * 2)


def model() -> Model:
    """The simulator; hosts without containers are off, since otherwise energy hardly depends on who decides."""
    return Model(
        fleet(), aiotbench(2e6, ContainerArrivals("poisson", 4.0)), SPACE, steps=4,
        options={"slots": 40, "switch_off": True}, groups=GROUPS,
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


def ran(seed: int, intervals: int, runs: int, epochs: int) -> list[dict[str, Any]]:
    """All schedulers under all values, with one surrogate: figures of each run."""
    simulator = model()
    start = SPACE.units(SPACE.start)[0]
    hidden = SPACE.sample(1, np.random.default_rng(np.random.SeedSequence([seed, HIDDEN])))[0]
    begun = process_time()
    prepared = prepare(simulator, runs=runs, intervals=12, seed=seed, training=Training(epochs=epochs))
    preparing = process_time() - begun
    rows = []
    for name in TUNABLE:
        for values, how in VALUES.items():
            reality = Reality(simulator, SPACE.values(hidden)[0], 1000 + seed)
            reality.arriving = intervals
            unit, how = hidden if values == "hidden" else start, replace(how, intervals=intervals + ENDING)
            begun = process_time()
            history, _ = run(prepared, reality, unit, online=how, seed=seed, tuned=tuning(name, seed))
            rows.append({
                "scheduler": name, "values": values, "seed": seed, "energy": reality.energy, "present": reality.present,
                "gap": float(history.simulator_gap.mean()), "hidden": SPACE.values(hidden)[0].tolist(),
                "found": history.values[-1].tolist(), "cpu_s": (process_time() - begun) / how.intervals,
                "r2": prepared.learned.r2, "preparing_s": preparing,
            })  # fmt: skip
    return rows


def compare(
    seeds: int, intervals: int, workers: int, *, runs: int = 40, epochs: int = 20
) -> tuple[dict[str, Any], list[Table]]:
    """Ratios of tuned to set by hand, and of hidden to set by hand, with 95 % intervals over seeds."""
    numbers = range(1, seeds + 1)
    parts = mapped(ran, numbers, *([one] * seeds for one in (intervals, runs, epochs)), workers=workers)
    rows = [row for part in parts for row in part]
    by = {(row["scheduler"], row["values"], row["seed"]): row for row in rows}
    score: dict[str, Callable[[dict[str, Any]], float]] = {
        "both": lambda row: 0.5 * float(np.log(row["energy"]) + np.log(row["present"])),
        "energy": lambda row: float(np.log(row["energy"])),
        "response": lambda row: float(np.log(row["present"])),
    }
    ratios = []
    for name in TUNABLE:
        for values in list(VALUES)[1:]:
            line: dict[str, Any] = {"scheduler": name, "values": values}
            for figure, of in score.items():
                logs = [of(by[name, values, seed]) - of(by[name, BY_HAND, seed]) for seed in numbers]
                mean, half = student.interval(logs) if seeds > 1 else (logs[0], float("inf"))
                line[figure] = [float(np.exp(mean)), float(np.exp(mean - half)), float(np.exp(mean + half))]
            ratios.append(line)
    board = Table(
        f"over values set by hand, 95 % over {seeds} seeds; {intervals} intervals and {ENDING} without arrivals",
        ["scheduler", "values", "energy x response", "energy", "response", "gap", "CPU s per interval"],
    )
    for line in ratios:
        mine = [by[line["scheduler"], line["values"], seed] for seed in numbers]
        cells = [f"{a:.3f} ({b:.3f}-{c:.3f})" for a, b, c in (line[figure] for figure in score)]
        gap, spent = (float(np.mean([row[figure] for row in mine])) for figure in ("gap", "cpu_s"))
        board.add([line["scheduler"], line["values"], *cells, f"{gap:.3f}", f"{spent:.2f}"])
    asked = Table(
        "schedulers whose energy x response is no higher than with values set by hand",
        ["values", "no higher", "shown by the interval", "shown to be higher"],
    )
    counts = []
    for values in list(VALUES)[1:]:
        both = [line["both"] for line in ratios if line["values"] == values]
        count = {
            "values": values, "no_higher": sum(ratio <= 1.0 for ratio, _, _ in both),
            "shown": sum(high <= 1.0 for _, _, high in both), "higher": sum(low > 1.0 for _, low, _ in both),
        }  # fmt: skip
        counts.append(count)
        said = f"{count['no_higher']}{verdict(count['no_higher'], ASKED, at_least=True)}"
        asked.add([values, said, f"{count['shown']}", f"{count['higher']}"])
    return {"intervals": intervals, "seeds": seeds, "rows": rows, "ratios": ratios, "counts": counts}, [board, asked]
