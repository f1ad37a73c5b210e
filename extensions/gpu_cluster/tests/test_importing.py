"""Traces of GPU clusters, in the forms in which they are published."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cosim
from cosim.contract.errors import ScenarioError
from cosim.extensions.gpu_cluster.cluster.table import read_jobs
from cosim.extensions.gpu_cluster.importing import read as make
from cosim.extensions.gpu_cluster.traces import read
from cosim.sources.importing.write import write_scenario

PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-09-07 03:58:57,30.0,1,30.0,a\n"
    "2017-09-07 03:58:27,50.0,8,400.0,b\n"
)
HELIOS = (
    "job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "1,u,v,j,16,4,2,COMPLETED,2020-05-01 00:00:00,2020-05-01 00:00:10,2020-05-01 00:01:10,60,10\n"
    "2,u,v,j,0,4,1,COMPLETED,2020-05-01 00:00:05,2020-05-01 00:00:10,2020-05-01 00:01:10,60,5\n"
)
ALIBABA = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p1,12000,16384,1,460,,LS,Running,100,400,150\np2,6000,12288,8,1000,,LS,Running,40,100,40\n"
    "p3,6000,12288,0,0,,LS,Running,50,100,50\np4,6000,12288,1,1000,,LS,Running,60,,\n"
)
DAY = "2017-10-09"
LOG = [
    {
        "submitted_time": f"{DAY} 07:02:34",
        "attempts": [
            {
                "start_time": f"{DAY} 07:03:00",
                "end_time": f"{DAY} 07:04:00",
                "detail": [{"ip": "m", "gpus": ["1", "2"]}],
            },
            {"start_time": f"{DAY} 07:05:00", "end_time": f"{DAY} 07:05:30", "detail": [{"ip": "m", "gpus": ["1"]}]},
        ],
    },
    {"submitted_time": f"{DAY} 07:00:34", "attempts": []},
]


@pytest.mark.parametrize(
    ("source", "text", "arrival", "duration", "gpus", "milli"),
    [
        ("philly", PHILLY, [0.0, 30.0], [50.0, 30.0], [8, 1], [1000, 1000]),
        ("philly", json.dumps(LOG), [0.0], [90.0], [2], [1000]),
        ("helios", HELIOS, [0.0], [60.0], [16], [1000]),
        ("alibaba", ALIBABA, [0.0, 60.0], [60.0, 250.0], [8, 1], [1000, 460]),
    ],
)
def test_published_forms(tmp_path, source, text, arrival, duration, gpus, milli):
    path = tmp_path / "trace"
    path.write_text(text)
    trace = read(source, path)
    assert trace.arrival.tolist() == arrival
    assert trace.duration.tolist() == duration
    assert trace.extra["gpus"].tolist() == gpus
    assert trace.extra["gpu_milli"].tolist() == milli
    scenario = write_scenario(tmp_path / "made", make(source, path))
    jobs = read_jobs(scenario.parent / "jobs.parquet", {"llm": 1.0})
    assert jobs.gpus.tolist() == gpus
    assert np.array_equal(jobs.arrival, arrival)


def test_the_law_of_a_trace_is_a_scenario_that_draws_as_many_jobs(tmp_path):
    rows = [f"2017-10-01 {k // 60 % 24:02}:{k % 60:02}:00,{60 + k % 7},{1 + 7 * (k % 5 == 0)}" for k in range(400)]
    path = tmp_path / "trace"
    path.write_text("\n".join(["timestamp,duration,num_gpus", *rows]))
    scenario = write_scenario(tmp_path / "made", make("philly", path, law=True))
    assert sorted(file.name for file in scenario.parent.iterdir()) == ["scenario.cosim.yaml"]
    run = cosim.run(scenario, out=tmp_path / "runs").folder
    found = cosim.load(run).sql("SELECT gpus, ended - started AS lasted FROM job").fetchnumpy()
    assert len(found["gpus"]) == 400
    assert set(found["gpus"].tolist()) == {1.0, 8.0}
    assert np.mean(found["gpus"] == 8.0) == pytest.approx(0.2, abs=0.08)
    assert found["lasted"].min() > 59.9
    path.write_text("timestamp,duration,num_gpus\n2017-10-01,5,1\n")
    with pytest.raises(ScenarioError, match="no law fits jobs that all come at once"):
        make("philly", path, law=True)


@pytest.mark.parametrize(
    ("source", "text", "said"),
    [
        ("philly", "timestamp,duration,num_gpus\nyesterday,1,1\n", r"trace:2: 'yesterday' is no time"),
        ("philly", "timestamp,duration\n2017-01-01,1\n", "no column 'num_gpus'"),
        ("philly", '[{"attempts": []}]', "job 0 is not as in the published log"),
        ("helios", HELIOS.replace(",16,", ",-1,"), r"trace:2: column 'gpu_num' is -1"),
        ("alibaba", ALIBABA.replace("460", "1460"), r"trace:2: column 'gpu_milli' is 1460"),
        ("philly", "timestamp,duration,num_gpus\n2017-01-01,0,1\n", "holds no job"),
    ],
)
def test_bad_files_are_named_with_their_line(tmp_path, source, text, said):
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=said):
        read(source, path)


@pytest.mark.parametrize("word", [None, "", "None", "null", "NaN"])
def test_what_the_publishers_write_for_no_time_leaves_a_job_out_by_name(tmp_path, word):
    """As in the notebook that comes with the trace, whose parse_date takes null, '' and 'None' for no time."""
    detail = [{"ip": "m1", "gpus": ["gpu0"]}]

    def job(start, end, submitted="2017-10-01 00:00:00"):
        return {"submitted_time": submitted, "attempts": [{"start_time": start, "end_time": end, "detail": detail}]}

    whole = job("2017-10-01 00:01:00", "2017-10-01 00:02:00")
    path = tmp_path / "log.json"
    path.write_text(
        json.dumps([whole, job(word, word), job("2017-10-01 00:01:00", word), whole | {"submitted_time": word}])
    )
    found = read("philly", path)
    assert found.duration.tolist() == [60.0]
    assert found.left_out == (
        "2 attempts have no start and later end: they count as no time",
        "1 of 4 jobs have no time of submission: they are left out",
        "2 of 4 jobs never ran from a start to a later end: they are left out",
    )


def test_a_zone_in_a_cell_counts(tmp_path):
    path = tmp_path / "trace"
    path.write_text("timestamp,duration,num_gpus\n2017-10-01 08:00:00+08:00,5,1\n2017-10-01 00:00:30,None,1\n")
    found = read("philly", path)
    assert found.start == 1506816000.0
    assert len(found.left_out) == 1


def test_jobs_that_the_log_has_twice_count_once(tmp_path):
    path = tmp_path / "trace"
    one = {**LOG[0], "jobid": "application_1"}
    path.write_text(json.dumps([one, one, {**LOG[0], "jobid": "application_2"}]))
    found = read("philly", path)
    assert len(found) == 2
    assert found.left_out == ("1 jobs have the id of one before: they are left out",)


@pytest.mark.parametrize(("source", "text"), [("helios", HELIOS), ("alibaba", ALIBABA)])
def test_rows_of_one_job_count_once(tmp_path, source, text):
    path = tmp_path / "trace"
    path.write_text(text)
    once = read(source, path)
    path.write_text(text + text.partition("\n")[2])
    twice = read(source, path)
    assert twice.arrival.tolist() == once.arrival.tolist()
    assert [one for one in twice.left_out if "have the id of one before" in one]


def test_milliseconds_are_not_taken_for_seconds(tmp_path):
    path = tmp_path / "trace"
    path.write_text(ALIBABA.partition("\n")[0] + "\n")
    row = dict.fromkeys(ALIBABA.partition("\n")[0].split(","), "1") | {"creation_time": "1585699200000"}
    path.write_text(path.read_text() + ",".join(row.values()) + "\n")
    with pytest.raises(ScenarioError, match="column 'creation_time' is 1"):
        read("alibaba", path)
