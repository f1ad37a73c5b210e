"""Jobs of GPU clusters: Philly, Helios and Alibaba's cluster for scheduling with fractions of GPUs.

- `philly`: Microsoft's trace (Jeon et al., USENIX ATC 2019), as `cluster_job_log` (JSON) or as a table
  with `timestamp`, `duration`, `num_gpus`
- `helios`: SenseTime's `cluster_log.csv` (Hu et al., SC 2021)
- `alibaba`: pods of cluster-trace-gpu-v2023 (Weng et al., USENIX ATC 2023), with thousandths of a GPU
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from cosim.contract.delimited import fault, header, line_of, opened
from cosim.contract.reading.columns import NOTHING, date_of
from cosim.contract.records import Floats
from cosim.extensions.traces.model import TaskTrace
from cosim.extensions.traces.table import LATEST, TraceColumn, blocks

_MOST: Final = 1e6  # GPUs of a job
_TWICE: Final = "{} jobs have the id of one before: they are left out"
SOURCES: Final = ("philly", "helios", "alibaba")


def read(source: str, path: Path, *, jobs: int | None = None) -> TaskTrace:
    """Jobs with GPUs, at most `jobs`, the first ones; `extra` has `gpus` and `gpu_milli`. Raises `ScenarioError`."""
    left_out: list[str] = []
    readers: Mapping[str, Callable[[Path], tuple[Floats, Floats, Floats, Floats]]] = {
        "philly": partial(_philly, left_out), "alibaba": partial(_alibaba, left_out),
        "helios": partial(_whole_gpus, left_out, at="submit_time", count="gpu_num", who="job_id"),
    }  # fmt: skip
    submitted, duration, gpus, milli = readers[source](path)
    reasons = {
        "have no time of submission": ~np.isfinite(submitted),
        "have no GPU": ~(gpus >= 1.0),
        "never ran from a start to a later end": ~(duration > 0.0),
    }
    known = np.ones(len(gpus), np.bool_)
    for reason, without in reasons.items():
        if count := int((known & without).sum()):
            left_out.append(f"{count} of {len(gpus)} jobs {reason}: they are left out")
        known &= ~without
    if not known.any():
        raise fault(path, "holds no job with a GPU and a duration")
    submitted, duration, gpus, milli = (column[known] for column in (submitted, duration, gpus, milli))
    parts = gpus != np.floor(gpus)
    if parts.any():
        raise fault(path, f"has a job of {gpus[np.argmax(parts)]:g} GPUs; GPUs are whole numbers")
    order = np.argsort(submitted, kind="stable")[:jobs]
    unknown = np.full(len(order), np.nan)
    return TaskTrace(
        submitted[order] - submitted[order[0]], duration[order], unknown, unknown, unknown,
        start=float(submitted[order[0]]), extra={"gpus": gpus[order], "gpu_milli": milli[order]},
        left_out=tuple(left_out),
    )  # fmt: skip


def _times(path: Path, words: list[str], index: Any, first: int) -> Floats:  # noqa: ANN401 - an array of indices
    """s since 1970 of `2017-09-04 10:30:41`, without a zone taken as UTC; NaN for the publishers' words for no time."""
    found = np.empty(len(words))
    for i, word in enumerate(words):
        try:
            found[i] = _time(word)
        except ValueError:
            row = first + int(np.argmax(np.asarray(index) == i))
            raise fault(
                path, f"'{word[:40]}' is no time", line=line_of(path, row, 1), hint="2017-09-04 10:30:41"
            ) from None
    return np.asarray(found[index])


def _time(word: str | None) -> float:
    """s since 1970; NaN for null, '' and 'None', as in the publishers' own notebook. Raises `ValueError`."""
    if str(word or "").strip().lower() in NOTHING:
        return float("nan")
    date = date_of(str(word))
    if date is None:
        raise ValueError(f"'{word}' is no time")
    return date.replace(tzinfo=date.tzinfo or UTC).timestamp()


def _columns(parts: Sequence[tuple[Any, ...]]) -> tuple[Floats, ...]:
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def _philly(left_out: list[str], path: Path) -> tuple[Floats, Floats, Floats, Floats]:
    with opened(path) as file:
        if file.read(1) in (b"[", b"{"):
            return _philly_log(path, left_out)
    return _whole_gpus(left_out, path, "timestamp", "num_gpus")


