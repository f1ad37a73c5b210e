"""Dataflash logs as ArduPilot writes them, and how they are handed out over MAVLink.

Layouts, units and multipliers are those of LogStructure.h in ArduPilot's AP_Logger, AP_AHRS, AP_GPS, AP_BattMonitor,
AP_InertialSensor and AP_Baro; the order of requests and answers is that of AP_Logger_MAVLinkLogTransfer.cpp.
"""

from __future__ import annotations

import math
import shutil
import struct
import tempfile
import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cosim.autopilot.dialect import Message, mavlink
from cosim.autopilot.flight import ACTIVE
from cosim.autopilot.sensors import air, fix, force, pressure, rates, servos, vibration

if TYPE_CHECKING:
    from cosim.autopilot.core import Autopilot

_TYPES = {
    "b": "b", "B": "B", "M": "B", "h": "h", "c": "h", "H": "H", "C": "H", "i": "i", "e": "i", "L": "i", "I": "I",
    "f": "f", "d": "d", "Q": "Q", "n": "4s", "N": "16s", "Z": "64s",
}  # fmt: skip
_LAYOUTS = {  # format, columns, units, multipliers
    "FMT": ("BBnNZ", "Type,Length,Name,Format,Columns", "-b---", "-----"),
    "UNIT": ("QbZ", "TimeUS,Id,Label", "s--", "F--"),
    "FMTU": ("QBNN", "TimeUS,FmtType,UnitIds,MultIds", "s---", "F---"),
    "MULT": ("Qbd", "TimeUS,Id,Mult", "s--", "F--"),
    "PARM": ("QNff", "TimeUS,Name,Value,Default", "s---", "F---"),
    "MSG": ("QZ", "TimeUS,Message", "s-", "F-"),
    "MODE": ("QMBB", "TimeUS,Mode,ModeNum,Rsn", "s---", "F---"),
    "ATT": ("QffffffB", "TimeUS,DesRoll,Roll,DesPitch,Pitch,DesYaw,Yaw,AEKF", "sddddhh-", "F000000-"),
    "POS": ("QLLfff", "TimeUS,Lat,Lng,Alt,RelHomeAlt,RelOriginAlt", "sDUmmm", "FGG000"),
    "GPS": (
        "QBBIHBcLLeffffB", "TimeUS,I,Status,GMS,GWk,NSats,HDop,Lat,Lng,Alt,Spd,GCrs,VZ,Yaw,U", "s#-s-S-DUmnhnh-",
        "F--C-0BGGB000--",
    ),
    "BAT": (
        "QBfffffcfBBB", "TimeUS,Inst,Volt,VoltR,Curr,CurrTot,EnrgTot,Temp,Res,RemPct,H,SH", "s#vvAaXOw%-%",
        "F-000C0?0000",
    ),
    "IMU": (
        "QBffffffIIfBBHH", "TimeUS,I,GyrX,GyrY,GyrZ,AccX,AccY,AccZ,EG,EA,T,GH,AH,GHz,AHz", "s#EEEooo--O--zz",
        "F-000000-----00",
    ),
    "VIBE": ("QBfffI", "TimeUS,IMU,VibeX,VibeY,VibeZ,Clip", "s#ooo-", "F-000-"),
    "BARO": (
        "QBfffcfIffBf", "TimeUS,I,Alt,AltAMSL,Press,Temp,CRt,SMS,Offset,GndTemp,Health,CPress", "s#mmPOnsmO-P",
        "F-000B0C?0-0",
    ),
    "RCOU": ("Q" + 14 * "H", "TimeUS," + ",".join(f"C{k}" for k in range(1, 15)), "s" + 14 * "Y", "F" + 14 * "-"),
    "CMD": (
        "QHHHffffLLfB", "TimeUS,CTot,CNum,CId,Prm1,Prm2,Prm3,Prm4,Lat,Lng,Alt,Frame", "s-------DUm-", "F-------GG0-",
    ),
    "EV": ("QB", "TimeUS,Id", "s-", "F-"),
    "ARM": ("QBIBB", "TimeUS,ArmState,ArmChecks,Forced,Method", "s----", "F----"),
}  # fmt: skip
_UNITS = {
    "-": "", "b": "B", "s": "s", "d": "deg", "h": "degheading", "D": "deglatitude", "U": "deglongitude", "m": "m",
    "n": "m/s", "S": "satellites", "v": "V", "A": "A", "a": "Ah", "X": "W.h", "O": "degC", "w": "Ohm", "%": "%",
    "#": "instance", "E": "rad/s", "o": "m/s/s", "z": "Hz", "P": "Pa", "Y": "us",
}  # fmt: skip
_MULTIPLIERS = {"-": 0.0, "?": 1.0, "0": 1.0, "B": 1e-2, "C": 1e-3, "F": 1e-6, "G": 1e-7}
_FORMAT, _FIRST = 128, 32  # numbers of FMT, which is fixed, and of the first of the other messages
_NUMBERS = {name: _FORMAT if name == "FMT" else _FIRST + k for k, name in enumerate(_LAYOUTS)}
_PACKERS = {
    name: (bytes((0xA3, 0x95, _NUMBERS[name])), struct.Struct("<" + "".join(_TYPES[kind] for kind in layout[0])))
    for name, layout in _LAYOUTS.items()
}

