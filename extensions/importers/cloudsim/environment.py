"""A document of CloudSim Automation, in the words of its present and its first version."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.hints import did_you_mean
from cosim.sources.importing.values import Fields, Findings, read_yaml

_READER = "CloudSim Automation"
CLOUDLET_SCHEDULERS = ("TimeShared", "SpaceShared")
VM_SCHEDULERS = ("TimeShared", "SpaceShared", "TimeSharedOverSubscription")
PLACEMENTS = ("Simple", "FirstFit", "BestFit")
MOST_HOSTS = MOST_VMS = 100_000
MOST_CLOUDLETS = 1_000_000


@dataclass(frozen=True, slots=True)
class HostEntry:
    """Equal hosts."""

    amount: int
    pes: int
    mips: float  # of a PE
    ram: float  # MB
    bw: float  # Mbit/s
    storage: float  # MB
    scheduler: str


@dataclass(frozen=True, slots=True)
class DatacenterEntry:
    """Equal datacenters."""

    amount: int
    placement: str
    hosts: tuple[HostEntry, ...]
    per_second: float  # price of a busy PE
    per_byte: float  # price of a cloudlet's files


@dataclass(frozen=True, slots=True)
class VmEntry:
    """Equal VMs of a customer."""

    source: Fields
    amount: int
    pes: int
    mips: float  # of a PE
    ram: float  # MB
    bw: float  # Mbit/s
    size: float  # MB
    scheduler: str


@dataclass(frozen=True, slots=True)
class CloudletEntry:
    """Equal cloudlets of a customer."""

    source: Fields
    amount: int
    pes: int
    length: float  # MI on each PE
    file: float  # B
    output: float  # B


@dataclass(frozen=True, slots=True)
class CustomerEntry:
    """Equal customers, each with VMs and cloudlets of its own."""

    source: Fields
    name: str
    amount: int
    vms: tuple[VmEntry, ...]
    cloudlets: tuple[CloudletEntry, ...]


@dataclass(slots=True)
class CloudEnvironment:
    """What a document describes."""

    datacenters: list[DatacenterEntry] = field(default_factory=list)
    customers: list[CustomerEntry] = field(default_factory=list)

    @property
    def hosts(self) -> int:
        return sum(place.amount * sum(host.amount for host in place.hosts) for place in self.datacenters)

    @property
    def vms(self) -> int:
        return sum(one.amount * sum(vm.amount for vm in one.vms) for one in self.customers)

    @property
    def cloudlets(self) -> int:
        return sum(one.amount * sum(cloudlet.amount for cloudlet in one.cloudlets) for one in self.customers)


def read_environment(file: Path, number: int, findings: Findings) -> CloudEnvironment:
    """Document `number`, from 1 on, of a file. Raises `ScenarioError` with all mistakes in it."""
    documents = read_yaml(file)
    if not documents:
        raise ScenarioError(Problem("holds nothing", file=file))
    if not 1 <= number <= len(documents):
        hint = f"it has {len(documents)}; choose one with --environment"
        raise ScenarioError(Problem(f"has no document {number}", file=file, hint=hint))
    if len(documents) > 1:
        text = f"document {number} of {len(documents)} is taken; choose another with --environment"
        findings.report("note", file, documents[number - 1].line, "", text)
    top = documents[number - 1]
    if not isinstance(top.content, dict):
        hint = "it should have the keys datacenters and customers"
        raise ScenarioError(Problem("is no scenario of CloudSim Automation", file=file, line=top.line, hint=hint))
    whole = Fields(file, top, "", findings)
    found = CloudEnvironment(
        [_datacenter(one) for one in whole.mappings("datacenters|datacenterRegistries")],
        [_customer(one) for one in whole.mappings("customers|customerRegistries")],
    )
    whole.finish(_READER)
    findings.check()
    for key, what, count, most in (
        ("datacenters|datacenterRegistries", "hosts", found.hosts, MOST_HOSTS),
        ("customers|customerRegistries", "VMs", found.vms, MOST_VMS),
        ("customers|customerRegistries", "cloudlets", found.cloudlets, MOST_CLOUDLETS),
    ):
        if count > most:
            whole.wrong(key, f"make {count:,} {what}; at most {most:,} are read")
        if not count:
            whole.wrong(key, f"make no {what}")
    findings.check()
    return found


def _datacenter(entry: Fields) -> DatacenterEntry:
    placement = entry.text("vmAllocationPolicy|allocationPolicyAlias")
    if placement and placement not in PLACEMENTS:
        text = f"'{placement}' is not known here; hosts are taken as by Simple. Known: {', '.join(PLACEMENTS)}"
        entry.report("ignored", "vmAllocationPolicy|allocationPolicyAlias", text)
        placement = "Simple"
    if entry.text("vmMigration", "").lower().startswith(("enable", "true", "yes")):
        entry.report("ignored", "vmMigration", "VMs stay on their hosts: the policies that are known here move none")
    entry.ignore(
        "only counts for policies that move VMs", "upperUtilizationThreshold", "lowerUtilizationThreshold",
        "monitoringInterval",
    )  # fmt: skip
    entry.ignore("storage networks are not modelled; cloudlets need no files of them", "sans|sanList")
    entry.ignore("is paid once for each VM; here prices are for use", "costPerMem", "costPerStorage")
    _labels(entry, "name", "id", "architecture", "os", "vmm", "timeZone", "schedulingInterval")
    found = DatacenterEntry(
        _amount(entry),
        placement,
        tuple(_host(host) for host in entry.mappings("hosts|hostList")),
        entry.number("costPerSec", 0.0),
        entry.number("costPerBw", 0.0),
    )
    entry.finish(_READER)
    return found


def _host(entry: Fields) -> HostEntry:
    entry.ignore(
        "CloudSim Automation reads it and gives hosts no power model", "maxPower", "staticPowerPercent",
        "powerModel|powerModelAlias",
    )  # fmt: skip
    for key in ("ram", "bw", "pe"):
        names = f"{key}Provisioner|{key}ProvisionerAlias"
        if entry.text(names, "Simple") != "Simple":
            entry.report("ignored", names, "counts as Simple: what is asked for is given while there is some")
    _labels(entry, "id")
    found = HostEntry(
        _amount(entry),
        int(entry.number("pes|numOfPes", whole=True, least=1, most=100_000)),
        _above(entry, "mips|mipsPerPe"),
        entry.number("ram"),
        entry.number("bw"),
        entry.number("storage"),
        _one_of(entry, "vmScheduler|schedulingPolicyAlias", VM_SCHEDULERS),
    )
    entry.finish(_READER)
    return found


def _customer(entry: Fields) -> CustomerEntry:
    for key in ("ramCpuFactor", "cloudletLengthMean"):
        if entry.find(key) is not None:
            entry.wrong(key, "draws sizes at random, which is not supported", "state them for VMs and cloudlets")
    _labels(entry, "id")
    found = CustomerEntry(
        entry,
        entry.text("name", ""),
        _amount(entry),
        tuple(_vm(vm) for vm in entry.mappings("vms|vmList")),
        tuple(_cloudlet(cloudlet) for cloudlet in entry.mappings("cloudlets|utilizationProfile")),
    )
    entry.finish(_READER)
    return found


def _vm(entry: Fields) -> VmEntry:
    if entry.find("interArrivalTimeMean") is not None:
        entry.wrong("interArrivalTimeMean", "makes VMs all the time, which is not supported", "state an amount")
    _labels(entry, "id", "vmm", "priority")
    found = VmEntry(
        entry,
        _amount(entry),
        int(entry.number("pes|pesNumber", whole=True, least=1, most=100_000)),
        _above(entry, "mips"),
        entry.number("ram", 0.0),
        entry.number("bw", 0.0),
        entry.number("size", 0.0),
        _one_of(entry, "cloudletScheduler|schedulingPolicyAlias", CLOUDLET_SCHEDULERS),
    )
    entry.finish(_READER)
    return found


def _cloudlet(entry: Fields) -> CloudletEntry:
    names = "utilizationModelCpu|utilizationModelCpuAlias"
    if entry.text(names, "Full") != "Full":
        entry.report("ignored", names, "counts as Full: a cloudlet takes all of the CPU time that it can get")
    for what, names in (
        ("memory", "utilizationModelRam|utilizationModelRamAlias"),
        ("bandwidth", "utilizationModelBw|utilizationModelBwAlias"),
    ):
        if entry.find(*names.split("|")) is not None:
            entry.report("note", names, f"cloudlets take no {what} of their VM here")
    names = "submissionDelay|timeToSend"
    if entry.number(names, 0.0) > 0.0:
        entry.report("ignored", names, "CloudSim Automation reads it and sends all cloudlets at the start")
    entry.ignore("cloudlets go to the customer's VMs in turn", "brokerPolicyAlias")
    _labels(entry, "id", "timeZone")
    found = CloudletEntry(
        entry,
        int(entry.number("amount|numOfCloudlets", 1.0, whole=True, most=1e9)),
        int(entry.number("pes|cloudletsPesNumber", whole=True, least=1, most=1000)),
        _above(entry, "length"),
        entry.number("fileSize", 0.0),
        entry.number("outputSize", 0.0),
    )
    entry.finish(_READER)
    return found


def _amount(entry: Fields) -> int:
    return int(entry.number("amount", 1.0, whole=True, most=1e9))


def _above(entry: Fields, key: str) -> float:
    """A number above 0."""
    before = len(entry.findings.problems)
    number = entry.number(key)
    if number == 0.0 and entry.find(*key.split("|")) is not None and len(entry.findings.problems) == before:
        entry.wrong(key, "is 0")
    return number


def _one_of(entry: Fields, key: str, known: tuple[str, ...]) -> str:
    text = entry.text(key)
    if text not in known and entry.value(key) is not None:
        entry.wrong(key, f"'{text}' is none of the schedulers that are known here", did_you_mean(text, known))
    return text


def _labels(entry: Fields, *keys: str) -> None:
    """Accept fields that do not affect times and costs."""
    entry.known |= set(keys)
