"""What is told about missing packages can be followed to the letter, with any package index."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from cosim.contract.extras import how_to_install

ROOT = Path(__file__).resolve().parents[3]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
NAMED = re.compile(r"(?:how_to_install|require)\([\"'](\w+)|Requirement\(\"\w+\", \"(\w+)\"")


def texts(*patterns):
    return {path: path.read_text("utf-8") for pattern in patterns for path in ROOT.glob(pattern)}


def test_a_remedy_names_the_packages_that_its_extra_brings():
    code = texts("cosim/**/*.py", "adapters/*/*.py", "extensions/**/*.py")
    named = {first or second for text in code.values() for first, second in NAMED.findall(text)}
    assert {"fmi", "learn", "plot", "ray", "sumo", "vehicles"} <= named
    assert named <= EXTRAS.keys()
    for extra in named:
        command = shlex.split(how_to_install(extra))
        assert command[command.index("install") + 1 :] == EXTRAS[extra]


def test_no_page_and_no_message_asks_an_index_for_this_package():
    reported = texts(
        "*.md",
        "docs/**/*.md",
        "docs/**/*.ipynb",
        "*/*/README.md",
        "cosim/**/*.py",
        "adapters/*/*.py",
        "extensions/**/*.py",
    )
    assert [path for path, text in reported.items() if re.search(r"pip install [\"']?continuum-cosim", text)] == []


@pytest.mark.parametrize(("folder", "program"), [("bin", ["pip"]), ("other", None)])
def test_pip_is_named_alone_where_it_is_that_of_the_interpreter(tmp_path, monkeypatch, folder, program):
    other = tmp_path / folder
    other.mkdir()
    (other / "pip").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(other))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    command = shlex.split(how_to_install("web"))
    assert command[: command.index("install")] == (program or [sys.executable, "-m", "pip"])
