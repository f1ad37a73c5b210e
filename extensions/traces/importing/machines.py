"""Scenarios from traces of data centres: machines with the recorded utilisation, on hosts that hold them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from cosim.contract.errors import Problem, ScenarioError
from cosim.extensions.traces import UtilisationTraces, alibaba, azure, bitbrains, google, planetlab
from cosim.sources.importing.imported import Imported, Notice

CLOCK, CORES, MEMORY = 2.6e9, 8, 64  # of a host: Hz, cores, GiB; a common two-socket server's half
VM_CORES, VM_MEMORY = 1.0, 1.0e9  # of a machine whose size the trace does not give: cores, B
FILLED = 0.7  # of the hosts, by what machines ask for
MOST_HOSTS = 2000


def read_traces(
    source: str,
    path: Path,
    *,
    table: Path | None = None,
    containers: bool = False,
    full: float = 100.0,
    vms: int | None = None,
    periods: int | None = None,
) -> UtilisationTraces:
    """The traces of `source` (planetlab, bitbrains, google, azure, alibaba); raises `ScenarioError`."""
    readers: dict[str, Callable[[], UtilisationTraces]] = {
        "planetlab": lambda: planetlab.read(path, full=full, vms=vms),
        "bitbrains": lambda: bitbrains.read(path, table),
        "google": lambda: google.read_usage(path, vms=vms, periods=periods),
        "azure": lambda: azure.read_usage(path, table, vms=vms, periods=periods),
        "alibaba": lambda: (alibaba.read_containers if containers else alibaba.read_machines)(
            path, vms=vms, periods=periods
        ),
    }
    if not path.exists():
        raise ScenarioError(Problem("there is no such file or folder", file=path))
    try:
        found = readers[source]()
    except ValueError as error:
        raise ScenarioError(Problem(str(error), file=path)) from error
    return found.select(slice(None, vms), slice(None, periods))


def read(source: str, path: Path, *, hosts: int | None = None, **options: Any) -> Imported:  # noqa: ANN401
    """A scenario for the adapter `datacentre`; `options` are those of `read_traces`.

    Machines of one size are a group with a Parquet file of its own, a column per machine and a row per
    period. There are as many hosts as the machines need when each asks for all of its cores, or `hosts`.
    """
    traces = read_traces(source, path, **options)
    notices: list[Notice] = []
    unknown = np.isnan(traces.utilisation)
    if unknown.all():
        raise ScenarioError(Problem("holds no utilisation", file=path))
    if unknown.any():
        text = f"{unknown.mean():.1%} of the values are unknown; the machine counts as idle there"
        notices.append(Notice("note", path, None, "utilisation", text))
    if 0.0 < np.nanmax(traces.utilisation) <= 0.01:
        hint = "take --full 1" if source == "planetlab" else "the reader takes percent"
        text = f"no machine is ever busier than 1 %: are the values shares of 1? ({hint})"
        notices.append(Notice("note", path, None, "utilisation", text))
    reported = {"cores": traces.cores, "clock": traces.clock, "memory": traces.memory}
    for name, values in reported.items():
        if values is None or np.isnan(values).any():
            given = {"cores": f"{VM_CORES:g}", "clock": f"{CLOCK / 1e9:g} GHz", "memory": f"{VM_MEMORY / 1e9:g} GB"}
            text = f"the trace does not have it for every machine; {given[name]} is taken where it does not"
            notices.append(Notice("note", path, None, name, text))
    cores, clock, memory = _sizes(traces)
    need, group = np.unique(np.stack([cores * clock, memory], axis=1), axis=0, return_inverse=True)
    group = group.reshape(-1)
    each = _cores_of_host(float(need[:, 0].max()))
    count = hosts or math.ceil((cores * clock).sum() / (FILLED * each * CLOCK)) + 1
    if count > MOST_HOSTS:
        raise ScenarioError(
            Problem(f"{traces.vms} machines would need {count} hosts", file=path, hint="take fewer with --vms")
        )
    blocks, beside = [], {}
    for number, (cpu, ram) in enumerate(need):
        rows = np.flatnonzero(group == number)
        name = f"traces-{number + 1}.parquet" if len(need) > 1 else "traces.parquet"
        blocks.append(
            f"      size-{number + 1}: {{count: {len(rows)}, cpu: {cpu / 1e9:.6g} GHz, ram: {ram / 1e6:.6g} MB, "
            f"traces: {{path: {name}}}}}\n"
        )
        beside[name] = partial(_write, traces, rows)
    duration = traces.periods * traces.period
    width = len(str(count))
    memory_each = max(MEMORY, math.ceil(memory.sum() / 2**30 / count * 1.5))
    text = (
        f"{head(source, f'{traces.vms} virtual machines', count, duration, traces.period)}"
        f"adapters:\n  datacentre:\n    period: {traces.period:.10g} s\n    machines:\n{''.join(blocks)}"
        "    detector: lrr\n    selector: mmt\n    safety: 1.2\n\n"
        f"{servers(each, memory_each)}"
        "nodes:\n"
        + "".join(f"  server-{i + 1:0{width}}: {{kind: server, at: [{i} m, 0 m, 0 m]}}\n" for i in range(count))
    )
    known = traces.utilisation[~unknown].astype(np.float64)
    facts = {
        "machines": traces.vms,
        "periods": traces.periods,
        "hosts": count,
        "mean_utilisation": float(known.mean()),
    }
    return Imported(text, tuple(notices), beside, facts)


def head(source: str, what: str, hosts: int, duration: float, step: float) -> str:
    """The beginning of a scenario about a trace; times in s."""
    return (
        "apiVersion: cosim/v1\nkind: Scenario\n"
        f"name: {source}\ntitle: {what} of a {source} trace on {hosts} hosts\n\n"
        f"run: {{duration: {duration:.10g} s, step: {step:.10g} s, seed: 1}}\n\n"
    )


def servers(cores: int, memory: int) -> str:
    """The kind of node that hosts are of; memory in GiB."""
    return (
        f"kinds:\n  server:\n    tier: cloud\n    cpu: {cores} x {CLOCK / 1e9:g} GHz\n    memory: {memory} GiB\n"
        "    power: {idle: 90 W, max: 220 W, source: plausible values for a server of that size}\n\n"
    )


def _cores_of_host(largest: float) -> int:
    """Cores of a host that a machine of `largest` Hz leaves room on."""
    return max(CORES, math.ceil(largest / (FILLED * CLOCK)))


def _sizes(traces: UtilisationTraces) -> tuple[Any, Any, Any]:
    """Cores, Hz per core and B of each machine, with defaults for missing values; rounded so that groups form."""

    def known(values: Any, other: float) -> Any:  # noqa: ANN401 - an array or None
        return np.full(traces.vms, other) if values is None else np.where(np.isnan(values), other, values)

    clock = np.round(known(traces.clock, CLOCK) / 1e7) * 1e7  # to 10 MHz
    memory = np.maximum(np.round(known(traces.memory, VM_MEMORY) / 1e6), 1.0) * 1e6
    return known(traces.cores, VM_CORES), np.maximum(clock, 1e7), memory


def _write(traces: UtilisationTraces, rows: Any, path: Path) -> None:  # noqa: ANN401 - an array of indices
    columns = {traces.ids[row]: np.nan_to_num(traces.utilisation[row], nan=0.0) for row in rows}
    parquet.write_table(pa.table(columns), path, compression="zstd")
