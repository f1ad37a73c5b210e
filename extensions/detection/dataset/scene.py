"""One run as a table of labelled windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from cosim.contract.condition import Condition
from cosim.contract.errors import SetupError
from cosim.extensions.detection.dataset.recipe import Recipe
from cosim.extensions.detection.dataset.tables import TablePart
from cosim.extensions.detection.dataset.windows import ROWS, features, names

IDS = ("scene", "node", "time")
CHOICE = (pa.field("candidate", pa.string()), pa.field("chosen", pa.bool_()))
_SAME = 1e-6  # s by which sums of times may differ and be the same


@dataclass(frozen=True, slots=True)
class RecordedScene:
    """A run, or a part of a table, that rows come from. `name` depends on what is in it, not on when or where."""

    name: str
    folder: str  # of a run
    group: str  # what a split keeps together
    part: TablePart | None = None

    def recorded(self, signal: str) -> pa.Table:
        """The rows of a signal, or of the part of the table.

        Raises `SetupError` for a signal that the run does not have.
        """
        if self.part is not None:
            return self.part.rows()
        return pa.concat_tables([pq.read_table(file) for file in files_of(self, signal)], promote_options="permissive")


def table(scene: RecordedScene, recipe: Recipe) -> pa.Table:
    """The rows of a scene: `scene`, `node`, `time`, the features, `truth_...`, and `label`.

    Raises `SetupError` for a signal or column that the run does not have.
    """
    first = recipe.names[0] if recipe.signals else ""
    base = scene.recorded(first)
    if recipe.choice:
        base = _candidates(base, scene, recipe)
    node, time = _keys(base, recipe.at if recipe.signals else "")
    about = np.char.add(np.char.add(node, " "), _words(base, "candidate")) if recipe.choice else node
    order = np.lexsort((time, about))
    text, code = np.unique(about, return_inverse=True)
    columns: dict[str, NDArray[np.float64]] = {}
    ids: tuple[str, ...] = IDS
    if scene.part is not None:
        ids = (*IDS, recipe.node, recipe.at, recipe.by, *(() if recipe.ahead else recipe.truth()))
    for signal, name in zip(recipe.signals or ("",), recipe.names or ("",), strict=True):
        rows, at = base, order
        if name != first:
            rows = scene.recorded(name)
            at = _belonging(signal, base, rows, node, time, recipe.within)[order]
        check_columns({name: rows.schema}, (f"{name}.{column}" for column in recipe.chosen(name)))
        for column in recipe.chosen(name) or rows.column_names:
            if column not in ids and column not in recipe.drop and is_number(rows.schema.field(column).type):
                columns[f"{name}_{column}" if name else column] = _values(rows, column, at)
    if not columns:
        raise SetupError(f"{scene.folder} has no column of numbers that could be a feature")
    _free(columns)
    truth = {}
    for column in recipe.truth():
        signal, _, name = column.rpartition(".") if scene.part is None else ("", "", column)
        same = signal == first
        rows = base if same else scene.recorded(signal)
        check_columns({signal: rows.schema}, [f"{signal}.{name}"])
        if same and not recipe.ahead:
            at = order
        else:
            keys = (node, time) if same else _keys(rows)
            at = _match(node[order], time[order] + recipe.ahead, *keys, recipe.within, exact=not recipe.ahead)
        truth[column] = _truth_column(rows, name, at)
    there = np.ones(len(order), bool)  # rows about which the truth is known
    for values in truth.values():
        if values.dtype.kind == "f":
            there &= ~np.isnan(values)
    label = _holds(recipe.rule, truth)
    code, time = code[order], time[order]
    found = features(code, time, columns, recipe.window)
    if recipe.every > 0.0:
        there &= _thinned(code, time, recipe.every)
    weight = _weights(scene.name, recipe, truth, len(order))
    kept = np.flatnonzero(there & (weight > 0.0))
    made: dict[str, Any] = {
        "scene": pa.array([scene.name] * len(kept), pa.string()),
        "node": pa.array(text[code[kept]], pa.string()),
        "time": time[kept],
    }
    for k, name in enumerate(names(list(columns))):
        made[name] = found[kept, k].astype(np.float32)
    for name in recipe.keep:
        values = truth[name][kept]
        made["truth_" + name.replace(".", "_")] = values.astype(np.float32) if values.dtype.kind == "f" else values
    if recipe.causes:
        made["truth_cause"] = pa.array(_causes(recipe, truth, len(order))[kept], pa.string())
    if recipe.sample:
        made["weight"] = weight[kept]
    made["label"] = label[kept]
    return pa.table(made)


def _candidates(base: pa.Table, scene: RecordedScene, recipe: Recipe) -> pa.Table:
    """A row for each candidate of a row of `base` that names its choice, with the columns `candidate` and `chosen`."""
    check_columns({recipe.names[0]: base.schema}, [f"{recipe.names[0]}.{recipe.choice}"])
    name = next(recipe.plain(signal) for signal in recipe.signals if signal.endswith("@candidate"))
    known = np.unique(_words(scene.recorded(name), "node"))
    chosen = np.flatnonzero(_words(base, recipe.choice) != "")
    candidate, made = np.tile(known, len(chosen)), base.take(np.repeat(chosen, len(known)))
    made = made.append_column(CHOICE[0], pa.array(candidate, pa.string()))
    return made.append_column(CHOICE[1], pa.array(_words(made, recipe.choice) == candidate))


def _free(columns: Iterable[str]) -> None:
    """Raise `SetupError` for a feature that would have the name of something else."""
    taken = {*IDS, "label", "weight", ROWS}
    wrong = [name for name in columns if name in taken or name.startswith("truth_")]
    if wrong:
        raise SetupError(f"a feature cannot be called '{wrong[0]}'; name that column with --at or --node, or --drop it")


def schema(scene: RecordedScene, name: str) -> pa.Schema:
    """The columns of a signal of a run; the metadata of each has `unit` and `meaning`."""
    if scene.part is not None:
        return scene.part.rows().schema
    return pa.unify_schemas([pq.read_schema(file) for file in files_of(scene, name)], promote_options="permissive")


def check_columns(recorded: Mapping[str, pa.Schema], columns: Iterable[str]) -> None:
    """Raise `SetupError` for the first of `columns` (`signal.column`) that no run has recorded."""
    for column in columns:
        signal, _, name = column.partition(".") if "" not in recorded else ("", "", column.removeprefix("."))
        known = recorded[signal].names
        if name not in known:
            what = f"signal '{signal}'" if signal else "the table"
            raise SetupError(f"{what} has no column '{name}'; it has {', '.join(known)}")


def _holds(rule: Condition, truth: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    try:
        return rule.rows({parts: truth[".".join(parts)] for parts in rule.values})
    except TypeError as error:
        raise SetupError(f"the rule '{rule.text.strip()}' cannot be: {error}") from None


def _causes(recipe: Recipe, truth: Mapping[str, NDArray[Any]], count: int) -> NDArray[Any]:
    """The first cause whose rule holds for each row, or "none"."""
    found = np.full(count, "none", object)
    for name, rule in reversed(recipe.reasons):
        found[_holds(rule, truth)] = name
    return found


def _weights(scene: str, recipe: Recipe, truth: Mapping[str, NDArray[Any]], count: int) -> NDArray[np.float64]:
    """How many rows each row (count,) stands for, 0 for one that is not drawn; its scene's name seeds the draw."""
    share = np.ones(count)
    for part, rule in reversed(recipe.strata):
        share[_holds(rule, truth)] = part
    rng = np.random.default_rng([recipe.seed, *scene.encode()])
    return np.where(rng.random(count) < share, 1.0 / share, 0.0)


