"""The scenario in a unit, stepped from outside."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cosim.bus.runtime import Runtime
from cosim.contract.entities import Event, SlotRange
from cosim.contract.errors import RunError
from cosim.extensions.fmu import MODEL
from cosim.results.session import build_adapters
from cosim.scenario.plan.catalogue import signals_of
from cosim.scenario.plan.compile import plan_of

_SOON = 1e-9  # s


class ScenarioUnit:
    """A scenario that is advanced by communication steps; `resources` is the folder of the unit with its files."""

    def __init__(self, resources: Path) -> None:
        self._folder = resources
        self.model: Mapping[str, Any] = json.loads((resources / MODEL).read_text(encoding="utf-8"))
        self.values = dict.fromkeys(self.model["outputs"], math.nan)
        self.up: dict[str, bool] = dict.fromkeys(self.model["inputs"], True)
        self.parameters: dict[str, Any] = {"seed": self.model["seed"], **self.model["parameters"]}
        self._reported = dict(self.up)
        self._runtime: Runtime | None = None

    def start(self) -> None:
        """Build and start the scenario with the parameters as they are now, and make its first tick.

        Raises what `cosim run` raises.
        """
        chosen = {**self.parameters}
        overrides = [f"run.seed={int(chosen.pop('seed'))}"]
        overrides += [
            f"parameters.{name}={_text(value, self.model['parameters'][name])}" for name, value in chosen.items()
        ]
        plan = plan_of(self._folder / self.model["scenario"], overrides)
        self._scratch = tempfile.TemporaryDirectory(prefix="cosim-unit-")
        self._runtime = Runtime(plan, build_adapters(plan), signals_of(plan), scratch=Path(self._scratch.name))
        self._slots = {node.id: slot for slot, node in enumerate(plan.scene.nodes)}
        self._runtime.start()
        self._tick()

    @property
    def over(self) -> bool:
        """Whether the scenario has come to its end."""
        return self._runtime is not None and self._runtime.ticks_done > self._runtime.plan.ticks

    def advance(self, until: float) -> None:
        """Make every tick up to `until` s. Raises `RunError` before `start`, and what a run raises."""
        runtime = self._runtime
        if runtime is None:
            raise RunError("the unit has not left initialisation")
        for name, up in self.up.items():
            if up != self._reported[name]:
                self._reported[name] = up
                slot = self._slots[self.model["inputs"][name]]
                runtime.inject(Event(0.0, "recover" if up else "fail", (SlotRange(slot, 1),)))
        while not self.over and runtime.plan.time(runtime.ticks_done) <= until + _SOON:
            self._tick()

    def close(self) -> None:
        """End the scenario, wherever it is."""
        if self._runtime is not None:
            self._runtime.close()
            self._scratch.cleanup()
            self._runtime = None

    def _tick(self) -> None:
        assert self._runtime is not None
        self._runtime.tick(self._runtime.ticks_done)
        frames = {frame.signal: frame for frame in self._runtime.published()}
        for name, (signal, node, column, *_) in self.model["outputs"].items():
            frame = frames.get(signal)
            if frame is not None and node in self._slots:
                row = np.flatnonzero(frame.slot == self._slots[node])
                self.values[name] = float(frame[column][row[0]]) if len(row) else math.nan


def _text(value: object, first: object) -> str:
    """The value of a parameter as text for an override."""
    if isinstance(first, bool):
        return str(bool(value)).lower()
    if isinstance(first, int):
        return str(int(value))  # type: ignore[call-overload]  # FMI has it as a number
    return str(value)
