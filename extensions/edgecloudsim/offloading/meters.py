"""Energy by meter at the end of a run or in its course."""

from __future__ import annotations

import numpy as np

from cosim.extensions.edgecloudsim.offloading.layout import CLOUD, EDGE, OffloadingState
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy


def energies(s: OffloadingState, study: OffloadingStudy) -> dict[str, float]:
    """J by meter: mobile, edge, cloud, network; nothing without an energy model. Looking changes nothing."""
    if study.energy is None:
        return {}
    meta = s.meta[0]
    now = float(meta["now"])
    batteries = s["batteries"]
    drawn = batteries["consumed"] + batteries["power"] * (now - batteries["since"])
    if meta["idle_power_per_call"]:
        drawn = drawn + meta["idle_calls"] * meta["device_idle"]
    return {
        "mobile": float(drawn.sum()),
        "edge": _edge(s, study, now),
        "cloud": _cloud(s, study, now),
        "network": float(meta["network_energy"]),
    }


def _busy(s: OffloadingState, tier: int, now: float) -> tuple[np.ndarray, np.ndarray]:
    """The tier's machines and the s that the cores of each have been busy."""
    vms = s["vms"][s["vms"]["tier"] == tier]
    late = np.minimum(vms["used"], vms["cores"]) * np.maximum(now - vms["since"], 0.0)
    return vms, vms["busy"] + np.where(vms["active"] > 0, late, 0.0)


def _edge(s: OffloadingState, study: OffloadingStudy, now: float) -> float:
    """Per host idle + (max - idle) * (busy cores / cores of its machines); or what the quirk adds up."""
    if "edge-on-cloud-power" in study.quirks:
        alive = s["centres"]["alive"][s["vms"]["centre"]] != 0
        return float(s["vms"]["energy"][alive].sum())
    vms, busy = _busy(s, int(EDGE), now)
    total = 0.0
    for p, place in enumerate(study.places):
        idle, full = place.power
        here = vms["place"] == p
        for host in np.unique(vms["host"][here]):
            mine = here & (vms["host"] == host)
            total += (full - idle) * float(busy[mine].sum()) / float(vms["cores"][mine].sum())
        total += idle * now * len(place.hosts)
    return total


def _cloud(s: OffloadingState, study: OffloadingStudy, now: float) -> float:
    """Per machine idle + (max - idle) * (busy cores / cores); none with quirk cloud-energy-missing."""
    if study.energy is None or "cloud-energy-missing" in study.quirks:
        return 0.0
    vms, busy = _busy(s, int(CLOUD), now)
    idle, full = study.energy.cloud_idle, study.energy.cloud_max
    return float(idle * now * len(vms) + (full - idle) * (busy / np.maximum(vms["cores"], 1)).sum())
