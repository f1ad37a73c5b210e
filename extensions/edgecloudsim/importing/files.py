"""applications.xml and edge_devices.xml: applications, and edge places with their machines."""

from __future__ import annotations

from pathlib import Path

from cosim.extensions.edgecloudsim.importing.source import Branch
from cosim.extensions.edgecloudsim.importing.xml import read_xml
from cosim.extensions.edgecloudsim.offloading.study import Application, EdgePlace, Vm
from cosim.sources.importing.values import Findings

MOST_MACHINES = 1_000_000
APPLICATION_NUMBERS = (  # key, attribute of Application, least, most, default (None: mandatory)
    ("usage_percentage", "usage", 0.0, 100.0, None),
    ("prob_cloud_selection", "cloud_probability", 0.0, 100.0, None),
    ("poisson_interarrival", "interarrival", 1e-9, 1e12, None),  # s
    ("active_period", "active", 1e-9, 1e12, None),  # s
    ("idle_period", "idle", 0.0, 1e12, None),  # s
    ("data_upload", "upload", 0.0, 1e12, None),  # kB
    ("data_download", "download", 0.0, 1e12, None),  # kB
    ("task_length", "length", 0.0, 1e15, None),  # MI
    ("vm_utilization_on_edge", "load_edge", 0.0, 100.0, None),
    ("vm_utilization_on_cloud", "load_cloud", 0.0, 100.0, None),
    ("vm_utilization_on_mobile", "load_mobile", 0.0, 100.0, None),
    ("delay_sensitivity", "delay_sensitivity", 0.0, 1.0, None),
    ("max_delay_requirement", "max_delay", 0.0, 1e12, 0.0),  # s
)


def _top(file: Path, name: str, findings: Findings) -> Branch | None:
    """The first element of a file; None, after reporting it, where it is another one than `name`."""
    root = read_xml(file)
    if root.name == name:
        return Branch(file, root, name, findings)
    hint = f"give {name}.xml, whose first element is <{name}>"
    findings.wrong(file, root.line, "", f"the first element is <{root.name}>", hint)
    return None


def applications(file: Path, findings: Findings) -> tuple[Application, ...]:
    """The applications in `file`, in its order."""
    top = _top(file, "applications", findings)
    if top is None:
        return ()
    root = top.element
    found: list[Application] = []
    for branch in top.branches("application"):
        name = branch.element.attributes.get("name", "").strip()
        if not name:
            findings.wrong(file, branch.element.line, branch.path, "has no name", 'write <application name="...">')
            continue
        if any(name == other.name for other in found):
            findings.wrong(file, branch.element.line, branch.path, f"a second application is called '{name}'")
            continue
        branch.path = name
        values = {
            attribute: branch.number(key, default, least=least, most=most)
            for key, attribute, least, most, default in APPLICATION_NUMBERS
        }
        cores = int(branch.number("required_core", whole=True, least=1, most=4096))
        branch.finish()
        found.append(Application(name=name, cores=cores, **values))
    top.finish()
    if not found and not findings.problems:
        findings.wrong(file, root.line, "applications", "has no application")
    total = sum(application.usage for application in found)
    if total > 100.0 + 1e-6:
        findings.wrong(file, root.line, "usage_percentage", f"sums up to {total:g} %", "at most 100 %")
    elif found and not findings.problems and total < 100.0 - 1e-6:
        text = f"sums up to {total:g} %: {100 - total:g} % of the devices make no tasks"
        findings.report("note", file, root.line, "usage_percentage", text)
    return tuple(found)


def places(file: Path, findings: Findings, extended: bool) -> tuple[EdgePlace, ...]:
    """The edge datacentres in `file`; `extended`: with the keys of the UNICAL extension."""
    top = _top(file, "edge_devices", findings)
    if top is None:
        return ()
    root = top.element
    found = []
    machines = 0
    for at, branch in enumerate(top.branches("datacenter")):
        branch.path = f"datacenter[{at}]"
        place = _place(branch, at, extended)
        machines += sum(len(host) for host in place.hosts)
        found.append(place)
    top.finish()
    if not found and not findings.problems:
        findings.wrong(file, root.line, "edge_devices", "has no datacenter")
    if machines > MOST_MACHINES:
        findings.wrong(file, root.line, "edge_devices", f"has {machines:,} machines, more than {MOST_MACHINES:,}")
    if any(len(place.hosts) > 1 for place in found):
        text = "EdgeCloudSim takes a host's number for its datacentre's: only one host per datacentre works there"
        findings.report("note", file, root.line, "hosts", text)
    return tuple(found)


