"""Figures, ledgers, comparisons and the statistics behind them."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cosim
from cosim.contract.errors import SetupError
from cosim.report.text import estimated
from cosim.results.compare import effects, exact, hedges_g, welch
from cosim.results.folder import RunFolder
from cosim.results.ledgers import ledger_faults
from cosim.results.load import QueryError
from cosim.results.metrics import measure, write_metrics
from cosim.results.replications import estimate, group, main_figures
from cosim.results.student import cdf, incomplete_beta, interval, quantile
from cosim.scenario.plan.plan import Recording
from tests.unit.results import synthetic

pd = pytest.importorskip("pandas")
special = pytest.importorskip("scipy.special")
stats = pytest.importorskip("scipy.stats")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    paths = [synthetic.write_run(base, seed=seed, ticks=60) for seed in (1, 1, 2, 3)]
    return paths, [write_metrics(path) for path in paths]


def test_figures_agree_with_the_tables_by_another_way(runs):
    path, metrics = runs[0][0], runs[1][0]
    rows = pq.read_table(path / "tasks.parquet").to_pandas()
    done = rows[rows.status == "completed"]
    figures = {key: entry["value"] for key, entry in metrics["figures"].items()}
    response = done.ended - done.created
    assert figures["response_mean"] == pytest.approx(response.mean())
    assert figures["response_p95"] == pytest.approx(np.percentile(response, 95))
    assert figures["tasks_completed"] == len(done)
    assert figures["tasks_failed"] == len(rows) - len(done)
    assert figures["tasks_created"] == len(rows) + figures["tasks_in_flight"]
    assert figures["late_share"] == pytest.approx(done.late.mean())
    parts = sum(figures[f"{part}_mean"] for part in ("upload", "queue", "compute", "download"))
    assert parts == pytest.approx(figures["response_mean"])
    link = pq.read_table(path / "frames/link/radio.parquet").to_pandas()
    assert figures["coverage"] == pytest.approx(link.cell.notna().mean())
    assert figures["handovers"] == link.groupby("node", observed=True).handovers.max().sum()
    assert figures["energy_total"] == pytest.approx(figures["energy_edge"] + figures["energy_cloud"])
    assert sum(entry["completed"] for entry in metrics["workloads"].values()) == len(done)
    assert set(metrics["hosts"]) == {"edge-1", "edge-2", "edge-3", "cloud"}
    assert set(metrics["cells"]) == {"edge-1", "edge-2", "edge-3"}


def test_a_part_of_the_response_is_told_of_the_tasks_that_have_it(runs, tmp_path):
    path = shutil.copytree(runs[0][0], tmp_path / "jobs")
    kept = pq.read_table(path / "tasks.parquet")
    job = np.array(kept["workload"].to_pylist()) == kept["workload"][0].as_py()  # of a graph: no single upload
    uploaded = pa.array(np.where(job, np.nan, kept["uploaded"]))
    pq.write_table(kept.set_column(kept.column_names.index("uploaded"), "uploaded", uploaded), path / "tasks.parquet")
    run = cosim.load(path, verify=False)
    found = measure(run)
    run.close()
    rows = kept.to_pandas()[~job]
    done = rows[rows.status == "completed"]
    for part, times in (("upload", done.uploaded - done.created), ("queue", done.started - done.uploaded)):
        assert found["figures"][f"{part}_mean"]["value"] == pytest.approx(times.mean())
        assert found["figures"][f"{part}_median"]["value"] == pytest.approx(times.median())
        assert found["figures"][f"{part}_p95"]["value"] == pytest.approx(np.percentile(times, 95))
    assert found["figures"]["compute_mean"] == runs[1][0]["figures"]["compute_mean"]
    named = done.groupby("workload", observed=True)
    for name, times in named.uploaded.mean().items():
        assert found["workloads"][name]["upload_mean"] == pytest.approx(times - named.created.mean()[name])
    assert found["workloads"][kept["workload"][0].as_py()]["upload_mean"] is None


def test_metrics_are_strict_json_and_read_back(runs):
    text = (runs[0][0] / "metrics.json").read_text()
    assert json.loads(text, parse_constant=lambda word: pytest.fail(word)) == cosim.load(runs[0][0]).metrics


def test_the_row_at_the_start_is_no_part_of_the_utilisation(tmp_path):
    folder = synthetic.write_run(tmp_path, ticks=10)
    figures = write_metrics(folder)["figures"]
    with contextlib.closing(cosim.load(folder)) as run:
        cores = pd.Series({node["id"]: node["cores"] for node in run.plan["scene"]["nodes"]})
        busy = run.sql("SELECT node::VARCHAR node, utilisation FROM host WHERE time > 0").df()
        weight = cores[busy.node].to_numpy()
        mean, rows = (busy.utilisation * weight).sum() / weight.sum(), len(busy)
        assert rows < run.sql("SELECT count(*) FROM host").fetchall()[0][0]
    assert figures["utilisation_mean"]["value"] == pytest.approx(mean)


def test_a_run_without_tasks_or_columns_still_has_figures(tmp_path):
    few = (Recording("task", True, 0.0, ("created",), ()), Recording("link", True, 0.0, ("snr",), ()),
           Recording("host", False, 0.0, (), ()), Recording("mobility", True, 0.0, ("x", "y"), ()))  # fmt: skip
    folder = synthetic.write_run(tmp_path, ticks=10, recordings=few)
    figures = write_metrics(folder)["figures"]
    assert figures["tasks_created"]["value"] > 0
    assert "response_mean" not in figures
    assert "utilisation_mean" not in figures
    run = cosim.load(folder)
    run.manifest["adapters"][0]["summary"] = {"energy": {"total": 1.0}, "utilisation": {"edge-1": 0.2, "edge-2": 0.6}}
    found = measure(run)  # what the ledgers know needs no rows
    run.close()
    assert found["figures"]["utilisation_mean"]["value"] == pytest.approx(0.4)
    assert found["hosts"]["edge-2"]["utilisation"] == 0.6


def _ledger():
    world = synthetic.World(synthetic.plan(ticks=40))
    for _ in world.frames():
        pass
    return world.summary()


def test_what_adapters_count_themselves_is_a_figure(runs):
    run = cosim.load(runs[0][0])
    mine = run.manifest["adapters"][0]["summary"]
    camera = {"hits": 6, "false_alarms": 2, "weeds": 9}
    run.manifest["adapters"][0]["summary"] = {
        **mine, "machines": {"migrations": 7, "violating_periods": 3}, "jobs": {"mean_waiting": 12.5}, "alarms": 4,
        "agreements": {"a": {"violations": 2}, "b": {"violations": 5}},
        "cluster": {"makespan": 80.0, "utilisation": 0.75, "starts_blocked_by_network": 6},
        "cameras": {"cam": camera},
    }  # fmt: skip
    found = {key: entry["value"] for key, entry in measure(run)["figures"].items()}
    run.close()
    assert (found["migrations"], found["waiting_mean"], found["makespan"], found["alarms"]) == (7, 12.5, 80, 4)
    assert (found["utilisation_makespan"], found["blocked_starts"]) == (0.75, 6)
    assert found["agreement_violations"] == 3 + 2 + 5
    assert (found["alarm_precision"], found["alarm_recall"]) == (6 / 8, 6 / 9)
    assert found["alarm_f1"] == pytest.approx(2 / (8 / 6 + 9 / 6))


def test_a_table_has_the_figures_that_differ_or_those_that_are_chosen():
    def of(value, way):
        return {"figures": {"migrations": {"value": value, "unit": "1"}, "distance": {"value": way, "unit": "m"}}}

    groups = [group([({}, of(value, way)) for way in (1.0, 2.0)])[0] for value in (3.0, 4.0)]
    assert main_figures(groups) == ["migrations"]
    assert main_figures(groups, ["distance"]) == ["distance"]
    assert main_figures(groups[:1]) == ["distance"]  # replications: what differs between them
    with pytest.raises(SetupError, match="no run has the figure 'speed'; there are migrations, distance"):
        main_figures(groups, ["speed"])


LEDGER = _ledger()


def test_ledgers_that_close_have_no_faults():
    assert ledger_faults(LEDGER) == []


@pytest.mark.parametrize(
    "path",
    ["tasks.created", "tasks.completed", "tasks.in_flight", "workloads.hazard.created", "bytes.input.offered",
     "bytes.output.dropped", "energy.total", "energy.by_node.cloud", "energy.by_tier.edge", "cost.total", "cost.cpu"],
)  # fmt: skip
def test_a_ledger_that_does_not_close_is_told(path):
    broken = copy.deepcopy(LEDGER)
    *way, last = path.split(".")
    place = broken
    for step in way:
        place = place[step]
    place[last] += 1
    assert ledger_faults(broken)


def test_more_late_tasks_than_completed_ones_are_a_fault():
    tasks = {"created": 5, "completed": 3, "failed": {}, "in_flight": 2, "late": 3}
    assert ledger_faults({"tasks": tasks}) == []
    assert ledger_faults({"tasks": {**tasks, "late": 4}}) == ["tasks: 4 late, but only 3 completed"]


def test_the_energy_of_cells_counts():
    energy = {"total": 15.0, "by_node": {"a": 4.0, "b": 1.0}, "by_tier": {"edge": 5.0}, "radio": 1.0, "cells": 2.0,
              "links": 7.0}  # fmt: skip
    assert ledger_faults({"energy": energy}) == []
    assert len(ledger_faults({"energy": {**energy, "cells": 3.0}})) == 2


@pytest.mark.parametrize("cores", [{}, {"cpu": 2.0}])
def test_penalties_count_in_the_cost(cores):
    cost = {"transfer": 1.0, "energy": 3.0, "penalty": {"total": 5.0}, **cores}
    cost["total"] = 9.0 + sum(cores.values())
    assert ledger_faults({"cost": cost}) == []
    by_node = {"a": 4.0 + sum(cores.values())}
    assert ledger_faults({"cost": {**cost, "by_node": by_node}}) == []
    assert len(ledger_faults({"cost": {**cost, "by_node": by_node, "penalty": {"total": 6.0}}})) == 2


def test_penalties_and_carbon_are_key_figures(tmp_path):
    path = synthetic.write_run(tmp_path, ticks=10)
    folder = RunFolder.open(path)
    assert not {"carbon_total", "cost_penalty"} & set(write_metrics(path)["figures"])
    adapters = copy.deepcopy(folder.manifest["adapters"])
    summary = adapters[2]["summary"]
    summary["carbon"] = {"grams": 7.0, "green_energy": 2.0, "brown_energy": 3.0}
    summary["cost"]["penalty"] = {"total": 4.0}
    summary["cost"]["total"] += 4.0
    folder.update(adapters=adapters)
    metrics = write_metrics(path)
    assert metrics["faults"] == []
    names = ("carbon_total", "energy_green", "energy_brown", "cost_penalty")
    assert [metrics["figures"][name]["value"] for name in names] == [7.0, 2.0, 3.0, 4.0]
    assert metrics["ledgers"][adapters[2]["name"]]["carbon"] == summary["carbon"]


def test_faults_get_into_manifest_and_metrics(tmp_path):
    path = synthetic.write_run(tmp_path, ticks=10)
    folder = RunFolder.open(path)
    adapters = copy.deepcopy(folder.manifest["adapters"])
    adapters[2]["summary"]["tasks"]["created"] += 1
    folder.update(adapters=adapters)
    faults = write_metrics(path)["faults"]
    assert "created" in faults[0]
    assert RunFolder.open(path).manifest["faults"] == faults


def test_exact_finds_equal_runs_equal_and_others_not(runs):
    first, again, other, _ = runs[0]
    assert exact(first, again) == []
    assert any("seed" in line for line in exact(first, other))


@pytest.mark.parametrize(
    ("column", "change"),
    [("x", lambda v: np.nextafter(v, np.inf)), ("z", lambda v: -v), ("speed", lambda v: v * np.nan)],
)
def test_exact_sees_one_bit_of_one_row(runs, tmp_path, column, change):
    import shutil

    copied = tmp_path / "run"
    shutil.copytree(runs[0][0], copied)
    assert exact(runs[0][0], copied) == []
    file = copied / "frames/mobility/traffic.parquet"
    rows = pq.read_table(file)
    values = rows.column(column).to_numpy().copy()
    values[7] = change(values[7])
    index = rows.schema.get_field_index(column)
    pq.write_table(rows.set_column(index, rows.schema.field(column), pa.array(values)), file)
    synthetic.sign(copied)
    (difference,) = exact(runs[0][0], copied)
    assert f"{column} differs from row 7 on" in difference


def test_exact_sees_missing_files_and_rows(runs, tmp_path):
    import shutil

    copied = tmp_path / "run"
    shutil.copytree(runs[0][0], copied)
    (copied / "nodes.parquet").unlink()
    file = copied / "tasks.parquet"
    pq.write_table(pq.read_table(file).slice(1), file)
    synthetic.sign(copied)
    text = "\n".join(exact(runs[0][0], copied))
    assert "nodes.parquet is only in" in text
    assert "tasks.parquet" in text
    assert "rows against" in text


def test_effects_need_replications_for_intervals(runs):
    metrics = runs[1]
    single = {e.figure: e for e in effects(metrics[:1], metrics[2:3])}["response_mean"]
    assert single.difference == single.mean - single.base
    assert math.isnan(single.low)
    many = {e.figure: e for e in effects(metrics[1:3], metrics[2:4])}["response_mean"]
    assert many.low < many.difference < many.high
    same = {e.figure: e for e in effects(metrics[:2], metrics[:2])}["response_mean"]
    assert (same.difference, same.low, same.high, same.g, same.clear) == (0.0, 0.0, 0.0, 0.0, False)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12), st.lists(st.floats(-100, 100), min_size=2, max_size=12))
def test_welch_agrees_with_scipy(a, b):
    if np.var(a) < 1e-6 or np.var(b) < 1e-6:
        return
    expected = stats.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert welch(a, b)[:2] == pytest.approx((expected.low, expected.high), rel=1e-7, abs=1e-7)


def test_hedges_g_of_a_known_case():
    # means 2 and 4, pooled deviation 1, 4 degrees of freedom: 2 * (1 - 3/15)
    assert hedges_g([1.0, 2.0, 3.0], [3.0, 4.0, 5.0]) == pytest.approx(1.6)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0.9, 500.0))
def test_quantiles_agree_with_scipy(p, freedom):
    assert quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), rel=1e-6, abs=1e-9)


@given(st.floats(-50, 50), st.floats(0.5, 1e4))
def test_distribution_agrees_with_scipy(t, freedom):
    assert cdf(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), rel=1e-8, abs=1e-14)


@given(st.floats(0.1, 100), st.floats(0.1, 100), st.floats(0, 1))
def test_incomplete_beta_agrees_with_scipy(a, b, x):
    assert incomplete_beta(a, b, x) == pytest.approx(special.betainc(a, b, x), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("wrong", [(0.0, 3), (1.0, 3), (0.9, 0)])
def test_quantile_refuses_what_has_none(wrong):
    with pytest.raises(ValueError, match=r"needed|positive"):
        quantile(*wrong)


def test_replications_are_grouped_without_their_seed(runs):
    metrics = runs[1]
    assigned = [({"run.seed": seed, "policy": policy}, metrics[seed]) for policy in ("a", "b") for seed in (1, 2, 3)]
    groups = group(assigned)
    assert [(some.assignment, len(some.runs)) for some in groups] == [({"policy": "a"}, 3), ({"policy": "b"}, 3)]
    values = [m["figures"]["response_mean"]["value"] for m in metrics[1:]]
    expected = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    estimate = groups[0].estimates()["response_mean"]
    assert (estimate.low, estimate.high) == pytest.approx(expected)
    assert estimate.mean == pytest.approx(np.mean(values))
    assert estimate.half == pytest.approx(interval(values)[1])


def test_no_interval_of_a_time_goes_below_0():
    times = [{"value": value, "unit": "s"} for value in (0.1, 0.1, 1.2)]
    found = estimate(times)
    assert found.mean - found.half < 0 == found.low
    assert estimated("response_mean", found) == "467\u00a0ms (0\u00a0s\u00a0to\u00a02.04\u00a0s)"
    assert estimate([{**one, "unit": "dB"} for one in times]).low == found.mean - found.half
    lower = estimate([*times, {**times[0], "at_least": True}])
    assert estimated("response_mean", lower).startswith("≥")
    assert estimate([None, {"value": None, "unit": "s"}]) is None


def test_one_replication_has_no_interval(runs):
    (only,) = group([({}, runs[1][0])])
    assert only.estimates()["throughput"].half is None


def test_tables_in_every_form(runs):
    pytest.importorskip("polars")
    run = cosim.load(runs[0][0])
    link = run.table("link")
    assert len(link.df()) == len(link.pl()) == len(link.fetchnumpy()["time"]) == run.manifest["signals"]["link"]["rows"]
    joined = run.sql("SELECT tier, count(*) FROM task JOIN nodes ON task.host = nodes.node GROUP BY tier ORDER BY tier")
    assert [tier for tier, _ in joined.fetchall()] == ["cloud", "edge"]
    assert run.signals == ["cell", "host", "link", "mobility", "task", "traffic"]
    assert run.plan["name"] == "synthetic"


def test_what_is_not_there_is_told_with_what_is(runs):
    run = cosim.load(runs[0][0])
    with pytest.raises(QueryError, match=r"no table 'mobilty'.*has cell, events, host, link, mobility"):
        run.table("mobilty")
    with pytest.raises(QueryError, match="has the tables cell"):
        run.sql("SELECT * FROM nothing")
    with pytest.raises(QueryError, match="snrr"):
        run.sql("SELECT snrr FROM link")


def test_a_wrong_folder_is_told_with_the_right_one(runs, tmp_path):
    with pytest.raises(SetupError, match="does not exist"):
        cosim.load(tmp_path / "none")
    with pytest.raises(SetupError, match=r"no manifest\.json"):
        cosim.load(tmp_path)
    with pytest.raises(SetupError, match=r"holds 4 run folder\(s\), for example"):
        cosim.load(runs[0][0].parent)


def test_many_runs_have_one_table(runs):
    paths = runs[0]
    many = cosim.load_all(paths[0].parent)
    assert len(many) == 4
    counts = dict(many.sql("SELECT run, count(*) FROM task GROUP BY run").fetchall())
    assert counts == {path.name: cosim.load(path).manifest["signals"]["task"]["rows"] for path in paths}


def test_loading_cosim_loads_no_tables():
    import subprocess
    import sys

    code = "import cosim, sys; assert not {'duckdb', 'pyarrow', 'numpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
