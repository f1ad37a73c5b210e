"""`check` refuses the routes at which SUMO would stop the run, and no others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cosim.adapters.sumo import install
from cosim.adapters.sumo.check import problems
from cosim.adapters.sumo.config import SumoConfig
from cosim.contract.adapter import Context
from cosim.contract.entities import Fleet, Node, Scene

pytestmark = pytest.mark.sumo
pytest.importorskip("sumolib")

TYPES = """<vType id='bus' vClass='bus'/><vType id='free' vClass='ignoring'/>
  <vTypeDistribution id='mix'><vType id='line' vClass='bus'/><vType id='car'/></vTypeDistribution>"""
BACK, CLOSED = "cannot go on from 'bc' to 'ab': they are not connected", "is to use 'cd', which is closed for the class"


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a one-way street of the roads ab, bc and, for buses alone, cd."""
    folder = tmp_path_factory.mktemp("street")
    nodes = "".join(f"<node id='{name}' x='{100 * k}' y='0'/>" for k, name in enumerate("abcd"))
    (folder / "n.nod.xml").write_text(f"<nodes>{nodes}</nodes>")
    edges = "<edge id='ab' from='a' to='b'/><edge id='bc' from='b' to='c'/><edge id='cd' from='c' to='d' allow='bus'/>"
    (folder / "n.edg.xml").write_text(f"<edges>{edges}</edges>")
    command = [install.binary("netconvert"), "-n", "n.nod.xml", "-e", "n.edg.xml", "-o", "n.net.xml"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=install.environment(), timeout=60)
    return folder


def refused(folder: Path, **block: object) -> list[tuple[str, str]]:
    """Key and words of what is refused in a run of 100 s."""
    scene = Scene.build((), (Fleet("cars", "traffic", 0, 10, Node("cars", "car", "device")),))
    context = Context("traffic", scene, 1.0, 100.0, (1, 2), str(folder), str(folder))
    return [(one.path, one.message) for one in problems(SumoConfig.model_validate(block), context) if one.fatal]


@pytest.mark.parametrize(
    ("routes", "words"),
    [
        ("<vehicle id='x' depart='50'><route edges='bc ab'/></vehicle>", f"vehicle 'x' {BACK}"),
        ("<vehicle id='x' depart='50'><route edges='ab cd'/></vehicle>", CLOSED),
        ("<vehicle id='x' depart='50' type='bus'><route edges='ab cd'/></vehicle>", "from 'ab' to 'cd'"),
        ("<vehicle id='x' depart='50' type='bus'><route edges='ab bc cd'/></vehicle>", ""),
        ("<vehicle id='x' depart='50' type='free'><route edges='ab bc cd'/></vehicle>", ""),
        ("<vehicle id='x' depart='50' type='mix'><route edges='ab bc'/></vehicle>", ""),
        ("<vehicle id='x' depart='50'><route edges='ab none'/></vehicle>", "'none', which is not there"),
        ("<route id='r' edges='bc ab'/><vehicle id='x' depart='50' route='r'/>", BACK),
        ("<route id='r' edges='bc ab'/><flow id='x' begin='10' end='90' number='3' route='r'/>", f"flow 'x' {BACK}"),
        ("<route id='r' edges='bc ab'/>", ""),
        ("<vehicle id='x' depart='150'><route edges='bc ab'/></vehicle>", ""),
        ("<flow id='x' begin='00:00:10' end='90' number='3' from='bc' to='ab'/>", BACK),
        ("<trip id='x' depart='50' from='bc' to='ab'/>", f"trip 'x' {BACK}"),
        ("<trip id='x' depart='50' type='free' from='bc' to='ab'/>", BACK),
        ("<trip id='x' depart='50' from='ab' to='cd'/>", CLOSED),
        ("<trip id='x' depart='50' type='bus' from='ab' to='cd'/>", ""),
        ("<trip id='x' depart='50' from='ab' to='bc' via='cd'/>", CLOSED),
        ("<trip id='x' depart='50' type='bus' from='ab' to='bc' via='cd'/>", "from 'cd' to 'bc'"),
        ("<trip id='x' depart='50' from='ab' to='ab'/>", ""),
        (
            "<vehicle id='v' depart='9'><route edges='ab bc'/></vehicle><trip id='x' depart='50' from='bc' to='ab'/>",
            BACK,
        ),
    ],
)
def test_what_sumo_would_stop_at_is_refused_before(street: Path, routes: str, words: str) -> None:
    (street / "r.rou.xml").write_text(f"<routes>{TYPES}{routes}</routes>")
    found = refused(street, network="n.net.xml", routes="r.rou.xml")
    assert [path for path, _ in found] == ["adapters.traffic.routes"] * bool(words)
    assert all(words in message and message.startswith("in 'r.rou.xml' ") for _, message in found)
    command = [install.binary("sumo"), "-n", "n.net.xml", "-r", "r.rou.xml", "-e", "100", "--no-step-log"]
    run = subprocess.run(command, cwd=street, capture_output=True, env=install.environment(), timeout=60, check=False)
    assert (run.returncode != 0) == bool(words)


def test_files_of_a_configuration_are_read_and_faults_are_counted(street: Path) -> None:
    (street / "types.add.xml").write_text(f"<additional>{TYPES}<route id='r' edges='ab bc cd'/></additional>")
    bus = "<vehicle id='b' type='bus' depart='5' route='r'/>"
    cars = "".join(f"<trip id='x{k}' depart='5' from='bc' to='ab'/>" for k in range(3))
    (street / "r.rou.xml").write_text(f"<routes>{bus}{cars}</routes>")
    inputs = "<net-file value='n.net.xml'/><r v='r.rou.xml'/><additional-files value='types.add.xml'/>"
    (street / "n.sumocfg").write_text(f"<configuration>{inputs}</configuration>")
    ((path, message),) = refused(street, config="n.sumocfg")
    assert path == "adapters.traffic.config"
    assert message.endswith("for the class passenger, and 2 more cannot drive theirs")
    assert refused(street, config="n.sumocfg", options={"ignore-route-errors": True}) == []


def test_a_way_leads_through_the_part_where_all_reach_each_other_and_out_of_it() -> None:
    from cosim.adapters.sumo.journeys import Drivable

    class Edge:
        def __init__(self, name: str, onward: str) -> None:
            self.name, self.onward = name, onward

        def getID(self) -> str:  # noqa: N802 - of sumolib
            return self.name

        def allows(self, kind: str) -> bool:
            return True

        def getAllowedOutgoing(self, kind: str) -> list[Edge]:  # noqa: N802
            return [Edge(name, "") for name in self.onward]

    class Net:
        def getEdges(self) -> list[Edge]:  # noqa: N802
            ways = {"i": "a", "a": "b", "b": "cx", "c": "a", "x": "y", "y": "", "z": "x"}
            return [Edge(*way) for way in ways.items()]

    roads = Drivable(Net(), "bus")
    leads = {a + b: not roads.fault((a, b), False) for a in "iaxyz" for b in "icyz"}
    assert [pair for pair, there in leads.items() if there] == ["ii", "ic", "iy", "ac", "ay", "xy", "yy", "zy", "zz"]
