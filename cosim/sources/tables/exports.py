"""Exports of monitoring systems as columns: what Prometheus, OpenTelemetry collectors and k6 write to files.

Prometheus: the JSON answer of `/api/v1/query_range` and `/api/v1/query`, and its text exposition format
with times (ms; s in OpenMetrics). OpenTelemetry: OTLP in JSON, metrics and spans, one document, a list or one
per line (as the file exporter writes them). k6: `--out csv`. A row is one value of one metric of one source;
cells of the other metrics are empty. Histograms and summaries are no single values: they are left out, and counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosim.contract.delimited import records
from cosim.contract.reading.columns import numbers, stamps

Row = dict[str, Any]
_NODE = ("node", "node_name", "host.name", "service.instance.id", "hostname", "instance", "service.name", "pod", "job")
_K6 = "metric_name,timestamp,metric_value,"
# Units of UCUM, as OpenTelemetry's conventions have them, whose words here are others.
_UCUM = {"By": "B", "kBy": "kB", "KiBy": "KiB", "MBy": "MB", "MiBy": "MiB", "GBy": "GB", "GiBy": "GiB", "1": ""}
_EARLIEST = 1e8  # s since 1970, before there was any telemetry to export
_CLOCK = 5e-4  # s, half of what JMeter's times are rounded to
_LINE = re.compile(
    r'([A-Za-z_:][A-Za-z0-9_:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s+(\S+)'
    r"(?:\s+(-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))?(?:\s+#.*)?$"
)
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


def is_export(text: str) -> bool:
    """Whether a text is one of these, and no table."""
    begin = text.lstrip()[:400]
    return begin.startswith(("{", "[", "# HELP", "# TYPE", "# UNIT", _K6)) or _sample(begin.split("\n")[0])


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


class ExportedColumns(NamedTuple):
    """What an export holds."""

    columns: dict[str, NDArray[Any]]  # `time` (s since 1970), `node`, one per metric, and one per label
    left_out: tuple[str, ...]  # how much, and the reason
    units: dict[str, str]  # of metrics, as far as the export names them


def columns(text: str) -> ExportedColumns:
    """The columns of an export. Raises `ValueError`, also for one metric in two units."""
    begin = text.lstrip()[:400]
    read = _json if begin.startswith(("{", "[")) else _k6 if begin.startswith(_K6) else _exposition
    lost, units = Counter[str](), dict[str, str]()
    try:
        rows = list(read(text, lost, units))
        _count_falls(rows, lost)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"the export is not as its program writes it: {type(error).__name__} {error}") from None
    left_out = tuple(f"{count} {what}" for what, count in lost.items())
    if not rows:
        raise ValueError(f"the export holds no values{' that can be taken: ' * bool(lost)}{'; '.join(left_out)}")
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
    return ExportedColumns(found, left_out, {name: unit for name, unit in units.items() if unit})


def _count_falls(rows: list[Row], lost: Counter[str]) -> None:
    """Note where a counter of a series falls: its program began again, and so did the counter."""
    before: dict[tuple[Any, ...], float] = {}
    for row in rows:
        counted = next((name for name in row if name.endswith("_total")), None)
        if counted is not None:
            series = (counted, *((name, value) for name, value in row.items() if name not in ("time", counted)))
            if row[counted] < before.get(series, row[counted]):
                lost[f"falls of '{counted}', whose counter began again: its values are totals since then"] += 1
            before[series] = row[counted]


def _json(text: str, lost: Counter[str], units: dict[str, str]) -> Iterator[Row]:
    try:
        documents = [json.loads(text)]
    except ValueError:
        documents = [json.loads(line) for line in text.splitlines() if line.strip()]
    for document in documents[0] if len(documents) == 1 and isinstance(documents[0], list) else documents:
        if not isinstance(document, dict):
            raise ValueError("it is no export of Prometheus or OpenTelemetry")
        if "data" in document and "status" in document:
            if document["status"] != "success":
                raise ValueError(f"the query failed: {document.get('error', document['status'])}")
            yield from _prometheus(document["data"], lost)
        elif "resourceMetrics" in document or "resourceSpans" in document:
            yield from _otlp(document, lost, units)
        else:
            hint = "data of a query_range, resourceMetrics or resourceSpans"
            raise ValueError(f"it is no export of Prometheus or OpenTelemetry: it has no {hint}")


def _prometheus(data: Mapping[str, Any], lost: Counter[str]) -> Iterator[Row]:
    found = data.get("result") or ()
    if data.get("resultType") in ("scalar", "string"):
        found = [{"value": found}]
    for series in found:
        labels = dict(series.get("metric") or {})
        name = labels.pop("__name__", "value")
        values = series.get("values") or ([series["value"]] if "value" in series else [])
        if series.get("histograms") or series.get("histogram"):
            lost[f"series of native histograms ({name}) are left out"] += 1
        elif not values:
            lost[f"series without values ({name}) are left out"] += 1
        for time, value in values:
            yield {"time": float(time), "node": _node(labels), name: float(value), **_others(labels, name)}


def _exposition(text: str, _lost: Counter[str], _units: dict[str, str]) -> Iterator[Row]:
    unit = 1.0 if text.rstrip().endswith("# EOF") else 1e-3  # OpenMetrics
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"'{line[:60]}' is no line of Prometheus' text format")
        name, pairs, value, time = found.groups()
        labels = dict(_LABEL.findall(pairs or ""))
        stamp = float(time) * unit if time else float("nan")
        yield {"time": stamp, "node": _node(labels), name: float(value), **_others(labels, name)}


def _k6(text: str, lost: Counter[str], _units: dict[str, str]) -> Iterator[Row]:
    (_, names), *rows = records(text, mark=",")
    longest = max((len(cells) for _, cells in rows), default=0)
    if longest > len(names):
        raise ValueError(f"a row has {longest} cells, and there are {len(names)} columns")
    if short := sum(len(cells) < len(names) for _, cells in rows):
        lost["rows with fewer cells than the header, whose last ones are taken as empty"] = short
    times = stamps(np.array([cells[1] for _, cells in rows], dtype=str), "timestamp").seconds
    for time, (_, cells) in zip(times, rows, strict=True):
        row = dict(zip_longest(names, cells, fillvalue=""))
        name, _, value = (row.pop(key) for key in ("metric_name", "timestamp", "metric_value"))
        yield {"time": float(time), "node": "", name: float(value), **_others(row, name)}


def _otlp(document: Mapping[str, Any], lost: Counter[str], units: dict[str, str]) -> Iterator[Row]:
    for resource in document.get("resourceMetrics") or ():
        own = _attributes(resource.get("resource"))
        for metric in _all(resource, "scopeMetrics", "metrics"):
            name = metric["name"]
            said = re.sub(r"\{.*\}", "", str(metric.get("unit") or "")).strip()  # annotations are no units
            unit = _UCUM.get(said, said)
            if units.setdefault(name, unit) != unit:
                raise ValueError(f"'{name}' is in '{units[name]}' and in '{unit}': export one of both")
            for kind in ("histogram", "exponentialHistogram", "summary"):
                if kind in metric:
                    lost[f"points of {kind} '{name}' are left out"] += len(_all(metric, kind, "dataPoints"))
            for point in [*_all(metric, "gauge", "dataPoints"), *_all(metric, "sum", "dataPoints")]:
                labels = {**own, **_attributes(point)}
                value = point.get("asDouble", point.get("asInt"))
                if value is None or not int(point.get("timeUnixNano") or 0):
                    lost[
                        f"points of '{name}' without {'a value' if value is None else 'timeUnixNano'} are left out"
                    ] += 1
                    continue
                time = int(point["timeUnixNano"]) * 1e-9
                if time < _EARLIEST:
                    raise ValueError(
                        f"timeUnixNano of '{name}' is {point['timeUnixNano']}, which is not in ns since 1970"
                    )
                yield {"time": time, "node": _node(labels), name: float(value), **_others(labels, name)}
    for resource in document.get("resourceSpans") or ():
        own = _attributes(resource.get("resource"))
        for span in _all(resource, "scopeSpans", "spans"):
            begin, end = (int(span.get(key) or 0) for key in ("startTimeUnixNano", "endTimeUnixNano"))
            if not 0 < begin <= end:
                lost["spans without a start and a later end are left out"] += 1
                continue
            labels = {**own, **_attributes(span)}
            row: Row = {"time": begin * 1e-9, "end": end * 1e-9, "duration": (end - begin) * 1e-9}
            row |= {"name": str(span.get("name", "")), "node": _node(labels)}
            yield {**row, **_others(labels, *row)}


def _all(part: Mapping[str, Any], key: str, inner: str) -> list[Any]:
    """What all objects under `key` hold under `inner`; optional fields may be missing."""
    outer = part.get(key) or ()
    return [one for each in (outer if isinstance(outer, list) else [outer]) if each for one in each.get(inner) or ()]


def _attributes(part: Mapping[str, Any] | None) -> dict[str, str]:
    given = [(one.get("key", ""), one.get("value") or {}) for one in (part or {}).get("attributes") or ()]
    return {str(key): str(next(iter(value.values()), "")) for key, value in given}


def without_sums(columns: dict[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], tuple[str, ...]]:
    """A table of JMeter without the rows that are sums of others, as transaction controllers write them; other tables
    as they are. Raises `ScenarioError` for one without times.

    A thread of JMeter does one thing at a time, so a row that holds others of its thread is their sum.
    """
    if not {"timeStamp", "elapsed", "label"} <= columns.keys():
        return columns, ()
    message = columns.get("responseMessage", columns["label"])
    sums = np.array([str(cell).startswith("Number of samples in transaction") for cell in message], np.bool_)
    if "threadName" in columns:
        begin = stamps(columns["timeStamp"], "timeStamp", "ms").seconds
        took = numbers(columns["elapsed"]).values * 1e-3
        threads = [
            np.unique(columns[key], return_inverse=True)[1] for key in ("threadName", "Hostname") if key in columns
        ]
        order = np.lexsort((-np.arange(len(begin)), -took, begin, *threads))
        end = begin + took
        here, after = order[:-1], order[1:]
        inside = (begin[after] < end[here] - _CLOCK) & (end[after] < end[here] + _CLOCK)
        for thread in threads:
            inside &= thread[here] == thread[after]
        sums[here[inside]] = True
    if not sums.any():
        return columns, ()
    labels = ", ".join(f"'{label}'" for label in np.unique(columns["label"][sums])[:4])
    left_out = f"{int(sums.sum())} rows that are sums of others (transactions {labels}) are left out"
    return {name: cells[~sums] for name, cells in columns.items()}, (left_out,)


def _node(labels: Mapping[str, str]) -> str:
    """Who sent it; of an address the part before the port."""
    for name in _NODE:
        if labels.get(name):
            return labels[name].rsplit(":", 1)[0] if name == "instance" else labels[name]
    return ""


def _others(labels: Mapping[str, str], *taken: str) -> dict[str, str]:
    return {name: text for name, text in labels.items() if name not in ("time", "node", *taken)}
