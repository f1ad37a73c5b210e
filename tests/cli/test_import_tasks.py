"""`cosim import ... --model continuum`: tasks of a trace become a scenario of the task engine, or are refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from adapters.continuum import ADAPTER
from cosim.cli.main import app
from cosim.contract.adapter import Context, Inputs
from cosim.contract.errors import ScenarioError
from cosim.importing.tasks import read, read_tasks
from cosim.importing.write import write_scenario
from cosim.plan.compile import compile_plan
from cosim.scenario.load import load

CLOCK = 2.6e9
REQUESTS = Path(__file__).parents[3] / "shared" / "data" / "cloud_traces" / "azure_llm_2023" / "code.csv.gz"


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
    done = cosim(name, tmp_path / "trace.csv", "--model", "continuum", "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["rows"] == len(rows)
    assert told["work"] == pytest.approx(sum(work for _, work in rows) * CLOCK)
    ended, books = run(tmp_path / "out" / "scenario.cosim.yaml")
    assert books["tasks"]["completed"] == books["tasks"]["created"] == len(rows)
    order = np.argsort(ended["task"])
    np.testing.assert_allclose(ended["created"][order], [time for time, _ in rows])
    np.testing.assert_allclose(ended["work"][order], [work * CLOCK for _, work in rows])
    # one core each, and nobody waits: there are hosts for the busiest time
    np.testing.assert_allclose((ended["computed"] - ended["started"])[order], [work for _, work in rows])


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
        ("alibaba", "c_1,m_1,0,10,50,1,1,1,1,1,1\n"),
    ],
)
def test_a_trace_of_utilisation_is_refused(tmp_path, name, text):
    (tmp_path / "trace.csv").write_text(text)
    done = cosim(name, tmp_path / "trace.csv", "--model", "continuum", "--out", tmp_path / "out")
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
