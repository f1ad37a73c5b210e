"""Throughput and round trip against distance through ns-3 in real time, against what two containers measured.

    python -m benchmarks.links --backend ns3 [--seconds 2] [--rounds 3]

Two network namespaces with an ad hoc Wi-Fi interface each: 802.11n of 20 MHz at 5 GHz, 20 dBm, noise figure 7 dB,
exponent 2.7, no fading. UDP is offered at 60 Mbit/s. Out of range nothing arrives, and all is as before on return.
Target: within 15 % of the reference. The reference was measured with the same models and another engine, on a busy
machine of 2 processors, with iperf3 between containers.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack

from benchmarks.measure import Table
from cosim.adapters.ns3.radio import RadioParameters, live
from cosim.testbed.emulation import netns, probe, taps
from cosim.testbed.emulation.netns import Namespaces
from cosim.testbed.emulation.taps import Tap

NODES = {"a": "10.9.0.1", "b": "10.9.0.2"}
MACS = {"a": "02:00:00:00:00:01", "b": "02:00:00:00:00:02"}
REFERENCE = {5: 59.4e6, 100: 21.7e6, 150: 16.6e6, 200: 11.5e6, 240: 5.8e6}  # m -> bit/s
BEYOND = 300  # m
ERROR = 0.15
OFFERED = 60e6  # bit/s
BEACON = 0.3  # s until the rate adaptation has seen the new place


def sweep(seconds: float, rounds: int) -> dict[str, object]:
    """Distances and what was measured there; SI units."""
    with ExitStack() as stack:
        spaces = stack.enter_context(Namespaces())
        files = {node: spaces.create(node) for node in NODES}
        backend = live(RadioParameters())
        stack.callback(backend.close)
        for node, space in files.items():
            near = [(NODES[other], MACS[other]) for other in NODES if other != node]
            tap = Tap("wlan0", MACS[node], f"{NODES[node]}/24", neighbours=near)
            backend.attach(node, "wlan0", taps.make(tap, space), MACS[node])
        asking = netns.inside(files["a"], probe.opened)
        stack.callback(asking.close)
        spaces.start("b", [sys.executable, "-m", "cosim.testbed.emulation.probe", "answer"], stderr=subprocess.DEVNULL)
        to = (NODES["b"], probe.PORT)

        def at(distance: float) -> None:
            backend.move({"a": (0.0, 0.0, 0.0), "b": (distance, 0.0, 0.0)})
            time.sleep(BEACON)

        at(5)
        while not probe.delay(asking, to, 1, 0.05).received:
            pass
        found: dict[str, object] = {"backend": "ns3", "reference": {str(d): r for d, r in REFERENCE.items()}}
        rates, trips, lags = {}, {}, {}
        for distance in REFERENCE:
            at(distance)
            trips[str(distance)] = probe.delay(asking, to, 100, 0.01).round_trip
            backend.health()
            tries = []
            for _ in range(rounds):
                tries.append(probe.rate(asking, to, OFFERED, seconds).received)
                time.sleep(0.5)  # what waits for the air goes first
            rates[str(distance)] = max(tries)  # a busy machine only takes away
            lags[str(distance)] = backend.health().lag_max
        at(BEYOND)
        beyond = probe.delay(asking, to, 20, 0.02).received
        at(5)
        back = probe.delay(asking, to, 20, 0.02).received
        health = backend.health()
    return found | {
        "rates": rates, "round_trips": trips, "lag_max": lags, "beyond": beyond, "back": back / 20,
        "memory": health.memory, "cpu": health.cpu,
    }  # fmt: skip


def table(found: dict[str, object]) -> Table:
    """What people read."""
    rates, trips, lags = found["rates"], found["round_trips"], found["lag_max"]
    assert isinstance(rates, dict)
    assert isinstance(trips, dict)
    assert isinstance(lags, dict)
    made = Table("Wi-Fi by ns-3", ["distance [m]", "reference", "UDP [Mbit/s]", "", "round trip [ms]", "lag max [ms]"])
    for distance, reference in REFERENCE.items():
        rate = rates[str(distance)]
        holds = abs(rate / reference - 1) <= ERROR
        made.add([
            distance, f"{reference / 1e6:g}", f"{rate / 1e6:.1f}", "met" if holds else "MISSED",
            f"{trips[str(distance)] * 1e3:.2f}", f"{lags[str(distance)] * 1e3:.1f}",
        ])  # fmt: skip
    made.add([BEYOND, "none", f"{found['beyond']} of 20", "met" if not found["beyond"] else "MISSED", "", ""])
    return made
