"""Who reads from whom, and in which order adapters are stepped within a tick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from cosim.contract.errors import Problem, SetupError
from cosim.scenario.plan.plan import AdapterPlan, Wire

if TYPE_CHECKING:
    from cosim.contract.adapter import Read
    from cosim.scenario.load import Loaded


@dataclass(frozen=True, slots=True)
class UnwiredAdapter:
    """An adapter whose reads are not wired yet."""

    plan: AdapterPlan
    reads: tuple[Read, ...]


def wire(loaded: Loaded, stations: Sequence[UnwiredAdapter], problems: list[Problem]) -> list[AdapterPlan]:
    """The adapters in the order of a tick, every read joined to all adapters that write its signal.

    Writers come before their readers, the order of the file decides where that leaves a choice, and
    a delayed read asks for no order. Adds to `problems` what cannot be wired.
    """
    order = _order(loaded, stations, problems)
    if len(stations) == len(loaded.scenario.adapters):
        for station in stations:
            for read in station.reads:
                if read.required and not _writers(order, station, read.signal):
                    message = f"adapter '{station.plan.name}' reads '{read.signal}', which no adapter writes"
                    problems.append(loaded.problem(("adapters", station.plan.name), message, _remedy(read.signal)))
    return [
        replace(
            station.plan,
            reads=tuple(
                Wire(read.signal, tuple(_writers(order, station, read.signal)), read.delayed) for read in station.reads
            ),
        )
        for station in order
    ]


def _writers(stations: Sequence[UnwiredAdapter], reader: UnwiredAdapter, signal: str) -> list[str]:
    return [s.plan.name for s in stations if signal in s.plan.writes and s is not reader]


def _order(loaded: Loaded, stations: Sequence[UnwiredAdapter], problems: list[Problem]) -> list[UnwiredAdapter]:
    waits: dict[str, dict[str, str]] = {  # adapter -> writer it must follow -> signal
        station.plan.name: {
            writer: read.signal
            for read in station.reads
            if not read.delayed
            for writer in _writers(stations, station, read.signal)
        }
        for station in stations
    }
    left, order = list(stations), list[UnwiredAdapter]()
    while left:
        done = {station.plan.name for station in order}
        ready = next((s for s in left if waits[s.plan.name].keys() <= done), None)
        if ready is None:
            problems.append(_cycle(loaded, left, waits))
            return [*order, *left]
        order.append(ready)
        left.remove(ready)
    return order


def _cycle(loaded: Loaded, left: Sequence[UnwiredAdapter], waits: dict[str, dict[str, str]]) -> Problem:
    """Names one circle of adapters that wait for each other."""
    names = {station.plan.name for station in left}
    way = [left[0].plan.name]
    while way.count(way[-1]) == 1:
        way.append(next(writer for writer in waits[way[-1]] if writer in names))
    circle = list(reversed(way[way.index(way[-1]) :]))
    text = circle[0]
    for writer, reader in pairwise(circle):
        text += f" -({waits[reader][writer]})-> {reader}"
    hint = "one of these reads must be delayed (see the option in the adapter's README)"
    return loaded.problem(("adapters", circle[0]), f"adapters wait for each other within a step: {text}", hint)


def _remedy(signal: str) -> str:
    """Which installed adapters could write `signal`."""
    from cosim.contract import registry

    able = []
    for name in registry.adapter_names():
        try:
            kind = registry.adapter_kind(name)
            ports = kind.ports(kind.load_config().model_validate({})) if callable(kind.ports) else kind.ports
        except (SetupError, ImportError, AttributeError, TypeError, ValueError):
            continue  # cannot be used as it stands, so it is no advice either
        if signal in ports.writes:
            able.append(name)
    return f"add one of these adapters: {', '.join(able)}" if able else "no installed adapter writes it by default"
