"""The compiled entry point of the vehicular model: runs its events up to a time.

Vehicles on a circular road send tasks over their access point to an edge machine or on to the cloud,
or over the cellular network to the cloud. Edge machines are taken in turn over all places, the
others' over the metropolitan network. A result follows a vehicle that has moved on; one that leaves
its access point during the last hop does not get it.
"""

from __future__ import annotations

import math

import numpy as np

from cosim.compiled.compiling import codes, entry
from cosim.engine.continuum.draw import uniform
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.layout import Record
from cosim.engine.continuum.memory import real
from cosim.engine.continuum.queue import drop, put, queue
from cosim.extensions.edgecloudsim.offloading import layout as l
from cosim.extensions.edgecloudsim.offloading import rows
from cosim.extensions.edgecloudsim.offloading.books import close_task, take_row
from cosim.extensions.edgecloudsim.offloading.draws import (
    ACTIVITY_START,
    DOWNLOAD,
    HOME,
    LENGTH,
    UPLOAD,
    begin_activity,
    draw_application,
    key_of,
    next_arrival,
)
from cosim.extensions.edgecloudsim.offloading.kernel import ASK, DONE, GROW, NOBODY, first_samples, note_loads
from cosim.extensions.edgecloudsim.offloading.rooms import fits, plant
from cosim.extensions.edgecloudsim.offloading.station import enter, leave, need, watching
from cosim.extensions.edgecloudsim.offloading.vehicular import observed
from cosim.extensions.edgecloudsim.offloading.vehicular.choices import GAME, choose, seat
from cosim.extensions.edgecloudsim.offloading.vehicular.links import (
    GSM_DOWN,
    GSM_UP,
    MAN_DOWN,
    MAN_UP,
    WAN_DOWN,
    WAN_UP,
    WINDOW,
    ask,
    close_window,
    downlink,
    link,
    shared,
    uplink,
)
from cosim.extensions.edgecloudsim.offloading.vehicular.observed import (
    CELLULAR,
    OPTIONS,
    ROADSIDE,
    SPAN,
    learn,
    observe,
    recent,
    turn_window,
)
from cosim.extensions.edgecloudsim.offloading.vehicular.road import serving

BEGIN = codes(1)[0] - 4  # value of `choice`

# Its machine code is also made of what the place kernel and the continuum engine share with it.
_kernel_entry = entry()

# A task's stage is `option * STEPS` plus what it is waiting for: the end of a transfer or of its execution.
ASKED, RADIO_UP, CORE_UP, RUN, CORE_DOWN, RELAY, RADIO_DOWN = codes(8)[1:]
STEPS = np.int64(8)

take_next = queue().take_next


