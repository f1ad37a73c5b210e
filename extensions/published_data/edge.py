"""The twin of edge nodes: fitted on some loads, judged by others.

    problem, = problems(shipped()["calibrate-edge"] / "recording", {})
    answer = calibrate(problem)
    judge(problem_data, values)

Free are the service time of every (service, size), shared by all nodes of the machine, the contention of
each node with more than one worker, and the overhead of a request. How single runs scatter is no
parameter: it is measured, on the node with the fewest workers and in the windows of the fit.

Results for fields of a scenario: `SERVICE.SIZE`, a work, and `contention.NODE`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.published_data.edge_telemetry import FEW, Telemetry, Window, read
from cosim.extensions.published_data.models.edge import CLOCK, Replay, Requests
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.space import Parameter, Space, Value

SETTINGS = ("held_back",)

# Multiply-accumulates of one picture of 224 x 224 (He et al. 2016; Iandola et al. 2016; Sandler et al. 2018).
MACS = {"resnet18": 1.82e9, "resnet34": 3.67e9, "squeezenet1_0": 0.82e9, "mobilenet_v2": 0.30e9}
RATE = 20e9  # of them per s of a core: half of what its vector units could do, before anything is measured
PIXEL = 20e-9  # s per pixel of a kernel that is not in the table
OVERHEAD = 1e-3  # s of a request before anything is measured
REPLICATES = 20


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Groups of requests that a statistic is taken of: `rows[k]` are the requests of `names[k]`."""

    names: tuple[str, ...]
    rows: tuple[Ints, ...]

    def take(self, values: Floats, level: float | None = None) -> Floats:
        """(cells,) means, or quantiles at `level`."""
        return np.array([values[rows].mean() if level is None else np.quantile(values[rows], level)
                         for rows in self.rows])  # fmt: skip

    def middle(self, values: Floats) -> Floats:
        """(cells,) means of what lies between the 10th and the 90th percentile: smooth, and deaf to outliers."""
        found = []
        for rows in self.rows:
            ordered = np.sort(values[rows])
            cut = len(ordered) // 10
            found.append(ordered[cut : len(ordered) - cut].mean())
        return np.array(found)


@dataclass(frozen=True, slots=True, eq=False)
class Twin:
    """The model of one measurement: the works and nodes that its values are about."""

    telemetry: Telemetry
    works: tuple[tuple[str, int], ...]
    nodes: tuple[str, ...]
    shared: tuple[int, ...]  # nodes with more than one worker
    scatter: tuple[Floats, ...]  # by work

    def replay(self, part: Telemetry) -> Replay:
        """The requests of a part, to be simulated."""
        return Replay(
            Requests(
                part.window,
                part.assigned,
                self.work_of(part),
                np.array([self.nodes.index(window.node) for window in part.windows], np.int64),
                np.array([self.window_of(name).concurrency for name in self.nodes], np.int64),
            ),
            self.scatter,
        )

    def run(self, replay: Replay, values: Floats, seed: int) -> tuple[Floats, Floats]:
        """(n,) s computed and (n,) s of response under one parameter vector (d,)."""
        contention = np.zeros(len(self.nodes))
        contention[list(self.shared)] = values[len(self.works) : -1]
        return replay.run(values[: len(self.works)], contention, float(values[-1]), seed)

    def work_of(self, part: Telemetry) -> Ints:
        """(n,) numbers of the works."""
        number = {work: k for k, work in enumerate(self.works)}
        pairs = zip(part.service, part.size, strict=True)
        return np.array([number[str(service), int(size)] for service, size in pairs], np.int64)

    def window_of(self, node: str) -> Window:
        """Any window of the node."""
        return next(window for window in self.telemetry.windows if window.node == node)


def problems(data: Path, settings: Mapping[str, object]) -> list[CalibrationProblem]:
    """The one problem of the measurement below `data`; see `read` for what is refused.

    The setting `held_back` names a folder with another measurement, whose loads are judged instead.
    """
    return [problem(twin(measured(data, settings.get("held_back"))))]


def measured(data: Path, held_back: object = None) -> Telemetry:
    """The measurement below `data`, judged by the one below `held_back` where there is one."""
    found = read(data)
    return found if held_back is None else found.judged_by(read(Path(str(held_back)), parts=()))


def twin(telemetry: Telemetry) -> Twin:
    """The model of a measurement, with the scatter of single runs as the windows of the fit have it."""
    works = telemetry.works
    nodes = tuple(dict.fromkeys(window.node for window in telemetry.windows))
    workers = {window.node: window.concurrency for window in telemetry.windows}
    shared = tuple(k for k, node in enumerate(nodes) if workers[node] > 1)
    return Twin(telemetry, works, nodes, shared, _scatter(telemetry.of("fit"), works))


def space(of: Twin) -> Space:
    """Service times by (service, size), contention by node, overhead."""
    parameters = []
    for service, size in of.works:
        known = MACS.get(service)
        guess = known * (size / 224.0) ** 2 / RATE if known else PIXEL * size**2
        parameters.append(
            Parameter(f"{service}.{size}", guess / 50.0, guess * 50.0, scale="log", unit="s", start=guess)
        )
    for k in of.shared:
        window = of.window_of(of.nodes[k])
        # workers that share fewer cores slow one another down by what their limit leaves them
        guess = max(0.0, window.concurrency / window.cores - 1.0) / (window.concurrency - 1)
        parameters.append(Parameter(f"contention.{window.node}", 0.0, 3.0, unit="1", start=guess))
    parameters.append(Parameter("overhead", 1e-4, 0.1, scale="log", unit="s", start=OVERHEAD))
    return Space(parameters)


