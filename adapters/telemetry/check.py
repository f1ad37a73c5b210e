"""For what the telemetry adapter refuses a scene."""

from __future__ import annotations

from adapters.telemetry.config import TelemetryConfig
from cosim.contract.adapter import Context
from cosim.contract.errors import Problem
from cosim.telemetry.serve import chosen, lacking, ports


def problems(config: TelemetryConfig, context: Context) -> list[Problem]:
    """More nodes than there can be endpoints, and a collector that cannot be told without another package."""
    nodes = chosen([node.id for node in context.scene.nodes], config.nodes)
    first = first_port(config, context)
    if config.otlp is not None and (reason := lacking(config.otlp)):
        return [Problem(reason, f"adapters.{context.name}.otlp", hint="or write http:// for OTLP/HTTP")]
    try:
        ports(nodes, first or 0) if first is not None else None
    except ValueError as error:
        return [Problem(str(error), f"adapters.{context.name}.nodes", hint="name those that are to be asked")]
    return []


def first_port(config: TelemetryConfig, context: Context) -> int | None:
    """The port of the first node's endpoint; None: there are none."""
    _, _, port = context.service("metrics").rpartition(":")
    return config.prometheus if config.prometheus is not None else int(port) if port.isdecimal() else None
