"""A run inside a compiled loop hears nothing, and is ended all the same: readable, and marked as partial."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import cosim

ROOT = Path(__file__).resolve().parents[2]
ADAPTER = """\
from cosim.contract.adapter import AdapterConfig, AdapterKind, Ports
from cosim.contract.frame import Frame
import numpy as np

class Config(AdapterConfig):
    pass

class Hang:
    def __init__(self, config):
        pass
    def start(self, context):
        import numba
        @numba.njit(nogil=True)
        def forever(n):
            k = 0
            while n > 0:
                k = (k * 31 + n) % 1000003
            return k
        forever(0)
        self.forever = forever
    def step(self, time, inputs):
        if time >= 3:
            print("hanging", flush=True)
            self.forever(1)
        columns = {"level": np.ones(1), "fraction": np.ones(1), "power": np.ones(1), "empty": np.zeros(1, bool)}
        return [Frame("battery", time, np.zeros(1, np.int32), columns)]
    def finish(self):
        return {}
    def close(self):
        pass

ADAPTER = AdapterKind("hang", "hangs", "hang:Config", "hang:Hang", Ports((), ("battery",)))
"""
SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: hanging
run: {duration: 10 s, step: 1 s}
adapters:
  hang: {use: "hang:ADAPTER"}
kinds:
  box: {tier: device}
nodes:
  one: {kind: box, at: [0 m, 0 m, 0 m]}
"""


@pytest.mark.chaos
@pytest.mark.parametrize("numbers", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)])
def test_a_run_in_a_loop_is_ended(tmp_path, numbers):
    (tmp_path / "hang.py").write_text(ADAPTER)
    (tmp_path / "hanging.yaml").write_text(SCENARIO)
    command = [sys.executable, "-m", "cosim", "run", "hanging.yaml", "--driver", "loop", "--no-report"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"hanging\n"
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.1)  # signals of one kind that come at the same time are one
        _, said = process.communicate(timeout=60)  # for ever without an end by force; 1.5 s on a quiet machine
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1
    assert b"in the middle of a tick" in said
    (path,) = tmp_path.glob("runs/hanging/*")
    with closing(cosim.load(path)) as run:
        assert run.status == "partial"
        assert "middle of a tick" in run.manifest["error"]["message"]
        assert [time for (time,) in run.sql("SELECT time FROM battery").fetchall()] == [0.0, 1.0, 2.0]
