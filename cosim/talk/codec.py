"""Messages: declared field by field, checked in both directions, bounded, of one version.

A message is msgpack: `[PROTOCOL, kind, session, number, body]`, followed by `[sizes, places]` when raw buffers belong
to it (`cosim.talk.columns`). `session` holds bytes that identify a conversation, `number` rises within one; both may
be empty (b"", 0). `body` is a map with exactly the fields that its kind declares. There is no pickle.
Any other input raises `ProtocolError` and nothing else.

    FROM_CLIENT = MessageSet("a client", {"order": {"item": Text(100), "count": Whole(1, 99)}})
    data = FROM_CLIENT.pack("order", {"item": "bolt", "count": 3})
    FROM_CLIENT.unpack(data).body["count"]

This module needs only Python and msgpack, since the agent of a small machine uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack

from cosim.contract.errors import ProtocolError

PROTOCOL = 9  # of all messages; rises with every change of any of them
MAX_SESSION = 16  # B
MAX_BUFFERS = 4096  # of one message
MAX_BUFFER_BYTES = 1 << 30  # of one message, all buffers together
MAX_SEGMENTS = 4096  # pieces of shared memory that one end may know

Body = dict[str, Any]  # msgpack values
Field = Callable[[object], bool]  # whether a value is what the field takes


# -- fields ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number; with `unknown` also NaN."""

    low: float = -1e18
    high: float = 1e18
    unknown: bool = False

    def __call__(self, value: object) -> bool:
        if type(value) is not float and type(value) is not int:
            return False
        return self.low <= value <= self.high or (self.unknown and value != value)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    low: int = 0
    high: int = (1 << 63) - 1

    def __call__(self, value: object) -> bool:
        return type(value) is int and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Text:
    """Printable text, or with `free` any; `pattern` must match all of it."""

    most: int = 300  # characters
    least: int = 0
    free: bool = False
    pattern: str = ""

    def __call__(self, value: object) -> bool:
        return (
            type(value) is str
            and self.least <= len(value) <= self.most
            and (self.free or value.isprintable())
            and (not self.pattern or re.fullmatch(self.pattern, value) is not None)
        )


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes, a whole number of records of `unit` B."""

    most: int
    unit: int = 1
    least: int = 0

    def __call__(self, value: object) -> bool:
        return type(value) is bytes and self.least <= len(value) <= self.most and len(value) % self.unit == 0


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words."""

    words: tuple[str, ...]

    def __call__(self, value: object) -> bool:
        return type(value) is str and value in self.words


@dataclass(frozen=True, slots=True)
class Is:
    """Any value of a type of Python's, and of no type derived from it."""

    of: type

    def __call__(self, value: object) -> bool:
        return type(value) is self.of


@dataclass(frozen=True, slots=True)
class Maybe:
    """Nothing, or what `of` takes."""

    of: Field

    def __call__(self, value: object) -> bool:
        return value is None or self.of(value)


@dataclass(frozen=True, slots=True)
class List:
    """At most `most` values that `of` takes; quick for a hundred thousand of them if `of` is an `Is`."""

    of: Field
    most: int

    def __call__(self, value: object) -> bool:
        if type(value) is not list or len(value) > self.most:
            return False
        return set(map(type, value)) <= {self.of.of} if isinstance(self.of, Is) else all(map(self.of, value))


@dataclass(frozen=True, slots=True)
class RowOf:
    """A list of as many values as there are fields, each what its field takes."""

    fields: tuple[Field, ...]

    def __call__(self, value: object) -> bool:
        return (
            type(value) is list
            and len(value) == len(self.fields)
            and all(field(part) for field, part in zip(self.fields, value, strict=True))
        )


@dataclass(frozen=True, slots=True)
class TableOf:
    """A map of at most `most` texts to what `of` takes."""

    of: Field
    most: int

    def __call__(self, value: object) -> bool:
        return (
            type(value) is dict
            and len(value) <= self.most
            and all(type(key) is str and self.of(part) for key, part in value.items())
        )


@dataclass(frozen=True, slots=True)
class Anything:
    """Any msgpack value; the receiver checks it."""

    def __call__(self, _value: object) -> bool:
        return True


# -- messages ----------------------------------------------------------------------------------


class BufferPlace(NamedTuple):
    """Where in shared memory the buffers of a message lie."""

    places: Sequence[int]  # segment and offset in bytes of each buffer, one after another
    announced: Sequence[int] = ()  # segments whose open files come with the message, in this order


class Message(NamedTuple):
    """One message. `sizes` are the lengths in bytes of the buffers that belong to it."""

    kind: str
    body: Body
    session: bytes = b""
    number: int = 0
    sizes: Sequence[int] = ()
    placed: BufferPlace | None = None  # None: they follow


