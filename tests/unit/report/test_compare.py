"""Runs side by side."""

from __future__ import annotations

import json
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import RunError
from cosim.report import ranking, write_comparison
from cosim.report.charts import Strip, strips
from cosim.report.folder import Folder
from cosim.report.groups import configuration, group
from cosim.report.text import quantity
from cosim.results.replications import estimate
from cosim.results.student import interval
from tests.unit.report.folders import write_run
from tests.unit.report.pages import Page


def _runs(root, seeds=(1, 2, 3)):
    return [
        write_run(root, name=f"{scheduler}-{seed}", seed=seed, scheduler=scheduler, slowdown=slowdown, duration=20.0)
        for scheduler, slowdown in (("nearest", 1.0), ("least-loaded", 1.8))
        for seed in seeds
    ]


def test_replications_form_one_group(tmp_path):
    folders = [Folder(path) for path in _runs(tmp_path)]
    groups = group(folders)
    assert [(g.key, len(g.runs), g.label) for g in groups] == [
        ("nearest", 3, "scheduler nearest"), ("least-loaded", 3, "scheduler least-loaded"),
    ]  # fmt: skip


def test_means_and_differences_are_those_of_the_figures(tmp_path):
    runs = _runs(tmp_path)
    page = Page(write_comparison(runs, tmp_path / "c.html"))
    values = [json.loads((r / "metrics.json").read_text())["figures"]["response_mean"]["value"] for r in runs]
    row = next(r for r in page.tables["t-figures"] if r[0][0] == "response mean")
    mean, half = interval(values[:3])
    assert row[1][1]["title"] == f"{mean!r} ± {half!r}, n = 3"
    assert float(row[3][1]["data-v"]) == pytest.approx(np.mean(values[3:]) - np.mean(values[:3]))
    assert page.table("figures")[0] == [
        "Figure", "nearest", "least-loaded", "least-loaded − nearest",
    ]  # fmt: skip


def test_the_page_opens_with_a_ranking_in_words(tmp_path):
    """`nearest` computes 1.8 times as fast, with the same draws."""
    runs = _runs(tmp_path)
    page = Page(write_comparison(runs, tmp_path / "c.html"))
    values = [json.loads((r / "metrics.json").read_text())["figures"]["response_mean"]["value"] for r in runs]
    apart = quantity(np.mean(values[3:]) - np.mean(values[:3]), "s").replace("\u00a0", " ")
    best = quantity(np.mean(values[:3]), "s").replace("\u00a0", " ")
    assert f"nearest is fastest: {best}, {apart} less than least-loaded (" in page.text
    assert "3 paired seeds" in page.text
    assert page.source.index("is fastest") < page.source.index('id="ranking"') < page.source.index('id="figures"')
    assert [row[:3] for row in page.table("ranking")[1:]] == [["1", "nearest", "3"], ["2", "least-loaded", "3"]]
    assert page.table("ranking")[0][3:5] == ["response mean", "Against the best"]
    chosen = Page(write_comparison(runs, tmp_path / "d.html", ["energy_total"]))
    assert chosen.table("ranking")[0][3] == "energy total"


def test_what_cannot_be_told_apart_is_not_called_better(tmp_path):
    runs = [
        write_run(tmp_path, name=f"{name}-{seed}", seed=seed + 10 * k, scheduler=name, duration=20.0)
        for k, name in enumerate(("one", "other")) for seed in (1, 2, 3)
    ]  # fmt: skip
    with ExitStack() as stack:
        found = ranking.ranking(group([stack.enter_context(Folder(run)) for run in runs]))
        assert "cannot be told apart in response mean" in found.verdicts[0]
        alone = ranking.ranking(group([stack.enter_context(Folder(runs[k])) for k in (0, 3)]))
        assert alone.verdicts[0].endswith("without replications this may be chance.")


