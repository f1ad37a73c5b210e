"""CoRaiS' prototype on five real edges; part of `benchmarks.schedulers`, `--job edges`.

Five inference services of unequal limits on their cores (processes in control groups, or containers) with the paper's
replicas, and its mix of sizes, scaled to pictures. 50 to 1000 requests come at once, from all edges alike or, shifted,
by the paper's shares; each is really computed at the edge that a method chose, in the order in which inputs arrive
there. Inputs and results take the time of their way, which is waited for: the edges share one machine. How long each
edge takes (`slope`, `offset`) is measured first. What counts is the measured time until the last result is where it is
wanted, against the same of Local, Predicted and Random(1k); methods take turns, each round draws other requests.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from http.client import HTTPConnection
from typing import Any

import numpy as np

from benchmarks.edge_nodes import Node, Running, started
from benchmarks.measure import Table, verdict
from cosim.extensions.corais import baselines, search
from cosim.extensions.corais.claims import DISTRIBUTIONS, MEGABYTES, OUTPUT, PARTS, PLACES, REPLICAS, TRANSFER
from cosim.extensions.corais.problem import Decision, Floats, Instance, makespan
from cosim.results import student

CORES = (0.12, 0.25, 0.18, 0.15, 0.10)  # of one processor
SIDES = (192, 335, 514)  # pixels of the pictures in their place: areas in the same proportion
COUNTS = (50, 100, 200, 500, 1000)
KERNEL = "histogram"
PATIENCE = 600.0  # s for one answer


def nodes() -> tuple[Node, ...]:
    """The five edges, all on all processors."""
    there = tuple(sorted(os.sched_getaffinity(0)))
    return tuple(
        Node(f"edge-{name}", there, cores, replicas)
        for name, cores, replicas in zip("abcde", CORES, REPLICAS, strict=True)
    )


class Line:
    """Requests to one edge, at most as many at once as it has replicas and one more, which waits there."""

    def __init__(self, edge: Running) -> None:
        self.edge = edge

    def serve(self, jobs: Iterable[tuple[float, int]]) -> list[float]:
        """When each of the jobs (s of its arrival by the monotonic clock, side of its picture) was answered."""
        line = list(enumerate(jobs))
        line.sort(key=lambda one: one[1][0])
        ended, turn, lock = [0.0] * len(line), iter(line), threading.Lock()
        errors: list[str] = []

        def work() -> None:
            connection = HTTPConnection(self.edge.host, self.edge.port, timeout=PATIENCE)
            while True:
                with lock:
                    number, (arrival, side) = next(turn, (-1, (0.0, 0)))
                if number < 0:
                    break
                time.sleep(max(0.0, arrival - time.monotonic()))
                connection.request("POST", f"/run/{KERNEL}?size={side}", body=bytes(3 * side * side))
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    errors.append(f"{self.edge.node.name} answered {answer.status}")
                ended[number] = time.monotonic()
            connection.close()

        workers = [threading.Thread(target=work) for _ in range(min(self.edge.node.concurrency + 1, len(line)))]
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        if errors:
            raise RuntimeError(errors[0])
        return ended


def measured(edges: list[Running], repeats: int) -> tuple[Floats, Floats]:
    """(edges,) s per MB and s that each edge takes with all its replicas busy, fitted to the three sizes."""
    slope, offset = np.empty(len(edges)), np.empty(len(edges))
    for q, edge in enumerate(edges):
        Line(edge).serve([(0.0, SIDES[0])] * 3)  # its first calls
        rows = []
        for side, size in zip(SIDES, MEGABYTES, strict=True):
            count = repeats * edge.node.concurrency
            begun = time.monotonic()
            Line(edge).serve([(0.0, side)] * count)
            rows.append((size, (time.monotonic() - begun) / repeats))
        sizes, seconds = np.array(rows).T
        slope[q], offset[q] = np.polyfit(sizes, seconds, 1)
    return slope, np.maximum(offset, 0.0)


def instance(count: int, shares: tuple[Any, Any], slope: Floats, offset: Floats, rng: np.random.Generator) -> Instance:
    """`count` requests at once for the measured edges, which have no backlog."""
    none = np.zeros(len(slope))
    sizes = rng.choice(MEGABYTES, count, p=PARTS)
    return Instance(
        np.array(PLACES), slope, offset, np.array(REPLICAS), none, none, none, none,
        rng.choice(len(slope), count, p=shares[0]), rng.choice(len(slope), count, p=shares[1]), sizes, OUTPUT * sizes,
        TRANSFER,
    )  # fmt: skip


def carried_out(edges: list[Running], one: Instance, decision: Decision) -> float:
    """s, measured, until the last result is where it is wanted."""
    begun = time.monotonic() + 0.05
    last = np.zeros(len(edges))

    def way(a: int, b: int, size: float) -> float:
        return float(one.transfer * size * np.hypot(*(one.place[a] - one.place[b])))

    def edge(q: int) -> None:
        mine = np.flatnonzero(decision == q)
        sides = [SIDES[MEGABYTES.index(one.input[z])] for z in mine]
        jobs = [(begun + way(one.source[z], q, one.input[z]), side) for z, side in zip(mine, sides, strict=True)]
        ended = Line(edges[q]).serve(jobs)
        last[q] = max((t + way(q, one.target[z], one.output[z]) for t, z in zip(ended, mine, strict=True)), default=0.0)

    threads = [threading.Thread(target=edge, args=(q,)) for q in range(len(edges))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return float(last.max() - begun)


def methods(rng: np.random.Generator) -> dict[str, Callable[[Instance], Decision]]:
    return {
        "ours": search.solve,
        "local": baselines.local,
        "predicted": baselines.predicted,
        "random (1k)": lambda one: baselines.random(one, 1000, rng),
    }


def compare(kind: str, rounds: int, counts: tuple[int, ...] = COUNTS) -> tuple[dict[str, Any], list[Table]]:
    """Measured makespans of all cells and methods, and in how many cells ours is least."""
    rows: list[dict[str, Any]] = []
    with started(nodes(), kind) as edges:
        slope, offset = measured(edges, 6)
        for name, shares in DISTRIBUTIONS.items():
            for count in counts:
                for k in range(rounds):
                    rng = np.random.default_rng([k, count])
                    one = instance(count, shares, slope, offset, rng)
                    for method, rule in methods(rng).items():
                        decision = rule(one)
                        rows.append({
                            "distribution": name, "requests": count, "round": k, "method": method,
                            "expected": makespan(one, decision), "measured": carried_out(edges, one, decision),
                        })  # fmt: skip
    table = Table(
        f"five real edges ({kind}), s until the last answer, mean of {rounds}: measured (expected)",
        ["distribution", "requests", *methods(np.random.default_rng(0)), "ours first"],
    )
    first = cells = 0
    for name in DISTRIBUTIONS:
        for count in counts:
            mine = [row for row in rows if (row["distribution"], row["requests"]) == (name, count)]
            means = {
                m: [
                    float(np.mean([row[key] for row in mine if row["method"] == m])) for key in ("measured", "expected")
                ]
                for m in dict.fromkeys(row["method"] for row in mine)
            }
            ahead = all(means["ours"][0] < value[0] for m, value in means.items() if m != "ours")
            first, cells = first + ahead, cells + 1
            table.add([name, count, *(f"{a:.2f} ({b:.2f})" for a, b in means.values()), "yes" if ahead else "no"])
    ratio = [row["measured"] / row["expected"] for row in rows]
    mean, half = student.interval(ratio)
    asked = Table("asked", ["what", "found"])
    asked.add(["cells in which ours is first", f"{first} of {cells}{verdict(first, cells, at_least=True)}"])
    asked.add(["measured over expected", f"{mean:.3f} +- {half:.3f}"])
    data = {"kind": kind, "slope": slope.tolist(), "offset": offset.tolist(), "rows": rows, "first": first,
            "cells": cells}  # fmt: skip
    return data, [table, asked]