@jit
def _option(t: Record) -> int:
    return int(t.stage // STEPS)


@jit
def _finish(s: Record, i: int, cause: int, now: float) -> None:
    """Task i has ended."""
    if s.watching != 0:
        t = rows.task(s.tasks, i)
        succeeded = 1 if cause == l.COMPLETED else 0
        learn(s, _option(t), succeeded, now - t.created, t.length, rows.app(s.apps, t.app).max_delay)
    close_task(s, i, cause, now)


@jit
def _travel(s: Record, i: int, delay: float, step: int, cause: int, now: float) -> None:
    """Task i is under way for `delay` s; 0: the link has no room, and the task fails for `cause`."""
    if delay <= 0.0:
        _finish(s, i, cause, now)
        return
    t = rows.task(s.tasks, i)
    t.stage = _option(t) * STEPS + step
    put(s, s.first_task + i, now + delay)


@jit
def send(s: Record, i: int, option: int, now: float) -> None:
    """Send task i off."""
    t = rows.task(s.tasks, i)
    t.stage = option * STEPS + RADIO_UP
    t.tier = l.EDGE if option == observed.EDGE else l.CLOUD
    recent(s.recent, s.window * OPTIONS + option).sent += 1.0
    if option == CELLULAR:
        t.gsm = ask(shared(s, GSM_UP), t.upload)
        delay = t.gsm
    else:
        t.wlan = ask(uplink(s, t.place), t.upload)
        delay = t.wlan
    if delay > 0.0:
        if t.tier == l.EDGE:
            t.vm = s.edge_turn
            s.edge_turn = (s.edge_turn + 1) % s.edge_vms
        else:
            t.vm = s.edge_vms + s.cloud_turn
            s.cloud_turn = (s.cloud_turn + 1) % s.cloud_vms
    _travel(s, i, delay, RADIO_UP, l.LOST_GSM if option == CELLULAR else l.LOST_WLAN, now)


@jit
def _arrive(s: Record, i: int, now: float) -> None:
    """Task i is at its machine."""
    t = rows.task(s.tasks, i)
    if not fits(s, t.vm, need(s, t.app, t.tier)):
        _finish(s, i, l.CAPACITY, now)
        return
    t.arrived = now
    t.stage = _option(t) * STEPS + RUN
    if s.processing_tick != 0:
        _look(s, rows.vm(s.vms, t.vm).centre, now)
    enter(s, i, t.vm, now)


@jit
def _relay(s: Record, i: int, now: float) -> None:
    """The result goes to another place over the metropolitan network."""
    t = rows.task(s.tasks, i)
    delay = ask(shared(s, MAN_DOWN), t.download)
    t.man += delay
    _travel(s, i, delay, RELAY, l.LOST_MAN, now)


@jit
def _last_hop(s: Record, i: int, now: float) -> None:
    """The result goes from the access point to its vehicle there."""
    t = rows.task(s.tasks, i)
    t.via = serving(s, rows.device(s.devices, t.device), now)
    delay = ask(downlink(s, t.via), t.download)
    t.wlan += delay
    _travel(s, i, delay, RADIO_DOWN, l.LOST_WLAN, now)


@jit
def _result_at(s: Record, i: int, place: int, now: float) -> None:
    """The result is at a place."""
    if serving(s, rows.device(s.devices, rows.task(s.tasks, i).device), now) == place:
        _last_hop(s, i, now)
    else:
        _relay(s, i, now)


@jit
def _computed(s: Record, i: int, now: float) -> None:
    """Task i has been executed."""
    leave(s, i, now)
    drop(s, s.first_task + i)
    t = rows.task(s.tasks, i)
    t.computed = now
    option = _option(t)
    if option == CELLULAR:
        delay = ask(shared(s, GSM_DOWN), t.download)
        t.gsm += delay
        _travel(s, i, delay, RADIO_DOWN, l.LOST_GSM, now)
    elif option == ROADSIDE:
        delay = ask(shared(s, WAN_DOWN), t.download)
        t.wan += delay
        _travel(s, i, delay, CORE_DOWN, l.LOST_WAN, now)
    else:
        place = rows.vm(s.vms, t.vm).place
        if s.result_skips_man != 0:
            place = t.place
        _result_at(s, i, place, now)


_look, _served = watching(_computed)


@jit
def _proceed(s: Record, i: int, now: float) -> None:
    """The event of task i."""
    t = rows.task(s.tasks, i)
    step, option = t.stage % STEPS, _option(t)
    if step == RADIO_UP:
        if option == ROADSIDE:
            t.wan = ask(shared(s, WAN_UP), t.upload)
            _travel(s, i, t.wan, CORE_UP, l.LOST_WAN, now)
        elif option == observed.EDGE and rows.vm(s.vms, t.vm).place != t.place:
            t.man = ask(shared(s, MAN_UP), t.upload)
            _travel(s, i, t.man, CORE_UP, l.LOST_MAN, now)
        else:
            _arrive(s, i, now)
    elif step == CORE_UP:
        _arrive(s, i, now)
    elif step == RUN:
        _look(s, rows.vm(s.vms, t.vm).centre, now)
    elif step == CORE_DOWN:
        _result_at(s, i, t.place, now)
    elif step == RELAY:
        _last_hop(s, i, now)
    elif option != CELLULAR and serving(s, rows.device(s.devices, t.device), now) != t.via:
        _finish(s, i, l.MOBILITY, now)
    else:
        _finish(s, i, l.COMPLETED, now)


@jit
def _around(s: Record, mean: float, u: float) -> float:
    """Uniform within a tenth around the mean; quirk integer-sizes: whole numbers, as is the tenth."""
    if s.integer_sizes != 0:
        tenth = math.floor(mean / 10.0)
        return mean - tenth + math.floor((2.0 * tenth + 1.0) * u)
    return mean * (0.9 + 0.2 * u)


@jit
def _submit(s: Record, d: int, now: float) -> bool:
    """Device d makes a task. False when the caller must choose its way."""
    dv = rows.device(s.devices, d)
    serving(s, dv, now)
    i = take_row(s, d, now)
    t = rows.task(s.tasks, i)
    n = t.number
    a = rows.app(s.apps, dv.app)
    t.upload = _around(s, a.upload, uniform(dv.key, n, UPLOAD))
    t.download = _around(s, a.download, uniform(dv.key, n, DOWNLOAD))
    t.length = _around(s, a.length, uniform(dv.key, n, LENGTH))
    next_arrival(s, d)
    if s.custom != 0:
        t.stage = ASKED
        observe(s, t.place, t.length)
        s.asked = i
        return False
    send(s, i, choose(s, d, t.place, dv.app, t.length, n, now), now)
    return True


@jit
def _estimate(s: Record, now: float) -> None:
    """Close the windows of all links."""
    falling = s.links_fall_slowly if now > s.warm_up else s.links_fall_slowly * 0
    for k in range(s.link_count):
        close_window(link(s.links, k), s.links_restore_last, falling)
    put(s, l.ESTIMATE, now + WINDOW)


@jit
def _begin(s: Record) -> None:
    """Draw what devices keep for the whole run, and schedule the first events."""
    plant(s)
    length = s.place_count * s.segment
    for d in range(s.device_count):
        dv = rows.device(s.devices, d)
        dv.key = key_of(s, d)
        position = length * uniform(dv.key, 0, HOME)
        if s.starts_on_whole_metres != 0:
            position = math.floor(position)
        dv.place = min(int(position / s.segment), s.place_count - 1)
        dv.next_move = ((dv.place + 1) * s.segment - position) / s.segment * real(s.spans, dv.place).v
        dv.first_task = -1
        dv.alive = 1
        draw_application(s, d)
        begin_activity(s, d, 2.0 * ACTIVITY_START)
        if s.policy == GAME:
            seat(s, d)
    put(s, l.ESTIMATE, ACTIVITY_START + WINDOW)
    if s.watching != 0:
        put(s, l.TICK, ACTIVITY_START + SPAN)
    first_samples(s)


@jit
def _sample_location(s: Record, now: float) -> None:
    """Note how many vehicles each access point serves."""
    k = (1 + s.place_count) * s.locations_sampled
    s.locations_sampled += 1
    real(s.location_samples, k).v = now
    for d in range(s.device_count):
        real(s.location_samples, k + 1 + serving(s, rows.device(s.devices, d), now)).v += 1.0
    put(s, l.LOCATION_SAMPLE, now + s.location_interval)


@jit
def _sample_access(s: Record, now: float) -> None:
    """Note the delays of the access points; 0 where they fail."""
    k = (1 + 2 * s.place_count) * s.access_sampled
    s.access_sampled += 1
    real(s.access_samples, k).v = now
    for n in range(2 * s.place_count):  # uplinks, then downlinks, as they are numbered
        real(s.access_samples, k + 1 + n).v = link(s.links, n).delay
    put(s, l.ACCESS_SAMPLE, now + s.access_interval)


@jit
def _periodic(s: Record, number: int, now: float) -> None:
    if number == l.ESTIMATE:
        _estimate(s, now)
    elif number == l.TICK:
        turn_window(s)
        put(s, l.TICK, now + SPAN)
    elif number == l.LOAD_SAMPLE:
        note_loads(s, now)
        put(s, l.LOAD_SAMPLE, now + s.load_interval)
    elif number == l.LOCATION_SAMPLE:
        _sample_location(s, now)
    else:
        _sample_access(s, now)


@jit
def _handle(s: Record, number: int, now: float) -> bool:
    """What event `number` means. False when the caller must choose a task's way."""
    if number >= s.first_task:
        _proceed(s, number - s.first_task, now)
    elif number >= s.first_centre:
        _look(s, number - s.first_centre, now)
    elif number >= s.first_vm:
        _served(s, number - s.first_vm, now)
    elif number >= s.first_arrival:
        return _submit(s, number - s.first_arrival, now)
    else:
        _periodic(s, number, now)
    return True


@_kernel_entry
def act(world: Record, until: float, choice: int) -> int:
    """Run the events up to `until` (s), inclusive; first give the asked task the caller's `choice`.

    Answers DONE, GROW when `tasks` or `ended` is full, ASK when `asked` waits for a choice. With
    `choice` BEGIN it draws what devices keep for the whole run and schedules the first events.
    """
    s = world[0]
    if choice == BEGIN:
        _begin(s)
        return DONE
    if choice != NOBODY:
        i = s.asked
        s.asked = -1
        send(s, i, choice, s.now)
    while True:
        # one event makes one task at most, and ends those of one datacentre at most
        if s.free < 0 or (s.trace != 0 and s.ended_room - s.done <= s.live):
            return GROW
        number = take_next(s, until)
        if number < 0:
            break
        if not _handle(s, number, s.now):
            return ASK
    s.now = until
    return DONE
