"""What other programs did meanwhile: the counters of the kernel, and what measuring does about it."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time

import pytest

from cosim.contract.errors import RunError
from cosim.testbed.measuring import disturbance, loads
from cosim.testbed.measuring.disturbance import Disturbance, MachineWatch, listening
from cosim.testbed.measuring.open_load import Answered, Caller, LoadRequest

QUIET = Disturbance(0.1, 2, 0.0001, 0.0, 0.0002, 0.02)
BUSY = Disturbance(1.8, 2, 0.012, 0.0, 0.0002, 0.02)


def counters(folder, busy, pressure, service, ran, waited):
    """The kernel's files: s of CPU of all programs, s in which any waited, and of process 7 with one thread."""
    folder = folder / "proc"
    (folder / "pressure").mkdir(parents=True, exist_ok=True)
    (folder / "7" / "task" / "7").mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"cpu  {busy * 100:.0f} 0 0 99999 0 0 0 0 0 0\ncpu0 1 2 3\n")
    (folder / "pressure" / "cpu").write_text(
        "" if math.isnan(pressure) else f"some avg10=1.00 avg60=1.00 avg300=1.00 total={pressure * 1e6:.0f}\n"
    )
    (folder / "7" / "stat").write_text(f"7 (a b) c) S {' '.join('0' * 10)} {service * 100:.0f} 0 0 0\n")
    (folder / "7" / "task" / "7" / "schedstat").write_text(f"{ran * 1e9:.0f} {waited * 1e9:.0f} 5\n")


