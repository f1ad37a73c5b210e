"""The compiled entry point: runs events up to a time, or makes one change to the world."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import codes
from cosim.compiled.rowtypes import copy_memory
from cosim.contract.records import Records
from cosim.engine.continuum import layout as l
from cosim.engine.continuum import memory
from cosim.engine.continuum.draw import JITTER, stream, uniform
from cosim.engine.continuum.ending import abort, clean, release
from cosim.engine.continuum.flow import proceed
from cosim.engine.continuum.indices import book, goes_beyond
from cosim.engine.continuum.jit import entry, jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.lookahead import LOOKAHEAD
from cosim.engine.continuum.making import hand_on
from cosim.engine.continuum.numbering import downlink, first_link_station, link_station, node_of, processor, uplink
from cosim.engine.continuum.paths import serving_node, technology_of
from cosim.engine.continuum.patience import arm, lose_patience, unpark
from cosim.engine.continuum.placing import consult, decide, place
from cosim.engine.continuum.queue import abandon, drop, line_up, prefetch, put, queue, restart
from cosim.engine.continuum.rows import task_number, timer_number
from cosim.engine.continuum.sources import arrive, begin, halt
from cosim.engine.continuum.station import changed, leave, served, set_rate, touch
from cosim.engine.continuum.sums import add

DONE, GROW, ASK, MOVED, FULL, BEYOND = codes(6)  # answers of `act`; BEYOND: of `_advance` to `_regions`
# what to do
(
    ADVANCE, PLACE, APPEAR, VANISH, RADIO, NODE_DOWN, NODE_UP, LINK_STATE, RETRY, SPEED, BRANCH, FIGURES, REGIONS, HALT,
    SERVE,
) = codes(15)  # fmt: skip


take_next = queue(LOOKAHEAD).take_next
_CACHED = 10_000  # events of a region whose rows stay in the cache


@jit
def _fly(s: Record, i: int, delay: float, now: float) -> int:
    """Let task i go on after a delay; return the task if the delay is 0, else NOBODY."""
    if delay > 0.0:
        put(s, task_number(s, i), now + delay)
        return int(l.NOBODY)
    return i


@jit
def _computed(s: Record, i: int, now: float) -> int:
    """End the computation of task i, which has left its station; return the task if it goes on now, else NOBODY."""
    t = memory.task(s.tasks, i)
    t.computed = now
    release(s, i, now)
    if t.counted != 0:
        t.counted = 0
        book(s, memory.node(s.nodes, t.host).host, t.workload, -1)
    if t.job >= 0 and hand_on(s, i, now):
        return int(l.NOBODY)
    t.phase = l.DOWN
    add(s, l.OUTPUT_OFFERED, t.output)
    return i


@jit
def _served(s: Record, j: int, now: float) -> int:
    """End the service of the first task of station j; return the task if it goes on now, else NOBODY."""
    station = memory.station(s.stations, j)
    i = station.root
    t = memory.task(s.tasks, i)
    touch(station, now)
    station.virtual = t.tag  # what rounding left
    leave(s, i, now)
    nodes = s.node_count
    if j >= s.first_accelerator:
        memory.accelerator(s.accelerators, j - s.first_accelerator).completed += 1
        return _computed(s, i, now)
    if j >= first_link_station(nodes):
        link = (j - first_link_station(nodes)) >> 1
        way = (j - first_link_station(nodes)) & 1
        t.at = memory.link(s.links, link).b if way == 0 else memory.link(s.links, link).a
        delay = memory.link(s.links, link).delay + memory.link(s.links, link).added
        if memory.link(s.links, link).jitter > 0.0:
            key = stream(s.seed, link, way, s.workload_count)
            late = 2.0 * uniform(key, t.serial * 8 + t.phase, JITTER) - 1.0
            delay = max(0.0, delay + memory.link(s.links, link).jitter * late)
        return _fly(s, i, delay, now)
    n = node_of(j)
    if j == processor(n):
        if t.phase == l.NEW:  # its decision has had its time
            s.consulted += 1
            s.delayed += now - t.created
            return int(i)
        if t.operations <= 0.0:
            return _computed(s, i, now)
        memory.equipment(s, l.ACCELERATE, memory.node(s.nodes, n).machine, i, now)
        return int(l.NOBODY)
    t.at = memory.node(s.nodes, n).cell if j == uplink(n) else n
    return _fly(s, i, memory.node(s.nodes, n).delay, now)


@jit
def _timer(s: Record, number: int, now: float) -> None:
    """The timer of a node, a machine or a battery."""
    if number < s.node_count:
        lose_patience(s, number, now)
        return
    number -= s.node_count
    if number >= 3 * s.machine_count:
        b = number - 3 * s.machine_count
        memory.equipment(s, l.DEPLETE, b, 0, now)
        _node_down(s, memory.battery(s.batteries, b).node, l.BATTERY_EMPTY)
    elif number % 3 == 0:
        memory.equipment(s, l.TICK, number // 3, 0, now)
    elif number % 3 == 1:
        memory.equipment(s, l.GOVERN, number // 3, 0, now)
    else:
        memory.equipment(s, l.REFILL, number // 3, 0, now)


@jit
def _later(s: Record, number: int, now: float) -> int:
    """Handle a timer, or a task after a delay; return the task if it goes on now, else NOBODY."""
    if number < s.first_event:
        _timer(s, number - s.source_count - s.station_count, now)
        return int(l.NOBODY)
    number -= s.first_event
    if number % 2 == 0:
        return number >> 1
    abort(s, number >> 1, l.DEADLINE, now)
    return int(l.NOBODY)


@jit
def _leaves(s: Record, number: int) -> bool:
    """Whether event `number` may give a task a host beyond the region that it is in."""
    if number < s.source_count:
        device = memory.source(s.sources, number).node
        at = device
    elif number >= s.first_event and (number - s.first_event) & 1 == 0:
        t = memory.task(s.tasks, (number - s.first_event) >> 1)
        if t.phase != l.NEW:
            return False
        device, at = t.device, t.at
    else:
        return False
    return goes_beyond(s, device, at, at if at != device else serving_node(s, device))


@jit
def _advance(s: Record, until: float) -> int:
    """Handle all events up to and including `until`; before one that may leave a region that is `apart`: BEYOND."""
    while True:
        # one event makes `burst` rows at most, and ends those of one device at most
        if s.task_room - s.live < s.burst or s.ended_room - s.done <= s.live + s.jobs_live:
            return GROW
        number = take_next(s, until)
        if number < 0:
            break
        now = s.now
        if s.apart != 0 and _leaves(s, number):
            memory.real(s.due, number).v = now
            s.events -= 1
            return BEYOND
        from_station = s.source_count <= number < s.source_count + s.station_count
        if from_station:
            i = _served(s, number - s.source_count, now)
        elif number < s.source_count:
            i = arrive(s, number, now)
        else:
            i = _later(s, number, now)
        if s.decider >= 0 and not from_station and i >= 0 and memory.task(s.tasks, i).phase == l.NEW:
            i = consult(s, i, now)
        if i >= 0 and (memory.task(s.tasks, i).phase != l.NEW or decide(s, i, now)):
            proceed(s, i, now)
        if i >= 0 and memory.task(s.tasks, i).parked == l.RETRIES and memory.task(s.tasks, i).held == 0:
            memory.task(s.tasks, i).parked = 0
        if s.doomed >= 0:
            clean(s, now)
        if s.undecided >= 0:
            return ASK
        if s.moved != 0:
            s.moved = 0
            return MOVED
    s.now = until
    return DONE


@jit
def refresh_radio(s: Record, n: int) -> None:
    """Carry what is known of the device's radio and cell over to its stations."""
    node, now = memory.node(s.nodes, n), s.now
    covered = (
        node.present != 0
        and node.cell >= 0
        and memory.node(s.nodes, node.cell).up != 0
        and memory.node(s.nodes, node.cell).infra >= 0
        and node.up_rate > 0.0
        and node.down_rate > 0.0
    )
    set_rate(s, uplink(n), node.up_rate if covered else 0.0, now)
    set_rate(s, downlink(n), node.down_rate if covered else 0.0, now)
    if covered and node.covered == 0:
        node.covered = 1
        drop(s, timer_number(s, n))
        unpark(s, n, now)
    elif not covered and node.covered != 0:
        node.covered = 0
        node.outage = now
        arm(s, n)


