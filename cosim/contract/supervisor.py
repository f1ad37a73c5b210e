"""Supervises a node's program and the agent beside it: started in order, ended together.

The agent is started once the program is ready, so that no task comes too early, and again when it ends. When the
program ends, so does the supervisor, and its parent starts it again. It also ends when the network interfaces are
gone, as in a container whose sidecar has died. SIGTERM ends both.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from subprocess import Popen
from time import monotonic
from types import FrameType

ENDING = 5.0  # s to end after SIGTERM
PAUSE = 5.0  # s before the agent is started again
LOOK = 0.1  # s between two looks at the processes
WITHOUT = 3.0  # s without a network interface after which a program should give up


class Network:
    """Whether this program still has a network.

    A container joins the network namespace of its sidecar when it starts. When the sidecar's container dies, it
    comes back with a new namespace. A container that does not restart as well stays in the old one, without any
    interface.
    """

    def __init__(self, server: str) -> None:
        """`server` is the address at which the run is."""
        self._wanted = server.startswith("tcp://")  # with Unix sockets a namespace lives on without its sidecar
        self._seen = self._looked = monotonic()

    def lost(self) -> bool:
        """Whether there has been no interface but the loopback for `WITHOUT` s."""
        now = monotonic()
        if self._wanted and now - self._looked >= 1.0:
            self._looked = now
            if any(name != "lo" for _, name in socket.if_nameindex()):
                self._seen = now
        return self._wanted and now - self._seen > WITHOUT + 1.0


def agent(environment: Mapping[str, str]) -> list[str]:
    """The agent's command; empty: there is nothing to attach to."""
    attaches = environment.get("COSIM_KEY") and environment.get("COSIM_GATEWAY")
    return [sys.executable, "-m", "cosim.testbed.live"] if attaches else []


class Supervisor:
    """The two processes. `stop` may be called in a signal handler."""

    def __init__(
        self,
        program: Sequence[str],
        agent: Sequence[str],
        *,
        ready: Callable[[], bool] = lambda: True,
        variables: Mapping[str, str] | None = None,
        pause: float = PAUSE,
        network: Network | None = None,
    ) -> None:
        """`agent` may be empty. `variables` are the agent's, behind those of this process."""
        self._program, self._agent, self._ready = program, agent, ready
        self._variables, self._pause, self._network = variables or {}, pause, network or Network("")
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End both."""
        self._stopping.set()

    def run(self) -> int:
        """Serve until stopped (0), until the program has ended (its exit code), or the network is gone (1)."""
        program = Popen(self._program)
        agent: Popen[bytes] | None = None
        wait = LOOK
        try:
            while not self._stopping.wait(wait):
                wait = LOOK
                if program.poll() is not None:
                    return program.returncode or 1  # it should not have ended
                if self._network.lost():
                    sys.stderr.write("the network interfaces are gone; to be started again with new ones\n")
                    return 1
                if agent is not None and agent.poll() is not None:
                    agent, wait = None, self._pause
                elif self._agent and agent is None and self._ready():
                    agent = Popen(self._agent, env={**self._variables, **os.environ})
            return 0
        finally:
            _end([process for process in (agent, program) if process is not None])

    def serve(self) -> int:
        """`run`, until SIGTERM or Ctrl-C."""

        def stop(_number: int, _frame: FrameType | None) -> None:
            self.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        return self.run()


def _end(processes: Sequence[Popen[bytes]]) -> None:
    """The agent first, so that it gives the slot back."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        with contextlib.suppress(Exception):
            process.wait(ENDING)
        if process.poll() is None:
            process.kill()
            process.wait()
