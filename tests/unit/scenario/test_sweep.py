from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.scenario.load import load
from cosim.scenario.sweep import expand, seeds, values


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1..4", [1, 2, 3, 4]),
        ("-1..1", [-1, 0, 1]),
        ("0.1..0.5 step 0.1", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("1..10 step 4", [1, 5, 9]),
        ("10..30 step 10 ms", ["10 ms", "20 ms", "30 ms"]),
        ("0.5..1 step 0.25 %", ["0.5 %", "0.75 %", "1 %"]),
        (["a", 2], ["a", 2]),
        ("fixed", ["fixed"]),
        (5, [5]),
    ],
)
def test_values(written: object, expected: list[Any]) -> None:
    assert values(written) == expected
    assert [type(value) for value in values(written)] == [type(value) for value in expected]


@pytest.mark.parametrize("written", [[], "2..1", "1..", "1..5 step 0", "1..999999999", "a..b", "1..2 step -1"])
def test_what_is_no_range(written: object) -> None:
    with pytest.raises(ValueError, match=r"range|empty"):
        values(written)


def test_all_combinations_the_last_key_fastest(farm: Callable[..., Path]) -> None:
    variants = expand(load(farm(("run.seed: 1..20", "run.seed: 1..2"))))
    assert [dict(variant.assignments) for variant in variants] == [
        {"run.seed": seed, "adapters.engine.scheduler": scheduler}
        for seed in (1, 2)
        for scheduler in ("least-loaded", "random")
    ]
    assert variants[1].label == "run.seed=1, adapters.engine.scheduler=random"


def test_variants_are_overrides_that_load_understands(farm: Callable[..., Path]) -> None:
    file = farm()
    variant = expand(load(file))[-1]
    loaded = load(file, variant.overrides)
    assert loaded.scenario.run.seed == 20
    assert loaded.adapters["engine"].config.model_dump()["scheduler"] == "random"


def test_no_sweep_is_one_variant_that_sets_nothing() -> None:
    (variant,) = expand({})
    assert variant.overrides == ()


def test_too_many_combinations_are_not_built() -> None:
    with pytest.raises(ScenarioError, match=r"has 1,000,000 combinations, more than 100,000"):
        expand({"a": "1..1000", "b": "1..1000"})


@pytest.mark.parametrize(("text", "expected"), [("1..4", (1, 2, 3, 4)), ("3,5,9", (3, 5, 9)), ("7, 1..2,2", (7, 1, 2))])
def test_seeds(text: str, expected: tuple[int, ...]) -> None:
    assert seeds(text) == expected


@pytest.mark.parametrize("text", ["", "a", "1..", "5..1", "1,,2", "-1", "1..99999999", "9223372036854775808", "1.5"])
def test_what_are_no_seeds(text: str) -> None:
    with pytest.raises(ScenarioError, match="seeds"):
        seeds(text)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=20, unique=True))
def test_lists_of_seeds_are_read_back(numbers: list[int]) -> None:
    assert seeds(",".join(map(str, numbers))) == tuple(numbers)
