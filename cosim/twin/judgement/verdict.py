"""What the judged statistics of all parts of the data come to: words for a reader, and how far intervals are bent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cosim.twin.judgement.judge import corrected, judge, of_case, others, worst
from cosim.twin.judgement.subject import RECORDING, SURE, Judged, JudgedStatistic
from cosim.twin.judgement.table import ORDERLY
from cosim.twin.problem import Case, Floats

_REPORTED = 6  # statistics that the model does not make, at most: what is read at a glance


@dataclass(frozen=True, slots=True)
class Verdicts:
    """`rows` that no simulation shows; of them `words` for a reader, and a recording that does not fit (`lie`)."""

    rows: tuple[JudgedStatistic, ...]
    words: tuple[JudgedStatistic, ...]
    lie: JudgedStatistic | None
    of_law: int  # rows of the law of durations that matter
    farthest: float  # deviations of the row that is farthest off, of those that say something of fitted values
    bent: int  # the most values whose law is another than the model's
    least: float  # p of the row that is least likely, of those that matter


def verdict(cases: Sequence[tuple[Case, str]], draws: Floats, seeds: Sequence[int]) -> Verdicts:
    """The verdicts on parts of the data, by simulations with `draws` (n, d), each under a seed of its own."""
    parts, rows, counts = list[tuple[Judged, Floats]](), list[JudgedStatistic](), dict[str, int]()
    for case, part in cases:
        judged = case.judged or of_case(case)
        if judged.subjects:
            parts.append((judged, judged.made(draws, seeds)))
            rows += judge(*parts[-1], draws, part)
            counts |= {name: int(np.isfinite(one.values).sum()) for name, one in case.observed.items()}
    durations = {name for case, _ in cases for name, one in case.observed.items() if one.unit == "s"}
    rows = corrected([*rows, *others(parts, draws)])
    found = tuple(one for one in rows if one.odd)
    words = [one for one in found if one.check != RECORDING.name]
    lie, lies = None, [one for one in found if one.check == RECORDING.name and one.matters]
    if lies:  # the one without which the rest agree, though they may predict too little of it to say how far it is off
        level = (one for one in rows if one.check == RECORDING.name)
        lie = min(level, key=lambda one: (one.others >= SURE**2, one not in lies, one.others))
        lie = lie if lie in lies else replace(lie, effect=math.nan, adjusted=min(one.adjusted for one in lies))
        words = [one for one in words if one.subject.recording == lie.subject.recording]
    fitted = [one for one in found if one.part == "fit" and one.remedy != ORDERLY]
    return Verdicts(
        found, tuple(worst(words, _REPORTED)), lie,
        sum(one.law and one.matters and one.subject.signal in durations for one in fitted),
        max((abs(one.deviations) for one in fitted), default=0.0),
        max((counts.get(one.subject.signal, 0) for one in fitted if one.law), default=0),
        min((one.adjusted for one in rows if one.matters), default=1.0),
    )  # fmt: skip


def sentence(lie: JudgedStatistic, cases: Sequence[tuple[Case, str]]) -> str:
    """By how much a recording is off what the others predict."""
    units = {name: one.unit for case, _ in cases for name, one in case.observed.items()}
    names = dict.fromkeys(s.recording for case, _ in cases for s in (case.judged or of_case(case)).subjects)
    way = (("faster", "slower") if units[lie.subject.signal] == "s" else ("lower", "higher"))[lie.effect > 0.0]
    rest = " and ".join(f"'{one}'" for one in names if one != lie.subject.recording)
    why = f"it is {abs(lie.effect):.0%} {way} than {rest} predict"
    why = f"without it the model makes {rest}" if math.isnan(lie.effect) else why
    return (
        f"recording '{lie.subject.recording}' does not fit: {why} (p {max(lie.adjusted, 1e-99):.0e}), "
        f"and fitted values lie between: {lie.remedy}"
    )
