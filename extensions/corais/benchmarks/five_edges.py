"""CoRaiS' prototype on five real edges; part of `benchmarks.schedulers`, `--job edges`.

Five inference services of unequal limits on their cores (processes in control groups, or containers) with the paper's
replicas, and its mix of sizes, scaled to pictures. 50 to 1000 requests come at once, from all edges alike or, shifted,
by the paper's shares; each is really computed at the edge that a method chose, in the order in which inputs arrive
there. The edges share one machine, so inputs and results wait for the time of their way; or, with `--links`, the edges
are nodes of a run in namespaces or containers, and bytes travel over its emulated links, whose rates fall with their
length. Pictures are sent as packed ones then. How long each edge takes (`slope`, `offset`), and a way, is measured
first. What counts is the measured time until the last result is where it is wanted, against the same of Local,
Predicted and Random(1k); methods take turns, each round draws other requests.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from itertools import product
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import numpy as np

from benchmarks import edge_nodes
from benchmarks.edge_nodes import Node, Running, started
from benchmarks.measure import Table, verdict
from cosim.contract.medium import WIRE
from cosim.contract.records import Floats
from cosim.extensions.corais import baselines, search
from cosim.extensions.corais.claims import DISTRIBUTIONS, MEGABYTES, OUTPUT, PARTS, PLACES, REPLICAS, TRANSFER
from cosim.extensions.corais.problem import Decision, Instance, makespan
from cosim.results import student

CORES = (0.12, 0.25, 0.18, 0.15, 0.10)  # of one processor
SIDES = (192, 335, 514)  # pixels of the pictures in their place: areas in the same proportion
COUNTS = (50, 100, 200, 500, 1000)
KERNEL = "histogram"
PATIENCE = 600.0  # s for one answer
LOOKING = 1.0  # s between two looks at whether the run goes on
STARTING = 900.0  # s, for the run of the edges, if images are to be built
AHEAD = 0.1  # s before requests come in, for the word of it
PACKED = 10  # a picture on a link is so many times smaller
QUICKER = 10  # times than in the problem of the prototype: so that links are shared by many, and yet do not fill


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
                try:
                    connection.request("POST", f"/run/{KERNEL}?size={side}", body=bytes(3 * side * side))
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, HTTPException) as error:
                    errors.append(f"{self.edge.node.name} does not answer: {error!r}")
                    break
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


def instance(
    count: int, shares: tuple[Any, Any], slope: Floats, offset: Floats, rng: np.random.Generator,
    transfer: float = TRANSFER,
) -> Instance:  # fmt: skip
    """`count` requests at once for the measured edges, which have no backlog."""
    none = np.zeros(len(slope))
    sizes = rng.choice(MEGABYTES, count, p=PARTS)
    return Instance(
        np.array(PLACES), slope, offset, np.array(REPLICAS), none, none, none, none,
        rng.choice(len(slope), count, p=shares[0]), rng.choice(len(slope), count, p=shares[1]), sizes, OUTPUT * sizes,
        transfer,
    )  # fmt: skip


class Waiting:
    """The edges of `edge_nodes`, between which inputs and results wait."""

    transfer = TRANSFER

    def __init__(self, edges: list[Running]) -> None:
        self.edges = edges

    def run_times(self, repeats: int) -> tuple[Floats, Floats]:
        """See `measured`."""
        return measured(self.edges, repeats)

    def carried_out(self, one: Instance, decision: Decision) -> float:
        """See the function."""
        return carried_out(self.edges, one, decision)


def carried_out(edges: list[Running], one: Instance, decision: Decision) -> float:
    """s, measured, until the last result is where it is wanted."""
    begun = time.monotonic() + 0.05

    def way(a: int, b: int, size: float) -> float:
        return float(one.transfer * size * np.hypot(*(one.place[a] - one.place[b])))

    def edge(q: int) -> float:
        mine = np.flatnonzero(decision == q)
        sides = [SIDES[MEGABYTES.index(one.input[z])] for z in mine]
        jobs = [(begun + way(one.source[z], q, one.input[z]), side) for z, side in zip(mine, sides, strict=True)]
        ended = Line(edges[q]).serve(jobs)
        return max((t + way(q, one.target[z], one.output[z]) for t, z in zip(ended, mine, strict=True)), default=0.0)

    with ThreadPoolExecutor(len(edges)) as pool:
        return max(pool.map(edge, range(len(edges)))) - begun


class Linked:
    """Five edges in a run whose links carry inputs and results; entered and left as a context."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder, self.stack = kind, folder, contextlib.ExitStack()
        self.transfer = TRANSFER / QUICKER  # until it is measured
        self.answers: Queue[tuple[int, float] | str] = Queue()  # request and time, or which edge has left
        self.programs: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Linked:
        try:
            self._start()
            self._travel()
        except BaseException:
            self.stack.close()
            raise
        return self

    def _start(self) -> None:
        names = {node.name: f"{node.name}-{os.getpid()}" for node in nodes()}  # of no other run of this machine
        (self.folder / "scenario.cosim.yaml").write_text(scenario(list(names.values())), encoding="utf-8")
        words = [sys.executable, "-m", "cosim", "run", str(self.folder), "--nodes", self.kind, "--no-report"]
        groups = {name: edge_nodes.GROUPS / f"cosim-measure-{name}" for name in names.values()}
        for group in groups.values():
            self.stack.callback(_gone, group)
        log = self.stack.enter_context((self.folder / "run.log").open("w"))
        self.process = run = subprocess.Popen([*words, "--out", str(self.folder / "runs")], stdout=log, stderr=log)
        self.stack.callback(run.wait, 120.0)
        self.stack.callback(run.terminate)
        until = time.monotonic() + STARTING
        services: dict[str, int] = {}
        while len(services) < len(names) or not list(self.folder.glob("runs/*/*/frames/.lock")):
            if run.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the run of the edges has not started: {self._said()}")
            time.sleep(0.5)
            services = running(set(names.values()))
        (lock,) = self.folder.glob("runs/*/*/frames/.lock")
        self.run = lock.parents[1]
        for node in nodes():
            edge_nodes._limit(groups[names[node.name]], services[names[node.name]], node)
        code = (Path(__file__).parent / "edge_program.py").read_text(encoding="utf-8")
        peers = json.dumps({q: str(WIRE.addresses()[q + 1]) for q in range(len(names))})
        for q, node in enumerate(nodes()):
            enter = [sys.executable, "-m", "cosim", "shell", names[node.name], "--run", str(self.run), "--"]
            python = sys.executable if self.kind == "netns" else "python3"
            words = [*enter, python, "-c", code, str(q), str(node.concurrency), peers]
            self._enter(node.name, words)

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _enter(self, name: str, words: list[str]) -> None:
        """Start the program of an edge."""
        program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.programs.append(program)
        self.stack.callback(program.wait, 60.0)
        self.stack.callback(program.stdin.close)  # type: ignore[union-attr]
        threading.Thread(target=self._hear, args=(name, program.stdout), daemon=True).start()

    def _hear(self, name: str, stream: Any) -> None:
        with stream:
            for line in stream:
                self.answers.put(tuple(json.loads(line)))
        self.answers.put(f"the program of {name} has ended")

    def _said(self) -> str:
        """The last words of the run."""
        return (self.folder / "run.log").read_text()[-2000:]

    def _answer(self) -> float:
        """When the next result was at its target. Raises `RuntimeError` once none can come any more."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                answer = self.answers.get(timeout=LOOKING)
            except Empty:
                if self.process.poll() is not None:
                    raise RuntimeError(f"the run of the edges has ended: {self._said()}") from None
                continue
            if isinstance(answer, str):
                raise RuntimeError(f"{answer}, and with it a request; the run says: {self._said()}")
            return answer[1]
        raise RuntimeError(f"no edge has answered within {PATIENCE:g} s")

    def _do(self, requests: dict[int, list[list[int]]], count: int) -> list[float]:
        """s from the arrival of the requests, by the edges where they come in, to each result at its target."""
        at = time.monotonic() + AHEAD
        for q, mine in requests.items():
            with contextlib.suppress(BrokenPipeError):  # `_answer` reports that the program has ended
                print(json.dumps([at, mine]), file=self.programs[q].stdin, flush=True)
        return [self._answer() - at for _ in range(count)]

    def _travel(self) -> None:
        """Measure what a MB takes over a unit of distance, on every way alone: without computation and result."""
        ways, seconds = [], []
        for a in range(len(PLACES)):
            for b in range(len(PLACES)):
                if a == b:
                    continue
                for size in (MEGABYTES[0], *MEGABYTES):  # the first one makes the connection
                    (took,) = self._do({a: [[0, b, 0, b, packed(size), 1]]}, 1)
                    ways.append(size * float(np.hypot(*np.subtract(PLACES[a], PLACES[b]))))
                    seconds.append(took)
                del ways[-4], seconds[-4]
        self.transfer = float(np.dot(ways, seconds) / np.dot(ways, ways))

    def run_times(self, repeats: int) -> tuple[Floats, Floats]:
        """As `measured`."""
        slope, offset = np.empty(len(PLACES)), np.empty(len(PLACES))
        for q, node in enumerate(nodes()):
            self._do({q: [[0, q, SIDES[0], q, packed(MEGABYTES[0]), 1]] * 3}, 3)
            rows = []
            for side, size in zip(SIDES, MEGABYTES, strict=True):
                count = repeats * node.concurrency
                rows.append(max(self._do({q: [[0, q, side, q, packed(size), 1]] * count}, count)) / repeats)
            slope[q], offset[q] = np.polyfit(MEGABYTES, rows, 1)
        return np.maximum(slope, 1e-6), np.maximum(offset, 0.0)

    def carried_out(self, one: Instance, decision: Decision) -> float:
        """s, measured, until the last result is where it is wanted."""
        asked: dict[int, list[list[int]]] = {}
        for z, (source, q, target, size) in enumerate(
            zip(one.source.tolist(), decision.tolist(), one.target.tolist(), one.input.tolist(), strict=True)
        ):
            row = [z, q, SIDES[MEGABYTES.index(size)], target, packed(size), packed(OUTPUT * size)]
            asked.setdefault(source, []).append(row)
        return max(self._do(asked, one.requests))


def _gone(group: Path) -> None:
    """Remove a control group, as soon as its last process has ended."""
    until = time.monotonic() + 20.0
    while group.is_dir() and time.monotonic() < until:
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.2)


def packed(size: float) -> int:
    """B of a picture in the place of `size` MB, packed."""
    return round(3 * SIDES[-1] ** 2 * size / MEGABYTES[-1] / PACKED)


def scenario(names: list[str]) -> str:
    """Five edges in the places of the prototype, each two joined by a link that is the slower the longer it is."""
    rate = 8.0 * packed(MEGABYTES[-1]) / (MEGABYTES[-1] * TRANSFER / QUICKER)  # bit/s at distance 1
    run = "{duration: 6 h, step: 1 s, pacing: real-time}"
    found = [f"{{apiVersion: cosim/v1, kind: Scenario, name: edges, run: {run}, adapters: {{network: {{}}}}, nodes: {{"]
    for name, (x, y), replicas in zip(names, PLACES, REPLICAS, strict=True):
        place = f"[{1000 * x:g} m, {1000 * y:g} m, 0 m]"
        found.append(f"{name}: {{kind: edge, at: {place}, cpu: {replicas} x 1 GHz, runs: vedgenode}},")
    found.append("}, links: [")
    for a in range(len(names)):
        for b in range(a):
            apart = float(np.hypot(*np.subtract(PLACES[a], PLACES[b])))
            found.append(
                f"{{between: [{names[b]}, {names[a]}], rate: {rate / apart / 1e6:.3f} Mbit/s, delay: {apart:.3f} ms}},"
            )
    return "\n".join([*found, "]}"])


def running(names: set[str]) -> dict[str, int]:
    """Processes of the inference services of nodes, by their names."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"\0cosim.testbed.inference\0" in (folder / "cmdline").read_bytes():
                said = dict(
                    part.split(b"=", 1) for part in (folder / "environ").read_bytes().split(b"\0") if b"=" in part
                )
                name = said.get(b"COSIM_NODE", b"").decode()
                if name in names:
                    found[name] = int(folder.name)
    return found


