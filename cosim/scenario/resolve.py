"""Every node of a scenario with all its keys, and what a selector selects.

defaults <- kinds <- groups (in the order of the file) <- node: a later block's keys win, and blocks
inside blocks are merged key by key. Resolving collects every mistake instead of stopping at the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import TypeVar

from cosim.contract.block import NAME, Block
from cosim.contract.entities import HostQuantities, PricedQuantities
from cosim.contract.hints import did_you_mean
from cosim.contract.quantity import carried, quantities
from cosim.contract.seeds import stream
from cosim.contract.selector import RANGE, digits_of, matcher, name_matcher
from cosim.scenario import kinds
from cosim.scenario.model import KindBlock, NodeBlock, PowerBlock, Scenario
from cosim.scenario.placement import Placement, places
from cosim.scenario.tree import Keys
from cosim.scenario.wording import shorten

MOST_NODES = 2_000_000
LONGEST = 64  # characters of a node's name
T = TypeVar("T", bound=Block)
Report = Callable[[Keys, str, str], None]  # keys, message, hint

_NAME = re.compile(NAME, re.ASCII)
_TOO_LONG = re.compile(r"\[\d*\.\.\d{10,}\]", re.ASCII)  # a range


@dataclass(frozen=True, slots=True)
class Resolved:
    """One static node, or one fleet (`block.fleet` is its adapter)."""

    id: str
    key: str  # as written under `nodes`
    block: NodeBlock  # with the keys of defaults, kinds and groups
    at: tuple[float, float, float] | None = None  # m: east, north, up

    @property
    def kind(self) -> str:
        return self.block.kind or ""

    @property
    def tier(self) -> str:
        return self.block.tier or ""


@dataclass
class ResolvedNodes:
    """All nodes and fleets of a scenario in the order of the file; complete before it is asked anything."""

    nodes: list[Resolved] = field(default_factory=list)
    fleets: list[Resolved] = field(default_factory=list)
    unreadable: bool = False  # a name of nodes could not be read, so that selectors may miss some
    names: dict[str, str] = field(default_factory=dict)  # id -> key under `nodes`, wrong nodes included
    _known: dict[str, list[int]] = field(default_factory=dict)

    @cached_property
    def everything(self) -> list[Resolved]:
        """The static nodes, then the fleets."""
        return [*self.nodes, *self.fleets]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {node.id: position for position, node in enumerate(self.everything)}

    def select(self, selector: str | Sequence[str]) -> list[Resolved]:
        """The nodes and fleets that `selector` names, each once, in the order of the slots."""
        positions: set[int] = set()
        for part in [selector] if isinstance(selector, str) else selector:
            positions.update(self._hits(part))
        return [self.everything[position] for position in sorted(positions)]

    def _hits(self, part: str) -> list[int]:
        """Positions of everything that one part of a selector names; the answer is kept."""
        if part not in self._known:
            if part in self._positions:
                self._known[part] = [self._positions[part]]
            else:
                match = matcher(part)
                self._known[part] = [i for i, node in enumerate(self.everything) if match(node.id, node)]
        return self._known[part]

    def empty_parts(self, selector: str | Sequence[str]) -> Iterator[tuple[int | None, str, str]]:
        """(index in the list or None, part, hint) for every part of `selector` that selects nothing."""
        whole = isinstance(selector, str)
        for index, part in enumerate([selector] if isinstance(selector, str) else selector):
            if not self._hits(part):
                yield None if whole else index, part, self._near(part)

    def _near(self, part: str) -> str:
        prefix, colon, word = part.partition(":")
        if colon and prefix in ("kind", "tier"):
            known = (node.kind if prefix == "kind" else node.block.tier or "" for node in self.everything)
            words = [f"{prefix}:{name}" for name in known]
            return did_you_mean(part, words, otherwise=f"{prefix}s in this scenario") if word else "name one"
        names = [node.id for node in self.everything]
        if "*" in part:  # who writes a pattern means one
            names = [*dict.fromkeys(re.sub(r"\d+$", "*", name) for name in names)]
        return did_you_mean(part, names, otherwise="nodes and fleets")


def expand(name: str, most: int = MOST_NODES) -> list[str]:
    """The ids that `name` stands for: ``uav-[1..3]``, ``a-[01..10]``, several ranges in one name.

    Raises `ValueError` for a range that runs backwards, for more than `most` ids and for text that
    is not a name.
    """
    count, choices, end = 1, [], 0
    for match in RANGE.finditer(name):
        low, high = int(match[1]), int(match[2])
        if high < low:
            raise ValueError(f"the range {match[0]} runs backwards")
        count *= high - low + 1
        if count > most:
            raise ValueError(f"stands for more than {most:,} nodes")
        width = digits_of(match[1])
        choices += [[name[end : match.start()]], [f"{number:0{width}d}" for number in range(low, high + 1)]]
        end = match.end()
    ids = ["".join(parts) for parts in product(*choices, [name[end:]])]
    if _TOO_LONG.search(name):
        raise ValueError(f"stands for more than {most:,} nodes")
    if len(ids[-1]) > LONGEST:
        raise ValueError(f"'{shorten(ids[-1])}' has {len(ids[-1])} characters, more than {LONGEST}")
    if _NAME.fullmatch(ids[0]) is None or _NAME.fullmatch(ids[-1]) is None:
        raise ValueError(f"'{shorten(name)}' is not a name of nodes: a letter of a to z, then letters, digits, . _ -")
    return ids


def resolve(scenario: Scenario, report: Report, folder: Path = Path()) -> ResolvedNodes:
    """All nodes of `scenario` with their keys. Mistakes go to `report`; the nodes in question are left out.

    `folder` is where files of points are looked for.
    """
    known = _Kinds(scenario, report)
    groups = _groups(scenario, report)
    world = ResolvedNodes()
    owner = world.names
    for key, block in scenario.nodes.items():
        at: Keys = ("nodes", key)
        try:
            ids = expand(key, MOST_NODES - len(owner))
        except ValueError as error:
            report(at, str(error), "for example 'uav-1' or 'uav-[1..3]'")
            world.unreadable = True
            continue
        taken = [name for name in ids if name in owner]
        if taken:
            report(at, f"node '{taken[0]}' is defined twice", f"the other one is nodes.{owner[taken[0]]}")
            continue
        owner.update(dict.fromkeys(ids, key))
        made: dict[tuple[int, ...], NodeBlock | None] = {}
        sites: dict[Placement, list[tuple[float, float, float]]] = {}
        for number, name in enumerate(ids):
            member_of = tuple(i for i, (_, _, match) in enumerate(groups) if match(name))
            if member_of not in made:
                made[member_of] = _node(scenario, block, [groups[i][1] for i in member_of], known, at, report)
            resolved = made[member_of]
            if resolved is None:
                continue
            if resolved.fleet:
                world.fleets.append(Resolved(name, key, resolved))
            elif not isinstance(resolved.at, Placement):
                world.nodes.append(Resolved(name, key, resolved, _coordinates(resolved.at)))
            else:
                if resolved.at not in sites:
                    sites[resolved.at] = _sites(scenario, resolved.at, key, len(ids), folder, report)
                if number < len(sites[resolved.at]):  # a Poisson process may have fewer points than names
                    world.nodes.append(Resolved(name, key, resolved, sites[resolved.at][number]))
    for group, _, match in groups:
        if not world.unreadable and not any(match(name) for name in owner):
            hint = did_you_mean(_text(scenario.groups[group].members), owner, otherwise="nodes")
            report(("groups", group, "members"), f"group '{group}' has no members", hint)
    return world


def _coordinates(at: list[float] | None) -> tuple[float, float, float] | None:
    return (at[0], at[1], at[2] if len(at) == 3 else 0.0) if at else None


def _sites(
    scenario: Scenario, placement: Placement, key: str, count: int, folder: Path, report: Report
) -> list[tuple[float, float, float]]:
    """Where the `count` nodes of `key` are; a mistake leaves all of them out."""
    origin = scenario.geo.origin if scenario.geo else None
    begin = RANGE.sub(r"[\1..", key)  # a range that goes on for longer has the same places at its beginning
    try:
        found = places(placement, count, stream(scenario.run.seed, f"places of {begin}"), folder, origin)
    except ValueError as error:
        report(("nodes", key), str(error), "change 'at', or the number of nodes")
        return []
    return [(east, north, up) for east, north, up in found.tolist()]


def _text(members: str | list[str]) -> str:
    return members if isinstance(members, str) else (members[0] if members else "")


def _groups(scenario: Scenario, report: Report) -> list[tuple[str, KindBlock, Callable[[str], bool]]]:
    groups: list[tuple[str, KindBlock, Callable[[str], bool]]] = []
    for name, block in scenario.groups.items():
        members = [block.members] if isinstance(block.members, str) else block.members
        for member in members:
            if member.startswith(("kind:", "tier:")):
                report(("groups", name, "members"), f"'{member}' cannot be a member", "name nodes, for example 'uav-*'")
        tests = [name_matcher(member) for member in members]
        groups.append((name, block, partial(_any, tests)))
    return groups


def _any(tests: list[Callable[[str], bool]], name: str) -> bool:
    return any(test(name) for test in tests)


class _Kinds:
    """The kinds of a scenario, each with the keys of the kind that it starts from."""

    def __init__(self, scenario: Scenario, report: Report) -> None:
        self.own = scenario.kinds
        self.names = [*self.own, *(name for name in kinds.NAMES if name not in self.own)]
        self.chains: dict[str, list[KindBlock]] = {}
        for name, block in self.own.items():
            self.chains[name] = self._chain(name, block, report)
        for name in self.names:
            if name not in self.chains:
                self.chains[name] = [kinds.built_in(name)]

    def _chain(self, name: str, block: KindBlock, report: Report) -> list[KindBlock]:
        chain, seen = [block], [name]
        while True:
            base = block.kind or seen[-1]
            if base == seen[-1]:  # its own name: the built-in kind, if there is one
                return [kinds.built_in(base), *chain] if base in kinds.NAMES else chain
            if base in seen:
                circle = seen[seen.index(base) :]
                if name == min(circle):
                    reported = f"kinds start from each other: {' -> '.join([*circle, base])}"
                    report(("kinds", name, "kind"), reported, "let one of them start from a built-in kind")
                return [KindBlock(tier="device"), *chain]  # else their nodes would be reported as without a tier
            if base not in self.own:
                if base in kinds.NAMES:
                    return [kinds.built_in(base), *chain]
                if len(seen) == 1:
                    report(("kinds", name, "kind"), f"there is no kind '{base}'", did_you_mean(base, self.names))
                return [KindBlock(tier="device"), *chain]
            block = self.own[base]
            chain.insert(0, block)
            seen.append(base)


def _node(
    scenario: Scenario, block: NodeBlock, groups: list[KindBlock], known: _Kinds, at: Keys, report: Report
) -> NodeBlock | None:
    """The node's block on those of its groups, kind and the defaults."""
    kind = next((b.kind for b in (block, *reversed(groups), scenario.defaults) if b.kind), None)
    if kind is None:
        report(at, "has no kind", did_you_mean("", known.names, otherwise="write 'kind:' and one of"))
        return None
    if kind not in known.chains:
        report((*at, "kind"), f"there is no kind '{kind}'", did_you_mean(kind, known.names))
        return None
    merged = type(block).si()
    for layer in (scenario.defaults, *known.chains[kind], *groups, block):
        merged = over(merged, layer)
    merged = merged.model_copy(update={"kind": kind})
    return merged if _sound(merged, block, at, report) else None


