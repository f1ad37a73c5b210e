"""Measure a service on the machine at hand under a few loads.

    found = measure(Path("here"))                                          # the inference service
    found = measure(Path("here"), url="http://127.0.0.1:8080/detect")      # one of your own

Requests arrive at random, whether or not earlier ones have been answered, at rates that use the given shares
of what the service was seen to do with several requests under way. Without `url` the service of
`cosim.testbed.inference` is started in a process of its own, with one worker. The folder gets a table per load
(`load-30.csv`, ...), of which `cosim.twin.scenario.requests` makes a scenario with the last load held back.

Every load is measured in two blocks, all loads forth and then back, so that a machine that becomes slower
with time does so for all of them alike. The loads held back are asked twice, with the same requests at the same
times: what lies between the two recordings no prediction can know. Blocks that other programs
disturbed are measured again; where most are, measuring is refused (`cosim.testbed.measuring.disturbance`).
"""

from __future__ import annotations

import asyncio
import csv
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from cosim.contract.errors import Problem, RunError, ScenarioError
from cosim.testbed.measuring.disturbance import Disturbance, MachineWatch
from cosim.testbed.measuring.open_load import Answered, Caller, LoadRequest, PageCaller, poisson

_START = 60.0  # s that the service may take to answer
_ALONE = 40  # requests that wait for nothing, and of a load at least
_CLOSED, _TOGETHER = 4.0, 4  # s of requests of which so many are always under way
_BLOCKS = 2  # of a load
_BETWEEN = 0.5  # s between two blocks of a table
_AGAIN = "-again"  # of the second recording of a load


@dataclass(frozen=True, slots=True)
class Measurement:
    """Where the recordings are, and what was asked."""

    tables: tuple[Path, ...]  # of each load
    loads: tuple[float, ...]
    rates: tuple[float, ...]  # Hz
    service: float  # s of a request alone, the median
    means: tuple[float, ...]  # s, measured mean response under each load
    again: tuple[Recorded, ...] = ()  # of the loads held back, from a second recording of the same requests
    disturbances: tuple[Disturbance, ...] = ()  # of each block of the loads that was kept
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recorded:
    """The response under one load."""

    load: float
    mean: float  # s
    p95: float  # s


@contextmanager
def service(capacity: int = 2000) -> Iterator[int]:
    """The port of a service of one worker on this machine, ended with the block. Raises `RunError`."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    command = [sys.executable, "-m", "cosim.testbed.inference", "--port", str(port), "--concurrency", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--capacity", str(capacity)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        limit = time.monotonic() + _START
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None or time.monotonic() > limit:
                said = process.stderr.read().decode()[-400:] if process.poll() is not None and process.stderr else ""
                raise RunError(f"the inference service did not start: {said or 'no answer'} (needs starlette, uvicorn)")
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


def measure(
    folder: Path,
    *,
    url: str | None = None,
    loads: Sequence[float] = (0.3, 0.55, 0.8),
    held_back: int = 1,
    seconds: float = 20.0,
    kernel: str = "blur",
    size: int = 768,
    seed: int = 1,
    busy: bool = False,
) -> Measurement:
    """Record the loads into `folder`, `seconds` each.

    The last `held_back` loads are for the judgement and measured twice. `busy` measures although other programs
    use the machine. Raises `RunError` for a service that does not answer and for a machine that is busy,
    `ScenarioError` for a `url` that is none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"load-{round(100 * load)}" for load in loads]
    with _asked(url) as make:
        alone = asyncio.run(_closed(make, [LoadRequest(0.0, kernel, size)] * (_ALONE + 5), 1))
        lone = float(np.median([a.ended - a.request.time for a in alone[5:]]))
        count = max(_ALONE, int(_CLOSED / max(lone, 1e-4)))
        together = asyncio.run(_closed(make, [LoadRequest(0.0, kernel, size)] * min(count, 4000), _TOGETHER))
        began = min(a.request.time for a in together)
        capacity = len(together) / (max(a.ended for a in together) - began)
        rates = tuple(load * capacity for load in loads)
        # The loads, then those held back once more: the same requests.
        which = [*range(len(loads)), *range(len(loads) - held_back, len(loads))]
        slots = [(place, block) for block in range(_BLOCKS) for place in range(len(which))[:: -1 if block % 2 else 1]]
        asked = {
            (place, block): poisson(rates[k], seconds / _BLOCKS, [(kernel, size)], (seed, k, block))
            for place, k in enumerate(which)
            for block in range(_BLOCKS)
        }
        kept = _recorded(make, slots, asked, lone, busy=busy)
    tables = [_joined([kept[place, block][0] for block in range(_BLOCKS)], seconds) for place in range(len(which))]
    good = [np.array([a.ended - a.request.time for a in answers]) for answers in tables]
    if any(len(one) < _ALONE for one in good):
        raise RunError(f"fewer than {_ALONE} requests of a load were answered; give more time, or a smaller size")
    for place, (k, answers) in enumerate(zip(which, tables, strict=True)):
        _write(folder / f"{names[k]}{_AGAIN if place >= len(loads) else ''}.csv", answers)
    reported = [
        Recorded(loads[k], float(one.mean()), float(np.quantile(one, 0.95))) for k, one in zip(which, good, strict=True)
    ]
    means = tuple(one.mean for one in reported[: len(loads)])
    disturbances = tuple(kept[slot][1] for slot in slots)
    warnings = tuple(f"a block was disturbed: {one}" for one in disturbances if one.disturbed)
    again = tuple(reported[len(loads) :])
    paths = tuple(folder / f"{name}.csv" for name in names)
    return Measurement(paths, tuple(loads), rates, lone, means, again, disturbances, warnings)


