"""Task offloading between device, edge and cloud, with places, queueing links and admission by load.

The class of model of EdgeCloudSim: devices that dwell at places or drive along a road, delays by
queueing formulas instead of packets or flows, virtual machines that admit tasks by percentages.

    from cosim.extensions.edgecloudsim.offloading import Study, simulate
    print(simulate(study, seed=1).metrics()["service_time_s"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cosim.extensions.edgecloudsim.offloading.quirks import QUIRKS, Quirk, compatible
from cosim.extensions.edgecloudsim.offloading.study import Application, EdgePlace, Energy, Links, Study, Vm

if TYPE_CHECKING:
    from cosim.extensions.edgecloudsim.offloading.books import Outcome
    from cosim.extensions.edgecloudsim.offloading.simulation import Request, Simulation, simulate

__all__ = [
    "QUIRKS",
    "Application",
    "EdgePlace",
    "Energy",
    "Links",
    "Outcome",
    "Quirk",
    "Request",
    "Simulation",
    "Study",
    "Vm",
    "compatible",
    "simulate",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - importing the kernel imports numba: only for who runs it
    if name in ("Outcome", "Request", "Simulation", "simulate"):
        from cosim.extensions.edgecloudsim.offloading import simulation

        return getattr(simulation, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
