"""The `fmi` block of a scenario."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from cosim.contract.adapter import AdapterConfig, InputFile, Ports
from cosim.contract.block import Selector
from cosim.contract.signals import CATALOGUE, Column, Signal
from cosim.contract.trust import Trusted, Words
from cosim.contract.wiring import WiredInput, WiredOutput, check_wiring, ports_of

Number = Annotated[float, Field(allow_inf_nan=False)]


class InputPart(WiredInput):
    """Values of a column as an input of the unit."""

    to: Words = Field(description="input, or tunable parameter, of the unit; an instance gets the value of its node")


class OutputPart(WiredOutput):
    """A variable of the unit as a column of a signal."""

    source: Words = Field(alias="from", description="output or local variable of the unit")


class FmiConfig(AdapterConfig):
    """Instances of one unit, one for each selected node."""

    unit: Annotated[str, InputFile(), Trusted("runs code")] = Field(
        description="the .fmu file; or the .py file of a PythonFMU3 slave, of which a unit is made"
    )
    nodes: Selector = Field("*", description="the static nodes that have an instance")
    checked: bool = Field(
        True, alias="validate", description="hold the unit's description against the standard; false: take it as it is"
    )
    params: dict[Words, Number | int | bool | Words] = Field({}, description="start values of parameters and inputs")
    inputs: list[InputPart] = Field([], description="from columns of signals to inputs")
    outputs: list[OutputPart] = Field(min_length=1, description="from variables to columns of signals")

    @model_validator(mode="after")
    def _wired(self) -> FmiConfig:
        check_wiring(self.inputs, self.outputs)
        for output in self.outputs:
            if output.signal in CATALOGUE:
                raise ValueError(f"'{output.signal}' is a signal of the catalogue; write a signal of another name")
        for part in self.inputs:
            known = [column.name for column in CATALOGUE[part.signal].columns] if part.signal in CATALOGUE else []
            if known and part.column not in known:
                raise ValueError(f"'{part.signal}' has no column '{part.column}'; it has {', '.join(known)}")
        return self

    def ports(self) -> Ports:
        """The signals of its inputs and outputs."""
        return ports_of(self.inputs, self.outputs)

    def signals(self) -> tuple[Signal, ...]:
        """The signals that its outputs add to the catalogue."""
        found = []
        for name in dict.fromkeys(part.signal for part in self.outputs):
            parts = [part for part in self.outputs if part.signal == name]
            columns = tuple(Column(p.column, "float64", p.unit, p.meaning or p.source) for p in parts)
            found.append(Signal(name, f"outputs of {self.unit}", columns))
        return tuple(found)
