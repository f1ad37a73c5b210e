"""A vehicle's program: the autopilot alone, in this very process, or with an agent beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from cosim.autopilot import node
from cosim.testbed.launch.keys import PRIVATE, provide

psutil = pytest.importorskip("psutil")

PATIENCE = 60.0  # s
HERE = {"COSIM_NODE": "uav-1", "COSIM_VEHICLES": "tcp://127.0.0.1:9", "COSIM_MAVLINK": "0"}


def module(process):
    """The module that a process runs, or ""."""
    try:
        line = process.cmdline()
    except psutil.NoSuchProcess:
        return ""
    return line[line.index("-m") + 1] if "-m" in line else ""


def test_without_an_agent_the_process_becomes_the_autopilot(monkeypatch):
    became = []

    def execute(path, command):
        became.append((path, command))
        raise SystemExit

    monkeypatch.setattr(os, "execv", execute)
    monkeypatch.setattr(sys, "argv", ["node", "--broadcast", "10.0.0.255"])
    monkeypatch.delenv("COSIM_KEY", raising=False)
    with pytest.raises(SystemExit):
        node.main()
    assert became == [(sys.executable, [sys.executable, "-m", "cosim.autopilot.agent", "--broadcast", "10.0.0.255"])]


def test_an_agent_is_beside_the_autopilot_and_both_end_together(tmp_path):
    provide(tmp_path / "gateway", {"uav-1": tmp_path / "uav-1"})
    key = {"COSIM_KEY": str(tmp_path / "uav-1" / PRIVATE), "COSIM_GATEWAY": "tcp://127.0.0.1:9"}
    pair = subprocess.Popen(
        [sys.executable, "-m", "cosim.autopilot.node", "--broadcast", "127.255.255.255"],
        env={**os.environ, **HERE, **key}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        end, found = time.monotonic() + PATIENCE, {}
        while not {"cosim.autopilot.agent", "cosim.testbed.live", "cosim.testbed.live.worker"} <= found.keys():
            assert time.monotonic() < end, found
            found = {module(child): child for child in psutil.Process(pair.pid).children(recursive=True)}
        flies, works = found["cosim.autopilot.agent"], found["cosim.testbed.live.worker"]
        while works.nice() < min(flies.nice() + 1, 19):  # whoever works must not hold up whoever flies
            assert time.monotonic() < end
        pair.terminate()
        assert pair.wait(PATIENCE) == 0
        assert psutil.wait_procs(found.values(), PATIENCE)[1] == []
    finally:
        left = psutil.Process(pair.pid).children(recursive=True) if pair.poll() is None else []
        for process in (pair, *left):
            process.kill()
        pair.wait()