def _place(branch: Branch, at: int, extended: bool) -> EdgePlace:
    findings = branch.findings
    costs = tuple(branch.number(key) for key in ("costPerBw", "costPerSec", "costPerMem", "costPerStorage"))
    power = (0.0, 0.0)
    if extended:
        power = (branch.number("idleConsumption"), branch.number("maxConsumption"))
        child = branch.element.first("idleConsumption")
        if power[0] > power[1]:
            text = f"{power[0]:g} W idle are more than {power[1]:g} W at full load; taken the other way round"
            findings.report(
                "inverted", branch.file, child.line if child else None, f"{branch.path}.idleConsumption", text
            )
            power = (power[1], power[0])
    x = y = 0.0
    wlan = attractiveness = 0
    locations = branch.branches("location")
    if locations:
        location = locations[0]
        location.path = f"{branch.path}.location"
        for other in locations[1:]:
            text = "is given twice; EdgeCloudSim takes the first one"
            findings.report("ignored", branch.file, other.element.line, location.path, text)
        x, y = (location.number(key, least=-1e9, most=1e9) for key in ("x_pos", "y_pos"))
        wlan = int(location.number("wlan_id", whole=True, most=1e6))
        attractiveness = int(location.number("attractiveness", whole=True, most=2))
        location.finish()
        if wlan != at:
            text = f"is {wlan}, but the datacentre is number {at}; EdgeCloudSim uses one for the other"
            findings.report("note", branch.file, location.element.line, f"{location.path}.wlan_id", text)
    else:
        findings.wrong(branch.file, branch.element.line, f"{branch.path}.location", "is missing")
    hosts: list[tuple[Vm, ...]] = []
    groups = branch.branches("hosts")
    for host in groups[0].branches("host") if groups else ():
        host.path = f"{branch.path}.host[{len(hosts)}]"
        hosts.append(_host(host))
    if not hosts:
        findings.wrong(branch.file, branch.element.line, f"{branch.path}.hosts", "has no host")
    branch.finish()
    return EdgePlace(
        name=f"edge-{at}", x=x, y=y, wlan=wlan, attractiveness=attractiveness, hosts=tuple(hosts),
        costs=(costs[0], costs[1], costs[2], costs[3]), power=power,
    )  # fmt: skip


def _host(host: Branch) -> tuple[Vm, ...]:
    """The machines of a host, which must have the cores for them (CloudSim places them space-shared)."""
    findings = host.findings
    before = len(findings.problems)
    cores = int(host.number("core", whole=True, least=1, most=100_000))
    mips = host.number("mips", least=1e-6)
    memory, storage = host.number("ram"), host.number("storage")
    machines: list[Vm] = []
    asked = [0.0, 0.0]
    groups = host.branches("VMs")
    for vm in groups[0].branches("VM") if groups else ():
        vm.path = f"{host.path}.VM[{len(machines)}]"
        machines.append(
            Vm(
                cores=int(vm.number("core", whole=True, least=1, most=100_000)),
                mips=vm.number("mips", least=1e-6),
                image=vm.number("storage"),
            )
        )
        asked[0] += vm.number("ram")
        asked[1] += machines[-1].image
        vm.finish()
    host.finish()
    if not machines:
        findings.wrong(host.file, host.element.line, f"{host.path}.VMs", "has no VM")
    if len(findings.problems) > before:
        return tuple(machines)
    for wanted, there, unit in (
        (sum(vm.cores for vm in machines), cores, "cores"),
        (max(vm.mips for vm in machines), mips, "MIPS per core"),
        (asked[0], memory, "MB of memory"),
        (asked[1], storage, "MB of storage"),
    ):
        if wanted > there:
            message = f"its machines need {wanted:g} {unit}, it has {there:g}"
            findings.wrong(host.file, host.element.line, host.path, message, "EdgeCloudSim ends with such a file")
    return tuple(machines)
