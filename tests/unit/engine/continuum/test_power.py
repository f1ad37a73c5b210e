"""Power of processors over utilisation."""

import numba
import numpy as np
import pytest

from cosim.engine.continuum import power
from cosim.engine.continuum.power import CLASSES, PLATFORMS, platform


def test_laws_at_their_ends_and_between():
    u = np.array([0.0, 0.5, 1.0])
    np.testing.assert_allclose(power.linear(u, 10.0, 30.0), [10.0, 20.0, 30.0], rtol=1e-12)
    np.testing.assert_allclose(power.cubic(u, 10.0, 30.0), [10.0, 12.5, 30.0], rtol=1e-12)
    watts = np.array([10.0, 30.0, 40.0])
    np.testing.assert_allclose(power.table(np.array([0.0, 0.25, 0.5, 0.75, 1.0]), watts), [10, 20, 30, 35, 40])
    assert power.voltage_frequency(0.5, 2.0, 3.0, 4.0, 1.0) == pytest.approx(37.0, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "watts"),
    [
        ("xeon-1220", (61.5, 74.4, 99.8, 116.3)),
        ("x-gene-2", (38.4, 44.1, 49.7, 55.3)),
        ("x-gene-3", (63.1, 87.1, 111.0, 132.3)),
    ],
)
def test_full_power_of_the_platforms_is_what_is_published(name, watts):
    made = [PLATFORMS[name].watts(1.0, point) for point in range(4)]
    np.testing.assert_allclose(made, watts, atol=0.06)


@pytest.mark.parametrize("one", PLATFORMS.values(), ids=list(PLATFORMS))
def test_platforms_are_consistent(one):
    assert len(one.frequency) == len(one.voltage) == 4
    assert list(one.frequency) == sorted(one.frequency)
    for volts in one.undervolted:
        assert all(low <= nominal for low, nominal in zip(volts, one.voltage, strict=True))
        assert one.watts(0.7, 1, 1) <= one.watts(0.7, 1)
    compute, memory, hybrid, io = (one.sensitivity(work) for work in CLASSES)
    assert 0.9 < compute < 1.05
    assert io == 0.0 < memory < hybrid < compute
    longer = power.slowdown(compute, np.array(one.frequency), one.frequency[-1])
    np.testing.assert_allclose(longer, one.measured["compute"], rtol=0.06)


def test_names_of_platforms_are_read_generously():
    spellings = ("xeon", "Xeon 1220", "X-Gene 2", "xgene2", "XGENE_3", "Intel Xeon-1220", "lenovo intel xeon 1220")
    assert [platform(name).name for name in spellings] == [
        "xeon-1220", "xeon-1220", "x-gene-2", "x-gene-2", "x-gene-3", "xeon-1220", "xeon-1220",
    ]  # fmt: skip
    for wrong in ("", "epyc", "x-gene"):
        with pytest.raises(KeyError, match="known: xeon-1220"):
            platform(wrong)


def test_compiled_functions_may_call_the_laws():
    @numba.njit
    def both(u):
        return power.linear(u, 10.0, 30.0) + power.cubic(u, 1.0, 2.0) + power.voltage_frequency(u, 1.0, 1.0, 1.0, 0.0)

    assert both(0.5) == pytest.approx(20.0 + 1.125 + 0.5, rel=1e-12)
