"""Vehicles on the page: the table of engagements, the plan of the tracks, distances and charge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cosim.report.charts import ChartSeries, color, lines
from cosim.report.folder import Folder
from cosim.report.svg import Axis, Canvas, Chart, csv_text
from cosim.report.tables import ReportTable, amount, word
from cosim.report.text import quantity, shorten
from cosim.results.engagements import listed

_WIDTH, _LEFT, _TOP, _MOST = 440.0, 48.0, 26.0, 400.0  # of the plan, as wide as other charts
_POINTS = 3_000  # of one track
_SHOWN = 12  # vehicles
# column -> head, unit
_COLUMNS = {
    "t_command": ("Commanded", "s"),
    "t_engage": ("To contact", "s"),
    "latency": ("Latency", "s"),
    "wait": ("Wait", "s"),
    "t_arm": ("Arming", "s"),
    "t_takeoff": ("Take-off", "s"),
    "t_approach": ("Approach", "s"),
    "distance_command": ("Distance", "m"),
    "t_follow": ("Follow", "s"),
    "error_mean": ("Error, mean", "m"),
    "error_p95": ("95 %", "m"),
    "separation": ("Nearest", "m"),
    "coverage": ("Seen", "m2"),
    "t_return": ("Return", "s"),
    "t_land": ("Landing", "s"),
    "energy": ("Energy", "J"),
    "charge_landing": ("Charge left", "%"),
    "age": ("Age of position", "s"),
}
_MARKS = {"completed": "good", "aborted": "warn", "failed": "bad", "running": ""}


def engagements(run: Folder) -> list[Mapping[str, Any]]:
    """The engagements that the adapters reported at the end of the run."""
    adapters = [adapter for adapter in run.manifest.get("adapters") or [] if isinstance(adapter, dict)]
    return listed({str(adapter.get("name")): adapter.get("summary") or {} for adapter in adapters})


def engagement_table(run: Folder) -> ReportTable:
    """One row per engagement; empty when there were none."""
    rows = []
    for found in engagements(run):
        spent = [float(found[key]) for key in found if key.startswith("energy_") and found[key] is not None]
        values = {**found, "energy": sum(spent) if spent else None}
        if values["charge_landing"] is not None:
            values["charge_landing"] = 100.0 * float(values["charge_landing"])
        outcome = word(found["outcome"])
        rows.append(
            (
                word(found["drone"]),
                word(found["target"]),
                amount("", found["number"], "1"),
                type(outcome)(outcome.text, outcome.sort, outcome.title, False, _MARKS.get(str(found["outcome"]), "")),
                word(found["reason"]),
                *(amount("", values[name], unit) for name, (_, unit) in _COLUMNS.items()),
            )
        )
    heads = ("Drone", "Target", "No.", "Outcome", "Ended by", *(head for head, _ in _COLUMNS.values()))
    note = (
        "To contact: from the command until the drone is at the stand-off point, to stay. Energy: of the whole flight."
    )
    return ReportTable("engagements", heads, tuple(rows), note, "no drone was engaged")


def vehicle_charts(run: Folder) -> list[Chart]:
    """Plan of the tracks, distances between drones and targets, and charge; none without vehicles."""
    if not run.has("vehicle", "mobility"):
        return []
    names = [row[0] for row in run.rows("SELECT DISTINCT node::VARCHAR n FROM vehicle ORDER BY n LIMIT ?", _SHOWN)]
    charts = [plan_view(run, names)]
    pairs = list(dict.fromkeys((str(row["drone"]), str(row["target"])) for row in engagements(run)))[:_SHOWN]
    away = [ChartSeries(f"{drone} to {target}", *_distance(run, drone, target)) for drone, target in pairs]
    if away:
        marks = [(float(row["t_command"]), f"{row['drone']}: engage") for row in engagements(run)]
        charts.append(
            lines(
                "Distance of drones from their targets", away, y="distance", y_unit="m",
                end=run.end, marks=marks, note="Marks: engage commands."
            )
        )  # fmt: skip
    charge = [ChartSeries(name, *_over_time(run, name)) for name in names]
    charts.append(
        lines(
            "Charge of the batteries", charge, y="charge", y_unit="%", end=run.end,
            top=1.0
        )
    )  # fmt: skip
    return charts


def plan_view(run: Folder, names: Sequence[str]) -> Chart:
    """The tracks from above, metres alike in both directions; rings: where contact was made."""
    title = "Tracks from above"
    tracks = [(name, _track(run, name)) for name in names]
    tracks = [(name, track) for name, track in tracks if track]
    if not tracks:
        return Chart(title, empty="no vehicle moved")
    xs, ys = zip(*(point for _, track in tracks for point in track), strict=True)
    west, east, south, north = min(xs), max(xs), min(ys), max(ys)
    air = max(0.04 * max(east - west, north - south), 1.0)
    west, east, south, north = west - air, east + air, south - air, north + air
    wide = _WIDTH - _LEFT - 10.0
    unit = max((east - west) / wide, (north - south) / _MOST)  # m per unit of the drawing
    right, bottom = _LEFT + (east - west) / unit, _TOP + (north - south) / unit
    canvas = Canvas(_WIDTH, bottom + 40.0)
    across, up = Axis(west, east, _LEFT, right, "east", "m"), Axis(south, north, bottom, _TOP, "north", "m")
    canvas.y_axis(up, _LEFT, right)
    canvas.x_axis(across, _TOP, bottom, grid=True)
    for k, (_, track) in enumerate(tracks):
        canvas.line([(across.at(x), up.at(y)) for x, y in track], f"l{color(k)}")
    for row in engagements(run):
        place = _at(run, str(row["target"]), row["t_command"], row["t_engage"])
        if place is not None:
            x, y = across.at(place[0]), up.at(place[1])
            tip = f"{row['drone']}, engagement {row['number']}: contact after {quantity(float(row['t_engage']), 's')}"
            canvas.add("circle", cx=x, cy=y, r=5.0, class_="ax", fill="none")
            canvas.text(x + 7.0, y - 5.0, str(row["number"]))
            canvas.add("circle", cx=x, cy=y, r=9.0, class_="hit", data_tip=tip)
    legend = tuple((f"f{color(k)}", shorten(name, 34)) for k, (name, _) in enumerate(tracks))
    note = "Rings: target where contact was made, with the number of the engagement." if engagements(run) else ""
    data = csv_text(("vehicle", "east (m)", "north (m)"), ((name, x, y) for name, track in tracks for x, y in track))
    return Chart(title, canvas.finish(title), note, legend, csv=data)


def _track(run: Folder, name: str) -> list[tuple[float, float]]:
    rows = run.rows("SELECT x, y FROM mobility WHERE node::VARCHAR = ? AND isfinite(x + y) ORDER BY time", name)
    every = max(1, math.ceil(len(rows) / _POINTS))
    return [(float(x), float(y)) for x, y in [*rows[::every], *rows[-1:]]]


def _at(run: Folder, name: str, command: Any, engage: Any) -> tuple[float, float] | None:  # noqa: ANN401 - JSON
    if command is None or engage is None:
        return None
    rows = run.rows(
        "SELECT x, y FROM mobility WHERE node::VARCHAR = ? ORDER BY abs(time - ?) LIMIT 1",
        name, float(command) + float(engage),
    )  # fmt: skip
    return (float(rows[0][0]), float(rows[0][1])) if rows else None


def _distance(run: Folder, drone: str, target: str) -> tuple[list[float], list[float]]:
    rows = run.rows(
        "SELECT a.time, sqrt((a.x - b.x) ** 2 + (a.y - b.y) ** 2 + (a.z - b.z) ** 2) FROM mobility a JOIN mobility b "
        "ON a.time = b.time WHERE a.node::VARCHAR = ? AND b.node::VARCHAR = ? ORDER BY a.time",
        drone, target,
    )  # fmt: skip
    return _thinned(rows)


def _over_time(run: Folder, name: str) -> tuple[list[float], list[float]]:
    return _thinned(run.rows("SELECT time, charge FROM vehicle WHERE node::VARCHAR = ? ORDER BY time", name))


def _thinned(rows: Sequence[tuple[Any, ...]], most: int = 600) -> tuple[list[float], list[float]]:
    kept = rows[:: max(1, math.ceil(len(rows) / most))]
    return [float(row[0]) for row in kept], [float(row[1]) for row in kept]
