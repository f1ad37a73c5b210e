"""Figures over the parameters of a sweep, and the runs that failed."""

from __future__ import annotations

import json

import pytest

from cosim.contract.errors import RunError
from cosim.report import sweep, write_sweep_report
from tests.unit.report.folders import write_run
from tests.unit.report.pages import Page

SCHEDULER = "adapters.continuum.scheduler"


def _sweep(root, seeds=(1, 2)):
    for k, scheduler in enumerate(("nearest", "random")):
        for seed in seeds:
            status = "partial" if (k, seed) == (1, 2) else "complete"
            write_run(root / "runs", name=f"{scheduler}-{seed}", seed=seed, scheduler=scheduler, slowdown=1.0 + k,
                      duration=10.0, status=status)  # fmt: skip
    return root


def test_parameters_are_found_by_comparing_scenarios(tmp_path):
    members = sweep.collect(_sweep(tmp_path))
    assert sweep.parameters(members) == {SCHEDULER: ["nearest", "random"]}
    assert [(m.name, m.seed, m.status) for m in members] == [
        ("runs/nearest-1", "1", "complete"), ("runs/nearest-2", "2", "complete"),
        ("runs/random-1", "1", "complete"), ("runs/random-2", "2", "partial"),
    ]  # fmt: skip


def test_runs_without_a_folder_are_known_from_the_index(tmp_path):
    _sweep(tmp_path)
    lines = [
        {"run": "runs/nearest-1", "parameters": {SCHEDULER: "nearest", "run.seed": 1}},
        {"run": "runs/none", "parameters": {SCHEDULER: "magic"}, "seed": 9, "status": "failed",
         "error": {"type": "ScenarioError", "message": "no scheduler <magic>"}},
    ]  # fmt: skip
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"cut')
    page = Page(write_sweep_report(tmp_path, tmp_path / "s.html"))
    assert "3 of 5 complete" in page.text
    failed = page.table("failed-runs")[1:]
    assert [(row[0], row[-1]) for row in failed] == [
        ("runs/random-2", "adapter 'sumo' failed in step at 31 s: gone"), ("runs/none", "no scheduler <magic>"),
    ]  # fmt: skip
    assert len(page.table("runs")) == 6


def test_configurations_are_ranked_with_means_over_replications(tmp_path):
    _sweep(tmp_path, seeds=(1, 3, 4))
    runs = [f"runs/nearest-{s}/metrics.json" for s in (1, 3, 4)]
    values = [json.loads((tmp_path / run).read_text())["figures"]["response_mean"]["value"] for run in runs]
    page = Page(write_sweep_report(tmp_path, tmp_path / "s.html"))
    assert "nearest is fastest" in page.text
    (head, first, second) = page.tables["t-ranking"]
    assert [cell[0] for cell in head][:5] == ["Rank", "Configuration", "Runs", "response mean", "Against the best"]
    assert float(first[3][1]["data-v"]) == pytest.approx(sum(values) / 3)
    assert (first[1][0], first[4][0], second[1][0]) == ("nearest", "best", "random")
    assert "Runs that did not complete" not in page.text


def test_numbers_have_charts_over_them_and_words_have_none(tmp_path):
    _sweep(tmp_path)
    members = [m for m in sweep.collect(tmp_path) if m.status == "complete"]
    assert sweep.charts(members) == []
    for member in members:
        member.parameters["load"] = "2 Hz" if member.seed == "1" else "4 Hz"
    ((path, charts),) = sweep.charts(members)
    assert path == "load"
    assert [chart.title for chart in charts][:2] == ["Completion ratio", "Response mean"]


def test_replications_alone_give_tiles_with_intervals(tmp_path):
    for seed in (1, 2, 3):
        write_run(tmp_path, name=str(seed), seed=seed, duration=10.0)
    page = Page(write_sweep_report(tmp_path))
    assert page.path == tmp_path / "report.html"
    assert "Key figures over replications" in page.text
    assert "±" in page.text
    assert "3 runs" in page.text
    assert "Ranking" not in page.text


def test_numbers_with_units_are_drawn_to_scale():
    assert sweep.number("20 ms") == 20
    assert sweep.number(3) == 3
    assert sweep.number("fast") is None
    assert sweep.number(True) is None
    members = [sweep.SweepRun(str(v), {"a": f"{v} ms"}) for v in (100, 20, 3)]
    assert sweep.parameters(members) == {"a": ["3 ms", "20 ms", "100 ms"]}


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(RunError, match="no run"):
        write_sweep_report(tmp_path)
