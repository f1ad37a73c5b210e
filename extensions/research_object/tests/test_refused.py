"""Crates that cannot be repeated, and what cannot become one, are refused with the reason."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from tests.cli.test_refusals import SCENARIO


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    done = CliRunner().invoke(app, ["publish", str(tmp_path / "loop")])
    assert done.exit_code == 2
    assert "Symlink loop" in done.output


@pytest.fixture(scope="module")
def crate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was published of a run."""
    pytest.importorskip("rocrate")
    folder = tmp_path_factory.mktemp("published")
    (folder / "tracks.csv").write_text("time,id,x,y\n0,car-1,0,0\n1,car-1,5,0\n")
    (folder / "scenario.cosim.yaml").write_text(SCENARIO)
    runs = folder / "runs"
    assert CliRunner().invoke(app, ["run", str(folder), "--out", str(runs), "--no-report", "-q"]).exit_code == 0
    (run,) = runs.glob("*/*")
    done = CliRunner().invoke(app, ["publish", str(run), "--zip", "--out", str(folder / "crate.zip")])
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(app, ["publish", str(run), "--zip", "--out", str(folder / "crate.zip")])
    assert "crate.zip is there already" in again.output
    return folder / "crate.zip"


def _rewritten(crate: Path, name: str, content: bytes | None) -> None:
    """`crate` with another content of a member, None: without it."""
    with zipfile.ZipFile(crate) as packed:
        members = {one: packed.read(one) for one in packed.namelist() if not one.endswith("/")}
    changed = {**members, name: content}
    with zipfile.ZipFile(crate, "w") as packed:
        for one, data in changed.items():
            if data is not None:
                packed.writestr(one, data)


def _flipped(crate: Path) -> None:
    """`crate` with other bytes in the middle of its first members."""
    whole = crate.read_bytes()
    crate.write_bytes(whole[:200] + bytes(50) + whole[250:])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda crate: crate.unlink(), "there is no such file"),
        (lambda crate: crate.write_bytes(crate.read_bytes()[:900]), "is no crate"),
        (_flipped, "its digest differs; fetch the crate anew"),
        (lambda crate: _rewritten(crate, "environment.lock.txt", b"\xff\xfe"), "fetch the crate anew"),
        (lambda crate: _rewritten(crate, "environment.lock.txt", None), "fetch the crate anew"),
        (
            lambda crate: _rewritten(crate, "ro-crate-metadata.json", b"[]"),
            "ro-crate-metadata.json is not what was written; fetch the crate anew",
        ),
        (lambda crate: _rewritten(crate, "ro-crate-metadata.json", None), "is no crate"),
    ],
)
def test_a_damaged_crate_is_told(crate: Path, tmp_path: Path, damage: Callable[[Path], None], said: str) -> None:
    mine = Path(shutil.copy(crate, tmp_path / "mine.zip"))
    damage(mine)
    done = CliRunner().invoke(app, ["rerun", str(mine), "--json"])
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code in (1, 2)
    assert said in json.loads(done.stdout)["error"]["message"]


def test_a_second_rerun_into_the_same_folder_is_refused(crate: Path, tmp_path: Path) -> None:
    (tmp_path / "workflow").mkdir()
    done = CliRunner().invoke(app, ["rerun", str(crate), "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "is there already; give another folder with --out" in done.output
