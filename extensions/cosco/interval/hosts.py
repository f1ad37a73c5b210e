"""Hosts: who is on them, what fits, who gets how many MIPS, what power that takes."""

from __future__ import annotations

import math

from cosim.engine.continuum.jit import jit
from cosim.extensions.cosco.interval import layout as l
from cosim.extensions.cosco.interval import memory
from cosim.extensions.cosco.interval.layout import Record
from cosim.extensions.cosco.interval.quirks import FIRST_TASK_LOAD, LOST_SPARE, OVERLOAD_STOPS, RATES_UNCHECKED


@jit
def has(w: Record, quirk: int) -> bool:
    """Whether the quirk is on."""
    on: bool = (w.quirks >> quirk) & 1 == 1
    return on


@jit
def demanded(w: Record, i: int, what: int) -> float:
    """What the container in slot i demands at its present age, whether its work is done or not."""
    found: float = memory.real(w.demand, memory.slot(w.slots, i).sample + what).v
    return found


@jit
def age(w: Record, i: int) -> None:
    """Take over what the container in slot i demands in the present interval."""
    slot = memory.slot(w.slots, i)
    sample = (w.now - slot.start) % memory.profile(w.profiles, slot.profile).length
    slot.sample = (slot.profile * w.samples + sample) * l.DEMANDS
    slot.mips, slot.ram = demanded(w, i, l.D_MIPS), demanded(w, i, l.D_RAM)


@jit
def base(w: Record, i: int) -> float:
    """MIPS that the container in slot i demands: 0 when its work is done."""
    slot = memory.slot(w.slots, i)
    mips: float = slot.mips
    return mips if slot.done < slot.work else 0.0


@jit
def load(w: Record, h: int) -> float:
    """MIPS that the containers on host h demand, summed in the order of their slots."""
    host = memory.host(w.hosts, h)
    if has(w, FIRST_TASK_LOAD):
        for i in range(w.slot_count):
            if memory.slot(w.slots, i).container != l.NONE:
                first: float = base(w, i) * host.count
                return first
        return 0.0
    total = 0.0
    i = host.first
    while i >= 0:
        total += base(w, i)
        i = memory.slot(w.slots, i).next
    return total


@jit
def _rates_fit(w: Record, i: int, h: int) -> bool:
    """Whether the read and write rates of memory and disk allow the container in slot i on host h."""
    a, b = demanded(w, i, l.D_RAM_READ), demanded(w, i, l.D_RAM_WRITE)
    c, d = demanded(w, i, l.D_DISK_READ), demanded(w, i, l.D_DISK_WRITE)
    host = memory.host(w.hosts, h)
    k = host.first
    while k >= 0:
        a += demanded(w, k, l.D_RAM_READ)
        b += demanded(w, k, l.D_RAM_WRITE)
        c += demanded(w, k, l.D_DISK_READ)
        d += demanded(w, k, l.D_DISK_WRITE)
        k = memory.slot(w.slots, k).next
    fit: bool = a <= host.ram_read and b <= host.ram_write and c <= host.disk_read and d <= host.disk_write
    return fit


@jit
def taken(w: Record, h: int) -> tuple[float, float, float]:
    """MIPS, MB of memory and MB of disk that the containers on host h demand."""
    mips = ram = disk = 0.0
    i = memory.host(w.hosts, h).first
    while i >= 0:
        slot = memory.slot(w.slots, i)
        mips += slot.mips if slot.done < slot.work else 0.0
        ram += slot.ram
        disk += slot.disk
        i = slot.next
    if has(w, FIRST_TASK_LOAD):
        mips = load(w, h)
    return mips, ram, disk


@jit
def fits(w: Record, i: int, h: int) -> bool:
    """Whether the container in slot i, which is elsewhere, fits on host h beside those that are there."""
    host, slot = memory.host(w.hosts, h), memory.slot(w.slots, i)
    mips, ram, disk = taken(w, h)
    if host.up == 0 or base(w, i) > host.mips - mips or slot.ram > host.ram - ram or slot.disk > host.disk - disk:
        return False
    return has(w, RATES_UNCHECKED) or _rates_fit(w, i, h)


