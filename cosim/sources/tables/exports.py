"""Exports of monitoring systems as columns: what Prometheus, OpenTelemetry collectors and k6 write to files.

Prometheus: the JSON answer of `/api/v1/query_range` and `/api/v1/query`, and its text exposition format
with times. OpenTelemetry: OTLP in JSON, metrics and spans, one document or one per line (as the
collector's file exporter writes them). k6: `--out csv`. A row is one value of one metric of one source; cells of the
other metrics are empty.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = dict[str, Any]
_NODE = ("node", "node_name", "host.name", "service.instance.id", "hostname", "instance", "service.name", "pod", "job")
_K6 = "metric_name,timestamp,metric_value,"
_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+))?$")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


def is_export(text: str) -> bool:
    """Whether a text is one of these, and no table."""
    begin = text.lstrip()[:400]
    return begin.startswith(("{", "# HELP", "# TYPE", _K6)) or _sample(begin.split("\n")[0])


def _sample(line: str) -> bool:
    """Whether a line is one of Prometheus' text format, and not a header such as "SINR [dB],jammed"."""
    found = _LINE.match(line)
    if found is None:
        return False
    try:
        float(found[3])
    except ValueError:
        return False
    return True


def columns(text: str) -> dict[str, NDArray[Any]]:
    """Columns `time` (s since 1970), `node`, one per metric, and one per label. Raises `ValueError`."""
    begin = text.lstrip()[:400]
    read = _json if begin.startswith("{") else _k6 if begin.startswith(_K6) else _exposition
    rows = list(read(text))
    if not rows:
        raise ValueError("the export holds no values")
    names = list(dict.fromkeys(name for row in rows for name in row))
    found: dict[str, NDArray[Any]] = {}
    for name in names:
        cells = [row.get(name) for row in rows]
        numbers = all(cell is None or isinstance(cell, float) for cell in cells)
        found[name] = (
            np.array([np.nan if cell is None else cell for cell in cells], np.float64)
            if numbers
            else np.array(["" if cell is None else str(cell) for cell in cells], dtype=str)
        )
    return found


def _json(text: str) -> Iterator[Row]:
    try:
        documents = [json.loads(text)]
    except ValueError:
        documents = [json.loads(line) for line in text.splitlines() if line.strip()]
    for document in documents:
        if not isinstance(document, dict):
            raise ValueError("it is no export of Prometheus or OpenTelemetry")
        if "data" in document and "status" in document:
            if document["status"] != "success":
                raise ValueError(f"the query failed: {document.get('error', document['status'])}")
            yield from _prometheus(document["data"])
        elif "resourceMetrics" in document or "resourceSpans" in document:
            yield from _otlp(document)
        else:
            hint = "data of a query_range, resourceMetrics or resourceSpans"
            raise ValueError(f"it is no export of Prometheus or OpenTelemetry: it has no {hint}")


def _prometheus(data: Mapping[str, Any]) -> Iterator[Row]:
    for series in data.get("result", ()):
        labels = dict(series.get("metric", {}))
        name = labels.pop("__name__", "value")
        values = series["values"] if "values" in series else [series["value"]]
        for time, value in values:
            yield {"time": float(time), "node": _node(labels), name: float(value), **_others(labels, name)}


def _exposition(text: str) -> Iterator[Row]:
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"'{line[:60]}' is no line of Prometheus' text format")
        name, pairs, value, time = found.groups()
        labels = dict(_LABEL.findall(pairs or ""))
        stamp = float(time) / 1000.0 if time else float("nan")
        yield {"time": stamp, "node": _node(labels), name: float(value), **_others(labels, name)}


def _k6(text: str) -> Iterator[Row]:
    for row in csv.DictReader(text.lstrip().splitlines()):
        name, at, value = (row.pop(key) for key in ("metric_name", "timestamp", "metric_value"))
        yield {"time": float(at), "node": "", name: float(value), **_others(row, name)}


def _otlp(document: Mapping[str, Any]) -> Iterator[Row]:
    for resource in document.get("resourceMetrics", ()):
        own = _attributes(resource.get("resource", {}))
        for scope in resource.get("scopeMetrics", ()):
            for metric in scope.get("metrics", ()):
                for point in (metric.get("gauge") or metric.get("sum") or {}).get("dataPoints", ()):
                    labels = {**own, **_attributes(point)}
                    value = point.get("asDouble", point.get("asInt"))
                    if value is not None:
                        time = int(point["timeUnixNano"]) * 1e-9
                        name = metric["name"]
                        yield {"time": time, "node": _node(labels), name: float(value), **_others(labels, name)}
    for resource in document.get("resourceSpans", ()):
        own = _attributes(resource.get("resource", {}))
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                labels = {**own, **_attributes(span)}
                begin, end = (int(span[key]) * 1e-9 for key in ("startTimeUnixNano", "endTimeUnixNano"))
                taken = (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) * 1e-9
                row = {"time": begin, "end": end, "duration": taken, "name": str(span.get("name", ""))}
                yield {**row, "node": _node(labels), **_others(labels, *row)}


def _attributes(part: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for one in part.get("attributes", ()):
        value = one.get("value", {})
        found[str(one["key"])] = str(next(iter(value.values()), ""))
    return found


def _node(labels: Mapping[str, str]) -> str:
    """Who sent it; of an address the part before the port."""
    for name in _NODE:
        if labels.get(name):
            return labels[name].rsplit(":", 1)[0] if name == "instance" else labels[name]
    return ""


def _others(labels: Mapping[str, str], *taken: str) -> dict[str, str]:
    return {name: text for name, text in labels.items() if name not in ("time", "node", *taken)}
