"""What `cosim check` accepts, `cosim run` runs: tried with scenarios that have been changed at random."""

from __future__ import annotations

import ast
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from cosim.contract.errors import CosimError, RunError, ScenarioError
from cosim.contract.frame import Frame
from cosim.results.session import run_plan
from cosim.scenario.gallery import examples
from cosim.scenario.gather import shipped
from cosim.scenario.plan.compile import plan_of
from tests.contract.mutated import ROOT, SCENARIOS, mutant
from tests.extensions import needs, scenarios

pytestmark = pytest.mark.xdist_group("kernels")  # after an edit these compile for a minute: one worker does it


class Enough:
    """Ends a run after some ticks: what is refused is refused before."""

    def tick(self, tick: int, time: float, frames: Sequence[tuple[str, Frame]]) -> None:
        if tick >= 2:
            raise RunError("enough")


def tried(scenario: str, seed: int, folder: Path) -> str:
    """ "refused" by check, or "ran"; fails when a run is refused that check has accepted."""
    source = shipped()[scenario]
    place = folder / scenario
    if not place.exists():
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("runs", "*.md"))
    text = mutant(scenario, seed)
    (place / "scenario.cosim.yaml").write_text(text, encoding="utf-8")
    try:
        plan = plan_of(place)
    except ScenarioError:
        return "refused"
    runs = folder / "runs"
    try:
        outcome = run_plan(plan, runs, driver="loop", observers=[Enough()])
    except CosimError as error:
        pytest.fail(f"{scenario} {seed}: check accepts it, run says {type(error).__name__}: {error}\n{text}")
    assert outcome.error is None or outcome.error.exit_code == 1, f"{scenario} {seed}: {outcome.error}\n{text}"
    shutil.rmtree(outcome.folder)
    return "ran"


@pytest.mark.parametrize("scenario", scenarios(*SCENARIOS))
def test_what_check_accepts_run_runs(scenario, tmp_path):
    found = Counter(tried(scenario, seed, tmp_path) for seed in range(4))
    assert found.total() == 4
    assert not any((tmp_path / "runs").glob("*/*"))


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_mutants_are_refused_or_run(tmp_path):
    """A thousand with HYPOTHESIS_PROFILE=explore, which takes half an hour."""
    count = 1000 if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else 100
    there = [one.name for one in examples() if one.name in SCENARIOS]
    found = Counter(tried(there[seed % len(there)], 1000 + seed, tmp_path) for seed in range(count))
    assert found["ran"] >= count // 10
    assert found["refused"] >= count // 10


ADAPTERS = sorted(path for path in (ROOT / "adapters").rglob("*.py") if "tests" not in path.parts)


@pytest.mark.parametrize(
    ("scenario", "wrong"),
    [
        ("jammed-farm", "adapters.wifi.fading=hello"),
        pytest.param("jammed-city", "adapters.radio.model=foo", marks=needs("detection")),
    ],
)
def test_what_an_adapter_brings_is_known_though_its_block_is_wrong(scenario, wrong):
    """Keys of nodes, events and keys of events."""
    with pytest.raises(ScenarioError) as refused:
        plan_of(scenario, [wrong])
    (problem,) = refused.value.problems
    assert problem.path == wrong.partition("=")[0]


def test_adapters_read_no_environment():
    """What an adapter is to know stands in `Context`, or in `cosim.contract.environment`."""
    read = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in ADAPTERS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    ]
    assert not read
