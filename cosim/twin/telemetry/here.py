"""Measure the machine at hand: its inference service under a few loads, as a scenario that can be calibrated.

    scenario = measure(Path("here"), loads=(0.3, 0.55, 0.8), seconds=25.0)

The service of `cosim.inference` is started in a process of its own, with one worker. Requests arrive at
random, whether or not earlier ones have been answered, at rates that use the given shares of what one
worker can do. The folder gets a table per load (`load-30.csv`, ...) and the scenario, in which the last
load is held back.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosim.contract.errors import RunError
from cosim.twin.telemetry.open_load import Answered, Caller, Request, poisson

_CLOCK = 1e9  # Hz of the worker's core: a cycle is a nanosecond of it
_START = 60.0  # s that the service may take to answer
_STEP = 1.0  # s of the simulation


@dataclass(frozen=True, slots=True)
class Measurement:
    """Where the recordings are, and what was asked."""

    scenario: Path
    loads: tuple[float, ...]
    rates: tuple[float, ...]  # Hz
    service: float  # s of a request alone, the median
    means: tuple[float, ...]  # s, measured mean response under each load
    tails: tuple[float, ...]  # s, 95th percentile


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
    loads: Sequence[float] = (0.3, 0.55, 0.8),
    held_back: int = 1,
    seconds: float = 25.0,
    kernel: str = "blur",
    size: int = 384,
    seed: int = 1,
) -> Measurement:
    """Record the loads into `folder` and write the scenario there; the last `held_back` loads are for the judgement."""
    folder.mkdir(parents=True, exist_ok=True)
    with service() as port:
        alone = asyncio.run(_alone(port, kernel, size))
        typical = float(np.median(alone))
        rates = tuple(load / float(np.mean(alone)) for load in loads)
        recorded: list[list[Answered]] = []
        for k, rate in enumerate(rates):
            recorded.append(asyncio.run(_under(port, poisson(rate, seconds, [(kernel, size)], (seed, k)))))
    names = [f"load-{round(100 * load)}" for load in loads]
    for name, answers in zip(names, recorded, strict=True):
        _write(folder / f"{name}.csv", answers)
    good = [np.array([a.ended - a.request.time for a in answers if a.status == 200]) for answers in recorded]
    if any(len(one) < 20 for one in good):
        raise RunError("fewer than 20 requests of a load were answered; give more time, or a smaller size")
    spread = math.sqrt(3.0) * float(np.std(alone) / np.mean(alone))
    path = folder / "scenario.cosim.yaml"
    # The recording ends when its last answer came; requests in line at the end are in it.
    longest = max(a.ended for answers in recorded for a in answers if math.isfinite(a.ended))
    duration = math.ceil((longest + 1.0) / _STEP) * _STEP
    path.write_text(_scenario(names, held_back, typical, min(max(spread, 0.02), 0.9), duration), encoding="utf-8")
    means, tails = tuple(float(one.mean()) for one in good), tuple(float(np.quantile(one, 0.95)) for one in good)
    return Measurement(path, tuple(loads), rates, typical, means, tails)


async def _alone(port: int, kernel: str, size: int, count: int = 40) -> list[float]:
    """s of requests that wait for nothing; the first ones warm the service up."""
    caller = Caller("127.0.0.1", port)
    _, answers = await caller.closed_loop([Request(0.0, kernel, size)] * (count + 5), 1)
    caller.close()
    good = [a.computed - a.started for a in answers[5:] if a.status == 200]
    if len(good) < count // 2:
        raise RunError(f"the inference service answered {len(good)} of {count} requests for '{kernel}'")
    return good


async def _under(port: int, requests: Sequence[Request]) -> list[Answered]:
    caller = Caller("127.0.0.1", port)
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
                out.writerow([*(f"{t:.6f}" for t in (a.request.time, a.started, a.computed, a.ended)), a.status])


def _scenario(names: Sequence[str], held_back: int, typical: float, spread: float, duration: float) -> str:
    low, high = (f"{1e3 * typical * factor:.4g} Mcycles +- {100 * spread:.3g} %" for factor in (0.6, 2.5))
    recordings = "\n".join(f"    {name}: {{file: {name}.csv}}" for name in names)
    return f"""\
# This machine, measured by `cosim calibrate --here`: a cycle is a nanosecond of one worker's core.
apiVersion: cosim/v1
kind: Scenario
name: here
run: {{duration: {duration:g} s, step: {_STEP:g} s, seed: 1}}
adapters:
  continuum: {{scheduler: nearest, discipline: fcfs}}
nodes:
  client: {{kind: device}}
  worker: {{kind: edge, cpu: 1 x {_CLOCK / 1e9:g} GHz}}
links:
  - {{between: [client, worker], rate: 1 Gbit/s, delay: 1 ms}}
workloads:
  ask: {{from: client, arrivals: poisson 1 Hz, work: {1e3 * typical:.4g} Mcycles +- {100 * spread:.3g} %}}
calibrate:
  recordings:
{recordings}
  replay: {{sizes: []}}
  observed:
    service: {{signal: task.service, between: [started, computed], time: created, paired: false}}
    response: {{signal: task.response, between: [created, ended], time: created, paired: false, weight: 2}}
  held-back: {{recordings: [{", ".join(names[len(names) - held_back :])}]}}
  free:
    workloads.ask.work: {{bounds: ["{low}", "{high}"], scale: log}}
    links.0.delay: {{bounds: [0.05 ms, 20 ms], scale: log}}
"""
