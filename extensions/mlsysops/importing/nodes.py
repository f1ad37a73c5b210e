"""Nodes and their clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from cosim.contract.errors import Problem, ScenarioError
from cosim.extensions.mlsysops.importing.bodies import Body, Descriptor, Value, fold, leftovers
from cosim.sources.importing.document import plain_name
from cosim.sources.importing.imported import Notice

_TIERS = {"cloud": "cloud", "edgeinfrastructure": "edge", "edge": "edge", "faredge": "device"}
LAYERS = ("cloud", "edge_infrastructure", "edge", "far_edge")
_MOST_CORES = 100_000
_MHZ_FROM = 100.0  # no processor has 100 GHz, and none that runs this has 100 Hz to 100 MHz
_HZ_FROM = 1e6  # nor 1 THz
GPU_SPEED = 1e12  # FLOP/s; nominal, reported in a notice
_FASTEST = 10e9  # Hz; faster ones are taken as they are, with a notice


@dataclass(frozen=True, slots=True)
class Interface:
    """Nominal figures of a way into the network."""

    rate: str
    delay: str
    source: str


# Values that a scenario needs and descriptors do not state; each use adds a notice
INTERFACES = {
    "ethernet": Interface("1 Gbit/s", "200 us", "gigabit Ethernet"),
    "wifi": Interface("100 Mbit/s", "3 ms", "IEEE 802.11n in use, not its nominal rate"),
    "5g": Interface("100 Mbit/s", "10 ms", "user-experienced rate of IMT-2020, ITU-R M.2410"),
    "4g": Interface("50 Mbit/s", "30 ms", "uplink of LTE category 4, TS 36.306"),
    "bluetooth": Interface("1 Mbit/s", "20 ms", "Bluetooth low energy, LE 1M"),
    "zigbee": Interface("250 kbit/s", "20 ms", "IEEE 802.15.4 at 2.4 GHz"),
    "lora": Interface("5.47 kbit/s", "100 ms", "LoRa, spreading factor 7, 125 kHz"),
}
_UNKNOWN = "ethernet"


@dataclass(slots=True)
class NodeInfo:
    """A node as the scenario will have it."""

    name: str
    written: str  # as in the file
    tier: str
    cluster: str
    keys: dict[str, object] = field(default_factory=dict)  # of its block in the scenario
    place: tuple[float, float] | None = None  # deg, longitude and latitude
    interface: str = _UNKNOWN
    clock: float = 1e9  # Hz
    framerate: float = 0.0  # Hz, of its camera
    memory: float = 0.0  # B, 0: not stated, so without a limit
    gpus: int = 0


@dataclass(slots=True)
class NodeInventory:
    """All nodes, and what joins them."""

    nodes: list[NodeInfo]
    title: str

    def clusters(self) -> dict[str, list[NodeInfo]]:
        """Nodes by cluster, in order of appearance."""
        groups: dict[str, list[NodeInfo]] = {}
        for node in self.nodes:
            groups.setdefault(node.cluster, []).append(node)
        return groups


def read_inventory(descriptors: list[Descriptor], notices: list[Notice]) -> NodeInventory:
    """The nodes of all descriptors. Raises `ScenarioError` when none of them can be a host."""
    taken: set[str] = set()
    nodes = [_node(one, taken, notices) for one in descriptors if one.kind == "node"]
    members = _members(descriptors)
    known = {fold(node.written) for node in nodes}
    for node in nodes:
        node.cluster = node.cluster or members.get(fold(node.written), ("", None))[0]
    clusters = {node.cluster for node in nodes} - {""}
    for node in nodes:
        if not node.cluster and len(clusters) == 1:
            node.cluster = next(iter(clusters))
    for name, (cluster, value) in members.items():
        if name not in known and value is not None:
            notices.append(value.note("ignored", f"node '{value.text()}' of '{cluster}' has no descriptor"))
    if not any(node.tier != "device" for node in nodes):
        file = descriptors[0].body.value.file if descriptors else None
        found = f"{len(nodes)} node(s), all of the layer far_edge" if nodes else "no MLSysOpsNode"
        raise ScenarioError(
            Problem(
                f"{found} in these files", file=file, hint="give the descriptor of a node of the layer edge or cloud"
            )
        )
    titles = [one.name for one in descriptors if one.kind in ("continuum", "app") and one.name]
    return NodeInventory(nodes, titles[0] if titles else "an MLSysOps continuum")


def _members(descriptors: list[Descriptor]) -> dict[str, tuple[str, Value | None]]:
    """Node (folded) -> its cluster, by the descriptors of clusters and datacentres."""
    members: dict[str, tuple[str, Value | None]] = {}
    for one in descriptors:
        if one.kind not in ("cluster", "datacenter", "continuum"):
            continue
        body = one.body
        own = body.get({"cluster": "cluster_id", "datacenter": "datacenter_id"}.get(one.kind, "continuum_id"))
        cluster = (own.text() if own else None) or one.name
        if one.kind == "datacenter":
            outer = body.get("cluster_id")
            cluster = (outer.text() if outer else None) or cluster
        listed = body.get("nodes", "members")
        for item in listed.items() if listed and one.kind != "continuum" else ():
            name = item.text()
            if name is not None:
                members.setdefault(fold(name), (cluster, item))
        if one.kind == "continuum":
            body.get("clusters")  # every cluster takes part anyway
        body.ignore("continuum", "continent", "country", "city", "location", "cloud_provider", "datacenter_id")
        leftovers(one)
    return members


def _node(descriptor: Descriptor, taken: set[str], notices: list[Notice]) -> NodeInfo:
    body = descriptor.body
    written = descriptor.name or Path(body.value.file).stem
    name = plain_name(written, taken)
    if name != written:
        notices.append(body.value.note("note", f"node '{written}' is called '{name}' in the scenario"))
    cluster = body.get("cluster_id")
    node = NodeInfo(name, written, _tier(body, notices), (cluster.text() if cluster else None) or "")
    node.keys["kind"] = {"cloud": "cloud", "edge": "edge", "device": "device"}[node.tier]
    mobile = body.get("mobile", "mobility")
    if mobile is not None and mobile.truth():
        notices.append(
            mobile.note("note", "a node that moves needs an adapter that moves it (replay, sumo); it stands still here")
        )
    node.place = _place(body, notices)
    _hardware(body.body("hardware"), node, notices)
    _network(body, node, notices)
    _power(body.body("power", "power_source"), node, notices)
    node.framerate = framerate(body.get("sensors"), notices)
    body.ignore(
        "labels", "availability", "permitted_actions", "distributed_storage_service", "acceleration_api",
        "environment", "datacenter_id",
    )  # fmt: skip
    leftovers(descriptor)
    return node


def _tier(body: Body, notices: list[Notice]) -> str:
    layer = body.get("continuum_layer")
    text = layer.text() if layer else None
    if layer is None or text is None:
        notices.append(body.value.note("note", "has no continuum_layer; taken as edge"))
        return "edge"
    if fold(text) not in _TIERS:
        notices.append(layer.note("ignored", f"'{text}' is none of {', '.join(LAYERS)}; taken as edge"))
        return "edge"
    return _TIERS[fold(text)]


def _place(body: Body, notices: list[Notice]) -> tuple[float, float] | None:
    location = body.get("location")
    if location is None:
        return None
    numbers = [item.plain("deg") for item in location.items()]
    values = [number for number in numbers if number is not None]
    if len(values) != 2 or len(numbers) != 2 or abs(values[0]) > 180.0 or abs(values[1]) > 89.0:
        notices.append(location.note("ignored", "is not [longitude, latitude] in degrees"))
        return None
    return values[0], values[1]


def _hardware(body: Body, node: NodeInfo, notices: list[Notice]) -> None:
    cpu = body.body("cpu")
    cores = cpu.get("cores")
    count = cores.plain() if cores else None
    if count is None or not 1 <= count <= _MOST_CORES or count != int(count):
        where = cores if cores is not None else body.value
        notices.append(where.note("note", "states no whole number of cores; 1 is taken"))
        count = 1.0
    node.clock = _clock(cpu.get("frequency"), body.value, notices)
    node.keys["cpu"] = f"{int(count)} x {node.clock / 1e6:.12g} MHz"
    cpu.ignore("model", "architecture", "performance_indicator", why="does not enter: cores and frequency do")
    cpu.leftover()
    memory = body.get("memory")
    size = _bytes(memory, notices)
    if size is not None:
        node.memory = size
        node.keys["memory"] = f"{size:.12g} B"
    _gpus(body.get("gpu"), node, notices)
    body.ignore("disk", "mcu", "fpga")
    body.leftover()


def _gpus(value: Value | None, node: NodeInfo, notices: list[Notice]) -> None:
    """Count the node's GPUs; an entry without `instances` counts as one."""
    for item in value.items() if value else ():
        body = Body(item, notices)
        instances = body.get("instances")
        number = instances.plain() if instances else 1.0
        if instances and (number is None or not 1.0 <= number < _MOST_CORES):
            notices.append(instances.note("ignored", f"'{instances.text()}' is no number of GPUs; 1 is taken"))
            number = None
        body.ignore(
            "model", "memory", "performance_indicator", why="does not enter: a GPU's speed is not in a descriptor"
        )
        body.leftover()
        node.gpus += int(number or 1)
    if value is not None and node.gpus:
        node.keys["accelerators"] = {"gpu": f"{node.gpus} x {GPU_SPEED / 1e12:g} TFLOPS"}
        notices.append(value.note("note", f"states no speed; {GPU_SPEED / 1e12:g} TFLOPS are taken for each GPU"))


