"""The block `calibrate`: which fields a free value has, and every mistake in it at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import Problem, ScenarioError
from cosim.scenario.form import Form, between
from cosim.scenario.free import Free, free_values
from cosim.scenario.load import load

BASE = """\
apiVersion: cosim/v1
kind: Scenario
name: bench
run: {duration: 10 s}
adapters:
  engine: {interval: 2 s}
  air: {}
kinds:
  gateway: {kind: edge, cpu: 4 x 1.8 GHz, power: {table: [1 W, 2 W, 3 W]}}
nodes:
  sensor-[1..3]: {kind: uav, at: [0 m, 0 m]}
  gate-1: {kind: gateway}
  gate-2: {kind: gateway, slots: 4}
  cloud: {kind: cloud, cpu: 16 x 3 GHz, slots: 4}
links:
  - {between: [gate-*, cloud], rate: 100 Mbit/s, delay: 20 ms}
  - {between: [gate-1, gate-2], delay: 2 ms}
workloads:
  look: {from: sensor-*, arrivals: poisson 2 Hz, work: exponential 600 Mcycles}
calibrate:
  observed: {r: {run: runs/x, signal: task.response}}
  free:
"""


@pytest.fixture
def free(tmp_path: Path) -> Callable[..., list[Free]]:
    """The free values that lines below `free:` declare."""

    def read(*lines: str) -> list[Free]:
        file = tmp_path / "scenario.cosim.yaml"
        file.write_text(BASE + "".join(f"    {line}\n" for line in lines), encoding="utf-8")
        loaded = load(file)
        configs = {name: used.config for name, used in loaded.adapters.items()}
        values, problems = free_values(loaded.scenario, loaded.root, loaded.world, configs)
        assert not problems
        for value in values:  # what it says is taken by the loader
            for number in (value.low, value.high):
                load(file, value.overrides(number))
        return values

    return read


@pytest.fixture
def wrong(free: Callable[..., list[Free]]) -> Callable[..., list[Problem]]:
    def read(*lines: str) -> list[Problem]:
        with pytest.raises(ScenarioError) as caught:
            free(*lines)
        return caught.value.problems

    return read


@pytest.mark.parametrize(
    ("line", "kind", "start", "override"),
    [
        ("workloads.look.work: {bounds: [exponential 300 Mcycles, exponential 900 Mcycles]}", "real", 600.0,
         'workloads.look.work="exponential 300 Mcycles"'),
        ("workloads.look.arrivals: {bounds: [poisson 1 Hz, poisson 240 /min]}", "real", 2.0,
         'workloads.look.arrivals="poisson 1 Hz"'),
        ("kinds.gateway.cpu: {bounds: [4 x 0.5 GHz, 4 x 3 GHz]}", "real", 1.8, 'kinds.gateway.cpu="4 x 0.5 GHz"'),
        ("kinds.gateway.cpu: {bounds: [2 x 1.8 GHz, 8 x 1.8 GHz]}", "integer", 4.0, 'kinds.gateway.cpu="2 x 1.8 GHz"'),
        ("kinds.gateway.power.table.1: {bounds: [1 W, 5000 mW]}", "real", 2.0, 'kinds.gateway.power.table.1="1 W"'),
        ("nodes.gate-1.cpu: {bounds: [4 x 1 GHz, 4 x 3 GHz]}", "real", 1.8, 'nodes.gate-1.cpu="4 x 1 GHz"'),
        ("nodes.cloud.slots: {bounds: [1, 9]}", "integer", 4.0, "nodes.cloud.slots=1"),
        ("adapters.engine.scheduler: {choices: [random, least-loaded]}", "category", 1.0,
         'adapters.engine.scheduler="random"'),
        ("adapters.air.delayed: {choices: [false, true]}", "boolean", 1.0, "adapters.air.delayed=false"),
        ("adapters.air.carrier: {bounds: [1 GHz, 6 GHz]}", "real", 3.5, 'adapters.air.carrier="1 GHz"'),
    ],
)  # fmt: skip
def test_any_value_can_be_free(free: Any, line: str, kind: str, start: float, override: str) -> None:
    (value,) = free(line)
    assert (value.kind, value.start) == (kind, start)
    assert value.overrides(value.low) == [override]


def test_bounds_may_have_different_units(free: Any) -> None:
    (value,) = free("kinds.gateway.power.table.1: {bounds: [1 W, 5000 mW]}")
    assert (value.low, value.high, value.form.unit) == (1.0, 5.0, "W")


def test_sharing(free: Any) -> None:
    gates = "nodes.gate-*.slots: {bounds: [1, 9], share: %s, start: 3}"
    (one,) = free(gates % "all")
    assert [keys[1] for keys in one.members] == ["gate-1", "gate-2"]
    assert one.overrides(3.0) == ["nodes.gate-1.slots=3", "nodes.gate-2.slots=3"]
    assert [value.name for value in free(gates % "node")] == ["nodes.gate-1.slots", "nodes.gate-2.slots"]
    kinds = free("nodes.*.slots: {bounds: [1, 9], share: kind, start: 3}")
    assert [(value.name, len(value.members)) for value in kinds] == [
        ("nodes.kind:uav.slots", 1), ("nodes.kind:gateway.slots", 2), ("nodes.kind:cloud.slots", 1),
    ]  # fmt: skip
    links = free("links.*.delay: {bounds: [1 ms, 40 ms], share: each}")
    assert [value.start for value in links] == [20.0, 2.0]


@pytest.mark.parametrize(
    ("scale", "prior", "expected"),
    [
        ("linear", "normal 2 W +- 500 mW", (2.0, 0.5)),
        ("linear", "normal 2 W +- 10 %", (2.0, 0.2)),
        ("log", "normal 2 W +- 0.5 W", (2.0, 0.25)),
        ("log", "normal 2 W +- 10 %", (2.0, 0.1)),
        ("linear", "uniform", None),
    ],
)
def test_priors(free: Any, scale: str, prior: str, expected: tuple[float, float] | None) -> None:
    (value,) = free(f"kinds.gateway.power.table.1: {{bounds: [1 W, 5 W], scale: {scale}, prior: {prior}}}")
    assert value.prior == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("line", "message", "place"),
    [
        ("kinds.gateway.power.tabel: {bounds: [1 W, 5 W]}", "did you mean 'table'?", ""),
        ("kinds.gatewey.slots: {bounds: [1, 5]}", "did you mean 'gateway'?", ""),
        ("kinds.gateway.power: {bounds: [1 W, 5 W]}", "is a block, not a value", ""),
        ("kinds.gateway.power.table.7: {bounds: [1 W, 5 W]}", "has no entry '7'", ""),
        ("kinds.gateway.power.table.1: {bounds: [1, 5 W]}", "1 has no unit", "1, 5 W"),
        ("kinds.gateway.power.table.1: {bounds: [1 W, 5 V]}", "unknown unit 'V'", "5 V"),
        ("kinds.gateway.power.table.1: {bounds: [5 W, 6 W]}", "lies outside the bounds", "bounds"),
        ("kinds.gateway.power.table.1: {bounds: [6 W, 1 W]}", "the bounds hold nothing", "bounds"),
        ("kinds.gateway.power.table.1: {bounds: [0 W, 6 W], scale: log}", "a log scale cannot begin at 0", "log}"),
        ("kinds.gateway.power.table.1: {bounds: [1 W, 6 W], prior: nrml 2 W}", "is not a prior", "nrml"),
        ("kinds.gateway.cpu: {bounds: [2 x 1 GHz, 4 x 3 GHz]}", "more than one number differs", "bounds"),
        ("workloads.look.work: {bounds: [1 Mcycles, 900 Mcycles]}", "has not the form of the bounds", ""),
        ("adapters.engine.schedular: {choices: [random, nearest]}", "did you mean 'scheduler'?", ""),
        ("adapters.engine.scheduler: {choices: [randm, nearest]}", "did you mean 'random'?", "randm"),
        ("adapters.engine.scheduler: {choices: [random, nearest]}", "none of the choices", ""),
        ("nodes.kind:gatwey.slots: {bounds: [1, 5]}", "selects no node", ""),
        ("nodes.sensor-*.slots: {bounds: [1, 5], share: node}", "stands for several nodes", "node}"),
        ("links.*.delay: {bounds: [1 ms, 40 ms], share: kind}", "is for paths to nodes", "kind}"),
        ("run.duration: {bounds: [1 s, 40 s], choices: [1 s, 2 s]}", "not both", ""),
        ("name: {choices: [a, b]}", "cannot be free", ""),
    ],
)  # fmt: skip
def test_mistakes_are_told_where_they_are(wrong: Any, line: str, message: str, place: str) -> None:
    found = wrong(line)
    assert any(message in str(problem) for problem in found), found
    assert {(problem.line, problem.column) for problem in found} == {(23, 5 + line.index(place))}


def test_all_mistakes_at_once(wrong: Any) -> None:
    found = wrong(
        "kinds.gateway.power.tabel: {bounds: [1 W, 5 W]}",
        "kinds.gateway.power.table.1: {bounds: [1, 5 W]}",
        "adapters.engine.interval: {bounds: [1 s, 5 s]}",
        "adapters.*.interval: {bounds: [1 s, 5 s]}",
    )
    assert [problem.line for problem in found] == [23, 24, 26]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("task.response", "task.responze", "did you mean 'response'?"),
        ("task.response", "tsk.response", "did you mean 'task'?"),
        ("task.response", "task.response, nodes: sensr-1", "selects no node"),
        ("task.response", "task.response, workloads: [lok]", "did you mean 'look'?"),
        ("run: runs/x,", "file: nothing.csv,", "there is no file 'nothing.csv'"),
        ("run: runs/x,", "run: runs/x, unit: ms,", "are for files"),
        ("run: runs/x,", "", "give 'run' or 'file'"),
    ],
)
def test_measurements_lead_somewhere(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "scenario.cosim.yaml"
    text = BASE + "    nodes.cloud.slots: {bounds: [1, 9]}\n"
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        load(file)
    assert [problem.line for problem in caught.value.problems] == [21]
    assert message in str(caught.value)


NUMBERS = st.floats(-1e12, 1e12, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-9)


@given(
    number=NUMBERS,
    before=st.sampled_from(["", "exponential ", "poisson ", "4 x "]),
    unit=st.sampled_from(["W", "Hz", "m/s2", ""]),
)
def test_what_a_form_writes_it_reads(number: float, before: str, unit: str) -> None:
    form = Form(before, f" {unit}" if unit else "", bare=False)
    assert form.read(form.text(number)) == number
    assert Form().read(Form().text(number)) == number


@given(a=NUMBERS, b=NUMBERS)
def test_the_number_that_differs_is_found(a: float, b: float) -> None:
    form = Form("uniform 3 kB .. ", " kB", bare=False)
    if a == b:
        with pytest.raises(ValueError, match="all numbers are the same"):
            between(form.text(a), form.text(b))
    else:
        assert between(form.text(a), form.text(b)) == (form, a, b)
