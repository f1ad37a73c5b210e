"""Jobs in a file: the form in which imported traces are kept.

A table, CSV (.gz too) or Parquet, with the columns `arrival` (s), `duration` (s) and `gpus`, and, where
it has them, `gpu_milli` (thousandths of one GPU) and `pattern` (a word). Jobs without a pattern get one
by chance, by the weights of a mix; those of one GPU are local.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from cosim.contract.delimited import content, sheet
from cosim.contract.errors import Problem, ScenarioError
from cosim.extensions.gpu_cluster.cluster.engine.layout import LOCAL, WHOLE
from cosim.extensions.gpu_cluster.cluster.generate import patterns
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs
from cosim.extensions.gpu_cluster.cluster.names import PATTERNS

MOST_GPUS = 1_000_000  # of a job


def write_jobs(path: Path, jobs: Jobs, *, with_pattern: bool = True) -> None:
    """Write jobs as Parquet; the same jobs give the same bytes."""
    columns: dict[str, Any] = {
        "arrival": jobs.arrival, "duration": jobs.duration, "gpus": jobs.gpus, "gpu_milli": jobs.milli,
    }  # fmt: skip
    if with_pattern:
        columns["pattern"] = pa.array([PATTERNS[i] for i in jobs.pattern]).dictionary_encode()
    parquet.write_table(pa.table(columns), path, compression="zstd", compression_level=9)


def read_jobs(path: Path, mix: dict[str, float], seed: int = 0, most: int | None = None) -> Jobs:
    """The jobs of a file in the order of arrival, at most the first so many. Raises `ScenarioError`."""
    try:
        table = parquet.read_table(path) if path.suffix == ".parquet" else _csv(path)
    except (OSError, pa.ArrowException) as error:
        raise ScenarioError(Problem(f"holds no table: {str(error).splitlines()[0][:200]}", file=path)) from None
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise ScenarioError(Problem(f"has two columns '{twice[0]}'", file=path, line=1))
    columns: dict[str, Any] = {name: table[name] for name in table.column_names}
    missing = {"arrival", "duration", "gpus"} - columns.keys()
    unknown = columns.keys() - {"arrival", "duration", "gpus", "gpu_milli", "pattern"}
    if missing or unknown:
        text = f"lacks the columns {', '.join(sorted(missing))}" if missing else f"has a column '{sorted(unknown)[0]}'"
        hint = "arrival, duration and gpus, and if known gpu_milli and pattern"
        raise ScenarioError(Problem(text, file=path, line=1, hint=hint))
    numbers = {}
    for name in sorted(columns.keys() - {"pattern"}):
        try:
            numbers[name] = np.asarray(columns[name].cast(pa.float64()).to_numpy(), np.float64)
        except pa.ArrowException:
            raise ScenarioError(_no_number(path, name, columns[name].to_pylist())) from None
    _check(path, numbers)
    order = np.argsort(numbers["arrival"], kind="stable")[:most]
    count = len(order)
    gpus = numbers["gpus"][order].astype(np.int64)
    milli = numbers["gpu_milli"][order].astype(np.int64) if "gpu_milli" in numbers else np.full(count, WHOLE)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 11])))
    drawn, share = patterns(rng, count, mix)
    if "pattern" in columns:
        words = [columns["pattern"][int(i)].as_py() for i in order]
        wrong = [word for word in words if word not in PATTERNS]
        if wrong:
            raise ScenarioError(Problem(f"'{wrong[0]}' is no pattern; known: {', '.join(PATTERNS)}", file=path))
        drawn = np.array([PATTERNS.index(word) for word in words], np.int64)
    else:
        drawn = np.where(gpus == 1, LOCAL, drawn)
    return Jobs(
        numbers["arrival"][order], gpus, numbers["duration"][order], drawn, np.where(gpus == 1, milli, WHOLE),
        compute=1.0 - share, network=share,
    )  # fmt: skip


def _csv(path: Path) -> pa.Table:
    found = sheet(content(path), path)
    columns = [pa.array([row[k].strip() for row in found.rows], pa.string()) for k in range(len(found.names))]
    return pa.Table.from_arrays(columns, names=found.names)


def _no_number(path: Path, name: str, values: list[Any]) -> Problem:
    """The first value of a column that is no number, with its line."""
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            if value is not None:
                line = None if path.suffix == ".parquet" else row + 2
                return Problem(f"'{name}' is '{str(value)[:40]}' in row {row + 1}, no number", file=path, line=line)
    return Problem(f"'{name}' has no numbers", file=path)


def _check(path: Path, numbers: dict[str, Any]) -> None:
    """Raise for the first value that is out of range, with its line (the header is line 1)."""
    lows = {"arrival": 0.0, "duration": 1e-9, "gpus": 1.0, "gpu_milli": 1.0}
    for name, values in numbers.items():
        most = {"gpus": MOST_GPUS, "gpu_milli": WHOLE}.get(name, np.inf)
        bad = ~(np.isfinite(values) & (values >= lows[name]) & (values <= most))
        if name in ("gpus", "gpu_milli"):
            bad |= values != np.floor(values)
        if bad.any():
            first = int(np.argmax(bad))
            line = None if path.suffix == ".parquet" else first + 2
            raise ScenarioError(Problem(f"'{name}' is {values[first]:g} in row {first + 1}", file=path, line=line))
