"""Fig. 5 against the closed form of its channel, Fig. 4 where all is known, Table 2 against sums that close."""

from math import log10

import pytest

from cosim.extensions.mlsysops.claims import figure4, figure5, table2


def close_in(distance: float) -> float:
    """Path loss (dB) of the close-in model at 3.5 GHz, exponent 2.8 (Sun et al., VTC 2016)."""
    return 32.4 + 20.0 * log10(3.5) + 28.0 * log10(distance)


def test_path_loss_by_distance_lies_on_the_close_in_model():
    found = figure5("all", 1, None, scenario="freeway", duration="20 s", neighbours=4)
    assert len(found) == 4
    for band, row in found.items():
        low, high = (float(word) for word in band.removesuffix(" m").split(" to "))
        assert close_in(max(low, 10.0)) - 3.0 < row["path loss, dB"] < close_in(high) + 3.0  # shadowing of 6 dB


def test_the_station_of_a_vehicle_is_among_those_in_sight_and_within_reach():
    found = figure4("all", 1, None, scenario="freeway", duration="20 s", neighbours=4)
    assert found["assigned"]["signal, dBm"] > found["in sight"]["signal, dBm"]
    assert found["assigned"]["within 1 km, %"] > 95.0  # stations are 750 m apart
    assert found["in sight"]["within 1 km, %"] < 80.0  # of four along 3 km
    assert found["assigned"]["vehicles"] == found["in sight"]["vehicles"]


def test_a_row_of_table_2_has_the_costs_and_energy_of_its_scenario():
    (name, row), *_ = table2("disaster", 1, None).items()
    (_, spared), *_ = table2("disaster disasters=[]", 1, None).items()
    assert name == "disaster"
    assert row["energy, J"] == pytest.approx(row["energy in the north, J"] + row["energy in the south, J"])
    parts = (
        "cost of energy",
        "cost of transfers",
        *(f"penalty of {one}" for one in ("overload", "migration", "crashes")),
    )
    assert row["cost"] == pytest.approx(sum(row[part] for part in parts))
    assert row["restarts"] > 0 == spared["restarts"] == spared["penalty of crashes"]
    assert "energy of reliable hosts, J" not in row
