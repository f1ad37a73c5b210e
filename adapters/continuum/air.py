"""What radio links are like now, by the radio's frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from cosim.contract.frame import Frame
from cosim.contract.records import Flags, Floats, Ints

Slots = Ints
_COLUMNS = ("uplink_rate", "downlink_rate", "delay", "loss")  # of `link`, in the order of the fields


@dataclass(frozen=True, slots=True, eq=False)
class Air:
    """The last known radio state: one row per device that has, or had, a radio link."""

    slot: Slots
    cell: Slots
    uplink: Floats  # bit/s
    downlink: Floats  # bit/s
    delay: Floats  # s
    loss: Floats

    @staticmethod
    def silent() -> Air:
        none = np.empty(0, np.int64)
        return Air(none, none, *(np.empty(0) for _ in _COLUMNS))

    def following(self, frames: Sequence[Frame], present: Flags) -> Air:
        """The radio by these `link` frames; devices that are no longer in them have lost their cell."""

        def column(name: str) -> Floats:
            return np.concatenate([frame[name] for frame in frames]) if frames else np.empty(0)

        slot = np.concatenate([frame.slot for frame in frames]).astype(np.int64) if frames else np.empty(0, np.int64)
        here = present[slot]
        left = np.zeros(len(present), np.bool_)
        left[self.slot] = True
        left[slot] = False
        lost = np.flatnonzero(left & present)
        none, nothing = np.full(len(lost), -1, np.int64), np.zeros(len(lost))
        return Air(
            np.concatenate([slot[here], lost]),
            np.concatenate([column("cell").astype(np.int64)[here], none]),
            *(np.concatenate([column(name)[here], nothing]) for name in _COLUMNS),
        )

    def of(self, present: Flags) -> Air:
        """The rows of devices that are present."""
        here = present[self.slot]
        return Air(*(getattr(self, one.name)[here] for one in fields(self)))
