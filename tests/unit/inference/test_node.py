"""The two programs of an edge node under one roof: started in order, ended together."""

from __future__ import annotations

import socket
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from cosim.inference.node import Pair, answers, commands

PATIENCE = 15.0  # s
SERVICE = """
import http.server, sys, time
time.sleep(0.3)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *_):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
AGENT = """
import os, signal, sys, time
with open(sys.argv[1], "a") as file:
    file.write(os.environ["COSIM_FORWARD"] + "\\n")
def leave(*_):
    open(sys.argv[1], "a").write("left\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
time.sleep(float(sys.argv[2]))
sys.exit(1)
"""


def eventually(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


@pytest.fixture
def port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Running:
    """A pair that runs in a thread."""

    def __init__(self, service, agent, port, shore=None):
        self.code = None
        self.pair = Pair(service, agent, port, pause=0.05, shore=shore)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        self.code = self.pair.run()

    def ended(self):
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.code


def lines(log):
    return log.read_text().splitlines() if log.exists() else []


def test_the_agent_comes_after_the_service_and_both_end(port, tmp_path):
    log = tmp_path / "log"
    agent = [sys.executable, "-c", AGENT, str(log), "60"]
    running = Running([sys.executable, "-c", SERVICE, str(port)], agent, port)
    eventually(lambda: lines(log))
    assert lines(log) == [f"http://127.0.0.1:{port}/run"]
    assert answers(port)
    running.pair.stop()
    assert running.ended() == 0
    assert lines(log)[-1] == "left"
    assert not answers(port)


def test_an_agent_that_ends_is_started_again(port, tmp_path):
    log = tmp_path / "log"
    agent = [sys.executable, "-c", AGENT, str(log), "0"]
    running = Running([sys.executable, "-c", SERVICE, str(port)], agent, port)
    eventually(lambda: len(lines(log)) >= 3)
    running.pair.stop()
    assert running.ended() == 0


@pytest.mark.parametrize("code", [0, 3])
def test_a_node_ends_with_its_service(port, code):
    running = Running([sys.executable, "-c", f"raise SystemExit({code})"], [], port)
    assert running.ended() == (code or 1)


def test_a_node_without_a_network_ends_to_be_started_again(port):
    lost = []
    shore = SimpleNamespace(lost=lambda: bool(lost))
    running = Running([sys.executable, "-c", SERVICE, str(port)], [], port, shore)
    eventually(lambda: answers(port))
    lost.append(True)
    assert running.ended() == 1
    assert not answers(port)


def test_commands_follow_the_environment():
    service, agent = commands(["--capacity", "5"], {"COSIM_CORES": "3"})
    assert service[-4:] == ["--concurrency", "3", "--capacity", "5"]
    assert agent == []
    service, agent = commands(["--concurrency", "1"], {"COSIM_CORES": "3", "COSIM_KEY": "k", "COSIM_GATEWAY": "g"})
    assert service.count("--concurrency") == 1
    assert agent[-1] == "cosim.live"
