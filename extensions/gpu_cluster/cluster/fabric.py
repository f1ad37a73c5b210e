"""A cluster as arrays, and the topologies that its leaves can form."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Floats, Ints
from cosim.extensions.gpu_cluster.cluster.engine.layout import UNIT
from cosim.extensions.gpu_cluster.cluster.matching import Pairs, realise
from cosim.extensions.gpu_cluster.cluster.names import TOPOLOGIES
from cosim.extensions.gpu_cluster.cluster.resources import Inventory

MOST_ROUTE = 512 << 20  # B of routes


@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """GPUs below leaves, and where the leaves' uplinks go."""

    servers: Ints  # (leaves,) servers of each leaf
    up: Ints  # (leaves,) uplinks that have a cable
    per_server: int
    domain: int  # GPUs of a PCIe domain
    rate: float  # bit/s of an uplink
    port_leaf: Ints  # (ports,) ascending
    port_ocs: Ints  # (ports,) ascending within a leaf; -1: into a spine or another leaf
    delay: Floats  # (OCSes,) s
    ocs_power: Floats  # (OCSes,) W
    leaf_power: float  # W of all leaves
    spine_power: float  # W of all spines
    gpu_power: tuple[float, float] = (60.0, 400.0)  # W, idle and fully used
    server_power: tuple[float, float] = (500.0, 1200.0)  # W without GPUs, empty and fully used
    names: tuple[str, ...] = ()
    cabled: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))  # (leaves, leaves) direct cables
    port_names: tuple[str, ...] = ()
    spine_ports: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # (OCSes,) of spines behind the OCSes

    @property
    def leaves(self) -> int:
        return len(self.servers)

    @property
    def gpus(self) -> int:
        return int(self.servers.sum()) * self.per_server

    def watts(self, busy: Floats, active: Floats) -> Floats:
        """W of the cluster while `busy` GPUs work and `active` servers have any work."""
        idle, most = self.gpu_power
        low, high = self.server_power
        servers = int(self.servers.sum())
        gpus = self.gpus * idle + (most - idle) * np.asarray(busy)
        hosts = servers * low + (high - low) * np.asarray(active)
        return np.asarray(gpus + hosts + self.leaf_power + self.spine_power + self.ocs_power.sum())


