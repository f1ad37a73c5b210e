"""The books: what is noted when a task ends (compiled), and what is made of it (`OffloadingOutcome`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Records
from cosim.engine.continuum.jit import jit
from cosim.extensions.edgecloudsim.offloading import layout as l
from cosim.extensions.edgecloudsim.offloading.layout import Record
from cosim.extensions.edgecloudsim.offloading.rows import app, centre, device, ended, tally, task, vm
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy

LINKS = ("wlan", "man", "wan", "gsm")


@jit
def take_row(s: Record, d: int, now: float) -> int:
    """A row for a new task of the device, with the books' fields set; the caller sees to it that one is free."""
    i = s.free
    t = task(s.tasks, i)
    s.free = t.newer
    s.live += 1
    t.created = now
    t.arrived = math.nan
    t.computed = math.nan
    t.wlan = 0.0
    t.man = 0.0
    t.wan = 0.0
    t.gsm = 0.0
    t.serial = s.created
    s.created += 1
    dv = device(s.devices, d)
    t.device = d
    t.app = dv.app
    t.place = dv.place
    t.number = dv.tasks
    dv.tasks += 1
    t.vm = -1
    t.via = -1
    first = dv.first_task
    t.older = first
    t.newer = -1
    if first >= 0:
        task(s.tasks, first).newer = i
    dv.first_task = i
    return int(i)


@jit
def _give_back(s: Record, i: int) -> None:
    t = task(s.tasks, i)
    newer, older = t.newer, t.older
    if newer >= 0:
        task(s.tasks, newer).older = older
    else:
        device(s.devices, t.device).first_task = older
    if older >= 0:
        task(s.tasks, older).newer = newer
    t.stage = 0
    t.newer = s.free
    s.free = i
    s.live -= 1


@jit
def _count(row: Record, cause: int) -> None:
    if cause == l.COMPLETED:
        row.completed += 1
    elif cause == l.CAPACITY:
        row.capacity += 1
    elif cause == l.MOBILITY:
        row.mobility += 1
    elif cause == l.LOST_WLAN:
        row.wlan += 1
    elif cause == l.LOST_MAN:
        row.man += 1
    elif cause == l.LOST_WAN:
        row.wan += 1
    elif cause == l.LOST_GSM:
        row.gsm += 1
    elif cause == l.DEATH:
        row.death += 1
    else:
        row.range += 1


@jit
def quality(s: Record, a: int, service: float) -> float:
    """Quality of experience, %: 100 up to the allowed time, falling to 100 times the tolerance at twice that.

    For an application without an allowed time it is 0 as in the peer's books, that is, not rated.
    """
    allowed = app(s.apps, a).max_delay
    if allowed <= 0.0:
        return 0.0
    if service <= allowed:
        return 100.0
    loss = min(1.0, (service - allowed) / allowed)
    return float(100.0 * (1.0 - loss) * (1.0 - app(s.apps, a).delay_sensitivity))


@jit
def close_task(s: Record, i: int, cause: int, now: float) -> None:
    """Task i has ended: it is booked, and its row is free. It counts when it was submitted after the warm-up."""
    t = task(s.tasks, i)
    counted = 1
    if t.created < s.warm_up:
        counted = 0
        # A rejected task has spent no time on a link.
        if s.warm_up_rejections_counted != 0 and t.wlan + t.man + t.wan + t.gsm == 0.0 and cause != l.COMPLETED:
            counted = 1
    row = tally(s.tally, (counted * s.app_count + t.app) * 3 + t.tier)
    _count(row, cause)
    if cause == l.COMPLETED:
        row.service += now - t.created
        row.network += t.wlan + t.man + t.wan + t.gsm
        if t.wlan != 0.0:
            row.wlan_delay += t.wlan
            row.wlan_uses += 1
        if t.man != 0.0:
            row.man_delay += t.man
            row.man_uses += 1
        if t.wan != 0.0:
            row.wan_delay += t.wan
            row.wan_uses += 1
        if t.gsm != 0.0:
            row.gsm_delay += t.gsm
            row.gsm_uses += 1
        row.qoe += quality(s, t.app, now - t.created)
        if s.cost_never_set == 0 and t.tier != l.MOBILE:
            price = centre(s.centres, vm(s.vms, t.vm).centre)
            row.cost += price.price_second * (t.computed - t.arrived) + price.price_kb * (t.upload + t.download)
    if s.trace != 0:
        e = ended(s.ended, s.done)
        s.done += 1
        e.created = t.created
        e.arrived = t.arrived
        e.computed = t.computed
        e.ended = now
        e.upload = t.upload
        e.download = t.download
        e.length = t.length
        e.wlan = t.wlan
        e.man = t.man
        e.wan = t.wan
        e.gsm = t.gsm
        e.serial = t.serial
        e.device = t.device
        e.place = t.place
        e.application = t.app
        e.tier = t.tier
        e.vm = t.vm
        e.cause = cause
    _give_back(s, i)


