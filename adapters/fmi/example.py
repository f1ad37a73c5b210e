"""A room that a host heats, as a unit of FMI 3: what `unit: example.py` is made of."""

from __future__ import annotations

from pythonfmu3 import Float64, Fmi3Causality, Fmi3Slave, Fmi3Variability

_CAPACITY = 60e3  # J/K, of 50 m3 of air
_LOSS = 15.0  # W/K, through walls


class Room(Fmi3Slave):  # type: ignore[misc]  # the package has no types
    """Temperature of a room by the heat put into it and the air outside, explicit Euler."""

    author = "continuum-cosim"
    description = "a room that a host heats"

    def __init__(self, **words: object) -> None:
        super().__init__(**words)
        self.time = 0.0
        self.heat = 0.0
        self.outside = 12.0
        self.temperature = 20.0
        fixed, tunable = Fmi3Variability.continuous, Fmi3Variability.tunable
        self.register_variable(Float64("time", causality=Fmi3Causality.independent, variability=fixed))
        self.register_variable(Float64("heat", causality=Fmi3Causality.input))
        self.register_variable(Float64("outside", causality=Fmi3Causality.parameter, variability=tunable))
        self.register_variable(Float64("temperature", causality=Fmi3Causality.output))

    def do_step(self, current_time: float, step_size: float) -> bool:
        flow = self.heat - _LOSS * (self.temperature - self.outside)
        self.temperature += step_size * flow / _CAPACITY
        self.time = current_time + step_size
        return True
