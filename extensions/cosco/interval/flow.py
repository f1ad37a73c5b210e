"""One interval on the hosts: transfers, execution, energy, and the ends of containers."""

from __future__ import annotations

import math

from cosim.engine.continuum.jit import jit
from cosim.extensions.cosco.interval import layout as l
from cosim.extensions.cosco.interval import memory
from cosim.extensions.cosco.interval.hosts import attach, base, detach, fits, has, share, share_of, watts
from cosim.extensions.cosco.interval.layout import Record
from cosim.extensions.cosco.interval.quirks import (
    EMPTY_SLOTS_IN_FAIRNESS,
    EXECUTION_ONLY_RESPONSE,
    FINISHED_KEEPS_SHARE,
    LAST_HOST_SOURCE,
    MOVES_RECOUNTED,
    NEGATIVE_RUN_TIME,
    NEW_COUNTED_APART,
    ORDER_DEPENDENT,
    REFUSED_MOVES_COUNT,
    TRUNCATED_MIPS,
    WHOLE_INTERVALS,
    ZERO_RETIRES,
)

_HOUR = 3600.0
_WHOLE = 10.0  # s; any time before the end of an interval is before this many intervals


@jit
def _source(w: Record, host: int) -> int:
    """Where a container comes from: its host, and for a new one the registry (-1) or, as a quirk, the last host."""
    if host < 0 and has(w, LAST_HOST_SOURCE):
        host = w.host_count - 1
    return host


@jit
def _transfer(w: Record, i: int, source: int, target: int, leaving: int, pairs: int) -> float:
    """s to bring the container in slot i to `target`, beside `leaving` transfers from `source` and `pairs` in all."""
    to = memory.host(w.hosts, target)
    bandwidth = min(to.down_link / to.into, w.router / pairs)
    latency = to.latency
    if source >= 0:
        bandwidth = min(bandwidth, memory.host(w.hosts, source).up_link / leaving)
        latency = abs(memory.host(w.hosts, source).latency - to.latency)
    seconds: float = memory.slot(w.slots, i).ram / bandwidth + latency + w.overhead
    return seconds


@jit
def _count(w: Record, origin: int, target: int, apart: bool) -> int:
    """Count a transfer at both ends. 1 when it comes from no host, or, with `apart`, is of a new container."""
    memory.host(w.hosts, target).into += 1
    source = _source(w, origin)
    if source < 0 or (apart and origin < 0):
        return 1
    memory.host(w.hosts, source).out_of += 1
    return 0


@jit
def _move(w: Record, i: int, target: int) -> None:
    """Slot i belongs to host `target` from now on."""
    if memory.slot(w.slots, i).host < 0:
        memory.real(w.row, l.F_STARTED).v += 1.0
    else:
        memory.real(w.row, l.F_MIGRATED).v += 1.0
        detach(w, i)
    attach(w, i, target)


@jit
def _run_alone(w: Record, i: int, transfer: float) -> None:
    """Quirk order-dependent: the container in slot i runs on the share it has just now."""
    slot = memory.slot(w.slots, i)
    begin, length = (w.now - 1) * w.length, w.length
    if has(w, NEGATIVE_RUN_TIME):
        slot.transfer += transfer
        span = length - transfer
    else:
        slot.left += transfer
        spent = min(slot.left, length)
        slot.left -= spent
        slot.transfer += spent
        span = length - spent
    if math.isnan(slot.begun) and slot.left == 0.0:
        slot.begun = begin + (length - span)
    slot.rate = share_of(w, i, has(w, FINISHED_KEEPS_SHARE))
    need = (slot.work - slot.done) / slot.rate if slot.rate > 0.0 else 0.0
    time = min(span, need)
    before = slot.done < slot.work
    slot.running += time
    slot.done += slot.rate * time
    if before and slot.done >= slot.work:
        slot.finish = begin + (length - span) + time
    host = memory.host(w.hosts, slot.host)
    host.used += slot.rate * time / length
    host.busy += slot.rate * time


@jit
def _run_host(w: Record, h: int) -> None:
    """All containers on host h run at once; shares are set anew when one begins or ends."""
    host = memory.host(w.hosts, h)
    begin, length = (w.now - 1) * w.length, w.length
    boot = w.boot if host.on == 0 else 0.0
    i = host.first
    while i >= 0:
        slot = memory.slot(w.slots, i)
        slot.offset = min(max(boot, slot.left), length)
        spent = slot.left if has(w, NEGATIVE_RUN_TIME) else min(slot.left, length)
        slot.transfer += spent
        if spent > length:
            slot.fresh = spent - length  # to be taken back below
        slot.left -= spent
        if math.isnan(slot.begun) and slot.left == 0.0:
            slot.begun = begin + max(boot, spent)
        i = slot.next
    time = 0.0
    while True:
        used = share(w, h, False, time)
        span = length - time
        i = host.first
        while i >= 0:
            slot = memory.slot(w.slots, i)
            if slot.offset > time:
                span = min(span, slot.offset - time)
            elif slot.rate > 0.0:
                span = min(span, (slot.work - slot.done) / slot.rate)
            i = slot.next
        host.joules += watts(w, h, used / host.mips) * span
        host.used += used * span / length
        host.busy += used * span
        i = host.first
        while i >= 0:
            slot = memory.slot(w.slots, i)
            if slot.offset <= time and slot.done < slot.work:
                slot.running += span
                if slot.rate > 0.0 and (slot.work - slot.done) / slot.rate <= span:
                    slot.done = slot.work
                    slot.finish = begin + time + span
                else:
                    slot.done += slot.rate * span
            i = slot.next
        time += span
        if time >= length:
            break
    i = host.first if has(w, NEGATIVE_RUN_TIME) else -1
    while i >= 0:
        slot = memory.slot(w.slots, i)
        if slot.fresh > 0.0:
            share(w, h, False, math.inf)
            slot.running -= slot.fresh
            slot.done -= slot.rate * slot.fresh
        slot.fresh = -1.0
        i = slot.next


