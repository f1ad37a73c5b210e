"""Compiled draws: numpy's own generators are the oracle."""

from dataclasses import replace

import numpy as np
import pytest

from cosim.contract.laws import Law
from cosim.extensions.cosco.adapter.chance import EXPONENTIAL, NORMAL, NOTHING, UNIFORM, draws, words_of
from cosim.extensions.cosco.adapter.world import _LAWS, _sizes


def drawn(seeds, devices, expected, law, room=100_000):
    """Counts of the last row, totals, values, marks and how many there are."""
    chance = np.random.Generator(np.random.PCG64(0))
    rows, poisson = len(seeds), isinstance(expected, float)
    counts, totals = np.zeros(max(devices), np.int64), np.zeros(rows, np.int64)
    both = np.zeros((2, room))
    found = draws(
        chance, words_of(chance), np.array(seeds, np.uint64), np.array(devices, np.int64),
        np.full(rows, expected, np.float64), np.array([poisson, law, True]), counts, totals, both,
    )  # fmt: skip
    return counts, totals, *both, found


def seeds_of(width, rows=40):
    found = np.random.Generator(np.random.PCG64(width)).integers(0, 2**32, (rows, width))
    found[0], found[1] = 0, 2**32 - 1
    return found.tolist()


@pytest.mark.parametrize("width", [4, 5, 9])
@pytest.mark.parametrize("mean", [0.3, 4.0, 10.0, 37.5])
@pytest.mark.parametrize("law", [NOTHING, EXPONENTIAL, UNIFORM, NORMAL])
def test_draws_are_to_the_bit_those_of_numpy(width, mean, law):
    seeds = seeds_of(width)
    devices = [k % 4 for k in range(len(seeds) - 1)] + [3]
    counts, totals, values, marks, found = drawn(seeds, devices, mean, law)
    at = 0
    for seed, makers, total in zip(seeds, devices, totals.tolist(), strict=True):
        chance = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
        own = chance.poisson(mean, makers)
        assert own.sum() == total
        expected = {
            NOTHING: np.zeros, EXPONENTIAL: chance.standard_exponential, UNIFORM: chance.random,
            NORMAL: chance.standard_normal,
        }[law](total)  # fmt: skip
        assert values[at : at + total].tobytes() == expected.tobytes()
        assert marks[at : at + total].tobytes() == chance.random(total).tobytes()
        at += total
    assert counts.tolist() == own.tolist()
    assert at == found


def test_what_has_no_room_is_counted():
    full = drawn(seeds_of(5), [2] * 40, 3.0, UNIFORM)
    short = drawn(seeds_of(5), [2] * 40, 3.0, UNIFORM, room=7)
    assert short[-1] == full[-1] > 7
    assert short[2].tolist() == full[2][:7].tolist()


def test_a_number_that_is_given_takes_no_draw():
    counts, totals, values, *_ = drawn([[1, 2, 3, 4]], [3], 2, UNIFORM)
    assert (counts.tolist(), totals.tolist()) == ([2, 2, 2], [6])
    expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence([1, 2, 3, 4]))).random(6)
    assert values[:6].tolist() == expected.tolist()


@pytest.mark.parametrize(("law", "theirs"), [
    (Law("exponential", 3e9), lambda chance, n: chance.exponential(3e9, n)),
    (Law("uniform", 2e9, 7e9), lambda chance, n: chance.uniform(2e9, 7e9, n)),
    (Law("log-normal", 5e9, 0.7), lambda chance, n: 5e9 * chance.lognormal(
        -0.5 * np.log1p(0.7 * 0.7), np.sqrt(np.log1p(0.7 * 0.7)), n
    )),
    (Law("fixed", 4e9), lambda chance, n: np.full(n, 4e9)),
])  # fmt: skip
@pytest.mark.parametrize("share", [0.0, 0.25])
def test_work_is_as_numpy_draws_it(law, theirs, share):
    seed, law = [3, 1, 4, 1, 5], replace(law, share=share, times=6.0)
    _, totals, values, marks, _ = drawn([seed], [40], 37.5, _LAWS.get(law.law, NOTHING))
    n = int(totals[0])
    chance = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    assert chance.poisson(37.5, 40).sum() == n > 1000
    expected = theirs(chance, n)
    if share:
        expected = np.where(chance.random(n) < share, 6.0 * expected, expected)
    assert _sizes(law, values[:n], marks[:n]).tolist() == expected.tolist()
