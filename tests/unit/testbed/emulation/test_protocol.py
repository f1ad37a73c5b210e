"""The words between a backend and an engine."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cosim.contract.errors import ProtocolError
from cosim.contract.link import DOWN, LinkState
from cosim.testbed.emulation import protocol
from tests.unit.testbed.emulation.oracle import Commands


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
    state = LinkState(5e6, 0.020, 0.002, 0.05, burst=2.5, reorder=0.01, duplicate=0.2)
    recorder, commands = applied(protocol.link_command(3, 7, state, queue=0.1))
    assert recorder.links == [(3, 7, 20_000_000, 2_000_000, 50_000, 5_000_000, 62_500, 2500, 10_000, 200_000)]
    assert commands.bad == 0


def test_a_port_becomes_a_cell_and_none_again():
    recorder, commands = applied(protocol.cell_command(7, True) + protocol.cell_command(7, False))
    assert recorder.cells == [(7, True), (7, False)]
    assert commands.bad == 0


@pytest.mark.parametrize(
    ("state", "applied_as"),
    [
        (DOWN, (0, 0, 1_000_000, 0, 16_000)),
        (LinkState(0.0, 0.02, 0.0, 0.0), (0, 0, 1_000_000, 0, 16_000)),
        (LinkState(math.inf, 0.0, 0.0, 0.0), (0, 0, 0, 0, 16_000)),
        (LinkState(0.5, 0.0, 0.0, 0.0), (0, 0, 0, 1, 16_000)),
        (LinkState(1e12, 90.0, 61.0, 0.0), (60_000_000_000, 60_000_000_000, 0, 10**12, 1 << 30)),
    ],
)
def test_the_ends_of_the_scales(state, applied_as):
    recorder, commands = applied(protocol.link_command(0, 1, state, queue=0.1))
    assert (recorder.links[0][2:7], commands.bad) == (applied_as, 0)


@given(
    st.builds(
        LinkState,
        st.floats(0, 1e15) | st.just(math.inf),
        st.floats(0, 1e6),
        st.floats(0, 1e6),
        st.floats(0, 1),
        st.just(0.0) | st.floats(1, 1e6),
        st.floats(0, 1),
        st.floats(0, 1),
    ),
    st.floats(0, 100),
)
def test_every_possible_state_makes_a_good_command(state, queue):
    state.check()
    recorder, commands = applied(protocol.link_command(0, 1, state, queue))
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
        state.check()


BAD = [
    protocol.link_command(*ends, LinkState(1e6), 0.1) for ends in ((0, 0), (0, 1024), (1024, 0), (0, -1))
] + [
    protocol.link_command(0, 1, LinkState(1e6)._replace(**wrong), 0.1)
    for wrong in ({"rate": math.nan}, {"delay": -1.0}, {"jitter": math.nan}, {"loss": -0.1}, {"burst": 0.5})
] + [
    protocol.link_command(0, 1, LinkState(1e6), -0.1), protocol.channel_command(0, 1024),
    protocol.channel_command(0, -2), protocol.cell_command(1024, True), bytes(protocol.COMMAND.size),
]  # fmt: skip


@pytest.mark.parametrize("command", BAD)
def test_bad_commands_are_counted_and_change_nothing(command):
    recorder, commands = applied(command + protocol.channel_command(1, 2))
    assert commands.bad == 1
    assert not recorder.links
    assert recorder.channels == [(1, 2)]


@given(st.lists(st.integers(1, 40), max_size=30))
def test_commands_may_come_in_pieces(cuts):
    data = b"".join(protocol.link_command(i, i + 1, LinkState(1e6, 0.01, 0.0, 0.1), 0.1) for i in range(10))
    data += BAD[0] + protocol.channel_command(5, 6) + protocol.END
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


COUNTS = st.integers(0, 2**64 - 1)
STATISTICS = st.builds(
    protocol.Statistics, received=COUNTS, lost=COUNTS, cpu=st.floats(0.0, 1e9), lag_at=st.floats(0.0, 1e9),
    memory=st.floats(0.0, 1e15), pairs=st.dictionaries(
        st.tuples(*[st.integers(0, protocol.MAX_PORTS - 1)] * 2), st.builds(protocol.PairCount, *[COUNTS] * 4),
        max_size=5,
    ),
)  # fmt: skip


@given(st.lists(STATISTICS, max_size=4), st.integers(1, 300))
def test_reports_are_read_wherever_they_are_cut(sent, size):
    data, kept, found = b"".join(map(protocol.report, sent)), bytearray(), []
    for at in range(0, len(data), size):
        kept += data[at : at + size]
        found += protocol.reports(kept)
    assert found == sent
    assert not kept


@given(st.binary(min_size=1, max_size=400))
@example(protocol.report(protocol.Statistics(pairs={(0, protocol.MAX_PORTS): protocol.PairCount(0, 0, 0, 0)})))
@example(b"link" + b"\xff" * 200)
@example(b'{"in": 0}\n')
def test_anything_else_is_a_protocol_error_and_nothing_worse(data):
    kept = bytearray(data)
    try:
        found = [*protocol.reports(kept)]
    except ProtocolError:
        return
    assert found or data[:4] == b"link"[: len(data)]


@pytest.mark.parametrize("mac", ["", "02:00:00:00:00", "02:00:00:00:00:0g", "03:00:00:00:00:01", "2:0:0:0:0:1", "x"])
def test_addresses_of_no_device_are_refused(mac):
    with pytest.raises(ProtocolError, match="MAC"):
        protocol.mac_bytes(mac)


def test_a_mac_is_six_bytes():
    assert protocol.mac_bytes("02:00:00:00:0a:fF") == b"\2\0\0\0\x0a\xff"
