"""How a run decides, and what a function of the user's may replace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.extcloudsim.datacentre.layout import (
    CAPPINGS,
    DETECTORS,
    GOVERNORS,
    PLACERS,
    SELECTORS,
    Bools,
    Hosts,
    Kinds,
    Machines,
)
from cosim.extensions.extcloudsim.datacentre.quirks import DECISIONS, check
from cosim.extensions.extcloudsim.datacentre.sla import RULES, Rule


@dataclass(frozen=True, slots=True, eq=False)
class DatacentreState:
    """What a policy function sees at the beginning of a period. The arrays are the model's own; look, do not write."""

    period: int  # number of the period that begins
    time: float  # s
    hosts: Hosts
    kinds: Kinds
    machines: Machines
    at: Ints  # (machines,) host, -1 none
    demand: Floats  # (machines,) capacity wanted, as last seen or foreseen
    history: Floats  # (HISTORY, machines) the same in earlier periods, newest first
    load: Floats  # (hosts,) share of each host's capacity
    point: Ints  # (hosts,) operating points
    up: Bools  # (hosts,)
    price: Floats  # (places,) currency/J now
    cap: Floats  # (places,) W, the least that each place may draw in the coming period; inf without a cap
    random: np.random.Generator


Detector = Callable[[DatacentreState], Bools]  # (hosts,) over-loaded
Selector = Callable[[DatacentreState], Floats]  # (machines,) the lowest leaves an over-loaded host first
Placer = Callable[
    [DatacentreState, int, Floats, Floats], int
]  # machine, loads and free MB per host so far -> host, -1 none
Governor = Callable[[DatacentreState], Ints]  # (hosts,) operating points
# history of utilisation (machines, periods) oldest first, auxiliary (machines, 2) age in s and largest
# utilisation so far -> mean, peak utilisation of the next period, remaining life in s; (machines,) each
Predictor = Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]


# what the peer's own procedure knows, where it knows less than ours
PEER: Final[Mapping[str, Sequence[Any]]] = {
    "detector": tuple(DETECTORS), "selector": SELECTORS, "placer": ("best-fit", "dvfs", "first-fit"),
    "governor": ("cost", "ondemand", "performance"), "penalty": ("proportional", "flat"), "predictor": (None,),
    "overcommit": (1.0,), "relocate": (False,),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DatacentreSettings:
    """The knobs of a run; names are those of the tables in `docs/datacentre.md`."""

    period: float = 300.0  # s between two decisions
    slot: float = 10.0  # s, grain in which migrations are resolved
    detector: str | Detector = "lrr"
    selector: str | Selector = "mmt"
    placer: str | Placer = "power-aware"
    governor: str | Governor = "ondemand"
    predictor: Predictor | None = None  # its peaks take the place of the present demand
    threshold: float = 0.7  # of load
    safety: float = 1.0  # of iqr and mad: times the spread; of lr and lrr: times the forecast
    evacuate: bool = True  # empty under-loaded hosts
    relocate: bool = False  # follow prices between datacentres; needs the placer cost-aware
    horizon: float = 3600.0  # s in which a relocation must pay off
    penalty: str | Rule = "proportional"
    degradation: float = 0.1  # of a machine's capacity while it is copied; Beloglazov and Buyya 2012, section 3.3
    restart: float = 60.0  # s that a machine takes to boot after its host failed
    recovery: str = "restart"  # or migration: from a copy of its memory elsewhere
    overcommit: float = 1.0  # times the RAM of a host that its machines may ask for together
    capping: str = "foreseen"  # how a place's cap is kept: by foreseen load, by full load (worst-case), or none
    energy_per_mb: float = 0.0  # J of the network per MB that a migration moves
    quirks: frozenset[str] = field(default_factory=frozenset)
    seed: int = 1

    @property
    def peer(self) -> bool:
        """Whether the peer's own procedure decides."""
        return not self.quirks.isdisjoint(DECISIONS)

    def __post_init__(self) -> None:
        check(self.quirks)
        known: Mapping[str, Any] = {
            "detector": DETECTORS, "selector": SELECTORS, "placer": PLACERS, "governor": GOVERNORS, "penalty": RULES,
            "recovery": ("restart", "migration"), "capping": CAPPINGS,
        }  # fmt: skip
        for name, names in known.items():
            value = getattr(self, name)
            if isinstance(value, str) and value not in names:
                raise ValueError(f"there is no {name} '{value}'; known: {', '.join(names)}")
        for name in ("period", "slot", "threshold", "horizon"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be more than 0, not {getattr(self, name):g}")
        if not self.overcommit >= 1.0:
            raise ValueError(f"overcommit must be at least 1, not {self.overcommit:g}")
        if not 0.0 <= self.degradation < 1.0:
            raise ValueError(f"degradation must be at least 0 and less than 1, not {self.degradation:g}")
        for name, values in PEER.items() if self.peer else ():
            if (value := getattr(self, name)) not in values:
                text = f"the peer's decisions have no {name} '{value}'; known: {', '.join(map(str, values))}"
                raise ValueError(f"{text}. The quirks {', '.join(sorted(self.quirks & DECISIONS.keys()))} ask for them")
        if self.relocate and self.placer != "cost-aware":
            raise ValueError("relocate needs the placer cost-aware")
