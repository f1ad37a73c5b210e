"""Slips of ordinary authors in the scenarios of GPU clusters: `cosim check` refuses them or warns of them."""

import pytest

from tests.contract.mutated import check_refused, check_silent, check_warned

CLUSTER = "adapters.cluster"

REFUSED = [
    ("gpu-generated", f"{CLUSTER}.jobs.mix={{llm: 0}}", "a 'mix' needs a weight above 0"),
]
WARNED = [
    ("gpu-generated", f"{CLUSTER}.nodes=['leaf-*', 'foo-*']", "'foo-*' names no node"),
    ("gpu-generated", f"{CLUSTER}.jobs={{generate: uniform, gpus: [2000, 4000]}}", "ask for more GPUs"),
    ("gpu-generated", f"{CLUSTER}.faults=[{{at: 100 h, what: gpu, number: 1}}]", "faults.0.at: begins at 360000 s"),
    ("gpu-philly", f"{CLUSTER}.jobs.gap=1 min", "'gap' has no effect without 'generate: uniform or fitted'"),
]


@pytest.mark.parametrize(("scenario", "assignment", "said"), REFUSED)
def test_what_cannot_be_is_refused(scenario, assignment, said):
    check_refused(scenario, assignment, said)


@pytest.mark.parametrize(("scenario", "assignment", "said"), WARNED)
def test_what_would_be_ignored_is_warned_of(scenario, assignment, said):
    check_warned(scenario, assignment, said)


@pytest.mark.parametrize("scenario", ["gpu-generated", "gpu-philly"])
def test_the_scenarios_themselves_say_nothing(scenario):
    check_silent(scenario)
