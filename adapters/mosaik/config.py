"""The `mosaik` block of a scenario, in the words of mosaik's own documentation."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field, model_validator

from cosim.contract import units
from cosim.contract.adapter import AdapterConfig, Ports
from cosim.contract.block import Selector
from cosim.contract.signals import CATALOGUE, Column, Signal
from cosim.contract.trust import Trusted, Values, Words
from cosim.contract.wiring import SignalName, WiredInput, WiredOutput, WiringPart, check_wiring, ports_of

ModelAttr = Annotated[Words, Field(pattern=r"^[^.\s]+\.\S.*$")]


class SimulatorPart(WiringPart):
    """Where the simulator comes from: exactly one of mosaik's three ways."""

    python: Annotated[str | None, Trusted("runs code")] = Field(
        None,
        pattern=r"^[\w.]+:\w+$",
        description="module:Class, run in this process; the module may lie beside the scenario file",
    )
    command: Annotated[str | None, Trusted("runs a command")] = Field(
        None,
        description="command line of a process that connects to %(addr)s (mosaik's 'cmd'); also %(python)s, %(root)s",
    )
    connect: Annotated[str | None, Trusted("connects to a program elsewhere")] = Field(
        None, pattern=r"^[^:\s]+:\d{1,5}$", description="host:port of a simulator that is already running"
    )

    @model_validator(mode="after")
    def _one_way(self) -> SimulatorPart:
        if sum(way is not None for way in (self.python, self.command, self.connect)) != 1:
            raise ValueError("give exactly one of 'python', 'command' and 'connect'")
        if self.command is not None and "%(addr)s" not in self.command:
            raise ValueError("the command must contain %(addr)s, which becomes the address to connect to")
        return self


class ModelPart(WiringPart):
    """Entities of one model: one for each selected node, or a number of them."""

    model: Words = Field(description="name of the model in the simulator's meta data")
    params: dict[Words, Values] = Field({}, description="parameters of create()")
    nodes: Selector | None = Field(None, description="one entity for each of these nodes")
    count: int | None = Field(None, ge=1, le=10_000, description="number of entities that belong to no node")

    @model_validator(mode="after")
    def _nodes_or_count(self) -> ModelPart:
        if self.nodes is not None and self.count is not None:
            raise ValueError("'nodes' and 'count' exclude each other")
        return self


class InputPart(WiredInput):
    """Values of a column as inputs of entities."""

    nodes: Selector = Field("*", description="nodes whose values are handed over")
    to: ModelAttr = Field(description="Model.attribute; an entity of a node gets the value of its node")


class OutputPart(WiredOutput):
    """An attribute of entities as a column of a signal."""

    source: ModelAttr = Field(alias="from", description="Model.attribute")
    signal: SignalName = Field(description="signal to write: a new one, or all columns of one of the catalogue")
    nodes: Selector | None = Field(None, description="nodes that get the value of an entity without a node")


class MosaikConfig(AdapterConfig):
    """Any mosaik simulator."""

    simulator: SimulatorPart = Field(description="python: module:Class | command: text | connect: host:port")
    resolution: units.Period | None = Field(
        None, description="time of one integer step of the simulator (time_resolution); default: the adapter's step"
    )
    params: dict[Words, Values] = Field({}, description="parameters of init(); %(root)s is the scenario's folder")
    models: list[ModelPart] = Field(min_length=1, description="which entities to create")
    inputs: list[InputPart] = Field([], description="from columns of signals to attributes of entities")
    outputs: list[OutputPart] = Field([], description="from attributes of entities to columns of signals")
    timeout: units.Period = Field(60.0, description="limit of every wait for the simulator")

    @model_validator(mode="after")
    def _wired(self) -> MosaikConfig:
        check_wiring(self.inputs, self.outputs)
        for part in self.inputs:
            if part.signal in CATALOGUE:
                _column(CATALOGUE[part.signal], part.column)
        for name in sorted({part.signal for part in self.outputs} & CATALOGUE.keys()):
            target = CATALOGUE[name]
            if target.rows != "node":
                raise ValueError(f"'{name}' holds events; outputs can only write signals with one row per node")
            columns = [part.column for part in self.outputs if part.signal == name]
            missing = {column.name for column in target.columns} - set(columns)
            if missing:
                raise ValueError(f"'{name}' is a signal of the catalogue and also needs {', '.join(sorted(missing))}")
            for column in columns:
                _column(target, column)
        return self

    def ports(self) -> Ports:
        """The signals of its inputs and outputs."""
        return ports_of(self.inputs, self.outputs)

    def signals(self) -> tuple[Signal, ...]:
        """The signals that its outputs add to the catalogue."""
        found = []
        for name in dict.fromkeys(part.signal for part in self.outputs):
            if name not in CATALOGUE:
                parts = [part for part in self.outputs if part.signal == name]
                columns = tuple(
                    Column(p.column, "float64", p.unit, p.meaning or p.source, optional=True) for p in parts
                )
                found.append(Signal(name, f"outputs of {', '.join(sorted({p.source for p in parts}))}", columns))
        return tuple(found)


def _column(signal: Signal, name: str) -> None:
    try:
        signal.column(name)
    except KeyError as error:
        raise ValueError(re.sub(r"^['\"]|['\"]$", "", str(error))) from None
