"""Which backend carries the links of real nodes, by what the scenario asks for and what there is."""

from __future__ import annotations

import shlex

import pytest
from ruamel.yaml import YAML

from cosim.contract.errors import ScenarioError, SetupError
from cosim.contract.registry import engine_command
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.testbed.launch import carrier as module
from cosim.testbed.launch.carrier import Carrier, carrier
from cosim.testbed.launch.compose import render

TEXT = """
apiVersion: cosim/v1
kind: Scenario
name: pair
run: {duration: 1 s, seed: 7, nodes: netns}
adapters: {wifi: {}, network: {}}
kinds:
  box: {kind: edge, wifi: {power: 17 dBm, gain: 2 dB}, runs: {image: box, command: [sleep, "60"]}}
nodes:
  a: {kind: box, at: [0 m, 0 m]}
  b: {kind: box, at: [5 m, 0 m]}
"""


@pytest.fixture
def plan(tmp_path):
    def make(*overrides, text=TEXT):
        (tmp_path / "s.cosim.yaml").write_text(text, encoding="utf-8")
        return compile_plan(load(tmp_path / "s.cosim.yaml", list(overrides)))

    return make


@pytest.fixture
def netem(monkeypatch):
    return lambda reason: monkeypatch.setattr(module, "probe_netem", lambda: reason)


def test_linkd_carries_what_nobody_else_is_asked_to(plan):
    assert carrier(plan(), "netns") == Carrier(arguments=(*Carrier().arguments, "--seed", "7"))
    found = carrier(plan("adapters.network.backend=linkd"), "containers")
    assert found.arguments[:2] == ("--backend", "linkd")
    assert not found.remark


@pytest.mark.parametrize("asked", ["tc", "auto"])
def test_the_kernel_carries_them_where_it_has_netem(plan, netem, asked):
    netem("")
    found = carrier(plan(f"adapters.network.backend={asked}"), "netns")
    assert found.kernel
    assert found.arguments == ("--backend", "tc")
    assert "do not share the air" in found.remark


@pytest.mark.parametrize("asked", ["tc", "auto"])
def test_without_netem_linkd_does_and_it_is_said(plan, netem, asked):
    netem("this kernel has no netem; modprobe it")
    found = carrier(plan(f"adapters.network.backend={asked}"), "netns")
    assert not found.kernel
    assert found.arguments[:2] == ("--backend", "linkd")
    assert found.arguments[-2:] == ("--remark", f"{asked} was asked for, but this kernel has no netem")
    assert found.remark == f"backend {asked}: linkd, because this kernel has no netem; modprobe it"


@pytest.mark.parametrize("asked", ["tc", "auto"])
def test_in_containers_it_is_decided_where_they_run(plan, tmp_path, asked):
    made = plan(f"adapters.network.backend={asked}")
    found = carrier(made, "containers")
    assert "where the containers' kernel has netem" in found.remark
    assert found.arguments == (
        "--backend", "tc", "--shared", "wlan0", "--seed", "7", "--remark", f"{asked} was asked for",
    )  # fmt: skip
    document = YAML(typ="safe").load(render(made, tmp_path / "s.cosim.yaml", tmp_path, None))
    services, sidecar = document["services"], document["services"]["a-net"]
    mtu = {"com.docker.network.driver.mtu": "1550"}  # so that 1500 is left in a tunnel
    assert document["networks"]["management"] == {"internal": True, "driver_opts": mtu}
    assert sidecar["environment"]["COSIM_KERNEL"] == "${COSIM_KERNEL:-netem}"
    assert sidecar["environment"]["COSIM_UNDERLAY"] == "orchestrator"
    assert sidecar["cap_add"] == ["NET_ADMIN"]
    assert "cap_add" not in services["network"]


def test_without_traffic_control_sidecars_hand_over_frames(plan, tmp_path):
    services = YAML(typ="safe").load(render(plan(), tmp_path / "s.cosim.yaml", tmp_path, None))["services"]
    assert "COSIM_KERNEL" not in services["a-net"]["environment"]


def test_ns3_carries_wifi_with_the_parameters_of_its_stations(plan):
    asked = ("adapters.network.backend=ns3", "adapters.network.radio={fading: 1.5, queue: 50}")
    found = carrier(plan(*asked), "containers")
    assert found.engine == "ns3"
    assert found.arguments[2:4] == ("--carries", "wlan0")
    program, *words = shlex.split(found.arguments[1])
    assert program == "/usr/local/lib/cosim/ns3-engine"
    assert {"--fading=1.5", "--queue=50", "--seed=8", "--band=5.0", "--power=21.0", "--width=20"} <= set(words)
    assert "its own radio" in found.remark


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("{fadin: 1}", "no parameter 'fadin'"),
        ("{power: loud}", "power = 'loud' is no float"),
        ("{exponent: 99}", "between 1 and 8"),
        ("{access: x}", "no parameter 'access'"),
    ],
)
def test_parameters_that_ns3_cannot_have_are_refused(plan, options, said):
    with pytest.raises(ScenarioError, match=said):
        carrier(plan("adapters.network.backend=ns3", f"adapters.network.radio={options}"), "containers")


def test_stations_of_ns3_are_alike(plan):
    text = TEXT.replace("b: {kind: box,", "b: {kind: box, wifi: {power: 20 dBm},")
    with pytest.raises(ScenarioError, match="power of nodes 'a' and 'b' differ"):
        carrier(plan("adapters.network.backend=ns3", text=text), "containers")


def test_ns3_without_wifi_is_refused(plan):
    text = TEXT.replace("wifi: {power: 17 dBm, gain: 2 dB}", "radio: {}").replace("wifi: {},", "")
    with pytest.raises(ScenarioError, match="no real node has any"):
        carrier(plan("adapters.network.backend=ns3", text=text), "containers")


def test_others_have_no_radio(plan):
    with pytest.raises(ScenarioError, match="linkd has no radio"):
        carrier(plan("adapters.network.radio={fading: 1}"), "netns")


def test_an_absent_engine_ends_the_start(plan, monkeypatch, tmp_path):
    monkeypatch.setenv("COSIM_NS3", str(tmp_path))
    with pytest.raises(SetupError, match=r"no ns-3 3\.44"):
        carrier(plan("adapters.network.backend=ns3"), "netns")


def test_containers_have_an_image_with_the_engine(plan, tmp_path):
    def services(*overrides):
        found = YAML(typ="safe").load(render(plan(*overrides), tmp_path / "s.cosim.yaml", tmp_path, tmp_path))
        return found["services"]

    assert "WITH_NS3" not in services()["orchestrator"]["build"]["args"]
    made = services("adapters.network.backend=ns3")
    assert made["orchestrator"]["build"]["args"]["WITH_NS3"] == "1"
    with_engine = made["network"]
    assert with_engine["image"].endswith("-ns3")
    assert with_engine["command"][-4:] == ["--carries", "wlan0", "--seed", "7"]
    assert "cap_add" not in with_engine


def test_unknown_backends_are_refused(plan):
    with pytest.raises(ScenarioError, match="backend"):
        plan("adapters.network.backend=magic")
    with pytest.raises(SetupError, match="no network backend 'magic'"):
        engine_command("magic")
