"""The life of a task: made, given a host, sent there, computed, sent back, ended."""

from __future__ import annotations

import math

from cosim.continuum import memory
from cosim.continuum.draw import CHOICE, INPUT, OUTPUT, WORK, size, uniform
from cosim.continuum.jit import jit
from cosim.continuum.layout import (
    CAPACITY,
    COMPLETED,
    DOWN,
    FREE,
    LINK_FAILED,
    NEW,
    NO_COVERAGE,
    NODE_FAILED,
    RUN,
    STATUSES,
    UP,
    Record,
)
from cosim.continuum.queue import drop, put
from cosim.continuum.station import enter, leave
from cosim.continuum.ways import distance, far_end, fill_reach, fixed_link, serving_node, toward
from cosim.schedulers.builtin import LOCAL, Request, choose


@jit
def timer_number(s: Record, device: int) -> int:
    """Event number of a device's patience timer."""
    return int(s.source_count + s.station_count + device)


@jit
def task_number(s: Record, i: int) -> int:
    """Event number of a task's arrival after a delay; the next one is its deadline's."""
    return int(s.source_count + s.station_count + s.node_count + 2 * i)


@jit
def end(s: Record, i: int, status: int, now: float) -> None:
    """Task i, in no station any more, is over: note it down and free its row."""
    t = memory.task(s.tasks, i)
    drop(s, task_number(s, i))
    drop(s, task_number(s, i) + 1)
    host = memory.node(s.nodes, t.host).host if t.host >= 0 else -1
    if t.counted != 0:
        memory.host(s.hosts, host).assigned -= 1
    late = status == COMPLETED and now - t.created > t.deadline
    if status == COMPLETED:
        s.output_delivered += t.output
        memory.node(s.nodes, t.host).outputs += t.output
        memory.node(s.nodes, t.host).completed += 1
    elif t.phase == DOWN:
        s.output_dropped += t.output
    elif t.phase == NEW or t.phase == UP:
        s.input_dropped += t.input
    memory.whole(s.tally, t.workload * (2 + STATUSES) + 2 + status).v += 1
    if late:
        memory.whole(s.tally, t.workload * (2 + STATUSES) + 1).v += 1
    row = memory.ended(s.ended, s.done)
    row.serial, row.device, row.host, row.workload = t.serial, t.device, t.host, t.workload
    row.created, row.uploaded, row.started, row.computed = t.created, t.uploaded, t.started, t.computed
    row.input, row.output, row.work, row.deadline = t.input, t.output, t.work, t.deadline
    row.ended, row.status, row.late = now, status, late
    s.done += 1
    s.live -= 1
    older, newer = t.older, t.newer
    if newer >= 0:
        memory.task(s.tasks, newer).older = older
    else:
        memory.node(s.nodes, t.device).first_task = older
    if older >= 0:
        memory.task(s.tasks, older).newer = newer
    t.phase = FREE
    t.newer = s.free
    s.free = i


@jit
def abort(s: Record, i: int, status: int, now: float) -> None:
    """End task i wherever it is."""
    if memory.task(s.tasks, i).station >= 0:
        leave(s, i, now)
        if memory.task(s.tasks, i).phase == RUN:
            host = memory.node(s.nodes, memory.task(s.tasks, i).host).host
            if host >= 0:
                memory.host(s.hosts, host).running -= 1
    end(s, i, status, now)


@jit
def _waits(t: Record, node: Record, device: int) -> bool:
    """Whether a task of the device waits for coverage, with its transfer begun or not."""
    on_air = t.station == 3 * device + 1 or t.station == 3 * device + 2
    return bool(t.parked != 0 or (on_air and node.covered == 0))


@jit
def _expiry(s: Record, t: Record, node: Record) -> float:
    """When a waiting task has waited long enough."""
    since = node.outage if node.outage > t.entered else t.entered
    return float(since + s.patience)


@jit
def arm(s: Record, device: int) -> None:
    """Set the patience timer to the first of the device's tasks that will have waited too long."""
    first = math.inf
    node = memory.node(s.nodes, device)
    i = node.first_task
    while i >= 0:
        t = memory.task(s.tasks, i)
        if _waits(t, node, device):
            first = min(first, _expiry(s, t, node))
        i = t.older
    if first < math.inf:
        put(s, timer_number(s, device), first)
    else:
        drop(s, timer_number(s, device))


