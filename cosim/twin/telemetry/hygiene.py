"""Find and report faults of telemetry before anything is fitted to it.

    observed, findings = examine(observed, parameters=len(space), loads={"power": utilisation})

Nothing is repaired by guessing: an impossible value is blanked (NaN, so positions stay as they are), a node with wrong
values is left out by name, and every such act is a `Finding` for the report. Data that leave nothing to fit are refused
with a `ScenarioError` that holds every refusal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cosim.contract import units
from cosim.contract.errors import Problem, ScenarioError
from cosim.results.outliers import OUTLIER, PART, far, robust, spikes
from cosim.sources.tables.findings import Finding, Kind, as_warnings
from cosim.sources.tables.timing import apart, gaps, holes, regular, runs, sampled, speeds
from cosim.twin.judgement import course
from cosim.twin.judgement.course import LEAST
from cosim.twin.judgement.subject import BEYOND, FALSE
from cosim.twin.judgement.table import SHAPE
from cosim.twin.problem import CalibrationProblem as Task
from cosim.twin.problem import Floats, MeasuredSignal, Observed

_FITTED, _HELD_BACK = "fitted data: ", "data held back: "
_DRIFTS = 0.03  # of the median, that is reported: a meter of class 3 may be off by as much (IEC 62053-23)
UNITS = 5.0  # times off, from which on another unit is likely: the nearest are bits and bytes, 8 times apart
ALONE = 1.5  # times as far from the median as all others: an outlier
_STRONG = 0.5  # correlation: a large effect (J. Cohen, Statistical Power Analysis, 1988, 3.2)
_BROKEN = {"missing values", "impossible values", "lying node", "no values", "frozen time"}
_SIGNED = {"level", "gain", "angle", "length", "acceleration", "price"}  # dimensions whose values may be negative


@dataclass(frozen=True, slots=True)
class HygieneRules:
    """Thresholds for reporting, blanking and refusing."""

    least: int = LEAST  # values of a signal; with fewer there is a warning
    outlier: float = OUTLIER  # robust standard deviations from the median of the node
    gap: float = 3.0  # times the median period between rows of a node
    stuck: int = 12  # equal values in a row; more where the signal often repeats one
    frozen: int = 5  # equal times in a row, of rows that come from a sampler
    each: int = 2  # values per parameter that are needed
    lying: float = 0.2  # share of impossible values from which on a node is left out


def bounds(unit: str) -> tuple[float, float]:
    """The least and the greatest value that a quantity in `unit` can have; infinite where nothing is known."""
    for dimension, known in units.DIMENSIONS.items():
        if unit in known:
            low = -math.inf if dimension in _SIGNED else 0.0
            return low, 1.0 / known[unit] if dimension == "fraction" else math.inf
    return -math.inf, math.inf


def share_of(load: Floats) -> float | None:
    """What a node's load (m,) is a share of: 1, 100 where it is a percentage, None where it is no share."""
    top = float(np.nanmax(load)) if np.isfinite(load).any() else np.nan
    return 1.0 if top <= 1.01 else 100.0 if UNITS < top <= 101.0 else None


