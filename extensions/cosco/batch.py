"""The compiled step of many environments: worlds of the interval model, actions in, observations out.

A world is a row of `cosim.extensions.cosco.interval.layout.RULES`. What is written here is to the bit what
`cosim.schedulers.models.interval_state` and `cosim.envs.spaces.observe` make of one world.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.compiled import splitmix
from cosim.contract.records import Floats, Ints
from cosim.engine.continuum.jit import entry, jit, part
from cosim.envs.spaces import ANSWERS, MOST, UNKNOWN
from cosim.extensions.cosco.interval import memory
from cosim.extensions.cosco.interval.hosts import base
from cosim.extensions.cosco.interval.kernel import begin, end, fail
from cosim.extensions.cosco.interval.layout import NONE, Record
from cosim.schedulers.state import HOST, TASK

Masks = NDArray[np.int8]

LOOK, STEP, END = range(3)  # what to do with a world: show it, decide and go on, or show that it has ended

# numbers of columns, by their names
OF_HOST: Any = namedtuple("OF_HOST", HOST.names or ())(*range(len(HOST.names or ())))
OF_TASK: Any = namedtuple("OF_TASK", TASK.names or ())(*range(len(TASK.names or ())))
_MEGA = 1e6


class Unchanging(NamedTuple):
    """What does not change during runs."""

    fixed: Floats  # (H, columns of HOST) of the hosts
    way: Floats  # (H,) a row of `reach`
    bits: NDArray[np.uint64]  # those of the intervals' numbers as floats


class Seen(NamedTuple):
    """Observations, of all worlds or of one, and the W of the hosts (N, H), 0 where they are not known."""

    hosts: Floats
    tasks: Floats
    reach: Floats
    host_mask: Masks
    task_mask: Masks
    power: Floats


@jit
def row_of(seen: Seen, k: int) -> Seen:
    """The arrays of world k."""
    return Seen(seen.hosts[k], seen.tasks[k], seen.reach[k], seen.host_mask[k], seen.task_mask[k], seen.power[k])


@jit
def blank(seen: Seen) -> None:
    """Show that a world has ended."""
    seen.hosts[:] = seen.tasks[:] = 0.0
    seen.reach[:] = MOST
    seen.host_mask[:] = seen.task_mask[:] = 0


@part
def bounded(x: float) -> float:
    """As `cosim.envs.spaces` bounds figures."""
    if np.isnan(x):
        return UNKNOWN
    if x > MOST:
        return MOST
    if x < -MOST:
        return -MOST
    return x


@part
def draw(number: int, bits: np.uint64) -> float:
    """As `cosim.schedulers.models` draws for a task; `bits` are those of the moment."""
    z = bits + np.uint64(number + 1) * splitmix.STEP
    for _ in range(2):
        z = splitmix.mix(z) + splitmix.STEP
    return float(z >> np.uint64(11)) * 2.0**-53


@jit
def _decide(w: Record, action: Ints) -> int:
    """The pairs of slot and host that the answers about the containers, in the order of slots, come to."""
    pairs = row = 0
    for i in range(w.slot_count):
        if row == len(action):
            break
        slot = memory.slot(w.slots, i)
        if slot.container == NONE:
            continue
        host = action[row] - ANSWERS
        row += 1
        if host >= 0 and host != slot.host and memory.host(w.hosts, host).up != 0:
            pair = memory.pair(w.pairs, pairs)
            pair.slot, pair.host = i, host
            pairs += 1
    return pairs


@jit
def _happen(w: Record, events: Ints, passed: int, following: int) -> int:
    """Let hosts fail and recover whose events are due after `passed` intervals; the number of the next event."""
    while following < len(events) and events[following, 0] <= passed:
        if events[following, 2] == 0:
            fail(w, events[following, 1])
        else:
            memory.host(w.hosts, events[following, 1]).up = 1
        following += 1
    return following


@jit
def _look(w: Record, given: Unchanging, shown: int, seen: Seen) -> int:
    """Fill one world's arrays, of whose task rows `shown` are in use; how many containers there are."""
    hosts, tasks, reach = seen.hosts, seen.tasks, seen.reach
    host_mask, task_mask, power, bits = seen.host_mask, seen.task_mask, seen.power, given.bits[w.now]
    for h in range(len(hosts)):
        for column in range(given.fixed.shape[1]):
            hosts[h, column] = given.fixed[h, column]
        hosts[h, OF_HOST.tasks] = hosts[h, OF_HOST.demand] = hosts[h, OF_HOST.memory] = 0.0
    count, room = 0, len(tasks)
    for i in range(w.slot_count):
        slot = memory.slot(w.slots, i)
        if slot.container == NONE:
            continue
        asked = base(w, i)
        if slot.host >= 0:
            hosts[slot.host, OF_HOST.tasks] += 1.0
            hosts[slot.host, OF_HOST.demand] += asked
            hosts[slot.host, OF_HOST.memory] += slot.ram
        if count < room:
            row = tasks[count]
            row[OF_TASK.task], row[OF_TASK.device], row[OF_TASK.workload] = slot.container, -1.0, slot.profile
            row[OF_TASK.host], row[OF_TASK.movable] = slot.host, 1.0 if slot.host >= 0 else 0.0
            row[OF_TASK.input] = row[OF_TASK.memory] = bounded(slot.ram * _MEGA)
            row[OF_TASK.work] = bounded(max(slot.work - slot.done, 0.0) * _MEGA)
            row[OF_TASK.demand] = bounded(asked * _MEGA)
            row[OF_TASK.deadline] = bounded((slot.created + slot.deadline - (w.now - 1)) * w.length)
            row[OF_TASK.age] = bounded((w.now - slot.start) * w.length)
            row[OF_TASK.chance] = draw(slot.container, bits)
            if count >= shown:
                task_mask[count] = 1
                for h in range(len(given.way)):
                    reach[count, h] = given.way[h]
        count += 1
    for row in range(count, shown):
        tasks[row, :] = 0.0
        reach[row, :] = MOST
        task_mask[row] = 0
    for h in range(len(hosts)):
        host = memory.host(w.hosts, h)
        power[h] = host.joules / w.length
        hosts[h, OF_HOST.demand] = bounded(hosts[h, OF_HOST.demand] * _MEGA)
        hosts[h, OF_HOST.utilisation] = bounded(host.used / host.mips)
        hosts[h, OF_HOST.memory] = bounded((host.ram - hosts[h, OF_HOST.memory]) * _MEGA)
        hosts[h, OF_HOST.power] = bounded(power[h])
        hosts[h, OF_HOST.up] = 1.0 if host.up != 0 else 0.0
        host_mask[h] = 1 if host.up != 0 else 0
    return count


@entry
def advance(
    rules: int, what: Ints, actions: Ints, events: Ints, following: Ints, given: Unchanging, counts: Ints, seen: Seen
) -> int:
    """Do `what` (N,) with the worlds whose RULES begin at the address `rules`; how many have been dealt with.

    `actions` (N, T) are answers as `ContinuumEnv` takes them. `events` (E, 3) are the intervals that have passed,
    the host, and whether it is back; `following` (N,) the next one of each world. `counts` (N,) is how many
    containers each world has. Fewer are dealt with when a world's ring of waiting containers is too small.
    """
    room = seen.tasks.shape[1]
    for k in range(len(what)):
        w = memory.rules(rules, k)
        if what[k] == END:
            blank(row_of(seen, k))
            counts[k] = 0
            continue
        if what[k] == STEP:
            end(w, _decide(w, actions[k]))
            if not begin(w):
                return k
        following[k] = _happen(w, events, w.now - 1, following[k])
        counts[k] = _look(w, given, min(counts[k], room), row_of(seen, k))
    return len(what)
