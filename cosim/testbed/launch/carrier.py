"""Choose what imposes the links of a scenario's real nodes, by its `network` block and by what this machine has.

The choice is made before anything is started. If a backend is unavailable, the start fails and names what is missing.
Only traffic control without netem falls back to linkd, and reports that at the start and in the run's manifest.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cosim.contract.errors import Problem, ScenarioError, refusals
from cosim.contract.medium import MEDIA, WIFI
from cosim.contract.registry import engine_command
from cosim.scenario.plan.plan import Plan
from cosim.testbed.emulation.relay import APART
from cosim.testbed.emulation.tc import probe_netem
from cosim.testbed.launch.programs import host_end, programs

Where = Literal["netns", "containers"]

RADIO = WIFI.interface  # the one that an engine with a radio of its own carries; linkd has the others
BUILT_IN = ("linkd", "tc", "auto")


@dataclass(frozen=True, slots=True)
class Carrier:
    """How the network service is started."""

    asked: str = "linkd"  # the scenario's word
    arguments: tuple[str, ...] = ("--backend", "linkd", "--shared", RADIO)  # of `cosim.testbed.emulation.service`
    # "netem": sidecars have the kernel shape what leaves their nodes; "rates": as far as it can without netem; "": TAPs
    kernel: str = ""
    engine: str = ""  # the engine that carries `RADIO` in linkd's place
    remark: str = ""  # a note for the user who starts the run; "": all is as asked


def carrier(plan: Plan, where: Where) -> Carrier:
    """The carrier that the adapter `network` of `plan` asks for.

    Raises `ScenarioError` for a scenario that the backend cannot carry, `SetupError` when the backend is missing here.
    """
    name, config = _block(plan)
    asked = str(config.get("backend", "linkd"))
    if asked in ("tc", "auto") and plan.scene.real and host_end(programs(plan.scene)) is not None:
        if asked == "tc":
            hint = "take backend linkd or auto, or leave 'uplink' out"
            raise ScenarioError(Problem("backend tc carries no uplinks", f"adapters.{name}.backend", hint=hint))
        remark = "auto was asked for, but traffic control carries no uplinks"
        arguments = ("--backend", "linkd", *_linkd(plan), "--remark", remark)
        return Carrier(asked, arguments, remark=f"backend auto: linkd, as {remark.partition('but ')[2]}")
    if asked in ("tc", "auto"):
        linkd = _linkd(plan)
        if where == "containers":  # their kernel is known when they start
            arguments = ("--backend", "tc", *linkd, "--remark", f"{asked} was asked for")
            remark = f"traffic control where the containers' kernel has netem and vxlan, else linkd; with it {APART}"
            return Carrier(asked, arguments, kernel="netem", remark=f"backend {asked}: {remark}")
        reason = probe_netem()
        if not reason:
            return Carrier(
                asked, ("--backend", "tc"), kernel="netem", remark=f"backend {asked}: traffic control; {APART}"
            )
        arguments = ("--backend", "linkd", *linkd, "--remark", f"{asked} was asked for, but {reason.partition(';')[0]}")
        return Carrier(asked, arguments, remark=f"backend {asked}: linkd, because {reason}")
    options = config.get("radio") or {}
    if asked in BUILT_IN:
        if options:
            raise ScenarioError(Problem(f"backend {asked} has no radio of its own", f"adapters.{name}.radio"))
        return Carrier(asked, ("--backend", asked, *_linkd(plan)))
    command = _engine(plan, where == "containers")
    arguments = ("--engine", shlex.join(command), "--carries", RADIO)
    remark = f"backend {asked}: its own radio decides the links of {RADIO}; what peer_link says is not imposed"
    return Carrier(asked, (*arguments, *_linkd(plan, but=RADIO)), engine=asked, remark=remark)


def unfit(plan: Plan, where: Where) -> list[Problem]:
    """What the backend of `plan` cannot carry, wherever its nodes are."""
    _, config = _block(plan)
    if config.get("backend", "linkd") not in BUILT_IN:
        return refusals(lambda: _engine(plan, installed=True))
    return refusals(lambda: carrier(plan, where)) if config.get("radio") or config.get("backend") == "tc" else []


def _engine(plan: Plan, installed: bool) -> Sequence[str]:
    """The command of an engine with a radio of its own. `installed`: as in images, and nothing is built."""
    name, config = _block(plan)
    asked = str(config.get("backend"))
    if not any(interface.name == RADIO for node in programs(plan.scene) for interface in node.interfaces):
        hint = "give nodes 'wifi: {}', or take backend linkd"
        raise ScenarioError(
            Problem(f"backend {asked} carries Wi-Fi, and no real node has any", f"adapters.{name}.backend", hint=hint)
        )
    return engine_command(asked)(plan.scene, config.get("radio") or {}, plan.seed, installed)


def _block(plan: Plan) -> tuple[str, Mapping[str, Any]]:
    found = [adapter for adapter in plan.adapters if adapter.use == "network"]
    return (found[0].name, found[0].config) if found else ("network", {})


def _linkd(plan: Plan, but: str = "") -> list[str]:
    """Options of linkd: the media whose ports share one air, but for one, and the ports of stations."""
    shared = [medium.interface for medium in (*MEDIA, *plan.scene.media) if medium.shared and medium.interface != but]
    cells = [f"{node.node},{interface}" for node in programs(plan.scene) for interface in node.serves]
    words = [("--shared", one) for one in shared]
    words += [("--seed", str(plan.seed % 2**31)), *(("--cell", one) for one in cells)]
    return [part for word in words for part in word]
