"""Which telemetry messages are due: rates on the simulated clock, bounded on the wall clock."""

from __future__ import annotations

import math
from collections.abc import Iterable

# Hz on the simulated clock, as ArduPilot ships them roughly (SR*_ parameters).
DEFAULT: dict[int, float] = {
    1: 2.0,  # SYS_STATUS
    2: 1.0,  # SYSTEM_TIME
    24: 2.0,  # GPS_RAW_INT
    30: 4.0,  # ATTITUDE
    32: 4.0,  # LOCAL_POSITION_NED
    33: 4.0,  # GLOBAL_POSITION_INT
    42: 1.0,  # MISSION_CURRENT
    65: 1.0,  # RC_CHANNELS
    74: 4.0,  # VFR_HUD
    147: 1.0,  # BATTERY_STATUS
    193: 1.0,  # EKF_STATUS_REPORT
    230: 0.5,  # ESTIMATOR_STATUS, of PX4 in its place
    242: 0.5,  # HOME_POSITION
    245: 1.0,  # EXTENDED_SYS_STATE
}
# MAV_DATA_STREAM of REQUEST_DATA_STREAM: messages (GCS_MAVLINK_Copter.cpp, shortened)
GROUPS: dict[int, tuple[int, ...]] = {
    1: (27, 29, 116, 129, 137),
    2: (1, 24, 42, 62, 125, 152, 245),
    3: (36, 65),
    6: (32, 33),
    10: (30, 164, 178),
    11: (74,),
    12: (2, 136, 147, 163, 168, 193, 241, 242, 11030),
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