@jit
def lose_patience(s: Record, device: int, now: float) -> None:
    """Fail the tasks of a device that have waited too long for coverage."""
    node = memory.node(s.nodes, device)
    i = node.first_task
    while i >= 0:
        t = memory.task(s.tasks, i)
        older = t.older
        if _waits(t, node, device) and _expiry(s, t, node) <= now:
            abort(s, i, NO_COVERAGE, now)
        i = older
    arm(s, device)


@jit
def park(s: Record, i: int, now: float) -> None:
    """Let task i wait for coverage."""
    memory.task(s.tasks, i).parked = 1
    memory.task(s.tasks, i).entered = now
    arm(s, memory.task(s.tasks, i).device)


@jit
def unpark(s: Record, device: int, now: float) -> None:
    """Coverage may be back: let the device's waiting tasks try again, through events of their own."""
    i = memory.node(s.nodes, device).first_task
    while i >= 0:
        if memory.task(s.tasks, i).parked != 0:
            memory.task(s.tasks, i).parked = 0
            put(s, task_number(s, i), now)
        i = memory.task(s.tasks, i).older


@jit
def _join(s: Record, i: int, link: int, units: float, now: float) -> None:
    """Send `units` of task i over a fixed link, from the node where it is."""
    way = 0 if memory.link(s.links, link).a == memory.task(s.tasks, i).at else 1
    enter(s, 3 * s.node_count + 2 * link + way, i, units, now)


@jit
def _hop(s: Record, i: int, target: int, units: float, now: float) -> None:
    """Send task i one link nearer to `target` through the fixed network."""
    link = toward(s, memory.task(s.tasks, i).at, target)
    if link < 0:
        end(s, i, LINK_FAILED if memory.node(s.nodes, target).up != 0 else NODE_FAILED, now)
    else:
        _join(s, i, link, units, now)


@jit
def _depart(s: Record, i: int, now: float) -> None:
    """Send the input from the device: over a link to the host, else the radio, else the best link."""
    t = memory.task(s.tasks, i)
    node = memory.node(s.nodes, t.device)
    link = fixed_link(s, t.device, t.host)
    direct = link >= 0 and far_end(s, link, t.device) == t.host
    cell = node.cell if node.covered != 0 else -1
    if not direct and cell >= 0 and distance(s, cell, t.host) < math.inf:
        enter(s, 3 * t.device + 1, i, t.input, now)
    elif link >= 0:
        _join(s, i, link, t.input, now)
    elif cell >= 0:
        end(s, i, LINK_FAILED if memory.node(s.nodes, t.host).up != 0 else NODE_FAILED, now)
    else:
        park(s, i, now)


@jit
def _deliver(s: Record, i: int, now: float) -> None:
    """Send the output one step towards the device, to where it is attached now."""
    t = memory.task(s.tasks, i)
    node = memory.node(s.nodes, t.device)
    link = fixed_link(s, t.device, t.at)
    direct = link >= 0 and far_end(s, link, t.device) == t.at
    cell = node.cell if node.covered != 0 else -1
    if direct:
        _join(s, i, link, t.output, now)
    elif cell >= 0 and cell == t.at:
        enter(s, 3 * t.device + 2, i, t.output, now)
    elif cell >= 0 and toward(s, t.at, cell) >= 0:
        _hop(s, i, cell, t.output, now)
    elif link >= 0:
        _hop(s, i, far_end(s, link, t.device), t.output, now)
    elif cell >= 0:
        end(s, i, LINK_FAILED, now)
    else:
        park(s, i, now)


@jit
def _admit(s: Record, i: int, now: float) -> None:
    """The input is complete at the host: compute, if there is a place."""
    t = memory.task(s.tasks, i)
    node = memory.node(s.nodes, t.host)
    if node.up == 0:
        end(s, i, NODE_FAILED, now)
        return
    j = 3 * t.host
    t.uploaded = now
    s.input_delivered += t.input
    node.inputs += t.input
    t.phase = RUN
    slots = memory.kind(s.kinds, node.kind).slots
    if slots > 0 and memory.station(s.stations, j).active + memory.station(s.stations, j).queued >= slots:
        end(s, i, CAPACITY, now)
        return
    if node.host >= 0:
        memory.host(s.hosts, node.host).running += 1
    enter(s, j, i, t.work, now)


@jit
def proceed(s: Record, i: int, now: float) -> None:
    """Task i stands at node `at`: send it on."""
    t = memory.task(s.tasks, i)
    if t.phase == UP:
        if t.at == t.host:
            _admit(s, i, now)
        elif memory.node(s.nodes, t.at).up == 0:
            end(s, i, NODE_FAILED, now)
        elif memory.node(s.nodes, t.at).infra < 0:
            _depart(s, i, now)
        else:
            _hop(s, i, t.host, t.input, now)
    elif t.at == t.device:
        end(s, i, COMPLETED, now)
    elif memory.node(s.nodes, t.at).up == 0:
        end(s, i, NODE_FAILED, now)
    elif memory.node(s.nodes, t.device).infra >= 0:
        _hop(s, i, t.device, t.output, now)
    else:
        _deliver(s, i, now)


