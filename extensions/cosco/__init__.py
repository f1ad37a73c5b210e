"""COSCO: containers on hosts, placed and moved once per interval."""

from cosim.schedulers import ScheduledModel

MODEL = ScheduledModel(frozenset(("interval",)), {
    "shuffle": "new containers anywhere, others move anywhere with chance 1/2",
    "first-fit": "the first host with room",
    "best-fit": "the fullest host with room",
    "least-loaded": "the host with the smallest share of its cores asked for",
    "random": "any host with room, all equally likely",
    "round-robin": "the hosts one after another",
}, branches=True)  # fmt: skip
