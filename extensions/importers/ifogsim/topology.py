"""A topology file as iFogSim's own reader takes it: who is whose parent, and over which latency."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.hints import did_you_mean
from cosim.sources.importing.document import plain_name
from cosim.sources.importing.values import Fields, Findings, read_json

TYPES = ("FOG_DEVICE", "SENSOR", "ACTUATOR")
_DISTRIBUTIONS = {"1": "normal", "2": "deterministic", "3": "uniform"}
_READER = "iFogSim"
MOST_NODES = 100_000


@dataclass(slots=True)
class FogDevice:
    """A device that computes. The link to the parent has its `up` and the parent's `down`."""

    name: str
    source: Fields
    level: int  # 0 at the top
    mips: float
    ram: float  # MB
    up: float  # kbit/s
    down: float  # kbit/s, of every link to a child
    price: float  # per MIPS and ms in use
    parent: FogDevice | None = None
    latency: float = 0.0  # ms, to the parent
    link: Fields | None = None


@dataclass(frozen=True, slots=True)
class GapLaw:
    """Times between two tuples in ms: `deterministic` a, `normal` mean a and standard deviation b, `uniform` a..b."""

    law: Literal["deterministic", "normal", "uniform"]
    a: float
    b: float = 0.0


@dataclass(slots=True)
class FogEndpoint:
    """A sensor or an actuator."""

    name: str
    source: Fields
    type: str  # of its tuples
    gaps: GapLaw | None = None  # of a sensor
    gateway: FogDevice | None = None
    latency: float = 0.0  # ms
    link: Fields | None = None


@dataclass(slots=True)
class FogTopology:
    """All nodes of a file, in its order."""

    devices: list[FogDevice] = field(default_factory=list)
    sensors: list[FogEndpoint] = field(default_factory=list)
    actuators: list[FogEndpoint] = field(default_factory=list)


_Node = FogDevice | FogEndpoint


def read_topology(file: Path, findings: Findings) -> FogTopology:
    """The topology in `file`. Raises `ScenarioError` with all mistakes; remarks go to `findings`."""
    top = read_json(file)
    if not isinstance(top.content, dict):
        hint = "a topology is an object with the lists nodes and links"
        raise ScenarioError(Problem("is no topology", file=file, line=top.line, hint=hint))
    whole = Fields(file, top, "", findings)
    found = FogTopology()
    nodes = whole.mappings("nodes")
    if len(nodes) > MOST_NODES:
        whole.wrong("nodes", f"are {len(nodes):,}; at most {MOST_NODES:,} are read")
    by_name: dict[str, _Node | None] = {}  # None: of an unknown type
    lines: dict[str, int] = {}
    taken: set[str] = set()
    for node in nodes:
        made = _node(node, found, taken)
        written = node.text("name").strip()
        if not written and node.find("name") is not None:
            node.wrong("name", "is empty")
        elif written.lower() in by_name:
            hint = "iFogSim distinguishes names by letters, not by their case"
            node.wrong("name", f"'{written}' is the name of the node in line {lines[written.lower()]}, too", hint)
        else:
            by_name[written.lower()], lines[written.lower()] = made, node.line
            if made is not None and made.name != written:
                node.report("note", "name", f"node '{written}' is called '{made.name}' in the scenario")
        node.finish(_READER)
    links = whole.mappings("links", empty=True)
    whole.finish(_READER)
    for link in links:
        _connect(link, by_name)
        link.finish(_READER)
    findings.check()
    _no_circles(found.devices)
    for sensor in found.sensors:
        if sensor.gateway is None:
            sensor.source.wrong("name", "is a sensor without a link to a fog device", "add one to links")
    if not found.devices:
        whole.wrong("nodes", "has no FOG_DEVICE")
    if not found.sensors:
        whole.wrong("nodes", "has no SENSOR: there would be no tasks")
    findings.check()
    return found


