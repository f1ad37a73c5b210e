"""A scenario as a unit of FMI 3, run by FMPy, against a run of the scenario."""

from pathlib import Path

import numpy as np
import pytest

import cosim
from cosim.contract.errors import SetupError
from cosim.extensions.fmu import write_fmu

fmpy = pytest.importorskip("fmpy")
pytest.importorskip("pythonfmu3")

SCENARIO = """
apiVersion: cosim/v1
kind: Scenario
name: cameras
run: {duration: 20 s, step: 500 ms, seed: 3}
parameters: {RATE: 2.0, CORES: 4}
adapters:
  continuum: {scheduler: own:first}
nodes:
  camera-[1..3]: {kind: device}
  edge-1: {kind: edge, cpu: "${CORES} x 1.8 GHz", power: {idle: 3 W, max: 9 W}}
  edge-2: {kind: edge, cpu: "${CORES} x 1.8 GHz", power: {idle: 3 W, max: 9 W}}
links:
  - {between: [camera-*, [edge-1, edge-2]], rate: 100 Mbit/s, delay: 2 ms}
workloads:
  detection:
    {from: camera-*, arrivals: "poisson ${RATE} Hz", input: 100 kB, output: 1 kB, work: exponential 600 Mcycles}
"""
POLICY = """
def first(request, reach, hosts):
    for number in range(len(hosts)):
        if hosts[number]["up"]:
            return number
    return -1
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, Path]:
    """The scenario, whose policy lies beside it, and its unit elsewhere, after the scenario is gone."""
    folder = tmp_path_factory.mktemp("cameras")
    (folder / "cameras.cosim.yaml").write_text(SCENARIO)
    (folder / "own.py").write_text(POLICY)
    unit = tmp_path_factory.mktemp("elsewhere") / "cameras.fmu"
    write_fmu(folder / "cameras.cosim.yaml", unit, values=["host.edge-*"], switches=["edge-1"])
    return folder / "cameras.cosim.yaml", unit


def simulated(unit: Path, **words) -> np.ndarray:
    names = ["host.edge_1.power", "host.edge_1.up", "host.edge_1.completed", "host.edge_2.completed"]
    return fmpy.simulate_fmu(str(unit), stop_time=20.0, output_interval=0.5, step_size=0.5, output=names, **words)


def test_the_unit_says_what_it_is(made):
    said = fmpy.read_model_description(str(made[1]), validate=True)
    assert said.fmiVersion == "3.0"
    assert said.coSimulation.needsExecutionTool
    by_name = {one.name: one for one in said.modelVariables}
    assert by_name["edge_1.up"].causality == "input"
    assert [float(by_name[name].start) for name in ("RATE", "CORES", "seed")] == [2.0, 4.0, 3.0]
    assert by_name["host.edge_2.power"].causality == "output"
    assert "host.camera_1.power" not in by_name
    assert float(said.defaultExperiment.stopTime) == 20.0


@pytest.mark.parametrize(("rate", "seed"), [(2.0, 3), (5.0, 4)])
def test_its_outputs_are_those_of_a_run_to_the_bit(made, tmp_path, rate, seed):
    scenario, unit = made
    outcome = cosim.run(scenario, overrides=[f"parameters.RATE={rate}", f"run.seed={seed}"], out=tmp_path)
    rows = cosim.load(outcome.folder).sql(
        "SELECT \"time\", power, completed FROM host WHERE node = 'edge-1' ORDER BY \"time\""
    ).fetchall()  # fmt: skip
    found = simulated(unit, start_values={"RATE": rate, "seed": seed})
    assert found["time"].tolist() == pytest.approx([row[0] for row in rows])
    assert found["host.edge_1.completed"].tolist() == [float(row[2]) for row in rows]
    assert found["host.edge_1.power"].tolist() == [float(row[1]) for row in rows]
    assert rows[-1][2] > 20


def test_an_input_lets_a_node_fail_and_recover(made):
    signals = np.array(
        [(0.0, True), (5.0, True), (5.0, False), (12.0, False), (12.0, True), (20.0, True)],
        dtype=[("time", float), ("edge_1.up", bool)],
    )
    found = simulated(made[1], input=signals)
    up = dict(zip(found["time"].round(3).tolist(), found["host.edge_1.up"].tolist(), strict=True))
    down = [time for time, value in up.items() if not value]
    assert 5.0 <= min(down) <= 6.0
    assert 11.5 <= max(down) <= 12.5
    assert found["host.edge_2.completed"][-1] > 0.0  # the policy takes the other one meanwhile


def test_a_larger_step_makes_all_ticks_within_it(made):
    fine = simulated(made[1])
    coarse = fmpy.simulate_fmu(
        str(made[1]), stop_time=20.0, output_interval=2.0, step_size=2.0, output=["host.edge_1.completed"]
    )
    assert coarse["host.edge_1.completed"].tolist() == fine["host.edge_1.completed"][::4].tolist()


def test_outputs_that_nobody_has_are_refused(made, tmp_path):
    with pytest.raises(SetupError, match=r"no value is called 'hosts\.\*'; there are .*host\.NODE\.power"):
        write_fmu(made[0], tmp_path / "x.fmu", values=["hosts.*"])
    with pytest.raises(SetupError, match="no static node is called 'edge-9'"):
        write_fmu(made[0], tmp_path / "x.fmu", switches=["edge-9"])
    with pytest.raises(SetupError, match="is there already"):
        write_fmu(made[0], made[1])
