"""Measure a service on the machine at hand under a few loads, as a scenario that can be calibrated.

    found = measure(Path("here"))                                          # the inference service
    found = measure(Path("here"), url="http://127.0.0.1:8080/detect")      # one of your own

Requests arrive at random, whether or not earlier ones have been answered, at rates that use the given shares
of what the service was seen to do with several requests under way. Without `url` the service of
`cosim.inference` is started in a process of its own, with one worker. The folder gets a table per load
(`load-30.csv`, ...) and the scenario, in which the last load is held back (`cosim.twin.scenario.requests`).
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from cosim.contract.errors import Problem, RunError, ScenarioError
from cosim.twin.scenario.requests import OwnService, scenario_of
from cosim.twin.telemetry.open_load import Answered, Caller, PageCaller, Request, poisson

_START = 60.0  # s that the service may take to answer
_ALONE = 40  # requests that wait for nothing
_CLOSED, _TOGETHER = 4.0, 4  # s of requests of which so many are always under way
_LEAST = 40  # answers of a load


@dataclass(frozen=True, slots=True)
class Measurement:
    """Where the recordings are, and what was asked."""

    own: OwnService
    loads: tuple[float, ...]
    rates: tuple[float, ...]  # Hz
    service: float  # s of a request alone, the median
    means: tuple[float, ...]  # s, measured mean response under each load
    tails: tuple[float, ...]  # s, 95th percentile

    @property
    def scenario(self) -> Path:
        return self.own.scenario


@contextmanager
def service(capacity: int = 2000) -> Iterator[int]:
    """The port of a service of one worker on this machine, ended with the block. Raises `RunError`."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    command = [sys.executable, "-m", "cosim.inference", "--port", str(port), "--concurrency", "1"]
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
    seconds: float = 25.0,
    kernel: str = "blur",
    size: int = 768,
    seed: int = 1,
) -> Measurement:
    """Record the loads into `folder` and write the scenario there; the last `held_back` loads are for the judgement.

    Raises `RunError` for a service that does not answer, `ScenarioError` for a `url` that is none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"load-{round(100 * load)}" for load in loads]
    with _asked(url) as make:
        alone = asyncio.run(_closed(make, [Request(0.0, kernel, size)] * (_ALONE + 5), 1))
        lone = [a.ended - a.request.time for a in alone[5:]]
        count = max(_ALONE, int(_CLOSED / max(float(np.median(lone)), 1e-4)))
        busy = asyncio.run(_closed(make, [Request(0.0, kernel, size)] * min(count, 4000), _TOGETHER))
        began = min(a.request.time for a in busy)
        capacity = len(busy) / (max(a.ended for a in busy) - began)
        rates = tuple(load * capacity for load in loads)
        recorded = [
            asyncio.run(_under(make, poisson(rate, seconds, [(kernel, size)], (seed, k))))
            for k, rate in enumerate(rates)
        ]
    good = [np.array([a.ended - a.request.time for a in answers if a.status == 200]) for answers in recorded]
    if any(len(one) < _LEAST for one in good):
        raise RunError(f"fewer than {_LEAST} requests of a load were answered; give more time, or a smaller size")
    for name, answers in zip(names, recorded, strict=True):
        _write(folder / f"{name}.csv", answers)
    own = scenario_of(folder, [folder / f"{name}.csv" for name in names], held_back=held_back, seed=seed)
    means, tails = tuple(float(one.mean()) for one in good), tuple(float(np.quantile(one, 0.95)) for one in good)
    return Measurement(own, tuple(loads), rates, float(np.median(lone)), means, tails)


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


async def _closed(make: Callable[[], Caller], requests: Sequence[Request], together: int) -> list[Answered]:
    """The answers when so many requests are always under way. Raises `RunError` when half of them fail."""
    caller = make()
    _, answers = await caller.closed_loop(requests, together)
    caller.close()
    good = [a for a in answers if a.status == 200]
    if len(good) < 0.5 * len(requests):
        said = ", ".join(sorted({str(a.status or "no answer") for a in answers if a.status != 200}))
        raise RunError(f"the service answered {len(good)} of {len(requests)} requests with 200; else {said}")
    return good


async def _under(make: Callable[[], Caller], requests: Sequence[Request]) -> list[Answered]:
    caller = make()
    _, answers = await caller.open_loop(requests)
    caller.close()
    return answers


def _write(path: Path, answers: Sequence[Answered]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["created", "started", "computed", "ended", "status"])
        for a in answers:
            if a.status == 200:
                # From when the request was due: what the sender was late by is waiting too.
                times = (a.request.time, a.started, a.computed, a.ended)
                out.writerow([*("" if math.isnan(t) else f"{t:.6f}" for t in times), a.status])