Block = tuple[list[Answered], Disturbance]


def _recorded(
    make: Callable[[], Caller],
    slots: Sequence[tuple[int, int]],
    asked: Mapping[tuple[int, int], Sequence[LoadRequest]],
    lone: float,
    *,
    busy: bool,
) -> dict[tuple[int, int], Block]:
    """The answers to each block, disturbed ones measured again at the end. Raises `RunError` for a busy machine.

    Where it is `busy` as it was before, measuring again would help nothing.
    """
    kept: dict[tuple[int, int], Block] = {}
    late: list[tuple[int, int]] = []
    most = len(slots) // 2

    def record(slot: tuple[int, int]) -> Block:
        caller = make()
        watch = MachineWatch(caller.port_here)
        answers = asyncio.run(_opened(caller, asked[slot]))
        behind = float(np.mean([a.assigned - a.request.time for a in answers])) if answers else 0.0
        return [a for a in answers if a.status == 200], watch.total(len(answers), behind, lone)

    for slot in slots:
        kept[slot] = record(slot)
        if kept[slot][1].disturbed:
            late.append(slot)
        if len(late) > most and not busy:
            worst = max((kept[slot][1] for slot in late), key=lambda one: one.severity)
            raise RunError(
                f"the machine is busy: {worst}. What is measured now does not hold later: the same requests would take "
                "other times again. End the other programs, measure from a machine of its own, or take it as it is "
                "with --busy"
            )
    for slot in late if len(late) <= most else ():
        found = record(slot)
        if found[1].severity < kept[slot][1].severity:
            kept[slot] = found
    return kept


def _joined(blocks: Sequence[Sequence[Answered]], seconds: float) -> list[Answered]:
    """The answers of all blocks, one block after the other, each beginning when the one before has ended."""
    found: list[Answered] = []
    for k, answers in enumerate(blocks):
        ended = max((a.ended for a in found), default=0.0)
        start = max(k * seconds / len(blocks), ended + _BETWEEN) if k else 0.0
        found += [
            replace(
                a,
                request=replace(a.request, time=a.request.time + start),
                **{name: getattr(a, name) + start for name in ("assigned", "uploaded", "started", "computed", "ended")},
            )
            for a in answers
        ]
    return found


@contextmanager
def _asked(url: str | None) -> Iterator[Callable[[], Caller]]:
    """What makes a caller of the service."""
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ScenarioError(
                Problem(f"'{url}' is no address that can be asked", "url", hint="http://HOST:PORT/PATH")
            )
        host, port, path = (
            parts.hostname,
            parts.port or 80,
            (parts.path or "/") + (f"?{parts.query}" * bool(parts.query)),
        )
        yield lambda: PageCaller(host, port, path)
        return
    with service() as port:
        yield lambda: Caller("127.0.0.1", port)


async def _opened(caller: Caller, requests: Sequence[LoadRequest]) -> list[Answered]:
    """The answers to the requests, each sent at its time; connections end with the loop that they belong to."""
    try:
        _, answers = await caller.open_loop(requests)
    finally:
        caller.close()
    return answers


async def _closed(make: Callable[[], Caller], requests: Sequence[LoadRequest], together: int) -> list[Answered]:
    """The answers when so many requests are always under way. Raises `RunError` when half of them fail."""
    caller = make()
    _, answers = await caller.closed_loop(requests, together)
    caller.close()
    good = [a for a in answers if a.status == 200]
    if len(good) < 0.5 * len(requests):
        said = ", ".join(sorted({str(a.status or "no answer") for a in answers if a.status != 200}))
        raise RunError(f"the service answered {len(good)} of {len(requests)} requests with 200; else {said}")
    return good


def _write(path: Path, answers: Sequence[Answered]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["created", "started", "computed", "ended", "status"])
        for a in answers:
            if a.status == 200:
                # From when the request was due: what the sender was late by is waiting too.
                times = (a.request.time, a.started, a.computed, a.ended)
                out.writerow([*("" if math.isnan(t) else f"{t:.6f}" for t in times), a.status])
