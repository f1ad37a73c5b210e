"""How good a detector is on scenes that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cosim.contract.errors import SetupError
from cosim.contract.hints import did_you_mean, nearest
from cosim.contract.jammer import CAUSES
from cosim.dataset.leakage import auc, feature_names, matrix, people, read
from cosim.detect.detector import Detector, columns_of
from cosim.detect.network import lagged

Flags = NDArray[np.bool_]
QUANTILES = (0.5, 0.95)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Figures over rows; a figure over nothing is NaN."""

    rows: int
    positive: int
    precision: float
    recall: float
    f1: float
    false_alarms: float  # part of the rows without the label
    area: float  # under the receiver operating characteristic
    delay: Mapping[str, float]  # s from the first row of an attack to the first alarm, by quantile
    missed: float  # part of the attacks without an alarm
    attacks: int
    causes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # true -> told -> rows

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def judge(detector: Detector, folder: str | Path, split: str = "test", *, only: str = "") -> Verdict:
    """The figures of `detector` on a split of a data set.

    `only`, as "truth_jamming_loss >= 10", leaves out rows with the label for which it does not hold,
    so that hard and easy cases can be told apart; rows without the label stay. `causes` counts rows
    that have a cause or an alarm, where data set and detector know causes.
    """
    table = read(Path(folder), split)
    if not len(table):
        raise SetupError(f"{folder} has no rows in the split '{split}'")
    label = np.asarray(table["label"].to_numpy(zero_copy_only=False), bool)
    kept = np.ones(len(label), bool)
    if only:
        column, _, text = (word.strip() for word in only.partition(">="))
        kept = ~label | (_numbers(table, column, only) >= _least(text, only))
    order = columns_of(detector, feature_names(table))
    rows, who = matrix(table)[:, order], people(table)
    if detector.lags > 1:
        rows = lagged(rows, who, detector.lags)
    score = detector.score(rows)
    found = figures(label, score, detector.limit, who, table["time"].to_numpy(), kept=kept)
    if detector.causes and "truth_cause" in table.column_names:
        true = np.asarray(table["truth_cause"].to_pylist())
        some = kept & ((true != CAUSES[0]) | (score > detector.limit))
        found = replace(found, causes=_confusion(true[some], np.array(detector.causes)[detector.cause(rows[some])]))
    return found


def _confusion(true: NDArray[Any], told: NDArray[Any]) -> dict[str, dict[str, int]]:
    known = [name for name in CAUSES if (told == name).any() or (true == name).any()]
    return {
        name: {other: int(((true == name) & (told == other)).sum()) for other in known if other != CAUSES[0]}
        for name in known
    }


def _numbers(table: pa.Table, column: str, only: str) -> NDArray[np.float64]:
    """The values of a column that `only` names."""
    there = [field.name for field in table.schema if not pa.types.is_string(field.type)]
    if column not in there:
        truth = [name for name in there if name.startswith("truth_")]
        hint = did_you_mean(column, there if nearest(column, there) else truth[:3], otherwise="there is")
        raise SetupError(f"'{only}': the data set has no column '{column}' of numbers; {hint}")
    return np.asarray(table[column].to_numpy(), np.float64)


def _least(text: str, only: str) -> float:
    try:
        least = float(text)
    except ValueError:
        least = math.nan
    if math.isnan(least):
        raise SetupError(f"'{only}' is not COLUMN >= NUMBER, as 'truth_jamming_loss >= 10'")
    return least


def figures(
    label: Flags, score: NDArray[np.float64], limit: float, who: NDArray[np.int64], time: NDArray[np.float64],
    *, gap: float = 3.0, kept: Flags | None = None,
) -> Verdict:  # fmt: skip
    """Figures of rows that are sorted by `who` (n,) and `time` (n,) s.

    An attack on somebody is a run of rows with the label and no more than `gap` s between them; it is
    found when an alarm falls into it, and the delay is counted from its first row. Of rows that are
    not `kept` (n,) only the attacks that have kept rows as well are told.
    """
    attacked, alarms = label, score > limit
    kept = np.ones(len(label), bool) if kept is None else kept
    label, score, alarm = label[kept], score[kept], alarms[kept]
    hit, wrong = int((alarm & label).sum()), int((alarm & ~label).sum())
    positive, negative = int(label.sum()), int((~label).sum())
    precision = hit / (hit + wrong) if hit + wrong else float("nan")
    recall = hit / positive if positive else float("nan")
    f1 = 2.0 * hit / (2.0 * hit + wrong + positive - hit) if positive else float("nan")
    rows = np.flatnonzero(attacked)
    delays: list[float] = []
    missed = attacks = 0
    if len(rows):
        apart = (np.diff(who[rows]) != 0) | (np.diff(time[rows]) > gap)
        for part in np.split(rows, np.flatnonzero(apart) + 1):
            if not kept[part].any():
                continue
            attacks += 1
            found = part[alarms[part]]
            if len(found):
                delays.append(float(time[found[0]] - time[part[0]]))
            else:
                missed += 1
    delay = {f"{q:.0%}": float(np.quantile(delays, q)) if delays else float("nan") for q in QUANTILES}
    return Verdict(
        len(label), positive, precision, recall, f1, wrong / negative if negative else float("nan"), auc(score, label),
        delay, missed / attacks if attacks else float("nan"), attacks,
    )  # fmt: skip
