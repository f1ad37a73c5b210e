"""Screens on functions whose indices are known."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.twin.fitting.posterior import PRIOR_SD
from cosim.twin.fitting.screen import identify, morris


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_elementary_effects_of_a_linear_model_are_its_slopes(slopes, seed):
    slopes = np.array(slopes)
    effects = morris(lambda u: (u @ slopes)[:, None, None], len(slopes), np.random.default_rng(seed), 6)
    assert np.allclose(effects.elementary[:, :, 0], slopes, atol=1e-9)
    assert np.allclose(effects.change[:, 0], np.abs(slopes), atol=1e-9)


def noisy(units, seeds=6):
    """One parameter with an effect, one that only stirs the chance, one with none at all."""
    random = np.random.default_rng(5)
    chance = random.standard_normal((seeds, 1))
    stirred = np.sin(1e4 * units[:, 1:2] + 100 * np.arange(seeds))
    return (3.0 * units[:, :1] + 0.2 * (chance.T + stirred))[:, :, None]


def test_chance_is_no_effect():
    effects = morris(noisy, 3, np.random.default_rng(1), 30)
    ratio = (effects.change / effects.noise).max(axis=1)
    assert ratio[0] > 5.0
    assert ratio[1] < 0.6
    assert ratio[2] == 0.0


def test_points_that_cannot_be_simulated_leave_the_rest():
    def partly(units):
        reported = units @ np.array([1.0, 2.0])
        reported[(units[:, 0] < 0.1) & (units[:, 1] < 0.1)] = np.nan
        return reported[:, None, None]

    effects = morris(partly, 2, np.random.default_rng(1), 40)
    assert 0 < len(effects.elementary) < 40
    assert np.allclose(effects.change[:, 0], [1.0, 2.0])


def test_only_a_product_is_told_by_name():
    random = np.random.default_rng(3)
    together = random.random(4000)
    units = np.stack(
        [together, 1 - together + 0.01 * random.standard_normal(4000), 0.4 + 0.01 * random.random(4000)], 1
    )
    verdicts = identify(np.cov(units.T), ("clock", "work", "delay"))
    assert [one.verdict for one in verdicts] == ["correlated", "correlated", "fitted"]
    assert "work" in verdicts[0].reason
    assert "clock" in verdicts[1].reason
    assert "delay" not in verdicts[0].reason


def test_the_partner_of_what_is_only_known_together_is_named_too():
    """Only one of clock and work passes the limit by itself."""
    correlation = np.array([[1.0, 0.96, 0.48], [0.96, 1.0, 0.3], [0.48, 0.3, 1.0]])
    spread = np.array([0.12, 0.08, 0.01])
    verdicts = identify(correlation * np.outer(spread, spread), ("clock", "work", "delay"))
    ratios = np.sqrt(np.diag(np.linalg.inv(correlation)))
    assert ratios[1] < 5.0 < ratios[0]
    assert [one.verdict for one in verdicts] == ["correlated", "correlated", "fitted"]


def test_a_product_of_three_is_found_though_no_pair_is_strong():
    random = np.random.default_rng(4)
    free = random.random((4000, 3))
    flat = free - (free.sum(axis=1, keepdims=True) - 1.5) / 3
    verdicts = identify(np.cov(flat.T) + 1e-5 * np.eye(3), ("a", "b", "c"))
    assert {one.verdict for one in verdicts} == {"correlated"}


def test_what_the_data_leave_open_is_without_effect():
    verdicts = identify(np.diag([PRIOR_SD**2, 0.01**2]), ("price", "clock"))
    assert [one.verdict for one in verdicts] == ["no effect", "fitted"]


def test_well_known_but_correlated_parameters_stay_fitted():
    verdicts = identify(1e-4 * np.array([[1.0, -0.95], [-0.95, 1.0]]), ("intercept", "slope"))
    assert [one.verdict for one in verdicts] == ["fitted", "fitted"]
    assert verdicts[0].reason == "correlated with slope (-0.95)"
    assert verdicts[1].reason == "correlated with intercept (-0.95)"
