"""Whatever the scenario, nothing is lost: tasks, bytes and joules add up from end to end."""

from __future__ import annotations

import csv
import math
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

import cosim
from cosim.results.session import run
from tests.extensions import scenarios as shipped

DURATIONS = {"hello": "6 s", "offloading": "2 min", "fog-interval": "1 h", "energy-aware": "1 h"}
SCHEDULERS = ["nearest", "least-loaded", "cloud", "local", "random", "round-robin", "hybrid"]


@dataclass(frozen=True)
class Made:
    """A scenario as data, and the tracks of its fleet: (time s, member, x m, y m)."""

    scenario: dict
    tracks: list[tuple[float, str, float, float]]


@st.composite
def tracks(draw: st.DrawFn) -> list[tuple[float, str, float, float]]:
    rows = []
    for member in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, 6))
        for time in range(begin, begin + draw(st.integers(1, 10))):
            rows.append((float(time), f"uav-{member}", draw(st.floats(-300, 300)), draw(st.floats(-300, 300))))
    return sorted(rows)


@st.composite
def workloads(draw: st.DrawFn) -> dict:
    arrivals = st.sampled_from(["poisson 3 Hz", "every 400 ms", "poisson 20 Hz"])
    size = st.sampled_from(["0 B", "1 kB", "exponential 200 kB", "uniform 1 kB .. 4 MB"])
    work = st.sampled_from(["0 cycles", "1 Mcycles", "exponential 800 Mcycles", "20 Gcycles"])
    return {
        name: {
            "from": source,
            "arrivals": draw(arrivals),
            "input": draw(size),
            "output": draw(size),
            "work": draw(work),
            "deadline": draw(st.sampled_from(["50 ms", "1 s", "1 min"])),
        }
        for name, source in (("survey", "uav"), ("meter", "sensor-*"))[: draw(st.integers(1, 2))]
    }


@st.composite
def events(draw: st.DrawFn) -> list[dict]:
    found: list[dict] = []
    for _ in range(draw(st.integers(0, 3))):
        at = f"{draw(st.integers(0, 9))} s"
        if draw(st.booleans()):
            node = draw(st.sampled_from(["edge-1", "edge-2", "cloud", "sensor-1"]))
            found.append({"at": at, "do": "fail", "node": node, "for": f"{draw(st.integers(1, 5))} s"})
        else:
            link = draw(st.sampled_from(["edge-1/cloud", "edge-2/cloud", "sensor-*/edge-1"]))
            harm = {"rate": f"{draw(st.integers(1, 100))} %", "loss": f"{draw(st.integers(0, 50))} %", "delay": "80 ms"}
            found.append({"at": at, "do": "degrade", "link": link, "for": f"{draw(st.integers(1, 5))} s", **harm})
    return found


@st.composite
def scenarios(draw: st.DrawFn) -> Made:
    power = {"idle": "2 W", "max": "9 W"}
    edge = {"kind": "base-station", "cpu": f"{draw(st.integers(1, 4))} x 2 GHz", "power": power}
    edge["slots"] = draw(st.integers(1, 40))
    price = {"cpu": "0.1 /h", "transfer": "0.01 /GB", "energy": "0.3 /kWh"} if draw(st.booleans()) else {}
    uav = {"kind": "uav", "fleet": "replay", "capacity": draw(st.integers(4, 6)), "cpu": "1 x 1 GHz", "power": power}
    data = {
        "apiVersion": "cosim/v1",
        "kind": "Scenario",
        "name": "drawn",
        "run": {"duration": "12 s", "step": "500 ms", "seed": draw(st.integers(1, 1000))},
        "adapters": {
            "replay": {"file": "tracks.csv"},
            "radio": {"model": draw(st.sampled_from(["ci", "umi"])), "shadowing": "4 dB"},
            "continuum": {"scheduler": draw(st.sampled_from(SCHEDULERS))},
        },
        "nodes": {
            "uav": uav,
            "sensor-[1..2]": {"kind": "device", "at": ["-350 m", "20 m", "1 m"], "cpu": "1 x 1 GHz", "power": power},
            "edge-1": {**edge, "at": ["-300 m", "0 m", "0 m"]},
            "edge-2": {**edge, "at": ["300 m", "100 m", "0 m"]},
            "cloud": {"kind": "cloud", "cpu": "16 x 3 GHz", "power": power, **({"cost": price} if price else {})},
        },
        "links": [
            {"between": [["edge-1", "edge-2"], "cloud"], "rate": "50 Mbit/s", "delay": "20 ms"},
            {"between": ["sensor-*", "edge-1"], "rate": "2 Mbit/s", "delay": "5 ms"},
        ],
        "workloads": draw(workloads()),
        "events": draw(events()),
    }
    return Made(data, draw(tracks()))


