"""The runs of a sweep, checked before the first one starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cosim.contract.errors import Problem, ScenarioError, refuse
from cosim.scenario.load import Loaded
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.sweep import Variant, expand
from cosim.scenario.sweep import seeds as read_seeds
from cosim.scenario.tree import Item, SourcePlace, dotted, place

MOST = 200  # variants that are checked, spread over all
_MOST_NODES = 200_000  # over all checked variants


def runs_of(loaded: Loaded, seeds: str | Iterable[int] | None = None) -> list[Variant]:
    """The runs that the block `sweep` asks for, each with all `seeds` ("1..10" or numbers).

    Raises `ScenarioError` that names every value with which a run cannot be made.
    """
    refuse(wrong_values(loaded))
    return expand(loaded, read_seeds(seeds) if isinstance(seeds, str) else list(seeds or ()))


def wrong_values(loaded: Loaded) -> list[Problem]:
    """What is wrong with runs that the block `sweep` asks for, where the value in question is written.

    Seeds make no difference; of very many combinations some are checked, the first and the last among them.
    """
    return looked_at(loaded)[0]


def looked_at(loaded: Loaded) -> tuple[list[Problem], set[str] | None]:
    """As `wrong_values`, and the warnings that all these runs have; None: `sweep` asks for no others."""
    wanted: dict[str, Variant] = {}
    for variant in expand(loaded):
        chosen = {key: value for key, value in variant.assignments.items() if not (key == "run.seed" and _seed(value))}
        wanted.setdefault(repr(chosen), Variant(chosen))
    variants = [variant for variant in wanted.values() if variant.assignments]
    most = max(2, min(MOST, _MOST_NODES // max(len(loaded.world.everything), 1)))
    found: dict[Problem, None] = {}
    common: set[str] | None = None
    for variant in _spread(variants, most):
        wrong, warned = _look(loaded, variant)
        found.update(dict.fromkeys(wrong))
        common = warned if common is None else common & warned
    return list(found), common


def _seed(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _spread(variants: list[Variant], most: int) -> list[Variant]:
    if len(variants) <= most:
        return variants
    return [variants[round(k * (len(variants) - 1) / (most - 1))] for k in range(most)]


def _look(loaded: Loaded, variant: Variant) -> tuple[list[Problem], set[str]]:
    """What is wrong with one of the runs, and its warnings."""
    values = {key: _item(value, _written(loaded, key, value)) for key, value in variant.assignments.items()}
    try:
        return [], set(compile_plan(loaded.variant(values).whole()).warnings)
    except ScenarioError as error:
        return [_with_variant(problem, values, variant) for problem in error.problems], set()


def _written(loaded: Loaded, key: str, value: object) -> SourcePlace:
    """Where the value of a sweep was written: its place in a list, or that of the range."""
    written = loaded.scenario.sweep[key]
    index = [written.index(value)] if isinstance(written, list) and value in written else []
    return place(loaded.root, ("sweep", key, *index))


def _item(value: Any, at: SourcePlace) -> Item:  # noqa: ANN401 - YAML data
    if isinstance(value, Mapping):
        entries = {str(key): _item(child, at) for key, child in value.items()}
        return Item(entries, at, dict.fromkeys(entries, at))
    return Item([_item(child, at) for child in value], at) if isinstance(value, list) else Item(value, at)


def _with_variant(problem: Problem, values: Mapping[str, Item], variant: Variant) -> Problem:
    """`problem` of a variant, at the value of the sweep that it comes from."""
    where = (problem.file, problem.line, problem.column)
    keys = [key for key, item in values.items() if problem.path.startswith(key)]
    keys += [key for key, item in values.items() if (item.place.file, item.place.line, item.place.column) == where]
    keys += list(values)[-1:]
    at = values[keys[0]].place
    text = problem.message if problem.path.startswith(keys[0]) else f"{problem.path}: {problem.message}"
    message = f"with {variant.label}: {text}"
    return Problem(message, dotted(("sweep", keys[0])), at.file, at.line, at.column, problem.hint)
