"""The bus's side of the network service: sends link states and positions, and keeps the service's reports."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping

import zmq

from cosim.contract.errors import ProtocolError, RunError
from cosim.contract.link import LinkState
from cosim.talk.sockets import Closing, bounded
from cosim.testbed.emulation import message
from cosim.testbed.emulation.message import EmulationReport
from cosim.testbed.emulation.orders import LinkKey
from cosim.testbed.emulation.probing import Probe
from cosim.testbed.emulation.protocol import PairCount, added
from cosim.testbed.emulation.routing import Hop, Table
from cosim.testbed.emulation.state import Health, Position

RETRY = 1.0  # s without an answer after which everything is sent again
TURN = 20  # ms between looks at what has arrived, while waiting


class Client(Closing):
    """Sends link states to a network service; sends everything again to a service that has restarted.

    Only `wait` and `await_ports` wait; call `poll` at least once a second, since it detects losses. Not
    thread-safe.
    """

    def __init__(self, commands: str, reports: str) -> None:
        self._session = secrets.token_bytes(message.SESSION)
        self._number = 0  # of the last message
        self._answered = 0  # number of the last answer of the present service
        self._said_at = 0.0  # when the oldest unanswered message was sent
        self._service = b""
        self._links: dict[LinkKey, LinkState] = {}
        self._positions: dict[str, Position] = {}
        self._routes: dict[str, dict[str, Hop | None]] = {}
        self._report: EmulationReport | None = None
        self._healths: list[Health] = []
        self._counts: dict[LinkKey, PairCount] = {}
        self._earlier: dict[LinkKey, PairCount] = {}  # by services that are gone
        self._zmq: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._commands = bounded(self._zmq, zmq.DEALER, message.MAX_MESSAGE, waiting=(1000, 16))
        self._reports = bounded(self._zmq, zmq.SUB, message.MAX_MESSAGE, waiting=(1000, 1000))
        for socket in (self._commands, self._reports):
            socket.setsockopt(zmq.RECONNECT_IVL, 50)
            socket.setsockopt(zmq.RECONNECT_IVL_MAX, 500)
        self._reports.setsockopt(zmq.SUBSCRIBE, b"")
        try:
            self._commands.connect(commands)
            self._reports.connect(reports)
        except zmq.ZMQError as error:
            self.close()
            raise RunError(f"no address of a network service: {commands}, {reports} ({error})") from error
        self._send(message.hello)

    @property
    def report(self) -> EmulationReport | None:
        """The service's last report; None: none has come yet."""
        return self._report

    @property
    def settled(self) -> bool:
        """Whether everything that was sent has been applied, as far as `poll` has seen."""
        return self._answered == self._number

    def links(self, states: Mapping[LinkKey, LinkState]) -> None:
        """Set (sender, receiver, interface) -> state; those that are not named stay as they are."""
        if states:
            self._links.update(states)
            self._send(message.links, states)

    def move(self, positions: Mapping[str, Position]) -> None:
        """Send positions of nodes, m."""
        if positions:
            self._positions.update(positions)
            self._send(message.move, positions)

    def routes(self, tables: Mapping[str, Table]) -> None:
        """Set routes inside nodes, by node and destination; None withdraws one. Those that are not named stay."""
        if tables:
            for node, table in tables.items():
                self._routes.setdefault(node, {}).update(table)
            self._send(message.routes, tables)

    def probe(self, rates: Mapping[LinkKey, float]) -> int:
        """Have links measured, one after the other; `rates` are those that they should have, bit/s.

        The number by which `probes` names them. A service that starts anew forgets them: ask again after a while.
        """
        self._send(message.probes, rates)
        return self._number

    def probes(self, number: int) -> dict[LinkKey, Probe]:
        """What has been found so far of the links that were asked for by the call of that number."""
        reported = self._report.probes if self._report else {}
        return {key: one for key, one in reported.items() if (one.session, one.number) == (self._session, number)}

    def counts(self) -> dict[LinkKey, PairCount]:
        """What became of the frames so far, by the last reports, over all services that there were."""
        return added(self._earlier, self._counts)

    def healths(self) -> list[Health]:
        """How the service fared, of every report since the last call: each covers the time since the one before."""
        found, self._healths = self._healths, []
        return found

    def poll(self) -> None:
        """Take what has arrived. RunError when the service has refused something."""
        refusal = ""
        while (data := self._received(self._commands)) is not None:
            answer = message.read_answer(data)
            refusal = answer.error or refusal
            # An answer to the very first message shows that none before it was lost.
            self._meet(answer.service, anew=answer.number != 1)
            self._answered = max(self._answered, answer.number)
            self._said_at = time.monotonic()
        while (data := self._received(self._reports)) is not None:
            self._report = message.read_report(data)
            self._meet(self._report.service, anew=self._service != b"")
            self._healths.append(self._report.health)
            self._counts.update(self._report.counts)
        if not self.settled and time.monotonic() - self._said_at > RETRY:
            self._repeat()
        if refusal:
            raise RunError(f"the network service refuses: {refusal}")

    def wait(self, limit: float = 10.0) -> None:
        """Wait until everything that was sent has been applied; RunError after `limit` s."""
        self._until(lambda: self.settled, limit, "no answer from the network service")

    def await_ports(self, ports: set[tuple[str, str]], limit: float = 30.0) -> None:
        """Wait until these ports (node, interface) are attached; RunError after `limit` s lists those that are not."""

        def missing() -> str:
            there = self._report.ports if self._report else frozenset()
            return ", ".join(f"{interface} of {node}" for node, interface in sorted(ports - there))

        self._until(
            lambda: not missing(), limit, lambda: f"no sidecar has handed over {missing()}", "adapters.network.ready"
        )

    def close(self) -> None:
        """Send nothing more; may be called twice."""
        self._commands.close(0)
        self._reports.close(0)
        self._zmq.term()

    def _until(self, true: Callable[[], bool], limit: float, otherwise: str | Callable[[], str], key: str = "") -> None:
        poller = zmq.Poller()
        poller.register(self._commands, zmq.POLLIN)
        poller.register(self._reports, zmq.POLLIN)
        end = time.monotonic() + limit
        while True:
            self.poll()
            if true():
                return
            if time.monotonic() >= end:
                said = otherwise if isinstance(otherwise, str) else otherwise()
                longer = f"; '{key}' allows more" if key else ""
                raise RunError(f"{said} within {limit:g} s{longer}")
            poller.poll(TURN)

    def _send(self, make: Callable[..., bytes], *content: object) -> None:
        if self.settled:
            self._said_at = time.monotonic()
        self._number += 1
        # A message that finds no room is not lost: without an answer everything is sent again.
        with contextlib.suppress(zmq.Again):
            self._commands.send(make(self._session, self._number, *content), zmq.NOBLOCK)

    def _repeat(self) -> None:
        """Send everything, as to a service that knows nothing."""
        self._said_at = time.monotonic()
        self._send(message.links, self._links)
        self._send(message.move, self._positions)
        self._send(message.routes, self._routes)

    def _meet(self, service: bytes, *, anew: bool) -> None:
        """Take note of who is speaking; `anew`: an unknown one may have missed something."""
        if service == self._service:
            return
        self._service = service
        self._answered = 0
        self._earlier, self._counts = self.counts(), {}
        if anew:
            self._repeat()

    @staticmethod
    def _received(socket: zmq.Socket[bytes]) -> bytes | None:
        try:
            parts = socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        if len(parts) != 1:
            raise ProtocolError("not a message of the network service")
        return parts[0]
