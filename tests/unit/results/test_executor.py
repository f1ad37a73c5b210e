"""Runs in forked processes: what each ending looks like from outside."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from cosim.contract.errors import RunError, SetupError
from cosim.results.executor import LocalExecutor, RunTask, ended, make_executor

psutil = pytest.importorskip("psutil")

HELLO = Path(__file__).resolve().parents[3] / "tests/scenarios/hello/scenario.cosim.yaml"
SHORT = ('run.duration="2 s"',)
PACED = ('run.duration="100 s"', 'run.pacing="real-time"')  # something to interrupt


def task(base: Path, key: str = "a", overrides=SHORT, **more) -> RunTask:
    return RunTask(key * 64, str(HELLO), overrides, {"run.seed": 1}, str(base), **more)


@pytest.fixture(scope="module")
def executor():
    """One worker whose runs are all forked from one process, which has been told to use two threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "2")
        patch.delenv("NUMBA_NUM_THREADS", raising=False)
        made = LocalExecutor(1)
        with made.kept():
            yield made


def servers() -> list[psutil.Process]:
    """What runs are forked from."""
    return [p for p in psutil.Process().children() if "cosim.results.forkserver" in " ".join(p.cmdline())]


def children() -> list[psutil.Process]:
    """The forked runs under this process."""
    return [child for server in servers() for child in server.children()]


def when_recording(base: Path, act) -> threading.Thread:
    """Calls `act` with the run's process once it has recorded something."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(file.stat().st_size for file in base.glob("runs/*/*/frames/link/*")):
                act(children()[0])
                return
            time.sleep(0.05)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_run_tells_its_folder_and_figures(executor, tmp_path):
    (result,) = executor.run([task(tmp_path, basis="b")])
    assert (result.status, result.error, result.log, result.basis) == ("complete", "", "", "b")
    assert (tmp_path / result.run / "manifest.json").is_file()
    assert result.figures["tasks_created"] > 0
    assert result.wall_seconds > 0
    assert not list((tmp_path / "logs").iterdir())


def test_a_run_that_cannot_start_stops_no_other(executor, tmp_path):
    tasks = [task(tmp_path, "a", ("run.step=7",)), task(tmp_path, "b")]
    results = {result.key[0]: result for result in executor.run(tasks)}
    assert results["a"].status == "failed"
    assert "run.step" in results["a"].error
    assert results["b"].status == "complete"


def test_a_killed_run_is_told_with_its_signal(executor, tmp_path):
    thread = when_recording(tmp_path, lambda process: process.kill())
    (result,) = executor.run([task(tmp_path, overrides=PACED)])
    thread.join()
    assert (result.status, result.run) == ("failed", "")
    assert result.error == "the run's process was killed by SIGKILL"


def test_a_run_past_its_limit_keeps_its_partial_results(executor, tmp_path):
    (result,) = executor.run([task(tmp_path, overrides=PACED, limit=2.0)])
    assert result.status == "partial"
    assert "limit of 2 s" in result.error
    assert json.loads((tmp_path / result.run / "manifest.json").read_text())["status"] == "partial"


@pytest.mark.slow
def test_a_run_that_hangs_is_killed_at_its_limit(tmp_path):
    thread = when_recording(tmp_path, lambda process: process.suspend())
    (result,) = LocalExecutor(1, grace=0.5).run([task(tmp_path, overrides=PACED, limit=4.0)])
    thread.join()
    assert result.status == "failed"
    assert "limit of 4 s" in result.error


@pytest.mark.slow
def test_closing_early_stops_the_runs(tmp_path):
    others = set(psutil.Process().children(recursive=True))  # what tests before this one have left to this process
    results = LocalExecutor(2).run([task(tmp_path, "a"), task(tmp_path, "b", PACED), task(tmp_path, "c", PACED)])
    assert next(results).key[0] == "a"
    started = set(psutil.Process().children(recursive=True)) - others
    assert started
    results.close()
    assert not [process for process in started if process.is_running()]
    statuses = {json.loads(f.read_text())["status"] for f in tmp_path.glob("runs/hello/*/manifest.json")}
    assert statuses == {"complete", "partial"}


@pytest.mark.slow
def test_when_the_server_is_killed_its_runs_are_lost_and_the_others_made(tmp_path):
    thread = when_recording(tmp_path, lambda process: process.parent().kill())
    tasks = [task(tmp_path, "a", PACED), task(tmp_path, "b")]
    results = {result.key[0]: result for result in LocalExecutor(1).run(tasks)}
    thread.join()
    assert results["a"].status == "failed"
    assert results["a"].error == "the process that the run was forked from was killed by SIGKILL"
    assert results["b"].status == "complete"
    assert not children()


def test_a_server_that_cannot_start_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(RunError, match="ended with exit code 1"):
        list(LocalExecutor(1).run([task(tmp_path)]))


def test_libraries_get_one_thread_unless_the_user_says_otherwise(executor, tmp_path):
    list(executor.run([task(tmp_path)]))
    (seen,) = (server.environ() for server in servers())
    assert (seen["OMP_NUM_THREADS"], seen["NUMBA_NUM_THREADS"]) == ("2", "1")


def test_endings_in_words():
    assert ended(-signal.SIGSEGV, "") == "was killed by SIGSEGV"
    assert ended(3, "first\nMemoryError\n") == "ended with exit code 3: MemoryError"
    assert ended(-(signal.SIGRTMIN + 5), "").startswith("was killed by signal ")


@pytest.mark.slow
def test_executors_by_name():
    assert make_executor("local", 3).workers == 3
    assert make_executor("local").workers == len(os.sched_getaffinity(0))
    with pytest.raises(SetupError, match="local, ray"):
        make_executor("slurm")
    with pytest.raises(SetupError, match="at least 1"):
        LocalExecutor(0)
