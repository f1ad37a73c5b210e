import random
from pathlib import Path

import pytest

from cosim.contract.errors import ScenarioError
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.sweep import expand
from tests.mutations import mutate
from tests.unit.scenario import fakes


@pytest.mark.parametrize("part", range(10))
def test_a_damaged_scenario_is_read_or_refused_and_nothing_else(tmp_path: Path, part: int) -> None:
    file = tmp_path / "scenario.cosim.yaml"
    refusals: list[ScenarioError] = []
    for number in range(100):
        damaged = mutate(fakes.FARM, random.Random(1000 * part + number))
        file.write_bytes(damaged)
        try:
            loaded = load(file)
            assert len(compile_plan(loaded).hash) == 64
            assert expand(loaded)
        except ScenarioError as error:
            refusals.append(error)
    assert 10 < len(refusals) < 100
    for error in refusals:
        assert error.problems
        assert all(problem.message for problem in error.problems)
        assert "Traceback" not in str(error)
