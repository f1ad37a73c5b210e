"""Machines: nodes with limited memory and storage, accelerators, power states or operating points.

A task that has arrived waits in the machine's queue until the machine is on and has room in memory
and storage. The queue is in order of arrival, without overtaking. Inside, the cores work on the
task, then a unit of the accelerator that it asks for. It keeps its memory and storage until it is
computed.
"""

from __future__ import annotations

import math

from cosim.engine.continuum import layout as l
from cosim.engine.continuum import memory
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.numbering import node_of, processor
from cosim.engine.continuum.pairing import insert, next_in_walk, remove
from cosim.engine.continuum.queue import drop, put
from cosim.engine.continuum.station import AT_MACHINE, changed, enter, leave, left_over, power_in_use, touch

_ROUNDING = 1e-12  # core-s and periods


@jit
def state_timer(s: Record, m: int) -> int:
    """Event number of machine m's next change of state; the next ones are its governor's and its quota's."""
    return int(s.first_event - s.battery_count - 3 * s.machine_count + 3 * m)


@jit
def accelerator_of(s: Record, m: int, kind: int) -> int:
    """The station of machine m's accelerator of this kind, -1 for none."""
    machine = memory.machine(s.machines, m)
    for a in range(machine.first_accelerator, machine.first_accelerator + machine.accelerators):
        if memory.accelerator(s.accelerators, a).kind == kind:
            return int(s.first_accelerator + a)
    return -1


@jit
def accelerate(s: Record, m: int, i: int, now: float) -> None:
    """Task i, whose work on machine m's cores is done, goes to the accelerator that it asks for."""
    t = memory.task(s.tasks, i)
    enter(s, accelerator_of(s, m, t.accelerator), i, t.operations, now)


@jit
def could_hold(s: Record, n: int, i: int) -> bool:
    """Whether node n, if it were empty, could run task i."""
    t = memory.task(s.tasks, i)
    load = memory.workload(s.workloads, t.workload)
    m = memory.node(s.nodes, n).machine
    if m < 0:
        return bool(t.operations <= 0.0)
    machine = memory.machine(s.machines, m)
    if load.memory > machine.memory or load.storage > machine.storage:
        return False
    return bool(t.operations <= 0.0 or accelerator_of(s, m, t.accelerator) >= 0)


@jit
def narrow(s: Record, i: int) -> None:
    """Take hosts that can never run task i out of `scratch`; show the units that it asks for."""
    operations = memory.task(s.tasks, i).operations
    kind = memory.task(s.tasks, i).accelerator
    for h in range(s.host_count):
        host = memory.host(s.hosts, h)
        if not could_hold(s, host.slot, i):
            memory.real(s.scratch, h).v = math.inf
        host.units = host.free_units = 0
        m = memory.node(s.nodes, host.slot).machine
        j = accelerator_of(s, m, kind) if m >= 0 and operations > 0.0 else -1
        if j >= 0:
            host.units = memory.station(s.stations, j).servers
            host.free_units = max(0, host.units - memory.station(s.stations, j).active)


@jit
def _publish(s: Record, machine: Record) -> None:
    """Let schedulers see what has changed."""
    h = memory.node(s.nodes, machine.node).host
    if h >= 0:
        host = memory.host(s.hosts, h)
        host.memory, host.storage, host.state = machine.free_memory, machine.free_storage, machine.state


@jit
def switch(s: Record, m: int, state: int, now: float) -> None:
    """Machine m is in another state from now on."""
    machine = memory.machine(s.machines, m)
    memory.real(s.spells, l.STATES * m + machine.state).v += now - machine.since
    machine.since = now
    machine.state = state
    for part in range(-1, machine.accelerators):
        j = processor(machine.node) if part < 0 else s.first_accelerator + machine.first_accelerator + part
        touch(memory.station(s.stations, j), now)
        changed(s, j, now)
    _publish(s, machine)


@jit
def draw_power(s: Record, j: int) -> None:
    """Set the electrical power of a machine's processor or of one of its accelerators."""
    if j < s.first_accelerator:
        _draw_processor(s, j)
        return
    part = memory.accelerator(s.accelerators, j - s.first_accelerator)
    station = memory.station(s.stations, j)
    station.power = 0.0
    if memory.machine(s.machines, memory.node(s.nodes, part.node).machine).state == l.ON:
        used = min(station.active, station.servers)
        station.power = part.idle * station.servers + (part.max - part.idle) * used


