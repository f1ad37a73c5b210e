"""Metrics of nodes in the words of others: Prometheus' text and OTLP's JSON, from the columns of signals.

A column becomes one metric, SIGNAL_COLUMN with the unit at its end: `host_power_watts`,
`host_energy_joules_total`. Codes become labels (`machine_state{state="on"} 1`), columns that name other nodes are
left out, and so is NaN.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from cosim.contract.signals import Column, Signal

UNITS: Mapping[str, str] = {
    "": "", "1": "", "s": "seconds", "B": "bytes", "W": "watts", "J": "joules", "m": "meters",
    "m/s": "meters_per_second", "deg": "degrees", "degC": "celsius", "dBm": "dbm", "dB": "decibels",
    "bit/s": "bits_per_second", "Hz": "hertz", "V": "volts", "A": "amperes", "cycles": "cycles",
}  # fmt: skip
NODE_LOAD = "node_load1"  # by which node_exporter, and policies made for it, know the load of a node
_MINUTE = 60.0  # s
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one metric of one node."""

    name: str
    value: float
    kind: Literal["gauge", "counter"] = "gauge"
    labels: tuple[tuple[str, str], ...] = ()
    meaning: str = ""
    unit: str = ""


@cache
def metric(signal: str, column: Column) -> str:
    """The name of a column's metric."""
    unit = UNITS.get(column.unit, re.sub(r"[^a-z0-9]+", "_", column.unit.lower()).strip("_"))
    parts = [signal, column.name, *([unit] if unit else []), *(["total"] if column.role == "counter" else [])]
    return re.sub(r"[^a-zA-Z0-9_]", "_", "_".join(parts))


def samples(signal: Signal, row: Mapping[str, Any]) -> list[Sample]:
    """The metrics of one row of a signal."""
    found = []
    for column in signal.columns:
        value = float(row[column.name])
        if column.role == "slot" or column.codes == "workloads" or math.isnan(value):
            continue
        if column.role == "code":
            words = column.codes
            if 0 <= int(value) < len(words):
                labels = ((column.name, words[int(value)]),)
                found.append(Sample(f"{signal.name}_{column.name}", 1.0, "gauge", labels, column.meaning))
            continue
        kind: Literal["gauge", "counter"] = "counter" if column.role == "counter" else "gauge"
        found.append(Sample(metric(signal.name, column), value, kind, (), column.meaning, column.unit))
    return found


def load_average(before: float, running: float, passed: float) -> float:
    """The load of the last minute as node_exporter has it: a mean of running tasks that fades with it.

    `before` is what it was `passed` s ago, `running` the tasks since.
    """
    keep = math.exp(-passed / _MINUTE)
    return before * keep + running * (1 - keep)


def prometheus(found: Iterable[Sample], labels: Mapping[str, str]) -> bytes:
    """Prometheus' text exposition format 0.0.4; `labels` are on every sample."""
    lines, named = [], set[str]()
    for sample in sorted(found, key=lambda sample: sample.name):
        if sample.name not in named:
            named.add(sample.name)
            if sample.meaning:
                lines.append(f"# HELP {sample.name} {_escaped(sample.meaning, quotes=False)}")
            lines.append(f"# TYPE {sample.name} {sample.kind}")
        pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in (*labels.items(), *sample.labels))
        lines.append(f"{sample.name}{{{pairs}}} {_number(sample.value)}")
    return ("\n".join(lines) + "\n").encode()


def otlp(
    nodes: Mapping[str, Sequence[Sample]], service: str, now: int, started: int, version: str = ""
) -> dict[str, Any]:
    """The body of an OTLP/HTTP request to /v1/metrics in JSON (OTLP 1.x): one resource per node.

    `now` and `started` are ns of the wall clock. Counters become cumulative sums, all else gauges.
    """
    return {"resourceMetrics": [
        {
            "resource": {"attributes": _attributes(resource(service, node))},
            "scopeMetrics": [{
                "scope": {"name": "continuum-cosim", "version": version},
                "metrics": [_metric(sample, now, started) for sample in found if math.isfinite(sample.value)],
            }],
        }
        for node, found in nodes.items()
    ]}  # fmt: skip


def resource(service: str, node: str) -> dict[str, str]:
    """The attributes by which MLSysOps distinguishes sources."""
    return {"service.name": service, "service.instance.id": node, "service.hostname": node, "node_name": node}


def _metric(sample: Sample, now: int, started: int) -> dict[str, Any]:
    point = {"attributes": _attributes(dict(sample.labels)), "timeUnixNano": str(now), "asDouble": sample.value}
    head = {"name": sample.name, "description": sample.meaning, "unit": sample.unit}
    if sample.kind == "counter":
        points = [{**point, "startTimeUnixNano": str(started)}]
        return {**head, "sum": {"dataPoints": points, "aggregationTemporality": 2, "isMonotonic": True}}
    return {**head, "gauge": {"dataPoints": [point]}}


def _attributes(pairs: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in pairs.items()]


def _escaped(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
