"""What the pages say of real nodes: who carried their packets, how late, what was measured, how far runs are apart."""

from __future__ import annotations

import json
import math

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cosim.report import write_comparison, write_report
from cosim.report.folder import Folder
from cosim.report.reality import probe_table, validity
from tests.unit.report.folders import write_run
from tests.unit.report.pages import Page

NETWORK = {
    "nodes": 3, "backend": "linkd", "restarts": 0, "longest_silence": 1.0, "lag_max": 0.001,
    "probe": {"measured": 6, "failed": [], "worst_deviation": 0.25, "worst_link": "a b wlan0", "deviating": 0},
}  # fmt: skip


def real(run, away=0, **network):
    """Makes a run one with real nodes."""
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["adapters"] = [
        *manifest.get("adapters", []),
        {"name": "network", "use": "network", "summary": {**NETWORK, **network}},
        {"name": "vehicle", "use": "vehicle", "summary": {"absences": {"veh0": away, "veh1": 0}}},
    ]
    (run / "manifest.json").write_text(json.dumps(manifest))
    text = (run / "scenario.resolved.yaml").read_text()
    (run / "scenario.resolved.yaml").write_text(text.replace("run: {", "run: {nodes: containers, ", 1))
    return run


def answers(run):
    with Folder(run) as found:
        return {question: (answer, mark) for question, answer, mark in validity(found)}


def test_a_run_without_real_nodes_says_nothing_of_them(tmp_path):
    run = write_run(tmp_path, duration=10.0)
    assert answers(run) == {}
    with Folder(run) as found:
        assert probe_table(found) is None


def test_a_sound_run_says_who_carried_its_packets_and_what_was_measured(tmp_path):
    run = real(write_run(tmp_path, duration=10.0))
    found = answers(run)
    assert found["Real nodes"][0].startswith("3 in containers, their packets emulated by linkd")
    assert found["Emulation"][1] == found["Probe"][1] == "good"
    assert "largest deviation 0.250 of it (a b wlan0)" in found["Probe"][0]
    assert "Programs" not in found
    assert "in containers" in Page(write_report(run)).source


@pytest.mark.parametrize(
    ("shaping", "said", "mark"),
    [
        ({"held": 1.0, "unshaped": ""}, "pi: 1 link as the models say in 100", "good"),
        ({"held": 0.5, "unshaped": "eth0 is gone"}, "of 40 reports (eth0 is gone)", "warn"),
        ({"held": None, "unshaped": ""}, "is not known", "warn"),
    ],
)
def test_machines_say_whether_they_had_their_links(tmp_path, shaping, said, mark):
    run = write_run(tmp_path, duration=10.0)
    manifest = json.loads((run / "manifest.json").read_text())
    nodes = {"pi": {"shaping": {"links": 1, "reports": 40, **shaping}}, "edge": {"state": "attached"}}
    manifest["adapters"].append({"name": "live", "use": "live", "summary": {"nodes": nodes}})
    (run / "manifest.json").write_text(json.dumps(manifest))
    answer, found = answers(run)["Shaping"]
    assert said in answer
    assert found == mark
    assert said[:10] in Page(write_report(run)).source


@pytest.mark.parametrize(
    ("starved", "said", "mark"),
    [
        ({}, "programs of 1 nodes had cores", "good"),
        ({"cpu": {"reports": 2, "at": [3.0, 4.5]}}, "pi waited for a core in 2 of 40 reports, until 3, 4.5 s", "warn"),
        ({"io": {"reports": 1, "at": [3.0]}}, "pi waited for storage in 1 of 40", "warn"),
    ],
)
def test_machines_that_were_too_busy_are_amber(tmp_path, starved, said, mark):
    run = write_run(tmp_path, duration=10.0)
    manifest = json.loads((run / "manifest.json").read_text())
    nodes = {"pi": {"reports": 40, "starved": starved}, "idle": {"reports": 0, "starved": {}}}
    manifest["adapters"].append({"name": "live", "use": "live", "summary": {"nodes": nodes}})
    (run / "manifest.json").write_text(json.dumps(manifest))
    answer, found = answers(run)["Machines"]
    assert said in answer
    assert found == mark


@pytest.mark.parametrize(
    ("more", "question", "said"),
    [
        ({"lag_max": 0.05}, "Emulation", "50\u00a0ms late"),
        ({"restarts": 2}, "Emulation", "restarted 2 times"),
        ({"away": 3}, "Programs", "veh0 3 times"),
        ({"probe": {**NETWORK["probe"], "deviating": 1}}, "Probe", "1 off by more"),
        ({"probe": {**NETWORK["probe"], "failed": ["x"], "left": 2}}, "Probe", "3 not measured"),
        ({"probe": {"measured": 0, "failed": [], "deviating": 0}}, "Probe", "0 links measured"),
    ],
)
def test_what_casts_doubt_on_the_emulation_is_marked(tmp_path, more, question, said):
    answer, mark = answers(real(write_run(tmp_path, duration=10.0), **more))[question]
    assert mark == "warn"
    assert said in answer


def test_probed_links_are_listed_as_asked_and_as_measured(tmp_path):
    run = real(write_run(tmp_path, duration=10.0))
    columns = {
        "time": [1.0, 2.0], "node": ["a", "b"], "peer": ["b", "a"], "interface": ["wlan0", "wlan0"],
        "rate_asked": [1e6, 1e6], "rate": [0.9e6, math.nan], "delay_asked": [0.01, 0.01], "delay": [0.011, 0.05],
        "mdev": [0.001, 0.001], "loss_asked": [0.0, 0.0], "loss": [0.0, 0.0], "loss_low": [0.0, 0.0],
        "loss_high": [0.03, 0.03], "deviation": [0.1, 4.0],
    }  # fmt: skip
    (run / "frames/link_probe").mkdir()
    pq.write_table(pa.table(columns), run / "frames/link_probe/network.parquet")
    with Folder(run) as found:
        table = probe_table(found)
    marks = [row[table.heads.index("Off, in thresholds")].mark for row in table.rows]
    assert marks == ["good", "warn"]
    assert [row[table.heads.index("Rate measured")].text for row in table.rows] == ["900\u00a0kbit/s", "\u2013"]


def test_runs_with_real_nodes_are_set_against_the_simulation(tmp_path):
    simulated = write_run(tmp_path, name="simulated", duration=10.0)
    other = real(write_run(tmp_path, name="real", duration=10.0))
    (file,) = (other / "frames/mobility").glob("*.parquet")
    table = pq.read_table(file)
    away = pc.if_else(pc.equal(pc.cast(table["node"], pa.string()), "veh1"), 0.25, 0.0)
    pq.write_table(table.set_column(table.column_names.index("x"), "x", pc.add(table["x"], away)), file)
    page = Page(write_comparison([simulated, other], tmp_path / "c.html"))
    rows = {row[1][0]: float(row[2][1]["data-v"]) for row in page.tables["t-places-apart"][1:]}
    assert rows.pop("veh1") == pytest.approx(0.25)
    assert set(rows.values()) == {0.0}
    shown = [[text for text, _ in row] for row in page.tables["t-real-nodes"][1:]]
    assert [row[1] for row in shown] == ["simulated in the run", "in containers"]


def test_simulations_are_compared_without_a_word_of_real_nodes(tmp_path):
    runs = [write_run(tmp_path, name=name, duration=10.0, slowdown=slow) for name, slow in (("a", 1.0), ("b", 2.0))]
    assert "t-places-apart" not in Page(write_comparison(runs, tmp_path / "c.html")).tables
