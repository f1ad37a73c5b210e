"""Who runs a task: a scheduler's answers, carried out."""

from __future__ import annotations

import math

from cosim.engine.continuum import layout as l
from cosim.engine.continuum import memory
from cosim.engine.continuum.ending import end, release
from cosim.engine.continuum.indices import OWN, SCAN, book, pick
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.numbering import processor
from cosim.engine.continuum.paths import could_hold, fill_reach, permitted, serving_node
from cosim.engine.continuum.patience import park
from cosim.engine.continuum.queue import put
from cosim.engine.continuum.rows import load, new_row, stage_number, stage_output, task_number
from cosim.engine.continuum.schedulers import LOCAL, NONE, Request, choose
from cosim.engine.continuum.station import enter, leave, left_over
from cosim.engine.continuum.sums import add


@jit
def _gather(s: Record, i: int, now: float) -> None:
    """Send to the host of a stage those of its inputs that its task does not bring itself."""
    t = memory.task(s.tasks, i)
    stage = memory.stage(s.stages, t.stage)
    for e in range(stage.first_before, stage.first_before + stage.befores):
        before = memory.whole(s.befores, e).v
        if before == -2 - t.join:
            continue
        c = new_row(s, t.device)
        carrier = memory.task(s.tasks, c)
        carrier.created, carrier.deadline, carrier.chance = now, t.deadline, 0.0
        carrier.uploaded = carrier.started = carrier.computed = math.nan
        carrier.input, carrier.output = stage_output(s, t.job, before), 0.0
        carrier.work = carrier.rest = 0.0
        carrier.workload, carrier.host, carrier.phase = t.workload, t.host, l.UP
        carrier.job, carrier.stage, carrier.join = t.job, t.stage, i
        carrier.at = memory.whole(s.site, stage_number(s, t) + before - t.stage).v
        add(s, l.INPUT_OFFERED, carrier.input)
        put(s, task_number(s, c), now)


@jit
def assign(s: Record, i: int, answer: int, now: float) -> bool:
    """Carry out a scheduler's answer for task i: a host's number, LOCAL or NONE. True when it sets out now."""
    t = memory.task(s.tasks, i)
    node = memory.node(s.nodes, t.device)
    if answer == LOCAL and memory.station(s.stations, processor(t.device)).servers > 0:
        t.host, t.assigned = t.device, now
        if node.host >= 0:
            t.counted = 1
            book(s, node.host, t.workload, 1)
    elif answer >= 0:
        t.host, t.assigned = memory.host(s.hosts, answer).slot, now
        t.counted = 1
        book(s, answer, t.workload, 1)
        if memory.host(s.hosts, answer).up == 0:
            end(s, i, l.NODE_FAILED, now)
            return False
    else:
        linked = node.infra >= 0 or node.covered != 0 or t.at != t.device
        for k in range(node.first_link, node.first_link + node.links):
            linked = linked or memory.link(s.links, memory.whole(s.access, k).v).up != 0
        if not linked:
            park(s, i, now)
            return False
        someone = able = False
        for h in range(s.host_count):
            if memory.host(s.hosts, h).up != 0:
                someone = True
                slot = memory.host(s.hosts, h).slot
                able = able or (permitted(s, t.workload, slot) and could_hold(s, slot, i, now))
        end(s, i, l.NODE_FAILED if not someone else l.LINK_FAILED if able else l.CAPACITY, now)
        return False
    t.phase, t.parked = l.UP, 0
    if t.job >= 0 and memory.stage(s.stages, t.stage).befores > 1:
        _gather(s, i, now)
    return True


@jit
def request_of(s: Record, i: int, serving: int, now: float) -> Request:
    """The scheduler's input about task i."""
    t = memory.task(s.tasks, i)
    kind = memory.kind(s.kinds, memory.node(s.nodes, t.device).kind)
    own = memory.station(s.stations, processor(t.device))
    takes = memory.workload(s.workloads, t.workload)
    stage = t.stage - takes.first_stage if t.job >= 0 else t.stage
    may = permitted(s, t.workload, t.device)
    return Request(
        now, t.device, serving, t.workload, t.input, t.output, t.work, t.deadline,
        kind.clock * kind.cores * may, own.active + own.queued, t.chance, s.turn, s.threshold, stage,
        t.operations, takes.memory, takes.storage,
    )  # fmt: skip


