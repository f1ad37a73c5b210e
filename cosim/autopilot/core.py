"""The MAVLink face of one vehicle: bytes in, bytes out, no sockets and no clock of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path

from cosim.autopilot import commands, guided
from cosim.autopilot.dataflash import DataflashLogs
from cosim.autopilot.dialect import FrameWriter, Message, mavlink, note
from cosim.autopilot.equipment import Equipment
from cosim.autopilot.flight import LOCATED, MissionItem
from cosim.autopilot.follow import FollowTarget
from cosim.autopilot.ftp import PACKED, Files
from cosim.autopilot.geodesy import Ground, Place
from cosim.autopilot.missions import Missions
from cosim.autopilot.parameters import Parameters
from cosim.autopilot.personas import persona as find_persona
from cosim.autopilot.pilot import Pilot
from cosim.autopilot.signing import Parser, SigningKey
from cosim.autopilot.sticks import Sticks
from cosim.autopilot.streams import DEFAULT, GROUPS, Streams
from cosim.autopilot.telemetry import ARDUPILOT_ONLY, BUILDERS, PX4_ONLY, heartbeat
from cosim.physics.vehicles import VehicleFleet, layout

EPOCH = 1_700_000_000.0  # s since 1970 that simulated time 0 stands for in time fields
_LOOK = 0.1  # s of simulated time between two looks at the vehicle
_PERIOD = 1.0  # s between heartbeats, on either clock, unless another period is requested
_SELDOM = 60.0  # s, longest time between heartbeats that may be asked for
_SLICE = 10  # queued messages sent at a time, as ArduPilot does with parameters
_PAUSE = 0.01  # s of wall time between two such slices

Tap = Callable[[float, int, bytes], None]


@dataclass(slots=True)
class _Link:
    parser: Message
    encoder: FrameWriter
    files: Files
    parameters: list[str] = field(default_factory=list)  # still to be sent
    listing: bool = False  # whether a burst of a file is under way


class Autopilot:
    """One vehicle of a fleet as MAVLink tools see it.

        autopilot = Autopilot(fleet, 0, sysid=1, persona="ardupilot", origin=(38.2, 21.7, 60.0))
        autopilot.receive(data, link)                          # bytes from a peer
        for link, data in autopilot.emit(fleet.now, wall): ...  # bytes to be sent

    A link is any hashable object that stands for one peer. Simulated time is the fleet's; `wall` is any
    clock in s that runs while the simulation does not, for heartbeats and to bound telemetry. Orders
    take effect at the fleet's next step.
    """

    def __init__(
        self,
        fleet: VehicleFleet,
        row: int,
        *,
        sysid: int = 1,
        persona: str = "ardupilot",
        origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
        ready_after: float = 10.0,
        epoch: float = EPOCH,
        tap: Tap | None = None,
        timed: bool = True,
        logs: Path | None = None,
    ) -> None:
        """`origin`: deg, deg, m of the fleet's (0, 0, 0). `ready_after`: s until position and attitude are known.

        `timed`: whether a copter arms, takes off, turns and disarms in the time of a real one. The vehicles of a
        scenario do not: with and without an autopilot's program they fly as their airframe specifies.

        `logs`: a folder for the dataflash logs that ArduPilot writes; without one they end with this object.

        `tap(now, sysid, frame)` sees every message that the vehicle acts on.
        """
        if not 1 <= sysid <= 254:
            raise ValueError(f"system id {sysid}: expected 1..254")
        frame = "copter" if fleet.frames["kind"][row] == layout.COPTER else "rover"
        self.sysid, self.epoch = sysid, epoch
        self.persona = find_persona(persona, frame)
        self.parameters = Parameters(self.persona)
        self.parameters.set("MAV_SYS_ID" if self.persona.px4 else "SYSID_THISMAV", sysid)
        self.pilot = Pilot(fleet, row, self.persona, Ground(origin), self.parameters, ready_after, timed)
        self.start = self.pilot.home  # m, local: origin of local positions
        self.streams = Streams(fleet.now, ARDUPILOT_ONLY if self.persona.px4 else PX4_ONLY)
        self.wall = 0.0  # s, of the last `emit`
        self.place = self.pilot.place()
        self._missions = Missions(self)
        self._follow = FollowTarget(self.pilot)
        self.equipment = Equipment(self)
        self.sticks = Sticks(self.pilot)
        self.setpoints = guided.Setpoints(self.pilot, self.start)
        self.pilot.perform = self._perform
        self.logs = DataflashLogs(self, logs)
        if not self.persona.px4:
            self.pilot.log = self.logs.say
        self._links: dict[Hashable, _Link] = {}
        self._key = SigningKey()
        self._out: list[tuple[Hashable, bytes]] = []
        self._busy = False  # whether a queue of a link is not empty
        self.period = _PERIOD  # s between heartbeats
        self._companions: set[int] = set()  # other components of this system that were heard
        self._beat = self._sliced = -math.inf  # s of wall time
        self._next_beat = self._next_look = fleet.now  # s
        self._tap = tap
        self.troubles: Counter[str] = Counter()  # what was wrong with messages of its own, and how often

    @property
    def now(self) -> float:
        """s since the autopilot was switched on."""
        return self.pilot.fleet.now - self.pilot.boot

    @property
    def banner(self) -> str:
        """What it says of itself."""
        return f"Ardu{self.persona.frame.title()} V4.6.0-dev (emulated by cosim)"

    @property
    def boot_ms(self) -> int:
        """`now` as messages have it."""
        return round(1000.0 * self.now) & 0xFFFFFFFF

    def connect(self, link: Hashable) -> None:
        """Send to `link` from now on. `receive` connects by itself."""
        if link not in self._links:
            encoder = FrameWriter(self.sysid, troubles=self.troubles)
            parser = Parser()
            self._links[link] = _Link(parser, encoder, Files(self._read_file))
            if self._key.secret is not None:
                self._key.apply(parser, encoder, len(self._links))
            self._beat = -math.inf  # a new peer hears a heartbeat at once

    def disconnect(self, link: Hashable) -> None:
        """Forget a link."""
        self._links.pop(link, None)
        self.logs.forget(link)
        self._out = [(to, data) for to, data in self._out if to != link]

    def receive(self, data: bytes, link: Hashable) -> None:
        """Take bytes that came over `link`: any part of a stream of MAVLink 1 or 2 frames."""
        self.connect(link)
        for message in self._links[link].parser.parse_buffer(data) or ():
            if message.get_type() != "BAD_DATA":
                self.handle(message, link)
            elif self._key.secret is not None and "signature" in str(message.reason):
                self.setpoints.refuse("a frame that is not signed with the key")

    def handle(self, message: Message, link: Hashable) -> None:
        """Act on a decoded message, if it is for this vehicle: target 0 is for all systems."""
        target = getattr(message, "target_system", getattr(message, "target", None))
        if target not in (None, 0, self.sysid) or not self._takes(getattr(message, "target_component", 0)):
            return
        if message.get_srcSystem() == self.sysid:
            if message.get_srcComponent() == 1:
                return  # its own, sent back
            self._companions.add(message.get_srcComponent())
        kind = message.get_type()
        handler = _HANDLERS.get(kind)
        if handler is None and not kind.startswith("MISSION_"):
            if kind in _ORDERS or (target is not None and (target or kind not in _NEWS) and kind not in _ANSWERS):
                self.setpoints.refuse(f"{kind} not emulated")
            return
        if self._tap is not None and kind not in _UNLOGGED:
            self._tap(self.pilot.fleet.now, self.sysid, bytes(message.get_msgbuf()))
        if handler is not None:
            handler(self, message, link)
        else:
            self._missions.handle(message, link)

    def _takes(self, component: int) -> bool:
        """Whether it is the addressee. ArduPilot also answers for components of its system that have sent nothing."""
        return component in (0, 1) or not (self.persona.px4 or component in self._companions)

    def beat(self, period: float) -> bool:
        """Send heartbeats every `period` s; False when that is no time between them."""
        if not 0.0 < period <= _SELDOM:
            return False
        self.period, self._next_beat = max(period, 0.02), self.pilot.fleet.now
        return True

    def watch(self, now: float) -> None:
        """Let the autopilot look after its vehicle: mission, fence, fail-safes.

        `emit` does so, too. To repeat a flight exactly, call it after every step of the fleet, since
        `emit` is called when the wall clock allows.
        """
        if now >= self._next_look:
            self._next_look = now + _LOOK
            self.pilot.safe = self.equipment.safe
            self.pilot.update()
            self._follow.update()
            self.sticks.update()
            self.equipment.update()
            if not self.persona.px4:
                self.logs.update()

    def emit(self, now: float, wall: float) -> list[tuple[Hashable, bytes]]:
        """What is to be sent now, by link. `now` s is the fleet's time, `wall` s any steady clock."""
        self.wall = wall
        self.watch(now)
        pilot, due = self.pilot, self.streams.ready(now)
        news = pilot.changed or pilot.said or pilot.mission.reached
        beats = wall - self._beat >= self.period
        beats |= now >= self._next_beat - 1e-9 and wall - self._beat >= min(0.1, 0.8 * self.period)
        if not (due or news or self._busy or self._out or beats):
            return []
        pilot.view = pilot.look()
        if self._links:
            self._report_events()
            # a client's patience is wall time: heartbeats go on when simulated time stands still
            if pilot.changed or beats:
                pilot.changed = False
                self._beat = wall
                if now >= self._next_beat - 1e-9:
                    self._next_beat = max(self._next_beat + self.period, now)
                self.broadcast(heartbeat(self))
            if due:
                self._send_streams(now, wall)
            self._send_queued(wall)
            self._missions.remind(wall)
        out, self._out = self._out, []
        return out

    def reply(self, link: Hashable, message: Message) -> None:
        """Send `message` over one link."""
        to = self._links.get(link)
        if to is None:
            return
        data = to.encoder.frame(message)
        if data:
            self._out.append((link, data))

    def broadcast(self, message: Message) -> None:
        """Send `message` over all links; those that are not signed differ in their number only."""
        made = b""
        for link, to in self._links.items():
            if not made or to.encoder.signing.sign_outgoing:
                made = to.encoder.frame(message)
                if not made:
                    return
                self._out.append((link, made))
                made = b"" if to.encoder.signing.sign_outgoing else made
            else:
                self._out.append((link, _numbered(made, to.encoder.seq, message.crc_extra)))
                to.encoder.seq = (to.encoder.seq + 1) % 256

    def _build(self, number: int) -> Message | None:
        """The message with this number; None where there is none, or where the state cannot be put into one."""
        try:
            return BUILDERS[number](self)
        except (ValueError, OverflowError) as error:
            note(self.troubles, self.sysid, f"message {number} cannot be built and is left out: {error}")
            return None

    def knows(self, message: int) -> bool:
        """Whether it can send the message with this number."""
        return message in BUILDERS and message not in (ARDUPILOT_ONLY if self.persona.px4 else PX4_ONLY)

    def send_now(self, message: int, link: Hashable = None) -> bool:
        """Send the message with this number at once, to all when no link is given; False if it is not known."""
        if message not in BUILDERS:
            return False
        self.pilot.view = self.pilot.look()
        self.place = self.pilot.place()
        built = self._build(message)
        if built is None:
            return False
        if link is None:
            self.broadcast(built)
        else:
            self.reply(link, built)
        return True

    def set_rate(self, message: int, rate: float | None) -> None:
        """Send a message at `rate` Hz, 0: never, None: as at the start."""
        self.streams.set(message, DEFAULT.get(message, 0.0) if rate is None else rate, self.pilot.fleet.now)

    def _send_streams(self, now: float, wall: float) -> None:
        due = self.streams.due(now, wall)
        if due:
            self.place = self.pilot.place()
        for number in due:
            message = self._build(number)
            if message is not None:
                self.broadcast(message)

    def _report_events(self) -> None:
        pilot = self.pilot
        for severity, text in pilot.said:
            self.broadcast(mavlink.MAVLink_statustext_message(severity, text.encode("ascii", "replace")[:50]))
        pilot.said.clear()
        for seq in pilot.mission.reached:
            self.broadcast(mavlink.MAVLink_mission_item_reached_message(seq))
            self.send_now(42)
        pilot.mission.reached.clear()

    def _send_queued(self, wall: float) -> None:
        if not self._busy or wall - self._sliced < _PAUSE:
            return
        self._sliced, self._busy = wall, False
        for link, to in self._links.items():
            for name in to.parameters[:_SLICE]:
                self._report_parameter(name, link)
            del to.parameters[:_SLICE]
            for _ in range(_SLICE if to.listing else 0):
                payload = to.files.more()
                to.listing = payload is not None
                if payload is None:
                    break
                self._send_file(payload, link)
            self._busy |= bool(to.parameters) or to.listing
        self.logs.send()
        self._busy |= self.logs.sending

    # -- messages

    def _command(self, message: Message, link: Hashable) -> None:
        result = commands.execute(self, commands.read(message, link))
        system, component = message.get_srcSystem(), message.get_srcComponent()
        self.reply(link, mavlink.MAVLink_command_ack_message(message.command, result, 0, 0, system, component))

    def _perform(self, item: MissionItem) -> None:
        """Carry out a command of the mission, and report its failure."""
        scale = 1e7 if item.command in LOCATED else 1.0
        params = (item.param1, item.param2, item.param3, item.param4)
        order = commands.Order(item.command, params, item.x / scale, item.y / scale, item.z, item.frame, None)
        if commands.execute(self, order) != commands.ACCEPTED:
            self.pilot.say(4, f"Mission: command {item.command} failed")

    def _set_mode(self, message: Message, link: Hashable) -> None:
        name = self.persona.named(message.custom_mode)
        if not message.base_mode & mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED:
            reason: str | None = "a mode without MAV_MODE_FLAG_CUSTOM_MODE_ENABLED"
            ack = commands.DENIED
        else:
            reason = "no such mode" if name is None else self.pilot.set_mode(name)
            ack = commands.ACCEPTED if reason is None else commands.FAILED
        if reason:
            self.pilot.say(4, reason[:50])
        self.reply(link, mavlink.MAVLink_command_ack_message(11, ack))  # ArduPilot acknowledges the message, too
        self.pilot.changed = True

    def _override(self, message: Message, link: Hashable) -> None:
        """Sticks: ArduPilot takes them from its own ground station only, and hears it by them."""
        if not self.persona.px4:
            if message.get_srcSystem() != self._station():
                self.setpoints.refuse(f"sticks of {message.get_srcSystem()}, which is not SYSID_MYGCS")
                return
            if message.get_type() == "MANUAL_CONTROL" and message.z < 0 and self.persona.frame == "copter":
                self.setpoints.refuse("a throttle below 0")
                return
            self.pilot.failsafes.hear_station(self.pilot)
        self.sticks.override(message)

    def _station(self) -> int:
        """System id of ArduPilot's ground station."""
        return int(self.parameters.get("SYSID_MYGCS", 255))

    def _heartbeat(self, message: Message, link: Hashable) -> None:
        """Ground stations are heard by theirs: fail-safes count the time since."""
        ours = message.type == mavlink.MAV_TYPE_GCS if self.persona.px4 else message.get_srcSystem() == self._station()
        if ours:
            self.pilot.failsafes.hear_station(self.pilot)

    def _timesync(self, message: Message, link: Hashable) -> None:
        if message.tc1 == 0:
            self.reply(link, mavlink.MAVLink_timesync_message(round((self.epoch + self.now) * 1e9), message.ts1))

    def _ping(self, message: Message, link: Hashable) -> None:
        if message.target_system == 0:
            system, component = message.get_srcSystem(), message.get_srcComponent()
            self.reply(link, mavlink.MAVLink_ping_message(message.time_usec, message.seq, system, component))

    def _data_stream(self, message: Message, link: Hashable) -> None:
        rate = float(message.req_message_rate) if message.start_stop else 0.0
        for number in GROUPS.get(message.req_stream_id, ()):
            if not self.knows(number):
                continue
            # a group's slow messages stay slow: home is not asked for at 10 Hz
            self.set_rate(number, min(rate, DEFAULT[number]) if number in _SLOW else rate)

    def _list_parameters(self, message: Message, link: Hashable) -> None:
        self._links[link].parameters = list(self.parameters.names)
        self._busy = True

    def _read_parameter(self, message: Message, link: Hashable) -> None:
        name = message.param_id
        if message.param_index >= 0:
            name = self.parameters.names[message.param_index] if message.param_index < len(self.parameters) else ""
        if name in self.parameters:
            self._report_parameter(name, link)
        else:
            self.setpoints.refuse(f"no parameter {name or message.param_index}")

    def _set_parameter(self, message: Message, link: Hashable) -> None:
        name = message.param_id
        if name not in self.parameters:
            self.setpoints.refuse(f"no parameter {name}")
            return
        if self.persona.px4 and message.param_type != self.parameters.wire(name)[1]:
            self.setpoints.refuse(f"{name} has another type")
            return
        if not self.persona.px4 and not math.isfinite(message.param_value):
            self.setpoints.refuse(f"{name}: not a number")
            return
        if self.parameters.set(name, self.parameters.read(name, message.param_value)):
            self.pilot.tune(name)
            self.logs.parameter(name)
        for other in self._links:
            self._report_parameter(name, other)

    def _report_parameter(self, name: str, link: Hashable) -> None:
        value, kind = self.parameters.wire(name)
        count, index = len(self.parameters), self.parameters.index(name)
        self.reply(link, mavlink.MAVLink_param_value_message(name.encode(), value, kind, count, index))

    def _file(self, message: Message, link: Hashable) -> None:
        to = self._links[link]
        answer = to.files.answer(bytes(message.payload))
        if answer is None:
            to.listing = self._busy = True
        else:
            self._send_file(answer, link, message.get_srcSystem(), message.get_srcComponent())

    def _send_file(self, payload: bytes, link: Hashable, system: int = 0, component: int = 0) -> None:
        self.reply(link, mavlink.MAVLink_file_transfer_protocol_message(0, system, component, list(payload)))

    def _read_file(self, name: str) -> bytes | None:
        path, _, options = name.partition("?")
        if path != PACKED or self.persona.px4:
            return None
        return self.parameters.packed("withdefaults=1" in options)

    def _hand_out_logs(self, message: Message, link: Hashable) -> None:
        if self.persona.px4 and message.get_type() == "LOG_ERASE":
            self.setpoints.refuse("LOG_ERASE not emulated")
            return
        self.logs.handle(message, link)
        self._busy |= self.logs.sending

    def _set_key(self, message: Message, link: Hashable) -> None:
        if self.pilot.look().armed:
            self.setpoints.refuse("a key for signing while armed")
            return
        self._key.set(message)
        for number, to in enumerate(self._links.values(), 1):
            self._key.apply(to.parser, to.encoder, number)
        self.pilot.say(6, f"Signing {'off' if self._key.secret is None else 'on'}")

    def _position_of_other(self, message: Message, link: Hashable) -> None:
        self._follow.position(message)
        self.equipment.saw(message.get_srcSystem(), Place(message.lat / 1e7, message.lon / 1e7, message.alt / 1e3))

    def _report_version(self, message: Message, link: Hashable) -> None:
        self.send_now(mavlink.MAVLINK_MSG_ID_AUTOPILOT_VERSION, link)


