"""The core without the folder `extensions`: it works, and names the extension that something else needs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import Forks

ROOT = Path(__file__).resolve().parents[2]
# What needs an extension: arguments of `cosim`, and the extension.
NEED = {
    "bench schedulers --only ga": "metanet",
    "cluster next state.json": "gpu_cluster",
    "reproduce": "reproduce",
    "import edgecloudsim --out x": "edgecloudsim",
    "export srsran run --out x": "radio_logs",
    "export mcap run": "foxglove",
    "foxglove tcp://127.0.0.1:1": "foxglove",
    "ros2 tcp://127.0.0.1:1": "ros2",
    "export fmu scenarios/hello": "fmu",
    "publish run": "research_object",
    "import mlsysops node.yaml --out x": "mlsysops",
    "import osm town.osm --out x": "maps",
    "import stations sites.csv --out x": "maps",
    "import planetlab day.csv --out x": "traces",
    "check offloading": "edgecloudsim",
    "check gpu-philly": "gpu_cluster",
    "check sla-aware": "extcloudsim",
    "check calibrate-power": "published_data",
    "new --from offloading --in mine": "edgecloudsim",
    "check scenarios/hello --set adapters.continuum.scheduler=mail-mmsg": "mail_mmsg",
    "check fog-interval": "cosco",
    "check smart-farm-mlsysops": "mlsysops",
    "check jammed-city": "detection",
    "dataset run --out x": "detection",
    "detect train data": "detection",
}
# An editable installation would find the missing folder in its own checkout.
SITE = """
import sys
sys.meta_path[:] = [one for one in sys.meta_path if not getattr(one, "__module__", "").startswith("__editable__")]
"""
ASKS = "from tests.extensions import"  # what a module says that asks for extensions


def copied(folder, names, *left_out):
    """A checkout of the core alone, with machine code; entry points of extensions stay those of the installation."""
    ignored = shutil.ignore_patterns("*.pyc", "runs", *left_out)
    folder.mkdir(exist_ok=True)
    for name in names:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder)
    (folder / "sitecustomize.py").write_text(SITE)
    return folder


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    folder = copied(tmp_path_factory.mktemp("core"), ("cosim", "adapters", "scenarios"), "tests")
    (folder / "tests").mkdir()
    shutil.copy(ROOT / "tests/forked.py", folder / "tests")
    return Forks("cosim.cli.main", "cosim.scenario.plan.compile", root=folder)


def environment(folder):
    return {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200", "COSIM_REQUIRE": "", "COSIM_SKIPS": ""}


def python(folder, *words, timeout=250):
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=timeout, check=False
    )


def cosim(core, words):
    return core.run("cosim", *words.split(), cwd=core.root, env=environment(core.root))


def test_the_core_runs_and_lists_its_scenarios(core):
    assert cosim(core, "check scenarios/hello").returncode == 0
    assert "bench" in cosim(core, "--help").stdout
    names = {one["name"] for one in json.loads(cosim(core, "scenarios --json").stdout)["scenarios"]}
    assert {"hello", "city-edge", "convoy", "smart-farm"} <= names
    assert names.isdisjoint({"fog-interval", "offloading", "gpu-philly", "sla-aware", "calibrate-power"})
    listed = {one["name"]: one for one in json.loads(cosim(core, "schedulers --json").stdout)["schedulers"]}
    assert listed["ga"]["models"] == []
    assert listed["edf"]["models"]


def test_many_environments_at_once_name_the_extension(core):
    pytest.importorskip("gymnasium")
    done = python(
        core.root, "-c", "import gymnasium, cosim.envs; gymnasium.make_vec('cosim/Continuum-v1', scenario='x')"
    )
    assert "extension 'cosco', which is not there" in done.stderr


def test_search_does_without_the_policy_of_an_extension(core):
    code = "from cosim.schedulers.search import Search; print(Search().warm)"
    assert python(core.root, "-c", code).stdout == "None\n"


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_tests_of_the_core_need_no_extension(tmp_path):
    """All are collected, and those that ask for an extension are skipped with its name, or go without."""
    made = {"extensions", "build", "dist", "runs", "site"}
    names = [
        one.name for one in ROOT.iterdir() if one.name not in made and one.name[0] != "." and one.suffix != ".egg-info"
    ]
    folder = copied(tmp_path / "core", names)
    found = python(folder, "-m", "pytest", "-q", "--collect-only", "tests", "adapters")
    assert found.returncode == 0, found.stdout[-3000:]
    asking = [one for one in (folder / "tests").rglob("test_*.py") if ASKS in one.read_text("utf-8")]
    assert len(asking) > 10
    marks = "not slow and not chaos and not netns and not docker and not browser"
    done = python(folder, "-m", "pytest", "-q", "-rs", "-m", marks, *map(str, asking), timeout=2000)
    assert done.returncode == 0, done.stdout
    for name in sorted(set(NEED.values()) - {"fmu", "foxglove", "mail_mmsg", "maps", "mlsysops", "radio_logs", "ros2"}):
        assert f"the extension '{name}' is not there" in done.stdout


@pytest.mark.parametrize("words", NEED)
def test_what_needs_an_extension_names_it(core, words):
    done = cosim(core, words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"extension '{NEED[words]}', which is not there" in " ".join((done.stdout + done.stderr).split())
