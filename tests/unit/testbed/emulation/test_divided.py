"""Backends by interface: everything reaches the right one, and they are counted together."""

from __future__ import annotations

import math

from cosim.contract.link import DOWN
from cosim.testbed.emulation.divided import Divided
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.emulation.state import Health


class Recorded:
    """A backend that notes what it is told."""

    def __init__(self, restarts=0, lag=0.0, alive=True):
        self.reported = []
        self.restarts, self._lag, self._alive = restarts, lag, alive

    def __getattr__(self, name):
        return lambda *words: self.reported.append((name, *words))

    def counts(self):
        return {("a", "b", f"i{self.restarts}"): PairCount(self.restarts, 0, 0, 0)}

    def health(self):
        return Health(self._alive, self._lag, 2 * self._lag, 1, 2, 3, 4.0, 5.0)


def test_each_interface_has_its_backend():
    radio, rest = Recorded(1), Recorded(2)
    both = Divided({"wlan0": radio, "wlan1": radio}, rest)
    both.attach("a", "wlan0", 3, "m")
    both.attach("a", "eth1", 4, "m")
    both.detach("b", "wlan1")
    both.links({("a", "b", "wlan0"): DOWN, ("a", "b", "eth1"): DOWN, ("b", "a", "eth1"): DOWN})
    both.move({"a": (1, 2, 3)})
    both.close()
    to_all = [("move", {"a": (1, 2, 3)}), ("close",)]
    wifi, wires = {("a", "b", "wlan0"): DOWN}, {("a", "b", "eth1"): DOWN, ("b", "a", "eth1"): DOWN}
    assert radio.reported == [("attach", "a", "wlan0", 3, "m"), ("detach", "b", "wlan1"), ("links", wifi), *to_all]
    assert rest.reported == [("attach", "a", "eth1", 4, "m"), ("links", wires), *to_all]


def test_they_are_counted_together():
    both = Divided({"wlan0": Recorded(1, math.nan, alive=False)}, Recorded(2, 0.25))
    assert both.restarts == 3
    assert set(both.counts()) == {("a", "b", "i1"), ("a", "b", "i2")}
    assert both.health() == Health(False, 0.25, 0.5, 2, 4, 6, 8.0, 10.0)
    assert math.isnan(Divided({}, Recorded(lag=math.nan)).health().lag_max)
