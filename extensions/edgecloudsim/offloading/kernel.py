"""The compiled entry points for the place-based models: the start, and running events up to a time."""

from __future__ import annotations

from cosim.compiled.compiling import codes, ready
from cosim.engine.continuum.draw import uniform
from cosim.engine.continuum.jit import jit
from cosim.engine.continuum.queue import put, queue
from cosim.extensions.edgecloudsim.offloading import energy
from cosim.extensions.edgecloudsim.offloading.draws import (
    ACTIVITY_START,
    TIER,
    begin_activity,
    draw_application,
    key_of,
)
from cosim.extensions.edgecloudsim.offloading.flow import RELAY, answer, die, observe, proceed, served, submit
from cosim.extensions.edgecloudsim.offloading.layout import (
    ACCESS_SAMPLE,
    ESTIMATE,
    LOAD_SAMPLE,
    LOCATION_SAMPLE,
    Record,
)
from cosim.extensions.edgecloudsim.offloading.mobility import move, settle
from cosim.extensions.edgecloudsim.offloading.network import (
    ESTIMATE_INTERVAL,
    estimate,
    sample_access,
    wan_delay,
    wlan_delay,
)
from cosim.extensions.edgecloudsim.offloading.rooms import plant
from cosim.extensions.edgecloudsim.offloading.rows import app, device, kernel_entry, place, real, task

DONE, GROW, ASK = codes(3)  # answers of `act`
NOBODY = codes(1)[0] - 3  # the `choice` when nothing was asked

take_next = queue().take_next


@jit
def _begin(s: Record) -> None:
    """Every device gets an application, a place and its first events."""
    plant(s)
    for d in range(s.device_count):
        device(s.devices, d).key = key_of(s, d)
        device(s.devices, d).first_task = -1
        device(s.devices, d).alive = 1
        draw_application(s, d)
        settle(s, d)
        if device(s.devices, d).app >= 0:
            begin_activity(s, d, ACTIVITY_START + app(s.apps, device(s.devices, d).app).active)
        if s.energy != 0:
            energy.draw(s, d, 0.0, 0.0)
    first_samples(s)
    if s.flow == RELAY:
        put(s, ESTIMATE, ACTIVITY_START + ESTIMATE_INTERVAL)


@jit
def first_samples(s: Record) -> None:
    """Schedule the first sample of each kind that is wanted."""
    if s.load_interval > 0.0:
        put(s, LOAD_SAMPLE, s.load_interval)
    if s.location_interval > 0.0:
        put(s, LOCATION_SAMPLE, s.location_interval)
    if s.access_interval > 0.0:
        put(s, ACCESS_SAMPLE, s.access_interval)


@jit
def note_loads(s: Record, now: float) -> None:
    """Note the mean loads of edge, cloud and devices."""
    row = 4 * s.loads_sampled
    real(s.load_samples, row).v = now
    real(s.load_samples, row + 1).v = s.edge_load / s.edge_vms if s.edge_vms > 0 else 0.0
    real(s.load_samples, row + 2).v = s.cloud_load / s.cloud_vms if s.cloud_vms > 0 else 0.0
    real(s.load_samples, row + 3).v = s.mobile_load / s.mobile_vms if s.mobile_vms > 0 else 0.0
    s.loads_sampled += 1


@jit
def _sample_locations(s: Record, now: float) -> None:
    row = s.locations_sampled * (1 + s.place_count)
    real(s.location_samples, row).v = now
    for p in range(s.place_count):
        real(s.location_samples, row + 1 + p).v = place(s.places, p).devices
    s.locations_sampled += 1
    put(s, LOCATION_SAMPLE, now + s.location_interval)


@jit
def _handle(s: Record, number: int, now: float) -> int:
    """What event `number` means. Answers the task that the caller is asked about, -1: none."""
    if number >= s.first_task:
        proceed(s, number - s.first_task, now)
    elif number >= s.first_centre:
        observe(s, number - s.first_centre, now)
    elif number >= s.first_vm:
        served(s, number - s.first_vm, now)
    elif number >= s.first_death:
        die(s, number - s.first_death, now)
    elif number >= s.first_move:
        move(s, number - s.first_move, now)
    elif number >= s.first_arrival:
        return submit(s, number - s.first_arrival, now)
    elif number == LOAD_SAMPLE:
        note_loads(s, now)
        if s.energy != 0:
            energy.sample(s, now)
        put(s, LOAD_SAMPLE, now + s.load_interval)
    elif number == LOCATION_SAMPLE:
        _sample_locations(s, now)
    elif number == ACCESS_SAMPLE:
        sample_access(s, now)
        put(s, ACCESS_SAMPLE, now + s.access_interval)
    elif number == ESTIMATE:
        estimate(s, now)
    return -1


@kernel_entry
def begin(world: Record) -> None:
    """Start the simulation at time 0."""
    _begin(world[0])


@kernel_entry
def act(world: Record, until: float, choice: int) -> int:
    """Run the events up to `until` (s), inclusive; first give the asked task the caller's `choice`.

    Answers DONE, GROW when `tasks` or `ended` is full, ASK when `asked` waits for a choice.
    """
    s = world[0]
    if choice != NOBODY:
        i = s.asked
        s.asked = -1
        answer(s, i, choice, s.now)
    while True:
        if s.free < 0 or (s.trace != 0 and s.ended_room - s.done <= s.live):
            return GROW
        number = take_next(s, until)
        if number < 0:
            break
        asked = _handle(s, number, s.now)
        if asked >= 0:
            s.asked = asked
            return ASK
    s.now = until
    return DONE


@kernel_entry
def outlook(world: Record) -> tuple[float, float, float]:
    """For the asked task: s of its upload over WLAN and WAN as they are now, and a uniform number."""
    s = world[0]
    t = task(s.tasks, s.asked)
    wlan, wan = wlan_delay(s, t.place, t.upload, True), wan_delay(s, t.place, t.upload, True)
    return wlan, wan, uniform(device(s.devices, t.device).key, t.number, TIER)


def compiled() -> bool:
    """Whether a simulation starts without compiling (some 20 s once per version and machine)."""
    return ready(begin, act)
