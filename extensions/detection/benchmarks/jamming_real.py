"""Detection of jamming in a real gNB's log (5G_JDD): blocks of time left out, and whole settings of the jammer."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.detection.dataset.leakage import read
from cosim.extensions.detection.dataset.windows import KINDS, features, names
from cosim.extensions.detection.detect import Verdict
from cosim.extensions.detection.detect.judge import figures
from cosim.extensions.detection.detect.train import calibrated, fit

JDD = Path("network/jamming_5g_jdd/gnb_metrics_runs_1_3.csv.gz")
_REAL = ("CQI", "MCS", "DL-BLER", "UL-BLER-CRC", "UL-MCS", "C2I", "RI", "Nack", "Alloc_RBs")
_BLOCKS = 5


def real(path: Path) -> dict[str, Any]:
    """Figures on a real gNB's log: blocks of time left out, and whole jammer settings left out."""
    rows, label, who, setting, _ = _log(path)
    kept = [f"{name}{end}" for name in _REAL for end in ("", "_mean", "_dev", "_diff")]
    blocks = np.zeros(len(rows), np.int64)
    for one in np.unique(setting):
        mine = np.flatnonzero(setting == one)
        blocks[mine] = np.arange(len(mine)) * _BLOCKS // len(mine)
    plain, score, limits, best = np.zeros((4, len(rows)))
    for block in range(_BLOCKS):
        out = blocks == block
        held = blocks == (block + 1) % _BLOCKS
        detector = fit(rows[~out & ~held], label[~out & ~held], kept, "boosting")
        plain[out] = detector.score(rows[out])
        detector = calibrated(detector, rows[held], label[held], 0.02, "rate")
        score[out] = detector.score(rows[out])
        limits[out] = detector.limit
        best[out] = calibrated(detector, rows[held], label[held], 0.02, "best").limit
    order = np.arange(len(rows), dtype=np.float64)
    result: dict[str, Any] = {"block, limit 0.5": _short(figures(label, plain, 0.5, who, order))}
    result["block, calibrated"] = _short(figures(label, score - limits, 0.0, who, order))
    result["block, best limit"] = _short(figures(label, score - best, 0.0, who, order))
    for one in np.unique(setting[label]):
        out = (setting == one) | (~label & (blocks == 0))
        held = ~label & (blocks == 1)
        detector = calibrated(
            fit(rows[~out & ~held], label[~out & ~held], kept, "boosting"), rows[held], label[held], 0.02
        )
        result[f"without {one}"] = _short(
            figures(label[out], detector.score(rows[out]), detector.limit, who[out], order[out])
        )
    return result


def by_minute(path: Path, rate: float = 0.02) -> dict[str, Any]:
    """Figures on each recording with a jammer, which is left out, with a limit from a minute without one.

    Neither recording has a minute without a jammer, so the minute is the first of a fifth of the normal recording (4
    min), the rest of which is judged, too; what is left trains. The limit is the conformal one (Vovk et al. 2005): the
    ceil((n + 1)(1 - rate))-th of the n scores of the minute, so that a later row of the same law exceeds it with a
    probability of at most `rate`. `rank`: whether columns hold the rank, by which the recordings differ anyway.
    """
    rows, label, who, setting, clock = _log(path)
    fifth = np.where(label, -1, np.minimum((clock * _BLOCKS / clock[~label].max()).astype(np.int64), _BLOCKS - 1))
    order, found = np.arange(len(rows), dtype=np.float64), dict[str, Any]()
    for method in ("boosting", "forest"):
        for names_ in (_REAL, tuple(name for name in _REAL if name != "RI")):
            kept = [f"{name}{end}" for name in names_ for end in ("", *KINDS[1:])]
            data = rows[:, [4 * _REAL.index(name) + kind for name in names_ for kind in range(4)]]
            for one in np.unique(setting[label]):
                shown = []
                for part in range(_BLOCKS):
                    mine = fifth == part
                    quiet = mine & (clock < clock[mine].min() + 60.0)
                    judged = (mine & ~quiet) | (setting == one)
                    learn = ~(mine | judged)
                    detector = fit(data[learn], label[learn], kept, method)
                    score = np.sort(detector.score(data[quiet]))
                    limit = score[min(math.ceil((len(score) + 1) * (1.0 - rate)), len(score)) - 1]
                    judge = figures(label[judged], detector.score(data[judged]), limit, who[judged], order[judged])
                    shown.append(_short(judge))
                name = f"{method}{'' if names_ is _REAL else ' without rank'}, {one}"
                found[name] = {key: float(np.mean([row[key] for row in shown])) for key in shown[0]}
                found[name]["least f1"] = min(row["f1"] for row in shown)
    return found


# a column of the log -> what the simulated logs call it
_SIMULATED = {
    "CQI": "ue_cqi", "MCS": "ue_mcs", "DL-BLER": "ue_bler", "UL-BLER-CRC": "gnb_bler", "UL-MCS": "gnb_mcs",
    "C2I": "gnb_sinr", "Nack": "gnb_nack", "Alloc_RBs": "ue_prbs",
}  # fmt: skip
PARTS = (0.0, 0.01, 0.05, 0.2, 1.0)  # of the labelled rows of the log
_ROWS = 6_000  # simulated rows, half of them with the label


