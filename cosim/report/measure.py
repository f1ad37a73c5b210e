"""Aggregates over a run's tables, small enough to draw: histograms, shares over time, splits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.report.charts import ChartSeries
from cosim.report.folder import Folder
from cosim.report.text import quantity

BUCKETS = 60  # places on a time axis
FINE = 120  # places in the chart of hosts
PHASES = ("upload", "queue", "compute", "download")
_DONE = "status = 'completed' AND isfinite(ended - created)"
_MEANS = f"""avg(uploaded - created), avg(started - uploaded), avg(computed - started), avg(ended - computed)
    FROM tasks WHERE {_DONE} AND isfinite(uploaded + started + computed)"""


@dataclass(frozen=True)
class ResponseTimes:
    """Sorted response times (s) of the completed tasks of one workload."""

    name: str
    values: NDArray[np.float64]

    def quantile(self, share: float) -> float:
        """The smallest value that at least `share` of the tasks do not exceed."""
        rank = max(0, math.ceil(share * len(self.values)) - 1)
        return float(self.values[rank])


def responses(run: Folder, most: int = 7) -> tuple[list[ResponseTimes], int]:
    """Response times by workload, busiest first, and how many workloads were left out."""
    if not run.has("tasks"):
        return [], 0
    names = [
        row[0]
        for row in run.rows(f"SELECT workload::VARCHAR w FROM tasks WHERE {_DONE} GROUP BY w ORDER BY count(*) DESC, w")
    ]
    out = []
    for name in names[:most]:
        query = f"SELECT ended - created FROM tasks WHERE {_DONE} AND workload::VARCHAR = ? ORDER BY 1"
        values = run.rows(query, name)
        out.append(ResponseTimes(name, np.array([v[0] for v in values], dtype=np.float64)))
    return out, max(0, len(names) - most)


def bins(samples: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], bool]:
    """Common bin edges for several samples, and whether they are logarithmic.

    Logarithmic when the middle 98 % spans more than a factor of 30. Linear bins end at the 99.5 %
    quantile; what lies above falls into the last bin.
    """
    merged = np.concatenate(samples) if samples else np.empty(0)
    merged = merged[np.isfinite(merged)]
    if merged.size == 0:
        return np.array([]), False
    smallest = min(len(s) for s in samples if len(s))
    count = int(min(40, max(12, 2 * smallest ** (1 / 2.5))))
    low, high = (float(v) for v in np.quantile(merged, [0.01, 0.99]))
    if low > 0 and high / low > 30:
        return np.geomspace(max(merged.min(), low / 3), merged.max() * 1.0001, count + 1), True
    top = float(np.quantile(merged, 0.995)) * 1.02
    start = min(0.0, float(merged.min()))
    return np.linspace(start, top if top > start else start + 1.0, count + 1), False


def counts(values: NDArray[np.float64], edges: NDArray[np.float64]) -> list[float]:
    """How many values fall into each bin; those outside go to the first or last one."""
    clipped = np.clip(values, edges[0], np.nextafter(edges[-1], -np.inf))
    return [float(c) for c in np.histogram(clipped, edges)[0]]


def ecdf(name: str, ordered: NDArray[np.float64], points: int = 160) -> ChartSeries:
    """The cumulative distribution of sorted values, thinned to about `points` steps."""
    n = len(ordered)
    ranks = np.unique(np.linspace(1, n, min(n, points)).round().astype(int)) if n else np.empty(0, int)
    return ChartSeries(name, [float(ordered[r - 1]) for r in ranks], [float(r) / n for r in ranks])


def split(run: Folder) -> list[tuple[str, dict[str, float]]]:
    """Mean seconds of upload, queue, compute and download of completed tasks, by workload."""
    if not run.has("tasks"):
        return []
    rows = run.rows(f"SELECT workload::VARCHAR w, {_MEANS} GROUP BY w ORDER BY count(*) DESC, w")
    return [(row[0], dict(zip(PHASES, (max(0.0, v) for v in row[1:]), strict=True))) for row in rows]


def grid(run: Folder, places: int = BUCKETS) -> tuple[float, list[float]]:
    """Width (s) of a time bucket and the middles of all buckets."""
    width = max(run.end / places, float(run.manifest.get("step") or 0.0), 1e-9)
    count = max(1, math.ceil(run.end / width - 1e-9))
    return width, [(k + 0.5) * width for k in range(count)]


def over_time(run: Folder, name: str, query: str, nothing: float = math.nan) -> ChartSeries:
    """A line from a query that gives (bucket, value), `nothing` in other buckets; `$1` is the bucket width in s.

    The row at the very end of the run counts to the last bucket.
    """
    width, middles = grid(run)
    values = [nothing] * len(middles)
    for bucket, value in run.rows(query, width, len(middles) - 1):
        if bucket is not None and 0 <= bucket < len(values) and value is not None:
            values[int(bucket)] = float(value)
    return ChartSeries(name, middles, values)


_BUCKET = "least(floor({} / $1), $2)"


def bucket(time: str) -> str:
    """The bucket of the SQL expression `time` (s), for a query of `over_time`."""
    return _BUCKET.format(time)


def presence(run: Folder) -> list[ChartSeries]:
    """Nodes that can move and are there, devices with coverage, and those that transfer, over time.

    Adapters of different periods are counted apart and added. No row means no device where the
    signal is sampled at least once per bucket.
    """
    width, _ = grid(run)
    out = []
    for name, table, condition in (
        ("movable", "mobility", "true"),
        ("in coverage", "link", "cell IS NOT NULL"),
        ("transferring", "traffic", "uploads + downloads > 0"),
    ):
        if run.has(table):
            query = f"""SELECT b, sum(n) FROM (SELECT b, filename, avg(n) n FROM
                        (SELECT {_BUCKET.format("time")} b, filename, time, count(*) FILTER ({condition}) n
                         FROM {table} GROUP BY ALL) GROUP BY b, filename) GROUP BY b"""
            (gap,) = run.one(
                f"SELECT min(gap) FROM (SELECT time - lag(time) OVER (ORDER BY time) gap FROM "
                f"(SELECT DISTINCT time FROM {table}))"
            )
            out.append(over_time(run, name, query, 0.0 if gap is not None and gap <= width * 1.001 else math.nan))
    return out


def throughput(run: Folder) -> list[ChartSeries]:
    """Tasks created, completed and failed per second, over time."""
    if not run.has("tasks"):
        return []
    out = []
    for name, time, condition in (
        ("created", "created", "true"),
        ("completed", "ended", "status = 'completed'"),
        ("failed", "ended", "status <> 'completed'"),
    ):
        query = f"SELECT {_BUCKET.format(time)} b, count(*) / $1 FROM tasks WHERE {condition} GROUP BY b"
        out.append(over_time(run, name, query, 0.0))
    return [s for s in out if any(s.y)]


def response_over_time(run: Folder) -> list[ChartSeries]:
    """Median and 95 % quantile of the response time by time of completion."""
    if not run.has("tasks"):
        return []
    return [
        over_time(
            run,
            name,
            f"SELECT {_BUCKET.format('ended')} b, quantile_disc(ended - created, {share}) "
            f"FROM tasks WHERE {_DONE} GROUP BY b",
        )
        for name, share in (("95 % of tasks within", 0.95), ("median", 0.5))
    ]


def utilisation(
    run: Folder, table: str = "host", name: str = "node::VARCHAR", load: str = "utilisation", most: int = 24
) -> tuple[list[str], list[list[float]], int]:
    """The busiest hosts: names, utilisation per time bucket, and how many hosts there are in all.

    A row at time t covers the time up to t, so it counts to the bucket that ends there. Any `table` can
    be used whose rows have a time and a `load`, NaN where it is not known; `name` is the SQL expression
    for the owner of a row.
    """
    if not run.has(table):
        return [], [], 0
    ranked = run.rows(f"SELECT {name} n FROM {table} WHERE NOT isnan({load}) GROUP BY n ORDER BY avg({load}) DESC, n")
    width, middles = grid(run, FINE)
    names = [row[0] for row in ranked[:most]]
    shares = {who: [math.nan] * len(middles) for who in names}
    for who, bucket, value in run.rows(
        f"SELECT {name} n, greatest(ceil(time / $1 - 1e-9) - 1, 0) b, avg({load}) "
        f"FROM {table} WHERE (time > 0 OR {load} > 0) AND NOT isnan({load}) GROUP BY n, b",
        width,
    ):
        if who in shares and value is not None and bucket < len(middles):
            shares[who][int(bucket)] = float(value)
    held = sorted(((who, _hold(shares[who])) for who in names), key=lambda pair: -np.nansum(pair[1]))
    return [who for who, _ in held], [row for _, row in held], len(ranked)


def _hold(values: list[float]) -> list[float]:
    """Fill gaps with the next known value: a row covers the time before it."""
    out, last = list(values), math.nan
    for k in range(len(out) - 1, -1, -1):
        if math.isnan(out[k]):
            out[k] = last
        else:
            last = out[k]
    return out


def batteries(run: Folder, most: int = 6) -> tuple[list[ChartSeries], int]:
    """What part of the batteries is left over time, and how many there are.

    A line per node, emptiest last first; with more than `most` nodes the lowest, the median and the
    highest of all of them.
    """
    if not run.has("battery"):
        return [], 0
    ranked = run.rows(
        "SELECT node::VARCHAR n FROM battery WHERE isfinite(fraction) GROUP BY n ORDER BY arg_max(fraction, time), n"
    )
    bucket = _BUCKET.format("time")
    if len(ranked) > most:
        return [
            over_time(run, name, f"SELECT {bucket} b, {value} FROM battery WHERE isfinite(fraction) GROUP BY b")
            for name, value in (
                ("highest", "max(fraction)"), ("median", "median(fraction)"), ("lowest", "min(fraction)"),
            )
        ], len(ranked)  # fmt: skip
    found = []
    for (node,) in ranked:
        quoted = node.replace("'", "''")
        query = f"SELECT {bucket} b, avg(fraction) FROM battery WHERE node::VARCHAR = '{quoted}' GROUP BY b"
        found.append(over_time(run, node, query))
    return found, len(ranked)


def migrations(run: Folder) -> tuple[list[ChartSeries], float]:
    """How many virtual machines were sent to another host, by the time of the decision, and the bucket's width (s).

    Those from one place to another are a line of their own if there are any, and so are those that
    were started anew because their host had failed.
    """
    width, _ = grid(run)
    if not run.has("migration"):
        return [], width
    bucket, found = _BUCKET.format('"at"'), []
    for name, condition in (
        ("within a place", "origin IS NOT NULL AND NOT between_places"),
        ("between places", "origin IS NOT NULL AND between_places"),
        ("after a failure", "origin IS NULL"),
    ):
        query = f"SELECT {bucket} b, count(*) FROM migration WHERE {condition} GROUP BY b"
        found.append(over_time(run, name, query, 0.0))
    return [line for line in found if any(line.y)], width


def coverage(run: Folder) -> ChartSeries:
    """The share of the present devices that a base station serves, over time."""
    query = f"SELECT {_BUCKET.format('time')} b, avg((cell IS NOT NULL)::INT) FROM link GROUP BY b"
    return over_time(run, "in coverage", query)


def neighbour_levels(run: Folder, most: int = 5, bins: int = 80) -> tuple[str, list[ChartSeries], list[ChartSeries]]:
    """The device with the widest range of distances; level (dBm) and path loss (dB) of its nearest cells by distance.

    Means over equal steps of distance; the cells are those that it came nearest to, the nearest first.
    """
    if not run.has("neighbour_cell"):
        return "", [], []
    found = run.rows("""
        SELECT node::VARCHAR n, max(distance) - min(distance) way FROM neighbour_cell
        WHERE isfinite(rsrp) GROUP BY n ORDER BY way DESC, n LIMIT 1""")
    if not found:
        return "", [], []
    device = str(found[0][0])
    mine = "FROM neighbour_cell WHERE node::VARCHAR = ? AND isfinite(rsrp)"
    cells = run.rows(f"SELECT cell::VARCHAR c, min(distance) d {mine} GROUP BY c ORDER BY d, c LIMIT ?", device, most)
    (low, high), *_ = run.rows(f"SELECT min(distance), max(distance) {mine}", device)
    width = max((high - low) / bins, 1e-9)
    levels: list[ChartSeries] = []
    losses: list[ChartSeries] = []
    for cell, _ in cells:
        rows = run.rows(
            f"SELECT floor((distance - ?) / ?) b, avg(distance), avg(rsrp), avg(pathloss) {mine} "
            "AND cell::VARCHAR = ? GROUP BY b ORDER BY b",
            low, width, device, cell,
        )  # fmt: skip
        for series, k in ((levels, 2), (losses, 3)):
            series.append(ChartSeries(str(cell), [float(row[1]) for row in rows], [float(row[k]) for row in rows]))
    return device, levels, losses


def link_quality(run: Folder) -> tuple[list[float], list[float]] | None:
    """Bin edges (dB) and counts of the SNR over all link rows with coverage."""
    if not run.has("link"):
        return None
    low, high = run.one("SELECT min(snr), max(snr) FROM link WHERE isfinite(snr) AND cell IS NOT NULL")
    if low is None:
        return None
    edges = np.arange(math.floor(low), math.ceil(high) + 1.5, max(1.0, math.ceil((high - low) / 50)))
    step = edges[1] - edges[0]
    found = [0.0] * (len(edges) - 1)
    for bucket, n in run.rows(
        "SELECT least(floor((snr - $1) / $2), $3) b, count(*) FROM link "
        "WHERE isfinite(snr) AND cell IS NOT NULL GROUP BY b",
        float(edges[0]),
        float(step),
        len(found) - 1,
    ):
        found[int(bucket)] = float(n)
    return [float(e) for e in edges], found


def failures(run: Folder) -> list[tuple[str, int]]:
    """Failed tasks by cause, most first, from the ledger (or the task table when there is none)."""
    ledger = run.tasks.get("failed")
    if isinstance(ledger, dict):
        pairs = [(str(k), int(v)) for k, v in ledger.items() if v]
    elif run.has("tasks"):
        pairs = run.rows("SELECT status::VARCHAR s, count(*) FROM tasks WHERE status <> 'completed' GROUP BY s")
    else:
        pairs = []
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def overall_split(run: Folder) -> dict[str, float]:
    """Mean seconds of each phase over all completed tasks; empty when there are none."""
    if not run.has("tasks"):
        return {}
    row = run.one(f"SELECT {_MEANS}")
    return {} if row[0] is None else dict(zip(PHASES, (max(0.0, v) for v in row), strict=True))


def marked_events(run: Folder, most: int = 8) -> list[tuple[float, str]]:
    """The first events of the scenario as (time, words), for marks on time axes."""
    if not run.has("events"):
        return []
    rows = run.rows(
        "SELECT time, string_agg(concat_ws(' ', kind::VARCHAR, node::VARCHAR), chr(10)) FROM "
        "(SELECT * FROM events WHERE isfinite(time) ORDER BY time, node) GROUP BY time ORDER BY time"
    )
    return [(float(t), f"{quantity(t, 's')}\n{words}") for t, words in rows] if len(rows) <= most else []
