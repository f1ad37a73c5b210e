"""Messages: only what the tables name gets through, and nothing raises anything else."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.live.protocol import (
    FROM_AGENT,
    FROM_GATEWAY,
    KINDS,
    MAX_MESSAGE,
    PROTOCOL,
    Message,
    ProtocolError,
    pack,
    unpack,
)

PING = Message("ping", b"s" * 16, 3, {"serial": 7})


def test_what_is_packed_is_unpacked():
    assert unpack(pack(PING), FROM_GATEWAY) == PING


def test_every_kind_goes_one_way_or_both():
    assert KINDS.keys() == FROM_AGENT | FROM_GATEWAY


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no msgpack"),
        (b"\xc1", "no msgpack"),
        (b"\x91" * 2000, "no msgpack"),
        (msgpack.packb({}), "five parts"),
        (msgpack.packb([PROTOCOL, "ping", b"s" * 16, 3]), "five parts"),
        (msgpack.packb([PROTOCOL + 1, "ping", b"s" * 16, 3, {"serial": 7}]), "speaks"),
        (msgpack.packb([True, "ping", b"s" * 16, 3, {"serial": 7}]), "protocol 'True'"),
        (msgpack.packb([PROTOCOL, "run", b"s" * 16, 3, {}]), "unknown kind"),
        (msgpack.packb([PROTOCOL, ["ping"], b"s" * 16, 3, {}]), "unknown kind"),
        (msgpack.packb([PROTOCOL, "ping", b"s", 3, {"serial": 7}]), "16 bytes"),
        (msgpack.packb([PROTOCOL, "ping", b"s" * 16, -1, {"serial": 7}]), "without a number"),
        (msgpack.packb([PROTOCOL, "ping", b"s" * 16, 1.0, {"serial": 7}]), "without a number"),
        (msgpack.packb([PROTOCOL, "ping", b"s" * 16, 3, {"serial": 7, "more": 1}]), "must have the fields serial"),
        (msgpack.packb([PROTOCOL, "ping", b"s" * 16, 3, {"serial": "7"}]), "'serial' of a 'ping'"),
        (msgpack.packb([PROTOCOL, "ping", b"s" * 16, 3, {b"serial": 7}]), "must have the fields"),
        (msgpack.packb([PROTOCOL, "pong", b"s" * 16, 3, {}]), "must have the fields"),
        (pack(PING._replace(kind="goodbye", body={"reason": "x"}))[:-1], "no msgpack"),
        (bytes(MAX_MESSAGE + 1), "too long"),
    ],
)
def test_anything_else_is_refused(data, said):
    with pytest.raises(ProtocolError, match=said):
        unpack(data, FROM_GATEWAY)


def test_a_message_of_the_other_direction_is_refused():
    with pytest.raises(ProtocolError, match="goes the other way"):
        unpack(pack(PING), FROM_AGENT)


@pytest.mark.parametrize(
    ("field", "value"),
    [("position", [91.0, 0.0, 0.0]), ("position", [0.0, 0.0]), ("cpu", 1.5), ("power", float("nan")), ("cpu", True),
     ("meter", "guess"), ("memory", -1), ("running", 2.0)],
)  # fmt: skip
def test_values_outside_their_range_are_refused(field, value):
    from tests.unit.live.pair import READING

    body = {**READING, "running": 0, "waiting": 0}
    assert unpack(pack(Message("report", b"s" * 16, 1, body)), FROM_AGENT).body == body
    with pytest.raises(ProtocolError, match=f"'{field}' of a 'report'"):
        pack(Message("report", b"s" * 16, 1, {**body, field: value}))


def test_text_must_be_printable_and_short():
    for reason in ("\x1b[2J", "x" * 301, "a\nb"):
        with pytest.raises(ProtocolError, match="'reason'"):
            pack(Message("goodbye", b"s" * 16, 1, {"reason": reason}))


def test_what_cannot_be_encoded_is_our_error():
    with pytest.raises(ProtocolError, match="cannot be encoded"):
        pack(Message("ping", b"s" * 16, 1, {"serial": object()}))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 63) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(KINDS)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.fixed_dictionaries(dict.fromkeys(KINDS[kind], values)))
))  # fmt: skip
def test_bodies_of_any_values_are_refused_or_come_back(of):
    kind, body = of
    try:
        data = msgpack.packb([PROTOCOL, kind, b"s" * 16, 1, body])
    except (OverflowError, ValueError):
        return
    try:
        assert unpack(data, FROM_AGENT | FROM_GATEWAY).body == body
    except ProtocolError:
        return
