"""Routes on their way into nodes: messages, what the service keeps, and what the kernel has in the end."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import threading
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ProtocolError
from cosim.talk.codec import PROTOCOL, Message
from cosim.testbed.emulation import message, netns, routing, taps
from cosim.testbed.emulation.orders import TO_SIDECAR
from cosim.testbed.emulation.routing import Hop, KernelRoutes, SidecarRoutes
from cosim.testbed.emulation.taps import Tap

SESSION = b"8 bytes!"
networks = st.builds(
    lambda address, prefix: str(ipaddress.IPv4Network((address, prefix), strict=False)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 32),
)
hops = st.builds(
    Hop,
    st.from_regex(r"[a-z0-9]{1,15}", fullmatch=True),
    st.one_of(st.just(""), st.integers(0, 2**32 - 1).map(lambda number: str(ipaddress.IPv4Address(number)))),
)
tables = st.dictionaries(networks, st.one_of(st.none(), hops), max_size=80)


@given(st.dictionaries(st.text("abc-1", min_size=1, max_size=5), tables, max_size=4))
def test_routes_arrive_as_they_were_sent(sent):
    found = message.command(message.routes(SESSION, 1, sent))
    assert found.routes == {node: table for node, table in sent.items() if table}
    assert not found.links


@pytest.mark.parametrize(
    "row",
    [
        ["a", "10.0.0.0/33", "lte0", ""],
        ["a", "10.0.0.1/8", "lte0", ""],
        ["a", "10.0.0.0/8", "lte0 ", ""],
        ["a", "10.0.0.0/8", "lte0", "here"],
        ["a", "10.0.0.0/8", "lte0", 1],
        ["", "10.0.0.0/8", "lte0", ""],
        ["a", None, "lte0", ""],
        ["a", "10.0.0.0/8"],
        7,
    ],
)
def test_what_is_no_route_is_refused(row):
    packed = msgpack.packb([PROTOCOL, "routes", SESSION, 1, {"routes": [row]}])
    with pytest.raises(ProtocolError):
        message.command(packed)


@given(st.lists(st.dictionaries(st.sampled_from("ab"), tables, max_size=2), max_size=6))
def test_a_sidecar_that_asks_has_the_same_as_one_that_has_heard_everything(changes):
    heard = {"a": {}, "b": {}}

    def send_to(node, kind, body):
        for to, interface, via in TO_SIDECAR.unpack(TO_SIDECAR.pack(kind, body)).body["routes"]:
            if interface is None:
                heard[node].pop(to, None)
            else:
                heard[node][to] = (interface, via)
        return True

    routes = SidecarRoutes(send_to)
    for change in changes:
        routes.change(change)
    first, heard = heard, {"a": {}, "b": {}}
    for node in "ab":
        routes.wanted(node)
    assert heard == first


@pytest.mark.netns
def test_the_kernel_has_what_was_said_and_no_more(caplog):
    def within():
        descriptor = taps.make(Tap("lte0", "02:00:00:00:00:01", "10.172.0.1/16"))
        kernel = KernelRoutes()
        try:
            kernel.take(Message("end", {"probe": 1}))
            kernel.take(word(**{"10.173.0.0/16": ["lte0", "10.172.0.4"], "10.172.0.4/32": ["lte0", ""]}))
            kernel.take(word(**{"10.173.0.0/16": ["lte0", "10.172.0.5"], "10.172.0.9/32": None}))
            kernel.take(word(**{"10.172.0.4/32": None, "10.9.0.0/8": ["lte0", ""], "10.8.0.0/16": ["eth9", ""]}))
            routing.forward()
            routing.forward()
            assert [Path("/proc/sys/net/ipv4", name).read_text().strip() for name in routing.FORWARDING] == [
                *routing.FORWARDING.values()
            ]
            assert Path("/proc/sys/net/ipv4/conf/lte0/send_redirects").read_text().strip() == "0"  # it came before
            shown = subprocess.run(["ip", "-j", "route"], capture_output=True, text=True, check=True).stdout
            return {one["dst"]: one.get("gateway", "") for one in json.loads(shown)}
        finally:
            kernel.close()
            kernel.close()
            os.close(descriptor)

    def word(**routes):
        return Message("routes", {"routes": [[to, *(hop or (None, None))] for to, hop in routes.items()]})

    found = []
    with netns.Namespaces() as spaces:
        name = spaces.create("a").name
        # /proc/sys/net shows the namespace of the thread that opens it.
        thread = threading.Thread(target=lambda: found.append(netns.inside(netns.FOLDER / name, within)))
        thread.start()
        thread.join()
    assert found == [{"10.172.0.0/16": "", "10.173.0.0/16": "10.172.0.5"}]
    assert "10.9.0.0/8" in caplog.text
    assert "no interface eth9" in caplog.text
