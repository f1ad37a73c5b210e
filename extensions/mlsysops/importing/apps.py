"""Applications: every component that asks for a processor becomes a workload."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from cosim.contract.node_keys import Software
from cosim.extensions.mlsysops.importing.bodies import Body, Descriptor, Value, fold, leftovers
from cosim.extensions.mlsysops.importing.nodes import SIZES, framerate, hertz_of
from cosim.sources.importing.document import plain_name
from cosim.sources.importing.imported import Notice

RATE = 1.0  # Hz, of components that name no rate
CORES = 0.25  # of components that ask for none
INPUT, OUTPUT = "100 kB", "1 kB"  # an image of a megapixel at about one bit per pixel, and a short answer


@dataclass(frozen=True, slots=True)
class Component:
    """A component as the scenario will have it."""

    name: str
    rate: float  # tasks/s of each source
    work: float  # cycles
    deadline: float | None  # s
    memory: float  # B, 0: asks for none
    gpu: bool  # asks for one
    where: Value  # in the file
    host: str  # the node that it names, as in its file; "": none
    software: dict[str, object]  # `runs` of that node; {}: no image


def read_components(descriptors: list[Descriptor], clock: float, notices: list[Notice]) -> list[Component]:
    """The components of all applications. `clock` (Hz) is that of processors that requests are counted in."""
    found: list[Component] = []
    taken: set[str] = set()
    for one in descriptors:
        if one.kind != "app":
            continue
        body = one.body
        limits = _latencies(body.get("component_interactions"), notices)
        listed = body.get("components")
        for item in listed.items() if listed else ():
            component = _component(Body(item, notices), limits, clock, taken, notices)
            if component is not None:
                found.append(component)
        body.ignore("cluster_placement", "single_node", "permitted_actions", "global_satisfaction", "instance_ids")
        leftovers(one)
    return found


def _component(
    body: Body, limits: dict[str, float], clock: float, taken: set[str], notices: list[Notice]
) -> Component | None:
    metadata = body.body("metadata", "component")
    named = metadata.get("name")
    written = (named.text() if named else None) or ""
    containers = body.get("containers")
    held = [Body(item, notices) for item in containers.items()] if containers else []
    if not held:
        notices.append(body.value.note("ignored", f"component '{written}' has no containers, so no work"))
    cores, speed, memory, gpu = 0.0, clock, 0.0, False
    for container in held:
        asked, frequency, size, units = _platform(container, notices)
        cores += asked
        speed = frequency or speed
        memory += size
        gpu = gpu or units
    software = _software(held, notices)
    for container in held:
        container.ignore("ports", "image_pull_policy", "security_context")
        container.leftover()
    rate = framerate(body.get("sensors"), notices)
    node = body.body("node_placement", "placement").get("node")
    body.ignore(
        "node_placement", "placement", why="is for policy files (scheduler: mlsysops) with this file as application"
    )
    body.ignore(
        "depends_on", "storage", "host_network", "runtime_class_name", "restart_policy",
        "qos_metrics", "acceleration_api", "node_type", "os", "container_runtime",
    )  # fmt: skip
    metadata.get("uid")
    metadata.leftover()
    body.leftover()
    if not held:
        return None
    name = plain_name(written, taken, "component")
    if cores <= 0.0:
        notices.append(body.value.note("note", f"'{name}' asks for no processor; {CORES:g} cores are taken"))
        cores = CORES
    where = f"'{name}'"
    if rate <= 0.0:
        rate = RATE
        where += " names no rate, so 1 task per second is taken;"
    else:
        where += f" works at the {rate:g} Hz of its camera;"
    notices.append(
        body.value.note(
            "note",
            f"{where} its work is {cores:g} cores at {speed / 1e9:g} GHz divided by that rate, "
            f"data {INPUT} in, {OUTPUT} out",
        )
    )
    host = (node.text() if node else None) or ""
    return Component(
        name, rate, cores * speed / rate, limits.get(fold(written)), memory, gpu, body.value,
        "" if host == "*" else host, software,
    )  # fmt: skip


def _software(containers: list[Body], notices: list[Notice]) -> dict[str, object]:
    """The first container as `runs` of a node, which has one image; {} if it has none that can be."""
    found: dict[str, object] = {}
    for container in containers:
        image, words = container.get("image"), [container.get("command"), container.get("args")]
        variables = container.get("env", "environment")
        if found:
            if image is not None:
                notices.append(image.note("ignored", f"a real node has one image, and runs '{found['image']}'"))
            continue
        pairs = [Body(item, notices) for item in variables.items()] if variables else []
        named = [(one.get("name"), one.get("value")) for one in pairs]
        own = {
            "image": (image.text() if image else None) or "",
            "command": [part.text() or "" for value in words if value is not None for part in value.items()],
            "environment": {key.text() or "": (value.text() if value else "") or "" for key, value in named if key},
        }
        try:
            Software.model_validate(own)
        except ValidationError:
            if image is not None:
                notices.append(image.note("ignored", f"'{own['image']}' cannot be started as a node's software"))
            continue
        found = {key: value for key, value in own.items() if value}
    return found


def _platform(container: Body, notices: list[Notice]) -> tuple[float, float, float, bool]:
    """Cores that a container requests, their Hz, B of memory (0: not stated), and whether it requests a GPU."""
    required = container.body("platform_requirements", "resources")
    cpu = required.body("cpu")
    asked = cpu.get("requests") or cpu.get("limits")
    if asked is None:
        asked = required.body("requests").get("cpu") or required.body("limits").get("cpu")
    frequency = cpu.get("frequency")
    hertz = 0.0
    if frequency is not None:
        hertz = max((hertz_of(item) or 0.0 for item in frequency.items()), default=0.0)
        if hertz <= 0.0:
            notices.append(frequency.note("ignored", f"'{frequency.text()}' is no frequency"))
    for name in ("requests", "limits"):
        cpu.get(name)
        required.get(name)
    cpu.ignore("architecture", "performance_indicator")
    cpu.leftover()
    required.ignore("disk", "mcu", "fpga")
    memory = _memory(required, notices)
    gpu = required.get("gpu") is not None or any(
        required.body(limit).get(name) is not None
        for limit in ("requests", "limits")
        for name in ("nvidia.com/gpu", "amd.com/gpu")
    )
    required.leftover()
    return (0.0 if asked is None else _cores(asked, notices)), hertz, memory, gpu


def _memory(required: Body, notices: list[Notice]) -> float:
    """B of memory requested, else the limit; 0 if neither is stated. A bare number is B, as in Kubernetes."""
    own = required.get("memory")
    said: Value | None = own
    if own is None or own.text() is None:
        inner = Body(own, []) if own is not None else required
        name = ("requests", "limits")
        found = [inner.get(key) if own is not None else inner.body(key).get("memory") for key in name]
        said = next((value for value in found if value is not None), None)
    number = said.number() if said is not None else None
    if said is None or said.text() is None:
        return 0.0
    factor = {**SIZES, "": 1.0}.get(number[1].lower()) if number else None
    if number is None or factor is None or not 0.0 < number[0] * factor < 1e18:
        notices.append(said.note("ignored", f"'{said.text()}' is no size of memory"))
        return 0.0
    return number[0] * factor


def _cores(value: Value, notices: list[Notice]) -> float:
    """Kubernetes' quantity of processors: 250m, 0.25, 2."""
    number = value.number()
    factor = {"": 1.0, "m": 1e-3}.get(number[1]) if number else None
    if number is None or factor is None or not 0.0 < number[0] * factor <= 1e5:
        notices.append(value.note("ignored", f"'{value.text()}' is no number of cores"))
        return 0.0
    return number[0] * factor


