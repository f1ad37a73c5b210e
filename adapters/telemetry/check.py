"""For what the telemetry adapter refuses a scene."""

from __future__ import annotations

from cosim.adapters.telemetry.config import TelemetryConfig
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem
from cosim.talk.telemetry.ports import chosen, lacking, ports


def problems(config: TelemetryConfig, context: Context) -> list[Problem]:
    """More nodes than there can be endpoints, and a collector that needs a missing package; which nodes are shown."""
    names = [node.id for node in context.scene.nodes]
    nodes = chosen(names, config.nodes)
    first = first_port(config, context)
    if config.otlp is not None and (reason := lacking(config.otlp)):
        return [Problem(reason, f"adapters.{context.name}.otlp", hint="or write http:// for OTLP/HTTP")]
    void = [one for one in config.nodes if names and not chosen(names, [one])]
    found = [
        Problem(f"'{one}' names no node", f"adapters.{context.name}.nodes", hint=f"nodes: {', '.join(names[:8])}",
                fatal=False)
        for one in void
    ]  # fmt: skip
    shown = f"shows {len(nodes)} of {len(names)} nodes as '{config.service}'"
    found.append(Problem(shown, f"adapters.{context.name}", fatal=False, note=True))
    try:
        ports(nodes, first or 0) if first is not None else None
    except ValueError as error:
        found += [Problem(str(error), f"adapters.{context.name}.nodes", hint="name those that are to be asked")]
    return found


def first_port(config: TelemetryConfig, context: Context) -> int | None:
    """The port of the first node's endpoint; None: there are none."""
    _, _, port = context.service("metrics").rpartition(":")
    return config.prometheus if config.prometheus is not None else int(port) if port.isdecimal() else None


def host_of(config: TelemetryConfig, context: Context) -> str:
    """The address that the endpoints listen at."""
    return config.host or context.service("metrics").rpartition(":")[0] or "127.0.0.1"


def listens(config: TelemetryConfig, context: Context) -> dict[str, set[tuple[str, int]]]:
    """The addresses and ports of the endpoints, by key."""
    nodes, first = chosen([node.id for node in context.scene.nodes], config.nodes), first_port(config, context)
    host = host_of(config, context)
    return {"prometheus": {(host, port) for port in ports(nodes, first).values()}} if first else {}
