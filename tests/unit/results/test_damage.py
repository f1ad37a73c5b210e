"""Damaged results are told: a message and exit code 1, never a traceback, never figures out of broken files."""

from __future__ import annotations

import json
import random
import shutil
from contextlib import closing, suppress

import pytest
from typer.testing import CliRunner

import cosim
from cosim.cli.main import app
from cosim.contract.errors import CosimError
from cosim.contract.seals import DamagedError
from cosim.contract.signals import CATALOGUE
from cosim.results.folder import RunFolder
from cosim.results.metrics import write_metrics
from cosim.results.recorder import Recorder
from cosim.results.resume import interrupted
from tests.unit.results import synthetic


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two closed runs of one plan with different rows."""
    base = tmp_path_factory.mktemp("runs")
    made = []
    for ticks in (12, 9):
        made.append(synthetic.write_run(base, ticks=ticks))
        write_metrics(made[-1])
    return made


def _killed(base, ticks):
    """What a run leaves that dies between two ticks."""
    plan = synthetic.plan(ticks=ticks)
    folder = RunFolder.create(base, plan)
    recorder = Recorder(folder, plan, CATALOGUE)
    world = synthetic.World(plan)
    for tick, now, frames in world.frames():
        recorder.tick(tick, now, frames)
    recorder._flush(None)
    recorder._writer.stop([])
    folder.let_go()
    return folder


def _files(folder):
    return sorted(path for path in folder.rglob("*") if path.suffix in (".parquet", ".json", ".yaml"))


def truncated(rng, file, _other):
    data = file.read_bytes()
    file.write_bytes(data[: rng.randrange(len(data))])


def zeroed(rng, file, _other):
    data = bytearray(file.read_bytes())
    first = rng.randrange(len(data))
    count = rng.randint(1, len(data) - first)
    data[first : first + count] = bytes(count)
    file.write_bytes(data)


def flipped(rng, file, _other):
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def deep(_rng, file, _other):
    file.write_bytes(b"[" * 200_000)


def huge(_rng, file, _other):
    file.write_bytes(b'{"format": ' + b"9" * 6000 + b"}")


def swapped(_rng, file, other):
    other = other if other.read_bytes() != file.read_bytes() else other.parent / "plan.json"
    data = other.read_bytes() if other.exists() and other.read_bytes() != file.read_bytes() else b"PAR1"
    file.write_bytes(data)


def longer(_rng, file, _other):
    file.write_bytes(file.read_bytes() + b"\n")


def typed(rng, file, _other):
    """A manifest with a value of another type, or a value of another run."""
    file = next(path for path in [file, *file.parents] if (path / "manifest.json").exists()) / "manifest.json"
    data = json.loads(file.read_text())
    key = rng.choice(sorted(data))
    data[key] = rng.choice([None, 5, "text", [], {}, [[1]], {"a": {}}, -1.0, True])
    if data == json.loads(file.read_text()):
        data[key] = {"another": "value"}
    file.write_text(json.dumps(data))


def gone(_rng, file, _other):
    file.unlink()


DAMAGES = [truncated, zeroed, flipped, deep, huge, swapped, longer, typed, gone]
COMMANDS = [["report"], ["compare", "OTHER"], ["compare", "--exact", "OTHER"], ["load"]]


@pytest.mark.parametrize("seed", range(100))
def test_a_random_damage_is_told(runs, tmp_path, seed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(seed)
    folder = tmp_path / runs[0].name
    shutil.copytree(runs[0], folder)
    file = rng.choice(_files(folder))
    other = runs[1] / file.relative_to(folder)
    before = file.read_bytes()
    damage = DAMAGES[seed % len(DAMAGES)]
    damage(rng, file, other)
    if damage is zeroed and file.read_bytes() == before:  # there were zeros already
        file.write_bytes(b"")
    command = COMMANDS[rng.randrange(len(COMMANDS))]
    if command == ["load"]:
        with pytest.raises(CosimError):
            cosim.load(folder)
        return
    words = [str(runs[1]) if word == "OTHER" else word for word in command]
    done = CliRunner().invoke(app, [*words, str(folder)])
    assert isinstance(done.exception, SystemExit), done.exception
    # a folder without its manifest is no run folder, which is the user's to change
    assert done.exit_code == (2 if file.name == "manifest.json" and damage is gone else 1)
    assert "Traceback" not in done.output


def test_what_is_whole_is_read(runs, tmp_path):
    folder = tmp_path / "moved"
    shutil.copytree(runs[0], folder)
    (folder / "report.html").write_text("not part of the results")
    with closing(cosim.load(folder)) as run:
        assert run.table("mobility").fetchall()
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0


def test_a_table_of_another_run_is_named(runs, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(runs[0], folder)
    shutil.copy(runs[1] / "tasks.parquet", folder / "tasks.parquet")
    with pytest.raises(DamagedError, match=r"tasks\.parquet is not what was written"):
        cosim.load(folder)
    shutil.copy(runs[0] / "tasks.parquet", folder / "tasks.parquet")
    shutil.copy(runs[0] / "nodes.parquet", folder / "more.parquet")
    with pytest.raises(DamagedError, match=r"more\.parquet does not belong"):
        cosim.load(folder)


@pytest.mark.parametrize("damage", [truncated, gone])
@pytest.mark.parametrize("name", ["plan.json", "scenario.resolved.yaml"])
def test_a_killed_run_is_resumed_by_what_it_wrote_only(tmp_path, name, damage):
    folder = _killed(tmp_path, 6)
    damage(random.Random(1), folder.path / name, None)
    with pytest.raises(DamagedError, match=name):
        interrupted(folder.path)


@pytest.mark.parametrize("name", ["frames/members.jsonl", "events.jsonl", "frames/mobility/traffic.arrows"])
def test_a_killed_run_with_damaged_journals_is_told(tmp_path, name):
    """What a killed run left has no digests; it is read as far as it is whole, or refused."""
    folder = _killed(tmp_path, 6)
    path = folder.path / name
    if path.exists():
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] + b"\xff\x00[{" + data[len(data) // 2 :] + b"\n")
    with suppress(CosimError):
        cosim.load(folder.path).close()
    assert RunFolder.open(folder.path).status in ("running", "partial")
