"""Statistics instead of rows: counts, sums and quantiles within the stated error, merged without loss."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import cosim
from cosim.contract.signals import CATALOGUE, TASK_STATUS
from cosim.report.folder import Folder
from cosim.report.statistics import statistics_table
from cosim.report.write import write_report
from cosim.results.convert import recover
from cosim.results.folder import RunFolder
from cosim.results.recorder import Recorder
from cosim.results.summary import ERROR, PARTS, bins, measured, middles, quantile
from cosim.scenario.plan.plan import Recording
from tests.unit.results import synthetic


def recorded(base, plan, close=True):
    """Record all frames of the synthetic world; the run's folder and the frames."""
    folder = RunFolder.create(base, plan)
    recorder = Recorder(folder, plan, CATALOGUE)
    reported = []
    for tick, time, frames in synthetic.World(plan).frames():
        reported += [frame.copy() for _, frame in frames]
        recorder.tick(tick, time, frames)
    if close:
        recorder.close()
    else:  # as after a kill: what was handed over is on disk, nothing is ended
        recorder._flush(None)
        recorder._writer.stop([])
        recorder.events.close()
        folder.let_go()
    return folder.path, reported


def summarised(plan, *recordings):
    return dataclasses.replace(plan, recordings=recordings)


def test_the_middle_of_a_bin_is_near_every_value_in_it():
    sizes = np.geomspace(1e-9 * 1.000001, 0.999e15, 20_000)
    for values in (sizes, -sizes):
        assert np.max(np.abs(middles(bins(values)) / values - 1.0)) <= ERROR * (1.0 + 1e-9)
    assert middles(bins(np.array([0.0, 1e-12]))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("law", ["exponential", "lognormal", "pareto", "normal"])
def test_quantiles_of_merged_parts_are_within_the_error(law):
    chance = np.random.Generator(np.random.PCG64(7))
    values = {
        "exponential": chance.exponential(0.2, 30_000),
        "lognormal": chance.lognormal(3.0, 2.0, 30_000),
        "pareto": chance.pareto(1.1, 30_000) + 1.0,
        "normal": chance.normal(-80.0, 12.0, 30_000),
    }[law]
    parts = [np.unique(bins(part), return_counts=True) for part in np.split(values, [10, 9_000, 29_000])]
    numbers, tally = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    for q in (0.0, 0.01, 0.5, 0.95, 0.99, 0.999, 1.0):
        true = np.quantile(values, q, method="lower")
        assert abs(quantile(numbers, tally, q) - true) <= ERROR * abs(true) * (1.0 + 1e-9)


def test_statistics_are_those_of_the_rows(tmp_path):
    plan = synthetic.plan(ticks=30)
    whole, _ = recorded(tmp_path / "rows", plan)
    few, _ = recorded(
        tmp_path / "summary",
        summarised(plan, Recording("host", True, 0.0, (), (), 1.0), Recording("task", True, 0.0, (), (), 1.0)),
    )
    rows, run = cosim.load(whole), cosim.load(few)
    assert not {"host", "task"} & set(run.signals)
    for signal in ("host", "task"):
        for name in measured(CATALOGUE[signal]):
            expression = name
            done = f"isfinite({expression}::DOUBLE)"
            if name in PARTS:
                expression = "{1} - {0}".format(*PARTS[name])
                done = f"status = 'completed' AND isfinite({expression})"
            true = rows.sql(
                f"SELECT count(*), sum({expression}::DOUBLE), min({expression}::DOUBLE), max({expression}::DOUBLE) "
                f"FROM {signal} WHERE {done}"
            ).fetchall()[0]
            found = run.sql(
                f"SELECT sum(count), sum(sum), min(least), max(most) FROM {signal}_summary WHERE quantity = '{name}'"
            ).fetchall()[0]
            assert (found[0] or 0) == true[0]
            if true[0]:
                assert found[1:] == pytest.approx(true[1:], rel=1e-12)
                values = rows.sql(f"SELECT ({expression})::DOUBLE v FROM {signal} WHERE {done}").fetchnumpy()["v"]
                counted = run.sql(f"SELECT bin, tally FROM {signal}_bins WHERE quantity = '{name}'").fetchnumpy()
                low = np.quantile(values, 0.95, method="lower")
                numbers = counted["bin"].astype(np.int64), counted["tally"].astype(np.int64)
                assert quantile(*numbers, 0.95) == pytest.approx(low, rel=1.01 * ERROR, abs=1e-9)
    rows.close()
    run.close()


def test_windows_and_groups(tmp_path):
    plan = synthetic.plan(ticks=31)
    window = 10 * plan.step
    recording = Recording("task", True, 0.0, (), (), window, ("status", "host"))
    folder, reported = recorded(tmp_path, summarised(plan, recording))
    run = cosim.load(folder)
    found = run.sql(
        "SELECT start, time, status, host, sum(\"count\") n FROM task_summary WHERE quantity = 'input' GROUP BY ALL"
    ).fetchall()
    true = {}
    for frame in (frame for frame in reported if frame.signal == "task"):
        k = max(0, round(frame.time / plan.step) - 1) // 10
        for status, host in zip(frame["status"].tolist(), frame["host"].tolist(), strict=True):
            name = plan.scene.nodes[host].id if 0 <= host < len(plan.scene.nodes) else None
            key = (pytest.approx(k * window), TASK_STATUS[status], name)
            true[round(k * window, 9), *key[1:]] = true.get((round(k * window, 9), *key[1:]), 0) + 1
    assert {(round(start, 9), status, host): n for start, _, status, host, n in found} == true
    assert max(time for _, time, *_ in found) <= plan.duration
    run.close()


def test_a_killed_run_keeps_the_windows_that_had_ended(tmp_path):
    plan = synthetic.plan(ticks=25)
    recording = Recording("host", True, 0.0, (), (), 10 * plan.step)
    folder, _ = recorded(tmp_path, summarised(plan, recording), close=False)
    run = cosim.load(recover(folder).path)
    assert run.sql("SELECT count(DISTINCT start) FROM host_summary").fetchall() == [(2,)]
    run.close()


def test_figures_are_those_of_the_rows(tmp_path):
    plan = synthetic.plan(ticks=60)
    rows, _ = recorded(tmp_path / "rows", plan)
    recordings = (Recording("host", True, 0.0, (), (), 5.0), Recording("task", True, 0.0, (), (), 5.0))
    few, _ = recorded(tmp_path / "summary", summarised(plan, *recordings))
    whole, run = cosim.load(rows), cosim.load(few)
    true, found = whole.metrics, run.metrics
    for part, (first, last) in PARTS.items():
        done = f"SELECT {last} - {first} v FROM task WHERE status = 'completed' AND isfinite({last} - {first})"
        values = whole.sql(done).fetchnumpy()["v"]
        for statistic, q in (("median", 0.5), ("p95", 0.95), ("p99", 0.99)):
            value = np.quantile(values, q, method="lower")
            near = pytest.approx(value, rel=1.01 * ERROR, abs=1e-9)
            assert found["figures"][f"{part}_{statistic}"]["value"] == near
        mean = true["figures"][f"{part}_mean"]["value"]
        assert found["figures"][f"{part}_mean"]["value"] == pytest.approx(mean, rel=1e-9, abs=1e-9)
    assert found["workloads"].keys() == true["workloads"].keys()
    for name, row in found["workloads"].items():
        for key in ("ended", "completed", "failed", "late_share", "response_mean", "queue_mean"):
            assert row[key] == pytest.approx(true["workloads"][name][key], rel=1e-9), (name, key)
    whole.close()
    run.close()


def test_the_report_has_a_table_of_the_statistics(tmp_path):
    plan = synthetic.plan(ticks=20)
    folder, _ = recorded(tmp_path, summarised(plan, Recording("host", True, 0.0, (), (), 2.0)))
    page = write_report(folder).read_text(encoding="utf-8")
    assert "statistics" in page
    with Folder(folder) as run:
        table = statistics_table(run)
    assert table is not None
    assert {(row[0].text, row[2].text) for row in table.rows} >= {("host", "power"), ("host", "utilisation")}
