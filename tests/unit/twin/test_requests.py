"""From tables of requests to the twin of a service."""

import csv
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from benchmarks.predictive import predictive
from cosim.contract.errors import RunError, ScenarioError
from cosim.scenario.load import load
from cosim.sources.tables.requests import requests
from cosim.testbed.measuring.loads import measure
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.models.station import ServiceStation
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.scenario.requests import scenario_of
from cosim.twin.scenario.study import study
from cosim.twin.search import Budget
from cosim.twin.space import Parameter, Space
from cosim.twin.telemetry.quantities import spacings

TRUTH = ServiceStation(1, False, 0.02, 0.4, 0.004)


def table(path, created, ended, names=("sent", "answered"), start=0.0):
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(names)
        out.writerows([f"{start + a:.6f}", f"{start + b:.6f}"] for a, b in zip(created, ended, strict=True))
    return path


def recorded(folder, loads, count=400, seed=2):
    random, paths = np.random.default_rng(seed), []
    for k, share in enumerate(loads):
        created = np.cumsum(random.exponential(1.0 / (share * TRUTH.capacity), count))
        ended = created + TRUTH.responses(created, random)
        paths.append(table(folder / f"load-{k}.csv", created, ended, start=1.7e9 + 1e4 * k))
    return paths


def test_spacings_are_the_service_times_of_a_server_that_is_busy():
    created = np.array([0.0, 1.0, 1.5, 9.0])
    ended = np.array([3.0, 5.0, 5.5, 9.5])
    found = spacings(created, ended - created)
    assert np.isnan(found[[0, 3]]).all()  # nobody was under way before them
    assert found[1:3].tolist() == [2.0, 0.5]
    late = spacings(created[::-1], (ended - created)[::-1])  # in any order
    assert np.array_equal(late[::-1], found, equal_nan=True)


def test_durations_and_units_in_names_say_the_same_as_two_times(tmp_path):
    created = np.cumsum(np.full(60, 0.1))
    took = np.linspace(0.01, 0.09, 60)
    plain = requests(table(tmp_path / "plain.csv", created, created + took))
    for names, first, second in (
        (("start_ms", "end_ms"), 1e3 * created, 1e3 * (created + took)),
        (("Sent (us)", "Answered (us)"), 1e6 * created, 1e6 * (created + took)),
        (("sent", "duration_ms"), created, 1e3 * took),
        (("created_ms", "elapsed"), 1e3 * created, took),
    ):
        found = requests(table(tmp_path / "other.csv", first, second, names))
        assert found.created == pytest.approx(plain.created, abs=2e-6)
        assert found.ended == pytest.approx(plain.ended, abs=2e-6)
    since_1970 = table(tmp_path / "other.csv", 1e3 * (1.7e9 + created), 1e3 * took, ("start_ms", "duration_ms"))
    assert requests(since_1970).created == pytest.approx(created - created[0], abs=2e-6)
    with pytest.raises(ScenarioError, match="the two times have different units"):
        requests(table(tmp_path / "mixed.csv", created, created + took, ("sent", "answered_ms")))
    with pytest.raises(ScenarioError, match=r"no column is called ended.*, nor duration"):
        requests(table(tmp_path / "none.csv", created, took, ("sent", "status")))


CAME, TOOK = np.cumsum(np.full(60, 0.25)), np.linspace(0.01, 0.09, 60)
SINCE_1970 = 1.9e9 + CAME


def dated(seconds, zone):
    return [datetime.fromtimestamp(one, UTC).strftime(f"%Y-%m-%dT%H:%M:%S.%f{zone}") for one in seconds]


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (
            ("timeStamp", "elapsed", "success"),
            ((1e3 * SINCE_1970).astype(int), 1e3 * TOOK, ["true"] * 60),
        ),  # JMeter
        (("response-time", "DNS", "status-code", "offset"), (TOOK, 0 * TOOK, ["200"] * 60, CAME)),  # hey
        (("startTimeMs", "durationMs"), (1e3 * SINCE_1970, 1e3 * TOOK)),
        (("Start Time", "End Time"), (dated(SINCE_1970, "Z"), dated(SINCE_1970 + TOOK, "+00:00"))),
    ],
)
def test_tables_of_load_generators_are_read_as_they_are(tmp_path, names, columns):
    path = tmp_path / "load.csv"
    path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in zip(*columns, strict=True))]))
    found = requests(path)
    assert np.diff(found.created) == pytest.approx(0.25, abs=2e-3)
    assert found.ended - found.created == pytest.approx(TOOK, abs=2e-6)


