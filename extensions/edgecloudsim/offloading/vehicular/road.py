"""A circular road in segments of one length, each with its own speed and its own access point.

A vehicle's position follows from its first one; only the times at which it changes the access point
matter, and they are exact: a vehicle carries its segment and the time at which it leaves it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from cosim.engine.continuum import memory
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.extensions.edgecloudsim.offloading.study import EdgePlace

SPEEDS: Final = (20.0, 40.0, 60.0)  # km/h, by attractiveness


class Road:
    """The road along the places of a study, in their order."""

    def __init__(self, places: tuple[EdgePlace, ...]) -> None:
        self.length = 2.0 * places[0].x  # m, of a segment
        speeds = np.array([SPEEDS[place.attractiveness] for place in places])
        self.speed = speeds / 3.6  # m/s, by segment
        self.span = self.length / self.speed  # s, by segment

    def position(
        self, segment: NDArray[np.int64], leaves: NDArray[np.float64], now: float
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Segment and position (m) at `now` of vehicles that were last seen in `segment`, leaving it at `leaves`."""
        segment, leaves = segment.copy(), leaves.copy()
        late = np.flatnonzero(leaves <= now)
        while len(late):
            segment[late] = (segment[late] + 1) % len(self.span)
            leaves[late] += self.span[segment[late]]
            late = late[leaves[late] <= now]
        return segment, (segment + 1) * self.length - (leaves - now) * self.speed[segment]


@jit
def serving(s: Record, vehicle: Record, now: float) -> int:
    """The segment, and number of the access point, where the vehicle is at `now`; never asked backwards."""
    while vehicle.next_move <= now:
        following = vehicle.place + 1
        if following == s.place_count:
            following = 0
        vehicle.place = following
        vehicle.moves += 1
        vehicle.next_move += memory.real(s.spans, following).v
    return int(vehicle.place)
