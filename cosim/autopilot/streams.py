"""Which telemetry messages are due: rates on the simulated clock, bounded on the wall clock."""

from __future__ import annotations

import math
from collections.abc import Iterable

from cosim.autopilot.dialect import numbers

# Hz on the simulated clock, as ArduPilot ships them roughly (SR*_ parameters).
_RATES = {
    2.0: "SYS_STATUS GPS_RAW_INT",
    1.0: "SYSTEM_TIME MISSION_CURRENT RC_CHANNELS BATTERY_STATUS EKF_STATUS_REPORT EXTENDED_SYS_STATE",
    4.0: "ATTITUDE LOCAL_POSITION_NED GLOBAL_POSITION_INT VFR_HUD",
    0.5: "ESTIMATOR_STATUS HOME_POSITION",
}
DEFAULT = dict(sorted((message, rate) for rate, names in _RATES.items() for message in numbers(names)))
# of REQUEST_DATA_STREAM: messages (GCS_MAVLINK_Copter.cpp, shortened)
_GROUPS = {
    "RAW_SENSORS": "RAW_IMU SCALED_PRESSURE SCALED_IMU2 SCALED_IMU3 SCALED_PRESSURE2",
    "EXTENDED_STATUS": "SYS_STATUS GPS_RAW_INT MISSION_CURRENT NAV_CONTROLLER_OUTPUT POWER_STATUS MEMINFO "
    "EXTENDED_SYS_STATE",
    "RC_CHANNELS": "SERVO_OUTPUT_RAW RC_CHANNELS",
    "POSITION": "LOCAL_POSITION_NED GLOBAL_POSITION_INT",
    "EXTRA1": "ATTITUDE SIMSTATE AHRS2",
    "EXTRA2": "VFR_HUD",
    "EXTRA3": "SYSTEM_TIME TERRAIN_REPORT BATTERY_STATUS AHRS WIND EKF_STATUS_REPORT VIBRATION HOME_POSITION "
    "ESC_TELEMETRY_1_TO_4",
}
GROUPS: dict[int, tuple[int, ...]] = {
    numbers(group, "MAV_DATA_STREAM")[0]: numbers(names) for group, names in _GROUPS.items()
}
GROUPS[0] = tuple(sorted({message for group in GROUPS.values() for message in group}))
MOST = 200.0  # Hz of one message on the wall clock
# Messages per second of wall time to which telemetry may grow when time is sped up: a client that
# pauses for a second must not lose answers to a full buffer, which holds some 260 datagrams.
BUSY = 200.0
_ROUNDING = 1e-6  # s by which sums of steps may be off


class Streams:
    """The rates of one vehicle."""

    def __init__(self, now: float, without: Iterable[int] = ()) -> None:
        """`without`: messages that this autopilot does not have."""
        self.rates = {message: rate for message, rate in DEFAULT.items() if message not in set(without)}
        self.next = now  # s, when something may be due
        self._due = dict.fromkeys(self.rates, now)
        self._sent = dict.fromkeys(self.rates, -math.inf)  # s of wall time

    def set(self, message: int, rate: float, now: float) -> None:
        """Send `message` at `rate` Hz, 0: never."""
        self.rates[message] = min(max(rate, 0.0), MOST)
        self._due[message] = now
        self._sent.setdefault(message, -math.inf)
        self.next = now

    def ready(self, now: float) -> bool:
        """Whether something may be due at `now` s."""
        return now >= self.next - _ROUNDING

    def due(self, now: float, wall: float) -> list[int]:
        """The messages to be sent now. What comes too soon on the wall clock is left out, not put off."""
        if not self.ready(now):
            return []
        room = max(1.0, BUSY / max(sum(self.rates.values()), 1.0))
        found, upcoming = [], now + 1.0
        for message, rate in self.rates.items():
            if rate <= 0.0:
                continue
            due = self._due[message]
            if now >= due - _ROUNDING:
                due = self._due[message] = max(due + 1.0 / rate, now)
                # 0.8: at the pace of the wall clock, its jitter must not leave messages out
                if wall - self._sent[message] >= max(0.8 / (rate * room), 0.8 / MOST) - _ROUNDING:
                    self._sent[message] = wall
                    found.append(message)
            upcoming = min(upcoming, due)
        self.next = upcoming
        return found
