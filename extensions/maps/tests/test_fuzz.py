"""Maps and tables of stations in any form: what is made of them is right, refused or noted, and never a traceback."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.contract.units import parse
from cosim.extensions.maps import osm, stations
from tests.unit.sources.test_fuzz import EDITS, LENGTHS, PACKS, SAMPLES, damaged, each


@each
@given(st.data())
def test_stations(tmp_path_factory, data):
    draw = data.draw
    high, own = draw(st.sampled_from(list(LENGTHS))), draw(st.sampled_from(["{} m", "{}m", "{} metres"]))
    head = high.format("height")
    value = repr(30 * LENGTHS[high]) if high != "{}" else own.format(30)
    place = draw(st.sampled_from([("lat", "lon"), ("Latitude", "Longitude"), ("LAT [deg]", "LNG [deg]")]))
    cells = {place[0]: "45.06", place[1]: "7.66", head: value, "name": draw(st.sampled_from(["a", "Köln", ""]))}
    names = draw(st.permutations(list(cells)))
    empty = draw(st.booleans())
    form = draw(st.sampled_from(["csv", "json", "geojson"]))
    path = tmp_path_factory.mktemp("f") / "s"
    if form == "csv":
        rows = [[cells[name] for name in names] for _ in range(2)] + [["" for _ in names]] * empty
        text = "\n".join(";".join(row) for row in [names, *rows])
    elif form == "json":
        text = json.dumps([cells, cells] + [dict.fromkeys(cells, "")] * empty)
    else:
        spot = {"type": "Point", "coordinates": [7.66, 45.06, 3.0][: draw(st.sampled_from([2, 3]))]}
        feature = {"type": "Feature", "properties": {head: value, "name": cells["name"]}, "geometry": spot}
        text = json.dumps({"type": "FeatureCollection", "features": [feature, feature, {"type": "Feature"}]})
    path.write_bytes(draw(PACKS)(text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig"])))))
    found, notices = stations.read_stations(path)
    assert len(found) == 2
    assert [one.latitude for one in found] == [45.06, 45.06]
    assert parse(found[0].keys["height"], "length") == pytest.approx(30.0)
    assert len({one.name for one in found}) == 2
    assert len(notices) == 1 + empty or form != "json"  # each is there twice


HEIGHTS = {"{} m": 1.0, "{}": 1.0, "{}m": 1.0, "{} ft": 1 / 0.3048, "{}'": 1 / 0.3048, "{} cm": 100.0, "{} km": 1e-3}


@each
@given(st.data())
def test_heights(tmp_path_factory, data):
    draw = data.draw
    form, value = draw(st.sampled_from(list(HEIGHTS))), draw(st.integers(3, 300))
    sign = draw(st.sampled_from(["", "", "", "~", ">", "<", "ca. "]))
    text = sign + form.format(f"{value * HEIGHTS[form]:.6g}".replace(".", draw(st.sampled_from(".,"))))
    gone = draw(st.booleans())
    nodes = "".join(f"<node id='{k}' lat='45.0{k}' lon='7.{k % 2}'/>" for k in range(1, 5))
    refs = "".join(f"<nd ref='{k}'/>" for k in (1, 2, 3, 4, 1))
    tags = f'<tag k="building" v="yes"/><tag k="height" v="{text.replace("<", "&lt;")}"/>'
    more = f"<way id='2' action='delete'>{refs}{tags}</way>" * gone
    path = tmp_path_factory.mktemp("f") / "m.osm"
    path.write_bytes(draw(PACKS)(f"<osm>{nodes}<way id='1'>{refs}{tags}</way>{more}</osm>".encode()))
    reader = osm._read(path)
    ((_, height),) = reader.city.buildings
    noted = [one.key for one in osm._notices(path, reader)]
    assert ("action" in noted) == gone
    if "height" not in noted:
        assert not sign
        assert height == pytest.approx(value, rel=1e-5)


@each
@given(st.sampled_from(list(SAMPLES)), EDITS, PACKS)
def test_damaged_files_are_refused_or_read(tmp_path_factory, name, edits, pack):
    path = damaged(tmp_path_factory.mktemp("f") / name, SAMPLES[name], edits, pack)
    for reader in (stations.read_stations, osm._read):
        with suppress(ScenarioError):
            reader(path)
