"""Which parts of a system cannot meet before a given time, and what is due in each of them.

Two events can only influence each other through rows that both touch: of a station, a node, a task, a host. A device
touches its own rows and, as its data goes, those of the cell that serves it, of the hosts that the scheduler may
choose there, and of the nodes and links on the routes between them; a task in flight touches those of its device, of
its host and of the routes that are left to it. Cells, links and routes change only between two calls of
`Engine.advance`. So nodes joined by any of these are one region, and regions do not meet before the end of the
advance.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.rowtypes import LINE, copy_memory, prefetch
from cosim.contract.records import Floats, Records
from cosim.engine.continuum import memory
from cosim.engine.continuum.indices import FAR, NEAREST, OWN, RANDOM
from cosim.engine.continuum.jit import entry, jit
from cosim.engine.continuum.layout import FREE, WORKER_BITS, Record
from cosim.engine.continuum.numbering import first_link_station, node_of
from cosim.engine.continuum.paths import far_end, next_hop
from cosim.engine.continuum.queue import line_up
from cosim.engine.continuum.rows import task_number

Shorts = NDArray[np.int32]
Longs = NDArray[np.int64]

_SEEN, _WHOLE, _ENTERED = 1, 2, 3
_ODD = -2  # of a node that is more than a device with a cell
_MANY = 500  # items of a bucket
_AHEAD = 12  # rows that are asked for before they are read


@jit
def _find(parent: Shorts, n: int) -> int:
    """The node that stands for the region of node n."""
    while parent[n] != n:
        parent[n] = parent[parent[n]]
        n = parent[n]
    return n


@jit
def _unite(parent: Shorts, a: int, b: int) -> None:
    a, b = _find(parent, a), _find(parent, b)
    if a < b:
        parent[b] = a
    elif b < a:
        parent[a] = b


@jit
def _route(s: Record, parent: Shorts, here: int, there: int) -> None:
    """Unite all nodes on the route from `here` to `there`."""
    _unite(parent, here, there)
    if memory.node(s.nodes, here).infra < 0 or memory.node(s.nodes, there).infra < 0:
        return
    for _ in range(s.infra_count):
        link = next_hop(s, here, there) if here != there else -1
        if link < 0:
            return
        here = far_end(s, link, here)
        _unite(parent, here, there)


@jit
def _unite_part(s: Record, parent: Shorts, seen: NDArray[np.int8], row: int) -> None:
    """Unite the whole connected part of the network that the forwarding node is in."""
    part = memory.number(s.part, row).v
    if seen[row] == _WHOLE or part < 0:
        return
    for other in range(s.infra_count):
        if memory.number(s.part, other).v == part:
            seen[other] = _WHOLE
            _unite(parent, memory.whole(s.infra, row).v, memory.whole(s.infra, other).v)


@jit
def _unite_hosts(s: Record, parent: Shorts, seen: NDArray[np.int8], n: int) -> None:
    """Unite node n, where tasks enter the network, with the hosts that they may be given."""
    row = memory.node(s.nodes, n).infra
    if row < 0 or seen[row] != 0 or s.scheduler == OWN:
        return
    seen[row] = _SEEN
    if s.scheduler == RANDOM:
        _unite_part(s, parent, seen, row)
        return
    for which in range(2):  # nearest host, nearest cloud host
        h = memory.number(s.near, 2 * row + which).v
        if h >= 0 and s.scheduler != (NEAREST if which == 1 else FAR) and (which == 0 or s.apart == 0):
            host = memory.host(s.hosts, h).slot
            _route(s, parent, n, host)
            _route(s, parent, host, n)


@jit
def _mark(s: Record, parent: Shorts, region: Shorts, here: int, there: int, own: int) -> None:
    """Let region 0 have the nodes on the route from `here` to `there` that are not in the region of node `own`."""
    own = _find(parent, own)
    for _ in range(s.infra_count):
        if _find(parent, here) != own:
            region[_find(parent, here)] = 0
        link = next_hop(s, here, there) if here != there else -1
        if link < 0:
            return
        here = far_end(s, link, here)


@jit
def _mark_shared(s: Record, parent: Shorts, seen: NDArray[np.int8], region: Shorts) -> None:
    """Let region 0 have all that leads from anywhere to the cloud host that may be chosen there, and back."""
    for row in range(s.infra_count):
        h = memory.number(s.near, 2 * row + 1).v
        if seen[row] != 0 and h >= 0:
            n, host = memory.whole(s.infra, row).v, memory.host(s.hosts, h).slot
            region[_find(parent, host)] = 0
            _mark(s, parent, region, n, host, n)
            _mark(s, parent, region, host, n, n)


@jit
def _unite_device(s: Record, parent: Shorts, seen: NDArray[np.int8], n: int) -> None:
    """Unite node n with what serves it."""
    node = memory.node(s.nodes, n)
    if node.infra >= 0 and node.sources > 0:
        _unite_hosts(s, parent, seen, n)
    attachments = node.links
    if node.cell >= 0:
        attachments += 1
        _unite(parent, n, node.cell)
        if node.sources > 0:
            _unite_hosts(s, parent, seen, node.cell)
    for k in range(node.first_link, node.first_link + node.links):
        far = far_end(s, memory.whole(s.access, k).v, n)
        _unite(parent, n, far)
        if node.sources > 0:
            _unite_hosts(s, parent, seen, far)
    if attachments > 1 and s.scheduler != OWN:  # the hosts are compared by several routes at once
        for k in range(node.first_link, node.first_link + node.links):
            far = far_end(s, memory.whole(s.access, k).v, n)
            if memory.node(s.nodes, far).infra >= 0:
                _unite_part(s, parent, seen, memory.node(s.nodes, far).infra)
        if node.cell >= 0 and memory.node(s.nodes, node.cell).infra >= 0:
            _unite_part(s, parent, seen, memory.node(s.nodes, node.cell).infra)


@jit
def _near(s: Record, i: int) -> bool:
    """Whether task i, in flight, comes to no other node than its device and the cell that serves it."""
    t = memory.task(s.tasks, i)
    device, here, host = t.device, t.at, t.host
    if t.station >= first_link_station(s.node_count):
        return False
    if host == device == here:
        return True  # it stays where it was made
    node = memory.node(s.nodes, device)
    return bool(host == node.cell >= 0 and node.links == 0 and here in (device, node.cell))


@jit
def _unite_task(s: Record, parent: Shorts, i: int) -> None:
    """Unite the nodes that task i, in flight, may still come to."""
    t = memory.task(s.tasks, i)
    device, here, host = t.device, t.at, t.host
    base = first_link_station(s.node_count)
    node = memory.node(s.nodes, device)
    cell = node.cell
    _unite(parent, device, here)
    if base <= t.station < s.first_accelerator:
        link = memory.link(s.links, (t.station - base) >> 1)
        here = link.b if ((t.station - base) & 1) == 0 else link.a
        _unite(parent, device, here)
    if host < 0:
        return
    _route(s, parent, here, host)
    if cell >= 0:
        _route(s, parent, cell, host)
        _route(s, parent, host, cell)
        _route(s, parent, here, cell)
    if node.infra >= 0:
        _route(s, parent, device, host)
        _route(s, parent, host, device)
        _route(s, parent, here, device)
    for k in range(node.first_link, node.first_link + node.links):
        far = far_end(s, memory.whole(s.access, k).v, device)
        _route(s, parent, far, host)
        _route(s, parent, host, far)
        _route(s, parent, here, far)
        if cell >= 0:
            _route(s, parent, cell, far)
    _unite(parent, device, host)


@jit
def _owner(s: Record, number: int) -> int:
    """The node in whose region event `number` is."""
    if number < s.source_count:
        return int(memory.source(s.sources, number).node)
    if number >= s.first_event:
        return int(memory.task(s.tasks, (number - s.first_event) >> 1).device)
    number -= s.source_count
    if number < s.station_count:
        base = first_link_station(s.node_count)
        if number < base:
            return int(node_of(number))
        if number >= s.first_accelerator:
            return int(memory.accelerator(s.accelerators, number - s.first_accelerator).node)
        link = memory.link(s.links, (number - base) >> 1)
        return int(link.a if ((number - base) & 1) == 0 else link.b)
    number -= s.station_count
    if number < s.node_count:
        return int(number)
    return int(memory.machine(s.machines, (number - s.node_count) // 3).node)  # there are no batteries


@entry
def attach(
    meta: Records, part: int, parts: int, parent: Shorts, region: Shorts, seen: NDArray[np.int8], others: Shorts,
    counts: Longs,
) -> None:  # fmt: skip
    """Begin with devices that only a cell serves: each is in the region of its cell.

    All other nodes stand for themselves and are marked as odd. Tasks that need a closer look are listed in
    `others`: `counts[part]` of them, starting at the first task of this part. Each of `parts` threads handles one
    part.
    """
    s = meta[0]
    for n in range(s.node_count * part // parts, s.node_count * (part + 1) // parts):
        node = memory.node(s.nodes, n)
        parent[n], region[n] = n, -1
        if node.present != 0:
            row = memory.node(s.nodes, node.cell).infra if node.cell >= 0 else -1
            if row >= 0 and node.infra < 0 and node.links == 0:
                parent[n] = node.cell
                if node.sources > 0:
                    seen[row] = _ENTERED
            else:
                region[n] = _ODD
    first = s.peak * part // parts
    count = first
    for i in range(first, s.peak * (part + 1) // parts):
        if memory.task(s.tasks, i).phase != FREE and not _near(s, i):
            others[count] = i
            count += 1
    counts[part] = count - first


@entry
def join(meta: Records, parent: Shorts, region: Shorts, seen: NDArray[np.int8], others: Shorts, counts: Longs) -> int:
    """Give each node the number of its region, after `attach`; the number of regions.

    With `META.apart` region 0 is what the others share as soon as one of them sends a task to the cloud, and with it
    those that have tasks there.
    """
    s = meta[0]
    for row in range(s.infra_count):
        if seen[row] == _ENTERED:
            seen[row] = 0
            _unite_hosts(s, parent, seen, memory.whole(s.infra, row).v)
    for n in range(s.node_count):
        if region[n] == _ODD:
            region[n] = -1
            _unite_device(s, parent, seen, n)
    parts = len(counts)
    for part in range(parts):
        first = s.peak * part // parts
        for k in range(first, first + counts[part]):
            _unite_task(s, parent, others[k])
    regions = 0
    if s.apart != 0:
        regions = 1
        _mark_shared(s, parent, seen, region)
    for n in range(s.node_count):
        if parent[n] == n and region[n] < 0:
            region[n] = regions
            regions += 1
    for n in range(s.node_count):
        region[n] = region[_find(parent, n)]
    return regions


@entry
def count_due(
    meta: Records, until: float, part: int, parts: int, region: Shorts, found: Shorts, counts: Shorts
) -> None:
    """Find what is due up to `until` in a part of all events, and count it by region.

    `found` gets numbers of events and regions in turn, from twice the first number of the part on, then -1 if there is
    room; `counts` (regions,) is of this part.
    """
    s = meta[0]
    events = s.first_event + 2 * s.peak
    counts[:] = 0
    k, end = 2 * (events * part // parts), 2 * (events * (part + 1) // parts)
    for number in range(k >> 1, end >> 1):
        if memory.real(s.due, number).v <= until:
            r = region[_owner(s, number)]
            found[k], found[k + 1] = number, r
            counts[r] += 1
            k += 2
    if k < end:
        found[k] = -1


@entry
def deal(meta: Records, part: int, parts: int, found: Shorts, dealt: Shorts, places: Shorts) -> None:
    """Write what `count_due` has found in a part to where the events of its region are to be, the lowest number first.

    `places` (regions,): where the next event of each region goes.
    """
    s = meta[0]
    events = s.first_event + 2 * s.peak
    for k in range(2 * (events * part // parts), 2 * (events * (part + 1) // parts), 2):
        number = found[k]
        if number < 0:
            break
        r = found[k + 1]
        dealt[places[r]] = number
        places[r] += 1


@entry
def still_due(meta: Records, until: float, left: Shorts) -> int:
    """Write into `left` what is still due up to `until`, the lowest number first; how many events that is."""
    s = meta[0]
    count = 0
    for number in range(s.first_event + 2 * s.peak):
        if memory.real(s.due, number).v <= until:
            left[count] = number
            count += 1
    return count


@entry
def deal_rows(meta: Records, heads: Longs, counts: Longs) -> None:
    """Cut the list of free rows into lists of `counts` rows, which begin at `heads`."""
    s = meta[0]
    i = s.free
    for k in range(len(counts)):
        heads[k] = i if counts[k] > 0 else -1
        for c in range(counts[k]):
            t = memory.task(s.tasks, i)
            i = t.newer
            if c == counts[k] - 1:
                t.newer = -1


@entry
def rank(order: Longs, places: Longs, start: Longs, time: Floats, tie: Longs, part: int, parts: int) -> bool:
    """Write into `order` the numbers of the items by time, then `tie`, then number.

    Of `parts` equal spans of time only `part` is ordered, so that threads may share the work. `places` gets each
    item's position in `order`, unless it has no room; `start` is scratch room of this part.

    A bucket sort by time, with an insertion sort within each bucket; False if a bucket has many items.
    """
    count = len(order)
    if count == 0:
        return True
    least, most = math.inf, -math.inf
    for k in range(count):
        least, most = min(least, time[k]), max(most, time[k])
    last = len(start) - 1
    low, high = last * part // parts, last * (part + 1) // parts
    scale = (last - 1) / (most - least) if most > least else 0.0
    if not scale < math.inf:
        scale = 0.0
    start[: high - low + 1] = 0
    before = 0
    for k in range(count):
        b = min(last - 1, int((time[k] - least) * scale))
        if low <= b < high:
            start[b - low + 1] += 1
        elif b < low:
            before += 1
    start[0] = before
    for b in range(high - low):
        if start[b + 1] > _MANY:
            return False
        start[b + 1] += start[b]
    end = start[high - low]
    for k in range(count):
        b = min(last - 1, int((time[k] - least) * scale))
        if low <= b < high:
            order[start[b - low]] = k
            start[b - low] += 1
    for k in range(before + 1, end):
        one, at = order[k], k
        while at > before:
            other = order[at - 1]
            if time[other] < time[one] or (
                time[other] == time[one] and (tie[other] < tie[one] or (tie[other] == tie[one] and other < one))
            ):
                break
            order[at] = other
            at -= 1
        order[at] = one
    if len(places) > 0:
        for k in range(before, end):
            places[order[k]] = k
    return True


@jit
def _place_of(serial: int, base: int, first: Longs) -> int:
    """Where a task made in this advance is among all of these, -1: it was made before."""
    serial -= base
    if serial < 0:
        return -1
    return int(first[serial >> WORKER_BITS] + (serial & ((1 << WORKER_BITS) - 1)))


@entry
def gather(meta: Records, ended: Longs, done: Longs, size: int) -> None:
    """Move the rows that workers have written at the addresses `ended` behind those of `meta`; `size` is a row's B."""
    s = meta[0]
    for k in range(len(ended)):
        target = s.ended + size * s.done
        if target != ended[k]:
            for row in range(done[k]):
                copy_memory(target + size * row, ended[k] + size * row, size)
        s.done += done[k]


