"""From a study to the kernel's state: checks, derived figures of the queues, arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Records
from cosim.engine.continuum import queue
from cosim.extensions.edgecloudsim.offloading import layout
from cosim.extensions.edgecloudsim.offloading.layout import CLOUD, EDGE, FIXED_EVENTS, META, MOBILE, OffloadingState
from cosim.extensions.edgecloudsim.offloading.quirks import QUIRKS, field
from cosim.extensions.edgecloudsim.offloading.study import Application, OffloadingStudy, Vm

_TASK_ROOM, _ENDED_ROOM = 1024, 2048  # rows to begin with


def tasks_per_second(study: OffloadingStudy) -> float:
    """Expected tasks/s of one device, over all applications."""
    return sum(rate for _, rate in rates(study))


def rates(study: OffloadingStudy) -> list[tuple[Application, float]]:
    """Every application with the tasks/s that it adds to the mean device."""
    return [(a, a.usage / 100.0 / a.interarrival * (a.active / (a.active + a.idle))) for a in study.applications]


def weighted(study: OffloadingStudy, figure: str) -> float:
    """Mean figure of a task, weighted by rates; or by shares and divided by the applications, by a quirk."""
    if "means-divided-by-applications" in study.quirks:
        return float(sum(a.usage / 100.0 * getattr(a, figure) for a in study.applications) / len(study.applications))
    of = rates(study)
    total = sum(rate for _, rate in of)
    return float(sum(rate * getattr(a, figure) for a, rate in of)) / total if total else 0.0


def request_rate(study: OffloadingStudy) -> float:
    """Requests/s of one device as the queueing models take it."""
    if "means-divided-by-applications" in study.quirks:
        mean = weighted(study, "interarrival")
        return 1.0 / mean if mean else 0.0
    return tasks_per_second(study)


def cloud_rate(study: OffloadingStudy) -> float:
    """Requests/s of one device to the cloud."""
    if "wan-mean-running-sum" not in study.quirks:
        return sum(rate * a.cloud_probability / 100.0 for a, rate in rates(study))
    mean, running = 0.0, 0.0
    for a in study.applications:
        if a.cloud_probability <= 0.0:
            return 0.0
        running += a.interarrival * a.usage / 100.0
        mean += running * 100.0 / a.cloud_probability * a.usage / 100.0
    return 1.0 / mean if mean else 0.0


def services(rate: float, kb: float) -> float:
    """Services/s of a link of `rate` bit/s with requests of `kb`."""
    return rate / (8000.0 * kb) if kb > 0.0 else math.inf


def machines(study: OffloadingStudy) -> list[tuple[Vm, int, int, int, int]]:
    """(machine, tier, place, centre, host) of edge and cloud, in the order of their numbers."""
    rows = []
    host = 0
    for p, place in enumerate(study.places):
        for group in place.hosts:
            rows += [(vm, int(EDGE), p, p, host) for vm in group]
            host += 1
    for number, group in enumerate(study.cloud):
        rows += [(vm, int(CLOUD), -1, len(study.places), number) for vm in group]
    return rows


def lay_out(study: OffloadingStudy, seed: int, *, trace: bool, custom: bool, devices: bool = True) -> OffloadingState:
    """The state at time 0 with all that models share; with `devices`, each has a machine if the study defines one."""
    n = study.devices
    meta: Records = np.zeros(1, META)
    fixed = machines(study)
    own = study.device_vm is not None and devices
    centres = len(study.places) + 2
    vms = np.zeros(len(fixed) + (n if own else 0), layout.VM)
    vms["root"] = -1
    for number, (machine, tier, at, centre, host) in enumerate(fixed):
        row = vms[number]
        row["rate"], row["cores"], row["image"] = machine.mips, machine.cores, machine.image
        row["tier"], row["place"], row["centre"], row["host"] = tier, at, centre, host
    groups: Records = np.zeros(centres, layout.CENTRE)
    groups["alive"], groups["ripe"], groups["planned"] = 1, -1, np.inf
    shared = groups[: len(study.places) + 1]
    shared["vms"] = np.bincount([row[3] for row in fixed], minlength=len(shared))
    shared["first_vm"] = np.cumsum(shared["vms"]) - shared["vms"]
    if own:
        each = np.arange(n)
        mine = vms[len(fixed) :]
        mine["tier"], mine["place"], mine["host"] = int(MOBILE), -1, each
        mine["centre"] = len(study.places) + 1
        groups["first_vm"][len(study.places) + 1], groups["vms"][len(study.places) + 1] = len(fixed), n
        _draw_machines(study, seed, mine)
    places: Records = np.zeros(len(study.places), layout.PLACE)
    for p, place in enumerate(study.places):
        row = places[p]
        row["dwell"] = study.dwell[place.attractiveness]
        row["access_point"], row["cursor"] = place.wlan, -1
        row["first_vm"], row["vms"] = groups["first_vm"][p], groups["vms"][p]
    if "dwell-by-access-point-number" in study.quirks:
        places["dwell"] = [study.dwell[study.places[place.wlan].attractiveness] for place in study.places]
    apps: Records = np.zeros(len(study.applications), layout.APP)
    for name in layout.APP.names or ():
        apps[name] = [getattr(a, name) if name != "share" else 0.0 for a in study.applications]
    apps["share"] = np.cumsum([a.usage for a in study.applications])
    meta["seed"] = seed % 2**64
    meta["end"], meta["warm_up"] = study.duration, study.warm_up
    meta["trace"], meta["custom"] = trace, custom
    meta["device_count"], meta["place_count"] = n, len(study.places)
    meta["app_count"], meta["centre_count"] = len(apps), centres
    meta["edge_vms"] = sum(row[1] == EDGE for row in fixed)
    meta["cloud_vms"] = sum(row[1] == CLOUD for row in fixed)
    meta["mobile_vms"] = n if own else 0
    meta["asked"] = meta["cursor"] = -1
    for name in ("load_interval", "location_interval", "access_interval"):
        meta[name] = getattr(study, name)
    for name in QUIRKS:
        meta[field(name)] = name in study.quirks
    links = study.links
    meta["lan_delay"], meta["wan_propagation"] = links.lan_delay, links.wan_propagation
    meta["gsm_propagation"] = links.gsm_propagation
    prices = np.array([place.costs[:2] for place in study.places]).reshape(-1, 2)
    groups["price_kb"][: len(prices)], groups["price_second"][: len(prices)] = prices[:, 0], prices[:, 1]
    if len(prices):  # the cloud states none of its own
        groups["price_kb"][len(prices)], groups["price_second"][len(prices)] = prices.mean(axis=0)
    first = FIXED_EVENTS
    for name, count in (
        ("arrival", n),
        ("move", n),
        ("death", n if study.energy else 0),
        ("vm", len(vms)),
        ("centre", centres),
    ):
        meta[f"first_{name}"] = first
        first += count
    meta["first_task"] = first
    arrays: dict[str, NDArray[Any]] = {
        "devices": np.zeros(n, layout.DEVICE),
        "vms": vms,
        "centres": groups,
        "places": places,
        "apps": apps,
        "tally": np.zeros((2, len(apps), 3), layout.TALLY),
        "load_samples": np.zeros((_samples(study, study.load_interval), 4)),
        "location_samples": np.zeros((_samples(study, study.location_interval), 1 + len(places))),
        "access_samples": np.zeros((_samples(study, study.access_interval), 1 + 2 * len(places))),
        "batteries": np.zeros(n if study.energy else 0, layout.BATTERY),
        "tasks": np.zeros(0, layout.TASK),
        "ended": np.zeros(0, layout.ENDED),
        **queue.arrays(),
        **_trees(study, meta, custom=custom),
    }
    queue.begin(meta)
    meta["free"] = -1
    state = OffloadingState(meta, arrays)
    _make_events(state, first)
    make_room(state)
    return state


def _samples(study: OffloadingStudy, interval: float) -> int:
    return int(study.duration / interval * (1.0 + 1e-9)) + 1 if interval > 0.0 else 0


def _trees(study: OffloadingStudy, meta: Records, *, custom: bool) -> dict[str, NDArray[Any]]:
    """Room for the trees of `rooms` that the study's policy asks."""
    edge, cloud, places = (
        1 << max(0, int(count) - 1).bit_length()
        for count in (meta["edge_vms"][0], meta["cloud_vms"][0], len(study.places))
    )
    everywhere = study.architecture == "two-tier-with-eo" and not custom
    per_app = {"best-fit": 1, "random-fit": 2}.get(study.policy, 0) if everywhere else 0
    meta["edge_leaves"], meta["cloud_leaves"], meta["place_leaves"] = edge, cloud, places
    meta["per_app"], meta["compares_places"] = per_app, study.policy == "fuzzy-based" and not custom
    return {
        "edge_rooms": np.zeros(2 * edge), "cloud_rooms": np.zeros(2 * cloud),
        "app_rooms": np.zeros((len(study.applications) if per_app else 0, 2 * edge)),
        "place_loads": np.zeros(2 * places if meta["compares_places"][0] else 0),
    }  # fmt: skip


