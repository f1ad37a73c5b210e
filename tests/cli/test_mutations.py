"""Damaged scenario files: `cosim check` answers with 0 or 2 and a clear text, never with a traceback."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cosim.cli.main import app
from cosim.scenario.gather import shipped
from tests.extensions import scenarios, skip_without_packages
from tests.forked import cosim
from tests.mutations import mutate

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = list(shipped().values())
MUTATIONS = 400 // len(SCENARIOS)  # of each scenario, in process
VERBS = (("check",), ("plan", "--json"))  # in a process, by turns


def marks(folder):
    return [pytest.mark.sumo] if "sumo:" in (folder / "scenario.cosim.yaml").read_text() else []


NAMED = zip(SCENARIOS, scenarios(*(folder.name for folder in SCENARIOS)), strict=True)
every = pytest.mark.parametrize(
    "folder", [pytest.param(folder, id=folder.name, marks=[*marks(folder), *one.marks]) for folder, one in NAMED]
)


@pytest.fixture
def copy(folder, tmp_path) -> Path:
    """A copy of the scenario's folder, whose file may be damaged."""
    return Path(shutil.copytree(folder, tmp_path / folder.name))


@every
def test_check_survives_damage(folder, copy):
    rng = random.Random(f"in process {folder.name}")
    text = (folder / "scenario.cosim.yaml").read_text()
    skip_without_packages(text)
    assert CliRunner().invoke(app, ["check", str(copy)]).exit_code == 0
    codes = set()
    for number in range(MUTATIONS):
        data = mutate(text, rng)
        (copy / "scenario.cosim.yaml").write_bytes(data)
        done = CliRunner().invoke(app, ["check", str(copy)])
        assert done.exception is None or isinstance(done.exception, SystemExit), (number, data, done.exc_info)
        assert done.exit_code in (0, 2), (number, data, done.output)
        assert "Traceback" not in done.output, (number, data)
        if done.exit_code == 2:
            assert "found; nothing was started" in done.output, (number, data, done.output)
        codes.add(done.exit_code)
    assert 2 in codes  # damage is noticed, though not each


@pytest.mark.parametrize(
    ("folder", "verb"),
    [pytest.param(f, VERBS[k % 2], id=f"{f.name}-{VERBS[k % 2][0]}") for k, f in enumerate(SCENARIOS)],
)
def test_the_command_survives_damage(folder, copy, verb):
    rng = random.Random(f"{verb} {folder.name}")
    text = (folder / "scenario.cosim.yaml").read_text()
    data = mutate(text, rng)
    (copy / "scenario.cosim.yaml").write_bytes(data)
    done = cosim(*verb, copy)
    assert done.returncode in (0, 2), (data, done.stderr)
    assert "Traceback" not in done.stderr + done.stdout, data


@every
def test_check_survives_random_bytes(folder, copy):
    rng = random.Random(f"bytes {folder.name}")
    for size in (0, 1, 10, 1_000, 100_000):
        (copy / "scenario.cosim.yaml").write_bytes(rng.randbytes(size))
        done = CliRunner().invoke(app, ["check", str(copy)])
        assert done.exit_code == 2
        assert isinstance(done.exception, SystemExit)