@entry
def note(meta: Records, rows: int, until: int, base: int, first: Longs, time: Floats, tie: Longs, flying: bool) -> None:
    """Note when and by which source each task of this advance was made: those in `ended` from `rows` to `until`.

    With `flying` also those that have not ended, and put free rows into order. `first[k]` is how many tasks workers
    before worker k have made.
    """
    s = meta[0]
    loads = s.workload_count
    for k in range(rows, until):
        row = memory.ended(s.ended, k)
        place = _place_of(row.serial, base, first)
        if place >= 0:
            time[place], tie[place] = row.created, row.device * loads + row.workload
    if not flying:
        return
    free = -1
    for i in range(s.task_room - 1, -1, -1):
        t = memory.task(s.tasks, i)
        if t.phase == FREE:
            t.newer = free
            free = i
        else:
            place = _place_of(t.serial, base, first)
            if place >= 0:
                time[place], tie[place] = t.created, t.device * loads + t.workload
    s.free = free


@entry
def renumber(meta: Records, rows: int, until: int, base: int, first: Longs, places: Longs, flying: bool) -> None:
    """Give the tasks of this advance the numbers that follow `base`, in the order `places`: rows as in `note`."""
    s = meta[0]
    for k in range(rows, until):
        row = memory.ended(s.ended, k)
        place = _place_of(row.serial, base, first)
        if place >= 0:
            row.serial = base + places[place]
    if not flying:
        return
    for i in range(s.peak):
        t = memory.task(s.tasks, i)
        if t.phase != FREE:
            place = _place_of(t.serial, base, first)
            if place >= 0:
                t.serial = base + places[place]
    s.serial = base + len(places)