@jit
def attach(w: Record, i: int, h: int) -> None:
    """Put slot i into the list of host h, which goes by slot."""
    slot, host = memory.slot(w.slots, i), memory.host(w.hosts, h)
    before, after = l.NONE, host.first
    while 0 <= after < i:
        before, after = after, memory.slot(w.slots, after).next
    slot.host, slot.next = h, after
    if before < 0:
        host.first = i
    else:
        memory.slot(w.slots, before).next = i
    host.count += 1


@jit
def detach(w: Record, i: int) -> None:
    """Take slot i from the list of its host."""
    slot = memory.slot(w.slots, i)
    host = memory.host(w.hosts, slot.host)
    if host.first == i:
        host.first = slot.next
    else:
        before = host.first
        while memory.slot(w.slots, before).next != i:
            before = memory.slot(w.slots, before).next
        memory.slot(w.slots, before).next = slot.next
    host.count -= 1
    slot.host = slot.next = l.NONE


@jit
def _member(w: Record, i: int, finished: bool, time: float) -> bool:
    slot = memory.slot(w.slots, i)
    in_time: bool = slot.offset <= time
    return in_time and (finished or slot.done < slot.work)


@jit
def share(w: Record, h: int, finished: bool, time: float) -> float:
    """Set `rate` (MIPS) of all containers on host h, and return their sum.

    Those count that may run `time` s into the interval; with `finished` also those whose work is
    done. Everybody gets his demand, and the spare MIPS are split equally up to the peaks.
    """
    host = memory.host(w.hosts, h)
    members, total, heads, least = 0, 0.0, 0.0, math.inf
    i = host.first
    while i >= 0:
        slot = memory.slot(w.slots, i)
        slot.rate = 0.0
        if _member(w, i, finished, time):
            asked = base(w, i)
            head = max(0.0, slot.peak - asked)
            total += asked
            heads += head
            least = min(least, head)
            members += 1
        i = slot.next
    if members == 0:
        return 0.0
    if has(w, FIRST_TASK_LOAD):
        total = load(w, h)
    spare = host.mips - total
    if spare < 0.0 and has(w, OVERLOAD_STOPS):
        return 0.0
    level = spare / members
    if spare >= 0.0 and least < level and not has(w, LOST_SPARE):
        level = math.inf if heads <= spare else _level(w, h, finished, time, spare, members)
    used = 0.0
    i = host.first
    while i >= 0:
        slot = memory.slot(w.slots, i)
        if _member(w, i, finished, time):
            asked = base(w, i)
            slot.rate = min(slot.peak, asked + level if spare >= 0.0 else asked * host.mips / total)
            used += slot.rate
        i = slot.next
    return used


@jit
def _level(w: Record, h: int, finished: bool, time: float, spare: float, members: int) -> float:
    """What each gets beyond his demand, when those who reach their peak leave the rest to the others."""
    level, sated = spare / members, -1
    while True:
        rest, count = spare, 0
        i = memory.host(w.hosts, h).first
        while i >= 0:
            slot = memory.slot(w.slots, i)
            if _member(w, i, finished, time):
                head = max(0.0, slot.peak - base(w, i))
                if head <= level:
                    rest -= head
                    count += 1
            i = slot.next
        if count == members:
            return math.inf  # all at their peaks
        if count == sated:
            return level
        sated = count
        level = max(level, rest / (members - count))


@jit
def share_of(w: Record, i: int, finished: bool) -> float:
    """MIPS of the container in slot i alone, as `share` would set them."""
    slot = memory.slot(w.slots, i)
    if not (has(w, LOST_SPARE) and has(w, OVERLOAD_STOPS) and finished):
        share(w, slot.host, finished, math.inf)
        set_to: float = slot.rate
        return set_to
    host = memory.host(w.hosts, slot.host)
    spare = (host.mips - load(w, slot.host)) / host.count
    return min(slot.peak, base(w, i) + spare) if spare >= 0.0 else 0.0


@jit
def watts(w: Record, h: int, utilisation: float) -> float:
    """W of host h at this share of its MIPS, by its table."""
    at = min(max(utilisation, 0.0), 1.0) * (l.POWER_POINTS - 1)
    low = min(int(at), l.POWER_POINTS - 2)
    below: float = memory.real(w.power, l.POWER_POINTS * h + low).v
    above: float = memory.real(w.power, l.POWER_POINTS * h + low + 1).v
    return below + (at - low) * (above - below)
