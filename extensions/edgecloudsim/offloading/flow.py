"""The life of a task: submitted, uploaded, executed, downloaded; and where it can fail.

Three flows. `BASIC` (app1, tutorial5): the machine is chosen when the task has arrived at the edge or in
the cloud. `RELAY` (app2, app4): it is chosen at submission; a machine at another place is reached over
WLAN and MAN, the cloud over the WAN. `REACH` (app3, app6): chosen at submission, any edge machine is a
WLAN hop away, or the device executes the task itself.
"""

from __future__ import annotations

from cosim.compiled.compiling import codes
from cosim.engine.continuum.draw import exponential
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.queue import drop, put
from cosim.extensions.edgecloudsim.offloading import energy
from cosim.extensions.edgecloudsim.offloading import layout as l
from cosim.extensions.edgecloudsim.offloading.books import close_task, take_row
from cosim.extensions.edgecloudsim.offloading.choosing import (
    ANYWHERE,
    cloud_machine,
    edge_machine,
    reach_tier,
    relay_machine,
    relay_target,
    tier_of,
)
from cosim.extensions.edgecloudsim.offloading.draws import DOWNLOAD, LENGTH, UPLOAD, next_arrival, whole_kb
from cosim.extensions.edgecloudsim.offloading.layout import Record
from cosim.extensions.edgecloudsim.offloading.mobility import place_at
from cosim.extensions.edgecloudsim.offloading.network import man_delay, wan_delay, wlan_delay
from cosim.extensions.edgecloudsim.offloading.rooms import emptiest_edge, fits, note
from cosim.extensions.edgecloudsim.offloading.rows import app, device, place, task, vm
from cosim.extensions.edgecloudsim.offloading.station import enter, leave, need, watching

BASIC, RELAY, REACH = codes(3)
FREE, ASKED, UP, UP_CLOUD, UP_MAN, UP_LAN, RUN, DOWN, DOWN_CLOUD, DOWN_MAN = codes(10)  # stages
REFUSED, OWN = codes(3)[1] * -1, codes(3)[2] * -1  # answers of a caller's policy besides machines
_NOTHING = 0.0


@jit
def submit(s: Record, d: int, now: float) -> int:
    """The device makes a task. Answers its row when the caller is to choose, else -1."""
    dv = device(s.devices, d)
    next_arrival(s, d)
    if s.energy != 0:
        energy.call(s)
        if s.dead_devices_go_on == 0 and s.mortal != 0 and energy.empty(s, d, now):
            die(s, d, now)
            return -1
    i = take_row(s, d, now)
    t = task(s.tasks, i)
    a = app(s.apps, t.app)
    t.upload = whole_kb(s, a.upload * exponential(dv.key, t.number, UPLOAD))
    t.download = whole_kb(s, a.download * exponential(dv.key, t.number, DOWNLOAD))
    t.length = whole_kb(s, a.length * exponential(dv.key, t.number, LENGTH))
    t.tier = l.EDGE
    if s.custom != 0:
        t.stage = ASKED
        return int(i)
    if s.flow == BASIC:
        t.tier = tier_of(s, i)
        _send(s, i, now)
        return -1
    v, target = -1, ANYWHERE
    if s.flow == RELAY:
        t.tier, target = relay_target(s, i)
        v = relay_machine(s, t.app, t.tier, target)
    else:
        t.tier = reach_tier(s, i)
        if t.tier == l.EDGE:
            v = emptiest_edge(s, need(s, t.app, l.EDGE))
        elif fits(s, s.edge_vms + s.cloud_vms + d, need(s, t.app, l.MOBILE)):
            v = s.edge_vms + s.cloud_vms + d
    _start(s, i, v, now)
    return -1


@jit
def answer(s: Record, i: int, choice: int, now: float) -> None:
    """The caller has chosen a machine for task i, REFUSED or OWN."""
    t = task(s.tasks, i)
    v = choice
    if choice == OWN:
        v = s.edge_vms + s.cloud_vms + t.device
    if v >= 0:
        t.tier = vm(s.vms, v).tier
        if not fits(s, v, need(s, t.app, t.tier)):
            v = -1
    _start(s, i, v, now)


@jit
def _start(s: Record, i: int, v: int, now: float) -> None:
    """Send task i to machine v, chosen at submission, if there is one and the first link has capacity."""
    t = task(s.tasks, i)
    if t.tier == l.MOBILE:
        if v < 0:
            close_task(s, i, l.CAPACITY, now)
        elif s.energy != 0 and s.dead_devices_go_on != 0 and s.mortal != 0 and energy.empty(s, t.device, now):
            close_task(s, i, l.DEATH, now)
        else:
            if s.energy != 0:
                energy.local_transfer(s, t.device, t.upload, True, now)
            t.arrived = now
            t.stage = RUN
            _execute(s, i, v, now)
        return
    t.vm = v
    _send(s, i, now)


