"""Shipped scenarios branched in the middle: every candidate is an ordinary run with its event, to the bit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.whatif import course, of_run
from cosim.contract.errors import RunError
from cosim.results.session import run_plan
from tests.extensions import scenarios
from tests.forked import cosim

CASES = {
    "hello": (30.0, 20.0, "do=fail; node=north; for=10 s"),
    "stress-5g": (20.0, 15.0, "do=jammer-on; node=jammer-*; for=10 s"),
    "freeway": (100.0, 20.0, "do=fail; node=station-1; for=20 s"),
    "fog-interval": (9000.0, 3600.0, "do=fail; node=gateway-*; for=20 min"),
    "disaster": (36000.0, 7200.0, "do=fail; node=north-*; for=20 min"),
    "gpu-generated": (36000.0, 7200.0, "do=fail; node=leaf-03; for=30 min"),
    "city-edge": (60.0, 30.0, "do=fail; node=station-1"),
    "smart-farm": (600.0, 60.0, "do=degrade; link=uav-1/farm-house; loss=50 %"),
    "jammed-city": (70.0, 20.0, "do=jammer-off; node=van"),
}
QUICK = ("disaster",)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[
                *one.marks,
                *([] if name in QUICK else [pytest.mark.slow]),
                *([pytest.mark.sumo] if name == "city-edge" else []),
            ],
        )
        for name, one in zip(CASES, scenarios(*CASES), strict=True)
    ],
)
def test_a_candidate_of_a_shipped_scenario_is_a_run_with_its_event(tmp_path, name):
    now, horizon, change = CASES[name]
    changes = [part.strip() for part in change.split(";")]
    plain = run_plan(course(name, [], now, now + horizon), tmp_path / "plain", driver="loop").folder
    ordinary = run_plan(course(name, changes, now, now + horizon), tmp_path / "runs", driver="loop").folder
    arguments = ["--run", str(plain), "--now", f"{now} s", "--horizon", f"{horizon} s", "--hosts", "--json"]
    done = cosim("whatif", name, *arguments, "--change", f"it: {change}")
    assert done.returncode == 0, done.stderr
    as_it_is, changed = json.loads(done.stdout)["candidates"]
    for answer, folder in ((as_it_is, plain), (changed, ordinary)):
        found = {figure: band["middle"] for figure, band in answer["bands"].items()}
        assert found == of_run(folder, now, now + horizon)
    assert as_it_is["bands"] != changed["bands"]


def marked(mark: str) -> set[int]:
    """The processes that have `mark` in their environment and have not ended."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (
                mark.encode() in (folder / "environ").read_bytes()
                and "\nState:\tZ" not in (folder / "status").read_text()
            ):
                found.add(int(folder.name))
    return found


@pytest.mark.slow
@pytest.mark.sumo
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("processes", [3, 5])  # SUMO's worker and its watcher are there; two forks as well
def test_nothing_is_left_of_a_what_if_that_is_ended(tmp_path, number, processes):
    scenario = "city-edge"
    run = run_plan(course(scenario, [], 10.0, 12.0), tmp_path, driver="loop", observers=[Until(12.0)]).folder
    mark, horizon = f"COSIM_MARK={tmp_path}", "3 s" if processes == 3 else "60 s"
    command = [sys.executable, "-m", "cosim", "whatif", str(scenario), "--run", str(run), "--now", "10 s"]
    changes = [f"--change={k}: do=fail; node=station-{k}" for k in range(1, 9)]
    with subprocess.Popen(
        [*command, "--horizon", horizon, *changes], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "COSIM_MARK": str(tmp_path)}, restore_signals=True,
    ) as process:  # fmt: skip
        until = time.monotonic() + 60.0
        while len(marked(mark)) < processes and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        assert process.poll() is None
        process.send_signal(number)
        process.communicate(timeout=30.0)
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert not marked(mark)


class Until:
    """Ends a run by raising at a time."""

    def __init__(self, end):
        self.end = end

    def tick(self, tick, time, frames):
        if time >= self.end:
            raise RunError("far enough")
