"""Versions of what the project stands on: the range is stated once, and works at both ends."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from cosim.compiled import compiling
from cosim.contract.versions import outside
from tests.environments import PROJECT, ROOT, interpreter, package

CORE = PROJECT["dependencies"]
DEV = PROJECT["optional-dependencies"]["dev"]
TOOLS = [line for line in DEV if package(line) in ("pytest", "pytest-timeout", "hypothesis")]
BUS = ("tests/unit/bus", "adapters/mosaik/tests")
ENGINE = (
    "tests/unit/compiled/test_compiling.py", "tests/unit/engine/continuum/test_engine.py",
    "tests/unit/engine/continuum/test_machines.py", "tests/unit/engine/continuum/test_batch.py",
    "tests/unit/contract", "tests/unit/results/test_recorder.py",
)  # fmt: skip


@pytest.mark.parametrize(
    ("found", "requirement", "answer"),
    [
        ("0.62.0", "numba>=0.61.2,<0.69", False),
        ("0.68.1", "numba<0.69,>=0.61.2", False),
        ("0.69.0rc1", "numba>=0.61.2,<0.69", True),
        ("0.9.1", "numba>=0.61.2,<0.69", True),
        ("4", "mosaik>=3.6,<4", True),
        ("25", "pyzmq>=25", False),
        ("24.0.1", "pyzmq >= 25", True),
        ("1.0", "anything", False),
    ],
)
def test_a_version_is_inside_or_outside(found, requirement, answer):
    assert outside(found, requirement) == answer


@pytest.mark.parametrize("requirement", CORE)
def test_what_is_installed_is_what_was_tested(requirement):
    """A release that lies outside needs a look at its changes, a run of the suites, and another range."""
    assert not outside(version(package(requirement)), requirement), version(package(requirement))


def test_the_range_of_numba_is_stated_once():
    assert compiling.NUMBA in CORE


def test_the_docs_show_the_ranges():
    page = (ROOT / "docs/versions.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([\w.-]+[<>=][^`]*)` \|", page, re.M)) == set(CORE)


def passes(python: Path, *paths: str) -> None:
    """Run tests with another interpreter, which keeps its machine code in its environment."""
    code = str(python.parents[1] / "code")
    own = {"PYTHONPATH": str(ROOT), "COSIM_CACHE": code, "COSIM_REQUIRE": "", "COSIM_SKIPS": ""}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = [python, "-m", "pytest", "-q", "-m", "not slow and not chaos", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(words, cwd=ROOT, env=inherited | own, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_oldest_versions_together():
    oldest = [re.sub(r">=([\d.]+).*", r"==\1", line) for line in CORE]
    passes(interpreter("oldest", *oldest, *TOOLS), *BUS, *ENGINE)


def newer_python() -> str:
    """A Python later than 3.11 on the path or below pyenv, or ""."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for name in ("python3.13", "python3.12"):
        for place in (shutil.which(name), *pyenv.glob(f"*/bin/{name}")):
            # pyenv has names on the path that start nothing, and Debian a Python that makes no environments
            if place and subprocess.run([place, "-c", "import ensurepip"], capture_output=True).returncode == 0:
                return str(place)
    return ""


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python has the newest mosaik")
def test_the_newest_mosaik_on_a_newer_python():
    """From 3.7 on mosaik needs Python 3.12."""
    base = newer_python()
    if not base:
        pytest.skip("there is no Python 3.12 or 3.13 beside this one")
    passes(interpreter("newest", *CORE, *TOOLS, base=base), *BUS)
