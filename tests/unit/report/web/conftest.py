"""A finished run, made once, and a fake live one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan

ROOT = Path(__file__).resolve().parents[4]
SHORT = ["run.duration=20 s", "events=[{at: 10 s, do: fail, node: south, for: 5 s}]"]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory) -> Path:
    """A run of the hello scenario, 20 s long, in which `south` fails from 10 s to 15 s."""
    plan = compile_plan(load(ROOT / "tests/scenarios/hello", SHORT))
    outcome = run_plan(plan, tmp_path_factory.mktemp("runs"), driver="loop")
    assert outcome.status == "complete"
    return outcome.folder
