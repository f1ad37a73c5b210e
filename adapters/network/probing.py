"""Links as they were asked for, set against what programs inside the nodes find."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from cosim.adapters.network.config import ProbeConfig, Threshold
from cosim.contract.entities import Scene
from cosim.contract.errors import RunError
from cosim.contract.frame import Array, Frame
from cosim.contract.link import LinkState
from cosim.contract.signals import LINK_INTERFACES
from cosim.testbed.emulation.client import Client
from cosim.testbed.emulation.message import Links
from cosim.testbed.emulation.orders import LinkKey
from cosim.testbed.emulation.probe import interval, together
from cosim.testbed.emulation.probing import FRAME, Probe

log = logging.getLogger(__name__)

PATIENCE = 40.0  # s for the answer to a probe, which the service itself gives up before


class ProbeRow(NamedTuple):
    """One link, asked and measured; the columns of `link_probe` behind the interface."""

    rate: float
    delay: float
    mdev: float
    loss: float
    loss_low: float
    loss_high: float
    rate_asked: float
    delay_asked: float
    loss_asked: float
    deviation: float


@dataclass(slots=True)
class ImposedState:
    """The states that were imposed on a link while it was measured."""

    first: LinkState
    delay: list[float] = field(default_factory=list)  # s, least and most that a probe's frame should take
    loss: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)  # bit/s that should arrive

    def saw(self, state: LinkState) -> None:
        """Widen the ranges by a state of the link."""
        # A frame of the probe is sent in this time; jitter that keeps the order makes the mean later, not earlier.
        sending = FRAME / state.rate if state.rate > 0 else math.inf
        # Frames that are reordered have no delay.
        soonest = (1.0 - state.reorder) * state.delay
        _widen(self.delay, soonest + sending, state.delay + sending + state.jitter)
        _widen(self.loss, state.loss, state.loss)
        _widen(self.rate, state.rate * (1 - state.loss), state.rate * (1 - state.loss))

    @property
    def up(self) -> bool:
        """Whether packets could pass all the time."""
        return self.rate[0] > 0


def compare(asked: ImposedState, found: Probe, threshold: Threshold | None) -> ProbeRow:
    """A row of `link_probe`; without a threshold the link was not imposed, and nothing is compared."""
    loss, low, high = math.nan, math.nan, math.nan
    if found.sent > 0:
        low, high = interval(
            found.sent - found.received, found.sent, together=together(asked.first.loss, asked.first.burst)
        )
        loss = 1 - found.received / found.sent
    deviations = []
    if threshold is not None and not found.error:
        deviations = [
            _off(found.delay, found.delay, asked.delay) / max(threshold.delay, 1e-9),
            _off(low, high, asked.loss) / max(threshold.loss, 1e-9),
            _off(found.rate, found.rate, asked.rate) / (max(threshold.rate, 1e-9) * max(asked.rate[1], 1.0)),
        ]
    state, worst = asked.first, max((one for one in deviations if not math.isnan(one)), default=math.nan)
    return ProbeRow(
        found.rate, found.delay, found.deviation, loss, low, high, state.rate, state.delay, state.loss, worst
    )  # fmt: skip


class Probing:
    """Measures some links, one after the other, while the run goes on.

    `apart` names interfaces whose links an engine's own radio decides: they are measured, but nothing is compared.
    """

    def __init__(self, config: ProbeConfig, scene: Scene, apart: Collection[str] = ()) -> None:
        self._config, self._apart = config, apart
        self._slots = {node.id: slot for slot, node in scene.computers()}
        self._interfaces = (*LINK_INTERFACES, *(medium.interface for medium in scene.media))  # as the signal has them
        self._left: list[LinkKey] | None = None  # not yet measured; None: no link has been seen
        self._key: LinkKey | None = None
        self._asked = ImposedState(LinkState(math.nan, math.nan, math.nan, math.nan))
        self._number, self._until = 0, 0.0
        self._rows: list[tuple[LinkKey, ProbeRow]] = []
        self._failures: list[str] = []
        self._reported = 0  # rows that the bus has

    def step(self, time: float, states: Links, client: Client | None) -> Frame:
        """Go on measuring; rows of what has been found since the last step. Raises `RunError` beyond the threshold.

        Without a client no node is real, and there is nothing to measure.
        """
        if client is not None:
            self._go_on(states, client)
        return self._frame(time)

    def summary(self) -> dict[str, Any]:
        """For the run's manifest."""
        compared = [(row.deviation, key) for key, row in self._rows if not math.isnan(row.deviation)]
        worst, key = max(compared, default=(None, None))
        left = len(self._left or ()) + (self._key is not None)
        return {
            "measured": len(self._rows),
            "failed": self._failures,
            "left": left,
            "worst_deviation": None if worst is None else round(worst, 4),
            "worst_link": None if key is None else " ".join(key),
            "deviating": sum(value > 1 for value, _ in compared),
        }

    def _go_on(self, states: Links, client: Client) -> None:
        if self._config.at_start and self._left is None and (pairs := chosen(states, self._config.pairs)):
            self._left = pairs
        if self._key is not None:
            state = states.get(self._key)
            if state is not None:
                self._asked.saw(state)
            self._take(client)
        if self._key is None and self._left:
            self._key = self._left.pop(0)
            state = states[self._key]
            self._asked = ImposedState(state)
            self._asked.saw(state)
            self._number, self._until = client.probe({self._key: state.rate}), monotonic() + PATIENCE

    def _take(self, client: Client) -> None:
        assert self._key is not None
        found = client.probes(self._number).get(self._key)
        if found is None and monotonic() < self._until:
            return
        sender, receiver, interface = key = self._key
        what = f"link from {sender} to {receiver} on {interface}"
        self._key = None
        threshold = None if interface in self._apart else self._config.threshold
        if found is None or found.error:
            self._failures.append(f"{what}: {found.error if found else 'no answer of the network service'}")
            log.warning("%s", self._failures[-1])
            if self._config.fail and threshold is not None and self._asked.up:
                raise RunError(f"{self._failures[-1]}; it should be up (adapters.network.probe)")
            return
        row = compare(self._asked, found, threshold)
        self._rows.append((key, row))
        if row.deviation > 1:
            measured, asked = (
                _state_text(row.delay, row.loss, row.rate),
                _state_text(row.delay_asked, row.loss_asked, row.rate_asked),
            )
            said = f"{what}: measured {measured}; asked {asked}"
            log.warning("%s", said)
            if self._config.fail:
                raise RunError(f"{said}; that is {row.deviation:.1f} times the threshold (adapters.network.probe)")

    def _frame(self, time: float) -> Frame:
        fresh, self._reported = self._rows[self._reported :], len(self._rows)
        columns: dict[str, Array] = {
            "peer": np.array([self._slots[key[1]] for key, _ in fresh], np.int32),
            "interface": np.array([self._interfaces.index(key[2]) for key, _ in fresh], np.int8),
        }
        for name in ProbeRow._fields:
            columns[name] = np.array([getattr(row, name) for _, row in fresh], float)
        return Frame("link_probe", time, np.array([self._slots[key[0]] for key, _ in fresh], np.int32), columns)


def chosen(states: Links, count: int) -> list[LinkKey]:
    """At most `count` links that are up both ways, evenly spread over all of them in order."""
    up = sorted(key for key, state in states.items() if _up(state) and _up(states.get((key[1], key[0], key[2]))))
    if len(up) <= count:
        return up
    return [up[k * len(up) // count] for k in range(count)]


def _state_text(delay: float, loss: float, rate: float) -> str:
    """A link in words, as far as it is known."""
    parts = ((delay, f"{delay * 1e3:.3g} ms"), (loss, f"{loss:.1%} loss"), (rate, f"{rate / 1e6:.3g} Mbit/s"))
    return ", ".join(text for value, text in parts if not math.isnan(value))


def _up(state: LinkState | None) -> bool:
    return state is not None and state.rate > 0 and state.loss < 1


def _widen(ends: list[float], low: float, high: float) -> None:
    ends[:] = [min(low, *ends), max(high, *ends)] if ends else [low, high]


def _off(low: float, high: float, ends: Sequence[float]) -> float:
    """How far an interval lies outside of another one; NaN when either is not known."""
    if any(map(math.isnan, (low, high, *ends))):
        return math.nan
    return max(low - ends[1], ends[0] - high, 0.0)