@jit
def _abort_all(s: Record, n: int, status: int) -> None:
    """End all tasks that device n made."""
    while memory.node(s.nodes, n).first_task >= 0:
        abort(s, memory.node(s.nodes, n).first_task, status, s.now)


@jit
def _turn(s: Record, n: int, what: int, boots: int) -> None:
    """Node n is there or not, up or down, otherwise than before: so are its machine and its power."""
    if memory.node(s.nodes, n).machine >= 0:
        memory.equipment(s, what, memory.node(s.nodes, n).machine, boots, s.now)
        return
    touch(memory.station(s.stations, processor(n)), s.now)
    changed(s, processor(n), s.now)


@jit
def _hand_over(s: Record, n: int, cell: int) -> None:
    """Book what device n has sent and received to the cell that served it; another one serves it now."""
    node, now = memory.node(s.nodes, n), s.now
    if node.cell == cell:
        return
    if node.cell >= 0:
        up = served(memory.station(s.stations, uplink(n)), now)
        down = served(memory.station(s.stations, downlink(n)), now)
        old, row = memory.node(s.nodes, node.cell), 2 * (n * s.technology_count + technology_of(s, n))
        old.cell_received += up - node.marked_up
        old.cell_sent += down - node.marked_down
        memory.real(s.air, row).v += up - node.marked_up
        memory.real(s.air, row + 1).v += down - node.marked_down
        node.marked_up, node.marked_down = up, down
    node.cell = cell
    if s.battery_count > 0:
        memory.equipment(s, l.SETTLE, processor(n), 0, now)


