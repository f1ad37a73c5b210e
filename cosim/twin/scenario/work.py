"""What a scenario's block `calibrate` asks for, carried out: its problems, their answers, and the files of these.

    for work in works(loaded, folder=Path("calibrations/yard")):
        found, files = carry_out(work, loaded, Path("calibrations/yard"), budget=Budget(2000), seed=1)

A scenario with free values is one problem; a job may bring several.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.seals import sealed
from cosim.results.folder import write_json
from cosim.scenario.load import load
from cosim.twin.calibration import Calibration
from cosim.twin.fitting.calibrate import INTERRUPTED, calibrate
from cosim.twin.jobs import check, fields
from cosim.twin.jobs import load as load_job
from cosim.twin.prediction import draws
from cosim.twin.problem import CalibrationProblem
from cosim.twin.scenario.conditions import seen
from cosim.twin.scenario.modes import SecondMode, second_mode
from cosim.twin.scenario.overlay import SUFFIX, write
from cosim.twin.scenario.study import study
from cosim.twin.search.meter import Budget, Progress

if TYPE_CHECKING:
    from cosim.scenario.free import Free
    from cosim.scenario.load import Loaded


@dataclass(frozen=True, slots=True)
class Work:
    """One problem, and what its answer means in the scenario; nothing for the problems of a job."""

    task: CalibrationProblem
    free: Sequence[Free] = ()
    failures: Callable[[], Sequence[str]] = tuple  # why runs gave nothing
    how: str = ""  # in batches, or run by run and why
    # The second mode that the data call for, by the answer and a seed; the scenario with it, and its problem.
    modes: Callable[[Calibration, int], tuple[SecondMode, Loaded, Work] | None] = lambda _answer, _seed: None


def works(
    loaded: Loaded,
    overrides: Sequence[str] = (),
    *,
    folder: Path,
    data: Path | None = None,
    held_back: Path | None = None,
    workers: int = 0,
) -> list[Work]:
    """The problems that the scenario declares, each with the free values of the scenario behind it.

    `data` and `held_back` are folders of a job. Raises `ScenarioError` with everything that is wrong.
    """
    block = loaded.scenario.calibrate
    if block is None:
        hint = "say what is free and what was measured; see docs/twin.md"
        raise ScenarioError(loaded.problem("", "has no block 'calibrate'", hint))
    if block.job is None:
        if data is not None or held_back is not None:
            hint = "name the files under 'calibrate.observed'"
            raise ScenarioError(Problem("'--data' and '--held-back' are for scenarios with a 'job'", hint=hint))
        found = study(loaded.path, overrides, folder=folder / "work", workers=workers or None)

        def modes(answer: Calibration, seed: int) -> tuple[SecondMode, Loaded, Work] | None:
            chosen = second_mode(
                loaded, overrides, answer, found.problem, folder=folder / "work", seed=seed, workers=workers or None
            )
            if chosen is None:
                return None
            other = load(loaded.path, chosen.overrides)
            return chosen, other, works(other, chosen.overrides, folder=folder, workers=workers)[0]

        return [Work(found.problem, found.free, lambda: found.failures, found.how, modes)]
    make = load_job(block.job)
    place = data if data is not None else loaded.path.parent / block.data if block.data is not None else None
    if place is None or not place.is_dir():
        message = "the folder of the job's data is not given" if place is None else f"there is no folder {place}"
        raise ScenarioError(loaded.problem("calibrate.data", message, "give it with --data DIR"))
    settings = dict(block.settings)
    if held_back is not None:
        if not held_back.is_dir():
            raise ScenarioError(Problem(f"there is no folder {held_back}", "held-back"))
        settings["held_back"] = str(held_back)
    problems = make(place, settings)
    for task in problems:
        check(loaded, overrides, task)
    return [Work(task) for task in problems]


def carry_out(
    work: Work, loaded: Loaded, folder: Path, *, budget: Budget, seed: int = 1, method: str = "auto",
    resume: bool = False, progress: Callable[[Progress], None] | None = None,
    report: Callable[[CalibrationProblem, Calibration], Path] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Calibration, dict[str, Path]]:  # fmt: skip
    """Calibrate one problem and write overlay, draws and `calibration.json` into `folder`; return result and files.

    If the data require a second mode of work (`cosim.twin.scenario.modes`), it is chosen and passed to `say`, and the
    scenario with it is calibrated with as many runs again. `report` writes one more file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    states = [folder / "state.npz", folder / "state-modes.npz"]
    for state in states if not resume else ():
        state.unlink(missing_ok=True)
    begun = time.monotonic()
    found = calibrate(work.task, budget=budget, seed=seed, method=method, progress=progress, state=states[0])
    left = replace(budget, seconds=budget.seconds - (time.monotonic() - begun))
    if found.stopped != INTERRUPTED and left.seconds > 0.0:
        other = work.modes(found, seed)
        if other is not None:
            chosen, loaded, work = other
            say(str(chosen))
            left = replace(budget, seconds=max(1.0, budget.seconds - (time.monotonic() - begun)))
            found = calibrate(work.task, budget=left, seed=seed, method=method, progress=progress, state=states[1])
            found = replace(found, assumptions=(*found.assumptions, str(chosen)))
    failures = tuple(f"runs failed: {why}" for why in work.failures())
    found = replace(found, warnings=(*found.warnings, *failures))
    own = loaded if work.free else None
    known = any(estimate.verdict in ("fitted", "correlated") for estimate in found.estimates)
    values = {estimate.name: estimate.value for estimate in found.estimates}
    further = fields(loaded, work.task, values) if known else {}
    overlay = folder / f"{folder.name}{SUFFIX}"
    conditions = seen(loaded) if work.free else {}
    files = {"overlay": write(overlay, found, loaded=own, free=work.free, conditions=conditions, fields=further)}
    files["calibration"] = folder / "calibration.json"
    drawn = draws.write(folder / f"{folder.name}{draws.SUFFIX}", found, work.free)
    if drawn is not None:
        files["draws_file"] = drawn  # the draws themselves are in the answer
    if report is not None:
        files["report"] = report(work.task, found)
    whole = {"format": 2, **asdict(found), **{name: str(path) for name, path in files.items()}}
    write_json(files["calibration"], sealed(whole))
    return found, files
