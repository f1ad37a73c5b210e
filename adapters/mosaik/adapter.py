"""Drives one mosaik simulator through its own API: init, create, step, get_data, finalize."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cosim.adapters.mosaik.backend import MosaikBackend, SimulatorFaultError
from cosim.adapters.mosaik.check import problems as found_by_check
from cosim.adapters.mosaik.clock import Clock, transient, triggers
from cosim.adapters.mosaik.config import MosaikConfig
from cosim.adapters.mosaik.wiring import FREE, NOWHERE, Board, Entity, InputFeed, Inputs, OutputTap, SlotNames
from cosim.contract.adapter import Context, Summary
from cosim.contract.adapter import Inputs as BusInputs
from cosim.contract.errors import AdapterError, refuse
from cosim.contract.frame import Frame
from cosim.contract.signals import CATALOGUE, Column

log = logging.getLogger(__name__)


class MosaikAdapter:
    """A third-party simulator whose entities belong to nodes of the scenario."""

    def __init__(self, config: MosaikConfig) -> None:
        self.config = config
        self.backend: MosaikBackend | None = None
        self.entities: list[Entity] = []
        self.feeds: list[InputFeed] = []
        self.boards: list[Board] = []
        self.requests: dict[str, list[str]] = {}  # entity -> attributes, each once
        self.values: dict[tuple[str, str], float] = {}  # latest value of (entity, attribute)
        self.steps = 0

    def start(self, context: Context) -> None:
        refuse(found_by_check(self.config, context))
        self.name = context.name
        self.roster = SlotNames(context.scene)
        config, folder = self.config, context.root
        resolution = config.resolution or context.period
        self.backend = MosaikBackend(context.name, config.simulator, config.timeout, folder, context.scratch)
        try:
            meta = self.backend.open(resolution, _rooted(config.params, folder))
            self.meta: Mapping[str, Any] = {"type": "time-based", **meta}
            self._check_models()
            for number, part in enumerate(config.models):
                self._create(number, _rooted(part.params, folder))
            self._wire()
            self.clock = Clock(self.meta["type"], resolution, context.period, context.duration)
            self.backend.call("setup_done")
        except SimulatorFaultError as error:
            raise self._failure("start", error) from error
        self.triggers, self.transient = triggers(self.meta), transient(self.meta)
        if self.meta["type"] == "event-based":
            log.warning("%s: this simulator is event-based; it is stepped when the bus brings it values", self.name)

    def step(self, time: float, inputs: BusInputs) -> Sequence[Frame]:
        given: Inputs = {}
        for feed in self.feeds:
            feed.gather(inputs.all(feed.signal), given)
        try:
            self._advance(self.clock.at(time), given)
        except (SimulatorFaultError, ValueError) as error:
            raise self._failure("step", error, time) from error
        return [board.frame(time, self.values) for board in self.boards]

    def finish(self) -> Summary:
        if self.backend is not None:
            try:
                self.backend.finish()
            except SimulatorFaultError as error:
                raise self._failure("finish", error) from error
        models = [entity.model for entity in self.entities]
        return {
            "type": self.meta["type"],
            "api_version": str(self.meta.get("api_version", "1")),
            "steps": self.steps,
            "entities": {model: models.count(model) for model in dict.fromkeys(models)},
            "values_handed_over": sum(feed.sent for feed in self.feeds),
        }

    def close(self) -> None:
        if self.backend is not None:
            self.backend.close()
            self.backend = None

    # -- time ----------------------------------------------------------------------------------

    def _advance(self, now: int, given: Inputs) -> None:
        """Make all steps that are due up to `now`, and the one that new values trigger."""
        clock = self.clock
        triggered = any(
            attr in self.triggers.get(self.model_of.get(eid, ""), ()) for eid, attrs in given.items() for attr in attrs
        )
        self._forget()
        last = -1
        while clock.next is not None and clock.next <= now:
            last = clock.next
            self._one(last, given, triggered)
        if triggered and last != now:
            self._one(now, given, triggered)

    def _forget(self) -> None:
        """Drop the values that held at their own step only."""
        for eid, attr in list(self.values):
            if attr in self.transient.get(self.model_of[eid], ()):
                del self.values[eid, attr]

    def _one(self, now: int, given: Inputs, triggered: bool) -> None:
        clock, backend = self.clock, self.backend
        if backend is None:
            raise ValueError("the simulator is closed")
        backend.callbacks.progress = min(100.0, 100.0 * now / clock.until)
        copy = {eid: {attr: dict(values) for attr, values in attrs.items()} for eid, attrs in given.items()}
        answer = backend.call("step", now, copy, clock.max_advance(now, bool(self.feeds) and triggered))
        clock.answered(now, answer)
        for event in backend.callbacks.events:
            if event > now:
                clock.ask(event)
        backend.callbacks.events.clear()
        self.steps += 1
        if self.requests:
            asked = {eid: list(attrs) for eid, attrs in self.requests.items()}
            self._take(now, backend.call("get_data", asked))

    def _take(self, now: int, data: object) -> None:
        if not isinstance(data, Mapping):
            raise ValueError(f"get_data returned a {type(data).__name__}, not a dictionary of entities")
        if data.get("time", now) != now:
            raise ValueError(f"get_data gave values for time {data['time']} at {now}; later values are not supported")
        for eid, attrs in self.requests.items():
            answer = data.get(eid, {})
            for attr in attrs:
                if attr in answer:
                    self.values[eid, attr] = _number(answer[attr], f"{eid}.{attr}")
                elif self.meta["type"] == "time-based":
                    raise ValueError(f"get_data left out {eid}.{attr}")

    # -- entities ------------------------------------------------------------------------------

    def _check_models(self) -> None:
        """Hold every name of the block against the simulator's meta data; all problems at once."""
        models: Mapping[str, Any] = self.meta["models"]
        created = {part.model for part in self.config.models}
        problems: list[tuple[str, str]] = []
        for number, part in enumerate(self.config.models):
            where = f"models[{number}]"
            if not models.get(part.model, {}).get("public", False):
                public = ", ".join(name for name, model in models.items() if model.get("public", False))
                problems.append((f"{where}.model", f"the simulator has no model '{part.model}'; it has {public}"))
                continue
            params = models[part.model].get("params", ())
            problems += [
                (f"{where}.params", f"{part.model} has no parameter '{name}'; it has {', '.join(params) or 'none'}")
                for name in part.params
                if name not in params
            ]
        wires = [(f"inputs[{n}].to", part.to, True) for n, part in enumerate(self.config.inputs)]
        wires += [(f"outputs[{n}].from", part.source, False) for n, part in enumerate(self.config.outputs)]
        for where, wire, inward in wires:
            name, _, attr = wire.partition(".")
            if name not in models:
                problems.append((where, f"the simulator has no model '{name}'; it has {', '.join(models)}"))
            elif models[name].get("public", False) and name not in created:
                problems.append((where, f"no entity of '{name}' is created; add it to 'models'"))
            elif attr not in models[name].get("attrs", ()) and not (inward and models[name].get("any_inputs", False)):
                known = ", ".join(models[name].get("attrs", ())) or "none"
                problems.append((where, f"{name} has no attribute '{attr}'; it has {known}"))
        self._refuse(problems)

    def _refuse(self, problems: list[tuple[str, str]]) -> None:
        if problems:
            text = "; ".join(f"adapters.{self.name}.{where}: {text}" for where, text in problems)
            raise AdapterError(f"it does not fit its block: {text}", adapter=self.name, phase="start")

    def _create(self, number: int, params: dict[str, Any]) -> None:
        part, backend = self.config.models[number], self.backend
        if backend is None:
            raise SimulatorFaultError("it is closed")
        slots = [FREE] * (part.count or 1) if part.nodes is None else self.roster.static(part.nodes)
        created = backend.call("create", len(slots), part.model, **params)
        if not isinstance(created, list) or len(created) != len(slots):
            raise SimulatorFaultError(
                f"create({len(slots)}, {part.model}) must return {len(slots)} entities: {created!r}"
            )
        for slot, entity in zip(slots, created, strict=True):
            self._add(entity, slot)
        names = [entity.eid for entity in self.entities]
        if len(set(names)) != len(names):
            raise SimulatorFaultError(f"create({part.model}) gave the same entity id twice")

    def _add(self, entity: Mapping[str, Any], slot: int) -> None:
        """Take the entity and its children; a child with the id of a node belongs to that node."""
        self.entities.append(Entity(entity["eid"], entity["type"], slot))
        if self.backend is not None:
            self.backend.callbacks.nodes[f"{self.name}.{entity['eid']}"] = {"type": entity["type"]}
        for child in entity.get("children") or ():
            self._add(child, self.roster.slots.get(child["eid"], NOWHERE))

    def _wire(self) -> None:
        problems: list[tuple[str, str]] = []
        self.model_of = {entity.eid: entity.model for entity in self.entities}
        own = {signal.name: signal for signal in self.config.signals()}
        for part in self.config.inputs:
            chosen = [*self.roster.static(part.nodes), *self.roster.members(part.nodes)]
            name, _, attr = part.to.partition(".")
            ours = [entity for entity in self.entities if entity.model == name]
            targets = {slot: [e.eid for e in ours if e.slot in (slot, FREE)] for slot in chosen}
            column = (
                CATALOGUE[part.signal].column(part.column)
                if part.signal in CATALOGUE
                else Column(part.column, "", "", "")
            )
            targets = {slot: eids for slot, eids in targets.items() if eids}
            self.feeds.append(InputFeed(part.signal, column, attr, targets, self.roster))
        for signal in self.config.ports().writes:
            parts = [(number, output) for number, output in enumerate(self.config.outputs) if output.signal == signal]
            homes: list[tuple[str, str, dict[str, list[int]]]] = []
            for number, output in parts:
                name, _, attr = output.source.partition(".")
                found = self._homes(name, output.nodes)
                if not any(found.values()):
                    text = f"entities of {name} belong to no node; say with 'nodes' whose rows get the value"
                    problems.append((f"outputs[{number}].nodes", text))
                homes.append((output.column, attr, found))
                for eid in found:
                    attrs = self.requests.setdefault(eid, [])
                    if attr not in attrs:
                        attrs.append(attr)
            slots = np.array(
                sorted({slot for *_, found in homes for where in found.values() for slot in where}), np.int32
            )
            board = Board(own.get(signal) or CATALOGUE[signal], slots)
            for column_name, attr, found in homes:
                places = {eid: np.searchsorted(slots, where) for eid, where in found.items()}
                board.taps.append(OutputTap(column_name, attr, places))
            self.boards.append(board)
        self._refuse(problems)

    def _homes(self, model: str, nodes: str | list[str] | None) -> dict[str, list[int]]:
        """entity -> slots whose rows get its values: its own node's, or those of the selected nodes."""
        ours = [entity for entity in self.entities if entity.model == model]
        chosen = self.roster.static(nodes) if nodes is not None else []
        free = [entity for entity in ours if entity.slot == FREE]
        found = {e.eid: [e.slot] for e in ours if e.slot >= 0 and (nodes is None or e.slot in chosen)}
        if len(free) == 1:
            found[free[0].eid] = chosen
        elif len(free) == len(chosen):
            found |= {entity.eid: [slot] for entity, slot in zip(free, chosen, strict=True)}
        return found

    def _failure(self, phase: str, error: Exception, time: float | None = None) -> AdapterError:
        where = self.config.simulator.python or self.config.simulator.command or self.config.simulator.connect
        return AdapterError(
            f"simulator '{where}': {error}", adapter=self.name, phase=phase, time=time,
            remote_traceback=getattr(error, "remote_traceback", ""),
        )  # fmt: skip


def _rooted(params: Mapping[str, Any], root: str) -> dict[str, Any]:
    """The parameters with %(root)s replaced in every text."""

    def walk(value: Any) -> Any:  # noqa: ANN401 - whatever YAML holds
        if isinstance(value, str):
            return value.replace("%(root)s", root)
        if isinstance(value, Mapping):
            return {key: walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    return {key: walk(value) for key, value in params.items()}


def _number(value: object, where: str) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"{where} is {value!r}; only numbers can become a column") from None
