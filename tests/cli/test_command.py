"""`cosim command`: a run under way is found, asked what it takes, and steered."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing

import pytest
from typer.testing import CliRunner

from cosim import load as load_run
from cosim.cli.main import app
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.talk import control
from tests.unit.results.test_observed import LIMIT, ROOT

QUIET = ["run.duration=20 s", "run.pacing=1 x", "events=[]"]


@pytest.fixture
def running(tmp_path, monkeypatch):
    """Starts a run below the working directory; gives a caller of `cosim command`, and the run's outcome."""
    monkeypatch.delenv("COSIM_TOKEN", raising=False)
    plan = compile_plan(load(ROOT / "tests/scenarios/hello", QUIET))
    monkeypatch.chdir(tmp_path)
    outcomes = []

    def carry_out():
        outcomes.append(run_plan(plan, tmp_path / "runs", driver="loop", control=True))

    thread = threading.Thread(target=carry_out)
    thread.start()
    deadline = time.monotonic() + 4 * LIMIT  # its machine code may have to be compiled first
    while not list(tmp_path.glob(f"runs/*/*/logs/{control.FILE}")):
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)

    def command(*words, code=0):
        found = CliRunner().invoke(app, ["command", *words])
        assert found.exit_code == code, found.output
        return found.output

    def ended():
        thread.join(LIMIT)
        return outcomes[0]

    yield command, ended
    if thread.is_alive():
        command("stop")
        thread.join(LIMIT)


def test_a_run_is_found_and_steered(running, tmp_path):
    command, ended = running
    (file,) = tmp_path.glob(f"runs/*/*/logs/{control.FILE}")
    assert file.stat().st_mode & 0o777 == 0o600
    folder = file.parents[1]
    said = command()
    assert said == command("commands", "--run", str(folder))
    for words in ("set-scheduler", "jammer-on", "a name that `cosim schedulers` lists for continuum (needed)"):
        assert words in said
    assert "paused" in command("pause")
    assert "fail at north with the next step" in command("fail", "north", "for=2 s")
    assert "degrade at south/cloud with" in command("degrade", "loss=5 %", "south/cloud", "delay=20 ms")
    answer = json.loads(command("set-scheduler", "cloud", "--json"))
    assert (answer["event"]["do"], answer["interactive"]) == ("set-scheduler", True)
    assert "as fast as possible" in command("pace", "0")
    command("resume")
    outcome = ended()
    assert not file.exists()
    with closing(load_run(outcome.folder)) as run:
        kinds = [row[0] for row in run.sql("SELECT kind FROM events ORDER BY kind").fetchall()]
    assert kinds == ["degrade", "fail", "pace", "pause", "recover", "resume", "set-scheduler"]
    assert "no run under --control is under way below 'runs'" in command("state", code=2)


def test_what_is_refused_changes_nothing(running, monkeypatch):
    command, ended = running
    command("pause")
    for words, why in [
        (["fail", "nowhere"], "nothing is called 'nowhere'"),
        (["fail", "north", "south"], "'fail' has no place for 'south': write node=…"),
        (["fail", "north", "node=south"], "no place for 'north'"),
        (["fail", "node=south", "node=north"], "'node' is given twice"),
        (["pause", "now"], "no place for 'now'"),
        (["fail", "*", "for=[3"], "for"),  # no YAML is text
        (["explode"], "there is no command 'explode'; there are state, commands"),
        (["pace", "fast"], "a pace is a number"),
        (["state", "--token", "another"], "the token is wrong"),
        (["state", "--run", "nowhere"], "nowhere is no run under --control under way"),
        (["state", "--run", "tcp://127.0.0.1:9"], "must be in COSIM_TOKEN"),
    ]:
        assert why in command(*words, code=2)
        assert why in json.loads(command(*words, "--json", code=2))["error"]["message"]
    monkeypatch.setenv("COSIM_TOKEN", "of another run")  # that in the folder counts
    assert json.loads(command("state", "--json"))["interactive"] is False
    command("stop")
    assert ended().status == "partial"


def test_a_token_that_was_given_is_not_written(tmp_path):
    def act(_verb, _arguments):
        return {}

    with control.ControlSocket(act, "t0ken", verbs=("state",), folder=tmp_path, fresh=False) as socket:
        assert b"t0ken" not in (tmp_path / control.FILE).read_bytes()
        (tmp_path / "run/logs").mkdir(parents=True)
        (tmp_path / control.FILE).rename(tmp_path / "run/logs" / control.FILE)
        assert control.find(str(tmp_path / "run"), "t0ken") == (socket.address, "t0ken")
        with pytest.raises(Exception, match="COSIM_TOKEN"):
            control.find(str(tmp_path / "run"))


def test_a_run_that_was_killed_is_named_as_gone_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "runs/hello/one"
    for folder in ("logs", "frames"):
        (run / folder).mkdir(parents=True)
    with control.ControlSocket(lambda _verb, _arguments: {}, "t0ken", verbs=("state",), folder=run / "logs"):
        left = (run / "logs" / control.FILE).read_text()
    address = json.loads(left)["address"]
    (run / "logs" / control.FILE).write_text(left)  # as kill -9 leaves it
    (run / "frames/.lock").touch()
    for words in (["--run", str(run)], []):
        found = CliRunner().invoke(app, ["command", "state", *words])
        assert found.exit_code == 2
        assert f"{run if words else 'runs/hello/one'} is gone: its process was killed" in found.output.replace(
            "\n", " "
        )
    begun = time.monotonic()
    with pytest.raises(control.ControlError, match=f"nothing listens at {address}: the run there has ended"):
        control.command(address, "t0ken", "state", timeout=60.0)
    assert time.monotonic() - begun < 50.0
