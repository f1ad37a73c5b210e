"""Rows at events as means over equal periods: what systems that sample in fixed periods can take.

Events come when jobs arrive and end; telemetry comes every so many seconds. Each period gets the mean of
what held in it, so the integral over the periods is that over the events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from cosim.contract.records import Floats

UNITS: Final[Mapping[str, str]] = {
    "utilisation": "1", "busy": "1", "down": "1", "waiting": "1", "running": "1", "circuits": "1", "power": "W",
}  # fmt: skip


def means(time: Floats, value: Floats, edges: Floats) -> Floats:
    """(len(edges) - 1,) means of `value`, which holds from each `time` to the next and the last for ever.

    Before the first time it is 0.
    """
    cuts = np.unique(np.concatenate([edges, time[(time > edges[0]) & (time < edges[-1])]]))
    found = np.searchsorted(time, cuts[:-1], "right") - 1
    held = np.where(found >= 0, value[np.maximum(found, 0)], 0.0)
    period = np.searchsorted(edges, cuts[:-1], "right") - 1
    return np.asarray(np.bincount(period, held * np.diff(cuts), len(edges) - 1) / np.diff(edges))


def interpolated(
    columns: Mapping[str, Floats], period: float, delay: float = 0.0, until: float | None = None
) -> dict[str, Floats]:
    """Columns over equal periods up to `until` s: `time`, when the row is out, and means over the period.

    Of `columns`, `time` (s) is that of the events, and the others hold values from then on. A row is out `delay` s
    after its period has ended, as that of an exporter that collects first. Raises `ValueError`.
    """
    if not period > 0.0 or delay < 0.0:
        raise ValueError(f"a period of {period:g} s with a delay of {delay:g} s cannot be")
    time = columns["time"]
    end = (float(time[-1]) if len(time) else 0.0) if until is None else until
    edges: Floats = np.arange(max(1, int(np.ceil(end / period - 1e-9))) + 1, dtype=np.float64) * period
    values = {name: means(time, column, edges) for name, column in columns.items() if name != "time"}
    return {"time": edges[1:] + delay, **values}


def write(path: Path, columns: Mapping[str, Floats]) -> None:
    """The timeline as Parquet, with units in the columns' metadata."""
    fields = [pa.field(name, pa.float64(), metadata={"unit": UNITS.get(name, "s")}) for name in columns]
    table = pa.table([pa.array(values) for values in columns.values()], schema=pa.schema(fields))
    parquet.write_table(table, path, compression="zstd")


def samples(columns: Mapping[str, Floats]) -> Iterator[tuple[float, dict[str, tuple[float, str]]]]:
    """Row by row: the time (s) at which it is out, and metric -> (value, unit)."""
    for i, time in enumerate(columns["time"]):
        yield float(time), {name: (float(columns[name][i]), UNITS[name]) for name in columns if name != "time"}
