"""Slips of ordinary authors in the scenarios of offloading: `cosim check` refuses them or warns of them."""

import pytest

from tests.contract.mutated import check_silent, check_warned

WARNED = [
    ("offloading", "adapters.offloading.applications={recognition: {}}", "is no application of the model"),
    ("offloading", "nodes.zoo={kind: small-server, at: [0 m, 0 m]}", "nodes.zoo: is no place of the model"),
    ("offloading", "adapters.offloading.energy={battery: 1 Wh}", "'energy' has no effect without 'model: app6'"),
    ("offloading", "adapters.offloading.links.wlan_servers=2", "belongs to the model tutorial5"),
    ("offloading", "events=[{at: 1 min, do: fail, node: quay}]", "acts upon 'do: fail'"),
]


@pytest.mark.parametrize(("scenario", "assignment", "said"), WARNED)
def test_what_would_be_ignored_is_warned_of(scenario, assignment, said):
    check_warned(scenario, assignment, said)


def test_the_scenario_itself_says_nothing():
    check_silent("offloading")
