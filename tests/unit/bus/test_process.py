"""Child processes: their state in words, and their certain end."""

import os
import signal
import sys
import time

import pytest

from cosim.bus.process import Child


@pytest.fixture
def start(tmp_path):
    started = []

    def start(code: str) -> Child:
        child = Child([sys.executable, "-c", code], tmp_path / "log", os.environ)
        started.append(child)
        return child

    yield start
    for child in started:
        child.stop(0.0)


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("raise SystemExit(5)", "has ended with exit code 5"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("import os; os.kill(os.getpid(), 40)", "was killed by signal 40"),
    ],
)
def test_an_ended_process_says_how(start, code, state):
    child = start(code)
    assert child.wait(60.0)
    assert child.state() == state
    child.stop(1.0)
    assert child.state() == state
    assert not child.alive()


def test_a_running_process_says_what_it_does(start):
    child = start("import time; time.sleep(60)")
    assert child.alive()
    assert not child.wait(0.05)
    os.kill(child.pid, signal.SIGSTOP)
    deadline = time.monotonic() + 60.0
    while "stopped by a signal" not in child.state():
        assert time.monotonic() < deadline
    assert child.cpu_seconds() >= 0.0
    child.stop(0.1)
    assert child.state() in ("was killed by SIGKILL", "was killed by SIGTERM")
    child.stop(0.1)


def test_the_log_holds_both_outputs_of_this_process_only(start, tmp_path):
    (tmp_path / "log").write_text("of an earlier run\n")
    child = start("import sys; print('out', flush=True); print('err', file=sys.stderr)")
    child.wait(60.0)
    assert child.log_tail() == "out\nerr"
    assert child.log_tail(1) == "err"
    assert start("").log_tail() == ""