@dataclass(frozen=True)
class OffloadingOutcome:
    """What came of one run, up to `time` (s).

    `tally` has the axes (during warm-up or after it, application, tier edge, cloud, mobile) and the
    fields of `cosim.extensions.edgecloudsim.offloading.layout.TALLY`; `uncompleted` the same axes,
    `left` (application, s since creation) of each of those. The samples:
    `loads` (n, 4) s and mean load of edge, cloud and devices in %, `locations` (n, 1 + places) s and
    devices per place, `access` (n, 1 + 2 places) s and upload delays, then download delays in s.
    `energy` (J) by meter, only with an energy model.
    """

    study: OffloadingStudy
    time: float
    created: int
    events: int
    tally: Records
    uncompleted: NDArray[np.int64]
    left: tuple[NDArray[np.int64], NDArray[np.float64]]
    loads: NDArray[np.float64]
    locations: NDArray[np.float64]
    access: NDArray[np.float64]
    energy: dict[str, float] = field(default_factory=dict)

    def ledger(self) -> dict[str, int]:
        """All tasks of the run, warm-up included: created, by cause, uncompleted. They sum up."""
        ends = {cause: int(self.tally[cause].sum()) for cause in l.CAUSES}
        return {"created": self.created, **ends, "uncompleted": int(self.uncompleted.sum())}

    def metrics(self) -> dict[str, float]:
        """The figures of the peer's logs by name, over the tasks that count; those `[APP]` by application.

        Means are over completed tasks; of network delays over those not executed on the device (NaN if
        there are none), of a link's delay over those that used it. What nothing was noted for is 0.
        """
        found = _figures(self.tally[1], self.uncompleted[1])
        loads = self.loads
        if "warm-up-load-counted" not in self.study.quirks:
            loads = loads[loads[:, 0] > self.study.warm_up]
        for column, tier in enumerate(l.TIERS, start=1):
            found[f"vm_util_{tier}_pct"] = float(loads[:, column].mean()) if len(loads) else 0.0
        for a, application in enumerate(self.study.applications):
            own = _figures(self.tally[1, a : a + 1], self.uncompleted[1, a : a + 1])
            found |= {f"{name}[{application.name}]": value for name, value in own.items()}
        for meter, value in self.energy.items():
            found[f"energy_{meter}_wh"] = value / 3600.0
        return found


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def _figures(rows: Records, uncompleted: NDArray[np.int64]) -> dict[str, float]:
    """The figures of `rows` (applications, tiers) of the tally."""

    def total(name: str, tier: Any = slice(None)) -> float:  # noqa: ANN401 - an index
        return float(rows[name][:, tier].sum())

    completed = total("completed")
    failed = {cause: total(cause) for cause in l.CAUSES[1:]}
    counted = completed + sum(failed.values())

    def percent(value: float) -> float:
        return 100.0 * _ratio(value, counted)

    found = {
        "tasks_counted": counted,
        "completed": completed,
        "failed": sum(failed.values()),
        "uncompleted": float(uncompleted.sum()),
        "failed_pct": percent(sum(failed.values())),
        "failed_vmcap_pct": percent(failed["capacity"]),
        "failed_mobility_pct": percent(failed["mobility"]),
        "failed_bw_pct": percent(sum(failed[link] for link in LINKS)),
        **{f"failed_bw_{link}_pct": percent(failed[link]) for link in LINKS},
        "failed_wlanrange_pct": percent(failed["range"]),
        "failed_death_pct": percent(failed["death"]),
        "service_time_s": _ratio(total("service"), completed),
        "processing_time_s": _ratio(total("service") - total("network"), completed),
    }
    sent = completed - total("completed", l.MOBILE)
    found["network_delay_s"] = total("network") / sent if sent else (math.nan if completed else 0.0)
    for tier, name in enumerate(l.TIERS):
        done = total("completed", tier)
        found[f"service_time_{name}_s"] = _ratio(total("service", tier), done)
        found[f"processing_time_{name}_s"] = _ratio(total("service", tier) - total("network", tier), done)
        found[f"completed_{name}"] = done
        found[f"share_{name}_pct"] = percent(sum(total(cause, tier) for cause in l.CAUSES))
    for link in LINKS:
        found[f"{link}_delay_s"] = _ratio(total(f"{link}_delay"), total(f"{link}_uses"))
    found["cost"] = _ratio(total("cost"), completed)
    found["qoe_completed_pct"] = _ratio(total("qoe"), completed)
    found["qoe_all_pct"] = _ratio(total("qoe"), counted)
    return found
