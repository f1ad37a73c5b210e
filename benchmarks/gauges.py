"""Whether a run tells when its emulation was not what was asked: linkd held for a moment, and links flooded.

    python -m benchmarks.gauges [--rounds 10] [--json]

Two nodes in network namespaces, one of which sends a packet each 10 ms. In the first run linkd is stopped `--rounds`
times (SIGSTOP) for half a second, in the second a node sends as fast as it can for half a second, as often, more
than linkd can read. Told is what the summary of the adapter `network` has within about a second of it: `late_at` in the
first run, `unread_at` in the second; `amber` is what the report says of the whole. `others`: seconds that it names
besides, as a busy machine makes linkd late by itself. Needs root and /dev/net/tun.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

import cosim
from benchmarks.measure import Table, parser, print_result, verdict
from cosim.contract.frame import Frame
from cosim.report.folder import Folder
from cosim.report.reality import validity

STOPPED = 0.5  # s
EVERY = 4.0  # s between them
NEAR = 1.3  # s: interfaces tell of what they dropped once a second, and a step has 0.2 s
STEP = 0.2  # s
# Sends what its argument says while the file is there; 64 KB at once, which the kernel cuts into frames of 1400 B.
_SENDER = """
import os, socket, sys, time
calm = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
flood = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
flood.setsockopt(socket.IPPROTO_UDP, 103, 1400)
there = ("10.171.0.2", 9)
while True:
    try:
        calm.sendto(bytes(100), there)
        if os.path.exists(sys.argv[1]):
            flood.sendto(bytes(40 * 1400), there)
        else:
            time.sleep(0.01)
    except OSError:
        time.sleep(0.01)
"""
_SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: gauges
run: {{duration: {duration:g} s, step: {step:g} s, nodes: netns}}
adapters: {{wifi: {{}}, network: {{}}}}
nodes:
  a: {{kind: edge, at: [0 m, 0 m], wifi: {{}}, runs: {{image: sender, command: {sender}}}}}
  b: {{kind: edge, at: [9 m, 0 m], wifi: {{}}, runs: {{image: sink, command: [sleep, inf]}}}}
"""


class Disturber:
    """Disturbs the run at some of its steps, and remembers when (s of simulated time, from and until)."""

    def __init__(self, moments: Sequence[float], flag: Path | None) -> None:
        self._moments, self._flag = list(moments), flag
        self.done: list[tuple[float, float]] = []
        self._time = 0.0

    def tick(self, tick: int, time: float, frames: Sequence[tuple[str, Frame]]) -> None:
        """Called after each step."""
        self._time = time
        if self._moments and time >= self._moments[0]:
            self._moments.pop(0)
            threading.Thread(target=self._disturb).start()

    def _disturb(self) -> None:
        begun = self._time
        with flooded(self._flag) if self._flag else stopped():
            time.sleep(STOPPED)
        self.done.append((begun, self._time))


@contextlib.contextmanager
def stopped() -> Iterator[None]:
    """The linkd of this process' run stands still."""
    engines = [one for one in psutil.Process().children(recursive=True) if Path(one.name()).name.startswith("linkd")]
    for one in engines:
        one.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for one in engines:
            one.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def flooded(flag: Path) -> Iterator[None]:
    """The node sends as fast as it can."""
    flag.touch()
    try:
        yield
    finally:
        flag.unlink()


def result(rounds: int, spare: Path, *, flood: bool) -> Mapping[str, Any]:
    """What a run tells of its disturbances."""
    moments = [3.0 + (EVERY + 0.37) * k for k in range(rounds)]  # at other phases of linkd's second each time
    scenario, flag = spare / "scenario.cosim.yaml", spare / "flood"
    sender = json.dumps([sys.executable, "-c", _SENDER, str(flag)])
    scenario.write_text(
        _SCENARIO.format(duration=math.ceil(moments[-1] + EVERY), step=STEP, sender=sender), encoding="utf-8"
    )
    disturber = Disturber(moments, flag if flood else None)
    folder = cosim.run(scenario, out=spare / "runs", observers=[disturber]).folder
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    (summary,) = (one["summary"] for one in manifest["adapters"] if one["use"] == "network")
    seconds = summary["unread_at" if flood else "late_at"]
    near = [[at for at in seconds if begun <= at <= ended + NEAR] for begun, ended in disturber.done]
    marks = {name: mark for name, _, mark in validity(Folder(folder))}
    return {
        "disturbed": len(disturber.done),
        "told": sum(bool(found) for found in near),
        "others": len(set(seconds) - {at for found in near for at in found}),
        "amber": marks.get("Emulation") == "warn",
        "lag_max": summary["lag_max"],
        "unread": summary["unread"],
        "seconds": seconds,
        "moments": disturber.done,
    }


def main() -> None:
    """Run both and print the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=10, help="disturbances of each kind")
    options = arguments.parse_args()
    if os.geteuid() != 0:
        arguments.error("network namespaces need root")
    table = Table("disturbances that a run tells of", ["", "told", "of", "others", "report amber", "lag, s", "unread"])
    found = {}
    for name in ("stopped", "flooded"):
        with tempfile.TemporaryDirectory() as spare:
            one = found[name] = result(options.rounds, Path(spare), flood=name == "flooded")
        share = verdict(one["told"], options.rounds, at_least=True)
        table.add(
            [
                name,
                f"{one['told']}{share}",
                one["disturbed"],
                one["others"],
                one["amber"],
                one["lag_max"],
                one["unread"],
            ]
        )
    print_result("gauges", found, [table], as_json=options.json)


if __name__ == "__main__":
    main()