def write(made: Made, folder: Path) -> None:
    with (folder / "scenario.cosim.yaml").open("w") as file:
        YAML().dump(made.scenario, file)
    with (folder / "tracks.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("time", "id", "x", "y"), *made.tracks])


@pytest.mark.timeout(600)
@settings(
    max_examples=25, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(scenarios())
def test_ledgers_close_from_end_to_end(made):
    with tempfile.TemporaryDirectory(prefix="ledgers-") as name:
        folder = Path(name)
        write(made, folder)
        outcome = run(folder, out=folder / "runs")
        assert (outcome.status, outcome.error) == ("complete", None)
        result = cosim.load(outcome.folder)
        try:
            check(result)
        finally:
            result.close()


def check(result: cosim.Run) -> None:
    assert result.metrics["faults"] == []
    ledger = result.metrics["ledgers"]["continuum"]
    tasks = ledger["tasks"]
    assert tasks["created"] == tasks["completed"] + sum(tasks["failed"].values()) + tasks["in_flight"]
    statuses = Counter(row[0] for row in result.sql("SELECT status FROM task").fetchall())
    assert statuses.pop("completed", 0) == tasks["completed"]
    assert statuses == {cause: count for cause, count in tasks["failed"].items() if count}
    (late,) = result.sql("SELECT count(*) FROM task WHERE late AND status = 'completed'").fetchall()[0]
    assert late == tasks["late"]
    for key in ("created", "completed", "late", "in_flight"):
        assert sum(entry[key] for entry in ledger["workloads"].values()) == tasks[key]
    for way in ledger["bytes"].values():
        total = way["delivered"] + way["dropped"] + way["in_transit"]
        assert math.isclose(way["offered"], total, rel_tol=1e-9, abs_tol=1e-3)
    energy = ledger["energy"]
    parts = sum(energy["by_node"].values())
    assert math.isclose(energy["total"], parts + energy["radio"] + energy["links"], rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(parts, sum(energy["by_tier"].values()), rel_tol=1e-9, abs_tol=1e-9)
    times = result.sql(
        "SELECT count(*) FROM task WHERE status = 'completed' AND NOT "
        "(created <= uploaded AND uploaded <= started AND started <= computed AND computed <= ended)"
    ).fetchall()
    assert times == [(0,)]


@pytest.mark.parametrize("name", shipped(*DURATIONS))
def test_utilisation_is_that_of_the_whole_time_whatever_is_recorded(tmp_path, name):
    duration = DURATIONS[name]
    short = f"run.duration={duration}"
    kept, left = (
        cosim.load(run(name, out=tmp_path, overrides=[short, *more]).folder)
        for more in ((), (f"record.host.every={duration}",))
    )
    rows = kept.sql("SELECT node, avg(utilisation) FROM host WHERE time > 0 GROUP BY node").fetchall()  # 0: no interval
    assert len(rows) > 1
    scene = kept.plan["scene"]
    fleets = {one["name"]: one["template"]["cores"] for one in scene["fleets"]}
    cores = {one["id"]: one["cores"] for one in scene["nodes"]}
    cores |= {node: fleets[node.rpartition("-")[0]] for node, _ in rows if node not in cores}
    for metrics in (kept.metrics, left.metrics):
        found = {node: entry["utilisation"] for node, entry in metrics["hosts"].items() if "utilisation" in entry}
        assert found == pytest.approx(dict(rows))
        mean = sum(cores[node] * share for node, share in found.items()) / sum(cores[node] for node in found)
        assert metrics["figures"]["utilisation_mean"]["value"] == pytest.approx(mean)
    kept.close()
    left.close()
