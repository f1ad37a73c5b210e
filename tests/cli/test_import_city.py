"""A city from a map, and stations from tables."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.contract.errors import ScenarioError
from cosim.contract.geo import LocalFrame
from cosim.scenario.load import load
from cosim.sources.importing import osm, stations

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "mobility"
LATITUDE, LONGITUDE, STEP = 45.06, 7.66, 0.0018  # deg; about 200 m north, 141 m east


def grid(path: Path, *, buildings: bool = True, size: int = 5) -> Path:
    """An OSM file: `size` x `size` crossings of residential streets, a house of six floors in each block."""
    nodes, ways = [], []
    for i in range(size):
        for j in range(size):
            nodes.append((i * size + j + 1, LATITUDE + i * STEP, LONGITUDE + j * STEP))
    for k in range(size):
        ways.append(([k * size + j + 1 for j in range(size)], {"highway": "residential"}))
        ways.append(([i * size + k + 1 for i in range(size)], {"highway": "residential"}))
    ways.append(([1, size * size], {"highway": "footway"}))
    if buildings:
        for i in range(size - 1):
            for j in range(size - 1):
                first = 1000 + 4 * (i * size + j)
                corners = [(0.4, 0.4), (0.4, 0.6), (0.6, 0.6), (0.6, 0.4)]
                nodes += [
                    (first + k, LATITUDE + (i + a) * STEP, LONGITUDE + (j + b) * STEP)
                    for k, (a, b) in enumerate(corners)
                ]
                ways.append(([*range(first, first + 4), first], {"building": "yes", "building:levels": "6"}))
    lines = ['<?xml version="1.0"?>', '<osm version="0.6">']
    lines += [f'<node id="{n}" lat="{a:.7f}" lon="{b:.7f}" version="1"/>' for n, a, b in nodes]
    for number, (refs, tags) in enumerate(ways, 1):
        inside = [f'<nd ref="{n}"/>' for n in refs] + [f'<tag k="{k}" v="{v}"/>' for k, v in tags.items()]
        lines.append(f'<way id="{number}" version="1">{"".join(inside)}</way>')
    path.write_text("\n".join([*lines, "</osm>"]))
    return path


def test_stations_of_another_place_are_refused_and_far_ones_told(tmp_path):
    town, table = grid(tmp_path / "town.osm"), tmp_path / "sites.csv"
    table.write_text("latitude,longitude,name\n0,0,a\n")
    with pytest.raises(ScenarioError, match=r"has no station within 5 km of a road of town.osm"):
        osm.read(town, stations=table)
    table.write_text(f"latitude,longitude,name\n0,0,a\n{LATITUDE},{LONGITUDE},b\n")
    (told,) = osm.read(town, stations=table).notices
    assert "over 5 km from any road: station-a" in str(told)


def test_stations_are_on_roofs_and_cover_the_roads(tmp_path):
    imported = osm.read(grid(tmp_path / "town.osm"))
    frame = LocalFrame(LATITUDE + 2 * STEP, LONGITUDE + 2 * STEP)
    width = frame.to_local(LATITUDE + 2 * STEP, LONGITUDE + 4 * STEP)[0]
    height = frame.to_local(LATITUDE + 4 * STEP, LONGITUDE + 2 * STEP)[1]
    assert imported.facts["roads_km"] == pytest.approx(10 * (width + height) / 1000, rel=0.01)
    assert imported.facts["buildings"] == 16
    assert imported.facts["covered"] >= 0.95
    assert "height: 21 m" in imported.text  # six floors of 3 m, and a mast of 3 m
    near = osm.read(grid(tmp_path / "town.osm"), radius=120.0)
    assert near.facts["stations"] > imported.facts["stations"]
    assert osm.read(grid(tmp_path / "flat.osm", buildings=False)).facts["covered"] >= 0.95


@pytest.mark.sumo
def test_a_map_becomes_a_scenario_that_runs(tmp_path):
    packed = tmp_path / "town.osm.gz"
    packed.write_bytes(gzip.compress(grid(tmp_path / "town.osm").read_bytes()))
    plain = str(tmp_path / "town.osm")
    done = CliRunner().invoke(
        app, ["import", "osm", plain, "--out", str(tmp_path / "town"), "--vehicles", "40", "--json"]
    )
    assert done.exit_code == 0, done.output
    assert {Path(p).name for p in json.loads(done.stdout)["files"]} == {"roads.net.xml", "buildings.geojson"}
    houses = json.loads((tmp_path / "town/buildings.geojson").read_text())["features"]
    assert len(houses) == 16
    assert houses[0]["properties"]["height"] == 18.0
    ran = CliRunner().invoke(
        app, ["run", str(tmp_path / "town"), "--set", "run.duration=1 min", "--out", str(tmp_path / "runs"),
              "--no-report", "--driver", "loop", "--json"]
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    figures = json.loads(ran.stdout)["figures"]
    assert figures["distance"] > 500.0
    assert figures["tasks_completed"] > 0
    assert figures["coverage"] > 0.9  # cars are where the map and the stations are: the frames fit


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<gpx/>", "no OSM file: it begins with <gpx>"),
        ("<osm><node id='1' lat='x' lon='2'/></osm>", "no OSM file"),
        ("<osm></osm>", "no road for cars"),
        ("<!DOCTYPE a [<!ENTITY b 'c'>]><osm></osm>", "entities"),
    ],
)
def test_what_is_no_map_is_refused(tmp_path, text, said):
    (tmp_path / "x.osm").write_text(text)
    with pytest.raises(ScenarioError, match=said):
        osm.read(tmp_path / "x.osm")
    with pytest.raises(ScenarioError, match="PBF"):
        osm.read(tmp_path / "x.osm.pbf")


TABLE = """\
Site,Lat,Lon,height (m),carrier,TX_power_dBm,azimuth
A 1,45.0600,7.6600,25,3.5 GHz,43,0
A 1,45.0600,7.6600,25,3.5 GHz,43,120
B,45.0690,7.6600,,2100 MHz,,
"""


def test_a_table_of_stations(tmp_path):
    file = tmp_path / "sites.csv"
    file.write_text(TABLE.replace("Site", "site_id").replace("TX_power", "tx_power"))
    found, notices = stations.read_stations(file)
    assert [one.name for one in found] == ["station-A-1", "station-A-1-2", "station-B"]
    assert found[0].keys == {"height": "25 m", "carrier": "3.5 GHz", "power": "43 dBm"}
    assert found[2].keys == {"carrier": "2100 MHz"}
    assert [one.key for one in notices] == ["azimuth"]
    done = CliRunner().invoke(app, ["import", "stations", str(file), "--out", str(tmp_path / "out"), "--users", "5"])
    assert done.exit_code == 0, done.output
    world = load(tmp_path / "out").world
    one, _, two = [node.block for node in world.nodes if node.kind == "station"]
    assert (one.cell.height, one.cell.carrier, one.cell.power) == (25.0, 3.5e9, 43.0)
    apart = math.dist(one.at[:2], two.at[:2])
    assert apart == pytest.approx(0.009 * 111_140, rel=1e-3)  # m per degree at 45 N, WGS84


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Lat", "breadth", "has no column 'latitude'"),
        ("45.0690", "145", "sites.csv:4: Lat: '145' is no latitude"),
        ("height (m)", "height", "'25' has no unit"),
        ("3.5 GHz", "3.5 parsec", "unknown unit 'parsec'"),
    ],
)
def test_mistakes_in_a_table_are_told_with_their_line(tmp_path, old, new, said):
    file = tmp_path / "sites.csv"
    file.write_text(TABLE.replace(old, new))
    with pytest.raises(ScenarioError) as caught:
        stations.read_stations(file)
    assert any(said in str(one) for one in caught.value.problems)


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data")
def test_the_stations_of_melbourne_and_turin():
    melbourne = DATA / "eua_melbourne/site-optus-melbCBD.csv"
    assert stations.read(melbourne).facts["stations"] == 125
    turin = DATA / "turin_crocetta/gnodeB_IDs.json"
    found, _ = stations.read_stations(turin)
    assert len(found) == 17
    middle = stations.center(found)
    ours = np.array(stations.positions(found, LocalFrame(*middle)))
    theirs = np.array(
        [[float(part) for part in one["pos"].split(",")] for one in json.loads(turin.read_text())["gnodeB"]]
    )  # in metres of their net (UTM), which is turned by the meridian convergence
    apart = [np.hypot(*(x[:, None] - x[None, :]).T) for x in (ours, theirs)]
    assert np.abs(apart[0] - apart[1]).max() < 2.0
