"""Nodes and applications in the framework's words: made from a scene, and applications read from its files.

A component is a workload: where a component is placed, the workload's tasks run.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cosim.contract.entities import Node, Scene, Workload
from cosim.contract.geo import LocalFrame

Document = dict[str, Any]

LAYERS = {"cloud": "cloud", "edge": "edge", "device": "far_edge"}
_GPU = "gpu"  # the kind of accelerator that descriptors know
_LARGEST = 4_000_000  # B of a file; a descriptor has some kB
_KINDS = ("MLSysOpsApp", "MLSysOpsApplication")


def node_descriptor(node: Node, scene: Scene, cluster: str) -> Document:
    """The body of an MLSysOpsNode."""
    body: Document = {
        "name": node.id, "continuum_layer": LAYERS[node.tier], "cluster_id": cluster, "mobile": node.tier == "device",
        "labels": [f"kind:{node.kind}"], "sensors": [],
        "environment": {"node_type": "virtualized", "os": "ubuntu", "container_runtime": ["containerd"]},
    }  # fmt: skip
    if scene.geo is not None and node.position is not None:
        frame = LocalFrame(scene.geo.latitude, scene.geo.longitude, scene.geo.height)
        latitude, longitude, _ = frame.to_wgs84(*node.position)
        body["location"] = [round(float(longitude), 9), round(float(latitude), 9)]
    if node.cores:
        clocks = [point.clock for point in node.scaling.points] if node.scaling is not None else []
        frequencies = [f"{clock / 1e6:.12g} MHz" for clock in clocks or [node.clock]]
        body["hardware"] = {"cpu": {"cores": node.cores, "frequency": frequencies}}
        if node.memory:
            body["hardware"]["memory"] = f"{node.memory / 1e9:.12g} GB"
        if gpus := sum(one.units for one in node.accelerators if one.kind == _GPU):
            body["hardware"]["gpu"] = {"instances": gpus}
    if node.power is not None:
        body["power"] = {"max_consumption": f"{node.power.table[-1]:.12g} W"}
    return body


def cluster_descriptor(scene: Scene, cluster: str) -> Document:
    """The body of an MLSysOpsCluster of the scene's hosts and devices; hosts come first."""
    order = sorted(scene.nodes, key=lambda node: node.tier == "device")
    return {"cluster_id": cluster, "nodes": [node.id for node in order]}


def application_descriptor(scene: Scene, name: str) -> Document:
    """The body of an MLSysOpsApp with a component for each workload."""
    hosts = [node.clock for node in scene.nodes if node.tier != "device" and node.cores]
    clock = min(hosts, default=1e9)
    loads = scene.workloads
    app: Document = {"name": name, "components": [_component(load, clock) for load in loads]}
    interactions = [
        {
            "component_name1": "client", "type": "ingress", "component_name2": load.name,
            "metrics": [{"metric_id": "latency", "target": f"{load.deadline * 1e3:.12g} ms"}],
        }
        for load in loads if math.isfinite(load.deadline)
    ]  # fmt: skip
    return {**app, "component_interactions": interactions} if interactions else app


def _component(load: Workload, clock: float) -> Document:
    work = sum(stage.work.mean for stage in load.graph) if load.graph else load.work.mean
    rate = load.rate if load.arrivals in ("poisson", "every") and load.rate > 0.0 else 1.0
    required: Document = {"cpu": {"requests": f"{work * rate / clock:.12g}"}}
    if load.memory:
        required["memory"] = {"requests": f"{load.memory:.0f}"}
    if _GPU in (load.accelerator, *(stage.accelerator for stage in load.graph)):
        required["gpu"] = {"instances": 1}
    found: Document = {
        "metadata": {"name": load.name, "uid": load.name},
        "node_placement": {"continuum_layer": ["*"]},
        "sensors": [{"camera": {"minimum_framerate": rate}}],
        "qos_metrics": [],
        "containers": [{"image": load.name, "platform_requirements": required}],
    }  # fmt: skip
    if math.isfinite(load.deadline):
        metric = {"application_metric_id": metric_of(load.name, "seconds"), "target": load.deadline}
        found["qos_metrics"] = [{**metric, "relation": "lower_or_equal"}]
    return found