@contextlib.contextmanager
def site(kind: str, links: bool) -> Iterator[Waiting | Linked]:
    """The edges, as processes or containers; with `links` in a run."""
    if not links:
        with started(nodes(), kind) as edges:
            yield Waiting(edges)
        return
    with tempfile.TemporaryDirectory(prefix="cosim-edges-") as folder:
        Path(folder).chmod(0o755)
        with Linked("containers" if kind == "containers" else "netns", Path(folder)) as edges:
            yield edges


def methods(rng: np.random.Generator) -> dict[str, Callable[[Instance], Decision]]:
    return {
        "ours": search.solve,
        "local": baselines.local,
        "predicted": baselines.predicted,
        "random (1k)": lambda one: baselines.random(one, 1000, rng),
    }


def compare(
    kind: str, rounds: int, counts: tuple[int, ...] = COUNTS, *, links: bool = False, first: int = 0
) -> tuple[dict[str, Any], list[Table]]:  # fmt: skip
    """Measured makespans of all cells and methods, and in how many cells ours is least, and surely so."""
    rows: list[dict[str, Any]] = []
    with site(kind, links) as edges:
        slope, offset = edges.run_times(6)
        for k in range(first, first + rounds):
            for name, count in product(DISTRIBUTIONS, counts):
                rng = np.random.default_rng([k, count])
                one = instance(count, DISTRIBUTIONS[name], slope, offset, rng, edges.transfer)
                for method, rule in methods(rng).items():
                    decision = rule(one)
                    rows.append({
                        "distribution": name, "requests": count, "round": k, "method": method,
                        "expected": makespan(one, decision), "measured": edges.carried_out(one, decision),
                    })  # fmt: skip
    data = {"kind": kind, "links": links, "slope": slope.tolist(), "offset": offset.tolist(),
            "transfer": edges.transfer, "rows": rows}  # fmt: skip
    return data, judged(data)


