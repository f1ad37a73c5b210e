"""The comparison table: which rows are fitted and judged, the figures of a judgement, one small table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import twin_algorithm1, twin_compare, twin_splits
from cosim.contract.errors import ScenarioError, SetupError
from cosim.extensions.simtune import job as simtune
from cosim.extensions.simtune.surrogate.methods import METHODS
from cosim.results.distances import wasserstein
from cosim.twin.problem import Case, MeasuredSignal

RANDOM = np.random.default_rng(9)


def write(folder, rows):
    """A log of four hosts; the energies count the rows, so that parts can be told apart."""
    folder.mkdir(exist_ok=True)
    columns = {
        "cpu": RANDOM.uniform(0.0, 30.0, (rows, 4)),
        "energytotalinterval": 1500.0 + np.arange(float(rows)),
        "avgresponsetime": RANDOM.integers(0, 4, rows).astype(float),
    }
    for name, values in columns.items():
        np.savetxt(folder / f"real_{name}.csv", values, delimiter=",")
    return folder


def test_without_held_back_rows_the_log_is_split(tmp_path):
    fit, later = twin_compare.logs(write(tmp_path, 60), None)
    assert (len(fit), len(later), later.first) == (30, 30, 30)


@pytest.mark.parametrize(("rows", "judged", "energy"), [(150, 50, 1600.0), (40, 40, 1500.0)])
def test_held_back_rows_are_those_after_the_fit(tmp_path, rows, judged, energy):
    """The whole log, or only its later rows, may lie there."""
    data, held_back = write(tmp_path / "data", 120), write(tmp_path / "later", rows)
    fit, later = twin_compare.logs(data, held_back)
    assert (len(fit), len(later), later.first) == (100, judged, 100)
    assert later.energy[0] == energy


def test_a_judgement_is_scaled_by_the_range_of_all_rows():
    values = np.linspace(0.0, 1.0, 20)
    case = Case({"energy": MeasuredSignal(values)}, lambda v, seed: {"energy": values[None] + v})
    reported = twin_compare._judged(case, np.array([0.5]), {"energy": 2.0})
    assert reported["W1 energy"] == pytest.approx(0.25)
    assert reported["G1"] == pytest.approx(0.25)


def test_without_data_it_says_what_it_needs():
    with pytest.raises(SetupError, match="--data"):
        twin_compare.run(None, None, True)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ScenarioError):
        twin_compare.run(tmp_path, None, True)


@pytest.mark.slow
def test_the_control_judges_its_best_again():
    pytest.importorskip("scipy")
    problem = twin_compare._neutral(simtune.problem(*_logs(), replicates=2))
    values, runs, _, _ = twin_compare._chance(problem, 60)(1)
    assert runs == 60
    np.testing.assert_array_equal(values, twin_compare._chance(problem, 60)(1)[0])
    assert np.all(np.isfinite(values))


def _logs():
    energy, response = 1500.0 + 50.0 * RANDOM.random(40), RANDOM.integers(0, 4, 40).astype(float)
    return simtune.split(simtune.TestbedLog(RANDOM.uniform(0.0, 30.0, (40, 4)), energy, response))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_small_table(tmp_path, monkeypatch):
    monkeypatch.setattr(twin_compare, "QUICK_RUNS", 64)
    monkeypatch.setattr(twin_compare, "QUICK_SEEDS", 1)
    found = twin_compare.run(write(tmp_path, 60), None, True)
    table = {row["method"]: row for row in found["methods"]}
    left_out = {line.partition(":")[0] for line in found.get("left out", [])}
    more = f"{twin_compare.EXACT}, {twin_compare.MORE} times the runs"
    assert set(table) | (left_out - {"Algorithm 1"}) == {twin_compare.EXACT, more, twin_compare.CHANCE, *METHODS}
    for name, row in table.items():
        assert np.isfinite(row["held back W1 energy"])
        assert np.isfinite(row["held back G1"])
        if not name.startswith(twin_compare.EXACT):
            assert row["runs"] <= 64
    if "Algorithm 1" not in left_out:
        assert [row["method"] for row in found["Algorithm 1"]] == [*twin_algorithm1.VARIANTS, "hidden values"]


def test_a_cut_is_judged_on_rows_that_it_does_not_fit(tmp_path):
    pytest.importorskip("scipy")
    log = simtune.read(write(tmp_path, 40))
    one, other = twin_splits._cut(log, (0.5, 1.0, 0.0, 0.5), 40, 1)
    assert (one["fit rows"], one["judged rows"]) == ("21 to 40", "1 to 20")
    assert (one["method"], other["method"]) == (twin_compare.EXACT, twin_splits.HGP)
    assert 0.0 < one["judged"] < 100.0


def test_parameters_that_made_a_log_are_nearest_to_its_law(tmp_path):
    pytest.importorskip("scipy")
    problem = twin_compare._neutral(simtune.problem(simtune.read(write(tmp_path, 40)), None, replicates=8))
    truth, middle = problem.space.values(np.array([[0.3] * 4, [0.5] * 4]))
    law, again, far = (twin_splits._law(problem, values, k * 1000) for k, values in enumerate((truth, truth, middle)))
    for name in law:
        assert wasserstein(law[name], again[name][None])[0] < 0.5 * wasserstein(law[name], far[name][None])[0]
