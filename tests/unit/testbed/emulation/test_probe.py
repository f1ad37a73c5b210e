"""The probe between two sockets of this machine: what it reports is what happened."""

from __future__ import annotations

import math
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import RunError, SetupError
from cosim.testbed.emulation import probe

ROOT = Path(__file__).resolve().parents[4]


class Relay:
    """Passes datagrams between a probe that asks and one that answers; loses every n-th that is to be counted."""

    def __init__(self, to, every):
        self._to, self._every = to, every
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = self.socket.getsockname()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ending:
            ending.sendto(bytes(8), self.address)
        self._thread.join()

    def _run(self):
        asker, counted = None, 0
        while True:
            data, sender = self.socket.recvfrom(65536)
            if sender == self._to:
                self.socket.sendto(data, asker)
                continue
            asker = sender
            if data[4] == probe.COUNT:
                counted += 1
                if counted % self._every == 0:
                    continue
            elif not data[4]:
                self.socket.close()
                return
            self.socket.sendto(data, self._to)


@pytest.fixture(scope="module")
def answering():
    code = (
        "from cosim.testbed.emulation import probe; s = probe.opened('127.0.0.1')\n"
        "print(s.getsockname()[1], flush=True); probe.answer(s)"
    )
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT)
    yield ("127.0.0.1", int(program.stdout.readline()))
    program.kill()
    program.wait()
    program.stdout.close()


def test_echoes_are_timed(answering):
    with probe.opened() as asking:
        found = probe.delay(asking, answering, count=20, pause=0.002)
    assert found.sent == found.received == 20
    assert 0 < found.least <= found.round_trip <= found.most
    assert found.round_trip == pytest.approx(found.there + found.back)


def test_loss_is_counted_one_way(answering):
    relay = Relay(answering, every=10)
    with probe.opened() as asking:
        # As many as a receive buffer of the usual size holds: however late relay and probe run, none is dropped by it.
        found = probe.loss(asking, relay.address, count=200, pause=0.0001)
        assert (found.sent, found.received) == (200, 180)
        assert found.low < 0.1 < found.high
    relay.end()


def test_the_rate_of_what_arrives_is_told(answering):
    with probe.opened() as asking:
        found = probe.rate(asking, answering, offered=2e6, duration=0.3)
    assert found.lost == 0
    assert 0.5e6 < found.received < 4e6


def test_nobody_there_is_said_so(monkeypatch):
    monkeypatch.setattr(probe, "PATIENCE", 0.01)
    with probe.opened("127.0.0.1") as silent, probe.opened() as asking:
        with pytest.raises(RunError, match="no answer from"):
            probe.loss(asking, silent.getsockname(), count=3)
        found = probe.delay(asking, ("127.0.0.1", 9), count=2, pause=0.001)
        assert found.received == 0
        assert math.isnan(found.round_trip)


def test_a_taken_port_is_said_so(answering):
    with pytest.raises(SetupError, match="cannot use UDP port"):
        probe.opened(*answering)


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_the_interval_holds_the_share_and_stays_a_share(trials, part):
    successes = round(trials * part)
    low, high = probe.interval(successes, trials)
    assert 0 <= low <= successes / trials + 1e-12
    assert successes / trials - 1e-12 <= high <= 1


def test_the_interval_is_wilsons():
    # Newcombe 1998, Statistics in Medicine 17, 857-872, table I: 81 of 263 at 95 %.
    low, high = probe.interval(81, 263, 1.959964)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)
