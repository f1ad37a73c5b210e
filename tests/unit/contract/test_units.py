import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from cosim.contract import units


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("20 ms", "time", 0.02),
        ("10min", "time", 600.0),
        ("+120 ms", "time", 0.12),
        ("-3 m", "length", -3.0),
        ("36 km/h", "speed", 10.0),
        ("8 GiB", "bytes", 8 * 2**30),
        ("100 Mbit/s", "rate", 1e8),
        (".5 Wh", "energy", 1800.0),
        ("1e3 mW", "power", 1.0),
        ("5 %", "fraction", 0.05),
        ("0.25 /kWh", "price per energy", 0.25 / 3.6e6),
        ("250 /MWh", "price per energy", 0.25 / 3.6e6),
        ("180 deg", "angle", 180.0),
    ],
)
def test_quantities_are_read_in_si(text: str, dimension: str, value: float) -> None:
    assert units.parse(text, dimension) == pytest.approx(value, rel=1e-15)


SAME = {  # quantities that are equal by the definitions of their units
    "time": ("1 d", "24 h", "1440 min", "86400 s", "86400000 ms", "86400000000 us"),
    "length": ("1 km", "1000 m", "100000 cm", "1000000 mm"),
    "speed": ("36 km/h", "10 m/s"),
    "frequency": ("1 Hz", "1 /s", "60 /min", "3600 /h", "0.001 kHz", "1e-6 MHz"),
    "bytes": ("1 Mbit", "1000 kbit", "125 kB", "125000 B"),
    "rate": ("8 Mbit/s", "8 Mbps", "1 MB/s", "1000 kB/s", "1000000 B/s"),
    "charge": ("1 Ah", "1000 mAh"),
    "energy": ("1 kWh", "1000 Wh", "1000000 mWh", "3.6 MJ", "3600 kJ"),
    "price per energy": ("1 /kWh", "1000 /MWh"),
    "carbon per energy": ("1 kg/kWh", "1000 g/kWh"),
    "price per bytes": ("1 /GB", "0.001 /MB", "1e-9 /B"),
    "angle": ("180 deg", "3.141592653589793 rad"),
}


@pytest.mark.parametrize("dimension", sorted(SAME))
def test_units_of_a_dimension_agree(dimension: str) -> None:
    first, *others = (units.parse(text, dimension) for text in SAME[dimension])
    assert others == pytest.approx([first] * len(others), rel=1e-12)


@pytest.mark.parametrize(
    "found", [0, 5, 2.5, True, None, [], {}, "5", "", "ms", "5 parsec", "five s", "٣ s", "1e999 s"]
)
def test_anything_else_is_an_error_that_shows_an_example(found: object) -> None:
    with pytest.raises(ValueError, match=r"20 ms|known units|too large"):
        units.parse(found, "time")


def test_an_endless_text_is_refused_quickly() -> None:
    with pytest.raises(ValueError, match="not a time"):
        units.parse("1" * 100_000 + " s", "time")


@given(st.sampled_from(sorted(units.DIMENSIONS)), st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_show_and_parse_are_inverse(dimension: str, value: float) -> None:
    read = units.parse(units.show(value, dimension), dimension)
    assert math.isclose(read, value, rel_tol=1e-15, abs_tol=0.0) or read == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_round_trip_is_exact_in_si_units(value: float) -> None:
    for dimension in ("time", "length", "bytes", "rate", "work"):
        assert units.parse(units.show(value, dimension), dimension) == value


def test_limits_of_a_field_are_told_in_its_unit() -> None:
    class Sample(BaseModel):
        share: units.Fraction
        period: units.Period

    assert Sample.model_validate({"share": "40 %", "period": "1 s"}).share == 0.4
    assert Sample.model_validate({"share": "100 %", "period": "1 s"}).share == 1.0
    assert Sample.model_validate({"share": "0 %", "period": "1 s"}).share == 0.0
    with pytest.raises(ValidationError, match="must be at most 100 %"):
        Sample.model_validate({"share": "101 %", "period": "1 s"})
    with pytest.raises(ValidationError, match="must be more than 0 s"):
        Sample.model_validate({"share": "1 %", "period": "0 s"})
    assert Sample.model_validate({"share": "40 %", "period": "1 ms"}).model_dump() == {
        "share": "40 %",
        "period": "0.001 s",
    }


def test_a_number_without_a_unit_is_answered_with_one_example() -> None:
    with pytest.raises(ValueError, match=r"^'2' has no unit; write a frequency with its unit, for example '2 Hz'$"):
        units.parse("2", "frequency")
