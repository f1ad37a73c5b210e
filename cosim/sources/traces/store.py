"""Traces as Parquet: the form in which imported scenarios keep them beside the YAML.

Utilisation is in long form, one row per VM and period: `vm`, `period`, `utilisation` and, where known,
`peak` and `memory_use`; length of a period, start and sizes of VMs stand in the file's metadata.
Tasks have one row each: `arrival`, `duration`, `cores`, `memory`, `work`, `id` and further columns.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from cosim.sources.traces.model import Floats, Shares, TaskTrace, UtilisationTraces
from cosim.sources.traces.table import fault

_KEY = b"cosim.sources.traces"
_SIZES = ("cores", "clock", "memory")
_SERIES = ("peak", "memory_use")
_TASK = ("arrival", "duration", "cores", "memory", "work")


def write(path: Path, traces: UtilisationTraces | TaskTrace) -> None:
    """Write the traces; the same traces give the same bytes."""
    table = _utilisation(traces) if isinstance(traces, UtilisationTraces) else _tasks(traces)
    parquet.write_table(table, path, compression="zstd", compression_level=9)


def read(path: Path) -> UtilisationTraces | TaskTrace:
    """What `write` wrote; raises `ScenarioError` for any other file."""
    try:
        table = parquet.read_table(path)
        told = json.loads((table.schema.metadata or {})[_KEY])
        return _utilisation_of(table, told) if told["kind"] == "utilisation" else _tasks_of(table, told)
    except FileNotFoundError:
        raise fault(path, "there is no such file") from None
    except (OSError, KeyError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise fault(path, f"holds no traces: {text[:200]}", hint="a file that 'cosim import' wrote is needed") from None


def _utilisation(traces: UtilisationTraces) -> pa.Table:
    columns: dict[str, Any] = {
        "vm": pa.DictionaryArray.from_arrays(
            pa.array(np.repeat(np.arange(traces.vms, dtype=np.int32), traces.periods)), pa.array(list(traces.ids))
        ),
        "period": np.tile(np.arange(traces.periods, dtype=np.int32), traces.vms),
        "utilisation": traces.utilisation.ravel(),
    }
    columns |= {name: values.ravel() for name in _SERIES if (values := getattr(traces, name)) is not None}
    told: dict[str, Any] = {
        "kind": "utilisation",
        "shape": [traces.vms, traces.periods],
        "period": traces.period,
        "start": traces.start,
        "ids": list(traces.ids),
    }
    told |= {name: values.tolist() for name in _SIZES if (values := getattr(traces, name)) is not None}
    return pa.table(columns).replace_schema_metadata({_KEY: json.dumps(told).encode()})


def _utilisation_of(table: pa.Table, told: dict[str, Any]) -> UtilisationTraces:
    shape = tuple(told["shape"])

    def series(name: str) -> Shares:
        return np.asarray(table.column(name).to_numpy(), np.float32).reshape(shape)

    def size(name: str) -> Floats | None:
        return np.array(told[name], np.float64) if name in told else None

    return UtilisationTraces(
        tuple(told["ids"]),
        series("utilisation"),
        told["period"],
        told["start"],
        peak=series("peak") if "peak" in table.column_names else None,
        memory_use=series("memory_use") if "memory_use" in table.column_names else None,
        cores=size("cores"),
        clock=size("clock"),
        memory=size("memory"),
    )


def _tasks(tasks: TaskTrace) -> pa.Table:
    columns: dict[str, Any] = {name: getattr(tasks, name) for name in _TASK} | dict(tasks.extra)
    if tasks.ids is not None:
        columns["id"] = list(tasks.ids)
    told = {"kind": "tasks", "start": tasks.start, "unit": tasks.unit, "extra": list(tasks.extra)}
    return pa.table(columns).replace_schema_metadata({_KEY: json.dumps(told).encode()})


def _tasks_of(table: pa.Table, told: dict[str, Any]) -> TaskTrace:
    def column(name: str) -> Floats:
        return np.asarray(table.column(name).to_numpy(), np.float64)

    return TaskTrace(
        **{name: column(name) for name in _TASK},
        ids=tuple(table.column("id").to_pylist()) if "id" in table.column_names else None,
        start=told["start"],
        unit=told["unit"],
        extra={name: column(name) for name in told["extra"]},
    )
