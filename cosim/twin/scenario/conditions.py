"""The conditions under which values are calibrated: overlays keep them, and runs are checked against them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from cosim.contract.errors import ScenarioError
from cosim.contract.units import show
from cosim.scenario.extrapolation import quantity
from cosim.twin.telemetry.measured import recorded

if TYPE_CHECKING:
    from cosim.scenario.load import Loaded

_TELLING = {"host": ("utilisation", "running"), "link": ("snr",), "cell": ("utilisation",)}  # what loads and links are


def seen(loaded: Loaded, run: Path | None = None) -> dict[str, tuple[object, object]]:
    """The conditions of a scenario with a block `calibrate`: path or SIGNAL.COLUMN -> lowest and highest.

    Of every workload the rate and the sizes that the scenario gives, unless they are free or replayed, and of every
    recorded run that it is compared with the range of sizes, loads and link qualities. `run` takes the place of these.
    """
    block = loaded.scenario.calibrate
    if block is None:
        return {}
    found: dict[str, tuple[object, object]] = {}
    for name, workload in (loaded.data.get("workloads") or {}).items():
        for key in ("arrivals", "input", "output", "work"):
            path, value = f"workloads.{name}.{key}", workload.get(key)
            replayed = block.replay is not None and key == "arrivals"
            if value is not None and not replayed and quantity(value) is not None and path not in block.free:
                found[path] = value, value
    ranges: dict[str, tuple[float, float]] = {}
    named = [one.run for one in (*block.observed.values(), block.replay, *block.recordings.values()) if one is not None]
    for folder in dict.fromkeys(loaded.path.parent / one for one in named if one) if run is None else [run]:
        for condition, (low, high) in _recorded_ranges(folder, loaded.scenario.workloads).items():
            before = ranges.get(condition, (low, high))
            ranges[condition] = min(low, before[0]), max(high, before[1])
    for condition, ends in ranges.items():
        sizes = condition.startswith("workloads.")
        found[condition] = (show(ends[0], "bytes"), show(ends[1], "bytes")) if sizes else ends
    return found


def _recorded_ranges(folder: Path, workloads: Iterable[str]) -> dict[str, tuple[float, float]]:
    """The ranges of sizes, loads and links in a recorded run; nothing for a run that cannot be read now."""
    found: dict[str, tuple[float, float]] = {}
    try:
        run = recorded(folder, "calibrate")
    except ScenarioError:
        return found
    with closing(run):
        for name in workloads if "task" in run.signals else ():
            for field in ("input", "output"):
                query = f'SELECT min("{field}"), max("{field}") FROM task WHERE workload = ?'
                low, high = run.execute(query, [name]).fetchall()[0]
                if low is not None and high > 0.0:
                    found[f"workloads.{name}.{field}"] = float(low), float(high)
        for table, columns in _TELLING.items():
            there = run.table(table).columns if table in run.signals else ()
            for column in columns:
                if column in there:
                    query = f'SELECT min("{column}"), max("{column}") FROM "{table}" WHERE isfinite("{column}"::DOUBLE)'
                    low, high = run.sql(query).fetchall()[0]
                    if low is not None:
                        found[f"{table}.{column}"] = float(low), float(high)
    return found
