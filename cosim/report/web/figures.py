"""Which time series a run has: totals of tasks, the run itself, and every number that nodes signal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

FEW = 6  # nodes that get a line each; more are shown as mean and maximum


@dataclass(frozen=True, slots=True)
class Figure:
    """One chart."""

    name: str  # "host.utilisation"
    label: str
    unit: str


TASKS = (
    Figure("task.completed", "Tasks completed", "1/s"),
    Figure("task.failed", "Tasks failed", "1/s"),
    Figure("task.response", "Mean response time", "s"),
)
RUN = (Figure("run.pace", "Pace of the run", "simulated s per s"), Figure("run.lag", "Lag behind the wall clock", "s"))
FOLLOWED = 64  # lines of single nodes that a live run keeps at most
_FIRST = (
    "resources.cpu", "host.utilisation", "host.power", "host.energy",
    "link.uplink_rate", "link.loss", "battery.fraction",
)  # fmt: skip


def figures_of(signals: Mapping[str, Any], live: bool) -> list[dict[str, str]]:
    """The figures of a run that writes `signals` (as in a scene), the most informative ones first."""
    found = list(TASKS) if "task" in signals else []
    columns = {
        f"{name}.{column}": Figure(f"{name}.{column}", _label(name, column, about["meaning"]), about["unit"])
        for name, signal in signals.items()
        if signal["rows"] == "node"
        for column, about in signal["columns"].items()
        if about["role"] in ("value", "counter")
    }
    found += [columns[name] for name in _FIRST if name in columns]
    found += RUN if live else ()
    found += [figure for name, figure in columns.items() if name not in _FIRST]
    return [asdict(figure) for figure in found]


def split(name: str) -> tuple[str, str, int]:
    """Signal, column and node number (-1: of all nodes) of a figure's name."""
    figure, at, number = name.partition("@")
    signal, _, column = figure.partition(".")
    if not at:
        return signal, column, -1
    return signal, column, int(number) if number.isdecimal() and len(number) < 10 else -1


def _label(signal: str, column: str, meaning: str) -> str:
    words = column.replace("_", " ")
    return f"{signal.replace('_', ' ').capitalize()} {words}" if len(words) < 16 or not meaning else meaning