@jit
def _nominal(s: Record, m: int) -> float:
    """Cycles/s of a core of machine m when its quota lets it run."""
    machine = memory.machine(s.machines, m)
    if machine.points > 0:
        return float(memory.point(s.points, machine.first_point + machine.point).clock)
    return float(memory.kind(s.kinds, memory.node(s.nodes, machine.node).kind).clock)


@jit
def _ration(s: Record, m: int, now: float) -> None:
    """Book what the cores of machine m have used of their quota, and set when they must stop or may go on.

    All tasks draw from one pool of `quota` core-s per `quota_period`. What is left at the end of a
    period is kept up to `burst` (kernel/sched/fair.c: __refill_cfs_bandwidth_runtime). An empty pool
    stops all cores until the next multiple of the period.
    """
    machine = memory.machine(s.machines, m)
    station = memory.station(s.stations, processor(machine.node))
    machine.available -= station.busy - machine.counted
    machine.counted = station.busy
    if machine.available < _ROUNDING:
        machine.available = 0.0
    periods = math.floor((now - machine.phase) / machine.quota_period + _ROUNDING)
    if periods > machine.refills:
        gained = (periods - machine.refills) * machine.quota
        machine.available = min(machine.available + gained, machine.quota + machine.burst)
        machine.refills = periods
    station.rate = _nominal(s, m)
    timer = state_timer(s, m) + 2
    if station.active == 0:
        drop(s, timer)
        return
    time = machine.phase + (machine.refills + 1) * machine.quota_period
    if machine.available > 0.0:
        time = min(time, now + machine.available / min(station.active, station.servers))
    else:
        station.rate = 0.0
    put(s, timer, max(time, now))


@jit
def refill(s: Record, m: int, now: float) -> None:
    """The pool of machine m's cores is empty, or a new period begins."""
    j = processor(memory.machine(s.machines, m).node)
    touch(memory.station(s.stations, j), now)
    changed(s, j, now)


@jit
def _draw_processor(s: Record, j: int) -> None:
    node = memory.node(s.nodes, node_of(j))
    machine = memory.machine(s.machines, node.machine)
    if machine.quota > 0.0:
        _ration(s, node.machine, s.now)
    power = 0.0
    if machine.state == l.ON:
        first, powers = memory.kind(s.kinds, node.kind).first_power, memory.kind(s.kinds, node.kind).powers
        if machine.points > 0:
            point = memory.point(s.points, machine.first_point + machine.point)
            first, powers = point.first_power, point.powers
        if powers > 0:
            power = power_in_use(s, memory.station(s.stations, j), first, powers)
    elif machine.state == l.ASLEEP:
        power = machine.sleep_power
    elif machine.state == l.WAKING:
        power = machine.wake_power
    elif machine.state == l.BOOTING:
        power = machine.boot_power
    elif machine.state == l.OFF and (node.battery < 0 or memory.battery(s.batteries, node.battery).empty == 0):
        power = machine.off_power
    memory.station(s.stations, j).power = power


@jit
def _stretch(s: Record, t: Record, before: float, after: float, fastest: float) -> float:
    """By what the cycles of task t are more at clock `after` than they are at `before`."""
    c = memory.workload(s.workloads, t.workload).sensitivity
    return float((c + (1.0 - c) * after / fastest) / (c + (1.0 - c) * before / fastest))


@jit
def _rescale(s: Record, j: int, before: float, after: float, fastest: float) -> None:
    """Measure the rest of the work of station j's tasks in cycles of its new clock; values must be up to date."""
    station = memory.station(s.stations, j)
    stack = -1  # linked through next
    while station.root >= 0:
        i = station.root
        station.root = remove(s, station.root, i)
        memory.task(s.tasks, i).next = stack
        stack = i
    while stack >= 0:
        t = memory.task(s.tasks, stack)
        following = t.next
        t.tag = station.virtual + (t.tag - station.virtual) * _stretch(s, t, before, after, fastest)
        station.root = insert(s, station.root, stack)
        stack = following
    i = station.head
    while i >= 0:
        memory.task(s.tasks, i).tag *= _stretch(s, memory.task(s.tasks, i), before, after, fastest)
        i = next_in_walk(s, station.head, i) if station.fcfs > l.FCFS else memory.task(s.tasks, i).next


