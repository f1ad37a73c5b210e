"""Uplinks: off unless a node says so, and by them a node has the host's end and nobody else."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cosim.contract.errors import ScenarioError, SetupError
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.testbed.emulation import netns, uplink
from cosim.testbed.launch.carrier import carrier, unfit
from cosim.testbed.launch.compose import render
from cosim.testbed.launch.programs import HOST, UPLINKS_END, host_end, neighbours, programs, software
from cosim.testbed.launch.states import States
from cosim.testbed.launch.uplinks import POOL, free, passing
from tests.unit.testbed.launch.worlds import EDGE, plan, write

UPLINKED = EDGE.replace("runs", "uplink: {to: host, rate: 5 Mbit/s, rate_back: 20 Mbit/s, delay: 20 ms}, runs")
SHORT = EDGE.replace("runs", "uplink: host, runs")


def test_a_node_with_an_uplink_has_the_hosts_end_as_its_neighbour(tmp_path):
    scene = plan(tmp_path, gate=UPLINKED, other=SHORT, plain=EDGE).scene
    nodes = programs(scene)
    gate, other, plain = nodes
    assert [i.name for i in gate.interfaces] == ["wlan0", "up0"]
    assert [i.name for i in plain.interfaces] == ["wlan0"]
    assert [i.address for i in neighbours(gate, nodes)] == ["10.171.0.2", "10.171.0.3", "10.174.255.254"]
    end = host_end(nodes)
    assert end is not None
    assert [i.address for i in neighbours(end, nodes)] == ["10.174.0.1", "10.174.0.2"]
    assert UPLINKS_END not in neighbours(plain, nodes)
    assert host_end([plain]) is None
    assert (gate.reached(other), software(gate)["COSIM_HOST"]) == ("10.171.0.2", "10.174.255.254")
    assert "COSIM_HOST" not in software(plain)


def test_links_of_uplinks_are_as_the_scenario_says(tmp_path):
    scene = plan(tmp_path, gate=UPLINKED, other=SHORT).scene
    reported = States(scene, programs(scene), 0.0).changed({})
    there, back = reported["gate", HOST, "up0"], reported[HOST, "gate", "up0"]
    assert (there.rate, back.rate, there.delay, back.delay, there.loss) == (5e6, 20e6, 0.02, 0.02, 0.0)
    assert reported["other", HOST, "up0"].rate == 1e9
    assert ("gate", "other", "up0") not in reported


def test_containers_have_a_service_where_uplinks_end(tmp_path):
    def services(made):
        return YAML(typ="safe").load(render(made, tmp_path / "scenario.cosim.yaml", tmp_path, None))

    document = services(plan(tmp_path, gate=UPLINKED, plain=EDGE))
    end = document["services"]["uplink"]
    assert end["networks"] == ["uplink"]
    assert document["networks"]["uplink"] == {}
    assert (end["environment"]["COSIM_NODE"], end["environment"]["COSIM_UPLINK"]) == (HOST, "router")
    assert end["environment"]["COSIM_INTERFACES"].startswith("up0,")
    assert end["cap_add"] == ["NET_ADMIN"]
    assert "COSIM_REACH" not in end["environment"]
    assert not {"uplink"} & {
        name for s in document["services"].values() if s is not end for name in s.get("networks", [])
    }
    assert "uplink" not in services(plan(tmp_path, plain=EDGE))["services"]
    ports = UPLINKED.replace("runs: vedgenode", "runs: {image: vedgenode, ports: [80]}")
    with pytest.raises(ScenarioError, match="'gate' has 'ports' and an 'uplink'"):
        services(plan(tmp_path, gate=ports))


def test_warnings_say_what_an_uplink_opens_and_where_it_is_nothing(tmp_path):
    def said(world, **nodes):
        return [text for text in plan(tmp_path, nodes_are=world, **nodes).warnings if "uplink" in text]

    assert said("netns", gate=UPLINKED) == [
        "node 'gate' is given an 'uplink': programs there reach this machine, and what this machine reaches"
    ]
    assert "nothing emulates in process" in said("process", gate=UPLINKED)[0]
    assert said("containers", plain=EDGE) == []
    idle = UPLINKED.replace(", runs: vedgenode", "")
    assert any("nothing runs there" in text for text in said("netns", gate=idle, plain=EDGE))


def test_untrusted_scenarios_may_not_have_one(tmp_path, monkeypatch):
    monkeypatch.setenv("COSIM_UNTRUSTED", "1")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    inner = "kinds:\n  uplink: {kind: edge, uplink: host}\n"
    for more, gate, found in (("", SHORT, 1), (inner, EDGE, 1), ("", EDGE, 0)):
        path = write(tmp_path, gate=gate, uplink=EDGE, more=more)
        if not found:
            load(path)
            continue
        with pytest.raises(ScenarioError, match="lets programs of a node reach the host's network") as error:
            load(path)
        assert len(error.value.problems) == found


def test_traffic_control_refuses_uplinks_and_auto_takes_linkd(tmp_path):
    path = write(tmp_path, gate=UPLINKED)

    def made(backend):
        return compile_plan(load(path, ["run.nodes=containers", f"adapters.network.backend={backend}"]))

    with pytest.raises(ScenarioError, match="backend tc carries no uplinks"):
        carrier(made("tc"), "containers")
    assert unfit(made("tc"), "containers")
    assert carrier(made("auto"), "containers").kernel == ""


@given(st.integers(0, 1 << 20), st.sets(st.integers(0, (1 << 14) - 1), max_size=50))
def test_the_wire_of_a_run_has_a_network_of_its_own(first, used):
    taken = [ipaddress.IPv4Network((int(POOL[0]) + 4 * k, 30)) for k in used]
    found = free(taken, first)
    assert found.subnet_of(POOL)
    assert not any(found.overlaps(other) for other in taken)


def test_a_machine_without_room_says_so():
    with pytest.raises(SetupError, match="no part of"):
        free([ipaddress.IPv4Network("10.0.0.0/8")], 0)


@pytest.mark.parametrize(
    ("rules", "pass_"),
    [
        ("-P FORWARD ACCEPT", True),
        ("", True),
        ("-P FORWARD DROP\n-A FORWARD -j DOCKER-USER", False),
        ("-P FORWARD DROP\n-A DOCKER-USER -i cosim-+ -j ACCEPT", True),
    ],
)
def test_a_firewall_that_forwards_nothing_is_noticed(rules, pass_):
    assert passing(rules) == pass_


def test_a_namespace_without_a_router_cannot_be_the_end_of_uplinks(tmp_path):
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
    (tmp_path / "route").write_text(head + "eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\n")
    assert uplink.router(tmp_path / "route") == "192.168.0.1"
    (tmp_path / "route").write_text(head)
    with pytest.raises(SetupError, match="no router here"):
        uplink.router(tmp_path / "route")


@pytest.mark.netns
def test_rules_may_be_made_again_and_need_their_right():
    with netns.Namespaces() as spaces:
        where = spaces.create("a")
        for _ in range(2):  # as when a sidecar is started again
            netns.inside(where, lambda: uplink.translate("up0", "10.174.255.254/16", "10.0.0.1", ["10.171.0.0/16"]))
        with pytest.raises(SetupError, match="No such file or directory; this needs CAP_NET_ADMIN"):
            netns.inside(where, lambda: _sent([uplink.nf.no_table("none")]))


def _sent(messages):
    netfilter = uplink.Netfilter()
    try:
        netfilter.send(messages)
    finally:
        netfilter.close()
