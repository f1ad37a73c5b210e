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

from cosim.contract.errors import SetupError
from cosim.dataset.recipe import Recipe
from cosim.dataset.windows import features, names

IDS = ("scene", "node", "time")


@dataclass(frozen=True, slots=True)
class RecordedScene:
    """A run that rows come from. `name` depends on what was run, not on when or where."""

    name: str
    folder: str
    group: str  # what a split keeps together


def table(scene: RecordedScene, recipe: Recipe) -> pa.Table:
    """The rows of a scene: `scene`, `node`, `time`, the features, `truth_...`, and `label`.

    Raises `SetupError` for a signal or column that the run does not have.
    """
    base = _signal(scene, recipe.signals[0])
    node, time = _keys(base)
    order = np.lexsort((time, node))
    text, code = np.unique(node, return_inverse=True)
    columns: dict[str, NDArray[np.float64]] = {}
    for signal in recipe.signals:
        rows = base if signal == recipe.signals[0] else _signal(scene, signal)
        at = order if rows is base else _match(node[order], time[order], *_keys(rows))
        for name in rows.column_names:
            if name not in IDS and name not in recipe.drop and _is_number(rows.schema.field(name).type):
                columns[f"{signal}_{name}"] = _values(rows, name, at)
    truth = {name: _truth(scene, name, node[order], time[order]) for name in recipe.truth()}
    there = np.ones(len(order), bool)  # rows about which the truth is known
    for values in truth.values():
        if values.dtype.kind == "f":
            there &= ~np.isnan(values)
    label = np.ones(len(order), bool)
    for term in recipe.terms:
        label &= term.holds(truth[term.column])
    code, time = code[order], time[order]
    found = features(code, time, columns, recipe.window)
    if recipe.every > 0.0:
        there &= _thinned(code, time, recipe.every)
    kept = np.flatnonzero(there)
    made: dict[str, Any] = {
        "scene": pa.array([scene.name] * len(kept), pa.string()),
        "node": pa.array(text[code[kept]], pa.string()),
        "time": time[kept],
    }
    for k, name in enumerate(names(list(columns))):
        made[name] = found[kept, k].astype(np.float32)
    for name in recipe.keep:
        made["truth_" + name.replace(".", "_")] = truth[name][kept].astype(np.float32)
    if recipe.causes:
        made["truth_cause"] = pa.array(_causes(recipe, truth, len(order))[kept], pa.string())
    made["label"] = label[kept]
    return pa.table(made)


def schema(scene: RecordedScene, name: str) -> pa.Schema:
    """The columns of a signal of a run; the metadata of each has `unit` and `meaning`."""
    return pa.unify_schemas([pq.read_schema(file) for file in _files(scene, name)], promote_options="permissive")


def check_columns(recorded: Mapping[str, pa.Schema], columns: Iterable[str]) -> None:
    """Raise `SetupError` for the first of `columns` (`signal.column`) that no run has recorded."""
    for column in columns:
        signal, _, name = column.partition(".")
        known = recorded[signal].names
        if name not in known:
            raise SetupError(f"signal '{signal}' has no column '{name}'; it has {', '.join(known)}")


def _causes(recipe: Recipe, truth: Mapping[str, NDArray[Any]], count: int) -> NDArray[Any]:
    """The first cause whose rule holds for each row, or "none"."""
    found = np.full(count, "none", object)
    for name, terms in reversed(recipe.reasons):
        holds = np.ones(count, bool)
        for term in terms:
            holds &= term.holds(truth[term.column])
        found[holds] = name
    return found


def _signal(scene: RecordedScene, name: str) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in _files(scene, name)], promote_options="permissive")


def _files(scene: RecordedScene, name: str) -> list[Path]:
    folder = Path(scene.folder) / "frames" / name
    files = sorted(folder.glob("*.parquet"))
    if name == "task" and not files:
        files = [file for file in (Path(scene.folder) / "tasks.parquet",) if file.is_file()]
    if not files:
        there = sorted(path.name for path in (Path(scene.folder) / "frames").glob("*") if path.is_dir())
        raise SetupError(f"the run {scene.folder} has no signal '{name}'; it has {', '.join(there)}")
    return files


def _keys(rows: pa.Table) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Node and time of each row; tasks are as of their end."""
    time = "time" if "time" in rows.column_names else "ended"
    node = rows["node"].cast(pa.string()).to_numpy(zero_copy_only=False).astype(str)
    return node, rows[time].cast(pa.float64()).to_numpy(zero_copy_only=False)


def _match(node: NDArray[Any], time: NDArray[np.float64], others: NDArray[Any], times: NDArray[np.float64]) -> Any:  # noqa: ANN401
    """For each (node, time) the row of (others, times) that is the same, -1 for none."""
    text = np.unique(np.concatenate([node, others]))
    code, other = np.searchsorted(text, node), np.searchsorted(text, others)
    order = np.lexsort((times, other))
    known = np.empty(len(order), [("node", np.int64), ("time", np.float64)])
    known["node"], known["time"] = other[order], times[order]
    asked = np.empty(len(node), known.dtype)
    asked["node"], asked["time"] = code, time
    if not len(known):
        return np.full(len(node), -1)
    at = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[at] == asked, order[at], -1)


def _values(rows: pa.Table, name: str, at: NDArray[np.int64]) -> NDArray[np.float64]:
    values = rows[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
    if not len(values):
        return np.full(len(at), np.nan)
    found = np.where(at >= 0, values[at], np.nan)
    return np.asarray(np.where(np.isfinite(found), found, np.nan))


def _truth(scene: RecordedScene, column: str, node: NDArray[Any], time: NDArray[np.float64]) -> NDArray[Any]:
    signal, _, name = column.partition(".")
    rows = _signal(scene, signal)
    check_columns({signal: rows.schema}, [column])
    at = _match(node, time, *_keys(rows))
    if _is_number(rows.schema.field(name).type):
        return _values(rows, name, at)
    text = rows[name].cast(pa.string()).to_numpy(zero_copy_only=False).astype(str)
    return np.where(at >= 0, text[at] if len(text) else "", "")


def _is_number(kind: pa.DataType) -> bool:
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
