"""EdgeCloudSim: its offloading model, its configuration files and its studies."""

from __future__ import annotations

from cosim.schedulers import ScheduledModel

_WAYS = {
    "random": "any of the three ways",
    "predictive": "in inverse proportion to failures and times (app5)",
    "mab": "ALTO's bandit over three ways (app5)",
    "game-theory": "a game between vehicles over three ways (app5)",
    "ai-based": "networks that predict success and time of three ways (app5)",
}
VEHICULAR = ScheduledModel(
    frozenset(), _WAYS, apart="it asks for a way (roadside unit, WLAN to the cloud, GSM to the cloud), not for a host"
)
MODEL = ScheduledModel(frozenset(("task",)), {
    "hybrid": "the edge while it is idle enough, else the cloud (app2, app4)",
    "first-fit": "the first machine with room",
    "best-fit": "the fullest machine with room",
    "next-fit": "the next machine with room after the last one",
    "random-fit": "a random machine with room",
    "worst-fit": "the emptiest machine",
    "network-based": "the cloud while the WAN is fast (app2, app4)",
    "utilization-based": "the cloud while the edge is busy (app2, app4)",
    "fuzzy-based": "fuzzy rules for place and tier (app4)",
    "fuzzy-competitor": "fuzzy rules of the comparison (app4)",
    "only-edge": "the edge (app3, app6)",
    "only-mobile": "the device (app3, app6)",
}, limit="not in app5, the vehicular application")  # fmt: skip
