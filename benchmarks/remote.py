"""What one adapter in another process costs per step: three float64 columns there, one back.

CPU time of both ends, against the same adapter called directly. `tables` is the same with a slot
table of which one percent of the slots changes at every step.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks._measure import Case, Figure, cpu_of, interleave, options, report
from benchmarks.echo import ADAPTER
from cosim.bus.adapter import Adapter, Context, Inputs
from cosim.bus.frame import Frame, SlotTable
from cosim.bus.remote import RemoteAdapter
from cosim.plan.entities import Scene

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


def measure(sizes: dict[int, int], rounds: int) -> dict[str, dict[str, Figure]]:
    """Figures by number of rows; `sizes[rows]` is the number of steps per round."""
    rows: dict[str, dict[str, Figure]] = {}
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(worker_elsewhere())
        local = ADAPTER.build(ADAPTER.load_config().model_validate({}))
        remotes = {
            "shared memory": RemoteAdapter("echo", USE, {}, timeout=60.0),
            "ipc": RemoteAdapter("echo", USE, {}, timeout=60.0, shared=False),
            "tcp": RemoteAdapter("echo", USE, {}, timeout=60.0, connect=address),
        }
        for remote in remotes.values():
            stack.callback(remote.close)
            remote.start(context(stack.enter_context(tempfile.TemporaryDirectory())))

        def cpu(remote: RemoteAdapter) -> Callable[[], float]:
            return cpu_of(lambda: remote.cpu_seconds)

        for size, repetitions in sizes.items():
            at = inputs(size)
            cases = [Case("direct", stepping(local, at))]
            cases += [Case(name, stepping(remote, at), cpu(remote)) for name, remote in remotes.items()]
            row = interleave(cases, repetitions, rounds)
            shared = remotes["shared memory"]
            tables = [Case("shared memory, tables", stepping(shared, inputs(size, churn=True)), cpu(shared))]
            rows[f"{size:,}"] = row | interleave(tables, repetitions, rounds)
    return rows


def main() -> None:
    chosen = options(__doc__.splitlines()[0] if __doc__ else "")
    sizes = {1_000: 100, 10_000: 50} if chosen.quick else {1_000: 500, 10_000: 300, 100_000: 60}
    report("one adapter in another process", measure(sizes, chosen.rounds), chosen.json)


if __name__ == "__main__":
    main()
