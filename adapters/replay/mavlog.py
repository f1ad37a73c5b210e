"""ArduPilot's and ground stations' logs, read by pymavlink: telemetry logs (.tlog) and dataflash logs (.bin)."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from cosim.adapters.replay.flight import Flight, at
from cosim.contract.extras import how_to_install
from cosim.contract.signals import VEHICLE_MODE

_TELEMETRY = ("GLOBAL_POSITION_INT", "ATTITUDE", "SYS_STATUS", "HEARTBEAT")
_DATAFLASH = ("POS", "GPS", "ATT", "BAT", "CURR")
_STATION, _ARMED = 6, 128  # MAV_TYPE_GCS, MAV_MODE_FLAG_SAFETY_ARMED
_MAGIC = b"\xa3\x95"  # of a dataflash log's messages
_MODES = {"AUTO": "mission", "RTL": "return", "LAND": "land", "GUIDED": "go", "TAKEOFF": "take-off", "LOITER": "hold"}


class _Table:
    """Rows of numbers under names, from messages that come one by one."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        self.count = 0

    def add(self, kind: str, *values: float) -> None:
        self._rows[kind].append(values)
        self.count += 1

    def columns(self, kind: str, width: int) -> list[Any]:
        return list(np.array(self._rows[kind], np.float64).reshape(-1, width).T)


def read_mavlink(path: Path, most: int) -> list[Flight]:
    """The flights of a log: of a .tlog one for each vehicle. Raises `ValueError` with the reason why it cannot be read.

    At most `most` messages that matter are kept.
    """
    try:
        mavutil: Any = import_module("pymavlink.mavutil")
    except ImportError as error:
        raise ValueError(f"it needs pymavlink: {how_to_install('vehicles')}") from error
    name, flash = path.name.partition(".")[0], path.suffix.lower() == ".bin"
    tables: dict[int, _Table] = defaultdict(_Table)
    try:
        with path.open("rb") as stream:
            if flash and stream.read(2) != _MAGIC:
                raise ValueError("it does not begin as a dataflash log does")
        log = mavutil.mavlink_connection(str(path), dialect="ardupilotmega")
        try:
            while (message := log.recv_match(type=list(_DATAFLASH if flash else _TELEMETRY))) is not None:
                table = tables[0 if flash else message.get_srcSystem()]
                if flash:
                    _flash(table, message)
                else:
                    _telemetry(table, message, mavutil.mode_string_v10)
                if sum(table.count for table in tables.values()) > most:
                    raise ValueError(f"it holds more than {most} rows, which is what 'memory' allows")
        finally:
            log.close()
    except (OSError, struct.error, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"it cannot be read as a log: {type(error).__name__} {error}") from error
    flights = [
        _flight(name if flash or len(tables) == 1 else f"{name}-{number}", table) for number, table in tables.items()
    ]
    return [flight for flight in flights if len(flight.time)]


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
        volts = message.voltage_battery / 1000 if message.voltage_battery != 65_535 else float("nan")
        amperes = message.current_battery / 100 if message.current_battery >= 0 else float("nan")
        left = message.battery_remaining / 100 if message.battery_remaining >= 0 else float("nan")
        table.add("battery", time, volts, volts * amperes, left)
    elif kind == "HEARTBEAT" and message.type != _STATION:
        mode = VEHICLE_MODE.index(_MODES.get(mode_of(message), "manual"))
        table.add("state", time, float(bool(message.base_mode & _ARMED)), mode)


def _flash(table: _Table, message: Any) -> None:  # noqa: ANN401 - pymavlink has no types
    time, kind = float(message._timestamp), message.get_type()
    if kind == "POS":
        table.add("position", time, message.Lat, message.Lng, message.Alt, float("nan"), float("nan"))
    elif kind == "GPS" and message.Status >= 3:
        table.add("receiver", time, message.Lat, message.Lng, message.Alt, message.Spd, message.GCrs)
    elif kind == "ATT":
        table.add("attitude", time, message.Roll, message.Pitch)
        table.add("yaw", time, message.Yaw)
    elif kind in ("BAT", "CURR"):
        table.add("battery", time, message.Volt, message.Volt * message.Curr, float("nan"))


def _flight(name: str, table: _Table) -> Flight:
    place = table.columns("position", 6)
    if not len(place[0]):
        place = table.columns("receiver", 6)
    time, lat, lon, height, speed, heading = place
    when, yaw = table.columns("yaw", 2)
    if len(when):  # where the nose points, rather than where it goes
        heading = at(time, when, np.unwrap(yaw, period=360.0), held=False) % 360.0
    flight = Flight(name, time, {"lat": lat, "lon": lon, "height": height})
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
