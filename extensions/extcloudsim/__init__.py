"""ExtCloudSim: data centres with migration and consolidation of virtual machines."""

from cosim.schedulers import ScheduledModel

MODEL = ScheduledModel(
    frozenset(), {},
    apart="it asks four things in turn: which hosts are too full, which machines leave, where to, at which clock",
)  # fmt: skip
