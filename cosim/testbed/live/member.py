"""The agent's half of the protocol as a pure object: seek a slot, hold it, take tasks, hand in results.

Messages and times in, messages out; there is no socket, thread or clock. `now` is the monotonic clock (s), which is
never set; the wall clock is only reported. A session ends when nothing arrives for the length of its lease; then the
agent seeks the slot again after a pause that doubles each time, with jitter, so that many agents do not come at once.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cosim.contract.errors import ProtocolError
from cosim.talk.codec import Body, Message
from cosim.testbed.live.protocol import FROM_AGENT, FROM_GATEWAY, SESSION
from cosim.testbed.live.shaping import NOTHING

ANSWER = 5.0  # s to wait for the answer to a hello
SILENT = "no answer from the server, or it is not the gateway whose key is in the key file"
FIRST, LONGEST = 0.5, 30.0  # s between attempts
STEADY = 60.0  # s that a session must last for the pauses to start anew
AGAIN = 5.0  # s after which a result without acknowledgement is sent again
REMEMBERED = 4096  # tasks whose results were acknowledged

State = Literal["seeking", "asking", "attached", "evicted"]


@dataclass(slots=True)
class HeldTask:
    """A task that this agent answers for, until its result is acknowledged."""

    task: Body | None  # None once it has been handed over to be run
    received: float  # monotonic
    result: Body | None = None
    reported: float = -1e9  # when the result was last sent


class AgentSession:
    """An agent's session with a gateway, over and over.

    `facts` are the fields of a hello besides `instance`. `random` gives unguessable bytes, `jitter` numbers in
    [0, 1). `starting` are tasks to be run, `cancelled` those whose run is over, `shapes` what to impose.
    What was imposed is taken back when a session ends, or, if it broke off, when its lease has run out.
    """

    def __init__(self, facts: Body, *, random: Callable[[int], bytes], jitter: Callable[[], float]) -> None:
        self.state: State = "seeking"
        self.said = ""  # why the last session ended, for people
        self.node = ""
        self.starting: deque[Body] = deque()
        self.cancelled: deque[int] = deque()
        self.shapes: deque[Body] = deque()
        self.tasks_done = 0
        self._facts = {**facts, "instance": random(SESSION)}
        self._random, self._jitter = random, jitter
        self._retry_at, self._tries = -1e18, 0
        self._nonce = self._session = bytes(SESSION)
        self._run = b""
        self._lease, self._interval = 10.0, 1.0
        self._shaping = self._shaped = False
        self._begun = self._heard_at = 0.0
        self._heard = self._number = 0
        self._report_at = -1e18
        self._held: OrderedDict[int, HeldTask] = OrderedDict()
        self._past: OrderedDict[int, None] = OrderedDict()

    # -- the session -------------------------------------------------------------------------

    def hello_due(self, now: float) -> bool:
        """Whether it is time for a new connection and a hello."""
        return self.state == "seeking" and now >= self._retry_at

    def hello(self, now: float) -> bytes:
        """Ask for the slot, on a new connection."""
        self.state = "asking"
        self._begun = now
        self._nonce = self._random(SESSION)
        return FROM_AGENT.pack("hello", self._facts, session=self._nonce)

    def tick(self, now: float) -> list[bytes]:
        """What is due besides reports; notices that the gateway is gone."""
        if self.state == "asking" and now - self._begun > ANSWER:
            self._seek(SILENT, now)
        elif self.state == "attached" and now - self._heard_at > self._lease:
            self._seek(f"nothing heard for {self._lease:g} s", now)
        if self.state != "attached" and now - self._heard_at > self._lease:
            self._unshape()
        if self.state != "attached":
            return []
        out = []
        for held in self._held.values():
            if held.result is not None and now - held.reported > AGAIN:
                held.reported = now
                out.append(self._message("result", held.result))
        return out

    def report_due(self, now: float) -> bool:
        """Whether it is time to report."""
        return self.state == "attached" and now >= self._report_at

    def report(self, reading: Body, now: float) -> list[bytes]:
        """Send what was measured; `reading` has the fields of a report besides `running` and `waiting`."""
        if self.state != "attached":
            return []
        late = now - self._report_at
        self._report_at = now + self._interval - (late if 0 <= late < self._interval / 2 else 0.0)
        open_ = [held for held in self._held.values() if held.result is None]
        waiting = sum(held.task is not None for held in open_)
        return [self._message("report", {**reading, "running": len(open_) - waiting, "waiting": waiting})]

    def leave(self, reason: str) -> list[bytes]:
        """Give the slot back."""
        if self.state != "attached":
            return []
        farewell = self._message("goodbye", {"reason": reason[:300]})
        self.state, self.said = "seeking", reason
        self._unshape()
        return [farewell]

    def lost(self, reason: str, now: float) -> None:
        """The connection is known to be useless."""
        if self.state in ("asking", "attached"):
            self._seek(reason, now)

    # -- what arrives ------------------------------------------------------------------------

    def receive(self, data: bytes, now: float, wall: float) -> list[bytes]:
        """Take a message of the gateway. Nothing that arrives raises."""
        try:
            message = FROM_GATEWAY.unpack(data)
        except ProtocolError:
            return []
        if self.state == "asking" and message.session == self._nonce:
            if message.kind == "welcome":
                return self._welcomed(message.body, now)
            if message.kind == "refuse":
                self._refused(message.body, now)
                return []
        if self.state != "attached" or message.session != self._session:
            return []
        if message.kind == "refuse":  # the gateway has given the slot away
            self._refused(message.body, now)
            return []
        if message.number <= self._heard:
            return []
        self._heard, self._heard_at = message.number, now
        return self._handle(message, now, wall)

    def _handle(self, message: Message, now: float, wall: float) -> list[bytes]:
        body = message.body
        if message.kind == "ping":
            return [self._message("pong", {"serial": body["serial"], "received": now, "sent": now, "wall": wall})]
        if message.kind == "task":
            return self._task(body, now)
        if message.kind == "done":
            for task in body["tasks"]:
                self._acknowledged(task)
        elif message.kind == "shape":
            if self._shaping and self._facts["shaping"] != "none":
                self._shaped = True
                self.shapes.append(body)
        elif message.kind == "goodbye":
            self._unshape()
            self._seek(body["reason"] or "the run has ended", now)
        return []

    def _welcomed(self, body: Body, now: float) -> list[bytes]:
        self.state, self.node = "attached", body["node"]
        self._session = body["session"]
        self._lease, self._interval, self._shaping = body["lease"], body["interval"], body["shaping"]
        self._begun = self._heard_at = now
        self._heard = self._number = 0
        self._report_at = now
        if body["run"] != self._run:  # another run: the tasks that we hold belong to none
            self._run = body["run"]
            self._unshape()
            self.cancelled.extend(self._held)
            self._held.clear()
            self._past.clear()
            self.starting.clear()
        out = [self._message("accept", {"tasks": list(self._held)})] if self._held else []
        for held in self._held.values():
            held.reported = -1e9  # sent again at the next tick
        return out

    def _refused(self, body: Body, now: float) -> None:
        reason = f"{body['reason']}: {body['detail']}" if body["detail"] else body["reason"]
        if body["reason"] == "evicted":
            self.state, self.said = "evicted", reason
            self._unshape()
            return
        self._seek(reason, now)
        if body["after"] is not None:
            self._retry_at = max(self._retry_at, now + min(body["after"], LONGEST) * (1.0 + 0.1 * self._jitter()))

    def _task(self, body: Body, now: float) -> list[bytes]:
        task = body["task"]
        held = self._held.get(task)
        if held is not None:
            if held.result is not None:
                held.reported = now
                return [self._message("result", held.result)]
            return [self._message("accept", {"tasks": [task]})]
        if task in self._past:  # its result was acknowledged: a repetition that was under way
            return []
        if len(self._held) >= self._facts["window"]:
            return []  # not accepted: it comes again
        self._held[task] = HeldTask(body, now)
        if body["work"] not in self._facts["works"]:
            return [
                self._message("accept", {"tasks": [task]}),
                *self.finished(task, "refused", now, detail="unknown work"),
            ]
        self.starting.append(body)
        return [self._message("accept", {"tasks": [task]})]

    def _acknowledged(self, task: int) -> None:
        held = self._held.get(task)
        if held is None or held.result is None:
            return
        del self._held[task]
        self._past[task] = None
        while len(self._past) > REMEMBERED:
            self._past.popitem(last=False)

    # -- tasks -------------------------------------------------------------------------------

    def started(self, task: int) -> None:
        """The task was taken from `starting` and runs."""
        held = self._held.get(task)
        if held is not None:
            held.task = None

    def finished(
        self, task: int, status: Literal["done", "refused", "failed", "timeout"], now: float, *,
        started: float | None = None, computed: float | None = None, uploaded: float | None = None,
        answered: float | None = None, output: bytes = b"", detail: str = "",
    ) -> list[bytes]:  # fmt: skip
        """A task has ended (times of the monotonic clock); its result is kept until it is acknowledged."""
        held = self._held.get(task)
        if held is None or held.result is not None:
            return []
        held.task = None
        shown = "".join(c for c in detail if c.isprintable())[:300]
        held.result = {
            "task": task, "status": status, "received": held.received, "started": started, "computed": computed,
            "uploaded": uploaded, "answered": answered, "detail": shown, "output": output,
        }  # fmt: skip
        self.tasks_done += 1
        if self.state != "attached":
            return []
        held.reported = now
        return [self._message("result", held.result)]

    # -- small things ------------------------------------------------------------------------

    def _unshape(self) -> None:
        if self._shaped:
            self._shaped = False
            self.shapes.append(NOTHING)

    def _seek(self, reason: str, now: float) -> None:
        if self.state == "attached" and now - self._begun > STEADY:
            self._tries = 0
        self.state, self.said = "seeking", reason
        pause = min(LONGEST, FIRST * 2.0 ** min(self._tries, 20))
        self._tries += 1
        self._retry_at = now + pause * (0.5 + 0.5 * self._jitter())

    def _message(self, kind: str, body: Body) -> bytes:
        self._number += 1
        return FROM_AGENT.pack(kind, body, session=self._session, number=self._number)
