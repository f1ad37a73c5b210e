"""Compare runs: bit for bit (`exact`), or figure by figure with effect sizes (`effects`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from math import isfinite, nan, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cosim.contract.errors import SetupError
from cosim.results.convert import stream_files
from cosim.results.folder import RunFolder
from cosim.results.student import cdf, holm, interval, quantile, variance

_ROWS = 1 << 16  # rows compared at a time
_SHOWN = 20  # differences listed; a run that differs usually differs everywhere


def exact(a: str | Path, b: str | Path) -> list[str]:
    """Every difference between the recorded tables of two runs, in words; [] when they are bit-equal.

    The order of rows counts, NaN equals the same NaN, -0.0 differs from 0.0. Times of day, versions
    and other facts of the manifest do not count; status, ticks and the adapters' ledgers do.
    """
    folders = [RunFolder.open(path) for path in (a, b)]
    for folder in folders:
        folder.verify()
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
    low: float  # 95 % confidence interval of the difference; NaN without replications
    high: float
    g: float  # Hedges' g; NaN without replications or without any spread
    runs: tuple[int, int]  # how many runs of the first and of this group have the figure
    test: str = ""  # "paired t", "Welch t", "equal" where no pair or run differs, "" without replications
    p: float = nan  # of that test, two-sided, for no difference
    adjusted: float = nan  # p after Holm's correction for all comparisons that were made together
    at_least: tuple[bool, bool] = (False, False)  # on each side: a run has a lower bound, as tasks were unfinished

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return isfinite(self.low) and (self.low > 0 or self.high < 0)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def effects(
    base: Sequence[Mapping[str, Any]],
    other: Sequence[Mapping[str, Any]],
    level: float = 0.95,
    *,
    seeds: tuple[Sequence[object], Sequence[object]] | None = None,
) -> list[Effect]:
    """Compare the figures of the runs `other` with those of the runs `base`.

    Runs are given as their metrics (`metrics.json`), with `seeds` in the same order. Runs of equal seeds
    had the same random numbers. If both groups share two seeds or more, each difference is therefore that
    of such pairs, with the interval of Student's t over the pairs (Law, Simulation Modeling and
    Analysis, 10.2.1). Otherwise, with two runs or more on both sides, the interval is Welch's. Hedges' g
    is the difference relative to the spread of the runs.
    """
    found = []
    units = {key: entry["unit"] for run in (*base, *other) for key, entry in run["figures"].items()}
    for key, unit in units.items():
        a, b = values_of(base, key), values_of(other, key)
        if a and b:
            pairs = _pairs(base, other, seeds, key) if seeds else []
            first, second = (any(run["figures"].get(key, {}).get("at_least") for run in runs) for runs in (base, other))
            found.append(replace(_effect(key, unit, a, b, pairs, level), at_least=(first, second)))
    return found


def adjust(groups: Sequence[list[Effect]]) -> tuple[list[list[Effect]], int]:
    """The same effects with p-values corrected for all of them by Holm's method, and how many tests they are.

    Figures that do not differ in any pair ("equal", as the way of vehicles that no policy changes) are no tests.
    """
    tested = [effect.p for group in groups for effect in group if isfinite(effect.p)]
    corrected: dict[float, float] = {}
    for p, adjusted in zip(tested, holm(tested), strict=True):
        corrected.setdefault(p, adjusted)
    return [[replace(e, adjusted=corrected.get(e.p, nan)) for e in group] for group in groups], len(tested)


def paired(pairs: Sequence[tuple[float, float]], level: float = 0.95) -> tuple[float, float, float, float]:
    """Mean of second - first over `pairs` (two or more), its interval by Student's t, and the p-value."""
    differences = [second - first for first, second in pairs]
    n, mean = len(differences), sum(differences) / len(differences)
    spread = sqrt(variance(differences) / n)
    if spread == 0.0:
        return mean, mean, mean, 1.0 if mean == 0.0 else 0.0
    half = quantile(0.5 + level / 2, n - 1) * spread
    return mean, mean - half, mean + half, 2.0 * cdf(-abs(mean) / spread, n - 1)


def run_folders_of(paths: Iterable[str | Path]) -> list[Path]:
    """The run folders that `paths` stand for: runs as they are, of sweeps all runs that are complete."""
    found: list[Path] = []
    for path in map(Path, paths):
        if (path / "sweep.json").is_file():
            found += _complete(path)
        else:
            found.append(path)
    return found


def _complete(path: Path) -> list[Path]:
    from cosim.results.sweep import SweepFolder  # which compiles plans

    found = [path / result.run for result in SweepFolder(path).results() if result.status == "complete"]
    if not found:
        raise SetupError(f"the sweep {path} has no complete run")
    return found


