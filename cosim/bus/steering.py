"""What commands do to a run: the pacer's pause and pace, the runtime's events, the stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

from cosim.bus.pacer import Pacer
from cosim.bus.runtime import Runtime
from cosim.contract import units
from cosim.contract.entities import Event, Node, Scene, SlotRange
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.selector import matcher

VERBS = ("state", "pause", "resume", "pace", "inject", "stop")
_DO = ("fail", "recover", "degrade", "restore")
_KEYS = ("do", "node", "link", "for", "delay", "loss", "rate")
_FASTEST = 1e6  # simulated s per wall s

Note = Callable[[float, str, str, str], None]  # time, kind, node, detail


class Steering:
    """Carries out commands from any thread; `interactive` is true once one of them has changed the run."""

    def __init__(self, runtime: Runtime, pacer: Pacer, note: Note) -> None:
        self.interactive = False
        self._runtime, self._pacer, self._note = runtime, pacer, note

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
        """Carry `verb` out and return the state. Raises `ValueError` or `ScenarioError` for wrong arguments."""
        now = max(0.0, self._runtime.reached)
        if verb == "pause":
            self._pacer.pause()
            self._note(now, "pause", "", "")
        elif verb == "resume":
            self._pacer.resume()
            self._note(now, "resume", "", "")
        elif verb == "pace":
            factor = _factor(arguments.get("factor"))
            self._pacer.pace(factor)
            self._note(now, "pace", "", f"{factor:g} x" if factor else "as fast as possible")
        elif verb == "inject":
            event, undone = read_event(arguments.get("event"), self._runtime.plan.scene)
            self.interactive = True
            self._runtime.inject(event, undone)
        elif verb == "stop":
            self._runtime.stop("a command")
        return self.state()


def read_event(text: object, scene: Scene) -> tuple[Event, float]:
    """The event that a command describes in the words of a scenario, and after how many s it is undone (0: never).

    Quantities are text with units. Raises `ScenarioError` with everything that is wrong.
    """
    if not isinstance(text, Mapping):
        raise ScenarioError(Problem("an event is a mapping", "event", hint="for example {do: fail, node: edge-1}"))
    problems = [
        Problem("unknown key", f"event.{key}", hint=f"known: {', '.join(_KEYS)}") for key in text if key not in _KEYS
    ]
    do = text.get("do")
    if do not in _DO:
        problems.append(Problem(f"unknown event {do!r}", "event.do", hint=f"one of {', '.join(_DO)}"))
        raise ScenarioError(problems)
    do = cast('Literal["fail", "recover", "degrade", "restore"]', do)

    def quantity(key: str, dimension: str, default: float, most: float = math.inf) -> float:
        if key not in text:
            return default
        try:
            value = units.parse(text[key], dimension)
        except ValueError as error:
            problems.append(Problem(str(error), f"event.{key}"))
            return default
        if not 0.0 <= value <= most:
            problems.append(Problem(f"{text[key]} is out of range", f"event.{key}", hint="0 % to 100 %, 0 s or more"))
        return value

    undone = quantity("for", "time", 0.0)
    nodes: tuple[SlotRange, ...] = ()
    link: tuple[tuple[SlotRange, ...], tuple[SlotRange, ...]] | None = None
    if do in ("fail", "recover"):
        nodes = _slots(text.get("node"), "event.node", scene, problems)
    else:
        a, slash, b = str(text.get("link") or "").partition("/")
        if not slash:
            problems.append(Problem(f"'do: {do}' needs a link", "event.link", hint="two nodes: uav-2/edge-1"))
        else:
            link = (
                _slots(a.strip(), "event.link", scene, problems),
                _slots(b.strip(), "event.link", scene, problems),
            )
    event = Event(
        0.0, do, nodes, link,
        quantity("delay", "time", 0.0), quantity("loss", "fraction", 0.0, 1.0), quantity("rate", "fraction", 1.0, 1.0),
    )  # fmt: skip
    if do in ("recover", "restore") and undone:
        problems.append(Problem(f"'do: {do}' has no end", "event.for", hint="remove 'for'"))
    if do == "degrade" and (event.delay, event.loss, event.rate) == (0.0, 0.0, 1.0):
        problems.append(Problem("nothing is degraded", "event", hint="give 'delay', 'loss' or 'rate'"))
    if problems:
        raise ScenarioError(problems)
    return event, undone


def _slots(selector: object, where: str, scene: Scene, problems: list[Problem]) -> tuple[SlotRange, ...]:
    """The slots of the static nodes and fleets that `selector` names, as in a scenario."""
    if not isinstance(selector, str) or not selector:
        problems.append(Problem("a name of a node or fleet is missing", where))
        return ()
    things: Sequence[tuple[str, Node, SlotRange]] = [
        *((node.id, node, SlotRange(slot)) for slot, node in enumerate(scene.nodes)),
        *((fleet.name, fleet.template, SlotRange(fleet.first, fleet.capacity)) for fleet in scene.fleets),
    ]
    match = matcher(selector)
    found = tuple(part for name, node, part in things if match(name, node))
    if not found:
        known = ", ".join(name for name, _, _ in things[:12])
        problems.append(Problem(f"nothing is called '{selector}'", where, hint=f"nodes and fleets: {known}"))
    return found


def _factor(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= _FASTEST:
        raise ValueError(f"a pace is a number from 0 (as fast as possible) to {_FASTEST:g}, not {value!r}")
    return float(value)
