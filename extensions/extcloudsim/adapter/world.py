"""A scene and a configuration as the model wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from cosim.contract.adapter import Context
from cosim.contract.entities import Node, Scene
from cosim.contract.equipment import Accelerator
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.functions import function
from cosim.contract.records import Floats, Ints
from cosim.contract.selector import matcher, void
from cosim.engine.continuum.power import PLATFORMS
from cosim.engine.continuum.price import PlaceTariff, StepSeries, constant, read_series, windows
from cosim.extensions.extcloudsim.adapter.config import CoolingBlock, DatacentreConfig, HostBlock, PlaceBlock
from cosim.extensions.extcloudsim.datacentre.cooling import Cooling, partial_pue
from cosim.extensions.extcloudsim.datacentre.layout import CLASS_NUMBER, Bools, Hosts, Kinds, Machines, Wan, contiguous
from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of
from cosim.extensions.extcloudsim.datacentre.quirks import COMPATIBLE, check
from cosim.extensions.extcloudsim.datacentre.settings import DatacentreSettings
from cosim.extensions.extcloudsim.datacentre.utilisation import Pattern, read
from cosim.extensions.extcloudsim.predict import foresight

MB = 1e6  # B
RAM = 32 * 2.0**30  # B, of a node without a value


@dataclass(frozen=True, slots=True, eq=False)
class DatacentreWorld:
    """The model's input at the start, and the slots and names behind its numbers."""

    hosts: Hosts
    kinds: Kinds
    machines: Machines
    utilisation: Floats
    gpu_utilisation: Floats
    settings: DatacentreSettings
    tariffs: tuple[PlaceTariff, ...]
    wan: Wan
    life: Floats
    slot: Ints  # (hosts,) slots of the scene
    places: tuple[str, ...]
    groups: tuple[str, ...]
    group: Ints  # (machines,) index into `groups`
    blocks: tuple[HostBlock, ...]  # per host
    caps: tuple[StepSeries, ...]  # per place, W; empty where no place has any
    cooling: tuple[Cooling, ...]  # per place; empty where no place has any
    memory: Floats  # (hosts,) W of the memory of a host that is awake


