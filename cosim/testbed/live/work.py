"""The kinds of work that an agent can do, by name. They run in worker processes; a task contains no other code.

`busy` spends `cycles` / clock seconds of processor time, so a task takes the time that the scenario gives on every
machine. `matrix` multiplies two `size` x `size` matrices, `image` blurs the input as a square grey picture by a
3 x 3 mean; both use numpy where it is installed. `forward` posts the input to a service on this machine's loopback,
`call` to the service of another node, in a network that the owner named, after the work that is done on board.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, ImproperConnectionState
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cosim.contract.errors import SetupError
from cosim.talk.codec import Body
from cosim.testbed.inference.limits import MAX_PAYLOAD, boot_id

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_OPEN = 8  # connections that a worker keeps: one per host
_KERNEL = re.compile(r"[A-Za-z0-9_.-]{1,40}")


class WorkError(Exception):
    """A task could not be done."""


class LimitError(WorkError):
    """A task took longer than it may."""


class FullError(WorkError):
    """A service has no room for the task."""


class RemoteAnswer(NamedTuple):
    """What another node's service has answered; times are the monotonic clock (s), None where that is another's."""

    output: bytes
    uploaded: float | None
    started: float | None
    computed: float | None
    answered: float


def busy(task: Body, clock: float, deadline: float) -> bytes:
    """Spend processor time; `deadline` (s, monotonic) bounds the wait for it."""
    x = _spend(task["cycles"] / clock, deadline)
    return filled(x.to_bytes(4, "big"), task["output"])


def _spend(wanted: float, deadline: float) -> int:
    """Spend `wanted` s of processor time; the returned number has no meaning."""
    begun = time.thread_time()
    x = 1
    while time.thread_time() - begun < wanted:
        for _ in range(500):
            x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        if time.monotonic() > deadline:
            raise LimitError
    return x


def matrix(task: Body, _clock: float, deadline: float) -> bytes:
    """The product of two matrices of one size whose entries are made from their places."""
    size = task["size"]
    numpy = _numpy()
    if numpy is not None:
        index = numpy.arange(size, dtype=numpy.float64)
        a = (index[:, None] * 31 + index[None, :] * 17) % 256
        trace = float(numpy.trace(a @ a.T))
    else:
        rows = [[float((i * 31 + j * 17) % 256) for j in range(size)] for i in range(size)]
        trace = 0.0
        for i, row in enumerate(rows):
            if time.monotonic() > deadline:
                raise LimitError
            products = [sum(x * y for x, y in zip(row, other, strict=True)) for other in rows]
            trace += products[i]
    return filled(str(int(trace)).encode(), task["output"])


def image(task: Body, _clock: float, deadline: float) -> bytes:
    """The blurred input, cut or filled to the output that is asked for."""
    side = math.isqrt(len(task["input"]))
    data = task["input"][: side * side]
    if side < 3:
        return filled(data, task["output"])
    numpy = _numpy()
    if numpy is not None:
        picture = numpy.frombuffer(data, numpy.uint8).reshape(side, side).astype(numpy.uint16)
        total = sum(picture[i : side - 2 + i, j : side - 2 + j] for i in range(3) for j in range(3))
        return filled((total // 9).astype(numpy.uint8).tobytes(), task["output"])
    blurred = bytearray()
    for i in range(side - 2):
        if time.monotonic() > deadline:
            raise LimitError
        rows = [data[(i + k) * side : (i + k + 1) * side] for k in range(3)]
        columns = [x + y + z for x, y, z in zip(*rows, strict=True)]
        blurred += bytes((columns[j] + columns[j + 1] + columns[j + 2]) // 9 for j in range(side - 2))
    return filled(bytes(blurred), task["output"])


class ServiceConnections:
    """HTTP connections of one worker that stay open from task to task.

    A connection of its own for each task would cost a round trip, and TCP would begin with ten segments each time.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], HTTPConnection] = {}

    def post(self, host: str, port: int, path: str, data: bytes, deadline: float) -> tuple[int, str, bytes]:
        """Status, reason and the beginning of the answer (B). Raises `OSError` and `HTTPException`."""
        before = self._open.pop((host, port), None)
        if before is not None:
            try:
                return self._ask(before, path, data, deadline)
            except (ConnectionError, ImproperConnectionState):
                pass  # the service has closed it since, or has been started again
        return self._ask(HTTPConnection(host, port), path, data, deadline)

    def _ask(self, connection: HTTPConnection, path: str, data: bytes, deadline: float) -> tuple[int, str, bytes]:
        try:
            connection.timeout = max(0.05, deadline - time.monotonic())
            if connection.sock is not None:
                connection.sock.settimeout(connection.timeout)
            connection.request("POST", path, body=data, headers={"Content-Type": "application/octet-stream"})
            answer = connection.getresponse()
            body = answer.read(MAX_PAYLOAD + 1)
        except BaseException:
            connection.close()
            raise
        if answer.will_close or not answer.isclosed() or len(self._open) >= _OPEN:
            connection.close()
        else:
            self._open[connection.host, connection.port] = connection
        return answer.status, answer.reason, body

    def close(self) -> None:
        """Close them all."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()


def forward(task: Body, service: str, deadline: float, connections: ServiceConnections | None = None) -> bytes:
    """The answer of the local service to the input, posted as it is; a kernel is a path below the service's."""
    address = urlsplit(service)
    path = f"{address.path.rstrip('/')}/{_kernel(task)}" if task["kernel"] else address.path or "/"
    return _post(connections, address.hostname or "", address.port or 80, path, task["input"], deadline)


