"""Checks of row times: whether rows were sampled, where times stand still, where rows are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from cosim.contract.records import Flags, Floats

Mask = Flags
_STEPS = 20  # steps of a sampler from which its clock rate can be estimated
_SPEED = 0.002, 0.05  # by which clocks differ: below it is no matter, above it rows are sampled less often
_OF_BATCHES = 0.05  # share of the steps that are much wider than the others, where rows come in batches
_LOST = 0.05  # share of the rows
_RANDOM = 10.0  # times as wide a step is needed of arrivals at random


class Gaps(NamedTuple):
    number: int
    longest: float  # s
    share: float  # of the period


def runs(values: Floats, least: int) -> Mask:
    """(m,) which values repeat the one before them in runs of `least` equal values or more; not the first of a run."""
    repeats = np.zeros(len(values), np.bool_)
    if len(values) < 2:
        return repeats
    same = np.diff(values) == 0.0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        if stop - start + 1 >= least:
            repeats[start + 1 : stop + 1] = True
    return repeats


def known(times: Floats) -> Floats:
    """The finite ones, in order, each once."""
    return np.unique(times[np.isfinite(times)])


def regular(times: Floats) -> bool:
    """Whether the steps between different times are alike: rows of a sampler, not events, nor events in batches."""
    steps = np.diff(known(times))
    if len(steps) < 3:
        return False
    usual = float(np.median(steps))
    batches = float(np.mean(steps > _RANDOM * usual)) > _OF_BATCHES or float(steps.mean()) > _RANDOM * usual
    return not batches and float(np.median(np.abs(steps - usual))) <= 0.2 * usual


def sampled(times: Floats) -> bool:
    """Whether rows are those of a sampler: regular, and hardly two at the same time."""
    finite = times[np.isfinite(times)]
    return regular(times) and len(known(times)) > 0.5 * len(finite)


def gaps(times: Floats, factor: float) -> Gaps | None:
    """Steps wider than `factor` times the usual one; of events, which come at random, ten times as wide.

    Events may come in batches: then the usual step is the mean, and the median is that inside a batch.
    """
    different = known(times)
    if len(different) < 4:
        return None
    steps = np.diff(different)
    usual = float(np.median(steps))
    if not regular(times):
        between = steps[steps > _RANDOM * usual]  # of batches, from one to the next
        batches = between if len(between) > _OF_BATCHES * len(steps) else steps
        factor, usual = _RANDOM * factor, max(usual, float(batches.mean()))
    wide = steps > factor * usual
    if not wide.any():
        return None
    share = float((steps[wide] - usual).sum() / (different[-1] - different[0]))
    return Gaps(int(wide.sum()), float(steps.max()), share)


def holes(times: Floats) -> int:
    """How many rows of a sampler are missing between those that there are, which lie at multiples of one step; 0 for
    fewer than a twentieth."""
    different = known(times)
    if not regular(times) or len(different) < _STEPS:
        return 0
    places = np.diff(different) / np.median(np.diff(different))
    missing = int(np.round(places).sum()) + 1 - len(different)
    even = float(np.mean(np.abs(places - np.round(places)) < 0.1)) > 1.0 - _OF_BATCHES
    return missing if even and missing > max(3, _LOST * len(different)) else 0


def speeds(times: Mapping[str, Floats]) -> dict[str, float]:
    """Node -> by which share its clock is faster than the usual one, for samplers that differ by 0.2 % to 5 %."""
    steps = {node: np.diff(known(own)) for node, own in times.items() if sampled(own) and len(known(own)) > _STEPS}
    if len(steps) < 2:
        return {}
    middle = {node: float(np.median(own)) for node, own in steps.items()}
    usual = float(np.median(list(middle.values())))
    usual = min(middle.values(), key=lambda one: abs(one - usual))
    chance = {node: 4.0 * float(np.median(np.abs(own - middle[node]))) / len(own) ** 0.5 for node, own in steps.items()}
    off = {node: one / usual - 1.0 for node, one in middle.items() if abs(one - usual) > chance[node]}
    return {node: one for node, one in off.items() if _SPEED[0] < abs(one) < _SPEED[1]}


def apart(times: Mapping[str, Floats], factor: float, what: str) -> dict[str, str]:
    """Node -> by how many s it begins and ends later than the middle of all, for nodes that cover another period.

    Another period is one that is off by `factor` usual steps (ten times as many where rows are events)
    and by a twentieth of the whole.
    """
    ends = {node: (float(own.min()), float(own.max())) for node, own in times.items() if len(own) > 1}
    if len(ends) < 2:
        return {}
    usual = np.median(np.array(list(ends.values())), axis=0)
    step = float(np.median([np.ptp(own) / (len(own) - 1) for own in times.values() if len(own) > 1]))
    step *= 1.0 if any(regular(own) for own in times.values()) else _RANDOM
    slack = max(factor * step, 0.05 * float(np.median([last - first for first, last in ends.values()])))
    off = {node: (first - float(usual[0]), last - float(usual[1])) for node, (first, last) in ends.items()}
    return {
        node: f"begins {first:+g} s and ends {last:+g} s from the middle of all {what}: a gap, or another clock"
        for node, (first, last) in off.items()
        if max(abs(first), abs(last)) > slack
    }
