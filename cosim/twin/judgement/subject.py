"""Whose statistics are judged, and the rows that come of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from cosim.twin.judgement.course import Floats
from cosim.twin.judgement.table import RELATIVE, TABLE, CheckedStatistic

FALSE = 0.01  # chance that anything of sound data is reported: 1 of 100 sets has a false word
SURE = 3.0  # deviations that chance hardly ever makes, 1 of 741 to a side: three-sigma limits (W. Shewhart, 1931)
BEYOND = NormalDist().inv_cdf(1.0 - FALSE)  # deviations of what chance makes as seldom
RECORDING = CheckedStatistic(
    "level that the other recordings predict", lambda _: math.nan, RELATIVE,
    "leave it out with 'fit: {recordings: [...]}', or look at what else used the node, at its clock and its unit",
    level=True,
)  # fmt: skip
NODE = CheckedStatistic(
    "level that the other nodes predict", lambda _: math.nan, RELATIVE,
    "leave it out with 'nodes', free it with 'share: node', or look at what else used it, at its clock and its unit",
    level=True,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose statistics: `node` is empty where a signal is that of one node, or its rows name none."""

    signal: str
    recording: str = ""
    node: str = ""
    scale: float = 1.0  # of `Course`

    def __str__(self) -> str:
        return f"'{self.signal}'{f' of {self.node}' if self.node else ''}"


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The statistics of what was measured, and those of simulations: (values (d,), seed) -> (subjects, statistics)."""

    subjects: tuple[Subject, ...]
    known: Floats  # (subjects, len(TABLE))
    simulate: Callable[[Floats, int], Floats]

    def made(self, draws: Floats, seeds: Sequence[int]) -> Floats:
        """(n, subjects, len(TABLE)) of `draws` (n, d), each under a seed of its own."""
        return np.stack([self.simulate(draw, seed) for draw, seed in zip(draws, seeds, strict=True)])


@dataclass(frozen=True, slots=True)
class JudgedStatistic:
    """A row of the judgement: a statistic, its distribution under the fitted model, and what follows."""

    subject: Subject
    check: str
    part: str
    measured: float
    low: float  # 90 % of the simulations lie between
    high: float
    effect: float  # measured less simulated, at the values that suit the measurement best; of levels relative
    deviations: float
    p: float  # by itself
    adjusted: float  # in the family of all that was looked at
    remedy: str
    law: bool = False
    matters: bool = True
    others: float = 0.0  # how far the others are from one another, mean square, where they predict this one
    null: Floats | None = field(default=None, repr=False, compare=False)  # (n,) p of simulations, till the correction

    @property
    def odd(self) -> bool:
        return self.adjusted < FALSE

    def __str__(self) -> str:
        if self.check == NODE.name:
            way = "above" if self.effect > 0.0 else "below"
            what = f"{self.subject} does not fit: it is {abs(self.effect):.0%} {way} what the other nodes predict"
            return f"{what} (p {max(self.adjusted, 1e-99):.0e}): {self.remedy}"
        where = f"{self.subject}{f' ({self.part})' if self.part else ''}"
        size = f", {self.effect:+.0%}" if _checks[self.check].level else ""
        return (
            f"the model cannot make the {self.check} of {where}: measured {self.measured:.3g}, simulated "
            f"{self.low:.3g} to {self.high:.3g}{size} (p {max(self.adjusted, 1e-99):.0e}): {self.remedy}"
        )


_checks = {one.name: one for one in (*TABLE, RECORDING)}
