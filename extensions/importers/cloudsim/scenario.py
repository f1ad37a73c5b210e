"""From a document to the text of a scenario: VMs are nodes, cloudlets their tasks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

from cosim.contract import units
from cosim.contract.errors import Problem
from cosim.extensions.importers.cloudsim.environment import (
    CloudletEntry,
    CustomerEntry,
    DatacenterEntry,
    VmEntry,
    read_environment,
)
from cosim.extensions.importers.cloudsim.placing import Placing
from cosim.sources.importing.document import plain_name, text_of
from cosim.sources.importing.imported import Imported
from cosim.sources.importing.values import Findings, merged

_KINDS = {"TimeShared": "time-shared", "SpaceShared": "space-shared"}
_APART = 1e-9  # s, between the entries of a customer, so that VMs queue them in the order of the file
_DISCIPLINES = {"time-shared": "sharing", "space-shared": "fcfs"}


@dataclass(slots=True)
class _Vm:
    """A VM that has a host."""

    entry: VmEntry
    place: DatacenterEntry
    number: int  # within its customer, from 1 on
    load: float = 0.0  # MI, on all PEs
    longest: float = 0.0  # MI, of a PE

    def bound(self) -> float:
        """Time in s after which all of its cloudlets have ended (Graham 1969: total / PEs + the longest)."""
        return (self.load / self.entry.pes + self.longest) / self.entry.mips


@dataclass(slots=True)
class _Draft:
    """What the scenario has of the file so far."""

    nodes: dict[str, object] = field(default_factory=dict)
    loads: dict[str, object] = field(default_factory=dict)
    beside: dict[str, Callable[[Path], None]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    vms: int = 0
    end: float = 0.0  # s


def read(file: Path, *, environment: int = 1, duration: str | None = None) -> Imported:
    """A scenario for the adapter `continuum` on the VMs of one document of `file`.

    VMs are placed by their datacenter's policy, in the first datacenter with a host for them; a VM that
    fits nowhere is left out, as by CloudSim. A customer's cloudlets go to its VMs in turn, all at the
    start. One instruction is one cycle. Raises `ScenarioError` with all mistakes in the file.
    """
    findings = Findings()
    found = read_environment(file, environment, findings)
    placing = Placing(found.datacenters)
    made = _Draft()
    for customer in found.customers:
        _customer(customer, placing, made)
    findings.check()
    run = _run(made.end, duration, findings)
    findings.check()
    findings.report("note", file, None, "mips", "one instruction counts as one cycle, so n MIPS are n MHz")
    if any(place.per_second for place in found.datacenters):
        text = "is paid per core-second of work; CloudSim pays the time from a cloudlet's start to its end"
        findings.report("note", file, None, "costPerSec", text)
    kinds = list(dict.fromkeys(_KINDS[vm.scheduler] for one in found.customers for vm in one.vms))
    document: dict[str, object] = {
        "apiVersion": "cosim/v1",
        "kind": "Scenario",
        "name": "cloudsim",
        "title": "".join(c for c in f"CloudSim scenario {file.stem}" if c.isprintable())[:200],
        "description": "Imported from a file of CloudSim Automation; each cloudlet runs on the VM that it is bound to.",
        "run": run,
        "adapters": {
            "continuum": {"scheduler": "local", "discipline": {kind: _DISCIPLINES[kind] for kind in kinds}},
        },
        "kinds": {kind: {"tier": "cloud"} for kind in kinds},
        "nodes": made.nodes,
        "workloads": made.loads,
    }
    facts = {
        "hosts": found.hosts,
        "hosts_used": placing.hosts_used,
        "customers": sum(one.amount for one in found.customers),
        "vms": made.vms,
        "vms_without_host": found.vms - made.vms,
        "cloudlets": found.cloudlets,
    }
    return Imported(text_of(document), merged(findings.notices), made.beside, facts)


def _customer(customer: CustomerEntry, placing: Placing, made: _Draft) -> None:
    """The nodes and workloads of a customer and of those like it."""
    owners: list[tuple[str, list[_Vm]]] = []
    missing: dict[int, int] = {}
    for number in range(customer.amount):
        base = customer.name or "customer"
        name = plain_name(base if customer.amount == 1 else f"{base}-{number + 1}", made.taken, "customer")
        vms: list[_Vm] = []
        for at, entry in enumerate(customer.vms):
            for _ in range(entry.amount):
                place = placing.place(entry)
                if place is None:
                    missing[at] = missing.get(at, 0) + 1
                else:
                    vms.append(_Vm(entry, place, len(vms) + 1))
        if not vms:
            customer.source.wrong("vms|vmList", f"no VM of customer '{name}' fits on a host")
            return
        owners.append((name, vms))
        made.nodes |= _nodes(name, vms)
        made.vms += len(vms)
    for at, count in missing.items():
        text = f"{count:,} of {customer.amount * customer.vms[at].amount:,} fit on no host and are left out"
        customer.vms[at].source.report("ignored", "amount", text)
    turns = [(name, cycle(vms)) for name, vms in owners]
    for order, cloudlet in enumerate(customer.cloudlets):
        if not (cloudlet.amount and owners):
            continue
        rows: list[str] = []
        met: dict[int, VmEntry] = {}
        for name, turn in turns:
            for _ in range(cloudlet.amount):
                vm = next(turn)
                rows.append(_name(name, vm.number))
                vm.load += cloudlet.length * cloudlet.pes
                vm.longest = max(vm.longest, cloudlet.length)
                met[id(vm.entry)] = vm.entry
        for entry in met.values():
            _doubts(cloudlet, entry)
        load = plain_name(f"{customer.name or 'customer'}-cloudlets", made.taken, "cloudlets")
        made.beside[f"{load}.csv"] = partial(_write, rows, order * _APART)
        sources = list(dict.fromkeys(rows)) if len(rows) < 50 else [f"{name}-vm-*" for name, _ in owners]
        made.loads[load] = _workload(cloudlet, load, sources)
    made.end = max([made.end, *(vm.bound() for _, vms in owners for vm in vms)])


def _doubts(cloudlet: CloudletEntry, vm: VmEntry) -> None:
    """Note where PEs do not come out even on VMs that give them to one cloudlet at a time."""
    if vm.scheduler != "SpaceShared":
        return
    names = "pes|cloudletsPesNumber"
    if cloudlet.pes > vm.pes:
        text = f"is more than the {vm.pes} of a VM: CloudSim never starts such a cloudlet, here it takes turns"
    elif vm.pes % cloudlet.pes:
        text = f"does not divide the {vm.pes} of a VM: a cloudlet starts here on fewer PEs while others are taken"
    else:
        return
    cloudlet.source.report("note", names, text)


def _name(customer: str, number: int) -> str:
    return f"{customer}-vm-{number}"


def _nodes(customer: str, vms: list[_Vm]) -> dict[str, object]:
    """The VMs' nodes, equal neighbours as a range."""
    runs: list[tuple[dict[str, object], int, int]] = []
    for vm in vms:
        keys = _keys(vm)
        if runs and runs[-1][0] == keys:
            runs[-1] = (keys, runs[-1][1], vm.number)
        else:
            runs.append((keys, vm.number, vm.number))
    return {
        f"{customer}-vm-[{first}..{last}]" if last > first else _name(customer, first): keys
        for keys, first, last in runs
    }


