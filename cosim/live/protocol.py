"""The messages between a gateway and its agents: msgpack lists, checked field by field, bounded.

A message is `[PROTOCOL, kind, session, number, body]`. `session` are 16 bytes that the gateway chose in its
`welcome`; an agent's `hello` and the answers to it carry the agent's own 16 bytes instead. `number` rises with
every message of a session and direction: what does not rise is a repetition and is left out. Every body has
exactly the fields that `KINDS` names. Times are in s, sizes in B; `at` and the times of tasks are readings of
the sender's monotonic clock, `wall` of its wall clock.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgpack

from cosim.errors import RunError

PROTOCOL = 2
MAX_PAYLOAD = 8 << 20  # B of a task's input or output
MAX_MESSAGE = MAX_PAYLOAD + (64 << 10)  # B
MAX_TASKS = 1024  # that one message may name
MAX_LINKS = 256  # that one message may name
MAX_SHAPED = 4096  # links of one machine
SESSION = 16  # bytes

WORKS = ("busy", "matrix", "image", "forward", "call")
METERS = ("none", "modelled", "rapl", "ina", "battery", "external")
STATUSES = ("done", "refused", "failed", "timeout")
ABILITIES = ("none", "rate", "full")  # of an agent to shape; rate: neither delay nor loss
REFUSALS = ("protocol", "unknown-node", "taken", "evicted", "no-session", "busy")

Body = dict[str, Any]  # msgpack values
Check = Callable[[object], bool]


class ProtocolError(RunError):
    """What arrived is no message of this protocol, or what is to be sent would be none."""


class Message(NamedTuple):
    """One message of either direction."""

    kind: str
    session: bytes
    number: int
    body: Body


def _number(low: float = -1e18, high: float = 1e18) -> Check:
    return lambda value: type(value) in (int, float) and math.isfinite(value) and low <= value <= high  # type: ignore[arg-type, operator]


def _maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _whole(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _text(most: int) -> Check:
    return lambda value: type(value) is str and len(value) <= most and value.isprintable()


def _data(most: int) -> Check:
    return lambda value: type(value) is bytes and len(value) <= most


def _one_of(*words: str) -> Check:
    return lambda value: type(value) is str and value in words


def _list(check: Check, most: int) -> Check:
    return lambda value: type(value) is list and len(value) <= most and all(map(check, value))


def _flag(value: object) -> bool:
    return type(value) is bool


def _position(value: object) -> bool:
    """Latitude and longitude (deg), height (m) in WGS84."""
    return (
        type(value) is list
        and len(value) == 3
        and _number(-90, 90)(value[0])
        and _number(-180, 180)(value[1])
        and _number(-20_000, 1e7)(value[2])
    )


def _link(value: object) -> bool:
    """Address of the far end, rate, delay, jitter and loss of what is sent there; None: not limited, none."""
    return (
        type(value) is list
        and len(value) == 5
        and _address(value[0])
        and all(check(part) for check, part in zip(_SHAPE, value[1:], strict=True))
    )


def _address(value: object) -> bool:
    """An IPv4 address as it is written usually."""
    try:
        return type(value) is str and len(value) <= 15 and str(ipaddress.IPv4Address(value)) == value
    except ValueError:
        return False


_SHAPE = (
    _maybe(_number(0, 1e15)),  # rate, bit/s; 0: nothing gets through
    _maybe(_number(0, 1e3)),  # delay, s
    _maybe(_number(0, 1e3)),  # jitter, s
    _maybe(_number(0, 1)),  # loss, 1
)

_NAME, _TASK, _TIME = _text(100), _whole(0, 1 << 62), _number(-1e12, 1e12)
_SIZE, _INSTANCE = _number(0, 1e18), _data(SESSION)

KINDS: Mapping[str, Mapping[str, Check]] = {
    # from the agent
    "hello": {
        "node": _NAME,  # "": the only slot of the key
        "instance": _INSTANCE,  # this process of the agent
        "agent": _text(40),  # its version
        "cores": _whole(1, 1 << 20),
        "clock": _number(0, 1e12),  # cycles/s, 0: not known
        "boot": _text(40),  # identifier of the machine's last start, "": not known
        "works": _list(_one_of(*WORKS), len(WORKS)),
        "window": _whole(0, MAX_TASKS),  # tasks that it takes at once, running and waiting
        "shaping": _one_of(*ABILITIES),
    },
    "pong": {"serial": _whole(0, 1 << 62), "received": _TIME, "sent": _TIME, "wall": _TIME},  # wall: at `received`
    "report": {
        "cpu": _maybe(_number(0, 1)),  # share of all cores
        "memory": _maybe(_SIZE),
        "received": _maybe(_SIZE),  # by its network interfaces so far
        "sent": _maybe(_SIZE),
        "temperature": _maybe(_number(-273.15, 2000)),  # degC
        "power": _maybe(_number(0, 1e7)),  # W
        "meter": _one_of(*METERS),
        "position": _maybe(_position),
        "running": _whole(0, MAX_TASKS),
        "waiting": _whole(0, MAX_TASKS),
        "obeyed": _whole(0, 1 << 62),  # serial of the last "shape", 0: there was none
        "shaped": _whole(0, MAX_SHAPED),  # links that are as they were told
        "unshaped": _text(300),  # what is not, and why
    },
    "accept": {"tasks": _list(_TASK, MAX_TASKS)},
    "result": {
        "task": _TASK,
        "status": _one_of(*STATUSES),
        "received": _TIME,
        "started": _maybe(_TIME),
        "computed": _maybe(_TIME),
        "answered": _maybe(_TIME),  # `call`: when the answer was here; `received` is then when the task was made
        "uploaded": _maybe(_TIME),  # `call`: when the other node had the input
        "detail": _text(300),
        "output": _data(MAX_PAYLOAD),
    },
    # from the gateway
    "welcome": {
        "run": _data(SESSION),  # tasks of another run are forgotten
        "session": _data(SESSION),
        "node": _NAME,
        "lease": _number(0.01, 1e6),
        "interval": _number(0.001, 1e6),
        "shaping": _flag,
    },
    "refuse": {"reason": _one_of(*REFUSALS), "detail": _text(300), "after": _maybe(_number(0, 1e6))},
    "ping": {"serial": _whole(0, 1 << 62)},
    "task": {
        "task": _TASK,
        "work": _one_of(*WORKS),
        "cycles": _number(0, 1e15),
        "size": _whole(1, 4096),  # of a matrix
        "limit": _number(0.001, 1e6),  # s of computation
        "output": _whole(0, MAX_PAYLOAD),
        "input": _data(MAX_PAYLOAD),
        "kernel": _text(40),  # of an inference service, for `forward` and `call`; "": what the owner's address says
        "to": _text(40),  # `call`: ADDRESS:PORT of the other node's service
        "bytes": _whole(0, MAX_PAYLOAD),  # `call`: of the input, which the agent makes itself
    },
    "done": {"tasks": _list(_TASK, MAX_TASKS)},  # their results have arrived
    "shape": {
        "serial": _whole(1, 1 << 62),
        "all": _flag,  # there are no other links than these; without any, nothing is shaped
        "links": _list(_link, MAX_LINKS),
    },
    # from either
    "goodbye": {"reason": _text(300)},
}

FROM_AGENT = frozenset(("hello", "pong", "report", "accept", "result", "goodbye"))
FROM_GATEWAY = frozenset(("welcome", "refuse", "ping", "task", "done", "shape", "goodbye"))


def pack(message: Message) -> bytes:
    """The bytes of `message`. Raises `ProtocolError` when the far end would refuse it."""
    try:
        data: bytes = msgpack.packb([PROTOCOL, *message])
    except (TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"a '{message.kind}' cannot be encoded: {error}") from error
    if len(data) > MAX_MESSAGE:
        raise ProtocolError(f"a '{message.kind}' of {len(data)} B is too long; the limit is {MAX_MESSAGE} B")
    _check([PROTOCOL, *message])
    return data


def unpack(data: bytes, kinds: frozenset[str]) -> Message:
    """The message in `data`, which must be one of `kinds`. Raises `ProtocolError` and nothing else."""
    if len(data) > MAX_MESSAGE:
        raise ProtocolError(f"a message of {len(data)} B is too long; the limit is {MAX_MESSAGE} B")
    try:
        item = msgpack.unpackb(data, use_list=True, strict_map_key=True)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise ProtocolError(f"what arrived is no msgpack: {error}") from error
    message = _check(item)
    if message.kind not in kinds:
        raise ProtocolError(f"a '{message.kind}' goes the other way")
    return message


def _check(item: object) -> Message:
    if type(item) is not list or len(item) != 5:
        raise ProtocolError("a message has not five parts")
    protocol, kind, session, number, body = item
    if type(protocol) is not int or protocol != PROTOCOL:
        raise ProtocolError(f"protocol {str(protocol)[:20]!r}; this end speaks {PROTOCOL}: install the same version")
    if type(kind) is not str or kind not in KINDS:
        raise ProtocolError("a message of unknown kind")
    if type(session) is not bytes or len(session) != SESSION:
        raise ProtocolError(f"a '{kind}' whose session is not {SESSION} bytes")
    if type(number) is not int or not 0 <= number < 1 << 63:
        raise ProtocolError(f"a '{kind}' without a number")
    fields = KINDS[kind]
    if type(body) is not dict or body.keys() != fields.keys():
        raise ProtocolError(f"a '{kind}' must have the fields {', '.join(fields)}")
    for name, check in fields.items():
        if not check(body[name]):
            raise ProtocolError(f"'{name}' of a '{kind}' is not what it must be")
    return Message(kind, session, number, body)
