"""Accelerators, memory, power states and batteries of a scenario, and the rows and books about them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from cosim.adapters.continuum import ADAPTER
from cosim.adapters.continuum.config import ContinuumConfig
from cosim.adapters.continuum.equipment import power_table
from cosim.adapters.continuum.tests.test_continuum_adapter import CLOUD, EDGE, UAV, begin, link, load, run, scene
from cosim.contract.adapter import Inputs
from cosim.contract.entities import Event, SlotRange
from cosim.contract.equipment import Accelerator, Power, PowerStates, Scaling
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import fault
from cosim.contract.laws import Law
from cosim.contract.node_keys import Battery, Cell, RadioEnergy
from cosim.contract.signals import ACCELERATORS, CATALOGUE, MACHINE_STATE, TASK_STATUS
from cosim.scenario.load import load as load_file
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.plan.show import describe
from cosim.testing import check_adapter
from tests.plans import through_text

GPU = Accelerator("gpu", 2, 1e12, idle=10.0, max=60.0)
SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: detection
run: {duration: 20 s, step: 1 s, seed: 3}
adapters:
  continuum: {scheduler: least-loaded, signals: [battery, machine, accelerator]}
kinds:
  gpu-edge:
    tier: edge
    cpu: 4 x 3.3 GHz
    memory: 16 GB
    storage: 100 GB
    accelerators: {gpu: 2 x 10 TFLOPS, npu: {units: 26 TOPS, idle: 2 W, max: 10 W, shared: true}}
    power: {idle: 40 W, max: 120 W, law: cubic}
    scaling: {governor: ondemand, platform: xeon-1220}
    sleep: {after: 5 s, power: 3 W, wake: 300 ms}
    boot: {time: 20 s, off: 1 W}
  access-point:
    kind: base-station
    cell: {technology: wifi, energy_sent: 5 nJ/bit, energy_received: 4 nJ/bit}
  drone:
    tier: device
    power: {idle: 5 W, max: 5 W}
    battery: {capacity: 5000 mAh x 11.1 V, level: uniform 50 % .. 100 %}
    radio_energy: {wifi: {sent: 283 nJ/bit, received: 137 nJ/bit}}
nodes:
  edge-1: {kind: gpu-edge}
  ap-1: {kind: access-point}
  uav-1: {kind: drone}
links:
  - between: [uav-1, edge-1]
workloads:
  detect:
    from: uav-*
    arrivals: poisson 2 Hz
    work: 10 Mcycles
    accelerator: {gpu: exponential 2 TFLOP}
    memory: 2 GB
    class: memory
"""


def plan_of(folder: Path, text: str = SCENARIO):
    (folder / "scenario.cosim.yaml").write_text(text)
    return compile_plan(load_file(folder))


def test_a_scenario_says_it_all(tmp_path):
    plan = plan_of(tmp_path)
    edge, point, drone = plan.scene.nodes
    assert edge.accelerators == (
        Accelerator("gpu", 2, 1e13), Accelerator("npu", 1, 26e12, idle=2.0, max=10.0, shared=True),
    )  # fmt: skip
    assert edge.states == PowerStates(5.0, 3.0, 0.3, 120.0, 20.0, 120.0, 1.0)
    assert edge.scaling == Scaling("ondemand", "xeon-1220")
    assert (edge.memory, edge.storage, edge.power.law) == (16e9, 100e9, "cubic")
    assert (point.cell.technology, point.cell.energy_sent, point.cell.energy_received) == ("wifi", 5e-9, 4e-9)
    assert drone.battery == Battery(capacity="5000 mAh x 11.1 V", level="uniform 50 % .. 100 %")
    assert drone.radio_energy == (("wifi", RadioEnergy(sent="283 nJ/bit", received="137 nJ/bit")),)
    work = plan.scene.workloads[0]
    assert (work.accelerator, work.operations, work.memory, work.sensitivity) == (
        "gpu", Law("exponential", 2e12), 2e9, 0.06,
    )  # fmt: skip


GRAPH = """\
    graph:
      capture: {work: 33 Mcycles}
      detect: {work: 0 cycles, accelerator: {gpu: 5 TFLOP}, after: [capture]}
      read: {work: 33 Mcycles, accelerator: {npu: 2.6 TOP}, after: [capture]}
      act: {work: 33 Mcycles, after: [detect, read]}
"""
STAGED = (
    SCENARIO.replace("    work: 10 Mcycles\n    accelerator: {gpu: exponential 2 TFLOP}\n", GRAPH)
    .replace("poisson 2 Hz", "every 2 s")
    .replace("    class: memory\n", "")
    .replace("governor: ondemand", "governor: performance")
    .replace("    sleep: {after: 5 s, power: 3 W, wake: 300 ms}\n", "")
)


