"""What a study must hold before it can be simulated."""

from __future__ import annotations

import math

from cosim.contract.errors import Problem, ScenarioError
from cosim.extensions.edgecloudsim.offloading.quirks import QUIRKS
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy


def check(study: OffloadingStudy, policies: tuple[str, ...], *, custom: bool = False) -> None:
    """Raise ScenarioError with every mistake in the study; `policies` are those of its model."""
    found = [*_run(study), *_applications(study), *_places(study)]
    if not custom and study.policy not in policies:
        found.append(_one("policy", f"there is no policy '{study.policy}'", f"of {study.model}: {', '.join(policies)}"))
    found += [
        _one("quirks", f"there is no quirk '{name}'", f"known: {', '.join(QUIRKS)}")
        for name in sorted(study.quirks - set(QUIRKS))
    ]
    if found:
        raise ScenarioError(found)


def _one(path: str, message: str, hint: str = "") -> Problem:
    return Problem(message, path=path, hint=hint)


def _run(study: OffloadingStudy) -> list[Problem]:
    found = []
    if study.devices < 1:
        found.append(_one("devices", f"{study.devices} devices", "at least 1"))
    if not 0.0 < study.duration < math.inf:
        found.append(_one("duration", f"{study.duration:g} s", "more than 0"))
    if not 0.0 <= study.warm_up < study.duration:
        found.append(_one("warm_up", f"{study.warm_up:g} s", f"from 0 to below the duration, {study.duration:g} s"))
    found += [
        _one(name, f"{getattr(study, name):g} s", "0 (never) or more")
        for name in ("load_interval", "location_interval", "access_interval")
        if not 0.0 <= getattr(study, name) < math.inf
    ]
    return found


def _applications(study: OffloadingStudy) -> list[Problem]:
    found = []
    if not study.applications:
        found.append(_one("applications", "there are none", "give at least one"))
    if sum(a.usage for a in study.applications) > 100.0 + 1e-6:
        found.append(_one("applications", "their shares sum up to more than 100 %", "lower usage"))
    if len({a.name for a in study.applications}) < len(study.applications):
        found.append(_one("applications", "two have the same name", "rename one"))
    for a in study.applications:
        path = f"applications.{a.name}"
        found += [
            _one(f"{path}.{name}", f"{getattr(a, name):g} s", "more than 0")
            for name in ("interarrival", "active")
            if not 0.0 < getattr(a, name) < math.inf
        ]
        found += [
            _one(f"{path}.{name}", f"{getattr(a, name):g}", "0 or more")
            for name in ("usage", "idle", "upload", "download", "length", "load_edge", "load_cloud", "load_mobile")
            if not 0.0 <= getattr(a, name) < math.inf
        ]
        if a.cores < 1:
            found.append(_one(f"{path}.cores", f"{a.cores} cores", "at least 1"))
    return found


def _places(study: OffloadingStudy) -> list[Problem]:
    found = []
    if not study.places:
        found.append(_one("places", "there are none", "give at least one"))
    groups = [group for place in study.places for group in place.hosts] + list(study.cloud)
    found += [
        _one("places", f"a machine has {machine.cores} cores of {machine.mips:g} MIPS", "more than 0")
        for group in groups
        for machine in group
        if machine.cores < 1 or not 0.0 < machine.mips < math.inf
    ]
    return found