def _make_events(state: OffloadingState, more: int) -> None:
    """Room for `more` event numbers in the queue."""
    state.arrays |= queue.more_events(state.meta, state.arrays, more)


def _draw_machines(study: OffloadingStudy, seed: int, mine: Records) -> None:
    """Draw each device's machine uniformly between the bounds, whichever is the lower one."""
    if study.device_vm is None:
        return
    a, b = study.device_vm
    rng = np.random.default_rng(np.random.SeedSequence((seed, 1)))
    x = rng.random((3, len(mine)))
    low, high = min(a.cores, b.cores), max(a.cores, b.cores)
    mine["cores"] = low + np.floor(x[0] * (high - low + 1)).astype(np.int64)
    mine["rate"] = min(a.mips, b.mips) + x[1] * abs(a.mips - b.mips)
    mine["image"] = min(a.image, b.image) + x[2] * abs(a.image - b.image)


def make_room(state: OffloadingState) -> None:
    """Double whichever of `tasks` and `ended` is full."""
    meta, arrays = state.meta, state.arrays
    if meta["free"][0] < 0:
        old = len(arrays["tasks"])
        more = max(old, _TASK_ROOM)
        tasks: Records = np.zeros(old + more, layout.TASK)
        tasks[:old] = arrays["tasks"]
        tasks["newer"][old:-1] = np.arange(old + 1, old + more)
        tasks["newer"][-1] = -1
        meta["free"], meta["task_room"] = old, old + more
        arrays["tasks"] = tasks
        _make_events(state, more)
    if meta["trace"][0] and meta["ended_room"][0] - meta["done"][0] <= meta["live"][0]:
        ended: Records = np.zeros(max(2 * len(arrays["ended"]), _ENDED_ROOM, 2 * int(meta["live"][0])), layout.ENDED)
        ended[: len(arrays["ended"])] = arrays["ended"]
        arrays["ended"] = ended
        meta["ended_room"] = len(ended)
    state.link_up()
