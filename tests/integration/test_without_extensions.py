"""The core without the folder `extensions`: it works, and names the extension that something else needs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What needs an extension: arguments of `cosim`, and the extension.
NEED = {
    "bench schedulers --only ga": "metanet",
    "cluster next state.json": "gpu_cluster",
    "import edgecloudsim --out x": "edgecloudsim",
    "check scenarios/offloading": "edgecloudsim",
    "check scenarios/gpu-philly": "gpu_cluster",
    "check scenarios/sla-aware": "extcloudsim",
    "check scenarios/calibrate-power": "published_data",
    "new --from offloading --in mine": "edgecloudsim",
    "check scenarios/hello --set adapters.continuum.scheduler=mail-mmsg": "mail_mmsg",
}
# An editable installation would find the missing folder in its own checkout.
PROGRAM = """
import sys
sys.meta_path[:] = [one for one in sys.meta_path if not getattr(one, "__module__", "").startswith("__editable__")]
sys.argv[0] = "cosim"
from cosim.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """A checkout of the core alone; the entry points of the extensions stay those of the installation."""
    folder = tmp_path_factory.mktemp("core")
    for name in ("cosim", "adapters", "scenarios"):
        left_out = shutil.ignore_patterns("__pycache__", "tests", "runs")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=left_out)
    return folder


def cosim(core, words):
    environment = {**os.environ, "PYTHONPATH": str(core), "COLUMNS": "200"}
    command = [sys.executable, "-c", PROGRAM, *words.split()]
    return subprocess.run(command, cwd=core, env=environment, capture_output=True, text=True, timeout=250, check=False)


def test_the_core_runs_and_lists_its_scenarios(core):
    assert cosim(core, "check scenarios/hello").returncode == 0
    assert "bench" in cosim(core, "--help").stdout
    names = {one["name"] for one in json.loads(cosim(core, "scenarios --json").stdout)["scenarios"]}
    assert {"hello", "city-edge", "fog-interval", "smart-farm"} <= names
    assert names.isdisjoint({"offloading", "gpu-philly", "sla-aware", "calibrate-power"})
    listed = {one["name"]: one for one in json.loads(cosim(core, "schedulers --json").stdout)["schedulers"]}
    assert listed["ga"]["models"] == []
    assert listed["edf"]["models"]


@pytest.mark.parametrize("words", NEED)
def test_what_needs_an_extension_names_it(core, words):
    done = cosim(core, words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"extension '{NEED[words]}', which is not there" in " ".join((done.stdout + done.stderr).split())
