"""Units of FMI 2 and 3, made here, against closed forms, and inside a scenario."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

fmpy = pytest.importorskip("fmpy")
pytest.importorskip("pythonfmu3")

from cosim.adapters.fmi.adapter import FmiAdapter  # noqa: E402
from cosim.adapters.fmi.check import problems as reported  # noqa: E402
from cosim.adapters.fmi.config import FmiConfig  # noqa: E402
from cosim.contract.adapter import Context, Inputs  # noqa: E402
from cosim.contract.errors import AdapterError, Problem, ScenarioError  # noqa: E402
from cosim.contract.frame import Frame  # noqa: E402
from cosim.testing.synthetic import small_scene  # noqa: E402

HOME = Path(__file__).parents[1]
TANK2 = """
from pythonfmu import Boolean, Fmi2Causality, Fmi2Slave, Fmi2Variability, Integer, Real

class Tank(Fmi2Slave):
    def __init__(self, **words):
        super().__init__(**words)
        self.flow, self.area, self.level, self.steps, self.full = 0.0, 2.0, 0.0, 0, False
        self.register_variable(Real("flow", causality=Fmi2Causality.input))
        self.register_variable(Real("area", causality=Fmi2Causality.parameter, variability=Fmi2Variability.fixed))
        self.register_variable(Real("level", causality=Fmi2Causality.output))
        words = dict(causality=Fmi2Causality.output, variability=Fmi2Variability.discrete)
        self.register_variable(Integer("steps", **words))
        self.register_variable(Boolean("full", **words))

    def do_step(self, time, step):
        if self.flow > 1e6:
            return False
        self.level += step * self.flow / self.area
        self.steps += 1
        self.full = self.level > 1.0
        return True
"""


@pytest.fixture(scope="session")
def tank(tmp_path_factory) -> Path:
    pytest.importorskip("pythonfmu")
    folder = tmp_path_factory.mktemp("tank")
    (folder / "tank.py").write_text(TANK2)
    command = [sys.executable, "-m", "pythonfmu", "build", "-f", "tank.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=100)
    return folder / "Tank.fmu"


def context(tmp_path: Path, root: Path = HOME) -> Context:
    (tmp_path / "scratch").mkdir(exist_ok=True)
    return Context("fmi", small_scene("x"), 1.0, 10.0, (1,), str(root), str(tmp_path / "scratch"))


def config(unit: str, **keys) -> FmiConfig:
    return FmiConfig.model_validate({"unit": unit, "nodes": "kind:edge", **keys})


def problems(config: FmiConfig, context: Context) -> list[Problem]:
    """What a check reports but for the note of what there is in the unit."""
    return [one for one in reported(config, context) if not one.note]


def edges() -> list[int]:
    return [slot for slot, node in enumerate(small_scene("x").nodes) if node.kind == "edge"]


def test_a_unit_of_fmi_2_integrates_what_each_node_hands_over(tank, tmp_path):
    wired = config(
        tank.name,
        params={"area": 4.0},
        inputs=[{"signal": "rain", "column": "rate", "to": "flow"}],
        outputs=[{"from": name, "signal": "tank", "column": name} for name in ("level", "steps", "full")],
    )
    slots = np.array(edges(), np.int32)
    rates = np.arange(1.0, len(slots) + 1)
    one = FmiAdapter(wired)
    one.start(context(tmp_path, tank.parent))
    for time in (0.0, 1.0, 2.5, 3.0):
        rain = Frame("rain", time, slots, {"rate": rates if time < 2.0 else 2 * rates})
        (frame,) = one.step(time, Inputs({"rain": [rain]}))
        assert frame.slot.tolist() == slots.tolist()
    # the inputs of a tick hold until the next one: 2.5 s at the first rate, 0.5 s at twice that
    assert frame["level"] == pytest.approx((2.5 * rates + 0.5 * 2 * rates) / 4.0, abs=1e-12)
    assert frame["steps"].tolist() == [3.0] * len(slots)
    assert frame["full"].tolist() == [float(level > 1.0) for level in frame["level"]]
    assert one.finish() == {
        "unit": "Tank", "fmi": "2", "instances": len(slots), "steps": 3, "values_handed_over": 2 * len(slots),
    }  # fmt: skip
    rain = Frame("rain", 4.0, slots, {"rate": np.where(slots == slots[0], np.nan, 1e9)})
    one.step(4.0, Inputs({"rain": [rain]}))
    with pytest.raises(AdapterError, match="doStep"):
        one.step(5.0, Inputs({"rain": [rain]}))
    one.close()
    one.close()


def test_a_unit_of_fmi_3_made_of_a_python_file_follows_its_law(tmp_path):
    wired = config(
        "example.py", params={"outside": 5.0},
        outputs=[{"from": "temperature", "signal": "room", "column": "temperature", "unit": "degC"}],
    )  # fmt: skip
    one = FmiAdapter(wired)
    one.start(context(tmp_path))
    for time in range(601):
        (frame,) = one.step(float(time), Inputs())
    one.close()
    expected = 5.0 + 15.0 * (1.0 - 15.0 / 60e3) ** 600  # Euler's law, of Newton's cooling
    assert frame["temperature"] == pytest.approx([expected] * len(edges()), rel=1e-12)


@pytest.mark.parametrize(
    ("keys", "where", "said"),
    [
        ({"params": {"outsid": 1.0}}, "params.outsid", "no variable 'outsid'"),
        ({"inputs": [{"signal": "a", "column": "b", "to": "temperature"}]}, "inputs.0.to", "no input"),
        ({"outputs": [{"from": "humidity", "signal": "a", "column": "b"}]}, "outputs.0.from", "no variable"),
        ({"nodes": "nobody-*"}, "nodes", "no static node"),
        ({"unit": "README.md"}, "unit", "cannot be read"),
    ],
)
def test_what_does_not_fit_the_unit_is_told_before_it_starts(tmp_path, keys, where, said):
    outputs = [{"from": "temperature", "signal": "room", "column": "temperature"}]
    wired = FmiConfig.model_validate({"unit": "example.py", "nodes": "kind:edge", "outputs": outputs, **keys})
    (found,) = problems(wired, context(tmp_path))
    assert found.path == f"adapters.fmi.{where}"
    assert said in found.message
    with pytest.raises(ScenarioError):
        FmiAdapter(wired).start(context(tmp_path))


SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: rooms
run: {duration: 30 s, step: 1 s}
adapters:
  continuum: {scheduler: least-loaded}
  fmi:
    unit: room.py
    nodes: edge-*
    inputs: [{signal: host, column: power, to: heat}]
    outputs: [{from: temperature, signal: room, column: temperature, unit: degC, meaning: air}]
kinds: {camera: {tier: device}}
nodes:
  camera-[1..3]: {kind: camera}
  edge-[1..2]: {kind: edge, cpu: 2 x 1 GHz, power: {idle: 100 W, max: 300 W}}
links: [{between: [camera-*, edge-*], rate: 100 Mbit/s}]
workloads: {pictures: {from: camera-*, arrivals: poisson 2 Hz, input: 100 kB, work: 300 Mcycles}}
"""


