"""The vehicles on the road, kept up to date from the changes that SUMO reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cosim.adapters.sumo.backend import Moves


class PresentVehicles:
    """The vehicles present, in the order of their arrival, without listing them at every step.

    Departures and arrivals suffice in an ordinary step. When vehicles jump, or the count differs
    from SUMO's own, the full list is requested (0.25 us per vehicle). `wanted` decides whether a new
    vehicle counts; the others are remembered but not shown.
    """

    def __init__(self, wanted: Callable[[str], bool] | None = None) -> None:
        self._wanted = wanted
        self.present: dict[str, None] = {}
        self._others: set[str] = set()

    def update(self, moves: Moves, visible: Callable[[], Sequence[str]]) -> tuple[list[str], list[str]]:
        """Apply one step; returns who came and who went, each in SUMO's order.

        A vehicle whose id is in both went first: SUMO gave its id to another one.
        """
        gone = set(moves.arrived)
        fresh = [name for name in moves.departed if name not in gone]
        known = sum(name in self.present or name in self._others for name in gone)
        if moves.jumped or len(self.present) + len(self._others) + len(fresh) - known != moves.running:
            fresh = list(visible())
            stay = set(fresh) - gone
            went = [name for name in self.present if name not in stay]
            self._others &= stay
        else:
            went = [name for name in moves.arrived if name in self.present]
            self._others -= gone
        for name in went:
            del self.present[name]
        return [name for name in fresh if self._enters(name)], went

    def _enters(self, vehicle: str) -> bool:
        """Take in a vehicle unless it is known or not wanted; true when it is present for the first time."""
        if vehicle in self.present or vehicle in self._others:
            return False
        if self._wanted is not None and not self._wanted(vehicle):
            self._others.add(vehicle)
            return False
        self.present[vehicle] = None
        return True
