"""The scenario's text: nodes, the links between them, and the workloads of the applications."""

from __future__ import annotations

from cosim.contract.geo import LocalFrame
from cosim.extensions.mlsysops.importing.apps import INPUT, OUTPUT, Component, read_components
from cosim.extensions.mlsysops.importing.bodies import Descriptor, fold
from cosim.extensions.mlsysops.importing.nodes import GPU_SPEED, INTERFACES, NodeInfo, NodeInventory
from cosim.sources.importing.document import plain_name, text_of
from cosim.sources.importing.imported import Imported, Notice

_WAN = {"rate": "100 Mbit/s", "delay": "20 ms"}  # between clusters; nominal, reported in a notice
_CLIENT = "client"
GPU_SHARE = 0.5  # of a GPU that a component asks for and keeps busy; nominal, reported in a notice


def scenario(inventory: NodeInventory, descriptors: list[Descriptor], notices: list[Notice]) -> Imported:
    """A scenario for the adapter `continuum` on these nodes and applications."""
    hosts = [node for node in inventory.nodes if node.tier != "device"]
    clock = min(node.clock for node in hosts)  # a request counts cores of whatever host it meets
    components = read_components(descriptors, clock, notices)
    makers = [node for node in inventory.nodes if node.tier == "device"]
    if not makers:
        taken = {node.name for node in inventory.nodes}
        client = NodeInfo(plain_name(_CLIENT, taken), "", "device", hosts[0].cluster, {"kind": "device"})
        inventory.nodes.append(client)
        makers = [client]
        notices.append(_note("", f"no node is of the layer far_edge; tasks come from the added device '{client.name}'"))
    if not components:
        notices.append(_note("workloads", "no application has a component with containers; the scenario has no tasks"))
    origin = _places(inventory)
    real = _start(inventory, components, notices)
    document: dict[str, object] = {
        "apiVersion": "cosim/v1",
        "kind": "Scenario",
        "name": "mlsysops",
        "title": "".join(c for c in inventory.title if c.isprintable())[:200],
        "description": "Imported from descriptors of the MLSysOps framework; figures of links and data are nominal.",
        "run": {"duration": "5 min", "step": "1 s", "seed": 1},
    }
    if origin is not None:
        document["geo"] = {"origin": [origin[1], origin[0], "0 m"]}
    document["adapters"] = {"continuum": {"scheduler": "least-loaded"}, **({"network": {}} if real else {})}
    document["nodes"] = {node.name: node.keys for node in inventory.nodes}
    document["links"] = _links(inventory, notices)
    document["workloads"] = {
        component.name: {
            "from": [node.name for node in makers],
            "arrivals": f"poisson {component.rate:.12g} Hz",
            "input": INPUT,
            "output": OUTPUT,
            "work": f"{component.work:.12g} cycles",
            **({} if component.deadline is None else {"deadline": f"{component.deadline * 1e3:.12g} ms"}),
            **_needs(component, hosts, notices),
        }
        for component in components
    }
    facts = {"nodes": len(inventory.nodes), "workloads": len(components), "clusters": len(inventory.clusters())}
    return Imported(text_of(document), tuple(notices), facts=facts)


def _start(inventory: NodeInventory, components: list[Component], notices: list[Notice]) -> bool:
    """Let nodes that components name run their images, when nodes are real; whether there is any."""
    for component in components:
        if not component.software:
            continue
        image, written = component.software["image"], fold(component.host)
        node = next((one for one in inventory.nodes if one.written and fold(one.written) == written), None)
        if node is not None and "runs" not in node.keys:
            node.keys["runs"] = component.software
            notices.append(component.where.note("note", f"'{node.name}' starts '{image}' when it is real"))
            continue
        why = "its node_placement names no node" if not written else f"'{component.host}' has no descriptor"
        why = why if node is None else f"'{node.name}' has an image already, and a real node has one"
        notices.append(component.where.note("ignored", f"'{component.name}' does not start '{image}': {why}"))
    return any("runs" in node.keys for node in inventory.nodes)


def _needs(component: Component, hosts: list[NodeInfo], notices: list[Notice]) -> dict[str, object]:
    """The memory and the GPU that a component's tasks take, where some host has both."""
    needs: dict[str, object] = {}
    if component.gpu:
        able = [host for host in hosts if host.gpus]
        if able:
            hosts = able
            needs["accelerator"] = {"gpu": f"{GPU_SHARE * GPU_SPEED / component.rate / 1e9:.12g} GFLOP"}
            text = f"'{component.name}' asks for a GPU; {GPU_SHARE:.0%} of one are taken to be in use at its rate"
            notices.append(component.where.note("note", text))
        else:
            text = f"'{component.name}' asks for a GPU, which no host has"
            notices.append(component.where.note("ignored", text))
    if component.memory:
        if any(host.memory == 0.0 or host.memory >= component.memory for host in hosts):
            needs["memory"] = f"{component.memory:.12g} B"
            text = f"memory of '{component.name}' is taken by each of its tasks while it is at its host"
            notices.append(component.where.note("note", text))
        else:
            text = f"'{component.name}' asks for {component.memory / 1e9:.4g} GB, more than any host for it has"
            notices.append(component.where.note("ignored", text))
    return needs


def _note(key: str, text: str) -> Notice:
    return Notice("note", None, None, key, text)


def _places(inventory: NodeInventory) -> tuple[float, float] | None:
    """Put the nodes with a location into a local frame; its origin (longitude, latitude) is the first of them."""
    origin = next((node.place for node in inventory.nodes if node.place is not None), None)
    if origin is None:
        return None
    frame = LocalFrame(origin[1], origin[0], 0.0)
    for node in inventory.nodes:
        if node.place is not None:
            x, y, _ = frame.to_local(node.place[1], node.place[0], 0.0)
            node.keys["at"] = [f"{float(x):.3f} m", f"{float(y):.3f} m", "0 m"]
    return origin


def _links(inventory: NodeInventory, notices: list[Notice]) -> list[dict[str, object]]:
    """Everybody of a cluster with its hosts, by the slower interface; hosts of different clusters by a WAN.

    Of a pair that is named twice the later figures hold, so that slower interfaces come later.
    """
    links: list[dict[str, object]] = []
    clusters = inventory.clusters()
    hosts = [node.name for node in inventory.nodes if node.tier != "device"]
    if len(clusters) > 1:
        notices.append(_note("links", f"between clusters {_WAN['rate']} and {_WAN['delay']} are taken"))
        if len(hosts) > 1:
            links.append({"between": [hosts, hosts], **_WAN})
    order = list(INTERFACES)
    for name, members in clusters.items():
        near = [node.name for node in members if node.tier != "device"]
        if not near:
            links.append({"between": [[node.name for node in members], hosts], **_WAN})
            notices.append(_note("links", f"cluster '{name}' has no host; its devices reach the others' by the WAN"))
            continue
        for word in order:
            here = [node.name for node in members if node.interface == word]
            if here and (len(near) > 1 or here != near):
                figures = INTERFACES[word]
                links.append({"between": [here, near], "rate": figures.rate, "delay": figures.delay})
    for word in sorted({node.interface for node in inventory.nodes}, key=order.index):
        figures = INTERFACES[word]
        notices.append(
            _note("links", f"for interface {word} {figures.rate} and {figures.delay} are taken: {figures.source}")
        )
    return links
