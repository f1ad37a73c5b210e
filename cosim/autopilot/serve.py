"""Fly a fleet on the wall clock, or a multiple of it, with clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cosim.autopilot.core import Autopilot
from cosim.autopilot.links import LinkEndpoints
from cosim.physics.vehicles import VehicleFleet

_LATE = 0.25  # s of wall time behind which it gives up catching up
_SHORTEST = 0.004  # s of wall time between two rounds


@dataclass(slots=True)
class Pace:
    """How it went."""

    simulated: float = 0.0  # s
    wall: float = 0.0  # s
    late: int = 0  # times that it fell behind by a quarter of a second and dropped it

    @property
    def factor(self) -> float:
        """s of simulated time per s of wall time."""
        return self.simulated / self.wall if self.wall > 0.0 else 0.0


def serve(
    fleet: VehicleFleet,
    autopilots: Sequence[Autopilot],
    endpoints: LinkEndpoints,
    *,
    tick: float = 0.01,
    speedup: float = 1.0,
    until: float = float("inf"),
    each: Callable[[], object] = lambda: None,
    stop: Callable[[], bool] = lambda: False,
) -> Pace:
    """Fly until `until` s of simulated time or `stop()`. Orders take effect at the next tick.

    When it falls behind, it goes on at its own pace rather than hurry. `each` is called every round.
    """
    pace, begun = Pace(), time.monotonic()
    anchor, base = begun, fleet.now
    step, first = round(fleet.now / tick), fleet.now
    wait = 0.0
    while fleet.now < until - 1e-9 and not stop():
        endpoints.poll(wait)
        wall = time.monotonic()
        behind = wall - anchor - (fleet.now - base) / speedup
        if behind > _LATE:
            pace.late += 1
            anchor, base = wall - tick / speedup, fleet.now
        goal = min(base + (wall - anchor) * speedup, until)
        while (step + 1) * tick <= goal + 1e-9:
            step += 1
            fleet.advance(step * tick)
            for autopilot in autopilots:
                autopilot.watch(fleet.now)
        endpoints.send(fleet.now, wall)
        each()
        due = anchor + ((step + 1) * tick - base) / speedup
        wait = max(due, wall + _SHORTEST) - time.monotonic()
        wait = max(wait, 0.0)
    pace.simulated, pace.wall = fleet.now - first, time.monotonic() - begun
    return pace
