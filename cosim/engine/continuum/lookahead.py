"""What events will need from memory, asked for before they happen.

In a system of 100,000 devices every event of a device finds its rows outside the cache, and an event waits
longer for them than it computes. So rows are asked for in steps as an event comes nearer, each step by what
the one before has brought: a bucket's entries when it is poured into the heap (`warm`, then `follow`), what
they lead to when few events are before them (`near`, `soon`, `last`). Nothing here changes the state.
Small systems, which stay in the cache, skip the last three.
"""

from __future__ import annotations

from typing import Final

from cosim.compiled.rowtypes import LINE
from cosim.engine.continuum import memory
from cosim.engine.continuum.heap import NUMBER
from cosim.engine.continuum.indices import HYBRID, NEAREST
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import DOWN, Record
from cosim.engine.continuum.numbering import downlink, first_link_station, link_station, node_of, processor, uplink
from cosim.engine.continuum.paths import next_hop
from cosim.engine.continuum.queue import Lookahead, prefetch
from cosim.engine.continuum.rows import task_number

SMALL: Final = 20_000  # event numbers of sources, stations and timers


@jit
def _station(s: Record, j: int) -> None:
    """The station and when it is due."""
    prefetch(s.stations + memory.STATION_SIZE * j)
    prefetch(s.due + 8 * (s.source_count + j))


@jit
def _host(s: Record, n: int) -> None:
    """Node n, which computes, and its processor."""
    prefetch(s.nodes + memory.NODE_SIZE * n)
    prefetch(s.nodes + memory.NODE_SIZE * n + 2 * LINE)
    prefetch(s.stations + memory.STATION_SIZE * processor(n))
    prefetch(s.stations + memory.STATION_SIZE * processor(n) + LINE)


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
    elif number >= s.first_event:
        i = (number - s.first_event) >> 1
        for line in range(3):
            prefetch(s.tasks + memory.TASK_SIZE * i + LINE * line)


@jit
def follow(s: Record, number: int) -> None:
    """The device of a source."""
    if number < s.source_count:
        n = memory.source(s.sources, number).node
        prefetch(s.nodes + memory.NODE_SIZE * n)
        _station(s, uplink(n))


@jit
def near(s: Record, number: int) -> None:
    """A source's cell, a station's first task, the nodes of a task."""
    if s.ahead == 0:
        return
    if number < s.source_count:
        cell = memory.node(s.nodes, memory.source(s.sources, number).node).cell
        if cell >= 0:
            prefetch(s.nodes + memory.NODE_SIZE * cell)
    elif number < s.source_count + s.station_count:
        i = memory.station(s.stations, number - s.source_count).root
        if i >= 0:
            for line in range(3):
                prefetch(s.tasks + memory.TASK_SIZE * i + LINE * line)
            prefetch(s.due + 8 * (task_number(s, i) & NUMBER))
    elif number >= s.first_event:
        t = memory.task(s.tasks, (number - s.first_event) >> 1)
        prefetch(s.nodes + memory.NODE_SIZE * t.device)
        prefetch(s.nodes + memory.NODE_SIZE * t.at)
        if t.phase == DOWN:
            _station(s, downlink(t.device))
        elif t.host >= 0:
            _host(s, t.host)


@jit
def soon(s: Record, number: int) -> None:
    """The nearest host of a source's cell, the nodes of a station's first task, what comes after this one."""
    if s.ahead == 0:
        return
    if number < s.source_count:
        cell = memory.node(s.nodes, memory.source(s.sources, number).node).cell
        row = memory.node(s.nodes, cell).infra if cell >= 0 else -1
        if row >= 0 and (s.scheduler == NEAREST or s.scheduler == HYBRID):
            h = memory.number(s.near, 2 * row).v
            if h >= 0:
                prefetch(s.hosts + memory.HOST_SIZE * h)
    elif number < s.source_count + s.station_count:
        i = memory.station(s.stations, number - s.source_count).root
        if i >= 0:
            t = memory.task(s.tasks, i)
            if t.child >= 0:
                prefetch(s.tasks + memory.TASK_SIZE * t.child)
            prefetch(s.nodes + memory.NODE_SIZE * t.device)
            if t.host >= 0:
                _host(s, t.host)
                if number - s.source_count == processor(t.host):
                    _station(s, downlink(t.device))
    elif number >= s.first_event:
        t = memory.task(s.tasks, (number - s.first_event) >> 1)
        if t.phase == DOWN:
            cell = memory.node(s.nodes, t.device).cell
            if cell >= 0 and cell != t.at:
                _hop(s, t.at, cell)
        elif t.host >= 0 and t.at != t.host:
            _hop(s, t.at, t.host)
        elif t.host >= 0:
            h = memory.node(s.nodes, t.host).host
            if h >= 0:
                prefetch(s.hosts + memory.HOST_SIZE * h)
            i = memory.station(s.stations, processor(t.host)).root
            if i >= 0:
                prefetch(s.tasks + memory.TASK_SIZE * i)


@jit
def last(s: Record, number: int) -> None:
    """The host of a station's first task, and the second of those that come after this one."""
    if s.ahead == 0:
        return
    if s.source_count <= number < s.source_count + s.station_count:
        i = memory.station(s.stations, number - s.source_count).root
        if i >= 0:
            t = memory.task(s.tasks, i)
            if t.child >= 0 and memory.task(s.tasks, t.child).next >= 0:
                prefetch(s.tasks + memory.TASK_SIZE * memory.task(s.tasks, t.child).next)
            if t.host >= 0 and memory.node(s.nodes, t.host).host >= 0:
                prefetch(s.hosts + memory.HOST_SIZE * memory.node(s.nodes, t.host).host)
                cell = memory.node(s.nodes, t.device).cell
                if number - s.source_count == processor(t.host) and cell >= 0 and cell != t.host:
                    _hop(s, t.host, cell)


LOOKAHEAD: Final = Lookahead(warm, follow, near, soon, last)
