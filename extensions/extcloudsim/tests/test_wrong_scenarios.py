"""Slips of ordinary authors in the scenarios of data centres: `cosim check` refuses them or warns of them."""

import pytest

from tests.contract.mutated import check_refused, check_silent, check_warned

CENTRE = "adapters.datacentre"

REFUSED = [
    ("energy-aware", f"{CENTRE}.places.rome={{nodes: server-1}}", "'server-1' is at place 'athens' already"),
    ("energy-aware", f"{CENTRE}.machines.jobs.ram=64 GB", "no host can take it"),
    ("energy-aware", f"{CENTRE}.machines.jobs={{cpu: 1 GHz, start: 2 h, stop: 1 h}}", "'stop' is not after 'start'"),
    ("price-shift", f"{CENTRE}.wan=[{{between: [west, east]}}, {{between: [west, east]}}]", "a second time"),
]
WARNED = [
    ("energy-aware", "workloads={w: {from: server-1, arrivals: every 1 s, work: 1 Mcycles}}", "acts upon 'workloads'"),
    ("energy-aware", f"{CENTRE}.hosts={{server-1: {{mtbf: 1 h}}, '*': {{}}}}", "no host has this block"),
    ("energy-aware", f"{CENTRE}.places.athens.nodes=['server-*', 'srv-*']", "'srv-*' names no host"),
    ("energy-aware", f"{CENTRE}.machines.jobs.count=5000", "ask for 5000 GB of memory together"),
    ("energy-aware", f"{CENTRE}.places.athens.nodes=server-[1..3]", "no place names 'server-4' and 2 more"),
    ("energy-aware", f"{CENTRE}.machines.jobs.cpu=99 GHz", "the largest host has 13.2 GHz in all"),
    ("energy-aware", f"{CENTRE}.machines.jobs.start=48 h", "the run has ended at 86400 s"),
    ("energy-aware", f"{CENTRE}.disasters=[{{at: 48 h, place: athens}}]", "disasters.0.at: begins at 172800 s"),
    ("energy-aware", f"{CENTRE}.places.athens.price=100 /MWh", "'price' has no effect beside 'prices'"),
]


@pytest.mark.parametrize(("scenario", "assignment", "said"), REFUSED)
def test_what_cannot_be_is_refused(scenario, assignment, said):
    check_refused(scenario, assignment, said)


@pytest.mark.parametrize(("scenario", "assignment", "said"), WARNED)
def test_what_would_be_ignored_is_warned_of(scenario, assignment, said):
    check_warned(scenario, assignment, said)


@pytest.mark.parametrize("scenario", ["energy-aware", "price-shift"])
def test_the_scenarios_themselves_say_nothing(scenario):
    check_silent(scenario)
