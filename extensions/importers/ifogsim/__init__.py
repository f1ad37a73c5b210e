"""Scenarios from the topologies that iFogSim's editor writes: fog devices, sensors, actuators, and the links between.

    from cosim.extensions.importers.ifogsim import read

    imported = read(Path("topology.json"), work=["EEG=2 Mcycles"])

A topology does not describe the application. `read` takes what its tasks carry and cost to compute, and reports
everything that it fills in.
"""

from cosim.extensions.importers.ifogsim.scenario import read

__all__ = ["read"]