@pytest.fixture
def watched(monkeypatch, tmp_path):
    """What is found between two states of the counters, for 100 requests in 10 s."""
    now = iter([100.0, 100.0, 110.0, 110.0])
    monkeypatch.setattr(disturbance, "listening", lambda _port: [7])
    monkeypatch.setattr(disturbance.os, "sysconf", lambda _name: 100)
    monkeypatch.setattr(disturbance.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(disturbance.time, "process_time", lambda: 0.0)
    monkeypatch.setattr(disturbance.time, "monotonic", lambda: next(now))

    def found(first, last):
        counters(tmp_path, *first)
        watch = MachineWatch(80, tmp_path)
        counters(tmp_path, *last)
        return watch.total(100, 0.0, 0.02)

    return found


def test_waiting_counts_as_far_as_others_made_it(watched):
    # 6 s of all, 2 s of the service, so 4 s of others: two thirds of what the service waited are theirs.
    found = watched((0.0, 0.0, 0.0, 0.0, 0.0), (6.0, 9.0, 2.0, 2.0, 3.0))
    assert found.others == pytest.approx(0.4)
    assert found.waited == pytest.approx(3.0 * 4.0 / 6.0 / 100)
    assert found.disturbed
    assert "other programs used 0.40 of 4 cores, a request waited 20 ms" in str(found)


def test_without_others_a_service_waits_for_itself(watched):
    found = watched((0.0, 0.0, 0.0, 0.0, 0.0), (2.0, 9.0, 2.0, 2.0, 3.0))
    assert found.waited == 0.0
    assert not found.disturbed


def test_threads_that_ended_are_taken_to_have_waited_like_any_program(watched):
    # The present threads ran for nothing; programs waited in 5 of 10 s, half of it because of others.
    found = watched((0.0, 0.0, 0.0, 0.0, 0.0), (4.0, 5.0, 2.0, 0.1, 0.0))
    assert found.waited == pytest.approx(2.0 * 0.25 / 0.75 / 100)


@pytest.mark.parametrize("pressure", [9.5, math.nan])
def test_a_service_of_another_user_is_judged_by_pressure_and_by_the_use_of_others(watched, monkeypatch, pressure):
    monkeypatch.setattr(disturbance, "listening", lambda _port: [])
    # 40 s of 4 cores, of which 100 requests that take 20 ms alone can have used 2 s.
    found = watched((0.0, 0.0, 0.0, 0.0, 0.0), (40.0, pressure, 2.0, 2.0, 3.0))
    assert found.others == pytest.approx(3.8)
    assert found.disturbed
    assert "other programs used 3.80 of 4 cores, a request waited" in str(found)


def test_a_service_of_another_user_on_a_quiet_machine_is_measured(watched, monkeypatch):
    monkeypatch.setattr(disturbance, "listening", lambda _port: [])
    assert not watched((0.0, 0.0, 0.0, 0.0, 0.0), (2.1, 0.4, 2.0, 2.0, 3.0)).disturbed


def test_a_sender_that_is_late_and_machines_that_take_time_disturb_too():
    assert not QUIET.disturbed
    assert Disturbance(0.1, 2, math.nan, math.nan, 0.003, 0.02).disturbed
    assert not Disturbance(0.1, 2, math.nan, math.nan, 0.0009, 0.001).disturbed  # below what any sender is late
    assert "other machines took 5%" in str(Disturbance(0.1, 2, 0.0, 0.05, 0.0, 0.02))


def test_the_listening_process_is_found():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        assert os.getpid() in listening(one.getsockname()[1])
    nobody = MachineWatch(None)
    assert math.isnan(nobody.total(1, 0.0, 0.01).waited)


class Asked:
    """Answers each request after 10 ms, under the next of the given disturbances."""

    port_here = None

    def __init__(self, made):
        self.made = made

    async def open_loop(self, requests):
        self.made.append(len(requests))
        return 0.0, [Answered(r, 200, r.time, 0.0, 0.0, 0.0, r.time + 0.01) for r in requests]

    def close(self):
        pass


def recorded(monkeypatch, reported, *, busy=False):
    left, made = iter(reported), []
    monkeypatch.setattr(MachineWatch, "total", lambda *_: next(left))
    slots = [(0, 0), (1, 0), (1, 1), (0, 1)]
    asked = {slot: [LoadRequest(0.1 * k, "", 0) for k in range(1 + i)] for i, slot in enumerate(slots)}
    return loads._recorded(lambda: Asked(made), slots, asked, 0.02, busy=busy), made


def test_blocks_that_were_disturbed_are_measured_again(monkeypatch):
    kept, made = recorded(monkeypatch, [QUIET, BUSY, QUIET, BUSY, QUIET, BUSY])
    assert made == [1, 2, 3, 4, 2, 4]
    assert [one.disturbed for _, one in kept.values()] == [False, False, False, True]


def test_a_busy_machine_is_refused_unless_asked_for(monkeypatch):
    with pytest.raises(RunError, match=r"other programs used 1\.80 of 2 cores.*--busy"):
        recorded(monkeypatch, [BUSY] * 3)
    kept, _ = recorded(monkeypatch, [BUSY] * 8, busy=True)
    assert len(kept) == 4


def test_blocks_end_the_connections_that_they_used_again():
    closed = []

    class Connected(Caller):
        async def ask(self, request, origin):
            if not self._idle:
                self._idle.append((time.monotonic(), await asyncio.open_connection(self._host, self._port)))
            return Answered(request, 200, 0.0, 0.0, 0.0, 0.0, 0.01)

        def close(self):
            closed.append(len(self._idle))
            super().close()

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        asked = {slot: [LoadRequest(0.0, "", 0)] for slot in ((0, 0), (0, 1))}
        kept = loads._recorded(lambda: Connected("127.0.0.1", port), [*asked], asked, 0.02, busy=True)
    assert set(kept) == set(asked)
    assert set(closed) == {1}


def test_blocks_follow_one_another_when_the_queue_is_empty():
    def answer(time, ended):
        return Answered(LoadRequest(time, "", 0), 200, time, math.nan, math.nan, math.nan, ended)

    joined = loads._joined([[answer(1.0, 12.0)], [answer(2.0, 3.0)]], 20.0)
    assert [(a.request.time, a.ended) for a in joined] == [(1.0, 12.0), (14.5, 15.5)]
    joined = loads._joined([[answer(1.0, 2.0)], [answer(2.0, 3.0)]], 20.0)
    assert joined[1].request.time == 12.0
