"""ns-3 as the backend `ns3` of real nodes: the engine's command for a scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from cosim.adapters.ns3.build import INSTALLED, engine
from cosim.adapters.ns3.radio import RadioParameters
from cosim.contract.entities import Scene
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.medium import WIFI
from cosim.testbed.launch.programs import interface


def command(scene: Scene, options: Mapping[str, Any], seed: int, installed: bool) -> Sequence[str]:
    """The command that starts the engine for the real Wi-Fi stations of `scene`.

    Its parameters are those of the stations, and `options` (the names of `RadioParameters`).
    `installed`: the program is where images have it, and nothing is built here. Raises `ScenarioError`
    for stations or options that ns-3 cannot have, `SetupError` when the engine cannot be built.
    """
    radio = radio_of(scene, options, seed)
    return radio.command(INSTALLED if installed else engine())


def radio_of(scene: Scene, options: Mapping[str, Any], seed: int) -> RadioParameters:
    """The parameters that all stations share; antenna gains of both ends are added to the power."""
    problems = [
        Problem(
            f"members of fleet '{fleet.name}' come and go, stations of ns-3 are there from the beginning to the end",
            f"nodes.{fleet.name}",
            hint="take backend linkd",
        )
        for fleet in scene.fleets
        if fleet.template.runs and fleet.template.wifi
    ]
    if problems:
        raise ScenarioError(problems)
    stations = [(slot, node.id, node.wifi) for slot, node in enumerate(scene.nodes) if node.runs and node.wifi]
    _, first, wifi = stations[0]
    problems = [
        Problem(
            f"{name} of nodes '{first}' and '{other}' differ; stations of ns-3 share one set of parameters",
            f"nodes.{other}.wifi",
            hint="make them alike, or take backend linkd",
        )
        for _, other, theirs in stations[1:]
        for name in ("network", "carrier", "bandwidth", "power", "gain", "noise_figure")
        if getattr(theirs, name) != getattr(wifi, name)
    ]
    known = {field.name for field in fields(RadioParameters)} - {"access"}
    problems += [
        Problem(
            f"ns-3 has no parameter '{name}'",
            f"adapters.network.radio.{name}",
            hint=f"known: {', '.join(sorted(known))}",
        )
        for name in sorted(set(options) - known)
    ]
    kinds = {field.name: type(field.default) for field in fields(RadioParameters)}
    for name in sorted(set(options) & known):
        value = options[name]
        if isinstance(value, bool) or not isinstance(value, (int, float) if kinds[name] is float else kinds[name]):
            problems.append(
                Problem(f"{name} = {value!r} is no {kinds[name].__name__}", f"adapters.network.radio.{name}")
            )
    if problems:
        raise ScenarioError(problems)
    found: dict[str, Any] = {
        "band": 2.4 if wifi.carrier < 3.5e9 else 5.0,
        "width": round(wifi.bandwidth / 1e6),
        "power": wifi.power + 2 * wifi.gain,
        "noise": wifi.noise_figure,
        "access": tuple(interface(WIFI, slot).mac for slot, _, its in stations if its.mode == "access-point"),
        "seed": 1 + seed % (2**32 - 1),
    }
    return RadioParameters(**{**found, **options})