@jit
def set_point(s: Record, m: int, point: int, now: float) -> None:
    """Let machine m's cores run at this operating point from now on.

    What is left of work that is not proportional to the clock takes c + (1 - c) f / f_max of its
    cycles at clock f: that many cycles at f take 1 + c (f_max / f - 1) times as long as at f_max.
    """
    machine = memory.machine(s.machines, m)
    if point == machine.point:
        return
    j = processor(machine.node)
    station = memory.station(s.stations, j)
    touch(station, now)
    before = _nominal(s, m)
    machine.point = point
    station.rate = _nominal(s, m)
    if s.scaled != 0:
        _rescale(s, j, before, station.rate, memory.kind(s.kinds, memory.node(s.nodes, machine.node).kind).clock)
    h = memory.node(s.nodes, machine.node).host
    if h >= 0:
        memory.host(s.hosts, h).frequency = station.rate
    changed(s, j, now)


@jit
def _watch(s: Record, m: int, now: float) -> None:
    """Let the governor look at machine m, which has got something to do."""
    machine = memory.machine(s.machines, m)
    number = state_timer(s, m) + 1
    if machine.governor == l.ONDEMAND and memory.real(s.due, number).v == math.inf:
        station = memory.station(s.stations, processor(machine.node))
        touch(station, now)
        machine.looked, machine.looked_busy = now, station.busy
        put(s, number, now + machine.period)


@jit
def govern(s: Record, m: int, now: float) -> None:
    """The governor `ondemand` looks at machine m; again after its period, unless all is quiet."""
    machine = memory.machine(s.machines, m)
    station = memory.station(s.stations, processor(machine.node))
    touch(station, now)
    used = (station.busy - machine.looked_busy) / (machine.period * station.servers)
    point = machine.points - 1
    if used < machine.threshold:
        asked = used * _nominal(s, m)
        while point > 0 and asked < machine.threshold * memory.point(s.points, machine.first_point + point - 1).clock:
            point -= 1
    set_point(s, m, point, now)
    machine.looked, machine.looked_busy = now, station.busy
    if point > 0 or station.active > 0:
        put(s, state_timer(s, m) + 1, now + machine.period)


@jit
def _start(s: Record, m: int, i: int, now: float) -> None:
    """Task i, admitted to machine m, goes to the cores, or to an accelerator if it has no other work."""
    t = memory.task(s.tasks, i)
    machine = memory.machine(s.machines, m)
    kind = memory.kind(s.kinds, memory.node(s.nodes, machine.node).kind)
    cycles = t.rest + kind.dispatch * kind.clock
    if cycles <= 0.0 and t.operations > 0.0:
        enter(s, accelerator_of(s, m, t.accelerator), i, t.operations, now)
        return
    if machine.points > 0:
        _watch(s, m, now)
    enter(s, processor(machine.node), i, cycles * _pace(s, m, t), now)


@jit
def _pace(s: Record, m: int, t: Record) -> float:
    """Cycles that a cycle of task t takes at the present clock of machine m."""
    machine = memory.machine(s.machines, m)
    c = memory.workload(s.workloads, t.workload).sensitivity
    if machine.points == 0 or c == 1.0:
        return 1.0
    fastest = memory.kind(s.kinds, memory.node(s.nodes, machine.node).kind).clock
    return float(c + (1.0 - c) * _nominal(s, m) / fastest)


@jit
def take_out(s: Record, m: int, i: int, now: float) -> None:
    """Task i is to go on elsewhere: note what is left of it, and take it out of its station."""
    t = memory.task(s.tasks, i)
    j = t.station
    if j < 0:
        return  # in the queue
    left = left_over(s, i, now)
    leave(s, i, now)
    if j < s.first_accelerator:
        t.rest = min(t.rest, left / _pace(s, m, t))  # more was left of its dispatch, which ends here
    else:
        t.rest, t.operations = 0.0, left


