"""What the charts draw, against the recorded rows."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.report import measure, sections
from cosim.report.folder import Folder
from tests.unit.report.folders import write_run


@pytest.fixture
def run(tmp_path):
    with Folder(write_run(tmp_path)) as folder:
        yield folder


def _tasks(run):
    return pq.read_table(run.path / "tasks.parquet").to_pylist()


def test_the_split_adds_up_to_the_response_time(run):
    done = [t for t in _tasks(run) if t["status"] == "completed"]
    for name, parts in measure.split(run):
        mine = [t["ended"] - t["created"] for t in done if t["workload"] == name]
        assert sum(parts.values()) == pytest.approx(np.mean(mine))
    total = sum(measure.overall_split(run).values())
    assert total == pytest.approx(np.mean([t["ended"] - t["created"] for t in done]))


def test_rates_over_time_add_up_to_the_tasks(run):
    tasks = _tasks(run)
    width, _ = measure.grid(run)
    found = {s.name: sum(s.y) * width for s in measure.throughput(run)}
    done = sum(t["status"] == "completed" for t in tasks)
    assert found == pytest.approx({"created": len(tasks), "completed": done, "failed": len(tasks) - done})


def test_failures_come_from_the_ledger_most_first(run):
    causes = measure.failures(run)
    assert dict(causes) == run.tasks["failed"]
    assert [n for _, n in causes] == sorted((n for _, n in causes), reverse=True)


def test_presence_counts_devices(run):
    present = next(s for s in measure.presence(run) if s.name == "movable")
    assert present.y[-1] == 12
    assert present.y == sorted(present.y)


def test_snr_counts_every_linked_row(run):
    _, found = measure.link_quality(run)
    rows = pq.read_table(run.path / "frames/link/radio.parquet").to_pylist()
    assert sum(found) == sum(r["cell"] is not None for r in rows)


def test_utilisation_ranks_hosts(run):
    names, rows, count = measure.utilisation(run)
    means = [np.nanmean(row) for row in rows]
    assert count == 4
    assert names[0].startswith("edge-")
    assert means == sorted(means, reverse=True)


positive = st.lists(st.floats(1e-4, 1e4), min_size=1, max_size=60)


@given(st.lists(positive, min_size=1, max_size=3))
def test_every_value_falls_into_a_bin(samples):
    arrays = [np.array(s) for s in samples]
    edges, log = measure.bins(arrays)
    assert (np.diff(edges) > 0).all()
    assert not log or edges[0] > 0
    assert all(sum(measure.counts(a, edges)) == len(a) for a in arrays)


@given(positive)
def test_the_cumulative_distribution_ends_at_one(values):
    ordered = np.sort(np.array(values))
    curve = measure.ecdf("a", ordered, points=10)
    assert curve.y[-1] == 1
    assert curve.x[-1] == ordered[-1]
    assert list(curve.y) == sorted(curve.y)
    assert measure.ResponseTimes("a", ordered).quantile(0.5) == np.quantile(ordered, 0.5, method="inverted_cdf")


def test_no_values_give_no_bins():
    edges, log = measure.bins([np.array([math.nan])])
    assert len(edges) == 0
    assert not log


def test_tasks_of_all_adapters_are_summed(tmp_path):
    folder = write_run(tmp_path)
    metrics = json.loads((folder / "metrics.json").read_text())
    mine = metrics["ledgers"]["continuum"]["tasks"]
    metrics["ledgers"] = {"live": {"tasks": {"created": 2, "failed": {"offline": 1}}}, **metrics["ledgers"]}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    found = Folder(folder).tasks
    assert found["created"] == mine["created"] + 2
    assert found["failed"] == {**mine["failed"], "offline": 1}


def test_levels_of_neighbours_are_those_of_the_device_that_came_about_most(tmp_path):
    path = write_run(tmp_path)
    table = {"time": [], "node": [], "cell": [], "distance": [], "rsrp": [], "pathloss": []}
    for node, way in (("veh0", 50.0), ("veh1", 900.0)):
        for t in range(40):
            for k in range(6):
                distance = 10.0 + 100.0 * k + way * t / 39.0
                level = -60.0 - 0.05 * distance if k else math.nan  # edge-0 is out of range
                row = (float(t), node, f"edge-{k}", distance, level, -level)
                for column, value in zip(table, row, strict=True):
                    table[column].append(value)
    where = path / "frames/neighbour_cell/radio.parquet"
    where.parent.mkdir()
    pq.write_table(pa.table(table), where)
    with Folder(path) as run:
        device, levels, losses = measure.neighbour_levels(run)
        charts = sections.neighbour_charts(run)
    assert device == "veh1"
    assert [s.name for s in levels] == [s.name for s in losses] == [f"edge-{k}" for k in range(1, 6)]
    for level, loss in zip(levels, losses, strict=True):
        np.testing.assert_allclose(level.y, -60.0 - 0.05 * np.array(level.x))
        np.testing.assert_allclose(loss.y, 60.0 + 0.05 * np.array(loss.x))
    assert [chart.title for chart in charts] == ["Signal over distance", "Path loss over distance"]
    assert all("veh1" in chart.note for chart in charts)


def test_without_neighbours_there_is_no_such_chart(run):
    assert sections.neighbour_charts(run) == []
