"""Service-level agreements: which tasks keep them, and what the others cost.

A task violates the agreement of its workload when it fails or takes longer than `response`. Of a
graph the whole job counts. With `period`, the share of tasks that keep it is looked at per period,
by the time of their end; a period below `target` is a violation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cosim.contract.entities import AgreementQuantities
from cosim.contract.records import Floats

# columns of `State.service`; the last three are about the period that is not over
SERVICE: Final = ("tasks", "violations", "excess", "periods_below", "period", "period_tasks", "period_kept")
TASKS, VIOLATIONS, EXCESS, BELOW, PERIOD, OPEN_TASKS, OPEN_KEPT = range(7)


@dataclass(frozen=True, slots=True)
class Standing:
    """What has become of an agreement, as penalty rules see it."""

    tasks: int  # that ended
    violations: int  # of them, failed or too slow
    excess: float  # s, by which they took longer than agreed, all together
    periods_below: int  # periods whose share of kept tasks was below the target


Rule = Callable[[Standing], float]  # -> multiples of the penalty

RULES: Final[Mapping[str, Rule]] = MappingProxyType({
    "violation": lambda standing: float(standing.violations),
    "excess": lambda standing: standing.excess,
    "period": lambda standing: float(standing.periods_below),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkloadAgreement(AgreementQuantities):
    """What is promised for the tasks of a workload."""

    rule: str | Rule = "violation"  # one of RULES, or a function


@dataclass(frozen=True, slots=True)
class AgreementAccount:
    """An agreement in the ledger."""

    standing: Standing
    kept: float  # share of the tasks that kept it, 1 without any
    met: bool  # whether that is at least the target
    penalty: float  # currency


def _close_period(row: Floats, agreement: WorkloadAgreement) -> None:
    """The present period is over."""
    if row[OPEN_TASKS] > 0 and row[OPEN_KEPT] < agreement.target * row[OPEN_TASKS]:
        row[BELOW] += 1
    row[OPEN_TASKS] = row[OPEN_KEPT] = 0.0


def _add(row: Floats, agreement: WorkloadAgreement, response: Floats, failed: NDArray[np.bool_], ended: Floats) -> None:
    kept = ~failed & (response <= agreement.response)
    row[TASKS] += len(kept)
    row[VIOLATIONS] += np.sum(~kept)
    # one after another, so that the sum does not depend on how often it is looked at
    excess = np.where(kept, 0.0, np.maximum(response - agreement.response, 0.0))
    row[EXCESS] = np.cumsum(np.concatenate([row[EXCESS : EXCESS + 1], excess]))[-1]
    if agreement.period > 0.0:
        number = np.floor(ended / agreement.period)
        for period in np.unique(number):
            if period > row[PERIOD]:
                _close_period(row, agreement)
                row[PERIOD] = period
            row[OPEN_TASKS] += np.sum(number == period)
            row[OPEN_KEPT] += np.sum(kept[number == period])


def account(service: Floats, agreements: Mapping[int, WorkloadAgreement], ended: Mapping[str, NDArray[Any]]) -> None:
    """Add tasks that ended, in the order of time, to the standing of the agreements by workload."""
    whole = ended["stage"] < 0
    for number, agreement in agreements.items():
        mine = whole & (ended["workload"] == number)
        if mine.any():
            time = ended["ended"][mine]
            _add(service[number], agreement, time - ended["created"][mine], ended["status"][mine] != 0, time)


def conclude(service: Floats, agreements: Mapping[int, WorkloadAgreement], now: float) -> dict[int, AgreementAccount]:
    """The agreements at `now`; changes nothing. Periods that are not over do not count."""
    found = {}
    for number, agreement in agreements.items():
        row = service[number].copy()
        if agreement.period > 0.0 and now >= (row[PERIOD] + 1) * agreement.period:
            _close_period(row, agreement)
        standing = Standing(int(row[TASKS]), int(row[VIOLATIONS]), float(row[EXCESS]), int(row[BELOW]))
        kept = 1.0 - standing.violations / standing.tasks if standing.tasks else 1.0
        rule = RULES[agreement.rule] if isinstance(agreement.rule, str) else agreement.rule
        found[number] = AgreementAccount(
            standing, kept, kept >= agreement.target, agreement.penalty * float(rule(standing))
        )
    return found
