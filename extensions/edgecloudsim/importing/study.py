"""From the three files to the parameters of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypedDict, Unpack

from cosim.contract.errors import Problem
from cosim.contract.hints import nearest
from cosim.extensions.edgecloudsim.importing import files
from cosim.extensions.edgecloudsim.importing.choices import (
    ARCHITECTURES,
    EXTENSION,
    POLICIES,
    Choices,
    architecture_of,
    choices_in,
    chosen,
    model_of,
    unknown,
    words,
)
from cosim.extensions.edgecloudsim.importing.properties import read_properties
from cosim.extensions.edgecloudsim.importing.source import PropertySettings, unread
from cosim.extensions.edgecloudsim.offloading.checks import check
from cosim.extensions.edgecloudsim.offloading.quirks import compatible
from cosim.extensions.edgecloudsim.offloading.study import Energy, Model, OffloadingStudy, StudyLinks, Vm
from cosim.sources.importing.imported import Notice
from cosim.sources.importing.values import Findings

Physics = Literal["compatible", "corrected"]

MINUTE = 60.0  # s
MEGABIT = 1e6  # bit
# Written in shipped files, but the parser wants "propagation": the values are never applied.
MISSPELT = {"wan_propogation_delay": "wan_propagation_delay", "gsm_propogation_delay": "gsm_propagation_delay"}
# Seen in files, and why nothing comes of them.
WITHOUT_EFFECT = {
    "northern_bound": "EdgeCloudSim reads it and uses it nowhere",
    "southern_bound": "EdgeCloudSim reads it and uses it nowhere",
    "eastern_bound": "EdgeCloudSim reads it and uses it nowhere",
    "western_bound": "EdgeCloudSim reads it and uses it nowhere",
    "wlan_range": "no shipped application uses it",
    "initialBatteryLevel": "the extension reads it and uses it nowhere",
    "connectivity_type": "the extension reads it and uses it nowhere",
}
NANOJOULES = "_nanojoules_per_bit"
# The extension's radio: what it reads and never counts.
UNCOUNTED = ("wan", "man", "wifi_access_point", "cellular_base_station")


class StudyRequest(TypedDict, total=False):
    """What is requested of the files; values that are left out or None are inferred from them."""

    devices: int | None  # default: the first of the list
    scenario: str | None  # a word of the file, in any case and with dashes or underscores; default: the first
    policy: str | None  # likewise
    model: Model | None  # default: inferred from the policies and keys
    physics: Physics  # default: compatible


def study_of(
    properties: Path, edge_devices: Path, applications: Path, **asked: Unpack[StudyRequest]
) -> tuple[OffloadingStudy, tuple[Notice, ...]]:
    """The parameters of one run, and notices about the files.

    Of lists, the requested or the first entry is taken. Raises `ScenarioError` with all mistakes in the files.
    """
    found = survey(properties, edge_devices, applications, **asked)
    return found.study, found.notices


@dataclass(frozen=True, slots=True)
class StudySurvey:
    """A study, what else the files offer, and the notices."""

    study: OffloadingStudy
    scenario: str  # the peer's word
    choices: Choices
    notices: tuple[Notice, ...]


def survey(properties: Path, edge_devices: Path, applications: Path, **asked: Unpack[StudyRequest]) -> StudySurvey:
    """As `study_of`, with the other values that the lists offer."""
    devices, physics = asked.get("devices"), asked.get("physics", "compatible")
    findings = Findings()
    settings = PropertySettings(properties, read_properties(properties), findings)
    extended = any(key in settings.properties for key in EXTENSION)
    choices = choices_in(settings)
    kind = model_of(settings, choices, extended, asked.get("model"))
    chosen_scenario = chosen(settings, "simulation_scenarios", choices.scenarios, asked.get("scenario"))
    chosen_policy = chosen(settings, "orchestrator_policies", choices.policies, asked.get("policy"))
    runnable = tuple(word for word in choices.policies if word in POLICIES[kind])
    for word in sorted({*choices.policies} - {*runnable, chosen_policy}):
        line = settings.line("orchestrator_policies")
        text = f"{word} is no policy of {kind}; left out of the sweep"
        findings.report("ignored", properties, line, "orchestrator_policies", text)
    choices = replace(choices, policies=runnable)
    if chosen_policy not in POLICIES[kind]:
        unknown(settings, "orchestrator_policies", chosen_policy, f"policy of {kind}", POLICIES[kind])
    if architecture_of(chosen_scenario) is None:
        unknown(settings, "simulation_scenarios", chosen_scenario, "scenario", tuple(ARCHITECTURES))
    if devices is not None and not 0 < devices <= 2_000_000:
        findings.problems.append(Problem(f"{devices:,} devices are asked for", hint="1 to 2,000,000 are possible"))
    study = OffloadingStudy(
        model=kind,
        architecture=architecture_of(chosen_scenario) or "single-tier",
        policy=words(chosen_policy),
        devices=choices.devices[0] if devices is None else devices,
        duration=settings.number("simulation_time", least=1e-6, most=1e9) * MINUTE,
        warm_up=settings.number("warm_up_period") * MINUTE,
        applications=files.applications(applications, findings),
        places=files.places(edge_devices, findings, extended),
        links=_links(settings, physics, servers=2 if "MM2" in chosen_scenario else 1),
        cloud=_cloud(settings),
        device_vm=_device_machine(settings, extended),
        dwell=_dwell(settings),
        load_interval=settings.number("vm_load_check_interval") * MINUTE,
        location_interval=settings.number("location_check_interval") * MINUTE,
        access_interval=settings.number("ap_delay_check_interval", 0.0) * MINUTE,
        energy=_energy(settings, physics, edge_devices) if extended else None,
    )
    for key in ("file_log_enabled", "deep_file_log_enabled"):
        settings.text(key)
    _rest(settings)
    findings.check()
    _possible(settings, study)
    findings.check()
    _effects(settings, study, physics)
    if physics == "compatible":
        if chosen_policy == "AI_BASED":
            text = (
                "AI_BASED decides here by networks trained on this model; the peer's are trained on its own runs and "
                "choose otherwise (nearly all to the edge), so compatible physics does not give its figures"
            )
            findings.report("note", properties, settings.line("orchestrator_policies"), "orchestrator_policies", text)
        study = replace(study, quirks=compatible(kind) - _impossible(study, edge_devices, findings))
    check(study, tuple(words(word) for word in POLICIES[kind]))
    return StudySurvey(study, chosen_scenario, choices, tuple(sorted(findings.notices, key=_place)))


def _place(notice: Notice) -> tuple[str, int]:
    return str(notice.file), notice.line or 0


def _links(settings: PropertySettings, physics: Physics, servers: int) -> StudyLinks:
    delays = {key: settings.number(key, 0.0) for key in MISSPELT.values()}
    for written, meant in MISSPELT.items():
        if written not in settings.properties:
            continue
        value = settings.number(written)
        applied = physics == "corrected" and meant not in settings.properties
        if applied:
            delays[meant] = value
        text = f"the peer never applies it, because it reads {meant}; " + (
            f"applied here as {value:g} s" if applied else "not applied here either"
        )
        settings.findings.report("misspelt", settings.file, settings.line(written), written, text)
    return StudyLinks(
        wlan=settings.number("wlan_bandwidth") * MEGABIT,
        man=settings.number("man_bandwidth", 0.0) * MEGABIT,
        wan=settings.number("wan_bandwidth") * MEGABIT,
        gsm=settings.number("gsm_bandwidth") * MEGABIT,
        lan_delay=settings.number("lan_internal_delay"),
        wan_propagation=delays["wan_propagation_delay"],
        gsm_propagation=delays["gsm_propagation_delay"],
        wlan_servers=servers,
    )


def _cloud(settings: PropertySettings) -> tuple[tuple[Vm, ...], ...]:
    hosts = int(settings.number("number_of_host_on_cloud_datacenter", whole=True, most=100_000))
    machines = int(settings.number("number_of_vm_on_cloud_host", whole=True, most=100_000))
    cores = int(settings.number("core_for_cloud_vm", whole=True, most=100_000))
    mips = settings.number("mips_for_cloud_vm")
    settings.number("ram_for_cloud_vm")
    image = settings.number("storage_for_cloud_vm")
    if hosts * machines > files.MOST_MACHINES:
        key = "number_of_vm_on_cloud_host"
        settings.findings.wrong(settings.file, settings.line(key), key, f"gives {hosts * machines:,} cloud machines")
        return ()
    if not (hosts and machines and cores and mips):
        return ()
    return ((Vm(cores, mips, image),) * machines,) * hosts


def _device_machine(settings: PropertySettings, extended: bool) -> tuple[Vm, Vm] | None:
    """The bounds of the devices' own machine; None without one."""
    bounds: dict[str, tuple[float, float]] = {}
    for name in ("core", "mips", "ram", "storage"):
        whole = name == "core"
        key = f"{name}_for_mobile_vm"
        if not (extended and f"min_{key}" in settings.properties):
            value = settings.number(key, whole=whole)
            bounds[name] = (value, value)
            continue
        low, high = (settings.number(f"{end}_{key}", whole=whole) for end in ("min", "max"))
        if low > high:
            text = f"{low:g} is more than max_{key}, {high:g}; drawn between the two all the same"
            settings.findings.report("inverted", settings.file, settings.line(f"min_{key}"), f"min_{key}", text)
        bounds[name] = (min(low, high), max(low, high))
    ends = [Vm(int(bounds["core"][i]), bounds["mips"][i], bounds["storage"][i]) for i in (0, 1)]
    return (ends[0], ends[1]) if ends[1].cores and ends[1].mips else None


