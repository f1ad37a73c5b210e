"""How many it takes: the smallest value of a parameter for which a scenario meets goals.

The runs lie in a folder of their own, `<base>/<scenario>/size-<hash>/`, which is that of a sweep (`sweep.json`,
`results.jsonl`, `runs/`) with the answer in `size.json`. Asking again keeps the runs that are there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal

from cosim.contract import seals
from cosim.contract.errors import Problem, RunError, ScenarioError, SetupError
from cosim.contract.units import parse
from cosim.results.executor import Executor, LocalExecutor
from cosim.results.figures import Figure, measured
from cosim.results.folder import write_json
from cosim.results.replications import estimate, group_warnings
from cosim.results.smallest import Goal, Sample, Smallest, goals_in
from cosim.results.sweep import SweepFolder, run_sweep
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.sweep import Variant, values

FORMAT = 1
Progress = Callable[[str], None]
_COSTS = ("cost_total", "energy_total")  # the first one that the runs have is the cost of an answer


@dataclass(frozen=True)
class Sizing:
    """The answer: the smallest value that is shown to meet the goals, and what else was learned."""

    folder: Path
    scenario: str
    path: str  # of what was varied
    values: tuple[Any, ...]  # that could be tried, in order
    goals: tuple[str, ...]
    limits: dict[str, float]  # figure -> limit in the figure's unit
    units: dict[str, str]
    confidence: float
    monotone: bool  # whether it was assumed that a larger value never does worse
    answer: Any  # None: no value is shown to meet the goals
    low: Any  # the right answer lies between these with the confidence; None without an answer
    high: Any
    # value, runs, verdict, figures: mean, low, high (None: unfinished tasks limit it by nothing); cost; warnings
    tried: list[dict[str, Any]]
    contrary: list[dict[str, Any]]  # lower and upper value, figure, difference with its interval
    cost: str  # figure that measures the cost of the answer; "" when the runs have none
    next_cost: dict[str, Any]  # of the answer against the value tried below it: mean, low, high in pairs; {} if none
    owning: float | None  # price of the answer per hour, where a price of one was given
    runs: int
    wall_seconds: float  # of all runs

    @property
    def name(self) -> str:
        """What was varied, in a word."""
        return self.path.rsplit(".", 1)[-1]

    def sentence(self) -> str:
        """The answer in one line."""
        wanted = " and ".join(self.goals)
        if self.answer is None:
            return f"no {self.name} of {self.values[0]} to {self.values[-1]} is shown to meet {wanted}"
        sure = f"{self.confidence * 100:.4g} %"
        span = f" (between {self.low} and {self.high})" if self.low != self.high else ""
        return f"{self.name} = {self.answer}{span} meets {wanted}, with {sure} confidence"

    def as_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self), "folder": str(self.folder), "sentence": self.sentence()}


def size(
    scenario: str | Path,
    vary: str,
    until: Sequence[str],
    *,
    confidence: float = 0.95,
    least: int = 5,
    most: int = 40,
    monotone: bool = False,
    price: str | None = None,
    overrides: Sequence[str] = (),
    executor: Executor | None = None,
    base: Path = Path("runs"),
    limit: float | None = None,
    driver: Literal["mosaik", "loop"] = "loop",
    progress: Progress | None = None,
) -> Sizing:
    """The smallest value of `vary` ("N=1..20", a parameter or any path) for which the goals `until` hold.

    Goals are figures and limits, as "late_share < 1 %", all of which must hold on average. Each value gets
    `least` to `most` runs. Without `monotone` every value below the answer is tried, too. `price` is what one
    more costs per time. Raises `ScenarioError` and `SetupError` before a run starts where that can be known,
    and `RunError` when a run fails.
    """
    goals = [one for text in until for one in goals_in(text)]
    if not goals:
        raise SetupError("say what is to be met: --until 'late_share < 1 %'")
    path, choices = _varied(vary)
    if path == "run.seed":
        raise SetupError("every value is run with the seeds 1, 2, 3, ...; vary something other than run.seed")
    per_second = _price(price, choices)
    scenario = Path(scenario)
    loaded = load(scenario, overrides)
    if "." not in path:
        path = f"parameters.{path}"
    plans = _plans(loaded.path, overrides, path, choices)
    folder = _folder(base, loaded.scenario.name, plans, path, choices, until, confidence)
    keeper = executor or LocalExecutor(1)
    known: dict[str, str] = {}
    warned: dict[int, list[dict[str, Figure]]] = {}  # figures of the runs, by value
    seconds = 0.0

    def make(index: int, first: int, count: int) -> list[Sample]:
        nonlocal seconds
        variants = [Variant({path: choices[index], "run.seed": seed}) for seed in range(first, first + count)]
        run_sweep(
            loaded.path, variants, keeper, base=base, overrides=overrides, driver=driver, limit=limit, folder=folder
        )
        by_seed = {
            result.parameters["run.seed"]: result
            for result in folder.results()
            if result.parameters.get(path) == choices[index] and first <= result.parameters["run.seed"] < first + count
        }
        found = [by_seed[seed] for seed in range(first, first + count)]
        for result in found:
            if result.status != "complete":
                raise RunError(f"a run of {Variant(result.parameters).label} did not complete: {result.error}")
        seconds += sum(result.wall_seconds for result in found)
        if not known:
            known.update({key: str(one["unit"]) for key, one in measured(folder.path / found[0].run).items()})
            if not known:
                raise RunError(f"{folder.path / found[0].run} has no figures")
            for one in goals:
                if one.figure not in known:
                    raise SetupError(f"the runs have no figure '{one.figure}'; there are {', '.join(known)}")
                one.limit(known[one.figure])
        if progress:
            progress(f"{path}={choices[index]}: {first + count - 1} runs")
        entries = [measured(folder.path / result.run) for result in found]
        warned.setdefault(index, []).extend(entries)
        open_ended = [{f"{key}.high": inf for key, one in run.items() if one.get("at_least")} for run in entries]
        return [{**result.figures, **more} for result, more in zip(found, open_ended, strict=True)]

    search = Smallest(
        len(choices), goals, make, lambda name: known[name], confidence=confidence, least=least, most=most,
        monotone=monotone,
    )  # fmt: skip
    with keeper.kept() if isinstance(keeper, LocalExecutor) else nullcontext():
        answer = search.run()
    warnings = {index: group_warnings(runs) for index, runs in warned.items()}
    sizing = _answer(
        search, answer, warnings, folder=folder.path, name=loaded.scenario.name, path=path, choices=choices,
        goals=goals, units=known, price=per_second, seconds=seconds,
    )  # fmt: skip
    write_json(folder.path / "size.json", seals.sealed(sizing.as_dict()))
    return sizing


def _answer(
    search: Smallest,
    answer: int | None,
    warnings: Mapping[int, list[str]],
    *,
    folder: Path,
    name: str,
    path: str,
    choices: Sequence[Any],
    goals: Sequence[Goal],
    units: dict[str, str],
    price: float | None,
    seconds: float,
) -> Sizing:
    rows = search.as_dict(choices)
    cost = next((key for key in _COSTS if _spent(search, key)), "")
    for index, row in zip(sorted(search.tried), rows, strict=True):
        spent = (
            estimate({"value": one.get(cost), "unit": units[cost]} for one in search.tried[index].samples)
            if cost
            else None
        )
        row["cost"] = {"mean": spent.mean, "low": spent.low, "high": spent.high} if spent else None
        row["warnings"] = warnings.get(index, [])
    step: dict[str, Any] = {}
    below = max((i for i in search.tried if answer is not None and i < answer), default=None)
    if cost and answer is not None and below is not None:
        mean, low, high = search.paired(below, answer, cost)
        step = {"from": choices[below], "mean": mean, "low": low, "high": high}
    value = None if answer is None else choices[answer]
    return Sizing(
        folder=folder,
        scenario=name,
        path=path,
        values=tuple(choices),
        goals=tuple(map(str, goals)),
        limits={one.figure: one.limit(units[one.figure]) for one in goals},
        units={key: units[key] for key in (*(one.figure for one in goals), *([cost] if cost else []))},
        confidence=search.confidence,
        monotone=search.monotone,
        answer=value,
        low=None if answer is None else choices[search.lowest(answer)],
        high=value,
        tried=rows,
        contrary=[
            {**asdict(one), "lower": choices[one.lower], "upper": choices[one.upper]} for one in search.contrary()
        ],
        cost=cost,
        next_cost=step,
        owning=None if price is None or value is None else price * 3600.0 * float(value),
        runs=sum(len(one.samples) for one in search.tried.values()),
        wall_seconds=seconds,
    )


def _spent(search: Smallest, key: str) -> bool:
    return any(sample.get(key) for one in search.tried.values() for sample in one.samples)


def _varied(text: str) -> tuple[str, list[Any]]:
    """Path and values of `N=1..20`."""
    path, equals, written = text.partition("=")
    if not equals or not path.strip():
        raise SetupError(f"'{text[:60]}' varies nothing; write --vary N=1..20")
    written = written.strip()
    if written.startswith("[") and written.endswith("]"):
        written = written[1:-1]  # a list as the block `sweep` has it
    try:
        chosen = [_value(part.strip()) for part in written.split(",")] if "," in written else values(written)
    except ValueError as error:
        raise SetupError(f"--vary {text[:60]}: {error}") from None
    if len({repr(value) for value in chosen}) < 2:
        raise SetupError(f"--vary {text[:60]}: two values or more can be searched, for example 1..20")
    return path.strip(), chosen


def _value(text: str) -> Any:  # noqa: ANN401 - YAML data
    try:
        return json.loads(text)
    except ValueError:
        return text


def _price(text: str | None, choices: Sequence[Any]) -> float | None:
    """Price of one per second."""
    if text is None:
        return None
    if not all(isinstance(value, (int, float)) for value in choices):
        raise SetupError("--price is that of one more, so the values must be numbers")
    try:
        return parse(text, "price per time")
    except ValueError as error:
        raise SetupError(f"--price: {error}") from None


def _plans(scenario: Path, overrides: Sequence[str], path: str, choices: Sequence[Any]) -> list[str]:
    """The hash of the plans of the first and the last value. Raises `ScenarioError` where one of them is wrong."""
    found = []
    for value in (choices[0], choices[-1]):
        variant = Variant({path: value})
        try:
            found.append(compile_plan(load(scenario, (*overrides, *variant.overrides))).hash)
        except ScenarioError as error:
            reported = [
                Problem(f"with {variant.label}: {p.message}", p.path, p.file, p.line, p.column, p.hint)
                for p in error.problems
            ]
            raise ScenarioError(reported) from None
    if found[0] == found[-1]:
        raise SetupError(f"{path} = {choices[0]} and {path} = {choices[-1]} make the same run: nothing is varied")
    return found


def _folder(
    base: Path,
    name: str,
    plans: Sequence[str],
    path: str,
    choices: Sequence[Any],
    until: Sequence[str],
    confidence: float,
) -> SweepFolder:
    asked = json.dumps([sorted(plans), path, choices, list(until), confidence], default=str)
    return SweepFolder.create(base, name, [asked], "size")
