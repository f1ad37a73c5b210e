"""Slips of ordinary authors in scenarios of the interval model: `cosim check` refuses them or warns of them."""

import pytest

from tests.contract.mutated import check_refused, check_silent, check_warned

REFUSED = [
    ("fog-interval", "adapters.interval.demand=99 GHz", "the largest host has 16.1112 GHz"),
    ("fog-interval", "workloads.counting.input=300 GB", "the largest host has 3.436e+10 B"),
]
WARNED = [
    ("fog-interval", "adapters.interval.demand=5 GHz", "are given 5 GHz at least and can use 4 GHz"),
    ("fog-interval", "links=[{between: [camera-1, gateway-1]}]", "acts upon 'links'"),
    ("fog-interval", "events=[{at: 1 h, do: degrade, link: camera-1/camera-2, delay: 1 s}]", "acts upon 'do: degrade'"),
    ("fog-interval", "adapters.interval.boot=1 min", "'boot' has no effect without 'switch_off'"),
]


@pytest.mark.parametrize(("scenario", "assignment", "said"), REFUSED)
def test_what_cannot_be_is_refused(scenario, assignment, said):
    check_refused(scenario, assignment, said)


@pytest.mark.parametrize(("scenario", "assignment", "said"), WARNED)
def test_what_would_be_ignored_is_warned_of(scenario, assignment, said):
    check_warned(scenario, assignment, said)


def test_the_scenario_itself_says_nothing():
    check_silent("fog-interval")
