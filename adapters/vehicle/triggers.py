"""Orders to engage and to disengage that what is measured decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cosim.adapters.vehicle.config import EngagePart, TriggerPart
from cosim.adapters.vehicle.looking import KNOWN, roles, triggers
from cosim.contract.condition import Condition, Reading, Value, over
from cosim.contract.frame import Frame
from cosim.contract.functions import function
from cosim.physics.vehicles import phases as ph
from cosim.physics.vehicles.engagement import Engagements

_SOON = 1e-9  # s
_OUT = (ph.ARMING, ph.TAKEOFF, ph.APPROACH, ph.FOLLOW)
_OPEN = (ph.HOME_IDLE, ph.RETURN, ph.LANDING)  # states in which an order to engage is of use

Holds = Callable[[Reading, float], bool | None]


@dataclass(frozen=True, slots=True)
class TriggerView:
    """What a function of the user's own sees: the signals as the bus last carried them."""

    time: float  # s
    reading: Reading

    def value(self, role: str, signal: str, column: str) -> Value | None:
        """Of the node that is `drone`, `target` or `controller`, in the column's unit; None: not known."""
        return self.reading(role, signal, column)


class Triggers:
    """Decides for n pairs; those with fixed times are left alone.

    Raises `ValueError` for what `looking.reads` refuses.
    """

    def __init__(self, parts: Sequence[EngagePart], slots: Mapping[str, int]) -> None:
        self._pairs = [k for k, part in enumerate(parts) if part.engage is not None]
        self._slots = [{role: slots[node] for role, node in roles(part).items()} for part in parts]
        self._parts = parts
        self._holds = [{key: _holds(part, trigger) for key, trigger in triggers(part)} for part in parts]
        self._since = np.full((len(parts), 2), math.nan)  # s, the condition holds since then: engage, disengage
        self._tried = np.zeros(len(parts), bool)  # an order that came to nothing is not given again and again
        self._frames: dict[str, Sequence[Frame]] = {}

    def take(self, signal: str, frames: Sequence[Frame]) -> None:
        """What the bus carries of `signal` now."""
        if frames:
            self._frames[signal] = frames

    def decide(self, now: float, pairs: Engagements) -> list[tuple[int, bool]]:
        """Pairs that get an order at `now` s, with whether it is to engage."""
        orders: list[tuple[int, bool]] = []
        if not self._pairs:
            return orders
        out = np.isin(pairs.phase, _OUT)
        for k in self._pairs:
            active = bool(pairs.ordered[k] or out[k])
            holds = {key: law(self._reading(k), now) is True for key, law in self._holds[k].items()}
            self._tried[k] &= holds["engage"] and not out[k]
            ready = not active and pairs.phase[k] in _OPEN and not self._tried[k]
            if self._lasts(k, 0, ready and holds["engage"], now):
                self._tried[k] = True
                orders.append((k, True))
            if self._lasts(k, 1, active and holds.get("disengage", False), now):
                orders.append((k, False))
        return orders

    def _lasts(self, k: int, which: int, holds: bool, now: float) -> bool:
        """Whether the condition has held for long enough; begins anew when it has."""
        if not holds:
            self._since[k, which] = math.nan
            return False
        if math.isnan(self._since[k, which]):
            self._since[k, which] = now
        trigger = (self._parts[k].engage, self._parts[k].disengage)[which]
        if trigger is None or now - self._since[k, which] < trigger.hysteresis - _SOON:
            return False
        self._since[k, which] = math.nan
        return True

    def _reading(self, k: int) -> Reading:
        slots = self._slots[k]

        def read(role: str, signal: str, column: str) -> Value | None:
            for frame in self._frames.get(signal, ()):
                row = np.flatnonzero(frame.slot == slots[role])
                if len(row):
                    return _plain(signal, column, frame[column][row[0]])
            return None

        return read


def _plain(signal: str, column: str, value: np.generic) -> Value | None:
    known = KNOWN[signal].column(column)
    if known.role == "code":
        return known.codes[int(value)] if int(value) >= 0 else None
    if known.dtype == "bool":
        return bool(value)
    number = float(value)
    return None if math.isnan(number) else number


def _holds(part: EngagePart, trigger: TriggerPart) -> Holds:
    if trigger.function:
        law = function(trigger.when.strip())
        return lambda reading, now: bool(law(TriggerView(now, reading)))
    return Condition(trigger.when, over(roles(part), KNOWN)).met