@entry
def line_all_up(meta: Records) -> None:
    """Put all events that are due into the queue, which is empty."""
    s = meta[0]
    s.horizon = math.inf
    for k in range(s.first_event + 2 * s.task_room):
        time = memory.real(s.due, k).v
        if time < math.inf:
            i = (k - s.first_event) >> 1
            line_up(s, k if i < 0 else task_number(s, i) + ((k - s.first_event) & 1), time)


@entry
def keys(words: Longs, rows: int, fields: int, time: int, serial: int, times: Floats, ties: Longs) -> bool:
    """Copy two of the 8-byte fields of rows; whether the rows are in the order of both."""
    values = words.view(np.float64)
    sorted_ = True
    for k in range(rows):
        times[k], ties[k] = values[k * fields + time], words[k * fields + serial]
        if k > 0 and (times[k] < times[k - 1] or (times[k] == times[k - 1] and ties[k] < ties[k - 1])):
            sorted_ = False
    return sorted_


@entry
def turn(address: int, words: Longs, order: Longs, fields: int, first: int, last: int, columns: Longs) -> None:
    """Write rows `order[first : last]` of so many 8-byte fields into `columns`, one field after the other.

    `address` is that of `words`.
    """
    rows = len(order)
    for k in range(first, last):
        if k + _AHEAD < last:
            ahead = address + 8 * fields * order[k + _AHEAD]
            for line in range(0, 8 * fields, LINE):
                prefetch(ahead + line)
        row = order[k] * fields
        for f in range(fields):
            columns[f * rows + k] = words[row + f]
