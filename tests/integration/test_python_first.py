"""From a scenario in Python to a comparison in pairs, a figure and a table."""

from __future__ import annotations

import csv
import json
import shutil
from contextlib import closing

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import cosim
from cosim.cli.main import app
from cosim.contract.errors import ScenarioError, SetupError
from cosim.report.figure import points

pytest.importorskip("pandas")
stats = pytest.importorskip("scipy.stats")


def cameras(folder):
    scenario = cosim.Scenario("cameras", folder=folder)
    scenario.set("run", duration="20 s", step="1 s")
    scenario.adapter("continuum", scheduler="nearest")
    scenario.kind("camera", tier="device")
    scenario.node("camera-[1..6]", kind="camera")
    scenario.node("edge-[1..2]", kind="edge", cpu="2 x 1 GHz")
    scenario.link("camera-*", "edge-*", rate="100 Mbit/s", delay="5 ms")
    scenario.workload(
        "pictures", source="camera-*", arrivals="poisson 2 Hz", input="100 kB", output="1 kB",
        work="exponential 200 Mcycles", deadline="300 ms",
    )  # fmt: skip
    return scenario


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("python")
    scenario = cameras(folder)
    scenario.set("sweep", **{"adapters.continuum.scheduler": ["nearest", "least-loaded"]})
    with closing(cosim.sweep(scenario, seeds="1..4", out=folder / "runs", workers=1)) as runs:
        assert len(runs) == 8
        figures = runs.figures
        compared = cosim.compare(runs)
    (path,) = (folder / "runs/cameras").glob("sweep-*")
    return path, figures, compared


def test_a_sweep_with_a_wrong_value_is_refused_before_its_first_run(tmp_path):
    scenario = cameras(tmp_path)
    scenario.set("sweep", **{"adapters.continuum.scheduler": ["nearest", "math:pi"]})
    with pytest.raises(ScenarioError, match="not a function"):
        cosim.sweep(scenario, seeds=[1, 2], out=tmp_path / "runs", workers=1)
    assert not (tmp_path / "runs").exists()


def test_a_run_from_a_mapping_is_that_of_the_file(tmp_path):
    scenario = cameras(tmp_path)
    one = cosim.run(scenario, out=tmp_path / "a")
    two = cosim.run(scenario.data, out=tmp_path / "b", overrides=["run.seed=1"])
    three = cosim.run(scenario.save(tmp_path / "saved"), out=tmp_path / "c")
    assert one.status == two.status == three.status == "complete"
    assert dict(one.figures) == dict(three.figures)
    with closing(cosim.load(one.folder)) as run:
        assert "tasks_created" in run._repr_html_()
    assert not list(tmp_path.glob(".*.yaml"))


def test_mistakes_are_told_by_their_paths(tmp_path):
    scenario = cameras(tmp_path).node("odd", kind="edge", cpu="2 x 1 Hz", memry="1 GB")
    with pytest.raises(ScenarioError) as caught:
        scenario.check()
    assert any(problem.path == "nodes.odd.memry" and problem.file is None for problem in caught.value.problems)


def test_the_names_are_there():
    assert {"Scenario", "run", "sweep", "compare", "load", "load_all", "latest", "version"} <= set(dir(cosim))
    assert all(getattr(cosim, name) for name in cosim.__all__)
    with pytest.raises(AttributeError):
        cosim.nothing  # noqa: B018


@pytest.mark.slow
def test_figures_are_a_data_frame_of_parameters_and_figures(sweep):
    _, figures, _ = sweep
    assert {"run", "seed", "status", "adapters.continuum.scheduler", "late_share", "response_mean"} <= set(figures)
    assert sorted(figures["seed"]) == [1, 1, 2, 2, 3, 3, 4, 4]
    # common random numbers: both schedulers had the same tasks
    created = figures.pivot(index="seed", columns="adapters.continuum.scheduler", values="tasks_created")
    assert (created["nearest"] == created["least-loaded"]).all()


