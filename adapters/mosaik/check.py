"""For what a mosaik simulator's adapter refuses a scene, as far as the simulator need not be asked."""

from __future__ import annotations

from collections.abc import Iterator

from cosim.adapters.mosaik.clock import Clock
from cosim.adapters.mosaik.config import MosaikConfig
from cosim.contract.adapter import Context
from cosim.contract.block import Selector
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import Problem
from cosim.contract.functions import function
from cosim.contract.selector import matcher


def problems(config: MosaikConfig, context: Context) -> list[Problem]:
    """A resolution that does not fit, nodes that nothing selects, and a class that cannot be imported."""
    at = f"adapters.{context.name}"
    found = []
    try:
        Clock("time-based", config.resolution or context.period, context.period, context.duration)
    except ValueError as error:
        found.append(Problem(str(error), f"{at}.resolution" if config.resolution else at))
    if config.simulator.python is not None:
        try:
            function(config.simulator.python)
        except ValueError as error:
            found.append(Problem(str(error), f"{at}.simulator.python"))
    return [*found, *_selectors(config, context.scene, at)]


def _selectors(config: MosaikConfig, scene: Scene, at: str) -> Iterator[Problem]:
    for number, part in enumerate(config.models):
        if part.nodes is not None and not _static(scene, part.nodes):
            yield Problem(no_nodes(scene, part.nodes), f"{at}.models.{number}.nodes")
    for number, wire in enumerate(config.inputs):
        if not _static(scene, wire.nodes) and not _fleets(scene, wire.nodes):
            yield Problem(no_nodes(scene, wire.nodes), f"{at}.inputs.{number}.nodes")


def no_nodes(scene: Scene, selector: Selector) -> str:
    """Why `selector` gives no nodes for entities."""
    if _fleets(scene, selector):
        return f"members of the fleet '{selector}' come and go, entities cannot; select static nodes or give a count"
    names = [*(node.id for node in scene.nodes), *(fleet.name for fleet in scene.fleets)]
    known = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"no node matches '{selector}'; the scenario has {known}"


def _static(scene: Scene, selector: Selector) -> bool:
    return any(_hit(node.id, node, selector) for node in scene.nodes)


def _fleets(scene: Scene, selector: Selector) -> bool:
    return any(_hit(fleet.name, fleet.template, selector) for fleet in scene.fleets)


def _hit(name: str, node: Node, selector: Selector) -> bool:
    return any(matcher(part)(name, node) for part in ([selector] if isinstance(selector, str) else selector))
