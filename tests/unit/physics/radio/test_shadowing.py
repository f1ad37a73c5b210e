"""Shadowing: the law, its memory along the path, its independence of everything but the key."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.compiled.compiling import entry
from cosim.physics.radio import shadowing

stats = pytest.importorskip("scipy.stats")


@pytest.fixture(autouse=True)
def _words_wrap():
    """Words overflow on purpose, of which numpy warns outside machine code."""
    with np.errstate(over="ignore"):
        yield


def device_key(seed, slot, generation):
    return shadowing.device_keys(seed, np.array([slot], np.int32), np.full(slot + 1, generation, np.int32))[0]


def pair_key(device, draw, cell):
    return shadowing.cell_key(shadowing.draw_key(device, draw), cell)


@entry()
def normals(count):
    values = np.empty(count)
    for key in range(count):
        values[key] = shadowing.normal(np.uint64(key))
    return values


words = st.integers(0, 2**64 - 1).map(np.uint64)


def walk(steps, moved, decorrelation, first=0, count=4000):
    """Paths (count, steps) of independent unit Gaussians that move `moved` m per step."""
    kept = shadowing.memory(moved, decorrelation)
    fresh = np.sqrt(1 - kept * kept)
    paths = np.empty((count, steps))
    for i in range(count):
        value = np.nan
        key = device_key(np.uint64(1), first + i, 0)
        for k in range(steps):
            value = shadowing.wander(value, kept, fresh, pair_key(key, k, 0))
            paths[i, k] = value
    return paths


def test_draws_are_standard_normal():
    draws = normals(200_000)
    assert stats.kstest(draws, "norm").pvalue > 1e-3
    assert stats.kurtosis(draws) == pytest.approx(0.0, abs=0.05)
    assert np.abs(draws).max() > 4.0


def test_the_tail_of_the_draws_is_normal():
    draws = normals(2_000_000)
    beyond = np.sort(np.abs(draws[np.abs(draws) > 3.442619855899]))
    expected = 2_000_000 * 2 * stats.norm.sf(3.442619855899)
    assert len(beyond) == pytest.approx(expected, abs=5 * np.sqrt(expected))


def test_memory_fades_with_distance():
    paths = walk(30, moved=5.0, decorrelation=20.0)
    assert paths.std(axis=0) == pytest.approx(np.ones(30), abs=0.06)
    for lag in (1, 4, 8):
        found = np.mean(paths[:, :-lag] * paths[:, lag:])
        assert found == pytest.approx(np.exp(-5.0 * lag / 20.0), abs=0.03)


@pytest.mark.parametrize(
    ("moved", "decorrelation", "kept"), [(0, 10, 1), (10, 10, np.exp(-1)), (500, 10, 0), (1, 0, 0)]
)
def test_memory(moved, decorrelation, kept):
    assert shadowing.memory(float(moved), float(decorrelation)) == pytest.approx(kept)


def test_who_stands_keeps_the_value():
    assert shadowing.wander(0.7, 1.0, 0.0, np.uint64(9)) == 0.7


def test_nan_starts_anew():
    assert shadowing.wander(np.nan, 1.0, 0.0, np.uint64(9)) == shadowing.normal(np.uint64(9))


@given(words, st.integers(0, 1000), st.integers(0, 2**31 - 2))
def test_each_part_of_the_key_counts(seed, slot, generation):
    key = device_key(seed, slot, generation)
    assert key == device_key(seed, slot, generation)
    assert key != device_key(seed, slot + 1, generation)
    assert key != device_key(seed, slot, generation + 1)
    assert pair_key(key, 0, 1) != pair_key(key, 1, 0)
