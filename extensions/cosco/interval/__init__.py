"""Containers on the hosts of an edge-cloud fleet, placed and moved once per interval.

    from cosim.extensions.cosco.interval import Interval, azure_fog, static

    simulation = Interval(azure_fog(50), static(300.0), seed=7, policy="least-loaded")
    figures = simulation.run(100)

The class of model of COSCO, SimTune and MetaNet: in each interval containers arrive, a scheduler
gives containers a host, images travel, and the hosts' MIPS are shared. Compiled, on flat arrays, any
number of hosts. The physics is the stated one; each deviation of the published simulators from it is
a named switch (`quirks`). `batch` runs many seeds and parameter sets at once.

The names below are imported when they are first used, as numba takes half a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cosim.contract.on_demand import on_demand

if TYPE_CHECKING:
    from cosim.extensions.cosco.interval.fleet import (
        HostFleet,
        Type,
        azure_fog,
        bitbrain_fog,
        metanet_fleet,
        simple_fog,
        simtune_testbed,
    )
    from cosim.extensions.cosco.interval.quirks import QUIRKS, compatible
    from cosim.extensions.cosco.interval.replicas import batch
    from cosim.extensions.cosco.interval.simulator import Interval, IntervalSnapshot, IntervalView, compiled
    from cosim.extensions.cosco.interval.workload import (
        ContainerArrivals,
        ContainerWorkload,
        aiotbench,
        bitbrains,
        defog,
        static,
        traces,
    )

__all__ = [
    "QUIRKS", "ContainerArrivals", "ContainerWorkload", "HostFleet", "Interval", "IntervalSnapshot",
    "IntervalView", "Type", "aiotbench", "azure_fog", "batch", "bitbrain_fog", "bitbrains", "compatible",
    "compiled", "defog", "metanet_fleet", "simple_fog",
    "simtune_testbed", "static", "traces",
]  # fmt: skip


__getattr__ = on_demand(
    __name__, quirks="QUIRKS compatible", replicas="batch",
    simulator="Interval IntervalSnapshot IntervalView compiled",
    fleet="HostFleet Type azure_fog bitbrain_fog metanet_fleet simple_fog simtune_testbed",
    workload="ContainerArrivals ContainerWorkload aiotbench bitbrains defog static traces",
)  # fmt: skip
