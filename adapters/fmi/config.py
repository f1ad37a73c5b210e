"""The `fmi` block of a scenario."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from cosim.contract.adapter import AdapterConfig, InputFile, Ports, Read
from cosim.contract.signals import CATALOGUE, Column, Signal, free_column, free_signal
from cosim.contract.trust import Trusted

Selector = str | list[str]
Word = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"), AfterValidator(free_signal)]
ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$"), AfterValidator(free_column)]


Number = Annotated[float, Field(allow_inf_nan=False)]


class Part(BaseModel):
    """A part of the block: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class InputPart(Part):
    """Values of a column as an input of the unit."""

    signal: str = Field(description="signal to read")
    column: str = Field(description="its column")
    to: str = Field(description="input, or tunable parameter, of the unit; an instance gets the value of its node")
    delayed: bool = Field(False, description="take the value from before the present tick (closes a loop)")


class OutputPart(Part):
    """A variable of the unit as a column of a signal."""

    source: str = Field(alias="from", description="output or local variable of the unit")
    signal: Word = Field(description="signal to write, a new one")
    column: ColumnName = Field(description="its column")
    unit: str = Field("", max_length=32, description="unit of the column; empty when dimensionless")
    meaning: str = Field("", description="what the column says")


class FmiConfig(AdapterConfig):
    """Instances of one unit, one for each selected node."""

    unit: Annotated[str, InputFile(), Trusted("runs code")] = Field(
        description="the .fmu file; or the .py file of a PythonFMU3 slave, of which a unit is made"
    )
    nodes: Selector = Field("*", description="the static nodes that have an instance")
    params: dict[str, Number | int | bool] = Field({}, description="start values of parameters and inputs")
    inputs: list[InputPart] = Field([], description="from columns of signals to inputs")
    outputs: list[OutputPart] = Field(min_length=1, description="from variables to columns of signals")

    @model_validator(mode="after")
    def _wired(self) -> FmiConfig:
        taken = [(part.signal, part.column) for part in self.outputs]
        for signal, column in taken:
            if taken.count((signal, column)) > 1:
                raise ValueError(f"two outputs write {signal}.{column}; give one of them another column")
            if signal in CATALOGUE:
                raise ValueError(f"'{signal}' is a signal of the catalogue; write a signal of another name")
        for part in self.inputs:
            if len({other.delayed for other in self.inputs if other.signal == part.signal}) > 1:
                raise ValueError(f"inputs from '{part.signal}' are both delayed and not; choose one")
            known = [column.name for column in CATALOGUE[part.signal].columns] if part.signal in CATALOGUE else []
            if known and part.column not in known:
                raise ValueError(f"'{part.signal}' has no column '{part.column}'; it has {', '.join(known)}")
        return self

    def ports(self) -> Ports:
        """The signals of its inputs and outputs."""
        reads = {part.signal: Read(part.signal, delayed=part.delayed) for part in self.inputs}
        return Ports(tuple(reads.values()), tuple(dict.fromkeys(part.signal for part in self.outputs)))

    def signals(self) -> tuple[Signal, ...]:
        """The signals that its outputs add to the catalogue."""
        found = []
        for name in dict.fromkeys(part.signal for part in self.outputs):
            parts = [part for part in self.outputs if part.signal == name]
            columns = tuple(Column(p.column, "float64", p.unit, p.meaning or p.source) for p in parts)
            found.append(Signal(name, f"outputs of {self.unit}", columns))
        return tuple(found)
