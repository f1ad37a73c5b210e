"""The state of the place-based models at time 0: mobility, queues, batteries."""

from __future__ import annotations

import numpy as np

from cosim.contract.errors import Problem, ScenarioError
from cosim.extensions.edgecloudsim.offloading import network
from cosim.extensions.edgecloudsim.offloading.build import (
    cloud_rate,
    lay_out,
    request_rate,
    services,
    weighted,
)
from cosim.extensions.edgecloudsim.offloading.checks import check
from cosim.extensions.edgecloudsim.offloading.choosing import ARCHITECTURES, POLICIES, SINGLE_TIER
from cosim.extensions.edgecloudsim.offloading.flow import BASIC, REACH, RELAY
from cosim.extensions.edgecloudsim.offloading.kernel import begin
from cosim.extensions.edgecloudsim.offloading.layout import OffloadingState
from cosim.extensions.edgecloudsim.offloading.study import Energy, OffloadingStudy

_FLOWS = {"app1": BASIC, "tutorial5": BASIC, "app2": RELAY, "app4": RELAY, "app3": REACH, "app6": REACH}
MAN_BPS = 1300.0 * 1024.0 * 1e3  # bit/s, of the measured studies, unless another rate is given
_JOULE_PER_KB = 8000.0 * 1e-9  # of a nanojoule per bit

# nJ/bit where a study gives none, by the names of the UNICAL extension
RADIO = {
    "wifi_device_transmission": 283.17,
    "wifi_device_reception": 137.01,
    "wifi_access_point_transmission": 23.8,
    "wifi_access_point_reception": 23.8,
    "cellular_device_transmission": 438.4,
    "cellular_device_reception": 51.97,
    "man": 0.0,
    "wan": 46.7,
}


def accept(study: OffloadingStudy, *, custom: bool) -> None:
    """Raise `ScenarioError` for a study that the place kernel cannot simulate; compiles nothing."""
    check(study, POLICIES[study.model], custom=custom)
    _check_places(study, custom=custom)


def prepare(study: OffloadingStudy, seed: int, *, trace: bool, custom: bool) -> OffloadingState:
    """The study, if `accept` takes it, as the place kernel wants it, with everything due at time 0 done."""
    accept(study, custom=custom)
    state = lay_out(study, seed, trace=trace, custom=custom)
    meta, links = state.meta, study.links
    meta["model"] = network.MODELS.index(study.model)
    meta["architecture"] = ARCHITECTURES.index(study.architecture)
    meta["policy"] = 0 if custom else POLICIES[study.model].index(study.policy)
    meta["flow"] = _FLOWS[study.model]
    meta["limit"] = network.QUEUE_LIMIT
    meta["servers"] = links.wlan_servers
    meta["wlan_rate"], meta["wan_rate"] = request_rate(study), cloud_rate(study)
    up, down = weighted(study, "upload"), weighted(study, "download")
    meta["wlan_in"], meta["wlan_out"] = services(links.wlan, up), services(links.wlan, down)
    meta["wan_in"], meta["wan_out"] = services(links.wan, up), services(links.wan, down)
    constant = "man-rate-constant" in study.quirks or links.man <= 0.0
    meta["man_kbps"] = (MAN_BPS if constant else links.man) / 1e3
    meta["man_in"], meta["man_out"] = up, down
    meta["man_in_rate"] = meta["man_out_rate"] = study.devices * request_rate(study)
    if study.energy is not None:
        _give_energy(state, study, study.energy, seed)
    begin(state.meta)
    return state


def _check_places(study: OffloadingStudy, *, custom: bool) -> None:
    found = []
    for place in study.places:
        if place.attractiveness not in (0, 1, 2):
            found.append(
                Problem(f"class {place.attractiveness}", path=f"places.{place.name}.attractiveness", hint="0, 1 or 2")
            )
        elif not study.dwell[place.attractiveness] > 0.0 and len(study.places) > 1:
            found.append(
                Problem(
                    f"the mean stay of class {place.attractiveness} is {study.dwell[place.attractiveness]:g} s",
                    path=f"places.{place.name}",
                    hint="give a dwell time above 0",
                )
            )
        if "one-host-per-place" in study.quirks and len(place.hosts) != 1:
            found.append(
                Problem(
                    f"{len(place.hosts)} hosts, and quirk one-host-per-place is on",
                    path=f"places.{place.name}.hosts",
                    hint="give one host per place, or leave the quirk out",
                )
            )
        if "dwell-by-access-point-number" in study.quirks and not 0 <= place.wlan < len(study.places):
            found.append(
                Problem(
                    f"access point {place.wlan}, and quirk dwell-by-access-point-number is on",
                    path=f"places.{place.name}.wlan",
                    hint=f"number access points 0..{len(study.places) - 1}, or leave the quirk out",
                )
            )
    if _FLOWS[study.model] == BASIC:
        needed = ["wlan"] if study.architecture == ARCHITECTURES[SINGLE_TIER] else ["wlan", "wan"]
        found += [
            Problem(f"{study.model} needs its rate", path=f"links.{name}", hint="bit/s, more than 0")
            for name in needed
            if not getattr(study.links, name) > 0.0
        ]
        if study.links.wlan_servers not in (1, 2):
            found.append(Problem(f"{study.links.wlan_servers} servers", path="links.wlan_servers", hint="1 or 2"))
    if _FLOWS[study.model] == RELAY and not any(place.hosts for place in study.places):
        found.append(Problem("no place has a host", path="places", hint="give hosts"))
    if study.device_vm is None and not custom and _FLOWS[study.model] == REACH and study.policy != "only-edge":
        found.append(Problem(f"policy {study.policy} needs machines on the devices", path="device_vm", hint="give one"))
    if found:
        raise ScenarioError(found)


def _give_energy(state: OffloadingState, study: OffloadingStudy, energy: Energy, seed: int) -> None:
    """Batteries and powers. Capacities are drawn uniformly; the lower bound may be given last."""
    meta = state.meta
    meta["energy"], meta["mortal"] = 1, energy.mortal
    meta["device_idle"], meta["device_max"] = energy.device_idle, energy.device_max
    meta["cloud_idle"], meta["cloud_max"] = energy.cloud_idle, energy.cloud_max
    radio = {name: value * _JOULE_PER_KB for name, value in (RADIO | energy.nanojoule_per_bit).items()}
    for field, name in (
        ("send", "wifi_device_transmission"),
        ("receive", "wifi_device_reception"),
        ("cellular_send", "cellular_device_transmission"),
        ("cellular_receive", "cellular_device_reception"),
        ("point_send", "wifi_access_point_transmission"),
        ("point_receive", "wifi_access_point_reception"),
        ("man_energy", "man"),
        ("wan_energy", "wan"),
    ):
        meta[field] = radio[name]
    if "network-energy-missing" in study.quirks:
        meta["man_energy"] = meta["wan_energy"] = 0.0
    low, high = min(energy.initial), max(energy.initial)
    rng = np.random.default_rng(np.random.SeedSequence((seed, 2)))
    joules = energy.battery * 3600.0 / 100.0 * (low + (high - low) * rng.random(study.devices + len(study.places)))
    batteries = state["batteries"]
    batteries["capacity"] = joules[: study.devices]
    batteries["died"] = np.nan
    state["centres"]["battery"][: len(study.places)] = joules[study.devices :]
