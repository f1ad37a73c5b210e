"""The network service: owns the interfaces of the nodes and imposes the links that the bus's side requests.

    python -m cosim.testbed.emulation.service [--backend linkd|tc]
        [--engine 'PROGRAM ARGUMENTS' [--carries wlan0]] [--shared wlan0] [--cell north,lte0] [--seed 0]
        [--sidecars /run/cosim/links.sock] [--commands tcp://127.0.0.1:5560] [--reports tcp://127.0.0.1:5561]

It needs no rights: sidecars hand it the descriptors. With `tc` the sidecars shape what leaves their nodes themselves,
as the service orders; when their kernel cannot, linkd moves the frames. Its clients speak
`cosim.testbed.emulation.message`. At its start it prints one JSON line with the addresses that it listens on. It ends
on SIGTERM; when it is killed, the kernel removes the interfaces, and sidecars and clients give the next service
everything anew.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import secrets
import shlex
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import zmq

from cosim.contract.errors import CosimError
from cosim.talk.codec import Message
from cosim.talk.doorkeeper import Limits
from cosim.talk.sockets import Door
from cosim.testbed.emulation import compiled, message
from cosim.testbed.emulation.divided import Carrying, Divided
from cosim.testbed.emulation.engine import EngineBackend
from cosim.testbed.emulation.handover import Reception
from cosim.testbed.emulation.message import Command, EmulationReport
from cosim.testbed.emulation.orders import MAX_TEXT, LinkKey
from cosim.testbed.emulation.probing import ProbeOrders
from cosim.testbed.emulation.protocol import PairCount
from cosim.testbed.emulation.relay import RelayChoice
from cosim.testbed.emulation.routing import SidecarRoutes
from cosim.testbed.emulation.tc import TRAFFIC_CONTROL

log = logging.getLogger("cosim.network")

PERIOD = 1.0  # s between reports
SESSIONS = 64  # that are remembered
BATCH = 64  # commands before sidecars have their turn
# Without keys: a client's messages are checked, and observers send nothing but subscriptions.
CLIENTS = Limits(connections=16, silent=16, greeting=8, looks=True, message=message.MAX_MESSAGE, parts=1)
OBSERVERS = Limits(connections=16, silent=16, greeting=8, looks=True, message=256, parts=1, total=1 << 15)


class EmulationService:
    """Sidecars on one side, clients on the other, a backend between them."""

    def __init__(
        self, backend: Carrying | RelayChoice, name: str, sidecars: Path, mode: int, commands: str, reports: str
    ) -> None:
        self.id = secrets.token_bytes(message.SESSION)
        self._backend, self._name = backend, name
        self._last: OrderedDict[bytes, int] = OrderedDict()  # session -> number of its last command
        self._reported: dict[LinkKey, PairCount] = {}
        self._unread, self._unread_at = 0, math.nan  # frames that interfaces dropped since the last report, and when
        self._asker: tuple[bytes, int] | None = None  # who has sent links last, and the number of that message
        self._reception = Reception(sidecars, backend, mode)
        self._probes = ProbeOrders(self._reception.send_to)
        self._routes = SidecarRoutes(self._reception.send_to)
        self._reception.heard = self._heard
        if isinstance(backend, RelayChoice):
            backend.reached_by(self._reception.send_to)
            self._reception.announced = backend.announced
        self._doors: list[Door] = []
        try:
            self._commands = self._listen(commands, zmq.ROUTER, message.MAX_MESSAGE, CLIENTS)
            self._reports = self._listen(reports, zmq.PUB, OBSERVERS.message, OBSERVERS)
        except CosimError:
            self.close()
            raise
        self.addresses = [door.address for door in self._doors]  # of commands and of reports
        self._poller = zmq.Poller()
        self._poller.register(self._commands, zmq.POLLIN)
        self._poller.register(self._reception.fileno(), zmq.POLLIN)

    def run(self) -> None:
        """Serve until interrupted."""
        due = time.monotonic()
        reported: set[tuple[str, str]] = set()  # ports
        while True:
            ready = dict(self._poller.poll(math.ceil(max(0.0, due - time.monotonic()) * 1e3)))
            if self._reception.fileno() in ready:
                self._reception.serve()
                if self._reception.ports - reported:  # a run that waits for them need not wait for the next report too
                    due = min(due, time.monotonic())
            if self._commands in ready:
                self._take()
            self._probes.serve()
            if time.monotonic() >= due:
                self._report()
                reported = self._reception.ports
                due = max(due + PERIOD, time.monotonic())

    def close(self) -> None:
        """Detach all ports and stop the backend; may be called twice."""
        self._reception.close()
        self._backend.close()
        for door in self._doors:
            door.close()

    def _listen(self, address: str, kind: int, longest: int, limits: Limits) -> zmq.Socket[bytes]:
        self._doors.append(Door(address, longest, limits, kind=kind, waiting=(64, 4)))
        return self._doors[-1].socket

    def _take(self) -> None:
        """Apply the commands that have arrived; for each link or node, the latest state."""
        taken: list[tuple[bytes, Command]] = []
        for _ in range(BATCH):
            try:
                client, *parts = self._commands.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            number = 0
            try:
                command = message.command(parts[0] if len(parts) == 1 else b"")
                number = command.number
                taken.append((client, command))
            except CosimError as error:
                log.warning("a command was refused: %s", error)
                self._answer(client, number, str(error))
        fresh = [command for _, command in taken if self._fresh(command)]
        refusal = ""
        try:
            links = {key: state for command in fresh for key, state in command.links.items()}
            positions = {node: place for command in fresh for node, place in command.positions.items()}
            if positions:
                self._backend.move(positions)
            if links:
                self._backend.links(links)
            for command in fresh:
                self._routes.change(command.routes)
                for key, rate in command.probes.items():
                    self._probes.ask(key, rate, command.session, command.number)
        except CosimError as error:
            refusal = str(error)
            log.warning("links were refused: %s", error)
        for client, command in taken:
            if command.links:
                self._asker = (client, command.number)
            self._answer(client, command.number, refusal)

    def _answer(self, client: bytes, number: int, error: str) -> None:
        with contextlib.suppress(zmq.ZMQError):  # it has gone, or does not take its answers: it asks again
            self._commands.send_multipart([client, message.answer(self.id, number, error)], zmq.NOBLOCK)

    def _heard(self, node: str, message: Message) -> None:
        """Handle a sidecar's message."""
        choice = self._backend if isinstance(self._backend, RelayChoice) else None
        if message.kind == "listening":
            self._routes.wanted(node)
            if choice:
                choice.wanted(node)
        elif message.kind == "unread":
            self._unread, self._unread_at = self._unread + message.body["frames"], time.monotonic()
        elif message.kind in ("shaped", "unshaped"):
            refusal = choice.heard(node, message) if choice else ""
            if refusal and self._asker:
                log.warning("links were refused: %s", refusal)
                client, number = self._asker
                self._answer(client, number, refusal)
        else:
            self._probes.heard(node, message)

    def _fresh(self, command: Command) -> bool:
        """Whether a command was not applied before."""
        if command.number <= self._last.get(command.session, 0):
            return False
        self._last[command.session] = command.number
        self._last.move_to_end(command.session)
        if len(self._last) > SESSIONS:
            self._last.popitem(last=False)
        return True

    def _report(self) -> None:
        backend = self._backend
        counts = backend.counts()
        changed = {key: count for key, count in counts.items() if self._reported.get(key) != count}
        self._reported = counts
        ports = frozenset(self._reception.ports)
        health = replace(backend.health(), unread=self._unread, unread_at=self._unread_at)
        probes = dict(self._probes.found)
        self._unread, self._unread_at = 0, math.nan
        name = _plain(backend.name) if isinstance(backend, RelayChoice) else self._name
        said = EmulationReport(self.id, name, backend.restarts, ports, health, changed, probes)
        self._reports.send(message.report(said), zmq.NOBLOCK)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until stopped: exit code 0, and 2 when it cannot start."""
    parser = argparse.ArgumentParser(prog="network", description="impose links on the interfaces of nodes")
    parser.add_argument("--backend", choices=["linkd", "tc"], default="linkd")
    parser.add_argument("--engine", default="", help="another engine than linkd, with its arguments")
    parser.add_argument("--carries", action="append", default=[], help="interface of that engine; default: all")
    parser.add_argument("--remark", default="", help="to be added to the name of the backend in reports")
    parser.add_argument("--sidecars", type=Path, default=Path("/run/cosim/links.sock"), help="Unix socket for sidecars")
    parser.add_argument("--mode", default="660", help="rights of that socket, octal")
    parser.add_argument("--commands", default="tcp://127.0.0.1:5560", help="where clients send link states")
    parser.add_argument("--reports", default="tcp://127.0.0.1:5561", help="where reports are published")
    parser.add_argument("--shared", action="append", default=[], help="interface whose ports share one medium")
    parser.add_argument("--cell", action="append", default=[], metavar="NODE,INTERFACE", help="a base station's port")
    parser.add_argument("--queue", type=float, default=0.1, help="s that a link's queue holds at its rate")
    parser.add_argument("--seed", type=int, default=0, help="of loss and jitter")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        backend, name = _backend(options)
        log.info("%s", name)
        try:
            mode = int(options.mode, 8)
            service = EmulationService(backend, name, options.sidecars, mode, options.commands, options.reports)
        except CosimError:
            backend.close()
            raise
        try:
            commands, reports = service.addresses
            sys.stdout.write(json.dumps({"service": service.id.hex(), "commands": commands, "reports": reports}) + "\n")
            sys.stdout.flush()
            service.run()
        finally:
            service.close()
    except KeyboardInterrupt:
        return 0
    except CosimError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


def _backend(options: argparse.Namespace) -> tuple[Carrying | RelayChoice, str]:
    """The backend that is asked for, and what it is in words. Raises `CosimError` when it cannot be had."""
    if options.backend == "tc":
        asked, options.backend, options.remark = options.remark or "tc was asked for", "linkd", ""
        return RelayChoice(lambda: _carrying(options), asked), TRAFFIC_CONTROL
    return _carrying(options)


def _carrying(options: argparse.Namespace) -> tuple[Carrying, str]:
    """A backend that moves the frames."""
    made: Carrying
    if options.engine and not options.carries:
        command = shlex.split(options.engine)
        made, name = EngineBackend(command, shared=options.shared, queue=options.queue), f"engine {command[0]}"
    else:
        command, name = [str(compiled.linkd()), f"--seed={options.seed}"], "linkd"
        cells = [(node, interface) for node, _, interface in (text.partition(",") for text in options.cell)]
        rest = made = EngineBackend(command, shared=options.shared, cells=cells, queue=options.queue)
        if options.engine:
            command = shlex.split(options.engine)
            name = f"{Path(command[0]).name} for {', '.join(options.carries)}, {name} for the rest"
            try:
                made = Divided(dict.fromkeys(options.carries, EngineBackend(command, queue=options.queue)), rest)
            except CosimError:
                rest.close()
                raise
    name = f"{name} ({options.remark})" if options.remark else name
    return made, _plain(name)


def _plain(name: str) -> str:
    return "".join(c if c.isprintable() else " " for c in name)[:MAX_TEXT]


if __name__ == "__main__":
    sys.exit(main())
