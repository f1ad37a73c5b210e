"""A scenario with an adapter that does as it is told, and what must hold however its run ends."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import cosim
from cosim.report import write_report

psutil = pytest.importorskip("psutil")

ROOT = Path(__file__).resolve().parents[2]
VICTIM = "tests.chaos.misbehaving:ADAPTER"

_SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: reactor
run: {{duration: {duration} s, step: 1 s, seed: 1, timeout: {timeout} s, pacing: {pacing}}}
adapters:
  replay: {{file: tracks.csv}}
  reactor: {{use: "{use}", isolated: {isolated}, do: "{do}", at: {at}, tick: {tick}}}
nodes:
  uav: {{kind: uav, fleet: replay, capacity: {drones}}}
"""


def write(folder: Path, **choices: object) -> Path:
    """A scenario folder: drones by replay, and the victim, which reads where they are."""
    defaults = {
        "duration": 5,
        "timeout": 20,
        "pacing": "as-fast-as-possible",
        "use": VICTIM,
        "isolated": "true",
        "drones": 3,
    }
    folder.mkdir(parents=True, exist_ok=True)
    chosen = {**defaults, "do": "nothing", "at": "step", "tick": 3, **choices}
    text = _SCENARIO.format(**chosen)
    (folder / "scenario.cosim.yaml").write_text(text)
    rows = [f"{t},uav-{i},{10 * i + t},0" for t in range(0, 601, 5) for i in range(int(str(chosen["drones"])))]
    (folder / "tracks.csv").write_text("\n".join(["time,id,x,y", *rows]) + "\n")
    return folder


def manifest(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return data


def only_run(base: Path) -> Path:
    """The folder of the only run below `base`."""
    (folder,) = (file.parent for file in base.glob("*/*/manifest.json"))
    return folder


def rows(folder: Path, table: str = "mobility") -> list[tuple[Any, ...]]:
    """All rows of a table of a run, which must be readable."""
    run = cosim.load(folder)
    try:
        return run.table(table).fetchall() if table in (*run.signals, "nodes", "events") else []
    finally:
        run.close()


def assert_can_be_reported(folder: Path) -> None:
    """Whatever there is of the run, its report can be written."""
    path = write_report(folder)
    assert path.stat().st_size > 5_000


def related(word: str) -> list[psutil.Process]:
    """Processes whose command line names `word`, such as a test's own folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if word in " ".join(process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def eventually_none(word: str, limit: float = 15.0) -> bool:
    """Whether no process that `related` would find is left within `limit` s."""
    end = time.monotonic() + limit
    while (left := related(word)) and time.monotonic() < end:
        time.sleep(0.05)
    return not left