def values_of(runs: Sequence[Mapping[str, Any]], figure: str) -> list[float]:
    """The values of a figure in those runs that have it."""
    entries = (run["figures"].get(figure) for run in runs)
    return [entry["value"] for entry in entries if entry is not None and entry["value"] is not None]


def welch(a: list[float], b: list[float], level: float = 0.95) -> tuple[float, float, float]:
    """Confidence interval of mean(b) - mean(a) for unequal variances (Welch-Satterthwaite), and the p-value.

    It is of the two-sided test for equal means. All are NaN for fewer than two values on a side.
    """
    if len(a) < 2 or len(b) < 2:
        return nan, nan, nan
    difference = sum(b) / len(b) - sum(a) / len(a)
    u, v = variance(a) / len(a), variance(b) / len(b)
    if u + v == 0.0:
        return difference, difference, 1.0 if difference == 0.0 else 0.0
    freedom = (u + v) ** 2 / (u * u / (len(a) - 1) + v * v / (len(b) - 1))
    half = quantile(0.5 + level / 2, freedom) * sqrt(u + v)
    return difference - half, difference + half, 2.0 * cdf(-abs(difference) / sqrt(u + v), freedom)


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


def _pairs(
    base: Sequence[Mapping[str, Any]],
    other: Sequence[Mapping[str, Any]],
    seeds: tuple[Sequence[object], Sequence[object]],
    figure: str,
) -> list[tuple[float, float]]:
    """The figure in runs of equal seeds; [] unless each seed is in each group once at most."""
    sides: list[dict[object, float]] = []
    for runs, names in zip((base, other), seeds, strict=True):
        if len(set(names)) != len(names):
            return []
        known = zip(names, (run["figures"].get(figure) for run in runs), strict=True)
        sides.append({seed: e["value"] for seed, e in known if e is not None and e["value"] is not None})
    return [(value, sides[1][seed]) for seed, value in sides[0].items() if seed in sides[1]]


def _effect(
    key: str, unit: str, a: list[float], b: list[float], pairs: list[tuple[float, float]], level: float
) -> Effect:
    g = hedges_g(a, b)
    if len(pairs) > 1:  # the means are those of the pairs, so that they fit their difference
        base, mean = interval([x for x, _ in pairs])[0], interval([y for _, y in pairs])[0]
        difference, low, high, p = paired(pairs, level)
        relative = difference / base if base else nan
        count = (len(pairs), len(pairs))
        test, p = ("equal", nan) if all(x == y for x, y in pairs) else ("paired t", p)
        return Effect(key, unit, base, mean, difference, relative, low, high, g, count, test, p)
    base, mean = interval(a)[0], interval(b)[0]
    low, high, p = welch(a, b, level)
    relative = (mean - base) / base if base else nan
    test = "Welch t" if isfinite(low) else ""
    if test and len({*a, *b}) == 1:
        test, p = "equal", nan
    return Effect(key, unit, base, mean, mean - base, relative, low, high, g, (len(a), len(b)), test, p)


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
                row = None if column in differing else first_difference(x.column(column), y.column(column))
                if row is not None:
                    values = [repr(batch.column(column)[row].as_py()) for batch in (x, y)]
                    differing[column] = f"{name}: {column} differs from row {done + row} on: {' against '.join(values)}"
            done += x.num_rows
        return list(differing.values())


def _batches(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Batches of `_ROWS` rows whatever the row groups, with words as text."""
    waiting, rows = list[pa.Table](), 0
    for batch in file.iter_batches(batch_size=_ROWS):
        waiting.append(decoded(pa.Table.from_batches([batch])))
        rows += batch.num_rows
        if rows >= _ROWS:
            table = pa.concat_tables(waiting)
            yield table.slice(0, _ROWS).combine_chunks().to_batches()[0]
            rest = table.slice(_ROWS)
            waiting, rows = ([rest] if rest.num_rows else []), rest.num_rows
    if rows:
        yield pa.concat_tables(waiting).combine_chunks().to_batches()[0]


def decoded(table: pa.Table) -> pa.Table:
    import pyarrow.compute as pc  # every report reads this module, and few compare values

    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, pc.cast(table.column(i), pa.string()))
    return table.replace_schema_metadata(None)


def first_difference(a: pa.Array, b: pa.Array) -> int | None:
    """The first row in which two columns differ in a bit or in being null."""
    import pyarrow.compute as pc

    nulls = np.asarray(a.is_null()) != np.asarray(b.is_null())
    if pa.types.is_floating(a.type):
        x, y = (np.asarray(v.fill_null(0.0)).view(np.int64 if a.type == pa.float64() else np.int32) for v in (a, b))
        different = nulls | (x != y)
    else:
        different = nulls | np.asarray(pc.fill_null(pc.not_equal(a, b), False))
    return int(different.argmax()) if different.any() else None