def test_stages_use_accelerators_of_their_own(tmp_path):
    plan = plan_of(tmp_path, STAGED)
    stages = {stage.name: (stage.accelerator, stage.operations.a) for stage in plan.scene.workloads[0].graph}
    assert stages == {"capture": ("", 0.0), "detect": ("gpu", 5e12), "read": ("npu", 2.6e12), "act": ("", 0.0)}
    assert through_text(plan, tmp_path) == plan
    assert "detect 0 cycles + 5 TFLOP on gpu; read 33 Mcycles + 2.6 TFLOP on npu" in describe(plan)
    adapter = begin(plan.scene, scheduler="least-loaded")
    tasks, _, _ = run(adapter, plan.scene, 20)
    books = adapter.finish()
    assert books["tasks"]["completed"] >= 9
    # 10 ms of a core, then 0.5 s of a GPU beside 10 ms and 0.1 s of the NPU, then 10 ms of a core
    np.testing.assert_allclose(tasks["ended"] - tasks["created"], 0.52, atol=1e-6)
    parts = books["accelerators"]
    assert (parts["gpu"]["completed"], parts["npu"]["completed"]) == (
        books["stages"]["detect"]["detect"]["completed"], books["stages"]["detect"]["read"]["completed"]
    )  # fmt: skip
    assert parts["npu"]["busy"]["edge-1"] == pytest.approx(0.1 * parts["npu"]["completed"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gpu: 2 x 10 TFLOPS, ", "", "no node with a cpu has a gpu"),
        ("{work: 33 Mcycles}", "{work: 33 Mcycles, where: device}", "source 'uav-1' has no cpu"),
        ("battery: {", "cpu: 1 GHz\n    battery: {", "source 'uav-1' has no gpu"),
        ("gpu: 5 TFLOP", "gpu: 5 TFLOP, npu: 1 TOP", "needs at most 1 entry, found 2"),
        ("    memory: 2 GB\n", "    accelerator: {gpu: 1 TFLOP}\n", "a graph has no 'accelerator' of its own"),
    ],
)
def test_stages_that_nothing_can_run_are_found(tmp_path, old, new, words):
    text = STAGED.replace("gpu: 5 TFLOP}", "gpu: 5 TFLOP}, where: device") if "cpu: 1" in new else STAGED
    assert old in text
    with pytest.raises(ScenarioError) as error:
        begin(plan_of(tmp_path, text.replace(old, new)).scene)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("gpu: 2 x 10 TFLOPS", "gpu: 10", "10 is not an accelerator; write units x speed"),
        ("gpu: 2 x 10 TFLOPS", "gqu: 10 TFLOPS", "did you mean 'gpu'?"),
        ("5000 mAh x 11.1 V", "5000 mAh", "is a charge; write it with its voltage"),
        ("uniform 50 % .. 100 %", "120 %", "'level' is a part of the capacity"),
        ("class: memory", "class: cpu", "'cpu' is not possible here"),
        ("platform: xeon-1220", "period: 1 s", "give 'platform' or 'points'"),
        ("platform: xeon-1220", "points: [{clock: 1 GHz}]", "an operating point has a 'voltage', or 'idle' and 'max'"),
        ("platform: xeon-1220", "points: [{clock: 1 GHz, voltage: 1 V}]", "the fastest point is 1e+09 Hz"),
        ("idle: 2 W, max: 10 W", "idle: 20 W, max: 10 W", "'max' is below 'idle'"),
    ],
)
def test_mistakes_are_told(tmp_path, old, new, words):
    assert old in SCENARIO
    with pytest.raises(ScenarioError) as caught:
        plan_of(tmp_path, SCENARIO.replace(old, new))
    assert words in str(caught.value)


def test_what_no_node_could_run_is_refused_at_the_start(tmp_path):
    for old, new, words in (
        ("accelerator: {gpu:", "accelerator: {tpu:", "no node with a cpu has a tpu"),
        ("memory: 2 GB", "memory: 20 GB", "the largest host has 1.6e+10 B"),
        ("4 x 3.3 GHz", "4 x 3 GHz", "its platform 'xeon-1220' at 3.3 GHz"),
    ):
        with pytest.raises(ScenarioError) as caught:
            begin(plan_of(tmp_path, SCENARIO.replace(old, new)).scene)
        assert words in str(caught.value)


def test_signals_are_named_once():
    with pytest.raises(ValidationError, match="twice"):
        ContinuumConfig(signals=["battery", "battery"])


