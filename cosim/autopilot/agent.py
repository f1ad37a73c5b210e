"""The program of a vehicle that is a container or namespace of its own: `python -m cosim.autopilot.agent`.

It dials the run, flies when it is granted time, lets MAVLink tools command it over the node's own
network, and sends its position to the other vehicles there. Its settings are environment variables:

    COSIM_NODE       name of its node
    COSIM_VEHICLES   address of the run, as tcp://orchestrator:5602
    COSIM_VEHICLES_KEY   file with the node's private key; none: the run asks for none
    COSIM_MAVLINK    TCP and UDP port for tools, default 5760 and 14550; 0: none

With `--ardupilot PROGRAM ARGUMENTS...` that program flies instead of our autopilot: `cosim.autopilot.aboard`.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping
from time import monotonic
from typing import Any

import numpy as np

from cosim.autopilot.aboard import AboardFlight
from cosim.autopilot.core import Autopilot
from cosim.autopilot.links import Endpoint, LinkEndpoints
from cosim.autopilot.member import SLICE, AgentOptions, MemberFlight
from cosim.autopilot.remote import MemberStep, VehicleSession
from cosim.autopilot.table import Address
from cosim.contract.errors import CosimError, RunError, SetupError
from cosim.contract.supervisor import Network
from cosim.physics.vehicles import Copter, VehicleFleet
from cosim.physics.vehicles.driven import Driven

log = logging.getLogger("cosim.vehicle")

POLL = 0.002  # s to wait for tools before the run is looked at again


class AgentFlight(MemberFlight):
    """A vehicle that our autopilot flies, with its sockets for tools."""

    def __init__(self, welcome: Mapping[str, Any], orders: AgentOptions, broadcast: list[str]) -> None:
        super().__init__(welcome, broadcast)
        about = welcome["about"]
        self.autopilot = Autopilot(
            self.fleet, 0, sysid=self.system, persona=str(about["persona"]), origin=self.origin,
            ready_after=float(about.get("ready_after", 10.0)), timed=False,
        )  # fmt: skip
        endpoint = Endpoint(
            self.autopilot,
            tcp=Address("", orders.tcp) if orders.tcp else None,
            bind=Address("", orders.udp) if orders.udp else None,
        )
        self._stack.callback(endpoint.close)
        self.endpoints = LinkEndpoints([endpoint])

    def fly(self, grant: Mapping[str, Any]) -> MemberStep:
        """Use the time that was granted."""
        until = self._begin(grant)
        said = [text for _, text in self.autopilot.pilot.said]
        while self.fleet.now < until - 1e-9:
            self.fleet.advance(min(self.fleet.now + SLICE, until))
            self.autopilot.watch(self.fleet.now)
            for message in self.beacon.listen():
                self.autopilot.handle(message, "network")
            self.beacon.announce(self.fleet.now, self.fleet.state[0])
            said += [text for _, text in self.autopilot.pilot.said]
            self.talk(0.0)
        return self._step(said)

    def talk(self, wait: float) -> None:
        """Exchange with the tools."""
        self.endpoints.poll(wait)
        self.endpoints.send(self.fleet.now, monotonic())


def warm(rotors: bool) -> None:
    """Compile the dynamics, or find them compiled; `rotors`: also those of motor outputs."""
    VehicleFleet([Copter()], [(0.0, 0.0, 0.0)]).advance(0.1)
    if rotors:
        Driven(Copter(dynamics="rigid")).step(np.zeros(4), 0.001)


def serve(orders: AgentOptions, broadcast: list[str], stopping: list[bool]) -> None:
    """Fly for the run, and for the next one after it has ended, until stopped."""
    warm(bool(orders.program))  # before anybody waits for it
    flight: AgentFlight | AboardFlight | None = None
    member, network = VehicleSession(orders.server, orders.node, key=orders.proof()), Network(orders.server)
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
                if isinstance(flight, AboardFlight) and message.body["now"] >= flight.fleet.now - 1e-6:
                    flight.resume(message.body)  # its run had missed it; in another one time begins anew
                    continue
                if flight is not None:
                    flight.close()
                flight = (AboardFlight if orders.program else AgentFlight)(message.body, orders, broadcast)
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
        "--broadcast", action="append", default=[], metavar="ADDRESS", help="where to report the position"
    )
    parser.add_argument("--ardupilot", nargs=argparse.REMAINDER, metavar="PROGRAM", help="flies it; its arguments")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    if given.warm:
        warm(rotors=True)
        return 0
    stopping: list[bool] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.append(True))
    try:
        if given.ardupilot == []:
            raise SetupError("--ardupilot names no program; write runs: {image: vuav-ardupilot, command: [PATH]}")
        serve(AgentOptions.of(os.environ, given.ardupilot or ()), given.broadcast or ["10.171.255.255"], stopping)
    except CosimError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
