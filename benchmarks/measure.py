"""How benchmarks measure and print: CPU time of all processes involved, best of interleaved rounds.

Wall time on a shared machine says more about its other users than about the program. CPU time, taken
as the best of several rounds in which the cases take turns, repeats within some ten percent; ratios
between cases of one run repeat better still. People get tables, machines get one JSON object, which
always holds `benchmark` (its name) and `host`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cosim.contract.children import pool

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Case:
    """Something to be measured: `run(n)` does it n times, `cpu` tells the CPU time used so far (s)."""

    name: str
    run: Callable[[int], object]
    cpu: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Figure:
    """Seconds per repetition, best of the rounds."""

    cpu: float
    wall: float


class Table:
    """A titled table of text cells."""

    def __init__(self, title: str, columns: Sequence[str]) -> None:
        self.title, self.columns = title, list(columns)
        self.rows: list[list[str]] = []

    def add(self, row: Sequence[object]) -> None:
        self.rows.append([str(cell) for cell in row])

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        text = [
            "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
            for line in lines
        ]
        return "\n".join([self.title, text[0], "-" * len(text[0]), *text[1:]])


def parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments of a benchmark whose module says `description`; every one has --json."""
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    return arguments


def print_result(name: str, data: Mapping[str, object], tables: Sequence[Table], *, as_json: bool) -> None:
    """One JSON object, or the tables."""
    found = {"benchmark": name, "host": host(), **data}
    print(json.dumps(found) if as_json else "\n\n".join(map(str, tables)))


def verdict(value: float, target: float | None, *, at_least: bool = False) -> str:
    """The target and whether `value` meets it, "" when there is none."""
    if target is None:
        return ""
    sign, met = (">=", value >= target) if at_least else ("<=", value <= target)
    return f" ({sign} {target:g}: {'met' if met else 'MISSED'})"


def cpu_of(*others: Callable[[], float]) -> Callable[[], float]:
    """CPU time of this process and of others, each of which tells its own."""
    return lambda: time.process_time() + sum(other() for other in others)


def child_seconds() -> float:
    """CPU time of the children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def mapped(make: Callable[..., Found], *cases: Iterable[Any], workers: int) -> list[Found]:
    """As `map`: `make` of every case, in their order, in `workers` processes of their own; 1: in this one."""
    if workers <= 1:
        return list(map(make, *cases))
    with pool(workers) as processes:
        return list(processes.map(make, *cases))


def notify(text: str) -> None:
    """Progress, on the standard error stream."""
    print(text, file=sys.stderr)


def interleave(cases: Sequence[Case], repetitions: int, rounds: int) -> dict[str, Figure]:
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


def host() -> dict[str, object]:
    """The machine, as far as figures depend on it."""
    model = platform.processor() or platform.machine()
    with open("/proc/cpuinfo") as file:  # noqa: PTH123 - a kernel table, not a file of ours
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