MEASURES = ("seconds", "late", "failed", "rate")  # of the tasks of a component that ended


def metric_of(component: str, measure: str) -> str:
    """The name of a component's metric, as `weed_detection_seconds`."""
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', component)}_{measure}"


def descriptors(scene: Scene, name: str) -> dict[str, Document]:
    """Files of descriptors by name: every static node, the cluster of all of them, and the application."""
    found = {f"node-{node.id}.yaml": {"MLSysOpsNode": node_descriptor(node, scene, name)} for node in scene.nodes}
    found["cluster.yaml"] = {"MLSysOpsCluster": cluster_descriptor(scene, name)}
    if scene.workloads:
        found["application.yaml"] = {"MLSysOpsApp": application_descriptor(scene, name)}
    return found


def read_applications(path: Path) -> list[Document]:
    """The applications in a file, as policies get them: {name, spec}. Raises `ValueError` with the fault."""
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"'{path}' is larger than {_LARGEST / 1e6:g} MB")
        documents = list(YAML(typ="safe", pure=True).load_all(path.read_text("utf-8")))
    except OSError as error:
        raise ValueError(f"'{path}' cannot be read: {error.strerror}") from error
    except (YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"'{path}' is not YAML: {str(error).splitlines()[0]}") from error
    found = [_application(body, path) for document in documents for body in _bodies(document)]
    if not found:
        raise ValueError(f"'{path}' holds no {_KINDS[0]}")
    return found


def _bodies(document: object) -> Iterable[Document]:
    """The bodies of applications in a document: a user's own, or a validated copy."""
    if not isinstance(document, dict):
        return
    if document.get("kind") in _KINDS:
        body = document["spec"] if isinstance(document.get("spec"), dict) else document
        metadata = document.get("metadata")
        yield {**(metadata if isinstance(metadata, dict) else {}), **body}
    for kind in _KINDS:
        if isinstance(document.get(kind), dict):
            yield document[kind]


def _application(body: Document, path: Path) -> Document:
    name, components = body.get("name"), body.get("components")
    if not isinstance(name, str) or not name:
        raise ValueError(f"'{path}': the application has no name")
    if not isinstance(components, list) or not components:
        raise ValueError(f"'{path}': application '{name}' has no list of components")
    for number, component in enumerate(components):
        if not component_name(component):
            raise ValueError(f"'{path}': component {number + 1} of '{name}' has no metadata.name")
    return described(body)


_FRAME = ("apiVersion", "kind", "metadata", "namespace", "name")  # of a validated copy, beside its body


def described(body: Document) -> Document:
    """An application as policies get it: {name, spec}; components have the keys that policies take for granted."""
    name = str(body["name"])
    spec = copy.deepcopy({key: value for key, value in body.items() if key not in _FRAME})
    for component in spec["components"]:
        component.setdefault("metadata", {"name": component_name(component)})
        component["metadata"].setdefault("name", component_name(component))
        component.setdefault("node_placement", {})
        component.setdefault("qos_metrics", [])
    return {"name": name, "spec": spec}


def component_name(component: object) -> str:
    """The name of a component, "" where it has none."""
    if not isinstance(component, dict):
        return ""
    for key in ("metadata", "Component"):
        part = component.get(key)
        if isinstance(part, dict) and isinstance(part.get("name"), str):
            return str(part["name"])
    return ""


def workload_of(component: str, names: Sequence[str]) -> int:
    """The number of the workload that a component is, by its name as `cosim import mlsysops` writes it; -1: none."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", component)[:48].strip("-.")
    for text in (component, plain):
        if text in names:
            return list(names).index(text)
    return -1