ATTITUDE, GPS, INERTIAL, COMMANDS, CURRENT = 1 << 0 | 1 << 1, 1 << 2, 1 << 7, 1 << 8, 1 << 9  # bits of LOG_BITMASK
OUTPUTS = {"copter": 1 << 10, "rover": 1 << 14}  # another one of it, by frame
ARMED, DISARMED, LAND_COMPLETE, NOT_LANDED = 10, 11, 18, 28  # LogEvent
_BY_MAVLINK, _BY_CRASH, _BY_LANDING = 1, 12, 13  # AP_Arming::Method
_GPS_EPOCH, _LEAP, _WEEK = 315_964_800, 18, 604_800  # s: 6 January 1980, UTC behind GPS since 2017, a week
_KEPT = 1 << 16  # B of a log that are kept in memory before they are written
_LARGEST, _ALL, _MOST = 16 << 20, 64 << 20, 500  # B of a log, B of all, their number: beyond it the oldest goes
_SENT, _CHUNK = 40, 90  # LOG_DATA at a time, as ArduPilot in simulation; B of each


@dataclass(slots=True)
class _Log:
    path: Path
    begun: int  # s since 1970
    written: int = 0  # B in the file
    rest: bytearray = field(default_factory=bytearray)

    @property
    def size(self) -> int:
        return self.written + len(self.rest)

    def flush(self) -> None:
        if self.rest:
            with self.path.open("ab") as file:
                file.write(self.rest)
            self.written, self.rest = self.size, bytearray()

    def read(self, start: int, end: int) -> bytes:
        found = b""
        if start < self.written:
            with self.path.open("rb") as file:
                file.seek(start)
                found = file.read(min(end, self.written) - start)
        return found + bytes(self.rest[max(start - self.written, 0) : max(end - self.written, 0)])


@dataclass(slots=True)
class _Transfer:
    link: Hashable
    number: int
    at: int  # B
    end: int  # B


