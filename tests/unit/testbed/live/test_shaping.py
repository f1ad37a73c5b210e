"""Links of machines: what is told when, and what an agent makes of it, with shapers that fail."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ProtocolError, RunError, SetupError
from cosim.testbed.inference.limits import MAX_LINKS, MAX_SHAPED
from cosim.testbed.live import shaper as module
from cosim.testbed.live.protocol import FROM_AGENT, FROM_GATEWAY
from cosim.testbed.live.shaping import NOTHING, PATIENCE, Function, Impairment, Keeper, Wishes, networks
from cosim.testbed.live.unit import unit
from tests.unit.testbed.live.pair import READING

LINK = Impairment("10.9.0.2", 1e6, 0.01, 0.0, 0.1)


def order(*links, serial=1, whole=True):
    return {"serial": serial, "all": whole, "links": [list(link) for link in links]}


class Shaper:
    """Notes what it is to do; fails on request."""

    ability = "full"

    def __init__(self):
        self.calls, self.fails, self.gone = [], "", ""

    def open(self):
        """Nothing."""

    def impose(self, links):
        if self.fails:
            raise RuntimeError(self.fails)
        self.calls.append(dict(links))
        return len(links), ""

    def trouble(self):
        return self.gone

    def close(self):
        self.calls.append("closed")


@pytest.mark.parametrize(
    "link",
    [
        ["10.9.0.2", 1e6, 0.01, 0.0], ["10.9.0.2", 1e6, 0.01, 0.0, 0.1, 0], ["10.9.0.02", None, None, None, None],
        ["::1", None, None, None, None], [" 10.9.0.2", None, None, None, None], [10, None, None, None, None],
        ["10.9.0.2/32", None, None, None, None], ["10.9.0.2", -1, None, None, None],
        ["10.9.0.2", float("inf"), None, None, None], ["10.9.0.2", True, None, None, None],
        ["10.9.0.2", None, 1e4, None, None], ["10.9.0.2", None, None, -0.1, None],
        ["10.9.0.2", None, None, None, 1.1], ["10.9.0.2", None, None, None, float("nan")], {"address": "10.9.0.2"},
    ],
)  # fmt: skip
def test_links_that_are_none_are_refused(link):
    with pytest.raises(ProtocolError, match="'links' of a 'shape'"):
        FROM_GATEWAY.pack("shape", {"serial": 1, "all": True, "links": [link]})


def test_links_go_over_the_wire_as_they_are_and_not_too_many():
    body = order(LINK, Impairment("0.0.0.0"))
    assert FROM_GATEWAY.unpack(FROM_GATEWAY.pack("shape", body)).body == body
    with pytest.raises(ProtocolError, match="'links'"):
        FROM_GATEWAY.pack("shape", order(*[LINK] * (MAX_LINKS + 1)))
    with pytest.raises(ProtocolError, match="no message 'shape' of an agent"):
        FROM_AGENT.unpack(FROM_GATEWAY.pack("shape", body))
    body = {**READING, "running": 0, "waiting": 0}
    for field, value in (("shaped", MAX_SHAPED + 1), ("obeyed", -1), ("unshaped", "x" * 301), ("unshaped", "a\nb")):
        with pytest.raises(ProtocolError, match=f"'{field}' of a 'report'"):
            FROM_AGENT.pack("report", {**body, field: value})


addresses = st.integers(1, 600).map(lambda n: str(ipaddress.IPv4Address(0x0A090000 + n)))
changes = st.lists(st.tuples(st.lists(st.tuples(addresses, st.floats(1, 1e9)), max_size=8), st.integers(0, 3)))


@given(changes)
def test_an_agent_that_hears_in_order_has_what_is_wished(steps):
    """Messages are lost, sessions begin anew, agents report late: in the end both have the same links."""
    wishes, keeper, now = Wishes(), Keeper(None), 0.0
    for links, what in steps:
        now += 1.0
        wishes.want([Impairment(address, rate) for address, rate in links])
        messages = wishes.changes(now)
        if what == 1:  # lost
            messages = []
        elif what == 2:  # a new session
            keeper.take(NOTHING)
            messages = wishes.whole(now)
        elif what == 3:
            messages = wishes.heard(keeper.report(now)["obeyed"], now)
        for message in messages:
            FROM_GATEWAY.pack("shape", message)
            keeper.take(message)
    for _ in range(2):
        now += PATIENCE + 1
        for message in [*wishes.changes(now), *wishes.heard(keeper.report(now)["obeyed"], now)]:
            keeper.take(message)
    assert keeper._links == wishes.links


def test_many_links_go_in_parts_and_too_many_are_refused():
    wishes, keeper = Wishes(), Keeper(None)
    many = [Impairment(str(ipaddress.IPv4Address(k + 1)), 1.0) for k in range(MAX_SHAPED + 1)]
    wishes.want(many[:-1])
    parts = wishes.whole(0.0)
    assert len(parts) == MAX_SHAPED // MAX_LINKS
    for part in parts:
        keeper.take(part)
    assert len(keeper._links) == MAX_SHAPED
    assert wishes.heard(keeper.report(9.0)["obeyed"], 9.0) == []
    with pytest.raises(RunError, match="4096 links"):
        wishes.want(many)


def test_changes_behind_a_gap_wait_until_all_is_told():
    keeper = Keeper(None)
    keeper.take(order(LINK))
    keeper.take(order(Impairment("10.9.0.3"), serial=3, whole=False))
    assert keeper.report(0.0) == {"obeyed": 1, "shaped": 0, "unshaped": ""}
    assert list(keeper._links) == ["10.9.0.2"]


def test_what_fails_is_told_and_tried_again():
    shaper = Shaper()
    keeper = Keeper(shaper)
    shaper.fails = "no\nluck" + "x" * 400
    keeper.take(order(LINK))
    keeper.act(10.0)
    reported = keeper.report(10.0)
    assert (reported["shaped"], reported["obeyed"]) == (0, 1)
    assert reported["unshaped"].startswith("RuntimeError: no luckx")
    FROM_AGENT.pack("report", {**READING, "running": 0, "waiting": 0, **reported})
    shaper.fails = ""
    keeper.act(10.0 + PATIENCE / 2)
    assert shaper.calls == []
    keeper.act(10.0 + PATIENCE)
    assert keeper.report(20.0) == {"obeyed": 1, "shaped": 1, "unshaped": ""}
    keeper.act(30.0)
    assert len(shaper.calls) == 1  # nothing new
    keeper.close()
    assert shaper.calls[-1] == "closed"


def test_what_somebody_else_has_undone_is_told_and_done_again():
    shaper = Shaper()
    keeper = Keeper(shaper)
    keeper.take(order(LINK))
    keeper.act(0.0)
    shaper.gone = "eth0 is gone"
    assert keeper.report(1.0) == {"obeyed": 1, "shaped": 0, "unshaped": "eth0 is gone"}
    shaper.gone = ""
    keeper.act(1.1)
    assert keeper.report(2.0)["shaped"] == 1
    assert len(shaper.calls) == 2


def test_a_shaper_that_fails_to_look_is_reported_and_asked_again(monkeypatch):
    shaper = Shaper()
    keeper = Keeper(shaper)
    keeper.take(order(LINK))
    keeper.act(0.0)
    with monkeypatch.context() as failing:
        failing.setattr(shaper, "trouble", lambda: 1 / 0)
        assert keeper.report(1.0)["unshaped"] == "ZeroDivisionError: division by zero"
    keeper.act(1.1)
    assert keeper.report(2.0) == {"obeyed": 1, "shaped": 1, "unshaped": ""}


def test_the_owners_function_gets_all_links_within_its_networks_and_none_in_the_end():
    calls = []
    function = Function(calls.append, networks("10.9.0.0/24, 10.8.0.0/16"))
    keeper = Keeper(function)
    keeper.act(0.0)
    keeper.take(order(LINK, Impairment("10.7.0.1")))
    keeper.act(1.0)
    assert keeper.report(1.0) == {"obeyed": 1, "shaped": 1, "unshaped": "1 links are outside 10.9.0.0/24, 10.8.0.0/16"}
    keeper.close()
    keeper.close()
    assert calls == [[LINK], []]


def test_addresses_that_are_spared(tmp_path):
    table = tmp_path / "route"
    table.write_text(
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t0107A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth0\t0007A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    )
    assert module.routers(table) == {"192.168.7.1"}
    assert module.routers(tmp_path / "none") == frozenset()
    assert module.resolved("tcp://192.168.7.9:5580") == {"192.168.7.9"}
    assert "127.0.0.1" in module.resolved("tcp://localhost:5580")
    assert module.resolved("ipc:///run/x") == frozenset()


@pytest.mark.parametrize(("text", "interface"), [("eth0", True), ("wlan0.7", True), ("a:b", False), ("x" * 16, False)])
def test_interfaces_and_functions_are_told_apart(text, interface):
    assert module.is_interface(text) is interface


def test_an_interface_that_is_not_there_is_named():
    with pytest.raises(SetupError, match="there is no interface 'nowhere9'"):
        module.KernelShaper("nowhere9")


def test_a_unit_has_the_right_to_shape_only_where_it_shall():
    plain = unit("cosim-pi", "/usr/bin/cosim", "/etc/pi.key", [])
    assert "\nCapabilityBoundingSet=\n" in plain
    assert "NET_ADMIN" not in plain
    assert "ExecStopPost" not in plain
    assert "NETLINK" not in plain
    shaping = unit("cosim-pi", "/usr/bin/cosim", "/etc/pi.key", [], interface="eth0", python="/usr/bin/python3")
    for line in (
        "ExecStopPost=-/usr/bin/python3 -m cosim.testbed.live.shaper eth0", "AmbientCapabilities=CAP_NET_ADMIN",
        "CapabilityBoundingSet=CAP_NET_ADMIN", "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    ):  # fmt: skip
        assert f"\n{line}\n" in shaping


def test_shaping_imports_little():
    heavy = ("numpy", "numba", "pydantic", "pyarrow", "typer", "psutil")
    code = f"import json, sys, cosim.testbed.live.shaper; print(json.dumps([n for n in {heavy!r} if n in sys.modules]))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert json.loads(found) == []
