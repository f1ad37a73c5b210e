"""Warnings of a scenario: what has no effect, stands twice, or is for a time that never comes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cosim.contract.block import no_effect
from cosim.contract.errors import Problem
from cosim.contract.jammer import Jammer
from cosim.scenario import tree
from cosim.scenario.gather import split
from cosim.scenario.model import BUILT_IN_EVENTS
from cosim.scenario.tree import Keys, dotted

if TYPE_CHECKING:
    from pydantic import BaseModel

    from cosim.contract.entities import Node
    from cosim.scenario.load import Loaded
    from cosim.scenario.plan.scene import SceneBuilder
    from cosim.scenario.resolve import Resolved

_UNDOES = {event.undo: do for do, event in BUILT_IN_EVENTS.items() if event.undo}


def without_effect(loaded: Loaded, builder: SceneBuilder) -> Iterator[Problem]:
    """Warnings: what of the scenario has no effect, or stands there twice; `builder`: of its scene."""
    scenario = loaded.scenario
    for k, event in enumerate(scenario.events):
        if event.at > scenario.run.duration:
            yield loaded.problem(("events", k, "at"), "is after the end of the run, so it never happens", fatal=False)
        ended = _UNDOES.get(event.do)
        if ended and not any(one.do == ended and one.at <= event.at for one in scenario.events):
            hint = f"write an event 'do: {ended}' before it"
            yield loaded.problem(
                ("events", k, "do"), f"ends what no event has begun before {event.at:g} s", hint, fatal=False
            )
    for name, load in scenario.workloads.items():
        if load.quantities.start >= scenario.run.duration:
            yield loaded.problem(
                ("workloads", name, "start"), "is not before the end of the run, so it makes no tasks", fatal=False
            )
    yield from _keys_without_effect(loaded)
    yield from _acted_on_by_none(loaded, builder)
    yield from _silent(loaded, builder)
    yield from _unused(loaded)
    first: dict[tuple[str, str], int] = {}
    for k, link in enumerate(scenario.links):
        state = link.state
        if state.jitter > state.delay:
            message = f"is above the delay of {state.delay:g} s: delays below 0 count as 0, so their mean is longer"
            yield loaded.problem(("links", k, "jitter"), message, "write it at most as long as 'delay'", fatal=False)
        a, b = (loaded.world.select(selector) for selector in link.between)
        if len(a) != 1 or len(b) != 1:
            continue
        other = first.setdefault((min(a[0].id, b[0].id), max(a[0].id, b[0].id)), k)
        if other != k:
            message = f"links '{a[0].id}' and '{b[0].id}' a second time, beside links.{other}"
            yield loaded.problem(("links", k), message, "remove one, if one was meant", fatal=False)


def _acted_on_by_none(loaded: Loaded, builder: SceneBuilder) -> Iterator[Problem]:
    """Warn of workloads, links and events that no adapter acts upon, if all adapters declare what they act upon."""
    scenario, every = loaded.scenario, [used.kind.acts_on for used in loaded.adapters.values()]
    known = [one for one in every if one is not None]
    acted_on = frozenset[str]().union(*known)
    if len(known) < len(every):
        return
    found: list[tuple[Keys, str]] = [((part,), part) for part in ("workloads", "links") if getattr(scenario, part)]
    found += [(("events", k, "do"), event.do) for k, event in enumerate(scenario.events) if event.do in BUILT_IN_EVENTS]
    for keys, what in found:
        if _UNDOES.get(what, what) not in acted_on:
            said = f"'do: {what}'" if keys[0] == "events" else f"'{what}'"
            hint = "leave it out, or add one that does, as continuum"
            yield loaded.problem(keys, f"no adapter of the scenario acts upon {said}", hint, fatal=False)
        elif _UNDOES.get(what, what) == "fail":
            yield from _failing_nothing(loaded, builder, int(keys[1]))


def _failing_nothing(loaded: Loaded, builder: SceneBuilder, k: int) -> Iterator[Problem]:
    """A warning of an event that fails or recovers only nodes of which no adapter has any notion."""
    event = loaded.scenario.events[k]
    acting = {name: used for name, used in loaded.adapters.items() if "fail" in (used.kind.acts_on or ())}

    def fails(node: Node) -> bool:
        return any(u.kind.can_fail is None or u.kind.can_fail(u.config, node) for u in acting.values())

    nodes = builder.nodes
    named = [nodes[part.first] for part in builder.slots(event.node or ()) if part.first < len(nodes)]
    if named and not any(fails(node) for node in named):
        there = ", ".join([node.id for node in nodes if fails(node)][:8])
        text = f"'do: {event.do}' at '{named[0].id}' does nothing: {' and '.join(acting)} has no such node to fail"
        hint = f"name one of {there}" if there else "leave it out"
        yield loaded.problem(("events", k, "node"), text, hint, fatal=False)


def _silent(loaded: Loaded, builder: SceneBuilder) -> Iterator[Problem]:
    """Warnings: jammers that send at no step."""
    run = loaded.scenario.run
    orders = [event for event in builder.events() if event.do in ("jammer-on", "jammer-off")]
    for slot, node in enumerate(builder.nodes):
        block = Jammer.of(node)
        if block is None:
            continue
        on = {0: block.active}  # by step, from then on
        for event in orders:
            if any(part.first == slot for part in event.nodes):
                on[math.ceil(event.at / run.step - 1e-9)] = event.do == "jammer-on"
        if not any(sends for step, sends in on.items() if step * run.step <= run.duration):
            hint = f"write active: true, or an event {{at: 10 s, do: jammer-on, node: {node.id}}} of a step or longer"
            yield loaded.problem(("nodes", node.id, "jammer"), "is never on, so it disturbs nothing", hint, fatal=False)


def _unused(loaded: Loaded) -> Iterator[Problem]:
    """Warnings: tariffs of no node, links that carry nothing, lag without a pace, records and events of nothing."""
    scenario, run, world = loaded.scenario, loaded.scenario.run, loaded.world
    named = {node.block.cost.tariff for node in world.everything if node.block.cost is not None}
    for name in scenario.tariffs:
        if name not in named:
            yield loaded.problem(
                ("tariffs", name), "no node has this tariff", f"write cost: {{tariff: {name}}} at nodes", fatal=False
            )
    if "lag" in run.model_fields_set and run.pacing.factor == 0.0 and run.nodes == "process":
        hint = "write pacing: real-time beside it"
        yield loaded.problem(("run", "lag"), "has no effect: the run is as fast as it can be", hint, fatal=False)
    for k, link in enumerate(scenario.links):
        if link.state.loss >= 1.0:
            yield loaded.problem(("links", k, "loss"), "loses every packet, so it carries nothing", fatal=False)
    for name, block in scenario.record.items():
        if block.every is not None and block.every > run.duration:
            text = f"is longer than the run of {run.duration:g} s, so only its first step is kept"
            yield loaded.problem(("record", name, "every"), text, "write a shorter time", fatal=False)
    for k, event in enumerate(scenario.events):
        if event.do == "degrade" and event.link is not None:
            a, b = (world.select(side.strip()) for side in event.link.split("/"))
            if not _joined(loaded, a, b):
                text = f"nothing joins '{a[0].id}' and '{b[0].id}', so there is no link to degrade"
                hint = "name the two ends of one link"
                yield loaded.problem(("events", k, "link"), text, hint, fatal=False)


def _joined(loaded: Loaded, a: Sequence[Resolved], b: Sequence[Resolved]) -> bool:
    """Whether a fixed link, or the air, may join some of `a` and some of `b`."""
    by_air = [
        any(one.tier == "device" or one.block.cell or one.block.wifi or one.block.fleet for one in side)
        for side in (a, b)
    ]
    if all(by_air):
        return True
    here, there = {one.id for one in a}, {one.id for one in b}
    for link in loaded.scenario.links:
        first, second = ({one.id for one in loaded.world.select(end)} for end in link.between)
        if (first & here and second & there) or (first & there and second & here):
            return True
    return not here or not there


def _keys_without_effect(loaded: Loaded) -> Iterator[Problem]:
    """Warnings: keys that have no effect beside the others of their block, or without them."""
    swept = {key for path in loaded.scenario.sweep for key in split(loaded.root, path)}
    if "parameters" in swept:
        return  # a parameter may stand for anything
    scenario = loaded.scenario
    blocks: list[tuple[BaseModel, Keys]] = [(scenario.run, ("run",))]
    blocks += [(event, ("events", k)) for k, event in enumerate(scenario.events)]
    blocks += [(load, ("workloads", name)) for name, load in scenario.workloads.items()]
    blocks += [(tariff, ("tariffs", name)) for name, tariff in scenario.tariffs.items()]
    blocks += [(record, ("record", name)) for name, record in scenario.record.items()]
    blocks += [(used.config, ("adapters", name)) for name, used in loaded.adapters.items()]
    nodes = {node.key: node for node in loaded.world.everything}  # of a range of nodes one
    blocks += [(node.block, ("nodes", node.key)) for node in nodes.values()]
    reported = set[tuple[str, str]]()
    for block, at in blocks:
        for keys, mark in no_effect(block, at):
            if not swept.isdisjoint((mark.key, keys[-1])):
                continue
            message, where = mark.warning(str(keys[-1])), keys
            if at[0] == "nodes":
                layers: list[Keys] = [at, ("kinds", str(nodes[str(at[1])].kind)), ("defaults",)]
                places = [(*layer, *keys[2:]) for layer in layers]
                here = [one for one in places if tree.at(loaded.root, one) is not None]
                there = [one for one in places if tree.at(loaded.root, (*one[:-1], mark.key)) is not None]
                where = here[0] if here else keys
                if here and there and places.index(where) > places.index(there[0]):
                    continue  # set for all, and this one has something else
            if (dotted(where), message) not in reported:
                reported.add((dotted(where), message))
                yield loaded.problem(where, message, "leave it out, or write what it belongs to", fatal=False)
