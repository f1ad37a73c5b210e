"""Several backends, each for some interfaces: Wi-Fi by an engine with a radio of its own, everything else by linkd."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from cosim.contract.link import LinkState
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.emulation.state import Backend, Health, Position


class Carrying(Backend, Protocol):
    """A backend that counts what it carries."""

    @property
    def restarts(self) -> int:
        """How often what carries the frames had to be started again."""

    def counts(self) -> dict[tuple[str, str, str], PairCount]:
        """(sender, receiver, interface) -> what became of the frames so far, of pairs that had any."""


class Divided:
    """A `Backend` of several: `own` names those of some interfaces, `rest` has all others and is closed last."""

    def __init__(self, own: Mapping[str, Carrying], rest: Carrying) -> None:
        self._own, self._rest = dict(own), rest
        self._all = [*{id(backend): backend for backend in self._own.values()}.values(), rest]

    @property
    def restarts(self) -> int:
        """Of all together."""
        return sum(backend.restarts for backend in self._all)

    def attach(self, node: str, interface: str, descriptor: int, mac: str) -> None:
        """To the backend of the interface."""
        self._of(interface).attach(node, interface, descriptor, mac)

    def detach(self, node: str, interface: str) -> None:
        """From the backend of the interface."""
        self._of(interface).detach(node, interface)

    def move(self, positions: Mapping[str, Position]) -> None:
        """To all; those without a radio do nothing with it."""
        for backend in self._all:
            backend.move(positions)

    def links(self, states: Mapping[tuple[str, str, str], LinkState]) -> None:
        """To each backend those of its interfaces."""
        parts: dict[int, dict[tuple[str, str, str], LinkState]] = {}
        for key, state in states.items():
            parts.setdefault(id(self._of(key[2])), {})[key] = state
        for backend in self._all:
            if id(backend) in parts:
                backend.links(parts[id(backend)])

    def counts(self) -> dict[tuple[str, str, str], PairCount]:
        """Of all together."""
        return {key: count for backend in self._all for key, count in backend.counts().items()}

    def health(self) -> Health:
        """Sums of all; of the lags the worst."""
        found = [backend.health() for backend in self._all]
        summed = ("received", "delivered", "dropped", "cpu", "memory", "unread", "overflowed")
        worst = ("lag_mean", "lag_max", "unread_at")
        figures: dict[str, Any] = {name: _worst([getattr(one, name) for one in found]) for name in worst}
        figures |= {name: sum(getattr(one, name) for one in found) for name in summed}
        late = max(found, key=lambda one: -math.inf if math.isnan(one.lag_max) else one.lag_max)
        return Health(alive=all(one.alive for one in found), lag_at=late.lag_at, **figures)

    def close(self) -> None:
        """Close all; may be called twice."""
        for backend in self._all:
            backend.close()

    def _of(self, interface: str) -> Carrying:
        return self._own.get(interface, self._rest)


def _worst(values: list[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)
