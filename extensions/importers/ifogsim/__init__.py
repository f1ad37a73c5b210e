"""Scenarios from the topologies that iFogSim's editor writes: fog devices, sensors, actuators, and the links between.

    from cosim.extensions.importers.ifogsim import read

    imported = read(Path("topology.json"), work=["EEG=2 Mcycles"])

A topology says nothing of the application. What its tasks carry and cost to compute is said to `read`,
which tells of everything that it fills in.
"""

from cosim.extensions.importers.ifogsim.scenario import read

__all__ = ["read"]
