"""Many generators at once: those that an adapter gets one by one."""

import itertools

import numpy as np
import pytest

from cosim.contract.seeds import stream
from cosim.contract.streams import generators, states


def test_seeds_are_mixed_as_numpy_mixes_them():
    entropy = np.random.Generator(np.random.PCG64(1)).integers(0, 2**32, (50, 9)).astype(np.uint32)
    entropy[0] = 0
    entropy[1] = 2**32 - 1
    for width in (4, 5, 9):
        found = states(entropy[:, :width])
        for row, state in zip(entropy[:, :width].tolist(), found, strict=True):
            assert state.tolist() == np.random.SeedSequence(row).generate_state(4, np.uint64).tolist()


def test_generators_draw_what_those_of_an_adapter_draw(monkeypatch):
    monkeypatch.setattr("cosim.contract.streams._BLOCK", 20)  # two seeds and one
    seeds = [stream(seed, "interval") for seed in (0, 7, 2**40 + 3)]
    keys = [(1, n, k) for n in (0, 1, 300) for k in range(3)]
    drawn = list(generators(seeds, keys))
    assert len(drawn) == len(seeds) * len(keys)
    for found, (words, key) in zip(drawn, itertools.product(seeds, keys), strict=True):
        expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence([*words, *key])))
        assert found.poisson(30.0, 5).tolist() == expected.poisson(30.0, 5).tolist()
        assert found.random(3).tolist() == expected.random(3).tolist()


def test_words_that_are_too_large_or_too_few_are_refused():
    with pytest.raises(ValueError, match="of 32 bits"):
        list(generators([(1, 2, 3, 2**32)], [[1]]))
    with pytest.raises(ValueError, match="of 32 bits"):
        list(generators([(1, 2)], [[1]]))
