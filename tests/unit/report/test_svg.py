"""Axes and marks."""

from __future__ import annotations

import math
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from cosim.report.charts import ChartSeries, bars, distribution, heat, histogram, intervals, lines
from cosim.report.svg import Axis, clock_ticks, element, ticks

number = st.floats(-1e9, 1e9)
rough = st.floats(allow_nan=True, allow_infinity=True)


@given(number, st.floats(1e-6, 1e9), st.integers(2, 9))
def test_ticks_are_few_and_inside(low, span, count):
    span = max(span, abs(low) * 1e-6)
    high = low + span
    found = ticks(low, high, count)
    assert len(found) <= count + 2
    assert all(low - span * 1e-6 <= t <= high + span * 1e-6 for t in found)


def test_ticks_are_round():
    assert ticks(0, 10) == [0, 2, 4, 6, 8, 10]
    assert clock_ticks(1800, 60.0) == [0, 300, 600, 900, 1200, 1500, 1800]


def test_marks_are_round_in_the_unit_that_they_are_told_in():
    assert Axis(0.0, 4.3 * 3600.0, 0.0, 240.0, "response time", "s").marks() == (
        [(3600.0 * hour, str(hour)) for hour in range(5)],
        "response time (h)",
    )
    words = [text for _, text in Axis(60.0, 4.3 * 3600.0, 0.0, 240.0, "", "s", log=True).marks()[0]]
    assert words == ["0.03", "0.1", "0.3", "1", "3"]


def test_what_is_counted_has_no_marks_between_whole_numbers():
    hosts = Axis(0.8, 4.2, 0.0, 500.0, "hosts", whole=True)
    assert [words for _, words in hosts.marks()[0]] == ["1", "2", "3", "4"]


@given(st.lists(rough, max_size=10))
def test_an_axis_holds_every_finite_value(values):
    axis = Axis.around(values, 100.0, 0.0, "speed", "m/s")
    assert axis.low < axis.high
    assert all(0 <= axis.at(v) <= 100 for v in values if math.isfinite(v))


@given(st.floats(-200.0, 100.0), st.floats(0.1, 60.0))
def test_a_logarithmic_axis_has_few_labels_however_many_decades_it_holds(power, decades):
    marks, _ = Axis(10.0**power, 10.0 ** (power + decades), 150.0, 500.0, log=True).marks()
    assert len(marks) <= 9


def test_labels_of_one_axis_have_the_same_decimals():
    marks, title = Axis(0.0, 1.5, 0, 300, "time", "s").marks()
    assert title == "time (s)"
    assert len({len(words.partition(".")[2]) for _, words in marks}) == 1


def test_elements_escape_what_they_are_given():
    made = element("text", "<b>&", data_tip='"><script>')
    assert "<b>" not in made
    assert "<script>" not in made
    assert ElementTree.fromstring(made).attrib["data-tip"] == '"><script>'


@given(st.lists(st.tuples(st.floats(0, 1e4), rough), max_size=8), st.text(max_size=6))
def test_lines_never_break(points, name):
    chart = lines("t", [ChartSeries(name, [p[0] for p in points], [p[1] for p in points])], x="time", x_unit="s", y="v",
                  y_unit="W")  # fmt: skip
    assert chart.empty if not any(math.isfinite(v) for _, v in points) else "nan" not in chart.svg


@given(st.dictionaries(st.text(max_size=4), st.floats(0, 1e9), max_size=5))
def test_bars_are_valid_xml_or_say_why_not(rows):
    chart = bars("t", [(k, {"a": v, "b": math.nan}) for k, v in rows.items()], ["a", "b"], unit="J", share=True)
    if any(v > 0 for v in rows.values()):
        clean = "".join(c for c in chart.svg if c.isprintable())
        ElementTree.fromstring(clean)
    else:
        assert not chart.svg
        assert chart.empty


def test_every_chart_says_why_it_is_empty():
    charts = [
        lines("t", [], x="x", x_unit="s", y="y", y_unit="1"),
        histogram("t", [], {}, x="x", unit="s"),
        histogram("t", [0.0, 1.0], {"a": [0.0]}, x="x", unit="s"),
        distribution("t", [], x="x", unit="s"),
        bars("t", [], [], unit="s"),
        heat("t", [], [], 1.0),
        intervals("t", [1.0], {"": [(math.nan, math.nan, math.nan)]}, x_title="x", y="y", unit="s"),
    ]
    assert all(c.empty and not c.svg for c in charts)


def test_a_heat_map_leaves_unknown_times_blank():
    chart = heat("t", ["a", "b"], [[0.0, 1.0, math.nan], [math.nan] * 3], 3.0)
    tree = ElementTree.fromstring(chart.svg)
    assert {p.attrib["class"] for p in tree.findall("path") if p.attrib["class"].startswith("h")} == {"h0", "h9"}
