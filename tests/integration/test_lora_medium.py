"""A medium whose whole code is the folder `lora_and_5g/lora`: real nodes reach one another by it."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from cosim.contract.adapter import Inputs
from cosim.contract.errors import ScenarioError
from cosim.contract.medium import MEDIA, Medium, conflict
from cosim.results.session import run
from cosim.scenario.plan.compile import plan_of
from cosim.testbed.launch.compose import render
from cosim.testbed.launch.programs import programs

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "lora_and_5g"
SEVERE = ["adapters.lora.duty_cycle=1 %", "events=[]"]


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(FOLDER, tmp_path / "field")


@pytest.fixture
def lora(folder):
    """The modules of the medium."""
    plan_of(folder)
    return sys.modules["lora.airtime"]


@pytest.mark.parametrize(
    ("size", "spreading", "milliseconds"),
    [(235, 7, 368.9), (64, 7, 118.0), (64, 12, 2793.5), (14, 12, 1155.1), (14, 7, 46.3)],
)
def test_airtime_is_that_of_published_tables(lora, size, spreading, milliseconds):
    """Of EU868 in tables of network operators, by B with LoRaWAN's head."""
    assert lora.airtime(size, spreading, 125e3) * 1e3 == pytest.approx(milliseconds, abs=0.05)


@pytest.mark.parametrize("spreading", range(7, 13))
def test_a_link_reaches_as_far_as_the_sensitivity_lets_it(folder, lora, spreading):
    """The range is where path loss uses up the power: 14 dBm less the noise floor less the SNR that is needed."""
    plan = plan_of(folder, [f"nodes.probe-[1..4].lora.spreading={spreading}", "events=[]"])
    allowed = 14.0 - (lora.noise(125e3) + lora.NEEDED[spreading])
    farthest = 10 ** ((allowed - 20 * math.log10(868.1e6) + 147.55) / 27.0)
    kind, config, context = _adapter(plan)
    for share, served in ((0.999, True), (1.001, False)):
        adapter = kind.build(config)
        adapter.start(context)
        adapter._place = {slot: np.array([0.0, 0.0, 0.0]) for slot in adapter._place}
        adapter._place[0] = np.array([share * farthest, 0.0, 0.0])
        (frame,) = adapter.step(0.0, Inputs())
        assert bool(frame["cell"][0] >= 0) is served


def _adapter(plan):
    from cosim.contract.adapter import Context
    from cosim.contract.registry import adapter_kind

    kind = adapter_kind("lora:ADAPTER")
    context = Context("lora", plan.scene, 1.0, 60.0, (1, 2), str(plan.root), "")
    return kind, kind.load_config().model_validate({}), context


def test_simulated_devices_keep_the_duty_cycle(folder, lora, tmp_path):
    outcome = run(folder, overrides=["run.duration=200 s", *SEVERE], out=tmp_path / "runs")
    assert outcome.status == "complete"
    traffic = pq.read_table(outcome.folder / "frames" / "traffic" / "continuum.parquet").to_pydict()
    sent = dict(zip(traffic["node"], traffic["sent"], strict=True))  # the last row of each counts
    packets = sent["probe-1"] / 20
    assert packets >= 4
    one = lora.airtime(20 + lora.HEAD, 9, 125e3)
    assert packets * one <= 0.01 * 200 + 3 * one  # a queue of what had waited may be sent at once


def test_interfaces_and_stations_follow_from_what_it_declares(folder, tmp_path):
    plan = plan_of(folder, ["run.nodes=containers", *SEVERE])
    nodes = {node.node: node for node in programs(plan.scene)}
    assert nodes["probe-1"].names == ("lora0",)
    assert nodes["gateway"].names == ("lora0",) or nodes["gateway"].names == ("eth1", "lora0")
    assert (nodes["probe-1"].serves, nodes["gateway"].serves) == ((), ("lora0",))
    path = folder / "scenario.cosim.yaml"
    services = YAML(typ="safe").load(render(plan, path, folder, None))["services"]
    environment = services["probe-2-net"]["environment"]
    assert environment["COSIM_INTERFACES"] == "lora0,02:00:0a:af:00:02,10.175.0.2/16,222"
    assert "10.175.0.0/16" in environment["COSIM_NETWORKS"]
    assert "test -d /sys/class/net/lora0" in " ".join(services["probe-2-net"]["healthcheck"]["test"])
    words = services["network"]["command"]
    assert words[words.index("gateway,lora0") - 1] == "--cell"


@pytest.mark.netns
@pytest.mark.needs("cc")
@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("backend", ["linkd", "auto"])
def test_packets_of_namespaces_take_their_airtime_and_keep_the_duty_cycle(folder, lora, tmp_path, backend):
    plan = plan_of(folder, ["run.nodes=netns"])
    gateway = next(node.interfaces[-1].address for node in programs(plan.scene) if node.node == "gateway")
    file = folder / "scenario.cosim.yaml"
    asking = [sys.executable, str(folder / "asking.py"), str(folder), gateway]
    programs_of = {"probe-[1..4]": asking, "gateway": [sys.executable, str(folder / "answering.py")]}
    options = [
        f"nodes.{node}.runs={json.dumps({'image': 'box', 'command': words})}" for node, words in programs_of.items()
    ]
    options += [*SEVERE, "run.duration=10 s", "workloads.moisture.from=camera", f"adapters.network.backend={backend}"]
    command = [sys.executable, "-m", "cosim", "run", str(file), "--nodes", "netns", "--out", str(tmp_path / "runs")]
    command += [part for one in options for part in ("--set", one)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    asked, came = json.loads((folder / "probe-1.json").read_text())
    assert 1 <= len(came) < asked / 2  # after what was sent until the run knew of it, the device is silent
    least = 2 * lora.airtime(lora.HEAD, 9, 125e3)
    assert min(came.values()) >= least
    (manifest,) = (tmp_path / "runs").glob("*/*/manifest.json")
    adapters = json.loads(manifest.read_text())["adapters"]
    assert next(row["summary"] for row in adapters if row["name"] == "lora")["airtime"] > 0


@pytest.mark.parametrize(
    ("interface", "network", "reported"),
    [("wlan0", "10.180.0.0/16", "interface wlan0"), ("lora0", "10.172.3.0/24", "networks of lte0 and lora0 overlap")],
)
def test_two_media_of_one_name_or_address_are_refused(folder, interface, network, reported):
    assert reported in conflict((*MEDIA, Medium(interface, network, ("lora",))))
    file = folder / "lora" / "__init__.py"
    file.write_text(file.read_text().replace('"lora0", "10.175.0.0/16"', f'"{interface}", "{network}"'))
    with pytest.raises(ScenarioError, match=reported):
        plan_of(folder)


@pytest.mark.parametrize(
    "wrong",
    [
        {"interface": "lo"},
        {"interface": "eth0"},
        {"interface": "a" * 15 + "0"},
        {"network": "10.0.0.0/30"},
        {"mtu": 60},
    ],
)
def test_a_medium_that_no_kernel_can_have_is_refused(wrong):
    with pytest.raises(ValueError, match="|".join(("interface", "prefix", "MTU"))):
        Medium(**{"interface": "lora0", "network": "10.180.0.0/16", "keys": ("lora",), **wrong})
