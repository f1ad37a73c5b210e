"""For what the datacentre model refuses a scene."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from cosim.contract.adapter import Context
from cosim.contract.entities import Node
from cosim.contract.errors import Problem, refusals
from cosim.contract.hints import did_you_mean
from cosim.contract.selector import matcher
from cosim.extensions.extcloudsim.adapter.config import DatacentreConfig


def problems(config: DatacentreConfig, context: Context) -> list[Problem]:
    """Hosts, places, machines, files and policies that cannot be."""
    from cosim.extensions.extcloudsim.adapter import world  # needs the engine

    path = f"adapters.{context.name}"
    found = refusals(lambda: world.hosts_of(config, context.scene, path))
    if found:
        return found
    nodes, _ = world.hosts_of(config, context.scene, path)
    found += refusals(lambda: world.quirks_of(config, path))
    found += world.misplaced(config, nodes, path)
    found += _places(config, path)
    found += _machines(config, nodes, path)
    found += _hidden(config, nodes, path)
    found += context.unreached(_begins(config, path))
    found += context.unbooked()
    found += refusals(lambda: world.utilisation_of(config, context, path))
    found += refusals(lambda: world.policies_of(config, path))
    for name, block in config.places.items():
        found += refusals(partial(world.cap_of, context, block, f"{path}.places.{name}"))
        found += refusals(partial(world.cooling_of, context, block, f"{path}.places.{name}"))
        found += refusals(partial(world.tariff_of, context, block, f"{path}.places.{name}"))
    fatal = any(one.fatal for one in found)
    return found if fatal else [*found, *refusals(lambda: world.build(config, context))]


def _begins(config: DatacentreConfig, path: str) -> Iterator[tuple[str, float]]:
    """When machines come, places are struck and energy turns green (s), by path."""
    yield from ((f"{path}.machines.{name}.start", one.start) for name, one in config.machines.items())
    yield from ((f"{path}.disasters.{number}.at", one.at) for number, one in enumerate(config.disasters))
    for name, place in config.places.items():
        yield from ((f"{path}.places.{name}.green.{k}.from", one.start) for k, one in enumerate(place.green))


def _machines(config: DatacentreConfig, nodes: Sequence[Node], path: str) -> Iterator[Problem]:
    """Machines that no host can take, or that go before they come."""
    from cosim.extensions.extcloudsim.adapter import world  # needs the engine

    cpus, rams, gpus = zip(*(world.size_of(config, node) for node in nodes), strict=True)
    cpu, ram = max(cpus), max(rams)
    for name, one in config.machines.items():
        at = f"{path}.machines.{name}"
        if one.ram > ram * config.overcommit:
            text = f"a machine asks for {one.ram / 1e9:g} GB; no host can take it, the largest has {ram / 1e9:g} GB"
            yield Problem(text, f"{at}.ram", hint="give a node more 'memory', or make the machines smaller")
        fit = [g for r, g in zip(rams, gpus, strict=True) if one.ram <= r * config.overcommit]
        if one.gpus > max(fit, default=one.gpus):
            text = f"a machine asks for {one.gpus} GPUs; no host with memory for it has more than {max(fit)}"
            yield Problem(text, f"{at}.gpus", hint="give a node 'accelerators: {gpu: 4 x 10 TFLOPS}'")
        if one.cpu > cpu:
            text = f"a machine asks for {one.cpu / 1e9:g} GHz, and the largest host has {cpu / 1e9:g} GHz in all"
            hint = "at full use it gets less than it asks for; give a node a larger 'cpu', or make the machines smaller"
            yield Problem(text, f"{at}.cpu", hint=hint, fatal=False)
        if one.stop is not None and one.stop <= one.start:
            yield Problem("'stop' is not after 'start'", f"{at}.stop", hint="write a later time, or leave it out")
    wanted = sum(one.gpus * one.count for one in config.machines.values())
    if wanted > sum(gpus):
        text = f"the machines ask for {wanted} GPUs together, the hosts have {sum(gpus)}"
        hint = "those that do not fit wait; make them fewer, or give nodes more"
        yield Problem(text, f"{path}.machines", hint=hint, fatal=False)
    asked, there = sum(one.ram * one.count for one in config.machines.values()), config.overcommit * sum(rams)
    if asked > there:
        text = f"the machines ask for {asked / 1e9:g} GB of memory together, the hosts have {there / 1e9:g} GB"
        hint = "those that do not fit wait; make them fewer or smaller, or give nodes more 'memory'"
        yield Problem(text, f"{path}.machines", hint=hint, fatal=False)


def _hidden(config: DatacentreConfig, nodes: Sequence[Node], path: str) -> Iterator[Problem]:
    """A warning of entries of `hosts` that later ones hide, since the last one holds."""
    for number, pattern in enumerate(config.hosts):
        mine = [node for node in nodes if matcher(pattern)(node.id, node)]
        later = [matcher(other) for other in list(config.hosts)[number + 1 :]]
        if mine and all(any(match(node.id, node) for match in later) for node in mine):
            text = "no host has this block: later ones hold for all that it names"
            yield Problem(text, f"{path}.hosts.{pattern}", hint="write it behind the more general ones", fatal=False)


def _places(config: DatacentreConfig, path: str) -> list[Problem]:
    """Places that disasters and ways name and that are not there."""
    named = {f"{path}.disasters.{number}.place": one.place for number, one in enumerate(config.disasters)}
    for number, way in enumerate(config.wan):
        named |= {f"{path}.wan.{number}.between.{side}": name for side, name in enumerate(way.between)}
    unknown = [
        Problem(f"there is no place '{name}'", at, hint=did_you_mean(name, config.places, otherwise="places"))
        for at, name in named.items()
        if name not in config.places
    ]
    alone = [
        Problem(
            f"leads from '{one.between[0]}' to itself", f"{path}.wan.{number}.between.1", hint="name the other place"
        )
        for number, one in enumerate(config.wan)
        if one.between[0] == one.between[1]
    ]
    twice = [
        Problem(
            f"joins '{one.between[0]}' and '{one.between[1]}' a second time", f"{path}.wan.{number}",
            hint="remove one: both directions are alike",
        )
        for number, one in enumerate(config.wan)
        if any(set(one.between) == set(other.between) for other in config.wan[:number])
    ]  # fmt: skip
    return unknown + alone + twice
