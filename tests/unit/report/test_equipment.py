"""Batteries, accelerators and migrations: drawn from the recorded rows, and only where there are some."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cosim.report import measure, write_report
from cosim.report.folder import Folder
from tests.unit.report.folders import write_run

TITLES = (
    "Batteries over the run",
    "Migrations over the run",
    "Utilisation of accelerators",
    "Measured load of machines",
)


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path)


def write(run, signal, **columns):
    path = run / "frames" / signal / "some.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table(columns), path)


def test_nothing_is_drawn_where_there_is_nothing(run):
    text = write_report(run).read_text()
    assert not [title for title in TITLES if title in text]
    with Folder(run) as folder:
        assert measure.batteries(folder) == ([], 0)
        assert measure.migrations(folder)[0] == []
        assert measure.utilisation(folder, "accelerator") == ([], [], 0)


def drained(run, nodes, step=1.0):
    """Node k loses 0.1 k % of its capacity per second, from 90 % on."""
    time = np.repeat(np.arange(0.0, 60.5, step), nodes)
    who = np.tile(np.arange(nodes), len(time) // nodes)
    write(run, "battery", time=time, node=[f"uav-{k}'" for k in who], fraction=0.9 - 0.001 * who * time)


def test_few_batteries_have_a_line_each(run):
    drained(run, 3)
    with Folder(run) as folder:
        found, count = measure.batteries(folder)
    assert ([line.name for line in found], count) == (["uav-2'", "uav-1'", "uav-0'"], 3)
    assert found[0].y[0] == 0.9
    assert found[0].y[-1] == pytest.approx(0.9 - 0.002 * 59.5)  # 59 and 60 s are in the last place
    assert set(found[2].y) == {0.9}
    assert TITLES[0] in write_report(run).read_text()


def test_many_batteries_have_lowest_median_and_highest(run):
    drained(run, 9)
    with Folder(run) as folder:
        found, count = measure.batteries(folder)
    lines = {line.name: line.y for line in found}
    assert count == 9
    assert lines["lowest"][30] == pytest.approx(0.9 - 0.008 * 30)
    assert lines["median"][30] == pytest.approx(0.9 - 0.004 * 30)
    assert set(lines["highest"]) == {0.9}
    assert "Over 9 nodes." in write_report(run).read_text()


def test_migrations_are_counted_by_the_time_of_the_decision(run):
    write(
        run, "migration",
        time=[10.0, 10.0, 10.0, 40.0], node=["a", "b", "a", "b"], machine=[0, 1, 2, 3], at=[9.0, 9.5, 9.5, 30.0],
        origin=["b", "a", None, "a"], arrival=[12.0, 13.0, 11.0, 41.0], between_places=[False, True, False, True],
    )  # fmt: skip
    with Folder(run) as folder:
        found, width = measure.migrations(folder)
    assert width == 1.0
    counts = {line.name: [(x, y) for x, y in zip(line.x, line.y, strict=True) if y] for line in found}
    assert counts == {
        "within a place": [(9.5, 1.0)], "between places": [(9.5, 1.0), (30.5, 1.0)], "after a failure": [(9.5, 1.0)],
    }  # fmt: skip
    assert "machines per 1 s" in write_report(run).read_text().replace("\u00a0", " ")


def test_accelerators_of_one_host_are_told_apart(run):
    time = np.repeat(np.arange(0.0, 61.0), 2)
    use = np.where(time == 0.0, 0.0, np.tile([0.25, 0.75], 61))
    write(run, "accelerator", time=time, node=["edge-0"] * 122, kind=["gpu", "npu"] * 61, utilisation=use)
    with Folder(run) as folder:
        names, rows, count = measure.utilisation(folder, "accelerator", "concat_ws(' ', node::VARCHAR, kind::VARCHAR)")
    assert (names, count) == (["edge-0 npu", "edge-0 gpu"], 2)
    assert [set(row) for row in rows] == [{0.75}, {0.25}]
    assert not any(math.isnan(value) for row in rows for value in row)
    text = write_report(run).read_text()
    assert TITLES[2] in text
    assert "Mean share of the units in use" in text


def test_the_load_that_machines_measured_is_beside_what_is_simulated(run):
    time = np.repeat(np.arange(0.0, 61.0), 2)
    cpu = np.tile([0.25, np.nan], 61)  # of the other one nothing is known
    write(run, "resources", time=time, node=["edge-0", "edge-1"] * 61, cpu=cpu)
    with Folder(run) as folder:
        assert measure.utilisation(folder, "resources", load="cpu") == (["edge-0"], [[0.25] * 60], 1)
    text = write_report(run).read_text()
    assert text.index("Measured load of machines") < text.index("Utilisation of hosts")
