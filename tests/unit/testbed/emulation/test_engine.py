"""A backend and its engine, linkd: ports come and go, the engine is killed, nothing is forgotten."""

from __future__ import annotations

import math
import os
import signal
import sys
import time

import pytest

from cosim.contract.errors import ProtocolError, RunError, SetupError
from cosim.contract.link import LinkState
from cosim.testbed.emulation import engine, protocol
from cosim.testbed.emulation.engine import EngineBackend
from tests.unit.testbed.emulation.conftest import frame, mac, until

FREE = LinkState(math.inf, 0.0, 0.0, 0.0)


def pair(backend, cards, state=FREE):
    """Two nodes, a link in each direction."""
    first, second = cards(), cards()
    backend.attach("a", "wlan0", first.give(), mac(1))
    backend.attach("b", "wlan0", second.give(), mac(2))
    backend.links({("a", "b", "wlan0"): state, ("b", "a", "wlan0"): state})
    reaches(first, second)
    return first, second


def reaches(first, second):
    """Wait until frames pass from one card to the other."""

    def passed():
        first.send(frame(2))
        return not second.silent(0.05)

    until(passed)
    while not second.silent(0.1):
        pass


def frames(backend):
    """How many came from a to b so far."""
    return backend.counts().get(("a", "b", "wlan0"), (0,))[0]


def drained(card):
    while not card.silent(0.1):
        pass


def test_frames_pass_in_order(backend, cards):
    first, second = pair(backend, cards)
    for number in range(100):
        first.send(frame(2, number))
    assert [second.receive()[17] for _ in range(100)] == list(range(100))
    second.send(frame(1, 7))
    assert first.receive() == frame(1, 7)


def test_a_delay_is_waited_for(backend, cards):
    first, second = pair(backend, cards)
    backend.links({("a", "b", "wlan0"): LinkState(math.inf, 0.05, 0.0, 0.0)})

    def late():
        begun = time.monotonic()
        first.send(frame(2))
        second.receive()
        return time.monotonic() - begun >= 0.05

    until(late)  # the engine knows of the delay
    assert all(late() for _ in range(5))


def test_a_link_goes_down_and_up(backend, cards):
    first, second = pair(backend, cards)
    backend.links({("a", "b", "wlan0"): LinkState(0.0, 0.0, 0.0, 1.0)})

    def passes_nothing():
        first.send(frame(2))
        return second.silent(0.2)

    until(passes_nothing)  # the engine knows
    drained(second)
    for _ in range(5):
        first.send(frame(2))
    assert second.silent()
    backend.links({("a", "b", "wlan0"): FREE})
    reaches(first, second)


def test_a_detached_port_has_no_ghost_and_can_come_back(backend, cards):
    first, second = pair(backend, cards)
    backend.detach("b", "wlan0")
    backend.detach("b", "wlan0")
    backend.detach("nobody", "wlan0")
    until(second.cut)
    first.send(frame(2))
    again = cards()
    backend.attach("b", "wlan0", again.give(), mac(2))
    reaches(first, again)


def test_an_attached_port_is_replaced(backend, cards):
    first, second = pair(backend, cards)
    again = cards()
    backend.attach("b", "wlan0", again.give(), mac(2))
    reaches(first, again)
    assert second.cut()


def test_a_quick_change_of_ports_ends_with_the_last(backend, cards):
    first, _ = pair(backend, cards)
    for _ in range(20):
        last = cards()
        backend.detach("b", "wlan0")
        backend.attach("b", "wlan0", last.give(), mac(2))
    reaches(first, last)
    backend.detach("b", "wlan0")
    until(last.cut)


def test_a_killed_engine_is_replaced_and_told_everything(backend, cards):
    first, second = pair(backend, cards)
    backend.links({("b", "a", "wlan0"): LinkState(math.inf, 0.05, 0.0, 0.0)})
    backend.health()
    killed = backend.pid
    os.kill(killed, signal.SIGKILL)
    until(lambda: backend.pid not in (0, killed))
    reaches(first, second)
    drained(first)
    begun = time.monotonic()
    second.send(frame(1))
    first.receive()
    assert time.monotonic() - begun >= 0.05
    assert backend.restarts == 1
    until(lambda: frames(backend) >= 1)


def test_counts_go_on_over_a_restart(backend, cards):
    first, second = pair(backend, cards)
    for _ in range(50):
        first.send(frame(2))
        second.receive()
    until(lambda: frames(backend) >= 51)
    before = backend.counts()["a", "b", "wlan0"]
    assert before.bytes == 60 * before.frames
    killed = backend.pid
    os.kill(killed, signal.SIGKILL)
    until(lambda: backend.pid not in (0, killed))
    reaches(first, second)
    until(lambda: frames(backend) > before.frames)
    health = backend.health()
    assert health.received >= before.frames
    assert health.delivered > before.frames
    assert backend.health().received < before.frames


