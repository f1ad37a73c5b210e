"""GWA-T-12 Bitbrains: VMs of a managed hosting provider, a sample every 5 min for a month.

Raw files hold one VM each, separated by `;` and a tab; their time stamps are in s although the header states ms. The
packed form has `id, timestamp, duration, cpu_count, cpu_usage` and a table of the VMs beside it. Its publishers merged
equal consecutive samples, and gaps look the same, so spans longer than `longest` are treated as unknown. Shen, van Beek
and Iosup, CCGrid 2015.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute

from cosim.contract.delimited import StrPath, fault, header, line_of
from cosim.contract.records import Floats, Ints
from cosim.extensions.traces.grid import Grid
from cosim.extensions.traces.model import UtilisationTraces
from cosim.extensions.traces.table import TraceColumn, blocks, whole

PERIOD = 300.0  # s
LONGEST = 6 * 3600.0  # s
_MHZ, _KB = 1e6, 1024.0

RAW = (
    "Timestamp [ms]", "CPU cores", "CPU capacity provisioned [MHZ]", "CPU usage [MHZ]", "CPU usage [%]",
    "Memory capacity provisioned [KB]", "Memory usage [KB]",
)  # fmt: skip


def read(
    source: StrPath, table: StrPath | None = None, *, period: float = PERIOD, longest: float = LONGEST
) -> UtilisationTraces:
    """A folder of raw files, one raw file, or a packed usage table with the VM table (`..._vms.csv` by default)."""
    source = Path(source)
    if source.is_dir():
        packed = sorted(source.glob("*_usage.csv*"))
        if len(packed) == 1:
            return read_packed(packed[0], table or _beside(packed[0]), period=period, longest=longest)
        files = sorted(path for path in source.iterdir() if path.is_file() and path.suffix in (".csv", ".gz"))
        if not files:
            raise fault(source, "holds no .csv files", hint="one file per VM, or ..._usage.csv and ..._vms.csv")
        return read_raw(files, period=period)
    if header(source)[:2] == ["id", "timestamp"]:
        return read_packed(source, table or _beside(source), period=period, longest=longest)
    return read_raw([source], period=period)


def read_raw(files: list[Path], *, period: float = PERIOD) -> UtilisationTraces:
    """One file per VM; utilisation is usage over provisioned capacity, memory the largest capacity."""
    columns = [TraceColumn(name, at_least=0.0) for name in RAW]
    columns[0] = TraceColumn(RAW[0], at_least=1.0)
    parts: list[dict[str, Floats]] = []
    for path in files:
        # The tab that follows each `;` is white space to the parser of numbers, but not to the header.
        names = [name.strip("\ufeff\t ") for name in header(path, ";")]
        missing = [name for name in RAW if name not in names]
        if missing:
            raise fault(path, f"has no column '{missing[0]}'", line=1, hint="a raw file of GWA-T-12 is needed")
        parts.append(whole(path, columns, delimiter=";", names=names, skip=1))
    start = min(float(part[RAW[0]].min()) for part in parts) - period  # a stamp ends its sample
    grid, memory = Grid(period, start=start), Grid(period, start=start)
    for path, part in zip(files, parts, strict=True):
        words = [path.name.removesuffix(".gz").removesuffix(".csv")]
        row = grid.rows(words, np.zeros(len(part[RAW[0]]), np.int64))
        middle = part[RAW[0]] - 0.5 * period
        grid.add(row, middle, _share(part[RAW[3]], part[RAW[2]]))
        memory.add(memory.rows(words, np.zeros(len(row), np.int64)), middle, _share(part[RAW[6]], part[RAW[5]]))
    cores = np.array([part[RAW[1]].max() for part in parts])
    capacity = np.array([part[RAW[2]].max() for part in parts])
    return UtilisationTraces(
        grid.ids,
        grid.mean(),
        period,
        start,
        memory_use=memory.mean(),
        cores=np.where(cores > 0, cores, np.nan),
        clock=np.where((cores > 0) & (capacity > 0), capacity * _MHZ / np.maximum(cores, 1.0), np.nan),
        memory=np.array([part[RAW[5]].max() * _KB or np.nan for part in parts]),
    )


def read_packed(
    usage: StrPath, table: StrPath, *, period: float = PERIOD, longest: float = LONGEST
) -> UtilisationTraces:
    """The packed tables; memory is left out, as its unit is not stated."""
    ids, cores, capacity = _vms(table)
    index = {name: row for row, name in enumerate(ids)}
    wanted = (TraceColumn("id", "text"), TraceColumn("timestamp", "text"), TraceColumn("duration", at_least=1.0),
              TraceColumn("cpu_usage", at_least=0.0))  # fmt: skip
    rows: list[Ints] = []
    ends: list[Floats] = []
    spans: list[Floats] = []
    used: list[Floats] = []
    for block in blocks(usage, wanted):
        known = np.array([index.get(word, -1) for word in block.words["id"]], np.int64)
        row = known[block.columns["id"]]
        if (row < 0).any():
            at = int(np.argmax(row < 0))
            name = block.words["id"][block.columns["id"][at]]
            raise fault(usage, f"VM '{name}' is not in {Path(table).name}", line=line_of(usage, block.first + at, 1))
        stamps = _seconds(usage, block.words["timestamp"])
        rows.append(row)
        ends.append(stamps[block.columns["timestamp"]])
        spans.append(block.columns["duration"] * 1e-3)
        used.append(block.columns["cpu_usage"])
    row, end, span = np.concatenate(rows), np.concatenate(ends), np.concatenate(spans)
    share = _share(np.concatenate(used), capacity[row])
    start = float(end.min()) - period
    grid = Grid(period, start=start)
    grid.index.update(index)
    keep = span <= longest
    _spread(grid, row[keep], end[keep] - span[keep], end[keep], share[keep])
    if grid.empty:
        raise fault(usage, f"has no span of at most {longest:g} s")
    clock = capacity * _MHZ / np.maximum(cores, 1.0)
    return UtilisationTraces(ids, grid.mean(), period, start, cores=cores, clock=clock)


def _vms(table: StrPath) -> tuple[tuple[str, ...], Floats, Floats]:
    """Ids, cores and capacity in MHz over all cores of the VM table."""
    wanted = (
        TraceColumn("id", "text"),
        TraceColumn("cpu_count", at_least=1.0),
        TraceColumn("cpu_capacity", at_least=1e-9),
    )
    read = whole(table, wanted)
    if len(set(read["id"])) != len(read["id"]):
        raise fault(table, "names a VM twice")
    return tuple(read["id"]), read["cpu_count"], read["cpu_capacity"]


def _beside(usage: Path) -> Path:
    return usage.with_name(usage.name.split("_usage")[0] + "_vms.csv")


def _share(used: Floats, capacity: Floats) -> Floats:
    """Use as a share of capacity; the publishers' use exceeds it by up to 6 %, which counts as full."""
    return np.minimum(np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0), 1.0)


