"""Whatever a foreign adapter does: it is named, or the results are an honest one's. Nothing false is complete."""

from __future__ import annotations

import html
import json
from contextlib import closing
from pathlib import Path

import pytest

from cosim.results.convert import recover
from cosim.results.folder import RunFolder
from cosim.results.load import load
from tests.forked import cosim
from tests.unit.bus.hostile import ANSWERS, DEEDS, SUMMARIES

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: hostile
run: {{duration: 6 s, step: 1 s, seed: 1, timeout: {timeout} s}}
adapters:
  bad: {{use: "tests.unit.bus.hostile:ADAPTER", isolated: {isolated}, mode: "{mode}", at: {at}}}
  replay: {{file: tracks.csv}}
  witness: {{use: "tests.unit.bus.hostile:WITNESS"}}
nodes:
  mast: {{kind: edge, at: [0 m, 0 m]}}
  car: {{kind: device, fleet: bad, capacity: 5}}
  bus: {{kind: device, fleet: replay, capacity: 2}}
"""
TABLES = ("mobility", "gauge")
MODES = [
    *((mode, "step") for mode in (*ANSWERS, *DEEDS)),
    *((mode, "finish") for mode in SUMMARIES),
    *((mode, at) for mode in ("ValueError", "SystemExit 0", "KeyboardInterrupt", "RunError", "_exit 0", "fork")
      for at in ("build", "start", "finish", "close") if (mode, at) != ("KeyboardInterrupt", "build")),  # Ctrl-C, too
]  # fmt: skip
QUICK = [
    ("honest", "step"), ("two-faced columns", "step"), ("counter falls", "step"), ("id of a node", "step"),
    ("rewritten later", "step"), ("twice the same", "step"), ("AdapterError of another", "step"),
    ("KeyboardInterrupt", "step"), ("_exit 0", "step"), ("_exit 0", "close"), ("descriptors closed", "step"),
    ("size limit", "step"), ("fork", "step"), ("warnings are errors", "step"), ("SystemExit 0", "build"),
]  # fmt: skip
ENDS_IT = {"SIGTERM", "hang", "kill", "segfault", "abort"}  # what only others can end, or ends with its signal


def ran(
    folder: Path, mode: str, at: str, isolated: bool
) -> tuple[int, dict[str, object], str, dict[str, list[object]]]:
    """Exit code, manifest, what was said, and the rows of a run with the hostile adapter."""
    folder.mkdir()
    timeout = 2 if isolated and mode == "hang" else 30
    text = SCENARIO.format(mode=mode, at=at, isolated=str(isolated).lower(), timeout=timeout)
    (folder / "scenario.cosim.yaml").write_text(text)
    (folder / "tracks.csv").write_text(
        "time,id,x,y\n" + "".join(f"{t},b-{i},{t},0\n" for t in range(9) for i in (1, 2))
    )
    done = cosim("run", folder, "--out", folder / "runs", "--no-report", "--driver", "loop", timeout=60.0)
    manifest = next(iter(folder.glob("runs/*/*/manifest.json")), None)
    if manifest is None:
        return done.returncode, {}, done.stdout + done.stderr, {}
    rows = {}
    with closing(load(manifest.parent)) as run:
        for table in TABLES:
            rows[table] = run.table(table).fetchall() if table in run.signals else []
    return done.returncode, json.loads(manifest.read_text()), done.stdout + done.stderr, rows


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    code, manifest, said, rows = ran(tmp_path_factory.mktemp("honest") / "run", "honest", "step", False)
    assert (code, manifest["status"]) == (0, "complete"), said
    assert len(rows["gauge"]) == 21
    return rows


def judge(tmp_path: Path, honest: dict[str, list[object]], mode: str, at: str, isolated: bool) -> None:
    code, manifest, said, rows = ran(tmp_path / "run", mode, at, isolated)
    if code == 0:
        assert manifest["status"] == "complete", said
        assert rows == honest
        return
    assert manifest.get("status") != "complete" or at == "close" or mode == "output closed", said
    if mode == "output closed":
        return
    assert "adapter 'bad'" in said, said
    assert "error: adapter 'witness'" not in said
    if manifest:
        assert manifest["error"]["adapter"] == "bad", manifest["error"]
    for table in TABLES:
        assert set(rows.get(table, [])) <= set(honest[table])  # what was recorded before is right


@pytest.mark.parametrize(("mode", "at"), QUICK)
def test_in_process(tmp_path, honest, mode, at):
    judge(tmp_path, honest, mode, at, False)


@pytest.mark.parametrize(("mode", "at"), [("counter falls", "step"), ("SystemExit 0", "step"), ("_exit 0", "close")])
def test_isolated(tmp_path, honest, mode, at):
    judge(tmp_path, honest, mode, at, True)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "at"), [each for each in MODES if each not in QUICK and each[0] not in ENDS_IT])
def test_all_in_process(tmp_path, honest, mode, at):
    judge(tmp_path, honest, mode, at, False)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "at"), MODES)
def test_all_isolated(tmp_path, honest, mode, at):
    judge(tmp_path, honest, mode, at, True)


@pytest.mark.parametrize(("mode", "at"), [("segfault", "step"), ("abort", "finish")])
def test_a_crash_of_the_whole_process_names_the_call_that_it_came_from(tmp_path, mode, at):
    code, manifest, _, _ = ran(tmp_path / "run", mode, at, False)
    assert (code < 0, manifest["status"]) == (True, "running")
    (folder,) = (tmp_path / "run" / "runs").glob("hostile/*")
    why = f"the run's process ended while adapter 'bad' was in {at}"
    assert why in RunFolder.open(folder).fault["message"]
    assert cosim("report", folder).returncode == 0
    assert why in html.unescape((folder / "report.html").read_text())
    killed = recover(folder).manifest["error"]
    assert (killed["adapter"], killed["phase"]) == ("bad", at)
    assert killed["message"].startswith(why)


def test_a_run_that_ends_by_itself_leaves_no_mark_of_a_call(tmp_path):
    ran(tmp_path / "run", "honest", "step", False)
    ran(tmp_path / "other", "ValueError", "step", False)
    assert not list(tmp_path.rglob(".call"))
