"""When a mosaik simulator is stepped: its own integer time against the bus."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any


def triggers(meta: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """model -> input attributes whose values make a step, as mosaik defines it for each type."""
    return _attributes(meta, "trigger", "non-trigger")


def transient(meta: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    """model -> output attributes whose values hold at their own step only."""
    return _attributes(meta, "non-persistent", "persistent")


def _attributes(meta: Mapping[str, Any], named: str, others: str) -> dict[str, frozenset[str]]:
    """Those that each model names, all but those that it names as `others`, or what its type has by itself."""
    found = {}
    for name, model in meta["models"].items():
        attrs = frozenset(model.get("attrs", ())) if meta["type"] == "event-based" or others in model else frozenset()
        found[name] = frozenset(model[named]) if named in model else attrs - frozenset(model.get(others, ()))
        if meta["type"] == "time-based":
            found[name] = frozenset[str]()
    return found


class Clock:
    """Integer steps of `resolution` seconds, with the next one that the simulator asked for."""

    def __init__(self, kind: str, resolution: float, period: float, duration: float) -> None:
        self.kind = kind
        self.resolution = resolution
        self.stride = round(period / resolution)  # integer steps between two steps on the bus
        if self.stride < 1 or abs(self.stride * resolution - period) > 1e-9 * period:
            raise ValueError(
                f"the adapter's step of {period:g} s is not a whole number of resolutions of {resolution:g} s; "
                "change 'step' or 'resolution'"
            )
        self.until = round(duration / resolution) + 1
        self.next: int | None = None if kind == "event-based" else 0

    def at(self, time: float) -> int:
        """The simulator's time at `time` s of the bus."""
        return round(time / self.resolution)

    def max_advance(self, now: int, triggered: bool) -> int:
        """Up to where no input can make a step that the simulator did not ask for."""
        return min(now + self.stride - now % self.stride - 1, self.until) if triggered else self.until

    def ask(self, step: int) -> None:
        """A further step that the simulator wants."""
        self.next = step if self.next is None else min(self.next, step)

    def answered(self, now: int, answer: object) -> None:
        """Take what step() returned at `now`; raises `ValueError` when it is not a later time."""
        if answer is None and self.kind != "time-based":
            self.next = None
            return
        try:
            self.next = operator.index(answer)  # type: ignore[arg-type]
        except TypeError:
            raise ValueError(f"step({now}) must return the next step as an integer, not {answer!r}") from None
        if self.next <= now:
            raise ValueError(f"step({now}) returned {self.next} as its next step, which is not later")