@jit
def _appear(s: Record, n: int, generation: int) -> None:
    node, now = memory.node(s.nodes, n), s.now
    node.present, node.up, node.covered = 1, 1, 0
    node.cell, node.outage, node.generation = -1, now, generation
    _turn(s, n, l.TURN_ON, 0)
    if node.battery >= 0:
        memory.equipment(s, l.CHARGE, n, 0, now)
    for k in range(node.first_source, node.first_source + node.sources):
        begin(s, k, now)


@jit
def _vanish(s: Record, n: int) -> None:
    node = memory.node(s.nodes, n)
    for k in range(node.first_source, node.first_source + node.sources):
        halt(s, k)
    _abort_all(s, n, l.LEFT)
    node.present = 0
    _hand_over(s, n, -1)
    refresh_radio(s, n)
    _turn(s, n, l.TURN_OFF, 0)
    if node.battery >= 0:
        memory.equipment(s, l.TAKE_AWAY, n, 0, s.now)


@jit
def _node_down(s: Record, n: int, status: int) -> None:
    """Fail node n, the tasks on it and those it makes; links that end there break."""
    if memory.node(s.nodes, n).up == 0:
        return
    now = s.now
    memory.node(s.nodes, n).up = 0
    if memory.node(s.nodes, n).host >= 0:
        memory.host(s.hosts, memory.node(s.nodes, n).host).up = 0
    base = first_link_station(s.node_count)
    for d in range(s.node_count):  # by device, as rows of tasks are in no order that means something
        i = memory.node(s.nodes, d).first_task
        while i >= 0:
            t = memory.task(s.tasks, i)
            older = t.older
            hit = d == n or (t.phase == l.RUN and t.host == n) or (t.station < 0 and t.at == n)
            hit = hit or t.station == processor(n)  # the decision about it is made there
            if base <= t.station < s.first_accelerator:
                link = memory.link(s.links, (t.station - base) >> 1)
                hit = hit or link.a == n or link.b == n
            if hit:
                abort(s, i, status, now)
            i = older
    _turn(s, n, l.TURN_OFF, 0)
    if status == l.BATTERY_EMPTY and memory.node(s.nodes, n).infra >= 0:
        s.moved = 1
    _refresh_served(s, n)


@jit
def _node_up(s: Record, n: int) -> None:
    node = memory.node(s.nodes, n)
    if node.up != 0 or (node.battery >= 0 and memory.battery(s.batteries, node.battery).empty != 0):
        return
    node.up = 1
    if node.host >= 0:
        memory.host(s.hosts, node.host).up = 1
    _turn(s, n, l.TURN_ON, 1)
    _refresh_served(s, n)


@jit
def _serve(s: Record, n: int, takes: bool, turns: int) -> None:
    """Host n takes tasks or not; its machine is turned on (1), off (-1), or left (0)."""
    memory.host(s.hosts, memory.node(s.nodes, n).host).up = 1 if takes else 0
    if turns != 0:
        _turn(s, n, l.TURN_ON if turns > 0 else l.TURN_OFF, 1)


@jit
def _refresh_served(s: Record, n: int) -> None:
    """Whether the cell of node n works has changed for the devices that it serves."""
    for d in range(s.node_count):
        if memory.node(s.nodes, d).cell == n:
            refresh_radio(s, d)


