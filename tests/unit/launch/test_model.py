"""What an engine is told is what the compose file says, and nothing in the file is passed over."""

from __future__ import annotations

import copy
import functools
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cosim.errors import SetupError
from cosim.launch.compose import render
from cosim.launch.model import DONE, HEALTHY, STARTED, interpolated, read
from cosim.launch.observability import PROFILE
from cosim.plan.compile import compile_plan
from cosim.scenario.load import load
from tests.unit.launch.worlds import DRONE, EDGE, plan

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = sorted((ROOT / "scenarios").glob("*/compose.yaml"))
NAMES = [file.parent.name for file in SHIPPED]


@functools.cache
def shipped(name, repository=ROOT):
    file = ROOT / "scenarios" / name / "scenario.cosim.yaml"
    made = compile_plan(load(file, ["run.nodes=containers"]))
    return render(made, file, file.parent, repository, ["run.seed=4"])


def parsed(text):
    return YAML(typ="safe", pure=True).load(text)


def written(document):
    text = io.StringIO()
    YAML().dump(document, text)
    return text.getvalue()


def test_four_scenarios_are_shipped():
    assert len(NAMES) == 4


@pytest.mark.parametrize("builds", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_every_key_of_the_shipped_scenarios_is_understood(name, builds):
    text = shipped(name, ROOT if builds else None)
    found = read(text, ROOT / "scenarios" / name, {"COSIM_TAG": "t", "COSIM_RUNS": "/runs"}, (PROFILE,))
    document = parsed(text)
    assert {service.name for service in found.services} == set(document["services"])
    assert set(found.networks) == {"control", "management", "front"}
    assert found.networks["control"]["internal"]
    assert found.networks["management"]["internal"]
    assert not found.networks["front"]["internal"]
    assert set(found.volumes) == set(document["volumes"])
    started = set()
    for service in found.services:
        said = document["services"][service.name]
        assert set(service.after) <= started  # and in an order that does
        started.add(service.name)
        assert service.image.startswith(("prom/", "grafana/")) or service.image.endswith((":t", ":t-sumo"))
        assert "$" not in "".join((service.image, *service.arguments.get("environment", {}).values()))
        assert service.arguments["cap_drop"] == ["ALL"]
        assert service.arguments["security_opt"] == ["no-new-privileges:true"]
        assert service.arguments.get("cap_add") == said.get("cap_add")
        assert service.arguments.get("mem_limit") == said.get("mem_limit")
        assert set(service.networks) == set(said.get("networks", ()))
        assert service.joins == said.get("network_mode", "").partition("service:")[2]
        assert len(service.volumes) + len(service.folders) == len(said.get("volumes", ()))
        assert all(Path(folder).is_absolute() for folder, _ in service.folders)


def test_services_of_a_profile_are_started_when_it_is_asked_for_only():
    found = read(shipped("hello"), ROOT, {})
    assert not {"prometheus", "grafana"} & {service.name for service in found.services}
    assert "metrics" not in found.volumes
    asked = read(shipped("hello"), ROOT, {}, (PROFILE,))
    (prometheus,) = (service for service in asked.services if service.name == "prometheus")
    ((path, content),) = prometheus.files
    assert path == "/etc/prometheus/prometheus.yml"
    assert parsed(content)["scrape_configs"]
    assert "metrics" in asked.volumes


def mappings(given):
    """Every mapping that has keys of compose, by how it is reached."""
    yield given
    for name in ("services", "networks", "volumes", "configs"):
        for inner in given.get(name, {}).values():
            if inner is None:
                continue
            yield inner
            if name == "services":
                yield from (inner[key] for key in ("healthcheck",) if key in inner)
                yield from inner.get("configs", ())
                if isinstance(inner.get("depends_on"), dict):
                    yield from inner["depends_on"].values()


HELLO = parsed(shipped("hello"))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, sum(1 for _ in mappings(HELLO)) - 1), st.sampled_from(["privileged", "pid", "x", "tmpfs"]))
def test_a_key_that_is_not_known_is_an_error_wherever_it_stands(place, key):
    document = copy.deepcopy(HELLO)
    list(mappings(document))[place][key] = True
    with pytest.raises(SetupError, match=f"'{key}' is not understood here"):
        read(written(document), ROOT, {})


