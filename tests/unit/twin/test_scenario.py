"""A scenario as a calibration problem: in batches and run by run it gives the same values."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.scenario.study import ScenarioStudy, study

BENCH = """\
apiVersion: cosim/v1
kind: Scenario
name: bench
run: {duration: 20 s, step: 1 s, seed: 5}
adapters:
  continuum: {scheduler: least-loaded}
kinds:
  gateway: {kind: edge, cpu: 4 x 1.5 GHz, power: {idle: 2.7 W, max: 6.4 W}}
nodes:
  camera-[1..2]: {kind: device}
  gate-[1..2]: {kind: gateway}
  cloud: {kind: cloud, cpu: 16 x 3 GHz}
links:
  - {between: [camera-*, gate-*], rate: 50 Mbit/s, delay: 2 ms}
  - {between: [gate-*, cloud], rate: 100 Mbit/s, delay: 20 ms}
workloads:
  look: {from: camera-*, arrivals: poisson 2 Hz, input: exponential 180 kB, output: 4 kB, work: 600 Mcycles}
events:
  - {at: 6 s, do: fail, node: gate-1, for: 2 s}
  - {at: 9 s, do: degrade, link: gate-2/cloud, delay: 30 ms, rate: 50 %, for: 2 s}
"""
FREE = """\
calibrate:
  observed:
    response: {run: RUN, signal: task.response}
    power: {run: RUN, signal: host.power, nodes: gate-*}
  fit: {until: 12 s}
  free:
    kinds.gateway.cpu: {bounds: [4 x 1 GHz, 4 x 3 GHz]}
    kinds.gateway.power.idle: {bounds: [1 W, 6 W]}
    kinds.gateway.power.max: {bounds: [6.1 W, 12 W]}
    links.0.delay: {bounds: [1 ms, 40 ms]}
    workloads.look.work: {bounds: [300 Mcycles, 900 Mcycles]}
"""
TRUTH = ["kinds.gateway.cpu=4 x 2 GHz", "kinds.gateway.power.idle=3.5 W", "links.0.delay=9 ms"]
TRUE_VALUES = [2.0, 3.5, 6.4, 9.0, 600.0]
Bench = Callable[..., tuple[Path, Path]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of `bench` with other values than those of its file."""
    folder = tmp_path_factory.mktemp("bench")
    file = folder / "scenario.cosim.yaml"
    file.write_text(BENCH, encoding="utf-8")
    return run_plan(compile_plan(load(file, TRUTH)), folder / "runs").folder


@pytest.fixture
def declared(recorded: Path, tmp_path: Path) -> Callable[..., ScenarioStudy]:
    def read(*changes: tuple[str, str], whole: bool = False, overrides: tuple[str, ...] = ()) -> ScenarioStudy:
        text = BENCH + FREE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        file = tmp_path / "scenario.cosim.yaml"
        file.write_text(text.replace("RUN", str(recorded)), encoding="utf-8")
        return study(file, overrides, folder=tmp_path / "work", workers=1, whole=whole)

    return read


REPLAY = ("  free:\n", "  replay: {run: RUN}\n  free:\n")


def test_with_the_true_values_the_replay_is_the_recorded_run(declared: Callable[..., ScenarioStudy]) -> None:
    problem = declared(REPLAY).problem
    assert problem.deterministic
    assert problem.distance == "w1"
    assert declared(REPLAY, ("  free:\n", "  distance: energy\n  free:\n")).problem.distance == "energy"
    values = np.array([problem.space.start, TRUE_VALUES])
    held_back = problem.held_back
    assert held_back is not None
    for case in (problem.fit, held_back):
        found = case.simulate(values, 3)
        assert set(found) == {"response", "power"}
        for name, signal in case.observed.items():
            assert signal.paired
            assert found[name].shape == (2, len(signal.values))
            ended = np.isfinite(signal.values)  # a task that failed when gate-1 did has no response
            assert np.mean(ended) > 0.9
            assert signal.times is not None
            ended &= signal.times < 19.0  # tasks in flight at the end are not recorded
            np.testing.assert_allclose(found[name][1][ended], signal.values[ended], rtol=1e-9, atol=1e-12)
            assert np.nanmean(np.abs(found[name][0] - signal.values)) > 0.01
    assert problem.fit.observed["response"].times is not None
    assert np.max(problem.fit.observed["response"].times) < 12.0 <= np.min(held_back.observed["response"].times)