def _seconds(path: StrPath, stamps: list[str]) -> Floats:
    """ISO time stamps as s since 1970."""
    try:
        parsed = pa.compute.strptime(pa.array(stamps), format="%Y-%m-%dT%H:%M:%SZ", unit="s")
    except pa.ArrowInvalid:
        bad = next((stamp for stamp in stamps if len(stamp) != 20), stamps[0] if stamps else "")
        raise fault(path, f"a time stamp is not of the form 2013-08-12T13:35:46Z, such as '{bad[:40]}'") from None
    return np.asarray(parsed.cast(pa.int64()).to_numpy(zero_copy_only=False), np.float64)


def _spread(grid: Grid, row: Ints, begin: Floats, end: Floats, value: Floats) -> None:
    """Spans over the periods that they touch, each weighted by the seconds in it."""
    low = np.floor((begin - grid.start) / grid.period).astype(np.int64)
    high = np.ceil((end - grid.start) / grid.period).astype(np.int64)
    touched = high - low
    which = np.repeat(np.arange(len(row)), touched)
    column = np.arange(len(which)) - np.repeat(np.cumsum(touched) - touched, touched) + low[which]
    left = grid.start + column * grid.period
    inside = np.minimum(left + grid.period, end[which]) - np.maximum(left, begin[which])
    keep = (inside > 0.0) & (column >= 0)
    grid.add(row[which][keep], left[keep] + 0.5 * grid.period, value[which][keep], weight=inside[keep])
