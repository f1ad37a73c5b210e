"""What real nodes run and where they are reached."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cosim.contract.entities import Fleet, Link, Node, Scene, SlotRange
from cosim.contract.errors import ScenarioError
from cosim.contract.link import LinkState
from cosim.contract.medium import MEDIA
from cosim.contract.node_keys import Cell, Live, Radio, Software
from cosim.testbed.launch import programs as launch
from cosim.testbed.launch.compose import render
from cosim.testbed.launch.programs import MOST, OURS, interface, programs, software
from cosim.testbed.launch.require import unlaunchable
from tests.unit.testbed.launch.worlds import DRONE, EDGE, plan

ORIGIN = "geo: {origin: [39.36, 22.95, 60 m]}\n"
LINK = "links: [{between: [uav-1, host], rate: 1 Mbit/s, delay: 1 ms}]\n"


def test_an_ardupilot_is_a_program_of_this_machine_that_is_named(tmp_path):
    program, other = tmp_path / "arducopter", tmp_path / "copter.parm"
    drone = "{kind: uav, at: [0 m, 0 m], vehicle: {frame: copter}, wifi: {}, runs: {image: vuav-ardupilotCOMMAND}}"

    def problems(command, where):
        node = drone.replace("COMMAND", command)
        made = plan(tmp_path, nodes_are=where, adapters=", vehicle: {}", more=ORIGIN, uav_1=node)
        return [(one.path, one.message, one.hint) for one in unlaunchable(made) if "uav-1" in one.path]

    for where in ("netns", "containers"):
        program.unlink(missing_ok=True)
        ((path, message, hint),) = problems("", where)
        assert (path, message) == ("nodes.uav-1.runs.command", "'uav-1' runs 'vuav-ardupilot' and names no ArduPilot")
        assert "command:" in hint
        ((_, message, hint),) = problems(f", command: [{program}]", where)
        assert (message, hint[:20]) == (f"there is no program '{program}'", "write the whole path")
        program.write_text("#!/bin/sh\n")
        ((_, message, hint),) = problems(f", command: [{program}]", where)
        assert (message, hint) == (f"'{program}' is not executable", f"chmod +x {program}")
        program.chmod(0o755)
        assert problems(f", command: [{program}]", where) == []
        assert "no program 'arducopter'" in problems(", command: [arducopter]", where)[0][1]
    other.touch()
    command = f", command: [{program}, '--defaults={other},/no/such.parm', -I, '0']"
    made = plan(tmp_path, adapters=", vehicle: {}", more=ORIGIN, uav_1=drone.replace("COMMAND", command))
    (node,) = programs(made.scene)
    assert node.files == [str(program), str(other)]
    assert OURS[node.image][-1] == "--ardupilot"
    assert node.flies
    text = render(made, tmp_path / "scenario.cosim.yaml", tmp_path, None)
    service = YAML(typ="safe").load(text)["services"]["uav-1"]
    assert service["entrypoint"] == ["python3", "-m", "cosim.autopilot.node", "--ardupilot"]
    assert service["command"] == [str(program), f"--defaults={other},/no/such.parm", "-I", "0"]
    assert service["volumes"] == ["key-uav-1:/run/cosim-key:ro", *(f"{file}:{file}:ro" for file in (program, other))]
    program.unlink()
    with pytest.raises(ScenarioError, match="there is no program"):
        render(made, tmp_path / "scenario.cosim.yaml", tmp_path, None)


@given(st.sampled_from(MEDIA), st.integers(0, MOST - 1), st.integers(0, MOST - 1))
def test_every_slot_has_an_address_of_its_own_in_each_network(medium, slot, other):
    found = interface(medium, slot)
    address = ipaddress.IPv4Address(found.address)
    network = ipaddress.IPv4Network(medium.network)
    assert address in network
    assert address not in (network.network_address, network.broadcast_address)
    assert (found.address == interface(medium, other).address) == (slot == other)
    assert found.text == f"{medium.interface},{found.mac},{address}/{network.prefixlen}"
    first, second, *rest = bytes.fromhex(found.mac.replace(":", ""))
    assert (first, second) == (2, 0)  # locally administered, to one station
    assert bytes(rest) == address.packed


def test_media_of_a_node_become_its_interfaces(tmp_path):
    scene = plan(
        tmp_path,
        uav_1="{kind: uav, at: [0 m, 0 m], wifi: {}, radio: {}, runs: vuav}",
        plain="{kind: edge, at: [1 m, 0 m], cpu: 1 x 1 GHz, wifi: {}}",
        host="{kind: base-station, at: [9 m, 0 m], cpu: 4 x 1 GHz, memory: 2 GB, cell: {}, "
        "runs: {image: 'example.org/host:3', command: [serve], environment: {A: b}, ports: [80]}}",
        more=LINK,
    ).scene
    drone, host = programs(scene)
    assert [i.name for i in drone.interfaces] == ["wlan0", "lte0", "eth1"]
    assert [i.name for i in host.interfaces] == ["lte0", "eth1"]
    assert [i.address for i in host.interfaces] == ["10.172.0.3", "10.173.0.3"]  # the node between them counts
    assert (drone.node, drone.slot, drone.image, drone.command) == ("uav-1", 0, "vuav", ())
    assert drone.interfaces[0].address == "10.171.0.1"
    assert (drone.reached(host), host.reached(drone)) == ("10.172.0.3", "10.172.0.1")
    assert (drone.serves, drone.forwards) == ((), False)
    assert (host.serves, host.forwards) == (("lte0",), True)
    assert (host.image, host.command, host.environment) == ("example.org/host:3", ("serve",), (("A", "b"),))
    assert (host.ports, host.cores, host.memory) == ((80,), 4, 2_000_000_000)


def test_a_cell_reaches_wired_nodes_across_its_base_station(tmp_path):
    uav = "{kind: uav, at: [0 m, 0 m], radio: {}, runs: vuav}"
    mast = "{kind: base-station, at: [9 m, 0 m], cpu: 4 x 1 GHz, cell: {}RUNS}"
    cloud = "{kind: cloud, cpu: 4 x 1 GHz, runs: vedgenode}"
    more = "links: [{between: [mast, cloud], rate: 1 Gbit/s, delay: 1 ms}]\n"
    real = programs(
        plan(tmp_path, uav=uav, mast=mast.replace("RUNS", ", runs: vedgenode"), cloud=cloud, more=more).scene
    )
    drone, station, far = real
    assert (drone.reached(far), far.reached(drone)) == ("10.173.0.3", "10.172.0.1")
    assert drone.reached(station) == "10.172.0.2"
    assert [node.forwards for node in real] == [False, True, True]
    drone, far = programs(plan(tmp_path, uav=uav, mast=mast.replace("RUNS", ""), cloud=cloud, more=more).scene)
    assert drone.reached(far) == far.reached(drone) == ""  # the base station is simulated: nobody passes packets on
    assert not far.forwards


def test_a_cell_reaches_an_access_point_by_its_wire_and_none_of_its_stations(tmp_path):
    uav = "{kind: uav, at: [0 m, 0 m], radio: {}, runs: vuav}"
    mast = "{kind: base-station, at: [9 m, 0 m], cpu: 4 x 1 GHz, cell: {}, runs: vedgenode}"
    point = "{kind: edge, at: [9 m, 9 m], cpu: 4 x 1 GHz, wifi: {mode: access-point}, runs: vedgenode}"
    box = "{kind: edge, at: [8 m, 9 m], cpu: 4 x 1 GHz, wifi: {mode: station}, runs: vedgenode}"
    more = "links: [{between: [mast, point], rate: 1 Gbit/s, delay: 1 ms}]\n"
    drone, station, house, inside = programs(plan(tmp_path, uav=uav, mast=mast, point=point, box=box, more=more).scene)
    assert drone.reached(house) == "10.173.0.3"
    assert drone.reached(inside) == ""
    assert station.reached(inside) == "10.171.0.4"
    assert inside.reached(house) == "10.171.0.3"


def test_nodes_without_software_are_no_programs(tmp_path):
    scene = plan(tmp_path, uav_1=DRONE, host=EDGE.replace(", runs: vedgenode", "")).scene
    assert [node.node for node in programs(scene)] == ["uav-1"]


def test_a_node_that_nothing_reaches_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match=r"node 'host' runs 'vedgenode' but has no network interface"):
        programs(plan(tmp_path, uav_1=DRONE, host=EDGE.replace("wifi: {}, ", "")).scene)


def test_more_nodes_than_addresses_are_refused(tmp_path, monkeypatch):
    scene = plan(tmp_path, uav_1=DRONE, host=EDGE).scene
    monkeypatch.setattr(launch, "MOST", 1)
    with pytest.raises(ScenarioError, match="2 nodes are more than a network has addresses"):
        programs(scene)


def fleets(*fleets, nodes=(), links=()):
    return Scene.build(nodes, fleets, links, real="netns")


def test_every_slot_of_a_fleet_has_a_computer_on_board():
    mast = Node("mast", "base-station", "edge", (0, 0, 0), cell=Cell(), runs=Software(image="vedgenode"))
    truck = Node(
        "trucks", "vehicle", "device", cores=4, memory=2e9, radio=Radio.si(height=3),
        runs=Software.si(image="vedgenode", command=("--x",), environment={"A": "b"}), live=Live(),
    )  # fmt: skip
    depot = Node("depot", "edge", "edge", runs=Software(image="vedgenode"))
    cars = Fleet("cars", "other", 0, 9, Node("cars", "vehicle", "device", radio=Radio.si(height=3)))
    wires = (Link((SlotRange(11, 2),), (SlotRange(1),), LinkState(1e9)),)
    found = programs(fleets(cars, Fleet("trucks", "sumo", 0, 3, truck), nodes=(mast, depot), links=wires))
    assert [(node.node, node.slot) for node in found] == [
        ("mast", 0), ("depot", 1), ("trucks-1", 11), ("trucks-2", 12), ("trucks-3", 13),
    ]  # fmt: skip
    first, last = found[2], found[4]
    assert [i.address for i in first.interfaces] == ["10.172.0.12", "10.173.0.12"]
    assert [i.name for i in last.interfaces] == ["lte0"]  # no wire leads to its slot
    assert (last.image, last.command, last.environment) == ("vedgenode", ("--x",), (("A", "b"),))
    assert (last.cores, last.memory, last.attaches, last.device) == (4, 2_000_000_000, True, True)
    assert software(last)["COSIM_NODE"] == "trucks-3"
    assert last.reached(found[0]) == "10.172.0.1"
    assert last.reached(found[1]) == "10.173.0.2"


def test_a_fleet_of_many_simulated_members_needs_no_addresses():
    many = Fleet("cars", "sumo", 0, 200_000, Node("cars", "vehicle", "device", radio=Radio.si(height=3)))
    assert programs(fleets(many)) == ()
    real = Fleet(
        "vans", "other", 0, 1, Node("vans", "vehicle", "device", radio=Radio.si(height=3), runs=Software(image="vuav"))
    )
    with pytest.raises(ScenarioError, match="200001 nodes are more than a network has addresses"):
        programs(fleets(many, real))


def test_members_that_nothing_reaches_are_refused():
    with pytest.raises(ScenarioError, match=r"node 'vans-1' runs 'box' but has no network interface"):
        programs(fleets(Fleet("vans", "sumo", 0, 2, Node("vans", "vehicle", "device", runs=Software(image="box")))))
