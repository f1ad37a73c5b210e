"""A topology on optical switches: which circuit is on which switch, so that no port is in two.

A leaf has some ports on each switch, and a circuit takes one port of both of its ends on one switch.
That is a colouring of the multigraph of circuits by switches, each of which a leaf can use as often as
it has ports there. Circuits are given switches one by one; where the ends have no switch in common,
circuits in the way change between two switches along an alternating path (Kempe 1879, Vizing 1964).
Circuits without a place are left out, for example in a ring over an odd number of leaves with one port
per switch.
"""

from __future__ import annotations

import numpy as np

from cosim.contract.records import Ints

Pairs = list[list[tuple[int, int]]]  # by switch: circuits


class _Colouring:
    """Circuits with their switches, and the ports that are free."""

    def __init__(self, slots: Ints) -> None:
        self.free = slots.copy()
        self.on: list[list[tuple[int, int]]] = [[] for _ in range(slots.shape[1])]

    def put(self, a: int, b: int, x: int) -> None:
        self.on[x].append((min(a, b), max(a, b)))
        self.free[a, x] -= 1
        self.free[b, x] -= 1

    def take(self, a: int, b: int, x: int) -> None:
        self.on[x].remove((min(a, b), max(a, b)))
        self.free[a, x] += 1
        self.free[b, x] += 1

    def common(self, a: int, b: int) -> int:
        """The switch on which both have most room, -1: none."""
        room = np.minimum(self.free[a], self.free[b])
        x = int(np.argmax(room))
        return x if room[x] > 0 else -1

    def clear(self, b: int, x: int, y: int, keep: int) -> bool:
        """Free a port of b on switch x by moving circuits to y and back along a path that does not end at `keep`."""
        moved: list[tuple[int, int, int, int]] = []
        node, source, target = b, x, y
        while True:
            others = [q if p == node else p for p, q in self.on[source] if node in (p, q)]
            others.sort(key=lambda k: -int(self.free[k, target]))
            done = {(min(p, q), max(p, q)) for p, q, _, _ in moved}
            others = [k for k in others if k != keep and (min(node, k), max(node, k)) not in done]
            if not others or len(moved) > len(self.free):
                break
            other = others[0]
            self.take(node, other, source)
            self.put(node, other, target)
            moved.append((node, other, source, target))
            if self.free[other, target] >= 0:
                if self.free[b, x] > 0 and self.free[keep, x] > 0:
                    return True
                break
            node, source, target = other, target, source
        for p, q, old, new in reversed(moved):
            self.take(p, q, new)
            self.put(p, q, old)
        return False


def realise(ports: Ints, slots: Ints) -> tuple[Ints, Pairs]:
    """(nodes, nodes) circuits between nodes that can be, of those asked for, and the pairs on each switch.

    `slots` (nodes, switches) are the ports of each node on each switch.
    """
    colouring, made = _Colouring(slots), np.zeros_like(ports)
    rest = np.triu(ports, 1)
    while rest.any():  # one circuit of each pair at a time, so that all pairs get their share
        for a, b in np.argwhere(rest):
            rest[a, b] -= 1
            x = colouring.common(a, b)
            if x < 0:
                x = _rearranged(colouring, int(a), int(b))
            if x >= 0:
                colouring.put(int(a), int(b), x)
                made[a, b] += 1
    return made + made.T, colouring.on


def _rearranged(colouring: _Colouring, a: int, b: int) -> int:
    """Make room for a circuit between a and b by moving others; the switch, -1: there is none."""
    for x in np.flatnonzero(colouring.free[a] > 0):
        for y in np.flatnonzero(colouring.free[b] > 0):
            if colouring.clear(b, int(x), int(y), a):
                return int(x)
    return -1