def _dwell(settings: PropertySettings) -> tuple[float, float, float]:
    first, second, third = (settings.number(f"attractiveness_L{level}_mean_waiting_time") for level in (1, 2, 3))
    return first, second, third


def _energy(settings: PropertySettings, physics: Physics, edge_devices: Path) -> Energy:
    """The keys of the UNICAL extension; what is not given keeps the figures of its sample."""
    usual = Energy()

    def given(key: str, default: float) -> float:
        return settings.number(key, default)

    low, high = given("min_percentage", usual.initial[0]), given("max_percentage", usual.initial[1])
    if low > high:
        text = f"{low:g} is more than max_percentage, {high:g}; drawn between the two all the same"
        settings.findings.report("inverted", settings.file, settings.line("min_percentage"), "min_percentage", text)
    radio = {}
    for key in [key for key in settings.properties if NANOJOULES in key]:
        name = key.replace(NANOJOULES, "")
        radio[name] = settings.number(key)
        if name.startswith(UNCOUNTED if physics == "compatible" else "cellular"):
            text = "the extension never counts it" if physics == "compatible" else "no task takes the cellular network"
            settings.findings.report("ignored", settings.file, settings.line(key), key, text)
    if physics == "compatible":
        settings.findings.report(
            "ignored", edge_devices, None, "idleConsumption, maxConsumption", "the extension reads and never uses them"
        )
    return Energy(
        device_idle=given("energy_consumption_idle_for_mobile_vm", usual.device_idle),
        device_max=given("energy_consumption_max_for_mobile_vm", usual.device_max),
        cloud_idle=given("energy_consumption_idle_for_cloud_vm", usual.cloud_idle),
        cloud_max=given("energy_consumption_max_for_cloud_vm", usual.cloud_max),
        battery=given("batteryCapacity", usual.battery),
        initial=(min(low, high), max(low, high)),
        mortal=settings.text("battery", "true").lower() == "true",
        nanojoule_per_bit=radio,
    )