def problem(of: Twin) -> CalibrationProblem:
    """The calibration of the twin: the windows of the fit, and those held back."""
    fit, held_back = of.telemetry.of("fit"), of.telemetry.of("held-back")
    workers = {window.node: window.concurrency for window in of.telemetry.windows}
    return CalibrationProblem(
        "edge",
        space(of),
        fit=_case(of, fit),
        held_back=_case(of, held_back),
        deterministic=True,
        cost=1.5e-6 * len(fit.window) + 2e-4,
        assumptions=(
            "a service takes as long on all nodes of the machine, contention aside",
            "single runs scatter alike whatever the service, size and load, independently of one another",
            "b busy workers each run at 1 / (1 + contention (b - 1)) of a lone one's speed",
            "a request's overhead is constant and takes nothing from the workers",
            f"the scatter is that of the fit windows of nodes with {min(workers.values())} worker(s)",
        ),
        sources=(f"{of.telemetry.source.name}: {len(fit.window)} requests fitted, {len(held_back.window)} held back",),
        warnings=of.telemetry.warnings,
        results=lambda values: _results(of, values),
    )


def _results(of: Twin, values: Mapping[str, Value]) -> dict[str, object]:
    """Works, of cores of 1 GHz, as uniform laws with the mean and deviation of single runs; contentions."""
    found: dict[str, object] = {}
    for (service, size), ratios in zip(of.works, of.scatter, strict=True):
        name = f"{service}.{size}"
        cycles = float(values[name]) * float(ratios.mean()) * CLOCK
        half = min(1.0, math.sqrt(3.0) * float(ratios.std() / ratios.mean()))
        found[name] = f"{cycles / 1e6:.4g} Mcycles +- {100 * half:.3g} %"
    for k in of.shared:
        name = f"contention.{of.nodes[k]}"
        found[name] = float(f"{float(values[name]):.4g}")
    return found


def lone(part: Telemetry) -> Ints:
    """The requests that were computed on nodes with the fewest workers: nothing else was computed meanwhile."""
    workers = np.array([window.concurrency for window in part.windows])
    return np.flatnonzero((workers == workers.min())[part.window])


def _scatter(fit: Telemetry, works: Sequence[tuple[str, int]]) -> tuple[Floats, ...]:
    """Ratios of runs to the typical one of their work and window, by work; of all works where one has few."""
    alone = np.zeros(len(fit.window), np.bool_)
    alone[lone(fit)] = True
    found = []
    for service, size in works:
        mine = alone & (fit.service == service) & (fit.size == size)
        ratios = []
        for window in np.unique(fit.window[mine]):
            busy = fit.busy[mine & (fit.window == window)]
            if len(busy) >= FEW:
                ratios.append(busy / np.median(busy))
        found.append(np.sort(np.concatenate(ratios)) if ratios else np.empty(0))
    together = np.sort(np.concatenate(found))
    together = together if len(together) else np.ones(1)
    return tuple(ratios if len(ratios) >= 30 else together for ratios in found)


def cells(part: Telemetry, *, sizes: bool) -> Cells:
    """Requests by (node, service, load), or by (node, service, size) over all loads; small groups are left out."""
    names, groups = [], []
    node = np.array([window.node for window in part.windows])[part.window]
    load = np.array([window.load for window in part.windows])[part.window]
    third = part.size if sizes else load
    for name in dict.fromkeys(node):
        for service in np.unique(part.service):
            for value in np.unique(third):
                rows = np.flatnonzero((node == name) & (part.service == service) & (third == value))
                if len(rows) >= FEW:
                    names.append(f"{name} {service} {value:g}")
                    groups.append(rows)
    return Cells(tuple(names), tuple(groups))


def _case(of: Twin, part: Telemetry) -> Case:
    """Signals are natural logarithms of s: relative errors count alike, and overload in a trial stays finite."""
    replay = of.replay(part)
    by_size, by_load = cells(part, sizes=True), cells(part, sizes=False)
    overhead = (part.uploaded - part.assigned) + (part.ended - part.computed)
    observed = {
        "computed": MeasuredSignal(np.log(by_size.middle(part.busy)), "ln s", paired=True, groups=by_size.names),
        "response": MeasuredSignal(np.log(by_load.take(part.response)), "ln s", paired=True, groups=by_load.names),
        "overhead": MeasuredSignal(np.log([np.median(overhead)]), "ln s", paired=True, weight=0.1),
    }

    def simulate(values: Floats, seed: int) -> dict[str, Floats]:
        rows = [of.run(replay, row, seed) for row in np.atleast_2d(values)]
        return {
            "computed": np.log([by_size.middle(computed) for computed, _ in rows]),
            "response": np.log([by_load.take(response) for _, response in rows]),
            "overhead": np.log(np.atleast_2d(values)[:, -1:]),
        }

    return Case(observed, simulate, " and ".join(f"{load:g}" for load in sorted({w.load for w in part.windows})))
