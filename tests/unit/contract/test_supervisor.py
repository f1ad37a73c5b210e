"""A node's program and the agent beside it: started in order, ended together."""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace

import pytest

from cosim.contract import supervisor
from cosim.contract.supervisor import Network, Supervisor, agent

PATIENCE = 60.0  # s
PROGRAM = """
import signal, sys, time
def leave(*_):
    open(sys.argv[1], "a").write("program left\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
with open(sys.argv[1], "a") as file:
    file.write("program\\n")
time.sleep(60)
"""
AGENT = """
import os, signal, sys, time
def leave(*_):
    open(sys.argv[1], "a").write("agent left\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
with open(sys.argv[1], "a") as file:
    file.write(os.environ["COSIM_FORWARD"] + "\\n")
time.sleep(float(sys.argv[2]))
sys.exit(1)
"""


def eventually(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


class Running:
    """A pair that runs in a thread; its processes write into `log`."""

    def __init__(self, log, program=None, seconds=60, **more):
        self.code, self._log = None, log
        beside = [sys.executable, "-c", AGENT, str(log), str(seconds)]
        program = program or [sys.executable, "-c", PROGRAM, str(log)]
        self.supervisor = Supervisor(program, beside, variables={"COSIM_FORWARD": "where"}, pause=0.05, **more)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        self.code = self.supervisor.run()

    @property
    def lines(self):
        return self._log.read_text().splitlines() if self._log.exists() else []

    def ended(self):
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.code


def test_the_agent_comes_when_the_program_is_ready_and_leaves_first(tmp_path):
    ready = threading.Event()
    running = Running(tmp_path / "log", ready=ready.is_set)
    eventually(lambda: running.lines == ["program"])
    time.sleep(0.3)
    assert running.lines == ["program"]
    ready.set()
    eventually(lambda: running.lines == ["program", "where"])
    running.supervisor.stop()
    assert running.ended() == 0
    assert sorted(running.lines[2:]) == ["agent left", "program left"]


def test_an_agent_that_ends_is_started_again_and_the_program_goes_on(tmp_path):
    running = Running(tmp_path / "log", seconds=0)
    eventually(lambda: running.lines.count("where") >= 3)
    running.supervisor.stop()
    assert running.ended() == 0
    assert running.lines.count("program") == 1


@pytest.mark.parametrize("code", [0, 3])
def test_a_supervisor_ends_with_its_program(tmp_path, code):
    log = tmp_path / "log"
    log.touch()
    program = f"import sys, time\nwhile not open(sys.argv[1]).read(): time.sleep(0.02)\nsys.exit({code})"
    running = Running(log, [sys.executable, "-c", program, str(log)])
    assert running.ended() == (code or 1)
    assert running.lines[-1] == "agent left"


def test_a_supervisor_without_a_network_ends_to_be_started_again(tmp_path):
    lost = []
    running = Running(tmp_path / "log", network=SimpleNamespace(lost=lambda: bool(lost)))
    eventually(lambda: "where" in running.lines)
    lost.append(True)
    assert running.ended() == 1
    assert sorted(running.lines[-2:]) == ["agent left", "program left"]


@pytest.mark.parametrize(
    "variables", [{}, {"COSIM_KEY": "k"}, {"COSIM_GATEWAY": "g"}, {"COSIM_KEY": "", "COSIM_GATEWAY": "g"}]
)
def test_there_is_no_agent_without_a_run_to_attach_to(variables):
    assert agent(variables) == []


def test_an_agent_needs_a_key_and_an_address():
    assert agent({"COSIM_KEY": "k", "COSIM_GATEWAY": "g"})[-1] == "cosim.testbed.live"


def test_a_program_gives_up_when_its_interfaces_are_gone_for_long(monkeypatch):
    now, names = [0.0], [(1, "lo"), (2, "eth0")]
    monkeypatch.setattr(supervisor, "monotonic", lambda: now[0])
    monkeypatch.setattr(supervisor.socket, "if_nameindex", lambda: names)
    container, namespace = Network("tcp://run:5603"), Network("ipc:///run/vehicles")

    def after(seconds):
        for _ in range(10 * seconds):
            now[0] += 0.1
            found = container.lost(), namespace.lost()
        return found

    assert after(60) == (False, False)
    del names[1]
    assert after(3) == (False, False)
    names.append((3, "eth0"))  # it was only away for a moment
    assert after(60) == (False, False)
    del names[1]
    assert after(6) == (True, False)
