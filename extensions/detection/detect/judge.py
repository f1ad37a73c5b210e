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
from cosim.extensions.detection.dataset.leakage import auc, feature_names, index_of, made, matrix, people, read
from cosim.extensions.detection.dataset.windows import KINDS, ROWS
from cosim.extensions.detection.detect.detector import Detector, columns_of
from cosim.extensions.detection.detect.network import lagged

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
    causes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # true -> predicted -> rows

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def judge(detector: Detector, folder: str | Path, split: str = "test", *, only: str = "") -> Verdict:
    """The figures of `detector` on a split of a data set.

    `only`, as "truth_jamming_loss >= 10", leaves out rows with the label for which it does not hold, to separate hard
    cases from easy ones; rows without the label stay. `causes` counts rows with a cause or an alarm, if data set and
    detector know causes.
    """
    return _Judged(detector, Path(folder), split, only).verdict()


def by_group(detector: Detector, folder: str | Path, split: str = "test", *, only: str = "") -> dict[str, Verdict]:
    """The figures of `detector` on each group of a split: a seed, a scene, or a value of what was swept.

    Groups are what the data set's splits keep together (`Recipe.by`); arguments as those of `judge`.
    """
    judged = _Judged(detector, Path(folder), split, only)
    scenes = index_of(Path(folder), "scenes")
    group = np.array([scenes[name]["group"] for name in judged.scene.tolist()])
    return {str(name): judged.verdict(group == name) for name in np.unique(group)}


@dataclass(frozen=True, slots=True)
class ColumnContrast:
    """A logged column without and with the label: mean, and the quantiles 0.05 and 0.95, of its values."""

    name: str
    without: tuple[float, float, float]
    labelled: tuple[float, float, float]
    area: float  # under the curve when rows are ranked by this column alone; 0.5: no information, 0 and 1: full


def contrasts(folder: str | Path, split: str = "test") -> list[ColumnContrast]:
    """Every column of a split without and with the label, most informative first. Raises `SetupError` for no rows."""
    table = read(Path(folder), split)
    if not len(table):
        raise SetupError(f"{folder} has no rows in the split '{split}'")
    label = np.asarray(table["label"].to_numpy(zero_copy_only=False), bool)
    ends = (*KINDS[1:], ROWS)
    found = []
    for name in feature_names(table):
        if name.endswith(ends):
            continue
        values = np.asarray(table[name].to_numpy(), np.float64)
        there = ~np.isnan(values)
        sides = [values[there & (label == one)] for one in (False, True)]
        without, labelled = (_spread(side) for side in sides)
        found.append(ColumnContrast(name, without, labelled, auc(values[there], label[there])))
    return sorted(found, key=lambda one: -abs(one.area - 0.5))


class _Judged:
    """The rows of a split with their scores."""

    def __init__(self, detector: Detector, folder: Path, split: str, only: str) -> None:
        table = read(made(folder), split)
        if not len(table):
            raise SetupError(f"{folder} has no rows in the split '{split}'")
        self.scene = table["scene"].to_numpy(zero_copy_only=False).astype(str)
        self._detector = detector
        self._label = np.asarray(table["label"].to_numpy(zero_copy_only=False), bool)
        self._kept = counting(table, self._label, only)
        order = columns_of(detector, feature_names(table))
        self._rows, self._who = matrix(table)[:, order], people(table)
        if detector.lags > 1:
            self._rows = lagged(self._rows, self._who, detector.lags)
        self._score, self._time = detector.score(self._rows), table["time"].to_numpy()
        known = bool(detector.causes) and "truth_cause" in table.column_names
        self._cause = np.asarray(table["truth_cause"].to_pylist()) if known else None

    def verdict(self, some: Flags | None = None) -> Verdict:
        """Of all rows, or of `some` (n,)."""
        some = np.ones(len(self._label), bool) if some is None else some
        limit, score, kept = self._detector.limit, self._score[some], self._kept[some]
        found = figures(self._label[some], score, limit, self._who[some], self._time[some], kept=kept)
        if self._cause is not None:
            true = self._cause[some]
            bad = kept & ((true != CAUSES[0]) | (score > limit))
            predicted = np.array(self._detector.causes)[self._detector.cause(self._rows[some][bad])]
            found = replace(found, causes=_confusion(true[bad], predicted))
        return found


def _confusion(true: NDArray[Any], predicted: NDArray[Any]) -> dict[str, dict[str, int]]:
    known = [name for name in CAUSES if (predicted == name).any() or (true == name).any()]
    return {
        name: {other: int(((true == name) & (predicted == other)).sum()) for other in known if other != CAUSES[0]}
        for name in known
    }


def counting(table: pa.Table, label: Flags, only: str) -> Flags:
    """The rows (n,) of a split that count: those without the `label` (n,), and those with it for which `only` holds."""
    if not only:
        return np.ones(len(label), bool)
    column, _, text = (word.strip() for word in only.partition(">="))
    values = _numbers(table, column, only)
    try:
        least = float(text)
    except ValueError:
        least = math.nan
    if math.isnan(least):
        raise SetupError(f"'{only}' is not COLUMN >= NUMBER, as 'truth_jamming_loss >= 10'")
    return ~label | (values >= least)


def _numbers(table: pa.Table, column: str, only: str) -> NDArray[np.float64]:
    """The values of a column that `only` names."""
    there = [field.name for field in table.schema if not pa.types.is_string(field.type)]
    if column not in there:
        truth = [name for name in there if name.startswith("truth_")]
        hint = did_you_mean(column, there if nearest(column, there) else truth[:3], otherwise="there is")
        raise SetupError(f"'{only}': the data set has no column '{column}' of numbers; {hint}")
    return np.asarray(table[column].to_numpy(), np.float64)


def figures(
    label: Flags, score: NDArray[np.float64], limit: float, who: NDArray[np.int64], time: NDArray[np.float64],
    *, gap: float = 3.0, kept: Flags | None = None,
) -> Verdict:  # fmt: skip
    """Figures of rows that are sorted by `who` (n,) and `time` (n,) s.

    An attack is a run of rows of one `who` with the label and no more than `gap` s between them. It is found when an
    alarm falls into it, and the delay is counted from its first row. Rows that are not `kept` (n,) count only in
    attacks that also have kept rows.
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


def _spread(values: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean, and the quantiles 0.05 and 0.95; NaN of none."""
    if not len(values):
        return math.nan, math.nan, math.nan
    low, high = np.quantile(values, (0.05, 0.95))
    return float(values.mean()), float(low), float(high)
