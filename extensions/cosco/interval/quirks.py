"""Where the peer's results differ from the physics that is meant, one name each.

The compatible mode has all of `compatible("cosco")` on and follows the peer step by step; the
corrected mode has none. `simtune` adds the defect of that fork. Source: the published code of COSCO
(Tuli et al., IEEE TPDS 33(1), 2022) and SimTune (Tuli, Casale, Jennings, 2022).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Peer = Literal["cosco", "simtune"]


@dataclass(frozen=True, slots=True)
class Quirk:
    """A behaviour of the peer that can be switched on alone."""

    peers: tuple[Peer, ...]
    part: Literal["step", "fleet", "workload", "cost"]  # what it belongs to
    wrong: str  # why


QUIRKS: Mapping[str, Quirk] = {
    name: Quirk(tuple(one["peers"]), one["part"], " ".join(one["wrong"].split()))
    for name, one in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
NAMES = tuple(QUIRKS)
(
    LAST_HOST_SOURCE, ORDER_DEPENDENT, NEGATIVE_RUN_TIME, FINISHED_KEEPS_SHARE, TRUNCATED_MIPS,
    EXECUTION_ONLY_RESPONSE, ZERO_RETIRES, OVERLOAD_STOPS, LOST_SPARE, RATES_UNCHECKED, REFUSED_MOVES_COUNT,
    WHOLE_INTERVALS, EMPTY_SLOTS_IN_FAIRNESS, FIRST_TASK_LOAD, DEADLINE_TWICE,
    MOVES_RECOUNTED, NEW_COUNTED_APART,
) = range(17)  # fmt: skip
CORRECTED: frozenset[str] = frozenset()
CONSTANT_COST = 500.0 * (4 * 0.0472 + 2 * 0.189 + 2 * 0.166 + 2 * 0.333)  # the plotter's own figure


def compatible(peer: Peer = "cosco") -> frozenset[str]:
    """The quirks that `peer` has."""
    return frozenset(name for name, quirk in QUIRKS.items() if peer in quirk.peers)


def switches(names: Iterable[str]) -> NDArray[np.bool_]:
    """One flag per quirk, in the order of `QUIRKS`. Raises `ValueError` for a name that is none."""
    wanted = set(names)
    unknown = sorted(wanted - set(NAMES))
    if unknown:
        raise ValueError(f"there is no quirk {', '.join(map(repr, unknown))}; known: {', '.join(NAMES)}")
    return np.array([name in wanted for name in NAMES])
