"""Scenarios with something wrong in them, drawn from those that are shipped."""

from __future__ import annotations

import copy
import io
import random
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cosim.contract.errors import ScenarioError
from cosim.scenario.gather import shipped
from cosim.scenario.plan.compile import plan_of

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = (
    "hello", "smart-farm", "convoy", "offloading", "fog-interval", "energy-aware", "freeway", "job-types", "sla-aware",
    "price-shift", "calibrate-5g", "calibrate-edge",
)  # fmt: skip

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_TEXTS = (
    "edge", "cloud", "device", "nearest", "local", "cloud", "random", "uav-1", "*", "fixed 1 kB", "poisson 2 Hz",
    "every 1 s", "fail", "degrade", "wait", "rover", "copter", "fcfs", "free-space", "umi", "1 x 1 GHz", "",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    0,
    1,
    -1,
    1e9,
    10**12,
    True,
    None,
    [],
    {},
    "0 s",
    "1 ms",
    "1e9 s",
    "5 %",
    "200 %",
    "1 km",
    "1 B",
)


def check_refused(scenario: str, assignment: str, said: str) -> None:
    """With `assignment` the shipped `scenario` is refused, with what is `said` and where it stands."""
    with pytest.raises(ScenarioError) as refused:
        plan_of(scenario, [assignment])
    assert said in str(refused.value)
    assert all(problem.path for problem in refused.value.problems)


def check_warned(scenario: str, assignment: str, said: str) -> None:
    """With `assignment` the shipped `scenario` has one warning in which `said` stands."""
    warnings = plan_of(scenario, [assignment]).warnings
    assert sum(said in warning for warning in warnings) == 1, warnings


def check_silent(scenario: str) -> None:
    """The shipped `scenario` itself has no warning."""
    assert plan_of(scenario).warnings == ()


def mutant(scenario: str, seed: int) -> str:
    """The text of `scenario` after one to three changes."""
    chance = random.Random(f"{scenario} {seed}")
    yaml = YAML(typ="safe", pure=True)
    data = yaml.load((shipped()[scenario] / "scenario.cosim.yaml").read_text(encoding="utf-8"))
    for _ in range(chance.randint(1, 3)):
        _change(data, chance)
    stream = io.StringIO()
    yaml.dump(data, stream)
    return stream.getvalue()


def _change(data: Any, chance: random.Random) -> None:
    places = [place for place in _places(data) if place[1] not in ("apiVersion", "include")]
    block, key = chance.choice(places)
    value = block[key]
    kind = chance.randrange(7)
    if kind == 0:
        del block[key]
    elif kind == 1 and isinstance(value, str) and _NUMBER.search(value):
        factor = chance.choice((0.0, -1.0, 0.1, 0.5, 2.0, 3.0, 10.0, 1e3, 1e9))
        block[key] = _NUMBER.sub(lambda match: f"{float(match[0]) * factor:g}", value, count=1)
    elif kind == 1 and isinstance(value, (int, float)) and not isinstance(value, bool):
        block[key] = value * chance.choice((0, -1, 2, 10, 1000, 10**9))
    elif kind == 2:
        other_block, other_key = chance.choice(places)
        block[key] = copy.deepcopy(other_block[other_key])  # itself may stand inside
    elif kind == 3 and isinstance(value, str):
        block[key] = chance.choice(_TEXTS)
    elif kind == 4 and isinstance(block, dict):
        block[f"{key}x"] = block.pop(key)
    elif kind == 5 and isinstance(value, list) and value:
        value.append(chance.choice(value))
    elif isinstance(value, bool):
        block[key] = not value
    else:
        block[key] = chance.choice(_VALUES)


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Every (mapping or list, key or index) in `data`."""
    pairs = list(data.items()) if isinstance(data, dict) else list(enumerate(data)) if isinstance(data, list) else []
    return [place for key, value in pairs for place in [(data, key), *_places(value)]]