def test_rows_and_books_close(tmp_path):
    world = plan_of(tmp_path).scene
    adapter = begin(world, signals=["battery", "machine", "accelerator"])
    seen = {"battery": [], "machine": [], "accelerator": []}
    for time in range(61):
        frames = {frame.signal: frame for frame in adapter.step(float(time), Inputs({}, ()))}
        for name, rows in seen.items():
            assert not fault(frames[name], CATALOGUE[name], world.capacity)
            rows.append(frames[name])
    books = adapter.finish()
    battery = seen["battery"][-1]
    assert battery.slot.tolist() == [2]
    assert battery["level"][0] == pytest.approx(books["batteries"]["level"]["uav-1"])
    assert books["batteries"]["consumed"]["uav-1"] == pytest.approx(60 * 5.0)
    assert books["batteries"]["charged"]["uav-1"] == pytest.approx(300.0 + battery["level"][0])
    assert books["energy"]["by_node"]["uav-1"] == pytest.approx(300.0)
    gpu = seen["accelerator"][0]["kind"].tolist().index(ACCELERATORS.index("gpu"))
    used = sum(frame["utilisation"][gpu] for frame in seen["accelerator"][1:])
    assert used * 2 == pytest.approx(books["accelerators"]["gpu"]["busy"]["edge-1"])
    assert books["accelerators"]["gpu"]["completed"] >= books["tasks"]["completed"] > 50
    assert sum(books["states"][name].get("edge-1", 0.0) for name in MACHINE_STATE[:-1]) == pytest.approx(60.0)
    assert {MACHINE_STATE[code] for frame in seen["machine"] for code in frame["state"]} >= {"on"}
    assert 16e9 in seen["machine"][0]["memory"]


def test_a_drone_dies_and_its_tasks_with_it():
    drone = replace(UAV, power=Power((2.0, 2.0)), battery=Battery(capacity="15 J"))
    world = scene(EDGE, CLOUD, drone, workloads=(load(SlotRange(2), work=Law("fixed", 2e12)),))
    adapter = begin(world)
    tasks, _, _ = run(adapter, world, 12, lambda time: {"link": [link(time, [(2, 0, 10e6)])]})
    names = np.array(TASK_STATUS)[tasks["status"]]
    assert set(names) == {"battery-empty"}
    assert len(set(tasks["ended"])) == 1
    assert tasks["ended"][0] < 7.5  # 2 W for 7.5 s, were it not for the radio
    books = adapter.finish()
    assert books["batteries"]["empty"] == 1
    assert books["batteries"]["consumed"]["uav-1"] == pytest.approx(15.0)
    energy = books["energy"]
    assert energy["by_node"]["uav-1"] + energy["radio"] == pytest.approx(15.0)


def test_cells_use_energy_by_the_bit():
    edge = replace(EDGE, cell=Cell.si(technology="nr", energy_sent=1e-6, energy_received=2e-6))
    drone = replace(UAV, radio_energy=(("nr", RadioEnergy.si(sent=3e-6, received=4e-6)),))
    world = scene(edge, CLOUD, drone)
    adapter = begin(world)
    _, _, traffic = run(adapter, world, 20, lambda time: {"link": [link(time, [(2, 0, 10e6)])]})
    books = adapter.finish()
    sent, received = traffic["sent"][0], traffic["received"][0]
    assert sent > 1e6
    assert books["energy"]["cells"] == pytest.approx(8 * (1e-6 * received + 2e-6 * sent))
    assert books["energy"]["radio"] == pytest.approx(8 * (3e-6 * sent + 4e-6 * received))
    total = sum(books["energy"]["by_node"].values()) + sum(
        books["energy"][name] for name in ("radio", "cells", "links")
    )
    assert books["energy"]["total"] == pytest.approx(total)


def test_a_host_boots_after_an_outage():
    edge = replace(EDGE, states=PowerStates(boot_time=3.0, boot_power=30.0))
    world = scene(edge, replace(CLOUD, cores=0), UAV)
    adapter = begin(world)
    events = (Event(2.0, "fail", (SlotRange(0),)), Event(4.0, "recover", (SlotRange(0),)))
    tasks, _, _ = run(adapter, world, 12, lambda time: {"link": [link(time, [(2, 0, 10e6)])]}, events)
    started = tasks["started"][~np.isnan(tasks["started"])]
    assert not np.any((started > 2.0) & (started < 7.0))
    assert np.any(started == 7.0)
    assert adapter.finish()["states"]["booting"]["edge-1"] == 3.0


def test_a_cubic_law_is_exact_for_whole_cores():
    table = power_table(Power((10.0, 50.0), law="cubic"), 4)
    np.testing.assert_allclose(table, [10 + 40 * (k / 4) ** 3 for k in range(5)])
    assert power_table(Power((10.0, 50.0)), 4) == (10.0, 50.0)
    assert power_table(None, 4) == ()


def test_further_signals_keep_the_contract():
    check_adapter(ADAPTER, {"signals": ["battery", "machine", "accelerator"]})
