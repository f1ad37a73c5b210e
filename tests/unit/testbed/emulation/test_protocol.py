"""The words between a backend and an engine."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cosim.contract.errors import ProtocolError
from cosim.testbed.emulation import protocol
from cosim.testbed.emulation.linkd import Commands
from cosim.testbed.emulation.state import DOWN, LinkState


class Recorder:
    """What commands ask of a switch."""

    def __init__(self):
        self.links, self.channels, self.cells = [], [], []

    def link(self, *state):
        self.links.append(state)

    def channel(self, *values):
        self.channels.append(values)

    def cell(self, *values):
        self.cells.append(values)


def applied(data):
    recorder = Recorder()
    commands = Commands(recorder)
    commands.feed(data)
    return recorder, commands


def test_a_state_arrives_as_it_was_sent():
    line = protocol.link_line(3, 7, LinkState(5e6, 0.020, 0.002, 0.05), queue=0.1)
    assert line == b"L 3 7 20000 2000 50000 5000000 62500\n"
    recorder, commands = applied(line)
    assert recorder.links == [(3, 7, 20_000_000, 2_000_000, 50_000, 5_000_000, 62_500, 0, 0)]
    assert commands.bad == 0


def test_bursts_and_reordering_follow_the_rest():
    line = protocol.link_line(3, 7, LinkState(5e6, 0.020, 0.002, 0.05, burst=2.5, reorder=0.01), queue=0.1)
    assert line == b"L 3 7 20000 2000 50000 5000000 62500 2500 10000\n"
    recorder, commands = applied(line)
    assert recorder.links == [(3, 7, 20_000_000, 2_000_000, 50_000, 5_000_000, 62_500, 2500, 10_000)]
    assert commands.bad == 0
    for wrong in (b"2500", b"999 0", b"1000000001 0", b"2500 1000001", b"2500 0 0", b"-1 0"):
        assert applied(b"L 3 7 20000 2000 50000 5000000 62500 " + wrong + b"\n")[1].bad == 1


def test_a_port_becomes_a_cell_and_none_again():
    recorder, commands = applied(protocol.cell_line(7, True) + protocol.cell_line(7, False))
    assert recorder.cells == [(7, True), (7, False)]
    assert commands.bad == 0


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (DOWN, b"L 0 1 0 0 1000000 0 0\n"),
        (LinkState(0.0, 0.02, 0.0, 0.0), b"L 0 1 0 0 1000000 0 0\n"),
        (LinkState(math.inf, 0.0, 0.0, 0.0), b"L 0 1 0 0 0 0 16000\n"),
        (LinkState(0.5, 0.0, 0.0, 0.0), b"L 0 1 0 0 0 1 16000\n"),
        (LinkState(1e12, 90.0, 61.0, 0.0), b"L 0 1 60000000 60000000 0 1000000000000 1073741824\n"),
    ],
)
def test_the_ends_of_the_scales(state, line):
    assert protocol.link_line(0, 1, state, queue=0.1) == line
    assert applied(line)[1].bad == 0


@given(
    st.builds(
        LinkState,
        st.floats(0, 1e15) | st.just(math.inf),
        st.floats(0, 1e6),
        st.floats(0, 1e6),
        st.floats(0, 1),
        st.just(math.nan),
        st.just(0.0) | st.floats(1, 1e9),
        st.floats(0, 1),
    ),
    st.floats(0, 100),
)
def test_every_possible_state_makes_a_good_line(state, queue):
    protocol.check(state)
    recorder, commands = applied(protocol.link_line(0, 1, state, queue))
    assert commands.bad == 0
    (sent,) = recorder.links
    if state.rate > 0 and state.loss < 1:
        assert abs(sent[4] - state.loss * 1e6) <= 0.5
        assert sent[2] == pytest.approx(min(state.delay, 60.0) * 1e9, abs=501)


@pytest.mark.parametrize(
    "state",
    [
        LinkState(-1.0, 0.0, 0.0, 0.0),
        LinkState(1.0, math.inf, 0.0, 0.0),
        LinkState(1.0, 0.0, math.nan, 0.0),
        LinkState(1.0, 0.0, 0.0, 1.1),
        LinkState(math.nan, 0.0, 0.0, 0.0),
        LinkState(1.0, 0.0, 0.0, 0.1, burst=0.5),
        LinkState(1.0, 0.0, 0.0, 0.1, burst=math.nan),
        LinkState(1.0, 0.0, 0.0, 0.1, reorder=1.5),
    ],
)
def test_impossible_states_are_refused(state):
    with pytest.raises(ProtocolError, match="no such link"):
        protocol.check(state)


@given(st.binary(max_size=300))
@example(b"L 0 1 1 1 1 1")
@example(b"L 0 1 -1 1 1 1 1")
@example(b"L 0 0 1 1 1 1 1")
@example(b"L 0 1024 1 1 1 1 1")
@example(b"L 0 1 1 1 1000001 1 1")
@example(b"L 0 1 1 1 1 1 1 ")
@example(b"L 0 1 1 1 1 1 1_0")
@example(b"C 0 1024")
@example(b"C 1")
@example(b"B 1024 1")
@example(b"B 1 2")
@example(b"")
def test_bad_lines_are_counted_and_change_nothing(line):
    line = line.replace(b"\n", b"")
    if line == b"Q" or line.startswith(b"P "):
        return
    recorder, commands = applied(line + b"\nC 1 2\n")
    assert commands.bad == 1
    assert not recorder.links
    assert recorder.channels == [(1, 2)]


@given(st.lists(st.integers(1, 40), max_size=30))
def test_commands_may_come_in_pieces(cuts):
    data = b"".join(protocol.link_line(i, i + 1, LinkState(1e6, 0.01, 0.0, 0.1), 0.1) for i in range(10)) + b"x" * 400
    data += b"\nC 5 6\nQ\n"
    recorder = Recorder()
    commands = Commands(recorder)
    for cut in cuts:
        commands.feed(data[:cut])
        data = data[cut:]
    commands.feed(data)
    assert [link[:2] for link in recorder.links] == [(i, i + 1) for i in range(10)]
    assert recorder.channels == [(5, 6)]
    assert commands.bad == 1
    assert commands.ended


def test_statistics_are_read():
    found = protocol.statistics(
        b'{"lag_avg_ms":0.5,"lag_max_ms":2,"in":5,"out":4,"lost":1,"cpu":0.1,"rss_mb":2,"sim":1,"pairs":[[0,1,4,400,1,0]]}'
    )
    assert (found.lag_mean, found.lag_max, found.received, found.delivered, found.lost) == (0.0005, 0.002, 5, 4, 1)
    assert found.memory == 2 * 2**20
    assert found.pairs == {(0, 1): (4, 400, 1, 0)}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from(["in", "out", "pairs"]), inner),
)


@given(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
@example(b"[" * 50_000)
@example(b'{"in":1,"out":1,"pairs":[[0,1024,0,0,0,0]]}')
@example(b'{"in":1,"out":1,"pairs":[[0,1,0]]}')
def test_anything_else_is_a_protocol_error_and_nothing_worse(line):
    try:
        found = protocol.statistics(line)
    except ProtocolError:
        return
    assert found.received >= 0


@pytest.mark.parametrize("mac", ["", "02:00:00:00:00", "02:00:00:00:00:0g", "03:00:00:00:00:01", "2:0:0:0:0:1", "x"])
def test_addresses_of_no_device_are_refused(mac):
    with pytest.raises(ProtocolError, match="MAC"):
        protocol.mac_bytes(mac)


def test_a_mac_is_six_bytes():
    assert protocol.mac_bytes("02:00:00:00:0a:fF") == b"\2\0\0\0\x0a\xff"