@jit
def assign(s: Record, i: int, answer: int, now: float) -> None:
    """Carry out a scheduler's answer for task i: a host's number, LOCAL or NONE."""
    t = memory.task(s.tasks, i)
    node = memory.node(s.nodes, t.device)
    if answer == LOCAL and memory.station(s.stations, 3 * t.device).servers > 0:
        t.host = t.device
        if node.host >= 0:
            t.counted = 1
            memory.host(s.hosts, node.host).assigned += 1
    elif answer >= 0:
        t.host = memory.host(s.hosts, answer).slot
        t.counted = 1
        memory.host(s.hosts, answer).assigned += 1
        if memory.host(s.hosts, answer).up == 0:
            end(s, i, NODE_FAILED, now)
            return
    else:
        linked = node.infra >= 0 or node.covered != 0
        for k in range(node.first_link, node.first_link + node.links):
            linked = linked or memory.link(s.links, memory.whole(s.access, k).v).up != 0
        if not linked:
            park(s, i, now)
            return
        someone = False
        for h in range(s.host_count):
            someone = someone or memory.host(s.hosts, h).up != 0
        end(s, i, LINK_FAILED if someone else NODE_FAILED, now)
        return
    t.phase = UP
    proceed(s, i, now)


@jit
def request_of(s: Record, i: int, serving: int, now: float) -> Request:
    """What a scheduler is told about task i."""
    t = memory.task(s.tasks, i)
    kind = memory.kind(s.kinds, memory.node(s.nodes, t.device).kind)
    own = memory.station(s.stations, 3 * t.device)
    return Request(
        now, t.device, serving, t.workload, t.input, t.output, t.work, t.deadline,
        kind.clock * kind.cores, own.active + own.queued, t.chance, s.turn, s.threshold,
    )  # fmt: skip


@jit
def decide(s: Record, i: int, now: float) -> bool:
    """Give task i a host. False when the caller has to be asked for it."""
    device = memory.task(s.tasks, i).device
    serving = serving_node(s, device)
    if serving < 0 or memory.node(s.nodes, device).links > 0:
        fill_reach(s, device, serving)
        reach = memory.reals(s.scratch, s.host_count)
    else:
        row = memory.node(s.nodes, serving).infra
        reach = memory.reals(s.reach + 8 * row * s.host_count, s.host_count)
    if s.scheduler < 0:
        for h in range(s.host_count):
            memory.real(s.scratch, h).v = reach[h]
        s.undecided = i
        s.serving = serving
        return False
    answer = choose(s.scheduler, request_of(s, i, serving, now), reach, memory.hosts(s.hosts, s.host_count))
    s.turn += 1
    assign(s, i, answer, now)
    return True


@jit
def make(s: Record, k: int, n: int, now: float) -> bool:
    """Source k makes a task with the numbers of its n-th draw. False when the caller must decide."""
    source = memory.source(s.sources, k)
    work = memory.workload(s.workloads, source.workload)
    i = s.free
    t = memory.task(s.tasks, i)
    s.free = t.newer
    s.live += 1
    t.serial = s.serial
    s.serial += 1
    t.created = now
    t.uploaded = t.started = t.computed = math.nan
    t.input = size(work.input_law, work.input_a, work.input_b, source.key, n, INPUT)
    t.output = size(work.output_law, work.output_a, work.output_b, source.key, n, OUTPUT)
    t.work = size(work.work_law, work.work_a, work.work_b, source.key, n, WORK)
    t.chance = uniform(source.key, n, CHOICE)
    t.deadline = work.deadline
    t.workload, t.device, t.host, t.at = source.workload, source.node, -1, source.node
    t.station, t.phase, t.parked, t.counted = -1, NEW, 0, 0
    first = memory.node(s.nodes, source.node).first_task
    t.older, t.newer = first, -1
    if first >= 0:
        memory.task(s.tasks, first).newer = i
    memory.node(s.nodes, source.node).first_task = i
    s.input_offered += t.input
    memory.whole(s.tally, source.workload * (2 + STATUSES)).v += 1
    if s.drop_late != 0 and t.deadline < math.inf:
        put(s, task_number(s, i) + 1, now + t.deadline)
    return decide(s, i, now)
