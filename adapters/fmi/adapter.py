"""Steps instances of a unit, one per node: inputs out of frames, outputs into frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.fmi.backend import Instances, ModelUnit, UnitFaultError, read_unit
from cosim.adapters.fmi.check import problems as found_by_check
from cosim.adapters.fmi.check import slots
from cosim.adapters.fmi.config import FmiConfig
from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.errors import AdapterError, refuse
from cosim.contract.frame import Frame


class FmiAdapter:
    """A unit whose instances belong to static nodes.

    A step takes the instances from the last tick to the present one under the inputs of the last tick (which
    so hold in between), then hands over the present inputs and reads the outputs.
    """

    def __init__(self, config: FmiConfig) -> None:
        self._config = config
        self._instances: Instances | None = None
        self._time = 0.0  # s, that the instances have reached
        self._steps = 0
        self._handed = 0

    def start(self, context: Context) -> None:
        refuse(found_by_check(self._config, context))
        self._name = context.name
        chosen = slots(context.scene, self._config.nodes)
        self._slots: NDArray[np.int32] = np.array(chosen, np.int32)
        self._number = {slot: number for number, slot in enumerate(chosen)}
        scratch = Path(context.scratch)
        try:
            self._unit: ModelUnit = read_unit(context.path(self._config.unit), scratch, validate=self._config.checked)
            self._instances = Instances(self._unit, len(chosen), scratch)
            self._instances.open(self._config.params)
        except UnitFaultError as error:
            raise AdapterError(f"unit '{self._config.unit}': {error}", adapter=self._name, phase="start") from error
        self._last: list[dict[int, float]] = [{} for _ in self._config.inputs]
        endings = [self._unit.variables[part.source].ending for part in self._config.outputs]
        self._places = [[k for k, one in enumerate(endings) if one == ending] for ending in dict.fromkeys(endings)]
        self._groups = [
            (endings[where[0]], [self._unit.variables[self._config.outputs[k].source].reference for k in where])
            for where in self._places
        ]

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        assert self._instances is not None
        try:
            if time > self._time:
                self._instances.step(self._time, time - self._time)
                self._time = time
                self._steps += 1
            for number, part in enumerate(self._config.inputs):
                for frame in inputs.all(part.signal):
                    self._hand_over(number, frame)
            values = [np.empty(len(self._slots)) for _ in self._config.outputs]
            self._instances.get(self._groups, values, self._places)
        except UnitFaultError as error:
            text = f"unit '{self._config.unit}': {error}"
            raise AdapterError(text, adapter=self._name, phase="step", time=time) from error
        written = dict.fromkeys(part.signal for part in self._config.outputs)
        return [
            Frame(
                name, time, self._slots,
                {p.column: values[k] for k, p in enumerate(self._config.outputs) if p.signal == name},
            )
            for name in written
        ]  # fmt: skip

    def _hand_over(self, number: int, frame: Frame) -> None:
        """Values that have changed; NaN is no value."""
        part, last = self._config.inputs[number], self._last[number]
        assert self._instances is not None
        for slot, value in zip(frame.slot.tolist(), frame[part.column].tolist(), strict=True):
            instance = self._number.get(slot)
            if instance is None or last.get(slot) == value or math.isnan(value):
                continue
            self._instances.set(instance, part.to, value)
            last[slot] = value
            self._handed += 1

    def finish(self) -> Summary:
        return {
            "unit": self._unit.name,
            "fmi": self._unit.version,
            "instances": len(self._slots),
            "steps": self._steps,
            "values_handed_over": self._handed,
        }

    def close(self) -> None:
        if self._instances is not None:
            self._instances.close()
            self._instances = None