def files_of(scene: RecordedScene, name: str) -> list[Path]:
    """The files of a signal of a run. Raises `SetupError` for a signal that the run does not have."""
    folder = Path(scene.folder) / "frames" / name
    files = sorted(folder.glob("*.parquet"))
    if name == "task" and not files:
        files = [file for file in (Path(scene.folder) / "tasks.parquet",) if file.is_file()]
    if not files:
        there = sorted(path.name for path in (Path(scene.folder) / "frames").glob("*") if path.is_dir())
        raise SetupError(f"the run {scene.folder} has no signal '{name}'; it has {', '.join(there)}")
    return files


def _keys(rows: pa.Table, at: str = "") -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Node and time of each row, by the column `at` if one is named; tasks are as of their end."""
    time = at or ("time" if "time" in rows.column_names else "ended")
    if time not in rows.column_names or not is_number(rows.schema.field(time).type):
        raise SetupError(f"--at: there is no column '{time}' of numbers among {', '.join(rows.column_names)}")
    return _words(rows, "node"), rows[time].cast(pa.float64()).to_numpy(zero_copy_only=False)


def _words(rows: pa.Table, name: str) -> NDArray[Any]:
    """A column as text, "" for no value."""
    text = pc.fill_null(rows[name].cast(pa.string()), "")
    return np.asarray(text.to_numpy(zero_copy_only=False).astype(str))


def _belonging(
    signal: str, base: pa.Table, rows: pa.Table, node: NDArray[Any], time: NDArray[np.float64], within: float
) -> NDArray[np.int64]:
    """For each row of `base` (n,) that of `rows` which belongs to it, -1 for none."""
    others, times = _keys(rows, "at" if within and "at" in rows.column_names else "")  # events within a step
    _, at, column = signal.partition("@")
    if column == "*":
        node, others = np.full(len(node), ""), np.full(len(others), "")
    elif at:
        if column not in base.column_names:
            raise SetupError(
                f"--signals: '{signal}' needs a column '{column}'; there is {', '.join(base.column_names)}"
            )
        node = _words(base, column)
    return _match(node, time, others, times, within)


def _match(
    node: NDArray[Any], time: NDArray[np.float64], others: NDArray[Any], times: NDArray[np.float64],
    within: float = 0.0, *, exact: bool = True,
) -> NDArray[np.int64]:  # fmt: skip
    """For each (node, time) the row of (others, times) that is the same, or the last of those `within` s before.

    -1 for none. Times that were added up are the same up to a microsecond (not `exact`).
    """
    text = np.unique(np.concatenate([node, others]))
    code, other = np.searchsorted(text, node), np.searchsorted(text, others)
    order = np.lexsort((times, other))
    known = np.empty(len(order), [("node", np.int64), ("time", np.float64)])
    known["node"], known["time"] = other[order], times[order]
    asked = np.empty(len(node), known.dtype)
    asked["node"], asked["time"] = code, time
    if not len(known):
        return np.full(len(node), -1)
    if exact and not within:
        at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        return np.where(known[at] == asked, order[at], -1)
    asked["time"] += _SAME
    at = np.maximum(np.searchsorted(known, asked, side="right") - 1, 0)
    near = (known["node"][at] == asked["node"]) & (known["time"][at] <= asked["time"])
    near &= asked["time"] - known["time"][at] <= within + 2.0 * _SAME
    return np.where(near, order[at], -1)


def _values(rows: pa.Table, name: str, at: NDArray[np.int64]) -> NDArray[np.float64]:
    values = rows[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
    if not len(values):
        return np.full(len(at), np.nan)
    found = np.where(at >= 0, values[at], np.nan)
    return np.asarray(np.where(np.isfinite(found), found, np.nan))


def _truth_column(rows: pa.Table, name: str, at: NDArray[np.int64]) -> NDArray[Any]:
    """The values of a column at the rows `at` (n,): numbers with NaN, or words with "", where there is none."""
    if is_number(rows.schema.field(name).type):
        return _values(rows, name, at)
    text = _words(rows, name)
    return np.where(at >= 0, text[at] if len(text) else "", "")


def is_number(kind: pa.DataType) -> bool:
    """Whether values of this type can be features."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _thinned(code: NDArray[np.int64], time: NDArray[np.float64], every: float) -> NDArray[np.bool_]:
    """The first row of each node in each interval of `every` s."""
    interval = np.floor(time / every + 1e-9)
    same = (code[1:] == code[:-1]) & (interval[1:] == interval[:-1])
    return np.concatenate([[True], ~same])[: len(code)]


def count(file: Path) -> tuple[int, int]:
    """Rows of a shard, and how many of them have the label."""
    label = pq.read_table(file, columns=["label"])["label"]
    return len(label), int(pc.sum(label).as_py() or 0)