@jit
def _send(s: Record, i: int, now: float) -> None:
    """The first hop of task i: to the access point or to the cloud."""
    t = task(s.tasks, i)
    p = t.place
    chosen = s.flow != BASIC or s.custom != 0
    wlan, wan = _NOTHING, _NOTHING
    if t.tier == l.EDGE or s.flow == BASIC:
        wlan = wlan_delay(s, p, t.upload, True)
    if t.tier == l.CLOUD:
        wan = wan_delay(s, p, t.upload, True)
        if wan <= 0.0 or (s.wan_delay_holds_wlan != 0 and wlan <= 0.0 and s.flow == BASIC):
            close_task(s, i, l.LOST_WAN, now)
            return
    if wlan <= 0.0 and (t.tier == l.EDGE or s.flow == BASIC):
        close_task(s, i, l.LOST_WLAN, now)
        return
    if chosen and t.vm < 0:
        close_task(s, i, l.CAPACITY, now)
        return
    if s.wan_delay_holds_wlan != 0 and t.tier == l.CLOUD:
        wan += wlan
        wlan = _NOTHING
    t.wlan = wlan
    t.wan = wan
    if chosen:
        _reserve(s, i)
    t.via = p
    if t.tier == l.CLOUD:
        t.stage = UP_CLOUD
        place(s.places, p).wan += 1
    else:
        t.stage = UP
        place(s.places, p).wlan += 1
    if s.energy != 0:
        _pay(s, i, t.upload, True, now)
    put(s, s.first_task + i, now + wlan + wan)


@jit
def _pay(s: Record, i: int, kb: float, up: bool, now: float) -> None:
    """Energy of the first or last hop."""
    t = task(s.tasks, i)
    energy.transfer(s, t.device, kb, up, now)
    if t.tier == l.CLOUD and s.network_energy_missing == 0:
        s.network_energy += kb * s.wan_energy


@jit
def _reserve(s: Record, i: int) -> None:
    t = task(s.tasks, i)
    if s.uploads_not_reserved == 0:
        vm(s.vms, t.vm).reserved += need(s, t.app, t.tier)
        note(s, t.vm)


@jit
def _unreserve(s: Record, i: int) -> None:
    t = task(s.tasks, i)
    if s.uploads_not_reserved == 0:
        left = vm(s.vms, t.vm).reserved - need(s, t.app, t.tier)
        vm(s.vms, t.vm).reserved = left if left > 1e-9 else _NOTHING  # exactly none when nothing is on its way
        note(s, t.vm)


@jit
def _release(s: Record, i: int) -> None:
    """Task i's transfer is over and no longer counts."""
    t = task(s.tasks, i)
    if t.via < 0:
        return
    if t.stage == UP_CLOUD or t.stage == DOWN_CLOUD:
        place(s.places, t.via).wan -= 1
    else:
        place(s.places, t.via).wlan -= 1
    t.via = -1


@jit
def proceed(s: Record, i: int, now: float) -> None:
    """Task i's timer rings: its hop is over (or, with processing-tick, its machine is to be looked at)."""
    t = task(s.tasks, i)
    stage = t.stage
    if stage == RUN:
        observe(s, vm(s.vms, t.vm).centre, now)
        return
    _release(s, i)
    if stage in (UP, UP_CLOUD):
        _arrive(s, i, now)
    elif stage in (UP_MAN, UP_LAN):
        _unreserve(s, i)
        _run(s, i, now)
    elif stage == DOWN_MAN:
        _return(s, i, now)
    else:
        close_task(s, i, l.COMPLETED, now)


@jit
def _arrive(s: Record, i: int, now: float) -> None:
    """Task i has come to its access point or to the cloud."""
    t = task(s.tasks, i)
    if s.flow == BASIC and s.custom == 0:
        v = cloud_machine(s, t.app) if t.tier == l.CLOUD else edge_machine(s, i)
        if v < 0:
            close_task(s, i, l.CAPACITY, now)
            return
        t.vm = v
        _reserve(s, i)
    elsewhere = t.tier == l.EDGE and vm(s.vms, t.vm).place != t.place
    if elsewhere and s.flow == RELAY:
        delay = man_delay(s, True, t.upload, True)
        if delay <= 0.0:
            _unreserve(s, i)
            close_task(s, i, l.LOST_MAN, now)
            return
        t.man += delay
        t.stage = UP_MAN
        s.network_energy += t.upload * s.man_energy
        put(s, s.first_task + i, now + delay)
        return
    if elsewhere and s.flow == BASIC and s.lan_on_return_only == 0 and s.lan_delay > 0.0:
        t.man += s.lan_delay
        t.stage = UP_LAN
        put(s, s.first_task + i, now + s.lan_delay)
        return
    _unreserve(s, i)
    _run(s, i, now)


