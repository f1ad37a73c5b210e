"""Statistics instead of rows: what is kept of a signal whose recording has a `summary`.

In windows of time every numeric column gets, for each group of rows, its count, sum, least and most, and
counts in bins whose bounds grow by the factor (1 + ERROR) / (1 - ERROR), so that every value is within
ERROR of its bin's middle (Masson, Rim, Lee 2019, doi 10.14778/3352063.3352135). So is any quantile, by
rank. Bins of several windows, groups or runs are merged by adding their counts; nothing is lost by that.
Sizes below 1e-9 are 0, and those above 1e15 are in the last bin.

The rows become two signals of their own: `<signal>_summary` and `<signal>_bins`. They are recorded,
converted and read like all others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import Scene
from cosim.contract.frame import Array, Frame
from cosim.contract.records import Floats, Ints
from cosim.contract.signals import Column, Signal
from cosim.results.identity import Identities
from cosim.results.stream import SUFFIX, SignalStream, Spec
from cosim.scenario.plan.plan import Plan, Recording

ERROR: Final = 0.01  # of a quantile, relative
_LEAST, _MOST = 1e-9, 1e15  # range of sizes that the bins resolve
_WIDTH = math.log((1.0 + ERROR) / (1.0 - ERROR))
LAST: Final = math.ceil(math.log(_MOST / _LEAST) / _WIDTH)  # the highest bin
ROWS, BINS = "_summary", "_bins"  # behind the name of the signal
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
# What a task's summary has instead of its instants: s between two of them, of tasks that have both.
PARTS: Final = {
    "response": ("created", "ended"),
    "upload": ("created", "uploaded"),
    "queue": ("uploaded", "started"),
    "compute": ("started", "computed"),
    "download": ("computed", "ended"),
}
_INSTANTS = {name for part in PARTS.values() for name in part}
_TABLE = 2**24  # numbers of groups up to which they are looked up in a table
_DENSE = 2**22  # bins of all groups up to which they are counted in a table
_PENDING = 2**20  # counted bins that are merged before there are more


def bins(values: Floats) -> Ints:
    """The bin of each value, -LAST..LAST; bin 0 is that of 0."""
    with np.errstate(divide="ignore"):
        found = np.ceil(np.log(np.abs(values) / _LEAST) / _WIDTH)
    np.clip(found, 0, LAST, out=found)
    whole = found.astype(np.int64)
    np.negative(whole, out=whole, where=values < 0.0)
    return whole


def middles(numbers: Ints) -> Floats:
    """What stands for the values in bins with these numbers."""
    size = _LEAST * np.exp(_WIDTH * (np.abs(numbers) - 1.0)) * (1.0 + ERROR)  # 2 x low x high / (low + high)
    return np.where(numbers == 0, 0.0, np.copysign(size, numbers))


def quantile(numbers: Ints, tally: Ints, q: float) -> float:
    """The value of rank q (n - 1) of those in the bins, NaN without any; bins may come more than once."""
    order = np.argsort(numbers, kind="stable")
    behind = np.cumsum(tally[order])
    if not len(behind) or behind[-1] == 0:
        return math.nan
    place = int(np.searchsorted(behind, math.floor(q * (behind[-1] - 1)), "right"))
    return float(middles(numbers[order[place : place + 1]])[0])


class _Measure:
    """One column's statistics in the present window, by group."""

    def __init__(self) -> None:
        self.clear(0)

    def clear(self, groups: int) -> None:
        self.count, self.sum = np.zeros(groups, np.int64), np.zeros(groups)
        self.least, self.most = np.full(groups, math.inf), np.full(groups, -math.inf)
        self._codes: list[Ints] = []  # group * (2 LAST + 1) + bin + LAST
        self._tally: list[Ints] = []
        self._pending = 0

    def grow(self, groups: int) -> None:
        more = groups - len(self.count)
        if more > 0:
            self.count, self.sum = np.append(self.count, np.zeros(more, np.int64)), np.append(self.sum, np.zeros(more))
            self.least = np.append(self.least, np.full(more, math.inf))
            self.most = np.append(self.most, np.full(more, -math.inf))

    def add(self, values: Floats, group: Ints) -> None:
        usable = np.isfinite(values)
        if not usable.all():
            values, group = values[usable], group[usable]
        if not len(values):
            return
        groups = len(self.count)
        self.count += np.bincount(group, minlength=groups)
        self.sum += np.bincount(group, weights=values, minlength=groups)
        np.minimum.at(self.least, group, values)
        np.maximum.at(self.most, group, values)
        numbers = bins(values)
        low, high = int(numbers.min()), int(numbers.max())
        span = high - low + 1
        if groups * span <= _DENSE:
            counted = np.bincount(group * span + (numbers - low))
            found = np.flatnonzero(counted)
            tally = counted[found]
            codes = found // span * (2 * LAST + 1) + found % span + low + LAST
        else:
            codes, tally = np.unique(group * (2 * LAST + 1) + numbers + LAST, return_counts=True)
        self._codes.append(codes)
        self._tally.append(tally)
        self._pending += len(codes)
        if self._pending > _PENDING:
            self._codes, self._tally = ([part] for part in self._merged())
            self._pending = len(self._codes[0])

    def _merged(self) -> tuple[Ints, Ints]:
        if not self._codes:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        codes, place = np.unique(np.concatenate(self._codes), return_inverse=True)
        tally = np.bincount(place, weights=np.concatenate(self._tally).astype(np.float64), minlength=len(codes))
        return codes, tally.astype(np.int64)

    def close(self) -> tuple[Ints, dict[str, Array], Ints, dict[str, Array]]:
        """Groups and figures of the summary's rows, then groups, bins and counts."""
        codes, tally = self._merged()
        group, number = codes // (2 * LAST + 1), codes % (2 * LAST + 1) - LAST
        behind = np.cumsum(tally)
        present = np.flatnonzero(self.count)
        before = np.cumsum(self.count)[present] - self.count[present]
        figures: dict[str, Array] = {
            "count": self.count[present], "sum": self.sum[present],
            "least": self.least[present], "most": self.most[present],
            "mean": self.sum[present] / self.count[present],
        }  # fmt: skip
        for name, q in QUANTILES.items():
            rank = before + np.floor(q * (self.count[present] - 1)).astype(np.int64)
            value = middles(number[np.searchsorted(behind, rank, "right")])
            figures[name] = np.clip(value, self.least[present], self.most[present])
        return present, figures, group, {"bin": number, "tally": tally}


