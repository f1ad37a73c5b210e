"""A GPU cluster with a switched optical fabric, and the traces of published ones."""

from cosim.schedulers import ScheduledModel

MODEL = ScheduledModel(
    frozenset(), {},
    apart="it asks for the order of a window of jobs, then for the servers and links of each",
)  # fmt: skip
