"""Scenarios from the YAML files of CloudSim Automation: datacenters, hosts, customers, VMs, cloudlets.

    from cosim.extensions.importers.cloudsim import read

    imported = read(Path("CloudEnvironment.yml"))

VMs become nodes and cloudlets tasks of the task engine. VMs are placed on hosts and cloudlets are bound to
VMs while the file is read, as CloudSim Plus does it at its start.
"""

from cosim.extensions.importers.cloudsim.scenario import read

__all__ = ["read"]
