"""Who imposes the states of links, and how that fares: the interface that all backends share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cosim.contract.link import LinkState

Position = tuple[float, float, float]  # m east, north, up of the scenario's origin


@dataclass(frozen=True, slots=True)
class Health:
    """How a backend fares since the last question."""

    alive: bool
    lag_mean: float  # s behind the wall clock
    lag_max: float  # s
    received: int  # frames taken from the nodes
    delivered: int  # frames given to them
    dropped: int  # frames lost on purpose or in full queues
    cpu: float  # s of processor time so far
    memory: float  # B resident, NaN: not known
    unread: int = 0  # frames that interfaces dropped because earlier ones had not been read
    overflowed: int = 0  # frames that were refused since too much was on its way, whatever room their queues had
    lag_at: float = math.nan  # s of the machine's monotonic clock, when the largest lag was seen; NaN: not known
    unread_at: float = math.nan  # likewise when unread frames were last counted


class Backend(Protocol):
    """Imposes link states. A port is an interface of a node: ("uav-1", "wlan0").

    Pairs that were never set are down. All methods may be called at any time, in any order.
    """

    def attach(self, node: str, interface: str, descriptor: int, mac: str) -> None:
        """Take over a TAP's descriptor (the backend owns and closes it); an attached port is replaced."""

    def detach(self, node: str, interface: str) -> None:
        """Close the port's descriptor: no ghost of a dead node answers. Unknown ports are no error."""

    def move(self, positions: Mapping[str, Position]) -> None:
        """Set positions of nodes; backends without a radio of their own do nothing."""

    def links(self, states: Mapping[tuple[str, str, str], LinkState]) -> None:
        """Set (sender, receiver, interface) -> state, only those that have changed."""

    def health(self) -> Health:
        """What has happened since the last call."""

    def close(self) -> None:
        """Stop, close every descriptor; may be called twice."""
