"""Compare runs: bit for bit (`exact`), or figure by figure with effect sizes (`effects`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from math import isfinite, nan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cosim.results.convert import stream_files
from cosim.results.folder import RunFolder
from cosim.results.student import interval, quantile, variance

_ROWS = 1 << 16  # rows compared at a time
_SHOWN = 20  # differences told; a run that differs usually differs everywhere


def exact(a: str | Path, b: str | Path) -> list[str]:
    """Every difference between the recorded tables of two runs, in words; [] when they are bit-equal.

    The order of rows counts, NaN equals the same NaN, -0.0 differs from 0.0. Times of day, versions
    and other facts of the manifest do not count; status, ticks and the adapters' ledgers do.
    """
    folders = [RunFolder.open(path) for path in (a, b)]
    found = [
        f"{folder.path} was not closed; make it whole with cosim.results.convert.recover"
        for folder in folders
        if stream_files(folder.path)
    ]
    facts = [_facts(folder.manifest) for folder in folders]
    found += [
        f"{key}: {facts[0].get(key)!r} against {facts[1].get(key)!r}"
        for key in dict.fromkeys((*facts[0], *facts[1]))
        if facts[0].get(key) != facts[1].get(key)
    ]
    files = [_tables(folder.path) for folder in folders]
    for name in sorted({*files[0], *files[1]}):
        if name in files[0] and name in files[1]:
            found += _compare_files(name, files[0][name], files[1][name])
        else:
            found.append(f"{name} is only in {folders[name not in files[0]].path}")
    rest = len(found) - _SHOWN
    return found if rest <= 0 else [*found[:_SHOWN], f"and {rest} more differences"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One figure in a group of runs, against the same figure in the first group."""

    figure: str
    unit: str
    base: float  # mean in the first group
    mean: float
    difference: float  # mean - base
    relative: float  # difference / base, NaN where base is 0
    low: float  # 95 % confidence interval of the difference (Welch); NaN without replications
    high: float
    g: float  # Hedges' g; NaN without replications or without any spread
    runs: tuple[int, int]  # how many runs of the first and of this group have the figure

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return isfinite(self.low) and (self.low > 0 or self.high < 0)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def effects(base: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], level: float = 0.95) -> list[Effect]:
    """How the figures of the runs `other` differ from those of the runs `base`.

    Runs are given as their metrics (`metrics.json`). With two runs or more on both sides each
    difference has a confidence interval (Welch) and an effect size (Hedges' g).
    """
    found = []
    units = {key: entry["unit"] for run in (*base, *other) for key, entry in run["figures"].items()}
    for key, unit in units.items():
        a, b = values_of(base, key), values_of(other, key)
        if a and b:
            found.append(_effect(key, unit, a, b, level))
    return found


def values_of(runs: Sequence[Mapping[str, Any]], figure: str) -> list[float]:
    """The values of a figure in those runs that have it."""
    entries = (run["figures"].get(figure) for run in runs)
    return [entry["value"] for entry in entries if entry is not None and entry["value"] is not None]


def welch(a: list[float], b: list[float], level: float = 0.95) -> tuple[float, float]:
    """Confidence interval of mean(b) - mean(a) for unequal variances (Welch-Satterthwaite)."""
    if len(a) < 2 or len(b) < 2:
        return nan, nan
    difference = sum(b) / len(b) - sum(a) / len(a)
    u, v = variance(a) / len(a), variance(b) / len(b)
    if u + v == 0.0:
        return difference, difference
    freedom = (u + v) ** 2 / (u * u / (len(a) - 1) + v * v / (len(b) - 1))
    half = quantile(0.5 + level / 2, freedom) * sqrt(u + v)
    return difference - half, difference + half


def hedges_g(a: list[float], b: list[float]) -> float:
    """Standardised difference of means, corrected for small samples (Hedges 1981, approximation)."""
    freedom = len(a) + len(b) - 2
    if len(a) < 2 or len(b) < 2:
        return nan
    pooled = sqrt(((len(a) - 1) * variance(a) + (len(b) - 1) * variance(b)) / freedom)
    difference = sum(b) / len(b) - sum(a) / len(a)
    if pooled == 0.0:
        return 0.0 if difference == 0.0 else nan
    return difference / pooled * (1 - 3 / (4 * freedom - 1))


def _effect(key: str, unit: str, a: list[float], b: list[float], level: float) -> Effect:
    base, mean = interval(a)[0], interval(b)[0]
    low, high = welch(a, b, level)
    relative = (mean - base) / base if base else nan
    return Effect(key, unit, base, mean, mean - base, relative, low, high, hedges_g(a, b), (len(a), len(b)))


def _facts(manifest: Mapping[str, Any]) -> dict[str, object]:
    """What of a manifest must be equal."""
    facts = {key: manifest[key] for key in ("scenario", "seed", "step", "status", "ticks_done", "reached")}
    for adapter in manifest["adapters"]:
        for part in ("tasks", "workloads", "bytes", "energy", "cost"):
            facts[f"{part} of adapter '{adapter['name']}'"] = (adapter["summary"] or {}).get(part)
    return facts


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _tables(folder: Path) -> dict[str, Path]:
    paths = [*folder.glob("frames/*/*.parquet"), *folder.glob("*.parquet")]
    return {str(path.relative_to(folder)): path for path in paths}


def _compare_files(name: str, a: Path, b: Path) -> list[str]:
    with pq.ParquetFile(a) as one, pq.ParquetFile(b) as two:
        left, right = one.schema_arrow, two.schema_arrow
        if left.names != right.names or left.types != right.types:
            return [f"{name}: columns {_columns(left)} against {_columns(right)}"]
        if one.metadata.num_rows != two.metadata.num_rows:
            return [f"{name}: {one.metadata.num_rows} rows against {two.metadata.num_rows}"]
        differing: dict[str, str] = {}
        done = 0
        for x, y in zip_longest(_batches(one), _batches(two)):
            for column in left.names:
                row = None if column in differing else _first_difference(x.column(column), y.column(column))
                if row is not None:
                    values = [repr(batch.column(column)[row].as_py()) for batch in (x, y)]
                    differing[column] = f"{name}: {column} differs from row {done + row} on: {' against '.join(values)}"
            done += x.num_rows
        return list(differing.values())


def _batches(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Batches of `_ROWS` rows whatever the row groups, with words as text."""
    waiting, rows = list[pa.Table](), 0
    for batch in file.iter_batches(batch_size=_ROWS):
        waiting.append(_decoded(pa.Table.from_batches([batch])))
        rows += batch.num_rows
        if rows >= _ROWS:
            table = pa.concat_tables(waiting)
            yield table.slice(0, _ROWS).combine_chunks().to_batches()[0]
            rest = table.slice(_ROWS)
            waiting, rows = ([rest] if rest.num_rows else []), rest.num_rows
    if rows:
        yield pa.concat_tables(waiting).combine_chunks().to_batches()[0]


def _decoded(table: pa.Table) -> pa.Table:
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, pc.cast(table.column(i), pa.string()))
    return table.replace_schema_metadata(None)


def _first_difference(a: pa.Array, b: pa.Array) -> int | None:
    """The first row in which two columns differ in a bit or in being null."""
    nulls = np.asarray(a.is_null()) != np.asarray(b.is_null())
    if pa.types.is_floating(a.type):
        x, y = (np.asarray(v.fill_null(0.0)).view(np.int64 if a.type == pa.float64() else np.int32) for v in (a, b))
        different = nulls | (x != y)
    else:
        different = nulls | np.asarray(pc.fill_null(pc.not_equal(a, b), False))
    return int(different.argmax()) if different.any() else None
