"""What recording costs: processor time per tick while running, the conversion at the end, memory.

    python -m benchmarks.record [--rows 100000] [--ticks 1000] [--columns 4] [--json]

Target: 100,000 rows x 4 float64 columns per tick at <= 6 ms of processor time (all threads), memory
flat. Frames come from two alternating buffers, as an adapter's do; their making is not counted.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import monotonic, process_time, thread_time

import numpy as np

from benchmarks.measure import Table, parser, print_result, verdict
from cosim.contract.entities import Fleet, Node, Scene
from cosim.contract.frame import Frame, SlotTable
from cosim.contract.signals import Column, Signal
from cosim.results.folder import RunFolder
from cosim.results.recorder import Recorder
from cosim.scenario.plan.plan import AdapterPlan, Lag, Plan

TARGET = 6.0  # ms of processor time per tick


def measure(rows: int, ticks: int, columns: int, base: Path) -> dict[str, float]:
    """One recording of `ticks` frames of `rows` rows; figures in ms and MB."""
    names = [f"value_{i}" for i in range(columns)]
    signal = Signal("bench", "random walks", tuple(Column(name, "float64", "1", "a value") for name in names))
    fleet = Fleet("car", "source", 0, rows, Node("car", "car", "device"))
    adapter = AdapterPlan("source", "source", {}, 1, (), ("bench",), "simulated", False, "", (1,))
    plan = Plan("bench", "", "", 10**9, ticks - 1, 1, 0.0, Lag("report", 0.1, 2.0), 60.0,
                Scene.build((), (fleet,)), (adapter,), (), (), base, "")  # fmt: skip
    slot = np.arange(rows, dtype=np.int32)
    table = SlotTable(0, tuple(f"car.{i}" for i in range(rows)), np.zeros(rows, np.int32), 1)
    rng = np.random.default_rng(1)
    buffers = [{name: rng.normal(size=rows) for name in names} for _ in range(2)]
    moves = {name: rng.normal(size=rows) for name in names}

    recorder = Recorder(folder := RunFolder.create(base, plan), plan, {"bench": signal})
    making = 0.0  # s of processor time spent in making frames
    begun, wall, early = process_time(), monotonic(), 0.0
    for tick in range(ticks):
        before = thread_time()
        here, there = buffers[tick % 2], buffers[1 - tick % 2]
        for name in names:
            np.add(there[name], moves[name], out=here[name])
        making += thread_time() - before
        recorder.tick(tick, float(tick), [("source", Frame("bench", float(tick), slot, here, table))])
        if tick == ticks // 10:
            early = resident()
    running, growth = process_time() - begun - making, resident() - early
    wall = monotonic() - wall
    begun, ended = process_time(), monotonic()
    recorder.close()
    size = sum(file.stat().st_size for file in folder.path.rglob("*.parquet"))
    return {
        "rows": rows,
        "ticks": ticks,
        "columns": columns,
        "cpu_ms_per_tick": running / ticks * 1e3,
        "wall_ms_per_tick": wall / ticks * 1e3,
        "conversion_cpu_ms_per_tick": (process_time() - begun) / ticks * 1e3,
        "conversion_wall_ms_per_tick": (monotonic() - ended) / ticks * 1e3,
        "memory_growth_mb": growth,
        "memory_growth_with_conversion_mb": resident() - early,
        "parquet_bytes_per_row": size / (rows * ticks),
    }


def resident() -> float:
    """Resident memory of this process in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1e3
    return 0.0


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--rows", type=int, default=100_000)
    arguments.add_argument("--ticks", type=int, default=1_000)
    arguments.add_argument("--columns", type=int, default=4)
    arguments.add_argument("--folder", type=Path, help="where to write; default: a temporary folder")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as base:
        figures = measure(options.rows, options.ticks, options.columns, Path(base))
    target = TARGET if (options.rows, options.columns) == (100_000, 4) else None
    table = Table(
        f"{options.rows:,} rows x {options.columns} float64 columns per tick, {options.ticks:,} ticks",
        ["figure", "value"],
    )
    for key, value in figures.items():
        if key not in ("rows", "ticks", "columns"):
            met = verdict(value, target) if key == "cpu_ms_per_tick" else ""
            table.add([key.replace("_", " "), f"{value:.2f}{met}"])
    print_result("record", {**figures, "target_cpu_ms_per_tick": target}, [table], as_json=options.json)


if __name__ == "__main__":
    main()
