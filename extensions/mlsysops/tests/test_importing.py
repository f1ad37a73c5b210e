"""Descriptors of MLSysOps as scenarios: tolerant, and with a notice for every field that counts otherwise or not."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cosim.contract.block import NAME
from cosim.contract.errors import ScenarioError
from cosim.extensions.mlsysops.importing import read
from cosim.extensions.mlsysops.importing.bodies import fold
from cosim.extensions.mlsysops.importing.nodes import INTERFACES
from cosim.scenario.load import load as load_scenario
from cosim.scenario.plan.compile import plan_of
from cosim.sources.importing.document import plain_name
from cosim.sources.importing.write import write_scenario
from cosim.testbed.launch.programs import programs
from tests.examples import WITH_FIXTURES
from tests.forked import cosim

# of our own making, in the shapes that the framework's own files have
NODE = """\
MLSysOpsNode:
  name: gateway-1
  continuum_layer: edge
  cluster_id: farm
  mobile: false
  location: [22.95, 39.36]
  sensors: [{camera: {model: imx219, framerate: 20}}]
  environment: {node_type: native, os: ubuntu, container_runtime: [containerd]}
  hardware:
    cpu: {cores: 4, architecture: arm64, frequency: [1500, 2400], performance_indicator: 70}
    memory: "8"
    disk: "64"
  network_resources: {basic_interface: {name: wifi, range: 50}}
  power: {max_consumption: 15}
"""
OTHER_SPELLING = """\
MLSysOpsNode:
  name: gateway-1
  continuumLayer: Edge
  clusterID: farm
  mobility: False
  location: [22.95, 39.36]
  hardware:
    CPU: {cores: 4, frequency: [1.5, 2.4]}
    Memory: 8
  networkResources: {BasicInterface: {name: WiFi}}
  powerSource: {max-consumption: 15 W}
"""
VALIDATED = """\
apiVersion: mlsysops.eu/v1
kind: MLSysOpsNode
metadata: {name: rover, namespace: mlsysops}
continuum_layer: far_edge
mobile: true
hardware: {cpu: {cores: 1, frequency: 600 MHz}}
location: [22.951, 39.36]
"""
CLOUD = "MLSysOpsNode: {name: vm, continuum_layer: cloud, hardware: {cpu: {cores: 16, frequency: [3]}}}\n"
CLUSTER = "MLSysOpsCluster: {cluster_id: core, nodes: [vm, nobody]}\n"
APP = """\
MLSysOpsApp:
  name: weeding
  components:
    - metadata: {name: detector, uid: a1}
      node_placement: {continuum_layer: [edge]}
      sensors: [{camera: {model: d455, minimum_framerate: 5}}]
      qos_metrics: [{application_metric_id: fps, target: 5, relation: lower_or_qqual}]
      containers:
        - {image: x, platform_requirements: {cpu: {requests: 500m, frequency: 1.4}, memory: {requests: 64Mi}}}
    - Component: {name: planner}
      containers: [{image: y, resources: {limits: {cpu: "2"}}}]
    - metadata: {name: idle}
  component_interactions:
    - {component_name1: detector, type: egress, component_name2: planner, metrics: [{metric_id: latency, target: 80}]}
