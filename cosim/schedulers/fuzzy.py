"""Fuzzy inference for offloading decisions: trapezoids, minimum, maximum, on a few numbers.

Rule bases and sets are those of C. Sonmez, A. Ozgovde and C. Ersoy ("Fuzzy Workload Orchestration for
Edge Computing", IEEE TNSM 16(2), 2019, doi 10.1109/TNSM.2019.2901346) and of the competitor that they
compare with. A rule fires as much as the least of its inputs holds (AND and activation by minimum);
a conclusion holds as much as the strongest of its rules (accumulation by maximum).

All questions have two answers, whose output sets lie to either side of 50; an answer above 50 means
the second one (remote, cloud). So what remains of a rule base is how much each answer holds, and the
defuzzifiers have closed forms:

- left-most maximum, sets (0,0)(30,1)(60,0) and (40,0)(70,1)(100,0): where the first of the two clipped
  triangles reaches its height h is 30 h and 40 + 30 h. Above 50: the second set holds more, and more
  than 1/3.
- centre of gravity, sets (0,1)(40,1)(60,0) and (40,0)(60,1)(100,1): mirror images of each other about 50.
  Above 50: the second set holds more.

When no rule fires the first answer stands.
"""

from __future__ import annotations

import numpy as np

from cosim.engine.continuum.jit import entry, jit

# Sets low, medium, high: the four corners of each trapezoid, as x of (0, 1, 1, 0); +-inf where it goes on.
_BEYOND = np.inf
Input = tuple[np.ndarray, float]  # its sets, and what it is


def _sets(*corners: float) -> np.ndarray:
    """Corners low (2), medium (3, a triangle), high (2)."""
    low_1, low_0, left, top, right, high_0, high_1 = corners
    return np.array(
        [
            [-_BEYOND, -_BEYOND, low_1, low_0],
            [left, top, top, right],
            [high_0, high_1, _BEYOND, _BEYOND],
        ]
    )


WAN_RATE = _sets(2, 4, 3, 5, 7, 6, 8)  # 1/s, reciprocal of the delay of the probe
TASK_SIZE = _sets(4000, 8000, 6000, 12000, 18000, 16000, 20000)  # MI
SENSITIVITY = _sets(0.2, 0.4, 0.3, 0.5, 0.7, 0.6, 0.8)  # also for data and video
UTILISATION = _sets(20, 40, 30, 50, 70, 60, 80)  # %, also for the free share of processors
MAN_DELAY = _sets(0.001, 0.004, 0.002, 0.007, 0.012, 0.01, 0.013)  # s


def _rules(text: str, answers: str) -> np.ndarray:
    """Rule base by the last input's three sets, in the order LLL, LLM, .. of the others; first answer 0."""
    return np.array([[answers.find(letter) for letter in word] for word in text.split()], np.int64)


# Edge place: nearest or remote. Inputs utilisation of the nearest, of the best remote one, delay of the MAN.
PLACE_RULES = _rules("RNN NNN NNN RRN RRN NNN RRR RRR RRN", "NR")
# Edge or cloud. Inputs utilisation, task size, WAN rate, sensitivity.
_LOW, _WIDE, _BUSY, _FULL = "EEE", "CCE", "CEE", "CCC"
CLOUD_RULES = _rules(
    f"{_LOW} {_BUSY} {_BUSY}  {_LOW} {_WIDE} {_WIDE}  {_LOW} {_WIDE} {_WIDE} "
    f"{_LOW} {_WIDE} {_WIDE}  {_LOW} {_WIDE} {_WIDE}  {_WIDE} {_WIDE} {_WIDE} "
    f"{_WIDE} {_FULL} {_FULL}  {_WIDE} {_FULL} {_FULL}  {_WIDE} {_FULL} {_FULL}",
    "EC",
)
# Local (edge) or remote (cloud). Inputs free share of processors, data, WAN rate, video.
COMPETITOR_RULES = _rules(
    "LLL -RR RRR  -LL -LR RRR  --- --- LLL  LLL LRR LRR  LLR LLR LRR  L-- L-- LLL  "
    "LLL RLL LLL  LLL LLL LLL  LLL LLR LLL",
    "LR",
)


@jit
def member(sets: np.ndarray, level: int, x: float) -> float:
    """How much x belongs to set low (0), medium (1) or high (2)."""
    a, b, c, d = sets[level, 0], sets[level, 1], sets[level, 2], sets[level, 3]
    if x < b:
        return 0.0 if x <= a else (x - a) / (b - a)
    if x > c:
        return 0.0 if x >= d else (d - x) / (d - c)
    return 1.0


@jit
def _infer(rules: np.ndarray, one: Input, two: Input, three: Input, last: Input, inputs: int) -> tuple[float, float]:
    """How much the first and the second answer hold, of a rule base with 3 or 4 inputs."""
    first, second = 0.0, 0.0
    for row in range(len(rules)):
        if inputs == 4:
            least = min(member(one[0], row // 9, one[1]), member(two[0], row // 3 % 3, two[1]))
            least = min(least, member(three[0], row % 3, three[1]))
        else:
            least = min(member(one[0], row // 3, one[1]), member(two[0], row % 3, two[1]))
        if least == 0.0:
            continue
        for level in range(3):
            answer = rules[row, level]
            strength = min(least, member(last[0], level, last[1]))
            if answer == 0:
                first = max(first, strength)
            elif answer == 1:
                second = max(second, strength)
    return first, second


@jit
def prefers_remote_place(nearest: float, remote: float, man_delay: float) -> bool:
    """Whether to use the best remote place (utilisations in %, delay in s) instead of the nearest."""
    first, second = _infer(
        PLACE_RULES, (UTILISATION, nearest), (UTILISATION, remote), (UTILISATION, 0.0), (MAN_DELAY, man_delay), 3
    )
    return bool(second > first and 40.0 + 30.0 * second > 50.0)


@jit
def prefers_cloud(utilisation: float, size: float, wan_rate: float, sensitivity: float) -> bool:
    """Whether to use the cloud instead of an edge place of that utilisation (%), for a task of `size` MI."""
    first, second = _infer(
        CLOUD_RULES, (UTILISATION, utilisation), (TASK_SIZE, size), (WAN_RATE, wan_rate), (SENSITIVITY, sensitivity), 4
    )
    return bool(second > first and 40.0 + 30.0 * second > 50.0)


@jit
def competitor_prefers_cloud(utilisation: float, kb: float, wan_rate: float, sensitivity: float) -> bool:
    """The competitor's choice for a task that moves `kb` in all."""
    first, second = _infer(
        COMPETITOR_RULES,
        (UTILISATION, 100.0 - utilisation),
        (SENSITIVITY, min(2500.0, kb) / 2500.0),
        (WAN_RATE, wan_rate),
        (SENSITIVITY, sensitivity),
        4,
    )
    return bool(second > first)


@entry
def choose(nearest: float, remote: float, man_delay: float, size: float, wan_rate: float, sensitivity: float) -> int:
    """Both stages for callers in Python: 0 the nearest place, 1 the best other one, 2 the cloud.

    Utilisations in %, a negative one of `remote`: there is none; a WAN rate of 0: no cloud.
    """
    place, load = 0, nearest
    if remote >= 0.0 and prefers_remote_place(nearest, remote, man_delay):
        place, load = 1, remote
    if wan_rate > 0.0 and prefers_cloud(load, size, wan_rate, sensitivity):
        return 2
    return place
