"""Several recordings of one system, tasks of a table made again, and exports of monitoring systems."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import cosim
from cosim.contract.errors import ScenarioError
from cosim.contract.reading.columns import stamps
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.sources.tables.table import read, time_column
from cosim.twin.scenario.study import study
from cosim.twin.telemetry.measured import factor_of

QUEUE = """\
apiVersion: cosim/v1
kind: Scenario
name: queue
run: {duration: 40 s, step: 1 s, seed: 5}
adapters:
  continuum: {scheduler: nearest, discipline: fcfs}
nodes:
  client: {kind: device}
  worker: {kind: edge, cpu: 1 x 1 GHz}
links:
  - {between: [client, worker], rate: 1 Gbit/s, delay: 2 ms}
workloads:
  ask: {from: client, arrivals: poisson RATE Hz, work: 60 Mcycles}
"""
BLOCK = """\
calibrate:
  recordings:
    low: {file: low.csv}
    mid: {file: mid.csv}
    high: {file: high.csv, settings: {run.duration: 45 s}}
  replay: {sizes: []}
  observed:
    response: {signal: task.response, between: [sent, answered]}
  held-back: {recordings: [high]}
  free:
    workloads.ask.work: {bounds: [30 Mcycles, 120 Mcycles]}
"""
RATES = {"low": 3, "mid": 8, "high": 13}


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of tasks per load, of a worker that takes 70 Mcycles; times since 1970, in ms."""
    folder = tmp_path_factory.mktemp("loads")
    for name, rate in RATES.items():
        file = folder / "made.cosim.yaml"
        file.write_text(QUEUE.replace("RATE", str(rate)), encoding="utf-8")
        truth = ["workloads.ask.work=70 Mcycles", f"run.seed={rate}"]
        run = cosim.load(run_plan(compile_plan(load(file, truth)), folder / "runs").folder)
        rows = run.sql("SELECT created, ended FROM task WHERE status = 'completed' ORDER BY created").fetchall()
        run.close()
        write(folder / f"{name}.csv", ["sent", "answered"], [[1.9e12 + 1e3 * a, 1.9e12 + 1e3 * b] for a, b in rows])
    (folder / "scenario.cosim.yaml").write_text(QUEUE.replace("RATE", "5") + BLOCK, encoding="utf-8")
    return folder


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])


def changed(loads: Path, tmp_path: Path, **changes: tuple[str, str]) -> Path:
    text = (loads / "scenario.cosim.yaml").read_text(encoding="utf-8")
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "scenario.cosim.yaml").write_text(text, encoding="utf-8")
    for name in RATES:
        (tmp_path / f"{name}.csv").write_bytes((loads / f"{name}.csv").read_bytes())
    return tmp_path


def test_loads_are_replayed_and_one_is_held_back(loads, tmp_path):
    problem = study(changed(loads, tmp_path, time=("between: [sent", "time: sent, between: [sent"),
                            again=("{sizes: []}", "{sizes: [], time: sent}")),
                    folder=tmp_path / "work", workers=1).problem  # fmt: skip
    assert set(problem.fit.observed) == {"low response", "mid response"}
    assert problem.held_back is not None
    assert set(problem.held_back.observed) == {"high response"}
    assert problem.deterministic  # the same tasks with the same work: paired
    for case in (problem.fit, problem.held_back):
        found = case.simulate(np.array([[70.0], [60.0]]), 1)
        for name, signal in case.observed.items():
            assert signal.paired
            np.testing.assert_allclose(found[name][0], signal.values, atol=2e-3)  # the table has no more digits
            assert np.abs(found[name][1] - signal.values).mean() > 5e-3


@pytest.mark.parametrize(
    ("unit", "reported"), [("W", "'W' is no unit of a signal in s"), ("fast", "unknown unit 'fast'")]
)
def test_a_unit_of_something_else_is_refused(unit, reported):
    with pytest.raises(ScenarioError, match=reported):
        factor_of(unit, "calibrate.observed.response.unit", "s")
    assert factor_of("ms", "calibrate.observed.response.unit", "s") == 1e-3
    assert factor_of("W", "calibrate.observed.power.unit", "W") == 1.0


def test_the_same_file_twice_is_told(loads, tmp_path):
    folder = changed(loads, tmp_path, time=("between: [sent", "time: sent, between: [sent"),
                     again=("{sizes: []}", "{sizes: [], time: sent}"))  # fmt: skip
    (folder / "mid.csv").write_bytes((folder / "low.csv").read_bytes())
    assert any("one is a copy" in w for w in study(folder, folder=tmp_path / "work", workers=1).problem.warnings)


