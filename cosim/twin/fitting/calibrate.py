"""From a problem to a calibration: screen, search, intervals, judgement.

    answer = calibrate(problem, budget=Budget(runs=20_000, seconds=60.0), seed=1)
    answer.value("clock"), answer.estimates, answer.held_back

The search sees the fit part only; the held-back part is simulated once, when all is decided.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError
from cosim.contract.plugins import load
from cosim.twin.calibration import Calibration, ParameterEstimate
from cosim.twin.fitting.judging import before_and_after, complaints
from cosim.twin.fitting.methods import AUTO, EXPENSIVE, METHODS, Proposal, Searching, choose, method_names, search
from cosim.twin.fitting.misfit import Misfit
from cosim.twin.fitting.posterior import Posterior, laplace
from cosim.twin.fitting.runs import Journal, SimulatedPoints, cpu_seconds, fingerprint
from cosim.twin.fitting.screen import SEEDS, Identity, identify, morris
from cosim.twin.fitting.summaries import Summaries
from cosim.twin.fitting.synthetic import synthetic
from cosim.twin.judgement.judge import TAIL
from cosim.twin.judgement.pairs import pairs
from cosim.twin.judgement.subject import FALSE, SURE, JudgedStatistic
from cosim.twin.judgement.table import RELATIVE
from cosim.twin.judgement.verdict import Verdicts, sentence, verdict
from cosim.twin.problem import CalibrationProblem, Floats, seeds_of
from cosim.twin.search.bayesian import CREDIBLE
from cosim.twin.search.meter import RUNS, Budget, Progress
from cosim.twin.telemetry.hygiene import vetted

INTERRUPTED = "interrupted"
_PER_REPLICATE = 40  # runs of the budget for each repetition of the start and of the judgement
_WEAK = 0.3  # changes below this many deviations over seeds cannot be distinguished from chance
DRAWS = 200  # of the posterior that an answer keeps
_AT_MOST = 10.0  # times, of intervals under a model that is reported to lack a cause
_BENT = 0.35  # times the root of the number of values, of intervals under a law that these do not follow


def _chance(differences: Floats, deviations: float) -> float:
    """So many deviations of the mean of differences (n,) under as many seeds; 0 under one."""
    n = len(differences)
    return deviations * float(differences.std(ddof=1)) / math.sqrt(n) if n > 1 else 0.0


def calibrate(
    problem: CalibrationProblem, *, budget: Budget | None = None, seed: int = 1, method: str = AUTO,
    screen: bool = True, posterior: bool = True, progress: Callable[[Progress], None] | None = None,
    state: Path | None = None,
) -> Calibration:  # fmt: skip
    """Move the free parameters of `problem` until its simulation agrees with what was measured.

    `method` is auto or one of `METHODS`. `state` names a file (npz)
    in which answers are kept: with the same problem, seed and settings the next call goes on where this
    one ended, and its budget of time begins anew. Ctrl-C ends the search; the answer is the best so far.
    Measurements are examined first (`cosim.twin.telemetry.hygiene`), and what is wrong with them stands among the
    warnings. Raises `ScenarioError` for a method that does not fit and for data that nothing can be
    fitted to, `KeyboardInterrupt` at a second Ctrl-C.
    """
    if method not in (AUTO, *method_names()):
        known = ", ".join((AUTO, *method_names()))
        raise ScenarioError(Mistake(f"there is no method '{method}'", "calibrate.method", hint=f"known: {known}"))
    session = _Session(vetted(problem), budget or Budget(), seed, progress, state)
    session.intervals_wanted = posterior
    try:
        session.guard(session.start)
        if screen:
            session.guard(session.screen)
        session.guard(lambda: session.search(method))
        if posterior:
            session.guard(session.posterior)
            session.guard(session.doubt)
        return session.answer()
    finally:
        session.runs.journal.save()


class _Session:
    """One calibration under way."""

    def __init__(
        self, problem: CalibrationProblem, budget: Budget, seed: int, progress: Callable[[Progress], None] | None,
        state: Path | None,
    ) -> None:  # fmt: skip
        self.problem, self.seed, self._progress = problem, seed, progress
        self._cpu, self._wall = cpu_seconds(), time.monotonic()
        self.space, self.case = problem.space, problem.fit
        self.cases = [(case, part) for case, part in ((self.case, "fit"), (problem.held_back, "held back")) if case]
        self.misfit, self.summaries = Misfit(self.case.observed, problem.distance), Summaries(self.case.observed)
        start = self.space.units(self.space.start)[0]
        known = f"{problem.name} {fingerprint(self.case.observed)} {problem.distance}"
        self.runs = SimulatedPoints(self.space, start, Journal(state), problem.cost, known)
        self.runs.report = self._progress_report
        self.budget = budget
        self.start_units, self.best = start, start.copy()
        self.loss = math.inf
        roots = np.random.SeedSequence(seed).spawn(4)
        self._random = [np.random.default_rng(root) for root in roots]
        self._seeds = [int(word) for word in roots[3].generate_state(64, np.uint64) >> np.uint64(1)]
        most = 1 if problem.deterministic else 2 if problem.cost >= EXPENSIVE else 8
        self.replicates = max(1, min(most, budget.runs // _PER_REPLICATE))
        self.intervals_wanted = True
        self.stage, self.stopped, self.method = "screen", "", "none"
        self._found = False  # whether a search has come to any point
        self.warnings: list[str] = list(problem.warnings)
        self.refused: dict[str, str] = {}
        self.sensitivity: dict[str, float] = {}
        self.verdicts: dict[str, Identity] = {}
        self.ends: Floats = np.full((2, len(self.space)), np.nan)  # of intervals, in units
        self.figures: dict[str, float] = {}
        self.findings: tuple[JudgedStatistic, ...] = ()
        self._apart: list[str] = []  # where search and posterior disagree; of no account if the model makes the data
        self.draws: Floats = np.empty((0, len(self.space)))  # values (n, d) from the posterior

    def guard(self, stage: Callable[[], None]) -> None:
        """Do a stage unless an earlier one was interrupted."""
        if self.stopped == INTERRUPTED:
            return
        try:
            stage()
        except KeyboardInterrupt:
            self.stopped = INTERRUPTED

    def start(self) -> None:
        """Simulate the start, so that there is something to go back to."""
        self.loss = float(self._by_seed(self.start_units[None], self._seeds[: self.replicates]).mean())
        self.figures["misfit_before"] = self.loss
        self._progress_report()

    def screen(self) -> None:
        """Refuse the parameters that move nothing that was measured, and share out the misfit."""
        d, names = len(self.space), self.space.names
        seeds, room = self._few, self._room("screen", 0.125)
        trajectories = min(12, room // ((d + 1) * len(seeds)))
        if trajectories < 2:
            need = 16 * (d + 1) * len(seeds)
            self.warnings.append(f"no screen was made: it needs a budget of {need} runs or more")
            return
        effects = morris(self._answers(seeds), d, self._random[0], trajectories)
        if not len(effects.elementary):
            self.warnings.append("no screen was made: too few points within the bounds could be simulated")
            return
        noise = np.maximum(effects.noise, 1e-9)
        ratio = (effects.change / noise).max(axis=1)
        for k, name in enumerate(names):
            if ratio[k] < (1.0 if self.problem.deterministic else _WEAK):
                self.refused[name] = (
                    "no effect on any measured signal: moving it over its bounds changes the misfit by "
                    f"{effects.change[k, -1]:.3g}, seeds by {effects.noise[-1]:.3g}"
                )
        lengths = effects.mean_absolute[:, -1]
        shares = lengths / (lengths.sum() or 1.0)
        self.sensitivity = {name: 0.0 if name in self.refused else float(shares[k]) for k, name in enumerate(names)}
        self.runs.searched = np.array([name not in self.refused for name in names])

    def search(self, method: str) -> None:
        """Find the best point and judge the candidates anew under seeds that the search has not seen."""
        self.stage = "search"
        if not self.runs.searched.any():
            self.warnings.append("nothing was searched: no free parameter has an effect on what was measured")
            self.stopped = self.stopped or "nothing to search"
            return
        left = self.budget.runs - self.runs.count
        part = Budget(self._part(left), self.budget.seconds * (0.55 if self.intervals_wanted else 1.0))
        self.method = choose(self.problem, self.runs.searched, part.runs) if method == AUTO else method
        many = 1 if self.problem.deterministic or self.problem.cost >= EXPENSIVE else 4
        searching = Searching(
            start=self.start_units[self.runs.searched],
            losses=lambda units, seeds: self._by_seed(units, seeds).mean(axis=1),
            residuals=self._residuals,
            squares=self._squares,
            seeds=self._seeds[:many],
            fresh=self._fresh,
            levels=np.array([p.levels for p in self.space.parameters], np.float64)[self.runs.searched],
            sample=lambda n: self.space.sample(n, self._random[1])[:, self.runs.searched],
            random=self._random[1],
            budget=part,
            clock=self.runs.journal.clock,
        )
        try:
            if self.method not in METHODS:
                self.stopped = self._by_extension(searching)
            else:
                self.stopped = search(self.method, searching)
        finally:
            points = searching.candidates()
            if len(points):
                self.best = self.runs.whole(points[:1])[0]
                spent = sum(len(meter.points) for meter in searching.meters)
                self._found = searching.answer is not None or spent > 1  # the start is one
        points = np.concatenate([points, self.start_units[self.runs.searched][None]])
        self._settle(points, surface=self.method == "regression")

    def _part(self, left: int) -> int:
        """Runs of the search: all that are left but for the intervals and the judgement."""
        kept = (4 + 2 * len(self.cases)) * self.replicates  # the choice between two points, the judgement
        d = len(self.space)
        if not self.intervals_wanted or 0.55 * left < 8 * self.replicates + (2 * d + 1) * (3 if d > 1 else 1):
            return max(1, left - kept)
        return max(1, max(int(0.45 * left), left - max(2000, 600 * d)))

    def _fresh(self, batch: int) -> int:
        return seeds_of(self.seed, 0x62617463, batch)[0]

    def _by_extension(self, searching: Searching) -> str:
        rest = self.space.values(self.runs.rest[None])[0]
        found: Proposal = load("calibrations", self.method)(
            self.problem, self.runs.searched, rest, searching.budget, self.seed
        )
        self.runs.count += found.runs
        if math.isfinite(found.r2):
            self.figures["surrogate_r2"] = found.r2
            if found.r2 < CREDIBLE:
                self.warnings.append(f"the surrogate has learned little: R2 {found.r2:.2f} on runs it has not seen")
        searching.answer = found.unit[None]
        return RUNS

    def _settle(self, points: Floats, *, surface: bool = False) -> None:
        """Take the point (n, d searched) with the least misfit under fresh seeds; the last one is the start.

        The first, if it is the minimum of a surface over all runs, is left only for what is better beyond chance.
        """
        most = max(2, (self.budget.runs - self.runs.count) // (4 * len(self._fresh_seeds)))
        points = np.concatenate([points[: most - 1], points[-1:]]) if len(points) > most else points
        by_seed = self._by_seed(points, self._fresh_seeds)
        losses = by_seed.mean(axis=1)
        k = int(np.argmin(losses))
        if surface and k and math.isfinite(losses[0]):
            better = by_seed[0] - by_seed[k]
            if better.mean() < _chance(better, SURE):
                k = 0
        if math.isfinite(losses[k]):
            self.best, self.loss = self.runs.whole(points[k : k + 1])[0], float(losses[k])

    def posterior(self) -> None:
        """Compute intervals, and which parameters the data can distinguish."""
        self.stage = "posterior"
        # Categories have no interval; nor has anything discrete where intervals rest on slopes.
        open_kinds = {"real"} if self.problem.deterministic else {"real", "integer", "boolean"}
        kept = self.runs.searched & np.array([p.kind in open_kinds for p in self.space.parameters])
        if not kept.any():
            return
        self.runs.rest, self.runs.searched = self.best.copy(), kept
        names = [p.name for p, one in zip(self.space.parameters, kept, strict=True) if one]
        found = self._sampled(self.best[kept])
        if found is None:
            return
        covariance = found.covariance
        if not self._center(found) and found.widened > 1.0:
            # Summaries of another model's data lead astray; the least distance of distributions is sturdier.
            moved = found.units + (self.best[kept] - found.middle)
            found = replace(found, units=np.clip(moved, 0.0, 1.0))
        self._note(found, names)
        units = found.units[:: max(1, len(found.units) // DRAWS)][:DRAWS]
        if found.widened > SURE:  # intervals show how little values mean, draws what such a model predicts
            at = self.best[kept]
            units = np.clip(at + SURE / found.widened * (units - at), 0.0, 1.0)
        self.draws = self._varied(self.space.values(self.runs.whole(units)), self._random[2])
        for k, (name, one) in enumerate(zip(names, identify(covariance, names), strict=True)):
            if one.verdict == "no effect" and self._excluded(k):
                one = Identity("fitted", "its interval is wide: too few runs were left to narrow it")
            self.verdicts[name] = one

    def _varied(self, values: Floats, random: np.random.Generator) -> Floats:
        """`values` (n, d) with what differs from one time to another drawn anew for each row."""
        values = values.copy()
        for k, p in enumerate(self.space.parameters):
            if p.varies > 0.0:
                factor = np.exp(math.sqrt(math.log1p(p.varies**2)) * random.standard_normal(len(values)))
                values[:, k] = np.clip(values[:, k] * factor, p.low, p.high)
        return values

    def _excluded(self, k: int) -> bool:
        """Whether the data exclude the start of parameter k (of those searched), to which one without effect goes back.

        A sampled posterior calls a parameter open also when too few runs were left to find out.
        """
        points = np.repeat(self.best[self.runs.searched][None], 2, axis=0)
        points[1, k] = self.start_units[self.runs.searched][k]
        best, back = self._by_seed(points, self._fresh_seeds)
        return bool((back - best).mean() > max(_chance(back - best, SURE), best.mean()))

    def _sampled(self, at: Floats) -> Posterior | None:
        """The posterior, None when the budget is too small for one."""
        paired = all(signal.paired for signal in self.case.observed.values() if signal.weight > 0.0)
        room = self._room("posterior", 1.0)

        def believed(points: Floats) -> Floats:
            return self.space.log_prior(self.runs.whole(points))

        if self.problem.deterministic and paired:
            runs = min(room, 6000)
            if runs >= 2 * len(at) + 1:
                return laplace(self._residuals, self._squares, at, self._random[2], runs=runs, log_prior=believed)
        runs = min(room, max(2000, 600 * len(at)))
        rounds = min(4, runs // (20 * (len(at) + 1)) + 1)
        if rounds > 1:
            extra, sampling = None, None
            if not self.problem.deterministic and not self.problem.replayed:
                sampling = self.summaries.sampling(self._random[2])
            elif self.problem.deterministic:
                best = self.case.simulate(self.space.values(self.runs.whole(at[None])), self._seeds[0])
                self.runs.count += 1
                extra = self.summaries.sampling(self._random[2], best)
            try:
                return synthetic(
                    self._draw, self.summaries.observed, at, self._random[2],
                    runs=runs, rounds=rounds, extra=extra, sampling=sampling, log_prior=believed,
                    sample=lambda n: self.space.sample(n, self._random[2])[:, self.runs.searched],
                )  # fmt: skip
            except ValueError as error:
                self.warnings.append(f"there are no intervals: {error}")
                return None
        self.warnings.append(f"there are no intervals: they need {20 * (len(at) + 1)} runs, {max(room, 0)} were left")
        return None

    def _center(self, found: Posterior) -> bool:
        """Take the posterior's middle if its misfit exceeds the best by no more than chance; return whether this is so.

        The best is that of these data alone, so any other point is worse with them. If the model makes the data, the
        middle is also taken if it is no farther from them than its own runs are from one another.
        """
        if self.problem.deterministic:
            return True
        middle = self.runs.whole(found.middle[None])
        losses = self._by_seed(np.stack([self.best[self.runs.searched], found.middle]), self._fresh_seeds)
        worse, of_runs = losses[1] - losses[0], 0.0
        if found.widened <= 1.0:
            runs = [self.case.simulate(self.space.values(middle), seed) for seed in self._fresh_seeds]
            self.runs.count += len(runs)
            of_runs = self.misfit.usual(runs)
        if worse.mean() <= max(_chance(worse, 2.0), 0.02 * losses[0].mean()) or losses[1].mean() <= of_runs:
            self.best, self.loss = middle[0], float(losses[1].mean())
            self.runs.rest = self.best.copy()
            return True
        return False

    def _note(self, found: Posterior, names: list[str]) -> None:
        low, high = found.interval()
        at = self.best[self.runs.searched]
        away = (at - found.middle) / np.maximum(found.units.std(axis=0), 1e-12)
        for name, far in zip(names, away.tolist(), strict=True):
            if abs(far) > SURE:  # a search of few runs ends beside an interval of 90 % by chance
                end = "lower" if far < 0.0 else "upper"
                self._apart.append(
                    f"'{name}': the value lies at the {end} end of its interval: search and posterior disagree, "
                    "as the model may not make these data"
                )
        self.ends[:, self.runs.searched] = np.minimum(low, at), np.maximum(high, at)
        self.figures["widened"] = found.widened
        if found.widened > 1.0 and found.off > RELATIVE:
            self.warnings.append(
                f"the model does not reproduce the data within its noise, by {found.off:.0%} of a value; "
                f"intervals are {found.widened:.2g} times as wide"
            )

    def doubt(self) -> None:
        """Judge data and model by the statistics of the table, also on data that were not fitted."""
        self.stage = "doubt"
        if not self._found:
            return
        at = self.space.values(self.best[None])[0]
        for case, part in self.cases:
            if case.tasks:
                other = pairs(case, at, self._seeds[0], part)
                self.warnings += other
                self.runs.count += 1
                if part == "fit" and other:
                    self.figures["law_unexplained"] = float(len(other))
        if self.problem.deterministic:
            return
        count = min(self._simulations(), self._room("doubt", 1.0) // len(self.cases))
        if count < 20 or not len(self.draws):  # at one point alone, what values leave open would be the model's fault
            self.warnings.append("the data were not compared with what the model makes: more runs are needed")
            return
        found = self._judged(count)
        if FALSE <= found.least < FALSE / TAIL and (most := self._further()) >= 2 * count:
            more = self._judged(most)
            found = more if more.least < FALSE * TAIL else found
        self.findings = found.rows
        if found.lie is not None:
            self.warnings.append(sentence(found.lie, self.cases))
        self.warnings += [str(one) for one in found.words]
        self.figures["unexplained"] = float(len(found.words) + (found.lie is not None))
        if found.of_law:
            self.figures["law_unexplained"] = float(found.of_law)
        self._widen(found.farthest, _BENT * math.sqrt(found.bent), slight=not self.figures["unexplained"])

    def _judged(self, count: int) -> Verdicts:
        """The verdicts by so many simulations of each part of the data."""
        draws = self.draws[np.arange(count) % len(self.draws)]
        self.runs.count += count * len(self.cases)
        return verdict(self.cases, draws, [self._fresh(1_000_000 + k) for k in range(count)])

    def _further(self) -> int:
        """How many simulations of each part a second look takes, in no more runs than the whole budget has.

        It speaks at a tenth of the level, so that both looks have a tenth more false words than one (K. Lan, D. DeMets,
        Biometrika 70, 1983).
        """
        left = (self.budget.seconds - self.runs.journal.clock()) / self.runs.cost
        most = min(self._simulations(), min(self.budget.runs, left) // len(self.cases))
        return self.runs.decided("further", int(most))

    def _widen(self, worst: float, bent: float, *, slight: bool) -> None:
        """Widen intervals under a model that cannot make the data (Birge 1932), as far as they are not wide already.

        `worst` is the number of deviations by which a statistic of the data is out of reach, 0 if none is. Predictions
        of such a model may be close, because its values are bent to the data; what the values mean is a separate
        question. So draws are widened by the misfit itself, at most `SURE` times, and intervals by all of `worst`.

        Another law of the data bends values by a share of the spread of the data. This share does not shrink with their
        number n, while an interval shrinks with the root of n. `bent` is this root times `_BENT`, 0 where the law fits.
        """
        already = self.figures.get("widened", 1.0)
        of_draws = max(1.0, min(worst / SURE, SURE) / already)
        factor = max(of_draws, min(worst, _AT_MOST) / already, bent / already)
        if factor <= 1.0:
            return
        away = self.ends - self.best
        if worst:  # to both sides alike: a value at an end of its interval is one that the data's law has pushed there
            away = np.array([[-1.0], [1.0]]) * np.abs(away).max(axis=0)
        real = np.array([not p.discrete for p in self.space.parameters])
        self.ends[:, real] = np.clip(self.best + factor * away, 0.0, 1.0)[:, real]
        if len(self.draws) and of_draws > 1.0:
            units = self.space.units(self.draws)
            self.draws = self.space.values(np.clip(self.best + of_draws * (units - self.best), 0.0, 1.0))
        self.figures["widened"] = factor * already
        why = "the law of the values differs a little from the model's" if slight else "the model lacks a cause"
        self.warnings.append(f"as {why}, intervals are {factor:.2g} times as wide")

    def answer(self) -> Calibration:
        """Judge, and put everything together."""
        self.stage = "judgement"
        if self.stopped == INTERRUPTED and self._found:  # perhaps before the best point was looked at again
            at = self.best[None, self.runs.searched]
            self.loss = float(self._by_seed(at, self._seeds[: self.replicates]).mean())
        for name, one in self.verdicts.items():
            if one.verdict == "no effect":  # back to where it was: what was found for it is chance
                k = self.space.names.index(name)
                self.best[k] = self.start_units[k]
        seeds = self._seeds[-self.replicates :]
        both = np.stack([self.space.start, self.space.values(self.best[None])[0]])
        for k in range(len(self.space)):
            if self.best[k] == self.start_units[k]:
                both[1, k] = both[0, k]  # exactly as declared, not by way of the cube
        found = [before_and_after(case, both, seeds, part, self.draws) for case, part in self.cases]
        self.runs.count += sum(runs for *_, runs in found)
        names = ("the fit", "the data held back")
        worse = {name: judged for name, (judged, less, _) in zip(names, found, strict=False) if less}
        fit, held = found[0][0], found[1][0] if len(found) > 1 else None
        estimates = tuple(self._estimate(k, both) for k in range(len(self.space)))
        self.figures["misfit_after"] = self.loss
        self.warnings += self._apart if self.figures.get("unexplained", 1.0) else []
        self._progress_report()
        return Calibration(
            self.problem.name, estimates, fit, held, self.method, self.runs.count, cpu_seconds() - self._cpu,
            time.monotonic() - self._wall, self.seed, self.stopped,
            warnings=(*self.warnings, *complaints(self.space, self.best, estimates, worse, held)),
            assumptions=self.problem.assumptions, sources=self.problem.sources, figures=dict(self.figures),
            findings=self.findings,
            draws=tuple(tuple(float(f"{x:.8g}") for x in row) for row in self.draws.tolist()),
        )  # fmt: skip

    def _estimate(self, k: int, both: Floats) -> ParameterEstimate:
        p = self.space.parameters[k]
        verdict = self.verdicts.get(p.name, Identity("fitted"))
        if p.name in self.refused:
            verdict = Identity("no effect", self.refused[p.name])
        elif not self._found:
            verdict = Identity("fixed", "nothing was searched")
        known = bool(np.isfinite(self.ends[:, k]).all())
        low, high = self.space.values(self.ends)[:, k].tolist()
        low, high = min(low, float(both[1, k])), max(high, float(both[1, k]))  # one without effect went back
        return ParameterEstimate(
            p.name, p.as_written(both[1, k]), low if known else None, high if known else None,
            p.as_written(both[0, k]), p.unit, verdict.verdict, verdict.reason, self.sensitivity.get(p.name),
            None if p.kind == "category" else (p.low, p.high), p.members,
        )  # fmt: skip

    @property
    def _few(self) -> list[int]:
        """The seeds of slopes: enough to see chance, if there is any."""
        return self._seeds[: 1 if self.problem.deterministic else SEEDS]

    @property
    def _fresh_seeds(self) -> list[int]:
        """Seeds that no search has seen."""
        return self._seeds[:1] if self.problem.deterministic else self._seeds[32 : 32 + 2 * self.replicates]

    def _by_seed(self, units: Floats, seeds: list[int]) -> Floats:
        """(n, seeds) misfits."""
        return self.runs.ask(self.case, units, seeds, "losses", lambda made: self.misfit.losses(made)[:, None])

    def _residuals(self, units: Floats) -> Floats:
        return self.runs.ask(self.case, units, self._seeds[:1], "residuals", self.misfit.residuals)

    def _simulations(self) -> int:
        """How many runs the judgement of a part of the data takes: fewer where they are dear."""
        return 20 if self.problem.cost >= 0.5 else DRAWS if self.problem.cost >= 2e-3 else 2 * DRAWS

    def _room(self, stage: str, share: float) -> int:
        """Runs that a stage may make: a share of those left, or of those that the time left allows."""
        kept = self.replicates * (3 * len(self.cases) if stage == "doubt" else 8)  # for choosing a point, the judgement
        left = self.budget.seconds - self.runs.journal.clock()
        if stage == "posterior" and not self.problem.deterministic:  # for the checks of the model
            checks = self._simulations() * len(self.cases)
            kept += min(checks, self.budget.runs // 6)
            left -= min(checks * self.runs.cost, self.budget.seconds / 10)
        room = share * (self.budget.runs - self.runs.count - kept)
        if math.isfinite(left):
            room = min(room, share * 0.9 * left / self.runs.cost)
        return self.runs.decided(stage, max(0, int(room)))

    def _squares(self, units: Floats) -> Floats:
        """(n,) sums of squared residuals."""

        def summed(made: Mapping[str, Floats]) -> Floats:
            rows = self.misfit.residuals(made)
            return np.asarray(np.einsum("ij,ij->i", rows, rows))[:, None]

        return self.runs.ask(self.case, units, self._seeds[:1], "squares", summed)[:, 0]

    def _answers(self, seeds: list[int]) -> Callable[[Floats], Floats]:
        """Summaries and, as the last figure, the misfit: (n, seeds, k + 1)."""

        def answered(units: Floats) -> Floats:
            found = self.runs.ask(
                self.case, units, seeds, "summaries and losses",
                lambda s: np.concatenate([self.summaries.of(s), self.misfit.losses(s)[:, None]], axis=1),
            )  # fmt: skip
            return found.reshape(len(units), len(seeds), -1)

        return answered

    def _draw(self, units: Floats, first: int) -> Floats:
        """Summaries (n, k) of one run per point, each under a seed of its own, with what differs from time to time."""
        parts = []
        for row in range(len(units)):
            words = np.random.SeedSequence([self.seed, first + row]).generate_state(1, np.uint64)
            some = units[row : row + 1]
            if any(p.varies > 0.0 for p in self.space.parameters):
                values = self._varied(self.space.values(self.runs.whole(some)), np.random.default_rng(words))
                some = self.space.units(values)[:, self.runs.searched]
            parts.append(
                self.runs.ask(self.case, some, [int(words[0] >> np.uint64(1))], "summaries", self.summaries.of)
            )
        return np.concatenate(parts)

    def _progress_report(self) -> None:
        if self._progress is None:
            return
        ahead = self.budget.runs - self.runs.count
        left = self.budget.seconds - self.runs.journal.clock()
        left = min(left, ahead * self.runs.pace()) if ahead > 0 else 0.0
        self._progress(Progress(self.stage, self.runs.count, self.loss, max(left, 0.0)))
