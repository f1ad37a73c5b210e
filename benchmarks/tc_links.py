"""Traffic control of the kernel, requested against measured: rates, delay and loss where there is netem, updates.

    python -m benchmarks.links --backend tc [--seconds 2] [--rounds 3]

Two network namespaces joined by a pair of devices. Targets: 5 and 50 Mbit/s within 5 %, 20 ms within +2 ms, 5 % loss in
its binomial interval, a change of rate holds after one step of 100 ms, 10,000 updates of a class and its queue take
at most 100 ms of processor time. Without netem in the kernel, delay and loss are left out, and the reason is said.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack

from benchmarks.measure import Table
from cosim.contract.link import LinkState
from cosim.testbed.emulation import netns, probe
from cosim.testbed.emulation.netns import Namespaces
from cosim.testbed.emulation.tc import TcBackend, probe_netem

ADDRESS = "10.9.0.2"
RATES = (5e6, 50e6)  # bit/s
DELAY, LATE = 0.020, 2e-3  # s
LOSS = 0.05
STEP = 0.1  # s
RATE_ERROR = 0.05
DESTINATIONS, UPDATES = 1000, 10_000
UPDATE_COST = 0.1  # s


def measure(seconds: float, rounds: int) -> dict[str, object]:
    """What the classes do; SI units."""
    reason = probe_netem()
    with ExitStack() as stack:
        spaces = stack.enter_context(Namespaces())
        here, there = spaces.create("a"), spaces.create("b")
        _ip("link", "add", "eth0", "netns", here.name, "type", "veth", "peer", "name", "eth0", "netns", there.name)
        for space, address in ((here, "10.9.0.1/16"), (there, f"{ADDRESS}/16")):
            _ip("-n", space.name, "addr", "add", address, "dev", "eth0")
            _ip("-n", space.name, "link", "set", "eth0", "up")
        asking = netns.inside(here, probe.opened)
        stack.callback(asking.close)
        spaces.start("b", [sys.executable, "-m", "cosim.testbed.emulation.probe", "answer"], stderr=subprocess.DEVNULL)
        to = (ADDRESS, probe.PORT)
        while not probe.delay(asking, to, 1, 0.05).received:
            pass

        receivers = [f"n{number}" for number in range(DESTINATIONS)]
        addresses = {(node, "eth0"): f"10.9.{1 + n // 250}.{1 + n % 250}" for n, node in enumerate(receivers)}
        backend = TcBackend({("a", "eth0"): "10.9.0.1", ("b", "eth0"): ADDRESS, **addresses}, netem=not reason)
        stack.callback(backend.close)
        backend.attach("a", "eth0", os.open(here, os.O_RDONLY), "")

        def link(rate: float, delay: float = 0.0, loss: float = 0.0) -> None:
            backend.links({("a", "b", "eth0"): LinkState(rate, delay, 0.0, loss)})
            time.sleep(STEP)

        rates = {}
        for wanted in RATES:
            link(wanted)
            found = [probe.rate(asking, to, 1.3 * wanted, seconds).received for _ in range(rounds)]
            rates[f"{wanted / 1e6:g}"] = statistics.median(found)
            time.sleep(0.5)
        result: dict[str, object] = {"backend": "tc", "netem": reason, "rates": rates}
        if not reason:
            link(math.inf, DELAY)
            times = [probe.delay(asking, to, int(seconds / 0.005), 0.005).there for _ in range(rounds)]
            link(math.inf, 0.0, LOSS)
            loss = probe.loss(asking, to, int(seconds * 2000), 0.0005)
            result |= {"delay": statistics.median(times), "loss": loss.share, "low": loss.low, "high": loss.high}
        return result | {"update_cpu": _updates(backend, receivers)}


def _updates(backend: TcBackend, receivers: list[str]) -> float:
    """Processor time for UPDATES links that change in class and queue, best of five."""
    best = math.inf
    for turn in range(5):
        steps = [
            {
                ("a", node, "eth0"): LinkState(1e6 * (1 + turn) + 1e5 * step, 0.0, 0.0, float(step % 2))
                for node in receivers
            }
            for step in range(UPDATES // DESTINATIONS)
        ]
        begun = time.process_time()
        for states in steps:
            backend.links(states)
        best = min(best, time.process_time() - begun)
    return best


def table(found: dict[str, object]) -> Table:
    """What people read."""
    made = Table("Links by tc", ["", "requested", "measured", ""])

    def row(what: str, wanted: object, got: object, holds: bool) -> None:
        made.add([what, wanted, got, "met" if holds else "MISSED"])

    rates, update = found["rates"], found["update_cpu"]
    assert isinstance(rates, dict)
    assert isinstance(update, float)
    for wanted, rate in rates.items():
        row("rate [Mbit/s]", wanted, f"{rate / 1e6:.3f}", abs(rate / 1e6 / float(wanted) - 1) <= RATE_ERROR)
    if found["netem"]:
        made.add(["delay, loss", "", found["netem"], "left out"])
    else:
        delay, share, low, high = (float(str(found[name])) for name in ("delay", "loss", "low", "high"))
        wanted = f"{DELAY * 1e3:g} + {LATE * 1e3:g}"
        row("delay [ms]", wanted, f"{delay * 1e3:.2f}", DELAY <= delay <= DELAY + LATE)
        row("loss [%]", f"{LOSS * 100:g}", f"{share * 100:.2f}", low <= LOSS <= high)
    name = f"{UPDATES} updates, CPU [ms]"
    row(name, f"<= {UPDATE_COST * 1e3:g}", f"{update * 1e3:.1f}", update <= UPDATE_COST)
    return made


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)
