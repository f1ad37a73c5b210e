"""External vehicles: any MAVLink end that is listened to, a real drone or a simulator with its own physics."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from cosim.autopilot.dialect import FrameWriter, Message, mavlink, numbers
from cosim.autopilot.geodesy import Place, Vector
from cosim.autopilot.table import Address
from cosim.contract.errors import SetupError

LOST = 5.0  # s of wall time without a heartbeat after which a vehicle counts as lost
_DATAGRAMS = 256  # taken in one call
_PERIOD = 1.0  # s between our heartbeats, so that the other side goes on sending


@dataclass(slots=True)
class VehicleReading:
    """The last values heard of one vehicle. NaN and -1: not reported yet."""

    sysid: int
    heard: float  # s of wall time, last message
    beat: float = -math.inf  # s of wall time, last heartbeat
    autopilot: int = -1  # MAV_AUTOPILOT
    kind: int = -1  # MAV_TYPE
    custom_mode: int = -1
    armed: bool = False
    place: Place | None = None
    above: float = math.nan  # m above its home
    velocity: Vector = (math.nan, math.nan, math.nan)  # m/s east, north, up
    attitude: Vector = (math.nan, math.nan, math.nan)  # rad: roll, pitch, heading
    voltage: float = math.nan  # V
    current: float = math.nan  # A
    charge: float = math.nan  # 0..1
    boot: float = math.nan  # s since it was switched on, of its last position

    def lost(self, wall: float) -> bool:
        """Whether its heartbeats have ceased."""
        return wall - self.beat > LOST


def _heartbeat(r: VehicleReading, m: Message, wall: float) -> None:
    if m.autopilot == mavlink.MAV_AUTOPILOT_INVALID:
        return  # a ground station or a gimbal
    r.beat, r.autopilot, r.kind, r.custom_mode = wall, m.autopilot, m.type, m.custom_mode
    r.armed = bool(m.base_mode & mavlink.MAV_MODE_FLAG_SAFETY_ARMED)


def _position(r: VehicleReading, m: Message, _: float) -> None:
    if m.lat == 0 and m.lon == 0:
        return  # what autopilots send before they know
    r.place = Place(m.lat / 1e7, m.lon / 1e7, m.alt / 1e3)
    r.above, r.boot = m.relative_alt / 1e3, m.time_boot_ms / 1e3
    r.velocity = (m.vy / 100.0, m.vx / 100.0, -m.vz / 100.0)


def _attitude(r: VehicleReading, m: Message, _: float) -> None:
    r.attitude = (m.roll, m.pitch, m.yaw)


def _status(r: VehicleReading, m: Message, _: float) -> None:
    r.voltage = m.voltage_battery / 1e3 if m.voltage_battery != 65535 else math.nan
    r.current = m.current_battery / 100.0 if m.current_battery >= 0 else math.nan
    r.charge = m.battery_remaining / 100.0 if m.battery_remaining >= 0 else math.nan


_TAKERS: dict[str, Callable[[VehicleReading, Message, float], None]] = {
    "HEARTBEAT": _heartbeat,
    "GLOBAL_POSITION_INT": _position,
    "ATTITUDE": _attitude,
    "SYS_STATUS": _status,
}


class External:
    """Listens to vehicles at a UDP port, or as the client of a TCP server. Wall clock only."""

    def __init__(self, udp: Address | None = None, tcp: Address | None = None, patience: float = 5.0) -> None:
        """One of the two; `patience`: s to wait for the TCP server."""
        if (udp is None) == (tcp is None):
            raise ValueError("an external vehicle is reached by UDP or by TCP: give one of the two")
        self.vehicles: dict[int, VehicleReading] = {}
        self._tcp = tcp is not None
        self._decoders: dict[object, Message] = {}
        self._peers: set[tuple[str, int]] = set()
        self._encoder = FrameWriter(255, mavlink.MAV_COMP_ID_MISSIONPLANNER)
        self._beat = -math.inf
        made: socket.socket | None = None
        try:
            if tcp is not None:
                made = socket.create_connection(tcp, patience)
            else:
                made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                made.bind(udp)  # type: ignore[arg-type]  # one of the two is given
        except OSError as error:
            if made is not None:
                made.close()
            where = f"connect to TCP {tcp}" if tcp is not None else f"listen at UDP {udp}"
            raise SetupError(f"cannot {where}: {error}; start the autopilot first, or correct the address") from None
        made.setblocking(False)
        self._socket = made
        self.ended = False  # whether a TCP server has gone

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    def poll(self, wall: float) -> None:
        """Read what has arrived, and announce a listener to the other side once a second."""
        for _ in range(_DATAGRAMS):
            peer: tuple[str, int] | None = None
            try:
                if self._tcp:
                    data = self._socket.recv(65536)
                    if not data:
                        self.ended = True
                        break
                else:
                    data, peer = self._socket.recvfrom(65536)
                    self._peers.add(peer)
            except BlockingIOError:
                break
            except OSError:
                self.ended = self._tcp
                break
            self._take(data, peer, wall)
        if wall - self._beat >= _PERIOD:
            self._beat = wall
            self._send(mavlink.MAVLink_heartbeat_message(6, 8, 0, 0, 4, 3))  # a ground station

    def _take(self, data: bytes, peer: object, wall: float) -> None:
        decoder = self._decoders.get(peer)
        if decoder is None:
            decoder = self._decoders[peer] = mavlink.MAVLink(None)
            decoder.robust_parsing = True
        for message in decoder.parse_buffer(data) or ():
            taker = _TAKERS.get(message.get_type())
            if taker is None or message.get_srcComponent() != 1:
                continue
            reading = self.vehicles.get(message.get_srcSystem())
            if reading is None:
                reading = self.vehicles[message.get_srcSystem()] = VehicleReading(message.get_srcSystem(), wall)
                self._ask(reading.sysid)
            reading.heard = wall
            taker(reading, message, wall)

    def _ask(self, sysid: int) -> None:
        """A new vehicle: ask for what we read, 10 times a second."""
        status = mavlink.MAVLINK_MSG_ID_SYS_STATUS
        for number in (*numbers("GLOBAL_POSITION_INT ATTITUDE"), status):
            period = 1e5 if number != status else 1e6  # us
            ask = mavlink.MAV_CMD_SET_MESSAGE_INTERVAL
            self._send(mavlink.MAVLink_command_long_message(sysid, 1, ask, 0, number, period, 0, 0, 0, 0, 0))

    def _send(self, message: Message) -> None:
        data = self._encoder.frame(message)
        if not data:
            return
        with suppress(OSError):  # as on the air
            if self._tcp:
                self._socket.send(data)
            for peer in self._peers:
                self._socket.sendto(data, peer)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
