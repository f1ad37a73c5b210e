"""Alibaba cluster data 2017 and 2018: batch tasks; 2018: usage of machines and of containers, a cluster's aggregate.

The tables have no header; CPU and memory are in percent, time in s. Samples come about every 10 s per
machine and are averaged by period. Published with Guo et al., IWQoS 2019, and Tian et al., SoCC 2019;
2017: github.com/alibaba/clusterdata, cluster-trace-v2017.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cosim.contract.delimited import StrPath, fault, header
from cosim.contract.records import Floats
from cosim.extensions.traces.google import parts
from cosim.extensions.traces.grid import Grid
from cosim.extensions.traces.model import TaskTrace, UtilisationTraces
from cosim.extensions.traces.table import LATEST, TraceColumn, blocks, percent, whole

PERIOD = 300.0  # s
AGGREGATE_PERIOD = 30.0  # s

MACHINES = (
    "machine", "time", "cpu", "memory", "memory_bandwidth", "misses", "net_in", "net_out", "disk_io",
)  # fmt: skip
CONTAINERS = (
    "container", "machine", "time", "cpu", "memory", "cycles_per_instruction", "memory_bandwidth", "misses",
    "net_in", "net_out", "disk_io",
)  # fmt: skip
TASKS = (
    "task", "instances", "job", "type", "status", "begin", "end", "plan_cpu", "plan_memory",
)  # fmt: skip
TASKS_2017 = (
    "begin", "end", "job", "task", "instances", "status", "plan_cpu", "plan_memory",
)  # fmt: skip
_LEAST = 10.0  # hundredths of a core that any task of the first release of 2017 plans; later ones count in cores


def read_tasks(source: StrPath, *, tasks: int | None = None) -> TaskTrace:
    """`batch_task`: arrival is the start (2017: the creation), cores are those planned, of all instances together.

    Tasks that have not terminated, or that end before they start, have no duration; those that begin at 0
    or before are not within the trace, and are left out. Memory is left out, too: the publishers give it
    in shares of an unknown size. CPU is in hundredths of a core, in later releases of 2017 in cores. The
    table of 2017 has 8 columns, that of 2018 has 9. Ids are `JOB-TASK`. At most `tasks` are kept.
    """
    first = header(parts(source)[0])
    names = TASKS_2017 if len(first) == len(TASKS_2017) else TASKS
    wanted = (
        TraceColumn("task", "text"), TraceColumn("job", "text"), TraceColumn("status", "text"),
        TraceColumn("begin", at_most=LATEST), TraceColumn("end", optional=True),
        TraceColumn("instances", optional=True, at_least=0.0), TraceColumn("plan_cpu", optional=True, at_least=0.0),
    )  # fmt: skip
    ids: list[str] = []
    columns: dict[str, list[Floats]] = {name: [] for name in ("begin", "duration", "instances", "plan_cpu")}
    for path in parts(source):
        for block in blocks(path, wanted, names=names):
            task, job = (
                [block.words[name][k] for k in block.columns[name].tolist()] for name in ("task", "job")
            )  # fmt: skip
            ids.extend(f"{j}-{t}" for j, t in zip(job, task, strict=True))
            over = np.array([word == "Terminated" for word in block.words["status"]])[block.columns["status"]]
            span = block.columns["end"] - block.columns["begin"]
            columns["begin"].append(block.columns["begin"])
            columns["duration"].append(np.where(over & (span >= 0.0), span, np.nan))
            columns["instances"].append(np.nan_to_num(block.columns["instances"], nan=1.0))
            columns["plan_cpu"].append(block.columns["plan_cpu"])
        if tasks is not None and len(ids) >= tasks:
            break
    joined = {name: np.concatenate(part) for name, part in columns.items()}
    planned = joined["plan_cpu"]
    hundredths = names is TASKS or not np.any(planned < _LEAST)
    order = np.argsort(joined["begin"], kind="stable")
    before = int((joined["begin"] <= 0.0).sum())
    order = order[joined["begin"][order] > 0.0][:tasks]
    if not len(order):
        raise fault(source, "no task begins within the trace: times of 0 and below lie outside")
    start = float(joined["begin"][order[0]])
    unknown = np.full(len(order), np.nan)
    return TaskTrace(
        arrival=joined["begin"][order] - start, duration=joined["duration"][order],
        cores=(joined["instances"] * planned * (0.01 if hundredths else 1.0))[order],
        memory=unknown, work=unknown, ids=tuple(ids[k] for k in order), start=start,
        left_out=(f"{before} tasks begin at 0 or before, outside the trace: they are left out",) if before else (),
    )  # fmt: skip


def read_machines(
    source: StrPath, *, period: float = PERIOD, vms: int | None = None, periods: int | None = None
) -> UtilisationTraces:
    """`machine_usage`: one trace per machine."""
    return _read(source, MACHINES, "machine", period, vms, periods)


def read_containers(
    source: StrPath, *, period: float = PERIOD, vms: int | None = None, periods: int | None = None
) -> UtilisationTraces:
    """`container_usage`: one trace per container, of the CPU that it requested (more counts as full)."""
    return _read(source, CONTAINERS, "container", period, vms, periods)


def read_aggregate(path: StrPath, *, period: float = AGGREGATE_PERIOD) -> UtilisationTraces:
    """`cpu_util_percent, mem_util_percent, ...` of a cluster, one row per 30 s: a single trace."""
    read = whole(path, (percent("cpu_util_percent"), percent("mem_util_percent")))
    cpu, memory = ((values[None, :] * 0.01).astype(np.float32) for values in read.values())
    return UtilisationTraces((Path(path).name.split(".")[0],), cpu, period, memory_use=memory)


def _read(
    source: StrPath, names: tuple[str, ...], who: str, period: float, vms: int | None, periods: int | None
) -> UtilisationTraces:
    wanted = (TraceColumn(who, "text"), TraceColumn("time", at_least=0.0), TraceColumn("cpu", optional=True),
              TraceColumn("memory", optional=True))  # fmt: skip
    grid, memory = Grid(period, vms=vms, periods=periods), Grid(period, vms=vms, periods=periods)
    for path in parts(source):
        for block in blocks(path, wanted, names=names):
            row = grid.rows(block.words[who], block.columns[who])
            # The publishers write -1 and 101 for readings that failed; a container may use more than it asked for.
            cpu, held = block.columns["cpu"], block.columns["memory"]
            failed = (cpu < 0.0) | ((cpu > 100.0) & (who == "machine"))
            grid.add(row, block.columns["time"], np.where(failed, np.nan, np.minimum(cpu * 0.01, 1.0)))
            good = (held >= 0.0) & (held <= 100.0)
            memory.add(
                memory.rows(block.words[who], block.columns[who]),
                block.columns["time"],
                np.where(good, held * 0.01, np.nan),
            )
    if grid.empty:
        raise fault(source, "holds no usage")
    use, held = grid.mean(), memory.mean()
    return UtilisationTraces(
        grid.ids, use, period, peak=grid.peak(), memory_use=held if held.shape == use.shape else None
    )