@jit
def _anywhere(s: Record, t: Record) -> bool:
    """Whether every host could run task t."""
    able = s.machine_count == 0 or memory.workload(s.workloads, t.workload).anywhere != 0
    return bool(able and s.bound == 0)


@jit
def _pinned(s: Record, t: Record) -> bool:
    """Whether task t is a stage that runs on its device."""
    return bool(t.job >= 0 and memory.stage(s.stages, t.stage).pinned != 0)


@jit
def consult(s: Record, i: int, now: float) -> int:
    """Let the node that decides work on the decision about task i; return the task if it needs none now, else NOBODY.

    One that has been decided about and waited for coverage since then is not worked on again.
    """
    t, node = memory.task(s.tasks, i), memory.node(s.nodes, s.decider)
    if t.parked == l.RETRIES or _pinned(s, t):
        return i
    if node.up == 0:
        end(s, i, l.NODE_FAILED, now)
        return int(l.NOBODY)
    s.decided += s.deciding
    enter(s, processor(s.decider), i, s.deciding * memory.kind(s.kinds, node.kind).clock, now)
    return int(l.NOBODY)


@jit
def decide(s: Record, i: int, now: float) -> bool:
    """Give task i a host. True when it sets out now; the caller has to be asked when `undecided` is set."""
    t = memory.task(s.tasks, i)
    device = t.device
    pinned = _pinned(s, t)
    if s.scheduler == l.INTERVAL and not pinned:
        t.held = 1
        return False
    answer = LOCAL
    if not pinned:
        serving = t.at if t.at != device else serving_node(s, device)
        if s.scheduler >= 0 and ((s.scheduler == OWN and s.bound == 0) or _anywhere(s, t)):
            answer = pick(s, i, serving)
            if answer != SCAN:
                s.turn += 1
                return assign(s, i, answer, now)
        if t.at == device and (serving < 0 or memory.node(s.nodes, device).links > 0):
            fill_reach(s, device, serving)
            reach = memory.reals(s.scratch, s.host_count)
        else:
            row = memory.node(s.nodes, serving).infra
            reach = memory.reals(s.reach + 8 * row * s.host_count, s.host_count)
        if s.machine_count > 0 or s.bound != 0:  # some hosts may not be able or permitted to run such a task
            for h in range(s.host_count):
                near = permitted(s, t.workload, memory.host(s.hosts, h).slot)
                memory.real(s.scratch, h).v = reach[h] if near else math.inf
            if s.machine_count > 0:
                memory.equipment(s, l.NARROW, i, 0, now)
            reach = memory.reals(s.scratch, s.host_count)
        if s.scheduler < 0:
            for h in range(s.host_count):
                memory.real(s.scratch, h).v = reach[h]
            s.undecided = i
            s.serving = serving
            t.held = 1
            return False
        answer = choose(s.scheduler, request_of(s, i, serving, now), reach, memory.hosts(s.hosts, s.host_count))
        s.turn += 1
    return assign(s, i, answer, now)


@jit
def place(s: Record, i: int, answer: int, asked: bool, now: float) -> bool:
    """The caller's decision: a host for a held task, another one for a placed one. True when it sets out now.

    Not done if affinity does not permit it; a task about which the caller was `asked` alone has no host then.
    """
    t = memory.task(s.tasks, i)
    if answer != NONE and not permitted(s, t.workload, memory.host(s.hosts, answer).slot if answer >= 0 else t.device):
        if not asked:
            return False
        answer = NONE
    if t.held != 0:
        t.held = 0
        s.turn += 1
        return assign(s, i, answer, now)
    host = memory.host(s.hosts, answer).slot if answer >= 0 else t.device
    if host == t.host:
        return False
    if t.counted != 0:
        book(s, memory.node(s.nodes, t.host).host, t.workload, -1)
    runs = t.phase == l.RUN
    if runs:
        machine = memory.node(s.nodes, t.host).machine
        if machine >= 0:
            memory.equipment(s, l.TAKE_OUT, machine, i, now)
        else:
            t.rest = min(t.rest, left_over(s, i, now))  # more was left of its dispatch, which ends here
            leave(s, i, now)
        release(s, i, now)
        t.phase = l.MOVE
        add(s, l.STATE_OFFERED, load(s, t))
    t.host = host
    t.counted = 0
    if memory.node(s.nodes, host).host >= 0:
        t.counted = 1
        book(s, memory.node(s.nodes, host).host, t.workload, 1)
    return bool(runs)
