"""What every program of a vehicle that is a node of its own has: options, state and mission, and a beacon."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cosim.autopilot.dialect import FrameWriter, mavlink
from cosim.autopilot.geodesy import Ground, Place
from cosim.autopilot.remote import Heard, MemberStep, News, flown, ground, take
from cosim.contract.errors import SetupError
from cosim.physics.vehicles import Copter, VehicleFleet
from cosim.physics.vehicles.layout import AIRFRAME, ITEM, STATE
from cosim.physics.vehicles.terrain import Terrain
from cosim.talk.keys import Key, read

BEACON = 14700  # UDP port on which vehicles exchange their positions
BEACONS = 0.2  # s of simulated time between two of them; ArduPilot's FOLLOW wants 2 to 5 Hz
SLICE = 0.02  # s of simulated time between two looks at the tools


@dataclass(slots=True)
class AgentOptions:
    """Where the agent works."""

    node: str
    server: str
    tcp: int
    udp: int
    key: str = ""  # path
    program: tuple[str, ...] = ()  # a real ArduPilot and its arguments

    @staticmethod
    def of(environment: Mapping[str, str], program: Sequence[str] = ()) -> AgentOptions:
        """From the environment; `SetupError` for what is missing."""
        node, server = environment.get("COSIM_NODE", ""), environment.get("COSIM_VEHICLES", "")
        if not node or not server:
            raise SetupError("COSIM_NODE and COSIM_VEHICLES must say which node this is and where the run listens")
        ports = environment.get("COSIM_MAVLINK", "5760,14550").split(",")
        if not all(port.isdecimal() and int(port) < 65536 for port in ports):
            raise SetupError(f"COSIM_MAVLINK is '{','.join(ports)}'; write TCP,UDP ports, as 5760,14550, or 0")
        key = environment.get("COSIM_VEHICLES_KEY", "")
        return AgentOptions(node, server, int(ports[0]), int(ports[1]) if len(ports) > 1 else 0, key, tuple(program))

    def proof(self) -> Key | None:
        """What this vehicle proves itself by. Raises `SetupError` for a file that is no key."""
        return read(Path(self.key)) if self.key else None


class Beacon:
    """Exchanges positions with other vehicles over the emulated network: GLOBAL_POSITION_INT as a broadcast."""

    def __init__(self, addresses: list[str], system: int, names: Mapping[int, str], ground: Ground) -> None:
        """`addresses` are the broadcast addresses to send to; `names` the nodes by MAVLink system."""
        self._addresses, self._names, self._ground = addresses, names, ground
        self._encoder = FrameWriter(system)
        self._parser = mavlink.MAVLink(None)
        self._parser.robust_parsing = True
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("", BEACON))
        self._socket.setblocking(False)
        self.heard: dict[str, Heard] = {}
        self._next = 0.0

    def announce(self, now: float, state: np.void) -> None:
        """Send this vehicle's position, if it is time to."""
        if now < self._next:
            return
        self._next = now + BEACONS
        place = self._ground.place(float(state["x"]), float(state["y"]), float(state["z"]))
        height = float(state["z"] - state["home_z"])
        message = mavlink.MAVLink_global_position_int_message(
            round(now * 1e3), round(place.latitude * 1e7), round(place.longitude * 1e7), round(place.altitude * 1e3),
            round(height * 1e3), round(float(state["vy"]) * 100), round(float(state["vx"]) * 100),
            round(-float(state["vz"]) * 100), round(float(np.degrees(state["heading"])) % 360.0 * 100) % 36000,
        )  # fmt: skip
        data = self._encoder.frame(message)
        for address in self._addresses if data else ():
            with suppress(OSError):  # no interface yet, or its queue is full: as on the air
                self._socket.sendto(data, (address, BEACON))

    def listen(self) -> list[Any]:
        """Receive the positions of the others; return the messages."""
        found = []
        for _ in range(256):
            try:
                data, _ = self._socket.recvfrom(2048)
            except BlockingIOError:
                break
            for message in self._parser.parse_buffer(data) or ():
                name = self._names.get(message.get_srcSystem())
                if name is None or message.get_type() != "GLOBAL_POSITION_INT":
                    continue
                if message.get_srcSystem() == self._encoder.srcSystem:
                    continue
                x, y, z = self._ground.local(Place(message.lat / 1e7, message.lon / 1e7, message.alt / 1e3))
                speeds = (message.vy / 100.0, message.vx / 100.0, -message.vz / 100.0)
                heading = math.radians(message.hdg / 100.0)
                self.heard[name] = (message.time_boot_ms / 1e3, x, y, z, *speeds, heading)
                found.append(message)
        return found

    def close(self) -> None:
        """Be silent."""
        self._socket.close()


class MemberFlight:
    """The vehicle of one welcome: its state, its mission and its beacon."""

    def __init__(self, welcome: Mapping[str, Any], broadcast: list[str]) -> None:
        about = welcome["about"]
        self.fleet = fleet_of(
            welcome["airframe"], welcome["row"], welcome["items"], float(welcome["now"]), ground(welcome)
        )
        self._items = welcome["items"]
        self.origin: tuple[float, float, float] = tuple(map(float, about["origin"]))  # type: ignore[assignment]
        self.system = int(about["system"])
        self._stack = ExitStack()
        names = {int(system): str(name) for name, system in about["systems"].items()}
        self.beacon = Beacon(broadcast, self.system, names, Ground(self.origin))
        self._stack.callback(self.beacon.close)

    def close(self) -> None:
        """Release everything; may be called twice."""
        self._stack.close()

    def _begin(self, grant: Mapping[str, Any]) -> float:
        """Take over what a grant has; until when it is (s)."""
        if grant["row"]:
            take(self.fleet, 0, grant["row"], grant["items"])
            self._items = grant["items"] or self._items
        self.fleet.wind[0] = grant["wind"]
        return float(grant["until"])

    def _step(self, said: Sequence[str], unready: bool = False, news: Sequence[News] = ()) -> MemberStep:
        row, items = flown(self.fleet, 0)
        changed, self._items = items != self._items, items
        return MemberStep(row, items if changed else b"", self.beacon.heard, tuple(said), unready, tuple(news))


def fleet_of(airframe: bytes, row: bytes, items: bytes, now: float, terrain: Terrain | None = None) -> VehicleFleet:
    """A fleet of the one vehicle whose records these are."""
    fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)], terrain=terrain)
    fleet.frames[:] = np.frombuffer(airframe, AIRFRAME)
    fleet.restore(np.frombuffer(row, STATE), np.frombuffer(items, ITEM), now)
    return fleet
