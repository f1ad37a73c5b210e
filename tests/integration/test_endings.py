"""An adapter dies: the run says who, when and why, keeps what there is, and leaves nothing running."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from cosim.contract.errors import AdapterError, RunError, ScenarioError, SetupError
from cosim.results.session import Driver, Outcome, run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from tests.integration import reactor

psutil = pytest.importorskip("psutil")

pytestmark = pytest.mark.chaos


@pytest.fixture
def temporary(monkeypatch):
    """Where the run's own temporary folders go; a short path, since there are sockets in them."""
    folder = tempfile.mkdtemp(prefix="endings-")
    monkeypatch.setattr(tempfile, "tempdir", folder)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def nothing_left_running():
    """What a test starts has ended with it; what others have left to this process (trackers, pools) may stay."""
    others = set(psutil.Process().children(recursive=True))
    yield
    assert not set(psutil.Process().children(recursive=True)) - others


@pytest.fixture
def run(tmp_path, temporary):
    """Runs the victim; whatever happens, nothing may be left of the run but its folder."""

    def act(driver: Driver = "loop", **choices: object) -> Outcome:
        plan = compile_plan(load(reactor.write(tmp_path / "scenario", **choices)))
        outcome = run_plan(plan, tmp_path / "runs", driver=driver)
        assert list(temporary.iterdir()) == []
        assert not list(outcome.folder.rglob("*.arrows"))
        return outcome

    return act


def assert_partial(outcome: Outcome, phase: str, ticks: int) -> str:
    """The error's text; the folder says the same and can be read and reported."""
    written = reactor.manifest(outcome.folder)
    assert outcome.status == written["status"] == "partial"
    assert written["error"]["message"] == str(outcome.error)
    assert (written["error"]["adapter"], written["error"]["phase"]) == ("reactor", phase)
    assert written["ticks_done"] == ticks
    assert written["ended"]
    assert len(reactor.rows(outcome.folder)) == 3 * ticks
    reactor.assert_can_be_reported(outcome.folder)
    assert str(outcome.error) in (outcome.folder / "logs" / "run.log").read_text()
    return str(outcome.error)


TICKS = {"build": 0, "start": 0, "step": 2, "finish": 6}  # finished before something happens there


def test_nothing_happens(run):
    outcome = run()
    assert (outcome.status, outcome.error) == ("complete", None)
    assert len(reactor.rows(outcome.folder, "load")) == 18
    assert reactor.manifest(outcome.folder)["adapters"][1]["summary"]["steps"] == 6


@pytest.mark.parametrize("driver", ["loop", "mosaik"])
@pytest.mark.parametrize("isolated", ["true", "false"])
@pytest.mark.parametrize("at", ["start", "step", "finish"])
def test_an_exception_names_the_adapter_and_the_phase(run, driver, isolated, at):
    outcome = run(driver, isolated=isolated, do="raise", at=at)
    text = assert_partial(outcome, at, TICKS[at])
    assert isinstance(outcome.error, AdapterError)
    assert outcome.error.exit_code == 1
    assert f"adapter 'reactor' failed in {at}" in text
    assert "ValueError: the reactor is too hot" in text
    assert "in explode" in reactor.manifest(outcome.folder)["error"]["traceback"]


@pytest.mark.parametrize("driver", ["loop", "mosaik"])
@pytest.mark.parametrize(("do", "why"), [("kill", "was killed by SIGKILL"), ("_exit", "has ended with exit code 4")])
@pytest.mark.parametrize("at", ["build", "start", "step", "finish"])
def test_a_death_is_noticed_at_once(run, driver, do, why, at):
    if driver == "mosaik" and (do, at) not in (("kill", "start"), ("kill", "step"), ("kill", "finish")):
        pytest.skip("the drivers differ in nothing else")
    outcome = run(driver, do=do, at=at, timeout=300)
    text = assert_partial(outcome, "start" if at == "build" else at, TICKS[at])
    assert isinstance(outcome.error, AdapterError)
    assert outcome.error.exit_code == 1
    assert f"the run waited {outcome.wall_seconds:.0f}"[:14] in text
    assert f"({reactor.VICTIM}) to answer" in text
    assert why in text
    assert outcome.wall_seconds < 150.0  # it did not wait for the limit


