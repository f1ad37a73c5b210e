"""The command line of the benchmarks of calibration."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import twin, twin_battery, twin_fiveg
from cosim.extensions.published_data.tests.jobs.test_battery import falling, write


def test_absent_data_are_named_and_change_nothing(tmp_path, capsys):
    for job in ("simtune", "power", "5g", "battery", "noise"):
        assert twin.main(["--job", job, "--data", str(tmp_path)]) == 2
        assert str(tmp_path) in capsys.readouterr().err


def test_records_become_tables_and_figures_lines():
    found = {"rows": [{"curve": "before", "mae": 1.23456}, {"curve": "after", "r2": 0.5}], "runs": 7, "warning": ["a"]}
    rows, single = (str(table) for table in twin.tables("power", found))
    assert "1.235" in rows
    assert rows.splitlines()[1].split() == ["curve", "mae", "r2"]
    assert "runs" in single
    assert "warning" in single


def test_flights_are_measured_from_end_to_end(tmp_path, capsys):
    write(tmp_path, {k: falling(4.0 + 0.02 * k, seed=k) for k in range(4)})
    assert twin.main(["--job", "battery", "--data", str(tmp_path), "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    errors = {(r["known of a flight"], r["curve"]): r["rmse (V)"] for r in found["flights judged"]}
    assert errors["first 10 s", "after"] < errors["voltage at rest", "before"]
    assert found["runs"] > 0


def test_the_floor_of_flights_leaves_their_trend_out():
    rng = np.random.default_rng(1)
    noise = np.repeat(0.02 * rng.standard_normal(400), 10)
    flight = twin_battery.battery.BatteryFlight("1", 4.0 - np.linspace(0, 1, 4000) + noise)
    assert twin_battery._floor([flight]) == pytest.approx(0.02, rel=0.15)


def test_cells_that_the_fit_has_not_get_the_mean():
    reported = twin_fiveg._by_cell(np.array(["a", "a", "b"]), np.array([1.0, 3.0, 8.0]), np.array(["a", "b", "c"]))
    np.testing.assert_allclose(reported, [2.0, 8.0, 4.0])
