"""What edge nodes measured: windows of an open load, and the requests in them.

`windows.csv` has a row per window: node, cores, concurrency, load, part, disturbed. `tasks.csv` (or `.gz`) has a
row per request: window, service, size, created, assigned, uploaded, started, computed, ended (s since the
start of the window, one clock) and status (200: answered).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.records import Floats, Ints
from cosim.sources.tables.published import column, find, numbers, table

FEW = 5  # requests of a (node, service, load), fewer of which are not judged
LOST = 0.05  # share of requests without an answer from which a window is not used
STAMPS = ("assigned", "uploaded", "started", "computed", "ended")


@dataclass(frozen=True, slots=True)
class Window:
    """One node under one load."""

    number: int
    node: str
    cores: float
    concurrency: int
    load: float  # share of the node's own throughput
    part: str  # pilot, fit, held-back, repeat
    disturbed: bool  # something else used the machine


@dataclass(frozen=True, slots=True, eq=False)
class Telemetry:
    """Windows and the requests that were answered, sorted by window and time of sending."""

    windows: tuple[Window, ...]
    window: Ints  # (n,) index into windows
    service: NDArray[np.str_]  # (n,)
    size: Ints  # (n,)
    assigned: Floats  # (n,) s, sent
    uploaded: Floats
    started: Floats
    computed: Floats
    ended: Floats
    source: Path
    warnings: tuple[str, ...]

    @property
    def response(self) -> Floats:
        """(n,) s from sending to the answer."""
        return self.ended - self.assigned

    @property
    def busy(self) -> Floats:
        """(n,) s of computation."""
        return self.computed - self.started

    @property
    def works(self) -> tuple[tuple[str, int], ...]:
        """The (service, size) there are, in a fixed order."""
        return tuple(sorted({(str(s), int(n)) for s, n in zip(self.service, self.size, strict=True)}))

    def of(self, *parts: str) -> Telemetry:
        """The windows of these parts."""
        kept = [k for k, window in enumerate(self.windows) if window.part in parts]
        place = np.full(len(self.windows), -1)
        place[kept] = np.arange(len(kept))
        rows = np.isin(self.window, kept)
        columns = {name: getattr(self, name)[rows] for name in ("service", "size", *STAMPS)}
        return Telemetry(
            tuple(self.windows[k] for k in kept), place[self.window[rows]],
            source=self.source, warnings=self.warnings, **columns,
        )  # fmt: skip

    def judged_by(self, other: Telemetry) -> Telemetry:
        """With the loads of another measurement of the same nodes as the part held back, instead of its own.

        Raises `ScenarioError` for nodes and services that this one has not.
        """
        loads = other.of("fit", "held-back")
        unknown = {window.node for window in loads.windows} - {window.node for window in self.windows}
        unknown |= {f"{service}.{size}" for service, size in set(loads.works) - set(self.works)}
        if unknown:
            names = ", ".join(sorted(unknown))
            raise ScenarioError(Problem(f"nothing was fitted that describes {names}", file=other.source))
        own = self.of("pilot", "fit")
        windows = [replace(window, part="held-back") for window in loads.windows]
        names_of = ("service", "size", *STAMPS)
        both = {name: np.concatenate([getattr(own, name), getattr(loads, name)]) for name in names_of}
        return Telemetry(
            (*own.windows, *windows), np.concatenate([own.window, len(own.windows) + loads.window]),
            source=self.source, warnings=(*self.warnings, *other.warnings), **both,
        )  # fmt: skip


def read(data: Path, parts: tuple[str, ...] = ("fit", "held-back")) -> Telemetry:
    """The measurement below `data`; `parts` have to be in it.

    Raises `ScenarioError` when there is none, or it cannot be used.

    Disturbed windows are left out where that leaves two loads for the fit and one to judge by of every
    node; else they stay, with a warning.
    """
    listed = find(data, "windows.csv")[0]
    windows = _windows(listed)
    tasks = find(listed.parent, "tasks.csv.gz", "tasks.csv")[0]
    found = table(tasks)
    values = {name: numbers(found, name, tasks) for name in ("window", "size", "status", *STAMPS)}
    stamps = np.stack([values[name] for name in STAMPS])
    answered = (values["status"] == 200.0) & np.isfinite(stamps).all(axis=0)
    warnings = []
    backwards = answered & (np.diff(stamps, axis=0) < -1e-6).any(axis=0)
    if backwards.any():
        warnings.append(f"{backwards.sum()} requests are left out: their times go backwards, so clocks differ")
        answered &= ~backwards
    numbers_of = np.array([window.number for window in windows])
    lost = [1.0 - answered[values["window"] == k].mean() if (values["window"] == k).any() else 1.0 for k in numbers_of]
    for window, share in zip(windows, lost, strict=True):
        if share > LOST:
            warnings.append(f"window {window.number} is left out: {share:.0%} of its requests have no usable answer")
    kept = [window for window, share in zip(windows, lost, strict=True) if share <= LOST]
    kept, more = _undisturbed(kept)
    place = {window.number: k for k, window in enumerate(kept)}
    rows = np.flatnonzero(answered & np.isin(values["window"], list(place)))
    at = np.array([place[int(k)] for k in values["window"][rows]], np.int64)
    order = np.lexsort((values["assigned"][rows], at))
    rows = rows[order]
    services = np.array(column(found, "service", tasks))
    stamped = {name: values[name][rows] for name in STAMPS}
    reported = Telemetry(
        tuple(kept), at[order], services[rows], values["size"][rows].astype(np.int64),
        source=listed.parent, warnings=(*warnings, *more), **stamped,
    )  # fmt: skip
    for part in parts:
        if not any(window.part == part for window in reported.windows):
            raise ScenarioError(Problem(f"no window of the part '{part}' can be used", file=listed))
    return reported


def _windows(path: Path) -> list[Window]:
    found = table(path)
    names = ("window", "cores", "concurrency", "load", "disturbed")
    values = np.stack([numbers(found, name, path) for name in names], axis=1)
    if not len(values) or not np.isfinite(values).all():
        raise ScenarioError(Problem("a window lacks a number", file=path, hint=f"every row needs {', '.join(names)}"))
    nodes, parts = column(found, "node", path), column(found, "part", path)
    return [
        Window(int(row[0]), node, float(row[1]), int(row[2]), float(row[3]), part, bool(row[4]))
        for row, node, part in zip(values, nodes, parts, strict=True)
    ]


def _undisturbed(windows: list[Window]) -> tuple[list[Window], list[str]]:
    """The windows that were not disturbed, if they suffice; else all of them."""
    quiet = [window for window in windows if not window.disturbed]
    if len(quiet) == len(windows):
        return windows, []
    for node in {window.node for window in windows}:
        fit = {window.load for window in quiet if window.node == node and window.part == "fit"}
        if len(fit) < 2 or not any(window.node == node and window.part == "held-back" for window in quiet):
            count = len(windows) - len(quiet)
            return windows, [f"{count} of {len(windows)} windows were disturbed by other programs; they are used"]
    return quiet, [f"{len(windows) - len(quiet)} of {len(windows)} windows are left out: other programs disturbed them"]
