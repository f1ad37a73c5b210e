"""What selectors of nodes mean, wherever they are written."""

from fnmatch import fnmatchcase
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.selector import matcher, name_matcher


class Thing(NamedTuple):
    kind: str
    tier: str


@pytest.mark.parametrize(
    ("pattern", "hits", "misses"),
    [
        ("uav-*", ["uav-1", "uav-"], ["uav", "xuav-1"]),
        ("*", ["a", "z-9"], []),
        ("uav-?", ["uav-1"], ["uav-10"]),
        ("uav-[1..3]", ["uav-1", "uav-3"], ["uav-0", "uav-4", "uav-01", "uav-."]),
        ("uav-[01..10]", ["uav-01", "uav-10"], ["uav-1"]),
        ("*-[2..3]", ["a-2", "b-c-3"], ["a-12", "a-4"]),
        ("a*b*c", ["abc", "axxbyyc"], ["acb", "ab"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_names_in_selectors(pattern: str, hits: list[str], misses: list[str]) -> None:
    match = name_matcher(pattern)
    assert all(match(name) for name in hits)
    assert not any(match(name) for name in misses)


def test_many_stars_take_no_time() -> None:
    assert not name_matcher("*a" * 30 + "b")("a" * 64)


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_stars_and_question_marks_are_those_of_the_shell(pattern: str, name: str) -> None:
    assert name_matcher(pattern)(name) == fnmatchcase(name, pattern)


@pytest.mark.parametrize(
    ("selector", "hit"),
    [
        ("kind:drone", True),
        ("kind:uav", False),
        ("tier:device", True),
        ("tier:edge", False),
        ("uav-*", True),
        ("uav-[2..9]", False),
        ("drone", False),
    ],
)
def test_kinds_tiers_and_names(selector: str, hit: bool) -> None:
    assert matcher(selector)("uav-1", Thing("drone", "device")) is hit
