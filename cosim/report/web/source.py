"""Where the dashboard's frames come from, whatever they come from.

Nodes have numbers: static nodes those of the scene's list, others the ones behind. A frame holds

    m.node m.x m.y m.z m.heading     moving nodes, m and degrees clockwise from north
    l.node l.cell l.rate l.loss      a device, its base station (-1: none), bit/s, 1
    p.node p.peer p.rate p.loss      a sender, its receiver, bit/s, 1
    h.node h.load h.up               hosts: share of the cores in use, whether they work
    b.node b.level                   batteries: part of the capacity left

as far as the run has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from cosim.contract.frame import Array, Frame

PARTS = {
    "m": ("mobility", {"x": "x", "y": "y", "z": "z", "heading": "heading"}),
    "l": ("link", {"cell": "cell", "rate": "uplink_rate", "loss": "loss"}),
    "p": ("peer_link", {"peer": "peer", "rate": "rate", "loss": "loss"}),
    "h": ("host", {"load": "utilisation", "up": "up"}),
    "b": ("battery", {"level": "fraction"}),
}
SHORT = {"cell": "<i4", "peer": "<i4", "up": "u1"}  # all others are 32-bit floats


def columns_of(
    frames: Mapping[str, Mapping[str, Frame]], parts: Mapping[str, tuple[str, dict[str, str]]] = PARTS
) -> dict[str, Array]:
    """The columns that `parts` names, of the newest `frames` by signal and adapter."""
    columns: dict[str, Array] = {}
    for part, (signal, wanted) in parts.items():
        found = [frame for frame in frames.get(signal, {}).values() if len(frame)]
        if not found:
            continue
        columns[f"{part}.node"] = np.concatenate([frame.slot for frame in found]).astype("<i4")
        for short, name in wanted.items():
            data = np.concatenate([frame[name] for frame in found])
            columns[f"{part}.{short}"] = data.astype(SHORT.get(short, "<f4"))
    return columns


class RunSource(Protocol):
    """A run that can be looked at. All methods may be called from any thread."""

    live: bool

    @property
    def serial(self) -> int:
        """Grows with every new frame of a live run; stays for a finished one."""

    def listen(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Have `ring` called, from another thread, for every new frame; returns how to end that."""

    def scene(self) -> dict[str, Any]:
        """The scene to show: `cosim.bus.describe`, and `live`, `run`, `figures`, `members`.

        `members` gives the kind (position in `kinds`) of the numbers after the static nodes:
        a list of [first number, count, kind].
        """

    def frame(self, at: float | None, watch: int) -> bytes:
        """The frame at `at` s (None: the newest), with everything known of node number `watch` (-1: none)."""

    def series(self, figures: Sequence[str], since: float) -> dict[str, Any]:
        """Per figure `{unit, times, lines: {label: [values]}}`, times (s) later than `since`.

        `host.power@3` is the line of node number 3 alone; of a live run, from the first such request on.
        """

    def events(self) -> list[list[Any]]:
        """What happened, newest last: [time, kind, node, detail]."""

    def picture(self, number: int, at: float | None) -> bytes | None:
        """PNG of what the camera of node `number` sees at `at` s (None: now); None: there is none to show."""

    def find(self, text: str) -> list[list[Any]]:
        """Up to 20 nodes that are there now and whose name holds `text`: [number, name]."""

    def close(self) -> None:
        """Release everything; may be called twice."""
