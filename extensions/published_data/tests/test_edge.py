"""The twin of edge nodes: replayed as a plain model says, fitted on some loads, judged by others."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from benchmarks.twin_edge import judge, repeated
from ruamel.yaml import YAML

from cosim.contract.errors import ScenarioError
from cosim.extensions.published_data import edge
from cosim.extensions.published_data.edge_telemetry import Telemetry, read
from cosim.extensions.published_data.models.edge import Replay, Requests
from cosim.extensions.published_data.tests import edge_nodes
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.search.meter import Budget
from tests.forked import cosim

RECORDING = Path(__file__).parents[1] / "scenarios" / "calibrate-edge" / "recording"


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory):
    return read(edge_nodes.write(tmp_path_factory.mktemp("nodes")))


def truth(of):
    times = [edge_nodes.TRUTH[work] for work in of.works]
    slowed = [edge_nodes.CONTENTION[of.nodes[k]] for k in of.shared]
    return np.array([*times, *slowed, edge_nodes.OVERHEAD])


@pytest.mark.parametrize(("workers", "contention"), [(1, 0.0), (2, 0.0), (2, 0.4), (2, 1.0), (3, 0.2)])
def test_replays_as_a_plain_model_of_the_queue_does(workers, contention):
    random = np.random.default_rng(workers)
    times = np.sort(random.uniform(0.0, 20.0, 150))
    kinds = random.integers(0, 3, len(times))
    seconds = np.array([0.05, 0.1, 0.3])
    requests = Requests(np.zeros(150, np.int64), times, kinds, np.zeros(1, np.int64), np.array([workers]))
    replay = Replay(requests, [np.ones(1)] * 3)
    computed, response = replay.run(seconds, np.array([contention]), 0.002, 1)
    started, ended = edge_nodes.serve(times, seconds[kinds], workers, contention)
    assert computed == pytest.approx(ended - started, rel=1e-9)
    assert response == pytest.approx(ended - times + 0.002, rel=1e-9)
    again = replay.run(seconds, np.array([contention]), 0.002, 1)
    assert np.array_equal(again[0], computed)
    assert np.array_equal(again[1], response)


def test_the_same_seed_scatters_all_values_alike():
    requests = Requests(
        np.zeros(40, np.int64), np.arange(40.0), np.zeros(40, np.int64), np.zeros(1, np.int64), np.ones(1, int)
    )
    replay = Replay(requests, [np.array([0.9, 1.0, 1.3])])
    one, other = (replay.run(np.array([s]), np.zeros(1), 0.0, 7)[0] for s in (0.01, 0.02))
    assert other == pytest.approx(2.0 * one)
    assert set(np.round(one, 6)) == {0.009, 0.01, 0.013}
    assert not np.array_equal(one, replay.run(np.array([0.01]), np.zeros(1), 0.0, 8)[0])


def test_true_values_predict_unseen_loads_and_the_start_does_not(telemetry):
    of = edge.twin(telemetry)
    found = judge(of, truth(of))
    figures = found.figures()
    assert len(found.names) == 3 * 2 * 2
    assert figures["mape_mean"] <= 0.05
    assert figures["mape_p95"] <= 0.08
    assert 0.85 <= figures["coverage"] <= 0.95
    before = judge(of, edge.space(of).start).figures()
    assert before["mape_mean"] > 0.3
    assert before["mape_p95"] > 0.3


@pytest.mark.slow
def test_calibration_finds_the_values_and_predicts_unseen_loads(telemetry):
    of = edge.twin(telemetry)
    answer = calibrate(edge.problem(of), budget=Budget(runs=1500, seconds=60.0), seed=3)
    values = np.array([estimate.value for estimate in answer.estimates])
    assert values[:-1] == pytest.approx(truth(of)[:-1], rel=0.08)
    figures = judge(of, values).figures()
    assert figures["mape_mean"] <= 0.06
    assert figures["mape_p95"] <= 0.10
    assert 0.85 <= figures["coverage"] <= 0.97


def test_a_repeated_window_is_the_floor(telemetry):
    floor = repeated(telemetry)
    assert 0.0 < floor["mape_mean"] < 0.1
    assert floor["mape_p95"] >= floor["mape_mean"] / 3


def test_the_start_knows_the_limit_on_cores(telemetry):
    of = edge.twin(telemetry)
    start = dict(zip(edge.space(of).names, edge.space(of).start, strict=True))
    assert start["contention.edge-2"] == 0.0
    assert start["contention.edge-3"] == 1.0
    assert "contention.edge-1" not in start
    assert start["resnet18.128"] == pytest.approx(1.82e9 * (128 / 224) ** 2 / 20e9)


def rewrite(folder, change):
    """The task rows, changed."""
    with (folder / "tasks.csv").open() as file:
        rows = list(csv.DictReader(file))
    change(rows)
    with (folder / "tasks.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_disturbed_windows_are_left_out_where_others_suffice(tmp_path):
    some = read(edge_nodes.write(tmp_path / "a", 5.0, disturbed=(0, 9)))
    assert len(some.windows) == 16
    assert "2 of 18 windows are left out" in some.warnings[0]
    many = read(edge_nodes.write(tmp_path / "b", 5.0, disturbed=tuple(range(12))))
    assert len(many.windows) == 18
    assert "12 of 18 windows were disturbed" in many.warnings[0]


def test_lost_answers_and_clocks_that_run_backwards_are_told(tmp_path):
    folder = edge_nodes.write(tmp_path, 8.0)

    def spoil(rows):
        for row in [row for row in rows if row["window"] == "3"][::2]:
            row["status"], row["ended"] = "503", ""
        rows[5]["computed"] = str(float(rows[5]["started"]) - 1.0)

    rewrite(folder, spoil)
    reported = read(folder)
    assert len(reported.windows) == 17
    assert any("window 3 is left out" in warning for warning in reported.warnings)
    assert any("times go backwards" in warning for warning in reported.warnings)


def test_what_cannot_be_used_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match=r"no windows\.csv"):
        read(tmp_path)
    folder = edge_nodes.write(tmp_path / "c", 4.0)
    for load, why in (("x", "'x' in column 'load' is no number"), ("", "lacks a number")):
        text = f"window,node,cores,concurrency,load,part,disturbed\n0,edge-1,1,1,{load},fit,0\n"
        (folder / "windows.csv").write_text(text)
        with pytest.raises(ScenarioError, match=why):
            read(folder)

    def nothing(rows):
        for row in rows:
            row["status"] = "0"

    folder = edge_nodes.write(tmp_path / "d", 4.0)
    rewrite(folder, nothing)
    with pytest.raises(ScenarioError, match="no window of the part 'fit'"):
        read(folder)


def test_another_measurement_may_judge(telemetry, tmp_path):
    other = read(edge_nodes.write(tmp_path, 20.0, seed=77), parts=())
    joined = telemetry.judged_by(other)
    assert {window.load for window in joined.of("held-back").windows} == {0.2, 0.35, 0.5, 0.65, 0.8}
    assert len(joined.of("fit").window) == len(telemetry.of("fit").window)
    of = edge.twin(joined)
    assert judge(of, truth(of)).figures()["mape_mean"] <= 0.05
    renamed = Telemetry(**{**columns(other), "service": np.full(len(other.service), "yolo")})
    with pytest.raises(ScenarioError, match=r"nothing was fitted that describes yolo"):
        telemetry.judged_by(renamed)


def columns(telemetry):
    return {name: getattr(telemetry, name) for name in Telemetry.__slots__}


def test_the_recording_is_predicted_far_better_than_before_calibration():
    (problem,) = edge.problems(RECORDING, {})
    of = edge.twin(read(RECORDING))
    answer = calibrate(problem, budget=Budget(runs=800, seconds=60.0), seed=1)
    values = np.array([estimate.value for estimate in answer.estimates])
    before, after = judge(of, problem.space.start).figures(), judge(of, values).figures()
    assert after["mape_mean"] < 0.6 * before["mape_mean"]
    assert after["mape_p95"] < 0.7 * before["mape_p95"]
    assert 0.80 <= after["coverage"] <= 0.97


def test_the_scenario_is_calibrated_from_the_command_line(tmp_path):
    words = ["calibrate", RECORDING.parent, "--runs", 500, "--json", "-q", "--no-report", "--out", tmp_path]
    done = cosim(*words, "--held-back", RECORDING)
    assert done.returncode == 0, done.stderr
    (overlay,) = tmp_path.rglob("*.calibration.yaml")
    values = YAML(typ="safe").load(overlay)["calibrated"]["edge"]["values"]
    assert float(values["resnet18.64"]["value"].split()[0]) == pytest.approx(0.079, rel=0.2)
    assert cosim(*words, "--held-back", tmp_path / "none").returncode == 2
