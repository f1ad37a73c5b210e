"""The page of a run: right numbers, harmless names, and a page for every kind of run."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from time import sleep

import pytest

from cosim.contract.errors import RunError
from cosim.contract.signals import CATALOGUE
from cosim.report import trust, write_report
from cosim.report.folder import Folder
from cosim.report.text import figure
from cosim.results.folder import RunFolder
from cosim.results.load import load
from cosim.results.metrics import write_metrics
from cosim.results.recorder import Recorder
from tests.unit.report.folders import write_run
from tests.unit.report.pages import Page
from tests.unit.results.synthetic import World, plan
from tests.unit.results.synthetic import write_run as record

EVIL = "<script>alert(1)</script>\"'&</title><img src=x onerror=alert(2)>"


def test_the_page_shows_exactly_the_figures_of_the_run(tmp_path):
    run = write_run(tmp_path)
    metrics = json.loads((run / "metrics.json").read_text())
    page = Page(write_report(run))
    rows = page.tables["t-figures"][1:]
    shown = {cells[0][0]: cells for cells in rows}
    assert len(shown) == len(metrics["figures"])
    for key, entry in metrics["figures"].items():
        name, value, unit, meaning = shown[key.replace("_", " ")]
        assert float(value[1]["data-v"]) == entry["value"]
        assert value[0] == figure(key, entry["value"], entry["unit"])
        assert (unit[0], meaning[0].strip()) == (entry["unit"], entry["meaning"])
        assert name[0]


def test_hosts_and_workloads_are_listed_with_every_digit(tmp_path):
    run = write_run(tmp_path)
    metrics = json.loads((run / "metrics.json").read_text())
    page = Page(write_report(run))
    for what in ("hosts", "workloads"):
        cells = {row[0][0]: [c[1].get("data-v") for c in row[1:]] for row in page.tables[f"t-{what}"][1:]}
        assert {k: [float(v) for v in row] for k, row in cells.items()} == {
            k: list(map(float, v.values())) for k, v in metrics[what].items()
        }


def test_the_page_needs_nothing_from_outside(page):
    found = page()
    assert not re.findall(r"https?://", found.source)
    sources = [v for _, a in found.elements for k, v in a.items() if k in ("src", "href", "srcset", "data", "action")]
    assert all(v.startswith(("#", "data:")) for v in sources)
    assert any("default-src 'none'" in (a.get("content") or "") for tag, a in found.elements if tag == "meta")


def test_names_with_markup_are_harmless(page):
    found = page(prefix=EVIL, title=EVIL, scheduler=EVIL)
    assert sum(tag == "script" for tag, _ in found.elements) == 2  # the map's data and the page's own
    assert not any(tag == "img" for tag, _ in found.elements)
    assert not any(key.startswith("on") for _, attributes in found.elements for key in attributes)
    assert EVIL in " ".join(found.words)
    data = re.search(r'<script type="application/json" id="world-data">(.*?)</script>', found.source, re.DOTALL)
    assert EVIL + "0" in [track["id"] for track in json.loads(data[1])["tracks"]]


def test_the_same_run_gives_the_same_page(tmp_path):
    run = write_run(tmp_path)
    assert write_report(run, tmp_path / "a.html").read_bytes() == write_report(run, tmp_path / "b.html").read_bytes()


def test_a_small_run_has_a_small_page(page):
    assert page().path.stat().st_size < 500_000


def test_a_partial_run_says_so_and_why(page):
    found = page(status="partial")
    assert "partial: reached 30 s of 60 s" in found.text
    assert "adapter 'sumo' failed in step at 31 s: gone" in found.text
    assert "Traceback (most recent call last)" in found.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tasks": False}, "No task was made."),
        ({"hosts": 1, "vehicles": 1}, "edge-0"),
        ({"vehicles": 0}, "edge-3"),
        ({"duration": 1.0}, "simulated"),
    ],
)
def test_what_is_there_is_said(page, options, words):
    assert words in page(**options).text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tasks": False}, "Response time"),
        ({"mobility": False, "radio": False}, "Devices over the run"),
        ({"radio": False}, "Link quality"),
        ({"hosts": 0}, "Utilisation of hosts"),
        ({"hosts": 0, "mobility": False}, "Metres east and north"),
    ],
)
def test_charts_of_nothing_are_left_out(page, options, words):
    assert words in page().text
    assert words not in page(name="lacking", **options).text


def test_places_that_matter_to_nothing_come_after_the_charts(tmp_path):
    source = Page(write_report(write_run(tmp_path, mobility=False, radio=False))).source
    assert source.index('id="response"') < source.index('id="map"') < source.index('id="ledgers"')


def test_the_page_opens_with_its_answer_and_ends_with_its_validity(tmp_path):
    run = write_run(tmp_path)
    metrics = json.loads((run / "metrics.json").read_text())
    figures = {key: entry["value"] for key, entry in metrics["figures"].items()}
    page = Page(write_report(run))
    done, created = figures["tasks_completed"], figures["tasks_created"]
    share = figure("ratio", done / created, "1").replace("\u00a0", " ")
    assert f"{done:,.0f} of {created:,.0f} tasks ({share}) were completed" in page.text
    places = [
        page.source.index(f'id="{name}"') for name in ("figures", "map", "course", "response", "tables", "validity")
    ]
    assert places == sorted(places)
    assert sum(attributes.get("class") == "tile" for _, attributes in page.elements) <= 6
    assert 'href="#validity"' in page.source
    assert "© OpenStreetMap" not in page.text
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "description": "Roads (c) OpenStreetMap contributors."}))
    assert "© OpenStreetMap contributors" in Page(write_report(run)).text


def test_an_empty_folder_with_a_manifest_has_a_page(tmp_path):
    run = write_run(tmp_path)
    for path in list(run.iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "manifest.json":
            path.unlink()
    manifest = json.loads((run / "manifest.json").read_text())
    blank = dict.fromkeys(manifest) | {"format": 1, "status": "running", "adapters": [], "signals": {}}
    (run / "manifest.json").write_text(json.dumps(blank))
    found = Page(write_report(run))
    assert "this run has no key figures" in found.text
    assert "this run has no ledgers" in found.text


def test_a_broken_file_is_named_and_the_rest_is_shown(tmp_path):
    run = write_run(tmp_path)
    (run / "frames/link/radio.parquet").write_bytes(b"PAR1 cut short")
    (run / "metrics.json").write_text("{")
    found = Page(write_report(run))
    assert "frames/link/radio.parquet" in found.text
    assert "metrics.json" in found.text
    assert "Response time of" not in found.text
    assert "navigation" in found.text


def test_a_ledger_that_does_not_close_is_shown_as_such(tmp_path):
    run = write_run(tmp_path)
    metrics = json.loads((run / "metrics.json").read_text())
    metrics["ledgers"]["continuum"]["tasks"]["completed"] -= 2
    metrics["ledgers"]["continuum"]["energy"]["total"] += 1000.0
    (run / "metrics.json").write_text(json.dumps(metrics))
    text = Page(write_report(run)).text
    assert "tasks is off by −2" in text
    assert "energy by node is off by −1 kJ" in text


def test_sums_of_the_ledgers_stand_below_their_parts(tmp_path):
    run = write_run(tmp_path)
    page = Page(write_report(run))
    ledger = json.loads((run / "metrics.json").read_text())["ledgers"]["continuum"]
    rows = page.tables["t-energy-and-cost"]
    parts = [float(row[1][1]["data-v"]) for row in rows[1:-1]]
    assert float(rows[-1][1][1]["data-v"]) == pytest.approx(sum(parts))
    assert parts == sorted(ledger["energy"]["by_node"].values(), reverse=True)
    tasks = next(rows for name, rows in page.tables.items() if name.startswith("#") and rows[-1][0][0] == "created")
    amounts = [float(row[-1][1]["data-v"]) for row in tasks]
    assert sum(amounts[:-1]) == amounts[-1] == ledger["tasks"]["created"]


def test_the_speed_is_that_of_the_ticks_as_the_command_line_says_it(tmp_path):
    run = write_run(tmp_path)
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "wall_seconds": 5.0, "starting_seconds": 3.0}))
    with Folder(run) as folder:
        assert dict(trust.facts(folder))["speed"] == "30 × real time"


def test_an_adapter_with_nothing_in_its_ledgers_is_left_out_beside_others():
    idle = {"tasks": {"created": 0, "completed": 0, "in_flight": 0, "failed": {}}}
    busy = {"tasks": {"created": 2, "completed": 2, "in_flight": 0, "failed": {}}}
    assert [check.name for check in trust.checks({"live": idle, "continuum": busy})] == ["tasks"]
    assert [check.name for check in trust.checks({"continuum": idle})] == ["tasks"]


def test_carbon_by_node_is_a_column_where_it_is_known():
    ledger = {"energy": {"by_node": {"a": 2.0, "b": 1.0}}, "cost": {"by_node": {"a": 5.0}}}
    assert "CO2" not in trust.ledger_nodes({"one": ledger}).heads
    assert "Cost" not in trust.ledger_nodes({"one": {"energy": ledger["energy"]}}).heads
    table = trust.ledger_nodes({"one": {**ledger, "carbon": {"grams": 1.25, "by_node": {"a": 1.0, "b": 0.25}}}})
    assert table.heads[-1] == "CO2"
    assert [row[-1].title for row in (*table.rows, table.foot)] == ["1.0", "0.25", "1.25"]


def test_odd_numbers_do_not_break_the_page(tmp_path):
    run = write_run(tmp_path)
    metrics = json.loads((run / "metrics.json").read_text())
    metrics["figures"]["odd"] = {"value": float("inf"), "unit": "s", "meaning": ""}
    metrics["figures"]["void"] = {"value": float("nan"), "unit": "", "meaning": "a very long text " * 40}
    metrics["hosts"]["edge-0"] = {"utilisation_mean": float("nan"), "nested": {"a": 1, "b": [1, 2]}}
    (run / "metrics.json").write_text(json.dumps(metrics))
    text = Page(write_report(run)).text
    assert "∞" in text
    assert "nested · a" in text


@pytest.mark.parametrize("content", [None, "", "[]", '{"format": 2}'])
def test_what_is_no_run_folder_is_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(RunError, match=r"run folder|manifest\.json|format 2|run format"):
        write_report(tmp_path)


def test_folders_with_glob_characters_are_read(tmp_path):
    run = write_run(tmp_path / "odd [1] * name")
    assert "navigation" in Page(write_report(run)).text


def _written(path):
    """Whether tasks have reached the disk: the recorder writes in a thread of its own."""
    with contextlib.closing(load(path)) as run:
        return "task" in run.signals and run.sql("SELECT count(*) FROM task").fetchall()[0][0] > 0


def test_a_run_that_was_not_closed_shows_what_it_had_recorded(tmp_path):
    made = plan(ticks=120, root=tmp_path)
    folder = RunFolder.create(tmp_path, made)
    recorder = Recorder(folder, made, CATALOGUE)
    try:
        for tick, time, frames in World(made).frames():
            recorder.tick(tick, time, frames)
            if tick == 50:
                break
        recorder._flush(None)
        assert any(_written(folder.path) or sleep(0.05) for _ in range(1200))
        page = Page(write_report(folder.path))
    finally:
        recorder.close("partial")
    assert "running: reached 2" in page.text
    assert "navigation" in page.text
    assert page.tables["t-figures"]


def test_a_recorded_run_shows_the_figures_that_were_measured(tmp_path):
    run = record(tmp_path, ticks=60)
    metrics = write_metrics(run)
    page = Page(write_report(run))
    shown = {row[0][0]: row[1][1].get("data-v") for row in page.tables["t-figures"][1:]}
    known = {k.replace("_", " "): e["value"] for k, e in metrics["figures"].items()}
    assert {k: None if v is None else float(v) for k, v in shown.items()} == known
    assert all(check.closes for check in trust.checks(metrics["ledgers"]))


@pytest.mark.parametrize(("flight", "mark"), [(0, "good"), (50, "good"), (51, "warn"), (900, "warn")])
def test_tasks_that_did_not_end_are_named(tmp_path, flight, mark):
    path = record(tmp_path, ticks=60)
    known = {"tasks_created": 1000.0, "tasks_in_flight": float(flight), "unfinished_share": flight / 1000}
    metrics = {"figures": {key: {"value": value, "unit": "1"} for key, value in known.items()}}
    (path / "metrics.json").write_text(json.dumps(metrics))
    with Folder(path) as run:
        found = {name: (text, how) for name, text, how in trust.validity(run, [])}
    assert found["Unfinished"][0].startswith(f"{flight} of 1,000 tasks")
    assert found["Unfinished"][1] == mark
