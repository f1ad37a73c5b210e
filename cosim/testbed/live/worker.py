"""A worker process of an agent: reads tasks from its input, does them, writes the results to its output.

Started as `python -m cosim.testbed.live.worker CLOCK SERVICE NETWORK...`. A message (`TASKS` in, `ENDS` out) is
preceded by its length (4 bytes, big endian). It ends with its input, and with its agent.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import BinaryIO

from cosim.contract.children import end_with
from cosim.talk.codec import Body, Data, Maybe, MessageSet, Number, OneOf, Text
from cosim.testbed.inference.limits import MAX_PAYLOAD
from cosim.testbed.live.protocol import FROM_GATEWAY, MAX_MESSAGE, STATUSES
from cosim.testbed.live.work import LOCAL, FullError, LimitError, ServiceConnections, WorkError, call, forward

_TIME = Maybe(Number(-1e12, 1e12))  # s, monotonic

TASKS = MessageSet("an agent", {"task": FROM_GATEWAY.kinds["task"]}, MAX_MESSAGE)
ENDS = MessageSet(
    "a worker",
    {
        "end": {
            "status": OneOf(STATUSES), "started": _TIME, "computed": _TIME, "uploaded": _TIME, "answered": _TIME,
            "output": Data(MAX_PAYLOAD), "detail": Text(10_000, free=True),
        }
    },
    MAX_MESSAGE,
)  # fmt: skip


def read(stream: BinaryIO) -> bytes | None:
    """The next message, None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head, "big")
    if size > MAX_MESSAGE:
        return None
    data = stream.read(size)
    return data if len(data) == size else None


def write(stream: BinaryIO, data: bytes) -> None:
    """Send a message."""
    stream.write(len(data).to_bytes(4, "big") + data)
    stream.flush()


def do(
    task: Body, clock: float, service: str, networks: Sequence[str] = (), connections: ServiceConnections | None = None
) -> Body:
    """How `task` ended, as the fields of an `ENDS`."""
    started = time.monotonic()
    deadline = started + task["limit"]
    status, output, detail = "done", b"", ""
    try:
        if task["work"] == "call":
            answer = call(task, clock, networks, deadline, connections)
            return {**answer._asdict(), "status": status, "detail": detail}
        if task["work"] == "forward":
            output = forward(task, service, deadline, connections)
        else:
            output = LOCAL[task["work"]](task, clock, deadline)
        if time.monotonic() > deadline:
            raise LimitError
    except LimitError:
        status, output, detail = "timeout", b"", f"longer than {task['limit']:g} s"
    except FullError as error:
        status, output, detail = "refused", b"", str(error)
    except (WorkError, ArithmeticError, ValueError, MemoryError) as error:
        status, output, detail = "failed", b"", f"{type(error).__name__}: {error}"
    return {
        "status": status, "started": started, "computed": time.monotonic(), "uploaded": None, "answered": None,
        "output": output, "detail": detail[:10_000],
    }  # fmt: skip


def main() -> None:
    """Serve until the input ends."""
    end_with(os.getppid())  # where the system cannot do that, the end of the input must do
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the agent decides
    os.nice(5)  # so that the agent answers its gateway in time
    clock, service, networks = float(sys.argv[1]), sys.argv[2], sys.argv[3:]
    connections = ServiceConnections()
    incoming, outgoing = sys.stdin.buffer, sys.stdout.buffer
    while (data := read(incoming)) is not None:
        end = do(TASKS.unpack(data).body, clock, service, networks, connections)
        try:
            write(outgoing, ENDS.pack("end", end))
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
