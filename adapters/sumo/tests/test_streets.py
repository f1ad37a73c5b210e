"""The streets of a network become lines in the scenario's frame."""

import gzip
import json

import pytest

from cosim.adapters.sumo.space import Alignment, streets, write_streets
from cosim.contract.map_lines import FILE

NET = """<net>
  <edge id=":a_0" function="internal"><lane id=":a_0_0" shape="0,0 1,1"/></edge>
  <edge id="there" from="a" to="b"><lane id="t_0" shape="0.00,0.00 100.00,0.00"/><lane id="t_1" shape="0,3 9,3"/></edge>
  <edge id="back" from="b" to="a"><lane id="b_0" shape="100,-3 0,-3"/></edge>
  <edge id="up" from="b" to="c"><lane id="u_0" shape="100,0,5 100,50,6 120,80,7"/></edge>
</net>"""


def test_each_street_is_one_line_of_its_first_lane(tmp_path):
    net = tmp_path / "net.net.xml"
    net.write_text(NET)
    packed = tmp_path / "net.net.xml.gz"
    packed.write_bytes(gzip.compress(NET.encode()))
    expected = [[(0.0, 0.0), (100.0, 0.0)], [(100.0, 0.0), (100.0, 50.0), (120.0, 80.0)]]
    assert list(streets(net)) == list(streets(packed)) == expected


def test_the_lines_are_where_the_vehicles_are(tmp_path):
    net = tmp_path / "net.net.xml"
    net.write_text(NET)
    alignment = Alignment(x=100.0, y=0.0, convergence=90.0)
    write_streets(net, alignment, tmp_path)
    written = json.loads((tmp_path / FILE).read_text())
    assert written["type"] == "MultiLineString"
    assert written["coordinates"][0] == [pytest.approx(alignment.point(0, 0)), pytest.approx(alignment.point(100, 0))]


def test_a_network_that_cannot_be_read_gives_no_lines(tmp_path):
    (tmp_path / "broken.net.xml").write_text("<net><edge")
    write_streets(tmp_path / "broken.net.xml", Alignment(), tmp_path)
    write_streets(tmp_path / "none.net.xml", Alignment(), tmp_path)
    assert not (tmp_path / FILE).exists()
