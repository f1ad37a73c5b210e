"""ExtCloudSim: data centres with migration and consolidation of virtual machines."""