@jit
def place_in_order(w: Record, pairs: int) -> None:
    """Quirk order-dependent: decide, move and run one pair after the other, then the rest by slot."""
    apart, anew = has(w, NEW_COUNTED_APART), has(w, MOVES_RECOUNTED)
    counted, new = 0, 0  # transfers in all, and of those that come from nowhere as they are counted
    for k in range(pairs):
        pair = memory.pair(w.pairs, k)
        pair.source = memory.slot(w.slots, pair.slot).host
        pair.counted = 1 if has(w, REFUSED_MOVES_COUNT) or fits(w, pair.slot, pair.host) else 0
        if pair.counted != 0:
            counted += 1
            new += _count(w, pair.source, pair.host, apart)
    for k in range(pairs):
        pair = memory.pair(w.pairs, k)
        i, target = pair.slot, pair.host
        if not fits(w, i, target):
            memory.real(w.row, l.F_REFUSED).v += 1.0
            continue
        if pair.counted == 0:  # it did not fit when the transfers were counted, but now does
            counted += 1
            new += _count(w, pair.source, target, apart)
        source = _source(w, pair.source)
        leaving = new
        if source >= 0 and not (apart and pair.source < 0):
            leaving = memory.host(w.hosts, source).out_of
        transfer = _transfer(w, i, source, target, leaving, counted)
        if anew:  # from now on it counts at its new host
            if source >= 0 and not (apart and pair.source < 0):
                memory.host(w.hosts, source).out_of -= 1
            else:
                new -= 1
            memory.host(w.hosts, target).out_of += 1
        _move(w, i, target)
        memory.slot(w.slots, i).fresh = transfer
        _run_alone(w, i, transfer)
    for i in range(w.slot_count):
        slot = memory.slot(w.slots, i)
        if slot.host >= 0 and slot.fresh < 0.0:
            _run_alone(w, i, 0.0)
        slot.fresh = -1.0


@jit
def _number(w: Record, i: int) -> int:
    number: int = memory.slot(w.slots, i).container
    return number


@jit
def place_at_once(w: Record, pairs: int) -> None:
    """Move what fits, in order of creation; then all transfers share the bandwidth, and all hosts run."""
    for k in range(1, pairs):  # few: an insertion sort by container
        pair = memory.pair(w.pairs, k)
        i, target = pair.slot, pair.host
        at = k
        while at > 0 and _number(w, memory.pair(w.pairs, at - 1).slot) > _number(w, i):
            before, here = memory.pair(w.pairs, at - 1), memory.pair(w.pairs, at)
            here.slot, here.host = before.slot, before.host
            at -= 1
        here = memory.pair(w.pairs, at)
        here.slot, here.host = i, target
    counted = 0
    for k in range(pairs):
        pair = memory.pair(w.pairs, k)
        i, target = pair.slot, pair.host
        origin = memory.slot(w.slots, i).host
        source = _source(w, origin)
        memory.slot(w.slots, i).fresh = -1.0
        fit = fits(w, i, target)
        if fit or has(w, REFUSED_MOVES_COUNT):
            _count(w, origin, target, False)
            counted += 1
        if fit:
            _move(w, i, target)
            memory.slot(w.slots, i).fresh = source + 2.0  # kept until the transfers have been counted
        else:
            memory.real(w.row, l.F_REFUSED).v += 1.0
    for k in range(pairs):
        i = memory.pair(w.pairs, k).slot
        slot = memory.slot(w.slots, i)
        if slot.fresh > 0.0:
            source = int(slot.fresh) - 2
            leaving = memory.host(w.hosts, source).out_of if source >= 0 else 0
            slot.left += _transfer(w, i, source, slot.host, leaving, counted)
            slot.fresh = -1.0
    for h in range(w.host_count):
        if memory.host(w.hosts, h).first >= 0:
            _run_host(w, h)
        elif w.switch_off == 0:
            memory.host(w.hosts, h).joules = watts(w, h, 0.0) * w.length


