"""A real run under control: its folder tells what was done to it."""

from __future__ import annotations

import re
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from cosim import load as load_run
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.talk.control import ControlError, command
from cosim.talk.publish import Subscriber

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 60.0
QUIET = ["run.duration=20 s", "run.pacing=1 x", "adapters={replay: {file: data/tracks.csv}}", "workloads={}"]


def steered(tmp_path, driver, changes=QUIET):
    """Starts a paced run in a thread; its outcome's list, and how to command and observe it."""
    plan = compile_plan(load(ROOT / "tests/scenarios/hello", changes))
    said, outcomes = [], []
    thread = threading.Thread(
        target=lambda: outcomes.append(run_plan(plan, tmp_path, driver=driver, control=True, say=said.append))
    )
    thread.start()
    deadline = time.monotonic() + LIMIT
    while not any("publishing" in line for line in said):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    address, token = re.search(r"commands at (\S+) with the token (\S+)", "\n".join(said)).groups()
    published = re.search(r"publishing frames at (\S+)", "\n".join(said)).group(1)
    return thread, outcomes, address, token, published


@pytest.mark.parametrize("driver", ["loop", "mosaik"])
def test_injected_events_are_recorded_and_mark_the_run(tmp_path, driver, monkeypatch):
    monkeypatch.delenv("COSIM_TOKEN", raising=False)
    thread, outcomes, address, token, published = steered(tmp_path, driver)
    with Subscriber(published) as watch:
        command(address, token, "pause")
        seen = None
        deadline = time.monotonic() + LIMIT
        while seen is None or not seen.state["paused"]:  # a run that stands still is still published
            seen = watch.latest(0.2) or seen
            assert time.monotonic() < deadline
        assert seen.scene["name"] == "hello"
        assert seen.state["control"] == address
        command(address, token, "inject", event={"do": "fail", "node": "south", "for": "2 s"})
        command(address, token, "pace", factor=0)
        command(address, token, "resume")
        thread.join(LIMIT)
        assert not thread.is_alive()
        while "ended" not in seen.state:  # what was published last comes at last
            seen = watch.latest(LIMIT)
            assert seen is not None
        assert seen.state["ended"] == "complete"
    (outcome,) = outcomes
    assert outcome.status == "complete"
    run = load_run(outcome.folder)
    assert run.manifest["interactive"] is True
    kinds = [row[0] for row in run.sql("SELECT kind FROM events ORDER BY time").fetchall()]
    assert sorted(kinds) == ["fail", "pace", "pause", "recover", "resume"]
    times = dict(run.sql("SELECT kind, time FROM events").fetchall())
    assert times["recover"] == pytest.approx(times["fail"] + 2.0)
    run.close()


def test_an_agent_outside_sets_the_scheduler_and_is_answered(tmp_path, monkeypatch):
    monkeypatch.delenv("COSIM_TOKEN", raising=False)
    changes = ["run.duration=20 s", "run.pacing=1 x", "events=[]"]
    thread, outcomes, address, token, _ = steered(tmp_path, "loop", changes)
    command(address, token, "pause")
    for verb, asked, why in [
        ("set-scheduler", {"scheduler": "fastest"}, "event.do: .*fastest"),
        ("scale", {"component": "weeds", "node": "north", "count": 1}, "only the scheduler 'mlsysops'"),
        ("degrade", {"link": "north/clowd", "loss": "5 %"}, "nothing is called 'clowd'"),
        ("engage", {"node": "uav"}, "there is no command 'engage'; .*set-scheduler"),  # no adapter flies
    ]:
        with pytest.raises(ControlError, match=why):
            command(address, token, verb, **asked)
    assert not command(address, token, "state")["interactive"]
    answer = command(address, token, "degrade", link="north/tier:cloud", delay="0.3 s")
    assert answer["event"] == {"do": "degrade", "nodes": [], "link": [["north"], ["cloud"]]}
    answer = command(address, token, "set-scheduler", scheduler="cloud")
    assert (answer["interactive"], answer["event"]["do"]) == (True, "set-scheduler")
    command(address, token, "pace", factor=0)
    command(address, token, "resume")
    thread.join(LIMIT)
    (outcome,) = outcomes
    with closing(load_run(outcome.folder)) as run:
        changed = run.sql("SELECT max(time) FROM events WHERE kind = 'set-scheduler'").fetchall()[0][0]
        hosts = run.sql(f"SELECT DISTINCT host FROM task WHERE created > {changed} AND host IS NOT NULL").fetchall()
        slow = run.sql(f"SELECT min(\"ended\" - created) FROM task WHERE created > {changed} AND host = 'cloud'")
        assert hosts == [("cloud",)]
        assert slow.fetchall()[0][0] > 2 * 0.02  # there and back over the wired links, whichever station serves


def test_a_stop_keeps_the_results(tmp_path, monkeypatch):
    monkeypatch.setenv("COSIM_TOKEN", "t0ken")
    plan = compile_plan(load(ROOT / "tests/scenarios/hello", QUIET))
    said, outcomes = [], []
    thread = threading.Thread(
        target=lambda: outcomes.append(run_plan(plan, tmp_path, driver="loop", control=True, say=said.append))
    )
    thread.start()
    while not any("commands" in line for line in said):
        time.sleep(0.01)
    assert "t0ken" not in "\n".join(said)
    command(re.search(r"commands at (\S+) ", "\n".join(said)).group(1), "t0ken", "stop")
    thread.join(LIMIT)
    assert outcomes[0].status == "partial"
    assert "a command" in str(outcomes[0].error)
