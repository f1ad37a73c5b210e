"""Which nodes have endpoints of their own, at which ports, and what a collector needs."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from cosim.contract import errors

MOST = 1024  # endpoints
LISTEN = "COSIM_METRICS"  # variable, HOST:PORT: where endpoints are when the scenario names no place


def chosen(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Those of `names` that one of `patterns` (with *) fits, in their order."""
    return [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def ports(nodes: Sequence[str], first: int) -> dict[str, int]:
    """A port of each node's own: `first` and those after it, 0 for all when it is 0. ValueError: too many nodes."""
    if len(nodes) > MOST or first + len(nodes) > 65_535:
        raise ValueError(f"{len(nodes)} nodes are too many for endpoints of their own")
    return {node: first and first + k for k, node in enumerate(nodes)}


def lacking(url: str) -> str:
    """Why nothing can be sent to a collector at `url`, with a remedy; "" when it can."""
    names = ("grpc", "opentelemetry.proto") if url.startswith("grpc") else ()
    return next(filter(None, (errors.lacking(name, "otlp") for name in names)), "")
