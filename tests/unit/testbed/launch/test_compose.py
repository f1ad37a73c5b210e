"""The compose file: what it must never hold, whatever the scenario, and what the shipped scenarios' say."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cosim.contract.errors import ScenarioError
from cosim.contract.medium import WIFI
from cosim.scenario.gather import shipped
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.testbed.launch.compose import HEAD, SERVICES, checkout, render
from cosim.testbed.launch.programs import interface
from tests.extensions import scenarios, skip_without_packages
from tests.unit.testbed.launch.worlds import DRONE, EDGE, plan

ROOT = Path(__file__).resolve().parents[4]
SHIPPED = [folder.resolve() / "compose.yaml" for folder in shipped().values()]
RUN = {"orchestrator", "network", "dashboard"}


@st.composite
def worlds(draw):
    """Nodes with any software, ports, variables and limits."""
    names = draw(st.lists(st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True), min_size=1, max_size=4, unique=True))
    found = {}
    for name in sorted(set(names) - set(SERVICES)):
        image = draw(st.sampled_from(["vuav", "vrover", "vedgenode", "example.org/it:1"]))
        ports = draw(st.lists(st.integers(1, 65535), max_size=2, unique=True))
        value = draw(st.text("abc $:'\"{}#\\\u00e9", max_size=6)).replace("'", "''")
        media = draw(st.sampled_from(["wifi: {}", "radio: {}", "wifi: {}, radio: {}"]))
        cores = draw(st.integers(1, 64))
        found[name] = (
            f"{{kind: edge, at: [0 m, 0 m], cpu: {cores} x 1 GHz, {media}, "
            f"runs: {{image: '{image}', ports: {ports}, environment: {{V: '{value}'}}, command: ['{value}']}}}}"
        )
    return found or {"node": EDGE.replace("runs: vedgenode", "runs: {image: vuav, environment: {V: a}, command: [a]}")}


@settings(max_examples=25)
@given(worlds(), st.booleans())
def test_only_sidecars_have_a_right_and_nothing_is_open_to_the_world(tmp_path_factory, nodes, builds):
    folder = tmp_path_factory.mktemp("world")
    made = plan(folder, **nodes)
    text = render(made, folder / "scenario.cosim.yaml", folder, ROOT if builds else None)
    assert text == render(made, folder / "scenario.cosim.yaml", folder, ROOT if builds else None)
    found = YAML(typ="safe").load(text)
    services = found["services"]
    observed = builds and any(node.runs.image == "vedgenode" for node in made.scene.nodes)
    observers = {"prometheus", "grafana"} if observed else set()
    assert set(services) == RUN | observers | {f"{name}{part}" for name in nodes for part in ("", "-net")}
    assert {name for name, service in services.items() if service.get("profiles")} == observers
    assert "docker.sock" not in text
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not {"privileged", "pid", "ipc", "userns_mode"} & set(service)
        allowed = {"orchestrator": ["CHOWN", "KILL", "SETGID", "SETUID"]}.get(name)
        allowed = ["NET_ADMIN"] if name.endswith("-net") else allowed
        assert service.get("cap_add") == allowed
        assert service.get("devices") == (["/dev/net/tun"] if name.endswith("-net") else None)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        assert service.get("network_mode", f"service:{name}-net") == f"service:{name}-net"
        assert ("network_mode" in service) == (name in nodes)
        assert ("build" in service) <= builds
        assert service["pids_limit"] > 0
        ours = service["image"].startswith("continuum-cosim/")
        assert (service.get("read_only", False), service.get("tmpfs")) == ((True, ["/tmp"]) if ours else (False, None))
        assert service["mem_limit"]
        assert (service.get("pull_policy") == "never") == service["image"].startswith("continuum-cosim/")
    for node in made.scene.nodes:
        (written,), (value,) = services[node.id]["command"], node.runs.environment.values()
        assert written.replace("$$", "$") == value == services[node.id]["environment"]["V"].replace("$$", "$")
        assert "$" not in written.replace("$$", "")  # compose would put a variable there
    assert found["networks"]["control"] == found["networks"]["management"] == {"internal": True}
    on = {net: {name for name, s in services.items() if net in s.get("networks", ())} for net in found["networks"]}
    sidecars = {f"{name}-net" for name in nodes}
    assert on["control"] == {"orchestrator", "network"}
    assert found["networks"]["observers"] == {"internal": True}
    assert on["observers"] == {"orchestrator", "dashboard"} | (observers & {"prometheus"})
    assert not sidecars & (on["observers"] | on["front"])  # nodes see what they would see, not what all do
    (at,) = [word for word in services["orchestrator"]["command"] if word.endswith(":5600")]
    assert at == f"tcp://{services['orchestrator']['networks']['observers']['aliases'][0]}:5600"
    for node in made.scene.nodes:
        watched = observed and node.runs.image == "vedgenode"
        reach = services[f"{node.id}-net"]["environment"]["COSIM_REACH"]
        assert reach == ("orchestrator prometheus" if watched else "orchestrator")
    assert ("secrets" in found) == builds


@pytest.mark.parametrize(
    ("listen", "shown"),
    [("", "127.0.0.1:"), (", listen: 'tcp://*:5580'", "0.0.0.0:5580"), (", listen: 'tcp://10.0.0.1:*'", "10.0.0.1:")],
)
def test_only_for_machines_from_elsewhere_the_run_can_be_reached(tmp_path, listen, shown):
    live = EDGE.replace("vedgenode", "vedgenode, live: {}")
    pi = "{kind: edge, cpu: 1 x 1 GHz, live: {key: pi}}"
    for nodes, ports in (
        ({"edge": live, "pi": pi}, [f"${{COSIM_ATTACH:-{shown}}}:5606"]),
        ({"edge": live}, None),
    ):
        made = plan(tmp_path, adapters=f", live: {{keys: keys{listen}}}", **nodes)
        text = render(made, tmp_path / "scenario.cosim.yaml", tmp_path, None)
        run = YAML(typ="safe").load(text)["services"]["orchestrator"]
        assert run.get("ports") == ports
        assert ("front" in run["networks"]) == ("COSIM_OUTSIDE" in run["environment"]) == bool(ports)


def test_sidecars_know_their_neighbours_and_nodes_their_names(tmp_path):
    made = plan(tmp_path, uav_1=DRONE, host=EDGE)
    services = YAML(typ="safe").load(render(made, tmp_path / "scenario.cosim.yaml", tmp_path, None))["services"]
    one, other = interface(WIFI, 0), interface(WIFI, 1)
    variables = services["uav-1-net"]["environment"]
    assert variables["COSIM_INTERFACES"] == one.text
    assert variables["COSIM_NEIGHBOURS"] == f"{other.address},{other.mac}"
    assert services["uav-1-net"]["extra_hosts"] == [f"uav-1:{one.address}", f"host:{other.address}"]
    assert services["uav-1"]["environment"]["COSIM_NODE"] == "uav-1"
    assert services["host"]["cpu_quota"] == 2 * services["host"]["cpu_period"]


def test_names_stand_for_addresses_on_a_common_network_or_for_one_without_a_way(tmp_path):
    wired = "links: [{between: [base, cloud], rate: 1 Gbit/s, delay: 1 ms}]\n"
    cloud = "{kind: cloud, cpu: 2 x 2 GHz, runs: vedgenode}"
    made = plan(tmp_path, uav_1=DRONE, base=EDGE, cloud=cloud, more=wired)
    services = YAML(typ="safe").load(render(made, tmp_path / "scenario.cosim.yaml", tmp_path, None))["services"]
    assert dict(entry.split(":") for entry in services["cloud-net"]["extra_hosts"])["base"] == "10.173.0.2"
    hosts = dict(entry.split(":") for entry in services["uav-1-net"]["extra_hosts"])
    assert (hosts["base"], hosts["cloud"]) == ("10.171.0.2", "10.173.0.3")
    networks = services["uav-1-net"]["environment"]["COSIM_NETWORKS"].split()
    assert networks == ["10.171.0.0/16", "10.172.0.0/16", "10.173.0.0/16"]


def test_a_checkout_is_found_around_a_scenario_or_around_the_package(tmp_path):
    (tmp_path / "a/containers/cosim").mkdir(parents=True)
    (tmp_path / "a/containers/cosim/Dockerfile").touch()
    (tmp_path / "a/b/c").mkdir(parents=True)
    assert checkout(tmp_path / "a/b/c/scenario.cosim.yaml") == tmp_path / "a"
    assert checkout(tmp_path / "scenario.cosim.yaml") == ROOT


def test_what_is_written_is_relative_to_where_it_lies(tmp_path):
    made = plan(tmp_path / "s", uav_1=DRONE)
    (tmp_path / "repository").mkdir()
    text = render(made, tmp_path / "s" / "scenario.cosim.yaml", tmp_path / "s", tmp_path / "repository")
    assert str(tmp_path) not in text
    assert text.startswith(HEAD)
    services = YAML(typ="safe").load(text)["services"]
    assert services["orchestrator"]["build"]["context"] == "../repository"
    assert services["orchestrator"]["volumes"] == [".:/scenario:ro", "${COSIM_RUNS:-../repository/runs}:/results"]


@pytest.mark.parametrize("name", scenarios(*(file.parent.name for file in SHIPPED)))
def test_shipped_compose_files_are_what_render_writes(name):
    file = shipped()[name].resolve() / "compose.yaml"
    scenario = file.parent / "scenario.cosim.yaml"
    skip_without_packages(scenario.read_text())
    made = compile_plan(load(scenario, ["run.nodes=containers"]))
    again = f"write it anew: cosim render {file.parent.relative_to(ROOT)}"
    if file.is_symlink():
        again += f", move its compose.yaml to {file.resolve().relative_to(ROOT)}, and put the link back"
    assert file.read_text(encoding="utf-8") == render(made, scenario, file.parent, ROOT), again


@pytest.mark.needs("docker")
def test_compose_takes_every_shipped_scenario():
    for file in SHIPPED:
        command = ["docker", "compose", "-f", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
        chosen = {**os.environ, "SCENARIO": str(file.parent.relative_to(ROOT))}
        done = subprocess.run(command, env=chosen, capture_output=True, text=True, timeout=60, check=False)
        if "unknown" in done.stderr or "is not a docker command" in done.stderr:
            pytest.skip("no compose")
        assert done.returncode == 0, f"{file}: {done.stderr}"


def test_without_real_nodes_there_are_the_run_and_its_dashboard(tmp_path):
    made = plan(tmp_path, uav_1=DRONE.replace(", runs: vuav", ""))
    found = YAML(typ="safe").load(render(made, tmp_path / "scenario.cosim.yaml", tmp_path, None))
    assert set(found["services"]) == {"orchestrator", "dashboard"}
    assert set(found["networks"]) == {"observers", "front"}
    assert "--nodes" not in found["services"]["orchestrator"]["command"]


def test_the_compose_file_of_the_checkout_takes_a_scenario_that_is_there():
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    (usual,) = re.findall(r"\$\{SCENARIO:-([^}]+)\}/compose\.yaml", text)
    assert (ROOT / usual / "scenario.cosim.yaml").is_file()


@pytest.mark.parametrize("name", ["network", "keys", "grafana", "house-net"])
def test_names_of_services_are_no_names_of_nodes(tmp_path, name):
    with pytest.raises(ScenarioError, match=f"'{name}'"):
        render(plan(tmp_path, house=EDGE, **{name: EDGE}), tmp_path / "s.cosim.yaml", tmp_path, None)


@pytest.mark.parametrize(("kernel", "image"), [("vegetation", "cosim"), ("resnet18", "vedgenode")])
def test_only_neural_networks_need_the_image_with_torch(tmp_path, kernel, image):
    more = "workloads: {look: {from: uav-1, arrivals: every 1 s, input: 1 kB, work: 1 Mcycles}}\n"
    adapters = f", live: {{offload: {{look: {{run: forward, kernel: {kernel}}}}}}}"
    edge = EDGE.replace("runs", "live: {}, runs")
    made = plan(tmp_path, uav_1=DRONE, house=edge, more=more, adapters=adapters)
    services = YAML(typ="safe").load(render(made, tmp_path / "scenario.cosim.yaml", tmp_path, ROOT))["services"]
    assert services["house"]["image"].startswith(f"continuum-cosim/{image}:")
    assert services["house"].get("entrypoint") == (
        ["python3", "-m", "cosim.testbed.inference.node"] if image == "cosim" else None
    )
    assert services["uav-1"]["image"].startswith("continuum-cosim/cosim:")
    assert sum("build" in service for service in services.values()) == len({"cosim", image})
