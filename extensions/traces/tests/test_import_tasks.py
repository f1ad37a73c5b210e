"""`cosim import ... --model continuum`: tasks of a trace become a scenario of the task engine, or are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cosim.adapters.continuum import ADAPTER
from cosim.cli.main import app
from cosim.contract.adapter import Context, Inputs
from cosim.contract.errors import ScenarioError
from cosim.extensions.traces.importing.tasks import read, read_tasks
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.sources.importing.write import write_scenario

CLOCK = 2.6e9
REQUESTS = Path(__file__).parents[4] / "shared" / "data" / "cloud_traces" / "azure_llm_2023" / "code.csv.gz"


def event(time, task, kind, cpu="0.25"):
    """A row of task_events, time in s."""
    return f"{time * 1_000_000},,7,{task},1,{kind},u,0,0,{cpu},0.1,,\n"


# per source: the file, and (arrival, work) in core-seconds of each row that is expected
TASKS = {
    # a quarter of a machine of 8 cores for 10 s is 2 tasks of 10 core-seconds; the second never ends
    "google": (
        event(600, 0, 0) + event(601, 0, 1) + event(604, 1, 0) + event(605, 1, 1) + event(611, 0, 4),
        [(0.0, 10.0), (0.0, 10.0)],
    ),
    "azure": (  # created at 0 and 300 s, 2 cores in use by half for 600 s, 1 core by a tenth for 300 s
        "a,s,d,0,600,60,50,50,Interactive,2,8\nb,s,d,300,600,60,10,50,Unknown,1,2\n",
        [(0.0, 300.0), (0.0, 300.0), (300.0, 30.0)],
    ),
    "alibaba": (
        "M1,2,j_1,1,Terminated,100,160,50,0.3\nM1,1,j_2,1,Running,110,,100,\nR1,1,j_1,1,Terminated,130,135,40,\n",
        [(0.0, 60.0), (30.0, 2.0)],
    ),
    # the first release counts hundredths of a core; times of 0 and below are not within the trace
    "alibaba 2017": (
        "100,160,7,1,1,Terminated,100,0.005\n-5,40,7,2,1,Terminated,100,0.1\n130,140,8,1,2,Terminated,50,0.1\n",
        [(0.0, 60.0), (30.0, 10.0)],
    ),
    "alibaba 2017, cores": (
        "100,160,7,1,1,Terminated,1,0.005\n130,140,8,1,2,Terminated,0.5,0.1\n140,0,8,2,2,Waiting,0.5,0.1\n",
        [(0.0, 60.0), (30.0, 10.0)],
    ),
}


def cosim(*arguments):
    return CliRunner().invoke(app, ["import", *map(str, arguments)])


def run(file):
    """The ended tasks of a scenario, and the books."""
    plan = compile_plan(load(file))
    adapter = ADAPTER.build(ADAPTER.load_config()(**plan.adapters[0].config))
    root = str(file.parent)
    adapter.start(Context("continuum", plan.scene, plan.step, plan.duration, (1, 2), root, root))
    frames = [adapter.step(plan.time(tick), Inputs())[0] for tick in range(plan.ticks + 1)]
    return {name: np.concatenate([frame[name] for frame in frames]) for name in frames[0].columns}, adapter.finish()


@pytest.mark.parametrize("name", TASKS)
def test_tasks_of_a_trace_are_run(tmp_path, name):
    text, rows = TASKS[name]
    (tmp_path / "trace.csv").write_text(text)
    done = cosim(name.split()[0], tmp_path / "trace.csv", "--model", "continuum", "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert reported["rows"] == len(rows)
    assert reported["work"] == pytest.approx(sum(work for _, work in rows) * CLOCK)
    ended, books = run(tmp_path / "out" / "scenario.cosim.yaml")
    assert books["tasks"]["completed"] == books["tasks"]["created"] == len(rows)
    order = np.argsort(ended["task"])
    np.testing.assert_allclose(ended["created"][order], [time for time, _ in rows])
    np.testing.assert_allclose(ended["work"][order], [work * CLOCK for _, work in rows])
    # one core each, and nobody waits: there are hosts for the busiest time
    np.testing.assert_allclose((ended["computed"] - ended["started"])[order], [work for _, work in rows])


def test_jobs_whose_tasks_wait_for_one_another(tmp_path):
    # the example of the publishers' page on the trace, and what real files have beside it
    (tmp_path / "batch_task.csv").write_text(
        "M1,1,j_1,1,Terminated,100,160,100,0.3\nM2_1,2,j_1,1,Terminated,161,191,100,0.3\n"
        "M3_1,1,j_1,1,Terminated,161,171,100,0.3\nR4_2_Stg1,1,j_1,1,Terminated,192,196,100,0.3\n"
        "M5_3_4,1,j_1,1,Terminated,197,200,100,0.3\n"
        "task_Nzg3==,1,j_2,1,Terminated,150,155,100,0.3\nJ3_1_2,1,j_2,1,Terminated,156,160,100,0.3\n"
        "M1_2,1,j_3,1,Terminated,100,110,100,\nM2_1,1,j_3,1,Terminated,100,110,100,\n"
        "M1,1,j_4,1,Failed,100,110,100,\nM1,999,j_5,1,Terminated,100,110,100,\n"
    )
    options = "--model", "continuum", "--graphs", "--json"
    done = cosim("alibaba", tmp_path / "batch_task.csv", *options, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert (reported["jobs"], reported["tasks"]) == (2, 7)
    ignored = [notice["text"] for notice in reported["notices"] if notice["level"] == "ignored"]
    assert [text.split()[:2] for text in ignored] == [["1", "jobs"], ["1", "jobs"], ["1", "jobs"], ["2", "times"]]
    ended, books = run(tmp_path / "out" / "scenario.cosim.yaml")
    assert books["tasks"]["completed"] == 2
    order = np.argsort(ended["created"])
    np.testing.assert_allclose(ended["created"][order], [0.0, 50.0])
    # along the longest way, 1 ms to the first host and from the last; those that the second waits for are not there
    expected = [60.0 + 30.0 + 4.0 + 3.0 + 0.002, 5.0 + 0.002]
    np.testing.assert_allclose((ended["ended"] - ended["created"])[order], expected, atol=0.005)


def test_functions_and_requests(tmp_path):
    (tmp_path / "functions.txt").write_text("app,func,end_timestamp,duration\na,f,10,2\na,g,9,3.5\n")
    found = read("azure", tmp_path / "functions.txt")
    assert found.facts["work"] == pytest.approx(5.5 * CLOCK)
    requests = tmp_path / "requests.csv"
    requests.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04.5,10,2\n2023-11-16 18:17:03.5,100,1\n"
    )
    with pytest.raises(ScenarioError, match="--context-token"):
        read("azure", requests)
    options = ["--model", "continuum", "--context-token", "1 Mcycles", "--generated-token", "1 Gcycles", "--tasks", 1]
    done = cosim("azure", requests, *options, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    ended, _ = run(tmp_path / "out" / "scenario.cosim.yaml")
    assert ended["work"].tolist() == [1.1e9]
    options[3] = "1 km"
    assert cosim("azure", requests, *options, "--out", tmp_path / "out", "--force").exit_code == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("planetlab", "vm,t000\na,10\n"),
        ("bitbrains", "id,timestamp\n"),
        ("google", "0,300000000,3,1,5,0.2,0.1,0.1,0,0,0.1,0,0,0.4,0,1,1,1,0,\n"),
        ("azure", "0,a,1,30,10\n"),
        ("alibaba", "m_1,0,10,50,,,1,1,1\n"),
        ("alibaba", "39600,1,10,50,40,1.5,1.4,1.3\n"),
        ("alibaba", "c_1,m_1,0,10,50,1,1,1,1,1,1\n"),
    ],
)
def test_a_trace_of_utilisation_is_refused(tmp_path, name, text):
    (tmp_path / "trace.csv").write_text(text)
    done = cosim(name.split()[0], tmp_path / "trace.csv", "--model", "continuum", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "holds utilisation, no tasks" in done.stderr
    assert "--model datacentre" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [["--vms", 3], ["--tasks", 3, "--model", "datacentre"]])
def test_options_of_the_other_model_are_refused(tmp_path, options):
    (tmp_path / "trace.csv").write_text(TASKS["google"][0])
    model = [] if "--model" in options else ["--model", "continuum"]
    done = cosim("google", tmp_path / "trace.csv", "--out", tmp_path / "out", *model, *options)
    assert done.exit_code == 2
    assert "does not go with" in done.stderr


def test_what_cannot_be_run_is_said(tmp_path):
    (tmp_path / "trace.csv").write_text(event(600, 0, 0) + event(601, 0, 1))
    with pytest.raises(ScenarioError, match="no task has a known end"):
        read("google", tmp_path / "trace.csv")
    (tmp_path / "trace.csv").write_text("M1,100000,j_1,1,Terminated,100,160,100,0.3\n")
    with pytest.raises(ScenarioError, match="--tasks"):
        read("alibaba", tmp_path / "trace.csv")
    with pytest.raises(ScenarioError, match="no such file"):
        read("alibaba", tmp_path / "absent.csv")


@pytest.mark.skipif(not REQUESTS.exists(), reason="the trace is not there")
def test_requests_of_azure_arrive_when_they_did(tmp_path):
    imported = read("azure", REQUESTS, tasks=2000, per_token=(1e6, 5e7))
    ended, books = run(write_scenario(tmp_path / "out", imported))
    assert books["tasks"]["completed"] == 2000
    trace = read_tasks("azure", REQUESTS, tasks=2000, per_token=(1e6, 5e7))
    order = np.argsort(ended["task"])
    np.testing.assert_allclose(ended["created"][order], trace.arrival, atol=1e-9)
    np.testing.assert_allclose(ended["work"][order], trace.work, rtol=1e-15)


def test_tasks_outside_the_trace_are_left_out_by_name(tmp_path):
    (tmp_path / "trace.csv").write_text(TASKS["alibaba 2017"][0])
    texts = [one.text for one in read("alibaba", tmp_path / "trace.csv").notices]
    assert "1 tasks begin at 0 or before, outside the trace: they are left out" in texts