def _numbered(frame: bytes, number: int, extra: int) -> bytes:
    """A frame of MAVLink 2 without a signature, with another sequence number and its check sum (`extra`: CRC_EXTRA)."""
    inside = frame[1:4] + bytes((number,)) + frame[5:-2]
    check: int = mavlink.x25crc(inside + bytes((extra,))).crc
    return frame[:1] + inside + check.to_bytes(2, "little")


# Messages without a target or an acknowledgement that are not carried out. A text reports them, as it reports all
# others that name this system or all systems.
_ORDERS = {
    "LANDING_TARGET", "MANUAL_SETPOINT", "ODOMETRY", "GPS_INPUT", "VISION_POSITION_ESTIMATE", "VISION_SPEED_ESTIMATE",
    "GLOBAL_VISION_POSITION_ESTIMATE", "VICON_POSITION_ESTIMATE", "ATT_POS_MOCAP", "OBSTACLE_DISTANCE",
    "OBSTACLE_DISTANCE_3D", "DISTANCE_SENSOR", "OPTICAL_FLOW", "OPTICAL_FLOW_RAD", "SERIAL_CONTROL", "WIFI_CONFIG_AP",
    "HIL_CONTROLS", "HIL_ACTUATOR_CONTROLS", "HIL_GPS", "HIL_SENSOR", "HIL_STATE", "HIL_STATE_QUATERNION",
    "TRAJECTORY_REPRESENTATION_WAYPOINTS", "TRAJECTORY_REPRESENTATION_BEZIER", "TERRAIN_CHECK",
    "DATA_TRANSMISSION_HANDSHAKE",
}  # fmt: skip
# Broadcasts in which others describe themselves.
_NEWS = {
    "MOUNT_STATUS", "TUNNEL", "V2_EXTENSION", "GIMBAL_DEVICE_ATTITUDE_STATUS", "AUTOPILOT_STATE_FOR_GIMBAL_DEVICE",
    "SUPPORTED_TUNES", "OPEN_DRONE_ID_BASIC_ID", "OPEN_DRONE_ID_LOCATION", "OPEN_DRONE_ID_AUTHENTICATION",
    "OPEN_DRONE_ID_SELF_ID", "OPEN_DRONE_ID_SYSTEM", "OPEN_DRONE_ID_OPERATOR_ID", "OPEN_DRONE_ID_MESSAGE_PACK",
}  # fmt: skip
_ANSWERS = {"COMMAND_ACK", "LOGGING_ACK", "GPS_INJECT_DATA", "TERRAIN_DATA"}  # they ask for nothing
_SLOW = {mavlink.MAVLINK_MSG_ID_HOME_POSITION, mavlink.MAVLINK_MSG_ID_EXTENDED_SYS_STATE}
_UNLOGGED = {
    "HEARTBEAT", "LOG_REQUEST_LIST", "LOG_REQUEST_DATA", "LOG_REQUEST_END", "LOG_ERASE", "SETUP_SIGNING", "TIMESYNC",
    "PING", "FILE_TRANSFER_PROTOCOL", "PARAM_REQUEST_LIST", "PARAM_REQUEST_READ",
}  # fmt: skip
_HANDLERS: dict[str, Callable[[Autopilot, Message, Hashable], None]] = {
    "COMMAND_LONG": Autopilot._command,
    "COMMAND_INT": Autopilot._command,
    "SET_MODE": Autopilot._set_mode,
    "SET_POSITION_TARGET_GLOBAL_INT": lambda a, message, _: a.setpoints.take(message),
    "SET_POSITION_TARGET_LOCAL_NED": lambda a, message, _: a.setpoints.take(message),
    "SET_ATTITUDE_TARGET": lambda a, message, _: a.setpoints.take(message),
    "RC_CHANNELS_OVERRIDE": Autopilot._override,
    "MANUAL_CONTROL": Autopilot._override,
    "HEARTBEAT": Autopilot._heartbeat,
    "AUTOPILOT_VERSION_REQUEST": Autopilot._report_version,
    "TIMESYNC": Autopilot._timesync,
    "PING": Autopilot._ping,
    "REQUEST_DATA_STREAM": Autopilot._data_stream,
    "PARAM_REQUEST_LIST": Autopilot._list_parameters,
    "PARAM_REQUEST_READ": Autopilot._read_parameter,
    "PARAM_SET": Autopilot._set_parameter,
    "FILE_TRANSFER_PROTOCOL": Autopilot._file,
    "LOG_REQUEST_LIST": Autopilot._hand_out_logs,
    "LOG_REQUEST_DATA": Autopilot._hand_out_logs,
    "LOG_REQUEST_END": Autopilot._hand_out_logs,
    "LOG_ERASE": Autopilot._hand_out_logs,
    "SETUP_SIGNING": Autopilot._set_key,
    "GLOBAL_POSITION_INT": Autopilot._position_of_other,
    "FOLLOW_TARGET": lambda a, message, _: a._follow.target(message),
}
