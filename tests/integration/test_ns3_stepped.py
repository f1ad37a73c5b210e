"""ns-3 by steps: what trains of probe frames say of links."""

from __future__ import annotations

import pytest

from cosim.adapters.ns3.radio import RadioParameters
from cosim.adapters.ns3.stepped import SteppedStations
from cosim.contract.errors import RunError, ScenarioError

ready = pytest.mark.ns3

# Mbit/s of UDP or TCP that two containers measured, 802.11n of 20 MHz at 5 GHz, exponent 2.7
TABLE = {100: 21.7, 150: 16.6, 200: 11.5, 240: 5.8}


@ready
def test_the_rate_falls_with_distance_as_measured():
    stepped = SteppedStations(RadioParameters(), ["a", "b"], [("a", "b"), ("b", "a")])
    stepped.step({"a": (0.0, 0.0, 0.0), "b": (5.0, 0.0, 0.0)}, 1.0)
    previous = stepped.step({}, 1.0)["a", "b"]
    assert previous.rate == pytest.approx(59.4e6, rel=0.15)
    assert previous.loss == 0.0
    for distance, rate in TABLE.items():
        stepped.step({"b": (float(distance), 0.0, 0.0)}, 0.5)
        state = stepped.step({}, 1.0)["a", "b"]
        assert state.rate == pytest.approx(rate * 1e6, rel=0.2)
        assert state.loss == 0.0
        assert previous.delay < state.delay < 0.01
        assert stepped.levels["a", "b"] == pytest.approx(RadioParameters().received(distance))
        previous = state
    stepped.step({"b": (300.0, 0.0, 0.0)}, 0.5)
    gone = stepped.step({}, 1.0)["b", "a"]
    assert gone.rate == 0.0
    assert gone.loss == 1.0
    stepped.step({"b": (50.0, 0.0, 0.0)}, 0.5)
    assert stepped.step({}, 1.0)["b", "a"].rate > 30e6
    stepped.close()
    stepped.close()


@ready
def test_steps_repeat_and_do_not_depend_on_how_time_is_cut():
    def states(cuts: int, seed: int = 1):
        stepped = SteppedStations(RadioParameters(fading=1.5, seed=seed), ["a", "b", "c"], [("a", "b"), ("b", "c")])
        places = {"a": (0.0, 0.0, 0.0), "b": (220.0, 0.0, 0.0), "c": (0.0, 250.0, 0.0)}
        found = [stepped.step(places, 1.0 / cuts) for _ in range(cuts)]
        found = [stepped.step(places, 1.0)]
        stepped.close()
        return found

    assert states(1) == states(1) == states(4)
    assert states(1) != states(1, seed=2)


@ready
@pytest.mark.parametrize(
    ("radio", "least", "most"),
    [
        (RadioParameters(standard="a"), 20e6, 35e6),  # 54 Mbit/s, no aggregation
        (RadioParameters(standard="n", band=2.4, width=40), 80e6, 150e6),
        (RadioParameters(standard="ac", width=80, rate="VhtMcs4"), 80e6, 200e6),
        (RadioParameters(standard="ax", band=2.4), 60e6, 140e6),
        (RadioParameters(rate="minstrel"), 20e6, 65e6),
        (RadioParameters(rate="HtMcs0"), 4e6, 6.5e6),
    ],
    ids=lambda value: (
        f"{value.standard} {value.band} {value.width} {value.rate}" if isinstance(value, RadioParameters) else ""
    ),
)
def test_other_standards(radio, least, most):
    stepped = SteppedStations(radio, ["a", "b"], [("a", "b")])
    stepped.step({"b": (2.0, 0.0, 0.0)}, 2.0)
    state = stepped.step({}, 1.0)["a", "b"]
    stepped.close()
    assert least < state.rate < most
    assert state.loss < 0.01


@ready
def test_fading_makes_the_edge_gradual():
    def loss(fading, distance):
        stepped = SteppedStations(RadioParameters(fading=fading), ["a", "b"], [("a", "b")])
        state = stepped.step({"b": (distance, 0.0, 0.0)}, 10.0)["a", "b"]
        stepped.close()
        return state.loss

    assert [loss(0.0, distance) for distance in (255.0, 275.0)] == [0.0, 1.0]
    gradual = [loss(1.5, distance) for distance in (150.0, 200.0, 230.0, 320.0)]
    assert gradual == sorted(gradual)
    assert gradual[0] < 0.02
    assert 0.1 < gradual[2] < 0.9
    assert gradual[3] == 1.0


@ready
def test_parameters_that_do_not_fit_end_the_engine():
    stepped = SteppedStations(RadioParameters(rate="NoSuchMode"), ["a", "b"], [("a", "b")])
    with pytest.raises(RunError, match="has ended"):
        stepped.step({}, 1.0)
    stepped.close()


@ready
def test_contention_is_felt():
    def rate(pairs):
        nodes = [f"n{i}" for i in range(8)]
        stepped = SteppedStations(RadioParameters(), nodes, pairs, interval=0.02)
        stepped.step({node: (5.0 * i, 0.0, 0.0) for i, node in enumerate(nodes)}, 1.0)
        state = stepped.step({}, 1.0)["n0", "n1"]
        stepped.close()
        return state

    alone = rate([("n0", "n1")])
    crowded = rate([(f"n{i}", f"n{j}") for i in range(8) for j in range(8) if i != j])
    assert crowded.rate < 0.5 * alone.rate


@ready
def test_what_cannot_be_is_said():
    with pytest.raises(ScenarioError, match="no link from a to x"):
        SteppedStations(RadioParameters(), ["a", "b"], [("a", "x")])
    with pytest.raises(ScenarioError, match="interval"):
        SteppedStations(RadioParameters(), ["a", "b"], [("a", "b")], interval=0.0)
    stepped = SteppedStations(RadioParameters(), ["a", "b"], [("a", "b")])
    with pytest.raises(RunError, match="P: port x y z"):
        stepped.step({"a": (float("nan"), 0.0, 0.0)}, 1.0)
    stepped.close()
    with pytest.raises(RunError, match="has ended"):
        stepped.step({}, 1.0)
