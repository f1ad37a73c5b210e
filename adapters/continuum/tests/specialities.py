"""What a workload may ask for that not every model knows."""

from cosim.contract.entities import Affinity, Agreement, SlotRange, Stage
from cosim.contract.laws import Law

SPECIAL = [
    ("graph", {"graph": (Stage("detect", Law("fixed", 1e9), Law("fixed", 0.0), (), False),)}),
    ("arrivals", {"arrivals": "bag", "bag": (5.0, 1.5)}),
    ("arrivals", {"arrivals": "trace", "trace": "tasks.csv"}),
    ("accelerator", {"accelerator": "gpu", "operations": Law("fixed", 1e12)}),
    ("memory", {"memory": 1e9}),
    ("storage", {"storage": 1e9}),
    ("sensitivity", {"sensitivity": 0.06}),
    ("state", {"state": 0.0}),
    ("value", {"value": 1.0}),
    ("affinity", {"affinity": Affinity((SlotRange(0),))}),
    ("anti_affinity", {"anti_affinity": Affinity(None, ("detect",))}),
    ("sla", {"agreement": Agreement(1.0, 0.99, 60.0, 0.01, "violation")}),
]
