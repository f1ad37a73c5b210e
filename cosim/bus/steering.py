"""What commands do to a run: the pacer's pause and pace, the runtime's events, the stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ValidationError

from cosim.bus.pacer import Pacer
from cosim.bus.runtime import Runtime
from cosim.contract.block import EventKey, OnlyWith
from cosim.contract.entities import Event, Node, SlotRange
from cosim.contract.errors import Problem, ScenarioError, SetupError
from cosim.contract.registry import adapter_kind
from cosim.contract.selector import selects
from cosim.scenario import tree
from cosim.scenario.checks import event_faults, refused, unfit
from cosim.scenario.model import BUILT_IN_EVENTS, EventBlock
from cosim.scenario.plan.plan import Plan
from cosim.scenario.plan.scene import happenings
from cosim.scenario.wording import problems_of

# Commands besides those of events: what each does, and its keys, all of which it needs.
VERBS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "state": ("Where the run is.", {}),
    "commands": ("What the run takes: commands, their keys, and what those mean.", {}),
    "pause": ("The run stands still.", {}),
    "resume": ("It goes on.", {}),
    "pace": ("It goes on at another pace.", {"factor": "simulated seconds per second, 0: as fast as possible"}),
    "inject": ("An event happens.", {"event": "an event as in a scenario, without 'at'"}),
    "stop": ("The run ends, and keeps its results.", {}),
}
_FASTEST = 1e6  # simulated s per wall s
_NAMED = 100  # nodes in an answer

Note = Callable[[float, str, str, str], None]  # time, kind, node, detail
# by `do`: the model, and the configurations of the adapters that bring the event
EventKinds = Mapping[str, tuple[type[EventBlock] | type[EventKey], Sequence[BaseModel]]]


class Steering:
    """Carries out commands from any thread; `interactive` is true once one of them has changed the run."""

    def __init__(self, runtime: Runtime, pacer: Pacer, note: Note) -> None:
        self.interactive = False
        self._runtime, self._pacer, self._note = runtime, pacer, note

    @cached_property
    def kinds(self) -> EventKinds:
        """The events that the run takes."""
        return event_kinds(self._runtime.plan)

    @property
    def verbs(self) -> tuple[str, ...]:
        """All commands: `VERBS`, and one for each event, by its `do`."""
        return (*VERBS, *self.kinds)

    @cached_property
    def commands(self) -> dict[str, dict[str, Any]]:
        """What the run takes, by command: `meaning` and `keys`; of each key its `meaning`, and whether it is `needed`.

        Those of events are marked `event`.
        """
        own = {
            verb: {"meaning": meaning, "keys": {key: {"meaning": text, "needed": True} for key, text in keys.items()}}
            for verb, (meaning, keys) in VERBS.items()
        }
        return own | {do: {**_declared(do, model), "event": True} for do, (model, _) in self.kinds.items()}

    def state(self) -> dict[str, Any]:
        """Where the run is: time and duration (s), pause, factor, lag (s)."""
        paused, factor = self._pacer.wanted
        return {
            "time": max(0.0, self._runtime.reached),
            "duration": self._runtime.plan.duration,
            "paused": paused,
            "factor": factor,
            "lag": self._pacer.lag,
            "stopping": bool(self._runtime.stopping),
            "interactive": self.interactive,
        }

    def act(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Carry `verb` out and return the state, of events with what they happen to, of `commands` with all of them.

        Raises `ValueError` or `ScenarioError` for wrong arguments.
        """
        now = max(0.0, self._runtime.reached)
        if verb in ("pause", "resume"):
            (self._pacer.pause if verb == "pause" else self._pacer.resume)()
            self._note(now, verb, "", "")
        elif verb == "pace":
            factor = _factor(arguments.get("factor"))
            self._pacer.pace(factor)
            self._note(now, "pace", "", f"{factor:g} x" if factor else "as fast as possible")
        elif verb == "stop":
            self._runtime.stop("a command")
        elif verb == "commands":
            return self.state() | {"commands": self.commands}
        elif verb != "state":
            asked = arguments.get("event") if verb == "inject" else {**arguments, "do": verb}
            events = read_event(asked, self._runtime.plan, self.kinds)
            self.interactive = True
            self._runtime.inject(*events)
            return self.state() | {"event": self._account(events[0])}
        return self.state()

    def _account(self, event: Event) -> dict[str, Any]:
        """What an answer says of an event: `do`, the first nodes that it names, and the two sides of a link."""
        scene = self._runtime.plan.scene

        def names(parts: Sequence[SlotRange]) -> list[str]:
            return [scene.template(part.first).id for part in parts[:_NAMED]]

        return {"do": event.do, "nodes": names(event.nodes), "link": [names(side) for side in event.link or ()]}


