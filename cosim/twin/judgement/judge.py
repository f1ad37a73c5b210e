"""Which statistics of a measurement no simulation of the fitted model shows: posterior predictive checks.

    findings = corrected([*judge(judged, made, draws, "fit"), ...])

Values are drawn from the posterior, and the data are simulated with each at the recording's own times (Gelman et al.,
Bayesian Data Analysis, 6.3). What a wide posterior hides is removed by regression: a statistic is compared with what
the values that suit the measurement best leave, and the same is done with every simulation as if it were the
measurement. So each p value is that of the simulated distribution. In squared deviations its last tenth has an
exponential tail (J. Pickands, Annals of Statistics 3, 1975), of which k simulations show the mean: one more, over their
sum, is beyond x with the chance (1 + x)^-k. All p values of a calibration are one family: each is compared with the
least ones that simulations have when they are judged by the others (P. Westfall, S. Young, Resampling-Based Multiple
Testing, 1993, 2.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from cosim.contract.records import Flags
from cosim.twin.judgement.course import EXACT, LEAST, Course, Floats, scale_of
from cosim.twin.judgement.subject import FALSE, NODE, RECORDING, SURE, Judged, JudgedStatistic, Subject
from cosim.twin.judgement.table import LEVELS, NAMES, RELATIVE, SCALE, TABLE, CheckedStatistic, figures
from cosim.twin.problem import Case

TAIL, _IN_TAIL = 0.1, 10  # share of simulations in a tail, and their number at least, as Pickands' estimate needs
_SURE = 12.0  # e-folds of the chance for a difference that matters where simulations never differ: 6e-6


def judge(judged: Judged, made: Floats, draws: Floats, part: str = "") -> list[JudgedStatistic]:
    """The rows of one part of the data, before the correction.

    `made` (n, subjects, statistics) are of simulations with `draws` (n, d). None for fewer than 10 simulations.
    """
    if len(made) < _IN_TAIL:
        return []
    found: list[JudgedStatistic] = []
    for s, subject in enumerate(judged.subjects):
        usable = np.isfinite(judged.known[s]) & (np.isfinite(made[:, s]).mean(axis=0) > 1.0 - TAIL)
        kept = np.flatnonzero(usable)
        if not len(kept):
            continue
        some = made[:, s, kept]
        some = np.where(np.isfinite(some), some, np.nanmedian(some, axis=0))
        chosen = [TABLE[k] for k in kept]
        real, left = _left_over(judged.known[s, kept], some, draws, chosen)
        for k, check in enumerate(chosen):
            found.append(_row(subject, check, part, float(judged.known[s, kept[k]]), some[:, k], real[k], left[:, k]))
    return _shifted(found)


def _row(
    subject: Subject, check: CheckedStatistic, part: str, known: float, made: Floats, rest: float, left: Floats
) -> JudgedStatistic:
    low, high = np.quantile(made, [0.05, 0.95]).tolist()
    effect = rest
    if check.level:
        known, low, high = (0.1 * subject.scale * float(np.sinh(x)) for x in (known, low, high))
        effect = float(np.expm1(rest)) if abs(rest) < 10.0 else float(np.copysign(np.inf, rest))
    scale = max(float(left.std()), check.least / _SURE)
    p, null = chance(rest, left, check.least, check.side)
    return JudgedStatistic(
        subject, check.name, part, known, low, high, effect, rest / scale, p, p, check.remedy, check.law,
        abs(rest) >= check.least, null=null,
    )  # fmt: skip


def _off(real: Floats, made: Floats, draws: Floats, least: Floats) -> tuple[Floats, Floats, Floats] | None:
    """How far a measurement (k,) and simulations (n, k) are from what is linear in the draws (n, d), in deviations.

    The measurement is the first of the rows (1 + n, k). Besides, how much a deviation of each value moves each
    statistic (1 + n, k, d), and the deviations (k,). What is linear is found without the row in question: a simulation
    that has bent the line to itself would seem nearer to it than a measurement can be. None where there are no values,
    or too many of them for so few simulations.
    """
    spread = draws.std(axis=0)
    moving = spread > 1e-12 * (np.abs(draws.mean(axis=0)) + 1e-300)
    scaled = (draws[:, moving] - draws[:, moving].mean(axis=0)) / spread[moving]
    if not 0 < scaled.shape[1] < len(made) // 4:
        return None
    design = np.concatenate([np.ones((len(made), 1)), scaled], axis=1)
    inverse = np.linalg.pinv(design)
    lines, leverage = inverse @ made, np.einsum("ij,ji->i", design, inverse)
    rest = made - design @ lines
    without = lines - inverse.T[:, :, None] * (rest / np.maximum(1.0 - leverage, EXACT)[:, None])[:, None, :]
    lines = np.concatenate([lines[None], without])
    scale = np.maximum(rest.std(axis=0), least / _SURE)
    rows = (np.concatenate([real[None], made]) - lines[:, 0]) / scale
    return rows, np.swapaxes(lines[:, 1:] / scale, 1, 2), scale


def _rest(rows: Floats, per: Floats, by: Flags, wide: float = 1.0) -> Floats:
    """What is left of `rows` (n, k) by the values, as `wide` as draws, that suit the statistics `by` (k,) best."""
    some = per[:, by]
    weighed = np.swapaxes(some, 1, 2) @ some + np.eye(per.shape[2]) / wide**2
    return np.asarray(rows - np.squeeze(per @ np.linalg.solve(weighed, np.swapaxes(some, 1, 2) @ rows[:, by, None]), 2))


def _left_over(real: Floats, made: Floats, draws: Floats, checks: Sequence[CheckedStatistic]) -> tuple[Floats, Floats]:
    """What the values that suit a measurement (k,), or each simulation (n, k), best do not make of its statistics."""
    found = _off(real, made, draws, np.array([one.least for one in checks]))
    if found is None:
        middle = np.median(made, axis=0)
        return real - middle, made - middle
    rows, per, scale = found
    left = _rest(rows, per, np.ones(len(scale), np.bool_)) * scale
    return left[0], left[1:]


def chance(real: float, made: Floats, least: float, side: int) -> tuple[float, Floats]:
    """How likely simulations of a statistic are as far off as `real`, and (n,) as each of `made`, by the others.

    `least` and `side` are the table's.
    """
    n = len(made)
    middle, scale = float(made.mean()), max(float(made.std()), least / _SURE, 1e-300)
    off, away_real = (made - middle) / scale, (real - middle) / scale
    # Each by the mean and deviation of the others, as `real` is; so both are Student's, whose e-folds are taken.
    rest = off * np.sqrt(n / (n - 1.0) / np.maximum(1.0 - off**2 / (n - 1.0), 1e-9))
    rows_of, real_of = (np.sign(z) * (n - 1.0) / 2.0 * np.log1p(z**2 / (n - 1.0))
                        for z in (rest, np.float64(away_real / np.sqrt(1.0 + 1.0 / n))))  # fmt: skip
    ways = [_beyond(float(sign * real_of), sign * rows_of) for sign in (1.0, -1.0) if side * sign >= 0.0]
    return min(1.0, len(ways) * min(p for p, _ in ways)), np.minimum(1.0, len(ways) * np.min([p for _, p in ways], 0))


def _beyond(value: float, rows: Floats) -> tuple[float, Floats]:
    """How likely one more of `rows` (n,) is as great as `value`, and (n,) as each of them, by the others.

    They are e-folds of chances, so their tail is exponential and exceeds any bound by 1 in the mean, or by more.
    """
    n = len(rows)
    many = min(max(int(TAIL * n), _IN_TAIL), n // 2)
    ordered = np.sort(rows)
    begin = max(float(ordered[-many - 1]), 0.0)
    away = np.maximum(rows - begin, 0.0)
    total = max(float(away.sum()), float(many))
    k = many if total <= many else min(max(2.0 * total**2 / float((away**2).sum()), 2.0), many)  # that count
    far = many / n * (1.0 + max(value - begin, 0.0) / total) ** -k
    own = many / n * (1.0 + away / np.maximum(total - away, many - 1.0)) ** (1.0 - k)
    shares = (n - np.searchsorted(ordered, rows)) / n
    return float(far if value > begin else np.mean(rows >= value)), np.where(away > 0.0, own, shares)


def _shifted(found: list[JudgedStatistic]) -> list[JudgedStatistic]:
    """Levels that all lie elsewhere are no matter of the law; two nodes may have each other's.

    A law that is bent does not move the mean as far, because the mean is fitted.
    """
    mean = {
        one.subject: one for one in found if one.check == "mean" and one.p < FALSE and abs(one.effect) > 5 * RELATIVE
    }
    remedies = dict.fromkeys(mean, SCALE)
    for a in mean.values():
        for b in mean.values():
            alike = (a.subject.signal, a.subject.recording) == (b.subject.signal, b.subject.recording)
            if a is not b and alike and _within(a, b) and _within(b, a):
                remedies[a.subject] = f"{NAMES} ({a.subject.node} and {b.subject.node})"
    return [
        replace(one, remedy=remedies[one.subject], law=False)
        if one.subject in remedies and one.check in LEVELS
        else one
        for one in found
    ]


def _within(one: JudgedStatistic, other: JudgedStatistic) -> bool:
    """Whether a measured level is nearer to what is simulated for the other node than for its own."""
    own, theirs = (0.5 * (x.low + x.high) for x in (one, other))
    return abs(one.measured - theirs) < abs(one.measured - own)


def corrected(found: Sequence[JudgedStatistic]) -> list[JudgedStatistic]:
    """The rows with adjusted p values.

    Half of the chance of a false word is for whole recordings and nodes, which are few, and half for all else.
    """
    whole = [one.check in (RECORDING.name, NODE.name) for one in found]
    adjusted = dict[int, float]()
    for family in (True, False):
        at = [k for k, one in enumerate(whole) if one is family]
        share = 1.0 if len(at) == len(found) else 2.0
        least = -np.log(np.min([np.asarray(found[k].null) for k in at], axis=0)) if at else np.empty(0)
        for k in at:
            p, _ = _beyond(-float(np.log(max(found[k].p, np.finfo(np.float64).tiny))), least)
            adjusted[k] = min(share * max(p, found[k].p), 1.0)
    return [replace(one, adjusted=adjusted[k], null=None) for k, one in enumerate(found)]


def worst(found: Sequence[JudgedStatistic], most: int) -> list[JudgedStatistic]:
    """Odd rows that matter, of each subject and remedy the least likely one, at most so many.

    The law comes late, and last what has the remedy of one before.
    """
    best: dict[tuple[Subject, str, str], JudgedStatistic] = {}
    for one in sorted(found, key=lambda one: (one.law or one.check == "mean", one.adjusted, -abs(one.deviations))):
        if one.odd and one.matters:
            best.setdefault((one.subject, one.part, one.remedy), one)
    firsts = {(one.subject.signal, one.remedy): one for one in reversed(best.values())}
    return sorted(best.values(), key=lambda one: firsts[one.subject.signal, one.remedy] is not one)[:most]


def others(parts: Sequence[tuple[Judged, Floats]], draws: Floats) -> list[JudgedStatistic]:
    """How far each recording, or node of a single one, lies from what the others predict, before the correction.

    `parts` are what is judged with its simulations, all with `draws` (n, d). The values that suit the others best are
    found by regression, as in `judge`.
    """
    subjects = [(subject, k, s) for k, (judged, _) in enumerate(parts) for s, subject in enumerate(judged.subjects)]
    check, name_of = RECORDING, attrgetter("recording")
    if len({subject.recording for subject, *_ in subjects}) < 2:
        check, name_of = NODE, attrgetter("node")
        subjects = [one for one in subjects if one[0].node]  # a row of all nodes has each of them in it
    levels = [k for k, one in enumerate(TABLE) if one.level and one.side == 0 and one.name != "mean load"]
    columns = [(subject, k, s, level) for subject, k, s in subjects for level in levels]
    names = dict.fromkeys(name_of(subject) for subject, *_ in columns)
    if len(names) < 2 or len(draws) < _IN_TAIL:
        return []
    real = np.array([parts[k][0].known[s, level] for _, k, s, level in columns])
    made = np.stack([parts[k][1][:, s, level] for _, k, s, level in columns], axis=1)
    usable = np.isfinite(real) & np.isfinite(made).all(axis=0)
    columns = [one for one, kept in zip(columns, usable.tolist(), strict=True) if kept]
    real, made = real[usable], made[:, usable]
    linear = _off(real, made, draws, np.full(len(real), check.least)) if columns else None
    if linear is None:
        return []
    rows, per, scale = linear
    found = []
    for name in names:
        mine = np.array([name_of(subject) == name for subject, *_ in columns])
        at = [j for j, one in enumerate(columns) if mine[j] and TABLE[one[3]].name == "mean"]
        if not at or mine.all():
            continue
        rest = _rest(rows, per, ~mine, SURE)  # what is accused has moved and narrowed the draws
        usual = np.maximum(rest[1:, ~mine].std(axis=0), EXACT)
        apart = float(np.mean((rest[0, ~mine] / usual) ** 2))
        for j in at if check is RECORDING or apart < SURE**2 else ():  # a node is named if the rest agree
            left = rest[:, j] * scale[j]
            row = _row(columns[j][0], check, "", float(real[j]), made[:, j], float(left[0]), left[1:])
            found.append(replace(row, others=apart))
    return found


def of_case(case: Case) -> Judged:
    """What a problem without a scenario is judged by: its signals as they stand.

    Times count where simulated values are not sorted, as quantiles are.
    """
    observed = {
        name: one for name, one in case.observed.items() if not one.paired and np.isfinite(one.values).sum() >= LEAST
    }
    subjects = tuple(
        Subject(name, scale=scale_of(one.values[np.isfinite(one.values)])) for name, one in observed.items()
    )

    def rows(values: Sequence[Floats], *, simulated: bool) -> Floats:
        found = np.empty((len(subjects), len(TABLE)))
        for s, (subject, one) in enumerate(zip(subjects, observed.values(), strict=True)):
            row, times = values[s], one.times
            if not simulated and times is not None:
                row = row[np.argsort(times, kind="stable")]
            row = row[np.isfinite(row)]
            quantiles = simulated and bool((np.diff(row) >= 0.0).all())
            course = None if times is None or quantiles else np.arange(len(row), dtype=np.float64)
            found[s] = figures(Course(row, course, scale=subject.scale))
        return found

    def simulate(draw: Floats, seed: int) -> Floats:
        answer = case.simulate(draw[None], seed)
        return rows([np.asarray(answer[name], np.float64)[0] for name in observed], simulated=True)

    return Judged(subjects, rows([one.values for one in observed.values()], simulated=False), simulate)
