"""The `telemetry` block of a scenario."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from cosim.contract.adapter import AdapterConfig
from cosim.contract.trust import Trusted
from cosim.contract.units import Period


class TelemetryConfig(AdapterConfig):
    """Which nodes are shown, where, and under which name. Nothing is shown unless it is asked for."""

    nodes: list[str] = Field(["*"], description="names of static nodes, * stands for anything")
    service: str = Field("continuum-cosim", min_length=1, max_length=100, description="service.name of all metrics")
    prometheus: Annotated[int, Field(ge=0, le=65_000, strict=True)] | None = Field(
        None,
        description="port of the first node's /metrics, the next ones follow; 0: the system chooses; default: none, "
        "in a compose project 9100",
    )
    host: Annotated[str | None, Field(min_length=1), Trusted("listens on a network")] = Field(
        None,
        description="address that the endpoints listen at; default: loopback, in a compose project its own network",
    )
    otlp: Annotated[str | None, Field(pattern=r"^https?://[^/\s]+(/\S*)?$"), Trusted("sends to another program")] = (
        Field(None, description="OTLP/HTTP collector, as http://127.0.0.1:4318")
    )
    interval: Period = Field(5.0, description="of the wall clock between two exports to the collector")
