"""Messages between a run and the workers of its adapters: one answer per question, matched by number.

`start` carries the adapter's configuration and context. A step's `inputs` and the `result` of a step carry
what `cosim.talk.columns` encodes. The receiver checks them.
"""

from __future__ import annotations

from cosim.talk.codec import Anything, MessageSet, Number, OneOf, Text

MAX_HEADER = 128 << 20  # B

FROM_RUN = MessageSet(
    "a run",
    {
        "hello": {"version": Text(100), "use": Text(300)},
        "start": {"config": Anything(), "context": Anything()},
        "step": {"time": Number(), "inputs": Anything()},  # s, simulated
        "finish": {},
        "close": {},
    },
    MAX_HEADER,
)
FROM_WORKER = MessageSet(
    "a worker",
    {
        "done": {"result": Anything(), "cpu": Number(0)},  # s of CPU so far
        "failed": {
            "family": OneOf(("adapter", "setup", "scenario", "run")),
            "message": Text(1 << 20, free=True),
            "traceback": Text(1 << 20, free=True),
        },
    },
    MAX_HEADER,
)