def test_a_unit_in_a_scenario_takes_the_power_of_hosts_and_is_repeatable(tmp_path):
    import cosim

    (tmp_path / "room.py").write_text((HOME / "example.py").read_text())
    (tmp_path / "scenario.cosim.yaml").write_text(SCENARIO)
    runs = [cosim.run(tmp_path, out=tmp_path / name) for name in ("a", "b")]
    assert [one.status for one in runs] == ["complete", "complete"], runs[0].error
    from cosim.results.compare import exact

    assert exact(runs[0].folder, runs[1].folder) == []
    run = cosim.load(runs[0].folder)
    power = run.sql("SELECT time, power FROM host WHERE node = 'edge-1' ORDER BY time").fetchall()
    rooms = run.sql("SELECT time, temperature FROM room WHERE node = 'edge-1' ORDER BY time").fetchall()
    run.close()
    temperature = 20.0
    for (_, drawn), (_, shown) in zip(power, rooms, strict=True):
        assert shown == pytest.approx(temperature, rel=1e-9)
        temperature += (drawn - 15.0 * (temperature - 12.0)) / 60e3


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"signal": "tasks"}, "'tasks' is a table of every run's results"),
        ({"signal": "Events"}, "'Events' is a table of every run's results"),
        ({"signal": "Host"}, "differs from the signal 'host' in capital letters only"),
        ({"column": "time"}, "'time' is a column of every table of results"),
    ],
)
def test_names_that_results_have_are_refused(change, reported):
    output = {"from": "temperature", "signal": "room", "column": "temperature", **change}
    with pytest.raises(ValueError, match=reported):
        FmiConfig.model_validate({"unit": "example.py", "outputs": [output]})


def test_a_start_value_is_a_number():
    output = {"from": "temperature", "signal": "room", "column": "temperature"}
    with pytest.raises(ValueError, match="finite"):
        FmiConfig.model_validate({"unit": "example.py", "outputs": [output], "params": {"outside": float("nan")}})


