"""ArduPilot's and ground stations' logs, read by pymavlink: telemetry logs (.tlog) and dataflash logs (.bin)."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from cosim.adapters.replay.flight import FlightLog, at
from cosim.contract.extras import how_to_install
from cosim.contract.reading import packed
from cosim.contract.signals import VEHICLE_MODE

_TELEMETRY = ("GLOBAL_POSITION_INT", "ATTITUDE", "SYS_STATUS", "HEARTBEAT")
_DATAFLASH = ("POS", "GPS", "ATT", "BAT", "CURR", "MODE", "ARM", "EV")
_EVENTS = {10: 1.0, 11: 0.0}  # LogEvent of AP_Logger: armed, disarmed
_STATION, _ARMED = 6, 128  # MAV_TYPE_GCS, MAV_MODE_FLAG_SAFETY_ARMED
_NO_AUTOPILOT, _AUTOPILOT = 8, 1  # MAV_AUTOPILOT_INVALID: gimbals, cameras; MAV_COMP_ID_AUTOPILOT1
_MAGIC = b"\xa3\x95"  # of a dataflash log's messages
_MODES = {  # names of pymavlink's for the modes of ArduPilot and PX4; what the pilot flies counts as manual
    "AUTO": "mission", "MISSION": "mission", "RTL": "return", "SMART_RTL": "return", "AUTO_RTL": "return",
    "QRTL": "return", "RTGS": "return", "LAND": "land", "QLAND": "land", "GUIDED": "go", "GUIDED_NOGPS": "go",
    "TAKEOFF": "take-off", "LOITER": "hold", "BRAKE": "hold", "QLOITER": "hold", "QHOVER": "hold", "HOLD": "hold",
    "CIRCLE": "circle", "OFFBOARD": "velocity", "FOLLOW": "go", "FOLLOWME": "go", "AVOID_ADSB": "go", "DOCK": "go",
    "AUTOLAND": "land", "LOITERALTQLAND": "land", "STOP": "hold", "THERMAL": "hold", "OF_LOITER": "hold",
}  # fmt: skip
_PILOT = frozenset({
    "MANUAL", "STABILIZE", "STABILIZED", "ACRO", "ALT_HOLD", "ALTCTL", "POSCTL", "POSHOLD", "RATTITUDE", "SPORT",
    "DRIFT", "FLIP", "AUTOTUNE", "FBWA", "FBWB", "CRUISE", "TRAINING", "QSTABILIZE", "QACRO", "STEERING", "LEARNING",
    "QAUTOTUNE", "FLOWHOLD", "SYSTEMID", "THROW", "TURTLE", "ZIGZAG", "AUTOROTATE", "SURFACE", "POSITION", "SCAN",
    "VELOCITY", "RATE_ACRO", "SIMPLE", "INITIALISING", "INITIALIZING", "READY",
})  # fmt: skip


class _Table:
    """Rows of numbers under names, from messages that come one by one."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        self.count = 0
        self.autopilot = False
        self.strange: set[str] = set()  # names of modes that are not known
        self.state = [float("nan"), float("nan")]  # of a dataflash log: armed, mode
        self.instances: dict[str, list[int]] = defaultdict(list)  # by kind of message, in the order seen

    def add(self, kind: str, *values: float) -> None:
        self._rows[kind].append(values)
        self.count += 1

    @property
    def places(self) -> int:
        return len(self._rows["position"]) + len(self._rows["receiver"])

    def columns(self, kind: str, width: int) -> list[Any]:
        return list(np.array(self._rows[kind], np.float64).reshape(-1, width).T)


def read_mavlink(path: Path, most: int) -> list[FlightLog]:
    """The flights of a log: of a .tlog one for each vehicle. Raises `ValueError` with the reason why it cannot be read.

    At most `most` messages that matter are kept.
    """
    try:
        mavutil: Any = import_module("pymavlink.mavutil")
    except ImportError as error:
        raise ValueError(f"it needs pymavlink: {how_to_install('vehicles')}") from error
    name, flash = path.name.partition(".")[0], path.suffix.lower() == ".bin"
    tables: dict[tuple[int, int], _Table] = defaultdict(_Table)  # by system and component
    try:
        with path.open("rb") as stream:
            begin = stream.read(packed.LONGEST)
            if packed.is_packed(begin):
                raise ValueError("it is packed: unpack it")
            if flash and not begin.startswith(_MAGIC):
                raise ValueError("it does not begin as a dataflash log does")
        log = mavutil.mavlink_connection(str(path), dialect="ardupilotmega")
        try:
            while (message := log.recv_match(type=list(_DATAFLASH if flash else _TELEMETRY))) is not None:
                table = tables[(0, 0) if flash else (message.get_srcSystem(), message.get_srcComponent())]
                if flash:
                    _flash(table, message, str(log.flightmode))
                else:
                    _telemetry(table, message, mavutil.mode_string_v10)
                if sum(table.count for table in tables.values()) > most:
                    raise ValueError(f"it holds more than {most} rows, which is what 'memory' allows")
        finally:
            log.close()
    except (OSError, struct.error, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"it cannot be read as a log: {type(error).__name__} {error}") from error
    systems = sorted({system for system, _ in tables})
    own = {system: {part: table for (one, part), table in tables.items() if one == system} for system in systems}
    found = [_of_system(system, own[system]) for system in systems]
    flights = [flight for flight in found if len(flight.time)]
    for flight, system in zip(found, systems, strict=True):
        flight.name = name if len(flights) == 1 else f"{name}-{system}"
    return flights


