"""Random waypoints: every device with a radio walks to a place in the area, then to the next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cosim.contract.adapter import AdapterConfig, Context, Inputs, Summary
from cosim.contract.frame import Frame
from cosim.contract.units import Distance, Speed


class WalkersConfig(AdapterConfig):
    """Where and how fast."""

    speed: Speed = Field(1.4, description="of all of them")
    side: Distance = Field(400.0, description="of the square area from the origin")
    crowd: bool = Field(False, description="all go to the same places, 20 m about them")


class Walkers:
    """Device k is at `place[k]` and walks to `goal[k]`."""

    def __init__(self, config: WalkersConfig) -> None:
        self._config = config

    def start(self, context: Context) -> None:
        nodes = [(slot, node) for slot, node in enumerate(context.scene.nodes) if node.radio is not None]
        self._slots = np.array([slot for slot, _ in nodes], np.int32)
        self._place = np.array([node.position or (0.0, 0.0, 0.0) for _, node in nodes])
        self._rng = context.rng()
        self._goal = self._goals(len(nodes))
        self._time = 0.0

    def _goals(self, count: int) -> NDArray[np.float64]:
        if not self._config.crowd:
            return self._rng.uniform(0.0, self._config.side, (count, 2))
        return self._rng.uniform(0.0, self._config.side, 2) + self._rng.uniform(-20.0, 20.0, (count, 2))

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        way = (time - self._time) * self._config.speed
        self._time = time
        away = self._goal - self._place[:, :2]
        far = np.linalg.norm(away, axis=1)
        self._place[:, :2] += away * np.minimum(1.0, way / np.maximum(far, 1e-9))[:, None]
        there = far <= way
        if self._config.crowd:
            if there.all():
                self._goal = self._goals(len(there))
        else:
            self._goal[there] = self._goals(int(there.sum()))
        x, y, z = np.ascontiguousarray(self._place.T)
        heading = np.degrees(np.arctan2(away[:, 0], away[:, 1])) % 360.0
        columns = {"x": x, "y": y, "z": z, "speed": np.full(len(x), self._config.speed), "heading": heading}
        return [Frame("mobility", time, self._slots, columns)]

    def finish(self) -> Summary:
        return {"walkers": len(self._slots)}

    def close(self) -> None:
        """Nothing to release."""
