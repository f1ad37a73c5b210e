"""A detector as plain arrays: thresholds, a linear model, or trees. It scores without the library that trained it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import entry
from cosim.contract.errors import SetupError
from cosim.contract.jammer import CAUSES
from cosim.contract.seals import DamagedError, check_zip, seal_zip
from cosim.extensions.detection.detect.network import ask, lags_of

Floats = NDArray[np.float64]
FORMAT = 2
_UNSEALED = 1  # the same without a digest, of earlier versions
_ARRAYS = {
    "thresholds": ("weight", "column", "limit"),
    "linear": ("weight", "bias", "mean", "scale"),
    "network": ("lags", "mean", "scale", "kernel_1", "offset_1", "kernel_2", "offset_2", "weight", "bias"),
    "trees": ("root", "feature", "threshold", "left", "right", "value", "bias"),
}
_CAUSE = tuple(
    f"cause_{name}" for name in ("root", "feature", "threshold", "left", "right", "value", "bias", "of")
)  # fmt: skip


_NO_RATIOS = np.empty((0, 2), np.int64)


def with_ratios(rows: Floats, ratios: NDArray[np.int64]) -> Floats:
    """`rows` (n, k) with the differences (n, r) of the columns `ratios` (r, 2) behind them."""
    if not len(ratios):
        return np.ascontiguousarray(rows)
    return np.ascontiguousarray(np.concatenate([rows, rows[:, ratios[:, 0]] - rows[:, ratios[:, 1]]], axis=1))


@entry()
def grown(
    rows: Floats, root: NDArray[np.int64], feature: NDArray[np.int64], threshold: Floats, left: NDArray[np.int64],
    right: NDArray[np.int64], value: Floats, total: Floats,
) -> None:  # fmt: skip
    """Add the values of the leaves of all trees that `rows` (n, k) end in to `total` (n,); a leaf has feature -1."""
    for i in range(len(rows)):
        for t in range(len(root)):
            at = root[t]
            while feature[at] >= 0:
                at = left[at] if rows[i, feature[at]] <= threshold[at] else right[at]
            total[i] += value[at]


@dataclass(frozen=True, slots=True)
class Detector:
    """Scores windows and raises an alarm above `limit`.

    `features` lists the columns in order, as in a data set; `fill` (k,) replaces missing values; `window` is the
    length of the windows in s. `form` selects how `arrays` are used:

    - thresholds: the greatest weight (x[column] - limit), in units of a training deviation;
    - linear: the logistic of weight (x - mean) / scale + bias;
    - network: the logistic of a convolutional network over the last rows (`detect/network.py`), whose
      features are `column@lag`;
    - trees: the logistic (or, for `link` identity, the value itself) of bias + the sum over all trees. They also see
      the differences of features that `ratios` (r, 2) lists: for levels in dB these are ratios of powers, which trees
      cannot form themselves.
    """

    method: str
    form: str
    features: tuple[str, ...]
    window: float  # s
    limit: float  # score
    fill: Floats
    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]  # method, calibration, importance: for people

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that it reads, in the order of the features."""
        return tuple(self.facts["signals"])

    def score(self, rows: NDArray[Any]) -> Floats:
        """Scores (n,), higher for what looks more like a jammer, of `rows` (n, k) in the order of `features`."""
        rows = np.asarray(rows, np.float64)
        rows = np.where(np.isnan(rows), self.fill, rows)
        arrays = self.arrays
        if self.form == "thresholds":
            found = arrays["weight"] * (rows[:, arrays["column"]] - arrays["limit"])
            return np.asarray(found.max(axis=1))
        if self.form == "linear":
            return _logistic((rows - arrays["mean"]) / arrays["scale"] @ arrays["weight"] + float(arrays["bias"][0]))
        if self.form == "network":
            return _logistic(ask(arrays, rows))
        rows = with_ratios(rows, self.ratios)
        total = np.full(len(rows), float(arrays["bias"][0]))
        root, feature, threshold = arrays["root"], arrays["feature"], arrays["threshold"]
        left, right, value = arrays["left"], arrays["right"], arrays["value"]
        grown(rows, root, feature, threshold, left, right, value, total)
        return total if self.facts.get("link") == "identity" else _logistic(total)

    @property
    def ratios(self) -> NDArray[np.int64]:
        """Pairs (r, 2) of features whose differences the trees see behind the features."""
        return np.asarray(self.arrays.get("ratios", _NO_RATIOS))

    @property
    def lags(self) -> int:
        """How many rows of a node it looks at: 1, or more for a network."""
        return lags_of(self.features)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns (k,) of one row that it reads; its features are those of the last `lags` rows."""
        width = len(self.features) // self.lags
        return tuple(name.partition("@")[0] for name in self.features[:width])

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes of a bad link that it can name, in order; () if its training had no such labels."""
        return tuple(self.facts.get("causes", ()))

    def cause(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """The number (n,) among `causes` of what most likely makes the links of `rows` (n, k) bad.

        One-vs-rest or softmax scores of boosted trees, a set of trees for each cause; the highest wins.
        """
        rows = np.asarray(rows, np.float64)
        rows = with_ratios(np.where(np.isnan(rows), self.fill, rows), self.ratios)
        feature, threshold, left, right, value = (self.arrays[name] for name in _CAUSE[1:6])
        of, score = self.arrays["cause_of"], np.tile(self.arrays["cause_bias"], (len(rows), 1))
        for k in range(score.shape[1]):
            total = np.zeros(len(rows))
            grown(rows, self.arrays["cause_root"][of == k], feature, threshold, left, right, value, total)
            score[:, k] += total
        return np.asarray(np.argmax(score, axis=1), np.int64)

    def alarm(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of `rows` (n, k) it raises an alarm for."""
        return np.asarray(self.score(rows) > self.limit)

    def save(self, path: str | Path) -> Path:
        """Write it as a .npz file of numbers and one JSON text; nothing in it is code."""
        path = Path(path)
        head = {
            "format": FORMAT, "method": self.method, "form": self.form, "features": list(self.features),
            "window": self.window, "limit": self.limit, "facts": dict(self.facts),
        }  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            save: Any = np.savez_compressed  # its stub takes the arrays for options
            save(file, head=np.array(json.dumps(head)), fill=self.fill, **self.arrays)
        seal_zip(path)
        return path

    @staticmethod
    def load(path: str | Path) -> Detector:
        """Read what `save` wrote. Raises `SetupError` for anything else, `DamagedError` where it has changed."""
        try:
            whole = zipfile.is_zipfile(path) and check_zip(Path(path))
            with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                head = json.loads(str(file["head"]))
                if head.get("format") not in (FORMAT, _UNSEALED):
                    raise SetupError(f"{path} has the format {head.get('format')}; this version reads {FORMAT}")
                if not whole and head["format"] != _UNSEALED:
                    raise DamagedError(f"{path} is not as it was written: its digest is gone")
                detector = Detector(
                    str(head["method"]), str(head["form"]), tuple(map(str, head["features"])), float(head["window"]),
                    float(head["limit"]), file["fill"], _arrays(file, head),
                    {**head["facts"], "signals": [str(name) for name in head["facts"]["signals"]]},
                )  # fmt: skip
        except FileNotFoundError:
            raise SetupError(f"there is no detector {path}; make one with 'cosim detect train'") from None
        except IsADirectoryError:
            raise SetupError(f"{path} is a folder; name the file that 'cosim detect train' wrote") from None
        except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
            known = isinstance(error, (OSError, zipfile.BadZipFile)) and str(error)
            what = known or "it is no file that 'cosim detect train' wrote"
            raise SetupError(f"{path} is not a detector: {what}") from None
        _sound(detector, path)
        return detector


def _arrays(file: Mapping[str, NDArray[Any]], head: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    more = ("ratios",) if "ratios" in file else ()
    names = (*_ARRAYS[head["form"]], *more, *(_CAUSE if head["facts"].get("causes") else ()))
    return {name: file[name] for name in names}


def _sound(detector: Detector, path: str | Path) -> None:
    """A file from elsewhere must not send the trees around in circles or out of their arrays."""
    count, arrays = len(detector.features), detector.arrays
    good = len(detector.fill) == count
    ratios = detector.ratios
    good &= ratios.ndim == 2 and ratios.shape[1] == 2 and bool(((ratios >= 0) & (ratios < count)).all())
    if not good:
        raise SetupError(f"{path} is not a detector: its arrays do not fit one another")
    seen = count + len(ratios)
    if detector.causes:
        good &= _sound_trees(arrays, "cause_", seen) and set(detector.causes) <= set(CAUSES)
        good &= len(arrays["cause_of"]) == len(arrays["cause_root"])
        good &= len(arrays["cause_bias"]) == len(detector.causes)
    if detector.form == "trees":
        good &= _sound_trees(arrays, "", seen) and len(arrays["bias"]) == 1
    elif detector.form == "network":
        good &= len(arrays["mean"]) == len(arrays["scale"]) == count and int(arrays["lags"][0]) == detector.lags
        shapes = arrays["kernel_1"].shape, arrays["kernel_2"].shape
        good &= shapes[0][1] * detector.lags == count and shapes[0][2] % 2 == shapes[1][2] % 2 == 1
        good &= shapes[1][1] == shapes[0][0] == len(arrays["offset_1"])
        good &= 2 * shapes[1][0] == 2 * len(arrays["offset_2"]) == len(arrays["weight"])
    elif detector.form == "linear":
        good &= all(len(arrays[name]) == count for name in ("weight", "mean", "scale")) and len(arrays["bias"]) == 1
    else:
        good &= bool(((arrays["column"] >= 0) & (arrays["column"] < count)).all())
    if not good:
        raise SetupError(f"{path} is not a detector: its arrays do not fit one another")


def _sound_trees(arrays: Mapping[str, NDArray[Any]], prefix: str, count: int) -> bool:
    feature = arrays[f"{prefix}feature"]
    here, inner = np.arange(len(feature)), feature >= 0
    good = all(len(arrays[prefix + name]) == len(here) for name in ("threshold", "left", "right", "value"))
    good = good and bool((feature < count).all())
    for side in ("left", "right"):  # children stand behind their parents
        child = arrays[prefix + side]
        good = good and bool(((child > here) & (child < len(here)))[inner].all())
    root = arrays[f"{prefix}root"]
    return good and bool(((root >= 0) & (root < len(here))).all())


def columns_of(detector: Detector, names: Sequence[str]) -> NDArray[np.int64]:
    """Where the detector's columns stand in `names`. Raises `SetupError` for one that is not there."""
    place = {name: k for k, name in enumerate(names)}
    missing = [name for name in detector.columns if name not in place]
    if missing:
        raise SetupError(f"the detector needs '{missing[0]}', which is not among the data's columns")
    return np.array([place[name] for name in detector.columns], np.int64)


def _logistic(x: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -500.0, 500.0))))
