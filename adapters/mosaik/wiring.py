"""Which entity belongs to which node: columns of frames to scalars of entities, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cosim.contract.block import Selector
from cosim.contract.entities import Node, Scene
from cosim.contract.frame import Array, Frame
from cosim.contract.selector import matcher
from cosim.contract.signals import Column, Signal

Inputs = dict[str, dict[str, dict[str, Any]]]  # entity -> attribute -> "signal.node" -> value


FREE = -1  # an entity that was created without a node: `nodes` of a wire name those whose values it handles
NOWHERE = -2  # a child that bears no node's name: nothing is wired to it


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity of the simulator; `slot` is its node's, `FREE`, or `NOWHERE`."""

    eid: str
    model: str
    slot: int


class SlotNames:
    """Names of a scene's slots, and the slots that a selector means."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.slots = {node.id: slot for slot, node in enumerate(scene.nodes)}

    def static(self, selector: Selector) -> list[int]:
        """The static nodes that are selected, in the order of the file."""
        match = _matcher(selector)
        return [slot for slot, node in enumerate(self.scene.nodes) if match(node, node.id)]

    def members(self, selector: Selector) -> list[int]:
        """The slots of the fleets that are selected."""
        match = _matcher(selector)
        fleets = [fleet for fleet in self.scene.fleets if match(fleet.template, fleet.name)]
        return [fleet.first + place for fleet in fleets for place in range(fleet.capacity)]

    def known(self) -> str:
        names = [*self.slots, *(fleet.name for fleet in self.scene.fleets)]
        return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")

    def name(self, slot: int) -> str:
        if slot < len(self.scene.nodes):
            return self.scene.nodes[slot].id
        fleet = next(fleet for fleet in self.scene.fleets if fleet.first <= slot < fleet.first + fleet.capacity)
        return f"{fleet.name}.{slot - fleet.first}"


def _matcher(selector: Selector) -> Callable[[Node, str], bool]:
    tests = [matcher(part) for part in ([selector] if isinstance(selector, str) else selector)]
    return lambda node, name: any(test(name, node) for test in tests)


@dataclass
class InputFeed:
    """One input: a column's values at some slots go to an attribute of some entities."""

    signal: str
    column: Column
    attr: str
    targets: Mapping[int, Sequence[str]]  # slot -> entities that get its value
    roster: SlotNames
    sent: int = 0

    def gather(self, frames: Iterable[Frame], inputs: Inputs) -> None:
        """Add the values of the present rows; NaN and "no node" are no values."""
        for frame in frames:
            values = frame[self.column.name].tolist()
            for slot, value in zip(frame.slot.tolist(), values, strict=True):
                entities = self.targets.get(slot)
                if entities is None or (isinstance(value, float) and math.isnan(value)):
                    continue
                shown = self._shown(value)
                if shown is None:
                    continue
                source = f"{self.signal}.{self.roster.name(slot)}"
                for eid in entities:
                    inputs.setdefault(eid, {}).setdefault(self.attr, {})[source] = shown
                self.sent += len(entities)

    def _shown(self, value: Any) -> Any:  # noqa: ANN401 - a number, a truth value or a name
        if self.column.role == "slot":
            return self.roster.name(value) if value >= 0 else None
        if self.column.role == "code":
            workloads = tuple(workload.name for workload in self.roster.scene.workloads)
            codes = workloads if self.column.codes == "workloads" else self.column.codes
            return codes[value]
        return value


@dataclass
class OutputTap:
    """One output: an attribute of some entities becomes a column at their nodes."""

    column: str
    attr: str
    sources: Mapping[str, Array]  # entity -> places in the signal's rows


@dataclass
class Board:
    """The rows of one signal that outputs write, in two alternating buffers."""

    signal: Signal
    slots: Array  # (n,) int32
    taps: list[OutputTap] = field(default_factory=list)
    _buffers: list[dict[str, Array]] = field(init=False)

    def __post_init__(self) -> None:
        self._buffers = [self._empty(), self._empty()]

    def _empty(self) -> dict[str, Array]:
        return {column.name: np.zeros(len(self.slots), column.dtype) for column in self.signal.columns}

    def frame(self, time: float, values: Mapping[tuple[str, str], float]) -> Frame:
        """The latest `values` of (entity, attribute) at the nodes they belong to; NaN where there is none."""
        columns = self._buffers[0]
        self._buffers.reverse()
        for array in columns.values():
            array[:] = np.nan if array.dtype.kind == "f" else 0
        for tap in self.taps:
            for eid, places in tap.sources.items():
                value = values.get((eid, tap.attr), math.nan)
                if columns[tap.column].dtype.kind == "f" or not math.isnan(value):
                    columns[tap.column][places] = value
        return Frame(self.signal.name, time, self.slots, columns)
