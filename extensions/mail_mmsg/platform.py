"""What an engine policy sees and does about one request: 52 figures, weights that rank candidates, levels of feedback.

A request may be computed by its own device, by one of the three edge hosts with the fastest path, or by the cloud: five
candidates of seven features each, with 17 more figures 52 in all, as in the paper. An action is, as in MA-RDPG (Feng et
al., WWW 2018), from which the paper has its sizes, the weights of a linear ranking: seven for broadband and vehicles,
three for fixed sensors, laid side by side in ten numbers of which the others are 0.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats, Ints
from cosim.schedulers.state import CLOUD, EDGE, KEEP, LOCAL, REFERENCE

SCENES = ("broadband", "sensors", "vehicles")  # sub-scenarios: an agent each
CANDIDATES = 5  # the device, three edge hosts, the cloud
FEATURES = ("there", "transfer", "alone", "load", "estimate", "tier", "speed")
RANKED = (1, 3, 5)  # the features that sensors rank by
ACTION = len(FEATURES) + len(RANKED)
LEVELS = (0.25, 0.5, 0.75, 1.0, 2.0)  # bounds of the levels of feedback, in deadlines; the last level: later, or failed
IN_TIME = 4  # levels below are in time
OUTCOMES = len(LEVELS) + 1
OWN = CANDIDATES * len(FEATURES)  # where the figures of the request begin
OTHERS = 17
SEEN = OWN + OTHERS
HIST, STAT = slice(OWN + 8, OWN + 12), slice(OWN + 12, OWN + 15)  # what feedback changes
_TIER_CLOUD, _FAR = 0.8, 3.0


class OffloadRequest(NamedTuple):
    """A request, s, B, cycles."""

    time: float
    scene: int
    input: float
    work: float
    deadline: float
    own_speed: float  # cycles/s of the device
    own_tasks: float


class Record:
    """What the platform knows of one client: its last four outcomes and running means."""

    __slots__ = ("last", "ratio", "time")

    def __init__(self) -> None:
        self.last = [0.5] * 4  # 1: offloaded and in time
        self.ratio, self.time = 0.5, 0.5

    def hear(self, done: float, level: int) -> None:
        """An outcome: 1 for offloaded and in time, and its level."""
        self.last = [*self.last[1:], done]
        self.ratio += 0.1 * (done - self.ratio)
        self.time += 0.1 * (level / len(LEVELS) - self.time)


def observe(
    asked: OffloadRequest, reach: Floats, hosts: NDArray[Any], speed: Floats, record: Record, shared: float, day: float
) -> tuple[Floats, Ints]:
    """(52,) figures and (5,) destinations: LOCAL, hosts by number, KEEP where there is none.

    hosts: records with tier, cores, tasks or assigned, up; speed: (H,) cycles/s of a core; `shared`: the ratio of all
    clients of the sub-scenario; `day`: s of a day.
    """
    assigned = hosts["assigned" if "assigned" in (hosts.dtype.names or ()) else "tasks"].tolist()
    tier, cores, up, ways = hosts["tier"].tolist(), hosts["cores"].tolist(), hosts["up"].tolist(), reach.tolist()
    order = [h for h in range(len(ways)) if up[h] != 0 and ways[h] < math.inf]
    order.sort(key=ways.__getitem__)
    edges = [h for h in order if tier[h] == EDGE][:3]
    cloud = [h for h in order if tier[h] == CLOUD][:1] or [KEEP]
    places = [LOCAL if asked.own_speed > 0.0 else KEEP, *edges, *[KEEP] * (3 - len(edges)), *cloud]
    deadline = asked.deadline if math.isfinite(asked.deadline) else 10.0
    x = [0.0] * SEEN
    far = max(asked.input / REFERENCE, 0.1)
    for k, h in enumerate(places):
        if h == KEEP:
            continue
        if h == LOCAL:
            transfer, alone, load, kind = 0.0, asked.work / asked.own_speed, float(asked.own_tasks), 0.0
            wait, core = alone * (load + 1.0), asked.own_speed
        else:
            core, count = float(speed[h]), cores[h]
            transfer, alone, load = ways[h] * far, asked.work / core, assigned[h] / count
            wait, kind = alone * max(1.0, load + 1.0 / count), (1.0 if h in edges else _TIER_CLOUD)
        x[k * 7 : k * 7 + 7] = (
            1.0, min(transfer / deadline, _FAR), min(alone / deadline, _FAR), min(load / 4.0, _FAR),
            min((transfer + wait) / deadline, _FAR), kind, core / 4e9,
        )  # fmt: skip
    x[OWN + asked.scene] = 1.0
    x[OWN + 3] = math.log10(max(asked.work, 1.0)) - 9.0
    x[OWN + 4] = math.log10(max(asked.input, 1.0)) - 5.0
    x[OWN + 5] = math.log10(deadline)
    x[OWN + 6], x[OWN + 7] = asked.own_speed / 4e9, min(asked.own_tasks / 4.0, _FAR)
    x[HIST] = record.last
    x[STAT] = record.ratio, record.time, shared
    x[OWN + 15] = math.sin(2.0 * math.pi * asked.time / day)
    x[OWN + 16] = math.cos(2.0 * math.pi * asked.time / day)
    return np.array(x), np.array(places, np.int64)


def ranking(action: Floats, scenes: Ints) -> Floats:
    """(n, 7) weights of the features from actions (n, 10) of sub-scenarios (n,)."""
    found = np.where((scenes == 1)[:, None], 0.0, action[:, : len(FEATURES)])
    found[:, RANKED] += np.where((scenes == 1)[:, None], action[:, len(FEATURES) :], 0.0)
    return found


def chosen(seen: Floats, action: Floats) -> Ints:
    """(n,) the candidate of highest rank among those that are there; 0, the device, where there is none."""
    features = seen[:, :OWN].reshape(-1, CANDIDATES, len(FEATURES))
    scenes = seen[:, OWN : OWN + len(SCENES)].argmax(axis=1)
    score = (features @ ranking(action, scenes)[:, :, None])[:, :, 0]
    found: Ints = np.where(features[:, :, 0] > 0.0, score, -np.inf).argmax(axis=1)
    return found


def choose_one(seen: Floats, action: Floats, scene: int) -> int:
    """The same of one request."""
    weights = action[: len(FEATURES)]
    if scene == 1:
        weights = np.zeros(len(FEATURES))
        weights[list(RANKED)] = action[len(FEATURES) :]
    features = seen[:OWN].reshape(CANDIDATES, len(FEATURES))
    score = (features @ weights).tolist()
    there = features[:, 0].tolist()
    return max(range(CANDIDATES), key=lambda k: (there[k] > 0.0, score[k], -k))


@cache
def masks() -> Floats:
    """(3, 10) which numbers of an action are those of each sub-scenario."""
    found = np.zeros((len(SCENES), ACTION))
    found[[0, 2], : len(FEATURES)] = 1.0
    found[1, len(FEATURES) :] = 1.0
    return found


def level(seconds: float, deadline: float, completed: bool) -> int:
    """The level of feedback of a request that took `seconds`."""
    return int(np.searchsorted(LEVELS, seconds / deadline)) if completed else len(LEVELS)
