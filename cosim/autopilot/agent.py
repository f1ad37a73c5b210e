"""The program of a vehicle that is a container or namespace of its own: `python -m cosim.autopilot.agent`.

It dials the run, flies when it is granted time, lets MAVLink tools command it over the node's own
network, and sends its position to the other vehicles there. Its settings are environment variables:

    COSIM_NODE       name of its node
    COSIM_VEHICLES   address of the run, as tcp://orchestrator:5602
    COSIM_VEHICLES_KEY   file with the node's private key; none: the run asks for none
    COSIM_MAVLINK    TCP and UDP port for tools, default 5760 and 14550; 0: none
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from cosim.autopilot.core import Autopilot
from cosim.autopilot.dialect import mavlink
from cosim.autopilot.geodesy import Ground, Place
from cosim.autopilot.links import Endpoint, Endpoints
from cosim.autopilot.remote import Done, Heard, VehicleSession, flown, ground, take
from cosim.autopilot.table import Address
from cosim.contract.errors import CosimError, RunError, SetupError
from cosim.contract.supervisor import Network
from cosim.physics.vehicles import Copter, VehicleFleet
from cosim.physics.vehicles.layout import AIRFRAME, ITEM, STATE
from cosim.physics.vehicles.terrain import Terrain
from cosim.talk.keys import Key, read

log = logging.getLogger("cosim.vehicle")

BEACON = 14700  # UDP port on which vehicles exchange their positions
BEACONS = 0.2  # s of simulated time between two of them; ArduPilot's FOLLOW wants 2 to 5 Hz
SLICE = 0.02  # s of simulated time between two looks at the tools
POLL = 0.002  # s to wait for tools before the run is looked at again


@dataclass(slots=True)
class Orders:
    """Where the agent works."""

    node: str
    server: str
    tcp: int
    udp: int
    key: str = ""  # path

    @staticmethod
    def of(environment: Mapping[str, str]) -> Orders:
        """From the environment; `SetupError` for what is missing."""
        node, server = environment.get("COSIM_NODE", ""), environment.get("COSIM_VEHICLES", "")
        if not node or not server:
            raise SetupError("COSIM_NODE and COSIM_VEHICLES must say which node this is and where the run listens")
        ports = environment.get("COSIM_MAVLINK", "5760,14550").split(",")
        if not all(port.isdecimal() and int(port) < 65536 for port in ports):
            raise SetupError(f"COSIM_MAVLINK is '{','.join(ports)}'; write TCP,UDP ports, as 5760,14550, or 0")
        key = environment.get("COSIM_VEHICLES_KEY", "")
        return Orders(node, server, int(ports[0]), int(ports[1]) if len(ports) > 1 else 0, key)

    def proof(self) -> Key | None:
        """What this vehicle proves itself by. Raises `SetupError` for a file that is no key."""
        return read(Path(self.key)) if self.key else None


class Beacon:
    """Exchanges positions with other vehicles over the emulated network: GLOBAL_POSITION_INT as a broadcast."""

    def __init__(self, addresses: list[str], system: int, names: Mapping[int, str], ground: Ground) -> None:
        """`addresses` are the broadcast addresses to send to; `names` the nodes by MAVLink system."""
        self._addresses, self._names, self._ground = addresses, names, ground
        self._encoder = mavlink.MAVLink(None, srcSystem=system, srcComponent=1)
        self._parser = mavlink.MAVLink(None)
        self._parser.robust_parsing = True
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("", BEACON))
        self._socket.setblocking(False)
        self.heard: dict[str, Heard] = {}
        self._next = 0.0

    def tell(self, now: float, state: np.void) -> None:
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
        data = message.pack(self._encoder)
        self._encoder.seq = (self._encoder.seq + 1) % 256
        for address in self._addresses:
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


class Flight:
    """The vehicle of one welcome: its dynamics, its autopilot and its sockets."""

    def __init__(self, welcome: Mapping[str, Any], orders: Orders, broadcast: list[str]) -> None:
        about = welcome["about"]
        now, land = float(welcome["now"]), ground(welcome)
        self.fleet = fleet_of(welcome["airframe"], welcome["row"], welcome["items"], now, land)
        self._items = welcome["items"]
        origin = tuple(map(float, about["origin"]))
        self._stack = ExitStack()
        self.autopilot = Autopilot(
            self.fleet, 0, sysid=int(about["system"]), persona=str(about["persona"]), origin=origin,  # type: ignore[arg-type]
            ready_after=float(about.get("ready_after", 10.0)), timed=False,
        )  # fmt: skip
        names = {int(system): str(name) for name, system in about["systems"].items()}
        self.beacon = Beacon(broadcast, int(about["system"]), names, Ground(origin))  # type: ignore[arg-type]
        self._stack.callback(self.beacon.close)
        endpoint = Endpoint(
            self.autopilot,
            tcp=Address("", orders.tcp) if orders.tcp else None,
            bind=Address("", orders.udp) if orders.udp else None,
        )
        self._stack.callback(endpoint.close)
        self.endpoints = Endpoints([endpoint])

    def fly(self, grant: Mapping[str, Any]) -> Done:
        """Use the time that was granted."""
        if grant["row"]:
            take(self.fleet, 0, grant["row"], grant["items"])
            self._items = grant["items"] or self._items
        self.fleet.wind[0] = grant["wind"]
        until = float(grant["until"])
        said = [text for _, text in self.autopilot.pilot.said]
        while self.fleet.now < until - 1e-9:
            self.fleet.advance(min(self.fleet.now + SLICE, until))
            self.autopilot.watch(self.fleet.now)
            for message in self.beacon.listen():
                self.autopilot.handle(message, "network")
            self.beacon.tell(self.fleet.now, self.fleet.state[0])
            said += [text for _, text in self.autopilot.pilot.said]
            self.talk(0.0)
        row, items = flown(self.fleet, 0)
        changed, self._items = items != self._items, items
        return Done(row, items if changed else b"", self.beacon.heard, tuple(said))

    def talk(self, wait: float) -> None:
        """Exchange with the tools."""
        self.endpoints.poll(wait)
        self.endpoints.send(self.fleet.now, monotonic())

    def close(self) -> None:
        """Close the sockets; may be called twice."""
        self._stack.close()


def fleet_of(airframe: bytes, row: bytes, items: bytes, now: float, terrain: Terrain | None = None) -> VehicleFleet:
    """A fleet of the one vehicle whose records these are."""
    fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)], terrain=terrain)
    fleet.frames[:] = np.frombuffer(airframe, AIRFRAME)
    fleet.restore(np.frombuffer(row, STATE), np.frombuffer(items, ITEM), now)
    return fleet


def warm() -> None:
    """Compile the dynamics, or find them compiled."""
    VehicleFleet([Copter()], [(0.0, 0.0, 0.0)]).advance(0.1)


def serve(orders: Orders, broadcast: list[str], stopping: list[bool]) -> None:
    """Fly for the run, and for the next one after it has ended, until stopped."""
    warm()  # before anybody waits for it
    member, flight, network = (
        VehicleSession(orders.server, orders.node, key=orders.proof()),
        None,
        Network(orders.server),
    )
    try:
        while not stopping:
            if network.lost():
                raise RunError("the network interfaces are gone; to be started again with those of a new sidecar")
            message = member.turn()
            if message is None:
                if flight is None:
                    member.socket.poll(100)
                else:
                    flight.talk(POLL)
            elif message.kind == "welcome":
                if flight is not None:
                    flight.close()
                flight = Flight(message.body, orders, broadcast)
                log.info("flies for the run from %.1f s on", flight.fleet.now)
            elif message.kind == "grant" and flight is not None:
                member.done(message.number, flight.fly(message.body))
            elif message.kind == "bye" and flight is not None:
                flight.close()
                flight = None
                log.info("the run is over")
    finally:
        if flight is not None:
            flight.close()
        member.close()


def main() -> int:
    """Serve until SIGTERM or Ctrl-C: exit code 0; 2 when it cannot, 1 when its network is gone."""
    parser = argparse.ArgumentParser(prog="python -m cosim.autopilot.agent", description="Fly one vehicle of a run.")
    parser.add_argument("--warm", action="store_true", help="compile the dynamics and leave")
    parser.add_argument(
        "--broadcast", action="append", default=[], metavar="ADDRESS", help="where to tell one's position"
    )
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    if given.warm:
        warm()
        return 0
    stopping: list[bool] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.append(True))
    try:
        serve(Orders.of(os.environ), given.broadcast or ["10.171.255.255"], stopping)
    except CosimError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
