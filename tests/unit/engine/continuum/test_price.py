"""Prices and carbon over time."""

import gzip
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.engine.continuum.price import Bill, PlaceTariff, StepSeries, constant, read_series, steps, windows


def test_a_series_holds_its_value_until_the_next_step():
    series = steps([1.0, 3.0, 2.0], every=10.0)
    np.testing.assert_array_equal(series.at([-5.0, 0.0, 9.99, 10.0, 25.0, 1e9]), [1, 1, 1, 3, 2, 2])
    assert series.integral(5.0, 22.0) == pytest.approx(5 * 1 + 10 * 3 + 2 * 2)
    assert series.mean(0.0, 20.0) == pytest.approx(2.0)
    assert series.mean(12.0, 12.0) == 3.0


def test_windows_are_half_open_and_may_touch():
    series = windows([(20.0, 30.0), (10.0, 20.0)], inside=5.0)
    np.testing.assert_array_equal(series.at([9.9, 10.0, 20.0, 29.9, 30.0]), [0, 5, 5, 5, 0])
    with pytest.raises(ValueError, match="overlaps"):
        windows([(0.0, 10.0), (9.0, 12.0)], 1.0)
    with pytest.raises(ValueError, match="is empty"):
        windows([(3.0, 3.0)], 1.0)


@pytest.mark.parametrize(
    ("since", "value", "said"),
    [
        ([0.0, 0.0], [1.0, 2.0], "ascend"),
        ([0.0], [1.0, 2.0], "as many"),
        ([], [], "as many"),
        ([0.0], [math.nan], "not a number"),
    ],
)
def test_series_that_make_no_sense_are_refused(since, value, said):
    with pytest.raises(ValueError, match=said):
        StepSeries(np.array(since), np.array(value))


def test_files_have_one_value_a_line_or_times_and_values(tmp_path):
    (tmp_path / "one.txt").write_text("2\n4\n\n6\n")
    np.testing.assert_array_equal(read_series(tmp_path / "one.txt", 300.0, 0.5).at([0, 300, 600, 900]), [1, 2, 3, 3])
    with gzip.open(tmp_path / "two.csv.gz", "wt") as file:
        file.write("time,price\n0,7\n50,8\n")
    np.testing.assert_array_equal(read_series(tmp_path / "two.csv.gz", 1.0).at([49, 50]), [7, 8])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1\nx\n", ":2: 'x' is not a number"),
        ("", "holds no values"),
        ("1,2\n3\n", ":2: expected"),
        ("5,1\n4,1\n", "ascend"),
        ("inf\n", ":1: expected"),
    ],
)
def test_bad_files_are_named_with_their_line(tmp_path, text, said):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(ValueError, match=said) as caught:
        read_series(tmp_path / "bad.csv", 1.0)
    assert "bad.csv" in str(caught.value)


def test_a_file_that_is_cut_off_or_missing_is_named(tmp_path):
    whole = gzip.compress(b"1\n" * 1000)
    for name, content in (
        ("cut.csv.gz", whole[:-12]),
        ("torn.csv.gz", b"\x1f\x8b\x08" + b"\0" * 20),
        ("no.csv.gz", None),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name}: cannot be read"):
            read_series(tmp_path / name, 1.0)


def test_green_power_comes_first_and_the_rest_is_brown():
    tariff = PlaceTariff(
        price=constant(2.0), carbon=constant(10.0), green=windows([(10.0, 20.0)], 60.0), green_price=constant(0.5)
    )
    bill = tariff.bill(100.0, 5.0, 15.0)
    assert bill == Bill(energy=1000.0, green=300.0, cost=700.0 * 2.0 + 300.0 * 0.5, carbon=7000.0)
    assert bill.brown == 700.0
    assert [tariff.marginal(power, time) for power, time in ((50.0, 12.0), (60.0, 12.0), (0.0, 20.0))] == [
        0.5,
        2.0,
        2.0,
    ]


prices = st.lists(st.floats(0.0, 10.0), min_size=1, max_size=6)


@given(
    prices,
    prices,
    st.lists(st.floats(0.0, 100.0), min_size=1, max_size=6),
    st.floats(0.0, 200.0),
    st.lists(st.floats(0.0, 60.0), min_size=2, max_size=6),
)
def test_a_bill_is_the_sum_of_the_bills_of_its_parts(price, carbon, green, power, times):
    tariff = PlaceTariff(steps(price, 7.0), steps(carbon, 11.0), steps(green, 13.0), constant(0.25), constant(1.0))
    times = sorted(times)
    whole = tariff.bill(power, times[0], times[-1])
    parts = sum((tariff.bill(power, a, b) for a, b in itertools.pairwise(times)), Bill())
    for name in ("energy", "green", "brown", "cost", "carbon"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-9, abs=1e-9)
    assert 0.0 <= whole.green <= whole.energy * (1 + 1e-12)


@given(st.floats(0.0, 10.0), st.integers(1, 20), st.floats(0.0, 100.0))
def test_a_flat_series_is_a_constant(value, count, end):
    flat, single = PlaceTariff(steps([value] * count, 3.0)), PlaceTariff(constant(value))
    assert flat.bill(40.0, 0.0, end).cost == pytest.approx(single.bill(40.0, 0.0, end).cost, rel=1e-12)
