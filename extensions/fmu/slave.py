"""What PythonFMU3 calls: the scenario of this unit, by the package `continuum-cosim` that is installed here."""

from __future__ import annotations

from pathlib import Path

from pythonfmu3 import (
    Boolean,
    DefaultExperiment,
    Float64,
    Fmi3Causality,
    Fmi3Slave,
    Fmi3StepResult,
    Fmi3Variability,
    Int64,
    String,
)

_KINDS = {bool: Boolean, int: Int64, float: Float64, str: String}


class ScenarioSlave(Fmi3Slave):  # type: ignore[misc]  # the package has no types
    """A scenario of continuum-cosim."""

    def __init__(self, **words: object) -> None:
        super().__init__(**words)
        from cosim.extensions.fmu.unit import ScenarioUnit

        unit = self._unit = ScenarioUnit(Path(str(self.resources)))
        self.description = unit.model["description"]
        self.default_experiment = DefaultExperiment(
            start_time=0.0, stop_time=unit.model["duration"], step_size=unit.model["step"]
        )
        self.time = 0.0
        self.register_variable(
            Float64("time", causality=Fmi3Causality.independent, variability=Fmi3Variability.continuous)
        )
        for name, first in {"seed": unit.model["seed"], **unit.model["parameters"]}.items():
            self.register_variable(
                _KINDS[type(first)](
                    name, causality=Fmi3Causality.parameter, variability=Fmi3Variability.fixed,
                    getter=lambda name=name: unit.parameters[name],
                    setter=lambda value, name=name: unit.parameters.__setitem__(name, value),
                )
            )  # fmt: skip
        for name, node in unit.model["inputs"].items():
            self.register_variable(
                Boolean(
                    name, causality=Fmi3Causality.input, variability=Fmi3Variability.discrete,
                    description=f"false: {node} has failed", getter=lambda name=name: unit.up[name],
                    setter=lambda value, name=name: unit.up.__setitem__(name, bool(value)),
                )
            )  # fmt: skip
        for name, (*_, measured, meaning) in unit.model["outputs"].items():
            self.register_variable(
                Float64(
                    name, causality=Fmi3Causality.output, variability=Fmi3Variability.discrete,
                    description=f"{meaning} ({measured})" if measured else meaning,
                    getter=lambda name=name: unit.values[name],
                )
            )  # fmt: skip

    def exit_initialization_mode(self) -> None:
        self._unit.start()

    def do_step(self, current_time: float, step_size: float) -> Fmi3StepResult:
        self._unit.advance(current_time + step_size)
        self.time = current_time + step_size
        return Fmi3StepResult(terminateSimulation=self._unit.over)

    def terminate(self) -> None:
        self._unit.close()
