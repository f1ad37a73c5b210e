"""Which configuration is best, in words, a table and charts: the beginning of the pages of comparisons and sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from cosim.report.charts import Strip, strips
from cosim.report.groups import ReportGroup
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable, TableCell, amount
from cosim.report.text import estimated, is_share, label, quantity, span
from cosim.results.compare import Effect, adjust, effects
from cosim.results.figures import UNFINISHED
from cosim.results.replications import GOALS, MeanEstimate, differing

CLEAR = 0.05  # of p after Holm's correction, below which a difference counts as one
VERDICTS = 4
COLUMNS = 6  # figures of the table
CHARTS = 6


@dataclass(frozen=True)
class Ranking:
    """Configurations in order of the figure that decides, the best first."""

    figure: str
    groups: tuple[ReportGroup, ...]
    against: tuple[Effect | None, ...]  # each against the best one; None for that
    verdicts: tuple[str, ...]
    tests: int


def ranking(groups: Sequence[ReportGroup]) -> Ranking | None:
    """The order of two configurations or more; None when no figure says which is better.

    It goes by the completion ratio where one of them leaves many tasks unfinished, and else by the first figure that
    has a better side and differs.
    """
    listed = differing([group.metrics for group in groups])
    goals = [key for key in listed if key in GOALS and all(group.estimate(key) for group in groups)]
    left = [group.estimate("unfinished_share") for group in groups]
    if goals[:1] == ["completion_ratio"] and not any(one and one.mean > UNFINISHED for one in left):
        goals = [*goals[1:], goals[0]]
    if len(groups) < 2 or not goals:
        return None
    orders = [_ordered(groups, goal) for goal in goals[:VERDICTS]]
    compared = [
        [_against(order[0], one, goal) for one in order[1:]] for goal, order in zip(goals, orders, strict=False)
    ]
    corrected, tests = adjust(compared)
    verdicts = [_verdict(goal, order, found[0]) for goal, order, found in zip(goals, orders, corrected, strict=False)]
    return Ranking(goals[0], tuple(orders[0]), (None, *corrected[0]), tuple(verdicts), tests)


def _known(group: ReportGroup, figure: str) -> MeanEstimate:
    found = group.estimate(figure)
    assert found is not None
    return found


def _ordered(groups: Sequence[ReportGroup], goal: str) -> list[ReportGroup]:
    return sorted(groups, key=lambda group: -GOALS[goal][0] * _known(group, goal).mean)


def _against(best: ReportGroup, other: ReportGroup, goal: str) -> Effect:
    known = ((run["figures"] for run in group.metrics) for group in (best, other))
    first, second = ([{"figures": {goal: run[goal]} if goal in run else {}} for run in runs] for runs in known)
    (found,) = effects(first, second, seeds=(best.seeds, other.seeds))
    return found


def _unit(goal: str, effect: Effect) -> str:
    """Of a difference: percentage points between shares."""
    return "pp" if all(is_share(goal, value, effect.unit) for value in (effect.base, effect.mean)) else effect.unit


def _verdict(goal: str, order: Sequence[ReportGroup], effect: Effect) -> str:
    """`edf is fastest: 128 ms, 45 ms less than least-loaded (42 ms to 48 ms), 10 paired seeds.`"""
    best, second = order[0], order[1]
    way, words = GOALS[goal]
    unit = _unit(goal, effect)
    mean, other = (estimated(goal, _plain(_known(group, goal))) for group in (best, second))
    if effect.difference == 0.0:
        return f"{best.key} and {second.key} are level in {label(goal)}: {mean}."
    if way < 0 and effect.at_least[0]:
        sides = f"{best.key} {mean}, {second.key} {other}"
        return f"{label(goal).capitalize()}: {sides}; the unfinished tasks decide which is less."
    than = f"{quantity(abs(effect.difference), unit)} {'less' if way < 0 else 'more'} than {second.key}"
    than += ", at least" if effect.at_least[1] else ""
    if not isfinite(effect.low):
        return f"{best.key} {words}: {mean}, {than}; without replications this may be chance."
    pairs = f"{effect.runs[0]} {'paired seeds' if effect.test == 'paired t' else 'runs each, in no pairs'}"
    if effect.clear and not effect.adjusted >= CLEAR:
        low, high = sorted((abs(effect.low), abs(effect.high)))
        return f"{best.key} {words}: {mean}, {than} ({span(low, high, unit)}), {pairs}."
    bounds = span(effect.low, effect.high, unit)
    return (
        f"{best.key} and {second.key} cannot be told apart in {label(goal)}: {mean} and {other} "
        f"(difference {bounds}, {pairs})."
    )


def _plain(found: MeanEstimate) -> MeanEstimate:
    """Without its interval."""
    return MeanEstimate(found.mean, None, found.mean, found.mean, 1, found.unit, found.at_least)


def columns(groups: Sequence[ReportGroup], chosen: Sequence[str] = (), first: str = "") -> list[str]:
    """The figures of a table: those chosen, or the most telling ones that differ between the runs."""
    return (
        list(chosen) or sorted(differing([group.metrics for group in groups]), key=lambda key: key != first)[:COLUMNS]
    )


def cell(key: str, found: MeanEstimate | None) -> TableCell:
    """Mean ± half width of the 95 % interval, or the one value there is."""
    exact = "" if found is None else f"{found.mean!r} ± {found.half!r}, n = {found.runs}"
    return TableCell(estimated(key, found), "" if found is None else repr(found.mean), exact, True)


def table(groups: Sequence[ReportGroup], found: Ranking | None, chosen: Sequence[str] = ()) -> ReportTable:
    """A row per configuration, the best first."""
    order = found.groups if found else tuple(groups)
    keys = columns(groups, chosen, found.figure if found else "")
    heads = ["Rank", "Configuration", "Runs", *map(label, keys)]
    rows = []
    for place, group in enumerate(order):
        row = [
            amount("", place + 1, "1"),
            TableCell(group.key, group.key, group.label),
            amount("", len(group.runs), "1"),
        ]
        rows.append([*row, *(cell(key, group.estimate(key)) for key in keys)])
    if found:
        shown = found.figure in keys
        at = 4 + (keys.index(found.figure) if shown else 0)
        heads.insert(at, "Against the best" if shown else f"{label(found.figure)} against the best")
        for row, effect in zip(rows, found.against, strict=True):
            row.insert(at, _apart(found.figure, effect))
    return ReportTable("ranking", tuple(heads), tuple(map(tuple, rows)), empty="no run is complete")


def _apart(goal: str, effect: Effect | None) -> TableCell:
    if effect is None:
        return TableCell("best", "0", mark="good", number=True)
    unit = _unit(goal, effect)
    sign = "+" if effect.difference > 0 else ""
    text = f"{sign}{quantity(effect.difference, unit)}"
    if isfinite(effect.low):
        text += f" ({span(effect.low, effect.high, unit)})"
    mark = "bad" if effect.clear and not effect.adjusted >= CLEAR else ""
    return TableCell(text, repr(effect.difference), f"p {effect.p:.3g}, after Holm {effect.adjusted:.3g}", True, mark)


def charts(groups: Sequence[ReportGroup], found: Ranking | None, chosen: Sequence[str] = ()) -> list[Chart]:
    """The runs and means of the first figures that differ, a row per configuration."""
    order = found.groups if found else tuple(groups)
    drawn = []
    for key in columns(groups, chosen, found.figure if found else "")[:CHARTS]:
        rows = [Strip(group.key, group.by_seed(key), group.estimate(key)) for group in order]
        known = [row.mean for row in rows if row.mean is not None]
        share = known and all(is_share(key, value, known[0].unit) for row in rows for value in row.values.values())
        if known:
            drawn.append(strips(label(key).capitalize(), rows, unit="%" if share else known[0].unit))
    return [chart for chart in drawn if chart.svg]


def note(found: Ranking | None) -> str:
    """How to read the table and the charts."""
    clear = f"coloured ones are clear after Holm's correction for {found.tests} differences. " if found else ""
    return (
        "Mean ± half of its 95 % interval over the runs (Student's t). Differences are of pairs of runs with equal "
        f"seeds where there are two or more, else by Welch's t; {clear}In charts a dot is a run, and thin lines join "
        "equal seeds; ▸ marks a mean far off the scale."
    )
