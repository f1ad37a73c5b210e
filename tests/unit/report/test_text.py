"""Numbers as readers see them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.report.text import digits, duration, exact, figure, interval, quantity, scale, shorten

PREFIX = {"n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0831, "s", "83.1 ms"), (0.9996, "s", "1.0 s"), (1.5, "s", "1.50 s"), (59.0, "s", "59 s"),
        (700.0, "s", "11.7 min"), (3e-5, "s", "30 µs"), (180e3, "B", "180 kB"), (0.0, "B", "0 B"),
        (12_345, "1", "12,345"), (12_345.0, "1", "12,345"), (0.1234, "1", "0.123"), (1e-5, "J/bit", "10 µJ/bit"),
        (-3.2e6, "J", "−3.20 MJ"), (14.26, "dB", "14.3 dB"), (-97.0, "dBm", "−97 dBm"), (12_500.0, "m", "12.5 km"),
        (0.5, "%", "50 %"), (2.4e9, "cycles", "2.40 Gcycles"), (True, "", "yes"), (None, "s", "–"),
        (math.nan, "s", "–"), (math.inf, "s", "∞"), (-math.inf, "s", "−∞"), ("text", "s", "text"),
        (3.0, "EUR", "3 EUR"), (5.25, "1/s", "5.25 /s"),
        (0.00116, "1/s", "4.18 /h"), (5e-8, "1/J", "0.180 /kWh"), (0.99971, "%", "99.97 %"), (1.0, "%", "100 %"),
    ],
)  # fmt: skip
def test_a_quantity_reads_well(value, unit, text):
    assert quantity(value, unit).replace("\u00a0", " ") == text


@given(st.floats(1e-3, 1e13), st.sampled_from(["B", "J", "W", "bit/s", "1", "dB", "cycles"]))
def test_a_quantity_keeps_three_digits(value, unit):
    number, _, name = quantity(value, unit).partition("\u00a0")
    prefix = name[: len(name) - len(unit)] if name.endswith(unit) else ""
    assert float(number.replace(",", "")) * PREFIX[prefix] == pytest.approx(value, rel=6e-3)


@given(st.one_of(st.floats(), st.integers(), st.none(), st.booleans(), st.text()), st.text(max_size=5))
def test_any_value_has_a_text(value, unit):
    assert isinstance(quantity(value, unit), str)
    assert isinstance(figure("share", value, unit), str)
    assert isinstance(interval(value, value, unit), str)
    assert isinstance(duration(value), str)


@given(st.floats(1e-4, 1e14))
def test_digits_use_no_power_of_ten_where_people_read_numbers(value):
    assert re.fullmatch(r"[\d,]+(\.\d+)?", digits(value))


@given(st.floats(min_value=0, allow_infinity=False), st.sampled_from(["s", "B", "m", "", "1", "J/bit"]))
def test_the_scale_factor_is_positive(value, unit):
    factor, _ = scale(value, unit)
    assert factor > 0


def test_shares_are_percentages_by_name_and_range_only():
    assert figure("success_ratio", 0.908, "1") == "90.8\u00a0%"
    assert figure("ratio_of_speeds", 1.5, "1") == "1.50"
    assert figure("handovers", 1.0, "1") == "1"
    assert figure("migrations", 0.0, "1") == "0"


def test_both_numbers_of_an_interval_have_one_unit():
    assert interval(0.0831, 0.0024, "s") == "83.1\u00a0±\u00a02.4\u00a0ms"
    assert interval(0.905, 0.0057, "%") == "90.50\u00a0±\u00a00.57\u00a0%"
    assert interval(253.12, 0.36, "J") == "253.12\u00a0±\u00a00.36\u00a0J"
    assert interval(-0.12, 0.034, "pp") == "−12.0\u00a0±\u00a03.4\u00a0pp"
    assert interval(0.0831, math.nan, "s") == "83.1\u00a0ms"
    assert interval(0.168, 1.2e-15, "s") == "168\u00a0±\u00a00\u00a0ms"


def test_a_duration_has_at_most_two_units():
    assert duration(3725.0) == "1\u00a0h 2\u00a0min"
    assert duration(200.0) == "3\u00a0min 20\u00a0s"
    assert duration(0.3) == "300\u00a0ms"


@given(st.text(), st.integers(4, 40))
def test_a_shortened_text_fits(text, length):
    short = shorten(text, length)
    assert len(short) <= length or short == text
    assert short == text or "…" in short


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_exact_text_reads_back(value):
    assert float(exact(value)) == value
