"""An alarm for everybody on whose channel a jammer sends, from the moment at which it does, however little it costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cosim.contract.adapter import AdapterConfig, Context, Inputs, Summary
from cosim.contract.frame import Frame

_HEARD = -100.0  # dB of jammers over noise; without any it is -200


class OracleConfig(AdapterConfig):
    """Nothing to set."""


class Oracle:
    """Reads what no detector may."""

    def __init__(self, config: OracleConfig) -> None:
        self._config = config
        self._alarms = 0

    def start(self, context: Context) -> None:
        self._raised = np.zeros(context.scene.capacity, np.int32)
        self._on = np.zeros(context.scene.capacity, bool)

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        frames = []
        for truth in inputs.all("jamming"):
            slot, heard = truth.slot, np.maximum(truth["jn_down"], truth["jn_up"])
            on = heard > _HEARD
            self._raised[slot] += on & ~self._on[slot]
            self._on[slot] = on
            self._alarms += int(on.sum())
            columns = {"score": heard, "on": on, "cause": on.astype(np.int8), "raised": self._raised[slot]}
            frames.append(Frame("alarm", time, slot, columns))
        return frames

    def finish(self) -> Summary:
        return {"alarms": self._alarms}

    def close(self) -> None:
        """Nothing to release."""