def _rest(settings: PropertySettings) -> None:
    """Report the keys that were never read, and those given twice."""
    for key, entry in settings.properties.items():
        if entry.earlier:
            text = f"is given again in line {entry.line}, which holds"
            settings.findings.report("ignored", settings.file, entry.earlier[-1], key, text)
        if key in settings.asked:
            continue
        if key in WITHOUT_EFFECT:
            settings.findings.report("ignored", settings.file, entry.line, key, WITHOUT_EFFECT[key])
            continue
        if close := nearest(key, sorted(settings.asked - set(settings.properties)), cutoff=0.85):
            text = f"EdgeCloudSim does not read it, and nothing here does; did you mean {close}?"
            settings.findings.report("misspelt", settings.file, entry.line, key, text)
        else:
            unread(settings.findings, settings.file, entry.line, key, entry.value)


def _possible(settings: PropertySettings, study: OffloadingStudy) -> None:
    """Report what the model cannot do without."""
    needed = {"app1": ["wlan"], "tutorial5": ["wlan"], "app5": ["wlan", "man", "wan", "gsm"]}.get(study.model, [])
    if study.model == "app1" and study.architecture != "single-tier":
        needed.append("wan")
    for name in needed:
        if getattr(study.links, name) <= 0.0:
            key = f"{name}_bandwidth"
            settings.findings.wrong(settings.file, settings.line(key), key, f"{study.model} needs it to be above 0")
    if study.warm_up >= study.duration:
        message = "is as long as the simulation: no task would be counted"
        settings.findings.wrong(settings.file, settings.line("warm_up_period"), "warm_up_period", message)


def _impossible(study: OffloadingStudy, edge_devices: Path, findings: Findings) -> set[str]:
    """Quirks that these files cannot have; the peer itself fails with them."""
    found = set()
    if "one-host-per-place" in compatible(study.model) and any(len(place.hosts) > 1 for place in study.places):
        found.add("one-host-per-place")
    if any(place.wlan >= len(study.places) for place in study.places):
        found.add("dwell-by-access-point-number")
    for name in sorted(found & compatible(study.model)):
        text = f"taken without quirk {name}, with which EdgeCloudSim fails on this file"
        findings.report("note", edge_devices, None, "", text)
    return found


def _effects(settings: PropertySettings, study: OffloadingStudy, physics: Physics) -> None:
    """Report the values that the model in question has no use for."""
    unused: dict[Model, Sequence[str]] = {
        "app1": ("man_bandwidth", "gsm_bandwidth", "gsm_propagation_delay"),
        "app5": tuple(f"{name}_for_mobile_vm" for name in ("core", "mips")),
        "tutorial5": ("man_bandwidth", "gsm_bandwidth", "gsm_propagation_delay"),
    }
    measured = ["wlan_bandwidth", "wan_bandwidth", "gsm_bandwidth", *MISSPELT.values()]
    if study.model in ("app3", "app6") or physics == "compatible":
        measured.append("man_bandwidth")
    for key in unused.get(study.model, measured):
        entry = settings.properties.get(key)
        if entry is not None and float(entry.value) != 0.0:
            text = f"the model of {study.model} has no use for it"
            settings.findings.report("ignored", settings.file, entry.line, key, text)
