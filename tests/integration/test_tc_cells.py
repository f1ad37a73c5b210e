"""Cells whose links the kernel shapes: packets take the way by base stations, and each hop has its own state.

Rates and links that are down; delay and loss as well where the kernel has netem, in `test_netem_guest`.
"""

from __future__ import annotations

import pytest

from cosim.contract.link import DOWN, LinkState
from cosim.testbed.emulation import probe, tc
from cosim.testbed.launch.carrier import Carrier
from tests.integration import test_cells
from tests.integration.test_cells import ADDRESS, answered, both
from tests.unit.testbed.emulation.conftest import until

pytestmark = test_cells.pytestmark

FREE = LinkState(1e9, 0.0, 0.0, 0.0)


class World(test_cells.World):
    """Nodes on bridges; no link has a delay."""

    air, wire = FREE._replace(rate=4e6), FREE


@pytest.fixture
def world(tmp_path):
    carrier = Carrier("tc", ("--backend", "tc"), kernel="rates" if tc.probe_netem() else "netem")
    with World.up(tmp_path, carrier) as found:
        yield found


def test_devices_reach_wired_nodes_and_each_other_across_their_base_stations(world):
    assert not world.reaches("uav-1", "cloud")  # nothing was said: down
    world.served(uav_1="north", uav_2="south")
    for pair in ("uav-1 cloud", "cloud uav-1", "uav-1 uav-2", "uav-1 south", "south uav-1"):
        node, to = pair.split()
        until(lambda node=node, to=to: world.reaches(node, to))
    world.served(uav_1="north", uav_2="north")  # both in one cell: there and back by the base station
    until(lambda: world.reaches("uav-1", "uav-2"))
    hops = world.nodes._spaces.run("uav-1", ["ip", "route", "get", ADDRESS["uav-2"]]).stdout
    assert f"via {ADDRESS['north']}" in hops


def test_a_handover_changes_routes_and_no_address_and_a_dead_wire_lets_nothing_through(world):
    world.served(uav_1="north")
    until(lambda: world.reaches("uav-1", "cloud"))
    before = world.nodes._spaces.run("uav-1", ["ip", "-4", "-o", "addr", "show", "lte0"]).stdout
    world.served(uav_1="south")
    until(lambda: world.reaches("uav-1", "cloud"))
    hops = world.nodes._spaces.run("uav-1", ["ip", "route", "get", ADDRESS["cloud"]]).stdout
    assert f"via {ADDRESS['south']}" in hops
    assert world.nodes._spaces.run("uav-1", ["ip", "-4", "-o", "addr", "show", "lte0"]).stdout == before
    world.client.links(both("south", "cloud", "eth1", DOWN))  # the way is still this one
    world.client.wait()
    until(lambda: not world.reaches("uav-1", "cloud"))
    assert world.reaches("uav-1", "south")
    world.served(uav_1=None)
    until(lambda: not world.reaches("uav-1", "south"))


def test_each_hop_has_its_own_rate(world):
    """The air is the narrow one on the way up; on the way down it is the wire."""
    world.served(uav_1="north")
    until(lambda: world.reaches("uav-1", "cloud") and world.reaches("cloud", "uav-1"))
    world.client.links({("cloud", "north", "eth1"): FREE._replace(rate=2e6), ("north", "uav-1", "lte0"): FREE})
    world.client.wait()
    until(lambda: "2Mbit" in world.nodes._spaces.run("cloud", ["tc", "class", "show", "dev", "eth1"]).stdout)
    for node, to, rate in (("uav-1", "cloud", 4e6), ("cloud", "uav-1", 2e6)):
        with answered(world, to) as port, world.within(node, probe.opened) as asking:
            found = probe.rate(asking, (ADDRESS[to], port), 2 * rate, 0.8).received
        assert found == pytest.approx(rate, rel=0.15)


def test_a_new_network_service_is_told_links_again_and_routes_stay(world):
    world.served(uav_1="north")
    until(lambda: world.reaches("uav-1", "cloud"))
    first = world.client.report.service
    world.nodes.restart("network")

    def anew():
        world.client.poll()
        return world.client.report.service != first and world.client.settled

    until(anew)
    until(lambda: world.reaches("uav-1", "cloud"))
