"""How a drone follows a target: the rule."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Follow:
    """The rule of one engagement. Where no source is named the values are choices for a slow field robot."""

    behind: float = 5.0  # m of the stand-off point behind the target, negative: ahead
    aside: float = 0.0  # m to the right of it
    height: float = 15.0  # m above the target, and above home after take-off
    radius: float = 3.0  # m from the stand-off point within which contact is made
    settle: float = 2.0  # s to stay there before it counts
    report: float = 0.2  # s between two position reports; 2 to 5 Hz are usual for guided targets
    stale: float = 2.0  # s after which the last report no longer leads: the drone hovers
    patience: float = 5.0  # s to hover before it returns
    separation: float = 4.0  # m to keep from where the target is thought to be
    fence: float = 0.0  # m from home that are not left, 0: none
    ceiling: float = 0.0  # m above home, 0: none
    arming: float = 1.0  # s from the command to turning motors
    arming_spread: float = 0.0  # s besides, exponential with this mean: checks that are made again
    reserve: float = 0.3  # part of the charge that is needed to be engaged
    swap: float = math.inf  # s that changing the battery takes; inf: it is not changed
    swap_below: float = 0.5  # part of the charge under which it is changed after landing
    tries: int = 4  # of a command that is not answered; MAVLink clients send it again three times
    retry: float = 1.0  # s between them
    view_across: float = math.radians(70.0)  # of the camera, which looks straight down
    view_along: float = math.radians(55.0)

    def __post_init__(self) -> None:
        if math.hypot(self.behind, self.aside, self.height) < self.separation:
            raise ValueError(
                f"the stand-off point is nearer to the target than the separation of {self.separation:g} m"
            )
        positive = ("height", "radius", "report", "stale", "retry", "tries")
        for name in positive:
            if not getattr(self, name) > 0.0:
                raise ValueError(f"'{name}' must be above 0")
        for name in ("settle", "patience", "separation", "fence", "ceiling", "arming", "arming_spread", "swap"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"'{name}' cannot be below 0")
