"""How good a detector is on scenes that it has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import SetupError
from cosim.dataset.leakage import auc, feature_names, matrix, read
from cosim.detect.detector import Detector, columns_of

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

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def judge(detector: Detector, folder: str | Path, split: str = "test", *, only: str = "") -> Verdict:
    """The figures of `detector` on a split of a data set.

    `only`, as "truth_jamming_loss >= 10", leaves out rows with the label for which it does not hold,
    so that hard and easy cases can be told apart; rows without the label stay.
    """
    table = read(Path(folder), split)
    if not len(table):
        raise SetupError(f"{folder} has no rows in the split '{split}'")
    label = np.asarray(table["label"].to_numpy(zero_copy_only=False), bool)
    kept = np.ones(len(label), bool)
    if only:
        column, _, least = (word.strip() for word in only.partition(">="))
        if column not in table.column_names or not least:
            raise SetupError(f"'{only}' is not COLUMN >= NUMBER with a column of the data set")
        kept = ~label | (table[column].to_numpy() >= float(least))
    order = columns_of(detector, feature_names(table))
    score = detector.score(matrix(table)[:, order])
    codes = [
        np.unique(table[name].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)[1]
        for name in ("scene", "node")
    ]
    who = codes[0] * (int(codes[1].max()) + 1) + codes[1]
    return figures(label[kept], score[kept], detector.limit, who[kept], table["time"].to_numpy()[kept])


def figures(
    label: Flags, score: NDArray[np.float64], limit: float, who: NDArray[np.int64], time: NDArray[np.float64],
    *, gap: float = 3.0,
) -> Verdict:  # fmt: skip
    """Figures of rows that are sorted by `who` (n,) and `time` (n,) s.

    An attack on somebody is a run of rows with the label and no more than `gap` s between them; it is
    found when an alarm falls into it, and the delay is counted from its first row.
    """
    alarm = score > limit
    hit, wrong = int((alarm & label).sum()), int((alarm & ~label).sum())
    positive, negative = int(label.sum()), int((~label).sum())
    precision = hit / (hit + wrong) if hit + wrong else float("nan")
    recall = hit / positive if positive else float("nan")
    f1 = 2.0 * hit / (2.0 * hit + wrong + positive - hit) if positive else float("nan")
    rows = np.flatnonzero(label)
    delays: list[float] = []
    missed = attacks = 0
    if len(rows):
        apart = (np.diff(who[rows]) != 0) | (np.diff(time[rows]) > gap)
        for part in np.split(rows, np.flatnonzero(apart) + 1):
            attacks += 1
            found = part[alarm[part]]
            if len(found):
                delays.append(float(time[found[0]] - time[part[0]]))
            else:
                missed += 1
    delay = {f"{q:.0%}": float(np.quantile(delays, q)) if delays else float("nan") for q in QUANTILES}
    return Verdict(
        len(label), positive, precision, recall, f1, wrong / negative if negative else float("nan"), auc(score, label),
        delay, missed / attacks if attacks else float("nan"), attacks,
    )  # fmt: skip
