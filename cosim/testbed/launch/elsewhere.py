"""Nodes of a compose file on other machines, whose engines share a network: one file for each machine.

The run, the network service and the dashboard stay where they are; a node goes with its sidecar. Between the machines
there is a trunk (`cosim.testbed.emulation.trunk`), and the management network is one that the engines have made, as an
overlay of Docker's Swarm mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.hints import did_you_mean

PORT = 5605
NETWORK = {"external": True, "name": "${COSIM_MANAGEMENT:-cosim-management}"}
SECRET = {"COSIM_TRUNK": "${COSIM_TRUNK:?a secret of all machines, made by openssl rand -hex 32}"}


def take_out(document: dict[str, Any], elsewhere: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """Take nodes out of a compose file, and give the files of the machines that have them.

    Raises `ScenarioError` for a node that is not there, or on two machines.
    """
    services = document["services"]
    nodes = [name for name in services if f"{name}-net" in services]
    problems, seen = [], set()
    for machine, names in elsewhere.items():
        for name in names:
            if name not in nodes:
                hint = did_you_mean(name, nodes)
                problems.append(Problem(f"there is no real node '{name}' to be on {machine}", "nodes", hint=hint))
            elif name in seen:
                problems.append(Problem(f"node '{name}' is to be on two machines", f"nodes.{name}"))
            seen.add(name)
    if problems:
        raise ScenarioError(problems)
    document["networks"]["management"] = NETWORK
    network = services["network"]
    services["trunk"] = {
        **_trunk(network, "near", "--listen", f"0.0.0.0:{PORT}"),
        "networks": ["management"],
        "depends_on": {"network": {"condition": "service_started"}},
    }
    return {machine: _other(document, machine, names) for machine, names in elsewhere.items()}


def _other(document: dict[str, Any], machine: str, names: Sequence[str]) -> dict[str, Any]:
    services: dict[str, Any] = {}
    volumes = {"sockets": document["volumes"]["sockets"]}
    far = f"trunk-{machine}"
    services[far] = {
        **_trunk(document["services"]["network"], "far", "--to", f"trunk:{PORT}", "--mode", "666"),
        "networks": ["management"],
        "healthcheck": {**document["services"]["network"]["healthcheck"], "interval": "2s", "retries": 15},
    }
    shown = False
    for name in names:
        sidecar, node = (document["services"].pop(key) for key in (f"{name}-net", name))
        sidecar["depends_on"] = {far: {"condition": "service_healthy"}}
        node["depends_on"] = [f"{name}-net"]
        for service in (sidecar, node):
            service.pop("build", None)  # images are made on one machine
        services |= {f"{name}-net": sidecar, name: node}
        shown = shown or "ports" in sidecar["networks"]
        volumes |= {key: {} for key in (f"key-{name}",) if key in document["volumes"]}
    networks = {"management": NETWORK, **({"ports": {}} if shown else {})}
    return {"services": services, "networks": networks, "volumes": volumes}


def _trunk(network: Mapping[str, Any], *arguments: str) -> dict[str, Any]:
    """One end of a trunk: without any right, like the network service."""
    own = {"build", "entrypoint", "command", "networks", "healthcheck", "mem_limit", "environment", "attach"}
    return {
        **{key: value for key, value in network.items() if key not in own},
        "entrypoint": ["python3", "-m", "cosim.testbed.emulation.trunk"],
        "command": list(arguments),
        "environment": SECRET,
        "mem_limit": "256m",
    }