def _node(node: Fields, found: FogTopology, taken: set[str]) -> _Node | None:
    """The node, added to `found`; None after reporting that it is of no known type."""
    kind = node.text("type").strip()
    name = plain_name(node.text("name", "").strip(), taken)
    if kind.upper() == "FOG_DEVICE":
        price = node.number("ratePerMips")
        device = FogDevice(
            name,
            node,
            level=int(node.number("level", whole=True, most=1000)),
            mips=_positive(node, "mips"),
            ram=node.number("ram"),
            up=_positive(node, "upBw"),
            down=_positive(node, "downBw"),
            price=price,
        )
        found.devices.append(device)
        return device
    if kind.upper() == "SENSOR":
        sensor = FogEndpoint(name, node, node.text("sensorType").strip(), _gaps(node))
        found.sensors.append(sensor)
        return sensor
    if kind.upper() == "ACTUATOR":
        actuator = FogEndpoint(name, node, node.text("actuatorType").strip())
        found.actuators.append(actuator)
        return actuator
    if node.find("type") is not None:
        node.wrong("type", f"'{kind}' is no type of node", did_you_mean(kind, TYPES))
    node.know_all()
    return None


def _positive(node: Fields, key: str) -> float:
    before = len(node.findings.problems)
    number = node.number(key)
    if number == 0.0 and node.find(key) is not None and len(node.findings.problems) == before:
        node.wrong(key, "is 0; nothing would ever come through")
    return number


def _gaps(node: Fields) -> GapLaw | None:
    """The law of a sensor; None after reporting that it has none."""
    written = node.text("distribution").strip()
    law = _DISTRIBUTIONS.get(written)
    if law is None:
        if node.find("distribution") is not None:
            known = ", ".join(f"{number} ({name})" for number, name in _DISTRIBUTIONS.items())
            node.wrong("distribution", f"'{written}' is no number of a distribution", f"known: {known}")
        node.known |= {"value", "mean", "stdDev", "min", "max"}
        return None
    if law == "deterministic":
        return GapLaw("deterministic", _positive(node, "value"))
    if law == "normal":
        return GapLaw("normal", _positive(node, "mean"), node.number("stdDev"))
    low, high = node.number("min"), _positive(node, "max")
    if low > high:
        node.report("inverted", "min", f"{low:g} is more than max, {high:g}; drawn between the two all the same")
    return GapLaw("uniform", min(low, high), max(low, high))


def _connect(link: Fields, by_name: dict[str, _Node | None]) -> None:
    """Make one end of a link the parent or gateway of the other, as iFogSim does: the last link of a node holds."""
    ends: list[_Node] = []
    for key in ("source", "destination"):
        name = link.text(key).strip()
        end = by_name.get(name.lower())
        if end is not None:
            ends.append(end)
        elif link.find(key) is not None and name.lower() not in by_name:
            link.wrong(key, f"there is no node '{name}'", did_you_mean(name, by_name))
    latency = link.number("latency")
    if len(ends) < 2:
        return
    first, second = ends
    if first is second:
        link.wrong("destination", "is the source: a node is linked to itself")
    elif isinstance(first, FogDevice) and isinstance(second, FogDevice):
        lower, upper = (first, second) if first.level > second.level else (second, first)
        if lower.link is not None:
            lower.link.report("ignored", "source", _OTHER)
        lower.parent, lower.latency, lower.link = upper, latency, link
    elif isinstance(first, FogDevice) or isinstance(second, FogDevice):
        gateway, end = (first, second) if isinstance(first, FogDevice) else (second, first)
        assert isinstance(gateway, FogDevice)
        assert isinstance(end, FogEndpoint)
        if end.link is not None:
            end.link.report("ignored", "source", _OTHER)
        end.gateway, end.latency, end.link = gateway, latency, link
    else:
        link.report("ignored", "source", "neither end is a FOG_DEVICE; iFogSim leaves such links out")


_OTHER = "a later link of the same node replaces it: iFogSim knows one parent or gateway of each"


def _no_circles(devices: list[FogDevice]) -> None:
    """Report devices that are their own ancestors, which links between equal levels can make them."""
    safe: set[int] = set()
    for device in devices:
        chain: dict[int, FogDevice] = {}
        at: FogDevice | None = device
        while at is not None and id(at) not in safe and id(at) not in chain:
            chain[id(at)] = at
            at = at.parent
        if at is not None and id(at) in chain:
            names = [one.name for one in chain.values()]
            ring = " - ".join([*names[names.index(at.name) :], at.name])
            assert at.link is not None
            at.link.wrong("source", f"closes a circle of parents: {ring}", "give the upper device the lower level")
        safe |= set(chain)
