"""The probes: each has a name and gives an answer as text."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from typing import Any

from cosim.autopilot.dialect import mavlink
from tests.clients.probes.peer import Peer

_RESULT = {0: "ACCEPTED", 1: "TEMPORARILY_REJECTED", 2: "DENIED", 3: "UNSUPPORTED", 4: "FAILED"}
_MISSION = {
    0: "ACCEPTED", 1: "ERROR", 2: "UNSUPPORTED_FRAME", 3: "UNSUPPORTED", 4: "NO_SPACE", 5: "INVALID",
    6: "INVALID_PARAM1", 10: "INVALID_PARAM5_X", 11: "INVALID_PARAM6_Y", 12: "INVALID_PARAM7",
    13: "INVALID_SEQUENCE", 14: "DENIED", 15: "OPERATION_CANCELLED",
}  # fmt: skip
LAT, LON = 382466000, 217346000  # 1e-7 deg
Item = tuple[int, int, float, float, float, float, int, int, float]


def waypoint(dn: float = 0.0, de: float = 0.0, up: float = 10.0, frame: int = 3, command: int = 16) -> Item:
    """A waypoint some metres from home."""
    return frame, command, 0.0, 0.0, 0.0, 0.0, LAT + round(dn * 89.83), LON + round(de * 114.4), up


HOME = waypoint(up=60.0, frame=0)
RISE: Item = (3, 22, 0.0, 0.0, 0.0, 0.0, 0, 0, 10.0)
# name of the reference: command, with which parameters
ITEMS: dict[str, Item] = {
    "item lat 95": (3, 16, 0, 0, 0, 0, 950000000, LON, 10.0),
    "item lon 200 deg": (3, 16, 0, 0, 0, 0, LAT, 2000000000, 10.0),
    "item frame 20": (20, 16, 0, 0, 0, 0, LAT, LON, 10.0),
    "item frame LOCAL_NED": (1, 16, 0, 0, 0, 0, LAT, LON, 10.0),
    "item nan p4": (3, 16, 0, 0, 0, math.nan, LAT, LON, 10.0),
    "item nan p1": (3, 16, math.nan, 0, 0, 0, LAT, LON, 10.0),
    "item DO_JUMP to 99": (3, 177, 99, 1, 0, 0, 0, 0, 0.0),
    "item alt nan": (3, 16, 0, 0, 0, 0, LAT, LON, math.nan),
    "item alt inf": (3, 16, 0, 0, 0, 0, LAT, LON, math.inf),
    "item terrain frame": (10, 16, 0, 0, 0, 0, LAT, LON, 10.0),
    **{
        f"item {name}": (3, command, *params, LAT, LON, 10.0)
        for name, command, params in (
            ("DO_SET_SERVO", 183, (5, 1500, 0, 0)), ("DO_SET_RELAY", 181, (0, 1, 0, 0)),
            ("CAM_TRIGG_DIST", 206, (10, 0, 0, 0)), ("DIGICAM", 203, (0, 0, 0, 0)), ("ROI", 201, (0, 0, 0, 0)),
            ("DO_SET_ROI_LOC", 195, (0, 0, 0, 0)), ("MOUNT_CONTROL", 205, (0, 0, 0, 0)), ("GRIPPER", 211, (1, 1, 0, 0)),
            ("WINCH", 42600, (1, 1, 0, 0)), ("DELAY 93", 93, (5, 0, 0, 0)), ("COND_DELAY", 112, (5, 0, 0, 0)),
            ("COND_DIST", 114, (5, 0, 0, 0)), ("COND_YAW", 115, (90, 0, 0, 0)), ("SPLINE", 82, (0, 0, 0, 0)),
            ("LOITER_TURNS", 18, (1, 0, 10, 0)), ("LOITER_UNLIM", 17, (0, 0, 0, 0)),
            ("LOITER_TO_ALT", 31, (0, 0, 0, 0)),
            ("PAYLOAD_PLACE", 94, (0, 0, 0, 0)), ("VTOL_TAKEOFF", 84, (0, 0, 0, 0)), ("VTOL_LAND", 85, (0, 0, 0, 0)),
            ("DO_LAND_START", 189, (0, 0, 0, 0)), ("DO_FENCE", 207, (1, 0, 0, 0)), ("DO_PARACHUTE", 208, (1, 0, 0, 0)),
            ("GUIDED_ENABLE", 92, (1, 0, 0, 0)), ("GUIDED_LIMITS", 222, (10, 0, 0, 0)), ("JUMP_TAG", 600, (1, 0, 0, 0)),
            ("DO_JUMP_TAG", 601, (1, 1, 0, 0)), ("IMAGE_START", 2000, (0, 0, 1, 0)),
            ("VIDEO_START", 2500, (0, 0, 0, 0)),
            ("GIMBAL_PITCHYAW", 1000, (0, 0, 0, 0)), ("ATTITUDE_TIME", 42703, (1, 0, 0, 0)),
            ("SCRIPT_TIME", 42702, (1, 0, 0, 0)), ("ALT_CHANGE 113", 113, (1, 0, 0, 0)),
            ("CONT_AND_CHG_ALT 30", 30, (0, 0, 0, 0)), ("SET_HOME", 179, (1, 0, 0, 0)), ("ENGINE", 223, (1, 0, 0, 0)),
            ("RUDDER", 212, (1, 0, 0, 0)),
        )
    },
}  # fmt: skip


class Probe:
    """Asks one autopilot everything that the reference has an answer to."""

    def __init__(self, peer: Peer, reference: Mapping[str, Any]) -> None:
        self.peer, self.reference = peer, reference
        self.found: dict[str, str] = {}

    def command(self, number: int, *params: float, system: int = 1, component: int = 1) -> str:
        """The result of a COMMAND_LONG."""
        peer = self.peer
        peer.pass_time(0.05)
        peer.heard.clear()
        peer.send("command_long", system, component, number, 0, *params, *[0.0] * (7 - len(params)))
        ack = peer.wait("COMMAND_ACK", 1.5, lambda m: m.command == number)
        return "SILENT" if ack is None else _RESULT.get(ack.result, str(ack.result))

    def upload(self, items: list[Item], kind: int = 0, until: int = 10**6, count: int = 0) -> str:
        """The acknowledgement of an upload; items from `until` on are never sent."""
        peer, asked, done = self.peer, 0, set[int]()
        peer.heard.clear()
        peer.send("mission_count", 1, 1, count or len(items), kind)
        for _ in range(60 + 4 * len(items)):
            peer.pass_time(0.3 if until < 10**6 else 0.02)
            for m in list(peer.heard):
                if m.get_type() == "MISSION_ACK":
                    peer.heard.clear()
                    return f"ack={_MISSION.get(m.type, m.type)} reqs={asked}"
                if m.get_type() in ("MISSION_REQUEST", "MISSION_REQUEST_INT"):
                    asked += until < 10**6 or m.seq not in done
                    done.add(m.seq)
                    if m.seq < min(until, len(items)):
                        frame, command, *params, x, y, z = items[m.seq]
                        peer.send("mission_item_int", 1, 1, m.seq, frame, command, 0, 1, *params, x, y, z, kind)
            peer.heard.clear()
        return f"ack=None reqs={asked}"

    def parameter(self, name: str, value: float) -> str:
        """What a PARAM_SET is answered with."""
        self.peer.heard.clear()
        self.peer.send("param_set", 1, 1, name.encode(), value, 9)
        m = self.peer.wait("PARAM_VALUE", 1.0)
        return "SILENT" if m is None else f"('PARAM_VALUE', {m.param_value})"

    def read(self, name: str) -> str:
        """The value of a parameter."""
        self.peer.heard.clear()
        self.peer.send("param_request_read", 1, 1, name.encode(), -1)
        m = self.peer.wait("PARAM_VALUE", 1.0)
        return "None" if m is None else f"{m.param_value}"

    def count(self, kind: int = 0) -> str:
        """How many items are stored."""
        self.peer.heard.clear()
        self.peer.send("mission_request_list", 1, 1, kind)
        m = self.peer.wait("MISSION_COUNT", 1.0)
        return "None" if m is None else str(m.count)

    def download(self, kind: int) -> str:
        """The stored items, as text."""
        items, total = [], int(self.count(kind))
        for seq in range(total):
            self.peer.heard.clear()
            self.peer.send("mission_request_int", 1, 1, seq, kind)
            m = self.peer.wait("MISSION_ITEM_INT", 1.0)
            if m is not None:
                items.append((m.frame, m.command, m.param1, m.param2, m.param3, m.param4, m.x, m.y, round(m.z, 2)))
        return str(items)

    def run(self) -> dict[str, str]:
        """Every answer by the name that the reference has for it."""
        self._identity()
        self._parameters()
        self._commands()
        self._requests()
        self._missions()
        self._others()
        return self.found

    def _identity(self) -> None:
        p, found = self.peer, self.found
        m = p.wait("HEARTBEAT", 3.0)
        found["heartbeat"] = f"type={m.type} ap={m.autopilot} base={m.base_mode} st={m.system_status}"
        found["cmd before ready: arm"] = self.command(400, 1)
        found["autopilot_version"] = self.command(512, 148)
        m = p.wait("AUTOPILOT_VERSION", 1.0)
        found["capabilities"], found["fw"] = hex(m.capabilities), hex(m.flight_sw_version)
        p.wait("GPS_RAW_INT", 90.0, lambda m: m.fix_type >= 3)
        found["ready"] = "True"
        p.pass_time(1.0)
        self.command(512, 242)
        m = p.wait("HOME_POSITION", 3.0)
        found["home"] = str([m.latitude / 1e7, m.longitude / 1e7, round(m.altitude / 1e3, 2)])

    def _parameters(self) -> None:
        p, found = self.peer, self.found
        p.heard.clear()
        p.send("param_request_list", 1, 1)
        p.pass_time(8.0)
        got = [m for m in p.heard if m.get_type() == "PARAM_VALUE"]
        found["params listed/count"] = f"{len({m.param_id for m in got})}/{got[0].param_count if got else 0}"
        found["param read unknown"] = self.read("NO_SUCH")
        p.send("param_request_read", 1, 1, b"", 32000)
        found["param read index 32000"] = str([m.param_id for m in [p.wait("PARAM_VALUE", 0.5)] if m])
        found["param set unknown"] = self.parameter("NO_SUCH", 1.0)
        for name in self.reference:
            got_ = re.fullmatch(r"param set (\w+)=(\S+)", name)
            if got_ and got_[1] in ("WPNAV_SPEED", "SYSID_THISMAV", "FENCE_ENABLE", "RTL_ALT", "FENCE_RADIUS",
                                    "FRAME_CLASS", "FORMAT_VERSION"):  # fmt: skip
                before = self.read(got_[1])
                found[name] = self.parameter(got_[1], float(got_[2]))
                if got_[1] != "WPNAV_SPEED" and before != "None":
                    found[f"  then {got_[1]}"] = self.read(got_[1])
                    if "1500.7" not in name:
                        self.parameter(got_[1], float(before))
        found["  then WPNAV_SPEED"] = self.read("WPNAV_SPEED")
        found["param set lower case wpnav_speed"] = self.parameter("wpnav_speed", 500.0)

    def _commands(self) -> None:
        found = self.found
        for name in self.reference:
            got = re.match(r"cmd (\d+)(?: [A-Za-z]\w*)?$", name)
            if got:
                params = {"cmd 512 REQUEST_MESSAGE": (30.0,)}.get(name, ())
                found[name] = self.command(int(got[1]), *params)
                if int(got[1]) == 5300:
                    self.command(5300, 1)
        found["cmd to sys 77"] = self.command(512, 30, system=77)
        found["cmd 512 comp 0"] = self.command(512, 30, component=0)
        found["cmd 512 sys 0"] = self.command(512, 30, system=0)

    def _requests(self) -> None:
        for name in self.reference:
            got = re.match(r"request msg (\d+)", name)
            if got:
                self.found[name] = self.command(512, float(got[1]))

    def _missions(self) -> None:
        found = self.found
        base = [HOME, RISE, waypoint(50, up=15.0), waypoint(50, 50, 15.0)]
        found["upload base"] = self.upload(base)
        found["download"] = self.download(0)
        found["upload with unknown cmd 9999"] = self.upload([*base, (3, 9999, 0, 0, 0, 0, LAT, LON, 0.0)])
        found["count after"] = self.count()
        for name, item in ITEMS.items():
            found[name] = self.upload([HOME, RISE, item])
        found["upload 800 items"] = self.upload([waypoint()] * 800)
        found["downloaded back"] = self.count()
        found["upload 0 items"] = self.upload([])
        found["count"] = self.count()
        found["upload missing item 2 never sent"] = self.upload(base, until=2)
        self.peer.heard.clear()
        self.peer.send("mission_request_int", 1, 1, 99, 0)
        m = self.peer.wait("MISSION_ACK", 1.0)
        found["request item 99"] = f"('MISSION_ACK', {m.type if m else None})"
        found["upload ok again"] = self.upload(base)
        for seq in (2, 77):
            self.peer.heard.clear()
            self.peer.send("mission_set_current", 1, 1, seq)
            m = self.peer.wait("MISSION_CURRENT", 1.5, lambda m, seq=seq: m.seq == seq)
            found[f"set current {seq}"] = str(m is not None)
        found["DO_SET_MISSION_CURRENT 77"] = self.command(224, 77)
        found["DO_SET_MISSION_CURRENT 3"] = self.command(224, 3)
        self.peer.heard.clear()
        self.peer.send("mission_write_partial_list", 1, 1, 2, 2)
        m = self.peer.wait("MISSION_REQUEST", 1.0)
        found["partial write 2..2"] = f"('{m.get_type() if m else None}', {m.seq if m else None}, None)"
        if m is not None:
            self.peer.send("mission_item_int", 1, 1, 2, 3, 16, 0, 1, 0, 0, 0, 0, LAT, LON, 12.0, 0)
            self.peer.wait("MISSION_ACK", 1.0)
        self._fences()

    def _fences(self) -> None:
        found = self.found
        poly = [
            (0, 5001, 4.0, 0, 0, 0, LAT + 2000 * a, LON + 2000 * b, 0.0)
            for a, b in ((1, 1), (1, -1), (-1, -1), (-1, 1))
        ]
        circle = (0, 5004, 10.0, 0, 0, 0, LAT + 4000, LON, 0.0)
        found["fence poly"] = self.upload(poly, 1)
        found["fence circle excl"] = self.upload([*poly, circle], 1)
        found["fence down"] = self.count(1)
        found["fence circle radius -5"] = self.upload([(0, 5003, -5.0, 0, 0, 0, LAT, LON, 0.0)], 1)
        found["fence poly of 2"] = self.upload([(0, 5001, 2.0, *item[3:]) for item in poly[:2]], 1)
        found["fence poly wrong count"] = self.upload(poly[:3], 1)
        found["fence return point"] = self.upload([(0, 5000, 0, 0, 0, 0, LAT, LON, 0.0)], 1)
        found["fence with wp cmd"] = self.upload([waypoint()], 1)
        for name, value in (("enable w/o fence", 1), ("disable", 0), ("disable floor only", 2)):
            found[f"fence {name}"] = self.command(207, value)
        rally = [waypoint(dn, command=5100) for dn in (30, -30)]
        found["rally 2"] = self.upload(rally, 2)
        found["rally down"] = self.download(2)
        found["rally 60 pts"] = self.upload(rally * 30, 2)
        found["rally far 20km"] = self.upload([waypoint(20000, command=5100)], 2)

    def _others(self) -> None:
        p, found = self.peer, self.found
        p.heard.clear()
        p.send("timesync", 0, 12345)
        found["TIMESYNC"] = str(p.wait("TIMESYNC", 1.0) is not None)
        for name, number, rate in (
            ("ATTITUDE 20Hz", 30, 20), ("GLOBAL_POSITION_INT 10Hz", 33, 10), ("ATTITUDE 50Hz", 30, 50),
            ("RAW_IMU 50Hz", 27, 50), ("GPS_RAW_INT 5Hz", 24, 5), ("ATTITUDE 200Hz", 30, 200),
        ):  # fmt: skip
            answer = self.command(511, number, 1e6 / rate)
            p.heard.clear()
            p.pass_time(3.0)
            kind = name.split()[0]
            rate_ = sum(m.get_type() == kind for m in p.heard) / 3.0
            found[f"interval {name}"] = f"{answer} got {rate_:.1f}/s"
        found["interval off ATT"] = self.command(511, 30, -1)
        p.heard.clear()
        p.pass_time(1.5)
        found["  got"] = str(sum(m.get_type() == "ATTITUDE" for m in p.heard))
        found["interval msg 9999"] = self.command(511, 9999, 1e5)
        found["get interval"] = self.command(510, 30)
        m = p.wait("MESSAGE_INTERVAL", 1.0)
        found["  MESSAGE_INTERVAL"] = str(m.interval_us if m else None)
        found["interval default ATT"] = self.command(511, 30, 0)
        self.command(511, 33, -1)
        for group in (1, 2, 3, 6, 10, 11, 12):
            for other in (1, 2, 3, 6, 10, 11, 12):
                p.send("request_data_stream", 1, 1, other, 10, int(other == group))
            p.pass_time(0.2)
            p.heard.clear()
            p.pass_time(2.0)
            kinds = [m.get_type() for m in p.heard]
            reported = {kind for kind in kinds if kinds.count(kind) >= 18}
            found[f"stream {group} at 10Hz"] = str(dict.fromkeys(sorted(reported), 10.0))
        noise = random.Random(1)
        for _ in range(600):
            p.write(bytes(noise.randrange(256) for _ in range(noise.randrange(1, 60))))
        p.pass_time(0.5)
        found["alive after 600 random"] = str(p.wait("HEARTBEAT", 3.0) is not None)
        p.heard.clear()
        p.send("ping", 0, 1, 0, 0)
        found["PING"] = str([m.seq for m in [p.wait("PING", 0.5)] if m])
        broken = bytearray(mavlink.MAVLink_command_long_message(1, 1, 512, 0, 30, 0, 0, 0, 0, 0, 0).pack(p.encoder))
        broken[-1] ^= 0xFF
        p.heard.clear()
        p.write(bytes(broken))
        found["bad crc answered"] = str(p.wait("COMMAND_ACK", 0.5) is not None)
        old = mavlink.MAVLink_command_long_message(1, 1, 512, 0, 30, 0, 0, 0, 0, 0, 0).pack(
            p.encoder, force_mavlink1=True
        )
        p.write(old)
        found["mavlink1 cmd answered"] = str(p.wait("COMMAND_ACK", 1.0) is not None)
        p.send("param_ext_request_list", 1, 1)
        found["PARAM_EXT_VALUE"] = str(int(p.wait("PARAM_EXT_VALUE", 0.5) is not None))
        found["param ext list"] = "None"
        p.send("rc_channels_override", 1, 1, 1500, 1500, 1600, *[1500] * 5)
        p.pass_time(0.3)
        self.command(512, 65)
        m = p.wait("RC_CHANNELS", 1.0)
        found["RC override seen ch3"] = str((m.chan1_raw, m.chan3_raw, m.chancount) if m else None)
        p.send("set_home_position", 1, 0, 0, 0, 0, 0, 0, [1, 0, 0, 0], 0, 0, 0)
        found["alive after odd messages"] = str(p.wait("HEARTBEAT", 3.0) is not None)
        found["cmd after truncations"] = self.command(512, 30)
        found["again"] = self.command(512, 30)
        p.heard.clear()
        for _ in range(5000):
            p.send("heartbeat", 6, 8, 0, 0, 0, 3)
        found["alive after 5000 heartbeats"] = str(p.wait("HEARTBEAT", 3.0) is not None)
        found["cmd after flood"] = self.command(512, 30)


def plain(name: str, answer: object) -> str:
    """An answer without what belongs to one flight only: texts, measured rates, order."""
    text = str(answer).split(" |")[0]
    if name == "home":
        return str([round(float(x), 3) for x in re.findall(r"-?\d+\.\d+", text)[:2]])
    if name.startswith("stream "):  # what an interval that was asked for before adds is no part of a stream
        return str(sorted(set(re.findall(r"'(\w+)'", text)) - {"GLOBAL_POSITION_INT"}))
    if name in ("download", "rally down"):  # to 10 m, as homes differ
        return re.sub(r"(38|21)\d{7}|(\d{8,9})", lambda m: str(round(int(m[0]) / 1e3)), text)
    rate = re.match(r"(ACCEPTED) got ([\d.]+)/s", text)
    return f"ACCEPTED at {round(float(rate[2]) / 5) * 5}" if rate else text


def differences(reference: Mapping[str, Any], found: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """By name: what the reference answers, and what was found, where they are not the same."""
    pairs = {name: (plain(name, reference[name]), plain(name, found[name])) for name in reference if name in found}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
