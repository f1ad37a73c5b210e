"""Flights as samples: positions of a log, and at the same times attitude, battery and mode, as far as it has them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.replay.trajectories import HELD, Indices, TrajectorySamples
from cosim.adapters.replay.ulog import Rows, ULog, read_ulog
from cosim.contract.reading import packed
from cosim.contract.records import Floats
from cosim.contract.signals import FAILSAFE, VEHICLE_MODE

_BATTERY = (FAILSAFE.index("none"), *(FAILSAFE.index(f"battery-{word}") for word in ("low", "critical", "empty")))
# https://github.com/PX4/PX4-Autopilot/blob/main/msg/versioned/VehicleStatus.msg; what is not here counts as hold
_MODES: Mapping[int, str] = {
    0: "manual", 1: "manual", 2: "manual", 3: "mission", 5: "return", 6: "manual", 10: "manual", 12: "land",
    14: "velocity", 15: "manual", 17: "take-off", 18: "land", 19: "go", 20: "land",
}  # fmt: skip
_HOLDS = frozenset({4, 7, 8, 9, 11, 16, 21, 22})  # loiter, free slots, descend, follow, orbit
_LONGEST = 1e8  # s of a log
_ARMED = 2  # arming_state
_TOPICS = (
    "vehicle_global_position", "vehicle_local_position", "vehicle_gps_position", "sensor_gps", "vehicle_attitude",
    "battery_status", "vehicle_status",
)  # fmt: skip


@dataclass
class FlightLog:
    """What one log holds about one vehicle: positions, and series with times of their own, in s."""

    name: str
    time: Floats  # (n,), of the positions; any order
    position: dict[str, Floats]  # (n,): lat, lon, height or x, y, z; speed, heading
    series: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)  # name -> times, values
    taken: list[str] = field(default_factory=list)  # whose messages these are
    doubts: list[str] = field(default_factory=list)  # what is not known

    def add(self, time: Floats, **values: Floats) -> None:
        """Series that have one time each."""
        self.series.update({name: (time, value) for name, value in values.items()})


def samples(flights: Sequence[FlightLog]) -> TrajectorySamples:
    """All flights on one clock that begins with the first position. ValueError when there is no position."""
    flights = [flight for flight in flights if len(flight.time)]
    if not flights:
        raise ValueError("there is no valid position in it")
    begin = min(float(flight.time.min()) for flight in flights)
    if not max(float(flight.time.max()) for flight in flights) - begin < _LONGEST:
        raise ValueError("its times are years apart")
    parts: list[dict[str, Floats]] = []
    extras: list[dict[str, Floats]] = []
    shared = set.intersection(*(set(flight.position) for flight in flights))
    names = {name for flight in flights for name in flight.series}
    for flight in flights:
        time, first = np.unique(flight.time, return_index=True)  # ascending, each time once
        parts.append({"time": time - begin, **{name: flight.position[name][first] for name in shared}})
        extras.append({name: at(time, *flight.series.get(name, (_NONE, _NONE)), held=name in HELD) for name in names})
    member: Indices = np.repeat(np.arange(len(flights)), [len(part["time"]) for part in parts])
    return TrajectorySamples(
        tuple(flight.name for flight in flights),
        member,
        {name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        {name: np.concatenate([part[name] for part in extras]) for name in names},
        taken=tuple(line for flight in flights for line in flight.taken),
        doubts=tuple(line for flight in flights for line in flight.doubts),
    )


def read_px4(path: Path, most: int) -> list[FlightLog]:
    """The flight in a ULog. Raises `ValueError` (`ULogError`) with the fault."""
    try:
        with packed.open_unpacked(path) as stream:
            data = stream.read(most + 1)
    except (OSError, zlib.error, *packed.FAULTS) as error:
        raise ValueError(f"it cannot be read: {error}") from error
    if len(data) > most:
        raise ValueError(f"it is larger than {most} B, which is what 'memory' allows")
    log = read_ulog(data, _TOPICS)
    with np.errstate(all="ignore"):  # values that are not numbers are reported later, with their place
        flight = _positions(path.name.partition(".")[0], log)
        _attitude(flight, log.rows("vehicle_attitude"))
        _state(flight, log.rows("battery_status"), log.rows("vehicle_status"))
    flight.doubts += ["its last message is cut off: the log ends there"] if log.cut else []
    for topic in _TOPICS:
        several = sorted(number for (name, number), rows in log.topics.items() if name == topic and len(rows))
        if len(several) > 1:
            notes = flight.doubts if topic == "battery_status" else flight.taken
            notes.append(f"of {len(several)} instances of {topic}, {several[0]} is taken")
    return [flight]


def _attitude(flight: FlightLog, rows: Rows | None) -> None:
    if rows is None or not _has(rows, "q"):
        return
    if rows["q"].shape[1:] != (4,):
        raise ValueError("'q' of a topic is no quaternion")
    w, x, y, z = rows["q"].astype(np.float64).T
    roll = np.degrees(np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)))
    pitch = np.degrees(np.arcsin(np.clip(2 * (w * y - z * x), -1.0, 1.0)))
    yaw = np.degrees(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))
    flight.add(_time(rows), roll=roll, pitch=pitch)
    fine = np.isfinite(yaw)
    if fine.any():
        turns = np.unwrap(yaw[fine], period=360.0)
        flight.position["heading"] = at(flight.time, _time(rows)[fine], turns, held=False) % 360.0


def _state(flight: FlightLog, battery: Rows | None, status: Rows | None) -> None:
    if battery is not None and _has(battery, "voltage_v", "current_a", "remaining"):
        volts, amperes, left = (_floats(battery, name) for name in ("voltage_v", "current_a", "remaining"))
        power = np.where(amperes >= 0.0, volts * amperes, np.nan)  # below 0: not measured
        flight.add(_time(battery), voltage=volts, power=power, charge=np.where(left >= 0.0, left, np.nan))
    if status is not None and _has(status, "arming_state", "nav_state"):
        modes = np.array([VEHICLE_MODE.index(_MODES.get(state, "hold")) for state in range(256)], np.float64)
        armed, state = _wholes(status, "arming_state") == _ARMED, _wholes(status, "nav_state")
        flight.add(_time(status), mode=modes[state & 255], armed=armed.astype(np.float64))
        if strange := sorted({*state.tolist()} - {*_MODES, *_HOLDS}):
            flight.doubts.append(f"navigation states that are not known count as hold: {strange}")
        if battery is not None and _has(battery, "warning") and _has(status, "failsafe"):
            warned = np.array(_BATTERY, np.float64)[np.clip(_wholes(battery, "warning"), 0, 3)]
            acts = at(_time(battery), _time(status), _wholes(status, "failsafe").astype(np.float64), held=True)
            flight.add(_time(battery), failsafe=np.where(acts > 0.0, warned, 0.0))


_NONE: Floats = np.empty(0)


def _positions(name: str, log: ULog) -> FlightLog:
    """Positions from the best source there is: the global estimate, the local one, or the receiver."""
    for topic, found in (
        ("vehicle_global_position", _global), ("vehicle_local_position", _on_earth),
        ("vehicle_gps_position", _receiver), ("sensor_gps", _receiver), ("vehicle_local_position", _local),
    ):  # fmt: skip
        rows = log.rows(topic)
        flight = found(name, rows) if rows is not None else None
        if flight is not None and len(flight.time):
            break
    else:
        raise ValueError("there is no valid position in it")
    if "lat" in flight.position:
        for topic in ("vehicle_gps_position", "sensor_gps"):
            rows = log.rows(topic)
            if rows is not None and (other := _receiver(name, rows)) is not None:
                _fill(flight, other)
                break
    local = log.rows("vehicle_local_position")
    if local is not None and _has(local, "vx", "vy", "vz"):
        velocity = [_floats(local, axis) for axis in ("vx", "vy", "vz")]
        flight.position["speed"] = at(flight.time, _time(local), np.hypot(velocity[0], velocity[1]), held=False)
        flight.add(_time(local), climb=-velocity[2])
    return flight


def _fill(flight: FlightLog, receiver: FlightLog) -> None:
    """Take the receiver's positions where the estimator has none for more than `_GAP` s."""
    known = np.sort(flight.time)
    after = np.searchsorted(known, receiver.time)
    before = receiver.time - np.concatenate([[-np.inf], known])[after]
    lost = np.minimum(before, np.concatenate([known, [np.inf]])[after] - receiver.time) > _GAP
    if lost.any():
        flight.time = np.concatenate([flight.time, receiver.time[lost]])
        for key in ("lat", "lon", "height"):
            flight.position[key] = np.concatenate([flight.position[key], receiver.position[key][lost]])
        flight.taken.append(f"{lost.sum()} positions are the receiver's, where the estimator has none for {_GAP:g} s")