@pytest.mark.clock
@pytest.mark.parametrize("driver", ["loop", "mosaik"])
@pytest.mark.parametrize(
    ("do", "at"), [("hang", "build"), ("hang", "start"), ("hang", "step"), ("hang", "finish"), ("stop", "step")]
)
def test_a_hang_ends_at_the_limit(run, driver, do, at):
    if driver == "mosaik" and (do, at) != ("hang", "step"):
        pytest.skip("the drivers differ in nothing else")
    outcome = run(driver, do=do, at=at, timeout=5)
    text = assert_partial(outcome, "start" if at == "build" else at, TICKS[at])
    assert "the run waited 5" in text
    assert "the process is alive" in text
    assert "(limit: run.timeout)" in text
    assert outcome.error is not None
    assert outcome.error.exit_code == 1


@pytest.mark.clock
@pytest.mark.parametrize("do", ["raise", "kill", "hang against SIGTERM"])
def test_trouble_at_close_keeps_the_results(run, do):
    outcome = run(do=do, at="close", timeout=5)
    assert len(reactor.rows(outcome.folder)) == 18
    assert reactor.manifest(outcome.folder)["adapters"][1]["summary"]["steps"] == 6
    assert "failed in close" in str(outcome.error)
    assert outcome.status == "partial"


@pytest.mark.parametrize("isolated", ["true", "false"])
@pytest.mark.parametrize(
    ("do", "tick", "why"),
    [
        ("float32", 1, "load.double must be float64, not float32"),
        ("ragged", 3, "load.double has"),
        ("no frame", 3, "frame"),
        ("lists", 1, "load.double must be a numpy array"),
    ],
)
def test_a_wrong_frame_is_refused(run, isolated, do, tick, why):
    outcome = run(isolated=isolated, do=do, tick=tick)
    text = assert_partial(outcome, "step", tick - 1)
    assert f"adapter 'reactor' failed in step at {tick - 1} s" in text
    assert why in text.lower()


@pytest.mark.parametrize("isolated", ["true", "false"])
def test_something_not_installed_is_for_the_user_to_change(run, isolated, tmp_path):
    with pytest.raises(SetupError, match="install the reactor first") as refused:
        run(isolated=isolated, do="refuse", at="start")
    assert refused.value.exit_code == 2
    assert not list((tmp_path / "runs").rglob("manifest.json"))  # nothing has happened


@pytest.mark.parametrize("isolated", ["true", "false"])
@pytest.mark.parametrize("at", ["start", "step", "finish"])
def test_an_adapter_that_leaves_python_does_not_take_the_run_along(run, at, isolated):
    outcome = run(isolated=isolated, do="exit", at=at)
    text = assert_partial(outcome, at, TICKS[at])
    assert "SystemExit" in text


@pytest.mark.parametrize("isolated", ["true", "false"])
def test_a_summary_that_is_no_json_is_the_adapters_error(run, isolated):
    outcome = run(isolated=isolated, do="unserialisable summary", at="finish")
    text = assert_partial(outcome, "finish", 6)
    assert "summary.deep.set is a set" in text


def test_a_chain_of_processes_goes_with_its_adapter(run):
    outcome = run(do="grandchild, then kill")
    assert_partial(outcome, "step", 2)
    pid = int((outcome.folder / "logs" / "reactor" / "grandchild").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("use", ["tests.chaos.misbehaving:NOTHING", "tests.chaos.nowhere:ADAPTER", "misbehaving"])
def test_an_adapter_that_is_nowhere_is_a_mistake_in_the_scenario(tmp_path, use):
    with pytest.raises(ScenarioError, match=r"adapters\.reactor\.use: "):
        load(reactor.write(tmp_path, use=use))


def test_a_folder_that_cannot_be_made_is_said_before_anything_starts(tmp_path):
    plan = compile_plan(load(reactor.write(tmp_path / "scenario")))
    (tmp_path / "runs").write_text("a file is in the way")
    with pytest.raises(RunError, match="cannot make a run folder in") as caught:
        run_plan(plan, tmp_path / "runs", driver="loop")
    assert caught.value.exit_code == 2
