"""From a study to the text of a scenario on the adapter `offloading`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Unpack

from cosim.contract import units
from cosim.extensions.edgecloudsim.importing.choices import architecture_of, words
from cosim.extensions.edgecloudsim.importing.study import Physics, StudyRequest, StudySurvey, survey
from cosim.extensions.edgecloudsim.offloading.quirks import compatible
from cosim.extensions.edgecloudsim.offloading.study import Application, EdgePlace, Energy, Model, OffloadingStudy, Vm
from cosim.sources.importing.imported import Imported

STEPS = (5.0, 2.0, 1.0, 0.5, 0.1, 0.01)  # s, the first that divides the duration is taken
NO_IDLE = 1e-9  # s; a scenario's idle phase has a length


def read(
    properties: Path, edge_devices: Path, applications: Path, *, logs: bool = False, **asked: Unpack[StudyRequest]
) -> Imported:
    """The scenario that the three files describe, with all further values of their lists in its sweep.

    `logs`: let the run write the peer's own files too. Raises `ScenarioError` with all mistakes.
    """
    found = survey(properties, edge_devices, applications, **asked)
    physics = asked.get("physics", "compatible")
    study = found.study
    facts = {
        "model": study.model,
        "physics": physics,
        "architecture": study.architecture,
        "policy": study.policy,
        "devices": study.devices,
        "places": len(study.places),
        "applications": [application.name for application in study.applications],
        "duration": study.duration,
        "sweep": _sweep(found),
    }
    sources = ", ".join(path.name for path in (properties, edge_devices, applications))
    return Imported(_text(found, physics, sources, logs), found.notices, facts=facts)


def _text(found: StudySurvey, physics: Physics, sources: str, logs: bool) -> str:
    study = found.study
    step = next((step for step in STEPS if _divides(step, study.duration)), study.duration)
    nodes = {
        "devices": {"kind": "device", "fleet": "offloading", "capacity": max(study.devices, *found.choices.devices)},
        **{place.name: _node(place) for place in study.places},
        "cloud": _cloud_node(study),
    }
    head = {
        "apiVersion": "cosim/v1",
        "kind": "Scenario",
        "name": f"edgecloudsim-{study.model}",
        "title": f"EdgeCloudSim {study.model}, {found.scenario}, {study.policy}, {study.devices} devices",
        "description": f"Imported from {sources}.",
        "run": {"duration": _time(study.duration), "step": _time(step), "seed": 1},
    }
    lines = [
        *_block(head, ""),
        "",
        "adapters:",
        "  offloading:",
        *_block(_adapter(study, physics, logs), "    "),
        "",
        "nodes:",
        *_block(nodes, "  "),
        "",
        "workloads:",
        *_block({name_of(app): _workload(app, study.model) for app in study.applications}, "  "),
    ]
    if sweep := _sweep(found):
        lines += ["", "sweep:", *_block(sweep, "  ")]
    return "\n".join(lines) + "\n"


def _block(data: Mapping[str, Any], indent: str) -> Iterator[str]:
    """YAML, an entry a line; the model's applications and places are blocks of their own."""
    for key, value in data.items():
        if key in ("applications", "places"):
            yield f"{indent}{key}:"
            yield from _block(value, indent + "  ")
        else:
            yield f"{indent}{key}: {json.dumps(value)}"


