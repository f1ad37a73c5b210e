"""A backend that uses an engine: a child process that is watched, and restarted when it fails.

The commands between the two are in `cosim.testbed.emulation.protocol`. The backend keeps a copy of every descriptor
that it was given, and knows every link and position. So when the engine dies (or is silent for too long and is
killed), the nodes keep their interfaces, addresses and routes; the next engine gets the latest ports, links and
positions, and only the frames of the gap are lost. `detach` closes both copies, and the interface is gone. When this
process dies, the kernel closes its copies, the engine dies with its parent, and the interfaces disappear from the
nodes. Those that made the TAPs then have to hand over new ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from cosim.contract.errors import ProtocolError, RunError, SetupError
from cosim.contract.link import LinkState
from cosim.testbed.emulation import protocol
from cosim.testbed.emulation.protocol import PairCount, Statistics
from cosim.testbed.emulation.state import Health, Position

log = logging.getLogger(__name__)

Port = tuple[str, str]  # node, interface

FIRST_PAUSE = 0.1  # s before an engine that died is started again; doubled each time
LONGEST_PAUSE = 5.0  # s
SETTLED = 10.0  # s after which an engine counts as sound again
WRITING = 2.0  # s that an engine may leave its commands unread
PIPE = 1 << 20  # B of commands under way, the most that an ordinary user may ask for


class EngineBackend:
    """Imposes link states by the engine that `command` starts (a `Backend`).

    `shared` names the interfaces whose ports share one medium each, `cells` the ports of base stations, whose
    links share one transmitter in each direction. Queues hold `queue` s at their link's
    rate. An engine that is silent for `silence` s is killed. SetupError when it cannot be started at all.
    Safe to use from several threads.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        shared: Collection[str] = (),
        cells: Collection[Port] = (),
        queue: float = 0.1,
        silence: float = 10.0,
        starting: float = 30.0,
    ) -> None:
        self._command = list(command)
        self._channels = {interface: number for number, interface in enumerate(sorted(shared))}
        self._cells = frozenset(cells)
        self._queue, self._silence = queue, silence
        self._lock = threading.RLock()
        self._indices: dict[Port, int] = {}
        self._ports: list[Port] = []
        self._held: dict[int, tuple[int, str]] = {}  # port -> our copy of its descriptor, MAC
        self._links: dict[tuple[int, int], LinkState] = {}
        self._positions: dict[str, Position] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._tally = _Tally()
        self._closing = threading.Event()
        self._ready = threading.Event()
        self._refusal = ""
        self._restarts = 0
        # Engines ask to die with the *thread* that started them, so one thread that lives to the end starts them all.
        self._supervisor = threading.Thread(target=self._supervise, name="engine", daemon=True)
        self._supervisor.start()
        if not self._ready.wait(starting) or self._refusal:
            reason = self._refusal or f"said nothing within {starting:g} s"
            self.close()
            raise SetupError(f"engine {self._command[0]}: {reason}")

    @property
    def restarts(self) -> int:
        """How often the engine had to be started again."""
        return self._restarts

    @property
    def pid(self) -> int:
        """Process of the engine, 0 when there is none right now."""
        with self._lock:
            return self._process.pid if self._process else 0

    def attach(self, node: str, interface: str, descriptor: int, mac: str) -> None:
        """Take over a TAP's descriptor; an attached port is replaced. ProtocolError for a wrong MAC."""
        try:
            protocol.mac_bytes(mac)
            with self._lock:
                if self._closing.is_set():
                    raise RunError("the backend is closed")
                port = self._index((node, interface))
                old = self._held.get(port)
                self._held[port] = (descriptor, mac)
                if old:
                    os.close(old[0])
                self._open(port)
        except (ProtocolError, RunError):
            os.close(descriptor)
            raise

    def detach(self, node: str, interface: str) -> None:
        """Close the port's descriptors, here and in the engine. Unknown ports are no error."""
        with self._lock:
            port = self._indices.get((node, interface))
            held = self._held.pop(port, None) if port is not None else None
            if held is None or port is None:
                return
            os.close(held[0])
            if self._control:
                with self._broken():
                    protocol.send_detach(self._control, port)

    def move(self, positions: Mapping[str, Position]) -> None:
        """Set positions of nodes; ProtocolError for a position that is not finite."""
        for node, position in positions.items():
            if len(position) != 3 or not all(map(math.isfinite, position)):
                raise ProtocolError(f"no position of node '{node}': {position}")
        with self._lock:
            self._positions.update(positions)
            self._write(
                protocol.position_command(port, positions[node])
                for port, (node, _) in enumerate(self._ports)
                if node in positions
            )

    def links(self, states: Mapping[tuple[str, str, str], LinkState]) -> None:
        """Set (sender, receiver, interface) -> state; ProtocolError, and nothing is set, if one is impossible."""
        for state in states.values():
            state.check()
        with self._lock:
            changed = {}
            for (sender, receiver, interface), state in states.items():
                changed[self._index((sender, interface)), self._index((receiver, interface))] = state
            self._links.update(changed)
            self._write(protocol.link_command(*pair, state, self._queue) for pair, state in changed.items())

    def health(self) -> Health:
        """What has happened since the last call."""
        with self._lock:
            process = self._process
            alive = process is not None and process.poll() is None and self._ready.is_set()
            return self._tally.health(alive)

    def counts(self) -> dict[tuple[str, str, str], PairCount]:
        """(sender, receiver, interface) -> what became of the frames so far, of pairs that had any."""
        with self._lock:
            return {
                (self._ports[sender][0], self._ports[receiver][0], self._ports[sender][1]): count
                for (sender, receiver), count in self._tally.pairs().items()
                if sender < len(self._ports) and receiver < len(self._ports)
            }

    def close(self) -> None:
        """Stop the engine and close every descriptor; may be called twice."""
        self._closing.set()
        with self._lock:
            if self._process:
                self._write([protocol.END])
                self._process.terminate()
        self._supervisor.join(WRITING)
        with self._lock:
            if self._process:  # it does not want to end
                self._process.kill()
        self._supervisor.join()
        with self._lock:
            for descriptor, _ in self._held.values():
                os.close(descriptor)
            self._held.clear()

    def _index(self, port: Port) -> int:
        """The number of a port, which it keeps for good."""
        found = self._indices.get(port)
        if found is not None:
            return found
        if len(self._ports) >= protocol.MAX_PORTS:
            raise ProtocolError(f"more than {protocol.MAX_PORTS} ports; spread the nodes over several services")
        index = self._indices[port] = len(self._ports)
        self._ports.append(port)
        self._write(self._about(index))
        return index

    def _about(self, port: int) -> Iterable[bytes]:
        node, interface = self._ports[port]
        if interface in self._channels:
            yield protocol.channel_command(port, self._channels[interface])
        if (node, interface) in self._cells:
            yield protocol.cell_command(port, True)
        if node in self._positions:
            yield protocol.position_command(port, self._positions[node])

    def _open(self, port: int) -> None:
        if self._control:
            with self._broken():
                protocol.send_attach(self._control, port, *self._held[port])

    def _write(self, commands: Iterable[bytes]) -> None:
        """Send commands, if there is an engine: the next one gets everything anyhow."""
        data = memoryview(b"".join(commands))
        if not data or self._process is None or self._process.stdin is None:
            return
        pipe = self._process.stdin.fileno()
        with self._broken():
            end = time.monotonic() + WRITING
            while data:
                try:
                    data = data[os.write(pipe, data) :]
                    end = time.monotonic() + WRITING
                except BlockingIOError:
                    select.select([], [pipe], [], max(0.0, end - time.monotonic()))
                    if time.monotonic() >= end:
                        raise TimeoutError(f"left its commands unread for {WRITING:g} s") from None

    @contextlib.contextmanager
    def _broken(self) -> Iterator[None]:
        """End an engine that cannot receive commands; the supervisor starts the next."""
        try:
            yield
        except OSError as error:
            log.warning("engine %s: %s", self._command[0], error)
            if self._process and self._process.poll() is None:
                self._process.kill()

    def _supervise(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            begun = time.monotonic()
            try:
                process = self._start()
            except OSError as error:
                self._refusal = f"cannot be started: {error}"
                log.error("engine %s %s", self._command[0], self._refusal)
                self._ready.set()
                return
            self._listen(process)
            ending = self._reap(process)
            if not self._ready.is_set():
                self._refusal = ending
                self._ready.set()
                return
            if self._closing.is_set():
                return
            self._restarts += 1
            pause = FIRST_PAUSE if time.monotonic() - begun > SETTLED else pause
            log.warning("engine %s %s; started again in %g s", self._command[0], ending, pause)
            self._closing.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _start(self) -> subprocess.Popen[bytes]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                process = subprocess.Popen(
                    [*self._command, f"--control={theirs.fileno()}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,  # Ctrl-C is for us; the engine ends when we do
                )
            except OSError:
                ours.close()
                raise
        ours.settimeout(WRITING)
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(process.stdin.fileno(), fcntl.F_SETPIPE_SZ, PIPE)
        with self._lock:
            self._process, self._control = process, ours
            self._tally.begin()
            self._write(one for port in range(len(self._ports)) for one in self._about(port))
            self._write(protocol.link_command(*pair, state, self._queue) for pair, state in self._links.items())
            for port in self._held:
                self._open(port)
            if self._closing.is_set():  # close() has looked for a process before there was this one
                process.terminate()
        return process

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Take statistics until the engine's output ends; kill it when there are none for too long."""
        assert process.stdout is not None
        output, rest = process.stdout.fileno(), bytearray()
        while True:
            if not select.select([output], [], [], self._silence)[0]:
                log.warning("engine %s said nothing for %g s", self._command[0], self._silence)
                process.kill()
                return
            data = os.read(output, 1 << 16)
            if not data:
                return
            rest += data
            try:
                for found in protocol.reports(rest):
                    with self._lock:
                        self._tally.add(found)
                    self._ready.set()
            except ProtocolError as error:
                log.warning("engine %s: %s", self._command[0], error)
                process.kill()
                return

    def _reap(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for the end of an engine whose output has ended; how it ended."""
        try:
            code = process.wait(WRITING)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        with self._lock:
            self._process = None
            if self._control:
                self._control.close()
                self._control = None
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        return f"was killed by signal {-code}" if code < 0 else f"has ended with exit code {code}"


class _Tally:
    """Counts over the lives of several engines, each of which starts at 0."""

    def __init__(self) -> None:
        self._before = self._now = Statistics()
        self._earlier: dict[tuple[int, int], PairCount] = {}
        self._pairs: dict[tuple[int, int], PairCount] = {}
        self._reported = (0, 0, 0, 0)
        self._lags: list[float] = []
        self._lag_max, self._lag_at = 0.0, math.nan

    def begin(self) -> None:
        """A new engine: what the last one counted is added to what those before it did."""
        self._before, self._now = self._now.after(self._before), Statistics()
        self._earlier, self._pairs = self.pairs(), {}

    def add(self, found: Statistics) -> None:
        self._now = found
        self._pairs.update(found.pairs)
        self._lags.append(found.lag_mean)
        if found.lag_max > self._lag_max:
            self._lag_max, self._lag_at = found.lag_max, found.lag_at

    def pairs(self) -> dict[tuple[int, int], PairCount]:
        return protocol.added(self._earlier, self._pairs)

    def health(self, alive: bool) -> Health:
        total = self._now.after(self._before)
        dropped = total.lost + total.refused + total.undelivered
        counts = (total.received, total.delivered, dropped, total.overflowed)
        received, delivered, dropped, overflowed = (new - old for new, old in zip(counts, self._reported, strict=True))
        mean = sum(self._lags) / len(self._lags) if self._lags else 0.0
        health = Health(
            alive, mean, self._lag_max, received, delivered, dropped, total.cpu, total.memory, 0, overflowed,
            self._lag_at,
        )  # fmt: skip
        self._reported, self._lags, self._lag_max, self._lag_at = counts, [], 0.0, math.nan
        return health
