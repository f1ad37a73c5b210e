"""Names that refer to other parts of the scenario: do they lead anywhere?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from cosim.contract.block import EventKey
from cosim.contract.entities import EventQuantities
from cosim.contract.errors import Problem
from cosim.contract.hints import did_you_mean, no_file
from cosim.contract.quantity import carried
from cosim.contract.selector import name_matcher
from cosim.contract.signals import CATALOGUE, Signal, grouping
from cosim.scenario.calibrate import TASK_DURATIONS
from cosim.scenario.gather import split, unknown, unknown_option
from cosim.scenario.model import BUILT_IN_EVENTS, EventBlock, Scenario
from cosim.scenario.resolve import Resolved, ResolvedNodes, resolve
from cosim.scenario.sweep import values as sweep_values
from cosim.scenario.tree import Item, Keys, problem
from cosim.scenario.wording import shorten

if TYPE_CHECKING:
    from cosim.contract.adapter import AdapterKind
    from cosim.contract.entities import Scene


def event_faults(event: EventBlock | EventKey) -> Iterator[tuple[str, str, str]]:
    """What an event lacks or has too much: the key, what is wrong, and a hint."""
    do = str(getattr(event, "do", ""))
    if isinstance(event, EventBlock):
        endless = not BUILT_IN_EVENTS[do].undo
        if do == "degrade" and EventQuantities(**carried(event, EventQuantities)) == EventQuantities():
            yield "do", "degrades nothing", "give 'delay', 'loss' or 'rate'"
    else:
        endless = not event.UNDO
        if event.TARGET and getattr(event, event.TARGET) is None:
            yield "do", f"'do: {do}' needs '{event.TARGET}'", f"name the {event.TARGET} it happens to"
        if event.link is not None and event.link.count("/") != 1:
            yield "link", "expected two selectors joined by a slash", "for example uav-2/edge-1"
    if event.duration is not None and endless:
        yield "for", f"'do: {do}' has no end", "remove 'for'"


def refused(event: EventKey, configs: Sequence[BaseModel], nodes: Sequence[str]) -> str:
    """Why no adapter, of those with these configurations that bring it, can carry out an event; ""."""
    why = [event.refusal(config, nodes) for config in configs]
    return why[0] if why and all(why) else ""


def unfit(event: EventKey, configs: Sequence[BaseModel], scene: Scene, nodes: Sequence[str], root: Path) -> str:
    """Why an event cannot happen in `scene`, with any of the adapters that can carry it out; ""."""
    why = [event.unfit(config, scene, nodes, root) for config in configs if not event.refusal(config, nodes)]
    return why[0] if why and all(why) else ""


def check(
    scenario: Scenario,
    root: Item,
    kinds: Mapping[str, AdapterKind],
    configs: Mapping[str, BaseModel],
    problems: list[Problem],
    *,
    folder: Path,
    certain: bool,
) -> ResolvedNodes:
    """The nodes of `scenario`, after adding to `problems` every name that leads nowhere.

    `certain` is False when parts of the scenario had to be left out: then a name that leads nowhere
    may be one of these, and only what is wrong in any case is reported.
    """

    def report(keys: Keys, message: str, hint: str = "") -> None:
        problems.append(problem(root, keys, message, hint))

    before = len(problems)
    world = resolve(scenario, report, folder)
    checks = _Checks(scenario, world, report, folder, certain and len(problems) == before)
    checks.fleets(kinds)
    checks.positions(kinds, configs)
    checks.served(kinds)
    checks.selectors()
    checks.events(kinds, configs)
    checks.tariffs()
    checks.addresses()
    checks.inputs()
    if len(kinds) == len(scenario.adapters) and certain:
        checks.record(kinds, configs)
    checks.sweep(root, configs)
    if checks.certain:
        checks.calibrate(kinds, configs)
        if scenario.calibrate is not None:
            from cosim.scenario.free import free_values  # most scenarios free nothing

            problems += free_values(scenario, root, world, configs)[1]
    return world


class _Checks:
    def __init__(self, scenario: Scenario, world: ResolvedNodes, report: Any, folder: Path, certain: bool) -> None:  # noqa: ANN401
        self.scenario, self.world, self.report, self.certain = scenario, world, report, certain
        self.folder = folder  # of the scenario file

    def fleets(self, kinds: Mapping[str, AdapterKind]) -> None:
        owner: dict[str, str] = {}
        for fleet in self.world.fleets:
            adapter, at = str(fleet.block.fleet), ("nodes", fleet.key, "fleet")
            if adapter not in self.scenario.adapters:
                if self.certain:
                    hint = did_you_mean(adapter, self.scenario.adapters, otherwise="adapters of this scenario")
                    self.report(at, f"there is no adapter '{adapter}'", hint)
            elif adapter in kinds and not kinds[adapter].fleet:
                self.report(at, f"adapter '{adapter}' does not move anything", "name one that brings nodes of its own")
            elif adapter in owner:
                hint = f"{owner[adapter]} has it already; give the adapter a second entry with 'use: {adapter}'"
                self.report(at, f"adapter '{adapter}' can own one fleet only", hint)
            owner.setdefault(adapter, f"nodes.{fleet.key}")
            if fleet.block.runs is not None:
                self.computers(fleet)

    def computers(self, fleet: Resolved) -> None:
        """The computers on board of a fleet are called FLEET-1, FLEET-2, ..., and nothing else is."""
        for name, key in self.world.names.items():
            start, dash, number = name.rpartition("-")
            if start != fleet.id or not dash or not number.isdecimal() or number.startswith("0"):
                continue
            if int(number) <= fleet.block.capacity:
                hint = "its members have 'runs', so each slot has a computer: FLEET-1, FLEET-2 and so on"
                message = f"'{name}' is the computer on board of slot {number} of fleet '{fleet.id}'"
                self.report(("nodes", key), message, hint)

    def positions(self, kinds: Mapping[str, AdapterKind], configs: Mapping[str, BaseModel]) -> None:
        """Nodes with a radio or a cell need a place as soon as an adapter makes links from places."""
        if not any("link" in kind.ports_of(configs[name]).writes for name, kind in kinds.items()):
            return
        wrong: dict[str, str] = {}
        for node in self.world.nodes:
            if node.block.at is None and (node.block.cell is not None or node.block.radio is not None):
                wrong[node.key] = "cell" if node.block.cell is not None else "radio"
        for key, part in wrong.items():
            hint = "write 'at: [east, north, up]', for example [120 m, 40 m, 5 m]"
            self.report(("nodes", key), f"has a {part} but no position", hint)

    def served(self, kinds: Mapping[str, AdapterKind]) -> None:
        """`by` of cells and radios names an adapter of the scenario, or the medium of one."""
        known = [*kinds, *(medium for kind in kinds.values() for medium in kind.media)]
        wrong = {
            (node.key, part, by)
            for node in self.world.everything
            for part in ("cell", "radio")
            if (by := getattr(getattr(node.block, part), "by", None)) is not None and by not in known
        }
        for key, part, by in sorted(wrong) if self.certain else ():
            hint = did_you_mean(by, known, otherwise="adapters of this scenario")
            self.report(("nodes", key, part, "by"), f"there is no adapter '{by}'", hint)

    def select(self, selector: str | list[str], at: Keys) -> None:
        if not selector and not isinstance(selector, str):
            self.report(at, "an empty list selects no node", "name nodes, for example 'uav-*'")
        if self.world.unreadable:
            return
        for index, part, hint in self.world.empty_parts(selector):
            if self.certain or not (
                part.startswith(("kind:", "tier:")) or any(map(name_matcher(part), self.world.names))
            ):
                self.report(at if index is None else (*at, index), f"'{shorten(part)}' selects no node", hint)

    def apart(self, ends: Sequence[str | list[str]], at: Keys) -> None:
        """The two ends of a link are not one and the same node."""
        a, b = (self.world.select(selector) for selector in ends)
        if self.certain and len(a) == 1 and a == b and not a[0].block.fleet:
            self.report(at, f"links '{a[0].id}' to itself", "name the node at the other end")

    def selectors(self) -> None:
        for index, link in enumerate(self.scenario.links):
            for side, selector in enumerate(link.between):
                self.select(selector, ("links", index, "between", side))
            self.apart(link.between, ("links", index, "between", 1))
        for name, workload in self.scenario.workloads.items():
            self.select(workload.source, ("workloads", name, "from"))
            for key, bond in (("affinity", workload.affinity), ("anti_affinity", workload.anti_affinity)):
                if bond is not None and bond.hosts is not None:
                    self.select(bond.hosts, ("workloads", name, key, "hosts"))
                for index, other in enumerate(bond.workloads if bond is not None else ()):
                    if other not in self.scenario.workloads:
                        at: Keys = ("workloads", name, key, "workloads", index)
                        self.report(at, f"there is no workload '{other}'", did_you_mean(other, self.scenario.workloads))
        for signal, record in self.scenario.record.items():
            if record.nodes is not None:
                self.select(record.nodes, ("record", signal, "nodes"))

    def addresses(self) -> None:
        """No two machines have one address."""
        first: dict[str, str] = {}
        for node in self.world.nodes:
            live = node.block.live
            if live is not None and live.address is not None:
                other = first.setdefault(live.address, node.id)
                if other != node.id:
                    hint = "each machine needs one of its own" + (
                        "; write the nodes one by one" if "[" in node.key else ""
                    )
                    self.report(("nodes", node.key, "live", "address"), f"'{other}' has {live.address} too", hint)

    def tariffs(self) -> None:
        """The tariffs that nodes name are there."""
        named = {
            (node.key, node.block.cost.tariff)
            for node in (*self.world.nodes, *self.world.fleets)
            if node.block.cost is not None and node.block.cost.tariff is not None
        }
        for key, name in sorted(named):
            if name not in self.scenario.tariffs and self.certain:
                hint = did_you_mean(str(name), self.scenario.tariffs, otherwise="tariffs of this scenario")
                self.report(("nodes", key), f"there is no tariff '{name}'", hint)

    def inputs(self) -> None:
        """The files that workloads and tariffs name are there."""
        files: dict[Keys, str | None] = {
            ("workloads", name, "arrivals"): load.arrivals.file for name, load in self.scenario.workloads.items()
        }
        for name, tariff in self.scenario.tariffs.items():
            files["tariffs", name, "prices"], files["tariffs", name, "carbons"] = tariff.prices, tariff.carbons
        for name, observed in (self.scenario.calibrate.observed if self.scenario.calibrate else {}).items():
            files["calibrate", "observed", name, "file"] = observed.file
        if self.scenario.calibrate is not None:
            for name, one in self.scenario.calibrate.recordings.items():
                files["calibrate", "recordings", name, "file"] = one.file
            replay = self.scenario.calibrate.replay
            files["calibrate", "replay", "file"] = replay.file if replay else None
        for at, text in files.items():
            path = self.folder / text if text else None
            hint = no_file(path) if path is not None else None
            if hint is not None:
                self.report(at, f"there is no file '{shorten(str(text))}'", hint)

    def events(self, kinds: Mapping[str, AdapterKind], configs: Mapping[str, BaseModel]) -> None:
        for index, event in enumerate(self.scenario.events):
            at: Keys = ("events", index)
            if event.node is not None:
                self.select(event.node, (*at, "node"))
            sides = [side.strip() for side in event.link.split("/")] if event.link else []
            for side in sides:
                self.select(side, (*at, "link"))
            if len(sides) == 2:
                self.apart(sides, (*at, "link"))
            for key, message, hint in event_faults(event):
                self.report((*at, key), message, hint)
            if isinstance(event, EventKey):
                do = getattr(event, "do", "")
                bring = [configs[name] for name, kind in kinds.items() if name in configs and do in kind.events]
                self.brought(event, bring, at)

    def brought(self, event: EventKey, configs: Sequence[BaseModel], at: Keys) -> None:
        """Check that an event has a node that it can happen to, and an adapter that can carry it out."""
        do = getattr(event, "do", "")
        nodes = self.world.select(event.node) if event.node is not None and self.certain else []
        if event.NEEDS and nodes and all(getattr(node.block, event.NEEDS, None) is None for node in nodes):
            message = f"'do: {do}' needs a node with '{event.NEEDS}', which '{nodes[0].id}' has not"
            having = [node.id for node in self.world.nodes if getattr(node.block, event.NEEDS, None) is not None]
            self.report((*at, "node"), message, f"there is {', '.join(having[:3])}" if having else "there is none")
        elif self.certain and (why := refused(event, configs, [node.id for node in nodes])):
            self.report((*at, "do"), why)

    def record(self, kinds: Mapping[str, AdapterKind], configs: Mapping[str, BaseModel]) -> None:
        signals = _signals(kinds, configs)
        for name, block in self.scenario.record.items():
            if name != "*" and name not in signals:
                self.report(("record", name), f"there is no signal '{name}'", did_you_mean(name, ["*", *signals]))
                continue
            known = {column.name for signal in signals.values() for column in signal.columns}
            if name != "*":
                known = {column.name for column in signals[name].columns}
            for index, column in enumerate(block.columns or ()):
                if column not in known:
                    hint = did_you_mean(column, sorted(known))
                    self.report(("record", name, "columns", index), f"there is no column '{column}'", hint)
            groups = sorted({column for signal in signals.values() for column in grouping(signal)})
            if name != "*":
                groups = list(grouping(signals[name]))
            for index, column in enumerate(block.by or ()):
                if column not in groups:
                    hint = did_you_mean(column, groups, otherwise="columns to group by")
                    self.report(("record", name, "by", index), f"statistics cannot be grouped by '{column}'", hint)
            if block.by and block.summary is None and self.scenario.record.get("*", block).summary is None:
                self.report(("record", name, "by"), "groups statistics, but there are none", "add 'summary: 1 min'")

    def calibrate(self, kinds: Mapping[str, AdapterKind], configs: Mapping[str, BaseModel]) -> None:
        """The signals, nodes and workloads that measurements are about are there."""
        signals = _signals(kinds, configs)
        block = self.scenario.calibrate
        for name, observed in block.observed.items() if block is not None else ():
            at: Keys = ("calibrate", "observed", name)
            assert block is not None
            if observed.run is None and observed.file is None and not block.recordings:
                self.report(at, "give 'run' or 'file'", "or 'recordings', of which each has its own")
            table, _, column = observed.signal.partition(".")
            if table not in signals:
                hint = did_you_mean(table, signals)
                self.report((*at, "signal"), f"there is no signal '{table}'", hint)
            else:
                known = [*(TASK_DURATIONS if table == "task" else ()), *(c.name for c in signals[table].columns)]
                if column not in known:
                    hint = did_you_mean(column, known)
                    self.report((*at, "signal"), f"signal '{table}' has no column '{column}'", hint)
            if observed.nodes is not None:
                self.select(observed.nodes, (*at, "nodes"))
            for index, load in enumerate(observed.workloads or ()):
                if load not in self.scenario.workloads:
                    hint = did_you_mean(load, self.scenario.workloads, otherwise="workloads of this scenario")
                    self.report((*at, "workloads", index), f"there is no workload '{load}'", hint)

    def sweep(self, root: Item, configs: Mapping[str, BaseModel]) -> None:
        for path, values in self.scenario.sweep.items():
            at: Keys = ("sweep", path)
            keys = split(root, path)
            wrong = unknown(root, keys, type(self.scenario)) or unknown_option(keys, configs)
            if wrong is not None:
                self.report(at, f"cannot sweep '{path}': {wrong[0]}", wrong[1])
            elif keys[0] in ("sweep", "include", "name", "apiVersion", "kind"):
                self.report(at, f"cannot sweep '{path}'", "it has to be the same in all runs")
            elif isinstance(values, dict):
                inside = next(iter(values), "KEY")
                self.report(at, "expected a list of values, found a mapping", f"write '{path}.{inside}: ...'")
            else:
                try:
                    sweep_values(values)
                except ValueError as error:
                    message, _, hint = str(error).partition("; ")
                    self.report(at, message, hint)


def _signals(kinds: Mapping[str, AdapterKind], configs: Mapping[str, BaseModel]) -> dict[str, Signal]:
    """The signals of the catalogue and of the adapters in use."""
    signals: dict[str, Signal] = dict(CATALOGUE)
    for name, kind in kinds.items():
        signals.update({signal.name: signal for signal in kind.signals_of(configs[name])})
    return signals