def _clock(value: Value | None, where: Value, notices: list[Notice]) -> float:
    """The highest frequency in Hz; a bare number is GHz to 100, MHz to 1e6, else Hz."""
    best = 0.0
    for item in value.items() if value else ():
        hertz = hertz_of(item)
        if hertz is None:
            notices.append(item.note("ignored", f"'{item.text()}' is no frequency"))
        best = max(best, hertz or 0.0)
    if value is None or best <= 0.0:
        notices.append((value or where).note("note", "states no frequency; 1 GHz is taken"))
        return 1e9
    bare = [n[0] for n in map(Value.number, value.items()) if n is not None and not n[1]]
    if bare:
        notices.append(value.note("note", f"has no unit; {max(bare):g} is taken as {best / 1e9:g} GHz"))
    if best > _FASTEST:
        notices.append(value.note("note", f"{best / 1e9:g} GHz is faster than processors are; taken as it is"))
    return best


def hertz_of(value: Value) -> float | None:
    """A frequency between 1 kHz and 1 THz; None for anything else."""
    number = value.number()
    factor = _FACTORS.get(number[1].lower()) if number else None
    if number is None or factor is None:
        return None
    if not number[1]:
        factor = 1e9 if number[0] <= _MHZ_FROM else 1e6 if number[0] <= _HZ_FROM else 1.0
    return number[0] * factor if 1e3 <= number[0] * factor <= 1e12 else None


