"""Small studies for tests, of our own making."""

from dataclasses import replace

from hypothesis import strategies as st

from cosim.extensions.edgecloudsim.offloading import (
    QUIRKS,
    Application,
    EdgePlace,
    Energy,
    OffloadingStudy,
    StudyLinks,
    Vm,
)
from cosim.extensions.edgecloudsim.offloading.choosing import ARCHITECTURES, POLICIES

APPLICATIONS = (
    Application(
        "video", 45.0, 2.0, 20.0, 10.0, 300.0, 40.0, 900.0, cloud_probability=25.0, delay_sensitivity=0.9,
        load_edge=20.0, load_cloud=4.0, load_mobile=15.0,
    ),
    Application(
        "batch", 35.0, 5.0, 40.0, 5.0, 500.0, 200.0, 6000.0, cloud_probability=60.0, delay_sensitivity=0.1,
        load_edge=35.0, load_cloud=7.0, load_mobile=60.0,
    ),
)  # fmt: skip
EDGE = ((Vm(2, 1000.0, 500.0), Vm(1, 1500.0, 500.0)),)
PLACES = (
    EdgePlace("square", 0.0, 0.0, 0, 0, EDGE, (0.1, 3.0, 0.0, 0.0), (20.0, 50.0)),
    EdgePlace("park", 100.0, 0.0, 1, 1, EDGE, (0.2, 1.0, 0.0, 0.0), (20.0, 50.0)),
    EdgePlace("street", 0.0, 100.0, 2, 2, EDGE, (0.1, 3.0, 0.0, 0.0), (30.0, 60.0)),
)
ENERGY = Energy(battery=0.1, initial=(20.0, 100.0), cloud_idle=10.0, nanojoule_per_bit={"man": 3.0})


def study(model="app1", policy="", **changes):
    """A study of 12 devices for 120 s; corrected unless `quirks` are given."""
    base = OffloadingStudy(
        model=model,
        architecture="two-tier-with-eo",
        policy=policy or POLICIES[model][0],
        devices=12,
        duration=120.0,
        warm_up=30.0,
        applications=APPLICATIONS,
        places=PLACES,
        links=StudyLinks(wlan=100e6, wan=30e6, lan_delay=0.004, wan_propagation=0.03),
        cloud=((Vm(4, 4000.0), Vm(4, 4000.0)),),
        device_vm=(Vm(1, 500.0, 100.0), Vm(2, 900.0, 300.0)),
        dwell=(60.0, 40.0, 15.0),
        load_interval=5.0,
        location_interval=10.0,
        access_interval=20.0,
    )
    return replace(base, **changes)


models = st.sampled_from(sorted(POLICIES))


@st.composite
def studies(draw):
    """Any model with any policy, any quirks that belong to it, any load."""
    model = draw(models)
    belonging = sorted(name for name, quirk in QUIRKS.items() if model in quirk.models)
    return study(
        model,
        draw(st.sampled_from(POLICIES[model])),
        architecture=draw(st.sampled_from(ARCHITECTURES)),
        devices=draw(st.integers(1, 60)),
        duration=draw(st.sampled_from([31.0, 75.5, 140.0])),
        quirks=frozenset(draw(st.sets(st.sampled_from(belonging)))),
        energy=draw(st.sampled_from([None, ENERGY])) if model == "app6" else None,
        places=PLACES[: draw(st.integers(1, 3))],
        links=StudyLinks(
            wlan=draw(st.sampled_from([20e6, 100e6])),
            wan=draw(st.sampled_from([5e6, 30e6])),
            man=draw(st.sampled_from([0.0, 20e6])),
            lan_delay=0.004,
            wan_propagation=draw(st.sampled_from([0.0, 0.1])),
        ),
    )
