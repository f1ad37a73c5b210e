"""Task offloading between device, edge and cloud, with places, queueing links and admission by load.

The class of model of EdgeCloudSim: devices that dwell at places or drive along a road, delays by
queueing formulas instead of packets or flows, virtual machines that admit tasks by percentages.

    from cosim.extensions.edgecloudsim.offloading import OffloadingStudy, simulate
    print(simulate(study, seed=1).metrics()["service_time_s"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.contract.on_demand import on_demand
from cosim.extensions.edgecloudsim.offloading.quirks import QUIRKS, OffloadingQuirk, compatible
from cosim.extensions.edgecloudsim.offloading.study import (
    Application,
    EdgePlace,
    Energy,
    OffloadingStudy,
    StudyLinks,
    Vm,
)

if TYPE_CHECKING:
    from cosim.extensions.edgecloudsim.offloading.books import OffloadingOutcome
    from cosim.extensions.edgecloudsim.offloading.simulation import OffloadingRequest, Simulation, simulate

__all__ = [
    "QUIRKS",
    "Application",
    "EdgePlace",
    "Energy",
    "OffloadingOutcome",
    "OffloadingQuirk",
    "OffloadingRequest",
    "OffloadingStudy",
    "Simulation",
    "StudyLinks",
    "Vm",
    "compatible",
    "simulate",
]

# importing the kernel imports numba: only for who runs it
__getattr__ = on_demand(__name__, simulation="OffloadingOutcome OffloadingRequest Simulation simulate")
