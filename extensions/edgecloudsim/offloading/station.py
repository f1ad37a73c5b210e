"""Virtual machines: processors shared by their tasks, and admission by percent.

A machine with c cores of m MIPS whose tasks ask for q cores gives each core that a task asks for
min(m, c m / q) (CloudSim's time-shared cloudlet scheduler: Calheiros et al. 2011, doi 10.1002/spe.995,
section 4). All tasks progress alike, so one number, the virtual time (MI that every task since the start
has got), determines when each is done: a task of w MI that comes at virtual time v leaves at v + w. A
task that comes or goes costs O(log k).

With the quirk `processing-tick` progress is checked in steps, for all machines of a datacentre at once:
not within 10 ms of the last look, and planned no earlier than 20 ms after it. A task that comes between
two looks gets credit for the time since the last one, and ends with less than 1 MI left. A look plans the
next one for the tasks that it sees. A task that comes after it adds one more, at the time it would take
alone; if that falls within 10 ms of another look, the task waits for any later one. Each machine is
brought up to date only where its own tasks change, which gives the same numbers.

Independently, each task takes some percent of the machine while it is executed, and a machine takes a
task only while the percents sum up to 100 at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.pairing import pairing
from cosim.engine.continuum.queue import drop, put
from cosim.extensions.edgecloudsim.offloading import rows
from cosim.extensions.edgecloudsim.offloading.layout import CLOUD, EDGE, Record
from cosim.extensions.edgecloudsim.offloading.rooms import note
from cosim.extensions.edgecloudsim.offloading.rows import app, centre, task, vm

_LOOK, _PLAN, _ALWAYS = 0.01, 0.02, 0.111  # s, of the quirk processing-tick
_EMPTY = 0.0
Executed = Callable[[Record, int, float], None]
_DONE = 1.0  # MI, a look finds a task done with less than that left

insert, remove = pairing(rows.task)


@jit
def need(s: Record, a: int, tier: int) -> float:
    """% of a machine of the tier that a task of application a takes."""
    if tier == EDGE:
        return float(app(s.apps, a).load_edge)
    if tier == CLOUD:
        return float(app(s.apps, a).load_cloud)
    return float(app(s.apps, a).load_mobile)


@jit
def speed(machine: Record) -> float:
    """MIPS of each core that a task asks for."""
    if machine.used <= machine.cores:
        return float(machine.rate)
    return float(machine.rate * machine.cores / machine.used)


@jit
def touch(machine: Record, until: float) -> None:
    """Bring the accumulated values up to `until`."""
    span = until - machine.since
    if span > 0.0:
        if machine.active > 0:
            machine.virtual += speed(machine) * span
            machine.busy += min(machine.used, machine.cores) * span
        machine.since = until


@jit
def _book_load(s: Record, v: int, percent: float, tasks: int) -> None:
    """Add to the load of the machine and of its tier; an empty one has exactly none, whatever was rounded."""
    machine = vm(s.vms, v)
    machine.load = machine.load + percent if machine.active > 0 else _EMPTY
    note(s, v)
    if machine.tier == EDGE:
        s.edge_tasks += tasks
        s.edge_load = s.edge_load + percent if s.edge_tasks > 0 else _EMPTY
    elif machine.tier == CLOUD:
        s.cloud_tasks += tasks
        s.cloud_load = s.cloud_load + percent if s.cloud_tasks > 0 else _EMPTY
    else:
        s.mobile_tasks += tasks
        s.mobile_load = s.mobile_load + percent if s.mobile_tasks > 0 else _EMPTY


@jit
def schedule(s: Record, v: int, now: float) -> None:
    """Set the time of the machine's next completion; its values must be up to date.

    With processing-tick it is the time from which on a look finds the first task done.
    """
    machine = vm(s.vms, v)
    if machine.active == 0:
        drop(s, s.first_vm + v)
        return
    rest = task(s.tasks, machine.root).tag - machine.virtual
    if s.processing_tick != 0:
        put(s, s.first_vm + v, max(now, machine.since + (rest - _DONE) / speed(machine)))
    else:
        put(s, s.first_vm + v, now + max(rest, _EMPTY) / speed(machine))


@jit
def _catch_up(s: Record, machine: Record, now: float) -> None:
    """Bring a machine up to now; with processing-tick up to the last look at it."""
    touch(machine, centre(s.centres, machine.centre).last if s.processing_tick != 0 else now)


@jit
def enter(s: Record, i: int, v: int, now: float) -> None:
    """Task i begins to be executed on machine v.

    With processing-tick the time since the last look counts for the newcomer too, at the share that
    holds from now on.
    """
    t = task(s.tasks, i)
    machine = vm(s.vms, v)
    _catch_up(s, machine, now)
    if machine.active == 0:
        machine.virtual = _EMPTY  # keeps it small, hence exact
        if s.processing_tick != 0:
            machine.since = centre(s.centres, machine.centre).last
    t.vm = v
    t.tag = machine.virtual + t.length
    machine.root = insert(s, machine.root, i)
    machine.active += 1
    machine.used += app(s.apps, t.app).cores
    _book_load(s, v, need(s, t.app, machine.tier), 1)
    schedule(s, v, now)
    if s.processing_tick != 0:
        t.looks = centre(s.centres, machine.centre).looks
        put(s, s.first_task + i, now + t.length / speed(machine))


@jit
def leave(s: Record, i: int, now: float) -> None:
    """Task i is no longer executed, done or not."""
    t = task(s.tasks, i)
    machine = vm(s.vms, t.vm)
    _catch_up(s, machine, now)
    machine.root = remove(s, machine.root, i)
    machine.active -= 1
    machine.used -= app(s.apps, t.app).cores
    _book_load(s, t.vm, -need(s, t.app, machine.tier), -1)
    schedule(s, t.vm, now)


@jit
def look(s: Record, c: int, now: float) -> bool:
    """Look at the processors of a datacentre, unless it is too early (quirk processing-tick)."""
    group = centre(s.centres, c)
    if now < group.last + _LOOK and now >= _ALWAYS:
        return False
    group.last = now
    group.looks += 1
    group.planned = math.inf
    drop(s, s.first_centre + c)
    return True


@jit
def ripen(s: Record, v: int, now: float) -> None:
    """From now on a look finds the first task of the machine done (quirk processing-tick).

    A look is planned for it, if there has been a look since the task came: only a look plans the next.
    """
    machine = vm(s.vms, v)
    group = centre(s.centres, machine.centre)
    if machine.ripe == 0:
        machine.ripe = 1
        machine.next_ripe = group.ripe
        group.ripe = v
    if task(s.tasks, machine.root).looks == group.looks:
        return
    rest = math.floor(task(s.tasks, machine.root).tag - machine.virtual)
    due = max(machine.since + rest / speed(machine), group.last + _PLAN)
    if due < group.planned:
        group.planned = due
        put(s, s.first_centre + machine.centre, max(due, now))


@jit
def pick(s: Record, c: int, now: float) -> int:
    """A task of the datacentre that the last look finds done, -1 when there is none left (quirk processing-tick)."""
    group = centre(s.centres, c)
    while group.ripe >= 0:
        v = group.ripe
        machine = vm(s.vms, v)
        if machine.active > 0:
            touch(machine, group.last)
            if task(s.tasks, machine.root).tag - machine.virtual < _DONE:
                return int(machine.root)
        machine.ripe = 0
        group.ripe = machine.next_ripe
        schedule(s, v, now)
    return -1


def watching(executed: Executed) -> tuple[Executed, Executed]:
    """Functions of datacentre c and of machine v that call `executed(s, i, now)` for each task that is done there.

    The first looks at the processors of a datacentre (quirk processing-tick). The second is the event of a machine
    whose first task is done.
    """

    @jit
    def observe(s: Record, c: int, now: float) -> None:
        if not look(s, c, now):
            return
        while True:
            i = pick(s, c, now)
            if i < 0:
                break
            executed(s, i, now)

    @jit
    def served(s: Record, v: int, now: float) -> None:
        if s.processing_tick != 0:
            ripen(s, v, now)
            return
        machine = vm(s.vms, v)
        i = machine.root
        touch(machine, now)
        machine.virtual = task(s.tasks, i).tag  # what rounding left
        executed(s, i, now)

    return observe, served
