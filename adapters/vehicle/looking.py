"""What the conditions of engagements look at."""

from __future__ import annotations

from collections.abc import Container, Iterator

from cosim.adapters.vehicle.config import EngagePart, TriggerPart, VehicleConfig
from cosim.adapters.vehicle.signals import BEHAVIOUR, PICTURE
from cosim.contract.condition import Condition, over
from cosim.contract.functions import function
from cosim.contract.signals import CATALOGUE

OWN = ("mobility", "vehicle", "behaviour", "picture")  # signals that the adapter knows without the bus
KNOWN = {**CATALOGUE, BEHAVIOUR.name: BEHAVIOUR, PICTURE.name: PICTURE}


def roles(part: EngagePart) -> dict[str, str]:
    """Role -> node."""
    who = {"drone": part.drone, "target": part.target}
    return who if part.controller is None else {**who, "controller": part.controller}


def triggers(part: EngagePart) -> list[tuple[str, TriggerPart]]:
    """Those that `part` has, by key."""
    both = (("engage", part.engage), ("disengage", part.disengage))
    return [(key, trigger) for key, trigger in both if trigger is not None]


def reads(part: EngagePart, trigger: TriggerPart) -> tuple[str, ...]:
    """The signals that `trigger` looks at. Raises `ValueError` for what is no condition and no function."""
    if not trigger.function:
        return Condition(trigger.when, over(roles(part), KNOWN)).signals
    unknown = [name for name in trigger.reads if name not in KNOWN]
    if unknown:
        raise ValueError(f"there is no signal '{unknown[0]}'; known: {', '.join(sorted(KNOWN))}")
    several = [name for name in trigger.reads if KNOWN[name].rows != "node"]
    if several:
        raise ValueError(f"'{several[0]}' has events or links, not one row for each node")
    function(trigger.when.strip(), 1)
    return tuple(trigger.reads)


def unseen(part: EngagePart, trigger: TriggerPart, cameras: Container[str]) -> str:
    """The node without a camera whose pictures `trigger` looks at, "" for none; `trigger` can be read."""
    if trigger.function:
        return part.drone if PICTURE.name in trigger.reads and part.drone not in cameras else ""
    who = roles(part)
    looked_at = Condition(trigger.when, over(who, KNOWN)).values
    without = [
        who[role] for role, signal, _ in sorted(looked_at) if signal == PICTURE.name and who[role] not in cameras
    ]
    return without[0] if without else ""


def others(config: VehicleConfig) -> set[str]:
    """Signals of other adapters that conditions look at; one that cannot be read counts for nothing here."""
    found: set[str] = set()
    for part in config.engage:
        for _, trigger in triggers(part):
            if trigger.function:
                found.update(name for name in trigger.reads if name in KNOWN)
            else:
                found.update(_parsed(part, trigger))
    return found - set(OWN)


def _parsed(part: EngagePart, trigger: TriggerPart) -> Iterator[str]:
    try:
        yield from reads(part, trigger)
    except ValueError:
        return  # `check` reports it