class DataflashLogs:
    """The logs of one vehicle: a log begins when it is armed and goes on when it is armed again, as ArduPilot's."""

    def __init__(self, autopilot: Autopilot, folder: Path | None = None) -> None:
        """`folder`: for the files 00000001.BIN and so on; without one they end with the autopilot."""
        self._autopilot, self._folder = autopilot, folder
        self._lasting = folder is not None  # whether the files outlive this object
        self._logs: list[_Log] = []
        self._made = 0  # logs so far
        self._log: _Log | None = None  # the one that is written
        self._on = False  # whether it is written now
        self._texts: list[str] = []  # said since the last `update`
        self._before: tuple[bool, bool, str, int] = (False, True, "", -1)  # armed, landed, mode, item of the mission
        self._looks = 0
        self._transfer: _Transfer | None = None
        self._warned = False

    @property
    def sending(self) -> bool:
        """Whether a log is handed out now."""
        return self._transfer is not None

    def say(self, text: str) -> None:
        """Note what the autopilot says."""
        self._texts.append(text)

    def parameter(self, name: str) -> None:
        """Note the value of a parameter that was set."""
        if self._on:
            self._parameter(name)

    @property
    def _now(self) -> int:
        return round(1e6 * self._autopilot.now)

    def update(self) -> None:
        """Write what has happened since the last call, and where the vehicle is."""
        a = self._autopilot
        v, p = a.pilot.view, a.parameters
        armed, landed = bool(v.armed), bool(v.landed)
        if self._on or armed or p.get("LOG_DISARMED"):
            if not self._on:
                self._begin()
            for text in self._texts:
                self._write("MSG", self._now, text.encode("ascii", "replace"))
            now = (armed, landed, a.pilot.mode, a.pilot.mission.current if a.pilot.mission.state == ACTIVE else -1)
            self._note_changes(now, int(p.get("ARMING_CHECK")))
            self._sample(int(p.get("LOG_BITMASK")))
            self._before = now
            self._on = armed or bool(p.get("LOG_DISARMED"))
            if self._log is not None and self._log.size > _LARGEST:
                self.close()
        self._texts.clear()

    def close(self) -> None:
        """End the log that is written."""
        if self._log is not None and (self._lasting or self._log.written):
            self._log.flush()
        self._log, self._on = None, False

    def _begin(self) -> None:
        """Go on with the log of this boot, or begin one: what the messages are, all parameters and the mission."""
        self._on = True
        if self._log is not None:
            return
        a, now = self._autopilot, self._now
        while self._logs and (len(self._logs) >= _MOST or sum(log.size for log in self._logs) > _ALL - _LARGEST):
            self._logs.pop(0).path.unlink(missing_ok=True)
            self._transfer = None  # the others have other numbers now
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="cosim-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._made += 1
        self._log = _Log(self._folder / f"{self._made:08}.BIN", round(a.epoch + a.now))
        self._log.path.unlink(missing_ok=True)
        self._logs.append(self._log)
        for name, (kinds, columns, _, _) in _LAYOUTS.items():
            size = 3 + _PACKERS[name][1].size
            self._write("FMT", _NUMBERS[name], size, name.encode(), kinds.encode(), columns.encode())
        for key, label in _UNITS.items():
            self._write("UNIT", now, ord(key), label.encode())
        for key, factor in _MULTIPLIERS.items():
            self._write("MULT", now, ord(key), factor)
        for name, (_, _, units, factors) in _LAYOUTS.items():
            self._write("FMTU", now, _NUMBERS[name], units.encode(), factors.encode())
        for name in a.parameters.table:
            self._parameter(name)
        self._write("MSG", now, a.banner.encode())
        for seq in range(len(a.pilot.mission.items)):
            self._command(seq)
        self._before = (False, True, "", -1)

    def _write(self, name: str, *values: object) -> None:
        log = self._log
        assert log is not None
        head, packer = _PACKERS[name]
        log.rest += head + packer.pack(*values)
        if len(log.rest) > _KEPT:
            log.flush()

    def _parameter(self, name: str) -> None:
        parameters = self._autopilot.parameters
        self._write("PARM", self._now, name.encode(), parameters[name], parameters.table[name].default)

    def _command(self, seq: int) -> None:
        items = self._autopilot.pilot.mission.items
        frame, number, _, *params, x, y, z = items[seq]
        self._write("CMD", self._now, len(items), seq, number, *params, x, y, z, frame)

    def _note_changes(self, now: tuple[bool, bool, str, int], checks: int) -> None:
        a, at, (armed, landed, mode, item) = self._autopilot, self._now, self._before
        if now[0] != armed:
            by = _BY_MAVLINK if now[0] or a.pilot.ordered else _BY_CRASH if a.pilot.view.crashed else _BY_LANDING
            self._write("ARM", at, now[0], checks, a.pilot.forced, by)
            self._write("EV", at, ARMED if now[0] else DISARMED)
        if now[1] != landed and a.persona.frame == "copter":
            self._write("EV", at, LAND_COMPLETE if now[1] else NOT_LANDED)
        if now[2] != mode:
            number = a.persona.modes[now[2]].number
            self._write("MODE", at, number, number, a.pilot.reason)
        begun = now[3] not in (item, -1) and now[3] < len(a.pilot.mission.items)
        if begun and int(a.parameters.get("LOG_BITMASK")) & COMMANDS:
            self._command(now[3])

    def _sample(self, mask: int) -> None:
        """By each look, 10 Hz, all that `mask` asks for, but positions of the receiver by every other one."""
        a, now = self._autopilot, self._now
        v, frame = a.pilot.view, a.pilot.fleet.frames[a.pilot.row]
        self._looks += 1
        a.place = a.pilot.place()
        yaw = math.degrees(v.heading) % 360.0
        if mask & ATTITUDE:
            roll, pitch = math.degrees(v.roll), math.degrees(v.pitch)
            wanted = yaw if math.isnan(v.target_heading) else math.degrees(v.target_heading) % 360.0
            self._write("ATT", now, roll, roll, pitch, pitch, wanted, yaw, 3)
            if a.pilot.ready:
                at = round(a.place.latitude * 1e7), round(a.place.longitude * 1e7)
                self._write("POS", now, *at, a.place.altitude, v.z - a.pilot.home[2], v.z - a.start[2])
        if mask & GPS and self._looks % 2:
            self._write("GPS", now, *self._fix(v.heading))
        if mask & INERTIAL:
            hz, level, rise = min(round(1.0 / a.pilot.fleet.substep), 65535), vibration(a), v.z - a.start[2]
            heat, press = 0.01 * air(a), 100.0 * pressure(a.place.altitude)
            self._write("IMU", now, 0, *rates(a), *force(a), 0, 0, heat, 1, 1, hz, hz)
            self._write("VIBE", now, 0, level, level, level, 0)
            ground = heat + 0.0065 * rise
            high = (rise, a.place.altitude, press, round(100.0 * heat), v.vz, a.boot_ms)
            self._write("BARO", now, 0, *high, 0.0, ground, 1, press)
        if mask & OUTPUTS[a.persona.frame]:
            self._write("RCOU", now, *servos(a), *[0] * 10)
        if mask & CURRENT:
            full, ohm = float(frame["capacity"]), float(frame["resistance"])
            left = max(0, min(100, round(100.0 * v.charge / full)))
            used = (full - v.charge) / 3.6  # mAh
            rest = v.voltage + ohm * v.current
            self._write("BAT", now, 0, v.voltage, rest, v.current, used, v.energy / 3600.0, air(a), ohm, left, 1, 100)

    def _fix(self, heading: float) -> tuple[float, ...]:
        a = self._autopilot
        v = a.pilot.view
        seconds = a.epoch + a.now - _GPS_EPOCH + _LEAP
        week, of_week = divmod(round(1e3 * seconds), 1000 * _WEEK)
        if not a.pilot.ready:
            return 0, 1, of_week, week, 0, 9999, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 1
        place = fix(a)[0]
        course = math.degrees(math.atan2(v.vx, v.vy)) % 360.0
        where = round(place.latitude * 1e7), round(place.longitude * 1e7), round(100.0 * place.altitude)
        return 0, 6, of_week, week, 12, 80, *where, math.hypot(v.vx, v.vy), course, -v.vz, 0.0, 1

    # -- over MAVLink

    def handle(self, message: Message, link: Hashable) -> None:
        """Answer a LOG_REQUEST_LIST, LOG_REQUEST_DATA, LOG_ERASE or LOG_REQUEST_END."""
        a, kind = self._autopilot, message.get_type()
        if a.pilot.look().armed:
            if not self._warned:
                a.pilot.say(3, "Disarm for log download")
            self._warned = True
            return
        self._warned = False
        if kind == "LOG_REQUEST_END":
            self._transfer = None
        elif kind == "LOG_ERASE":
            self._erase()
        elif self._transfer is not None:
            if self._transfer.link != link:  # a client that fills gaps asks again while it is served
                a.pilot.say(6, "Log download in progress")
        elif kind == "LOG_REQUEST_LIST":
            self._list(message.start, message.end, link)
        elif 1 <= message.id <= len(self._logs):
            size = self._logs[message.id - 1].size
            self._transfer = _Transfer(link, message.id, message.ofs, min(message.ofs + message.count, size))
        else:
            self._send(link, message.id, message.ofs, b"")

    def _list(self, first: int, last: int, link: Hashable) -> None:
        count = len(self._logs)
        if not count:
            self._autopilot.reply(link, mavlink.MAVLink_log_entry_message(0, 0, 0, 0, 0))
        last = min(last, count)
        for number in range(max(first, 1), last + 1):
            log = self._logs[number - 1]
            entry = mavlink.MAVLink_log_entry_message(number, count, last, log.begun, log.size)
            self._autopilot.reply(link, entry)

    def _erase(self) -> None:
        self._transfer, self._log, self._on = None, None, False
        for log in self._logs:
            log.path.unlink(missing_ok=True)
        self._logs.clear()
        self._autopilot.pilot.say(5, "Logs erased")

    def _send(self, link: Hashable, number: int, at: int, data: bytes) -> None:
        padded = list(data.ljust(_CHUNK, b"\0"))
        self._autopilot.reply(link, mavlink.MAVLink_log_data_message(number, at, len(data), padded))

    def send(self) -> None:
        """Send the next part of what was asked for. A part of less than 90 B, if only of none, is the last one."""
        transfer = self._transfer
        if transfer is None or self._autopilot.pilot.view.armed:
            return
        slab = self._logs[transfer.number - 1].read(transfer.at, min(transfer.at + _SENT * _CHUNK, transfer.end))
        for start in range(0, max(len(slab), 1), _CHUNK):
            part = slab[start : start + _CHUNK]
            self._send(transfer.link, transfer.number, transfer.at, part)
            transfer.at += len(part)
            if len(part) < _CHUNK or transfer.at >= transfer.end:
                self._transfer = None

    def forget(self, link: Hashable) -> None:
        """Send no more to a link that is gone."""
        if self._transfer is not None and self._transfer.link == link:
            self._transfer = None