def judged(data: dict[str, Any]) -> list[Table]:
    """Tables of `rows`, which may be those of several times: means of each cell, and ours over the others in pairs."""
    rows = data["rows"]
    names = list(dict.fromkeys(row["method"] for row in rows))
    table = Table(
        f"five real edges ({data['kind']}), s until the last answer: measured (expected)",
        ["distribution", "requests", "rounds", *names, "ours / the least sure", "ours first"],
    )
    first = sure = cells = 0
    for name, count in dict.fromkeys((row["distribution"], row["requests"]) for row in rows):
        of: dict[str, list[dict[str, Any]]] = {m: [] for m in names}
        for row in rows:
            if (row["distribution"], row["requests"]) == (name, count):
                of[row["method"]].append(row)
        means = {m: [float(np.mean([row[key] for row in some])) for key in ("measured", "expected")]
                 for m, some in of.items()}  # fmt: skip
        ratios = {}
        for m in names[1:]:
            pairs = [np.log(a["measured"] / b["measured"]) for a, b in zip(of["ours"], of[m], strict=True)]
            mean, half = student.interval(pairs, 1.0 - 0.05 / (len(names) - 1))
            ratios[m] = tuple(np.exp([mean, mean - half, mean + half]))
        near = max(ratios.values(), key=lambda one: one[2])
        ahead, certain = all(one[0] < 1.0 for one in ratios.values()), all(one[2] < 1.0 for one in ratios.values())
        first, sure, cells = first + ahead, sure + certain, cells + 1
        shown = f"{near[0]:.3f} ({near[1]:.3f} - {near[2]:.3f})"
        cell = [name, count, len(of["ours"]), *(f"{a:.2f} ({b:.2f})" for a, b in means.values()), shown]
        table.add([*cell, "yes" if certain else "by the mean" if ahead else "no"])
    mean, half = student.interval([row["measured"] / row["expected"] for row in rows])
    asked = Table("asked", ["what", "found"])
    asked.add(["cells in which ours is first", f"{first} of {cells}{verdict(first, cells, at_least=True)}"])
    asked.add(["cells in which it surely is", f"{sure} of {cells}"])
    asked.add(["measured over expected", f"{mean:.3f} +- {half:.3f}"])
    return [table, asked]