def _latencies(interactions: Value | None, notices: list[Notice]) -> dict[str, float]:
    """Component (folded) -> s that an interaction with it may take."""
    found: dict[str, float] = {}
    for item in interactions.items() if interactions else ():
        body = Body(item, notices)
        ends = [body.get("component_name1", "name1"), body.get("component_name2", "name2")]
        metrics = body.get("metrics", "qos_metrics", "interaction_metrics")
        body.ignore("type", "interaction_type", "ingress", "egress")
        body.leftover()
        for entry in metrics.items() if metrics else ():
            metric = Body(entry, notices)
            kind = metric.get("metric_id", "name", "metric", "application_metric_id")
            target = metric.get("target")
            metric.ignore("relation", "system_metrics_hints", "measurement_point")
            metric.leftover()
            word = fold((kind.text() if kind else None) or "")
            number = target.number() if target else None
            if target is None or word not in ("latency", "endtoendinvocationdelay"):
                continue
            factor = {"": 1e-3, "ms": 1e-3, "s": 1.0, "us": 1e-6}.get(number[1].lower()) if number else None
            if number is None or factor is None or not 1e-6 <= number[0] * factor < 1e6:
                notices.append(target.note("ignored", f"'{target.text()}' is no time"))
                continue
            if not number[1]:
                notices.append(target.note("note", f"has no unit; {number[0]:g} ms is taken"))
            for end in ends:
                name = fold((end.text() if end else None) or "")
                found[name] = min(found.get(name, float("inf")), number[0] * factor)
    return found