def over(below: T, above: Block) -> T:
    """`below` with the keys that were written in `above`."""
    changes: dict[str, object] = {}
    for name in above.model_fields_set:
        if name not in type(below).model_fields:
            continue  # `members` of a group
        old, new = getattr(below, name), getattr(above, name)
        if isinstance(old, PowerBlock) and isinstance(new, PowerBlock):
            changes[name] = _power(old, new)
        else:
            changes[name] = over(old, new) if isinstance(old, Block) and isinstance(new, Block) else new
    return below.model_copy(update=changes)


def _power(below: PowerBlock, above: PowerBlock) -> PowerBlock:
    """A table replaces idle and max, and they replace a table."""
    if "table" in above.model_fields_set:
        return above
    merged = over(below, above)
    return merged.model_copy(update={"table": None}) if above.model_fields_set & {"idle", "max"} else merged


def _sound(node: NodeBlock, written: NodeBlock, at: Keys, report: Report) -> bool:
    """What can only be judged when all keys of a node are known."""
    good = True

    def wrong(key: str, message: str, hint: str) -> None:
        nonlocal good
        good = False
        report((*at, key) if key in written.model_fields_set else at, message, hint)

    if node.tier is None:
        wrong("tier", f"kind '{node.kind}' has no tier", "write 'tier: device', 'edge' or 'cloud'")
    if node.power is not None and node.power.table is None and node.power.max < node.power.idle:
        wrong("power", "max power is below idle power", f"idle is {node.power.idle:g} W, max {node.power.max:g} W")
    scaling = node.scaling
    if scaling is not None and node.cpu is None:
        wrong("scaling", "has operating points but no processor", "give it a 'cpu'")
    elif scaling is not None and node.cpu is not None and scaling.points:
        fastest = scaling.points[-1].clock
        if node.cpu.clock != fastest:
            hint = "the clock of 'cpu' is that of the fastest operating point"
            wrong("scaling", f"the fastest point is {fastest:g} Hz, the processor {node.cpu.clock:g} Hz", hint)
    for key, one in quantities(HostQuantities).items():
        if one.needs and getattr(node, key) and getattr(node, one.needs) is None:
            wrong(key, f"means nothing without a '{one.needs}'", f"give it a '{one.needs}'")
    if node.accelerators and node.cpu is None:
        wrong("accelerators", "has accelerators but no processor", "give it a 'cpu'")
    if node.fleet:
        if node.at is not None:
            wrong("at", "a fleet moves and has no 'at'", "remove 'at' or 'fleet'")
        if carried(node, PricedQuantities).get("price_own"):
            wrong("cost", "members of a fleet come and go and have no price of owning them", "remove 'own'")
        return good
    if "capacity" in written.model_fields_set:
        wrong("capacity", "'capacity' is for fleets", "limit the tasks of a host with 'slots'")
    return good
