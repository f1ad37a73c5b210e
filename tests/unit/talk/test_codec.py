"""Messages: only what is declared gets through, and whatever arrives raises nothing but a ProtocolError."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import ProtocolError
from cosim.talk.codec import (
    PROTOCOL,
    Anything,
    Data,
    Is,
    List,
    Maybe,
    MessageSet,
    Number,
    OneOf,
    RowOf,
    TableOf,
    Text,
    Whole,
)
from cosim.testbed.live.protocol import FROM_AGENT, FROM_GATEWAY, MAX_MESSAGE
from tests.unit.testbed.live.pair import READING

ROOT = Path(__file__).resolve().parents[3]


def sets():
    """All sets of messages of the product, with the place where each is declared."""
    found = {}
    for path in sorted(ROOT.glob("cosim/**/*.py")):
        names = re.findall(r"^(\w+) = MessageSet\(", path.read_text("utf-8"), re.M)
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found |= {f"{module}.{name}": getattr(importlib.import_module(module), name) for name in names}
    return found


SETS = sets()
KINDS = [(name, kind) for name, found in SETS.items() for kind in found.kinds]

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=10,
)


def good(field):
    """Values that a field takes."""
    match field:
        case Number(low, high):
            return st.floats(low, high) | st.sampled_from([value for value in (1, 2) if low <= value <= high] or [low])
        case Whole(low, high):
            return st.integers(low, high)
        case Text(most, least, _, pattern):
            return (
                st.from_regex(pattern, fullmatch=True).filter(field)
                if pattern
                else st.text("abc-12", min_size=least, max_size=min(most, 9))
            )
        case Data(most, unit, least):
            count = st.integers(-(-least // unit), max(-(-least // unit), min(most // unit, 3)))
            return count.flatmap(lambda n: st.binary(min_size=n * unit, max_size=n * unit))
        case OneOf(words):
            return st.sampled_from(words)
        case Is(of):
            return st.from_type(of)
        case Maybe(of):
            return st.none() | good(of)
        case List(of, most):
            return st.lists(good(of), max_size=min(most, 3))
        case RowOf(fields):
            return st.tuples(*map(good, fields)).map(list)
        case TableOf(of, most):
            return st.dictionaries(st.text(max_size=5), good(of), max_size=min(most, 3))
        case Anything():
            return st.none() | st.integers(0, 9) | st.text(max_size=5)
    raise AssertionError(f"no values for {field}")


def test_every_module_that_talks_declares_its_messages_and_packs_none_itself():
    assert len(SETS) >= 10
    users = [
        str(path.relative_to(ROOT))
        for path in ROOT.glob("cosim/**/*.py")
        if re.search(r"\b(unpackb|Unpacker)\(", path.read_text("utf-8"))
    ]
    assert users == ["cosim/talk/codec.py"]
    protocols = [
        str(path.relative_to(ROOT))
        for path in sorted(ROOT.glob("cosim/**/*.py"))
        if re.search(r"^PROTOCOL\b", path.read_text("utf-8"), re.M)
    ]
    assert protocols == ["cosim/talk/codec.py"]


@given(st.sampled_from(KINDS).flatmap(
    lambda of: st.tuples(st.just(of), st.fixed_dictionaries(
        {name: good(field) for name, field in SETS[of[0]].kinds[of[1]].items()}
    ))
))  # fmt: skip
def test_what_is_declared_arrives_as_it_was_sent(sent):
    (name, kind), body = sent
    found = SETS[name].unpack(SETS[name].pack(kind, body, session=b"s" * 16, number=5))
    assert (found.kind, found.session, found.number) == (kind, b"s" * 16, 5)
    assert found.body == body


@given(st.sampled_from(KINDS).flatmap(
    lambda of: st.tuples(st.just(of), st.fixed_dictionaries(
        {name: anything | good(field) for name, field in SETS[of[0]].kinds[of[1]].items()}
    ))
))  # fmt: skip
def test_bodies_of_any_values_are_refused_or_come_back(sent):
    (name, kind), body = sent
    data = msgpack.packb([PROTOCOL, kind, b"", 1, body])
    try:
        assert repr(SETS[name].unpack(data).body) == repr(body)
    except ProtocolError:
        return


@given(st.sampled_from(sorted(SETS)), st.binary(max_size=200) | anything.map(msgpack.packb))
def test_noise_is_a_protocol_error_and_nothing_worse(name, data):
    with pytest.raises(ProtocolError):
        SETS[name].unpack(data)


@given(st.sampled_from(KINDS), st.data())
def test_damaged_messages_are_a_protocol_error_and_nothing_worse(of, data):
    fields = SETS[of[0]].kinds[of[1]]
    body = data.draw(st.fixed_dictionaries({name: good(field) for name, field in fields.items()}))
    packed = bytearray(SETS[of[0]].pack(of[1], body))
    place = data.draw(st.integers(0, len(packed) - 1))
    match data.draw(st.sampled_from(["set", "cut", "insert"])):
        case "set":
            packed[place] = data.draw(st.integers(0, 255))
        case "cut":
            del packed[place:]
        case _:
            packed[place:place] = data.draw(st.binary(min_size=1, max_size=9))
    try:
        SETS[of[0]].unpack(bytes(packed))
    except ProtocolError:
        return


def raw(*parts):
    return msgpack.packb(list(parts))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no message"),
        (b"\xc1", "no message"),
        (b"\x91" * 2000, "no message"),
        (msgpack.packb({}), "five or six parts"),
        (raw(PROTOCOL, "ping", b"s" * 16, 3), "five or six parts"),
        (raw(PROTOCOL + 1, "ping", b"s" * 16, 3, {"serial": 7}), "speaks"),
        (raw(True, "ping", b"s" * 16, 3, {"serial": 7}), "protocol True"),
        (raw(PROTOCOL, "run", b"s" * 16, 3, {}), "no message 'run' of a gateway"),
        (raw(PROTOCOL, "pong", b"s" * 16, 3, {}), "no message 'pong' of a gateway"),
        (raw(PROTOCOL, ["ping"], b"s" * 16, 3, {}), "no message"),
        (raw(PROTOCOL, "ping", b"s" * 17, 3, {"serial": 7}), "16 bytes"),
        (raw(PROTOCOL, "ping", b"s" * 16, -1, {"serial": 7}), "without a number"),
        (raw(PROTOCOL, "ping", b"s" * 16, 1.0, {"serial": 7}), "without a number"),
        (raw(PROTOCOL, "ping", b"s" * 16, 3, {"serial": 7, "more": 1}), "must have the fields serial"),
        (raw(PROTOCOL, "ping", b"s" * 16, 3, {"serial": "7"}), "'serial' of a 'ping'"),
        (raw(PROTOCOL, "ping", b"s" * 16, 3, {b"serial": 7}), "must have the fields"),
        (bytes(MAX_MESSAGE + 1), "too long"),
    ],
)
def test_what_is_wrong_is_said(data, said):
    with pytest.raises(ProtocolError, match=said):
        FROM_GATEWAY.unpack(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [("position", [91.0, 0.0, 0.0]), ("position", [0.0, 0.0]), ("cpu", 1.5), ("power", float("nan")), ("cpu", True),
     ("meter", "guess"), ("memory", -1), ("running", 2.0)],
)  # fmt: skip
def test_values_outside_their_range_are_refused_when_they_are_sent(field, value):
    body = {**READING, "running": 0, "waiting": 0}
    assert FROM_AGENT.unpack(FROM_AGENT.pack("report", body)).body == body
    with pytest.raises(ProtocolError, match=f"'{field}' of a 'report'"):
        FROM_AGENT.pack("report", {**body, field: value})


def test_text_must_be_printable_and_short():
    for reason in ("\x1b[2J", "x" * 301, "a\nb"):
        with pytest.raises(ProtocolError, match="'reason'"):
            FROM_AGENT.pack("goodbye", {"reason": reason})


def test_what_cannot_be_encoded_or_is_too_long_is_our_error():
    small = MessageSet("a tester", {"note": {"text": Anything()}}, 100)
    with pytest.raises(ProtocolError, match="cannot be encoded"):
        small.pack("note", {"text": object()})
    with pytest.raises(ProtocolError, match="is too long; the limit is 100 B"):
        small.pack("note", {"text": "x" * 100})
    with pytest.raises(ProtocolError, match="there is no message 'letter' of a tester"):
        small.pack("letter", {})
