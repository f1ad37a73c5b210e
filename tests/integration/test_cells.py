"""Real nodes on cells: wired nodes are reached across base stations, whose air is shared, and after a handover."""

from __future__ import annotations

import contextlib
import os
import threading

import pytest

from cosim.adapters.network.routes import NodeRoutes
from cosim.contract.entities import Link, Node, Scene, SlotRange
from cosim.contract.link import DOWN, LinkState
from cosim.contract.node_keys import Cell, Radio, Software
from cosim.testbed.emulation import netns, probe
from cosim.testbed.emulation.client import Client
from cosim.testbed.launch.carrier import Carrier
from cosim.testbed.launch.netns import netns_nodes
from cosim.testbed.launch.programs import programs
from tests.unit.testbed.emulation.conftest import until

pytestmark = pytest.mark.netns

RADIO, CELL = Radio(), Cell()
IDLE = Software(image="box", command=("sleep", "600"))
SCENE = Scene.build(
    (
        Node("uav-1", "uav", "device", (0, 0, 0), radio=RADIO, runs=IDLE),
        Node("uav-2", "uav", "device", (0, 0, 0), radio=RADIO, runs=IDLE),
        Node("north", "base-station", "edge", (0, 0, 0), cell=CELL, runs=IDLE),
        Node("south", "base-station", "edge", (0, 0, 0), cell=CELL, runs=IDLE),
        Node("cloud", "cloud", "cloud", runs=IDLE),
    ),
    (),
    (Link((SlotRange(2, 2),), (SlotRange(4),), LinkState(1e9, 0.005)),),
    real="netns",
)
RATE = 4e6  # bit/s of a cell in each direction
PAYLOAD = 1200  # B
AIR = LinkState(RATE, 0.01, 0.0, 0.0)
WIRE = LinkState(1e9, 0.005, 0.0, 0.0)


def both(a, b, name, state):
    return {(a, b, name): state, (b, a, name): state}


class World:
    """The nodes, and who tells them of links."""

    air, wire = AIR, WIRE

    def __init__(self, nodes, client):
        self.nodes, self.client = nodes, client
        self.routes, self.links = NodeRoutes(programs(SCENE)), {}

    def served(self, **by):
        """Each device is served by one base station, or by none."""
        now = both("north", "cloud", "eth1", self.wire) | both("south", "cloud", "eth1", self.wire)
        for device, base in by.items():
            now |= both(device.replace("_", "-"), base, "lte0", self.air) if base else {}
        self.links = {**dict.fromkeys(self.links, DOWN), **now}
        self.client.links(self.links)
        self.client.routes(self.routes.changed(self.links))
        self.client.wait()

    def within(self, node, call):
        return netns.inside(netns.FOLDER / self.nodes._spaces._names[node], call)

    def ping(self, node, to):
        command = ["ping", "-q", "-n", "-c", "2", "-i", "0.1", "-W", "1", ADDRESS[to]]
        return self.nodes._spaces.run(node, command)

    def reaches(self, node, to):
        return self.ping(node, to).returncode == 0

    def card(self, node):
        """Number of the present interface."""
        return self.nodes._spaces.run(node, ["ip", "-o", "link", "show", "lte0"]).stdout.partition(":")[0]

    @classmethod
    @contextlib.contextmanager
    def up(cls, folder, carrier):
        """The nodes while the block lasts, their links imposed by `carrier`."""
        with contextlib.ExitStack() as stack:
            nodes = stack.enter_context(netns_nodes(SCENE, folder, lambda _text: None, carrier))
            client = stack.enter_context(Client(os.environ["COSIM_NETWORK"], os.environ["COSIM_REPORTS"]))
            client.await_ports({(n.node, i.name) for n in programs(SCENE) for i in n.interfaces})
            yield cls(nodes, client)


@pytest.fixture
def world(tmp_path):
    cells = [word for node in ("north", "south") for word in ("--cell", f"{node},lte0")]
    with World.up(tmp_path, Carrier(arguments=(*Carrier().arguments, *cells))) as found:
        yield found