def call(
    task: Body, clock: float, networks: Sequence[str], deadline: float, connections: ServiceConnections | None = None
) -> RemoteAnswer:
    """The answer of the inference service at `to`, which must lie in one of `networks`, to the task's input.

    A missing input is made here; one shorter than `bytes` is padded.

    `cycles` are spent before, for what makes the input on board of the device.
    The service reports the times of its own monotonic clock; they are valid here when both are on one machine, as shown
    by the identifier of its last boot.
    """
    host, _, port = task["to"].rpartition(":")
    try:
        reached = any(ip_address(host) in ip_network(network) for network in networks)
    except ValueError:
        reached = False
    if not reached or not port.isdecimal() or not 0 < int(port) < 65536:
        raise WorkError(f"'{task['to']}' is no address that this machine's owner lets tasks call")
    _spend(task["cycles"] / clock, deadline)
    data = task["input"].ljust(task["bytes"], b"\0") if task["input"] else filled(b"\x5a\xa5", task["bytes"])
    body = _post(connections, host, int(port), f"/run/{_kernel(task)}", data, deadline)
    answered = time.monotonic()
    try:
        reported = json.loads(body)
        came, queued, computed = (float(reported[name]) for name in ("came", "queued", "computed"))
        same = reported["clock"] == boot_id() != ""
    except (ValueError, KeyError, TypeError) as error:
        raise WorkError("what answers is no inference service") from error
    if not same:
        return RemoteAnswer(body, None, None, None, answered)
    return RemoteAnswer(body, came, came + queued, came + queued + computed, answered)


def _kernel(task: Body) -> str:
    if not _KERNEL.fullmatch(task["kernel"]):
        raise WorkError(f"'{task['kernel']}' is no name of a kernel")
    least = f"&least={task['least']:.6f}" if task["least"] else ""
    return f"{task['kernel']}?size={task['size']}&output={task['output']}{least}"


def _post(
    connections: ServiceConnections | None, host: str, port: int, path: str, data: bytes, deadline: float
) -> bytes:
    mine = connections or ServiceConnections()
    try:
        status, reason, body = mine.post(host, port, path, data, deadline)
    except TimeoutError as error:
        raise LimitError from error
    except (OSError, HTTPException) as error:
        raise WorkError(f"the service does not answer: {error}") from error
    finally:
        if connections is None:
            mine.close()
    if status == 503:
        raise FullError("the service has no room for more")
    if status != 200:
        raise WorkError(f"the service answers {status} {reason}: {body[:200].decode('utf-8', 'replace')}")
    if len(body) > MAX_PAYLOAD:
        raise WorkError(f"the service's answer is longer than {MAX_PAYLOAD} B")
    return body


def local(service: str) -> str:
    """`service`, which must be an http address of this machine. Raises `SetupError`."""
    address = urlsplit(service)
    if address.scheme != "http" or address.hostname not in LOOPBACK:
        raise SetupError(f"'{service}' is no http:// address on this machine's loopback")
    return service


def filled(data: bytes, size: int) -> bytes:
    """`data`, repeated and cut to `size` B."""
    data = data or b"\0"
    return (data * (size // len(data) + 1))[:size]


def _numpy() -> Any:  # noqa: ANN401 - a module, if it is there
    try:
        import numpy
    except ImportError:
        return None
    return numpy


LOCAL: Mapping[str, Callable[[Body, float, float], bytes]] = {"busy": busy, "matrix": matrix, "image": image}
