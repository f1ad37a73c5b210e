"""What files of routes hold, and whether vehicles can drive where these send them, as SUMO asks when they depart."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cosim.adapters.sumo.demand import UNREADABLE, backward, largest_component, onward_of, reached, read_net
from cosim.adapters.sumo.inputs import opened, seconds

ANY = "ignoring"  # SUMO's class that no road is closed for
_FLOWS = ("flow", "personFlow")
_INSIDE = ("route", "routeDistribution", "stop", "param")  # of what departs


@dataclass(frozen=True, slots=True)
class Journeys:
    """What a file holds."""

    counts: Counter[str] = field(default_factory=Counter)  # vehicles, trips, flows and persons
    departs: list[float] = field(default_factory=list)  # s; a flow without an end has an infinite one
    faults: Counter[str] = field(default_factory=Counter)  # what is wrong with entries
    astray: list[str] = field(default_factory=list)  # why a journey cannot be driven


class RouteFiles:
    """Reads files in SUMO's order: types and routes of one hold for those after it."""

    def __init__(self, network: Path | None) -> None:
        self._kinds = {"DEFAULT_VEHTYPE": "passenger"}
        self._routes: dict[str, tuple[str, ...]] = {}
        self._network, self._net, self._roads = network, None, dict[str, Drivable]()

    def read(self, file: Path, begin: float, end: float) -> Journeys:
        """What `file` holds; journeys are those that begin from `begin` to before `end` (s).

        What cannot be read is left to SUMO, which reports it better.
        """
        found, seen, latest = Journeys(), set[tuple[str, str]](), -math.inf
        try:
            with opened(file) as stream:
                for _, element in ElementTree.iterparse(stream):
                    tag, name = element.tag, element.get("id", "")
                    if tag == "vType":
                        self._kinds[name] = element.get("vClass", "passenger")
                    elif tag == "route" and name:
                        self._routes[name] = tuple(element.get("edges", "").split())
                    elif tag in ("vehicle", "trip", "person", *_FLOWS):
                        found.counts[tag] += 1
                        who = "vehicle" if tag == "trip" else tag, name
                        found.faults["have the id of another, which ends the run as they depart"] += who in seen
                        seen.add(who)
                        ends = {"end": "inf"} if tag in _FLOWS and "number" not in element.attrib else {}
                        given = {**ends, **element.attrib}
                        times = [seconds(given[key]) for key in ("depart", "begin", "end") if key in given]
                        found.departs.extend(time for time in times if not math.isnan(time))
                        if times and not math.isnan(times[0]):
                            late = "depart before one above them, and SUMO leaves them out: sort the file"
                            found.faults[late] += times[0] < latest
                            latest = max(latest, times[0])
                            if times[0] < end and times[-1] >= begin and (fault := self._fault(element)):
                                found.astray.append(f"{tag} '{name}' {fault}")
                    if tag not in _INSIDE:
                        element.clear()
        except (OSError, EOFError, zlib.error, ElementTree.ParseError):
            return Journeys()
        return found

    def _fault(self, element: ElementTree.Element) -> str:
        """Why what departs cannot drive, "" if it can."""
        kind = self._kinds.get(element.get("type", "DEFAULT_VEHTYPE"), ANY)  # of a distribution: any of several
        own, named = element.find("route"), element.get("route", "")
        route = self._routes.get(named, ()) if own is None else tuple(own.get("edges", "").split())
        ends = (element.get("from", ""), *element.get("via", "").split(), element.get("to", ""))
        edges = () if element.tag.startswith("person") else route or tuple(filter(None, ends))
        if self._network is None or not edges or "departEdge" in element.attrib or ":" in {edge[0] for edge in edges}:
            return ""  # SUMO's own matter, such as ways over junctions
        try:
            if kind not in self._roads:
                self._net = self._net or read_net(self._network)
                self._roads[kind] = Drivable(self._net, kind)
        except (*UNREADABLE, ImportError):
            self._network = None
            return ""
        return self._roads[kind].fault(edges, bool(route))


class Drivable:
    """The roads of a network for one class of vehicles."""

    def __init__(self, net: Any, kind: str) -> None:  # noqa: ANN401 - sumolib has no types
        self._net, self._kind, self._onward = net, kind, onward_of(net, kind)

    @cached_property
    def _sides(self) -> tuple[set[str], set[str]]:
        """From where one gets to the part in which all edges reach each other, and where one gets to from there."""
        onward, (inside, *_) = self._onward, largest_component(self._onward)
        return reached(backward(onward), inside, onward), reached(onward, inside, onward)

    def fault(self, edges: Sequence[str], whole: bool) -> str:
        """Why one edge after the other cannot be driven, or without `whole` any ways between them; "" if they can."""
        for edge in edges:
            if edge not in self._onward:
                why = f"is closed for the class {self._kind}" if self._net.hasEdge(edge) else "is not there"
                return f"is to use '{edge}', which {why}"
        for edge, after in pairwise(edges):
            if not (after in self._onward[edge] if whole else self._leads(edge, after)):
                of = "" if self._kind == ANY else f" for the class {self._kind}"
                return f"cannot go on from '{edge}' to '{after}': they are not connected{of}"
        return ""

    def _leads(self, start: str, goal: str) -> bool:
        """Whether any way leads from one edge to another."""
        before, after = self._sides
        return (start in before and goal in after) or goal in reached(self._onward, start, self._onward)
