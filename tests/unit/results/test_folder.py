"""Run folders: names, manifests, and who may write."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cosim.contract.errors import RunError, SetupError
from cosim.contract.seals import DamagedError
from cosim.results.folder import RunFolder, latest, outside, run_folders, write_json
from cosim.results.provenance import git_state
from tests.unit.results import synthetic

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def test_folders_of_the_same_second_do_not_meet(tmp_path):
    plan = synthetic.plan()
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: RunFolder.create(tmp_path, plan, now=NOON), range(16)))
    names = {folder.path.name for folder in folders}
    first = f"20260102-120000-{plan.hash[:8]}"
    assert names == {first, *(f"{first}-{n}" for n in range(2, 17))}
    assert folders[0].path.parent == tmp_path / "synthetic"


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("runs", "/results/a/b", "runs/a/b"),
        ("/data", "/results/a", "/data/a"),
        ("", "/results/a", "/results/a"),
        ("x", "runs/a", "runs/a"),
    ],
)
def test_results_of_a_container_are_told_by_their_name_outside(monkeypatch, name, given, shown):
    monkeypatch.setenv("COSIM_RUNS", name)
    assert outside(Path(given)) == Path(shown)


def test_a_new_folder_is_running_and_has_every_key(tmp_path):
    folder = RunFolder.create(tmp_path, synthetic.plan(seed=9), driver="mosaik")
    manifest = json.loads((folder.path / "manifest.json").read_text())
    assert manifest == folder.manifest
    assert (manifest["status"], manifest["seed"], manifest["driver"]) == ("running", 9, "mosaik")
    assert {"error", "git", "host", "lag", "versions", "signals", "adapters", "slow"} <= set(manifest)
    assert folder.status == "running"
    folder.let_go()
    assert RunFolder.open(folder.path).status == "partial"


def test_only_one_process_writes(tmp_path):
    folder = RunFolder.create(tmp_path, synthetic.plan())
    with pytest.raises(RunError, match="another process"):
        RunFolder.open(folder.path).hold()
    folder.let_go()
    folder.let_go()


def test_unknown_keys_and_formats_are_refused(tmp_path):
    folder = RunFolder.create(tmp_path, synthetic.plan())
    with pytest.raises(KeyError, match="no key statsu"):
        folder.update(statsu="complete")
    folder.update(format=99)
    with pytest.raises(SetupError, match="run format 99"):
        RunFolder.open(folder.path)
    (folder.path / "manifest.json").write_text("{")
    with pytest.raises(SetupError, match="cannot be read"):
        RunFolder.open(folder.path)
    (folder.path / "manifest.json").write_text("[]")
    with pytest.raises(DamagedError, match="it holds no mapping"):
        RunFolder.open(folder.path)


def test_latest_is_the_youngest(tmp_path):
    with pytest.raises(SetupError, match="no run in"):
        latest(tmp_path)
    for minute in (3, 1, 2):
        RunFolder.create(tmp_path, synthetic.plan(), now=NOON.replace(minute=minute))
    RunFolder.create(tmp_path, synthetic.plan(name="other"), now=NOON.replace(minute=9))
    assert latest(tmp_path, "synthetic").path.name.startswith("20260102-120300")
    assert latest(tmp_path).path.parent.name == "other"
    assert len(run_folders(tmp_path)) == 4
    with pytest.raises(SetupError, match="no run of 'third'"):
        latest(tmp_path, "third")


def test_json_is_strict_and_replaced_whole(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": float("inf"), "b": [float("nan"), (1, 2)]})
    assert json.loads(path.read_text()) == {"a": None, "b": [None, [1, 2]]}
    with pytest.raises(RunError, match="cannot write"):
        write_json(tmp_path / "none" / "a.json", {})
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.needs("git")
def test_git_state_of_a_repository_and_of_none(tmp_path):
    assert git_state(tmp_path) is None
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "file").write_text("1")
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    state = git_state(tmp_path)
    assert state is not None
    assert (len(state["commit"]), state["dirty"]) == (40, False)
    (tmp_path / "file").write_text("2")
    assert git_state(tmp_path) == {**state, "dirty": True}
