"""The testbed log that SimTune published, as an exact queueing model of it.

Three tables without headers, a row an interval of 5 s: CPU of 16 hosts (%), energy of all of them (J)
and the mean response of the tasks that ended (intervals, 0 when none did). Tasks, arrivals and
decisions were not logged, so only distributions can be compared. The power curve of the hosts and the CPU
that they show without tasks follow from the fit rows in closed form, the rest is searched.

Settings: `rows`, how many rows the fit takes (100, or half of what there is when there are fewer than
200), `replicates`, how many simulated logs one run is made of (4), `held_back`, a folder with later rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError, require
from cosim.contract.records import Floats
from cosim.extensions.simtune import intervals
from cosim.sources.tables.findings import as_warnings
from cosim.sources.tables.published import find, matrix
from cosim.twin.jobs import held_back, setting
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal
from cosim.twin.telemetry.hygiene import examine_inputs

SETTINGS = ("rows", "replicates", "held_back")

POINTS = np.arange(0.0, 101.0, 10.0)  # % of CPU at which the power curve is fitted
FIT_ROWS = 100
REPLICATES = 4
IDLE = 2.0  # % of CPU and less that a host without tasks may show
ASSUMPTIONS = (
    "arrivals: every interval begins with max(1, int N(0, 1.5)) new tasks, the law of the published code",
    "placement: hosts are drawn at random, all alike; migrations are not modelled",
    "tasks: one overhead for all without CPU, then log-normal work at a fixed share of the host",
    "tasks of one host share it equally",
    "response: whole intervals from arrival to the tick after the end, mean over the tasks that ended, 0 for none",
    "CPU log: steps of 0.5 %, Poisson noise without tasks, 0.8 of the new figure and 0.2 of the last one",
    "power: one curve for all hosts, linear between points 10 % apart, of the logged CPU figure",
    "the testbed starts empty at row 1",
)


@dataclass(frozen=True, slots=True, eq=False)
class TestbedLog:
    """Rows of the testbed's log; row 0 is interval `first`."""

    cpu: Floats  # (rows, hosts) %
    energy: Floats  # (rows,) J an interval, all hosts
    response: Floats  # (rows,) intervals
    first: int = 0
    source: str = ""

    def __len__(self) -> int:
        return len(self.energy)

    def part(self, start: int, end: int) -> TestbedLog:
        """Rows `start` to `end`, counted from this log's first."""
        return TestbedLog(
            self.cpu[start:end], self.energy[start:end], self.response[start:end], self.first + start, self.source
        )


def read(data: Path, kind: str = "real") -> TestbedLog:
    """The log below `data` that is called `kind`: real, sim (tuned) or sim_surrogate. Raises `ScenarioError`."""
    columns: list[Floats] = []
    names: list[str] = []
    for quantity in ("cpu", "energytotalinterval", "avgresponsetime"):
        paths = find(
            data, f"{kind}_{quantity}_intervals_*.csv*", f"{kind}_{quantity}.csv*", f"{kind}/*{quantity}*.csv*"
        )
        columns.append(np.concatenate([matrix(path) for path in paths]))
        names += [path.name for path in paths]
    cpu, energy, response = columns
    lengths = {len(column) for column in columns}
    if len(lengths) != 1 or energy.shape[1] != 1 or response.shape[1] != 1:
        shapes = ", ".join(str(column.shape) for column in columns)
        raise ScenarioError(Mistake(f"CPU, energy and response do not belong together: {shapes}", file=data))
    bad = [name for name, column in zip(("CPU", "energy", "response"), columns, strict=True) if _wrong(column)]
    if bad:
        raise ScenarioError(
            Mistake(f"{' and '.join(bad)} have negative or missing values", file=data, hint="leave those rows out")
        )
    return TestbedLog(cpu, energy[:, 0], response[:, 0], source=", ".join(names))


