from __future__ import annotations

import numpy as np
import pytest

from benchmarks import twin_power
from cosim.contract.errors import ScenarioError
from cosim.extensions.published_data import power
from cosim.extensions.published_data.tests.jobs.data import DATA, needs
from cosim.extensions.published_data.tests.models.test_power import machines
from cosim.twin.jobs import load

HEADER = ["HW_Vendor", "HW_Model", "HW_CPUName", "ActiveIdle", *(f"{load}_AvgPower" for load in range(10, 101, 10))]


def write(path, watts):
    rows = [",".join(["Maker", f"Model {k}", "CPU", *map(str, row)]) for k, row in enumerate(watts)]
    path.write_text("\n".join([",".join(HEADER), *rows]))


def test_a_server_is_fitted_at_some_loads_and_judged_at_the_others(tmp_path):
    watts = machines(40)
    write(tmp_path / "spec_data.csv", watts)
    (problem,) = load("power")(tmp_path, {"machine": "model 7", "levels": [0, 30, 60, 100]})
    assert len(problem.fit.observed["power"].values) == 4
    assert len(problem.held_back.observed["power"].values) == 7
    reported = problem.fit.simulate(problem.space.start[None], 1)["power"]
    assert reported.shape == (1, 4)
    assert reported[0, -1] == pytest.approx(watts[7, -1])


def test_the_searched_shapes_can_reach_the_measured_curve(tmp_path):
    watts = machines(40)
    write(tmp_path / "spec_data.csv", watts)
    servers = power.read_servers(tmp_path)
    problem = power.server(servers, 3)
    mean, rows = twin_power.MeasuredMachines(watts).without(3).components(power.COMPONENTS)
    scores = np.linalg.lstsq(rows.T, watts[3] / watts[3, -1] - mean, rcond=None)[0]
    reported = problem.held_back.simulate(np.array([[watts[3, -1], *scores]]), 1)["power"][0]
    np.testing.assert_allclose(reported, problem.held_back.observed["power"].values, rtol=0.01)


def test_other_servers_can_be_judged_with_those_of_the_data_as_the_prior(tmp_path):
    for name, seed in (("fit", 1), ("judged", 2)):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "spec_data.csv", machines(20, seed))
    found = power.problems(tmp_path / "fit", {"held_back": str(tmp_path / "judged")})
    assert len(found) == 20
    assert "20 other servers" in found[0].assumptions[0]
    np.testing.assert_allclose(found[3].fit.observed["power"].values, machines(20, 2)[3, ::2])


def test_wrong_settings_and_tables_are_named(tmp_path):
    watts = machines(20)
    write(tmp_path / "spec_data.csv", watts)
    with pytest.raises(ScenarioError, match="no server's name has 'abacus'"):
        power.problems(tmp_path, {"machine": "abacus"})
    with pytest.raises(ScenarioError, match="not multiples of 10 %"):
        power.problems(tmp_path, {"levels": [0, 15, 100]})
    with pytest.raises(ScenarioError, match="there is no set 'phones'"):
        power.problems(tmp_path, {"set": "phones"})
    with pytest.raises(ScenarioError, match="no other data can be"):
        power.problems(tmp_path, {"set": "counters", "held_back": str(tmp_path)})
    watts[4, 2] = -1.0
    write(tmp_path / "spec_data.csv", watts)
    with pytest.raises(ScenarioError, match=r"spec_data.csv:6.*not above 0 W"):
        power.problems(tmp_path, {})
    (tmp_path / "spec_data.csv").write_text("HW_Vendor,HW_Model\na,b\n")
    with pytest.raises(ScenarioError, match="no column 'ActiveIdle'"):
        power.problems(tmp_path, {})


class TestRealData:
    pytestmark = needs("edge_power/spec_power_ssj2008")

    @pytest.fixture(autouse=True)
    def _scipy(self):
        pytest.importorskip("scipy")

    def test_every_server_is_within_three_percent_on_average_at_loads_it_was_not_measured_at(self):
        servers = power.read_servers(DATA)
        errors, covered = twin_power._predict(
            servers, servers, range(0, len(servers.names), 4), (0, 10, 30, 50, 80, 100), leave_out=True
        )
        each = errors["fleet prior"].mean(axis=1)
        assert each.max() <= 0.03
        assert each.mean() < errors["own points"].mean() < errors["straight line (before)"].mean()
        assert 0.8 <= covered <= 0.97

    def test_counters_tell_the_platform_power_of_other_blocks_of_time(self):
        before, after, mean = twin_power._counters(DATA)
        assert after["r2"] > 0.8 > mean["r2"]
        assert after["mean relative error"] < 0.07 < before["mean relative error"]