def name_of(application: Application) -> str:
    """The application's name as a workload may be called."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", application.name)
    return (name if name[:1].isalpha() else f"app-{name}")[:64]


def _adapter(study: OffloadingStudy, physics: Physics, logs: bool) -> dict[str, Any]:
    left_out = compatible(study.model) - study.quirks if physics == "compatible" else frozenset[str]()
    links = study.links
    rates = {key: _rate(getattr(links, key)) for key in ("wlan", "man", "wan", "gsm") if getattr(links, key)}
    delays = {key: _time(getattr(links, key)) for key in ("lan_delay", "wan_propagation", "gsm_propagation")}
    servers = {"wlan_servers": links.wlan_servers} if links.wlan_servers > 1 else {}
    own = study.device_vm
    return {
        "model": study.model,
        "physics": physics,
        **({"quirks": dict.fromkeys(sorted(left_out), False)} if left_out else {}),
        "architecture": study.architecture,
        "policy": study.policy,
        "devices": study.devices,
        "warm_up": _time(study.warm_up),
        "dwell": [_time(stay) for stay in study.dwell],
        "links": {**rates, **delays, **servers},
        **{key: _time(getattr(study, key)) for key in ("load_interval", "location_interval", "access_interval")},
        "cloud": [_machines(host) for host in study.cloud],
        **({} if own is None else {"device_machine": [_machine(vm, 1) for vm in own]}),
        **({} if study.energy is None else {"energy": _energy(study.energy)}),
        **({"logs": "unical" if study.model == "app6" else "edgecloudsim"} if logs else {}),
        "applications": {name_of(app): _application(app) for app in study.applications},
        "places": {place.name: _place(place) for place in study.places},
    }


def _application(app: Application) -> dict[str, Any]:
    return {
        "cores": app.cores,
        "cloud_probability": _percent(app.cloud_probability),
        "delay_sensitivity": app.delay_sensitivity,
        "load_edge": _percent(app.load_edge),
        "load_cloud": _percent(app.load_cloud),
        "load_mobile": _percent(app.load_mobile),
    }


def _workload(app: Application, model: Model) -> dict[str, Any]:
    """The workload; the sizes of the vehicular model are uniform within 10 % of their means."""

    def law(mean: float, unit: str) -> str:
        return f"exponential {_plain(mean)} {unit}"

    def near(mean: float, unit: str) -> str:
        return f"uniform {_plain(0.9 * mean)} {unit} .. {_plain(1.1 * mean)} {unit}"

    draw = near if model == "app5" else law
    return {
        "from": "devices",
        "share": _percent(app.usage),
        "arrivals": f"poisson {_frequency(app.interarrival)}",
        "active": _time(app.active),
        "idle": _time(max(app.idle, NO_IDLE)),
        "input": draw(app.upload, "kB") if app.upload else "0 B",
        "output": draw(app.download, "kB") if app.download else "0 B",
        "work": draw(app.length, "Mcycles"),
        **({"deadline": _time(app.max_delay)} if app.max_delay else {}),
    }


def _place(place: EdgePlace) -> dict[str, Any]:
    return {
        "wlan": place.wlan,
        "attractiveness": place.attractiveness,
        "hosts": [_machines(host) for host in place.hosts],
    }


def _node(place: EdgePlace) -> dict[str, Any]:
    return {
        "kind": "edge",
        "at": [f"{_plain(place.x)} m", f"{_plain(place.y)} m"],
        "cpu": _cpu([vm for host in place.hosts for vm in host]),
        **({"power": _power(*place.power)} if any(place.power) else {}),
        **_cost(place.costs[0], place.costs[1]),
    }


def _cloud_node(study: OffloadingStudy) -> dict[str, Any]:
    """The cloud: its hosts' machines, their power, and the places' mean prices, as it states none of its own."""
    machines = [vm for host in study.cloud for vm in host]
    node: dict[str, Any] = {"kind": "cloud"}
    if not machines:
        return node
    node["cpu"] = _cpu(machines)
    if study.energy is not None:
        each = len(study.cloud[0])
        node["power"] = _power(each * study.energy.cloud_idle, each * study.energy.cloud_max)
    prices = [place.costs[:2] for place in study.places]
    return node | _cost(*(math.fsum(column) / len(prices) for column in zip(*prices, strict=True)))


def _power(idle: float, full: float) -> dict[str, str]:
    return {"idle": f"{_plain(idle)} W", "max": f"{_plain(full)} W"}


def _cost(per_kilobyte: float, per_second: float) -> dict[str, Any]:
    if not (per_kilobyte or per_second):
        return {}
    return {"cost": {"cpu": f"{_plain(per_second)} /s", "transfer": f"{_plain(round(per_kilobyte * 1e3, 12))} /MB"}}


def _cpu(machines: list[Vm]) -> str:
    """All cores at the mean speed; what the machines share among tasks stands in the adapter's block."""
    cores = sum(vm.cores for vm in machines)
    mean = sum(vm.cores * vm.mips for vm in machines) / cores
    return f"{cores} x {_plain(mean)} MHz"


def _machines(host: tuple[Vm, ...]) -> list[dict[str, Any]]:
    """The machines of a host, equal neighbours together."""
    runs: list[tuple[Vm, int]] = []
    for vm in host:
        if runs and runs[-1][0] == vm:
            runs[-1] = (vm, runs[-1][1] + 1)
        else:
            runs.append((vm, 1))
    return [_machine(vm, count) for vm, count in runs]


def _machine(vm: Vm, count: int) -> dict[str, Any]:
    image = {"image": f"{_plain(vm.image)} MB"} if vm.image else {}
    return {**({"count": count} if count > 1 else {}), "cores": vm.cores, "mips": vm.mips, **image}


def _energy(energy: Energy) -> dict[str, Any]:
    return {
        "device_idle": f"{_plain(energy.device_idle)} W",
        "device_max": f"{_plain(energy.device_max)} W",
        "cloud_idle": f"{_plain(energy.cloud_idle)} W",
        "cloud_max": f"{_plain(energy.cloud_max)} W",
        "battery": f"{_plain(energy.battery)} Wh",
        "initial": [_percent(bound) for bound in energy.initial],
        "mortal": energy.mortal,
        "per_bit": {name: f"{_plain(value)} nJ/bit" for name, value in energy.nanojoule_per_bit.items()},
    }


def _sweep(found: StudySurvey) -> dict[str, list[Any]]:
    """What the files list beside the chosen values, as far as one model can vary it."""
    choices = found.choices
    lists: dict[str, list[Any]] = {
        "devices": list(choices.devices),
        "architecture": list(dict.fromkeys(filter(None, map(architecture_of, choices.scenarios)))),
        "policy": [words(word) for word in choices.policies],
    }
    return {f"adapters.offloading.{key}": values for key, values in lists.items() if len(values) > 1}


def _divides(step: float, duration: float) -> bool:
    return math.isclose(duration / step, round(duration / step), rel_tol=1e-12) and duration >= step


def _plain(value: float) -> str:
    """The shortest text for `value`, without an exponent for usual magnitudes."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _time(seconds: float) -> str:
    return f"{_plain(seconds)} s"


def _rate(rate: float) -> str:
    return f"{_plain(rate / 1e6)} Mbit/s"


def _percent(value: float) -> str:
    return f"{_plain(value)} %"


def _frequency(interval: float) -> str:
    """A frequency whose reciprocal is `interval` (s), exactly where there is one."""
    for unit, factor in (("Hz", 1.0), ("/min", 1 / 60), ("/h", 1 / 3600)):
        number = 1.0 / (interval * factor)
        for value in (round(number, 9), number, math.nextafter(number, math.inf), math.nextafter(number, 0.0)):
            text = f"{_plain(value)} {unit}"
            if value > 0.0 and 1.0 / units.parse(text, "frequency") == interval:
                return text
    return f"{_plain(1.0 / interval)} Hz"
