"""Policy files as the continuum's scheduler: what they see, and what of it is checked."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.adapter import Context
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import Problem
from cosim.contract.extras import how_to_install
from cosim.contract.hints import nearest
from cosim.contract.signals import CATALOGUE
from cosim.extensions.mlsysops.policies.agent import MECHANISMS, ClusterAgent, Update
from cosim.extensions.mlsysops.policies.descriptors import (
    MEASURES,
    application_descriptor,
    component_name,
    described,
    metric_of,
    read_applications,
    workload_of,
)
from cosim.extensions.mlsysops.policies.plugin import Plugin, PluginError
from cosim.talk.telemetry import export

if TYPE_CHECKING:
    from cosim.adapters.continuum.mlsysops import MlsysopsConfig

MOST_LOADS = 63  # of a scene, one bit each in signal `placement`
_OWN = "application"  # name of the one that is made of all workloads


def problems(config: MlsysopsConfig | None, context: Context) -> Iterator[Problem]:
    """Files that are no policies or applications, and names in them that a run does not know."""
    at = f"adapters.{context.name}.mlsysops"
    if config is None:
        hint = "write 'mlsysops: {policies: [policy-NAME.py]}' beside it"
        yield Problem("scheduler 'mlsysops' has no policy files", at, hint=hint)
        return
    if importlib.util.find_spec("pandas") is None:
        yield Problem("policies get telemetry by pandas", at, hint=how_to_install("tables"))
        return
    if len(context.scene.workloads) > MOST_LOADS:
        text = f"policy files place at most {MOST_LOADS} workloads, not {len(context.scene.workloads)}"
        yield Problem(text, "workloads")
    components, applications = set[str](), set[str]() if config.applications else {_OWN}
    for path, text in _named(config, at):
        try:
            found = _read(context, text)
        except ValueError as error:
            yield Problem(str(error), path)
            return
        components.update(_components(found))
        applications.update(application["name"] for application in found)
        yield from _placements(found, context.scene, path)
    for number, update in enumerate(config.updates):
        if update.remove is not None and update.remove not in applications:
            path, hint = f"{at}.updates.{number}.remove", _near(update.remove, sorted(applications))
            yield Problem(f"there is no application '{update.remove}'", path, hint=hint)
    yield from _loads(components, context.scene, bool(config.applications), at)
    yield from _policies(config, context, at)


def components(config: MlsysopsConfig | None, scene: Scene, root: Path) -> set[str]:
    """The names of all components that policy files place; of files that cannot be read none."""
    found = set[str]() if config is not None and config.applications else {load.name for load in scene.workloads}
    if config is not None:
        for _, text in _named(config, ""):
            with suppress(ValueError):
                found.update(_components(read_applications(root / text)))
    return found


def _named(config: MlsysopsConfig, at: str) -> Iterator[tuple[str, str]]:
    """Where files of applications are named, and their names."""
    for number, text in enumerate(config.applications):
        yield f"{at}.applications.{number}", text
    for number, update in enumerate(config.updates):
        if update.deploy is not None:
            yield f"{at}.updates.{number}.deploy", update.deploy


def _read(context: Context, text: str) -> list[dict[str, Any]]:
    return read_applications(context.path(text))


def _components(applications: Sequence[dict[str, Any]]) -> list[str]:
    return [component_name(one) for application in applications for one in application["spec"]["components"]]


def _placements(applications: Sequence[dict[str, Any]], scene: Scene, path: str) -> Iterator[Problem]:
    """Components that are to be at nodes that cannot hold them."""
    able = sorted({node.id for node in scene.nodes if node.cores > 0})
    for application in applications:
        for component, name in zip(application["spec"]["components"], _components([application]), strict=True):
            placement = component.get("node_placement")
            node = placement.get("node") if isinstance(placement, dict) else None
            if node not in (None, "*") and node not in able:
                yield Problem(f"'{name}' is placed at '{node}', no node with a cpu", path, hint=_near(str(node), able))


def _loads(components: set[str], scene: Scene, described: bool, at: str) -> Iterator[Problem]:
    """Workloads that are no component, whose tasks would all fail, and components that are no workload."""
    names = [load.name for load in scene.workloads]
    if not described:
        components = components | set(names)
    known = {workload_of(component, names) for component in components}
    for number, name in enumerate(names):
        if number not in known:
            hint = f"components: {', '.join(sorted(components))}"
            yield Problem(f"workload '{name}' is no component of any application", f"workloads.{name}", hint=hint)
    for component in sorted(components):
        if workload_of(component, names) < 0:
            hint = _near(component, names, "workloads:")
            text = f"component '{component}' is no workload, so it has no tasks"
            yield Problem(text, f"{at}.applications", hint=hint, fatal=False)


def _policies(config: MlsysopsConfig, context: Context, at: str) -> Iterator[Problem]:
    """Files that are no policies, and what policies want that a run has not."""
    nodes = sorted({node.id for node in context.scene.nodes})
    known = sorted(_known_metrics(context.scene))
    for metric, target in config.metrics.items():
        if target not in known:
            yield Problem(f"nothing is measured as '{target}'", f"{at}.metrics.{metric}", hint=_near(target, known))
    for number, text in enumerate(config.policies):
        path = f"{at}.policies.{number}"
        try:
            plugin = Plugin(context.path(text))
        except PluginError as error:
            yield Problem(str(error), path)
            continue
        for name in plugin.mechanisms:
            if name not in MECHANISMS:
                hint = f"there are {', '.join(MECHANISMS)}; such plans are refused and counted"
                yield Problem(f"mechanism '{name}' of '{text}' is not simulated", path, hint=hint, fatal=False)
        for name in plugin.metrics:
            if name not in known and name not in config.metrics:
                found = f"metric '{name}' of '{text}' is not measured, so it is None"
                yield Problem(found, path, hint=_near(name, known), fatal=False)
        if plugin.node and plugin.node not in nodes:
            why = f"'{text}' is for node '{plugin.node}', which is not there"
            yield Problem(why, path, hint=_near(plugin.node, nodes))


def _near(name: str, known: Sequence[str], otherwise: str = "there are") -> str:
    near = nearest(name, known)
    return f"did you mean '{near}'?" if near else f"{otherwise} {', '.join(known)}"


def _known_metrics(scene: Scene) -> set[str]:
    of_nodes = {
        export.metric("host", column) for column in CATALOGUE["host"].columns if column.role not in ("slot", "code")
    }
    of_loads = {metric_of(load.name, measure) for load in scene.workloads for measure in MEASURES}
    return {export.NODE_LOAD, *of_nodes, *of_loads}


def make(config: MlsysopsConfig, context: Context) -> ClusterAgent:
    """The agent of a run. Raises `PluginError` and `ValueError` for what `problems` finds."""
    applications = [one for text in config.applications for one in _read(context, text)]
    if not config.applications and context.scene.workloads:
        applications = [described(application_descriptor(context.scene, _OWN))]
    updates = [
        Update(one.at, tuple(_read(context, one.deploy)) if one.deploy else (), one.remove or "")
        for one in config.updates
    ]
    return ClusterAgent(
        [context.path(text) for text in config.policies], context.scene, config.cluster, applications,
        updates=updates, aliases=config.metrics, points=_points(context.scene.nodes), seed=context.seed[0],
    )  # fmt: skip


def _points(nodes: Sequence[Node]) -> dict[str, list[float]]:
    """Clocks (Hz) of the nodes whose operating point is set from outside."""
    from cosim.adapters.continuum.equipment import scaling  # needs the engine, and a check does not

    found = {}
    for node in nodes:
        if node.scaling is not None and node.scaling.governor == "userspace":
            made = scaling(node.scaling)
            found[node.id] = [point.clock for point in made.points] if made is not None else []
    return found
