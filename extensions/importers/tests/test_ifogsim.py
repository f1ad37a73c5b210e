"""Topologies of iFogSim as scenarios: times by hand, and a place for every mistake."""

import json

import numpy as np
import pytest
from ruamel.yaml import YAML

from cosim.contract.errors import ScenarioError
from cosim.extensions.importers.ifogsim import read
from cosim.sources.importing.write import write_scenario
from tests.unit.sources.importing.running import ended

# of our own making, in the shape that iFogSim's editor writes
NODES = [
    {"ratePerMips": 0.01, "downBw": 5000, "level": 0, "upBw": 100, "ram": 40000, "name": "cloud", "mips": 40000,
     "type": "FOG_DEVICE"},
    {"ratePerMips": 0.0, "downBw": 16000, "level": 1, "upBw": 8000, "ram": 4000, "name": "gateway", "mips": 4000,
     "type": "FOG_DEVICE"},
    {"ratePerMips": 0.0, "downBw": 270, "level": 2, "upBw": 10000, "ram": 1000, "name": "m-0", "mips": 1000,
     "type": "FOG_DEVICE"},
    {"sensorType": "EEG", "name": "s-0", "value": 500.0, "type": "SENSOR", "distribution": 2},
    {"name": "a-0", "actuatorType": "DISPLAY", "type": "ACTUATOR"},
]  # fmt: skip
LINKS = [
    {"latency": 100.0, "source": "gateway", "destination": "cloud"},
    {"latency": 2.0, "source": "m-0", "destination": "gateway"},
    {"latency": 6.0, "source": "s-0", "destination": "m-0"},
    {"latency": 1.0, "source": "a-0", "destination": "m-0"},
]


def written(folder, nodes=NODES, links=LINKS, indent=1):
    path = folder / "topology.json"
    path.write_text(json.dumps({"nodes": nodes, "links": links}, indent=indent))
    return path


def changed(number, **keys):
    """The nodes, one of them with other values; None leaves a key out."""
    node = {key: value for key, value in {**NODES[number], **keys}.items() if value is not None}
    return [*NODES[:number], node, *NODES[number + 1 :]]


def parsed(imported):
    return YAML(typ="safe").load(imported.text)


def said(imported, key):
    return [notice for notice in imported.notices if notice.key.endswith(key)]


def test_devices_become_nodes_and_latencies_links(tmp_path):
    imported = read(written(tmp_path))
    data = parsed(imported)
    assert data["nodes"] == {
        "cloud": {"kind": "level-0", "cpu": "1 x 40000 MHz", "memory": "40000 MB", "cost": {"cpu": "400000 /s"}},
        "gateway": {"kind": "level-1", "cpu": "1 x 4000 MHz", "memory": "4000 MB"},
        "m-0": {"kind": "level-2", "cpu": "1 x 1000 MHz", "memory": "1000 MB"},
        "s-0": {"kind": "sensor"},
    }
    assert {name: kind["tier"] for name, kind in data["kinds"].items()} == {
        "level-0": "cloud", "level-1": "edge", "level-2": "edge", "sensor": "device",
    }  # fmt: skip
    # up by the lower end's rate, down by the upper end's
    assert data["links"] == [
        {"between": ["gateway", "cloud"], "rate": "8000 kbit/s", "rate_back": "5000 kbit/s", "delay": "100 ms"},
        {"between": ["m-0", "gateway"], "rate": "10000 kbit/s", "rate_back": "16000 kbit/s", "delay": "2 ms"},
        {"between": ["s-0", "m-0"], "rate": "1 Tbit/s", "delay": "6 ms"},
    ]
    assert imported.facts == {"devices": 3, "sensors": 1, "actuators": 1, "workloads": 1, "rows": 0}
    assert [notice.level for notice in said(imported, "nodes[4].type")] == ["ignored"]
    for key in ("work", "input", "output", "power", "mips"):
        assert said(imported, key), key


