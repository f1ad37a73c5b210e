"""What an autopilot does when its ground station or its battery fails."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cosim.autopilot.personas import BATTERY, NO_STATION
from cosim.physics.vehicles import layout

if TYPE_CHECKING:
    from cosim.autopilot.pilot import Pilot

WARNING, CRITICAL, INFO = 4, 2, 6  # MAV_SEVERITY


class Failsafes:
    """Watches the ground station and the voltage of one vehicle; those of charge and fence are the fleet's."""

    def __init__(self) -> None:
        self._station = -math.inf  # s, when the ground station was last heard
        self._lost_station = False
        self._weak = {"LOW": math.inf, "CRT": math.inf}  # s, since when the voltage is too low

    def watch(self, pilot: Pilot, v: Any) -> None:  # noqa: ANN401 - a view
        """Act by what the vehicle's view `v` shows."""
        self._watch_battery(pilot, v)
        self._watch_station(pilot, v)

    def hear_station(self, pilot: Pilot) -> None:
        """The ground station is there."""
        self._station = pilot.fleet.now
        if self._lost_station:
            self._lost_station = False
            pilot.say(WARNING, "GCS Failsafe Cleared")

    def _watch_station(self, pilot: Pilot, v: Any) -> None:  # noqa: ANN401
        """Act by FS_GCS_ENABLE when the ground station has not been heard for FS_GCS_TIMEOUT."""
        action = int(pilot.parameters.get("NAV_DLL_ACT" if pilot.persona.px4 else "FS_GCS_ENABLE"))
        patience = pilot.parameters.get("COM_DL_LOSS_T" if pilot.persona.px4 else "FS_GCS_TIMEOUT", 5.0)
        if action <= 0 or self._lost_station or not pilot.fleet.now - self._station > patience:
            return
        if not math.isfinite(self._station) or not v.armed:
            return
        self._lost_station = True
        pilot.say(WARNING, "Data link lost" if pilot.persona.px4 else "GCS Failsafe")
        if pilot.behaviour in ("return", "land") or v.landed:
            return
        if pilot.persona.px4:
            name = {1: "HOLD", 3: "LAND"}.get(action, "RTL")
        else:
            name = pilot.persona.doing("land" if action == 5 and pilot.persona.frame == "copter" else "return")
        if pilot.set_mode(name, NO_STATION):
            last = pilot.persona.doing("land") if pilot.persona.frame == "copter" else pilot.persona.hold
            pilot.set_mode(last, NO_STATION)

    @staticmethod
    def report(pilot: Pilot, v: Any) -> None:  # noqa: ANN401 - a view
        """Announce the fail-safe of the vehicle that `v` shows."""
        used = (float(pilot.fleet.frames["capacity"][pilot.row]) - v.charge) / 3.6
        if v.failsafe in (layout.LOW, layout.CRITICAL):
            low = v.failsafe == layout.LOW
            if pilot.persona.px4:
                pilot.say(WARNING if low else CRITICAL, f"{'Low' if low else 'Critical'} battery level")
            else:
                pilot.say(
                    WARNING if low else CRITICAL,
                    f"Battery 1 is {'low' if low else 'critical'} {v.voltage:.2f}V used {used:.0f} mAh",
                )
        elif v.failsafe == layout.EMPTY:
            pilot.say(CRITICAL, f"Battery 1 is empty, used {used:.0f} mAh: motors stopped")
        elif v.failsafe == layout.FENCE:
            pilot.say(CRITICAL, "Fence breached")
        if v.failsafe == layout.CRITICAL and pilot.persona.frame == "rover":
            pilot.mode, pilot.changed, pilot.reason = pilot.persona.hold, True, BATTERY

    def _watch_battery(self, pilot: Pilot, v: Any) -> None:  # noqa: ANN401
        """ArduPilot's thresholds of voltage; those of charge are the fleet's."""
        for level, severity in (("CRT", CRITICAL), ("LOW", WARNING)):
            if v.voltage >= pilot.parameters.get(f"BATT_{level}_VOLT"):
                self._weak[level] = math.inf
                continue
            since = self._weak[level] = min(self._weak[level], pilot.fleet.now)
            if since > 0.0 and pilot.fleet.now - since >= pilot.parameters["BATT_LOW_TIMER"]:
                self._weak[level] = -1.0  # reported once
                pilot.say(severity, f"Battery 1 is {'low' if level == 'LOW' else 'critical'} {v.voltage:.2f}V")
                action = int(pilot.parameters[f"BATT_FS_{level}_ACT"])
                if action in (1, 2) and pilot.behaviour != "land":
                    lands = action == 1 and pilot.persona.frame == "copter"
                    pilot.set_mode(pilot.persona.doing("land" if lands else "return"), BATTERY)
