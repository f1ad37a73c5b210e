"""What the twin fits to levels from the air is what the radio adapter makes of the values."""

import numpy as np

from benchmarks import air
from cosim.adapters.radio.keys import Sector
from cosim.extensions.published_data import fiveg
from cosim.extensions.published_data.models import cellular


def test_the_adapter_says_what_the_fitted_model_says():
    rng = np.random.default_rng(5)
    seen = cellular.Receptions(rng.integers(0, 3, 60), rng.uniform(1.0, 900.0, 60), rng.uniform(10.0, 150.0, 60))
    flights = fiveg.AirLevels(seen, np.zeros(60), ("a", "b", "c"))
    values = {"exponent": 1.7, "height": 4.0, "tilt": -6.0, "width": 20.0, "sidelobe": 12.0}
    powers = np.array([-40.0, -45.0, -50.0])
    expected = cellular.level(np.array([[*values.values(), *powers]]), seen)[0]
    reported = air.levels(
        {"model": "ci", "exponent": 1.7, "shadowing": "0 dB", "height_loss": "4 dB"},
        Sector.model_validate({"downtilt": "6 deg", "vertical_beamwidth": "20 deg", "side_lobes": "12 dB"}),
        powers + air.at_one_metre(),
        flights,
    )
    np.testing.assert_allclose(reported, expected, atol=1e-9)


def test_every_altitude_is_judged_by_the_others():
    heights = np.repeat([20.0, 30.0, 40.0], 4)
    flights = fiveg.AirLevels(
        cellular.Receptions(np.zeros(12, np.int64), np.full(12, 50.0), heights), np.arange(12.0), ("a",)
    )
    found = air.splits(flights, None, None)
    assert [name for name, _, _ in found] == ["20", "30", "40"]
    for name, fit, judged in found:
        assert set(judged.seen.height) == {float(name)}
        assert float(name) not in fit.seen.height
        assert len(fit.level) + len(judged.level) == 12