def test_an_overloaded_configuration_does_not_win_by_its_survivors(tmp_path):
    """The faster one has left most of its tasks unfinished: it comes last, and the page warns."""
    runs = _runs(tmp_path)
    for run in runs[:3]:
        metrics = json.loads((run / "metrics.json").read_text())
        known = {"unfinished_share": 0.6, "tasks_in_flight": 96.0}
        metrics["figures"] |= {key: {"value": value, "unit": "1"} for key, value in known.items()}
        metrics["figures"]["completion_ratio"]["value"] = 0.4
        metrics["figures"]["response_mean"]["at_least"] = True
        (run / "metrics.json").write_text(json.dumps(metrics))
    page = Page(write_comparison(runs, tmp_path / "c.html"))
    assert [row[1] for row in page.table("ranking")[1:]] == ["least-loaded", "nearest"]
    assert "least-loaded completes most tasks" in page.text
    assert "nearest is fastest" not in page.text
    assert "Response mean: nearest ≥" in page.text
    assert "the unfinished tasks decide which is less" in page.text
    assert "nearest: 3 of 3 runs; the worst: 96 of" in page.text
    assert any(cell.startswith("≥") for cell in page.table("ranking")[2])


def test_a_row_far_off_leaves_the_others_apart():
    rows = [Strip(name, {"1": v, "2": v + 1}, estimate({"value": v + i, "unit": "s"} for i in (0, 1)))
            for name, v in (("a", 1.0), ("b", 2.0), ("c", 4.0), ("d", 900.0))]  # fmt: skip
    chart = strips("Time", rows, unit="s")
    assert "▸" in chart.svg
    assert chart.svg.count('class="dot"') == 6
    assert "900" in chart.csv
    assert strips("Time", rows[:1], unit="s").svg == ""


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8))
def test_strips_hold_any_numbers(values):
    rows = [Strip(str(k), {"1": v}, estimate([{"value": v, "unit": "s"}])) for k, v in enumerate(values)]
    chart = strips("Any", rows, unit="s")
    assert bool(chart.svg) == (len(values) > 1)
    assert "nan" not in chart.svg


def test_single_runs_have_no_interval_but_a_distribution(tmp_path):
    runs = _runs(tmp_path, seeds=(1,))
    page = Page(write_comparison(runs, tmp_path / "c.html"))
    row = next(r for r in page.table("figures") if r[0] == "response mean")
    assert "±" not in "".join(row)
    deltas = [r[7] for r in page.table("response-times")[1:]]
    assert any(d.startswith("+") for d in deltas)


def test_the_page_names_what_differs(tmp_path):
    page = Page(write_comparison(_runs(tmp_path), tmp_path / "c.html"))
    assert page.table("scenario")[1:] == [["adapters.continuum.scheduler", "nearest", "least-loaded"]]
    assert "- scheduler: nearest + scheduler: least-loaded" in page.text
    assert "versions, source, driver and machine are the same" in page.text


def test_replications_alone_are_told_as_such(tmp_path):
    runs = _runs(tmp_path)[:2]
    assert "the scenarios are the same but for the seed" in Page(write_comparison(runs, tmp_path / "c.html")).text


def test_runs_without_tasks_compare(tmp_path):
    runs = [
        write_run(tmp_path, name=n, tasks=False, scheduler=n, status=s)
        for n, s in (("a", "complete"), ("b", "partial"))
    ]
    text = Page(write_comparison(runs, tmp_path / "c.html")).text
    assert "Response time" not in text
    assert "1 not complete" in text


def test_names_with_markup_are_harmless(tmp_path):
    runs = [write_run(tmp_path, name=n, title="<img src=x>", scheduler=s) for n, s in (("a", "x"), ("b", "<script>y"))]
    page = Page(write_comparison(runs, tmp_path / "c.html"))
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert not any(tag == "img" for tag, _ in page.elements)


def test_one_run_is_no_comparison(tmp_path):
    with pytest.raises(RunError, match="at least two"):
        write_comparison([write_run(tmp_path)], tmp_path / "c.html")


def test_lists_of_blocks_compare_by_key():
    assert configuration("events:\n- {at: 4 s, do: fail}\nat: [1, 2]\n") == {
        "events.0.at": "4 s", "events.0.do": "fail", "at": "1, 2",
    }  # fmt: skip
    assert configuration(": [") == {}
    assert configuration("text") == {}
