"""What adapters share that wire programs of others by names: columns of signals in, columns of signals out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cosim.contract.adapter import Ports, Read
from cosim.contract.signals import free_column, free_signal
from cosim.contract.trust import PlainText, Words

SignalName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$"), AfterValidator(free_signal), PlainText()]
ColumnName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$"), AfterValidator(free_column), PlainText()]


class WiringPart(BaseModel):
    """A part of the block: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class WiredInput(WiringPart):
    """Values of a column that are handed over; a subclass names the receiver."""

    signal: Words = Field(description="signal to read")
    column: Words = Field(description="its column")
    delayed: bool = Field(False, description="take the value from before the present tick (closes a loop)")


class WiredOutput(WiringPart):
    """A column that is written; a subclass names the source."""

    signal: SignalName = Field(description="signal to write, a new one")
    column: ColumnName = Field(description="its column")
    unit: Words = Field("", max_length=32, description="unit of the column; empty when dimensionless")
    meaning: Words = Field("", description="what the column says")


def check_wiring(inputs: Sequence[WiredInput], outputs: Sequence[WiredOutput]) -> None:
    """Raise `ValueError` for a column that is written twice and a signal that is read both delayed and not."""
    taken = [(part.signal, part.column) for part in outputs]
    for signal, column in taken:
        if taken.count((signal, column)) > 1:
            raise ValueError(f"two outputs write {signal}.{column}; give one of them another column")
    for part in inputs:
        if len({other.delayed for other in inputs if other.signal == part.signal}) > 1:
            raise ValueError(f"inputs from '{part.signal}' are both delayed and not; choose one")


def ports_of(inputs: Sequence[WiredInput], outputs: Sequence[WiredOutput]) -> Ports:
    """The signals of the inputs and outputs."""
    reads = {part.signal: Read(part.signal, delayed=part.delayed) for part in inputs}
    return Ports(tuple(reads.values()), tuple(dict.fromkeys(part.signal for part in outputs)))