@pytest.mark.parametrize("outcome", ["success,true,false", "ok,1,0", "responseCode,200,503", "status-code,200,404"])
def test_requests_that_failed_are_left_out(tmp_path, outcome):
    name, good, bad = outcome.split(",")
    rows = [f"{a},{b},{bad if k % 6 == 0 else good}" for k, (a, b) in enumerate(zip(CAME, TOOK, strict=True))]
    path = tmp_path / "load.csv"
    path.write_text("\n".join([f"start,duration,{name}", *rows]))
    assert len(requests(path).created) == 50
    path.write_text("\n".join([f"start,duration,{name}", *(row.replace(f",{good}", f",{bad}") for row in rows)]))
    with pytest.raises(ScenarioError, match="every row is of a task that failed"):
        requests(path)


@pytest.mark.parametrize(
    ("names", "columns", "words"),
    [
        (("start", "duration"), (CAME, 1e3 * TOOK), r"a request took 50 s, .*as 'duration_ms'"),
        (("start", "duration"), (CAME, [f"{1e3 * one:.1f}ms" for one in TOOK]), "not numbers, such as '10.0ms'"),
        (("start", "end"), (dated(SINCE_1970, ""), dated(SINCE_1970, "Z")), "'start' names no time zone, and 'end'"),
        (("start", "end"), (SINCE_1970, CAME), "do not count from the same time"),
    ],
)
def test_durations_of_no_unit_and_clocks_that_differ_are_refused(tmp_path, names, columns, words):
    path = tmp_path / "load.csv"
    path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in zip(*columns, strict=True))]))
    with pytest.raises(ScenarioError, match=words):
        requests(path)


def k6(path, ends, took):
    """What `k6 run --out csv=FILE` writes: a row for each metric of a request, at its end."""
    rows = ["metric_name,timestamp,metric_value,expected_response,status"]
    for end, each in zip(ends, took, strict=True):
        rows += [f"http_reqs,{end:.6f},1,true,200", f"http_req_duration,{end:.6f},{1e3 * each:.6f},true,200"]
        rows += [f"iteration_duration,{end:.6f},{1e3 * each + 1:.6f},,"]
    path.write_text("\n".join([*rows, ""]), encoding="utf-8")
    return path


def test_k6_stamps_requests_when_they_end(tmp_path):
    found = requests(k6(tmp_path / "load.csv", SINCE_1970 + TOOK, TOOK))
    assert found.created == pytest.approx(CAME - CAME[0], abs=1e-5)
    assert found.ended - found.created == pytest.approx(TOOK, abs=1e-5)
    with pytest.raises(ScenarioError, match=r"whole seconds.*K6_CSV_TIME_FORMAT"):
        requests(k6(tmp_path / "coarse.csv", np.floor(SINCE_1970 + TOOK), TOOK))


@pytest.mark.slow
def test_requests_that_meet_no_other_make_a_scenario_without_spacings(tmp_path):
    tables = [k6(tmp_path / f"{name}.csv", 1.9e9 + rate * CAME + TOOK, TOOK) for name, rate in (("a", 2.0), ("b", 1.0))]
    own = scenario_of(tmp_path / "own", tables)
    assert set(load(own.scenario).scenario.calibrate.observed) == {"response"}
    assert study(own.scenario, folder=tmp_path / "work").problem.fit.observed


def test_what_did_not_end_spaces_nothing():
    found = spacings(np.array([0.0, 1.0, 2.0]), np.array([3.0, np.nan, 2.5]))
    assert np.isnan(found[:2]).all()
    assert found[2] == 1.5


@pytest.mark.slow
def test_a_third_load_lies_in_the_band_that_two_others_give(tmp_path):
    own = scenario_of(tmp_path / "own", recorded(tmp_path, (0.3, 0.55, 0.75)))
    assert own.identified.station.servers == 1
    assert np.allclose(own.loads, (0.3, 0.55, 0.75), atol=0.16)
    problem = study(own.scenario, folder=tmp_path / "work").problem
    answer = calibrate(problem, budget=Budget(1500))
    assert problem.held_back is not None
    rows = {(row["signal"], row["figure"]): row for row in predictive(problem.held_back, answer, count=60)}
    for figure in ("mean", "p95"):
        row = rows["load-2 response", figure]
        assert row["inside"], row
    assert abs(rows["load-2 response", "mean"]["off"]) < 0.25  # the mean of 400 requests scatters by 15 % at 75 % load