"""


def files(folder, *texts):
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"d{number}.yaml"
        path.write_text(text)
        paths.append(path)
    return paths


def parsed(imported):
    return YAML(typ="safe").load(imported.text)


def said(imported, key, level):
    return [notice.text for notice in imported.notices if notice.key.endswith(key) and notice.level == level]


def test_gpus_and_memory_are_asked_of_hosts_that_have_them(tmp_path):
    gpu = NODE.replace('    memory: "8"', '    memory: "8"\n    gpu: {model: agx, instances: 2}')
    asks = APP.replace("frequency: 1.4}", "frequency: 1.4}, gpu: {model: k80}").replace(
        'limits: {cpu: "2"}', 'limits: {cpu: "2", memory: 9Gi, nvidia.com/gpu: 1}'
    )
    imported = read(files(tmp_path, gpu, CLOUD, asks))
    data = parsed(imported)
    assert data["nodes"]["gateway-1"]["accelerators"] == {"gpu": "2 x 1 TFLOPS"}
    # half a GPU at the 5 Hz of the camera, and at 1 Hz
    detector, planner = data["workloads"]["detector"], data["workloads"]["planner"]
    assert (detector["accelerator"], detector["memory"]) == ({"gpu": "100 GFLOP"}, f"{64 * 2**20} B")
    # only the cloud has 9 GiB, and no GPU
    assert (planner["accelerator"], "memory" in planner) == ({"gpu": "500 GFLOP"}, False)
    assert any("9.664 GB" in text for text in said(imported, "components[1]", "ignored"))
    load_scenario(write_scenario(tmp_path / "out", imported))
    without = read(files(tmp_path, NODE, CLOUD, asks))
    data = parsed(without)
    assert "accelerator" not in data["workloads"]["planner"]
    assert data["workloads"]["planner"]["memory"] == f"{9 * 2**30} B"  # the cloud states no limit
    assert said(without, "components[0]", "ignored")[1:] == ["'detector' asks for a GPU, which no host has"]


def test_a_node_becomes_a_node(tmp_path):
    imported = read(files(tmp_path, NODE))
    node = parsed(imported)["nodes"]["gateway-1"]
    assert node == {
        "kind": "edge", "cpu": "4 x 2400 MHz", "memory": "8000000000 B", "at": ["0.000 m", "0.000 m", "0 m"],
        "power": {"idle": "0 W", "max": "15 W", "source": "MLSysOps descriptor"},
    }  # fmt: skip
    assert parsed(imported)["geo"]["origin"] == [39.36, 22.95, "0 m"]
    assert said(imported, "disk", "ignored")
    assert said(imported, "frequency", "note") == ["has no unit; 2400 is taken as 2.4 GHz"]
    assert not [notice for notice in imported.notices if notice.level == "misspelt"]
    (line,) = [notice.line for notice in imported.notices if notice.key.endswith("disk")]
    assert NODE.splitlines()[line - 1].strip().startswith("disk")


def test_both_spellings_are_the_same_node(tmp_path):
    first, second = (read(files(tmp_path, text)) for text in (NODE, OTHER_SPELLING))
    assert parsed(first)["nodes"] == parsed(second)["nodes"]
    assert said(second, "mobility", "misspelt") == ["the schema calls this 'mobile'; taken as that"]
    assert len([notice for notice in second.notices if notice.level == "misspelt"]) == 9


def test_validated_copies_clusters_and_links(tmp_path):
    imported = read(files(tmp_path, NODE + "---\n" + VALIDATED, CLOUD, CLUSTER))
    data = parsed(imported)
    assert {name: node["kind"] for name, node in data["nodes"].items()} == {
        "gateway-1": "edge", "rover": "device", "vm": "cloud",
    }  # fmt: skip
    east, north, _ = data["nodes"]["rover"]["at"]
    assert float(east.split()[0]) == pytest.approx(86.2, abs=0.5)
    assert float(north.split()[0]) == pytest.approx(0.0, abs=0.01)
    assert said(imported, "nodes[1]", "ignored") == ["node 'nobody' of 'core' has no descriptor"]
    assert said(imported, "mobile", "note")
    assert data["links"][0] == {"between": [["gateway-1", "vm"]] * 2, "rate": "100 Mbit/s", "delay": "20 ms"}
    assert imported.facts == {"nodes": 3, "workloads": 0, "clusters": 3}


def test_components_become_workloads(tmp_path):
    imported = read(files(tmp_path, NODE, VALIDATED.replace("rover,", "rover, x: 1,"), APP))
    loads = parsed(imported)["workloads"]
    assert set(loads) == {"detector", "planner"}
    assert loads["detector"] == {
        "from": ["rover"], "arrivals": "poisson 5 Hz", "input": "100 kB", "output": "1 kB",
        "work": f"{0.5 * 1.4e9 / 5:.12g} cycles", "deadline": "80 ms", "memory": f"{64 * 2**20} B",
    }  # fmt: skip
    assert loads["planner"]["work"] == f"{2 * 2.4e9:.12g} cycles"
    assert parsed(imported)["title"] == "weeding"
    assert said(imported, "components[2]", "ignored") == ["component 'idle' has no containers, so no work"]


PROBE = """\
MLSysOpsApp:
  name: probing
  components:
    - metadata: {name: probe}
      node_placement: {node: Gateway_1}
      containers:
        - image: debian:bookworm-slim
          command: [sleep]
          args: [60]
          env: [{name: PLACE, value: field}, {name: empty}]
          ports: [{container_port: 80}]
        - {image: sidecar}
