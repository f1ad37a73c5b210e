"""The rules of linkd once more, without clock and devices: what the C program in `native/` does is compared with this.

A switch whose every ordered pair of ports is a link of its own.

A frame of one receiver goes to the port that has its MAC, a group frame to all ports to which its port
has a link. On each link it passes, in this order:

1. The queue and the transmitter. The frame waits until those before it have been sent and then takes
   its length / rate. It is refused when it had to wait and would not fit into the queue any more.
   Ports of a channel share one transmitter, the air, and airtime fairly: whenever it is free, the port
   that has had least of it among those that wait sends a frame, and of its queues, one per receiver and
   one for groups, the one that has had least (start-time fair queueing, Goyal, Vin, Cheng 1997,
   doi 10.1109/90.649569, on two levels). A queue holds what takes `limit` / rate of air. A group frame is
   sent once, at the rate of its slowest receiver. The port of a cell has two transmitters: one for all
   that it sends, one for all that is sent to it.
2. The loss, after the transmission: a lost frame has taken its time on the air as well. Frames are lost
   independently, or in bursts: in the bad one of two states every frame is lost, in the good one none, and each
   frame may change the state (Gilbert, Bell System Technical Journal 39, 1960, with h = 0).
3. The way: delay, plus a uniform jitter, but never past the frame before it. On a channel a group frame may
   pass others, which wait in queues of their own. A share of the frames is reordered: sent on at once.

Times are integer nanoseconds of any clock that does not go back. Chance is a hash of the seed, the pair
and the number of the frame on that pair (splitmix64), so it does not depend on what other pairs do. The C
program follows these rules to the bit.
"""

from __future__ import annotations

import heapq
import struct
from collections import deque
from collections.abc import Callable

from cosim.testbed.emulation import protocol
from cosim.testbed.emulation.protocol import MAX_PORTS, PairCount

HEADER = 14  # B of an Ethernet header
MOST = 256 << 20  # B on their way, all links together
SECOND = 1_000_000_000  # ns
ALL_LOST = 1_000_000  # ppm
ALL = MAX_PORTS  # in place of a receiver: a group
_WORD = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15


def mix(state: int) -> int:
    """The splitmix64 output of a state (Steele, Lea, Flood: Fast splittable pseudorandom number generators)."""
    state = (state + _STEP) & _WORD
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
    return state ^ (state >> 31)


class Flow:
    """Frames of a port that wait for the air, all to one receiver or all to groups."""

    __slots__ = ("held", "tag", "waiting")

    def __init__(self) -> None:
        self.tag = 0  # ns of air: virtual start of the next frame
        self.held = 0  # ns of air that those that wait will take
        self.waiting: deque[tuple[int, int, bytes]] = deque()  # ns of transmission, when it came, frame


class Sharer:
    """A port of a channel with its queues; its time is the virtual one of the queues."""

    __slots__ = ("active", "flows", "tag", "time")

    def __init__(self) -> None:
        self.tag = self.time = 0  # ns of air
        self.flows: dict[int, Flow] = {}  # by receiver
        self.active: set[int] = set()  # receivers for which frames wait


class Air:
    """What the ports of a channel share."""

    __slots__ = ("active", "free_at", "time")

    def __init__(self) -> None:
        self.free_at = 0  # ns
        self.time = 0  # ns of air, virtual
        self.active: set[int] = set()  # ports with frames that wait