@jit
def _run(s: Record, i: int, now: float) -> None:
    t = task(s.tasks, i)
    t.arrived = now
    t.stage = RUN
    _execute(s, i, t.vm, now)


@jit
def _execute(s: Record, i: int, v: int, now: float) -> None:
    """Give task i to machine v."""
    if s.processing_tick != 0:
        observe(s, vm(s.vms, v).centre, now)
    enter(s, i, v, now)
    if s.energy != 0 and vm(s.vms, v).tier == l.MOBILE:
        energy.draw(s, task(s.tasks, i).device, _NOTHING, now)


@jit
def executed(s: Record, i: int, now: float) -> None:
    """Task i has been executed: its result goes back."""
    leave(s, i, now)
    drop(s, s.first_task + i)
    t = task(s.tasks, i)
    t.computed = now
    if t.tier == l.MOBILE:
        if s.energy != 0:
            energy.local_transfer(s, t.device, t.download, False, now)
            energy.draw(s, t.device, _NOTHING, now)
        close_task(s, i, l.COMPLETED, now)
        return
    if t.tier == l.EDGE and s.flow == RELAY and vm(s.vms, t.vm).place != t.place:
        delay = man_delay(s, False, t.download, True)
        if delay <= 0.0:
            close_task(s, i, l.LOST_MAN, now)
        elif not _same_place(s, i, now + delay):
            close_task(s, i, l.MOBILITY, now)
        else:
            t.man += delay
            t.stage = DOWN_MAN
            s.network_energy += t.download * s.man_energy
            put(s, s.first_task + i, now + delay)
        return
    _return(s, i, now)


observe, served = watching(executed)


@jit
def _same_place(s: Record, i: int, time: float) -> bool:
    """Whether the device of task i will be where it submitted it."""
    t = task(s.tasks, i)
    there = place_at(s, t.device, time)
    return bool(place(s.places, there).access_point == place(s.places, t.place).access_point)


@jit
def _return(s: Record, i: int, now: float) -> None:
    """The last hop: from the access point or the cloud to the device."""
    t = task(s.tasks, i)
    here = device(s.devices, t.device).place
    at = here
    if s.flow != BASIC:
        at = t.place if s.transfers_counted_where_submitted != 0 else here
    wlan, man, wan = _NOTHING, _NOTHING, _NOTHING
    if t.tier == l.EDGE or s.flow == BASIC:
        wlan = wlan_delay(s, at, t.download, False)
        if wlan <= 0.0:
            close_task(s, i, l.LOST_WAN if t.tier == l.CLOUD and s.wan_delay_holds_wlan != 0 else l.LOST_WLAN, now)
            return
    if t.tier == l.CLOUD:
        wan = wan_delay(s, at, t.download, False)
        if wan <= 0.0:
            close_task(s, i, l.LOST_WAN, now)
            return
        if s.wan_delay_holds_wlan != 0:
            wan += wlan
            wlan = _NOTHING
    elif s.flow == BASIC and vm(s.vms, t.vm).place != here:
        if s.lan_on_return_only != 0:
            wlan += 2.0 * s.lan_delay
        else:
            man = s.lan_delay
    delay = wlan + man + wan
    if not _same_place(s, i, now + delay):
        close_task(s, i, l.MOBILITY, now)
        return
    t.wlan += wlan
    t.man += man
    t.wan += wan
    t.via = at
    if t.tier == l.CLOUD:
        t.stage = DOWN_CLOUD
        place(s.places, at).wan += 1
    else:
        t.stage = DOWN
        place(s.places, at).wlan += 1
    if s.energy != 0:
        _pay(s, i, t.download, False, now)
    put(s, s.first_task + i, now + delay)


@jit
def die(s: Record, d: int, now: float) -> None:
    """The device's battery is empty: it stops, and its tasks fail, wherever they are."""
    energy.bury(s, d, now)
    while device(s.devices, d).first_task >= 0:
        i = device(s.devices, d).first_task
        t = task(s.tasks, i)
        drop(s, s.first_task + i)
        if t.stage == RUN:
            leave(s, i, now)
        else:
            _release(s, i)
            if t.vm >= 0 and (t.stage == UP or t.stage == UP_CLOUD or t.stage == UP_MAN or t.stage == UP_LAN):
                _unreserve(s, i)
        close_task(s, i, l.DEATH, now)