@pytest.mark.slow
def test_batches_and_whole_runs_agree(declared: Callable[..., ScenarioStudy]) -> None:
    replay = ("  free:\n", "  replay: {run: RUN, placement: false}\n  free:\n")
    batched, whole = declared(replay), declared(replay, whole=True)
    assert batched.how == "in batches"
    assert whole.how.startswith("run by run")
    values = np.array([TRUE_VALUES, [1.1, 2.0, 8.0, 30.0, 500.0]])
    seed = 2**63 - 25  # of as many digits as seeds have
    one, other = batched.problem.fit.simulate(values, seed), whole.problem.fit.simulate(values, seed)
    assert not whole.failures
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12)


def test_runs_that_cannot_be_say_why(declared: Callable[..., ScenarioStudy]) -> None:
    line = "    kinds.gateway.power.max: {bounds: [1 W, 12 W]}"
    found = declared(("    kinds.gateway.power.max: {bounds: [6.1 W, 12 W]}", line), whole=True)
    values = np.array([[1.5, 5.0, 2.0, 2.0, 600.0]])  # idle above max
    assert np.isnan(found.problem.fit.simulate(values, 1)["power"]).all()
    assert "max power is below idle power" in found.failures[0]


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_pairs_that_chance_would_make_are_compared_as_distributions(
    declared: Callable[..., ScenarioStudy], whole: bool
) -> None:
    """What a task takes is drawn by chance here, so the same task takes another time under another seed."""
    replay = ("  free:\n", "  replay: {run: RUN, placement: false, sizes: [output]}\n  free:\n")
    work = ("work: 600 Mcycles", "work: exponential 600 Mcycles")
    free = (
        "workloads.look.work: {bounds: [300 Mcycles, 900 Mcycles]}",
        "workloads.look.work: {bounds: [exponential 300 Mcycles, exponential 900 Mcycles]}",
    )
    found = declared(replay, work, free, whole=whole).problem
    assert not found.fit.observed["response"].paired
    assert declared(replay, work, free, whole=whole).problem.warnings == found.warnings  # of runs that are known
    assert (
        "response: tasks are replayed, but what they take is drawn by chance; distributions are compared"
        in found.assumptions
    )


@pytest.mark.slow
def test_what_was_run_is_not_run_again(declared: Callable[..., ScenarioStudy], tmp_path: Path) -> None:
    first = declared(whole=True)
    known = sorted((tmp_path / "work" / "known").iterdir())
    assert len(known) == 1
    again = declared(whole=True)
    values = again.problem.space.start[None]
    assert sorted((tmp_path / "work" / "known").iterdir()) == known
    np.testing.assert_array_equal(
        first.problem.fit.simulate(values, 0)["response"], again.problem.fit.simulate(values, 0)["response"]
    )


def test_distributions_and_common_random_numbers(declared: Callable[..., ScenarioStudy]) -> None:
    problem = declared().problem
    assert not problem.deterministic
    assert not problem.fit.observed["response"].paired
    values = np.array([TRUE_VALUES, TRUE_VALUES, problem.space.start.tolist()])
    one, other = problem.fit.simulate(values, 5), problem.fit.simulate(values, 6)
    np.testing.assert_array_equal(one["response"][0], one["response"][1])
    assert np.any(one["response"][0] != other["response"][0])
    assert np.all(np.diff(one["response"]) >= 0.0)
    # seed 5 is that of the recorded run: the quantiles of the same tasks
    measured = np.nanmedian(problem.fit.observed["response"].values)
    np.testing.assert_allclose(np.median(one["response"][0]), measured, rtol=0.02)


