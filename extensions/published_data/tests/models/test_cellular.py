from __future__ import annotations

import numpy as np
import pytest

from cosim.extensions.published_data.models import cellular
from cosim.extensions.published_data.models.cellular import LTE, NR, SLOW, DownloadSamples, Receptions


def samples(mode, snr, rsrp=-80.0, speed=0.0):
    return DownloadSamples(*(np.array([x]) for x in (mode, snr, rsrp, speed)))


VALUES = np.array([(2.0, 10.0, 1.0, 4.0, 40.0, 2.0, 5.0, 100.0, -125.0)])


def test_rates_of_each_kind_of_network():
    assert cellular.throughput(VALUES, samples(SLOW, np.nan)) == 2.0
    lte = 10.0 * np.log2(1.0 + 10.0**0.4)
    assert cellular.throughput(VALUES, samples(LTE, 5.0))[0, 0] == pytest.approx(lte, rel=1e-3)
    nr = lte + 40.0 * np.log2(1.0 + 10.0**0.3)
    assert cellular.throughput(VALUES, samples(NR, 5.0))[0, 0] == pytest.approx(nr, rel=1e-3)


def test_efficiency_ends_at_its_largest_and_the_level_limits_what_the_snr_promises():
    assert cellular.throughput(VALUES, samples(LTE, 60.0, rsrp=-50.0))[0, 0] == pytest.approx(40.0)
    weak = cellular.throughput(VALUES, samples(LTE, 60.0, rsrp=-125.0))[0, 0]
    assert weak == pytest.approx(10.0 * np.log2(1.0 + 10.0**-0.1), rel=1e-3)


def test_half_is_left_at_the_half_speed():
    there, moving = (cellular.throughput(VALUES, samples(NR, 5.0, speed=v))[0, 0] for v in (0.0, 100.0))
    assert moving == pytest.approx(there / 2.0)


def test_levels_fall_by_the_exponent_and_the_pattern_takes_no_more_than_its_sidelobe():
    seen = Receptions(np.array([0, 0, 1]), np.array([100.0, 1000.0, 100.0]), np.array([25.0, 25.0, 25.0]))
    flat = cellular.level(np.array([(2.0, 0.0, 0.0, 65.0, 0.0, -10.0, -13.0)]), seen)[0]
    np.testing.assert_allclose(flat, [-50.0, -70.0, -53.0])
    high = Receptions(np.array([0]), np.array([10.0]), np.array([125.0]))
    values = np.array([(0.0, 0.0, 0.0, 10.0, most, 0.0, 0.0) for most in (5.0, 20.0)])
    np.testing.assert_allclose(cellular.level(values, high)[:, 0], [-5.0, -20.0])


def test_there_are_twelve_parameters_or_fewer():
    assert len(cellular.throughput_space()) <= 12
    assert len(cellular.level_space(3)) <= 12


class TestFactorsOfCells:
    """Of cells in blocks of 100 s; every 10th second is given."""

    def shares(self, factors, seed=1, blocks=8, noise=0.5):
        rng = np.random.default_rng(seed)
        rows = 10 * blocks
        cells = np.repeat([f"c{k}" for k in range(len(factors))], rows)
        reported = rng.uniform(2.0, 9.0, len(cells))
        roots = np.repeat(factors, rows) * reported + rng.normal(0.0, noise, len(cells))
        return cellular.CellShares(cells, np.full(len(cells), "2020.01.03"), roots, 10.0), reported, cells

    def test_what_cells_give_is_found(self):
        given = np.array([0.6, 0.8, 1.0, 1.2, 1.4])
        shares, reported, _ = self.shares(given, noise=0.1)
        found = shares.factors(np.stack([reported, 2.0 * reported]))
        np.testing.assert_allclose(found[0], [*given, 1.0], atol=0.02)
        np.testing.assert_allclose(found[1, :-1], given / 2.0, atol=0.05)

    def test_cells_that_differ_by_chance_alone_stay_at_one(self):
        noisy = [self.shares(np.ones(6), seed, blocks=2, noise=3.0) for seed in range(20)]
        drawn = np.array([shares.factors(reported[None])[0, :-1] for shares, reported, _ in noisy])
        plain = np.array(
            [
                [
                    (reported * shares._roots)[cells == name].sum() / (reported[cells == name] ** 2).sum()
                    for name in shares.names
                ]
                for shares, reported, cells in noisy
            ]
        )
        assert np.abs(drawn - 1.0).mean() < 0.5 * np.abs(plain - 1.0).mean()

    def test_variances_are_those_of_the_textbook(self):
        # two cells of two blocks with equal weights: the classical estimators of a balanced design
        ratios = np.array([[1.0, 1.4], [0.5, 0.7]])
        cells = np.repeat(["a", "b"], 20)
        roots = np.repeat(ratios.ravel(), 10)
        shares = cellular.CellShares(cells, np.full(40, "2020.01.03"), roots, 10.0)
        means = ratios.mean(axis=1)
        within = ((ratios - means[:, None]) ** 2).sum() / 2
        between = (2 * ((means - means.mean()) ** 2).sum() - within) / 2
        kept = between / (between + within / 2)
        np.testing.assert_allclose(shares.factors(np.ones((1, 40)))[0, :2], 1.0 + kept * (means - 1.0))

    def test_other_cells_and_too_little_data_have_the_factor_one(self):
        shares, reported, _ = self.shares(np.array([0.5, 1.5]))
        assert shares.index(np.array(["c1", "c9", "a", "c0"])).tolist() == [1, 2, 2, 0]
        assert shares.factors(reported[None])[0, 2] == 1.0
        few, reported, _ = self.shares(np.array([0.5, 1.5]), blocks=1)
        assert few.factors(reported[None]).tolist() == [[1.0, 1.0, 1.0]]

    def test_blocks_end_with_the_day(self):
        days = np.repeat(["2020.01.03", "2020.01.04"], 5)
        shares = cellular.CellShares(np.full(10, "c"), days, np.arange(10.0), 10.0)
        assert len(shares._first) == 2