def _once(parts: Sequence[tuple[Any, ...]], names: list[str], left_out: list[str]) -> tuple[Floats, ...]:
    """The columns without the rows whose name (none: they have none) one before has."""
    columns = _columns(parts)
    if not names:
        return columns
    first = np.sort(np.unique(names, return_index=True)[1])
    if twice := len(names) - len(first):
        left_out.append(_TWICE.format(twice))
    return tuple(column[first] for column in columns)


def _names(path: Path, who: str) -> tuple[TraceColumn, ...]:
    """The column of names, where the table has it."""
    return (TraceColumn(who, "text"),) if who in header(path) else ()


def _whole_gpus(
    left_out: list[str], path: Path, at: str, count: str, who: str = ""
) -> tuple[Floats, Floats, Floats, Floats]:
    """Jobs of a table with their submission in the column `at` and their GPUs in `count`."""
    wanted = (
        TraceColumn(at, "text"), TraceColumn("duration", optional=True, at_least=0.0),
        TraceColumn(count, optional=True, at_least=0.0, at_most=_MOST), *_names(path, who),
    )  # fmt: skip
    parts, names = [], list[str]()
    for block in blocks(path, wanted):
        times = _times(path, block.words[at], block.columns[at], block.first)
        parts.append((times, block.columns["duration"], block.columns[count]))
        names += [block.words[who][k] for k in block.columns[who]] if who in block.words else []
    submitted, duration, gpus = _once(parts, names, left_out)
    return submitted, duration, gpus, np.full(len(gpus), 1000.0)


def _philly_log(path: Path, left_out: list[str]) -> tuple[Floats, Floats, Floats, Floats]:
    """The published log: a job's attempts one after the other are its run time, the GPUs those of the largest."""
    try:
        with opened(path) as file:
            listed = json.load(file)
    except (ValueError, EOFError) as error:
        raise fault(path, f"is not JSON: {error}") from None
    rows, without, twice, seen = [], 0, 0, set[str]()
    for number, job in enumerate(listed):
        try:
            if (name := str(job.get("jobid") or "")) in seen:
                twice += 1
                continue
            seen |= {name} - {""}
            spent, gpus = 0.0, 0
            for attempt in job["attempts"]:
                took = _time(attempt.get("end_time")) - _time(attempt.get("start_time"))
                spent += took if took > 0.0 else 0.0
                without += not took >= 0.0
                gpus = max(gpus, sum(len(detail["gpus"]) for detail in attempt["detail"]))
            at = _time(job["submitted_time"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise fault(path, f"job {number} is not as in the published log: {type(error).__name__} {error}") from None
        rows.append((at, spent, float(gpus), 1000.0))
    if not rows:
        raise fault(path, "has no jobs")
    if without:
        left_out.append(f"{without} attempts have no start and later end: they count as no time")
    if twice:
        left_out.append(_TWICE.format(twice))
    submitted, duration, gpus, milli = np.array(rows).T
    return submitted, duration, gpus, milli


def _alibaba(left_out: list[str], path: Path) -> tuple[Floats, Floats, Floats, Floats]:
    wanted = [
        TraceColumn("num_gpu", at_least=0.0, at_most=_MOST), TraceColumn("gpu_milli", at_least=0.0, at_most=1000.0),
        TraceColumn("creation_time", at_least=0.0, at_most=LATEST),
        TraceColumn("deletion_time", optional=True, at_least=0.0), *_names(path, "name"),
    ]  # fmt: skip
    scheduled = "scheduled_time" in header(path)
    if scheduled:
        wanted.append(TraceColumn("scheduled_time", optional=True, at_least=0.0))
    parts, names = [], list[str]()
    for block in blocks(path, wanted):
        names += [block.words["name"][k] for k in block.columns["name"]] if "name" in block.words else []
        begun = block.columns["scheduled_time"] if scheduled else block.columns["creation_time"]
        begun = np.where(np.isnan(begun), block.columns["creation_time"], begun)
        gpus = block.columns["num_gpu"]
        milli = np.where((gpus == 1.0) & (block.columns["gpu_milli"] > 0.0), block.columns["gpu_milli"], 1000.0)
        parts.append((block.columns["creation_time"], block.columns["deletion_time"] - begun, gpus, milli))
    created, duration, gpus, milli = _once(parts, names, left_out)
    return created, np.nan_to_num(duration, nan=-1.0), gpus, milli
