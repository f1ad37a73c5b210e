"""A run that was killed is made whole, bit by bit as if nothing had happened."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cosim
from cosim.contract.errors import RunError, SetupError
from cosim.results.compare import exact
from cosim.results.folder import RunFolder
from cosim.results.resume import ASIDE, interrupted
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan

ROOT = Path(__file__).resolve().parents[2]
SCENARIO, SETTINGS = ROOT / "scenarios/hello", ["run.duration=20 s"]
KILLED = """\
import os, signal, sys
import cosim
class Kill:
    def tick(self, tick, time, frames):
        if time >= float(sys.argv[3]):
            import time as wall
            wall.sleep(float(sys.argv[4]))  # so that some of the rows have come to the disk
            os.kill(os.getpid(), signal.SIGKILL)
cosim.run(sys.argv[1], overrides=["run.duration=20 s"], out=sys.argv[2], observers=[Kill()])
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return cosim.run(SCENARIO, overrides=SETTINGS, out=tmp_path_factory.mktemp("whole")).folder


def resumed(path):
    again = interrupted(path)
    return run_plan(again.plan, path.parent.parent, driver=again.driver, again=again)


class Stop:
    def __init__(self, at):
        self.at = at

    def tick(self, tick, time, frames):
        if time >= self.at:
            raise RunError("enough")


@pytest.mark.parametrize("at", [0.0, 7.5, 20.0])
def test_a_run_that_was_stopped_is_completed(whole, tmp_path, at):
    plan = compile_plan(load(SCENARIO, SETTINGS))
    stopped = run_plan(plan, tmp_path, driver="loop", observers=[Stop(at)])
    assert stopped.status == "partial"
    again = resumed(stopped.folder)
    assert (again.status, again.folder) == ("complete", stopped.folder)
    assert exact(whole, stopped.folder) == []
    assert not (stopped.folder / ASIDE).exists()
    assert RunFolder.open(stopped.folder).manifest["resumed"] == at
    with pytest.raises(SetupError, match="nothing to resume"):
        interrupted(stopped.folder)


@pytest.mark.chaos
@pytest.mark.parametrize(("at", "wait"), [(3.0, 0.0), (12.0, 3.0)])
def test_a_run_that_was_killed_is_completed(whole, tmp_path, at, wait):
    words = [sys.executable, "-c", KILLED, str(SCENARIO), str(tmp_path), str(at), str(wait)]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    (path,) = tmp_path.glob("hello/*")
    assert RunFolder.open(path).status == "partial"
    assert resumed(path).status == "complete"
    assert exact(whole, path) == []


def test_a_repetition_that_differs_is_told(tmp_path):
    plan = compile_plan(load(SCENARIO, SETTINGS))
    path = run_plan(plan, tmp_path, driver="loop", observers=[Stop(7.5)]).folder
    file = next(path.glob("frames/host/*.parquet"))
    rows = pq.read_table(file)
    column = rows.schema.get_field_index("running")
    other = pa.array(rows.column(column).to_numpy() + 1, rows.schema.field(column).type)
    pq.write_table(rows.set_column(column, rows.schema.field(column), other), file)
    again = resumed(path)
    assert again.status == "partial"
    assert "running differs from row 0 on" in str(again.error)
    assert (path / ASIDE / "frames/host" / file.name).exists()


def test_what_cannot_be_repeated_is_refused(whole, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    RunFolder.open(path).update(status="partial", interactive=True)
    with pytest.raises(SetupError, match="steered"):
        interrupted(path)
    RunFolder.open(path).update(interactive=False, plan_hash="another")
    with pytest.raises(SetupError, match="another plan"):
        interrupted(path)
