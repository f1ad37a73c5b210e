"""All predictors are asked the same way and answer with possible values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.extensions.extcloudsim.predict import LastValue, LocalRegression, Oracle, TrainedNetwork

RANDOM = np.random.default_rng(2).random((6, 40))
PREDICTORS = {
    "last value": LastValue(),
    "local regression": LocalRegression(),
    "oracle": Oracle(RANDOM),
    "learned": TrainedNetwork.shipped("gru-attention"),
    "lstm": TrainedNetwork.shipped("lstm"),
}


@given(st.sampled_from(sorted(PREDICTORS)), st.integers(1, 40), st.floats(0.0, 1.0), st.booleans())
def test_mean_and_peak_are_shares_in_order(name, periods, holes, aged):
    history = RANDOM[:, :periods].copy()
    history[np.random.default_rng(periods).random(history.shape) < holes] = np.nan
    aux = np.full((6, 1), 3600.0) if aged else None
    mean, peak, life = PREDICTORS[name].predict(history, aux)
    assert mean.shape == peak.shape == life.shape == (6,)
    assert np.all((mean >= 0.0) & (mean <= peak) & (peak <= 1.0))
    assert np.all(life >= 0.0)


def test_baselines_say_what_their_names_say():
    line = np.linspace(0.1, 0.55, 10)[None, :]
    assert LastValue().predict(line).mean == pytest.approx([0.55])
    found = LocalRegression().predict(line)
    assert found.mean == pytest.approx([0.6])
    assert found.peak == pytest.approx([0.72])
    use = np.array([[0.1, 0.2, 0.3, 0.8, 0.1]])
    oracle = Oracle(use, life=np.array([1500.0]), horizon=3)
    assert oracle.predict(use[:, :1], np.array([[300.0]]))[:3] == (
        pytest.approx([1.3 / 3]), pytest.approx([0.8]), pytest.approx([1200.0]),
    )  # fmt: skip


def test_a_prediction_of_one_vm_does_not_depend_on_the_others():
    learned = PREDICTORS["learned"]
    together = learned.predict(RANDOM)
    alone = learned.predict(RANDOM[2:3])
    assert together.mean[2] == pytest.approx(alone.mean[0], abs=1e-6)
    assert together.peak[2] == pytest.approx(alone.peak[0], abs=1e-6)


def test_the_learned_predictor_knows_more_than_the_last_value():
    """On traces of its own making: noise about a level that the last value alone does not show."""
    random = np.random.default_rng(7)
    level = random.uniform(0.05, 0.5, (400, 1))
    use = np.clip(level + random.normal(0.0, 0.1, (400, 60)), 0.0, 1.0)
    truth = Oracle(use).predict(use[:, :48])
    found = {name: PREDICTORS[name].predict(use[:, :48]) for name in ("learned", "last value")}
    error = {name: np.abs(said.mean - truth.mean).mean() for name, said in found.items()}
    assert error["learned"] < 0.6 * error["last value"]
    assert np.abs(found["learned"].peak - truth.peak).mean() < np.abs(found["last value"].peak - truth.peak).mean()


def test_unknown_architectures_are_named():
    with pytest.raises(ValueError, match="gru-attention, lstm"):
        TrainedNetwork.shipped("transformer")
