"""The state of an offloading simulation: flat record arrays, and what every field means.

Times are in s, sizes in kB, work in MI, speeds in MIPS, loads in percent, energy in J.

Event numbers: the fixed ones (LOAD_SAMPLE and so on), then one per device for its next task, one
per device for its next move, one per device for its empty battery, one per virtual machine, one per
datacentre, one per row of `tasks`. META holds where each range begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cosim.compiled.compiling import address_of, codes
from cosim.compiled.rowtypes import Record
from cosim.contract.records import Records
from cosim.engine.continuum import queue
from cosim.extensions.edgecloudsim.offloading.quirks import QUIRKS, field

__all__ = ["Record", "codes"]

EDGE, CLOUD, MOBILE = codes(3)  # tiers, in the order of the peer's logs
TIERS: Final = ("edge", "cloud", "mobile")

# How a task ended. Those of bandwidth by the link that had none left; RANGE: out of the WLAN's range.
COMPLETED, CAPACITY, MOBILITY, LOST_WLAN, LOST_MAN, LOST_WAN, LOST_GSM, RANGE, DEATH = codes(9)
CAUSES: Final = ("completed", "capacity", "mobility", "wlan", "man", "wan", "gsm", "range", "death")

# Fixed event numbers; the kernels use the last two for estimators of their own.
LOAD_SAMPLE, LOCATION_SAMPLE, ACCESS_SAMPLE, ESTIMATE, TICK = codes(5)
FIXED_EVENTS: Final = 8


def record(*fields: tuple[str, str]) -> np.dtype[np.void]:
    """A record without padding; all fields are of 8 bytes."""
    return np.dtype(list(fields), align=True)


DEVICE = record(
    ("key", "u8"),  # of its random stream
    ("at", "f8"),  # s, its next task
    ("begin", "f8"), ("until", "f8"),  # s, its active period
    ("next_move", "f8"),  # s, inf: stays
    ("app", "i8"),  # -1: runs none
    ("place", "i8"),
    ("gaps", "i8"), ("tasks", "i8"), ("moves", "i8"),  # drawn so far
    ("first_task", "i8"),  # in flight, -1
    ("alive", "i8"),
)  # fmt: skip

TASK = record(
    ("created", "f8"), ("arrived", "f8"), ("computed", "f8"),  # s; NaN: not yet
    ("upload", "f8"), ("download", "f8"), ("length", "f8"),  # kB, kB, MI
    ("wlan", "f8"), ("man", "f8"), ("wan", "f8"), ("gsm", "f8"),  # s spent on each link
    ("tag", "f8"),  # the machine's virtual time at which it is done
    ("serial", "i8"), ("app", "i8"), ("device", "i8"), ("place", "i8"),  # place: where it was submitted
    ("number", "i8"),  # of the device's tasks
    ("looks", "i8"),  # at its datacentre when it came (quirk processing-tick)
    ("stage", "i8"), ("tier", "i8"), ("vm", "i8"),
    ("via", "i8"),  # the place at which its present transfer counts
    ("child", "i8"), ("prev", "i8"), ("next", "i8"),  # heap of the machine
    ("newer", "i8"), ("older", "i8"),  # tasks of the device; free rows by `newer`
)  # fmt: skip

VM = record(
    ("virtual", "f8"),  # MI that every task on it since the start has got
    ("since", "f8"),  # s, time that the accumulated values hold for
    ("rate", "f8"),  # MIPS per core
    ("load", "f8"),  # %, of the tasks that it executes
    ("reserved", "f8"),  # %, of the tasks on their way to it
    ("busy", "f8"),  # s, integral of the busy cores
    ("image", "f8"),  # MB
    ("energy", "f8"),  # J, by a quirk
    ("cores", "i8"),
    ("used", "i8"),  # cores that its tasks ask for
    ("active", "i8"),  # tasks on it
    ("root", "i8"),  # heap of the tasks, -1
    ("tier", "i8"), ("place", "i8"), ("centre", "i8"), ("host", "i8"),  # host: number within its tier
    ("ripe", "i8"), ("next_ripe", "i8"),  # whether a look finds a task done; list of such machines
)  # fmt: skip

CENTRE = record(
    ("last", "f8"), ("planned", "f8"),  # s, last and next look at its processors (quirk processing-tick)
    ("looks", "i8"), ("ripe", "i8"),  # looks so far; first machine with a task that is done, -1
    ("battery", "f8"), ("consumed", "f8"),  # J, by a quirk
    ("price_kb", "f8"), ("price_second", "f8"),  # per kB moved, per s of execution
    ("first_vm", "i8"), ("vms", "i8"),
    ("alive", "i8"),
)  # fmt: skip

BATTERY = record(
    ("capacity", "f8"), ("consumed", "f8"),  # J
    ("power", "f8"),  # W now
    ("since", "f8"),  # s, time that `consumed` holds for
    ("died", "f8"),  # s, NaN: alive
)  # fmt: skip

PLACE = record(
    ("dwell", "f8"),  # s, mean stay
    ("devices", "i8"),  # present
    ("wlan", "i8"), ("wan", "i8"),  # transfers under way
    ("access_point", "i8"),  # its number
    ("first_vm", "i8"), ("vms", "i8"),
    ("cursor", "i8"),  # next fit
)  # fmt: skip

APP = record(
    ("interarrival", "f8"), ("active", "f8"), ("idle", "f8"),
    ("upload", "f8"), ("download", "f8"), ("length", "f8"),
    ("share", "f8"),  # %, of this application and those before it
    ("cloud_probability", "f8"), ("delay_sensitivity", "f8"), ("max_delay", "f8"),
    ("load_edge", "f8"), ("load_cloud", "f8"), ("load_mobile", "f8"),
    ("cores", "i8"),
)  # fmt: skip

# One row per (warm-up or counted, application, tier), in this order.
TALLY = record(
    *((name, "i8") for name in CAUSES),
    ("service", "f8"), ("network", "f8"),  # s, sums over completed tasks
    ("wlan_delay", "f8"), ("man_delay", "f8"), ("wan_delay", "f8"), ("gsm_delay", "f8"),
    ("wlan_uses", "i8"), ("man_uses", "i8"), ("wan_uses", "i8"), ("gsm_uses", "i8"),  # completed tasks
    ("cost", "f8"), ("qoe", "f8"),  # sums over completed tasks; qoe_failed over the others
)  # fmt: skip

ENDED = record(
    ("created", "f8"), ("arrived", "f8"), ("computed", "f8"), ("ended", "f8"),
    ("upload", "f8"), ("download", "f8"), ("length", "f8"),
    ("wlan", "f8"), ("man", "f8"), ("wan", "f8"), ("gsm", "f8"),
    ("serial", "i8"), ("device", "i8"), ("place", "i8"), ("application", "i8"),
    ("tier", "i8"), ("vm", "i8"), ("cause", "i8"),
)  # fmt: skip

# State arrays whose addresses META holds: name -> (dtype, what it has a row for)
ARRAYS: Final = (
    "devices", "tasks", "vms", "centres", "places", "apps", "tally", "ended",
    *queue.ARRAYS, "edge_rooms", "cloud_rooms", "app_rooms", "place_loads",
    "load_samples", "location_samples", "access_samples", "batteries",
)  # fmt: skip

META = record(
    ("now", "f8"), ("warm_up", "f8"),
    *queue.FIELDS,
    ("seed", "u8"),
    ("created", "i8"),  # tasks so far
    ("events", "i8"),  # handled so far
    ("live", "i8"), ("done", "i8"), ("free", "i8"),  # tasks in flight, rows in `ended`, first free row or -1
    ("trace", "i8"),  # whether finished tasks are kept in `ended`
    ("custom", "i8"),  # whether the caller chooses
    ("asked", "i8"),  # the task that waits for the caller's choice, -1
    ("device_count", "i8"), ("place_count", "i8"), ("app_count", "i8"), ("centre_count", "i8"),
    ("edge_vms", "i8"), ("cloud_vms", "i8"), ("mobile_vms", "i8"),  # numbered in this order
    ("task_room", "i8"), ("ended_room", "i8"),
    ("first_arrival", "i8"), ("first_move", "i8"), ("first_death", "i8"),
    ("first_vm", "i8"), ("first_centre", "i8"), ("first_task", "i8"),  # event numbers
    ("load_interval", "f8"), ("location_interval", "f8"), ("access_interval", "f8"),
    ("loads_sampled", "i8"), ("locations_sampled", "i8"), ("access_sampled", "i8"),
    ("edge_leaves", "i8"), ("cloud_leaves", "i8"), ("place_leaves", "i8"),  # of the trees of `rooms`
    ("per_app", "i8"),  # what the trees of applications hold: 0 nothing, 1 the least room, 2 how many fit
    ("compares_places", "i8"),
    ("edge_load", "f8"), ("cloud_load", "f8"), ("mobile_load", "f8"),  # %, sums over the tier's machines
    ("edge_tasks", "i8"), ("cloud_tasks", "i8"), ("mobile_tasks", "i8"),  # executing now
    ("model", "i8"), ("architecture", "i8"), ("policy", "i8"), ("flow", "i8"),
    ("cursor", "i8"),  # next fit over places
    ("lan_delay", "f8"), ("wan_propagation", "f8"), ("gsm_propagation", "f8"),
    ("limit", "f8"),  # s, a longer queueing delay is a failure
    ("wlan_in", "f8"), ("wlan_out", "f8"), ("wan_in", "f8"), ("wan_out", "f8"),  # services/s of the queues
    ("wlan_rate", "f8"), ("wan_rate", "f8"),  # requests/s of one device
    ("servers", "i8"),  # of the WLAN's queue
    ("man_kbps", "f8"), ("man_in", "f8"), ("man_out", "f8"),  # kbit/s; kB, mean sizes
    ("man_in_rate", "f8"), ("man_out_rate", "f8"),  # requests/s as estimated
    ("man_in_count", "i8"), ("man_out_count", "i8"), ("man_in_sum", "f8"), ("man_out_sum", "f8"),  # in the window
    ("energy", "i8"), ("mortal", "i8"),  # whether there is an energy model; whether empty batteries end devices
    ("device_idle", "f8"), ("device_max", "f8"), ("cloud_idle", "f8"), ("cloud_max", "f8"),  # W
    ("send", "f8"), ("receive", "f8"),  # J/kB of a device's WLAN radio
    ("cellular_send", "f8"), ("cellular_receive", "f8"),
    ("point_send", "f8"), ("point_receive", "f8"), ("man_energy", "f8"), ("wan_energy", "f8"),  # J/kB
    ("network_energy", "f8"),  # J used by access points, MAN and WAN
    ("idle_calls", "i8"),  # quirk idle-power-per-call
    *((field(name), "i8") for name in QUIRKS),
    *((name, "i8") for name in ARRAYS),
)  # fmt: skip


@dataclass
class OffloadingState:
    """Everything that a kernel knows: one META row and the arrays whose addresses it holds."""

    meta: Records
    arrays: dict[str, NDArray[Any]]

    def link_up(self) -> None:
        """Write the arrays' addresses into META; to be called after any of them was replaced."""
        for name, array in self.arrays.items():
            self.meta[name] = address_of(array)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]