_GAP = 1.0  # s; PX4's estimate comes several times a second, its receivers' positions 5 to 10 times


def _global(name: str, rows: Rows) -> FlightLog | None:
    if not _has(rows, "lat", "lon", "alt"):
        return None
    rows = rows[_wholes(rows, "lat_lon_valid") > 0] if _has(rows, "lat_lon_valid") else rows
    return _placed(name, rows, lambda field: _floats(rows, field))


def _on_earth(name: str, rows: Rows) -> FlightLog | None:
    """The local frame where it has an origin on earth: the tangent plane there, north, east, down."""
    if not _has(rows, "x", "y", "z", "xy_valid", "xy_global", "ref_lat", "ref_lon", "ref_alt"):
        return None
    rows = rows[(_wholes(rows, "xy_valid") > 0) & (_wholes(rows, "xy_global") > 0)]
    lat, lon, north, east = (_floats(rows, field) for field in ("ref_lat", "ref_lon", "x", "y"))
    found = {
        "lat": lat + np.degrees(north / _EARTH),
        "lon": lon + np.degrees(east / (_EARTH * np.cos(np.radians(lat)))),
        "alt": _floats(rows, "ref_alt") - _floats(rows, "z"),
    }
    return _placed(name, rows, found.__getitem__)


_EARTH = 6_371_000.0  # m, the sphere of PX4's own projection