def test_the_answer_is_told_as_the_scenario_has_it(declared: Callable[..., ScenarioStudy]) -> None:
    written = [text for one, x in zip(declared().free, TRUE_VALUES, strict=True) for text in one.overrides(x)]
    assert {path: json.loads(value) for path, value in (text.split("=", 1) for text in written)} == {
        "kinds.gateway.cpu": "4 x 2 GHz",
        "kinds.gateway.power.idle": "3.5 W",
        "kinds.gateway.power.max": "6.4 W",
        "links.0.delay": "9 ms",
        "workloads.look.work": "600 Mcycles",
    }


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("workloads.look.arrivals: {bounds: [poisson 1 Hz, poisson 4 Hz]}", "in batches"),
        ("adapters.continuum.patience: {bounds: [1 s, 4 s]}", "in batches"),
        ("adapters.continuum.scheduler: {choices: [nearest, least-loaded, random]}", "in batches"),
        ("adapters.continuum.drop_late: {choices: [false, true]}", "in batches"),
        ("workloads.look.input: {bounds: [exponential 100 kB, exponential 300 kB]}", "in batches"),
        ("links.*.rate: {bounds: [10 Mbit/s, 200 Mbit/s], share: each}", "in batches"),
        ("kinds.gateway.slots: {bounds: [1, 9], start: 3}", "in batches"),
        pytest.param("adapters.continuum.discipline: {choices: [sharing, fcfs]}", "run by run", marks=pytest.mark.slow),
        ("events.0.at: {bounds: [3 s, 9 s]}", "run by run"),
        pytest.param("run.step: {choices: [500 ms, 1 s]}", "run by run", marks=pytest.mark.slow),
    ],
)
def test_which_fields_a_batch_can_set(declared: Callable[..., ScenarioStudy], line: str, how: str) -> None:
    found = declared(("    kinds.gateway.power.idle: {bounds: [1 W, 6 W]}", f"    {line}"))
    assert found.how.startswith(how)


def test_a_series_from_a_file(declared: Callable[..., ScenarioStudy], tmp_path: Path) -> None:
    rows = "".join(f"{t + 0.5},gate-{1 + t % 2},{3000 + t}\n" for t in range(18))
    (tmp_path / "meter.csv").write_text("t,which,reading\n" + rows, encoding="utf-8")
    line = "    power: {run: RUN, signal: host.power, nodes: gate-*}"
    mine = (
        "    power: {file: meter.csv, column: reading, unit: mW, time: t, node: which, signal: host.power, "
        "nodes: gate-1, paired: true}"
    )
    problem = declared((line, mine)).problem
    power = problem.fit.observed["power"]
    np.testing.assert_allclose(power.values, [3.0, 3.002, 3.004, 3.006, 3.008, 3.010])
    assert (power.unit, power.paired, set(power.groups or ())) == ("W", True, {"gate-1"})
    found = problem.fit.simulate(problem.space.start[None], 1)["power"]
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("run: RUN, signal: host.power", "run: nowhere, signal: host.power", "nowhere"),
        ("run: RUN, signal: host.power", "run: RUN, signal: battery.level", "there is no table 'battery'"),
        ("fit: {until: 12 s}", "fit: {until: 12 s}\n  held-back: {from: 5 s}", "overlaps with 'fit'"),
        ("fit: {until: 12 s}", "fit: {from: 900 s}", "nothing was measured"),
        ("power.max: {bounds: [6.1 W, 12 W]}", "power.max: {bounds: [6.1 W, 12 W], start: 7 W}", ""),
    ],
)
def test_what_cannot_be_compared_is_told(
    declared: Callable[..., ScenarioStudy], old: str, new: str, message: str
) -> None:
    if not message:
        assert declared((old, new)).problem.space.start[2] == 7.0
        return
    with pytest.raises(ScenarioError, match=message):
        declared((old, new))
