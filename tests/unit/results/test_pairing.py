"""Two runs are compared task by task."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq

import cosim
from cosim.results.pairing import pair
from tests.unit.report.folders import write_run

SCENARIO = {
    "run": {"duration": "20 s", "step": "1 s"},
    "adapters": {"continuum": {"scheduler": "nearest"}},
    "nodes": {"camera-[1..3]": {"kind": "device"}, "edge": {"kind": "edge", "cpu": "2 x 1 GHz"}},
    "links": [{"between": ["camera-*", "edge"], "rate": "100 Mbit/s", "delay": "5 ms"}],
    "workloads": {
        "pictures": {"from": "camera-*", "arrivals": "poisson 2 Hz", "input": "100 kB", "work": "20 Mcycles"}
    },
}


def run(out, *overrides):
    scenario = cosim.Scenario({"name": "paired", **SCENARIO})
    return cosim.run(scenario, overrides=overrides, out=out).folder


def test_equal_seeds_pair_every_task_and_tell_what_a_change_costs(tmp_path):
    first, slower, other = run(tmp_path), run(tmp_path, "links.0.delay=25 ms"), run(tmp_path, "run.seed=5")
    found = pair(first, slower)
    assert found.tasks[0] - found.paired <= 2
    assert found.paired == found.same_size == found.same_host == found.completed
    assert math.isclose(found.difference, 0.040, abs_tol=1e-6)
    apart = pair(first, other)
    assert apart.paired == 0
    assert math.isnan(apart.difference)


def test_tasks_at_a_node_that_waited_for_its_machine_are_counted(tmp_path):
    first, slower = write_run(tmp_path, name="one"), write_run(tmp_path, name="other")
    where = slower / "frames/resources/part.parquet"
    where.parent.mkdir()
    column = pa.array(["edge-0", "edge-0"]).dictionary_encode()
    waits = {"cpu_wait": [0.5, 0.019], "memory_wait": [math.nan] * 2, "io_wait": [0.0] * 2}
    pq.write_table(pa.table({"time": [20.0, 40.0], "node": column, **waits}), where)
    found = pair(first, slower)
    rows = cosim.load(slower).table("task").filter("status = 'completed' and host = 'edge-0'")
    at = len(rows.filter("created <= 20 and ended >= 19").fetchall())
    assert found.starved == at > 0
    assert found.fed == found.difference == 0.0
