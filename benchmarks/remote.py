"""What one adapter in another process costs: `python -m benchmarks.remote [--json] [--rows 1000 10000 100000]`.

Three float64 columns go there and one comes back per step. CPU and wall time of both ends, warm.

Cases
- direct   the adapter called in this process
- worker   a process of our own: columns in shared memory
- tables   the same with a slot table of which one percent of the slots changes at every step
- tcp      a worker that listens on TCP: columns as messages
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

import numpy as np

from benchmarks.echo import ADAPTER
from benchmarks.measure import Case, Figure, Table, cpu_of, interleave, parser, print_result
from cosim.bus.remote import RemoteAdapter
from cosim.contract.adapter import Adapter, Context, Inputs
from cosim.contract.entities import Scene
from cosim.contract.frame import Frame, SlotTable

USE = "benchmarks.echo:ADAPTER"
Step = Callable[[int], Inputs]


def context(folder: str) -> Context:
    return Context("echo", Scene(capacity=10**6), 1.0, 1.0, (1,), folder, folder)


def inputs(rows: int, *, churn: bool = False) -> Step:
    """Inputs of tick k from two alternating buffers, as a simulator would publish them."""
    rng = np.random.default_rng(1)
    slot = np.arange(rows, dtype=np.int32)
    buffers = [{name: rng.random(rows) for name in ("x", "y", "speed")} for _ in range(2)]
    ids = [f"vehicle-{i}" for i in range(rows)]
    generation = np.ones(rows, np.int32)
    tables = [SlotTable(0, tuple(ids), generation.copy(), 1)]
    for epoch in range(2, 40 if churn else 2):  # after the last table the first comes again, with other ids at 39 %
        for i in range(epoch, rows, 100):
            ids[i] = f"vehicle-{i}.{epoch}"
        generation[epoch::100] += 1
        tables.append(SlotTable(0, tuple(ids), generation.copy(), epoch))

    def at(k: int) -> Inputs:
        frame = Frame("mobility", float(k), slot, buffers[k % 2], tables[k % len(tables)])
        return Inputs({"mobility": [frame]})

    return at


def stepping(adapter: Adapter, at: Step) -> Callable[[int], None]:
    def run(repetitions: int) -> None:
        for k in range(repetitions):
            (frame,) = adapter.step(float(k), at(k))
            assert len(frame) == len(at(k).frames["mobility"][0])

    return run


@contextlib.contextmanager
def worker_elsewhere() -> Iterator[str]:
    """The address of a worker that listens on TCP."""
    command = [sys.executable, "-m", "cosim.bus.worker", "--adapter", USE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def measure(sizes: dict[int, int], rounds: int) -> dict[int, dict[str, Figure]]:
    """Figures by number of rows; `sizes[rows]` is the number of steps per round."""
    rows: dict[int, dict[str, Figure]] = {}
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(worker_elsewhere())
        local = ADAPTER.build(ADAPTER.load_config().model_validate({}))
        remotes = {
            "worker": RemoteAdapter("echo", USE, {}, timeout=60.0),
            "tcp": RemoteAdapter("echo", USE, {}, timeout=60.0, connect=address),
        }
        for remote in remotes.values():
            stack.callback(remote.close)
            remote.start(context(stack.enter_context(tempfile.TemporaryDirectory())))

        def cpu(remote: RemoteAdapter) -> Callable[[], float]:
            return cpu_of(lambda: remote.cpu_seconds)

        for size, repetitions in sizes.items():
            at = inputs(size)
            cases = [Case("direct", stepping(local, at), time.process_time)]
            cases += [Case(name, stepping(remote, at), cpu(remote)) for name, remote in remotes.items()]
            row = interleave(cases, repetitions, rounds)
            worker = remotes["worker"]
            tables = [Case("tables", stepping(worker, inputs(size, churn=True)), cpu(worker))]
            rows[size] = row | interleave(tables, repetitions, rounds)
    return rows


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rows", type=int, nargs="+", default=(1_000, 10_000, 100_000))
    arguments.add_argument("--rounds", type=int, default=5, help="of which the best counts (default: %(default)s)")
    arguments.add_argument("--steps", type=int, help="steps of one round (default: as many as the size needs)")
    options = arguments.parse_args()
    sizes = {rows: options.steps or max(20, min(500, 6_000_000 // rows)) for rows in options.rows}
    found = measure(sizes, options.rounds)
    table = Table("one adapter in another process, us per step: CPU / wall", ["case", *map(str, sizes)])
    for case in next(iter(found.values())):
        figures = [found[rows][case] for rows in sizes]
        table.add([case, *(f"{figure.cpu * 1e6:,.0f} / {figure.wall * 1e6:,.0f}" for figure in figures)])
    data = {rows: {case: asdict(figure) for case, figure in row.items()} for rows, row in found.items()}
    print_result("remote", {"seconds_per_step": data}, [table], as_json=options.json)


if __name__ == "__main__":
    main()