def examine(
    observed: Observed,
    *,
    parameters: int = 0,
    loads: Mapping[str, Floats] | None = None,
    limits: Mapping[str, tuple[float, float]] | None = None,
    rules: HygieneRules | None = None,
) -> tuple[dict[str, MeasuredSignal], tuple[Finding, ...]]:
    """`observed` with what cannot be true blanked, and everything that was found wrong.

    `loads` gives the load of the node (m,) beside a signal that should follow it; `limits` replaces
    the bounds of the signal's unit. Raises `ScenarioError` when a signal has no value left, or when
    there are fewer values in all than two for each of the `parameters` to be fitted.
    """
    rules = rules or HygieneRules()
    cleaned: dict[str, MeasuredSignal] = {}
    findings: list[Finding] = []
    refusals: list[Problem] = []
    for name, signal in observed.items():
        least, greatest = (limits or {}).get(name, bounds(signal.unit))
        examined = _Examined(name, signal, (loads or {}).get(name), least, greatest, rules)
        values = examined.run()
        findings += examined.findings
        cleaned[name] = replace(signal, values=values)
        count = int(np.isfinite(values).sum())
        if count == 0:
            why = "; ".join(finding.message for finding in examined.findings) or "it is empty"
            hint = "look at the data, or leave the signal out"
            refusals.append(Problem(f"signal '{name}' has no value that can be used: {why}", "calibrate", hint=hint))
        elif count < rules.least:
            message = f"only {count} values; intervals are wide and the noise floor is rough (advised: {rules.least})"
            findings.append(Finding("few rows", name, message, count))
    total = sum(int(np.isfinite(signal.values).sum()) for signal in cleaned.values() if signal.weight > 0.0)
    if total < rules.each * parameters and not refusals:
        message = f"{total} measured values cannot determine {parameters} parameters"
        refusals.append(Problem(message, "calibrate", hint="measure longer, or free fewer parameters"))
    if refusals:
        raise ScenarioError(refusals)
    return cleaned, tuple(findings)


def vetted(problem: Task) -> Task:
    """The problem with its measurements examined, and what is wrong with them among its warnings.

    Parameters with a normal prior need no measurement of their own, so they are not counted. Raises
    `ScenarioError` when nothing is left to fit; without anything to hold back there is a warning.
    """
    uniform = sum(parameter.prior.law == "uniform" for parameter in problem.space.parameters)
    observed, findings = examine(problem.fit.observed, parameters=uniform)
    warnings = [f"{_FITTED}{line}" for line in as_warnings(findings)]
    held_back = problem.held_back
    if held_back is not None:
        try:
            kept, findings = examine(held_back.observed)
            held_back = replace(held_back, observed=kept)
            warnings += [f"{_HELD_BACK}{line}" for line in as_warnings(findings)]
        except ScenarioError as error:
            held_back = None
            warnings.append(f"nothing could be held back: {error}")
    known = {*problem.warnings, *(f"{part}{line}" for line in problem.warnings for part in (_FITTED, _HELD_BACK))}
    fresh = tuple(line for line in warnings if line not in known)
    return replace(
        problem, fit=replace(problem.fit, observed=observed), held_back=held_back, warnings=(*problem.warnings, *fresh)
    )


