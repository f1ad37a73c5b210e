from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError, SetupError
from cosim.contract.extras import how_to_install
from cosim.extensions.published_data.tests.jobs.data import DATA, needs
from cosim.extensions.simtune import job as simtune
from cosim.twin.jobs import load, setting

pytest.importorskip("scipy")


def log(cpu, curve, rng):
    energy = 5.0 * np.interp(cpu, simtune.POINTS, curve).sum(axis=1)
    return simtune.TestbedLog(cpu, energy, rng.integers(0, 4, len(cpu)).astype(float))


def write(folder, rows, kind="real"):
    rng = np.random.default_rng(3)
    cpu = rng.uniform(0.0, 100.0, (rows, 4))
    curve = np.linspace(70.0, 120.0, 11)
    made = log(cpu, curve, rng)
    for name, values in (("cpu", cpu), ("energytotalinterval", made.energy), ("avgresponsetime", made.response)):
        np.savetxt(folder / f"{kind}_{name}.csv", values, delimiter=",")
    return curve


def test_the_power_curve_is_found_again():
    rng = np.random.default_rng(1)
    curve = np.cumsum(rng.uniform(1.0, 9.0, 11)) + 60.0
    cpu = 100.0 * rng.random((60, 16)) ** 4
    np.testing.assert_allclose(simtune.power_curve(log(cpu, curve, rng), 5.0), curve, atol=0.3)


def test_a_power_curve_never_falls_and_goes_on_where_there_are_no_figures():
    rng = np.random.default_rng(2)
    cpu = rng.uniform(0.0, 40.0, (60, 16))
    curve = simtune.power_curve(log(cpu, np.linspace(70.0, 170.0, 11), rng), 5.0)
    assert (np.diff(curve) >= 0.0).all()
    np.testing.assert_allclose(curve, np.linspace(70.0, 170.0, 11), atol=1.0)


def test_the_cpu_of_hosts_without_tasks_is_found_behind_the_smoothing():
    rng = np.random.default_rng(4)
    raw = 0.5 * rng.poisson(0.4, (300, 8)) + 60.0 * (rng.random((300, 8)) < 0.1)
    smooth = np.zeros((301, 8))
    for t in range(300):
        smooth[t + 1] = 0.8 * raw[t] + 0.2 * smooth[t]
    found = simtune.idle_noise(simtune.TestbedLog(smooth[1:], raw[:, 0], raw[:, 0]), 0.8)
    assert found == pytest.approx(0.4, abs=0.05)


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    rng = np.random.default_rng(1)
    with pytest.raises(SetupError, match=re.escape(how_to_install("twin"))):
        simtune.power_curve(log(rng.uniform(0, 9, (20, 4)), np.linspace(70.0, 170.0, 11), rng), 5.0)


@pytest.mark.parametrize(("rows", "expected"), [(40, (20, 20)), (200, (100, 100)), (150, (75, 75)), (300, (100, 100))])
def test_rows_are_split_without_overlap(tmp_path, rows, expected):
    write(tmp_path, rows)
    fit, held_back = simtune.split(simtune.read(tmp_path))
    assert (len(fit), len(held_back)) == expected
    assert (fit.first, held_back.first) == (0, expected[0])


def test_later_rows_are_judged_whether_the_whole_log_or_its_end_is_given(tmp_path):
    for name in ("data", "whole", "end"):
        (tmp_path / name).mkdir()
    write(tmp_path / "whole", 40)
    for path in (tmp_path / "whole").iterdir():
        lines = path.read_text().splitlines()
        (tmp_path / "data" / path.name).write_text("\n".join(lines[:25]))
        (tmp_path / "end" / path.name).write_text("\n".join(lines[15:]))
    every = simtune.read(tmp_path / "whole")
    for name in ("whole", "end"):
        fit, judged, log = simtune.parts(tmp_path / "data", tmp_path / name, rows=15)
        np.testing.assert_array_equal(judged.energy, every.energy[15:30])
        assert (len(fit), judged.first, len(log)) == (15, 15, 40)
    (problem,) = simtune.problems(tmp_path / "data", {"rows": 15, "held_back": str(tmp_path / "end")})
    np.testing.assert_array_equal(problem.held_back.observed["energy"].values, every.energy[15:30])
    assert problem.held_back.name == "rows 16 to 30"
    with pytest.raises(ScenarioError, match="are the rows of the fit"):
        simtune.parts(tmp_path / "data", tmp_path / "data")


def test_a_problem_simulates_the_rows_that_were_measured(tmp_path):
    curve = write(tmp_path, 40)
    problem, *others = load("simtune")(tmp_path, {"replicates": 3})
    assert not others
    found = problem.held_back.simulate(problem.space.values(np.full((2, 4), 0.5)), 7)
    assert {name: values.shape for name, values in found.items()} == {"energy": (2, 60), "response": (2, 60)}
    again = problem.held_back.simulate(problem.space.values(np.full((1, 4), 0.5)), 7)
    np.testing.assert_array_equal(again["energy"][0], found["energy"][0])
    assert f"{curve[0]:.4g}" in problem.assumptions[-2]
    assert problem.fit.observed["energy"].origin == "modelled"


def test_a_log_that_lies_is_refused(tmp_path):
    write(tmp_path, 20)
    (tmp_path / "real_avgresponsetime.csv").write_text("\n".join(["-1"] * 20))
    with pytest.raises(ScenarioError, match="response have negative"):
        simtune.read(tmp_path)
    (tmp_path / "real_avgresponsetime.csv").write_text("1\n2\n")
    with pytest.raises(ScenarioError, match="do not belong together"):
        simtune.read(tmp_path)
    (tmp_path / "real_avgresponsetime.csv").write_text("1\nhigh\n")
    with pytest.raises(ScenarioError, match="no table of numbers"):
        simtune.read(tmp_path)


def test_absent_files_and_jobs_are_named(tmp_path):
    with pytest.raises(ScenarioError, match="there is no real_cpu"):
        simtune.read(tmp_path)
    with pytest.raises(ScenarioError, match="there is no job 'tune'"):
        load("tune")
    with pytest.raises(ScenarioError, match="is no number"):
        setting({"rows": "many"}, "rows", 1)


class TestRealData:
    pytestmark = needs("edge_power/simtune")

    def test_the_energy_is_a_power_table_of_the_cpu_figures(self):
        fit, held_back = simtune.split(simtune.read(DATA))
        curve = simtune.power_curve(fit, 5.0)
        predicted = 5.0 * np.interp(held_back.cpu, simtune.POINTS, curve).sum(axis=1)
        np.testing.assert_allclose(predicted, held_back.energy, rtol=1e-3)
