"""What the links of linkd do to frames, without clock and devices; and that the oracle has the same rules."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.testbed.emulation.protocol import PairCount
from tests.unit.testbed.emulation.native import NativeSwitch
from tests.unit.testbed.emulation.oracle import MOST, SECOND, Switch, mix

MS = 1_000_000  # ns
GROUP = b"\xff" * 6
BIG = 1 << 30


def mac(port):
    return bytes([2, 0, 0, 0, 0, port])


def frame(to, number=0, length=60):
    """A frame to a port or to all that says its number."""
    head = (GROUP if to is None else mac(to)) + b"\2\0\0\0\0\0\x88\xb5"
    return (head + number.to_bytes(4, "big")).ljust(length, b"\0")


def number(data):
    return int.from_bytes(data[14:18], "big")


class Bench:
    """A switch with ports that remember what came to them, and when."""

    def __init__(self, kind, ports=3, **options):
        self.got = defaultdict(list)  # port -> (ns, frame)
        self.now = 0
        self.shut = set()
        self.switch = kind(self._write, **options)
        for port in range(ports):
            self.switch.attach(port, mac(port))

    def _write(self, port, data):
        if port in self.shut:
            return False
        self.got[port].append((self.now, data))
        return True

    def offer(self, now, sender, data):
        self.advance(now)
        self.switch.offer(now, sender, data)

    def advance(self, until):
        """Let time pass; every frame is delivered when it is due."""
        while (due := self.switch.next()) is not None and due <= until:
            self.now = due
            self.switch.deliver(due)
        self.now = until
        self.switch.deliver(until)

    def times(self, port):
        return [time for time, _ in self.got[port]]


BOTH = [pytest.param(Switch, id="python"), pytest.param(NativeSwitch, id="compiled", marks=pytest.mark.needs("cc"))]


@pytest.fixture(params=BOTH)
def kind(request):
    return request.param


def test_a_frame_goes_to_the_port_with_its_mac(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 0, 0, 0, 0, 0)
    bench.switch.link(0, 2, 0, 0, 0, 0, 0)
    bench.offer(5, 0, frame(1))
    bench.advance(5)
    assert bench.got == {1: [(5, frame(1))]}
    assert bench.switch.changed() == {(0, 1): PairCount(1, 60, 0, 0)}
    assert bench.switch.changed() == {}


def test_a_group_frame_goes_to_all_that_the_sender_has_links_to(kind):
    bench = Bench(kind, ports=4)
    bench.switch.link(0, 1, 0, 0, 0, 0, 0)
    bench.switch.link(0, 2, 7000, 0, 0, 0, 0)
    bench.switch.link(3, 0, 0, 0, 0, 0, 0)
    bench.offer(1, 0, frame(None))
    bench.advance(10_000)
    assert bench.times(1) == [1]
    assert bench.times(2) == [7001]
    assert not bench.got[0]
    assert not bench.got[3]


def test_pairs_that_were_never_set_and_unknown_receivers_get_nothing(kind):
    bench = Bench(kind)
    bench.offer(0, 0, frame(1))
    bench.offer(0, 0, frame(9))
    bench.offer(0, 0, b"short")
    bench.advance(SECOND)
    assert not bench.got
    assert (bench.switch.received, bench.switch.lost) == (3, 3)


def test_delay_is_the_delay(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 20 * MS, 0, 0, 0, 0)
    bench.offer(3, 0, frame(1))
    bench.advance(20 * MS + 2)
    assert not bench.got[1]
    bench.advance(20 * MS + 3)
    assert bench.times(1) == [20 * MS + 3]


def test_a_link_sends_one_frame_after_the_other_at_its_rate(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 0, 0, 0, 8_000_000, BIG)  # 1 B a microsecond
    for _ in range(3):
        bench.offer(0, 0, frame(1, length=1000))
    bench.advance(SECOND)
    assert bench.times(1) == [1 * MS, 2 * MS, 3 * MS]


def test_a_full_queue_refuses_frames(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 0, 0, 0, 8_000_000, 5000)
    for one in range(20):
        bench.offer(0, 0, frame(1, one, length=1000))
    bench.advance(SECOND)
    assert [number(data) for _, data in bench.got[1]] == [0, 1, 2, 3, 4]
    assert bench.switch.changed()[0, 1] == PairCount(5, 5000, 0, 15)
    assert bench.switch.refused == 15


def test_no_frame_waits_longer_than_the_limit_of_time(kind):
    bench = Bench(kind, wait=10 * MS)
    bench.switch.link(0, 1, 0, 0, 0, 8_000_000, BIG)
    for _ in range(100):
        bench.offer(0, 0, frame(1, length=1000))
    bench.advance(SECOND)
    assert bench.times(1)[-1] == 10 * MS


def test_an_idle_link_takes_a_frame_that_is_larger_than_its_queue(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 0, 0, 0, 1000, 0)
    bench.offer(0, 0, frame(1, length=1000))
    bench.advance(20 * SECOND)
    assert bench.times(1) == [8 * SECOND]


def test_a_change_holds_from_the_next_frame_on_and_keeps_the_order(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 50 * MS, 0, 0, 0, 0)
    bench.offer(0, 0, frame(1, 1))
    bench.switch.link(0, 1, 1 * MS, 0, 0, 0, 0)
    bench.offer(10 * MS, 0, frame(1, 2))
    bench.offer(60 * MS, 0, frame(1, 3))
    bench.advance(SECOND)
    assert [(time, number(data)) for time, data in bench.got[1]] == [(50 * MS, 1), (50 * MS, 2), (61 * MS, 3)]


def test_a_link_that_is_down_loses_everything(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 0, 0, 1_000_000, 0, 0)
    for _ in range(1000):
        bench.offer(0, 0, frame(1))
    bench.advance(SECOND)
    assert not bench.got
    assert bench.switch.changed()[0, 1] == PairCount(0, 0, 1000, 0)


def test_ports_of_a_channel_share_its_air(kind):
    def finished(channel):
        bench = Bench(kind)
        for port in range(3):
            bench.switch.channel(port, channel)
        bench.switch.link(0, 2, 0, 0, 0, 8_000_000, BIG)
        bench.switch.link(1, 2, 0, 0, 0, 8_000_000, BIG)
        for _ in range(10):
            bench.offer(0, 0, frame(2, length=1000))
            bench.offer(0, 1, frame(2, length=1000))
        bench.advance(SECOND)
        assert len(bench.got[2]) == 20
        return bench.times(2)[-1]

    assert finished(-1) == 10 * MS
    assert finished(4) == 20 * MS


def cell_of_stations(kind, *rates):
    """An access point, port 0, and stations with these rates both ways on one channel."""
    bench = Bench(kind, ports=1 + len(rates))
    for port in range(1 + len(rates)):
        bench.switch.channel(port, 0)
    for station, rate in enumerate(rates, 1):
        bench.switch.link(0, station, 0, 0, 0, rate, rate // 80)  # 100 ms at that rate
        bench.switch.link(station, 0, 0, 0, 0, rate, rate // 80)
    return bench


def test_saturated_stations_have_the_same_time_on_the_air(kind):
    """Airtime fairness: of n stations each has rate / n, whatever the others' rates."""
    rates = (48_000_000, 24_000_000, 6_000_000)
    bench, data = cell_of_stations(kind, *rates), 1500
    for step in range(20_000):
        for station, rate in enumerate(rates, 1):
            if step % (48_000_000 // rate) == 0:  # more than it can send
                bench.offer(step * MS // 10, station, frame(0, station, data))
    bench.advance(2 * SECOND)
    sent = [sum(len(got) * 8 for _, got in bench.got[0] if number(got) == station) for station in (1, 2, 3)]
    for bits, rate in zip(sent, rates, strict=True):
        assert bits / 2.0 == pytest.approx(rate / 3, rel=0.02)


def test_an_access_point_shares_its_air_among_stations(kind):
    """It has half of the air beside one busy station, and each of its two receivers half of that."""
    rates = (48_000_000, 6_000_000, 12_000_000)
    bench, data = cell_of_stations(kind, *rates), 1500
    for step in range(20_000):
        bench.offer(step * MS // 10, 0, frame(1, 1, data))
        bench.offer(step * MS // 10, 0, frame(2, 2, data))
        bench.offer(step * MS // 10, 3, frame(0, 3, data))
    bench.advance(2 * SECOND)
    sent = [sum(len(got) * 8 for _, got in bench.got[port]) / 2.0 for port in (1, 2, 0)]
    assert sent == [
        pytest.approx(rate * part, rel=0.02) for rate, part in zip(rates, (1 / 4, 1 / 4, 1 / 2), strict=True)
    ]


@pytest.mark.parametrize("floods", [1, 3])
def test_a_light_station_waits_for_one_frame_of_each_busy_neighbour_at_most(kind, floods):
    """Its echo there and back: twice its own frame, and each way at most the frames that have the air before it."""
    bench, data, small = cell_of_stations(kind, 48_000_000, *[6_000_000] * floods), 1500, 100
    sent, answered = {}, {}
    for step in range(20_000):
        now = step * MS // 10
        for station in range(2, 2 + floods):
            bench.offer(now, station, frame(0, 0, data))
        if step % 200 == 100:
            bench.offer(now, 1, frame(0, step, small))
            sent[step] = now
        for at, got in bench.got[0]:
            if number(got) and number(got) not in answered:
                answered[number(got)] = at
                bench.offer(max(now, at), 0, frame(1, number(got), small))
        bench.got[0].clear()
    bench.advance(3 * SECOND)
    trips = [at - sent[number(got)] for at, got in bench.got[1]]
    own, other = small * 8 * SECOND // 48_000_000, data * 8 * SECOND // 6_000_000
    assert len(trips) >= 99
    assert max(trips) <= 2 * (own + other) + MS  # a frame of the bench's steps besides
    assert max(trips) < 10 * MS < 100 * MS * floods  # what a queue for all would have been


def test_links_from_a_cell_share_one_transmitter_and_links_to_it_another(kind):
    def finished(cell):
        bench = Bench(kind, ports=4)
        bench.switch.cell(0, cell)
        for device, rate in ((1, 8_000_000), (2, 4_000_000), (3, 8_000_000)):
            bench.switch.link(0, device, 0, 0, 0, rate, BIG)
            bench.switch.link(device, 0, 0, 0, 0, rate, BIG)
        for _ in range(10):
            for device in (1, 2):
                bench.offer(0, 0, frame(device, length=1000))
                bench.offer(0, device, frame(0, length=1000))
        bench.advance(SECOND)
        return bench.times(1)[-1], bench.times(2)[-1], bench.times(0)[-1]

    assert finished(False) == (10 * MS, 20 * MS, 20 * MS)
    # Each frame of 1000 B takes 1 ms to the one and 2 ms to the other; both directions at the same time.
    assert finished(True) == (28 * MS, 30 * MS, 30 * MS)


def test_a_group_frame_takes_the_air_once_at_the_rate_of_the_slowest(kind):
    bench = Bench(kind)
    for port in range(3):
        bench.switch.channel(port, 0)
    bench.switch.link(0, 1, 0, 0, 0, 80_000_000, BIG)
    bench.switch.link(0, 2, 0, 0, 0, 8_000_000, BIG)
    bench.offer(0, 0, frame(None, length=1000))
    bench.offer(0, 0, frame(None, length=1000))
    bench.advance(SECOND)
    assert bench.times(1) == bench.times(2) == [1 * MS, 2 * MS]


def test_what_is_on_its_way_to_a_port_that_closes_is_dropped(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 20 * MS, 0, 0, 0, 0)
    bench.offer(0, 0, frame(1))
    bench.switch.detach(1)
    bench.advance(SECOND)
    assert bench.switch.undelivered == 1
    bench.offer(SECOND, 0, frame(1))
    assert bench.switch.lost == 1
    bench.switch.attach(1, mac(1))
    bench.offer(SECOND, 0, frame(1))
    bench.advance(2 * SECOND)
    assert bench.times(1) == [SECOND + 20 * MS]


def test_a_port_that_takes_no_frame_is_counted(kind):
    bench = Bench(kind)
    bench.shut.add(1)
    bench.switch.link(0, 1, 0, 0, 0, 0, 0)
    bench.offer(0, 0, frame(1))
    bench.advance(0)
    assert (bench.switch.delivered, bench.switch.undelivered) == (0, 1)
    assert bench.switch.changed()[0, 1] == PairCount(0, 0, 0, 1)


def test_lateness_is_counted(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 1 * MS, 0, 0, 0, 0)
    bench.switch.offer(0, 0, frame(1))
    bench.switch.deliver(3 * MS)
    assert (bench.switch.lag_max, bench.switch.lag_sum, bench.switch.lag_count) == (2 * MS, 2 * MS, 1)


def test_the_frames_on_their_way_have_a_bound(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 60 * SECOND, 0, 0, 0, 0)
    long = frame(1, length=65_000)
    for _ in range(5000):
        bench.switch.offer(0, 0, long)
    assert bench.switch.waiting() * 65_000 <= 256 << 20 < (bench.switch.waiting() + 1) * 65_000


@pytest.mark.parametrize("loss", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("seed", [1, 2])
def test_loss_lies_in_its_binomial_interval(kind, loss, seed):
    bench, tries = Bench(kind, seed=seed), 20_000
    bench.switch.link(0, 1, 0, 0, round(loss * 1e6), 0, 0)
    for now in range(tries):
        bench.switch.offer(now, 0, frame(1))
    lost = bench.switch.changed()[0, 1].lost
    assert abs(lost - tries * loss) < 4.0 * math.sqrt(tries * loss * (1 - loss))


def test_seeds_and_pairs_lose_different_frames_and_the_same_ones_again(kind):
    def survivors(seed, pair):
        bench = Bench(kind, seed=seed)
        for one in ((0, 1), (1, 0), (0, 2)):
            bench.switch.link(*one, 0, 0, 500_000, 0, 0)
        for now in range(64):
            bench.offer(now, pair[0], frame(pair[1], now))
        bench.advance(100)
        return [number(data) for _, data in bench.got[pair[1]]]

    first = survivors(1, (0, 1))
    assert first == survivors(1, (0, 1))
    others = [survivors(2, (0, 1)), survivors(1, (1, 0)), survivors(1, (0, 2))]
    assert all(first != other for other in others)


@pytest.mark.parametrize(("loss", "burst"), [(0.02, 4.0), (0.1, 1.5), (0.3, 20.0)])
def test_losses_come_in_bursts(kind, loss, burst):
    count, bench = 40_000, Bench(kind, seed=5)
    bench.switch.link(0, 1, 0, 0, round(loss * 1e6), 0, 0, round(burst * 1000))
    for serial in range(count):
        bench.offer(serial, 0, frame(1, serial))
    bench.advance(count)
    kept = np.zeros(count, bool)
    kept[[number(data) for _, data in bench.got[1]]] = True
    begun = np.flatnonzero(~kept & np.append(True, kept[:-1]))
    row = (~kept).sum() / len(begun)
    # Bursts are geometric, and so is what lies between; by renewal theory the share varies with both.
    assert row == pytest.approx(burst, abs=4 * math.sqrt(burst * (burst - 1) / len(begun)) + 0.02)
    r = 1 - 1 / (burst * (1 - loss))
    deviation = math.sqrt(loss * (1 - loss) / count * (1 + r) / (1 - r))
    assert 1 - kept.mean() == pytest.approx(loss, abs=4 * deviation)


def test_reordered_frames_pass_those_before_them(kind):
    bench = Bench(kind, seed=2)
    bench.switch.link(0, 1, 20 * MS, 5 * MS, 0, 0, 0, 0, 250_000)
    for serial in range(2000):
        bench.offer(serial * MS, 0, frame(1, serial))
    bench.advance(10 * SECOND)
    late = {number(data): time - number(data) * MS for time, data in bench.got[1]}
    soon = sum(delay == 0 for delay in late.values())
    assert len(late) == 2000
    assert abs(soon - 500) < 4 * math.sqrt(2000 * 0.25 * 0.75)
    assert all(delay == 0 or delay >= 15 * MS for delay in late.values())
    order = [number(data) for _, data in bench.got[1]]
    others = [serial for serial in order if late[serial]]
    assert others == sorted(others)
    assert order != sorted(order)


def test_duplicated_frames_arrive_twice_at_once(kind):
    bench = Bench(kind, seed=3)
    bench.switch.link(0, 1, 20 * MS, 5 * MS, 200_000, 0, 0, 0, 0, 250_000)
    for serial in range(4000):
        bench.offer(serial * MS, 0, frame(1, serial))
    bench.advance(10 * SECOND)
    came = defaultdict(list)
    for time, data in bench.got[1]:
        came[number(data)].append(time)
    assert abs(len(came) - 3200) < 4 * math.sqrt(4000 * 0.2 * 0.8)
    twice = [times for times in came.values() if len(times) == 2]
    assert abs(len(twice) - len(came) / 4) < 4 * math.sqrt(len(came) * 0.25 * 0.75)
    assert all(one == other for one, other in twice)
    assert bench.switch.changed()[0, 1].frames == len(bench.got[1]) == len(came) + len(twice)


def test_jitter_is_uniform_around_the_delay(kind):
    bench = Bench(kind)
    bench.switch.link(0, 1, 20 * MS, 5 * MS, 0, 0, 0)
    for one in range(4000):
        bench.offer(one * 100 * MS, 0, frame(1))
    bench.advance(4000 * 100 * MS)
    delays = [time % (100 * MS) / MS for time in bench.times(1)]
    assert 15.0 <= min(delays) < 15.05
    assert 24.95 < max(delays) <= 25.0
    assert abs(sum(delays) / 4000 - 20.0) < 4 * 5 / math.sqrt(3 * 4000)
    below = sum(delay < 17.5 for delay in delays)
    assert abs(below - 1000) < 4 * math.sqrt(4000 * 0.25 * 0.75)


def test_the_hash_is_splitmix64():
    # The first outputs for seed 1234567 that Vigna's reference program prints.
    step = 0x9E3779B97F4A7C15
    assert [mix((1234567 + i * step) % 2**64) for i in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


ports = st.integers(0, 3)
events = st.one_of(
    st.tuples(st.just("offer"), ports, st.one_of(st.none(), st.integers(0, 4)), st.integers(14, 1500)),
    st.tuples(
        st.just("link"),
        ports,
        ports,
        st.integers(0, 30_000).map(lambda us: 1000 * us),
        st.integers(0, 20_000).map(lambda us: 1000 * us),
        st.sampled_from([0, 0, 100_000, 900_000, 1_000_000]),
        st.sampled_from([0, 1000, 1_000_000, 50_000_000]),
        st.integers(0, 20_000),
        st.sampled_from([0, 0, 1000, 2500, 10**9]),
        st.sampled_from([0, 0, 100_000, 1_000_000]),
        st.sampled_from([0, 0, 300_000, 1_000_000]),
    ),
    st.tuples(st.just("channel"), ports, st.integers(-1, 1)),
    st.tuples(st.just("cell"), ports, st.booleans()),
    st.tuples(st.just("detach"), ports),
    st.tuples(st.just("attach"), ports),
)
scripts = st.lists(st.tuples(st.integers(0, 5 * MS), events), max_size=80)


def play(kind, script, seed):
    """Run a script of timed events to its end; the frames have the numbers of their events."""
    bench, now = Bench(kind, ports=4, seed=seed, wait=100 * MS), 0
    for sender in range(4):
        for receiver in range(4):
            if sender != receiver:
                bench.switch.link(sender, receiver, 2 * MS, MS, 50_000, 2_000_000, 6000)
    for serial, (pause, (verb, *values)) in enumerate(script):
        now += pause
        if verb == "offer":
            bench.offer(now, values[0], frame(values[1], serial, values[2]))
        elif verb == "link" and values[0] != values[1]:
            bench.switch.link(*values)
        elif verb == "channel":
            bench.switch.channel(*values)
        elif verb == "cell":
            bench.switch.cell(*values)
        elif verb == "detach":
            bench.switch.detach(*values)
        elif verb == "attach":
            bench.switch.attach(values[0], mac(values[0]))
    left = bench.switch.waiting()
    bench.advance(now + 100 * SECOND)
    return bench, left


@given(scripts, st.integers(0, 2**64 - 1))
@settings(deadline=None)
def test_every_frame_is_accounted_for(script, seed):
    bench, _ = play(Switch, script, seed)
    switch, counts = bench.switch, bench.switch.changed()
    assert switch.waiting() == 0
    assert switch.delivered == sum(len(frames) for frames in bench.got.values())
    assert switch.delivered == sum(count.frames for count in counts.values())
    assert sum(count.bytes for count in counts.values()) == sum(
        len(data) for frames in bench.got.values() for _, data in frames
    )
    assert sum(count.dropped for count in counts.values()) == switch.refused + switch.undelivered
    unicast = all(event[2] is not None for _, event in script if event[0] == "offer")
    if unicast:  # one copy of each
        assert switch.received == switch.delivered + switch.lost + switch.refused + switch.undelivered


@given(scripts, st.integers(0, 2**64 - 1))
@settings(deadline=None)
def test_no_frame_passes_another_of_its_pair(script, seed):
    script = [
        (pause, (*event[:8], 0, 0) if event[0] == "link" else event) for pause, event in script
    ]  # none is reordered
    bench, _ = play(Switch, script, seed)
    # On a channel frames for all wait apart from those for one.
    senders = {serial: (event[1], event[2] is None) for serial, (_, event) in enumerate(script) if event[0] == "offer"}
    for frames in bench.got.values():
        last = {}
        for _, data in frames:
            serial = number(data)
            assert serial > last.get(senders[serial], -1)
            last[senders[serial]] = serial


@given(
    st.lists(st.tuples(st.integers(0, 2 * MS), st.integers(14, 1500)), min_size=1, max_size=60),
    st.integers(10_000, 100_000_000),
    st.integers(0, 3 * MS),
)
@settings(deadline=None)
def test_the_rate_is_never_exceeded(offered, rate, jitter):
    """Without jitter, over any interval between arrivals; with jitter it holds to twice the jitter."""
    bench, now = Bench(Switch, wait=10**15), 0
    bench.switch.link(0, 1, 5 * MS, jitter, 0, rate, BIG)
    for pause, length in offered:
        now += pause
        bench.offer(now, 0, frame(1, 0, length))
    bench.advance(now + 10**15)
    got = bench.got[1]
    assert len(got) == len(offered)
    for first in range(len(got)):
        bits = 0
        for time, data in got[first + 1 :]:
            bits += 8 * len(data)
            assert bits * SECOND // rate <= time - got[first][0] + 2 * jitter + 60


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("shared", [False, True])
def test_frames_that_there_is_no_memory_for_are_told_apart_from_those_of_full_queues(make, shared):
    switch = make(lambda port, frame: True)
    for port in (0, 1, 2):
        switch.attach(port, mac(port))
        if shared and port < 2:
            switch.channel(port, 0)
    data = frame(1, length=65_000)
    switch.link(2, 1, 0, 0, 0, 8_000, 16_000)
    for _ in range(9):
        switch.offer(0, 2, data)
    assert (switch.refused, switch.overflowed) == (8, 0)
    switch.link(0, 1, 60 * SECOND, 0, 0, 10**12, BIG)
    for k in range(MOST // len(data) + 7):
        switch.offer((1 + k) * MS, 0, data)  # each finds the transmitter free
    assert (switch.refused, switch.overflowed) == (8 + 8, 8)  # the one that the slow link has is held as well


@pytest.mark.needs("cc")
@given(scripts, st.integers(0, 2**64 - 1))
@settings(deadline=None)
def test_the_compiled_switch_does_the_same_to_the_bit(script, seed):
    ours, ours_left = play(Switch, script, seed)
    theirs, theirs_left = play(NativeSwitch, script, seed)
    assert ours_left == theirs_left
    assert ours.got == theirs.got
    assert ours.switch.changed() == theirs.switch.changed()
    for name in (
        "received", "delivered", "lost", "refused", "undelivered", "overflowed",
        "lag_sum", "lag_max", "lag_count", "lag_at",
    ):  # fmt: skip
        assert getattr(ours.switch, name) == getattr(theirs.switch, name)