@jit
def _link_state(s: Record, number: int, factor: float, delay: float, loss: float) -> None:
    """Change link `number` against its nominal values; factor 0 breaks it."""
    link, now = memory.link(s.links, number), s.now
    link.added = delay
    rate = link.rate * factor * (1.0 - min(1.0, link.loss + loss - link.loss * loss))
    link.up = 1 if rate > 0.0 else 0
    base = link_station(s.node_count, number, 0)
    if link.up == 0:
        for d in range(s.node_count):
            i = memory.node(s.nodes, d).first_task
            while i >= 0:
                t = memory.task(s.tasks, i)
                older = t.older
                if t.station == base or t.station == base + 1:
                    abort(s, i, l.LINK_FAILED, now)
                i = older
    set_rate(s, base, rate, now)
    set_rate(s, base + 1, rate * link.back, now)


@jit
def _has_room(s: Record, answers: int) -> bool:
    """Whether there is room for all that may end, and for the rows that so many answers may take."""
    return bool(s.ended_room - s.done > s.live + s.jobs_live and s.task_room - s.live >= answers * s.burst)


@jit
def _place_all(s: Record, slots: NDArray[np.int64], first: int, last: int) -> None:
    """Carry out the decisions in these rows."""
    for row in range(first, last):
        asked = s.undecided == slots[row, 0]
        s.undecided = -1
        if place(s, slots[row, 0], slots[row, 1], asked, s.now):
            proceed(s, slots[row, 0], s.now)
        clean(s, s.now)


@jit
def _figures(s: Record, values: NDArray[np.float64], row: int) -> None:
    """Write the figures of `cosim.engine.continuum.branch`: counts, sum of responses, J, busy s, events, spare s."""
    created = late = completed = failed = 0
    for load in range(s.workload_count):
        tally = load * (2 + l.STATUSES)
        created += memory.whole(s.tally, tally).v
        late += memory.whole(s.tally, tally + 1).v
        completed += memory.whole(s.tally, tally + 2).v
        for status in range(1, l.STATUSES):
            failed += memory.whole(s.tally, tally + 2 + status).v
    response = energy = busy = spare = 0.0
    for k in range(s.done):
        ended = memory.ended(s.ended, k)
        if ended.status == l.COMPLETED and ended.stage < 0:
            response += ended.ended - ended.created
            spare += s.now - ended.ended
    for n in range(s.node_count):
        station = memory.station(s.stations, processor(n))
        span = s.now - station.since
        energy += station.energy + station.power * span
        if station.rate > 0.0:
            busy += min(station.active, station.servers) * span
        busy += station.busy
    for j in range(s.first_accelerator, s.station_count):
        station = memory.station(s.stations, j)
        energy += station.energy + station.power * (s.now - station.since)
    values[row, 0], values[row, 1], values[row, 2], values[row, 3] = created, completed, late, failed
    values[row, 4], values[row, 5] = created - completed - failed, response
    values[row, 6], values[row, 7], values[row, 8], values[row, 9] = energy, busy, s.events, spare


@jit
def _branch(s: Record, until: float, plan: NDArray[np.int64], values: NDArray[np.float64]) -> int:
    """Run candidates from the present, which is copied as `plan` describes; row 0 of `values` is the present itself.

    `plan`: first candidate and number of arrays; number of candidates; per array two rows with source, target, B
    always, B per row of tasks in use; where each candidate's decisions begin; the decisions.
    With any answer but DONE, candidate plan[0, 0] has stopped and the caller has to finish it; with FULL, it
    stopped before its decisions.
    """
    arrays, candidates = plan[0, 1], plan[1, 0]
    start = 2 + 2 * arrays
    for k in range(plan[0, 0], candidates + 1):
        plan[0, 0] = k
        rows = s.peak  # of the candidate before
        for a in range(arrays):
            size = plan[3 + 2 * a, 0] + plan[3 + 2 * a, 1] * max(rows, s.peak)  # META comes first
            copy_memory(plan[2 + 2 * a, 1], plan[2 + 2 * a, 0], size)
        if k > 0:
            first = start + candidates + 1
            if not _has_room(s, plan[start + k, 0] - plan[start + k - 1, 0]):
                return FULL
            _place_all(s, plan, first + plan[start + k - 1, 0], first + plan[start + k, 0])
            answer = _advance(s, until)
            if answer != DONE:
                return answer
        _figures(s, values, k)
    return DONE