def test_runs_of_equal_seeds_are_compared_in_pairs(sweep):
    _, figures, compared = sweep
    wide = figures.pivot(index="seed", columns="adapters.continuum.scheduler", values="response_mean")
    ((name, found),) = compared.effects.items()
    (first,) = (word for word in ("nearest", "least-loaded") if word in compared.base)
    other = next(word for word in ("nearest", "least-loaded") if word != first)
    assert other in name
    effect = next(e for e in found if e.figure == "response_mean")
    oracle = stats.ttest_rel(wide[other], wide[first])
    interval = oracle.confidence_interval(0.95)
    assert effect.test == "paired t"
    assert effect.runs == (4, 4)
    assert effect.p == pytest.approx(oracle.pvalue, rel=1e-9)
    assert (effect.low, effect.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert compared.tests == sum(e.p == e.p for e in found)
    assert len(compared.frame) == len(found)
    assert "paired t" in compared._repr_html_()
    (line,) = (line for line in repr(compared).splitlines() if line.startswith("response mean"))
    assert line.replace("≥ ", "").split()[2:4] == [f"{effect.base:.4g}", f"{effect.mean:.4g}"]
    assert line.count("≥") == sum(effect.at_least) == len(compared.warnings)  # `nearest` is overloaded here


def test_the_command_compares_a_sweep_and_several(sweep, tmp_path):
    path, _, compared = sweep
    out = str(tmp_path / "comparison.html")
    done = CliRunner().invoke(app, ["compare", str(path), "--out", out])
    assert done.exit_code == 0, done.output
    assert "pairs of runs with equal seeds" in done.output
    assert f"{compared.tests} comparisons were made" in done.output
    twice = CliRunner().invoke(app, ["compare", str(path), str(path), "--out", out, "--json"])
    assert twice.exit_code == 0, twice.output
    # every seed is there twice now, so nothing can be paired
    tests = {e["test"] for group in json.loads(twice.output)["differences"] for e in group["effects"]}
    assert tests <= {"Welch t", "equal", ""}


def test_runs_of_a_sweep_have_pages_that_the_sweeps_page_links(sweep):
    path, _, _ = sweep
    from cosim.cli.sweep import _write_reports
    from cosim.report import write_sweep_report
    from cosim.results.sweep import SweepFolder

    folder = SweepFolder(path)
    _write_reports([path / result.run for result in folder.results()], True)
    text = write_sweep_report(path).read_text(encoding="utf-8")
    for result in folder.results():
        assert (path / result.run / "report.html").is_file()
        assert f'href="{result.run}/report.html"' in text
    assert 'data-csv="configuration,seed,' in text


def test_a_damaged_run_of_a_sweep_is_told(sweep, tmp_path):
    copied = tmp_path / sweep[0].name
    shutil.copytree(sweep[0], copied)
    table = next(copied.glob("runs/*/*/tasks.parquet"))
    table.write_bytes(table.read_bytes()[:-9])
    done = CliRunner().invoke(app, ["report", str(copied)])
    assert done.exit_code == 1
    assert "tasks.parquet is not what was written" in done.output
    for words in (["compare", str(copied)], ["figure", str(copied), "--x", "scheduler", "--y", "late_share"]):
        assert CliRunner().invoke(app, [*words, "--out", str(tmp_path / "out")]).exit_code == 1


def test_a_figure_is_drawn_with_its_table(sweep, tmp_path):
    pytest.importorskip("matplotlib")
    path, figures, _ = sweep
    goal = tmp_path / "paper/late"
    words = ["figure", str(path), "--x", "scheduler", "--y", "response_mean", "--out", str(goal)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    for suffix, start in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        assert goal.with_suffix(f".{suffix}").read_bytes().startswith(start)
    rows = list(csv.DictReader(goal.with_suffix(".csv").read_text().splitlines()))
    wide = figures.pivot(index="seed", columns="adapters.continuum.scheduler", values="response_mean")
    assert [float(row["mean"]) for row in rows] == pytest.approx([wide[row["x"]].mean() for row in rows])
    interval = stats.ttest_rel(wide[rows[1]["x"]], wide[rows[0]["x"]]).confidence_interval(0.95)
    assert (float(rows[1]["difference_low"]), float(rows[1]["difference_high"])) == pytest.approx(tuple(interval))
    assert rows[1]["test"] == "paired t"
    assert pq.read_table(goal.with_suffix(".parquet")).num_rows == 2
    assert r"\begin{tabular}" in goal.with_suffix(".tex").read_text()
    again = goal.with_suffix(".svg").read_bytes()
    CliRunner().invoke(app, words)
    assert goal.with_suffix(".svg").read_bytes() == again


def test_lines_over_numbers_and_what_is_not_there():
    rows = [
        {"status": "complete", "seed": s, "nodes.n": f"{n} m", "a.policy": q, "late": n * s + (q == "b")}
        for n in (10, 2) for s in (1, 2, 3) for q in "ab"
    ]  # fmt: skip
    found = points(rows, "n", "late", "policy")
    assert [(p.by, p.x) for p in found] == [("a", "2 m"), ("a", "10 m"), ("b", "2 m"), ("b", "10 m")]
    assert [p.difference for p in found[2:]] == [1.0, 1.0]
    assert (found[2].difference_low, found[2].difference_high, found[2].pairs) == (1.0, 1.0, 3)
    with pytest.raises(SetupError, match=r"no parameter and no figure.*nodes\.n"):
        points(rows, "speed", "late")
