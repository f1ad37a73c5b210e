"""The page of a calibration, made from a small problem that is really simulated."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from cosim.report.calibration import _percent, gap_table, parameter_table, unexplained, write_calibration
from cosim.report.calibration_charts import courses, distributions, gap_chart, parameter_chart
from cosim.twin.calibration import Calibration, Judgement, ParameterEstimate
from cosim.twin.fitting.judging import Evidence, gather, replicate
from cosim.twin.fitting.misfit import gaps
from cosim.twin.problem import CalibrationProblem, Case, Floats, MeasuredSignal
from cosim.twin.space import Parameter, Space


def simulate(load: Floats):
    def run(values: Floats, seed: int) -> dict[str, Floats]:
        random = np.random.default_rng(seed)
        noise, waits = random.normal(0, 1, load.shape), random.exponential(1.0, load.shape)
        return {
            "power": values[:, :1] + values[:, 1:2] * load + 0.05 * noise,
            "response": values[:, 2:3] * waits / (1.01 - load),
        }

    return run


def problem() -> CalibrationProblem:
    space = Space([
        Parameter("idle", 1.0, 6.0, unit="W", start=5.0), Parameter("span", 1.0, 8.0, unit="W", start=2.0),
        Parameter("service", 1e-3, 1.0, scale="log", unit="s", start=0.02),
    ])  # fmt: skip
    parts = []
    for seed in (1, 2):
        load = 0.5 + 0.4 * np.sin(np.arange(120) / 9.0 + seed)
        reported = simulate(load)(np.array([[2.7, 3.6, 0.1]]), 100 + seed)
        power = reported["power"][0].copy()
        power[5] = np.nan
        times = np.arange(120.0)
        parts.append(
            Case(
                {
                    "power": MeasuredSignal(power, "W", paired=True, times=times),
                    "response": MeasuredSignal(reported["response"][0], "s", times=times),
                },
                simulate(load),
                f"day {seed}",
            )
        )
    return CalibrationProblem(
        "edge host", space, parts[0], parts[1], assumptions=("one queue",), sources=("power.csv: 240 rows",)
    )


def calibration(
    of: CalibrationProblem, best: tuple[float, ...] = (2.71, 3.55, 0.098), **changes: object
) -> Calibration:
    def judged(part: Case) -> Judgement:
        before, after = (
            gaps(part.observed, replicate(part.simulate, np.array(values), range(5)))
            for values in (of.space.start, best)
        )
        return Judgement(part.name, before, after)

    estimates = tuple(
        ParameterEstimate(
            p.name, value, 0.97 * value, 1.03 * value, float(start), p.unit, bounds=(p.low, p.high), sensitivity=0.3
        )
        for p, value, start in zip(of.space.parameters, best, of.space.start, strict=True)
    )
    known: dict[str, object] = {
        "problem": of.name, "estimates": estimates, "fit": judged(of.fit), "held_back": judged(of.held_back or of.fit),
        "method": "cma-es", "runs": 900, "cpu_seconds": 1.2, "wall_seconds": 1.4, "seed": 1, "stopped": "converged",
        "assumptions": of.assumptions, "sources": of.sources, "figures": {"coverage": 0.91},
    }  # fmt: skip
    return Calibration(**{**known, **changes})  # type: ignore[arg-type]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids |= {value for name, value in attrs if name == "id" and value}
        assert not any(name in ("src", "srcset") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def reported() -> tuple[CalibrationProblem, Calibration]:
    of = problem()
    return of, calibration(of)


def test_the_page_has_every_part_and_needs_nothing_else(reported, tmp_path):
    of, found = reported
    path = write_calibration(found, gather(of, found), tmp_path / "deep" / "edge.html")
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    assert {"gap", "values", "distributions", "courses", "unexplained", "data"} <= page.ids
    text = " ".join(page.words)
    for words in (
        "edge host", "power, held back (day 2)", "response, fitted (day 1)", "one queue", "power.csv: 240 rows",
        "Noise floor, held back", "coverage", "cma-es", "900",
        "On data that the search has not seen, simulated and measured values are distributed", "before the calibration",
    ):  # fmt: skip
        assert words in text


def test_a_page_without_evidence_or_held_back_data_says_so(reported, tmp_path):
    _, found = reported
    bare = replace(found, held_back=None, sources=(), assumptions=(), figures={}, estimates=())
    text = write_calibration(bare, (), tmp_path / "edge.html").read_text(encoding="utf-8")
    assert "no simulated values were kept" in text
    assert "no data were held back" in text
    assert "nothing held back" in text


def test_names_are_text_and_nothing_more(reported, tmp_path):
    _, found = reported
    hostile = replace(found, problem="<script>alert(1)</script>", warnings=("<img src=x>",))
    text = write_calibration(hostile, (), tmp_path / "edge.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<img" not in text


def test_what_is_near_the_floor_is_explained_and_what_is_not_is_named(reported):
    of, found = reported
    assert unexplained(found) == []
    bad = calibration(of, (4.9, 2.1, 0.09), warnings=("power of a: 3 outliers",), stopped="budget of time")
    named = {what for what, _, _ in unexplained(bad)}
    assert "power" in named
    assert {"Search", "Warning"} <= named
    worse = calibration(of, (5.9, 7.0, 0.9))
    assert any("farther away than before" in why for _, why, _ in unexplained(worse))
    failed = calibration(of, (float("nan"), 3.6, 0.1))
    assert any("could not be simulated" in why for _, why, _ in unexplained(failed))
    first = found.fit.after[0]
    near = replace(found.fit, after=(replace(first, w1=9.0, floor=9.0), *found.fit.after[1:]))
    assert unexplained(replace(found, fit=near)) == []  # farther in distribution, and nearer pair by pair
    kept = replace(found, estimates=(replace(found.estimates[0], verdict="no effect", reason="never busy"),))
    assert unexplained(kept) == [("idle", "no effect: never busy", "warn")]


def test_tables_show_what_the_calibration_says(reported):
    _, found = reported
    table = gap_table("fitted", found.fit)
    assert [row[0].text for row in table.rows] == ["power", "response", "all"]
    for row, before, after in zip(table.rows, found.fit.before, found.fit.after, strict=True):
        assert len(row) == len(table.heads)
        shown = dict(zip(table.heads, row, strict=True))
        assert shown["W1 before"].sort == repr(before.w1)
        assert shown["W1 after"].sort == repr(after.w1)
        assert shown["RMSE after"].sort == repr(after.rmse)
    values = parameter_table(found.estimates)
    assert len(values.heads) == len(values.rows[0])
    assert values.rows[0][2].text == "2.71\u00a0W"


def test_charts_live_through_odd_data(reported):
    of, found = reported
    evidence = gather(of, found)[0]
    odd = replace(evidence, before={}, after={"power": np.full((1, 7), np.nan), "response": np.ones((2, 3))})
    odd = replace(odd, observed={**odd.observed, "power": replace(odd.observed["power"], paired=False)})
    assert len(distributions(odd)) == len(courses(odd)) == 2
    assert gap_chart("x", Judgement("", (), ())).empty
    assert parameter_chart(()).empty
    category = ParameterEstimate("scheduler", "nearest", None, None, "least-loaded")
    assert parameter_chart((category,)).empty
    assert parameter_table((category,)).rows[0][2].text == "nearest"


def test_a_simulation_shows_only_where_something_was_measured():
    watts = MeasuredSignal(np.array([1.0, np.nan, 2.0, 3.0]), "W", paired=True)
    rows = {"power": np.array([[1.1, 9e6, 2.1, 3.1]])}
    (chart,) = courses(Evidence("fitted", {"power": watts}, rows, rows))
    assert "MW" not in str(chart.svg)
    (chart,) = courses(Evidence("fitted", {"power": replace(watts, paired=False)}, rows, rows))
    assert "MW" in str(chart.svg)


def test_a_gap_of_rounding_errors_leaves_room_for_the_floor():
    watts = MeasuredSignal(np.arange(10.0), "W", paired=True)
    before, after = (gaps({"power": watts}, {"power": watts.values[None] + d}) for d in (4.0, 1e-15))
    text = str(gap_chart("gap", Judgement("all", before, after)).svg)
    labels = re.findall(r">([^<]*\d)</text>", text)
    assert labels
    assert all(float(label) > 1e-6 for label in labels)


def test_curves_are_thinned_and_end_at_one(reported):
    of, found = reported
    long = MeasuredSignal(np.random.default_rng(1).normal(size=5000))
    evidence = replace(gather(of, found)[0], observed={"x": long}, before={}, after={})
    (chart,) = distributions(evidence)
    assert chart.svg
    assert len(str(chart.svg)) < 40_000


def test_replicates_differ_by_seed_and_deterministic_problems_have_one(reported):
    of, found = reported
    evidence = gather(of, found, seeds=(1, 2, 3))[0]
    assert evidence.after["response"].shape == (3, 120)
    assert not np.array_equal(evidence.after["response"][0], evidence.after["response"][1])
    assert gather(replace(of, deterministic=True), found)[1].before["power"].shape == (1, 120)


def main() -> None:
    """Write the page for a look at it."""
    of = problem()
    found = calibration(of, warnings=("power of north: 3 outliers, the farthest 90 with a median of 4",))
    write_calibration(found, gather(of, found), Path("calibration.html"))


if __name__ == "__main__":
    main()


def test_a_gap_wider_than_the_range_is_a_plain_percentage():
    assert [_percent(part) for part in (1.249, 0.046, 1e-5)] == ["125 %", "4.6 %", "less than 0.01 %"]