def _receiver(name: str, rows: Rows) -> FlightLog | None:
    if not _has(rows, "fix_type"):
        return None
    rows = rows[_wholes(rows, "fix_type") >= 3]
    if _has(rows, "latitude_deg", "longitude_deg", "altitude_msl_m"):
        new = {"lat": "latitude_deg", "lon": "longitude_deg", "alt": "altitude_msl_m"}
        return _placed(name, rows, lambda field: _floats(rows, new[field]))
    if not _has(rows, "lat", "lon", "alt"):
        return None
    scale = {"lat": 1e-7, "lon": 1e-7, "alt": 1e-3}
    return _placed(name, rows, lambda field: _floats(rows, field) * scale[field])


def _local(name: str, rows: Rows) -> FlightLog | None:
    """Metres from where the estimator began, which is taken for the scenario's origin."""
    if not _has(rows, "x", "y", "z", "xy_valid"):
        return None
    rows = rows[_wholes(rows, "xy_valid") > 0]
    north, east, down = (_floats(rows, axis) for axis in "xyz")
    return FlightLog(name, _time(rows), {"x": east, "y": north, "z": -down})


def _placed(name: str, rows: Rows, value: Callable[[str], NDArray[Any]]) -> FlightLog:
    return FlightLog(name, _time(rows), {"lat": value("lat"), "lon": value("lon"), "height": value("alt")})


def _has(rows: Rows, *fields: str) -> bool:
    return set(fields) <= set(rows.dtype.names or ())


def _time(rows: Rows) -> Floats:
    """s since boot."""
    if not _has(rows, "timestamp"):
        raise ValueError("a topic has no timestamp")
    return _wholes(rows, "timestamp").astype(np.float64) * 1e-6


def _floats(rows: Rows, name: str) -> Floats:
    values = rows[name]
    if values.ndim != 1 or values.dtype.kind not in "iufb":
        raise ValueError(f"'{name}' of a topic is no number")
    return values.astype(np.float64)


def _wholes(rows: Rows, name: str) -> Indices:
    if rows[name].ndim != 1 or rows[name].dtype.kind not in "iub":
        raise ValueError(f"'{name}' of a topic is no whole number")
    return rows[name].astype(np.int64)


def at(wanted: Floats, time: Floats, values: Floats, *, held: bool) -> Floats:
    """Values at the times `wanted`: of before for what is held, else straight between; NaN without any."""
    fine = np.isfinite(values) & np.isfinite(time)
    time, first = np.unique(time[fine], return_index=True)
    values = values[fine][first]
    if not len(time):
        return np.full(len(wanted), np.nan)
    if held:
        return values[np.maximum(np.searchsorted(time, wanted, side="right") - 1, 0)]
    return np.interp(wanted, time, values)
