"""How benchmarks measure: CPU time of all processes involved, best of interleaved rounds.

Wall time on a shared machine says more about its other users than about the program. CPU time, taken
as the best of several rounds in which the cases take turns, repeats within some ten percent; ratios
between cases of one run repeat better still.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table


def cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def cpu_of(*others: Callable[[], float]) -> Callable[[], float]:
    """CPU time of this process and of others, each of which tells its own."""
    return lambda: time.process_time() + sum(other() for other in others)


@dataclass(frozen=True, slots=True)
class Case:
    """Something to be measured: `run(n)` does it n times, `cpu` tells the CPU time used so far (s)."""

    name: str
    run: Callable[[int], object]
    cpu: Callable[[], float] = cpu_seconds


@dataclass(frozen=True, slots=True)
class Figure:
    """Seconds per repetition, best of the rounds."""

    cpu: float
    wall: float


def interleave(cases: Sequence[Case], repetitions: int, rounds: int = 5) -> dict[str, Figure]:
    """The figures of `cases`, which take turns; one repetition of each beforehand is not counted."""
    best = {case.name: Figure(float("inf"), float("inf")) for case in cases}
    for case in cases:
        case.run(1)
    for _ in range(rounds):
        for case in cases:
            cpu, wall = case.cpu(), time.perf_counter()
            case.run(repetitions)
            cpu, wall = case.cpu() - cpu, time.perf_counter() - wall
            last = best[case.name]
            best[case.name] = Figure(min(last.cpu, cpu / repetitions), min(last.wall, wall / repetitions))
    return best


def options(description: str) -> argparse.Namespace:
    """The arguments that every benchmark has: --json, --rounds, --quick."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the best counts (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller sizes")
    return parser.parse_args()


def host() -> dict[str, object]:
    """The machine, as far as figures depend on it."""
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as file:  # noqa: PTH123 - a kernel table, not a file of ours
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}


def report(title: str, rows: Mapping[str, Mapping[str, Figure]], as_json: bool) -> None:
    """Print figures: `rows[size][case]`, as a table of "cpu / wall" in microseconds, or as JSON."""
    if as_json:
        figures = {size: {case: asdict(figure) for case, figure in row.items()} for size, row in rows.items()}
        print(json.dumps({"title": title, "unit": "s", "host": host(), "figures": figures}, indent=1))
        return
    cases = list(dict.fromkeys(case for row in rows.values() for case in row))
    table = Table("", *cases, title=f"{title}\nµs per repetition: cpu / wall")
    for size, row in rows.items():
        cells = (f"{row[c].cpu * 1e6:,.0f} / {row[c].wall * 1e6:,.0f}" if c in row else "" for c in cases)
        table.add_row(size, *cells)
    Console().print(table)
