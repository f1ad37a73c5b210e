"""Nodes and links that fail by themselves: exponential times up and down, each with a stream of its own."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.continuum.config import FailureConfig
from cosim.contract.entities import Scene

LINKS = "links"
_STREAM = 0x6661696C  # in the names of the streams, apart from the engine's


@dataclass(frozen=True, slots=True)
class Turn:
    """A node or link fails or comes back."""

    at: float  # s
    link: bool
    number: int  # slot of the node, number of the link
    up: bool


class Failures:
    """Times at which nodes and links fail and recover; `nodes_up` (slots,) and `links_up` (links,) are their state now.

    Each node and link draws its times from its own stream, so they do not depend on the others.
    """

    def __init__(self, config: Mapping[str, FailureConfig], scene: Scene, links: int, seed: tuple[int, ...]) -> None:
        self.nodes_up: NDArray[np.bool_] = np.ones(scene.capacity, np.bool_)
        self.links_up: NDArray[np.bool_] = np.ones(links, np.bool_)
        self._next: list[tuple[float, int, int, bool]] = []  # s, 1 for links, number, whether it comes back
        self._means: dict[tuple[int, int], FailureConfig] = {}
        self._streams: dict[tuple[int, int], np.random.Generator] = {}
        failing = [(0, slot, config[node.kind]) for slot, node in enumerate(scene.nodes) if node.kind in config]
        if LINKS in config:
            failing += [(1, number, config[LINKS]) for number in range(links)]
        for what, number, means in failing:
            key = np.random.SeedSequence([*seed, _STREAM, what, number])
            self._means[what, number], self._streams[what, number] = means, np.random.default_rng(key)
            self._plan(0.0, what, number, up=False)

    def next(self, until: float) -> Turn | None:
        """The next turn up to `until` (s), which has happened then; None when there is none."""
        if not self._next or self._next[0][0] > until:
            return None
        at, what, number, up = heapq.heappop(self._next)
        (self.links_up if what else self.nodes_up)[number] = up
        self._plan(at, what, number, up=not up)
        return Turn(at, bool(what), number, up)

    def _plan(self, now: float, what: int, number: int, *, up: bool) -> None:
        means = self._means[what, number]
        span = self._streams[what, number].exponential(means.repair if up else means.mtbf)
        heapq.heappush(self._next, (now + span, what, number, up))