class MessageSet:
    """What goes one way over one kind of connection: the fields of each kind of message, and the longest message.

    Longer ones, unknown kinds, other fields, and values that a field does not take are refused when they are sent and
    when they arrive.
    """

    def __init__(self, sender: str, kinds: Mapping[str, Mapping[str, Field]], most: int = 1 << 16) -> None:
        self.sender = sender  # for error messages
        self.kinds = kinds
        self.most = most  # B, without buffers

    def pack(
        self,
        kind: str,
        body: Body | None = None,
        *,
        session: bytes = b"",
        number: int = 0,
        sizes: Sequence[int] | None = None,
        placed: BufferPlace | None = None,
    ) -> bytes:
        """The bytes of a message. Raises `ProtocolError` when the far end would refuse it."""
        body = {} if body is None else body
        parts: list[object] = [PROTOCOL, kind, session, number, body]
        if sizes is not None:
            check_sizes(sizes)
            parts.append([sizes, placed])
        try:
            data: bytes = msgpack.packb(parts, default=_plain)
        except (TypeError, ValueError, OverflowError) as error:
            raise ProtocolError(f"a '{kind}' cannot be encoded: {error}") from error
        if len(data) > self.most:
            raise ProtocolError(f"a '{kind}' of {len(data)} B is too long; the limit is {self.most} B")
        self._check(kind, session, number, body)
        return data

    def unpack(self, data: bytes | memoryview) -> Message:
        """The message in `data`."""
        if len(data) > self.most:
            raise ProtocolError(f"a message of {len(data)} B is too long; the limit is {self.most} B")
        try:
            item = msgpack.unpackb(data, use_list=True, strict_map_key=True)
        except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
            raise ProtocolError(f"what arrived is no message: {error}") from error
        if type(item) is not list or len(item) not in (5, 6):
            raise ProtocolError("what arrived is no message: it has not five or six parts")
        protocol, kind, session, number, body = item[:5]
        if type(protocol) is not int or protocol != PROTOCOL:
            raise ProtocolError(
                f"the far end speaks protocol {str(protocol)[:20]}, this end {PROTOCOL}: install the same version of "
                "continuum-cosim on both"
            )
        self._check(kind, session, number, body)
        if len(item) == 5:
            return Message(kind, body, session, number)
        return Message(kind, body, session, number, *_buffers(item[5]))

    def _check(self, kind: object, session: object, number: object, body: object) -> None:
        fields = self.kinds.get(kind) if type(kind) is str else None
        if fields is None:
            raise ProtocolError(f"there is no message {str(kind)[:40]!r} of {self.sender}")
        if type(session) is not bytes or len(session) > MAX_SESSION:
            raise ProtocolError(f"a '{kind}' whose session is not at most {MAX_SESSION} bytes")
        if type(number) is not int or not 0 <= number < 1 << 63:
            raise ProtocolError(f"a '{kind}' without a number")
        if type(body) is not dict or body.keys() != fields.keys():
            raise ProtocolError(f"a '{kind}' must have the fields {', '.join(fields) or '(none)'}")
        for name, field in fields.items():
            if not field(body[name]):
                raise ProtocolError(f"'{name}' of a '{kind}' is not what it must be: {field}")


def _buffers(item: object) -> tuple[Sequence[int], BufferPlace | None]:
    if type(item) is not list or len(item) != 2:
        raise ProtocolError("what a message says of its buffers has not two parts")
    sizes, where = item
    if type(sizes) is not list or not all(type(n) is int and n >= 0 for n in sizes):
        raise ProtocolError("the sizes of the buffers of a message are not a list of numbers")
    check_sizes(sizes)
    if where is None:
        return sizes, None
    if type(where) is not list or len(where) != 2 or not all(type(part) is list for part in where):
        raise ProtocolError("what a message says of shared memory has not two lists")
    places, announced = where
    if len(places) != 2 * len(sizes) or not all(type(place) is int and place >= 0 for place in places):
        raise ProtocolError("not every buffer of a message has a place")
    if len(announced) > MAX_SEGMENTS or not all(type(n) is int and 0 <= n < MAX_SEGMENTS for n in announced):
        raise ProtocolError("a message announces shared memory by wrong numbers")
    return sizes, BufferPlace(places, announced)


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse buffers that are more than one message may have."""
    if len(sizes) > MAX_BUFFERS or sum(sizes) > MAX_BUFFER_BYTES:
        raise ProtocolError(
            f"a message has {sum(sizes)} B in {len(sizes)} arrays; the limits are {MAX_BUFFER_BYTES} and {MAX_BUFFERS}"
        )


def _plain(value: object) -> object:
    """numpy's scalars as Python's."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    raise TypeError(f"a {type(value).__name__} does not travel")