class SwitchLink:
    """State and counts of an ordered pair of ports."""

    __slots__ = (
        "bad", "bytes", "delay", "dropped", "duplicate", "enter", "frames", "free_at", "jitter",
        "key", "last", "leave", "loss", "lost", "offered", "rate", "reorder", "room",
    )  # fmt: skip

    def __init__(self, key: int) -> None:
        self.key = key  # of the pair's random numbers
        self.delay = 0  # ns
        self.jitter = 0  # ns
        self.loss = ALL_LOST  # ppm
        self.leave = self.enter = 0  # of 2^32: chance that a frame ends a burst of losses or begins one, 0: no bursts
        self.bad = False  # in a burst
        self.reorder = self.duplicate = 0  # ppm
        self.rate = 0  # bit/s, 0: not limited
        self.room = 0  # ns of transmission that the queue holds
        self.free_at = 0  # ns, when the link's own transmitter is done
        self.last = 0  # ns, when the frame before arrives
        self.offered = 0  # frames that came so far
        self.frames = self.bytes = self.lost = self.dropped = 0

    def count(self) -> PairCount:
        return PairCount(self.frames, self.bytes, self.lost, self.dropped)


class Switch:
    """Takes frames by `offer` and gives them to `write` (port, frame; whether the port took it) in `deliver`.

    No frame waits longer than `wait` ns for its transmission, whatever the size of its queue, and no more than
    256 MiB are on their way: what comes then is refused.
    """

    def __init__(self, write: Callable[[int, bytes], bool], seed: int = 0, wait: int = SECOND) -> None:
        self._write, self._seed, self._wait = write, mix(seed & _WORD), wait
        self._macs: dict[int, bytes] = {}  # of the open ports
        self._ports: dict[bytes, int] = {}
        self._channels: dict[int, int] = {}
        self._air: dict[int, Air] = {}  # by channel
        self._sharers: dict[int, Sharer] = {}  # by port
        self._down: dict[int, int] = {}  # port of a cell -> when the transmitter of what it sends is free, ns
        self._up: dict[int, int] = {}  # and that of what is sent to it
        self._links: dict[int, dict[int, SwitchLink]] = {}  # sender -> receiver -> link
        self._way: list[tuple[int, int, int, int, bytes]] = []  # due, serial, sender, receiver, frame
        self._serial = 0
        self._held = 0  # B on their way
        self._changed: dict[tuple[int, int], SwitchLink] = {}
        self.received = self.delivered = self.lost = self.refused = self.undelivered = 0
        self.overflowed = 0  # of those refused: for want of memory, not of queue
        self.lag_sum = self.lag_max = self.lag_count = 0  # ns, ns, frames
        self.lag_at = 0  # ns, when the largest was seen

    def attach(self, port: int, mac: bytes) -> None:
        """Open a port; one that is open gets the new MAC."""
        self._macs[port] = mac
        self._know()

    def detach(self, port: int) -> None:
        """Close a port; frames on their way to it will not be delivered."""
        self._macs.pop(port, None)
        self._know()

    def channel(self, port: int, channel: int) -> None:
        """Let the port share the air of a channel, none if it is negative. What waits for the old one is refused."""
        old = self._channels.get(port, -1)
        if old == channel:
            return
        sharer = self._sharers.get(port)
        if sharer is not None:
            for receiver in sharer.active:
                flow = sharer.flows[receiver]
                for _, _, frame in flow.waiting:
                    self._held -= len(frame)
                    self._pass_shared(port, receiver, frame, None)
                flow.waiting.clear()
                flow.held = 0
            sharer.active.clear()
            sharer.tag = 0
            if old >= 0:
                self._air[old].active.discard(port)
        self._channels[port] = channel
        if channel >= 0:
            self._air.setdefault(channel, Air())

    def cell(self, port: int, cell: bool) -> None:
        """Let all links from the port share one transmitter and all links to it another, or none of them any."""
        for busy in (self._down, self._up):
            if cell:
                busy.setdefault(port, 0)
            else:
                busy.pop(port, None)

    def link(
        self, sender: int, receiver: int, delay: int, jitter: int, loss: int, rate: int, limit: int,
        burst: int = 0, reorder: int = 0, duplicate: int = 0,
    ) -> None:  # fmt: skip
        """Set the state of a link: ns, ns, ppm, bit/s, B, thousandths, ppm. Frames that are on it keep their times."""
        links = self._links.setdefault(sender, {})
        link = links.get(receiver)
        if link is None:
            link = links[receiver] = SwitchLink(mix(self._seed ^ (sender << 32 | receiver)))
        link.delay, link.jitter, link.loss, link.rate, link.reorder = delay, jitter, loss, rate, reorder
        link.duplicate = duplicate
        link.leave = (1000 << 32) // burst if burst and 0 < loss < ALL_LOST else 0
        link.enter = link.leave * loss // (ALL_LOST - loss) if link.leave else 0
        link.bad = link.bad and link.leave > 0
        link.room = min(self._wait, limit * 8 * SECOND // rate) if rate else 0

    def offer(self, now: int, sender: int, frame: bytes) -> None:
        """Take a frame that a port has sent at `now`."""
        self.received += 1
        if self._channels.get(sender, -1) >= 0:
            self._serve(self._channels[sender], now)
        if len(frame) < HEADER:
            self.lost += 1
        elif frame[0] & 1:
            self._offer_group(now, sender, frame)
        else:
            receiver = self._ports.get(frame[:6])
            link = self._links.get(sender, {}).get(receiver) if receiver is not None else None
            if receiver is None or link is None:
                self.lost += 1
            else:
                self._send(now, sender, receiver, link, frame)

    def deliver(self, now: int) -> None:
        """Give all frames that are due to their ports."""
        for channel in sorted(self._air):
            self._serve(channel, now)
        while self._way and self._way[0][0] <= now:
            due, _, sender, receiver, frame = heapq.heappop(self._way)
            self._held -= len(frame)
            lag = now - due
            self.lag_sum += lag
            self.lag_count += 1
            if lag > self.lag_max:
                self.lag_max, self.lag_at = lag, now
            link = self._links[sender][receiver]
            if receiver in self._macs and self._write(receiver, frame):
                link.frames += 1
                link.bytes += len(frame)
                self.delivered += 1
            else:
                link.dropped += 1
                self.undelivered += 1
            self._changed[sender, receiver] = link

    def next(self) -> int | None:
        """When there is something to do, ns: a frame is due, or may have the air; None: no frame is on its way."""
        times = [air.free_at for air in self._air.values() if air.active]
        return min([*times, *(one[0] for one in self._way[:1])], default=None)

    def waiting(self) -> int:
        """Frames on their way."""
        flows = (sharer.flows[receiver] for sharer in self._sharers.values() for receiver in sharer.active)
        return len(self._way) + sum(len(flow.waiting) for flow in flows)

    def changed(self) -> dict[tuple[int, int], PairCount]:
        """Counts of the pairs whose counts are not those of the last call."""
        found = {pair: link.count() for pair, link in self._changed.items()}
        self._changed.clear()
        return found

    def _know(self) -> None:
        """Index ports by MAC; if several claim one MAC, the lowest wins."""
        self._ports = {self._macs[port]: port for port in sorted(self._macs, reverse=True)}

    def _offer_group(self, now: int, sender: int, frame: bytes) -> None:
        sharing = []
        for receiver, link in self._links.get(sender, {}).items():
            if receiver not in self._macs or receiver == sender:
                continue
            if self._shared(sender, receiver, link):
                sharing.append((receiver, link))
            else:
                self._send(now, sender, receiver, link, frame)
        if sharing:
            _, slowest = min(sharing, key=lambda one: (one[1].rate, one[0]))
            self._send_shared(now, sender, ALL, slowest, frame)

    def _shared(self, sender: int, receiver: int, link: SwitchLink) -> bool:
        """Whether frames from one to the other take the air of a channel."""
        channel = self._channels.get(sender, -1)
        same = channel >= 0 and self._channels.get(receiver, -1) == channel
        return bool(same and link.rate and link.loss < ALL_LOST)

    def _send(self, now: int, sender: int, receiver: int, link: SwitchLink, frame: bytes) -> None:
        if link.loss >= ALL_LOST or not link.rate:
            self._pass(sender, receiver, link, frame, now)
            return
        if self._shared(sender, receiver, link):
            self._send_shared(now, sender, receiver, link, frame)
            return
        if sender in self._down:
            sent = self._on(self._down, sender, now, link, frame)
        elif receiver in self._up:
            sent = self._on(self._up, receiver, now, link, frame)
        else:
            sent = self._transmit(now, link.free_at, link, len(frame))
            if sent is not None:
                link.free_at = sent
        self._pass(sender, receiver, link, frame, sent)

    def _send_shared(self, now: int, sender: int, receiver: int, link: SwitchLink, frame: bytes) -> None:
        """Give a frame to the air; `link` has the rate, and how long the queue is."""
        channel = self._channels[sender]
        air, sharer = self._air[channel], self._sharers.setdefault(sender, Sharer())
        flow = sharer.flows.setdefault(receiver, Flow())
        took = len(frame) * 8 * SECOND // link.rate
        queued = air.free_at > now and flow.held + took > link.room  # as much as the queue holds
        if queued or self._held + len(frame) > MOST:
            refused = self.refused
            self._pass_shared(sender, receiver, frame, None)
            self.overflowed += 0 if queued else self.refused - refused
            return
        if not flow.waiting:
            flow.tag = max(flow.tag, sharer.time)
            if not sharer.active:
                sharer.tag = max(sharer.tag, air.time)
                air.active.add(sender)
            sharer.active.add(receiver)
        flow.waiting.append((took, now, frame))
        flow.held += took
        self._held += len(frame)
        air.free_at = max(air.free_at, now)
        self._serve(channel, now)

    def _serve(self, channel: int, now: int) -> None:
        """Let the ports of a channel have the air up to `now`."""
        air = self._air[channel]
        while air.active and air.free_at <= now:
            sender = min(air.active, key=lambda port: (self._sharers[port].tag, port))
            sharer = self._sharers[sender]
            receiver = min(sharer.active, key=lambda port: (sharer.flows[port].tag, port))
            flow = sharer.flows[receiver]
            took, since, frame = flow.waiting.popleft()
            flow.held -= took
            self._held -= len(frame)
            if not flow.waiting:
                sharer.active.remove(receiver)
            if not sharer.active:
                air.active.remove(sender)
            sent = None
            if air.free_at - since <= self._wait:
                air.time, sharer.time = sharer.tag, flow.tag
                sharer.tag += took
                flow.tag += took
                sent = air.free_at = air.free_at + took
            self._pass_shared(sender, receiver, frame, sent)

    def _pass_shared(self, sender: int, receiver: int, frame: bytes, sent: int | None) -> None:
        """Send a frame that left the air at `sent` on its way to its receiver, or to all that share it."""
        links = self._links[sender]
        if receiver != ALL:
            self._pass(sender, receiver, links[receiver], frame, sent)
            return
        for other in sorted(links):
            if other in self._macs and other != sender and self._shared(sender, other, links[other]):
                self._pass(sender, other, links[other], frame, sent)

    def _on(self, busy: dict[int, int], key: int, now: int, link: SwitchLink, frame: bytes) -> int | None:
        """Send a frame by a transmitter that several links share."""
        sent = self._transmit(now, busy.get(key, 0), link, len(frame))
        if sent is not None:
            busy[key] = sent
        return sent

    @staticmethod
    def _transmit(now: int, free_at: int, link: SwitchLink, length: int) -> int | None:
        """When a frame has been sent, None when the queue refuses it."""
        begin = max(now, free_at)
        took = length * 8 * SECOND // link.rate
        if begin > now and begin - now + took > link.room:
            return None
        return begin + took

    def _pass(self, sender: int, receiver: int, link: SwitchLink, frame: bytes, sent: int | None) -> None:
        """Send a frame that left its transmitter at `sent` on its way."""
        number = link.offered
        link.offered += 1
        self._changed[sender, receiver] = link
        if sent is None or self._held + len(frame) > MOST:
            link.dropped += 1
            self.refused += 1
            self.overflowed += sent is not None
            return
        if self._is_lost(link, number):
            link.lost += 1
            self.lost += 1
            return
        draw = mix((link.key + (2 * number + 1) * _STEP) & _WORD) if link.jitter or link.reorder else 0
        if link.reorder and (draw & 0xFFFFFFFF) * ALL_LOST >> 32 < link.reorder:
            due = sent
        else:
            due = sent + link.delay
            if link.jitter:
                due += ((draw >> 40) * (2 * link.jitter + 1) >> 24) - link.jitter
            link.last = due = max(due, sent, link.last)
        again = mix((link.key + 2 * number * _STEP) & _WORD) & 0xFFFFFFFF
        twice = again * ALL_LOST >> 32 < link.duplicate and self._held + 2 * len(frame) <= MOST
        for _ in range(1 + twice):
            self._serial += 1
            self._held += len(frame)
            heapq.heappush(self._way, (due, self._serial, sender, receiver, frame))

    @staticmethod
    def _is_lost(link: SwitchLink, number: int) -> bool:
        if not link.loss:
            return False
        draw = mix((link.key + 2 * number * _STEP) & _WORD) >> 32
        if not link.leave:
            return draw * ALL_LOST >> 32 < link.loss
        link.bad = draw >= link.leave if link.bad else draw < link.enter
        return link.bad


RECORD = struct.Struct("=IIi4xd7d")  # kind, port, other, queue, the row of a link


class Commands:
    """Applies commands to a switch; they may come in pieces."""

    def __init__(self, switch: Switch) -> None:
        self._switch, self._rest = switch, b""
        self.bad = 0
        self.ended = False

    def feed(self, data: bytes) -> None:
        """Take the next piece of what was written to us."""
        data = self._rest + data
        whole = len(data) // RECORD.size * RECORD.size
        for record in RECORD.iter_unpack(data[:whole]):
            self.bad += not self._apply(*record)
        self._rest = data[whole:]

    def _apply(self, kind: int, port: int, other: int, queue: float, *row: float) -> bool:
        if kind == ord("Q"):
            self.ended = True
            return True
        if port >= protocol.MAX_PORTS:
            return False
        if kind == ord("P"):  # positions are for engines with a radio of their own
            return True
        if other >= protocol.MAX_PORTS:
            return False
        if kind == ord("L"):
            return port != other >= 0 and self._link(port, other, queue, *row)
        if kind == ord("C"):
            if other >= -1:
                self._switch.channel(port, other)
            return other >= -1
        if kind == ord("B"):
            if other in (0, 1):
                self._switch.cell(port, bool(other))
            return other in (0, 1)
        return False

    def _link(self, sender: int, receiver: int, queue: float, *row: float) -> bool:
        rate, delay, jitter, loss, burst, reorder, duplicate = row
        if not all(value >= 0.0 for value in (queue, *row)) or 0.0 < burst < 1.0:
            return False
        if rate == 0.0 or loss >= 1.0:
            state = [0, 0, ALL_LOST, 0, 0, 0, 0]
        else:
            bits = 0 if rate > 1e12 else max(1, int(rate))
            micro = [int(min(value, 60.0) * 1e6 + 0.5) for value in (delay, jitter)]
            parts = [int(min(value, 1.0) * 1e6 + 0.5) for value in (loss, reorder, duplicate)]
            state = [micro[0] * 1000, micro[1] * 1000, parts[0], bits, int(min(burst, 1e6) * 1e3 + 0.5), *parts[1:]]
        limit = int(max(16_000.0, min(float(1 << 30), state[3] * queue / 8)))
        self._switch.link(sender, receiver, *state[:4], limit, *state[4:])
        return True
