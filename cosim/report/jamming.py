"""Jammers, what they did to the phones, and who was alarmed: over time, and judged against the truth."""

from __future__ import annotations

from cosim.report import measure
from cosim.report.charts import ChartSeries, lines
from cosim.report.folder import Folder
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable, TableCell, amount, word
from cosim.results.metrics import HURT, JUDGED

HARD = 10.0  # dB of SINR lost against the same moment without jammers
_DETECTION = f'{JUDGED} JOIN (SELECT time, bool_or("on") jammed FROM jammer GROUP BY time) USING (time)'


def jamming_charts(run: Folder) -> list[Chart]:
    """Phones that lose signal and phones with an alarm over time, and what is lost; none without a jammer's truth."""
    if not run.has("jamming"):
        return []
    counted = [_phones(run, f"lose {loss:g} dB or more", "jamming", f"loss >= {loss}") for loss in (HURT, HARD)]
    if run.has("alarm"):
        counted.append(_phones(run, "have an alarm", "alarm", '"on"'))
    lost = [_most(run, name, f"loss_{way}") for name, way in (("downlink", "down"), ("uplink", "up"))]
    marks = measure.marked_events(run)
    return [
        lines(
            "Phones under jamming", counted, y="phones", y_unit="1", end=run.end,
            marks=marks, note="Means over parts of the run. Loss of SINR against the same moment without jammers.",
            empty="no phone was connected"
        ),
        lines(
            "Signal lost to jammers", lost, y="most that a phone loses", y_unit="dB",
            end=run.end, marks=marks, empty="no phone was connected"
        ),
    ]  # fmt: skip


def detection_table(run: Folder) -> ReportTable | None:
    """Alarms against the truth, while jammers are on and while they are off; None without both."""
    if not all(run.has(name) for name in ("alarm", "jamming", "jammer")):
        return None
    rows = []
    for jammed, label in ((True, "a jammer is on"), (False, "none is on")):
        counts = dict.fromkeys(((truth, reported) for truth in (True, False) for reported in (True, False)), 0)
        known = f"WHERE jammed = {jammed} AND isfinite(loss)"
        found = run.rows(f'SELECT loss >= {HURT}, "on", count(*) {_DETECTION} {known} GROUP BY ALL')
        counts.update({(bool(truth), bool(reported)): int(number) for truth, reported, number in found})
        hit, missed = counts[True, True], counts[True, False]
        false, quiet = counts[False, True], counts[False, False]
        rows.append(
            (
                word(label), *(amount("count", n, "1") for n in (hit, missed, false, quiet)),
                _share(hit, hit + false), _share(hit, hit + missed), _share(false, false + quiet),
            )
        )  # fmt: skip
    heads = ("While", "Seen", "Missed", "False", "Quiet", "Precision", "Recall", "False alarms")
    note = (
        f"Every phone at every recorded instant. It should have an alarm where it loses {HURT:g} dB or more. "
        "A response takes phones away from the jammer, and with them rows on which an alarm would be right."
    )
    return ReportTable("Alarms against the truth", heads, tuple(rows), note=note)


def _share(part: int, whole: int) -> TableCell:
    return amount("share", part / whole if whole else None, "1")


def _phones(run: Folder, name: str, signal: str, which: str) -> ChartSeries:
    inner = f"SELECT time, count(*) FILTER ({which}) n FROM {signal} GROUP BY time"
    return measure.over_time(run, name, f"SELECT {measure.bucket('time')} b, avg(n) FROM ({inner}) GROUP BY b")


def _most(run: Folder, name: str, column: str) -> ChartSeries:
    query = f"SELECT {measure.bucket('time')} b, max({column}) FROM jamming WHERE isfinite({column}) GROUP BY b"
    return measure.over_time(run, name, query)
