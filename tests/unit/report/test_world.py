"""The map's data: thinned, whole, and small."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from cosim.report import world as module
from cosim.report.folder import Folder
from cosim.report.world import world
from tests.unit.report.folders import write_run


def _points(data):
    """(device, time) -> place in metres, decoded as the page does it."""
    out = {}
    for track in data["tracks"]:
        for first, x, y, *steps in track["p"]:
            out[track["id"], first * data["bucket"]] = (x, y)
            for k in range(0, len(steps), 2):
                x, y = x + steps[k], y + steps[k + 1]
                out[track["id"], (first + k // 2 + 1) * data["bucket"]] = (x, y)
    scale = data["unit"]
    return {k: (data["west"] + x * scale, data["south"] + y * scale) for k, (x, y) in out.items()}


def test_tracks_follow_the_recorded_positions(tmp_path):
    run = write_run(tmp_path)
    with Folder(run) as folder:
        data = world(folder)
    table = pq.read_table(run / "frames/mobility/sumo.parquet").to_pylist()
    points = _points(data)
    assert len(points) == len(table)
    for row in table:
        x, y = points[row["node"], row["time"]]
        assert x == pytest.approx(row["x"], abs=data["unit"])
        assert y == pytest.approx(row["y"], abs=data["unit"])


def test_a_drone_is_drawn_where_it_is_and_not_at_home(tmp_path):
    pytest.importorskip("pandas")
    run = write_run(tmp_path)
    nodes = pq.read_table(run / "nodes.parquet").to_pandas()
    nodes[["x", "y"]] = nodes[["x", "y"]].fillna(7.0)
    nodes.to_parquet(run / "nodes.parquet")
    with Folder(run) as folder:
        data = world(folder)
    assert {spot["id"] for spot in data["nodes"]} == {f"edge-{k}" for k in range(4)}
    assert {track["id"] for track in data["tracks"]} == {f"veh{k}" for k in range(12)}


def test_long_runs_are_thinned(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "POINTS", 100)
    monkeypatch.setattr(module, "TRACKS", 5)
    with Folder(write_run(tmp_path)) as folder:
        data = world(folder)
    assert len(data["tracks"]) <= 5
    assert (data["shown"], data["moving"]) == (4, 12)
    assert len(_points(data)) <= 110


def test_a_device_that_returns_has_two_stretches(tmp_path):
    run = write_run(tmp_path, vehicles=1, duration=30.0)
    file = run / "frames/mobility/sumo.parquet"
    table = pq.read_table(file)
    keep = [not 15 <= t <= 18 for t in table["time"].to_pylist()]
    pq.write_table(table.filter(keep), file)
    with Folder(run) as folder:
        assert [len(t["p"]) for t in world(folder)["tracks"]] == [2]


def test_service_areas_and_handovers_need_radio(tmp_path):
    with Folder(write_run(tmp_path / "a")) as folder:
        data = world(folder)
    assert all(node["r"] > 0 for node in data["nodes"])
    assert data["handovers"]
    with Folder(write_run(tmp_path / "b", radio=False)) as folder:
        data = world(folder)
    assert not any("r" in node for node in data["nodes"])
    assert data["handovers"] == []


def test_a_run_without_positions_has_no_map(tmp_path):
    with Folder(write_run(tmp_path, hosts=0, mobility=False)) as folder:
        assert world(folder) is None


def test_lines_of_adapters_lie_under_the_map(tmp_path):
    run = write_run(tmp_path)
    file = run / "logs/streets/map.geojson"
    file.parent.mkdir(parents=True)
    with Folder(run) as folder:
        assert world(folder)["lines"] == []
        x, y = (max(0.0, folder.one(f"SELECT avg({axis}) FROM mobility")[0]) for axis in "xy")
        file.write_text(f'{{"type": "LineString", "coordinates": [[{x}, {y}], [{x + 50}, {y}], [{x + 50}, {y - 20}]]}}')
        data = world(folder)
    ((u, v, du, dv, du2, dv2),) = data["lines"]
    assert data["west"] + u * data["unit"] == pytest.approx(x, abs=data["unit"])
    assert data["south"] + v * data["unit"] == pytest.approx(y, abs=data["unit"])
    assert [du, dv] == [pytest.approx(50 / data["unit"], abs=1), 0]
    assert [du2, dv2] == [0, pytest.approx(-20 / data["unit"], abs=1)]