_FACTORS = {"": 1.0, "hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
SIZES = {
    "": 1e9, "g": 1e9, "gb": 1e9, "gi": 2.0**30, "gib": 2.0**30, "m": 1e6, "mb": 1e6, "mi": 2.0**20, "mib": 2.0**20,
    "k": 1e3, "kb": 1e3, "ki": 2.0**10, "kib": 2.0**10, "t": 1e12, "tb": 1e12, "ti": 2.0**40, "tib": 2.0**40,
}  # fmt: skip


def _bytes(value: Value | None, notices: list[Notice]) -> float | None:
    """A size; a bare number is GB, as defined by the schema."""
    if value is None or (value.text() is None and not list(value.items())):
        return None
    number = value.number()
    factor = SIZES.get(number[1].lower()) if number else None
    if number is None or factor is None or not 0.0 < number[0] * factor < 1e18:
        notices.append(value.note("ignored", f"'{value.text()}' is no size in GB"))
        return None
    return number[0] * factor


def _network(body: Body, node: NodeInfo, notices: list[Notice]) -> None:
    resources = body.body("network_resources")
    basic = resources.get("basic_interface")
    name: Value | None = None
    listed = list(basic.items()) if basic else []
    notices += [other.note("ignored", "a node has one interface here: the first one") for other in listed[1:]]
    for item in listed[:1]:
        one = Body(item, notices) if item.text() is None else None
        name = (one.get("name", "type") if one else item) or name
        if one is not None:
            one.ignore("range", "interface_name")
            one.leftover()
    word = fold((name.text() if name else None) or "")
    if word in INTERFACES:
        node.interface = word
    elif name is not None and word:
        notices.append(name.note("ignored", f"'{name.text()}' is none of {', '.join(INTERFACES)}; {_UNKNOWN} is taken"))
    resources.ignore("redirection_interface", "infrastructure", "adhoc")
    resources.leftover()


def _power(body: Body, node: NodeInfo, notices: list[Notice]) -> None:
    most = body.get("max_consumption")
    if most is not None:
        number = most.number()
        factor = {"": 1.0, "w": 1.0, "mw": 1e-3, "kw": 1e3}.get(number[1].lower()) if number else None
        if number is None or factor is None or not 0.0 < number[0] * factor < 1e9:
            notices.append(most.note("ignored", f"'{most.text()}' is no power in W"))
        else:
            node.keys["power"] = {"idle": "0 W", "max": f"{number[0] * factor:.12g} W", "source": "MLSysOps descriptor"}
            notices.append(most.note("note", "is the power at full load; none is stated without load, 0 W is taken"))
    body.ignore("target", "relation", "grid", "renewable", "battery", "availability")
    body.leftover()


def framerate(sensors: Value | None, notices: list[Notice]) -> float:
    """Hz of the first camera among the sensors, 0 without one."""
    for item in sensors.items() if sensors else ():
        camera = Body(item, []).get("camera")
        for one in camera.items() if camera else ():
            rate = Body(one, []).get("framerate", "minimum_framerate", "rate")
            number = rate.plain("hz", "fps") if rate else None
            if number is not None and 0.01 <= number <= 1e4:
                return number
            if rate is not None:
                notices.append(rate.note("ignored", f"'{rate.text()}' is no rate in Hz"))
    return 0.0
