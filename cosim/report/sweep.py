"""The texts and numbers of a sweep's page.

A sweep folder holds run folders at any depth up to four. It may also hold `*.jsonl` files with one
object per finished run:
`{"key", "run": folder relative to the sweep, "parameters": {path: value}, "seed", "status", "error"}`.
These files are the only record of runs that failed before they had a folder. Later lines with the same key
or about the same run replace earlier ones. Parameters that no line lists are found by comparing the resolved
scenarios.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cosim.contract.errors import RunError
from cosim.contract.seals import SealedLines
from cosim.report.charts import intervals
from cosim.report.compare import entries, unit_for
from cosim.report.folder import Folder
from cosim.report.groups import SEED, ReportGroup, configuration, named
from cosim.report.svg import PALETTE, Chart
from cosim.report.tables import ReportTable, TableCell, Tile, amount, figures, word
from cosim.report.text import entry as shown
from cosim.report.text import estimated, finite, in_order, label, number, quantity
from cosim.results.load import parameters_of
from cosim.results.replications import differing, estimate

FIGURES = 6
PARAMETERS = 4
_DEPTH = 4


@dataclass
class SweepRun:
    """One run of the sweep: with a folder, or only with the line that gives the reason why it has none."""

    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    seed: str = ""
    status: str = "failed"
    error: str = ""
    run: Folder | None = None

    def value(self, key: str) -> float | None:
        return finite(figures(self.run).get(key, {}).get("value")) if self.run else None


def collect(folder: Path) -> list[SweepRun]:
    """All runs of a sweep, in the order of their names. Raises `RunError` when there are none, `DamagedError`."""
    parameters_of(folder)  # so that its list is whole
    members: dict[str, SweepRun] = {}
    for path in sorted(_run_folders(folder, _DEPTH)):
        name = str(path.relative_to(folder))
        try:
            run = Folder(path)
        except RunError as error:
            members[name] = SweepRun(name, error=str(error))
            continue
        fault = run.manifest.get("error") or {}
        members[name] = SweepRun(
            name,
            {},
            str(run.manifest.get("seed")),
            str(run.manifest.get("status")),
            str(fault.get("message") or ""),
            run,
        )
    for line in _latest(folder):
        name = str(line.get("run") or line.get("folder") or "")
        name = name.removeprefix(f"{folder}/")
        entry = name or str(line.get("key") or json.dumps([line.get("parameters"), line.get("seed")], default=str))
        member = members.setdefault(entry, SweepRun(name or "–"))
        member.parameters = dict(line.get("parameters") or {})
        member.seed = str(member.parameters.pop(SEED, line.get("seed", member.seed)))
        fault = line.get("error")
        reported = str(fault.get("message") if isinstance(fault, dict) else fault or "")
        if member.run is None:
            member.status = str(line.get("status") or member.status)
        if reported:  # the sweep knows more than the run, for example that it took too long
            member.error = reported
    if not members:
        raise RunError(f"{folder} holds no run: no manifest.json and no line about a run was found")
    found = list(members.values())
    _discover(found)
    return found


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / "manifest.json").is_file():
        yield folder
    elif depth > 0 and folder.is_dir():
        for inner in folder.iterdir():
            if inner.is_dir() and not inner.is_symlink() and not inner.name.startswith("."):
                yield from _run_folders(inner, depth - 1)


def _lines(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Every object of the folder's `*.jsonl` files; a last line cut short by a crash is left out."""
    for file in sorted(folder.glob("*.jsonl")):
        yield from (line for line, _ in SealedLines(file).read())


def _latest(folder: Path) -> list[Mapping[str, Any]]:
    """The last line about each run; lines without a key stand for themselves."""
    found: dict[str, Mapping[str, Any]] = {}
    for i, line in enumerate(_lines(folder)):
        key = str(line.get("key") or f"line {i}")
        found.pop(key, None)
        found[key] = line
    return list(found.values())


def _discover(members: Sequence[SweepRun]) -> None:
    """Fill in the parameters of runs for which no line lists any: the keys that differ between scenarios."""
    silent = [m for m in members if not m.parameters and m.run]
    settings = [configuration(m.run.resolved) for m in silent if m.run]
    paths = dict.fromkeys(p for s in settings for p in s if p != SEED and not p.startswith("sweep."))
    for path in paths:
        values = [s.get(path) for s in settings]
        if len({str(v) for v in values}) > 1:
            for member, value in zip(silent, values, strict=True):
                member.parameters[path] = value


def parameters(members: Sequence[SweepRun]) -> dict[str, list[Any]]:
    """What varies over the sweep: path -> its values, numbers in order, else as they come."""
    found: dict[str, dict[str, Any]] = {}
    for member in members:
        for path, value in member.parameters.items():
            found.setdefault(path, {}).setdefault(str(value), value)
    out = {}
    for path, by_text in found.items():
        values = in_order(by_text.values())
        if len(values) > 1:
            out[path] = values
    return out