@contextlib.contextmanager
def answered(world, node):
    """The port at which `node` answers probes."""
    ended = threading.Event()
    with world.within(node, probe.opened) as answering:
        answers = threading.Thread(target=probe.answer, args=(answering, ended.is_set))
        answers.start()
        try:
            yield answering.getsockname()[1]
        finally:
            ended.set()
            answers.join()


ADDRESS = {node.node: node.interfaces[0].address for node in programs(SCENE)}


def test_devices_reach_wired_nodes_and_each_other_across_their_base_stations(world):
    world.served(uav_1="north", uav_2="south")
    for pair in ("uav-1 cloud", "cloud uav-1", "uav-1 uav-2", "uav-1 south", "south uav-1"):
        node, to = pair.split()
        until(lambda node=node, to=to: world.reaches(node, to))
    world.served(uav_1="north", uav_2="north")  # both in one cell: there and back by the base station
    until(lambda: world.reaches("uav-1", "uav-2"))
    until(lambda: world.reaches("uav-2", "cloud"))


def test_after_a_handover_and_a_new_sidecar_addresses_are_as_before(world):
    world.served(uav_1="north")
    until(lambda: world.reaches("uav-1", "cloud"))
    world.served(uav_1="south")
    until(lambda: world.reaches("uav-1", "cloud"))
    hops = world.nodes._spaces.run("uav-1", ["ip", "route", "get", ADDRESS["cloud"]]).stdout
    assert f"via {ADDRESS['south']}" in hops
    card = world.card("uav-1")
    world.nodes.restart("uav-1-net")  # its interface is made anew, and is told its routes again
    until(lambda: world.card("uav-1") not in ("", card))
    until(lambda: world.reaches("uav-1", "cloud"))
    world.served(uav_1=None)
    until(lambda: not world.reaches("uav-1", "cloud"))


def test_the_uplinks_of_a_cell_share_its_rate_and_two_cells_do_not(world):
    senders = ("uav-1", "uav-2")

    def together():
        """bit/s that the cloud gets of each device while both send more than the air carries, by the kernel's times."""
        came = {ADDRESS[node]: [] for node in senders}
        frame = (PAYLOAD + probe.OVERHEAD) * 8
        pause = frame / (2 * RATE)
        ended = threading.Event()

        def flood(node):
            with world.within(node, probe.opened) as sending:
                while not ended.is_set():
                    probe._pace(sending, (ADDRESS["cloud"], port), 0, round(0.1 / pause), pause, PAYLOAD)

        with world.within("cloud", probe.opened) as getting:
            getting.settimeout(10.0)
            port = getting.getsockname()[1]
            floods = [threading.Thread(target=flood, args=(node,)) for node in senders]
            for one in floods:
                one.start()
            try:
                while not all(came.values()) or common(came)[1] < 1.6:
                    _, at, (address, _) = probe._receive(getting)
                    came[address].append(at * 1e-9)
            finally:
                ended.set()
                for one in floods:
                    one.join()
        begin, duration = common(came)
        return [frame * sum(begin < at <= begin + duration for at in times) / duration for times in came.values()]

    world.served(uav_1="north", uav_2="north")
    until(lambda: world.reaches("uav-1", "cloud") and world.reaches("uav-2", "cloud"))
    shared = together()
    assert sum(shared) == pytest.approx(RATE, rel=0.2), shared
    assert min(shared) > 0.01 * RATE  # who is early keeps the queue full: the shares need not be equal
    world.served(uav_1="north", uav_2="south")
    until(lambda: world.reaches("uav-2", "cloud"))
    assert sum(together()) == pytest.approx(2 * RATE, rel=0.2)


def common(came):
    """When both have begun, s, and for how long both went on."""
    begin = max(times[0] for times in came.values())
    return begin, min(times[-1] for times in came.values()) - begin


def test_a_packet_takes_the_time_of_air_and_wire(world):
    world.served(uav_1="north")
    until(lambda: world.reaches("uav-1", "cloud"))
    said = world.ping("uav-1", "cloud").stdout
    least = float(said.split("rtt min/avg/max/mdev = ")[1].split("/")[0]) * 1e-3
    assert 2 * (AIR.delay + WIRE.delay) <= least < 0.2
