"""What a scene defines for tasks beyond their laws: graphs, traces, agreements, and energy tariffs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.contract.delimited import CellsError, content, records
from cosim.contract.entities import Agreement, AgreementQuantities, Scene, Workload
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.functions import function
from cosim.contract.laws import Law
from cosim.contract.quantity import carried
from cosim.contract.signals import ACCELERATORS
from cosim.engine.continuum import agreement
from cosim.engine.continuum.system import JobStage, WorkloadTrace

LawOf = Callable[[Law], tuple[int, float, float]]

_COLUMNS = ("time", "input", "output", "work")  # s, B, B, cycles


def graph(load: Workload, law: LawOf) -> tuple[JobStage, ...]:
    """The stages of a workload as the engine wants them."""
    return tuple(
        JobStage(
            law(stage.work), law(stage.output), stage.after, stage.pinned,
            ACCELERATORS.index(stage.accelerator) if stage.accelerator else -1, law(stage.operations),
            (stage.work.share, stage.work.times),
        )
        for stage in load.graph
    )  # fmt: skip


def sla(given: Agreement | None) -> agreement.WorkloadAgreement | None:
    """The agreement of a workload."""
    if given is None:
        return None
    rule = given.rule if given.rule in agreement.RULES else function(given.rule)
    return agreement.WorkloadAgreement(rule=rule, **carried(given, AgreementQuantities))


def trace(load: Workload, sources: NDArray[np.int64], scene: Scene, root: Path) -> WorkloadTrace | None:
    """The tasks of a workload that follows a file; `sources` are the slots of its devices.

    The file is a table (CSV, .gz too) with the columns time (s), and as far as it has them device (a
    node's name), input and output (B) and work (cycles). Rows without a device are dealt to the
    devices in turn. Raises `ScenarioError` that names file and line.
    """
    if load.arrivals != "trace":
        return None
    path = root / load.trace

    def wrong(message: str, line: int | None = None, hint: str = "") -> ScenarioError:
        return ScenarioError(Problem(message, path=f"workloads.{load.name}.arrivals", file=path, line=line, hint=hint))

    if np.any(sources >= len(scene.nodes)):
        raise wrong("a fleet cannot follow a trace: its members come and go", hint="name static nodes in 'from'")
    names = {scene.nodes[slot].id: int(slot) for slot in sources}
    try:
        lines = list(records(content(path), path))
    except CellsError as error:
        raise wrong(error.problems[0].message, error.problems[0].line) from error
    header = [cell.strip() for cell in lines[0][1]] if lines else []
    unknown = [cell for cell in header if cell not in (*_COLUMNS, "device")]
    if "time" not in header or unknown or len(set(header)) < len(header):
        raise wrong(f"the first line names the columns {header}", 1, "time, and any of device, input, output, work")
    makers: list[int] = []
    rows: list[list[float]] = []
    for number, cells in lines[1:]:
        if not "".join(cells).strip():
            continue
        if len(cells) != len(header):
            raise wrong(f"{len(cells)} values in {len(header)} columns", number)
        given = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        device = given.pop("device", "")
        if device and device not in names:
            raise wrong(f"'{device}' does not make workload '{load.name}'", number, "the names stand in 'from'")
        makers.append(names[device] if device else int(sources[len(makers) % len(sources)]))
        try:
            row = [float(given[name]) if given.get(name) else math.nan for name in _COLUMNS]
        except ValueError as error:
            raise wrong(str(error), number) from None
        if not 0.0 <= row[0] < math.inf or any(value < 0.0 or math.isinf(value) for value in row):
            raise wrong("a time is missing, or a value is negative or infinite", number)
        rows.append(row)
    table = np.array(rows, np.float64).reshape(-1, 4)
    return WorkloadTrace(np.array(makers, np.int64), table[:, 0], table[:, 1], table[:, 2], table[:, 3])
