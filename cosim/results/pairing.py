"""Two runs task by task: which tasks are the same in both, and how they fared."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.signals import STARVED
from cosim.results.load import Run, load

SAME = 1e-6  # s between the instants of one task in two runs
REPORT = 1.0  # s that a report of a node covers, by default


@dataclass(frozen=True, slots=True)
class Pairing:
    """Tasks of a first and another run, paired by workload, source and instant."""

    tasks: tuple[int, int]  # ended in each run
    paired: int  # tasks that both made
    same_size: int  # of those, with equal input and work
    same_host: int  # of those, computed at the same host
    completed: int  # of those, completed in both
    difference: float  # s, mean of the other's response time minus the first's over these; NaN without
    low: float  # s, 5th percentile of the differences
    high: float  # s, 95th percentile
    starved: int = 0  # of those completed in both, at a node that was starved meanwhile, in either run
    fed: float = nan  # s, mean difference of the others; NaN without

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def pair(first: Path, other: Path) -> Pairing | None:
    """The tasks of two runs; None when one of them has no table of tasks. Raises what `cosim.load` raises."""
    rows: list[dict[tuple[Any, ...], tuple[Any, ...]]] = []
    for folder in (first, other):
        with closing(load(folder)) as run:
            if "task" not in run.signals:
                return None
            rows.append(_tasks(run))
    a, b = rows
    both = [(a[key], b[key]) for key in a.keys() & b.keys()]
    done = [(x, y) for x, y in both if x[3] == y[3] == "completed"]
    apart = [y[4] - x[4] for x, y in done]
    fed = [y[4] - x[4] for x, y in done if not (x[5] or y[5])]
    low, high = np.quantile(apart, (0.05, 0.95)) if apart else (nan, nan)
    return Pairing(
        (len(a), len(b)),
        len(both),
        sum(x[:2] == y[:2] for x, y in both),
        sum(x[2] == y[2] for x, y in both),
        len(apart),
        float(np.mean(apart)) if apart else nan,
        float(low),
        float(high),
        len(apart) - len(fed),
        float(np.mean(fed)) if fed else nan,
    )


def _tasks(run: Run) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """(workload, source, instant, number) -> (input, work, host, status, response time in s, whether it was starved).

    Tasks of one source at one instant are numbered in the order of their sizes.
    """
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    count: Counter[tuple[Any, ...]] = Counter()
    starved = "false"
    if "resources" in run.signals and {*STARVED} <= {*run.table("resources").columns}:
        # a row holds the last report, of the time before it
        over = " OR ".join(f"(r.{name} > {most} AND NOT isnan(r.{name}))" for name, most in STARVED.items())
        starved = (
            "EXISTS (SELECT 1 FROM resources r WHERE r.node::VARCHAR IN (task.node::VARCHAR, task.host::VARCHAR) "
            f"AND ({over}) AND r.time BETWEEN task.created AND task.ended + {REPORT})"
        )
    query = (
        "SELECT workload::VARCHAR, node::VARCHAR, round(created / ?)::BIGINT, input, work, host::VARCHAR, "
        f"status::VARCHAR, ended - created, {starved} FROM task ORDER BY input, work"
    )
    for *key, size, work, host, status, response, waited in run.execute(query, [SAME]).fetchall():
        count[(*key,)] += 1
        found[(*key, count[(*key,)])] = (size, work, host, status, response, waited)
    return found