class _Examined:
    """One signal under examination: `values` are blanked as faults are found."""

    def __init__(
        self, name: str, signal: MeasuredSignal, load: Floats | None, least: float, greatest: float, rules: HygieneRules
    ) -> None:
        self.name, self.signal, self.load, self.rules = name, signal, load, rules
        self.least, self.greatest = least, greatest
        self.values = np.array(signal.values, np.float64)
        self.findings: list[Finding] = []
        groups = np.array(signal.groups) if signal.groups is not None else np.zeros(len(self.values), np.int8)
        self.nodes: dict[str, NDArray[np.int64]] = {}  # name, "" when there are no groups -> its rows
        for group in np.unique(groups):
            named = str(group) if signal.groups is not None else ""
            self.nodes[named] = np.flatnonzero(groups == group)

    def run(self) -> Floats:
        for name, rows in self.nodes.items():
            if self._impossible(name, rows) and self._frozen(name, rows):
                self._constant(name, rows)
                self._stuck(name, rows)
                self._outliers(name, rows)
                self._clipped(name, rows)
                self._gaps(name, rows)
                self._lag(name, rows)
        self._missing()
        self._periods()
        self._loads()
        return self.values

    def _note(self, kind: Kind, node: str, message: str, count: int) -> None:
        if kind in self.signal.usual:
            return
        subject = f"{self.name} of {node}" if node else self.name
        self.findings.append(Finding(kind, subject, message, count, self.name))

    def _leave_out(self, node: str, rows: NDArray[np.int64], why: str) -> None:
        self.values[rows] = np.nan
        what = "the node is left out" if node else "nothing of it is used"
        self._note("lying node", node, f"{why}; {what}", len(rows))

    def _impossible(self, node: str, rows: NDArray[np.int64]) -> bool:
        """Whether the node is kept after what its unit rules out, and infinities, were blanked."""
        values = self.values[rows]
        missing = np.isnan(values)
        if missing.all():
            self._note("no values", node, "all values are missing", len(rows))
            return False
        wrong = np.isinf(values) | (values < self.least) | (values > self.greatest)
        count = int(wrong.sum())
        if count == 0:
            return True
        found = float(values[wrong][0])
        limit = f"below {self.least:g}" if found < self.least else f"above {self.greatest:g}"
        limit = "infinite" if math.isinf(found) else f"{limit} {self.signal.unit}".rstrip()
        share = count / float((~missing).sum())
        why = f"{count} of {int((~missing).sum())} values are impossible, the first ({found:g}) is {limit}"
        if share >= self.rules.lying:
            self._leave_out(node, rows, why)
            return False
        self.values[rows[wrong]] = np.nan
        self._note("impossible values", node, f"{why}; they are blanked", count)
        return True

    def _frozen(self, node: str, rows: NDArray[np.int64]) -> bool:
        """Whether the node is kept after rows under a clock that stood still were blanked."""
        times = self.signal.times
        if times is None:
            return True
        own = times[rows]
        unknown = ~np.isfinite(own)
        if count := int(unknown.sum()):
            self.values[rows[unknown]] = np.nan
            self._note("time order", node, f"{count} rows have no time; they are blanked", count)
        back = int((np.diff(own[~unknown]) < 0.0).sum())
        if back:
            self._note("time order", node, f"time goes back {_count(back, 'time')}", back)
        still = runs(own, self.rules.frozen)
        if not still.any():
            return True
        count = int(still.sum())
        if not (sampled(own) or self._sampled(node)):
            what = f"{count} rows have the time of the row before: events at once, or a clock that stands still"
            self._note("frozen time", node, what, count)
            return True
        if len(np.unique(own)) == 1:
            self._leave_out(node, rows, f"all {len(rows)} rows have the same time")
            return False
        self.values[rows[still]] = np.nan
        self._note("frozen time", node, f"the clock stands still in {count} rows; they are blanked", count)
        return True

    def _sampled(self, node: str) -> bool:
        """Whether the rows of another node are those of a sampler."""
        times = self.signal.times
        return times is not None and any(sampled(times[rows]) for other, rows in self.nodes.items() if other != node)

    def _constant(self, node: str, rows: NDArray[np.int64]) -> None:
        values = self.values[rows]
        kept = np.isfinite(values)
        if kept.sum() < 3 or np.ptp(values[kept]) > 0.0:
            return
        value = f"always {values[kept][0]:g} {self.signal.unit}".rstrip()
        if self.load is not None and np.ptp(self.load[rows][kept]) > 0.0:
            load = self.load[rows][kept]
            self._leave_out(node, rows, f"{value} while the load goes from {load.min():g} to {load.max():g}")
        else:
            self._note("constant", node, f"{value}: it shows nothing about what moves it", int(kept.sum()))

    def _stuck(self, node: str, rows: NDArray[np.int64]) -> None:
        """A sensor that froze: one value in a run far longer than chance makes it in this signal.

        With a share p of repetitions outside of the runs, n rows hold n p^k runs of k repetitions: 10,000 nodes have a
        false word as seldom as one recording has. A value that has several long runs is a state (idle), not a fault;
        so is one that events often repeat, as requests do that wait for nothing.
        """
        values = self.values[rows]
        load = None if self.load is None else self.load[rows]
        least = self.rules.stuck if load is None else self.rules.stuck // 2
        run = runs(values, least)
        rest = values[~run]
        if not run.any() or len(rest) < 3:
            return
        share = float(np.clip(np.mean(np.diff(rest) == 0.0), 1e-3, 1.0 - 1e-9))
        run = runs(values, max(least, math.ceil(math.log(1e-4 * FALSE / len(rows)) / math.log(share))))
        starts = np.flatnonzero(run & ~np.concatenate([[False], run[:-1]]))
        states = {value for value in values[starts] if np.sum(values[starts] == value) > 2}
        if self.signal.times is not None and not regular(self.signal.times[rows]):
            states |= {value for value in values[starts] if np.mean(np.isclose(rest, value)) > PART}
        run &= ~np.isin(values, list(states))
        if load is not None:  # few rows suffice where the load is another one in most of them
            run &= runs(values, self.rules.stuck) | (len(np.unique(load[run])) > 0.5 * run.sum())
        if not run.any():
            return
        count = int(run.sum())
        message = f"stands still at {values[run][0]:g} for {count} rows"
        if self.load is not None and np.ptp(self.load[rows][run]) > 0.0:
            self.values[rows[run]] = np.nan
            message += " while the load moves; they are blanked"
        self._note("stuck", node, message, count)

    def _outliers(self, node: str, rows: NDArray[np.int64]) -> None:
        values = self.values[rows]
        apart_from_all = far(values, self.rules.outlier)
        away = np.abs(values - np.nanmedian(values)) if apart_from_all.any() else np.zeros(1)
        if apart_from_all.any() and away[apart_from_all].min() < ALONE * np.nanmax(away[~apart_from_all], initial=0.0):
            # A few that go on where the others end are no fault.
            apart_from_all &= np.count_nonzero(apart_from_all) > 1 + PART * len(values)
        found = apart_from_all | spikes(values, self.rules.outlier)
        count = int(found.sum())
        if count == 0:
            return
        middle, _ = robust(values[np.isfinite(values)])
        worst = float(values[found][np.argmax(np.abs(values[found] - middle))])
        if count > 1 + PART * len(values):
            ordered, others = np.sort(values[found]), values[np.isfinite(values) & ~found]
            between = [*(ordered[ordered > others.max()][:1] - others.max()),
                       *(others.min() - ordered[ordered < others.min()][-1:])]  # fmt: skip
            kept = values[np.isfinite(values)]
            if len(kept) < self.rules.least or max(between, default=0.0) < 2 * SHAPE * float(np.ptp(kept)):
                return  # one kind, most of which are nearly equal: nothing but chance is between two kinds
            message = f"{count} of {len(values)} values lie far from the median {middle:g}, the farthest {worst:g}"
            self._note("outliers", node, f"{message}: two kinds of rows, or faults; kept", count)
            return
        message = f"{_count(count, 'outlier')}, the farthest {worst:g} with a median of {middle:g}; kept"
        self._note("outliers", node, message, count)

    def _clipped(self, node: str, rows: NDArray[np.int64]) -> None:
        """Values that end at one level (a limit, a time-out), or that have hardly any levels (rounded away)."""
        values = self.values[rows]
        values = values[np.isfinite(values)]
        if len(values) < LEAST or np.ptp(values) == 0.0:
            return
        levels, counts = np.unique(values, return_counts=True)
        if len(levels) <= 4 and counts.max() < 0.9 * len(values):
            shown = ", ".join(f"{level:g}" for level in levels)
            self._note("steps", node, f"has no other values than {shown}: rounded, or states of a machine", len(values))
        elif (
            len(levels) > 10
            and counts[-1] > 5 * np.median(counts)
            and (counts[-1] >= max(5, 0.02 * len(values)) or counts[-1] > max(4, 3 * counts[:-1].max()))
        ):
            message = f"{counts[-1]} values are exactly the largest one, {levels[-1]:g}: a limit or a time-out cut them"
            self._note("limit", node, message, int(counts[-1]))

    def _gaps(self, node: str, rows: NDArray[np.int64]) -> None:
        found = gaps(self.signal.times[rows], self.rules.gap) if self.signal.times is not None else None
        if found is not None:
            message = f"{_count(found.number, 'gap')} in time, the longest {found.longest:g} s; "
            self._note("gap", node, f"{message}{found.share:.1%} of the period is missing", found.number)
        elif self.signal.times is not None and (missing := holes(self.signal.times[rows])):
            message = f"{missing} of {len(rows) + missing} rows are missing, one or a few at a time"
            self._note("gap", node, f"{message}: lost, or those of idle times were left out?", missing)
        if self.signal.times is not None and regular(self.signal.times[rows]):
            steps = np.diff(self.signal.times[rows])
            again = int(((steps > 0.0) & (steps < 0.5 * np.median(steps)) & (np.diff(self.values[rows]) == 0.0)).sum())
            if again >= max(3, 0.02 * len(rows)):
                what = f"{again} rows follow too soon and say what the row before says: written again by an exporter?"
                self._note("duplicates", node, what, again)

    def _lag(self, node: str, rows: NDArray[np.int64]) -> None:
        """A signal that follows the load of other rows: its meter has another clock than the load's."""
        if self.load is None:
            return
        found = lag(self.load[rows], self.values[rows])
        if found is None:
            rank = correlation(self.load[rows], self.values[rows])
            kept = int(np.isfinite(self.load[rows] + self.values[rows]).sum())
            if rank < BEYOND / math.sqrt(kept or 1):  # as a rank correlation of 0 is
                message = f"does not follow its load (rank correlation {rank:.2f}): the load of another node or unit, "
                self._note("load", node, f"{message}or rows in another order", len(rows))
        else:
            self._note("clock", node, f"follows its load {found}: another clock, or a slow meter", len(rows))
        self._drift(node, rows)

    def _drift(self, node: str, rows: NDArray[np.int64]) -> None:
        """A signal that rises or falls with time though its load does not."""
        times = self.signal.times
        assert self.load is not None
        if times is None:
            return
        value, load, time = self.values[rows], self.load[rows], times[rows]
        kept = np.isfinite(value) & np.isfinite(load) & np.isfinite(time)
        value, load, time = value[kept], load[kept], time[kept]
        if len(value) < self.rules.least or np.ptp(load) == 0.0 or np.ptp(time) == 0.0:
            return
        scaled = load / np.abs(load).max()
        design = np.stack([np.ones(len(value)), scaled, scaled**2, (time - time.mean()) / np.ptp(time)], axis=1)
        slopes = np.linalg.lstsq(design, value, rcond=None)[0]
        change = float(slopes[3]) / (abs(float(np.median(value))) or 1.0)
        rest = value - design[:, :3] @ slopes[:3]
        along = correlation(time, rest)
        if abs(along) > max(_STRONG, 4.0 / math.sqrt(len(value))) and abs(change) > _DRIFTS:
            way = "rises" if change > 0.0 else "falls"
            message = f"{way} by {abs(change):.0%} in the time measured though its load does not: a meter that drifts,"
            self._note("drift", node, f"{message} or a cause beside the load", len(value))

    def _loads(self) -> None:
        """The load of one node is a fraction, that of another a percentage."""
        if self.load is None or len(self.nodes) < 2:
            return
        tops = {name: float(np.nanmax(self.load[rows])) for name, rows in self.nodes.items()
                if np.isfinite(self.load[rows]).any()}  # fmt: skip
        low = [name for name, top in tops.items() if 0.0 < top <= 1.0]
        for name, top in tops.items():
            if low and top > UNITS:
                message = f"its load goes up to {top:.4g}, that of {low[0]} to {tops[low[0]]:.4g}"
                self._note("unit", name, f"{message}: percent and fractions?", len(self.nodes[name]))

    def _missing(self) -> None:
        missing = np.isnan(self.signal.values)
        if missing.any():
            count = int(missing.sum())
            self._note("missing values", "", f"{count} values ({missing.mean():.1%}) are missing", count)

    def _periods(self) -> None:
        """Nodes that were measured together cover the same period; one that does not has another clock, or a gap."""
        times = self.signal.times
        if times is None:
            return
        spans = {node: times[rows][np.isfinite(times[rows])] for node, rows in self.nodes.items()}
        for node, message in apart(spans, self.rules.gap, "nodes").items():
            self._note("period", node, message, len(spans[node]))
        for node, faster in speeds(spans).items():
            way = "faster" if faster > 0.0 else "slower"
            message = f"time goes {abs(faster):.2%} {way} than on other nodes: its clock"
            self._note("clock", node, message, len(spans[node]))


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class SignalLag:
    """`effect` follows its cause `rows` rows later; negative: it comes before."""

    rows: int
    correlation: float  # at that lag
    without: float  # correlation of the rows as they stand

    def __str__(self) -> str:
        order = "after" if self.rows > 0 else "before"
        return (
            f"{abs(self.rows)} rows {order} (correlation {self.correlation:.2f}, {self.without:.2f} as the rows stand)"
        )


