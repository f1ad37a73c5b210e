"""Vehicles on the page: engagements as a table, tracks from above, distances and charge."""

from __future__ import annotations

import pytest

import cosim
from cosim.report import write_report
from cosim.report.engagements import engagement_table, engagements, plan_view, vehicle_charts
from cosim.report.folder import Folder
from tests.unit.report.folders import write_run
from tests.unit.report.pages import Page

TEXT = """
apiVersion: cosim/v1
kind: Scenario
name: tiny-farm
run: {duration: 70 s, step: 1 s}
adapters:
  vehicle:
    substep: 20 ms
    missions:
      tractor: {rows: {corner: [20 m, 0 m], rows: 2, length: 80 m}}
    engage:
      - {drone: uav-1, target: tractor, commands: [{at: 5 s, for: 25 s}, {at: 200 s}]}
kinds:
  drone: {kind: uav, vehicle: {frame: copter}}
nodes:
  uav-1: {kind: drone, at: [0 m, 0 m]}
  tractor: {kind: rover, at: [20 m, 0 m], vehicle: {frame: rover}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("farm")
    (root / "s.cosim.yaml").write_text(TEXT, encoding="utf-8")
    return cosim.run(root / "s.cosim.yaml", out=root / "runs", driver="loop").folder


def test_the_page_has_a_row_for_every_engagement(folder):
    page = Page(write_report(folder))
    (row,) = page.tables["t-engagements"][1:]
    shown = [text for text, _ in row]
    assert shown[:5] == ["uav-1", "tractor", "1", "completed", "disengaged"]
    assert "Tracks from above" in page.source
    assert "Distance of drones from their targets" in page.source


def test_the_table_says_what_was_recorded(folder):
    with Folder(folder) as run:
        (found,) = engagements(run)
        table = engagement_table(run)
    cells = dict(zip(table.heads, table.rows[0], strict=True))
    assert cells["To contact"].sort == repr(found["t_engage"])
    assert float(cells["Energy"].sort) == pytest.approx(sum(found[key] for key in found if key.startswith("energy_")))
    assert float(cells["Charge left"].sort) == pytest.approx(100.0 * found["charge_landing"])


def test_metres_are_alike_in_both_directions(folder):
    with Folder(folder) as run:
        chart = plan_view(run, ["tractor", "uav-1"])
        assert [name for _, name in chart.legend] == ["tractor", "uav-1"]
        (west, east), (south, north) = (run.one(f"SELECT min({a}), max({a}) FROM mobility") for a in "xy")
    numbers = [float(part) for part in chart.svg.split('viewBox="0 0 ')[1].split('"')[0].split()]
    assert north - south > east - west
    assert numbers[0] == 440.0
    assert numbers[1] <= 26.0 + 400.0 + 40.0


def test_runs_without_vehicles_have_no_such_section(tmp_path):
    run = write_run(tmp_path)
    assert 'id="vehicles"' not in write_report(run).read_text(encoding="utf-8")
    with Folder(run) as other:
        assert vehicle_charts(other) == []
        assert engagement_table(other).rows == ()