@jit
def _admit(s: Record, m: int, now: float) -> None:
    """Admit the tasks at the head of the queue, as long as they fit."""
    machine = memory.machine(s.machines, m)
    while machine.state == l.ON and machine.head >= 0:
        i = machine.head
        t = memory.task(s.tasks, i)
        load = memory.workload(s.workloads, t.workload)
        if load.memory > machine.free_memory or load.storage > machine.free_storage:
            break
        _leave_queue(s, machine, i)
        machine.free_memory -= load.memory
        machine.free_storage -= load.storage
        machine.resident += 1
        _start(s, m, i, now)
    _publish(s, machine)


@jit
def _leave_queue(s: Record, machine: Record, i: int) -> None:
    """Task i leaves the machine's queue."""
    t = memory.task(s.tasks, i)
    left, right = t.prev, t.next
    if left >= 0:
        memory.task(s.tasks, left).next = right
    else:
        machine.head = right
    if right >= 0:
        memory.task(s.tasks, right).prev = left
    else:
        machine.tail = left
    machine.waiting -= 1
    t.child = -1


@jit
def arrive(s: Record, m: int, i: int, now: float) -> None:
    """Task i has arrived at machine m, which could hold it."""
    machine = memory.machine(s.machines, m)
    last = machine.tail
    t = memory.task(s.tasks, i)
    t.prev, t.next, t.child, t.entered = last, -1, AT_MACHINE, now
    if last >= 0:
        memory.task(s.tasks, last).next = i
    else:
        machine.head = i
    machine.tail = i
    machine.waiting += 1
    if machine.state == l.ASLEEP:
        machine.wakes += 1
        switch(s, m, l.WAKING, now)
        put(s, state_timer(s, m), now + machine.wake_time)
    elif machine.state == l.ON:
        drop(s, state_timer(s, m))
        _admit(s, m, now)


@jit
def depart(s: Record, m: int, i: int, now: float) -> None:
    """Task i, in no station any more, leaves machine m: computed, or ended before."""
    machine = memory.machine(s.machines, m)
    if memory.task(s.tasks, i).child == AT_MACHINE:
        _leave_queue(s, machine, i)
    else:
        load = memory.workload(s.workloads, memory.task(s.tasks, i).workload)
        machine.free_memory += load.memory
        machine.free_storage += load.storage
        machine.resident -= 1
    if machine.resident == 0:  # sums of unlike terms: what rounding left
        machine.free_memory, machine.free_storage = machine.memory, machine.storage
    _admit(s, m, now)
    _sleep_later(s, m, now)


@jit
def _sleep_later(s: Record, m: int, now: float) -> None:
    """An idle machine will fall asleep after a while."""
    machine = memory.machine(s.machines, m)
    if machine.state == l.ON and machine.resident + machine.waiting == 0 and machine.sleep_after < math.inf:
        put(s, state_timer(s, m), now + machine.sleep_after)


@jit
def tick(s: Record, m: int, now: float) -> None:
    """The machine's time has come: it falls asleep, or it is awake or has booted."""
    state = memory.machine(s.machines, m).state
    if state == l.ON:
        switch(s, m, l.ASLEEP, now)
    elif state in (l.WAKING, l.BOOTING):
        switch(s, m, l.ON, now)
        _admit(s, m, now)
        _sleep_later(s, m, now)


@jit
def turn_on(s: Record, m: int, boots: bool, now: float) -> None:
    """The machine's node is there, or back: then it boots first."""
    machine = memory.machine(s.machines, m)
    if machine.governor == l.ONDEMAND:
        set_point(s, m, 0, now)
    if boots and machine.boot_time > 0.0:
        switch(s, m, l.BOOTING, now)
        put(s, state_timer(s, m), now + machine.boot_time)
    else:
        switch(s, m, l.ON, now)
        _sleep_later(s, m, now)


@jit
def turn_off(s: Record, m: int, now: float) -> None:
    """The machine's node, which holds no task any more, has failed or is gone."""
    drop(s, state_timer(s, m))
    drop(s, state_timer(s, m) + 1)
    drop(s, state_timer(s, m) + 2)
    switch(s, m, l.ABSENT if memory.node(s.nodes, memory.machine(s.machines, m).node).present == 0 else l.OFF, now)