def with_simulated(path: Path, learning: Path) -> dict[str, Any]:
    """Figures on each setting of the jammer that is left out, by the part of the other real rows that has labels.

    Random forests over the columns that both logs have, in units of the deviation from the median of normal
    rows of the same log, which need no label: a network is mostly in normal operation. The labelled rows are
    the first of the setting and of each block of normal ones. Limits are set on a block of normal rows to 2 %
    of false alarms. The simulated rows lose 3 dB or more, or have no jammer.
    """
    rows, label, who, setting, _ = _log(path)
    taken = [4 * k + kind for k, name in enumerate(_REAL) if name in _SIMULATED for kind in range(4)]
    kept = [f"{name}{end}" for name in _SIMULATED for end in KINDS]
    rows = _standard(rows[:, taken], ~label)
    simulated, theirs = _simulated_rows(learning)
    blocks = np.zeros(len(rows), np.int64)
    normal = np.flatnonzero(~label)
    blocks[normal] = np.arange(len(normal)) * _BLOCKS // len(normal)
    found: dict[str, Any] = {}
    for part in PARTS:
        for more in (False, True):
            shown = []
            for one in np.unique(setting[label]):
                out = (setting == one) | (~label & (blocks == 0))
                held = ~label & (blocks == 1)
                known = _first(part, np.flatnonzero(~out & ~held), setting, blocks)
                x, y = rows[known], label[known]
                if more:
                    x, y = np.concatenate([x, simulated]), np.concatenate([y, theirs])
                if y.all() or not y.any():
                    continue
                detector = calibrated(fit(x, y, kept, "forest"), rows[held], label[held], 0.02, "rate")
                order = np.arange(len(rows), dtype=np.float64)
                verdict = figures(label[out], detector.score(rows[out]), detector.limit, who[out], order[out])
                shown.append(_short(verdict))
            if shown:
                name = f"{part:.0%} of real rows{' and simulated ones' if more else ''}"
                found[name] = {key: float(np.mean([row[key] for row in shown])) for key in shown[0]}
                found[name]["f1 of the worst setting"] = min(row["f1"] for row in shown)
    return found


def _first(part: float, pool: NDArray[np.int64], setting: NDArray[Any], blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first `part` of the rows of `pool` of each setting and block."""
    groups = [
        pool[(setting[pool] == one) & (blocks[pool] == block)] for one in np.unique(setting) for block in range(_BLOCKS)
    ]
    return np.concatenate([group[: round(part * len(group))] for group in groups])


def _standard(rows: NDArray[Any], normal: NDArray[np.bool_]) -> NDArray[Any]:
    """Columns (n, 4 k) in units of the deviation of their value from its median in `normal` rows (n,)."""
    found = rows.astype(np.float64).copy()
    for first in range(0, rows.shape[1], len(KINDS)):
        value = rows[normal, first]
        scale = max(float(np.nanstd(value)), 1e-6)
        found[:, first : first + 2] -= np.nanmedian(value)
        found[:, first : first + len(KINDS)] /= scale
    return found


def _simulated_rows(learning: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows of connected phones of a simulated data set, as many with as without the label."""
    table = read(learning, "train")
    columns = [f"{name}{end}" for name in _SIMULATED.values() for end in KINDS]
    values = np.column_stack([table[name].to_numpy() for name in columns])
    label = np.asarray(table["label"].to_numpy(zero_copy_only=False), bool)
    there = np.isfinite(values).all(axis=1)
    values, label = _standard(values[there], ~label[there]), label[there]
    rng = np.random.default_rng(1)
    some = [rng.permutation(np.flatnonzero(label == one))[: _ROWS // 2] for one in (True, False)]
    chosen = np.concatenate(some)
    return values[chosen], label[chosen]


def _short(verdict: Verdict) -> dict[str, float]:
    return {name: float(getattr(verdict, name)) for name in ("precision", "recall", "f1", "false_alarms", "area")}


def _log(path: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Features (n, k), label, connection, jammer setting and time (s since its recording began) of each row."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    columns = {name: np.array([_number(row[name]) for row in table]) for name in _REAL}
    label = np.array([row["jammer_on"] == "1" for row in table])
    setting = np.array(
        [f"{r['jammer_power']} {r['jammer_centre_frequency']}" if r["jammer_on"] == "1" else "-" for r in table]
    )
    who = np.array([f"{row['run']} {row['RNTI']}" for row in table])
    _, code = np.unique(who, return_inverse=True)
    order = np.argsort(code, kind="stable")
    back = np.argsort(order)
    found = features(
        code[order], np.arange(len(table), dtype=np.float64)[order], {n: c[order] for n, c in columns.items()}, 10.0
    )
    assert len(names(list(columns))) == found.shape[1]
    passed = np.array([float(row["Time_Delta"]) for row in table]) * 1e-3
    run = np.array([row["run"] for row in table])
    clock = np.concatenate([np.cumsum(passed[run == one]) for one in dict.fromkeys(run)])  # recordings are in turn
    return (
        found[back, :-1],
        label,
        code,
        setting,
        clock,
    )  # not how many rows there were: connections begin with their label


def _number(text: str) -> float:
    """The first code word of "13/0", the part of "5%", the rank of what a spreadsheet made a date."""
    text = text.split("/")[0].split(".")[0] if text.count(".") > 1 else text.split("/")[0].rstrip("%")
    try:
        return float(text)
    except ValueError:
        return float("nan")
