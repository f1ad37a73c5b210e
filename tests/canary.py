"""`cosim`, watched: `python -m tests.canary LOG ARGUMENTS` writes to LOG what the command does beyond its process.

Those are connections and ports of the internet's families and programs that it starts, as Python's audit events and
ZeroMQ's sockets show them. `git` and `uname` may be started.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_EVENTS = ("socket.bind", "socket.connect", "socket.sendto", "socket.getaddrinfo", "subprocess.Popen", "os.system")


def watch(log: Path) -> None:
    """Write what this process does beyond itself to `log` from now on."""
    import zmq

    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(event: str, about: object) -> None:
        os.write(out, f"{event} {about!r}\n".encode())

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event in _EVENTS:
            about = arguments[0] if event == "subprocess.Popen" else arguments[1:]
            local = event.startswith("socket.") and isinstance(arguments[1], str | bytes)
            if about not in ("git", "uname") and not local:
                note(event, about)

    sys.addaudithook(heard)
    for name in ("bind", "connect"):
        usual = getattr(zmq.Socket, name)

        def watched(self, address, *rest, usual=usual, name=name):
            if not str(address).startswith(("inproc:", "ipc:")):
                note(f"zmq.{name}", address)
            return usual(self, address, *rest)

        setattr(zmq.Socket, name, watched)


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)))
    del sys.path[0]  # as `cosim/__main__.py` does
    from cosim.cli.main import main

    main()
