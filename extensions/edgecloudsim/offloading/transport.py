"""A study of intelligent transport: vehicles on a ring road, three applications, edge, cloud, two radios.

The figures are those of the evaluation of Sonmez, Tunca, Ozgovde and Ersoy 2021 (Machine
Learning-Based Workload Orchestrator for Vehicular Edge Computing, doi 10.1109/TITS.2020.3024233),
and of its published input: forty access points 400 m apart, each with two machines.
"""

from __future__ import annotations

from typing import Final

from cosim.extensions.edgecloudsim.offloading.study import Application, EdgePlace, OffloadingStudy, StudyLinks, Vm

_APPLICATIONS: Final = (
    Application(
        "traffic-management", 30.0, 3.0, 3600.0, 1.0, 20.0, 20.0, 3000.0,
        delay_sensitivity=0.5, max_delay=0.5, load_edge=6.0, load_cloud=1.2,
    ),
    Application(
        "danger-assessment", 35.0, 5.0, 3600.0, 1.0, 40.0, 20.0, 10000.0,
        delay_sensitivity=0.8, max_delay=1.0, load_edge=20.0, load_cloud=4.0,
    ),
    Application(
        "infotainment", 35.0, 15.0, 3600.0, 1.0, 20.0, 80.0, 20000.0,
        delay_sensitivity=0.25, max_delay=1.5, load_edge=40.0, load_cloud=8.0,
    ),
)  # fmt: skip
_SEGMENT: Final = 400.0  # m
_CLASSES: Final = "2222211110011112222222222111100111122222"  # of speed, per segment


def ring_road(
    devices: int,
    policy: str = "random",
    *,
    duration: float = 600.0,
    warm_up: float = 180.0,
    scale: int = 1,
    quirks: frozenset[str] = frozenset(),
) -> OffloadingStudy:
    """The study for `devices` vehicles, with everything but them `scale` times as large.

    That is: `scale` times the length of road, the access points, the machines, and the rates of the
    networks that all share. `duration` and `warm_up` in s.
    """
    places = tuple(
        EdgePlace(f"rsu-{k}", _SEGMENT * (k + 0.5), 0.0, k, int(_CLASSES[k % 40]), ((Vm(2, 10000.0),) * 2,))
        for k in range(40 * scale)
    )
    return OffloadingStudy(
        model="app5",
        architecture="two-tier",
        policy=policy,
        devices=devices,
        duration=duration,
        warm_up=warm_up,
        applications=_APPLICATIONS,
        places=places,
        links=StudyLinks(wlan=10e6, man=scale * 1e9, wan=scale * 50e6, gsm=scale * 20e6, lan_delay=0.01),
        cloud=((Vm(2, 75000.0),) * 20,) * scale,
        load_interval=1.5,
        quirks=quirks,
    )