@pytest.mark.parametrize(("scheduler", "host", "expected"), [
    # the sensor's latency there and back, and 4 Mcycles at 1000 MHz
    ("nearest", "m-0", 2 * 0.006 + 4e6 / 1e9),
    # up: 1000 B at 10 and 8 Mbit/s; down: 250 B at 5 and 16 Mbit/s; 4 Mcycles at 40 GHz
    ("cloud", "cloud", 2 * 0.108 + 8000 * (1 / 10e6 + 1 / 8e6) + 2000 * (1 / 5e6 + 1 / 16e6) + 4e6 / 40e9),
])  # fmt: skip
def test_a_tuple_takes_what_reckoning_by_hand_gives(tmp_path, scheduler, host, expected):
    said = {"work": ["EEG=4 Mcycles"], "inputs": ["1 kB"], "outputs": ["250 B"], "scheduler": scheduler}
    file = write_scenario(tmp_path / "out", read(written(tmp_path), duration="3 s", **said))
    rows, books, names = ended(file)
    assert len(rows["ended"]) >= 5
    assert {names[number] for number in rows["host"]} == {host}
    # the link of the sensor has 1 Tbit/s in place of none: 10 kbit take 10 ns
    np.testing.assert_allclose(rows["ended"] - rows["created"], expected, atol=2e-8)
    # iFogSim: rate x MIPS in use x ms
    price = 0.01 * 40000 * len(rows["ended"]) * 4e6 / 40e9 * 1e3 if host == "cloud" else 0.0
    assert books["cost"]["cpu"] == pytest.approx(price)


def test_gaps_that_vary_stand_in_a_file(tmp_path):
    nodes = [
        *NODES,
        {"sensorType": "EEG", "name": "s-1", "mean": 10.0, "stdDev": 2.0, "type": "SENSOR", "distribution": 1},
        {"sensorType": "EEG", "name": "s-2", "min": 5.0, "max": 15.0, "type": "SENSOR", "distribution": 3},
    ]
    links = [*LINKS, *({"latency": 1, "source": "gateway", "destination": name} for name in ("s-1", "s-2"))]
    imported = read(written(tmp_path, nodes, links), duration="20 s")
    loads = parsed(imported)["workloads"]
    assert [load["arrivals"] for load in loads.values()] == ["every 500 ms", "trace EEG-2.csv"]
    imported.beside["EEG-2.csv"](tmp_path / "EEG-2.csv")
    lines = [line.split(",") for line in (tmp_path / "EEG-2.csv").read_text().splitlines()[1:]]
    for name, spread in (("s-1", 2e-3), ("s-2", 10e-3 / 12**0.5)):
        times = np.array([float(time) for time, device in lines if device == name])
        gaps = np.diff(times, prepend=0.0)
        # within four standard errors of the law's mean and spread
        assert abs(gaps.mean() - 0.010) < 4 * spread / len(gaps) ** 0.5
        assert gaps.std() == pytest.approx(spread, rel=0.08)
        assert times[-1] < 20.0
    assert imported.facts["rows"] == len(lines)
    again = read(written(tmp_path, nodes, links), duration="20 s")
    again.beside["EEG-2.csv"](tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "EEG-2.csv").read_bytes()
    write_scenario(tmp_path / "out", imported)


