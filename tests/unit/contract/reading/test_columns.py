"""Heads with units and times in any usual spelling; the factors are those of the units' definitions."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.contract.reading.columns import head, stamps


@pytest.mark.parametrize(
    ("column", "dimension", "word", "factor"),
    [
        ("altitude(feet)", "length", "altitude", 0.3048),
        ("Altitude [ft]", "length", "altitude", 0.3048),
        ("altitude_ft", "length", "altitude", 0.3048),
        ("height (m)", "length", "height", 1.0),
        ("heightKm", "length", "height", 1000.0),
        ("speed(mph)", "speed", "speed", 0.44704),
        ("speed [km/h]", "speed", "speed", 1 / 3.6),
        ("Speed km/h", "speed", "speed", 1 / 3.6),
        ("speed_kmh", "speed", "speed", 1 / 3.6),
        ("speed (knots)", "speed", "speed", 1852 / 3600),
        ("speed_m_s", "speed", "speed", 1.0),
        ("speed", "speed", "speed", 1.0),
        ("time(millisecond)", "time", "time", 1e-3),
        ("startTimeMs", "time", "start_time", 1e-3),
        ("time_µs", "time", "time", 1e-6),
        ("timestamp [ns]", "time", "timestamp", 1e-9),
        ("datetime(utc)", "time", "datetime", 1.0),
        ("heading [rad]", "angle", "heading", math.degrees(1.0)),
    ],
)
def test_a_head_is_a_word_and_a_unit(column, dimension, word, factor):
    found = head(column, dimension)
    assert found.word == word
    assert found.factor == pytest.approx(factor, rel=1e-12)


def test_a_unit_that_is_not_known_has_no_factor():
    assert math.isnan(head("height [fathoms]", "length").factor)


AT = datetime(2030, 1, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "texts",
    [
        ["2030-01-01T00:00:00Z", "2030-01-01T00:00:01.500000000Z"],
        ["2030-01-01T02:00:00+02:00", "2030-01-01T02:00:01.5+0200"],
        ["2030-01-01 00:00:00", "2030-01-01 00:00:01,500"],
        ["2030/01/01 00:00:00.000", "2030/01/01 00:00:01.500"],
        ["01.01.2030 00:00:00", "01.01.2030 00:00:01.5"],
        ["2030-01-01 00:00:00 +0000 UTC", "2030-01-01 00:00:01.5 UTC"],
        ["2030-01-01t00:00:00z", "2030-01-01t00:00:01.5z"],
        ["1893456000", "1893456001.5"],
        ["1893456000000", "1893456001500"],
        ["1893456000000000", "1893456001500000"],
        ["1893456000000000000", "1893456001500000000"],
    ],
)
def test_times_since_1970(texts):
    found = stamps(np.array(texts), "time")
    assert found.absolute
    assert found.seconds == pytest.approx([AT, AT + 1.5], abs=1e-6)


def test_times_of_day_and_numbers_of_a_unit():
    assert stamps(np.array(["07:00:00.50", "1:07:00:00"]), "time").seconds.tolist() == [25200.5, 111600.0]
    assert stamps(np.array(["0", "200"]), "time", "millisecond").seconds == pytest.approx([0.0, 0.2])


@pytest.mark.parametrize("texts", [["soon", "later"], ["", ""], ["None", "None"], ["25.13.2030"] * 2])
def test_what_is_no_time_is_refused(texts):
    with pytest.raises(ScenarioError, match="holds no times"):
        stamps(np.array(texts), "time")
