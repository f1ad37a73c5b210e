"""Runs side by side."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cosim.contract.errors import RunError
from cosim.report import write_comparison
from cosim.report.effect import difference, mean
from cosim.report.folder import Folder
from cosim.report.groups import configuration, group
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
        ("A", 3, "scheduler nearest"), ("B", 3, "scheduler least-loaded"),
    ]  # fmt: skip


def test_means_and_differences_are_those_of_the_figures(tmp_path):
    runs = _runs(tmp_path)
    page = Page(write_comparison(runs, tmp_path / "c.html"))
    values = [json.loads((r / "metrics.json").read_text())["figures"]["response_mean"]["value"] for r in runs]
    row = next(r for r in page.tables["t-figures"] if r[0][0] == "response mean")
    assert float(row[1][1]["data-v"]) == pytest.approx(np.mean(values[:3]))
    assert row[1][1]["title"] == f"{mean(values[:3]).value!r} ± {mean(values[:3]).half!r}, n = 3"
    d = difference(values[:3], values[3:])
    assert float(row[3][1]["data-v"]) == d.value
    assert float(row[5][1]["data-v"]) == d.size


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
    assert "no tasks completed in these runs" in text
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
