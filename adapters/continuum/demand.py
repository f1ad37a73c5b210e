"""What a scene says about tasks beyond their laws: graphs, traces, agreements, and tariffs of energy."""

from __future__ import annotations

import csv
import importlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.continuum import agreement
from cosim.continuum.billing import Rates
from cosim.continuum.price import Series, read_series, read_text
from cosim.continuum.system import Stage, Trace
from cosim.errors import Problem, ScenarioError
from cosim.plan import entities as plan
from cosim.plan.entities import Agreement, Law, Node, Scene, Workload
from cosim.telemetry.signals import ACCELERATORS

LawOf = Callable[[Law], tuple[int, float, float]]

_PER_KWH = 1 / 3.6e6
_COLUMNS = ("time", "input", "output", "work")  # s, B, B, cycles


def graph(load: Workload, law: LawOf) -> tuple[Stage, ...]:
    """The stages of a workload as the engine wants them."""
    return tuple(
        Stage(
            law(stage.work), law(stage.output), stage.after, stage.pinned,
            ACCELERATORS.index(stage.accelerator) if stage.accelerator else -1, law(stage.operations),
        )
        for stage in load.graph
    )  # fmt: skip


def _rule(name: str, load: str) -> str | agreement.Rule:
    if name in agreement.RULES:
        return name
    module, _, attribute = name.partition(":")
    at = f"workloads.{load}.sla.per"
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ScenarioError(Problem(f"rule '{name}' cannot be imported: {error}", path=at)) from error
    if not callable(found):
        raise ScenarioError(Problem(f"rule '{name}' is a {type(found).__name__}, not a function", path=at))
    rule: agreement.Rule = found
    return rule


def sla(given: Agreement | None, load: str) -> agreement.Agreement | None:
    """The agreement of a workload. Raises `ScenarioError` when its rule cannot be imported."""
    if given is None:
        return None
    return agreement.Agreement(given.response, given.target, given.period, given.penalty, _rule(given.rule, load))


def _steps(
    outside: tuple[float, ...], spans: Sequence[tuple[float, float, tuple[float, ...]]], repeat: float, duration: float
) -> list[Series]:
    """A series per value: those of each span (from, to, values) in it, `outside` elsewhere, up to `duration` (s)."""
    changes = {0.0: outside}
    for lap in range(math.ceil(duration / repeat) + 1 if repeat else 1):
        for begin, end, values in spans:
            changes[lap * repeat + begin] = values
            changes.setdefault(lap * repeat + end, outside)
    since = np.array(sorted(changes))
    table = np.array([changes[time] for time in sorted(changes)])
    return [Series(since, column) for column in table.T]


def rates(scene: Scene, root: Path, duration: float) -> tuple[Rates, ...]:
    """The tariffs of a scene. Raises `ScenarioError` for a file that holds no series."""
    found = []
    for tariff in scene.tariffs:
        spans = [(begin, end, (*rest, float(k))) for k, (begin, end, *rest) in enumerate(tariff.windows)]
        price, carbon, window = _steps((tariff.price, tariff.carbon, -1.0), spans, tariff.repeat, duration)
        shares = [(begin, end, (share,)) for begin, end, share in tariff.green]
        (green,) = _steps((0.0,), shares, tariff.repeat, duration)
        try:
            if tariff.prices:
                price = read_series(root / tariff.prices, tariff.every, _PER_KWH)
            if tariff.carbons:
                carbon = read_series(root / tariff.carbons, tariff.every, _PER_KWH)
        except ValueError as error:
            raise ScenarioError(Problem(str(error), path=f"tariffs.{tariff.name}")) from error
        found.append(Rates(price, carbon, green, tariff.green_price, tariff.green_carbon, window))
    return tuple(found)


def trace(load: Workload, sources: NDArray[np.int64], scene: Scene, root: Path) -> Trace | None:
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
        text = read_text(path)
    except ValueError as error:
        raise wrong(f"cannot be read: {error.__cause__}") from error
    lines = csv.reader(text.splitlines())
    header = [cell.strip() for cell in next(lines, [])]
    unknown = [cell for cell in header if cell not in (*_COLUMNS, "device")]
    if "time" not in header or unknown or len(set(header)) < len(header):
        raise wrong(f"the first line names the columns {header}", 1, "time, and any of device, input, output, work")
    makers: list[int] = []
    rows: list[list[float]] = []
    for number, cells in enumerate(lines, 2):
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
    return Trace(np.array(makers, np.int64), table[:, 0], table[:, 1], table[:, 2], table[:, 3])


def _lacking(stage: plan.Stage, node: Node) -> str:
    """What the node would need to run the stage, "" for nothing."""
    if node.cores == 0:
        return "cpu"
    kinds = {part.kind for part in node.accelerators}
    return stage.accelerator if stage.accelerator and stage.accelerator not in kinds else ""


def problems(scene: Scene) -> list[Problem]:
    """Devices that cannot run the stages that are theirs."""
    found = []
    for load in scene.workloads:
        pinned = [stage for stage in load.graph if stage.pinned]
        if not pinned:
            continue
        slots = [(part.first, part.first + part.count) for part in load.sources]
        static = (node for k, node in enumerate(scene.nodes) if any(a <= k < b for a, b in slots))
        fleets = (fleet.template for fleet in scene.fleets if any(a <= fleet.first < b for a, b in slots))
        makers = (*static, *fleets)
        lacks = ((stage, node, what) for stage in pinned for node in makers if (what := _lacking(stage, node)))
        first = next(lacks, None)
        if first is not None:
            stage, node, what = first
            message = f"stage '{stage.name}' runs on the device, but source '{node.id}' has no {what}"
            path = f"workloads.{load.name}.graph.{stage.name}.where"
            found.append(Problem(message, path=path, hint=f"give it a {what}, or write 'where: any'"))
    return found