def test_health_tells_what_was_lost(backend, cards):
    first, _ = pair(backend, cards, LinkState(math.inf, 0.0, 0.0, 0.5))
    for _ in range(200):
        first.send(frame(2))
    dropped, end = 0, time.monotonic() + 60
    while dropped < 60 and time.monotonic() < end:
        health = backend.health()
        dropped += health.dropped
        time.sleep(0.1)
    assert dropped >= 60
    assert health.alive
    assert health.memory > 0


def test_bursts_and_reordering_reach_the_engine(backend, cards):
    # Half of the frames are lost, a million in a row: none of the first ones. All pass a delay of a minute.
    first, second = pair(backend, cards, LinkState(math.inf, 60.0, 0.0, 0.5, burst=1e6, reorder=1.0))
    for number in range(100):
        first.send(frame(2, number))
    assert [int.from_bytes(second.receive()[14:18], "big") for _ in range(100)] == list(range(100))


def test_a_silent_engine_is_killed(command, cards):
    backend = EngineBackend(command, silence=1.5)
    try:
        first, second = pair(backend, cards)
        stopped = backend.pid
        os.kill(stopped, signal.SIGSTOP)
        until(lambda: backend.pid not in (0, stopped))
        reaches(first, second)
    finally:
        backend.close()
    assert first.cut()


def test_shared_air_reaches_the_engine(command, cards):
    backend = EngineBackend(command, shared=["wlan0"])
    slow = LinkState(1e6, 0.0, 0.0, 0.0)
    try:
        a, b, c = (cards() for _ in range(3))
        for number, card in enumerate((a, b, c), 1):
            backend.attach("abc"[number - 1], "wlan0", card.give(), mac(number))
        backend.links({("a", "b", "wlan0"): slow, ("c", "b", "wlan0"): slow})
        reaches(a, b)
        begun = time.monotonic()
        for _ in range(5):  # 10 frames of 10 ms each, one after the other
            a.send(frame(2, length=1250))
            c.send(frame(2, length=1250))
        for _ in range(10):
            b.receive()
        assert time.monotonic() - begun >= 0.099
    finally:
        backend.close()


def test_a_full_set_of_links_is_taken(backend):
    names = [f"n{number}" for number in range(101)]
    states = {(a, b, "wlan0"): LinkState(5e6, 0.02, 0.001, 0.01) for a in names for b in names if a != b}
    backend.links(states)
    backend.links(states)
    time.sleep(1.2)
    assert backend.restarts == 0
    assert backend.health().alive


def test_wrong_input_is_refused_and_changes_nothing(backend, cards):
    card = cards()
    with pytest.raises(ProtocolError, match="MAC"):
        backend.attach("a", "wlan0", card.give(), "nonsense")
    assert card.cut()
    with pytest.raises(ProtocolError, match="no such link"):
        backend.links({("a", "b", "wlan0"): LinkState(1.0, -1.0, 0.0, 0.0)})
    with pytest.raises(ProtocolError, match="no position"):
        backend.move({"a": (0.0, math.nan, 0.0)})
    backend.move({"a": (0.0, 1.0, 2.0)})


def test_a_closed_backend_takes_no_ports(command, cards):
    backend = EngineBackend(command)
    backend.close()
    card = cards()
    with pytest.raises(RunError, match="closed"):
        backend.attach("a", "wlan0", card.give(), mac(1))
    assert card.cut()
    assert not backend.health().alive


def test_an_engine_that_is_not_there_is_said_so():
    with pytest.raises(SetupError, match="no-such-engine: cannot be started"):
        EngineBackend(["/no-such-engine"])


def test_an_engine_that_ends_at_once_is_said_so():
    with pytest.raises(SetupError, match="exit code 3"):
        EngineBackend([sys.executable, "-c", "raise SystemExit(3)"])


def test_an_engine_that_never_gets_ready_is_said_so():
    with pytest.raises(SetupError, match=r"said nothing within 0\.3 s"):
        EngineBackend([sys.executable, "-c", "import time; time.sleep(60)"], starting=0.3)


STUBBORN = f"""
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    sys.stdout.buffer.write({protocol.report(protocol.Statistics())!r})
    sys.stdout.flush()
    time.sleep(0.05)
"""


def test_an_engine_that_does_not_want_to_end_is_killed(monkeypatch):
    monkeypatch.setattr(engine, "WRITING", 0.3)
    backend = EngineBackend([sys.executable, "-c", STUBBORN])
    process = backend.pid
    backend.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_an_engine_that_says_something_else_is_killed_and_its_words_are_logged(caplog):
    backend = EngineBackend([sys.executable, "-c", STUBBORN + "    print('nonsense', flush=True)"])
    until(lambda: backend.restarts >= 1)
    backend.close()
    assert "not a report: b'nonsense" in caplog.text


def test_an_engine_that_does_not_read_is_killed(monkeypatch):
    monkeypatch.setattr(engine, "WRITING", 0.3)
    backend = EngineBackend([sys.executable, "-c", STUBBORN])
    names = [f"n{number}" for number in range(300)]  # 2 MB of commands
    states = {(a, b, "wlan0"): FREE for a in names for b in names if a != b}
    backend.links(states)
    until(lambda: backend.restarts >= 2)
    backend.close()
