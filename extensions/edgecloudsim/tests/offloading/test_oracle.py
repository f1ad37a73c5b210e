"""The kernel against the same rules written once more in plain Python."""

from dataclasses import replace

import numpy as np
import pytest

from cosim.extensions.edgecloudsim.offloading import Simulation, StudyLinks, Vm
from cosim.extensions.edgecloudsim.offloading.choosing import POLICIES
from cosim.extensions.edgecloudsim.offloading.layout import CAUSES
from cosim.extensions.edgecloudsim.tests.offloading.oracle import Oracle
from cosim.extensions.edgecloudsim.tests.offloading.studies import study

OWN = (Vm(1, 700.0), Vm(1, 700.0))
EO = "two-tier-with-eo"
NARROW = StudyLinks(wlan=12e6, wan=6e6, man=2e6, lan_delay=0.004, wan_propagation=0.03)
CASES = {
    **{f"app1-{policy}": ("app1", policy, EO, 14, None) for policy in POLICIES["app1"]},
    "app1-own-place": ("app1", "next-fit", "two-tier", 30, None),
    "app1-edge-only": ("app1", "next-fit", "single-tier", 14, None),
    "app1-narrow-links": ("app1", "first-fit", EO, 24, NARROW),
    "app1-narrower-links": ("app1", "first-fit", EO, 36, NARROW),
    "app1-narrow-wan": ("app1", "first-fit", EO, 24, StudyLinks(wlan=100e6, wan=3e6, wan_propagation=0.03)),
    "tutorial5": ("tutorial5", "worst-fit", "single-tier", 14, None),
    **{f"app2-{policy}": ("app2", policy, EO, 30, None) for policy in POLICIES["app2"]},
    "app2-narrow-man": ("app2", "utilization-based", EO, 30, NARROW),
    "app2-crowded": ("app2", "network-based", EO, 120, None),
    **{f"app3-{policy}": ("app3", policy, EO, 20, None) for policy in POLICIES["app3"]},
}


def case_of(name):
    model, policy, architecture, devices, links = CASES[name]
    base = study(model, policy, devices=devices, architecture=architecture, device_vm=OWN)
    return replace(base, links=links or base.links)


@pytest.mark.parametrize("name", CASES)
def test_every_task_ends_as_in_the_plain_version(name):
    case = case_of(name)
    run = Simulation(case, 3, trace=True)
    run.advance(case.duration)
    ours = run.drain()
    theirs = Oracle(case, 3).run()
    assert len(theirs) == len(ours["ended"]) > 100
    seen = {
        (int(d), round(float(c), 9)): k for k, (d, c) in enumerate(zip(ours["device"], ours["created"], strict=True))
    }
    for now, device, cause, task in theirs:
        k = seen[device, round(task["created"], 9)]
        assert CAUSES[ours["cause"][k]] == cause
        got = [ours[name][k] for name in ("ended", "length", "upload", "download", "wlan", "man", "wan")]
        want = [now, *(task[name] for name in ("length", "upload", "download", "wlan", "man", "wan"))]
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_the_cases_reach_every_way_to_fail():
    """Guards the comparison above: it would say little about ends that no case comes to."""
    causes = set()
    for name in CASES:
        run = Simulation(case_of(name), 3, trace=True)
        run.advance(120.0)
        causes |= {CAUSES[cause] for cause in run.drain()["cause"]}
    assert causes == {"completed", "capacity", "mobility", "wlan", "man", "wan"}
