"""The map's data: nodes, service areas, handovers and thinned trajectories in whole map units."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from typing import Any

from cosim.contract.map_lines import credit
from cosim.report.folder import Folder
from cosim.report.svg import PALETTE
from cosim.results.layers import map_lines

POINTS = 120_000  # of all trajectories together: about 1 MB of text
TRACKS = 3_000
MARKS = 2_000  # handovers
UNITS = 4_000  # map units along the longer side
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")


def world(run: Folder) -> dict[str, Any] | None:
    """JSON for the map, or None when nothing has a position.

    `at` is [x, y] in map units, `unit` metres per map unit, `tracks` hold one list per stretch:
    [first bucket, x, y, dx, dy, dx, dy, ...], one point per time bucket of `bucket` s.
    """
    nodes = _nodes(run)
    box = _bounds(run, nodes)
    if box is None:
        return None
    west, south, side = box
    unit = max(side / UNITS, 1e-3)

    def place(x: float, y: float) -> list[int]:
        return [round((x - west) / unit), round((y - south) / unit)]

    colors: dict[str, str] = {}
    kinds: list[str] = []

    def kind_of(name: str, color: str | None) -> int:
        if name not in kinds:
            kinds.append(name)
        if color and _COLOR.fullmatch(color):
            colors.setdefault(name, color)
        return kinds.index(name)

    shown, moving = _choose(run)
    radius = _service_radius(run)
    spots = []
    movers = {n for (n,) in run.rows("SELECT DISTINCT node::VARCHAR FROM mobility")} if moving else set()
    for name, kind, tier, x, y, color in nodes:
        spot = {"id": name, "k": kind_of(kind, color), "tier": tier, "at": place(x, y)}
        if name in movers:  # it is drawn where it is, not at home
            continue
        if name in radius:
            spot["r"] = round(radius[name] / unit)
        spots.append(spot)
    tracks, bucket = _tracks(run, place, kind_of)
    return {
        "unit": unit,
        "west": west,
        "south": south,
        "end": run.end,
        "bucket": bucket,
        "kinds": [{"name": k, "color": colors.get(k), "c": i % PALETTE} for i, k in enumerate(kinds)],
        "nodes": spots,
        "tracks": tracks,
        "handovers": _handovers(run, place),
        "lines": _under(run, box, place),
        "credit": credit(f"{run.manifest.get('description')} {run.resolved}"),
        "shown": shown,
        "moving": moving,
    }


def _under(run: Folder, box: tuple[float, float, float], place: Any) -> list[list[int]]:  # noqa: ANN401 - a local closure
    """Streets and other lines under the map: x, y, dx, dy, dx, dy, ... of each."""
    west, south, side = box
    margin = 0.1 * side
    found = []
    for line in map_lines(run.path, (west - margin, south - margin, west + side + margin, south + side + margin)):
        points = [place(x, y) for x, y in line]
        flat = points[0]
        for before, at in itertools.pairwise(points):
            if at != before:
                flat = [*flat, at[0] - before[0], at[1] - before[1]]
        if len(flat) > 2:
            found.append(flat)
    return found


def _nodes(run: Folder) -> list[tuple[str, str, str, float, float, str | None]]:
    if not run.has("nodes"):
        return []
    return run.rows(
        "SELECT node::VARCHAR, kind::VARCHAR, tier::VARCHAR, x, y, color::VARCHAR FROM nodes "
        "WHERE isfinite(x) AND isfinite(y) ORDER BY slot"
    )


def _bounds(
    run: Folder, nodes: list[tuple[str, str, str, float, float, str | None]]
) -> tuple[float, float, float] | None:
    xs, ys = [n[3] for n in nodes], [n[4] for n in nodes]
    if run.has("mobility"):
        row = run.one("SELECT min(x), max(x), min(y), max(y) FROM mobility WHERE isfinite(x) AND isfinite(y)")
        if row[0] is not None:
            xs += row[:2]
            ys += row[2:]
    if not xs:
        return None
    side = max(max(xs) - min(xs), max(ys) - min(ys), 1.0)
    middle = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    return middle[0] - side / 2, middle[1] - side / 2, side


def _choose(run: Folder) -> tuple[int, int]:
    """Picks at most `TRACKS` moving devices for the map (table `chosen`); how many of how many."""
    if not run.has("mobility"):
        return 0, 0
    names = [r[0] for r in run.rows("SELECT DISTINCT node::VARCHAR n FROM mobility WHERE isfinite(x + y) ORDER BY n")]
    chosen = names[:: max(1, math.ceil(len(names) / TRACKS))]
    run.rows("CREATE OR REPLACE TEMP TABLE chosen AS SELECT unnest(?::VARCHAR[]) AS node", chosen)
    return len(chosen), len(names)


def _tracks(run: Folder, place: Any, kind_of: Any) -> tuple[list[dict[str, Any]], float]:  # noqa: ANN401 - two local closures
    """Trajectories of the chosen devices and the width of their time buckets in s."""
    (count,) = run.one("SELECT count(*) FROM chosen") if run.has("mobility") else (0,)
    if not count:
        return [], 1.0
    # The slowest adapter sets the bucket, so that every device has a point in every bucket.
    times, period = run.one(
        "SELECT max(n), max(s / greatest(n - 1, 1)) FROM "
        "(SELECT count(DISTINCT time) n, max(time) - min(time) s FROM mobility GROUP BY filename)"
    )
    period = period or run.end
    bucket = period * max(1, math.ceil(times * count / POINTS))
    kinds = {}
    if run.has("nodes"):
        kinds = {r[0]: (r[1], r[2]) for r in run.rows("SELECT node::VARCHAR, kind::VARCHAR, color::VARCHAR FROM nodes")}
    points = run.rows(
        "SELECT node::VARCHAR n, floor(time / ? + 1e-6) b, arg_min(x, time), arg_min(y, time) FROM mobility "
        "WHERE isfinite(x + y) AND node::VARCHAR IN (SELECT node FROM chosen) GROUP BY n, b ORDER BY n, b",
        bucket,
    )
    stretches: dict[str, list[list[int]]] = defaultdict(list)
    before: tuple[str, int, list[int]] | None = None
    for name, b, x, y in points:
        at = place(x, y)
        if before and before[0] == name and before[1] == b - 1:
            stretches[name][-1] += [at[0] - before[2][0], at[1] - before[2][1]]
        else:
            stretches[name].append([int(b), *at])
        before = name, int(b), at
    tracks = [{"id": n, "k": kind_of(*kinds.get(n, ("device", None))), "p": p} for n, p in stretches.items()]
    return tracks, bucket


_MOVES = "(SELECT time, node::VARCHAR node, x, y FROM mobility "
_MOVES += "SEMI JOIN chosen ON chosen.node = mobility.node::VARCHAR)"
_LINKS = "(SELECT time, node::VARCHAR node, cell::VARCHAR cell FROM link "
_LINKS += "SEMI JOIN chosen ON chosen.node = link.node::VARCHAR)"
_SERVED = f"""FROM {_LINKS} l ASOF JOIN {_MOVES} m ON m.node = l.node AND m.time <= l.time
             JOIN nodes c ON c.node::VARCHAR = l.cell WHERE isfinite(m.x + m.y + c.x + c.y)"""


def _service_radius(run: Folder) -> dict[str, float]:
    """Metres within which 95 % of the positions that a base station served lay."""
    if not run.has("link", "mobility", "nodes"):
        return {}
    return dict(
        run.rows(
            f"SELECT c.node::VARCHAR, quantile_cont(sqrt((m.x - c.x) ** 2 + (m.y - c.y) ** 2), 0.95) "
            f"{_SERVED} GROUP BY 1"
        )
    )


def _handovers(run: Folder, place: Any) -> list[int]:  # noqa: ANN401 - a local closure
    """Places at which a device changed its base station: x, y, x, y, ..., at most `MARKS` of them."""
    if not run.has("link", "mobility"):
        return []
    rows = run.rows(f"""
        SELECT m.x, m.y FROM (SELECT *, lag(cell) OVER (PARTITION BY node ORDER BY time) p FROM {_LINKS}) l
        ASOF JOIN {_MOVES} m ON m.node = l.node AND m.time <= l.time
        WHERE l.cell <> l.p AND isfinite(m.x + m.y) ORDER BY l.time, l.node""")
    every = max(1, math.ceil(len(rows) / MARKS))
    return [v for row in rows[::every] for v in place(*row)]