@jit
def _region(s: Record, dealt: int, first: int, last: int, start: float, until: float) -> None:
    """Begin a region at `start`, in which the events at `dealt` from `first` to before `last` are due."""
    s.now = start
    s.ahead = 1 if last - first > _CACHED else 0
    restart(s, until)
    for k in range(first, last):
        number = memory.number(dealt, k).v
        prefetch(s.due + 8 * number)
        if s.ahead == 0:
            LOOKAHEAD.warm(s, number)
    for k in range(first, last):
        number = memory.number(dealt, k).v
        if s.ahead == 0:
            LOOKAHEAD.follow(s, number)
        i = (number - s.first_event) >> 1
        key = number if i < 0 else task_number(s, i) + ((number - s.first_event) & 1)
        line_up(s, key, memory.real(s.due, number).v)


@jit
def _regions(s: Record, until: float, plan: NDArray[np.int64], start: float) -> int:
    """Run regions from `start` on, one after another.

    `plan`: addresses of the dealt events and of where each region's begin, first region, end of the regions,
    whether the first one has begun already. Unless the answer is DONE, `plan` holds where to continue. `due` holds
    the events that regions have left when they stop on the way.
    """
    for r in range(plan[0, 2], plan[0, 3]):
        plan[0, 2] = r
        if plan[0, 4] == 0:
            first, last = memory.whole(plan[0, 1], r).v, memory.whole(plan[0, 1], r + 1).v
            if first == last:
                continue
            _region(s, plan[0, 0], first, last, start, until)
            plan[0, 4] = 1
        answer = _advance(s, until)
        if answer == BEYOND:
            abandon(s)
        elif answer != DONE:
            return answer
        plan[0, 4] = 0
    plan[0, 2] = plan[0, 3]
    return DONE


@entry
def act(meta: Records, what: int, until: float, slots: NDArray[np.int64], values: NDArray[np.float64]) -> int:
    """Do `what`; DONE, GROW (make room and call again), ASK (PLACE `meta.undecided` first) or MOVED (find
    the routes anew and call again).

    ADVANCE: events up to `until`. REGIONS: the same by regions, see `_regions`. All
    others change the world at the present time, `meta.now`.
    PLACE: slots (n, 2) rows of tasks and a scheduler's answers. APPEAR: slots (n, 2) node and generation.
    VANISH, NODE_DOWN, NODE_UP: slots (n, 1). RADIO: slots (n, 2) device and cell, values (n, 3)
    uplink and downlink B/s after loss, delay s. LINK_STATE: slots (n, 1) links, values (n, 3) rate
    factor, added delay, added loss. SPEED: slots (n, 2) machine and operating point. RETRY: routes have
    changed, waiting tasks try again. HALT: no source makes tasks any more.
    SERVE: slots (n, 3), see `_serve`.
    Before all but ADVANCE there must be room for every task and job in flight in `ended`, and before
    PLACE for `burst` tasks per answer.
    """
    s = meta[0]
    if what == ADVANCE:
        return _advance(s, until)
    if what == BRANCH:
        return _branch(s, until, slots, values)
    if what == REGIONS:
        return _regions(s, until, slots, values[0, 0])
    if what == FIGURES:
        _figures(s, values, 0)
        return DONE
    if what == HALT:
        for k in range(s.source_count):
            halt(s, k)
        return DONE
    if what == RETRY:
        for n in range(s.node_count):
            if memory.node(s.nodes, n).first_task >= 0:
                unpark(s, n, s.now)
        return DONE
    for row in range(len(slots)):
        n = slots[row, 0]
        if what == RADIO:
            node = memory.node(s.nodes, n)
            if node.cell != slots[row, 1] or node.up_rate != values[row, 0] or node.down_rate != values[row, 1]:
                _hand_over(s, n, slots[row, 1])
                node.up_rate = values[row, 0]
                node.down_rate = values[row, 1]
                refresh_radio(s, n)
            node.delay = values[row, 2]
        elif what == APPEAR:
            _appear(s, n, slots[row, 1])
        elif what == VANISH:
            _vanish(s, n)
        elif what == NODE_DOWN:
            _node_down(s, n, l.NODE_FAILED)
        elif what == NODE_UP:
            _node_up(s, n)
        elif what == PLACE:
            _place_all(s, slots, row, row + 1)
        elif what == LINK_STATE:
            _link_state(s, n, values[row, 0], values[row, 1], values[row, 2])
        elif what == SPEED:
            memory.equipment(s, l.SET_POINT, n, slots[row, 1], s.now)
        elif what == SERVE:
            _serve(s, n, slots[row, 1] != 0, slots[row, 2])
        clean(s, s.now)
    return DONE
