"""Frames as messages: what goes in comes out, and nothing that arrives can do more than raise ProtocolError."""

import contextlib
import math
import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.adapter import Context, Inputs, json_value
from cosim.contract.block import as_plain
from cosim.contract.entities import Event, Fleet, Geo, Link, Node, Scene, SlotRange, Workload
from cosim.contract.equipment import Power
from cosim.contract.errors import ProtocolError
from cosim.contract.frame import Frame, SlotTable
from cosim.contract.laws import Law
from cosim.contract.link import LinkState
from cosim.contract.node_keys import Cell, Radio
from cosim.talk import columns as wire
from cosim.talk.codec import MAX_BUFFER_BYTES, MAX_BUFFERS, PROTOCOL
from cosim.talk.columns import Buffers, Decoder, Encoder
from cosim.talk.pipe import Pipe
from tests.unit.talk.words import WORDS, pack

TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    rows = draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = {}
    for name in draw(st.lists(st.text(max_size=5), max_size=5, unique=True)):
        kind = np.dtype(draw(st.sampled_from(TYPES)))
        columns[name] = (
            rng.integers(0, 2, rows).astype(bool)
            if kind.kind == "b"
            else np.frombuffer(rng.bytes(rows * kind.itemsize), kind)
        )
    slot = np.arange(rows, dtype=np.int32)
    return Frame(draw(st.text(max_size=8)), draw(st.floats(allow_nan=False)), slot, columns)


def message(inputs: Inputs, encoder: Encoder | None = None) -> list[bytes]:
    """A step as message parts."""
    arrays: list[np.ndarray] = []
    item = (encoder or Encoder()).inputs(inputs, arrays)
    return [pack("step", 3, item, arrays), *(array.tobytes() for array in arrays)]


def read(parts: list[bytes], decoder: Decoder | None = None) -> Inputs:
    head = WORDS.unpack(parts[0])
    buffers = Buffers.of([memoryview(part) for part in parts[1:]], head.sizes)
    inputs = (decoder or Decoder()).inputs(head.body["body"], buffers)
    buffers.end()
    return inputs


@given(st.dictionaries(st.text(max_size=8), st.lists(frames(), max_size=3), max_size=3))
def test_frames_arrive_bit_equal(given_frames):
    arrived = read(message(Inputs(given_frames)))
    assert list(arrived.frames) == list(given_frames)
    for signal, sent in given_frames.items():
        assert len(arrived.frames[signal]) == len(sent)
        for a, b in zip(arrived.frames[signal], sent, strict=True):
            assert a.same_as(b)
            assert all(column.flags.aligned and not column.flags.writeable for column in a.columns.values())


def test_columns_are_views_of_what_arrived():
    column = np.arange(1000.0)
    frame = Frame("s", 0.0, np.arange(1000, dtype=np.int32), {"x": column})
    arrays: list[np.ndarray] = []
    items = Encoder().frames([frame], arrays)
    assert arrays[1] is column
    (arrived,) = Decoder().frames(
        msgpack.unpackb(msgpack.packb(items)), Buffers.of([array.data.cast("B") for array in arrays], [4000, 8000])
    )
    assert np.shares_memory(arrived["x"], column)


# -- slot tables ----------------------------------------------------------------------------------


def table(ids: list[str], epoch: int, generation: list[int] | None = None, first: int = 5) -> SlotTable:
    return SlotTable(first, tuple(ids), np.array(generation or [1] * len(ids), np.int32), epoch)


def with_table(of: SlotTable | None) -> Inputs:
    return Inputs({"mobility": [Frame("mobility", 0.0, np.empty(0, np.int32), {}, of)]})


def same_table(a: SlotTable | None, b: SlotTable) -> bool:
    return a is not None and (a.first, a.ids, a.epoch, a.generation.tolist()) == (
        *(b.first, b.ids, b.epoch, b.generation.tolist()),
    )


@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=600), st.booleans()), max_size=5))
def test_tables_arrive_whole_whatever_is_sent(history):
    encoder, decoder = Encoder(), Decoder()
    last = None
    for epoch, (ids, repeat) in enumerate(history):
        sent = last if repeat and last is not None else table(ids, epoch, [epoch] * len(ids))
        arrived = read(message(with_table(sent), encoder), decoder).frames["mobility"][0].table
        assert same_table(arrived, sent)
        last = sent


