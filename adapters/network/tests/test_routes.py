"""Routes from cells to wired nodes: whatever the wires, packets arrive and go in no circles."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cosim.adapters.network.routes import NodeRoutes
from cosim.contract.link import DOWN, LinkState
from cosim.contract.medium import MEDIA
from cosim.testbed.emulation.routing import Hop
from cosim.testbed.launch.programs import Program, interface

KNOWN = {medium.interface: medium for medium in MEDIA}
AIR, CELL, WIRE, UPLINK = KNOWN
UP = LinkState(1e7, 0.01, 0.0, 0.0)


def program(name, slot, *interfaces, base=False, forwards=False):
    made = tuple(interface(KNOWN[one], slot) for one in interfaces)
    return Program(name, slot, "box", (), (), (), made, 0, 0, False, False, (CELL,) if base else (), forwards, True)


DEVICES = [program(f"uav-{k}", k, CELL) for k in range(3)]
BASES = [program(f"mast-{k}", 10 + k, CELL, WIRE, base=True, forwards=True) for k in range(3)]
HOSTS = [program(f"host-{k}", 20 + k, WIRE, forwards=k < 2) for k in range(3)]
NODES = (*DEVICES, *BASES, *HOSTS)
BY_ADDRESS = {i.address: node for node in NODES for i in node.interfaces}


def address(node, name=""):
    return next(i.address for i in node.interfaces if name in ("", i.name))


def both(a, b, name, state=UP):
    return {(a.node, b.node, name): state, (b.node, a.node, name): state}


class World:
    """Nodes with the routes that they were told."""

    def __init__(self):
        self.routes, self.links = NodeRoutes(NODES), {}
        self.tables = {node.node: {} for node in NODES}

    def now(self, links):
        self.links = {**dict.fromkeys(self.links, DOWN), **links}
        for node, table in self.routes.changed(self.links).items():
            for to, hop in table.items():
                if hop is None:
                    del self.tables[node][to]
                else:
                    self.tables[node][to] = hop

    def arrives(self, node, to):
        """Whether a packet gets from a node to an address, by longest prefix and over links that are up."""
        for _ in range(len(NODES)):
            if any(i.address == to for i in node.interfaces):
                return True
            found = {
                ipaddress.IPv4Network(f"{i.address}/{i.prefix}", strict=False): (i.name, to) for i in node.interfaces
            }
            found |= {
                ipaddress.IPv4Network(net): (hop.interface, hop.via or to)
                for net, hop in self.tables[node.node].items()
            }
            fitting = [net for net in found if ipaddress.IPv4Address(to) in net]
            if not fitting:
                return False
            name, via = found[max(fitting, key=lambda net: net.prefixlen)]
            far = BY_ADDRESS[via]
            if self.links.get((node.node, far.node, name), DOWN).loss >= 1.0:
                return False
            node = far
        raise AssertionError("it goes in circles")


@st.composite
def worlds(draw):
    """Links of a moment: who serves whom, which wires are up, how long they take."""
    links = {}
    for device in DEVICES:
        base = draw(st.sampled_from([None, *BASES]))
        if base:
            links |= both(device, base, CELL)
    wired = [*BASES, *HOSTS]
    for i, a in enumerate(wired):
        for b in wired[i + 1 :]:
            if draw(st.booleans()):
                links |= both(a, b, WIRE, UP._replace(delay=draw(st.sampled_from([0.001, 0.02]))))
    return links


def reachable(links, start):
    """Nodes that links lead to, over such that pass packets on."""
    seen, queue = {start.node}, [start]
    while queue:
        node = queue.pop()
        if node is not start and not node.forwards:
            continue
        for far in NODES:
            linked = any((node.node, far.node, name) in links for name in (CELL, WIRE))
            if far.node not in seen and linked:
                seen.add(far.node)
                queue.append(far)
    return seen


@given(st.lists(worlds(), min_size=1, max_size=3))
def test_whoever_is_linked_is_reached_at_every_address_after_every_change(moments):
    world = World()
    for links in moments:
        world.now(links)
        for a in NODES:
            there = reachable(links, a)
            for b in NODES:
                if a is not b and b not in BASES:
                    assert world.arrives(a, address(b)) == (b.node in there), (a.node, b.node)


def test_a_handover_changes_the_way_and_no_address():
    world, wires = World(), both(BASES[0], HOSTS[0], WIRE) | both(BASES[1], HOSTS[0], WIRE)
    for base in (BASES[0], BASES[1]):
        world.now(wires | both(DEVICES[0], base, CELL))
        assert world.arrives(DEVICES[0], address(HOSTS[0]))
        assert world.arrives(HOSTS[0], address(DEVICES[0]))
        assert world.tables["uav-0"][f"{address(base, CELL)}/32"] == (CELL, "")
        assert world.tables["host-0"][f"{address(DEVICES[0])}/32"] == (WIRE, address(base, WIRE))
    world.now(wires)
    assert not world.tables["uav-0"]
    assert not world.arrives(HOSTS[0], address(DEVICES[0]))


def test_fewer_wires_come_first_and_then_faster_ones():
    slow, fast = UP._replace(delay=0.05), UP._replace(delay=0.001)
    world, (mast, hosts) = World(), (BASES[0], HOSTS)
    wires = both(mast, hosts[0], WIRE, fast) | both(mast, hosts[1], WIRE, slow)
    wires |= both(hosts[0], hosts[2], WIRE, fast) | both(hosts[1], hosts[2], WIRE, fast)
    world.now(wires)
    assert world.tables["mast-0"][f"{address(hosts[2])}/32"] == (WIRE, address(hosts[0]))
    world.now(wires | both(mast, hosts[2], WIRE, slow))
    assert f"{address(hosts[2])}/32" not in world.tables["mast-0"]  # a neighbour, although two fast wires lead there


def test_without_a_base_station_there_are_no_routes():
    assert NodeRoutes(HOSTS).changed(both(HOSTS[0], HOSTS[1], WIRE)) == {}


def test_stations_reach_the_wires_behind_the_access_point_that_is_fastest():
    def wireless(name, slot, *more, **role):
        made = tuple(interface(KNOWN[one], slot) for one in (AIR, *more))
        return replace(program(name, slot, forwards=bool(more)), interfaces=made, bridged=True, **role)

    near, far = (wireless(f"point-{k}", 40 + k, WIRE, point=True) for k in range(2))
    drone = wireless("drone", 50, station=True)
    host, cloud = program("host", 51, WIRE, forwards=True), program("cloud", 52, WIRE)
    routes = NodeRoutes([near, far, drone, host, cloud])
    wires = {**both(near, host, WIRE), **both(far, host, WIRE), **both(host, cloud, WIRE)}
    reported = routes.changed({**wires, **both(drone, near, AIR), **both(drone, far, AIR, UP._replace(rate=1e6))})
    assert reported["drone"] == {"10.173.0.0/16": Hop(AIR, address(near, AIR))}
    assert reported["cloud"][f"{address(drone)}/32"] == Hop(WIRE, address(host))
    assert reported["host"][f"{address(drone)}/32"] == Hop(WIRE, address(near, WIRE))
    assert reported[near.node][f"{address(cloud)}/32"] == Hop(WIRE, address(host))
    reported = routes.changed({**wires, **both(drone, far, AIR)})
    assert reported["drone"] == {"10.173.0.0/16": Hop(AIR, address(far, AIR))}
    assert reported["host"][f"{address(drone)}/32"] == Hop(WIRE, address(far, WIRE))
    assert routes.changed(wires)["drone"] == {"10.173.0.0/16": None}
    assert replace(drone, bridged=True).reached(replace(cloud, bridged=True)) == address(cloud)
    assert replace(cloud, bridged=True).reached(drone) == address(drone)