@jit
def _ahead(w: Record, h: int) -> float:
    """J that host h would still take at the rates of the end, beyond what it takes without containers.

    A host that is switched off when it is empty takes its idle power until the last container ends.
    """
    host = memory.host(w.hosts, h)
    rates, work, longest = 0.0, 0.0, 0.0
    i = host.first
    while i >= 0:
        slot = memory.slot(w.slots, i)
        rate = slot.rate if slot.rate > 0.0 else slot.mips
        if slot.done < slot.work and rate > 0.0:
            rates += rate
            work += slot.work - slot.done
            longest = max(longest, (slot.work - slot.done) / rate + slot.left)
        i = slot.next
    if rates == 0.0:
        return 0.0
    idle = watts(w, h, 0.0)
    joules = (watts(w, h, rates / host.mips) - idle) * work / rates
    return joules + idle * longest if w.switch_off != 0 else joules


@jit
def meter(w: Record) -> None:
    """Energy, utilisation, cost and fairness of the interval, and what is still to come of its containers."""
    total, begin = 0.0, (w.now - 1) * w.length
    memory.real(w.row, l.F_PRESENT).v += w.queued * w.length
    for h in range(w.host_count):
        host = memory.host(w.hosts, h)
        if has(w, FINISHED_KEEPS_SHARE):
            used = share(w, h, True, math.inf)
            host.used = float(int(used)) if has(w, TRUNCATED_MIPS) else used
            host.joules = watts(w, h, host.used / host.mips) * w.length
        elif has(w, TRUNCATED_MIPS):
            host.used = float(int(host.used))
            host.joules = watts(w, h, host.used / host.mips) * w.length
        elif has(w, ORDER_DEPENDENT):
            host.joules = watts(w, h, host.used / host.mips) * w.length
        host.on = 0 if host.up == 0 or (w.switch_off != 0 and host.first < 0) else 1
        if host.on == 0:
            host.joules = 0.0
        host.energy += host.joules
        price = host.on * host.price * w.length / _HOUR
        host.cost += price
        total += host.used / host.mips
        memory.real(w.row, l.F_ENERGY).v += host.joules
        memory.real(w.row, l.F_WORK).v += host.used * w.length
        memory.real(w.row, l.F_COST).v += price
        memory.real(w.row, l.F_AHEAD).v += _ahead(w, h)
    memory.real(w.row, l.F_UTILISATION).v = total / w.host_count
    count, first, second = 0, 0.0, 0.0
    for i in range(w.slot_count):
        slot = memory.slot(w.slots, i)
        if slot.host >= 0:
            count += 1
            ended = slot.done >= slot.work and not math.isnan(slot.finish)
            memory.real(w.row, l.F_PRESENT).v += max(slot.finish - begin, 0.0) if ended else w.length
            first += slot.rate
            second += slot.rate * slot.rate
            rate = slot.rate if slot.rate > 0.0 else slot.mips  # one that does not run yet: what it asks for
            if slot.done < slot.work and rate > 0.0:
                memory.real(w.row, l.F_LEFT).v += (slot.work - slot.done) / rate + slot.left
    among = w.slot_count if has(w, EMPTY_SLOTS_IN_FAIRNESS) else count
    memory.real(w.row, l.F_FAIRNESS).v = first * first / (among * second) if second > 0.0 else 0.0


@jit
def release(w: Record, i: int, status: int) -> None:
    """The container in slot i is no more; how it ended is kept, if rows are."""
    slot = memory.slot(w.slots, i)
    created = slot.created * w.length
    finish = slot.finish if status == l.COMPLETED else math.nan
    late, response = 0, math.nan
    if status == l.COMPLETED:
        if math.isnan(finish):
            finish = (w.now - 1) * w.length
        response = finish - created
        late = 1 if response > slot.deadline * w.length else 0
        if has(w, WHOLE_INTERVALS):
            late = 1 if w.now > slot.created + slot.deadline else 0
        if has(w, EXECUTION_ONLY_RESPONSE):
            response = slot.running + slot.transfer
        memory.real(w.row, l.F_COMPLETED).v += 1.0
        memory.real(w.row, l.F_LATE).v += late
        memory.real(w.row, l.F_RESPONSE).v += response
        memory.real(w.row, l.F_WAIT).v += slot.start - slot.created - (0 if has(w, WHOLE_INTERVALS) else 1)
        memory.real(w.row, l.F_TRANSFER).v += slot.transfer
        memory.host(w.hosts, slot.host).completed += 1
    if w.ended_room > 0:
        row = memory.ended(w.ended, w.ended_count)
        row.container, row.profile, row.host, row.status = slot.container, slot.profile, slot.host, status
        row.created, row.begun, row.finish = created, slot.begun, finish
        row.response, row.work, row.deadline, row.late = response, slot.work, slot.deadline * w.length, late
        w.ended_count += 1
    detach(w, i)
    slot.container = l.NONE


@jit
def retire(w: Record) -> None:
    """Release the containers whose work is done (quirk zero-retires: that demand nothing)."""
    for i in range(w.slot_count):
        slot = memory.slot(w.slots, i)
        if slot.host >= 0 and ((base(w, i) == 0.0) if has(w, ZERO_RETIRES) else (slot.done >= slot.work)):
            release(w, i, l.COMPLETED)
