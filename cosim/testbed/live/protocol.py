"""The messages between a gateway and its agents.

`session` are 16 bytes that the gateway chose in its `welcome`; an agent's `hello` and the answers to it carry the
agent's own 16 bytes instead. `number` rises with every message of a session and direction: what does not rise is a
repetition and is left out. Times are in s, sizes in B; `at` and the times of tasks are readings of the sender's
monotonic clock, `wall` of its wall clock.
"""

from __future__ import annotations

from cosim.talk.codec import Data, Is, List, Maybe, MessageSet, Number, OneOf, RowOf, Text, Whole
from cosim.testbed.inference.limits import MAX_LINKS, MAX_PAYLOAD, MAX_SHAPED, MOST_HELD
from cosim.testbed.live.pressure import KINDS

MAX_MESSAGE = MAX_PAYLOAD + (64 << 10)  # B
MAX_TASKS = 1024  # that one message may name
SESSION = 16  # bytes

WORKS = ("busy", "matrix", "image", "forward", "call")
METERS = ("none", "modelled", "rapl", "ina", "battery", "external")
STATUSES = ("done", "refused", "failed", "timeout")
ABILITIES = ("none", "rate", "full")  # of an agent to shape; rate: neither delay nor loss
REFUSALS = ("protocol", "unknown-node", "taken", "evicted", "no-session", "busy")

_NAME, _TASK, _TIME = Text(100), Whole(0, 1 << 62), Number(-1e12, 1e12)
_SIZE, _INSTANCE = Number(0, 1e18), Data(SESSION)
_POSITION = RowOf((Number(-90, 90), Number(-180, 180), Number(-20_000, 1e7)))  # latitude, longitude (deg), height (m)
# address of the far end; rate (bit/s; 0: nothing gets through), delay, jitter (s) and loss of what is sent there;
# None: not limited, none
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_ADDRESS = Text(15, pattern=rf"({_OCTET}\.){{3}}{_OCTET}")  # IPv4
_LINK = RowOf((_ADDRESS, Maybe(Number(0, 1e15)), Maybe(Number(0, 1e3)), Maybe(Number(0, 1e3)), Maybe(Number(0, 1))))
_GOODBYE = {"reason": Text(300)}

FROM_AGENT = MessageSet(
    "an agent",
    {
        "hello": {
            "node": _NAME,  # "": the only slot of the key
            "instance": _INSTANCE,  # this process of the agent
            "agent": Text(40),  # its version
            "cores": Whole(1, 1 << 20),
            "clock": Number(0, 1e12),  # cycles/s, 0: not known
            "boot": Text(40),  # identifier of the machine's last start, "": not known
            "works": List(OneOf(WORKS), len(WORKS)),
            "window": Whole(0, MAX_TASKS),  # tasks that it takes at once, running and waiting
            "shaping": OneOf(ABILITIES),
        },
        "pong": {"serial": Whole(0, 1 << 62), "received": _TIME, "sent": _TIME, "wall": _TIME},  # wall: at `received`
        "report": {
            "cpu": Maybe(Number(0, 1)),  # share of all cores
            "memory": Maybe(_SIZE),
            "received": Maybe(_SIZE),  # by its network interfaces so far
            "sent": Maybe(_SIZE),
            "temperature": Maybe(Number(-273.15, 2000)),  # degC
            "power": Maybe(Number(0, 1e7)),  # W
            "meter": OneOf(METERS),
            # time that programs waited per time: of the node's threads for a core, of any for memory and storage
            **{f"{kind}_wait": Maybe(Number(0, 1e6)) for kind in KINDS},
            "position": Maybe(_POSITION),
            "running": Whole(0, MAX_TASKS),
            "waiting": Whole(0, MAX_TASKS),
            "obeyed": Whole(0, 1 << 62),  # serial of the last "shape", 0: there was none
            "shaped": Whole(0, MAX_SHAPED),  # links that are as ordered
            "unshaped": Text(300),  # what is not, and why
        },
        "accept": {"tasks": List(_TASK, MAX_TASKS)},
        "result": {
            "task": _TASK,
            "status": OneOf(STATUSES),
            "received": _TIME,
            "started": Maybe(_TIME),
            "computed": Maybe(_TIME),
            "answered": Maybe(_TIME),  # `call`: when the answer was here; `received` is then when the task was made
            "uploaded": Maybe(_TIME),  # `call`: when the other node had the input
            "detail": Text(300),
            "output": Data(MAX_PAYLOAD),
        },
        "goodbye": _GOODBYE,
    },
    MAX_MESSAGE,
)
FROM_GATEWAY = MessageSet(
    "a gateway",
    {
        "welcome": {
            "run": Data(SESSION),  # tasks of another run are forgotten
            "session": Data(SESSION),
            "node": _NAME,
            "lease": Number(0.01, 1e6),
            "interval": Number(0.001, 1e6),
            "shaping": Is(bool),
        },
        "refuse": {"reason": OneOf(REFUSALS), "detail": Text(300), "after": Maybe(Number(0, 1e6))},
        "ping": {"serial": Whole(0, 1 << 62)},
        "task": {
            "task": _TASK,
            "work": OneOf(WORKS),
            "cycles": Number(0, 1e15),
            "size": Whole(1, 4096),  # of a matrix
            "limit": Number(0.001, 1e6),  # s of computation
            "output": Whole(0, MAX_PAYLOAD),
            "input": Data(MAX_PAYLOAD),
            "kernel": Text(40),  # of an inference service, for `forward` and `call`; "": as in the owner's address
            "least": Number(0, MOST_HELD),  # s that the service keeps a worker at least, for `forward` and `call`
            "to": Text(40),  # `call`: ADDRESS:PORT of the other node's service
            "bytes": Whole(0, MAX_PAYLOAD),  # `call`: of the input, which the agent makes itself
        },
        "done": {"tasks": List(_TASK, MAX_TASKS)},  # their results have arrived
        "shape": {
            "serial": Whole(1, 1 << 62),
            "all": Is(bool),  # there are no other links than these; without any, nothing is shaped
            "links": List(_LINK, MAX_LINKS),
        },
        "goodbye": _GOODBYE,
    },
    MAX_MESSAGE,
)
