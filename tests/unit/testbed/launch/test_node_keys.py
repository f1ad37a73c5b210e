"""Keys of real nodes: made once, each private one for its node alone, and mounted that way in the compose file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.talk import keys
from cosim.testbed.launch.compose import KEY, render
from cosim.testbed.launch.keys import GATEWAY, PRIVATE, name_of, provide
from cosim.testbed.launch.programs import OURS, programs, software

TEXT = """
apiVersion: cosim/v1
kind: Scenario
name: farm
run: {duration: 10 s, nodes: netns}
adapters: {wifi: {}, live: {}}
nodes:
  uav: {kind: uav, at: [0 m, 0 m], wifi: {}, runs: vedgenode, live: {}}
  edge: {kind: edge, cpu: 2 x 2 GHz, at: [9 m, 0 m], wifi: {}, runs: vedgenode, live: {}}
  plain: {kind: edge, cpu: 1 x 2 GHz, at: [9 m, 0 m], wifi: {}, runs: vedgenode}
"""


@pytest.fixture
def plan(tmp_path):
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(TEXT, encoding="utf-8")
    return compile_plan(load(file)), file


def folders(tmp_path, *nodes):
    return tmp_path / "gateway", {node: tmp_path / "nodes" / node for node in nodes}


def test_each_node_has_its_own_private_key_and_the_gateway_all_public_ones(tmp_path):
    gateway, nodes = folders(tmp_path, "a", "server")
    provide(gateway, nodes)
    server = keys.server_key(gateway)
    allowed = keys.allowed(gateway)
    assert sorted(allowed.values()) == [name_of("a"), name_of("server")]
    for node, folder in nodes.items():
        private = keys.read(folder / PRIVATE)
        assert allowed[private.public] == name_of(node)
        assert private.server == server.public
        assert [file.name for file in folder.iterdir()] == [PRIVATE]
        assert stat.S_IMODE((folder / PRIVATE).stat().st_mode) == 0o600
    assert not [file for file in gateway.iterdir() if file.suffix == ".key" and file.stem != keys.SERVER]


def test_what_is_there_stays_and_what_is_missing_is_made(tmp_path):
    gateway, nodes = folders(tmp_path, "a")
    provide(gateway, nodes)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.*")}
    gateway, more = folders(tmp_path, "a", "b")
    provide(gateway, more)
    assert {file: file.read_bytes() for file in before} == before
    assert len(keys.allowed(gateway)) == 2
    (gateway / f"{name_of('a')}.pub").unlink()
    provide(gateway, more)
    assert keys.read(more["a"] / PRIVATE).public in keys.allowed(gateway)
    assert (more["a"] / PRIVATE).read_bytes() != before[nodes["a"] / PRIVATE]


def test_a_new_gateway_makes_all_keys_anew(tmp_path):
    gateway, nodes = folders(tmp_path, "a")
    provide(gateway, nodes)
    (gateway / "server.key").unlink()
    provide(gateway, nodes)
    assert keys.read(nodes["a"] / PRIVATE).server == keys.server_key(gateway).public


def test_containers_mount_their_own_key_and_nobody_elses(tmp_path, plan):
    compiled, file = plan
    services = YAML(typ="safe").load(render(compiled, file, tmp_path, None))["services"]
    assert services["keys"]["network_mode"] == "none"
    assert services["keys"]["command"] == ["uav", "edge"]
    for name, service in services.items():
        mounted = [volume for volume in service.get("volumes", []) if volume.startswith("key")]
        expected = {
            "keys": [f"keys:{GATEWAY}", "key-uav:/keys/nodes/uav", "key-edge:/keys/nodes/edge"],
            "orchestrator": [f"keys:{GATEWAY}:ro"],
            "uav": [f"key-uav:{KEY}:ro"],
            "edge": [f"key-edge:{KEY}:ro"],
        }
        assert mounted == expected.get(name, []), name
    after = {"condition": "service_completed_successfully"}
    assert services["edge"]["depends_on"]["keys"] == services["orchestrator"]["depends_on"]["keys"] == after
    assert services["edge"]["environment"]["COSIM_KEY"] == f"{KEY}/{PRIVATE}"
    assert "COSIM_KEY" not in services["plain"]["environment"]


def test_without_live_nodes_there_are_no_keys(tmp_path):
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(TEXT.replace(", live: {}}", "}"), encoding="utf-8")
    document = YAML(typ="safe").load(render(compile_plan(load(file)), file, Path(tmp_path), None))
    assert "keys" not in document["services"]
    assert list(document["volumes"]) == ["sockets"]


def test_devices_call_and_hosts_do_not(plan):
    found = {program.node: software(program) for program in programs(plan[0].scene)}
    assert found["uav"]["COSIM_CALLS"] == "10.171.0.0/16 10.172.0.0/16"
    assert found["edge"] == {"COSIM_NODE": "edge", "COSIM_CORES": "2"}
    assert OURS["vedgenode"] == ("-m", "cosim.testbed.inference.node")