def split(log: TestbedLog, rows: int = FIT_ROWS) -> tuple[TestbedLog, TestbedLog]:
    """The log's first rows for the fit and as many for the judgement; halves of a log that is too short."""
    rows = min(rows, len(log) // 2)
    return log.part(0, rows), log.part(rows, min(2 * rows, len(log)))


def parts(data: Path, later: Path | None, rows: int = FIT_ROWS) -> tuple[TestbedLog, TestbedLog, TestbedLog]:
    """The rows of the fit, those of the judgement, and all rows of the real log at hand.

    `later` is a folder with the whole log, of which the rows after the fit's are taken, or with the rows
    that follow. Raises `ScenarioError` when it has nothing but the rows of the fit.
    """
    log = read(data)
    if later is None:
        return (*split(log, rows), log)
    fit, given = log.part(0, rows), read(later)
    shared = min(len(fit), len(given))
    if not np.array_equal(fit.energy[:shared], given.energy[:shared]):
        given = TestbedLog(
            np.concatenate([fit.cpu, given.cpu]),
            np.concatenate([fit.energy, given.energy]),
            np.concatenate([fit.response, given.response]),
            source=given.source,
        )
    if len(given) <= len(fit):
        raise ScenarioError(Mistake("the data held back are the rows of the fit", file=later))
    return fit, given.part(len(fit), 2 * len(fit)), given


def power_curve(log: TestbedLog, interval: float) -> Floats:
    """(11,) W at `POINTS` of one host, never falling, fitted to the energies of `log` by least squares.

    The energy of a row is `interval` times the sum of the hosts' power. Where no CPU figure lies, a
    small penalty on the change of slope carries the neighbours' slope on. Raises `SetupError` without SciPy.
    """
    require("twin", "scipy")
    from scipy.optimize import lsq_linear

    at = np.clip(log.cpu / 10.0, 0.0, 10.0)
    left = np.minimum(at.astype(np.int64), 9)
    weight = np.zeros((len(log), len(POINTS)))
    rows = np.repeat(np.arange(len(log)), log.cpu.shape[1])
    np.add.at(weight, (rows, left.ravel()), (1.0 - (at - left)).ravel())
    np.add.at(weight, (rows, left.ravel() + 1), (at - left).ravel())
    rises = np.tril(np.ones((len(POINTS), len(POINTS))))  # the first is the idle power, the others are rises
    penalty = 1e-3 * np.diff(np.eye(len(POINTS))[1:], axis=0)
    matrix = np.concatenate([interval * weight @ rises, penalty])
    wanted = np.concatenate([log.energy, np.zeros(len(penalty))])
    found = lsq_linear(matrix, wanted, bounds=(0.0, np.inf), tol=1e-12)
    return np.asarray(rises @ found.x, np.float64)


def idle_noise(log: TestbedLog, weight: float) -> float:
    """Mean steps of CPU of hosts without tasks: the mean of the figures up to `IDLE`, smoothing undone."""
    last = np.vstack([np.zeros(log.cpu.shape[1]), log.cpu[:-1]])
    raw = ((log.cpu - (1.0 - weight) * last) / weight)[1 if log.first else 0 :]
    idle = raw[raw <= IDLE]
    return float(idle.mean()) / intervals.STEP if len(idle) else 0.0


def problem(fit: TestbedLog, judged: TestbedLog | None, *, replicates: int = REPLICATES) -> CalibrationProblem:
    """The calibration of the queueing model to `fit`, judged on `judged`.

    Raises `ScenarioError` for CPU figures that are missing or impossible.
    """
    nodes = [f"host {k + 1}" for k in range(fit.cpu.shape[1])]
    findings = examine_inputs("CPU", fit.cpu, "%", nodes=nodes, effect=("energy", fit.energy))
    plain = intervals.TestbedFacts(hosts=fit.cpu.shape[1])
    curve, noise = power_curve(fit, plain.interval), idle_noise(fit, plain.weight)
    testbed = plain._replace(noise=noise)
    logs = [fit] + ([judged] if judged is not None else [])
    cases = [_case(log, curve, testbed, replicates) for log in logs]
    return CalibrationProblem(
        "simtune",
        intervals.space(),
        fit=cases[0],
        held_back=cases[1] if len(cases) > 1 else None,
        cost=1.2e-6 * replicates * len(fit),
        assumptions=(
            *ASSUMPTIONS,
            f"power at {_list(POINTS)} % from the fit rows: {_list(curve)} W",
            f"CPU without tasks from the fit rows: {noise:.3g} steps of {intervals.STEP} % on average",
        ),
        sources=tuple(f"{log.source}: {case.name}" for log, case in zip(logs, cases, strict=True)),
        warnings=as_warnings(findings),
        results=lambda _: {"curve": [f"{watts:.4g} W" for watts in curve]},
    )


def problems(data: Path, settings: Mapping[str, object]) -> list[CalibrationProblem]:
    """The one problem of the log below `data`."""
    rows = int(setting(settings, "rows", FIT_ROWS))
    fit, judged, log = parts(data, held_back(settings), rows)
    found = problem(fit, judged, replicates=int(setting(settings, "replicates", REPLICATES)))
    if len(log) < 2 * rows:
        fewer = (
            f"the log has {len(log)} rows, {2 * rows} were wanted: {len(fit)} are fitted and {len(judged)} held back"
        )
        found = replace(found, warnings=(*found.warnings, fewer))
    return [found]


def _case(log: TestbedLog, curve: Floats, testbed: intervals.TestbedFacts, replicates: int) -> Case:
    until = log.first + len(log)

    def simulate(values: Floats, seed: int) -> Mapping[str, Floats]:
        seeds = np.random.SeedSequence(seed).generate_state(replicates, np.uint64)
        return intervals.simulate(values, seeds, POINTS, curve, until=until, first=log.first, testbed=testbed)

    observed = {
        "energy": MeasuredSignal(log.energy, "J", origin="modelled"),
        "response": MeasuredSignal(log.response, "intervals"),
    }
    return Case(observed, simulate, f"rows {log.first + 1} to {until}")


def _wrong(column: Floats) -> bool:
    return bool((~np.isfinite(column) | (column < 0.0)).any())


def _list(values: Floats) -> str:
    return ", ".join(f"{value:.4g}" for value in values)