def test_what_is_converted(tmp_path):
    made = plan(tmp_path, uav_1=DRONE, host=EDGE[:-1].replace("vedgenode", "{image: vedgenode, ports: [8500]}") + "}")
    text = render(made, tmp_path / "scenario.cosim.yaml", tmp_path, None, ["run.seed=$4"])
    found = {service.name: service for service in read(text, tmp_path, {"COSIM_RUNS": "/r"}).services}
    network, run, sidecar, node = (found[name] for name in ("network", "orchestrator", "host-net", "host"))
    assert network.arguments["healthcheck"] == {
        "test": ["CMD", "test", "-S", "/run/cosim/links.sock"],
        "interval": 2 * 10**9,
        "timeout": 2 * 10**9,
        "retries": 15,
    }
    assert network.arguments["restart_policy"] == {"Name": "unless-stopped"}
    assert network.volumes == (("sockets", "/run/cosim"),)
    assert run.arguments["command"][-1] == "run.seed=$4"
    assert run.folders == ((str(tmp_path), "/scenario:ro"), ("/r", "/results"))
    assert run.after == {"network": HEALTHY}
    assert run.networks == ("control", "management")
    assert network.networks == ("control",)
    assert sidecar.arguments["ports"] == {"8500/tcp": [("127.0.0.1", "")]}
    assert sidecar.arguments["devices"] == ["/dev/net/tun"]
    assert sidecar.arguments["sysctls"] == {"net.ipv4.ping_group_range": "0 2147483647"}
    assert found["dashboard"].arguments["ports"] == {"8080/tcp": [("127.0.0.1", "8080-8099")]}
    assert (node.joins, node.after) == ("host-net", {"host-net": STARTED})
    assert node.arguments["cpu_quota"] == 2 * node.arguments["cpu_period"]


def test_keys_are_made_before_those_that_read_them_start():
    found = {service.name: service for service in read(shipped("edge-inference"), ROOT, {}).services}
    assert found["orchestrator"].after == {"network": HEALTHY, "keys": DONE}
    assert found["uav-1"].after == {"uav-1-net": STARTED, "keys": DONE}
    assert found["keys"].arguments["network_mode"] == "none"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a ${A} b", "a one b"),
        ("${NONE}", ""),
        ("${NONE:-x-y}", "x-y"),
        ("${EMPTY:-x}", "x"),
        ("${A:-x}${B}", "onetwo"),
        ("$$A $${A}", "$A ${A}"),
        ("$$$$", "$$"),
        ("none", "none"),
    ],
)
def test_variables_are_put_in_as_compose_does(text, expected):
    assert interpolated(text, {"A": "one", "B": "two", "EMPTY": ""}) == expected


@given(st.text("a$ {}:-'\"", max_size=12))
def test_what_is_escaped_comes_back(text):
    assert interpolated(text.replace("$", "$$"), {"a": "wrong"}) == text


@pytest.mark.parametrize("text", ["$A", "${A", "${A-x}", "${A:?x}", "${A:-${B}}", "$"])
def test_other_uses_of_the_dollar_sign_are_refused(text):
    with pytest.raises(SetupError, match="cannot read the variable"):
        interpolated(text, {"A": "a"})


SERVICE = "services: {a: {image: i, networks: [n]%s}}\nnetworks: {n: {}}\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", ports: ['8080:80']", "ADDRESS:HOST:PORT"),
        (", ports: ['127.0.0.1:80:80/udp']", "ADDRESS:HOST:PORT"),
        (", network_mode: host", "'host' is not understood"),
        (", command: run it", "a list of words"),
        (", environment: [A=b]", "a mapping"),
        (", restart: on-failure", "'on-failure' is not understood"),
        (", healthcheck: {interval: 1h}", "'1h' is not understood"),
        (", depends_on: [b]", "waits for 'b'"),
        (", depends_on: [a]", "wait for each other"),
        (", depends_on: {a: {condition: soon}}", "'soon' is not understood"),
        (", volumes: ['v:/v']", "there is no 'v'"),
        (", volumes: ['/data']", "'/data' is not understood"),
    ],
)
def test_values_that_are_not_understood_are_named(more, said):
    with pytest.raises(SetupError, match=said):
        read(SERVICE % more, ROOT, {})


def test_a_default_network_is_not_guessed():
    with pytest.raises(SetupError, match="say its networks"):
        read("services: {a: {image: i}}", ROOT, {})
