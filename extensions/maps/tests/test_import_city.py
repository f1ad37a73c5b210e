"""A city from a map, and stations from tables."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
import re
import sys
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest
from typer.testing import CliRunner

import cosim
from cosim.adapters.sumo.install import package_file as file_of
from cosim.cli.main import app
from cosim.contract.errors import ScenarioError, SetupError
from cosim.contract.geo import LocalFrame
from cosim.contract.units import parse
from cosim.extensions.maps import osm, stations
from cosim.physics.vehicles.obstacles import read_obstacles
from cosim.scenario.load import load
from cosim.sources.importing.write import write_scenario

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "mobility"
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
    table.write_text("latitude,longitude,name\n1,1,a\n")
    with pytest.raises(ScenarioError, match=r"has no station within 5 km of a road of town.osm"):
        osm.read(town, stations=table)
    table.write_text(f"latitude,longitude,name\n1,1,a\n{LATITUDE},{LONGITUDE},b\n")
    far, reported = osm.read(town, stations=table).notices
    assert "1 stations are up to" in str(far)
    assert "over 5 km from any road: station-a" in str(reported)


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


@pytest.mark.slow
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


PBF = b"\0\0\0\x0d\n\tOSMHeader"  # how every file begins


def test_an_extract_in_pbf_is_the_same_map(tmp_path):
    osmium = pytest.importorskip("osmium")
    town = grid(tmp_path / "town.osm")
    with osmium.SimpleWriter(str(tmp_path / "town.osm.pbf")) as writer:
        for element in osmium.FileProcessor(str(town)):
            writer.add(element)
    assert (tmp_path / "town.osm.pbf").read_bytes()[4:].startswith(PBF[4:])
    plain, found = osm.read(town), osm.read(tmp_path / "town.osm.pbf")
    assert found.text == plain.text.replace("town.osm", "town.osm.pbf")
    assert found.facts == plain.facts
    (tmp_path / "bad.osm.pbf").write_bytes((tmp_path / "town.osm.pbf").read_bytes()[:-30])
    with pytest.raises(ScenarioError, match="is no OSM file"):
        osm.read(tmp_path / "bad.osm.pbf")


def test_pbf_without_its_reader_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "osmium", None)
    (tmp_path / "town.osm.pbf").write_bytes(PBF)
    with pytest.raises(SetupError, match=r"town.osm.pbf is PBF, which osmium reads: .* install"):
        osm.read(tmp_path / "town.osm.pbf")


@pytest.mark.sumo
def test_a_map_without_a_way_back_is_refused_with_the_remedy(tmp_path):
    nodes = "".join(f'<node id="{k}" lat="{LATITUDE + k * STEP}" lon="{LONGITUDE}"/>' for k in (1, 2, 3))
    street = '<way id="1"><nd ref="1"/><nd ref="2"/><nd ref="3"/><tag k="highway" v="primary"/>{}</way>'
    for name, more, code in (("there", '<tag k="oneway" v="yes"/>', 2), ("back", "", 0)):
        (tmp_path / f"{name}.osm").write_text(f"<osm>{nodes}{street.format(more)}</osm>")
        done = CliRunner().invoke(app, ["import", "osm", str(tmp_path / f"{name}.osm"), "--out", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        checked = CliRunner().invoke(app, ["check", str(tmp_path / name)])
        assert checked.exit_code == code, checked.output
    checked = CliRunner().invoke(app, ["check", str(tmp_path / "there")])
    assert "no two roads between which a passenger car" in checked.output
    assert "take a larger map" in checked.output


@pytest.mark.slow
@pytest.mark.sumo
def test_an_extract_with_one_road_for_cars_runs(tmp_path):
    """The extract that comes with SUMO has one tertiary road, with both ways, beside a race track."""
    extract = file_of("package:sumo/tools/game/racing/spreewaldring.osm")
    imported = CliRunner().invoke(app, ["import", "osm", str(extract), "--out", str(tmp_path / "ring")])
    assert imported.exit_code == 0, imported.output
    ran = CliRunner().invoke(
        app, ["run", str(tmp_path / "ring"), "--set", "run.duration=1 min", "--out", str(tmp_path / "runs"),
              "--no-report", "--driver", "loop", "--json"]
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["figures"]["distance"] > 500.0


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


def test_a_station_may_end_before_the_last_column(tmp_path):
    file = tmp_path / "sites.csv"
    file.write_text("lat;lon;name;power\n45;7\n45;7.5;a\n45;7.5;b;43 dBm\n")
    found, _ = stations.read_stations(file)
    assert [(one.name, one.keys) for one in found[1:]] == [("station-a", {}), ("station-b", {"power": "43 dBm"})]


CELLS = "LTE,202,1,4002,{k},0,22.94{k},39.36,1000,12,1,1459692342,1488347104,0"
POINT = {"type": "Feature", "properties": {"site_id": "a", "height": "40 ft"}}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
@pytest.mark.parametrize("header", [True, False])
def test_a_download_of_opencellid_is_read_as_it_is(tmp_path, pack, header):
    names = "radio,mcc,net,area,cell,unit,lon,lat,range,samples,changeable,created,updated,averageSignal"
    lines = [*[names] * header, *(CELLS.format(k=k) for k in range(1, 4)), "LTE,202,1,4002,9,0,,,1000,12,1,1,1,0"]
    (tmp_path / "202.csv.gz").write_bytes(pack("\n".join(lines).encode()))
    found, notices = stations.read_stations(tmp_path / "202.csv.gz")
    assert [one.longitude for one in found] == [22.941, 22.942, 22.943]
    assert [one.text for one in notices] == [
        *["has no header: its columns are those of OpenCelliD's downloads"] * (not header),
        "1 rows without a place are left out",
        f"columns that are not read: {', '.join(name for name in names.split(',') if name not in ('lon', 'lat'))}",
    ]


@pytest.mark.parametrize("name", ["a.json", "a.geojson"])
def test_points_of_geojson_are_stations(tmp_path, name):
    spot = {"type": "Point", "coordinates": [22.9452, 39.3621]}
    several = {"type": "GeometryCollection", "geometries": [spot, spot]}
    data = {"type": "FeatureCollection", "features": [POINT | {"geometry": spot}, POINT | {"geometry": several}]}
    (tmp_path / name).write_text(json.dumps(data))
    found, _ = stations.read_stations(tmp_path / name)
    assert [(one.name, one.latitude, one.longitude) for one in found][:1] == [("station-a", 39.3621, 22.9452)]
    assert len(found) == 3
    assert parse(found[0].keys["height"], "length") == pytest.approx(12.192)
    data["crs"] = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32634"}}
    (tmp_path / name).write_text(json.dumps(data))
    with pytest.raises(ScenarioError, match=r"crs is urn:ogc:def:crs:EPSG::32634, not degrees"):
        stations.read_stations(tmp_path / name)


def test_letters_of_windows_and_heads_with_units_are_read(tmp_path):
    (tmp_path / "a.csv").write_bytes("site_id;Lat [deg];lon;height_ft\nKöln Süd;50,9;6,9;100\n".encode("cp1252"))
    (found,), notices = stations.read_stations(tmp_path / "a.csv")
    assert (found.latitude, found.longitude) == (50.9, 6.9)
    assert parse(found.keys["height"], "length") == pytest.approx(30.48)
    assert [one.text for one in notices] == ["is no text in UTF-8, and is read as Windows-1252"]


def town(path, buildings=(), ways=(), relations=""):
    """A street of 100 m with squares of 20 m beside it, and further elements."""
    lines = ["<osm version='0.6'><node id='-1' lat='45.06' lon='7.66'/><node id='-2' lat='45.0609' lon='7.66'/>"]
    lines.append("<way id='-1'><nd ref='-1'/><nd ref='-2'/><tag k='highway' v='residential'/></way>")
    for k, tags in enumerate(buildings):
        first = 10 + 4 * k
        corners = [(45.06, 7.661), (45.0602, 7.661), (45.0602, 7.6612), (45.06, 7.6612)]
        lines += [f"<node id='{first + n}' lat='{x + k * 3e-4:.6f}' lon='{y}'/>" for n, (x, y) in enumerate(corners)]
        refs = "".join(f"<nd ref='{first + n}'/>" for n in (0, 1, 2, 3, 0))
        words = "".join(f"<tag k={quoteattr(key)} v={quoteattr(value)}/>" for key, value in tags.items())
        lines.append(f"<way id='{100 + k}'>{refs}{words}</way>")
    path.write_text("".join([*lines, *ways, relations, "</osm>"]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("tags", "height"),
    [
        ({"height": "40"}, 40.0), ({"height": "40 m"}, 40.0), ({"height": "40m"}, 40.0), ({"height": "40,5"}, 40.5),
        ({"height": "131'"}, 39.9288), ({"height": "131 ft"}, 39.9288), ({"height": "13'6\""}, 4.1148),
        ({"height": "4000 cm"}, 40.0), ({"height": "0.04 km"}, 40.0), ({"building:levels": "13"}, 39.0),
        ({"building:levels": "2;13"}, 39.0), ({"building:levels": "13,5"}, 40.5),
        ({"height": "~40", "building:levels": "4"}, 12.0), ({"height": ">40 m"}, 10.0), ({"height": "tall"}, 10.0),
        ({"height": "1,200"}, 10.0), ({"height": "-3"}, 10.0), ({}, 10.0),
    ],
)  # fmt: skip
def test_heights_of_buildings_have_units_and_guesses_are_named(tmp_path, tags, height):
    reader = osm._read(town(tmp_path / "a.osm", [{"building": "yes", **tags}]))
    assert [found for _, found in reader.city.buildings] == [pytest.approx(height)]
    doubtful = height in (10.0, 12.0) and bool(tags)
    assert [one.key for one in osm._notices(reader.file, reader)] == ["height"] * doubtful


def test_an_outline_of_several_ways_is_a_building(tmp_path):
    ways = ["<way id='7'><nd ref='10'/><nd ref='11'/><nd ref='12'/></way><way id='8'><nd ref='10'/><nd ref='13'/>"]
    ways.append("<nd ref='12'/></way>")
    tags = "<tag k='type' v='multipolygon'/><tag k='building' v='yes'/><tag k='height' v='60'/>"
    members = "<member type='way' ref='7' role='outer'/><member type='way' ref='8' role='outer'/>"
    path = town(tmp_path / "a.osm", [{"x": "y"}], ways, f"<relation id='9'>{members}{tags}</relation>")
    ((outline, height),) = osm._read(path).city.buildings
    assert (set(outline), len(outline), height) == ({"10", "11", "12", "13"}, 5, 60.0)


def test_outlines_that_cross_themselves_or_miss_corners_are_left_out_with_a_word(tmp_path):
    ways = [
        f"<way id='{way}'>{''.join(f'<nd ref={ref!r}/>' for ref in refs)}<tag k='building' v='yes'/></way>"
        for way, refs in (("7", ["10", "12", "11", "13", "10"]), ("8", ["10", "98", "99", "10"]))
    ]
    imported = osm.read(town(tmp_path / "a.osm", [{"building": "yes"}], ways))
    assert imported.facts["buildings"] == 1
    assert "2 outlines are not whole or cross themselves: they are left out" in [one.text for one in imported.notices]
    imported.beside["buildings.geojson"](tmp_path / "b.geojson")
    assert len(read_obstacles(tmp_path / "b.geojson", LocalFrame(45.06, 7.66)).names) == 1


NODE = "<node id='1' lat='1' lon='1'/>"
DELETED = "<way id='-9' {}><nd ref='-1'/><nd ref='-2'/><tag k='highway' v='primary'/></way>"


@pytest.mark.parametrize("mark", ["action='delete'", "visible='false'", "action='delete' visible='true'"])
def test_what_an_editor_has_deleted_does_not_count(tmp_path, mark):
    reader = osm._read(town(tmp_path / "a.osm", ways=[DELETED.format(mark), DELETED.format("action='modify'")]))
    assert len(reader.city.roads) == 2
    assert [one.text for one in osm._notices(reader.file, reader)] == [
        "1 ways and relations are deleted: they are left out"
    ]
    with (tmp_path / "a.osm").open("rb") as stream:
        assert osm._without_deleted(stream).count(b"<way") == 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_map_is_read(tmp_path, pack):
    path = town(tmp_path / "a.osm")
    (tmp_path / "b.osm.x").write_bytes(pack(path.read_bytes()))
    assert osm._read(tmp_path / "b.osm.x").city.roads == [["-1", "-2"]]


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        ("<way id='1'><nd ref='1'/><nd ref='2'/><tag k='type' v='line_thin'/></way>", "is a map of Lanelet2"),
        ("<way id='1'><nd ref='1' lat='45' lon='7'/><tag k='highway' v='primary'/></way>", "Overpass: out geom"),
        ("<way id='1'><nd ref='1'/><nd ref='2'/><tag k='highway' v='primary'/></way>", "ways without their nodes"),
        (f"{NODE}<way id='1'><nd ref='1'/><tag k='highway' v='service'/></way>", "its ways are highway=service"),
    ],
)
def test_a_map_without_streets_is_called_what_it_is(tmp_path, ways, words):
    (tmp_path / "a.osm").write_text(f"<osm>{ways}</osm>")
    with pytest.raises(ScenarioError, match=words):
        osm.read(tmp_path / "a.osm")


def test_an_import_prints_what_it_took_and_what_it_left_out(tmp_path):
    file = tmp_path / "s.csv"
    file.write_text("lat,lon\n45.0,7.6\n45.01,7.61\n,\n")
    done = CliRunner().invoke(app, ["import", "stations", str(file), "--out", str(tmp_path / "out")])
    assert "took      stations 2, users 100\n" in done.output
    assert "1 rows without a place are left out" in done.output


def test_stations_at_no_place_and_heights_of_points_are_told(tmp_path):
    file = tmp_path / "s.csv"
    file.write_text("lat,lon\n45.0,7.6\n0,0.0\n0.0,7.6\n")
    found, notices = stations.read_stations(file)
    assert [one.latitude for one in found] == [45.0, 0.0]
    assert any("1 rows at latitude 0, longitude 0" in one.text for one in notices)
    file.write_text("lat,lon\n0,0\n")
    with pytest.raises(ScenarioError, match="holds no station with a place"):
        stations.read_stations(file)
    points = [{"type": "Feature", "geometry": {"type": "Point", "coordinates": [7.6, 45.0, 240.0]}}]
    file.write_text(json.dumps({"type": "FeatureCollection", "features": points}))
    _, notices = stations.read_stations(file)
    assert [one.level for one in notices if "third coordinate" in one.text] == ["ignored"]


def test_what_of_a_table_of_stations_is_doubtful_is_noted(tmp_path):
    file = tmp_path / "s.csv"
    file.write_text("lat,lon,earfcn\n45.0,7.6,1300\n45.01,7.61,1300\n45.01,7.61,1300\n7.6,45.0,1300\n")
    found, notices = stations.read_stations(file)
    assert len(found) == 4
    assert [one.text for one in notices] == [
        "columns that are not read: earfcn",
        "1 rows are equal to others in every cell, and count",
        "1 stations are up to 5,322 km from the others; 1 of them would not be with latitude and longitude exchanged",
    ]
    angle = math.acos(math.sin(a := math.radians(45.0)) * math.sin(b := math.radians(7.6))
                      + math.cos(a) * math.cos(b) * math.cos(a - b))  # fmt: skip
    assert 2 * 6371.0 * math.sin(angle / 2) == pytest.approx(5322.0, rel=2e-3)  # km through the earth
    feature = {"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [7.6, 45.0]}}
    line = {**feature, "geometry": {"type": "LineString", "coordinates": [[7.6, 45.0], [7.7, 45.0]]}}
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [feature, line]}))
    assert [one.text for one in stations.read_stations(file)[1]] == ["1 features that are no points are left out"]


def test_ways_that_joined_extracts_have_twice_count_once(tmp_path):
    once, twice = tmp_path / "once.osm", tmp_path / "twice.osm"
    grid(once)
    text = once.read_text()
    ways = re.findall(r"<way.*?</way>", text, re.DOTALL)
    twice.write_text(text.replace("</osm>", f"{''.join(ways)}</osm>"))
    one, other = osm.read(once), osm.read(twice)
    assert one.facts == other.facts
    assert f"{len(ways)} ways are in it more than once" in " ".join(notice.text for notice in other.notices)


def test_trips_end_at_places_of_the_map(tmp_path):
    sumolib = pytest.importorskip("sumolib")
    town = grid(tmp_path / "town.osm")
    with pytest.raises(ScenarioError, match="has no shop, office, amenity or sight"):
        write_scenario(tmp_path / "none", osm.read(town, places=True))
    east = LONGITUDE + 1.5 * STEP  # by the middle of the second part of the southernmost street
    shop = f'<node id="9000" lat="{LATITUDE - 1e-5}" lon="{east}" version="1"><tag k="shop" v="bakery"/></node>'
    town.write_text(town.read_text().replace('<way id="1"', f'{shop}<way id="1"', 1))
    scenario = write_scenario(tmp_path / "out", osm.read(town, places=True, vehicles=40))
    routes = ElementTree.parse(scenario.parent / osm.ROUTES).getroot().findall("vehicle/route")
    net = sumolib.net.readNet(str(scenario.parent / osm.ROADS))
    ends = {route.get("edges").split()[-1] for route in routes}
    assert len(routes) == 40
    assert len({route.get("edges").split()[0] for route in routes}) > 10
    last = net.getEdge(ends.pop())
    assert not ends
    x, y = np.mean([last.getFromNode().getCoord(), last.getToNode().getCoord()], axis=0)
    low_x, low_y, high_x, _ = net.getBoundary()
    assert 0.25 < (x - low_x) / (high_x - low_x) < 0.5
    assert y < low_y + 30.0
    assert "demand" not in scenario.read_text()


@pytest.mark.skipif(not DATA.is_dir(), reason="needs the stations and the network of Turin")
def test_stations_on_a_network_that_somebody_published(tmp_path):
    """Stations and roads of Turin as published, both in the coordinates of the network."""
    sumolib = pytest.importorskip("sumolib")
    pytest.importorskip("libsumo")
    turin = DATA / "turin_crocetta"
    table, net, out = turin / "gnodeB_IDs.json", turin / "map.net.xml.gz", tmp_path / "turin"
    asked = ["import", "stations", str(table), "--network", str(net), "--users", "40", "--out", str(out), "--json"]
    assert json.loads(CliRunner().invoke(app, asked).output)["stations"] == 17
    published = np.array([one["pos"].split(",") for one in json.loads(table.read_text())["gnodeB"]], float)
    made = np.array([node.block.at[:2] for node in load(out).world.nodes if node.kind == "station"])
    theirs, ours = (np.linalg.norm(spots[:, None] - spots[None], axis=2) for spots in (published, made))
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2.0)  # UTM is 0.04 % short
    made_by = cosim.run(out, out=tmp_path / "run", overrides=["run.duration=90 s"]).folder
    cars = cosim.load(made_by).sql("SELECT x, y FROM mobility WHERE time = 90").fetchnumpy()
    assert len(cars["x"]) > 10
    published[:, 1] = 2985.67 - published[:, 1]  # counted from the north of the network, which is so high
    turn, *_ = np.linalg.lstsq(np.column_stack([made, np.ones(17)]), published)  # ours to the network's coordinates
    spots = np.column_stack([cars["x"], cars["y"], np.ones(len(cars["x"]))]) @ turn
    lanes = [np.array(lane.getShape()) for edge in sumolib.net.readNet(str(net)).getEdges() for lane in edge.getLanes()]
    along = np.linspace(0.0, 1.0, 50)[:, None, None]
    roads = np.concatenate([(one[:-1] + along * (one[1:] - one[:-1])).reshape(-1, 2) for one in lanes])
    assert all(np.hypot(*(roads - spot).T).min() < 6.0 for spot in spots)  # junctions have no lanes


@pytest.mark.parametrize("head", ["", '<location projParameter="!"/>'])
def test_a_network_without_a_projection_is_refused(tmp_path, head):
    table, net = tmp_path / "sites.csv", tmp_path / "a.net.xml"
    table.write_text("latitude,longitude\n45,7\n")
    net.write_text(f"<net>{head}</net>")
    with pytest.raises(ScenarioError, match="has no projection"):
        stations.read(table, network=net)