def test_draws_vary_by_what_differs_from_time_to_time():
    random = np.random.default_rng(1)
    observed = {"wait": MeasuredSignal(random.exponential(2.0, 300), "s")}

    def waits(values, seed):
        return {"wait": values[:, :1] * np.random.default_rng(seed).exponential(1.0, 300)}

    spreads = []
    for varies in (0.0, 0.3):
        space = Space([Parameter("mean", 0.5, 8.0, unit="s", scale="log", varies=varies)])
        answer = calibrate(CalibrationProblem("waits", space, Case(observed, waits)), budget=Budget(1500))
        spreads.append(float(np.std(np.log(np.array(answer.draws)[:, 0]))))
    assert 0.03 < spreads[0] < 0.1
    assert 0.25 < spreads[1] < 0.5


def test_columns_and_times_are_found_by_their_usual_names(tmp_path):
    times = np.arange(50.0)
    found = requests(table(tmp_path / "a.csv", times, times + 0.1, ("Start", "End"), start=1.7e9))
    assert (found.came, found.answered) == ("Start", "End")
    assert found.created[0] == 0.0
    assert found.rate == pytest.approx(1.0)


def test_tables_that_tell_nothing_are_refused(tmp_path):
    times = np.arange(50.0)
    with pytest.raises(ScenarioError, match="no column is called"):
        requests(table(tmp_path / "a.csv", times, times + 0.1, ("from", "to")))
    with pytest.raises(ScenarioError, match="0 requests have an answer"):
        requests(table(tmp_path / "b.csv", times, times - 0.1))
    paths = [
        table(tmp_path / f"{k}.csv", rate * times, rate * times + 0.1) for k, rate in enumerate((1, 1.01, 1.02, 1))
    ]
    with pytest.raises(ScenarioError, match="one is a copy"):
        scenario_of(tmp_path / "own", paths)
    with pytest.raises(ScenarioError, match="same load"):
        scenario_of(tmp_path / "own", paths[:3])
    with pytest.raises(ScenarioError, match="every table is held back"):
        scenario_of(tmp_path / "own", paths[:1])


def test_what_is_no_address_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match="no address"):
        measure(tmp_path, url="localhost:8080")
    with pytest.raises(RunError, match="answered 0 of"):
        measure(tmp_path, url="http://127.0.0.1:9/")


class Sleeping(BaseHTTPRequestHandler):
    """Takes 10 ms."""

    def do_GET(self):
        time.sleep(0.01)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_args):
        pass


@pytest.mark.slow
@pytest.mark.clock
def test_a_service_of_one_s_own_is_measured_over_http(tmp_path):
    class Server(HTTPServer):
        request_queue_size = 200

    with Server(("127.0.0.1", 0), Sleeping) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            found = measure(tmp_path, url=f"http://127.0.0.1:{server.server_address[1]}/", seconds=3.0, busy=True)
        finally:
            server.shutdown()
            thread.join()
    own = scenario_of(tmp_path, found.tables)
    assert load(own.scenario).scenario.calibrate is not None
    assert 20.0 < found.rates[-1] / found.loads[-1] < 110.0  # a second: 100 but for what a request takes besides
    assert own.identified.station.capacity < 130.0
    assert [one.load for one in found.again] == [0.8]
    assert 0.01 < found.again[0].mean < found.again[0].p95


def test_what_a_table_of_requests_hides_is_noted(tmp_path):
    """Kinds of requests as k6, proxies and tracers name them, answers before their requests, rows written twice."""
    rows = [f"{0.1 * k},{0.1 * k + (0.02 if k % 10 else -0.02)},{'/a' if k % 2 else '/b'},{k}" for k in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["sent,ended,endpoint,name", *rows, *rows[1:20], ""]))
    found = requests(tmp_path / "t.csv")
    assert len(found.created) == 90
    assert found.notes == (
        "11 rows have an answer before the request; they are left out",
        "18 rows are equal to others in every cell: they are taken once",
        "requests of 2 kinds ('endpoint') are taken as one service: /a, /b",
    )
