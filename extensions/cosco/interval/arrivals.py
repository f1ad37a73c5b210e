"""Containers come to be: how many, which, and with how much work; all by counter-based draws.

What container n is depends on the seed and n alone, and how many come in an interval on the seed and
the interval, so that runs with other decisions or parameters meet the same containers.
"""

from __future__ import annotations

import math

import numpy as np

from cosim.engine.continuum.draw import stream, uniform
from cosim.engine.continuum.jit import jit
from cosim.extensions.cosco.interval import memory
from cosim.extensions.cosco.interval.hosts import age, has
from cosim.extensions.cosco.interval.layout import FIXED, GIVEN, NONE, POISSON, Record
from cosim.extensions.cosco.interval.quirks import DEADLINE_TWICE

_CONTAINER, _COUNT = 1, 2  # streams
_PROFILE, _SIZE, _DUE = 0, 1, 3  # purposes; a normal draw takes two
_PART = 16.0  # of a Poisson mean that is drawn at once; exp(-16) is far from 0
_SAMPLES_PER_DURATION = 1.2  # the peer gives a container the work of this many samples per interval of its deadline


@jit
def normal(key: np.uint64, n: int, purpose: int) -> float:
    """A standard normal draw (Box and Muller 1958) from the uniform draws `purpose` and `purpose + 1`."""
    radius = math.sqrt(-2.0 * math.log1p(-uniform(key, n, purpose)))
    return radius * math.cos(2.0 * math.pi * uniform(key, n, purpose + 1))


@jit
def poisson(mean: float, key: np.uint64) -> int:
    """A Poisson draw: the sum of draws of at most 16 on average, each by inversion."""
    count = 0
    part = 0
    while mean > 0.0:
        m = min(mean, _PART)
        mean -= m
        u = uniform(key, part, 0)
        chance = math.exp(-m)
        total = chance
        k = 0
        while u > total and k < 200:
            k += 1
            chance *= m / k
            total += chance
        count += k
        part += 1
    return count


@jit
def arriving(w: Record) -> int:
    """How many containers come between the intervals now and now + 1."""
    if w.arrivals == GIVEN:
        count = 0
        while w.created + count < w.given_count and memory.real(w.given, 4 * (w.created + count)).v <= w.now:
            count += 1
        return count
    key = stream(w.seed, w.now, 0, _COUNT)
    if w.arrivals == POISSON:
        return poisson(w.mean, key)
    return max(1, int(w.mean + w.deviation * normal(key, 0, 0)))


@jit
def draw(w: Record, container: int, i: int) -> None:
    """Put what container number `container` is into slot i: profile, work, deadline."""
    slot = memory.slot(w.slots, i)
    if w.arrivals == GIVEN:
        slot.profile = int(memory.real(w.given, 4 * container + 1).v)
        slot.work = memory.real(w.given, 4 * container + 2).v
        slot.deadline = memory.real(w.given, 4 * container + 3).v
    else:
        key = stream(w.seed, container, 0, _CONTAINER)
        u = uniform(key, 0, _PROFILE)
        p = 0
        while p < w.profile_count - 1 and u >= memory.profile(w.profiles, p).share:
            p += 1
        slot.profile = p
        profile = memory.profile(w.profiles, p)
        if w.work == FIXED:
            slot.work = profile.work
            if w.spread > 0.0:
                slot.work *= math.exp(w.spread * normal(key, 0, _SIZE))
            span = profile.due_most - profile.due_least + 1
            slot.deadline = float(profile.due_least + int(uniform(key, 0, _DUE) * span))
        else:
            duration = w.duration + w.duration_deviation * normal(key, 0, _SIZE)
            samples = min(max(int(_SAMPLES_PER_DURATION * duration), 0), profile.length)
            slot.work = memory.real(w.sums, p * (w.samples + 1) + samples).v
            slot.deadline = duration
    if has(w, DEADLINE_TWICE):
        slot.deadline += slot.created


@jit
def push_back(w: Record, container: int, created: int) -> None:
    """A new container waits behind all others."""
    at = (w.head + w.queued) % w.queue_room
    place = memory.waiting(w.queue, at)
    place.container, place.created = container, created
    w.queued += 1


@jit
def push_front(w: Record, container: int, created: int) -> None:
    """A container that found no host waits before all others."""
    w.head = (w.head - 1) % w.queue_room
    place = memory.waiting(w.queue, w.head)
    place.container, place.created = container, created
    w.queued += 1


@jit
def fill(w: Record) -> None:
    """Waiting containers take the lowest free slots, in order of creation."""
    for i in range(w.slot_count):
        if w.queued == 0:
            return
        slot = memory.slot(w.slots, i)
        if slot.container != NONE:
            continue
        first = memory.waiting(w.queue, w.head)
        slot.container, slot.created = first.container, first.created
        w.head = (w.head + 1) % w.queue_room
        w.queued -= 1
        slot.host = slot.next = NONE
        slot.start = w.now
        slot.done = slot.running = slot.transfer = slot.left = slot.rate = 0.0
        slot.fresh = -1.0
        slot.begun = slot.finish = math.nan
        draw(w, slot.container, i)
        profile = memory.profile(w.profiles, slot.profile)
        slot.peak, slot.disk = profile.peak, profile.disk
        age(w, i)
