"""What a job found, as fields of the scenario that names it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.extensions.published_data import edge, power
from cosim.extensions.published_data.models.power import LEVELS
from cosim.scenario.extrapolation import extrapolations
from cosim.scenario.load import load
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.jobs import check, fields
from cosim.twin.jobs import load as job
from cosim.twin.scenario.overlay import write
from cosim.twin.search import Budget
from tests.overlays import read

SCENARIOS = Path(__file__).parents[2] / "scenarios"
POWER, EDGE = SCENARIOS / "calibrate-power", SCENARIOS / "calibrate-edge"
LOADS = [0, 50, 100]  # % that were measured


def made_up_servers() -> power.Servers:
    random = np.random.default_rng(4)
    full = random.uniform(150.0, 400.0, (30, 1))
    idle, bend = random.uniform(0.2, 0.5, (30, 1)), random.uniform(0.8, 1.4, (30, 1))
    watts = full * (idle + (1.0 - idle) * LEVELS**bend)
    return power.Servers(tuple(f"server {k}" for k in range(30)), watts, "made up")


def test_a_scenario_with_the_overlay_has_the_predicted_power_table(tmp_path: Path) -> None:
    servers, loaded = made_up_servers(), load(POWER)
    problem = power.server(servers, 7, LOADS)
    check(loaded, [], problem)
    found = calibrate(problem, budget=Budget(400), posterior=False)
    values = {one.name: one.value for one in found.estimates}
    write(tmp_path / "server.calibration.yaml", found, fields=fields(loaded, problem, values))
    assert read(tmp_path / "server.calibration.yaml").fields["kinds"]["server"]["power"]["table"]

    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(f"include: [{POWER / 'scenario.cosim.yaml'}, server.calibration.yaml]\n", encoding="utf-8")
    block = load(file).scenario.kinds["server"].power
    assert block is not None
    table = np.array(block.table)
    assert table[[0, 5, 10]] == pytest.approx(servers.watts[7][[0, 5, 10]], abs=0.06)  # as measured
    assert table == pytest.approx(servers.watts[7], rel=0.03)  # the rest as predicted
    assert extrapolations(load(file)) == ()
    changed = load(file, ["kinds.server.power.table=[10 W, 20 W]"])
    assert any("kinds.server.power.table is" in reported for reported in extrapolations(changed))


def test_works_have_the_mean_and_the_deviation_of_single_runs() -> None:
    (problem,) = edge.problems(EDGE / "recording", {})
    loaded = load(EDGE)
    check(loaded, [], problem)
    of = edge.twin(edge.read(EDGE / "recording"))
    values = dict.fromkeys(problem.space.names, 0.02)  # s
    found = fields(loaded, problem, values)
    assert found["nodes.edge-2.contention"] == 0.02
    number = of.works.index(("resnet18", 96))
    runs = 0.02 * of.scatter[number]
    changed = load(EDGE, [f"workloads.resnet18.work={found['workloads.resnet18.work']}"])
    law = changed.scenario.workloads["resnet18"].work
    assert law is not None
    assert law.mean == pytest.approx(1e9 * runs.mean(), rel=1e-3)
    assert (law.b - law.a) / np.sqrt(12.0) == pytest.approx(1e9 * runs.std(), rel=0.01)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("{kinds.server.power.table: curv}", "did you mean 'curve'?"),
        ("{kinds.server.power.tabel: curve}", "did you mean 'table'?"),
        ("{kinds.server.cpu: curve}", "kinds.server.cpu"),
        ("{links.0.rate: curve}", "name the whole list"),
    ],
)
def test_a_field_that_cannot_take_a_result_is_refused_before_the_search(wanted: str, message: str) -> None:
    loaded = load(POWER, [f"calibrate.fields={wanted}"])
    with pytest.raises(ScenarioError) as refused:
        check(loaded, [f"calibrate.fields={wanted}"], power.server(made_up_servers(), 7, LOADS))
    assert message in str(refused.value)


def test_a_setting_that_no_job_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="did you mean 'machine'"):
        job("power")(tmp_path, {"machin": "T620"})
