from __future__ import annotations

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.extensions.published_data import battery
from cosim.extensions.published_data.tests.jobs.data import DATA, needs
from cosim.twin.jobs import load


def write(folder, flights):
    rows = ["flight,t_s,x_estimate,y_estimate,z_estimate,battery_voltage"]
    for name, voltage in flights.items():
        rows += [f"{name},{k / 10},0,0,1,{v:.5f}" for k, v in enumerate(voltage)]
    (folder / "flights_10hz.csv").write_text("\n".join(rows))


def falling(start, seconds=40, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([np.full(10, start), start - 0.5 - np.linspace(0, 0.2, 10 * seconds - 10)]) + (
        0.001 * rng.random(10 * seconds)
    )


def test_flights_take_turns_and_what_the_model_is_told_is_not_judged(tmp_path):
    write(tmp_path, {k: falling(4.0 + 0.02 * k) for k in range(4)})
    (problem,) = load("battery")(tmp_path, {})
    assert problem.fit.name == "flights 0, 2"
    assert problem.held_back.name == "flights 1, 3"
    measured = problem.fit.observed["voltage"].values
    assert np.isnan(measured[:11]).all()
    assert np.isfinite(measured[12:40]).all()
    reported = problem.fit.simulate(np.repeat(problem.space.start[None], 3, axis=0), 1)
    assert reported["voltage"].shape == (3, 80)
    assert reported["end"].shape == (3, 2)


def test_other_flights_can_be_judged(tmp_path):
    for name, numbers in (("fit", (1, 2)), ("judged", (3, 4))):
        (tmp_path / name).mkdir()
        write(tmp_path / name, {k: falling(4.0, seed=k) for k in numbers})
    (problem,) = battery.problems(tmp_path / "fit", {"held_back": str(tmp_path / "judged")})
    assert (problem.fit.name, problem.held_back.name) == ("flights 1, 2", "flights 3, 4")


def test_later_voltages_do_not_change_what_is_predicted(tmp_path):
    flights = {k: falling(4.0, seed=k) for k in range(4)}
    write(tmp_path, flights)
    (before,) = battery.problems(tmp_path, {})
    write(tmp_path, {k: np.concatenate([v[:115], v[115:] - 0.3]) for k, v in flights.items()})
    (after,) = battery.problems(tmp_path, {})
    values = before.space.start[None]
    one, other = before.held_back.simulate(values, 1), after.held_back.simulate(values, 1)
    np.testing.assert_array_equal(one["voltage"], other["voltage"])


def test_logs_that_cannot_be_used_are_named(tmp_path):
    same = falling(4.0)
    odd = falling(4.1)
    odd[50] = np.nan
    write(tmp_path, {1: same, 2: same, 3: odd, 4: falling(4.0) - 3.0, 5: falling(4.0)[:50], 6: falling(4.1, seed=3)})
    flights, warnings = battery.read(tmp_path)
    assert [flight.name for flight in flights] == ["1", "6"]
    for number, words in ((2, "same log as flight 1"), (3, "missing"), (4, "no lithium cell"), (5, "shorter")):
        assert any(f"flight {number} " in warning and words in warning for warning in warnings), warnings


def test_one_flight_is_not_enough(tmp_path):
    write(tmp_path, {1: falling(4.0)})
    with pytest.raises(ScenarioError, match="fewer than two flights"):
        battery.read(tmp_path)


class TestRealData:
    pytestmark = needs("uav/crazyflie_battery")

    def test_copies_of_one_flight_are_found(self):
        flights, warnings = battery.read(DATA)
        assert len(flights) == 34
        assert sum("same log as flight 136" in warning for warning in warnings) == 4

    def test_the_start_predicts_flights_from_their_first_seconds_better_than_from_rest_alone(self):
        errors = []
        for seen in (0.0, 10.0):
            (problem,) = battery.problems(DATA, {"seen": seen})
            reported = problem.held_back.simulate(problem.space.start[None], 1)["voltage"][0]
            errors.append(np.sqrt(np.nanmean((reported - problem.held_back.observed["voltage"].values) ** 2)))
        assert errors[1] < 0.1 < errors[0]
