"""What events will need from memory, asked for before they happen.

In a system of 100,000 devices every event of a device finds its rows outside the cache, and an event waits
longer for them than it computes. So rows are asked for when a bucket of events is poured into the heap, in steps
through the whole bucket, each by what the one before has brought: many rows are then on their way at once.
Nothing here changes the state; row -1, where there is none, may be asked for as well. Small systems, which stay in the
cache, skip most.
"""

from __future__ import annotations

from typing import Final

from cosim.compiled.rowtypes import LINE
from cosim.engine.continuum import memory
from cosim.engine.continuum.indices import HYBRID, NEAREST
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import DOWN, Record
from cosim.engine.continuum.numbering import downlink, first_link_station, link_station, node_of, processor, uplink
from cosim.engine.continuum.paths import next_hop
from cosim.engine.continuum.queue import Lookahead, prefetch

SMALL: Final = 20_000  # event numbers of sources, stations and timers


@jit
def _station(s: Record, j: int) -> None:
    """The station and when it is due."""
    prefetch(s.stations + memory.STATION_SIZE * j)
    prefetch(s.due + 8 * (s.source_count + j))


@jit
def _hop(s: Record, here: int, there: int) -> None:
    """The link of the first hop between two nodes that forward, and its stations."""
    if memory.node(s.nodes, here).infra >= 0 and memory.node(s.nodes, there).infra >= 0:
        link = next_hop(s, here, there)
        if link >= 0:
            prefetch(s.links + memory.LINK_SIZE * link)
            prefetch(s.stations + memory.STATION_SIZE * link_station(s.node_count, link, 0))
            prefetch(s.stations + memory.STATION_SIZE * link_station(s.node_count, link, 1))


@jit
def warm(s: Record, number: int) -> None:
    """The row of the event itself."""
    if number < s.source_count:
        prefetch(s.sources + memory.SOURCE_SIZE * number)
    elif number < s.source_count + s.station_count:
        j = number - s.source_count
        prefetch(s.stations + memory.STATION_SIZE * j)
        if j < first_link_station(s.node_count):
            prefetch(s.nodes + memory.NODE_SIZE * node_of(j))
            if j == processor(node_of(j)):
                prefetch(s.stations + memory.STATION_SIZE * j + LINE)
        else:
            prefetch(s.links + memory.LINK_SIZE * ((j - first_link_station(s.node_count)) >> 1))
    elif number >= s.first_event:
        i = (number - s.first_event) >> 1
        prefetch(s.tasks + memory.TASK_SIZE * i)
        prefetch(s.tasks + memory.TASK_SIZE * i + LINE)


@jit
def follow(s: Record, number: int) -> None:
    """The device of a source, a station's first task, the nodes of a task."""
    if number < s.source_count:
        n = memory.source(s.sources, number).node
        prefetch(s.nodes + memory.NODE_SIZE * n)
        _station(s, uplink(n))
    elif s.ahead == 0:
        return
    elif number < s.source_count + s.station_count:
        j = number - s.source_count
        i = memory.station(s.stations, j).root
        if i >= 0:
            prefetch(s.due + 8 * (s.first_event + 2 * i))
            for line in range(3 if j < first_link_station(s.node_count) and j == processor(node_of(j)) else 1):
                prefetch(s.tasks + memory.TASK_SIZE * i + LINE * line)
    elif number >= s.first_event:
        i = (number - s.first_event) >> 1
        t = memory.task(s.tasks, i)
        prefetch(s.nodes + memory.NODE_SIZE * t.at)
        if t.phase == DOWN:
            prefetch(s.nodes + memory.NODE_SIZE * t.device)
            if t.at == t.device:
                prefetch(s.tasks + memory.TASK_SIZE * i + 2 * LINE)
                prefetch(s.nodes + memory.NODE_SIZE * t.host + 2 * LINE)
        elif t.host >= 0:
            prefetch(s.nodes + memory.NODE_SIZE * t.host)
            if t.at == t.host:
                prefetch(s.tasks + memory.TASK_SIZE * i + 2 * LINE)
                prefetch(s.nodes + memory.NODE_SIZE * t.host + 2 * LINE)
                prefetch(s.stations + memory.STATION_SIZE * processor(t.host))
                prefetch(s.stations + memory.STATION_SIZE * processor(t.host) + LINE)


@jit
def soon(s: Record, number: int) -> None:
    """A source's cell, what comes after a station's first task, where a task goes."""
    if number < s.source_count:
        cell = memory.node(s.nodes, memory.source(s.sources, number).node).cell
        if cell >= 0:
            prefetch(s.nodes + memory.NODE_SIZE * cell)
    elif number < s.source_count + s.station_count:
        j = number - s.source_count
        i = memory.station(s.stations, j).root
        if i >= 0:
            t = memory.task(s.tasks, i)
            if t.child >= 0:
                prefetch(s.tasks + memory.TASK_SIZE * t.child)
            if t.host >= 0 and j == processor(t.host):
                prefetch(s.nodes + memory.NODE_SIZE * t.device)
                prefetch(s.hosts + memory.HOST_SIZE * memory.node(s.nodes, t.host).host)
    elif number >= s.first_event:
        t = memory.task(s.tasks, (number - s.first_event) >> 1)
        if t.phase == DOWN:
            cell = memory.node(s.nodes, t.device).cell
            if cell == t.at:
                _station(s, downlink(t.device))
            elif cell >= 0 and t.at != t.device:
                _hop(s, t.at, cell)
        elif t.host >= 0 and t.at != t.host:
            _hop(s, t.at, t.host)
        elif t.host >= 0:
            prefetch(s.hosts + memory.HOST_SIZE * memory.node(s.nodes, t.host).host)
            i = memory.station(s.stations, processor(t.host)).root
            if i >= 0:
                prefetch(s.tasks + memory.TASK_SIZE * i)


@jit
def last(s: Record, number: int) -> None:
    """The nearest host of a source's cell, where a computed task goes, the second of those that come after it."""
    if number < s.source_count:
        cell = memory.node(s.nodes, memory.source(s.sources, number).node).cell
        row = memory.node(s.nodes, cell).infra if cell >= 0 else -1
        if row >= 0 and (s.scheduler == NEAREST or s.scheduler == HYBRID):
            prefetch(s.hosts + memory.HOST_SIZE * memory.number(s.near, 2 * row).v)
    elif number < s.source_count + s.station_count:
        i = memory.station(s.stations, number - s.source_count).root
        if i >= 0:
            t = memory.task(s.tasks, i)
            if t.child >= 0 and memory.task(s.tasks, t.child).next >= 0:
                prefetch(s.tasks + memory.TASK_SIZE * memory.task(s.tasks, t.child).next)
            if t.host >= 0 and number - s.source_count == processor(t.host):
                cell = memory.node(s.nodes, t.device).cell
                if cell == t.host:
                    _station(s, downlink(t.device))
                elif cell >= 0:
                    _hop(s, t.host, cell)


LOOKAHEAD: Final = Lookahead(warm, follow, soon, last)
