"""What the judged statistics of all parts of the data come to: words for a reader, and how far intervals are bent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cosim.twin.fitting.misfit import Misfit
from cosim.twin.judgement.judge import corrected, judge, of_case, other_recordings, worst
from cosim.twin.judgement.subject import RECORDING, Judged, JudgedStatistic
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


def verdict(cases: Sequence[tuple[Case, str]], draws: Floats, seeds: Sequence[int]) -> Verdicts:
    """The verdicts on parts of the data, by simulations with `draws` (n, d), each under a seed of its own."""
    parts: list[tuple[Judged, Floats]] = []
    rows: list[JudgedStatistic] = []
    counts: dict[str, int] = {}
    for case, part in cases:
        judged = case.judged or of_case(case)
        if judged.subjects:
            parts.append((judged, judged.made(draws, seeds)))
            rows += judge(*parts[-1], draws, part)
            counts |= {name: int(np.isfinite(one.values).sum()) for name, one in case.observed.items()}
    durations = {name for case, _ in cases for name, one in case.observed.items() if one.unit == "s"}
    rows = corrected([*rows, *other_recordings(parts, draws)])
    found = tuple(one for one in rows if one.odd)
    lies = [one for one in found if one.check == RECORDING.name and one.matters]
    lie = max(lies, key=lambda one: abs(one.deviations), default=None)
    words = [one for one in found if one.check != RECORDING.name]
    if lie is not None:  # what is bent by it says nothing of the others
        words = [one for one in words if one.subject.recording == lie.subject.recording]
    fitted = [one for one in found if one.part == "fit" and one.remedy != ORDERLY]
    return Verdicts(
        found,
        tuple(worst(words, _REPORTED)),
        lie,
        sum(one.law and one.matters and one.subject.signal in durations for one in fitted),
        max((abs(one.deviations) for one in fitted), default=0.0),
        max((counts.get(one.subject.signal, 0) for one in fitted if one.law), default=0),
    )


def without(recording: str, cases: Sequence[tuple[Case, str]]) -> tuple[Case, Misfit, list[str]]:
    """All parts of the data as one, their misfit without a recording, and the names of the other recordings."""
    names = {s.signal: s.recording for case, _ in cases for s in (case.judged or of_case(case)).subjects}
    every = {label: one for case, _ in cases for label, one in case.observed.items()}

    def simulate(values: Floats, seed: int) -> Mapping[str, Floats]:
        return {label: rows for case, _ in cases for label, rows in case.simulate(values, seed).items()}

    others = {label: one for label, one in every.items() if names.get(label, recording) != recording}
    return Case(every, simulate), Misfit(others), list(dict.fromkeys(n for n in names.values() if n != recording))


def sentence(lie: JudgedStatistic, case: Case, others: Sequence[str], at: Floats, seeds: Sequence[int]) -> str:
    """By how much a recording is off what the others predict with the values `at` (1, d)."""
    signal = case.observed[lie.subject.signal]
    made = [float(np.nanmean(np.asarray(case.simulate(at, seed)[lie.subject.signal], np.float64))) for seed in seeds]
    effect = float(np.nanmean(signal.values)) / (math.fsum(made) / len(made)) - 1.0
    way = (("faster", "slower") if signal.unit == "s" else ("lower", "higher"))[effect > 0.0]
    rest = " and ".join(f"'{one}'" for one in others)
    return (
        f"recording '{lie.subject.recording}' does not fit: it is {abs(effect):.0%} {way} than {rest} predict "
        f"(p {max(lie.adjusted, 1e-99):.0e}), and fitted values lie between: {lie.remedy}"
    )