@pytest.mark.parametrize(("nodes", "links", "key", "message"), [
    (changed(2, mips=None), LINKS, "nodes[2].mips", "is missing"),
    (changed(2, upBw=-5), LINKS, "nodes[2].upBw", "-5 is less than 0"),
    (changed(2, upBw=0), LINKS, "nodes[2].upBw", "is 0"),
    (changed(2, ram="much"), LINKS, "nodes[2].ram", "'much' is not a number"),
    (changed(2, level=1.5), LINKS, "nodes[2].level", "is not a whole number"),
    (changed(2, mips=[1]), LINKS, "nodes[2].mips", "is a list or a mapping"),
    (changed(2, type="FOGDEVICE"), LINKS, "nodes[2].type", "'FOGDEVICE' is no type of node"),
    (changed(3, distribution=7), LINKS, "nodes[3].distribution", "'7' is no number of a distribution"),
    (changed(3, value=None), LINKS, "nodes[3].value", "is missing"),
    (changed(3, name="M-0"), LINKS, "nodes[3].name", "'M-0' is the name of the node in line 23, too"),
    (NODES, [*LINKS, {"latency": 1.0, "source": "gatewya", "destination": "m-0"}], "links[4].source",
     "there is no node 'gatewya'"),
    (NODES, [*LINKS[1:], {"latency": -1, "source": "gateway", "destination": "cloud"}], "links[3].latency",
     "-1 is less than 0"),
    (NODES, [*LINKS, {"source": "m-0", "destination": "gateway"}], "links[4].latency", "is missing"),
    (NODES, [*LINKS, {"latency": 1, "source": "m-0", "destination": "m-0"}], "links[4].destination", "is the source"),
    (NODES, LINKS[:2], "nodes[3].name", "is a sensor without a link"),
    (changed(1, level=0), [*LINKS, {"latency": 1, "source": "cloud", "destination": "gateway"}], "source",
     "closes a circle of parents: cloud - gateway - cloud"),
    (NODES[:3], LINKS[:2], "nodes", "has no SENSOR"),
    ([NODES[3]], [], "nodes", "has no FOG_DEVICE"),
    ("none", LINKS, "nodes", "is not a list"),
    ([*NODES, 3], LINKS, "nodes[5]", "is not a mapping"),
])  # fmt: skip
def test_mistakes_are_found_with_their_place(tmp_path, nodes, links, key, message):
    path = written(tmp_path, nodes, links)
    with pytest.raises(ScenarioError) as caught:
        read(path)
    hits = [one for one in caught.value.problems if one.path.endswith(key) and message in one.message]
    assert hits, [str(one) for one in caught.value.problems]
    assert hits[0].file == path
    assert hits[0].line is not None


def test_all_mistakes_come_at_once_and_lines_are_those_of_the_keys(tmp_path):
    path = written(tmp_path, changed(2, mips="x", upBw="y"), [*LINKS, {"latency": 1, "source": "q", "destination": 7}])
    with pytest.raises(ScenarioError) as caught:
        read(path)
    lines = path.read_text().splitlines()
    for problem in caught.value.problems:
        assert f'"{problem.path.rpartition(".")[2]}"' in lines[problem.line - 1], problem
    assert len(caught.value.problems) == 4


@pytest.mark.parametrize(("text", "line", "message"), [
    ('{"nodes": [\n{"type": "SENSOR",}], "links": []}', 2, "is not JSON"),
    ("[1]", 1, "is no topology"),
    ("", 1, "is not JSON"),
    ("{}", 1, "is missing"),
    ('{"nodes": NaN}', None, "NaN is no number of JSON"),
    ('{"nodes": ' + "[" * 40 + "]" * 40 + "}", 1, "nested deeper"),
])  # fmt: skip
def test_what_is_no_topology_is_refused(tmp_path, text, line, message):
    path = tmp_path / "topology.json"
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        read(path)
    assert message in caught.value.problems[0].message
    assert caught.value.problems[0].line == line


def test_what_is_said_is_checked(tmp_path):
    path = written(tmp_path)
    with pytest.raises(ScenarioError) as caught:
        read(path, work=["ECG=2 Mcycles"], inputs=["5"], duration="-1 s")
    assert [one.path for one in caught.value.problems] == ["--work", "--input", "--duration"]
    assert "EEG" in caught.value.problems[0].hint
    assert "has no unit" in caught.value.problems[1].message


def test_the_last_link_holds_and_unknown_keys_are_told(tmp_path):
    other = {**NODES[1], "name": "other", "colour": "red"}
    links = [*LINKS, {"latency": 3.0, "source": "other", "destination": "m-0"}]
    links += [{"latency": 9.0, "source": "other", "destination": "cloud"}]
    imported = read(written(tmp_path, [*NODES, other], links))
    ends = [(link["between"], link["delay"]) for link in parsed(imported)["links"]]
    assert (["m-0", "other"], "3 ms") in ends
    assert ["m-0", "gateway"] not in [pair for pair, _ in ends]
    assert "a later link of the same node replaces it" in said(imported, "links[1].source")[0].text
    assert [notice.level for notice in said(imported, "colour")] == ["ignored"]
