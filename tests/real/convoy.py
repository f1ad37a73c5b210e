"""What the trucks of the scenario convoy have done in a run with real nodes, set against who served them when."""

from __future__ import annotations

import bisect
import contextlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import cosim
from cosim.results.ledgers import ledger_faults
from tests.real import follow

STEP = 0.5  # s
STATIONS = tuple(f"station-{k}" for k in range(1, 5))
NODES = (*STATIONS, *(f"trucks-{k}" for k in range(1, 9)))


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query of a run gives."""
    with contextlib.closing(cosim.load(folder)) as run:
        found: list[tuple[Any, ...]] = run.sql(query).fetchall()
    return found


def cells(folder: Path) -> dict[str, tuple[list[float], list[str]]]:
    """When each truck came to which station: truck -> times, stations."""
    found = defaultdict[str, tuple[list[float], list[str]]](lambda: ([], []))
    for truck, at, cell in rows(folder, "select node, time, cell from link order by node, time"):
        times, stations = found[truck]
        if not stations or stations[-1] != cell:
            times.append(at)
            stations.append(cell)
    return dict(found)


def assert_moved(folder: Path, least: float = 1.0) -> None:
    """Every task was given to the station that served its truck, and this share of the trucks had tasks done by both.

    A device knows of a handover a step later; a run that is behind the clock has its tasks at earlier times.
    """
    slack = 2 * STEP + follow.manifest(folder)["lag"]["max"]
    serving, moved = cells(folder), defaultdict[str, set[str]](set)
    tasks = rows(folder, "select node, host, created, status, computed from task order by node, created")
    for truck, host, created, status, computed in tasks:
        times, stations = serving[truck]
        first, last = (bisect.bisect_right(times, created + part) - 1 for part in (-slack, slack))
        assert last >= 0, f"{truck} made a task before it was there"
        assert host in stations[max(first, 0) : last + 1], (truck, created)
        if status == "completed":
            assert computed > created
            moved[truck].add(host)
    handed = {
        truck: set(stations) for truck, (times, stations) in serving.items() if times[-1] < 44.0 and len(times) > 1
    }
    assert len(handed) >= 2
    assert sum(moved[truck] == handed[truck] for truck in handed) >= least * len(handed)


def assert_none_lost(folder: Path) -> None:
    """The books close, and no task was made for a slot without a truck."""
    reported = follow.summary(folder, "live")
    assert ledger_faults(reported) == []
    assert reported["tasks"]["completed"] > 50
    assert reported["skipped"] < 0.05 * reported["tasks"]["created"]  # only trucks that are there make any
    assert {row["state"] for row in reported["nodes"].values()} == {"attached"}
    first = dict(rows(folder, "select node, min(time) from mobility group by node"))
    made = rows(folder, "select node, min(created) from task group by node")
    lag = follow.manifest(folder)["lag"]["max"]
    assert all(created >= first[truck] - lag for truck, created in made)
    assert len(made) == len(first) == 8
    assert "measured" in follow.manifest(folder)["signals"]["task"]["origin"]
    slots = rows(folder, "select node, min(time) from resources group by node")
    assert {node for node, _ in slots} == {*first, *STATIONS}  # nobody where no truck has been