@contextmanager
def _faults_at(path: str) -> Iterator[None]:
    """What is wrong with a file or a value is a mistake at `path` of the scenario."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ScenarioError(Problem(str(error), path=path)) from error


def load(target: str, path: str) -> Callable[..., Any]:
    """The function `module:name`. Raises `ScenarioError` when there is none."""
    with _faults_at(path):
        return function(target)


def _matches(pattern: str, node: Node) -> bool:
    return matcher(pattern)(node.id, node)


def _block(config: DatacentreConfig, node: Node) -> HostBlock:
    chosen = HostBlock()
    for pattern, block in config.hosts.items():
        if _matches(pattern, node):
            chosen = block
    return chosen


def memory_power(node: Node, block: HostBlock) -> float:
    """W of the memory of a host that is awake."""
    return (block.ram or node.memory or RAM) * block.memory_power


def _kind(node: Node, block: HostBlock, path: str, quirks: frozenset[str]) -> HostKind:
    memory = memory_power(node, block)
    if block.platform is not None:
        known = PLATFORMS[block.platform]
        points = tuple(block.points or range(len(known.frequency)))
        if max(points) >= len(known.frequency) or list(points) != sorted(set(points)):
            said = f"points must ascend and lie in 0..{len(known.frequency) - 1}, not {list(points)}"
            raise ScenarioError(Problem(said, path=f"{path}.hosts"))
        ignored = block.platform == "x-gene-2" and "undervolting-ignored" in quirks
        margin = None if ignored else block.margin
        return HostKind(known, margin, resting=block.resting, waking=block.waking, memory=memory, points=points)
    table = node.power.table if node.power else (0.0, 0.0)
    law = "cubic" if block.cubic else "linear"
    if len(table) > 2 and not block.cubic:
        return HostKind(table=table, resting=block.resting, waking=block.waking, memory=memory)
    return HostKind(idle=table[0], full=table[-1], law=law, resting=block.resting, waking=block.waking, memory=memory)


def hosts_of(config: DatacentreConfig, scene: Scene, path: str) -> tuple[list[Node], Ints]:
    """The nodes that take machines, and their slots."""
    slots = [slot for slot, node in enumerate(scene.nodes) if node.tier != "device" and node.cores > 0]
    if not slots:
        hint = "give an edge or cloud node 'cpu: 4 x 1.8 GHz'"
        raise ScenarioError(Problem("no edge or cloud node can take virtual machines", path="nodes", hint=hint))
    nodes = [scene.nodes[slot] for slot in slots]
    unused = [pattern for pattern in config.hosts if not any(_matches(pattern, node) for node in nodes)]
    if unused:
        names = ", ".join(node.id for node in nodes[:8])
        raise ScenarioError(
            [Problem(f"'{one}' names no host", path=f"{path}.hosts.{one}", hint=f"hosts: {names}") for one in unused]
        )
    return nodes, np.array(slots, np.int64)


def size_of(config: DatacentreConfig, node: Node) -> tuple[float, float, int]:
    """Cycles/s, B and GPUs that a host has for machines."""
    block = _block(config, node)
    return (block.mips or node.cores * node.clock), (block.ram or node.memory or RAM), _gpus(node).units


def _gpus(node: Node) -> Accelerator:
    return next((one for one in node.accelerators if one.kind == "gpu"), Accelerator("gpu", 0, 0.0))


def _inside(block: PlaceBlock, nodes: Sequence[Node]) -> Bools:
    """(hosts,) whether each host is at this place."""
    patterns = [block.nodes] if isinstance(block.nodes, str) else block.nodes
    return np.array([any(_matches(pattern, node) for pattern in patterns) for node in nodes])


def misplaced(config: DatacentreConfig, nodes: Sequence[Node], path: str) -> Iterator[Problem]:
    """Places without a host, hosts at two places, and a warning of hosts at none."""
    first: dict[str, str] = {}
    for name, block in config.places.items():
        at, inside = f"{path}.places.{name}.nodes", _inside(block, nodes)
        if not inside.any():
            hint = f"hosts: {', '.join(node.id for node in nodes[:8])}"
            yield Problem(f"place '{name}' has no host", at, hint=hint)
        elif not isinstance(block.nodes, str):
            for one in void(block.nodes, [(node.id, node) for node in nodes]):
                yield Problem(f"'{one}' names no host", at, hint="correct it, or leave it out", fatal=False)
        both = [node.id for node, here in zip(nodes, inside, strict=True) if here and node.id in first]
        if both:
            more = f" and {len(both) - 1} more" if len(both) > 1 else ""
            text = f"'{both[0]}'{more} is at place '{first[both[0]]}' already"
            yield Problem(text, at, hint="a host is at one place: name it once")
        first |= {node.id: name for node, here in zip(nodes, inside, strict=True) if here}
    alone = [node.id for node in nodes if node.id not in first]
    if config.places and alone:
        more = f" and {len(alone) - 1} more" if len(alone) > 1 else ""
        text = f"no place names '{alone[0]}'{more}, so it counts for the first, '{next(iter(config.places))}'"
        yield Problem(text, f"{path}.places", hint="name every host at its place", fatal=False)


def _places_of(config: DatacentreConfig, nodes: Sequence[Node]) -> Ints:
    """(hosts,) which place each host is at. Hosts that no place names are at the first."""
    place = np.zeros(len(nodes), np.int64)
    for number, block in enumerate(config.places.values()):
        place[_inside(block, nodes)] = number
    return place


def tariff_of(context: Context, block: PlaceBlock, path: str) -> PlaceTariff:
    price: StepSeries = constant(block.price)
    if block.prices is not None:
        factor = {"/J": 1.0, "/kWh": 1 / 3.6e6, "/MWh": 1 / 3.6e9}[block.price_unit]
        with _faults_at(f"{path}.prices"):
            price = read_series(context.path(block.prices), block.price_step, factor)
    green = constant(0.0)
    if block.green:
        if len({one.power for one in block.green}) > 1:
            raise ScenarioError(Problem("windows of one place must have the same power", path=f"{path}.green"))
        power = block.green[0].power
        with _faults_at(f"{path}.green"):
            green = windows([(one.start, one.to) for one in block.green], inf if power is None else power)
    return PlaceTariff(price, constant(block.carbon), green, constant(block.green_price), constant(block.green_carbon))


def cap_of(context: Context, block: PlaceBlock, path: str) -> StepSeries:
    """W that the hosts of a place may draw together."""
    if block.caps is None:
        return constant(inf if block.cap is None else block.cap)
    with _faults_at(f"{path}.caps"):
        return read_series(context.path(block.caps), block.cap_step)


def cooling_of(context: Context, block: PlaceBlock, path: str) -> Cooling:
    """What a place draws beside its hosts."""
    one = block.cooling or CoolingBlock()
    if one.outdoors is None:
        return Cooling(constant(one.pue), one.fixed)
    with _faults_at(f"{path}.cooling.outdoors"):
        air = read_series(context.path(one.outdoors), one.outdoors_step)
    return Cooling(StepSeries(air.since, partial_pue(air.value)), one.fixed)


def _wan(config: DatacentreConfig) -> Wan:
    names = list(config.places) or ["all"]
    shape = (len(names), len(names))
    rate, distance, factor, cost = np.full(shape, 125.0), np.zeros(shape), np.ones(shape), np.zeros(shape)
    for one in config.wan:
        a, b = (names.index(name) for name in one.between)
        for pair in ((a, b), (b, a)):
            rate[pair], distance[pair] = one.rate / 8.0 / MB, one.distance / 1000.0
            factor[pair], cost[pair] = one.factor, one.cost * MB
    return Wan(rate, distance, factor, cost)


def utilisation_of(config: DatacentreConfig, context: Context, path: str, *, gpus: bool = False) -> Floats:
    """(machines, periods) of the processors of each machine, or of its GPUs."""
    periods = max(1, int(np.ceil(context.duration / config.period)))
    rows = []
    for number, (name, block) in enumerate(config.machines.items()):
        own = block.gpu_utilisation if gpus else None
        if block.traces is not None and own is None:
            with _faults_at(f"{path}.machines.{name}.traces"):
                made = read(context.path(block.traces.path), block.count, block.traces.scale)
            made = np.pad(made[:, :periods], ((0, 0), (0, max(0, periods - made.shape[1]))), "edge")
        else:
            p = own or block.utilisation
            pattern = Pattern(p.mean, p.amplitude, p.peak, p.noise, p.memory, p.shared)
            made = pattern.draw(block.count, periods, config.period, context.rng(0, number, *([1] if own else [])))
        rows.append(made)
    return np.ascontiguousarray(np.concatenate(rows))


def policies_of(config: DatacentreConfig, path: str) -> dict[str, Any]:
    chosen = {}
    for name in ("detector", "selector", "placer", "governor", "penalty", "predictor"):
        value = getattr(config, name)
        chosen[name] = load(value, f"{path}.{name}") if isinstance(value, str) and ":" in value else value
    return chosen


def _oracle(utilisation: Floats) -> Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]:
    def foresee(history: Floats, _: Floats) -> tuple[Floats, Floats, Floats]:
        coming = utilisation[:, min(history.shape[1], utilisation.shape[1] - 1)]
        return coming, coming, np.full(len(coming), inf)

    return foresee


def quirks_of(config: DatacentreConfig, path: str) -> frozenset[str]:
    """The quirks that are on: those of `physics`, with the switches of `quirks` applied."""
    with _faults_at(f"{path}.quirks"):
        named = check(config.quirks)
    on = frozenset(name for name in named if config.quirks[name])
    return (on | COMPATIBLE if config.physics == "compatible" else on) - (named - on)


def build(config: DatacentreConfig, context: Context) -> DatacentreWorld:
    """The model's inputs. Raises `ScenarioError` for what does not fit together."""
    path = f"adapters.{context.name}"
    nodes, slots = hosts_of(config, context.scene, path)
    blocks = [_block(config, node) for node in nodes]
    quirks = quirks_of(config, path)
    sizes, gpus = [size_of(config, node) for node in nodes], [_gpus(node) for node in nodes]
    hosts = Hosts(
        kind=np.arange(len(nodes)),
        place=_places_of(config, nodes),
        mips=contiguous([mips for mips, _, _ in sizes]),
        ram=contiguous([ram / MB for _, ram, _ in sizes]),
        failures=contiguous([1.0 / one.mtbf if one.mtbf else 0.0 for one in blocks]),
        gpus=contiguous([one.units for one in gpus]),
        gpu_idle=contiguous([one.idle for one in gpus]),
        gpu_span=contiguous([one.max - one.idle for one in gpus]),
    )
    groups = list(config.machines.values())
    counts = [block.count for block in groups]

    def each(values: list[float]) -> Floats:
        return np.repeat(np.array(values, np.float64), counts)

    machines = Machines(
        mips=each([g.cpu for g in groups]),
        ram=each([g.ram / MB for g in groups]),
        work=np.repeat(np.array([CLASS_NUMBER[g.work] for g in groups], np.int64), counts),
        rate=each([g.sla for g in groups]),
        price=each([g.price for g in groups]),
        gpus=each([g.gpus for g in groups]),
    )
    utilisation = utilisation_of(config, context, path)
    policies = policies_of(config, path)
    if config.oracle:
        policies["predictor"] = _oracle(utilisation)
    policies |= {"threshold": config.threshold}
    if config.foresight is not None:
        policies |= foresight.policies(config.foresight, utilisation, config.threshold)
    with _faults_at(path):
        settings = DatacentreSettings(
            period=config.period, **policies, safety=config.safety,
            overcommit=config.overcommit, capping=config.capping,
            evacuate=config.evacuate, relocate=config.relocate, horizon=config.horizon, degradation=config.degradation,
            restart=config.restart, recovery=config.recovery, quirks=quirks,
            seed=int(np.random.SeedSequence(context.seed).generate_state(1)[0]),
        )  # fmt: skip
    tariffs = [tariff_of(context, one, f"{path}.places.{name}") for name, one in config.places.items()]
    if not tariffs:
        tariffs = [PlaceTariff(constant(4.2e-8))]
    capped = any(one.cap is not None or one.caps is not None for one in config.places.values())
    if capped and settings.peer and settings.capping != "none":
        text = "the peer's decisions, which 'physics: compatible' asks for, keep no caps"
        raise ScenarioError(Problem(text, path=f"{path}.capping", hint="write 'capping: none' to count excess alone"))
    caps = tuple(cap_of(context, one, f"{path}.places.{name}") for name, one in config.places.items()) if capped else ()
    cooled = any(one.cooling for one in config.places.values())
    if cooled and "repriced-energy" in quirks:
        text = "the quirk 'repriced-energy' prices the energy of hosts alone, without their cooling"
        raise ScenarioError(Problem(text, path=f"{path}.places", hint="leave out 'cooling', or switch the quirk off"))
    cooling = [cooling_of(context, one, f"{path}.places.{name}") for name, one in config.places.items() if cooled]
    kinds = [_kind(node, block, path, quirks) for node, block in zip(nodes, blocks, strict=True)]
    return DatacentreWorld(
        hosts, kinds_of(kinds, config.slowdown == "measured"),
        machines, utilisation, utilisation_of(config, context, path, gpus=True), settings, tuple(tariffs), _wan(config),
        np.stack([each([g.start for g in groups]), each([g.stop or inf for g in groups])], axis=1), slots,
        tuple(config.places) or ("all",), tuple(config.machines), np.repeat(np.arange(len(groups)), counts),
        tuple(blocks), caps, tuple(cooling),
        contiguous([memory_power(node, one) for node, one in zip(nodes, blocks, strict=True)]),
    )  # fmt: skip
