"""The software of an edge node: the inference service and, when there is a run to attach to, the agent beside it.

    python -m cosim.inference.node [OPTIONS OF THE SERVICE]

The agent is started once the service answers, so that no task comes to a closed door, and again when it
ends. When the service ends, so does the node: whoever has started it starts it again. The same when the network
interfaces are gone, as those of a container whose sidecar has died. SIGTERM ends both.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from subprocess import Popen
from types import FrameType

from cosim.shore import Shore

PORT = 8500
ENDING = 5.0  # s to end after SIGTERM
PAUSE = 5.0  # s before the agent is started again
LOOK = 0.1  # s between two looks at the processes


def commands(arguments: Sequence[str], environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The service's command, and the agent's (empty: there is nothing to attach to)."""
    cores = environment.get("COSIM_CORES", "")
    given = [] if not cores or "--concurrency" in arguments else ["--concurrency", cores]
    service = [sys.executable, "-m", "cosim.inference", "--host", "0.0.0.0", "--port", str(PORT), *given, *arguments]
    attaches = environment.get("COSIM_KEY") and environment.get("COSIM_GATEWAY")
    return service, [sys.executable, "-m", "cosim.live"] if attaches else []


def answers(port: int) -> bool:
    """Whether the service is ready."""
    connection = HTTPConnection("127.0.0.1", port, timeout=2.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


class Pair:
    """The two processes. `stop` may be called in a signal handler."""

    def __init__(
        self, service: list[str], agent: list[str], port: int, pause: float = PAUSE, shore: Shore | None = None
    ) -> None:
        self._service, self._agent, self._port, self._pause = service, agent, port, pause
        self._shore = shore or Shore("")
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End both."""
        self._stopping.set()

    def run(self) -> int:
        """Serve until stopped (0), until the service has ended (its exit code), or the network is gone (1)."""
        own = {"COSIM_FORWARD": f"http://127.0.0.1:{self._port}/run"}
        service = Popen(self._service)
        agent: Popen[bytes] | None = None
        wait = LOOK
        try:
            while not self._stopping.wait(wait):
                wait = LOOK
                if service.poll() is not None:
                    return service.returncode or 1  # it should not have ended
                if self._shore.lost():
                    sys.stderr.write("the network interfaces are gone; to be started again with new ones\n")
                    return 1
                if agent is not None and agent.poll() is not None:
                    agent, wait = None, self._pause
                elif self._agent and agent is None and answers(self._port):
                    agent = Popen(self._agent, env={**own, **os.environ})
            return 0
        finally:
            _end([process for process in (agent, service) if process is not None])


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


def main() -> int:
    """Run the node until SIGTERM or Ctrl-C."""
    pair = Pair(*commands(sys.argv[1:], os.environ), PORT, shore=Shore(os.environ.get("COSIM_GATEWAY", "")))

    def stop(_number: int, _frame: FrameType | None) -> None:
        pair.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return pair.run()


if __name__ == "__main__":
    sys.exit(main())