def fabric(r: Inventory) -> Fabric:
    """The arrays of a resource file. A leaf without cables has all of its uplinks into the spine."""
    index = {leaf.id: k for k, leaf in enumerate(r.leaves)}
    ocs = {one.id: x for x, one in enumerate(r.ocs)}
    ports: list[tuple[int, int, int, str]] = []  # leaf, OCS, number, name
    cabled = np.zeros((len(r.leaves), len(r.leaves)), np.int64)
    spines, reached = {one.id for one in r.spines or ()}, np.zeros(len(r.ocs), np.int64)
    for a, b in r.cables:
        for one, other in ((a, b), (b, a)):
            name, _, port = one.partition(":")
            if name in spines and other.partition(":")[0] in ocs:
                reached[ocs[other.partition(":")[0]]] += 1
            if name in index:
                far = other.partition(":")[0]
                ports.append((index[name], ocs.get(far, -1), int(port.removeprefix("up")), one))
                if far in index:
                    cabled[index[name], index[far]] += 1
    if not r.cables:
        ports = [(k, -1, i, f"{leaf.id}:up{i}") for k, leaf in enumerate(r.leaves) for i in range(leaf.up_ports)]
    ports.sort()
    leaf_of = np.array([p[0] for p in ports], np.int64)
    return Fabric(
        servers=np.array([leaf.down_ports // (r.gpus.per_server * r.nics.per_gpu) for leaf in r.leaves], np.int64),
        up=np.bincount(leaf_of, minlength=len(r.leaves)).astype(np.int64)
        if ports
        else np.zeros(len(r.leaves), np.int64),
        per_server=r.gpus.per_server,
        domain=r.gpus.per_server // r.gpus.pcie_domains,
        rate=r.nics.rate * r.nics.per_gpu,
        port_leaf=leaf_of,
        port_ocs=np.array([p[1] for p in ports], np.int64),
        delay=np.array([one.delay for one in r.ocs], np.float64),
        ocs_power=np.array([one.power for one in r.ocs], np.float64),
        leaf_power=float(sum(leaf.power for leaf in r.leaves)),
        spine_power=float(sum(one.power for one in r.spines or ())),
        gpu_power=(r.gpus.power.idle, r.gpus.power.max),
        server_power=(r.gpus.server_power.idle, r.gpus.server_power.max),
        names=tuple(leaf.id for leaf in r.leaves),
        cabled=cabled,
        port_names=tuple(p[3] for p in ports),
        spine_ports=reached,
    )


def plain(
    leaves: int,
    servers: int = 4,
    up: int = 32,
    ocs: int = 8,
    per_server: int = 8,
    delay: float = 0.025,
    rate: float = 400e9,
    gpu_power: tuple[float, float] = (60.0, 400.0),
    spines: int = 0,
) -> Fabric:
    """A cluster of equal leaves without a file; uplink i of each goes to OCS (i mod ocs); `ocs` 0: into a spine.

    `spines` behind the OCSes have as many ports on each as all leaves together.
    """
    number = np.sort(np.arange(up) % ocs) if ocs else np.full(up, -1)
    return Fabric(
        servers=np.full(leaves, servers, np.int64),
        up=np.full(leaves, up, np.int64),
        per_server=per_server,
        domain=per_server // 2 if per_server % 2 == 0 else per_server,
        rate=rate,
        gpu_power=gpu_power,
        port_leaf=np.repeat(np.arange(leaves), up),
        port_ocs=np.tile(number, leaves).astype(np.int64),
        delay=np.full(ocs, delay),
        ocs_power=np.full(ocs, 110.0),
        leaf_power=1300.0 * leaves,
        spine_power=1300.0 * (spines if ocs else leaves),
        spine_ports=np.bincount(number, minlength=ocs) * leaves * (spines > 0) if ocs else np.zeros(0, np.int64),
        names=tuple(f"leaf-{k}" for k in range(leaves)),
        cabled=np.zeros((leaves, leaves), np.int64) if leaves <= 64 else np.zeros((0, 0), np.int64),
    )


def links(topology: str, up: Ints, cabled: Ints | None = None) -> Ints:
    """(leaves + 1, leaves + 1) ports between leaves, the spine last, that use at most `up` ports of each leaf.

    fat-tree: every uplink into the spine. dragonfly: groups of about sqrt(leaves) leaves, joined all to
    all within, and with the ports left the groups all to all, evenly. rail: leaves of equal position in
    their groups joined all to all, and a ring in each group. torus: two dimensions, as square as can be.
    rings: one ring over all leaves with all ports. cabled: the direct cables of the file.
    """
    count = len(up)
    made = np.zeros((count + 1, count + 1), np.int64)
    each = int(up.min()) if count else 0
    if topology == "fat-tree":
        made[:count, count] = made[count, :count] = up
        return made
    if topology == "cabled":
        if cabled is None or not cabled.any():
            raise ValueError("the file has no cable from leaf to leaf")
        made[:count, :count] = cabled
        return made
    if topology not in TOPOLOGIES:
        raise ValueError(f"there is no topology '{topology}'; known: {', '.join(TOPOLOGIES)}, cabled")
    pairs = {"rings": _ring, "torus": _torus, "dragonfly": _dragonfly, "rail": _rail}[topology](count)
    weight = np.zeros((count, count))
    for a, b, share in pairs:
        if a != b:
            weight[a, b] += share
            weight[b, a] += share
    degree = weight.sum(1).max()
    if degree == 0.0:
        return made
    inner = np.where(weight > 0.0, np.maximum(1, np.floor(weight * each / degree)), 0).astype(np.int64)
    _fill(inner, weight, each)
    if inner.sum(1).max() > each:
        raise ValueError(f"a {topology} of {count} leaves needs {inner.sum(1).max()} uplinks of a leaf; it has {each}")
    made[:count, :count] = inner
    return made


def formed(fabric: Fabric, topology: str) -> tuple[Ints, Pairs]:
    """The `links` of a topology as its cables or its optical switches can form it, and the pairs on each switch.

    Raises `ValueError` where they cannot.
    """
    asked, switches = links(topology, fabric.up, fabric.cabled), len(fabric.delay)
    if not switches or topology == "cabled":
        return asked, []
    slots = np.zeros((fabric.leaves + 1, switches), np.int64)
    np.add.at(slots, (fabric.port_leaf[fabric.port_ocs >= 0], fabric.port_ocs[fabric.port_ocs >= 0]), 1)
    slots[-1] = fabric.spine_ports
    if topology == "fat-tree" and not fabric.spine_ports.any():
        raise ValueError("a fat-tree on optical switches needs spines with cables to them")
    made, pairs = realise(asked, slots)
    if topology == "fat-tree" and (made < asked).any():
        raise ValueError(f"the spines have ports for {made[-1].sum()} of the {asked[-1].sum()} uplinks of a fat-tree")
    return made, pairs


def _fill(inner: Ints, weight: Floats, each: int) -> None:
    """Use the ports that are left, most wanted pairs first."""
    while True:
        free = each - inner.sum(1)
        open_pairs = (weight > 0.0) & (free[:, None] > 0) & (free[None, :] > 0)
        if not open_pairs.any():
            return
        want = np.where(open_pairs, weight / np.maximum(inner, 1), -1.0)
        a, b = divmod(int(np.argmax(want)), len(inner))
        inner[a, b] += 1
        inner[b, a] += 1


def _ring(count: int) -> list[tuple[int, int, float]]:
    return [(k, (k + 1) % count, 1.0) for k in range(count if count > 2 else count - 1)]


def _sides(count: int) -> tuple[int, int]:
    """Rows and columns, as square as can be."""
    rows = next(r for r in range(int(count**0.5), 0, -1) if count % r == 0)
    return rows, count // rows


def _torus(count: int) -> list[tuple[int, int, float]]:
    rows, columns = _sides(count)
    found = []
    for k in range(count):
        r, c = divmod(k, columns)
        if columns > 1 and (columns > 2 or c == 0):
            found.append((k, r * columns + (c + 1) % columns, 1.0))
        if rows > 1 and (rows > 2 or r == 0):
            found.append((k, ((r + 1) % rows) * columns + c, 1.0))
    return found


def _dragonfly(count: int) -> list[tuple[int, int, float]]:
    """Groups of neighbours all to all; each leaf has global links to leaves of other groups, evenly."""
    groups, size = _sides(count)
    found = [(g * size + i, g * size + k, 1.0) for g in range(groups) for i in range(size) for k in range(i + 1, size)]
    for g in range(groups):
        for h in range(g + 1, groups):
            found += [(g * size + i, h * size + (i + h - g) % size, 1.0) for i in range(size)]
    return found


def _rail(count: int) -> list[tuple[int, int, float]]:
    groups, size = _sides(count)
    found = [
        (g * size + i, h * size + i, 1.0) for i in range(size) for g in range(groups) for h in range(g + 1, groups)
    ]
    if size > 1:
        found += [(g * size + i, g * size + (i + 1) % size, 1.0) for g in range(groups) for i in range(size)]
    return found


def routes(ports: Ints, valiant: bool = False) -> tuple[NDArray[np.int32], Ints]:
    """Shares of the flow of each pair of leaves on each directed link, and the links' ports.

    (leaves * leaves, (leaves + 1)^2) in UNIT, and ((leaves + 1)^2,). Flows are split over the next hops
    of all shortest paths by their ports (ECMP). `valiant`: each flow goes first to any leaf
    alike, then to its target (Valiant and Brebner 1981), which halves the worst case's rate at most.
    """
    nodes, count = len(ports), len(ports) - 1
    if count * count * nodes * nodes * 4 > MOST_ROUTE:
        raise ValueError(
            f"routes over {count} leaves would take more than {MOST_ROUTE >> 20} MiB; 'circuits' needs none"
        )
    hops = _hops(ports)
    flow = np.zeros((count, count, nodes, nodes))
    for target in range(count):
        order = np.argsort(-hops[:, target], kind="stable")
        share = np.zeros((nodes, nodes))  # (node, next) of what passes the node
        for v in range(nodes):
            if v != target and hops[v, target] < nodes:
                near = np.where((ports[v] > 0) & (hops[:, target] == hops[v, target] - 1), ports[v], 0)
                share[v] = near / near.sum()
        here = np.zeros((count, nodes))
        here[np.arange(count), np.arange(count)] = 1.0
        for v in order:
            if v == target:
                continue
            out = here[:, v, None] * share[v]
            flow[:, target, v, :] += out
            here += out
    unreachable = hops[:count, :count] >= nodes
    if unreachable.any():
        a, b = (int(x[0]) for x in np.nonzero(unreachable))
        raise ValueError(f"there is no path from leaf {a} to leaf {b}")
    if valiant and count > 2:
        flow[np.arange(count), np.arange(count)] = 0.0
        out, into = flow.sum(1), flow.sum(0)
        both = (out[:, None] + into[None, :]) / count  # the source or the target as the leaf in between: direct
        both[np.arange(count), np.arange(count)] = 0.0
        flow = both
    flow[np.arange(count), np.arange(count)] = 0.0
    return np.rint(flow.reshape(count * count, nodes * nodes) * UNIT).astype(np.int32), ports.reshape(-1).copy()


def _hops(ports: Ints) -> Ints:
    nodes = len(ports)
    near = ports > 0
    hops = np.where(np.eye(nodes, dtype=bool), 0, nodes)
    reached, step = np.eye(nodes, dtype=bool), 0
    while True:
        step += 1
        wider = reached | (reached @ near)
        if (wider == reached).all():
            return hops.astype(np.int64)
        hops[wider & ~reached] = step
        reached = wider
