"""A set of messages for tests: any body."""

from __future__ import annotations

from cosim.talk.codec import Anything, MessageSet

WORDS = MessageSet("a tester", {kind: {"body": Anything()} for kind in ("start", "step", "done", "frames")}, 128 << 20)


def pack(kind, number, body, arrays=(), placed=None):
    return WORDS.pack(kind, {"body": body}, number=number, sizes=[array.nbytes for array in arrays], placed=placed)
