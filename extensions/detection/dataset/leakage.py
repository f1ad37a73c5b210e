"""Whether a data set gives its answers away: by rows that are in two splits, or by one feature alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cosim.contract import seals
from cosim.contract.errors import SetupError
from cosim.extensions.detection.dataset.recipe import SPLITS, Recipe

SUSPICIOUS = 0.9999  # area under the curve of one feature from which on it is the label by another name
INDEX = "dataset.json"
_MOST = 200_000  # rows looked at
_ANEW = "make the data set anew with 'cosim dataset --out' and another folder"


@dataclass(frozen=True, slots=True)
class Leak:
    """What the test found."""

    groups_in_two_splits: tuple[str, ...]
    repeated: float  # part of the test rows whose features stand in the training rows as well
    telling: Mapping[str, float]  # features that rank the rows as the label does, with the area under their curve

    @property
    def found(self) -> bool:
        """Whether the test found a leak."""
        return bool(self.groups_in_two_splits) or bool(self.telling)

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)


def made(folder: str | Path, *, whole: bool = True) -> Path:
    """The folder of a data set; if it is not to be `whole`, files may be missing.

    Raises `SetupError` for what is none, `DamagedError` where a file is not what was written.
    """
    folder = Path(folder)
    if not any((folder / split).is_dir() for split in SPLITS):
        raise SetupError(f"{folder} is no data set; make one out of runs or tables with 'cosim dataset'")
    kept = _index(folder).get("digests")
    if kept is not None:
        present = [path for split in SPLITS for path in (folder / split).glob("*") if path.is_file()]
        present += [folder / name for name in kept if name == "croissant.json" and (folder / name).is_file()]
        names = [str(path.relative_to(folder)) for path in present]
        kept = kept if whole else {name: kept[name] for name in names if name in kept}
        seals.refuse(folder, seals.differences(folder, kept, names, more="does not belong to the data set"))
    return folder


def _index(folder: Path) -> dict[str, Any]:
    try:
        return seals.unsealed(folder / INDEX, must="digests")
    except FileNotFoundError:
        raise SetupError(f"{folder / INDEX} is missing or damaged; {_ANEW}") from None


def index_of(folder: Path, key: str) -> dict[str, Any]:
    """The mapping `recipe` or `scenes` of `dataset.json`. Raises `SetupError` when it is not what was written."""
    found = _index(folder).get(key)
    if isinstance(found, dict):
        return found
    raise SetupError(f"{folder / INDEX} is missing or damaged; {_ANEW}")


def read(folder: Path, split: str, columns: list[str] | None = None, *, most: int | None = None) -> pa.Table:
    """The rows of a split in the order of the scenes' names; the first `most` at most, of which no more is read.

    Raises `SetupError` for files that are damaged, or were not written by a data set.
    """
    files = sorted((folder / split).glob("*.parquet"))
    if not files:
        return pa.table({})
    try:
        if most is not None:
            rows = np.cumsum([pq.read_metadata(file).num_rows for file in files])
            files = files[: int(np.searchsorted(rows, most)) + 1]
        found = ds.dataset([str(file) for file in files])
        if lacking := [name for name in ("scene", "node", "time", "label") if name not in found.schema.names]:
            raise SetupError(f"the files in {folder / split} have no column '{lacking[0]}'; {_ANEW}")
        table = found.to_table(columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise SetupError(f"{folder / split} cannot be read: {str(error).splitlines()[0][:300]}; {_ANEW}") from error
    return table if most is None else table.slice(0, most)


def feature_names(table: pa.Table) -> list[str]:
    """The columns that a model may see."""
    others = ("scene", "node", "time", "weight", "label")
    return [name for name in table.column_names if name not in others and not name.startswith("truth_")]


def check(folder: Path, _recipe: Recipe) -> Leak:
    """Look for scenes in two splits, for repeated rows, and for a feature that is the label."""
    seen: dict[str, set[str]] = {}
    for split in SPLITS:
        for file in sorted((folder / split).glob("*.parquet")):
            seen.setdefault(file.stem, set()).add(split)
    twice = tuple(sorted(name for name, splits in seen.items() if len(splits) > 1))
    train, test = read(folder, "train", most=_MOST), read(folder, "test", most=_MOST)
    repeated, telling = 0.0, {}
    if len(train) and len(test):
        repeated = _repeated(matrix(train), matrix(test))
        label = test["label"].to_numpy(zero_copy_only=False)
        if label.all() or not label.any():  # nothing to rank there: a feature that is the label is so everywhere
            test = pa.concat_tables([train, test], promote_options="permissive")
            label = test["label"].to_numpy(zero_copy_only=False)
        for name in feature_names(test):
            area = auc(test[name].to_numpy(), label)
            if max(area, 1.0 - area) >= SUSPICIOUS:
                telling[name] = area
    return Leak(twice, repeated, telling)


def matrix(table: pa.Table) -> NDArray[np.float32]:
    """The features (n, k) of a table."""
    names = feature_names(table)
    found = np.empty((len(table), len(names)), np.float32)
    for k, name in enumerate(names):
        found[:, k] = table[name].to_numpy()
    return found


def people(table: pa.Table) -> NDArray[np.int64]:
    """A number (n,) for each node of each scene, whose rows are neighbours."""
    scene, node = (
        np.unique(table[name].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)[1]
        for name in ("scene", "node")
    )
    return np.asarray(scene * (int(node.max(initial=0)) + 1) + node, np.int64)


def _repeated(train: NDArray[np.float32], test: NDArray[np.float32]) -> float:
    known = {row.tobytes() for row in train}
    return sum(row.tobytes() in known for row in test) / len(test)


def auc(score: NDArray[Any], label: NDArray[Any]) -> float:
    """Area under the receiver operating characteristic, by Mann and Whitney's U; 0.5 where there is one class only.

    Ties count half, NaN ranks lowest.
    """
    label = np.asarray(label, bool)
    positive = int(label.sum())
    negative = len(label) - positive
    if not positive or not negative:
        return 0.5
    values = np.nan_to_num(np.asarray(score, np.float64), nan=-np.inf, neginf=-np.inf)
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - 0.5 * (counts - 1)
    return float((rank[inverse][label].sum() - positive * (positive + 1) / 2.0) / (positive * negative))
