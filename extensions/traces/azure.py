"""Azure public datasets: VM readings V2, the aggregate of a region, requests to language models, functions.

`vmtable` and `vm_cpu_readings` have no header; CPU is in percent of the VM, time in s, readings every
300 s. Cortez et al., SOSP 2017. Requests of 2023 have arrival and numbers of tokens: Patel et al.
(Splitwise), ISCA 2024. Invocations of functions of 2021 have end and duration in s.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute

from cosim.contract.delimited import StrPath, fault, line_of
from cosim.contract.records import Floats
from cosim.extensions.traces.google import parts
from cosim.extensions.traces.grid import Grid
from cosim.extensions.traces.model import TaskTrace, UtilisationTraces
from cosim.extensions.traces.table import LATEST, TraceColumn, blocks, percent, whole

PERIOD = 300.0  # s
_GB = 1e9

VMTABLE = (
    "vm", "subscription", "deployment", "created", "deleted", "max_cpu", "average_cpu", "p95_max_cpu", "category",
    "cores", "memory",
)  # fmt: skip
READINGS = ("time", "vm", "min_cpu", "max_cpu", "average_cpu")


def read_usage(
    readings: StrPath,
    vmtable: StrPath | None = None,
    *,
    period: float = PERIOD,
    vms: int | None = None,
    periods: int | None = None,
) -> UtilisationTraces:
    """`vm_cpu_readings` (a file or a folder of them); cores and memory from the VM table, if given."""
    wanted = (TraceColumn("time", at_least=0.0), TraceColumn("vm", "text"), percent("max_cpu"),
              percent("average_cpu"))  # fmt: skip
    grid = Grid(period, vms=vms, periods=periods)
    for path in parts(readings):
        for block in blocks(path, wanted, names=READINGS):
            row = grid.rows(block.words["vm"], block.columns["vm"])
            mean, peak = block.columns["average_cpu"] * 0.01, block.columns["max_cpu"] * 0.01
            grid.add(row, block.columns["time"], mean, peak=np.maximum(peak, mean))
    if grid.empty:
        raise fault(readings, "holds no readings")
    cores = memory = None
    if vmtable is not None:
        cores, memory = _sizes(vmtable, grid.index)
    return UtilisationTraces(grid.ids, grid.mean(), period, peak=grid.peak(), cores=cores, memory=memory)


def read_tasks(vmtable: StrPath, *, tasks: int | None = None) -> TaskTrace:
    """`vmtable`: each VM as a task from creation to deletion; VMs there at time 0 arrive then."""
    wanted = (
        TraceColumn("vm", "text"), TraceColumn("created", at_least=0.0, at_most=LATEST),
        TraceColumn("deleted", at_least=0.0),
        percent("average_cpu"), TraceColumn("cores", "text"), TraceColumn("memory", "text"),
    )  # fmt: skip
    ids: list[str] = []
    columns: dict[str, list[Floats]] = {name: [] for name in ("created", "deleted", "average_cpu", "cores", "memory")}
    for block in blocks(vmtable, wanted, names=VMTABLE):
        ids.extend(block.words["vm"][i] for i in block.columns["vm"])
        for name in ("created", "deleted", "average_cpu"):
            columns[name].append(block.columns[name])
        for name in ("cores", "memory"):
            values = np.array([_bucket(vmtable, name, word) for word in block.words[name]])
            columns[name].append(values[block.columns[name]])
        if tasks is not None and len(ids) >= tasks:
            break
    joined = {name: np.concatenate(part)[:tasks] for name, part in columns.items()}
    early = joined["deleted"] < joined["created"]
    if early.any():
        row = int(np.argmax(early))
        raise fault(vmtable, f"VM '{ids[row]}' is deleted before it is created", line=line_of(vmtable, row, 0))
    order = np.argsort(joined["created"], kind="stable")
    start = float(joined["created"][order[0]])
    return TaskTrace(
        arrival=joined["created"][order] - start,
        duration=(joined["deleted"] - joined["created"])[order],
        cores=joined["cores"][order],
        memory=joined["memory"][order] * _GB,
        work=np.full(len(order), np.nan),
        ids=tuple(ids[i] for i in order),
        start=start,
        extra={"average_cpu": joined["average_cpu"][order] * 0.01},
    )


def read_aggregate(path: StrPath) -> tuple[Floats, Floats]:
    """CPU in cores and assigned memory in B of all VMs together, (periods of 300 s,) each."""
    wanted = (TraceColumn("cpu_usage", at_least=0.0), TraceColumn("assigned_mem", at_least=0.0))
    read = whole(path, wanted)
    return read["cpu_usage"] * 0.01, read["assigned_mem"] * _GB


def read_requests(
    path: StrPath, *, work_per_context_token: float = np.nan, work_per_generated_token: float = np.nan
) -> TaskTrace:
    """Requests to a language model; their work (cycles) is that of their tokens, NaN where none is given."""
    count = TraceColumn("ContextTokens", at_least=0.0), TraceColumn("GeneratedTokens", at_least=0.0)
    read = whole(path, (TraceColumn("TIMESTAMP", "text"), *count))
    time, tokens, made = _moments(path, read["TIMESTAMP"]), read["ContextTokens"], read["GeneratedTokens"]
    order = np.argsort(time, kind="stable")
    unknown = np.full(len(time), np.nan)
    return TaskTrace(
        arrival=time[order] - time[order[0]],
        duration=unknown,
        cores=unknown,
        memory=unknown,
        work=tokens[order] * work_per_context_token + made[order] * work_per_generated_token,
        start=float(time[order[0]]),
        extra={"context_tokens": tokens[order], "generated_tokens": made[order]},
    )


def read_invocations(path: StrPath, *, tasks: int | None = None) -> TaskTrace:
    """Invocations of functions (2021): arrival is end minus duration; each has a core meanwhile.

    At most `tasks` are kept, the first to arrive of those that are read before the bound is reached.
    Zhang et al., SOSP 2021.
    """
    ends: list[Floats] = []
    spans: list[Floats] = []
    for block in blocks(
        path, (TraceColumn("end_timestamp", at_least=0.0, at_most=LATEST), TraceColumn("duration", at_least=0.0))
    ):
        ends.append(block.columns["end_timestamp"])
        spans.append(block.columns["duration"])
        if tasks is not None and sum(map(len, ends)) >= tasks:
            break
    span = np.concatenate(spans)
    begin = np.concatenate(ends) - span
    order = np.argsort(begin, kind="stable")[:tasks]
    unknown = np.full(len(order), np.nan)
    start = float(begin[order[0]])
    return TaskTrace(
        arrival=begin[order] - start, duration=span[order], cores=np.ones(len(order)), memory=unknown, work=unknown,
        start=start,
    )  # fmt: skip


def _moments(path: StrPath, stamps: list[str]) -> Floats:
    """Stamps of up to 7 digits after the second, as s since 1970."""
    seconds = [stamp[:19] for stamp in stamps]
    try:
        parsed = pa.compute.strptime(pa.array(seconds), format="%Y-%m-%d %H:%M:%S", unit="s")
        part = [float("0" + stamp[19:]) if stamp[19:] else 0.0 for stamp in stamps]
    except (pa.ArrowInvalid, ValueError):
        raise fault(path, "a TIMESTAMP is not of the form 2023-11-16 18:17:03.9799600") from None
    found: Floats = np.asarray(parsed.cast(pa.int64()).to_numpy(zero_copy_only=False), np.float64)
    return found + np.array(part, np.float64)


def _bucket(path: StrPath, name: str, text: str) -> float:
    """A bucket's number; the open one (`>24`, `>64`) stands for its bound."""
    try:
        value = float(text.removeprefix(">"))
    except ValueError:
        value = -1.0
    if not 0.0 < value < np.inf:
        raise fault(path, f"a {name} bucket is '{text[:40]}', not a number such as 4 or >24")
    return value


def _sizes(vmtable: StrPath, index: dict[str, int]) -> tuple[Floats, Floats]:
    """Cores and memory (B) of the known VMs, NaN for those that are not in the table."""
    cores, memory = np.full(len(index), np.nan), np.full(len(index), np.nan)
    wanted = (TraceColumn("vm", "text"), TraceColumn("cores", "text"), TraceColumn("memory", "text"))
    for block in blocks(vmtable, wanted, names=VMTABLE):
        known = np.array([index.get(word, -1) for word in block.words["vm"]], np.int64)
        row = known[block.columns["vm"]]
        keep = row >= 0
        for name, into, unit in (("cores", cores, 1.0), ("memory", memory, _GB)):
            values = np.array([_bucket(vmtable, name, word) for word in block.words[name]])
            into[row[keep]] = values[block.columns[name][keep]] * unit
    return cores, memory
