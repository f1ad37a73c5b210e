"""The two autopilots whose ways the emulator has, and their flight modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cosim.physics.vehicles.layout import CIRCLE, GO, HOLD, LAND, MANUAL, MISSION, RETURN, TAKE_OFF

# The vehicle's behaviour in a mode. `hold` also stands for manually flown modes: sticks are centred, as
# no radio control is emulated.
Behaviour = Literal["hold", "guided", "take-off", "mission", "return", "land", "follow", "circle"]
# Why a mode is on: ArduPilot's ModeReason.
UNKNOWN, STATION, NO_STICKS, BATTERY, NO_STATION, FENCED = 0, 2, 3, 4, 5, 10


@dataclass(frozen=True, slots=True)
class Mode:
    """A flight mode."""

    number: int  # custom_mode of HEARTBEAT
    behaviour: Behaviour = "hold"
    arms: bool = True  # whether the vehicle may be armed in it


@dataclass(frozen=True, slots=True, eq=False)
class Persona:
    """How an autopilot presents itself for one kind of frame."""

    name: Literal["ardupilot", "px4"]
    frame: Literal["copter", "rover"]
    autopilot: int  # MAV_AUTOPILOT
    kind: int  # MAV_TYPE
    version: int  # flight_sw_version of AUTOPILOT_VERSION
    modes: Mapping[str, Mode]
    first: str  # mode after start
    hold: str  # the mode that stays where it is, also after a lost target
    table: str  # of parameters, a file beside this one
    first_item: int  # where a mission begins: ArduPilot keeps home in item 0

    @property
    def px4(self) -> bool:
        """Whether this is PX4."""
        return self.name == "px4"

    def named(self, number: int) -> str | None:
        """The mode with this custom_mode."""
        return next((name for name, mode in self.modes.items() if mode.number == number), None)

    def doing(self, behaviour: Behaviour) -> str:
        """The mode in which the vehicle does this; the first when there are several."""
        if behaviour == "hold":
            return self.hold
        return next(name for name, mode in self.modes.items() if mode.behaviour == behaviour)


def _px4(main: int, sub: int = 0) -> int:
    """custom_mode of PX4: main mode in byte 2, sub mode in byte 3 (px4_custom_mode.h)."""
    return main << 16 | sub << 24


# Numbers of modes: ArduCopter/mode.h, Rover/mode.h (Mode::Number), as MAVLink's COPTER_MODE and ROVER_MODE.
_COPTER = {
    "STABILIZE": Mode(0),
    "ACRO": Mode(1),
    "ALT_HOLD": Mode(2),
    "AUTO": Mode(3, "mission", arms=False),
    "GUIDED": Mode(4, "guided"),
    "LOITER": Mode(5),
    "RTL": Mode(6, "return", arms=False),
    "CIRCLE": Mode(7, "circle", arms=False),
    "LAND": Mode(9, "land", arms=False),
    "POSHOLD": Mode(16),
    "BRAKE": Mode(17, arms=False),
    "SMART_RTL": Mode(21, "return", arms=False),
    "FOLLOW": Mode(23, "follow", arms=False),
}
_ROVER = {
    "MANUAL": Mode(0),
    "ACRO": Mode(1),
    "STEERING": Mode(3),
    "HOLD": Mode(4),
    "LOITER": Mode(5),
    "FOLLOW": Mode(6, "follow"),
    "AUTO": Mode(10, "mission"),
    "RTL": Mode(11, "return"),
    "SMART_RTL": Mode(12, "return"),
    "GUIDED": Mode(15, "guided"),
}
# Main and sub modes: px4_custom_mode.h.
_PX4 = {
    "MANUAL": Mode(_px4(1)),
    "ALTCTL": Mode(_px4(2)),
    "POSCTL": Mode(_px4(3)),
    "HOLD": Mode(_px4(4, 3), "guided"),
    "TAKEOFF": Mode(_px4(4, 2), "take-off"),
    "MISSION": Mode(_px4(4, 4), "mission"),
    "RTL": Mode(_px4(4, 5), "return"),
    "LAND": Mode(_px4(4, 6), "land"),
    "FOLLOW": Mode(_px4(4, 8), "follow"),
    "ORBIT": Mode(_px4(3, 1), "circle", arms=False),
    "ACRO": Mode(_px4(5)),
    "OFFBOARD": Mode(_px4(6), "guided"),
    "STABILIZED": Mode(_px4(7)),
}

_QUADROTOR, _ROVER_TYPE = 2, 10  # MAV_TYPE
_ARDUPILOT_VERSION = 4 << 24 | 6 << 16 | 0 << 8 | 0  # 4.6.0-dev, whose answers the persona gives
_PX4_VERSION = 1 << 24 | 15 << 16 | 0 << 8 | 255  # 1.15.0

PERSONAS: Mapping[tuple[str, str], Persona] = {
    (p.name, p.frame): p
    for p in (
        Persona(
            "ardupilot", "copter", 3, _QUADROTOR, _ARDUPILOT_VERSION, _COPTER, "STABILIZE", "LOITER", "ardupilot", 1
        ),
        Persona("ardupilot", "rover", 3, _ROVER_TYPE, _ARDUPILOT_VERSION, _ROVER, "MANUAL", "HOLD", "ardupilot", 1),
        Persona("px4", "copter", 12, _QUADROTOR, _PX4_VERSION, _PX4, "POSCTL", "HOLD", "px4", 0),
        Persona("px4", "rover", 12, _ROVER_TYPE, _PX4_VERSION, _PX4, "MANUAL", "HOLD", "px4", 0),
    )
}


def persona(name: str, frame: str) -> Persona:
    """The persona `ardupilot` or `px4` of a `copter` or a `rover`; ValueError for others."""
    try:
        return PERSONAS[name, frame]
    except KeyError:
        known = ", ".join(sorted({name for name, _ in PERSONAS}))
        raise ValueError(f"persona '{name}' with frame '{frame}': known are {known} with copter or rover") from None


_FLEET: Mapping[Behaviour, int] = {
    "hold": HOLD, "guided": GO, "take-off": TAKE_OFF, "mission": MISSION, "return": RETURN, "land": LAND, "follow": GO,
    "circle": CIRCLE,
}  # fmt: skip


def fleet_mode(autopilot: int, custom_mode: int, copter: bool) -> int:
    """What a mode does, by MAV_AUTOPILOT and the custom_mode of a heartbeat; MANUAL for one that is not known here."""
    for one in PERSONAS.values():
        if (one.autopilot, one.frame) == (autopilot, "copter" if copter else "rover"):
            name = one.named(custom_mode)
            return int(MANUAL if name is None else _FLEET[one.modes[name].behaviour])
    return int(MANUAL)