def charts(members: Sequence[SweepRun]) -> list[tuple[str, list[Chart]]]:
    """For each parameter of numbers, the first figures over it; the next parameter gives the colours."""
    known = parameters(members)
    runs = [m.run for m in members if m.run]
    declared = entries(runs)
    keys = [key for key in differing([[{"figures": figures(run)} for run in runs]]) if key in declared]
    out = []
    scaled = [path for path in known if all(number(value) is not None for value in known[path])]
    for path in scaled[:PARAMETERS]:
        color = next((p for p in known if p != path and len(known[p]) <= PALETTE), None)
        rest = [label(p) for p in known if p not in (path, color)]
        note = f"Mean over {', '.join(rest)}, with the 95 % interval over all these runs." if rest else ""
        drawn = []
        for key in keys:
            chart = _chart(members, key, declared[key], path, known[path], color, known.get(color or "", []), note)
            if chart is not None:
                drawn.append(chart)
            if len(drawn) == FIGURES:
                break
        if drawn:
            out.append((path, drawn))
    return out


def _chart(
    members: Sequence[SweepRun],
    key: str,
    entry: Mapping[str, Any],
    path: str,
    values: Sequence[Any],
    color: str | None,
    colors: Sequence[Any],
    note: str,
) -> Chart | None:
    every = [v for m in members if (v := m.value(key)) is not None]
    if len(set(every)) < 2:
        return None
    groups = {}
    for shade in [str(c) for c in colors] or [""]:
        spots = []
        for value in values:
            mine = [
                v
                for m in members
                if str(m.parameters.get(path)) == str(value)
                and (v := m.value(key)) is not None
                and (color is None or str(m.parameters.get(color)) == shade)
            ]
            m = estimate({"value": v, "unit": entry.get("unit")} for v in mine)
            width = m is not None and m.half is not None
            low, high = (m.low, m.high) if m is not None and width else (math.nan, math.nan)
            spots.append((math.nan if m is None else m.mean, low, high))
        groups[shade] = spots
    numbers = [number(v) for v in values]
    units = {str(v).partition(" ")[2] for v in values if isinstance(v, str)}
    to_scale = all(n is not None for n in numbers) and len(units) <= 1
    places: list[float | str] = [n for n in numbers if n is not None] if to_scale else [str(v) for v in values]
    unit = units.pop() if to_scale and units else ""
    short = label(path.rsplit(".", 1)[-1]) + (f" ({unit})" if unit else "")
    return intervals(
        label(key).capitalize(),
        places,
        groups,
        x_title=short,
        y=label(key),
        unit=unit_for(key, dict(entry), every),
        note=note,
    )


def configurations(members: Sequence[SweepRun]) -> list[ReportGroup]:
    """The complete runs by their parameters, with names."""
    known = list(parameters(members))
    found: dict[tuple[str, ...], ReportGroup] = {}
    for member in members:
        if member.run:
            values = {path: str(member.parameters.get(path)) for path in known}
            found.setdefault(tuple(values.values()), ReportGroup("", values)).runs.append(member.run)
    return named(list(found.values()))


def tiles(group: ReportGroup, most: int = 10) -> list[Tile]:
    """Mean and interval of the first figures over replications of one scenario, with the range."""
    out = []
    for key, entry in entries(group.runs).items():
        found, values = group.estimate(key), list(group.by_seed(key).values())
        if found is not None:
            unit = unit_for(key, entry, values)
            spread = f"{quantity(min(values), unit)} to {quantity(max(values), unit)}, {found.runs} runs"
            meaning = str(entry.get("meaning") or "")
            out.append(Tile(label(key), estimated(key, found), repr(found.mean), meaning, spread))
    return out[:most]


def run_table(members: Sequence[SweepRun], most: int = 8) -> ReportTable:
    """Every run with its parameters, status, error and first figures."""
    known = list(parameters(members))
    keys = list(entries([m.run for m in members if m.run]).items())[:most]
    heads = (
        "Run",
        "Status",
        *(label(p.rsplit(".", 1)[-1]) for p in known),
        "Seed",
        *(label(k) for k, _ in keys),
        "Wall",
        "Error",
    )
    rows = tuple(
        (
            replace(word(m.name, 44), href=_report_of(m)),
            TableCell(m.status, m.status, mark="good" if m.status == "complete" else "bad"),
            *(_parameter(m.parameters.get(p)) for p in known),
            TableCell(m.seed, m.seed, number=True),
            *(_value(m, k, e) for k, e in keys),
            amount("", m.run.manifest.get("wall_seconds") if m.run else None, "s"),
            word(m.error, 120),
        )
        for m in members
    )
    return ReportTable("runs", heads, rows)


def _report_of(member: SweepRun) -> str:
    """Address of a run's own page, as seen from the sweep's; "" when there is none."""
    there = member.run is not None and (member.run.path / "report.html").is_file()
    return quote(f"{member.name}/report.html") if there else ""


def _parameter(value: object) -> TableCell:
    text = "–" if value is None else str(value)
    n = number(value)
    return TableCell(text, repr(n) if n is not None else text, number=n is not None)


def _value(member: SweepRun, key: str, entry: Mapping[str, Any]) -> TableCell:
    value = member.value(key)
    mine = {**entry, **figures(member.run).get(key, {})} if member.run else {}
    exact = "" if value is None else repr(value)
    return TableCell(shown(key, mine), exact, exact, True)


def failed(members: Sequence[SweepRun]) -> ReportTable:
    """The runs that did not complete, with the reason."""
    rows = tuple(
        (
            word(m.name, 60),
            word(", ".join(f"{k} = {v}" for k, v in m.parameters.items()), 80),
            word(m.seed),
            TableCell(m.status, mark="bad"),
            word(m.error or "no reason was recorded", 300),
        )
        for m in members
        if m.status != "complete"
    )
    return ReportTable("failed runs", ("Run", "Parameters", "Seed", "Status", "Error"), rows)