@given(st.data())
def test_differences_arrive(data):
    size = data.draw(st.integers(1, 700))
    old = table([f"v{i}" for i in range(size)], 1)
    free = data.draw(st.sets(st.integers(0, size - 1), max_size=size))
    ids, generation = ["" if i in free else text for i, text in enumerate(old.ids)], old.generation
    old = SlotTable(5, tuple(ids), generation.copy(), 1)
    for i in data.draw(st.sets(st.integers(0, size - 1), max_size=size)):
        ids[i] = f"w{i}"
        generation[i] += i not in free or data.draw(st.booleans())  # a first member may keep the generation
    new = SlotTable(5, tuple(ids), generation, 2)
    encoder, decoder = Encoder(), Decoder()
    first = read(message(with_table(old), encoder), decoder).frames["mobility"][0].table
    second = read(message(with_table(new), encoder), decoder).frames["mobility"][0].table
    assert same_table(first, old)
    assert same_table(second, new)


def test_an_unchanged_table_is_one_number_and_the_same_object():
    encoder, decoder = Encoder(), Decoder()
    fleet = with_table(table([f"vehicle-{i}" for i in range(10_000)], 7))
    first = message(fleet, encoder)
    again = message(fleet, encoder)
    assert sum(map(len, first)) > 100_000
    assert sum(map(len, again)) < 70
    a, b = read(first, decoder), read(again, decoder)
    assert a.frames["mobility"][0].table is b.frames["mobility"][0].table


def test_a_producer_may_go_on_writing_into_its_generations():
    encoder, decoder = Encoder(), Decoder()
    ids, generation = ["a", "b", "c"], np.ones(3, np.int32)
    for epoch in range(1, 5):
        sent = SlotTable(5, tuple(ids), generation, epoch)
        assert same_table(read(message(with_table(sent), encoder), decoder).frames["mobility"][0].table, sent)
        ids[1] = f"b{epoch}"
        generation[1] += 1


def test_a_few_changes_are_a_short_message():
    encoder, decoder = Encoder(), Decoder()
    ids = [f"vehicle-{i}" for i in range(10_000)]
    message(with_table(table(ids, 1)), encoder)
    ids[4321] = "newcomer"
    changed = table(ids, 2)
    changed.generation[4321] += 1
    assert sum(map(len, message(with_table(changed), encoder))) < 150
    with pytest.raises(ProtocolError, match="base is unknown"):  # the reader missed the first two
        read(message(with_table(table(ids, 3)), encoder), decoder)


def test_a_difference_is_not_applied_to_another_table():
    ids = [f"vehicle-{i}" for i in range(1_000)]
    encoder, decoder = Encoder(), Decoder()
    message(with_table(table(ids, 1)), encoder)  # which the reader never saw
    other = [f"stranger-{i}" for i in range(1_000)]
    read(message(with_table(table(other, 7)), Encoder()), decoder)
    with pytest.raises(ProtocolError):
        read(message(with_table(table(["newcomer", *ids[1:]], 2, [2] + [1] * 999)), encoder), decoder)


def test_tables_of_two_fleets_do_not_mix():
    encoder, decoder = Encoder(), Decoder()
    cars, bikes = table(["car"], 1, first=0), table(["bike"], 1, first=1)
    for _ in range(2):
        for fleet in (cars, bikes):
            arrived = read(message(with_table(fleet), encoder), decoder)
            assert same_table(arrived.frames["mobility"][0].table, fleet)


def test_a_table_outlives_the_memory_of_its_message():
    parts = message(with_table(table(["a"], 1, [42])))
    head = WORDS.unpack(parts[0])
    memory = [bytearray(part) for part in parts[1:]]
    arrived = Decoder().inputs(head.body["body"], Buffers.of([memoryview(part) for part in memory], head.sizes))
    for part in memory:
        part[:] = bytes(len(part))
    held = arrived.frames["mobility"][0].table
    assert held is not None
    assert held.generation.tolist() == [42]


# -- hostile messages -----------------------------------------------------------------------------


def sample() -> list[bytes]:
    encoder = Encoder()
    ids = [f"v{i}" for i in range(10)]
    message(with_table(table(ids, 1)), encoder)
    rows = np.arange(4, dtype=np.int32)
    columns = {"x": rows * 0.5, "on": rows > 2}
    changed = table([*ids[:3], "new", *ids[4:]], 2)
    changed.generation[3] += 1
    events = [Event(1.0, "degrade", (SlotRange(1),), None, delay=0.1, loss=0.2)]
    return message(Inputs({"mobility": [Frame("mobility", 1.0, rows, columns, changed)]}, events), encoder)


def decoder_with_base() -> Decoder:
    decoder = Decoder()
    read(message(with_table(table([f"v{i}" for i in range(10)], 1))), decoder)
    return decoder