def test_a_replay_without_times_is_refused(loads, tmp_path):
    with pytest.raises(ScenarioError, match="the table has no times"):
        study(changed(loads, tmp_path), folder=tmp_path / "work", workers=1)


PROMETHEUS = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {"metric": {"__name__": "power_watts", "instance": f"{node}:9100"}, "values": [[1.9e9 + k, str(3.0 + k)]
             for k in range(4)]} for node in ("gate-1", "gate-2")
        ],
    },
}  # fmt: skip
OTLP = {
    "resourceMetrics": [
        {
            "resource": {"attributes": [{"key": "host.name", "value": {"stringValue": node}}]},
            "scopeMetrics": [{"metrics": [{"name": "power_watts", "gauge": {"dataPoints": [
                {"timeUnixNano": str((1_900_000_000 + k) * 10**9), "asDouble": 3.0 + k} for k in range(4)]}}]}],
        }
        for node in ("gate-1", "gate-2")
    ]
}  # fmt: skip
TEXT = "# TYPE power_watts gauge\n" + "".join(
    f'power_watts{{node="gate-{n}"}} {3.0 + k} {1_900_000_000_000 + 1000 * k}\n' for n in (1, 2) for k in range(4)
)


@pytest.mark.parametrize("export", [PROMETHEUS, OTLP, TEXT], ids=["prometheus", "otlp", "text"])
def test_exports_are_read_as_tables(tmp_path, export: Mapping[str, object] | str):
    path = tmp_path / "export.json"
    path.write_text(export if isinstance(export, str) else json.dumps(export), encoding="utf-8")
    table = read(path)
    assert table.sparse
    assert set(table.column("node").tolist()) == {"gate-1", "gate-2"}
    assert table.column("power_watts").tolist() == [3.0, 4.0, 5.0, 6.0] * 2
    times = stamps(table.column("time"), "time")
    assert times.absolute
    assert times.seconds[:4].tolist() == [1.9e9, 1.9e9 + 1, 1.9e9 + 2, 1.9e9 + 3]


def test_spans_give_durations(tmp_path):
    span = {"name": "detect", "startTimeUnixNano": "1900000000000000000", "endTimeUnixNano": "1900000000250000000"}
    where = {"attributes": [{"key": "service.name", "value": {"stringValue": "worker"}}]}
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"resource": where, "scopeSpans": [{"spans": [span]}]}]}))
    table = read(path)
    assert table.column("duration").tolist() == [0.25]
    assert table.column("node").tolist() == ["worker"]


@pytest.mark.parametrize(
    ("cells", "seconds", "absolute"),
    [
        (["0.5", "2"], [0.5, 2.0], False),
        (["1900000000", "1900000001"], [1.9e9, 1.9e9 + 1], True),
        (["1900000000000", "1900000000500"], [1.9e9, 1.9e9 + 0.5], True),
        (["2030-03-17T17:46:40Z", "2030-03-17 17:46:41+00:00"], [1.9e9, 1.9e9 + 1], True),
    ],
)
def test_times_in_any_usual_form(cells, seconds, absolute):
    found = stamps(np.array(cells), "ts")
    assert found.absolute == absolute
    np.testing.assert_allclose(found.seconds, seconds)


def test_columns_of_times_are_found_by_their_names_and_commas_are_decimals(tmp_path):
    path = tmp_path / "power.csv"
    path.write_text("TS;node;power\n0,5;a;3,25\n1,5;a;4,5\n", encoding="utf-8")
    table = read(path)
    assert time_column(table, None) == "TS"
    assert table.column("power").astype(float).tolist() == [3.25, 4.5]


def test_the_units_of_an_export_count(tmp_path):
    def exported(*units):
        points = {"dataPoints": [{"timeUnixNano": "1900000000000000000", "asDouble": 3.0}]}
        metrics = [{"name": "rtt", "unit": unit, "gauge": points} for unit in units]
        path = tmp_path / "export.json"
        path.write_text(json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}))
        return read(path)

    assert [exported(unit).units for unit in ("ms", "By", "{requests}", "1")] == [{"rtt": "ms"}, {"rtt": "B"}, {}, {}]
    with pytest.raises(ScenarioError, match="'rtt' is in 's' and in 'ms'"):
        exported("s", "ms")
