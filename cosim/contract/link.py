"""What a link does to packets. A quantity of links is declared here, once.

The scenario's key, the messages to the network service and to sidecars, the line to an engine and the struct of the
compiled switch are made from these lines; what imposes a quantity reads it by its name.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from cosim.contract.errors import ProtocolError
from cosim.contract.quantity import DeclaredQuantity, marks, quantities

TOLERANCE = 0.03  # of each quantity; smaller changes are not worth a message


@dataclass(frozen=True, slots=True)
class EngineInteger:
    """How a quantity is sent to an engine: as an integer."""

    scale: float  # integers per unit
    most: float  # larger values are sent as this
    unlimited: bool = False  # larger values are sent as 0, which stands for "not limited"


_RATE = DeclaredQuantity(
    "rate", "in each direction, shared by the transfers under way", above=True, usual=1e9, batched=True
)
_DELAY = DeclaredQuantity("time", "added once per direction", batched=True)
_JITTER = DeclaredQuantity("time", "of the delay: uniform from delay - jitter to delay + jitter")
_LOSS = DeclaredQuantity("fraction", "of packets; sent again, so it lowers the rate", most=1.0, batched=True)
_BURST = DeclaredQuantity(
    "", "packets of real nodes that are lost in a row, on average; default: each is lost independently",
    least=1.0, most=1e6, optional=True,
)  # fmt: skip
_REORDER = DeclaredQuantity(
    "fraction", "of the packets of real nodes: sent on without the delay, past those before them", most=1.0
)
_DUPLICATE = DeclaredQuantity("fraction", "of the packets of real nodes: they arrive twice", most=1.0)


class LinkState(NamedTuple):
    """The link from one node to another, in one direction."""

    rate: Annotated[float, _RATE, EngineInteger(1.0, 1e12, unlimited=True)]  # bit/s, inf: not limited
    delay: Annotated[float, _DELAY, EngineInteger(1e6, 60.0)] = 0.0  # s, one way
    jitter: Annotated[float, _JITTER, EngineInteger(1e6, 60.0)] = 0.0  # s, half width; the order of packets is kept
    loss: Annotated[float, _LOSS, EngineInteger(1e6, 1.0)] = 0.0  # 1
    burst: Annotated[float, _BURST, EngineInteger(1e3, 1e6)] = 0.0  # packets; 0: each is lost independently
    reorder: Annotated[float, _REORDER, EngineInteger(1e6, 1.0)] = 0.0  # 1
    duplicate: Annotated[float, _DUPLICATE, EngineInteger(1e6, 1.0)] = 0.0  # 1

    def check(self) -> None:
        """Raise `ProtocolError` for a state that no link can have."""
        for value, (name, least, most) in zip(self, BOUNDS, strict=True):
            if value and not least <= value <= most:
                bounds = f"{least:g} to {most:g}" + (", or 0" if least else "")
                raise ProtocolError(f"no such link: {self}; {name} is {value:g}, and has to be {bounds}")

    def back(self, rate_back: float = 0.0) -> LinkState:
        """The other direction, whose rate (bit/s) may differ; 0: it is as in this one."""
        return self._replace(rate=rate_back or self.rate)


_BACK = DeclaredQuantity("rate", "the other way, where that is another rate than `rate`", above=True, optional=True)
_ENERGY = DeclaredQuantity("energy per bit", "that the link itself uses", batched=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackQuantities:
    """In what the two directions of a link differ."""

    rate_back: Annotated[float, _BACK] = 0.0  # bit/s, 0: as in the first direction


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkQuantities(BackQuantities):
    """The plain numbers of a link as a whole."""

    energy: Annotated[float, _ENERGY] = 0.0  # J/bit


INTEGERS: Mapping[str, EngineInteger] = marks(LinkState, EngineInteger)
BOUNDS = [  # finite, but for what may be unlimited
    (name, one.least, one.most if INTEGERS[name].unlimited else min(one.most, sys.float_info.max))
    for name, one in quantities(LinkState).items()
]
DOWN = LinkState(0.0, loss=1.0)  # nothing gets through


def differs(new: LinkState, old: LinkState, tolerance: float = TOLERANCE) -> bool:
    """Whether `new` is worth a message: some quantity is off by more than `tolerance`, or leaves or reaches zero."""
    for a, b in zip(new, old, strict=True):
        if a != b and (not a or not b or not math.isfinite(a - b) or abs(a - b) > tolerance * b):
            return True
    return False