def test_the_sample_is_read():
    inputs = read(sample(), decoder_with_base())
    held = inputs.frames["mobility"][0].table
    assert held is not None
    assert held.ids[3] == "new"
    assert inputs.events == (Event(1.0, "degrade", (SlotRange(1),), None, delay=0.1, loss=0.2),)


@given(st.data())
def test_mutations_raise_protocol_errors_only(data):
    parts = [bytearray(part) for part in sample()]
    for _ in range(data.draw(st.integers(1, 4))):
        part = parts[data.draw(st.integers(0, len(parts) - 1))]
        place = data.draw(st.integers(0, max(len(part) - 1, 0)))
        match data.draw(st.sampled_from(["set", "cut", "insert"])):
            case "set" if part:
                part[place] = data.draw(st.integers(0, 255))
            case "cut":
                del part[place : place + data.draw(st.integers(1, 9))]
            case _:
                part[place:place] = data.draw(st.binary(min_size=1, max_size=9))
    with contextlib.suppress(ProtocolError):
        read([bytes(part) for part in parts], decoder_with_base())


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=9) | st.binary(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=30,
))  # fmt: skip
def test_any_other_body_raises_protocol_errors_only(body):
    head = WORDS.unpack(pack("step", 0, body))
    for take in (Decoder().inputs, Decoder().frames):
        with contextlib.suppress(ProtocolError):
            take(head.body["body"], Buffers.of([], []))
    with contextlib.suppress(ProtocolError):
        wire.decode(Context, head.body["body"])


@given(st.binary(max_size=200))
def test_noise_raises_protocol_errors_only(noise):
    with contextlib.suppress(ProtocolError):
        WORDS.unpack(noise)


def frame_item(**changes: object) -> list[object]:
    parts: dict[str, object] = {
        "signal": "s",
        "time": 0.0,
        "rows": 1,
        "slot": "<i4",
        "columns": ["x", "<f8"],
        "table": None,
    }
    return list({**parts, **changes}.values())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"signal": 1}, "no signal or time"),
        ({"time": 0}, "no signal or time"),
        ({"rows": -1}, "number of rows"),
        ({"rows": True}, "number of rows"),
        ({"rows": 2}, "not 2 values of int32"),
        ({"slot": "|O"}, "not allowed"),
        ({"columns": ["x", "|O"]}, "not allowed"),
        ({"columns": ["x", "<U8"]}, "not allowed"),
        ({"columns": ["x", ["<f8"]]}, "not allowed"),
        ({"columns": ["x"]}, "no type"),
        ({"columns": ["x", "<f8", "x", "<f8"]}, "name of its own"),
        ({"columns": ["x", "<f8", "y", "<f8"]}, "fewer buffers"),
        ({"columns": []}, "more buffers"),
        ({"table": [5, 1]}, "epoch 1 was never sent"),
        ({"table": [-1, 1]}, "no first slot"),
        ({"table": [0, 1, 2]}, "two nor five"),
        ({"table": [0, 1, 2, ["a"], None]}, "as many ids"),
        ({"table": [0, 1, 1, [b"a"], None]}, "id is not a text"),
        ({"table": [0, 1, 1, ["a"], 0]}, "base is unknown"),
    ],
)
def test_what_is_wrong_is_said(changes, why):
    buffers = Buffers.of([memoryview(bytes(4)), memoryview(bytes(8))], [4, 8])

    def use() -> None:
        Decoder().frames([frame_item(**changes)], buffers)
        buffers.end()

    with pytest.raises(ProtocolError, match=why):
        use()


@pytest.mark.parametrize("changed", [[-1], [10], [3, 3], [4, 3]])
def test_changes_outside_a_table_are_refused(changed):
    indices, generation = np.array(changed, np.int32), np.ones(len(changed), np.int32)
    buffers = Buffers.of(
        [memoryview(b""), memoryview(indices).cast("B"), memoryview(generation).cast("B")],
        [0, indices.nbytes, generation.nbytes],
    )
    item = ["mobility", 0.0, 0, "<i4", [], [5, 2, 10, ["w"] * len(changed), 1]]
    with pytest.raises(ProtocolError, match="slots that it does not have"):
        decoder_with_base().frames([item], buffers)


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ([1, 2], "five or six parts"),
        ([PROTOCOL, "v", b"", 0, {}], "no message"),
        ([PROTOCOL, "step", "", 0, {"body": 0}], "session"),
        ([PROTOCOL, "step", b"", -1, {"body": 0}], "without a number"),
        ([PROTOCOL, "step", b"", 0, {}], "must have the fields body"),
        ([PROTOCOL - 1, "step", b"", 0, {"body": 0}], "install the same version"),
        ([[-1], None], "sizes"),
        ([[2**62], None], "the limits are"),
        ([[0] * 5000, None], "the limits are"),
        ([[], 2], "two lists"),
        ([[8], [[0], []]], "has a place"),
        ([[8], [[0, -1], []]], "has a place"),
        ([[8], [[0, 0], 1]], "two lists"),
        ([[8], [[0, 0], [-1]]], "wrong numbers"),
        ([[8], [[0, 0], [2**20]]], "wrong numbers"),
    ],
)
def test_headers_are_checked(header, why):
    if isinstance(header[0], list):
        header = [PROTOCOL, "step", b"", 0, {"body": 0}, header]
    with pytest.raises(ProtocolError, match=why):
        WORDS.unpack(msgpack.packb(header))


