"""SimTune's Algorithm 1 around its six schedulers; part of `benchmarks.schedulers`, `--job tuned`.

The runs are those of `cosim.extensions.simtune.tuned`. The figure is that of the suite: the geometric mean of energy
and response, over all intervals, those in which the tuning is far off still included, and over those at the end in
which no container comes. The paper's other figures stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cosim.extensions.cosco.interval
import cosim.schedulers
from benchmarks.measure import Table, notify, verdict
from cosim.contract.errors import SetupError
from cosim.extensions.metanet import catalogue
from cosim.extensions.metanet.catalogue.tuning import TUNABLE
from cosim.extensions.reproduce.kept import resumed
from cosim.extensions.simtune import surrogate, tuned
from cosim.extensions.simtune.tuned import BY_HAND, COLUMNS, FIGURES, TUNERS, ran
from cosim.results import student

ASKED = 5  # schedulers of six
_FOLDERS = tuple(
    Path(one.__file__ or "").parent for one in (cosim.extensions.cosco.interval, cosim.schedulers, catalogue, surrogate)
)
CODE = (Path(tuned.__file__), _FOLDERS[0], *_FOLDERS[1].glob("*.py"), *_FOLDERS[2:])


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
    rows = resumed(ran, cases, file, CODE, workers=workers, notify=notify)
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
    schedulers, tuners = (list(dict.fromkeys(row[key] for row in rows)) for key in ("scheduler", "tuner"))
    found = []
    for figure, column in zip(FIGURES, COLUMNS[: len(FIGURES)], strict=True):
        table = Table(column, ["", *schedulers, "mean"])
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