"""


def test_a_component_that_names_its_node_starts_its_image_there(tmp_path):
    later = PROBE.replace("name: probe}", "name: second}").replace("Gateway_1", "gateway-1")
    away = PROBE.replace("name: probe}", "name: third}").replace("Gateway_1", "nowhere")
    wrong = PROBE.replace("name: probe}", "name: fourth}").replace("debian:bookworm-slim", "No Image")
    imported = read(files(tmp_path, NODE, VALIDATED, PROBE, later, away, wrong, APP))
    data = parsed(imported)
    assert data["nodes"]["gateway-1"]["runs"] == {
        "image": "debian:bookworm-slim", "command": ["sleep", "60"], "environment": {"PLACE": "field", "empty": ""},
    }  # fmt: skip
    assert "runs" not in data["nodes"]["rover"]
    assert data["adapters"]["network"] == {}
    assert said(imported, "components[0]", "ignored") == [
        "'second' does not start 'debian:bookworm-slim': 'gateway-1' has an image already, and a real node has one",
        "'third' does not start 'debian:bookworm-slim': 'nowhere' has no descriptor",
        "'fourth' does not start 'sidecar': 'gateway-1' has an image already, and a real node has one",
        "'detector' does not start 'x': its node_placement names no node",
    ]
    assert said(imported, "image", "ignored")[0] == "a real node has one image, and runs 'debian:bookworm-slim'"
    assert "'No Image' cannot be started as a node's software" in said(imported, "image", "ignored")
    plan = plan_of(write_scenario(tmp_path / "out", imported), ["run.nodes=containers"])
    assert [(one.node, one.image, one.command) for one in programs(plan.scene)] == [
        ("gateway-1", "debian:bookworm-slim", ("sleep", "60"))
    ]


def test_without_a_far_edge_a_device_is_added(tmp_path):
    imported = read(files(tmp_path, NODE, APP))
    assert parsed(imported)["nodes"]["client"] == {"kind": "device"}
    assert parsed(imported)["workloads"]["detector"]["from"] == ["client"]


@pytest.mark.parametrize(
    ("text", "hertz"),
    [
        ("14000", 14e9),
        ("1.4", 1.4e9),
        ("100", 100e9),
        ("101", 101e6),
        ("2000000", 2e6),
        ("1.8 GHz", 1.8e9),
        ("[1, 2]", 2e9),
    ],
)
def test_units_of_frequencies(tmp_path, text, hertz):
    imported = read(files(tmp_path, NODE.replace("[1500, 2400]", text)))
    assert parsed(imported)["nodes"]["gateway-1"]["cpu"] == f"4 x {hertz / 1e6:.12g} MHz"


@pytest.mark.parametrize(
    ("old", "new", "key", "level"),
    [
        ("[1500, 2400]", "fast", "frequency", "ignored"),
        ("cores: 4", "cores: some", "cores", "note"),
        ("cores: 4", "cores: 2.5", "cores", "note"),
        ('memory: "8"', "memory: lots", "memory", "ignored"),
        ("name: wifi", "name: pigeon", "name", "ignored"),
        ("max_consumption: 15", "max_consumption: -3", "max_consumption", "ignored"),
        ("[22.95, 39.36]", "[39.36]", "location", "ignored"),
        ("continuum_layer: edge", "continuum_layer: fog", "continuum_layer", "ignored"),
        ("continuum_layer: edge\n", "colour: red\n", "colour", "ignored"),
        ("hardware:", "hardware: none\n  labels:", "hardware", "ignored"),
        ("mobile: false", "mobile: false\n  Mobile: true", "Mobile", "ignored"),
    ],
)
def test_a_field_that_makes_no_sense_costs_a_notice(tmp_path, old, new, key, level):
    imported = read(files(tmp_path, NODE.replace(old, new, 1)))
    assert said(imported, key, level)
    write_scenario(tmp_path / "out", imported)


@pytest.mark.parametrize("word", sorted(INTERFACES))
def test_every_interface_gives_a_link_and_names_its_source(tmp_path, word):
    imported = read(
        files(tmp_path, NODE.replace("wifi", word), CLOUD.replace("name: vm", "name: vm, cluster_id: farm"))
    )
    figures = INTERFACES[word]
    link = next(link for link in parsed(imported)["links"] if "gateway-1" in link["between"][0])
    assert (link["between"][1], link["rate"], link["delay"]) == (["gateway-1", "vm"], figures.rate, figures.delay)
    assert any(figures.source in notice.text for notice in imported.notices)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (VALIDATED, "all of the layer far_edge"),
        (APP, "no MLSysOpsNode"),
        ("a: [1", "is not YAML"),
        ("\x00", "holds NUL characters"),
        ("just text", "no MLSysOpsNode"),
        ("", "no MLSysOpsNode"),
        ("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n", "no MLSysOpsNode"),
    ],
)
def test_what_cannot_be_imported_is_said(tmp_path, text, message):
    with pytest.raises(ScenarioError, match=message):
        read(files(tmp_path, text))


def test_files_that_are_not_there_or_not_text(tmp_path):
    (tmp_path / "empty").mkdir()
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError) as caught:
        read([tmp_path / "no.yaml", tmp_path / "empty", binary])
    assert [problem.message for problem in caught.value.problems] == [
        "there is no such file", "holds no .yaml file", "is not text in UTF-8",
    ]  # fmt: skip


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), st.text(max_size=8),
    st.sampled_from(["edge", "far_edge", "cloud", "250m", "4Gi", "1.4 GHz", "wifi", "latency", "node-1", "[x]"]),
)  # fmt: skip
KEYS = [
    "name", "metadata", "continuum_layer", "continuumLayer", "cluster_id", "mobile", "mobility", "location", "sensors",
    "camera", "framerate", "hardware", "cpu", "CPU", "cores", "frequency", "memory", "Memory", "network_resources",
    "basic_interface", "power", "max_consumption", "components", "containers", "platform_requirements", "resources",
    "requests", "limits", "component_interactions", "component_name1", "metrics", "metric_id", "target", "nodes",
    "spec", "kind", "cluster_placement", "labels", "x",
    "image", "command", "args", "env", "value", "node_placement", "node",
]  # fmt: skip
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)),
    max_leaves=25,
)
KINDS = (
    "MLSysOpsNode",
    "MLSysOpsApp",
    "MLSysOpsApplication",
    "MLSysOpsCluster",
    "MLSysOpsDatacenter",
    "MLSysOpsContinuum",
)


@settings(WITH_FIXTURES, max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(KINDS), trees), max_size=4), st.booleans())
def test_any_tree_is_imported_and_passes_the_checks(tmp_path, bodies, validated):
    documents = [NODE]
    for kind, body in bodies:
        tree = {"apiVersion": "mlsysops.eu/v1", "kind": kind, "spec": body} if validated else {kind: body}
        documents.append(json.dumps(tree))
    imported = read(files(tmp_path, *documents))
    target = write_scenario(tmp_path / "out", imported, force=True)
    assert "gateway-1" in target.read_text()


@pytest.mark.slow
@settings(WITH_FIXTURES, max_examples=40)
@given(st.one_of(st.text(max_size=200), st.text(alphabet="{}[]:,-&*!|>'\"%@`# \nMLSysOpsNodename\t", max_size=120)))
@example("&a [*a]")
@example("[" * 2000)
@example("%YAML 9.9\n---\n")
@example("MLSysOpsNode: {name: !!python/object x}")
def test_garbage_is_refused_in_words_or_read(tmp_path, text):
    path = tmp_path / "g.yaml"
    path.write_bytes(text.encode("utf-8", "replace"))
    with suppress(ScenarioError):  # anything else is a fault; a node among the garbage is none
        read([path])


def test_a_descriptor_that_holds_itself_is_read(tmp_path):
    imported = read(files(tmp_path, "MLSysOpsNode: &a {name: a, hardware: *a, sensors: [*a]}"))
    assert list(parsed(imported)["nodes"]) == ["a", "client"]


@given(st.text(max_size=80))
def test_names_are_what_a_scenario_accepts(text):
    taken = set()
    for _ in range(3):
        assert re.fullmatch(NAME, plain_name(text, taken))
    assert len(taken) == 3


def test_keys_of_all_spellings_are_one():
    assert fold("continuum_layer") == fold("continuumLayer") == fold("Continuum-Layer") == "continuumlayer"


def test_the_command_writes_a_scenario_that_runs(tmp_path):
    paths = files(tmp_path, NODE, VALIDATED, APP)
    done = cosim("import", "mlsysops", *map(str, paths), "--out", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["workloads"] == 2
    done = cosim(
        "run",
        reported["scenario"],
        "--set",
        "run.duration=5 s",
        "--out",
        str(tmp_path / "runs"),
        "--no-report",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["figures"]["tasks_completed"] > 0


def test_the_command_refuses_with_exit_code_2_and_writes_nothing(tmp_path):
    (path,) = files(tmp_path, NODE)
    done = cosim("import", "mlsysops", str(path), "--strict", "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert not Path(tmp_path / "out").exists()


def test_what_is_exported_is_imported_again(tmp_path):
    path = write_scenario(tmp_path / "one", read(files(tmp_path, NODE, VALIDATED, CLUSTER, CLOUD, APP)))
    for step in ("two", "three"):
        done = cosim("export", "mlsysops", str(path), "--out", str(tmp_path / f"{step}-files"), "--json")
        assert done.returncode == 0, done.stderr
        found = read([tmp_path / f"{step}-files"])
        path = write_scenario(tmp_path / step, found)
    first, last = (
        YAML(typ="safe").load((tmp_path / step / "scenario.cosim.yaml").read_text()) for step in ("one", "three")
    )
    assert last["workloads"].keys() == first["workloads"].keys()
    for name, load in first["workloads"].items():
        assert {**load, "from": 0, "work": 0} == {**last["workloads"][name], "from": 0, "work": 0}
        works = [float(one["workloads"][name]["work"].split()[0]) for one in (first, last)]
        assert works[1] == pytest.approx(works[0], rel=1e-9)
    for name, node in first["nodes"].items():
        assert {key: node[key] for key in node if key not in ("at", "power")}.items() <= last["nodes"][name].items()
        assert last["nodes"][name].get("power", {}).get("max") == node.get("power", {}).get("max")
    again = cosim("export", "mlsysops", str(path), "--out", str(tmp_path / "three-files"))
    assert again.returncode == 2
    assert "--force" in again.stderr
