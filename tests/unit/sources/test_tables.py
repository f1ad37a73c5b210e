"""Exports of monitoring systems and of load generators: every source apart, and what is left out counted."""

import json

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.sources.tables.requests import requests
from cosim.sources.tables.table import read

HEAD = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,success,URL"


def jmeter(path, *, threads=5, rounds=10, message=True, stamp=str, own=0, head=HEAD):
    """Threads that ask twice and pay, each round as a transaction of its own: its row follows its three parts."""
    lines = [head]
    for thread in range(threads):
        at = 1893456000000 + 7 * thread
        for _ in range(rounds):
            first = at
            for label, took in (("ask", 40), ("ask", 60), ("pay", 80)):
                lines.append(f"{stamp(at)},{took},{label},200,OK,tg 1-{thread},true,http://x/")
                at += took
            words = '"Number of samples in transaction : 3, number of failing samples : 0"' if message else "OK"
            lines.append(f"{stamp(first)},{at - first + own},checkout,200,{words},tg 1-{thread},true,null")
            at += 100 + own
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def dated(ms):
    return np.datetime64(ms, "ms").item().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]


@pytest.mark.parametrize("how", [{}, {"message": False}, {"own": 5}, {"stamp": dated}, {"message": False, "own": 5}])
def test_sums_of_requests_are_left_out(tmp_path, how):
    found = requests(jmeter(tmp_path / "a.csv", **how))
    assert len(found.created) == 150
    assert (found.ended - found.created).mean() == pytest.approx(0.06, abs=1e-6)
    assert found.notes[0] == "50 rows that are sums of others (transactions 'checkout') are left out"
    assert "ask, pay" in found.notes[1]


def test_a_table_of_xml_is_named(tmp_path):
    (tmp_path / "a.jtl").write_text('<?xml version="1.0"?><testResults/>', encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"is XML, no table.*output_format=csv"):
        read(tmp_path / "a.jtl")


K6 = "metric_name,timestamp,metric_value,expected_response,status,extra_tags,metadata"


@pytest.mark.parametrize("stamp", ["2030-01-01T00:00:01Z", "2030-01-01T02:00:01.000000000+02:00", "1893456001"])
def test_k6_writes_times_in_several_ways(tmp_path, stamp):
    (tmp_path / "a.csv").write_text(f"{K6}\nhttp_reqs,{stamp},1,true,200,,\nvus,{stamp},3,,,\n", encoding="utf-8")
    found = read(tmp_path / "a.csv")
    assert found.column("time").tolist() == [1893456001.0, 1893456001.0]
    assert found.column("vus")[1] == 3.0
    assert found.left_out == ("1 rows with fewer cells than the header, whose last ones are taken as empty",)


def prometheus(path, result, kind="matrix"):
    path.write_text(json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}))
    return path


GAUGE = {"metric": {"__name__": "watts", "instance": "a:9100"}, "values": [[1893456000, "5"], [1893456001.5, "NaN"]]}
OTHER = {"metric": {"__name__": "watts", "instance": "b:9100", "domain": "dram"}, "values": [[1893456000, "7"]]}
NATIVE = {"metric": {"__name__": "seconds"}, "histograms": [[1893456000, {"count": "2", "sum": "3", "buckets": []}]]}


def test_series_of_prometheus_stay_apart_and_histograms_are_counted(tmp_path):
    found = read(prometheus(tmp_path / "a.json", [GAUGE, OTHER, NATIVE, {"metric": {"__name__": "none"}}]))
    assert found.column("node").tolist() == ["a", "a", "b"]
    assert found.column("domain").tolist() == ["", "", "dram"]
    assert found.column("watts")[[0, 2]].tolist() == [5.0, 7.0]
    assert found.left_out == (
        "1 series of native histograms (seconds) are left out",
        "1 series without values (none) are left out",
    )


def test_whole_answers_without_series_are_read_or_refused(tmp_path):
    found = read(prometheus(tmp_path / "a.json", [1893456000, "5"], "scalar"))
    assert found.column("value").tolist() == [5.0]
    with pytest.raises(ScenarioError, match="no values that can be taken: 1 series of native histograms"):
        read(prometheus(tmp_path / "a.json", [NATIVE]))
    with pytest.raises(ScenarioError, match="cannot be read"):
        read(prometheus(tmp_path / "a.json", [5]))


def otlp(**metric):
    own = {"attributes": [{"key": "host.name", "value": {"stringValue": "edge-1"}}]}
    return {"resourceMetrics": [{"resource": own, "scopeMetrics": [{"metrics": [{"name": "load", **metric}]}]}]}


POINTS = {"dataPoints": [{"asInt": "5", "timeUnixNano": "1893456000000000000"}, {"asDouble": 7.0}]}


@pytest.mark.parametrize("form", [lambda one: [one], lambda one: one])
def test_otlp_may_be_a_list_and_lack_what_is_optional(tmp_path, form):
    (tmp_path / "a.json").write_text(json.dumps(form(otlp(gauge=POINTS, histogram=POINTS))))
    found = read(tmp_path / "a.json")
    assert found.column("load").tolist() == [5.0]
    assert found.column("node").tolist() == ["edge-1"]
    assert found.left_out == (
        "2 points of histogram 'load' are left out",
        "1 points of 'load' without timeUnixNano are left out",
    )


def test_openmetrics_counts_seconds_and_the_older_format_milliseconds(tmp_path):
    (tmp_path / "a.prom").write_text('# TYPE up gauge\nup{instance="a:1"} 1 1893456000000\n')
    (tmp_path / "b.prom").write_text('# TYPE up gauge\nup{instance="a:1"} 1 1893456000.5 # {trace="x"} 1\n# EOF\n')
    assert read(tmp_path / "a.prom").column("time").tolist() == [1893456000.0]
    assert read(tmp_path / "b.prom").column("time").tolist() == [1893456000.5]


def test_a_counter_that_begins_again_is_noted_by_series(tmp_path):
    series = [
        {
            "metric": {"__name__": "joules_total", "instance": name},
            "values": [[1893456000 + k, str(v)] for k, v in rows],
        }
        for name, rows in (("a", enumerate([5, 7, 1, 2])), ("b", enumerate([1, 2, 3, 4])))
    ]
    found = read(
        prometheus(tmp_path / "a.json", [*series, {**GAUGE, "values": [[1893456000, "5"], [1893456001, "4"]]}])
    )
    assert found.left_out == ("1 falls of 'joules_total', whose counter began again: its values are totals since then",)
