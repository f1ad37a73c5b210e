"""Frames that the kernel drops at a TAP that nobody reads, and probes that spare links in use."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from cosim.testbed.emulation import probing, taps
from cosim.testbed.emulation.probing import carried, measure
from cosim.testbed.emulation.sidecar import Unread
from cosim.testbed.emulation.taps import Tap

TABLE = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:     100       0    0    9    0     0          0         0      200       0    0   77    0     0       0          0
 wlan0:    1000       0    0    5    0     0          0         0     4000       0    0 {drops}    0     0       0          0
"""  # noqa: E501


def test_drops_are_told_once_and_a_new_interface_starts_anew(tmp_path):
    table = tmp_path / "dev"
    unread = Unread(["wlan0"], table)
    found = []
    for drops in (0, 7, 7, 19, 4):
        table.write_text(TABLE.format(drops=drops))
        found.append(unread.new())
    assert found == [0, 7, 0, 12, 4]
    assert carried(["wlan0", "eth9"], table) == 5000
    table.unlink()
    assert unread.new() == 0


@pytest.mark.netns
def test_a_tap_that_nobody_reads_overruns():
    """Its queue takes as many frames as it says; each further one is dropped and counted."""
    name, neighbour = f"t{os.getpid()}", ("10.250.77.2", "02:00:00:00:00:02")
    descriptor = taps.make(Tap(name, "02:00:00:00:00:01", "10.250.77.1/24", neighbours=(neighbour,)))
    try:
        unread = Unread([name])
        before = unread.new()
        room = int(Path(f"/sys/class/net/{name}/tx_queue_len").read_text())
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
            sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
            for _ in range(room + 500):
                sending.sendto(b"x" * 100, ("10.250.77.2", 9))
        assert before + unread.new() >= 400
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("others", "measured"), [(0, True), (200_000, False)])
def test_a_probe_leaves_the_rate_of_a_link_in_use_alone(monkeypatch, others, measured):
    monkeypatch.setattr(probing.probe, "delay", lambda *_, **__: _Found())
    monkeypatch.setattr(probing.probe, "loss", lambda *_, **__: (time.sleep(0.05), _Found())[1])
    monkeypatch.setattr(probing.probe, "rate", lambda *_, **__: _Found())
    reported = iter([1000, 1000 + int(2 * 50 * probing.FRAME / 8) + others])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        *_, rate = measure(asking, ("127.0.0.1", 9), 5e6, lambda: next(reported))
    assert (rate == 4e6) is measured


class _Found:
    received, sent, there, there_deviation = 4e6, 50, 0.001, 0.0
