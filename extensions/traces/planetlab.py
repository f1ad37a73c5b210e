"""PlanetLab CoMon: CPU utilisation of virtual machines, one value per 5 min for a day.

The ten days that come with CloudSim hold one file per machine with 288 lines of whole percent; other
sets of that form hold fractions. The packed table has one row per machine: `vm`, then `t000`, `t001`, ...
Park and Pai, SIGOPS Operating Systems Review 40(1), 2006; the days: Beloglazov and Buyya, Concurrency and
Computation 24(13), 2012.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from cosim.contract.delimited import StrPath, content, fault, records
from cosim.contract.records import Floats
from cosim.extensions.traces.model import UtilisationTraces

PERIOD = 300.0  # s


def read(source: StrPath, *, full: float = 100.0, vms: int | None = None) -> UtilisationTraces:
    """A folder of files, or one packed table; `full` is the value of a machine fully used."""
    if Path(source).is_dir():
        return read_folder(source, full=full, vms=vms)
    return read_table(source, full=full, vms=vms)


def read_folder(folder: StrPath, *, full: float = 100.0, vms: int | None = None) -> UtilisationTraces:
    """One file per machine, one value per line; files in the order of their names."""
    files = sorted(path for path in Path(folder).iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise fault(folder, "holds no files", hint="one file per machine is needed")
    rows: list[Floats] = []
    for path in files[:vms]:
        lines = enumerate(content(path).splitlines(), 1)
        values = _values(path, ((line, text.strip()) for line, text in lines if text.strip()), full)
        if rows and len(values) != len(rows[0]):
            raise fault(path, f"has {len(values)} values, {files[0].name} has {len(rows[0])}")
        rows.append(values)
    return _traces(folder, [path.name.removesuffix(".gz") for path in files[:vms]], rows, full)


def read_table(path: StrPath, *, full: float = 100.0, vms: int | None = None) -> UtilisationTraces:
    """The packed table: one row per machine."""
    ids: list[str] = []
    rows: list[Floats] = []
    width = 0
    for line, cells in records(content(path), path):
        if not width:
            if cells[:1] != ["vm"] or len(cells) < 2:
                raise fault(path, "has no header 'vm,t000,t001,...'", line=1)
            width = len(cells)
            continue
        if len(cells) != width:
            raise fault(path, f"has {len(cells)} cells, the header has {width}", line=line)
        if vms is not None and len(rows) == vms:
            break
        ids.append(cells[0])
        rows.append(_values(path, ((line, cell) for cell in cells[1:]), full))
    return _traces(path, ids, rows, full)


def _values(path: StrPath, cells: Iterable[tuple[int, str]], full: float) -> Floats:
    values: list[float] = []
    for line, cell in cells:
        try:
            value = float(cell)
        except ValueError:
            raise fault(path, f"'{cell[:40]}' is not a number", line=line) from None
        if not 0.0 <= value <= full:
            hint = "give the value of a fully used machine" if value <= 100.0 else ""
            raise fault(path, f"a utilisation of {value:g} is not in 0..{full:g}", line=line, hint=hint)
        values.append(value)
    return np.array(values)


def _traces(source: StrPath, ids: list[str], rows: list[Floats], full: float) -> UtilisationTraces:
    if not rows or not len(rows[0]):
        raise fault(source, "holds no values")
    utilisation = (np.array(rows) / full).astype(np.float32)
    try:
        return UtilisationTraces(tuple(ids), utilisation, PERIOD)
    except ValueError as error:
        raise fault(source, str(error)) from None
