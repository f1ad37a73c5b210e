"""The `telemetry` block of a scenario."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from cosim.contract.adapter import AdapterConfig
from cosim.contract.block import OnlyWith
from cosim.contract.trust import Trusted, Words
from cosim.contract.units import Period

_FORM = re.compile(r"(https?://[^/\s]+(/\S*)?|grpcs?://[^/\s]+/?)")


def _address(text: str | None) -> str | None:
    if text is None:
        return None
    with suppress(ValueError):  # of a port that is none
        parts = urlsplit(text)
        if _FORM.fullmatch(text) and parts.hostname and parts.port != 0:
            return text
    raise ValueError("expected http://HOST:4318 or grpc://HOST:4317 (https, grpcs: with TLS; gRPC has no path)")


class TelemetryConfig(AdapterConfig):
    """Which nodes are shown, where, and under which name. Nothing is shown unless it is asked for."""

    nodes: list[Words] = Field(["*"], description="names of static nodes, * stands for anything")
    service: Words = Field("continuum-cosim", min_length=1, max_length=100, description="service.name of all metrics")
    prometheus: Annotated[int | None, Field(ge=0, le=65_000, strict=True), Trusted("listens on a network")] = Field(
        None,
        description="port of the first node's /metrics, the next ones follow; 0: the system chooses; default: none, "
        "in a compose project 9100",
    )
    host: Annotated[str | None, Field(min_length=1), Trusted("listens on a network")] = Field(
        None,
        description="address that the endpoints listen at; default: loopback, in a compose project its own network",
    )
    otlp: Annotated[str | None, AfterValidator(_address), Trusted("sends to another program")] = Field(
        None,
        description="OTLP collector: http://127.0.0.1:4318 or grpc://127.0.0.1:4317 (https, grpcs: with TLS)",
    )
    interval: Annotated[Period, OnlyWith("otlp")] = Field(
        5.0, description="of the wall clock between two exports to the collector"
    )
