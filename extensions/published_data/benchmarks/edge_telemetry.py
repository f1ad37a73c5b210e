"""Measure edge nodes under several loads, for the twin to be fitted on and judged by.

    python -m benchmarks.edge_telemetry FOLDER [--nodes containers|process] [--seconds 17] [--seed 1]

Three nodes (one core and one worker; two cores and two workers; two workers that share one core) run
networks at three sizes each. Loads are shares of each node's own throughput, measured first. Requests
are an open Poisson load. Loads 0.2, 0.5 and 0.8 are for the fit, 0.35 and 0.65 for the judgement; 0.65
is measured twice with the same requests, which says how well anything can predict it. Writes windows.csv,
tasks.csv.gz, nodes.csv and machine.json; every window notes what else used the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import datetime
import gzip
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from benchmarks.edge_nodes import Running, machine, started, usual
from cosim.contract.errors import CosimError, Problem, ScenarioError
from cosim.testbed.measuring.open_load import Answered, Caller, LoadRequest, poisson

Part = Literal["pilot", "fit", "held-back", "repeat"]
NETWORKS = ("squeezenet1_0", "mobilenet_v2", "resnet18")
SIZES = (64, 96, 128)
KERNELS = {"vegetation": (256, 384, 512), "blur": (256, 384, 512), "histogram": (256, 384, 512)}  # without torch
LOADS: tuple[tuple[float, Part], ...] = (
    (0.35, "held-back"), (0.8, "fit"), (0.2, "fit"), (0.65, "held-back"), (0.5, "fit"), (0.65, "repeat"),
)  # fmt: skip
ROUNDS = 5  # of every service and size, before the loads
OTHERS = 0.10  # cores used by other programs from which a window is disturbed
STEAL = 0.02  # share of the machine that other machines took
LOOK = 0.5  # s between two looks at the node

TASK_COLUMNS = (
    "window", "service", "size", "created", "assigned", "uploaded", "started", "computed", "ended", "status", "origin",
)  # fmt: skip
NODE_COLUMNS = ("window", "node", "time", "cpu", "machine", "steal")
WINDOW_COLUMNS = (
    "window", "node", "cores", "concurrency", "load", "part", "rate", "seconds", "tasks", "cpu", "others", "steal",
    "disturbed",
)  # fmt: skip


class Meter:
    """What a node and the rest of the machine have used since it was made."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.began, self.first = time.monotonic(), self._now()
        self.rows: list[tuple[float, float, float, float]] = []  # s, then cores: node, machine, steal
        self._last = self.began, self.first

    def _now(self) -> tuple[float, float, float, float]:
        return (self.running.cpu(), *machine(), time.process_time())

    def look(self) -> None:
        """Note what was used since the last look."""
        now, used = time.monotonic(), self._now()
        before, last = self._last
        node, busy, steal, _ = ((b - a) / (now - before) for a, b in zip(last, used, strict=True))
        self.rows.append((now - self.began, node, busy, steal))
        self._last = now, used

    async def watch(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(LOOK)
            self.look()

    def total(self) -> tuple[float, float, float]:
        """Cores used by the node and by other programs, and the share of the machine that was stolen."""
        span = time.monotonic() - self.began
        node, busy, steal, own = ((b - a) / span for a, b in zip(self.first, self._now(), strict=True))
        return node, max(0.0, busy - node - own), steal / (os.cpu_count() or 1)


class Files:
    """The four files of a measurement."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._tasks = gzip.open(folder / "tasks.csv.gz", "wt", newline="")  # noqa: SIM115 - closed by close()
        self._nodes = (folder / "nodes.csv").open("w", newline="")
        self._windows = (folder / "windows.csv").open("w", newline="")
        self.tasks, self.nodes, self.windows = map(csv.writer, (self._tasks, self._nodes, self._windows))
        self.tasks.writerow(TASK_COLUMNS)
        self.nodes.writerow(NODE_COLUMNS)
        self.windows.writerow(WINDOW_COLUMNS)
        self.count = self.disturbed = 0

    def add(
        self, running: Running, load: float, part: Part, rate: float, meter: Meter, answers: Sequence[Answered]
    ) -> bool:
        """One window; whether it was disturbed."""
        node, window = running.node, self.count
        span = time.monotonic() - meter.began
        cpu, others, steal = meter.total()
        disturbed = others > OTHERS or steal > STEAL
        for a in answers:
            times = (a.request.time, a.assigned, a.uploaded, a.started, a.computed, a.ended)
            result = ["" if t != t else f"{t:.5f}" for t in times]  # 10 us: below the clocks of processes
            self.tasks.writerow([window, a.request.service, a.request.size, *result, a.status, "measured"])
        for at, *used in meter.rows:
            self.nodes.writerow([window, node.name, f"{at:.2f}", *(f"{value:.3f}" for value in used)])
        row = [window, node.name, node.cores, node.concurrency, load, part, f"{rate:.3f}", f"{span:.2f}", len(answers)]
        self.windows.writerow([*row, f"{cpu:.3f}", f"{others:.3f}", f"{steal:.4f}", int(disturbed)])
        self.count += 1
        self.disturbed += disturbed
        return disturbed

    def close(self, about: dict[str, object]) -> None:
        """Write the last of it."""
        for file in (self._tasks, self._nodes, self._windows):
            file.close()
        (self._folder / "machine.json").write_text(json.dumps(about, indent=1) + "\n")


async def measure(running: Sequence[Running], files: Files, seconds: float, seed: int) -> None:
    """All windows, node by node at every load."""
    callers = [Caller(one.host, one.port) for one in running]
    services = await offered(callers[0])
    capacity = []
    for one, caller in zip(running, callers, strict=True):
        requests = [LoadRequest(0.0, *service) for _ in range(ROUNDS) for service in services]
        await caller.closed_loop(requests[: 2 * len(services)], one.node.concurrency)  # the first are slow
        meter = Meter(one)
        took, answers = await caller.closed_loop(requests, one.node.concurrency)
        capacity.append(len(answers) / took)
        files.add(one, 1.0, "pilot", capacity[-1], meter, answers)
        say(f"{one.node.name}: {capacity[-1]:.1f} requests/s at most")
    for load, part in LOADS:
        for k, (one, caller) in enumerate(zip(running, callers, strict=True)):
            rate = load * capacity[k]
            requests = poisson(rate, seconds, services, (seed, k, round(1000 * load)))
            meter = Meter(one)
            watch = asyncio.create_task(meter.watch())
            _, answers = await caller.open_loop(requests)
            watch.cancel()
            late = files.add(one, load, part, rate, meter, answers)
            say(f"{one.node.name} at {load:g}: {len(answers)} requests{', disturbed by others' if late else ''}")
            await asyncio.sleep(0.3)
    for caller in callers:
        caller.close()


async def offered(caller: Caller) -> list[tuple[str, int]]:
    """The services and sizes that the node is measured with: networks where it has them, else kernels."""
    tried = await caller.ask(LoadRequest(0.0, NETWORKS[0], SIZES[0]), time.monotonic())
    if tried.status == 200:
        return [(name, size) for name in NETWORKS for size in SIZES]
    return [(name, size) for name, sizes in KERNELS.items() for size in sizes]


def collect(folder: Path, nodes: str = "containers", seconds: float = 17.0, seed: int = 1) -> Files:
    """Measure into `folder`. Raises `ScenarioError` when nodes cannot be started."""
    if not 1.0 <= seconds <= 600.0:
        raise ScenarioError(Problem(f"windows of {seconds:g} s", hint="--seconds takes 1 to 600"))
    began = time.monotonic()
    with started(usual(), nodes) as running:
        files = Files(folder)
        everywhere = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(everywhere)})  # the load has a core of its own against one-core nodes
        try:
            asyncio.run(measure(running, files, seconds, seed))
        finally:
            os.sched_setaffinity(0, everywhere)
            files.close(about(nodes, seconds, seed, time.monotonic() - began))
    return files


def about(nodes: str, seconds: float, seed: int, took: float) -> dict[str, object]:
    """What was measured where."""
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
              if line.startswith("model name")]  # fmt: skip
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "nodes": nodes, "seconds": seconds, "seed": seed, "took": round(took, 1),
        "processor": models[0] if models else "", "processors": os.cpu_count(), "kernel": platform.release(),
    }  # fmt: skip


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, help="where the measurement goes")
    options.add_argument("--nodes", choices=("containers", "process"), default="containers")
    options.add_argument("--seconds", type=float, default=17.0, help="length of every window")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args(arguments)
    try:
        files = collect(given.folder, given.nodes, given.seconds, given.seed)
    except CosimError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if files.disturbed:
        say(f"{files.disturbed} of {files.count} windows were disturbed by other programs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
