"""A second mode of work, chosen where a scenario's data require it: some tasks take several times as long.

    other = second_mode(loaded, overrides, found, folder=folder)      # None: one mode suffices

A calibration that leaves the law of the values unexplained may lack a second mode (a cache that misses). Then two laws
of work, log-normal ones with one mode and with two, are fitted in the scenario itself, together with all other free
parameters. They are compared with the measurement under draws that neither was fitted to. Two modes are taken only if
they agree clearly better than one, and than the law that the scenario has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cosim.contract.errors import ScenarioError
from cosim.contract.laws import Law, LawText
from cosim.scenario import tree
from cosim.scenario.load import Loaded
from cosim.twin.calibration import Calibration
from cosim.twin.fitting.judging import numbers
from cosim.twin.fitting.nearest import REPEATS, Nearest, nearest, off, quantiles
from cosim.twin.models.station import CLEARLY, distinct, written
from cosim.twin.problem import CalibrationProblem, Floats, Observed, seeds_of
from cosim.twin.scenario.batched import free_of
from cosim.twin.scenario.study import study
from cosim.twin.space import Parameter

if TYPE_CHECKING:
    from cosim.scenario.free import Free

_FROM = ((0.1, 8.0), (0.3, 4.0))  # second modes to begin with: share, times
_OFF = 1.5  # deviations, root mean square: one mode that is no farther off will do
_LEAST, _MOST = 12.0, 2.0  # times less than the mean may the first mode be, and times more
_LAWS = {  # bounds that hold every law of work whose second mode can be recognised
    "spread": Parameter("spread", 0.02, 2.5, scale="log", start=0.4),
    "slow_share": Parameter("share", 0.02, 0.6, scale="log", start=0.2),
    "slow_times": Parameter("times", 1.5, 40.0, scale="log", start=4.0),
}


@dataclass(frozen=True, slots=True)
class SecondMode:
    """The law of work that was chosen, and how much better it agrees."""

    overrides: tuple[str, ...]  # the scenario with it
    path: str  # workloads.NAME.work
    law: str
    offs: tuple[float, float, float]  # of the scenario's law, one mode, two modes: in deviations, root mean square

    def __str__(self) -> str:
        own, one, two = self.offs
        return (
            f"'{self.path}' has two modes: {self.law}; under draws that no law was fitted to it is {two:.2g} "
            f"deviations off, one mode {one:.2g}, the scenario's law {own:.2g}"
        )


def second_mode(
    loaded: Loaded, overrides: Sequence[str], found: Calibration, problem: CalibrationProblem, *, folder: Path,
    seed: int = 1, workers: int | None = None,
) -> SecondMode | None:  # fmt: skip
    """The second mode that the data of `problem` call for, which `found` was fitted to; None if they call for none.

    Only fitted data are looked at. There is none either where work is not free, is replayed or has two modes already,
    and where runs are not made in batches.
    """
    free = _free_work(loaded)
    signals = _responses(loaded, problem.fit.observed)
    if free is None or not signals or not found.figures.get("law_unexplained"):
        return None
    law = _law(free.written(float(found.value(free.name))))
    if law.share > 0.0:
        return None
    folder = folder / "modes"
    tried = []
    for modes in (False, True):
        changed = _changed(loaded, free, law.mean, 0.4, (0.2, 4.0) if modes else None, (1.0 / _LEAST, _MOST))
        laws = {(str(free.members[0][1]), name): one for name, one in _LAWS.items() if modes or name == "spread"}
        try:
            other = study(loaded.path, [*overrides, *changed], folder=folder, workers=workers, laws=laws).problem
        except ScenarioError:
            return None
        tried.append(_nearest(other, found, free.name, law.mean, signals, seed, modes=modes))
    (one, of_one), (two, of_two) = tried
    metric = min(of_one, of_two, key=lambda each: each.deviance)
    real, own = _real(problem, signals), numbers(problem.space, found)
    offs = tuple(
        off(_made(each, signals, seed, values, fresh=True), real, metric.roots)
        for each, values in ((problem, own), (one, one.space.values(of_one.point[None])[0]),
                             (two, two.space.values(of_two.point[None])[0]))
    )  # fmt: skip
    values = dict(zip(two.space.names, two.space.values(of_two.point[None])[0].tolist(), strict=True))
    usual, spread, share, times = (values[name] for name in (free.name, "spread", "share", "times"))
    if not (min(offs[:2]) > _OFF and offs[2] < CLEARLY * min(offs[:2]) and distinct(spread, times)):
        return None
    changed = _changed(loaded, free, 1e6 * usual, spread, (share, times), (0.6, 1.7))
    text = written(1e6 * usual, spread, (share, times))
    return SecondMode((*overrides, *changed), tree.dotted(free.members[0]), text, (offs[0], offs[1], offs[2]))


def _nearest(
    problem: CalibrationProblem, found: Calibration, work: str, mean: float, signals: Sequence[str], seed: int, *,
    modes: bool,
) -> tuple[CalibrationProblem, Nearest]:  # fmt: skip
    """The values of `problem` that are nearest, from what was `found` on, from the likeliest of some second modes."""
    space, real = problem.space, _real(problem, signals)
    known = {estimate.name: estimate.value for estimate in found.estimates}
    answers = []
    for share, times in _FROM if modes else ((0.0, 1.0),):
        begin = dict(zip(space.names, space.start.tolist(), strict=True))
        begin |= {name: float(value) for name, value in known.items() if name in begin and not isinstance(value, str)}
        begin[work] = mean / 1e6 / (1.0 + share * (times - 1.0))
        begin |= {"share": share, "times": times} if modes else {}
        start = space.units(np.array([[begin[name] for name in space.names]]))[0]
        made = lambda unit: _made(problem, signals, seed, space.values(np.clip(unit, 0.0, 1.0)[None])[0])  # noqa: E731
        ends = np.zeros(len(space)), np.ones(len(space))
        answers.append(nearest(made, real, start, *ends))
    return problem, min(answers, key=lambda one: one.deviance)


def _real(problem: CalibrationProblem, signals: Sequence[str]) -> list[Floats]:
    return [quantiles(values[np.isfinite(values)]) for values in (problem.fit.observed[k].values for k in signals)]


def _made(
    problem: CalibrationProblem, signals: Sequence[str], seed: int, values: Floats, *, fresh: bool = False
) -> list[Floats]:
    """(repeats, figures) of each signal at `values` (d,); `fresh` ones are of seeds that no law was fitted to."""
    seeds = seeds_of(seed, 0x6D6F6465, count=2 * REPEATS)
    rows: list[list[Floats]] = [[] for _ in signals]
    for word in seeds[REPEATS:] if fresh else seeds[:REPEATS]:
        made = problem.fit.simulate(values[None], word)
        for row, name in zip(rows, signals, strict=True):
            found = np.asarray(made[name], np.float64)[0]
            found = found[np.isfinite(found)]
            row.append(quantiles(found if found.size else np.zeros(1)))
    return [np.array(row) for row in rows]


def _free_work(loaded: Loaded) -> Free | None:
    """The work that is free, where it is that of one workload and drawn by the scenario."""
    block = loaded.scenario.calibrate
    assert block is not None
    if (block.replay is not None and "work" in block.replay.sizes) or any(s.paired for s in block.observed.values()):
        return None
    free = free_of(loaded)
    found = [one for one in free if any(keys[0] == "workloads" and keys[-1] == "work" for keys in one.members)]
    if len(found) != 1 or len(found[0].members) != 1 or len(found[0].members[0]) != 3:
        return None
    return found[0] if found[0].name in block.free and not found[0].choices else None


def _law(text: object) -> Law:
    law = LawText("work").read(text)
    assert isinstance(law, Law)
    return law


def _changed(
    loaded: Loaded, free: Free, mean: float, spread: float, modes: tuple[float, float] | None, ends: tuple[float, float]
) -> list[str]:
    """Overrides that give the scenario a log-normal law of work, whose first mode is free between `ends` times it."""
    item = tree.at(loaded.root, ("calibrate", "free"))
    assert item is not None
    declared: dict[str, Any] = tree.plain(item)
    bounds = [written(end * mean, spread, modes) for end in ends]
    kept = {key: value for key, value in declared[free.name].items() if key == "varies"}
    block = {**declared, free.name: {"bounds": bounds, "scale": "log", **kept}}
    law = json.dumps(written(mean, spread, modes))
    return [f"{tree.dotted(free.members[0])}={law}", f"calibrate.free={json.dumps(block)}"]


def _responses(loaded: Loaded, observed: Observed) -> list[str]:
    """The fitted signals that are durations of tasks."""
    block = loaded.scenario.calibrate
    assert block is not None
    names = [name for name, one in block.observed.items() if one.signal.startswith("task.")]
    return [label for label in observed if any(label == name or label.endswith(f" {name}") for name in names)]
