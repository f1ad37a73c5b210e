"""What the result of a task is worth when it comes back, from the scenario to the figure."""

import numpy as np
import pytest

import cosim
from cosim.contract.errors import ScenarioError
from cosim.engine.continuum import Engine, Kind, WorkloadStream
from cosim.scenario.load import load
from tests.unit.engine.continuum.worlds import CLOCK, exponential, system

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: decays
run: {duration: 60 s, step: 1 s, seed: 3}
adapters:
  continuum: {scheduler: least-loaded, discipline: fcfs}
nodes:
  edge-1: {kind: edge, cpu: 1 x 1 GHz}
  camera: {kind: device}
links:
  - {between: [camera, edge-1], rate: 1 Gbit/s, delay: 0 s}
workloads:
  look: {from: camera, arrivals: poisson 7 Hz, input: 0 B, work: exponential 100 Mcycles, value: 3, half_life: 500 ms}
  note: {from: camera, arrivals: every 1 s, input: 0 B, work: 1 Mcycles}
"""


def test_the_value_kept_in_mm1_is_its_closed_form() -> None:
    """Response times are exponential at rate mu - lambda, so 2^(-T/h) is (mu - lambda) / (mu - lambda + ln 2 / h)."""
    served, made, half_life = 10.0, 7.0, 0.5
    work = exponential(CLOCK / served)
    stream = WorkloadStream(rate=made, work=work, value=2.0, half_life=half_life)
    ended = Engine(system(["edge"], [Kind(cores=1, clock=CLOCK, fcfs=1)], [stream], [(0, 0)]), 11, 0)
    ended.advance(100_000.0)
    left = served - made
    assert np.mean(ended.drain()["value"]) == pytest.approx(2.0 * left / (left + np.log(2.0) / half_life), rel=0.02)


@pytest.mark.parametrize(("rate", "slots"), [("7 Hz", 3), ("15 Hz", 1000)])
def test_the_figure_is_what_the_rows_say(tmp_path, rate, slots) -> None:
    """With tasks that are refused, and under an overload whose unfinished tasks bound the figure."""
    file = tmp_path / "decays.yaml"
    file.write_text(SCENARIO.replace("poisson 7 Hz", f"poisson {rate}").replace("1 GHz", f"1 GHz, slots: {slots}"))
    run = cosim.load(cosim.run(file, out=tmp_path / "runs").folder)
    tasks = run.sql("SELECT workload, status, ended - created response, value FROM task").fetchnumpy()
    mine, done = tasks["workload"] == "look", tasks["status"] == "completed"
    assert mine.sum() > 300
    worth = np.where(mine & done, 3.0 * 2.0 ** (-tasks["response"] / 0.5), 0.0)
    np.testing.assert_allclose(tasks["value"], worth, rtol=1e-12)
    figure = run.metrics["figures"]["value_kept"]
    waiting = run.metrics["ledgers"]["continuum"]["workloads"]["look"]["in_flight"]
    if slots == 3:
        assert (~done).sum() > 20
        assert figure["value"] == pytest.approx(worth.sum() / (3.0 * mine.sum()), rel=1e-12)
    else:
        assert waiting > 100
        assert figure["at_least"]
        assert figure["value"] == pytest.approx(worth.sum() / (3.0 * (mine.sum() + waiting)), rel=1e-12)
        assert figure["value"] < figure["high"] < figure["value"] + waiting / (mine.sum() + waiting)


def test_a_run_without_values_has_no_figure_of_them(tmp_path) -> None:
    file = tmp_path / "decays.yaml"
    file.write_text(SCENARIO.replace(", value: 3, half_life: 500 ms", ""))
    run = cosim.load(cosim.run(file, out=tmp_path / "runs").folder)
    assert "value_kept" not in run.metrics["figures"]
    assert run.sql("SELECT max(value) FROM task").fetchall() == [(0.0,)]


def test_a_value_is_more_than_nothing_and_alone_gives_a_half_life_a_meaning(tmp_path) -> None:
    file = tmp_path / "decays.yaml"
    file.write_text(SCENARIO.replace("value: 3", "value: 0").replace("half_life: 500 ms", "half_life: 2"))
    with pytest.raises(ScenarioError) as wrong:
        load(file)
    assert [problem.path for problem in wrong.value.problems] == [f"workloads.look.{k}" for k in ("value", "half_life")]
    file.write_text(SCENARIO.replace("value: 3, ", ""))
    from cosim.contract.block import no_effect

    (found,) = no_effect(load(file).scenario)
    assert (found[0], found[1].warning("half_life")) == (
        ("workloads", "look", "half_life"),
        "'half_life' has no effect without 'value'",
    )