def _keys(vm: _Vm) -> dict[str, object]:
    keys: dict[str, object] = {
        "kind": _KINDS[vm.entry.scheduler],
        "cpu": f"{vm.entry.pes} x {_plain(vm.entry.mips)} MHz",
    }
    if vm.entry.ram > 0.0:
        keys["memory"] = f"{_plain(vm.entry.ram)} MB"
    cost = {}
    if vm.place.per_second > 0.0:
        cost["cpu"] = f"{_plain(vm.place.per_second)} /s"
    if vm.place.per_byte > 0.0:
        cost["transfer"] = f"{_plain(vm.place.per_byte)} /B"
    return {**keys, "cost": cost} if cost else keys


def _workload(cloudlet: CloudletEntry, name: str, sources: list[str]) -> dict[str, object]:
    """A cloudlet of several PEs is a job with a stage for each; its file is shared out among them."""
    length = f"{_plain(cloudlet.length)} Mcycles"
    load: dict[str, object] = {"from": sources, "arrivals": f"trace {name}.csv"}
    if cloudlet.file > 0.0:
        load["input"] = f"{_plain(cloudlet.file / cloudlet.pes)} B"
    output = {"output": f"{_plain(cloudlet.output)} B"} if cloudlet.output > 0.0 else {}
    if cloudlet.pes == 1:
        return {**load, **output, "work": length}
    stages = {f"pe-{number + 1}": {"work": length, **(output if number == 0 else {})} for number in range(cloudlet.pes)}
    return {**load, "graph": stages}


def _run(end: float, duration: str | None, findings: Findings) -> dict[str, object]:
    """The duration: as requested, or until all cloudlets have ended for sure."""
    if duration is None:
        step = max(1, math.ceil(end / 1000.0))
        return {"duration": f"{(math.ceil(end / step) + 1) * step} s", "step": f"{step} s", "seed": 1}
    try:
        seconds = units.parse(duration, "time")
    except ValueError as error:
        findings.problems.append(Problem(str(error), "--duration"))
        return {}
    if seconds <= 0.0:
        findings.problems.append(Problem("is not above 0", "--duration"))
    whole = seconds >= 1.0 and seconds == round(seconds)
    return {"duration": duration, "step": "1 s" if whole else duration, "seed": 1}


def _write(rows: list[str], time: float, path: Path) -> None:
    path.write_text("time,device\n" + "".join(f"{time:g},{row}\n" for row in rows), encoding="utf-8")


def _plain(value: float) -> str:
    return f"{value:.12g}"
