"""Sidecars that make their interfaces as tunnels over another network, as in containers, and shape them."""

from __future__ import annotations

import contextlib
import json
import os
import time

import pytest

from cosim.contract.errors import RunError
from cosim.contract.link import DOWN, LinkState
from cosim.testbed.emulation import netns, overlay, tc
from cosim.testbed.emulation.overlay import TunnelOverlay
from cosim.testbed.emulation.taps import Tap
from tests.integration.test_carriers import NODES, answers, serving
from tests.unit.testbed.emulation.conftest import mac, until

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0 or overlay.missing() != "", reason="needs root and a kernel with vxlan"),
]

GATE = "192.0.2.254"
FREE = LinkState(1e9, 0.0, 0.0, 0.0)


def batch(spaces, node, *lines):
    done = spaces.run(node, ["ip", "-batch", "-"], text="\n".join(lines) + "\n")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def spaces():
    """Nodes on a bridge that passes the addresses of one network only, as an engine's does."""
    with netns.Namespaces() as made:
        where = made.create("_bridge").name
        batch(made, "_bridge", "link add management type bridge", f"addr add {GATE}/24 dev management")
        batch(made, "_bridge", "link set management up")
        for number, node in enumerate(NODES, 1):
            made.create(node.node)
            strict = "echo 1 > /proc/sys/net/ipv4/conf/default/rp_filter"  # as some hosts have it
            assert made.run(node.node, ["sh", "-c", strict]).returncode == 0
            batch(
                made, node.node,
                f"link add eth0 type veth peer name port{number} netns {where}",
                f"addr add 192.0.2.{number}/24 dev eth0", "link set eth0 up",
                # A node's software has a way to the run, and to nobody else.
                f"route add {GATE} dev eth0", "route del 192.0.2.0/24 dev eth0",
            )  # fmt: skip
            batch(made, "_bridge", f"link set port{number} master management up")
        yield made


def reported(spaces, node, *command):
    return spaces.run(node, list(command)).stdout


def test_nodes_are_joined_by_tunnels_and_each_pair_has_its_state(spaces, tmp_path):
    kernel = "rates" if tc.probe_netem() else "netem"
    with serving(spaces, tmp_path, ["--backend=tc"], kernel, COSIM_UNDERLAY=GATE) as client:
        b, c = NODES[1].interfaces, NODES[2].interfaces
        client.links(dict.fromkeys([("a", "b", "wlan0"), ("b", "a", "wlan0")], FREE))
        until(lambda: answers(spaces, b[0].address))
        assert not answers(spaces, "192.0.2.2")
        assert not answers(spaces, c[0].address)
        assert not answers(spaces, b[1].address)
        client.links({("a", "b", "wlan0"): DOWN, ("a", "c", "eth1"): FREE, ("c", "a", "eth1"): FREE})
        until(lambda: answers(spaces, c[1].address))
        until(lambda: not answers(spaces, b[0].address))
        until(lambda: client.poll() or ("a", "c", "eth1") in client.counts())
        assert client.report.backend.startswith("traffic control (")
        details = reported(spaces, "a", "ip", "-d", "-o", "link", "show", "wlan0")
        assert "vxlan id 699136 local 192.0.2.1 dev eth0" in details  # 10.171.0
        assert "gso_max_segs 1 " in details
        assert " mtu 1450 " in details


def test_what_a_sidecar_cannot_impose_the_client_hears_until_it_asks_for_something_else(spaces, tmp_path):
    with serving(spaces, tmp_path, ["--backend=tc"], "rates", COSIM_UNDERLAY=GATE) as client:
        client.links({("a", "b", "wlan0"): FREE._replace(delay=0.1)})
        for _ in range(2):
            with pytest.raises(RunError, match="refuses: a: cannot delay or lose packets from here to b"):
                until(lambda: client.poll())
        client.links({("a", "b", "wlan0"): FREE})
        until(lambda: silent(client, 1.5))


def silent(client, seconds):
    """Whether nothing is refused for so long."""
    end = time.monotonic() + seconds
    with contextlib.suppress(RunError):
        while time.monotonic() < end:
            client.poll()
            time.sleep(0.01)
        return True
    return False


@pytest.mark.skipif(tc.probe_netem() == "", reason="this kernel has netem")
def test_without_netem_frames_are_handed_over_and_the_report_says_why(spaces, tmp_path):
    with serving(spaces, tmp_path, ["--backend=tc", "--remark=auto was asked for"], "netem", COSIM_UNDERLAY=GATE) as c:
        assert c.report.backend.startswith("linkd")
        assert c.report.backend.endswith("(auto was asked for, but this kernel has no netem)")
        c.links(dict.fromkeys([("a", "b", "wlan0"), ("b", "a", "wlan0")], LinkState(1e9, 0.02, 0.0, 0.0)))
        until(lambda: answers(spaces, NODES[1].interfaces[0].address))


def test_a_peer_that_moves_is_followed_and_left_where_nobody_else_is(spaces):
    def inside():
        with contextlib.closing(TunnelOverlay("192.0.2.1")) as made:
            yield from moved(made)

    def moved(made):
        made.make(Tap("wlan0", mac(1), "10.171.0.1/16"))
        made.make(Tap("wlan0", mac(1), "10.171.0.1/16"))  # anew
        made.peers([("wlan0", mac(2), "192.0.2.2"), ("wlan0", mac(3), "192.0.2.2"), ("eth9", mac(4), "192.0.2.4")])
        made.peers([("wlan0", mac(2), "192.0.2.3")])
        yield entries()
        made.peers([("wlan0", mac(3), "192.0.2.3"), ("wlan0", mac(3), "192.0.2.3")])
        yield entries()

    def entries():
        found = json.loads(reported(spaces, "a", "bridge", "-j", "fdb", "show", "dev", "wlan0"))
        return sorted((one["mac"], one["dst"]) for one in found if "dst" in one)

    first, last = netns.inside(netns.FOLDER / spaces._names["a"], lambda: list(inside()))
    everybody = overlay.ALL
    assert first == [(everybody, "192.0.2.2"), (everybody, "192.0.2.3"), (mac(2), "192.0.2.3"), (mac(3), "192.0.2.2")]
    assert last == [(everybody, "192.0.2.3"), (mac(2), "192.0.2.3"), (mac(3), "192.0.2.3")]


def test_where_we_are_is_asked_of_a_host_there(spaces):
    assert netns.inside(netns.FOLDER / spaces._names["b"], lambda: overlay.address(GATE)) == "192.0.2.2"
    with contextlib.suppress(OSError):
        pytest.fail(overlay.address("no-such-host.invalid"))