def _of_system(system: int, parts: dict[int, _Table]) -> FlightLog:
    """The flight of a system: that of its autopilot. Gimbals, cameras and companions speak for themselves alone."""

    def rank(part: int) -> tuple[bool, bool, bool, int]:
        return parts[part].places > 0, parts[part].autopilot, part == _AUTOPILOT, -part

    chosen = max(parts, key=rank)
    flight = _flight("", parts[chosen])
    others = sorted(parts.keys() - {chosen})
    if system:
        flight.taken.append(f"system {system} is taken by its component {chosen}{f', without {others}' * bool(others)}")
    for part in others:
        if parts[part].places and parts[part].autopilot:
            flight.doubts.append(
                f"system {system} has two autopilots, components {chosen} and {part}: the first is taken"
            )
    for kind, seen in parts[chosen].instances.items():
        if len(seen) > 1:
            notes = flight.doubts if kind == "BAT" else flight.taken
            notes.append(f"of {len(seen)} instances of {kind}, {seen[0]} is taken")
    if strange := sorted(parts[chosen].strange):
        flight.doubts.append(f"modes that are not known count as manual: {', '.join(strange[:6])}")
    return flight


def _telemetry(table: _Table, message: Any, mode_of: Callable[[Any], str]) -> None:  # noqa: ANN401 - pymavlink has no types
    time, kind = float(message._timestamp), message.get_type()
    if kind == "GLOBAL_POSITION_INT" and (message.lat or message.lon):
        speed = float(np.hypot(message.vx, message.vy)) / 100
        heading = message.hdg / 100 if message.hdg != 65_535 else float("nan")
        place = (message.lat * 1e-7, message.lon * 1e-7, message.alt * 1e-3)
        table.add("position", time, *place, speed, heading)
        table.add("climb", time, -message.vz / 100)
    elif kind == "ATTITUDE":
        table.add("attitude", time, np.degrees(message.roll), np.degrees(message.pitch))
    elif kind == "SYS_STATUS":
        volts = message.voltage_battery / 1000 if message.voltage_battery not in (0, 65_535) else float("nan")
        amperes = message.current_battery / 100 if message.current_battery >= 0 else float("nan")
        left = message.battery_remaining / 100 if message.battery_remaining >= 0 else float("nan")
        table.add("battery", time, volts, volts * amperes, left)
    elif kind == "HEARTBEAT" and message.type != _STATION:
        table.autopilot |= message.autopilot != _NO_AUTOPILOT
        table.add("state", time, float(bool(message.base_mode & _ARMED)), _mode(table, mode_of(message)))


def _mode(table: _Table, word: str) -> float:
    """Number of a mode that pymavlink has a name for."""
    if word not in _MODES and word not in _PILOT:
        table.strange.add(word)
    return VEHICLE_MODE.index(_MODES.get(word, "manual"))


def _flash(table: _Table, message: Any, mode: str) -> None:  # noqa: ANN401 - pymavlink has no types
    """Take a message of a dataflash log while the vehicle is in `mode`; of several instances the first one seen."""
    time, kind = float(message._timestamp), message.get_type()
    number = next((int(getattr(message, name)) for name in ("Inst", "I") if hasattr(message, name)), 0)
    seen = table.instances[kind]
    if number not in seen:
        seen.append(number)
    if number != seen[0]:
        return
    if kind in ("MODE", "ARM", "EV"):
        if kind == "MODE":
            table.state[1] = _mode(table, mode)
        else:
            before = table.state[0]
            table.state[0] = float(message.ArmState) if kind == "ARM" else _EVENTS.get(message.Id, before)
            if np.isnan(before):  # until its first arming it was not, and the other way round
                table.add("state", 0.0, 1.0 - table.state[0], float("nan"))
        table.add("state", time, *table.state)
    elif kind == "POS":
        table.add("position", time, message.Lat, message.Lng, message.Alt, float("nan"), float("nan"))
    elif kind == "GPS" and message.Status >= 3:
        table.add("receiver", time, message.Lat, message.Lng, message.Alt, message.Spd, message.GCrs)
    elif kind == "ATT":
        table.add("attitude", time, message.Roll, message.Pitch)
        table.add("yaw", time, message.Yaw)
    elif kind in ("BAT", "CURR"):
        left = getattr(message, "RemPct", 255)
        share = left / 100 if 0 <= left <= 100 else float("nan")
        table.add("battery", time, message.Volt, message.Volt * message.Curr, share)


def _flight(name: str, table: _Table) -> FlightLog:
    place = table.columns("position", 6)
    if not len(place[0]):
        place = table.columns("receiver", 6)
    time, lat, lon, height, speed, heading = place
    when, yaw = table.columns("yaw", 2)
    if len(when):  # where the nose points, rather than where it goes
        heading = at(time, when, np.unwrap(yaw, period=360.0), held=False) % 360.0
    flight = FlightLog(name, time, {"lat": lat, "lon": lon, "height": height})
    for key, values in (("speed", speed), ("heading", heading)):
        if len(values) and np.isfinite(values).all():
            flight.position[key] = values
    when, climb = table.columns("climb", 2)
    flight.add(when, climb=climb)
    when, roll, pitch = table.columns("attitude", 3)
    flight.add(when, roll=roll, pitch=pitch)
    when, volts, power, left = table.columns("battery", 4)
    flight.add(when, voltage=volts, power=power, charge=left)
    when, armed, mode = table.columns("state", 3)
    flight.add(when, armed=armed, mode=mode)
    return flight