def changed(tank: Path, target: Path, *edits: tuple[str, str], platform: str = "") -> Path:
    """The unit with another description, or with its binaries under another platform's name."""
    with zipfile.ZipFile(tank) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "modelDescription.xml":
                text = data.decode()
                for before, after in edits:
                    assert before in text
                    text = text.replace(before, after, 1)
                data = text.encode()
            if platform and name.startswith("binaries/"):
                name = re.sub("^binaries/[^/]+", f"binaries/{platform}", name)
            new.writestr(name, data)
    return target


def said(unit: Path, tmp_path: Path, **block: object) -> list[tuple[bool, str]]:
    outputs = [{"from": "level", "signal": "tank", "column": "level", "unit": "m", "meaning": "water"}]
    config = FmiConfig.model_validate({"unit": str(unit), "outputs": outputs, **block})
    return [(one.fatal, one.message) for one in problems(config, context(tmp_path, tmp_path))]


def test_what_there_is_in_a_unit_is_told_and_another_unit_of_a_column_is_warned_of(tank, tmp_path):
    with zipfile.ZipFile(tank) as archive:
        (level,) = re.findall(r'name="level".*?<Real', archive.read("modelDescription.xml").decode(), re.DOTALL)
    in_cm = changed(tank, tmp_path / "u.fmu", (level, f'{level} unit="cm"'))
    outputs = [{"from": "level", "signal": "tank", "column": "level", "unit": "m"}]
    block = {"unit": str(in_cm), "outputs": outputs, "params": {"area": 1.0}, "validate": False}
    found = reported(FmiConfig.model_validate(block), context(tmp_path, tmp_path))
    note, warning = sorted(found, key=lambda one: not one.note)
    assert "gives level [cm]; its inputs flow keep their start values" in note.message
    with zipfile.ZipFile(in_cm) as archive:
        size = sum(one.file_size for one in archive.infolist())
    assert note.memory == pytest.approx(size + 1.8e3 * 5 + 110e3 * len(small_scene("x").nodes))
    assert "'level' is in 'cm' in the unit, and the column is said to be in 'm'" in warning.message
    assert (warning.path, warning.fatal) == ("adapters.fmi.outputs.0.unit", False)


ONCE = 'canBeInstantiatedOnlyOncePerProcess="'
TEXT_PARAMETER = '<ScalarVariable name="weather" valueReference="99" causality="parameter" variability="fixed">'


def test_what_a_unit_says_of_itself_is_read_before_a_run(tank, tmp_path):
    assert said(tank, tmp_path) == []
    ((fatal, text),) = said(changed(tank, tmp_path / "w.fmu", platform="win64"), tmp_path)
    assert fatal
    assert "has no binary for" in text
    assert "its platforms: win64" in text
    edits = [('generationTool="PythonFMU', 'generationTool="Dymola')]  # PythonFMU's units need their tool: Python
    ((fatal, text),) = said(changed(tank, tmp_path / "t.fmu", *edits), tmp_path)
    assert not fatal
    assert "needs Dymola" in text


def test_a_unit_that_exists_once_in_a_process_has_one_node(tank, tmp_path):
    with zipfile.ZipFile(tank) as archive:
        stated = re.search(r'canBeInstantiatedOnlyOncePerProcess="\w+"', archive.read("modelDescription.xml").decode())
    edit = (stated[0], f'{ONCE}true"') if stated else ("<CoSimulation ", f'<CoSimulation {ONCE}true" ')
    unit = changed(tank, tmp_path / "o.fmu", edit)
    ((fatal, text),) = said(unit, tmp_path)
    assert fatal
    assert "can be instantiated once in a process, and" in text
    node = small_scene("x").nodes[0].id
    assert said(unit, tmp_path, nodes=node) == []


def test_parameters_may_be_text(tank, tmp_path):
    edit = ("<ModelVariables>", f'<ModelVariables>{TEXT_PARAMETER}<String start="a"/></ScalarVariable>')
    unit = changed(tank, tmp_path / "s.fmu", edit)
    assert said(unit, tmp_path, params={"weather": "turin.epw", "area": 3.0}) == []
    assert said(unit, tmp_path, params={"weather": 3}) == [(True, "'weather' takes text, not 3")]
    assert said(unit, tmp_path, params={"area": "wide"}) == [
        (True, "'area' takes a number or true or false, not 'wide'")
    ]


def test_a_description_that_breaks_the_standard_can_be_taken_as_it_is(tank, tmp_path):
    unit = changed(tank, tmp_path / "u.fmu", ("<Real", '<Real unit="degC"'))
    ((fatal, text),) = said(unit, tmp_path)
    assert fatal
    assert "validate: false" in text
    assert said(unit, tmp_path, validate=False) == []
