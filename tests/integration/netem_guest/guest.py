"""Measure in a machine whose kernel has netem what real nodes and machines get; a line `RESULT {...}` for the host."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cosim.contract.link import DOWN, LinkState
from cosim.testbed.emulation import netns
from cosim.testbed.emulation.tc import TcBackend, probe_netem
from cosim.testbed.live.shaper import KernelShaper
from cosim.testbed.live.shaping import Impairment

ADDRESSES = {("a", "veth0"): "10.0.0.1", ("b", "veth0"): "10.0.0.2", ("c", "veth0"): "10.0.0.3"}
OTHER = "10.0.0.4"  # of no node


def run(command: str) -> str:
    return subprocess.run(command.split(), capture_output=True, text=True, check=False).stdout


def ping(address: str, count: int, interval: float = 0.01) -> dict[str, float]:
    """Sent and received; least and median round trip in ms: an emulated machine stands still at times."""
    text = run(f"ip netns exec here ping -c {count} -i {interval} -W 2 {address}")
    times = [float(one) for one in re.findall(r"time=([\d.]+) ms", text)] or [math.nan]
    received = len(times) if times[0] == times[0] else 0
    return {"sent": count, "received": received, "min": min(times), "median": statistics.median(times)}


def opened(name: str) -> socket.socket:
    return netns.inside(
        Path(f"/run/netns/{name}"), lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    )


def send(address: str, offered: float, seconds: float = 4.0, size: int = 1200) -> dict[str, float]:
    """bit/s of frames that arrive in the second half, and how many came before an earlier one."""
    frame, sent, counted, last, disordered = size + 42, 0, 0, -1, 0
    with opened("here") as sender, opened("there") as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind((address, 5000))
        start = now = time.monotonic()
        while now < start + seconds:
            while sent * frame * 8 < offered * (now - start):
                try:
                    sender.sendto(struct.pack("!I", sent).ljust(size, b"x"), (address, 5000))
                except BlockingIOError:
                    break
                sent += 1
            try:
                while True:
                    (number,) = struct.unpack_from("!I", receiver.recv(2048))
                    disordered += number < last
                    last = max(last, number)
                    counted += now >= start + seconds / 2
            except BlockingIOError:
                time.sleep(0.001)
            now = time.monotonic()
    return {"rate": counted * frame * 8 / (now - start - seconds / 2), "disordered": disordered, "sent": sent}


def rows(address: str, count: int) -> dict[str, float]:
    """Datagrams that are lost, and how many in a row."""
    got = set()
    with opened("here") as sender, opened("there") as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        receiver.bind((address, 5000))
        for number in range(count):
            sender.sendto(struct.pack("!I", number).ljust(100, b"x"), (address, 5000))
            if number % 50 == 49 or number == count - 1:
                time.sleep(0.02)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        got.add(struct.unpack_from("!I", receiver.recv(2048))[0])
    lost = [number not in got for number in range(count)]
    begun = sum(gone and not before for gone, before in zip(lost, [False, *lost], strict=False))
    return {"sent": count, "lost": sum(lost), "rows": begun, "row": sum(lost) / max(begun, 1)}


def steadiest(address: str, offered: float) -> dict[str, float]:
    """The faster of two tries: an emulated processor may stand still for longer than a class saves up."""
    return max((send(address, offered) for _ in range(2)), key=lambda found: found["rate"])


def measure() -> dict[str, Any]:
    run("ip netns add here")
    run("ip netns add there")
    run("ip link add veth0 netns here type veth peer name veth0 netns there")
    run("ip -n here addr add 10.0.0.1/24 dev veth0")
    for address in ("10.0.0.2", "10.0.0.3", OTHER):
        run(f"ip -n there addr add {address}/24 dev veth0")
    run("ip -n here link set veth0 up")
    run("ip -n there link set veth0 up")
    found: dict[str, Any] = {"probe": probe_netem(), "plain": ping("10.0.0.2", 100)}
    before = run("tc -n here qdisc show dev veth0")
    backend = TcBackend(ADDRESSES)
    backend.attach("a", "veth0", os.open("/run/netns/here", os.O_RDONLY), "")
    found["unset"] = ping("10.0.0.2", 20)

    def link(receiver: str, *state: float) -> None:
        backend.links({("a", receiver, "veth0"): LinkState(*state)})

    link("b", 5e6, 0.020, 0.002, 0.05)
    link("c", 1e6, 0.050, 0.0, 0.0)
    found["qdiscs"] = run("tc -n here qdisc show dev veth0")
    found["first"] = ping("10.0.0.2", 600)
    found["second"] = ping("10.0.0.3", 100, 0.02)
    found["other"] = ping(OTHER, 100)
    found["first_rate"] = steadiest("10.0.0.2", 10e6)
    link("b", 2e6, 0.080, 0.0, 0.2)
    time.sleep(1.0)  # what waited before goes first
    found["changed"] = ping("10.0.0.2", 300)
    found["changed_rate"] = steadiest("10.0.0.2", 4e6)
    link("b", 20e6, 0.020, 0.010, 0.0)
    found["jitter"] = ping("10.0.0.2", 300)
    found["jitter_order"] = send("10.0.0.2", 1e6, size=100)
    backend.links({("a", "b", "veth0"): LinkState(math.inf, 0.0, 0.0, 0.2, burst=5.0)})
    found["rows"] = rows("10.0.0.2", 4000)
    backend.links({("a", "b", "veth0"): LinkState(20e6, 0.050, 0.0, 0.0, reorder=0.1)})
    found["reordered"] = send("10.0.0.2", 1e6, size=100)
    link("b", *DOWN)
    found["down"] = ping("10.0.0.2", 20)
    link("b", math.inf, 0.005, 0.0, 0.0)
    found["up"] = ping("10.0.0.2", 100)
    health = backend.health()
    found["health"] = [health.received, health.delivered, health.dropped]
    start, count = time.process_time(), 300
    for number in range(count):
        link("b", 1e6 * (1 + number % 2), 0.02 * (1 + number % 2), 0.0, 0.0)
    found["update_us"] = (time.process_time() - start) / count * 1e6
    backend.close()
    found["restored"] = run("tc -n here qdisc show dev veth0") == before
    found["machine"] = netns.inside(Path("/run/netns/here"), machine)
    found["machine_restored"] = run("tc -n here qdisc show dev veth0") == before
    return found | by_next_hop()


def by_next_hop() -> dict[str, Any]:
    """Nodes known by MAC: a packet for another address is shaped as one to the node that it goes to first."""
    mac = run("ip netns exec there cat /sys/class/net/veth0/address").strip()
    backend = TcBackend({("next", "veth0"): mac, ("far", "veth0"): "02:00:0a:00:00:09"})
    backend.attach("a", "veth0", os.open("/run/netns/here", os.O_RDONLY), "")
    found: dict[str, Any] = {"hop_unset": ping(OTHER, 20)}
    backend.links({("a", "next", "veth0"): LinkState(1e7, 0.030, 0.0, 0.05)})
    found["hop"] = ping(OTHER, 300)
    backend.close()
    return found


def machine() -> dict[str, Any]:
    """What a machine that attached makes of its links; called inside it."""
    shaper = KernelShaper("veth0")
    shaper.open()
    try:
        links = {
            "10.0.0.2": Impairment("10.0.0.2", None, 0.05, None, 0.2),
            "10.0.0.3": Impairment("10.0.0.3", 1e6, 0.02),
        }
        imposed = list(shaper.impose(links))
        first, second, other = ping("10.0.0.2", 300), ping("10.0.0.3", 100), ping(OTHER, 100)
        return {"ability": shaper.ability, "imposed": imposed, "first": first, "second": second, "other": other}
    finally:
        shaper.close()


if __name__ == "__main__":
    sys.stdout.write("RESULT " + json.dumps(measure()) + "\n")
