from __future__ import annotations

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.contract.laws import LawText
from cosim.extensions.published_data import noise
from cosim.extensions.published_data.tests.jobs.data import DATA, needs
from cosim.twin.fitting.calibrate import calibrate
from cosim.twin.jobs import load
from cosim.twin.search import Budget

norm = pytest.importorskip("scipy.stats").norm


def write(folder, name="cpu__here_large", machines=2, runs=400, spread=0.02, share=0.05, times=1.3, seed=1):
    """Scores of machines whose levels differ and drift, so that only the last runs tell what is typical."""
    rng = np.random.default_rng(seed)
    lines = ["value,runtime,starttime,VM_id"]
    for machine in range(machines):
        drift = np.cumsum(rng.normal(0.0, 1e-4, runs))
        took = np.exp(spread * rng.standard_normal(runs) + drift) * np.where(rng.random(runs) < share, times, 1.0)
        for k, score in enumerate(1000.0 * (1 + machine) / took):
            lines.append(f"{score},90,2023-09-{1 + k // 24:02d} {k % 24:02d}:00:00,{machine}")
    (folder / f"{name}.csv").write_text("\n".join(lines))


def test_quantiles_are_those_of_the_mixture():
    values = np.array([(0.1, 0.2, 1.5), (0.01, 1e-3, 3.0)])
    for (spread, share, times), reported in zip(values, noise.law(values), strict=True):
        below = (1 - share) * norm.cdf(np.log(reported) / spread) + share * norm.cdf(np.log(reported / times) / spread)
        np.testing.assert_allclose(below, noise.LEVELS, atol=1e-9)


def test_the_law_is_found_and_is_a_field_of_a_scenario(tmp_path):
    write(tmp_path, runs=700)
    (problem,) = load("noise")(tmp_path, {})
    answer = calibrate(problem, budget=Budget(runs=600), seed=1, posterior=False)
    spread, share, times = (float(estimate.value) for estimate in answer.estimates)
    assert spread == pytest.approx(0.02, rel=0.15)
    assert share == pytest.approx(0.05, rel=0.4)
    assert times == pytest.approx(1.3, rel=0.05)


def test_the_law_is_a_field_of_a_scenario(tmp_path):
    write(tmp_path)
    (problem,) = noise.problems(tmp_path, {"work": "90 Mcycles"})
    fields = problem.results({"spread": 0.02, "slow.share": 0.05, "slow.times": 1.3})
    assert fields == {"work": "log-normal 90 Mcycles +- 2 %, 5 % x 1.3"}
    law = LawText("work")._read(fields["work"])
    assert (law.law, law.a, law.b, law.share, law.times) == ("log-normal", 90e6, 0.02, 0.05, 1.3)
    with pytest.raises(ScenarioError, match=r"settings\.work"):
        noise.problems(tmp_path, {"work": "90 parsecs"})


def test_halves_machines_and_other_folders_are_judged(tmp_path):
    write(tmp_path, machines=3)
    first, later = noise.parts(tmp_path, {})
    assert [len(one) for one in first] == [185, 185, 185]
    assert [len(one) for one in later] == [185, 185, 185]
    fit, judged = noise.parts(tmp_path, {"machine": "1"})
    assert (len(fit), len(judged)) == (2, 1)
    other = tmp_path / "other"
    other.mkdir()
    write(other, machines=1, seed=2)
    (tmp_path / "fit").mkdir()
    (tmp_path / "cpu__here_large.csv").rename(tmp_path / "fit" / "cpu__here_large.csv")
    fit, judged = noise.parts(tmp_path / "fit", {"held_back": str(other)})
    assert (len(fit), len(judged)) == (3, 1)


def test_what_cannot_be_used_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match="there is no"):
        noise.problems(tmp_path, {})
    write(tmp_path, runs=100)
    with pytest.raises(ScenarioError, match="machine 0 has 100 runs, and 120 are needed"):
        noise.problems(tmp_path, {})
    write(tmp_path)
    with pytest.raises(ScenarioError, match="machine 7 cannot be held back"):
        noise.problems(tmp_path, {"machine": 7})
    write(tmp_path, name="ram__here_large")
    with pytest.raises(ScenarioError, match="2 files of 2 have '' in their names") as refused:
        noise.problems(tmp_path, {})
    assert "cpu__here_large, ram__here_large" in str(refused.value)
    path = tmp_path / "ram__here_large.csv"
    lines = path.read_text().splitlines()
    lines[3] = lines[3].replace(lines[3].split(",")[0], "-5", 1)
    path.write_text("\n".join(lines))
    with pytest.raises(ScenarioError, match="missing or not above 0"):
        noise.problems(tmp_path, {"benchmark": "ram"})


class TestRealData:
    pytestmark = needs("cloud_traces/azure_vm_noise")

    @pytest.mark.parametrize("held_back", [{}, {"machine": "2"}])
    def test_unseen_runs_lie_in_the_interval(self, held_back):
        settings = {"benchmark": "redis_test_get_parallel_connections_50__eastus_B8ms", **held_back}
        (problem,) = noise.problems(DATA, settings)
        answer = calibrate(problem, budget=Budget(runs=300), seed=1, posterior=False)
        reported = noise.law(np.array([[float(estimate.value) for estimate in answer.estimates]]))[0]
        _, judged = noise.parts(DATA, settings)
        inside = np.mean([(times >= reported[4]) & (times <= reported[94]) for times in [np.concatenate(judged)]])
        assert 0.85 <= inside <= 0.98