class Summary:
    """The statistics of one signal of one adapter, and the streams that they go to.

    Rows are grouped by the kind of their node and by the columns `by` of the recording, all columns of codes
    by default. A node that they refer to is the one that is at the slot when the window ends.
    """

    def __init__(
        self, signal: Signal, adapter: str, recording: Recording, plan: Plan, identities: Identities, folder: Path
    ) -> None:
        scene = plan.scene
        self._kinds, self._kind_of = _kinds(scene)
        workloads = tuple(workload.name for workload in scene.workloads)
        kept = Spec.of(signal, adapter, (), workloads).columns
        chosen = recording.by or tuple(column.name for column in kept if column.role == "code" and column.codes)
        self._by = [column for column in kept if column.name in chosen]
        self._radix = [len(self._kinds)]
        self._radix += [scene.capacity + 1 if c.role == "slot" else len(c.codes) + 1 for c in self._by]
        self._table = np.full(math.prod(self._radix), -1, np.int64) if math.prod(self._radix) <= _TABLE else None
        self._groups: dict[int, int] = {}
        self.values = measured(signal, recording.columns)
        self._measures = {name: _Measure() for name in self.values}
        self._every = max(1, round(recording.summary / plan.step))  # ticks
        self._window, self._step = -1, plan.step
        self._identities = identities
        own = (
            Column("start", "float64", "s", "beginning of the window; `time` is its end"),
            Column("kind", "int16", "", "of the nodes that the rows were about", "code", self._kinds),
            *self._by,
            Column("quantity", "int16", "", "of which these are the statistics", "code", self.values),
        )
        count = Column("count", "int64", "1", "values", low=0.0)
        figures = [Column(name, "float64", "", "of the values") for name in ("sum", "least", "most", "mean")]
        about_rank = f"within {100 * ERROR:g} % of the value of this rank"
        figures += [Column(name, "float64", "", about_rank) for name in QUANTILES]
        bin_ = (Column("bin", "int16", "", "number of the bin"), Column("tally", "int64", "1", "values in it"))
        about = f"statistics of {signal.name}"
        self.rows, self.bins = (
            _stream(folder, Signal(signal.name + name, about, columns, "event"), adapter)
            for name, columns in ((ROWS, (*own, count, *figures)), (BINS, (*own, *bin_)))
        )

    def ended(self, tick: int) -> bool:
        """Whether `tick` is in another window than what was added before."""
        return -1 < self._window != self._window_of(tick)

    def add(self, tick: int, frame: Frame, rows: NDArray[np.intp] | None) -> None:
        """Count the rows of a frame, all of them or those chosen."""
        self._window = self._window_of(tick)
        slots = frame.slot if rows is None else frame.slot[rows]
        if not len(slots):
            return

        def of(name: str) -> Array:
            column = frame[name]
            return column if rows is None else column[rows]

        code = self._kind_of[slots]
        for column, size in zip(self._by, self._radix[1:], strict=True):
            code = code * size + np.clip(of(column.name).astype(np.int64) + 1, 0, size - 1)
        group = self._group(code)
        for name, measure in self._measures.items():
            measure.grow(len(self._groups))
            if name in PARTS and name not in frame.columns:
                first, last = PARTS[name]
                values = np.where(of("status") == 0, of(last) - of(first), math.nan)
            else:
                values = of(name).astype(np.float64, copy=False)
            measure.add(values, group)

    def close(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """The columns of the window's rows and of its bins; the next window begins empty."""
        keys = np.fromiter(self._groups, np.int64, len(self._groups))
        rows: list[dict[str, Array]] = []
        tallies: list[dict[str, Array]] = []
        for number, measure in enumerate(self._measures.values()):
            present, figures, group, tally = measure.close()
            rows.append({**self._named(keys[present], number), **figures})
            tallies.append({**self._named(keys[group], number), **tally})
            measure.clear(len(self._groups))
        self._window = -1
        return _joined(rows, self.rows.spec), _joined(tallies, self.bins.spec)

    def end(self) -> float:
        """s, the end of the window that was added to."""
        return (self._window + 1) * self._every * self._step

    def _window_of(self, tick: int) -> int:
        """The window of a frame, which covers the time up to its tick; the one at 0 belongs to the first window."""
        return max(0, tick - 1) // self._every

    def _group(self, code: Ints) -> Ints:
        if self._table is None:
            found, place = np.unique(code, return_inverse=True)
            numbers = [self._groups.setdefault(int(one), len(self._groups)) for one in found]
            return np.array(numbers, np.int64)[place]
        group = self._table[code]
        if group.min() < 0:
            for one in np.unique(code[group < 0]).tolist():
                self._table[one] = self._groups.setdefault(one, len(self._groups))
            group = self._table[code]
        return group

    def _named(self, code: Ints, number: int) -> dict[str, Array]:
        """The columns that identify what rows are about."""
        found: dict[str, Array] = {"start": np.full(len(code), self._window * self._every * self._step)}
        for column, size in zip(reversed(self._by), reversed(self._radix[1:]), strict=True):
            found[column.name], code = code % size - 1, code // size
            if column.role == "slot":
                serials = np.empty(len(code), np.int32)
                self._identities.serials(found[column.name].astype(np.int32), serials)
                found[column.name] = serials
        found["kind"], found["quantity"] = code, np.full(len(code), number)
        return found


def measured(signal: Signal, keep: Sequence[str] = ()) -> tuple[str, ...]:
    """The columns that a summary of the signal has figures of: those in `keep`, () for all."""
    chosen = [c.name for c in signal.columns if c.role in ("value", "counter") and (not keep or c.name in keep)]
    if signal.name != "task":
        return tuple(chosen)
    return (*PARTS, *(name for name in chosen if name not in _INSTANTS | {"task", *PARTS}))


def _kinds(scene: Scene) -> tuple[tuple[str, ...], Ints]:
    """The kinds of nodes, and the number of each slot's kind."""
    numbers: dict[str, int] = {}
    kind_of = np.zeros(scene.capacity, np.int64)
    kind_of[: len(scene.nodes)] = [numbers.setdefault(node.kind, len(numbers)) for node in scene.nodes]
    for fleet in scene.fleets:
        kind = numbers.setdefault(fleet.template.kind, len(numbers))
        kind_of[fleet.first : fleet.first + fleet.capacity] = kind
    return tuple(numbers) or ("",), kind_of


def _stream(folder: Path, signal: Signal, adapter: str) -> SignalStream:
    path = folder / "frames" / signal.name / f"{adapter}{SUFFIX}"
    path.parent.mkdir(exist_ok=True)
    return SignalStream(Spec.of(signal, adapter, (), ()), path)


def _joined(parts: Sequence[Mapping[str, Any]], spec: Spec) -> dict[str, Array]:
    return {
        column.name: np.concatenate([part[column.name] for part in parts]).astype(spec.stored(column))
        for column in spec.columns
    }
