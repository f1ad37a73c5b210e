"""What the flight mode of a real autopilot is among those of the fleet."""

from __future__ import annotations

from cosim.autopilot.personas import PERSONAS, Behaviour
from cosim.physics.vehicles.layout import CIRCLE, GO, HOLD, LAND, MANUAL, MISSION, RETURN, TAKE_OFF

_MODES: dict[Behaviour, int] = {
    "hold": int(HOLD),
    "guided": int(GO),
    "take-off": int(TAKE_OFF),
    "mission": int(MISSION),
    "return": int(RETURN),
    "land": int(LAND),
    "follow": int(GO),
    "circle": int(CIRCLE),
}


def fleet_mode(autopilot: int, custom_mode: int, copter: bool) -> int:
    """What a mode does, by MAV_AUTOPILOT and the custom_mode of a heartbeat; MANUAL for one that is not known here."""
    frame = "copter" if copter else "rover"
    for persona in PERSONAS.values():
        if (persona.autopilot, persona.frame) == (autopilot, frame):
            name = persona.named(custom_mode)
            return int(MANUAL) if name is None else _MODES[persona.modes[name].behaviour]
    return int(MANUAL)