def lag(cause: Floats, effect: Floats, most: int = 20) -> SignalLag | None:
    """The lag of `effect` (m,) behind `cause` (m,), None where the rows as they stand agree as well.

    Rows with a missing value are left out. Correlations are those of ranks (Spearman), which a single
    outlier cannot make. A lag counts when the correlation at it is strong, and
    clearly stronger in size than without; it is sought up to `most` rows and a quarter of the series.
    """
    most = min(most, len(cause) // 4)
    found = [(shift, correlation(cause, effect, shift)) for shift in range(-most, most + 1)]
    known = [(abs(value), -abs(shift), shift) for shift, value in found if np.isfinite(value)]
    without = abs(correlation(cause, effect))
    if not known or not np.isfinite(without):
        return None
    best, _, shift = max(known)
    return SignalLag(shift, best, without) if shift and best >= _STRONG and best >= without + 2 * SHAPE else None


def correlation(cause: Floats, effect: Floats, shift: int = 0) -> float:
    """Rank correlation, `effect` taken `shift` rows later; NaN for fewer than 30 rows, and where one never changes."""
    first, second = (cause[: len(cause) - shift], effect[shift:]) if shift >= 0 else (cause[-shift:], effect[:shift])
    kept = np.isfinite(first) & np.isfinite(second)
    first, second = first[kept], second[kept]
    if len(first) < LEAST or np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return float("nan")
    return course.correlation(course.ranks(first), course.ranks(second))


def examine_inputs(
    name: str,
    values: Floats,
    unit: str = "",
    *,
    nodes: Sequence[str] | None = None,
    effect: tuple[str, Floats] | None = None,
    limits: tuple[float, float] | None = None,
) -> tuple[Finding, ...]:
    """Findings about an input with a row per time, (rows,) or (rows, nodes).

    `effect` is a measured series (rows,) with its name, which should follow the sum over nodes: when it follows another
    row's, the two were not on one clock. Loads are bursty, so only outliers of another size are reported, and none of a
    quantity with two bounds. `limits` replaces the bounds of `unit`. Raises `ScenarioError` for values that are missing
    or impossible.
    """
    table = values[:, None] if values.ndim == 1 else values
    nodes = nodes or [f"{name} {k + 1}" for k in range(table.shape[1])]
    groups = tuple(np.repeat(np.array(nodes), len(table)).tolist()) if table.shape[1] > 1 else None
    signal = MeasuredSignal(table.T.ravel(), unit, groups=groups)
    bounded = np.isfinite(limits or bounds(unit)).all()
    rules = HygieneRules(outlier=np.inf if bounded else 1000.0, least=0)  # as far off as with a wrong SI prefix
    _, findings = examine({name: signal}, limits={name: limits} if limits else None, rules=rules)
    broken = [finding for finding in findings if finding.kind in _BROKEN]
    if broken:
        raise ScenarioError([
            Problem(str(finding), "calibrate", hint="mend the data, or leave those rows out") for finding in broken
        ])  # fmt: skip
    if effect is not None:
        reported, series = effect
        found = lag(table.sum(axis=1), series)
        if found is not None:
            message = f"follows {name} {found}: they were not on one clock"
            findings = (*findings, Finding("clock", reported, message, len(series)))
    return findings