def event_kinds(plan: Plan) -> EventKinds:
    """The events of a run by their `do`: those of every scenario, and those that its adapters bring."""
    found: dict[str, tuple[type[EventBlock] | type[EventKey], list[BaseModel]]] = {
        do: (EventBlock, []) for do in sorted(BUILT_IN_EVENTS)
    }
    for each in plan.adapters:
        with suppress(SetupError):  # an adapter that was built elsewhere
            kind = adapter_kind(each.use)
            for do, model in kind.event_kinds().items():
                found.setdefault(do, (model, []))[1].append(kind.load_config().model_validate(each.config))
    return found


def _declared(do: str, model: type[EventBlock] | type[EventKey]) -> dict[str, Any]:
    """Meaning and keys of an event: those that it may have besides `do` and `at`."""
    own = model if issubclass(model, EventKey) else None
    if own is not None:
        target, undo, meaning = own.TARGET, own.UNDO, (own.__doc__ or "").partition("\n")[0]
    else:
        target, undo, meaning = astuple(BUILT_IN_EVENTS[do])
    left_out = {"do", "at", "node", "link"} - {target} | (set() if undo else {"for"})
    keys = {}
    for name, field in model.model_fields.items():
        key, marks = field.alias or name, [mark for mark in field.metadata if isinstance(mark, OnlyWith)]
        if key not in left_out and all(do in mark.values for mark in marks if mark.key == "do"):
            keys[key] = {"meaning": field.description or "", "needed": key == target or field.is_required()}
    return {"meaning": meaning, "keys": keys}


def read_event(text: object, plan: Plan, kinds: EventKinds) -> tuple[Event, ...]:
    """The event that a command describes in the words of a scenario, and the one that undoes it; `at`: s from now.

    Quantities are text with units. Raises `ScenarioError` with everything that is wrong.
    """
    if not isinstance(text, Mapping):
        raise ScenarioError(Problem("an event is a mapping", "event", hint="for example {do: fail, node: edge-1}"))
    kind, configs = kinds.get(str(text.get("do")), (None, ()))
    if kind is None:
        hint = f"one of {', '.join(kinds)}"
        raise ScenarioError(Problem(f"unknown event {text.get('do')!r}", "event.do", hint=hint))
    if "at" in text:
        raise ScenarioError(Problem("unknown key", "event.at", hint="leave it out: it happens at the next step"))
    data = {**text, "at": "0 s"}
    try:
        block = kind.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ScenarioError(problems_of(error, kind, tree.unplaced({"event": data}), ("event",))) from None
    scene, named = plan.scene, list[str]()
    problems = [Problem(message, f"event.{key}", hint=hint) for key, message, hint in event_faults(block)]
    things: Sequence[tuple[str, Node, SlotRange]] = [
        *((node.id, node, SlotRange(slot)) for slot, node in enumerate(scene.nodes)),
        *((fleet.name, fleet.template, SlotRange(fleet.first, fleet.capacity)) for fleet in scene.fleets),
    ]

    def slots(selector: str | Sequence[str]) -> tuple[SlotRange, ...]:
        match = selects(selector)
        found = [(node, part) for name, node, part in things if match(name, node)]
        needs = block.NEEDS if isinstance(block, EventKey) else ""
        if not found:
            known = ", ".join(name for name, _, _ in things[:12])
            problems.append(Problem(f"nothing is called '{selector}'", "event", hint=f"nodes and fleets: {known}"))
        elif needs and not any(node.says(needs) for node, _ in found):
            problems.append(Problem(f"'do: {text['do']}' needs a node with '{needs}'", "event.node"))
        named.extend(scene.template(part.first).id for _, part in found)
        return tuple(part for _, part in found)

    events = tuple(happenings(block, slots))
    if isinstance(block, EventKey):
        why = refused(block, configs, named)
        if not why and not problems:
            why = unfit(block, configs, scene, named, plan.root)
        problems += [Problem(why, "event.do")] if why else []
    if problems:
        raise ScenarioError(problems)
    return events


def _factor(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= _FASTEST:
        raise ValueError(f"a pace is a number from 0 (as fast as possible) to {_FASTEST:g}, not {value!r}")
    return float(value)