def test_sizes_are_bounded_before_anything_is_copied():
    here, there = socket.socketpair()
    with closing(Pipe(here, WORDS, WORDS)) as pipe, there:
        for arrays in ([np.zeros(MAX_BUFFER_BYTES // 8 + 1)], [np.empty(0)] * (MAX_BUFFERS + 1)):
            with pytest.raises(ProtocolError, match="the limits are"):
                pipe.send("step", 0, {"body": 0}, arrays)
    for sizes in ([MAX_BUFFER_BYTES, 1], [0] * (MAX_BUFFERS + 1)):
        with pytest.raises(ProtocolError, match="the limits are"):
            WORDS.pack("step", {"body": 0}, sizes=sizes)


def test_what_cannot_be_sent_is_refused():
    slot = np.arange(2, dtype=np.int32)
    for column, why in [
        (np.array([None, None]), "type object"),
        (np.array(["a", "b"]), "type <U1"),
        (np.zeros(2, "datetime64[s]"), "type datetime64"),
        (np.zeros(2, ">f8"), "type >f8"),
        (np.zeros((2, 1)), "shape"),
        (np.zeros(3), "shape"),
        ([1.0, 2.0], "not list"),
    ]:
        with pytest.raises(ProtocolError, match=why):
            Encoder().frames([Frame("s", 0.0, slot, {"x": column})], [])  # type: ignore[dict-item]
    with pytest.raises(ProtocolError, match="cannot be encoded"):
        pack("start", 0, object())
    with pytest.raises(ProtocolError, match="cannot be encoded"):
        pack("start", 0, 2**70)


def test_columns_with_gaps_are_sent_without_them():
    wide = np.arange(10.0)
    parts = message(Inputs({"s": [Frame("s", 0.0, np.arange(5, dtype=np.int32), {"x": wide[::2]})]}))
    assert read(parts).frames["s"][0]["x"].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]


# -- plain data -----------------------------------------------------------------------------------


def test_a_context_arrives_equal():
    node = Node(
        "edge", "edge", "edge", (1.0, -2.0, math.inf), cores=4, clock=1.8e9, memory=8e9, slots=3,
        power=Power((2.7, 6.4), "a table"), radio=Radio(), cell=Cell.si(power=46.0, height=25.0, bandwidth=1e8),
    )  # fmt: skip
    workload = Workload(
        "w", (SlotRange(0), SlotRange(1, 50)), "poisson", 2.0, Law("fixed", 1e5), Law("uniform", 1.0, 2.0),
        Law("exponential", 9e7), share=0.5,
    )  # fmt: skip
    link = Link((SlotRange(0),), (SlotRange(1, 50),), LinkState(1e8, 0.02), energy=1e-9)
    scene = Scene.build(
        (node,), (Fleet("cars", "sumo", 0, 50, replace(node, position=None)),), (link,), (workload,), Geo(39.36, 22.95)
    )
    context = Context("radio", scene, 0.1, math.inf, (2**32 - 1, 0, 5), "/a", "/b")
    head = WORDS.unpack(pack("start", 1, as_plain(context)))
    assert wire.decode(Context, head.body["body"]) == context


def test_events_arrive_equal():
    events = (
        Event(60.0, "degrade", (), ((SlotRange(0),), (SlotRange(1, 3),)), delay=0.12, loss=0.05, rate=0.5),
        Event(240.0, "fail", (SlotRange(7),)),
    )
    assert tuple(read(message(Inputs({}, events))).events) == events
    assert read(message(Inputs())).events == ()


def test_plain_values():
    assert json_value({"a": (1, np.float32(0.5), np.arange(2)), 3: Path("x"), "b": np.bool_(True)}) == {
        "a": [1, 0.5, [0, 1]],
        "3": "x",
        "b": True,
    }
    assert math.isnan(json_value(np.float64("nan")))
    with pytest.raises(ProtocolError, match=r"summary\.a\[1\] is a object, which is not a JSON value"):
        json_value({"a": [1, object()]})
