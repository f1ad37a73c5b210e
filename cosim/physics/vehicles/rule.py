"""How a drone follows a target: the rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from cosim.contract.block import OnlyWith
from cosim.contract.quantity import DeclaredQuantity, quantities

_METRES = partial(DeclaredQuantity, "length")
_SECONDS = partial(DeclaredQuantity, "time")
_PART = partial(DeclaredQuantity, "fraction", most=1.0)
_SWAP = _SECONDS("that changing the battery takes; default: it is never changed", optional=True)
_TRIES = DeclaredQuantity("", "of an order that is lost; as MAVLink clients try", least=1, most=1000)


@dataclass(frozen=True, slots=True)
class Follow:
    """The rule of one engagement. Where no source is named the values are choices for a slow field robot."""

    behind: Annotated[float, _METRES("stand-off point behind the target, negative: ahead", least=-math.inf)] = 5.0  # m
    aside: Annotated[float, _METRES("to the right of it", least=-math.inf)] = 0.0  # m
    height: Annotated[float, _METRES("above it, and above home after take-off", above=True)] = 15.0  # m
    radius: Annotated[float, _METRES("from the stand-off point within which contact is made", above=True)] = 3.0  # m
    settle: Annotated[float, _SECONDS("to stay there before it counts")] = 2.0  # s
    report: Annotated[float, _SECONDS("between two reports of the target; usual: 2 to 5 Hz", above=True)] = 0.2  # s
    stale: Annotated[float, _SECONDS("age of the last report from which the drone hovers", above=True)] = 2.0  # s
    patience: Annotated[float, _SECONDS("to hover before it returns")] = 5.0  # s
    separation: Annotated[float, _METRES("to keep from the target")] = 4.0  # m from where it is thought to be
    fence: Annotated[float, _METRES("from home that is not left; 0: none")] = 0.0  # m
    ceiling: Annotated[float, _METRES("above home; 0: none")] = 0.0  # m
    arming: Annotated[float, _SECONDS("from the order to turning motors")] = 1.0  # s
    arming_spread: Annotated[float, _SECONDS("besides, for each engagement: exponential with this mean")] = 0.0  # s
    reserve: Annotated[float, _PART("charge that is needed to be engaged")] = 0.3
    swap: Annotated[float, _SWAP] = math.inf  # s; inf: it is not changed
    swap_below: Annotated[float, _PART("charge under which it is changed after landing"), OnlyWith("swap")] = 0.5
    tries: Annotated[int, _TRIES] = 4  # MAVLink clients send it again three times
    retry: Annotated[float, _SECONDS("between them", above=True)] = 1.0  # s
    view_across: float = math.radians(70.0)  # of the camera, which looks straight down
    view_along: float = math.radians(55.0)

    def __post_init__(self) -> None:
        if math.hypot(self.behind, self.aside, self.height) < self.separation:
            raise ValueError(
                f"the stand-off point is nearer to the target than the separation of {self.separation:g} m"
            )
        for name, one in quantities(Follow).items():
            if one.above and not getattr(self, name) > 0.0:
                raise ValueError(f"'{name}' must be above 0")
            if not getattr(self, name) >= one.least:
                raise ValueError(f"'{name}' cannot be below {one.least:g}")
