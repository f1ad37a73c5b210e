"""A machine's hold on a slot: its session, its clock, its last report, and the limits that bind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from cosim.testbed.live.clock import Bucket, ClockFilter
from cosim.testbed.live.shaping import Wishes

if TYPE_CHECKING:
    from cosim.talk.codec import Body

State = Literal["free", "attached", "left", "lost", "evicted"]

MESSAGES = 2500.0, 5000.0  # per second, and at once, from one key: 1000 tasks/s with two messages each, and reports
VOLUME = float(64 << 20), float(128 << 20)  # B
PINGS = 16  # unanswered ones that are remembered
STRIKES = 200  # refused messages after which a session ends


@dataclass(frozen=True, slots=True)
class NodeSlot:
    """A node's place for a machine."""

    number: int
    node: str
    key: str  # name of the key that may take it
    lease: float  # s
    interval: float  # s between two reports
    tasks: bool
    shaping: bool
    door: int = 0  # by which of the gateway's doors its machine comes; keys of others are other keys


@dataclass(slots=True)
class Lease:
    """One session of one machine. Times are the gateway's clocks."""

    slot: int
    peer: bytes
    session: bytes
    instance: bytes
    facts: Body  # the hello
    since: float  # monotonic
    until: float  # monotonic
    heard: int = 0  # number of the last message that counted
    said: int = 0  # number of our last message
    ping_at: float = -1e9
    serial: int = 0
    pings: dict[int, tuple[float, float]] = field(default_factory=dict)  # serial -> monotonic, wall
    clock: ClockFilter = field(default_factory=ClockFilter)  # its monotonic clock
    wall: ClockFilter = field(default_factory=ClockFilter)
    strikes: int = 0
    shared: bool = False  # it runs on our machine, so its monotonic clock is ours

    def remember(self, serial: int, now: float, wall: float) -> None:
        """A ping leaves."""
        self.pings[serial] = (now, wall)
        while len(self.pings) > PINGS:
            self.pings.pop(next(iter(self.pings)))

    def pong(self, body: Body, now: float) -> bool:
        """Its answer has come; False when it is to no ping of ours, or its times are out of order."""
        sent = self.pings.pop(body["serial"], None)
        if sent is None:
            return False
        there, back = float(body["received"]), float(body["sent"])
        if not self.clock.add(sent[0], there, back, now):
            return False
        # wall-clock end: advanced by the time passed on the monotonic clocks, which are never set
        return self.wall.add(sent[1], body["wall"], body["wall"] + (back - there), sent[1] + (now - sent[0]))

    def ours(self, theirs: float) -> float:
        """A time of its monotonic clock on ours."""
        return theirs if self.shared else theirs - self.clock.offset


class KeyLimits:
    """What one key may send."""

    def __init__(self) -> None:
        self._messages, self._volume = Bucket(*MESSAGES), Bucket(*VOLUME)

    def take(self, size: int, now: float) -> bool:
        """Whether a message of `size` B may count."""
        return self._messages.take(1.0, now) and self._volume.take(float(size), now)


@dataclass(slots=True)
class SlotStanding:
    """What is known of a slot, with or without a machine on it."""

    slot: NodeSlot
    state: State = "free"
    since: float = 0.0  # monotonic, of the state
    lease: Lease | None = None
    report: Body | None = None  # the last one of the present lease
    reported: float = -1.0
    detail: str = ""
    wishes: Wishes = field(default_factory=Wishes)  # what its links shall be

    @property
    def shapes(self) -> bool:
        """Whether scenario and machine let its links be shaped."""
        return self.slot.shaping and self.lease is not None and self.lease.facts["shaping"] != "none"
