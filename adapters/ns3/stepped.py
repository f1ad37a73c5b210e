"""ns-3 not in real time: it advances with the run, and trains of probe frames measure the links."""

from __future__ import annotations

import contextlib
import json
import math
import select
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cosim.adapters.ns3.build import engine
from cosim.adapters.ns3.radio import RadioParameters
from cosim.contract.errors import RunError, ScenarioError
from cosim.contract.link import DOWN, LinkState
from cosim.testbed.emulation.state import Position

FRAMES, SIZE = 20, 1400  # of a train; B
STEP = 600.0  # s of wall time that a step may take


class SteppedStations:
    """Wi-Fi stations in a child process; `step` gives the state of each of `pairs` (sender, receiver).

    Every `interval` s a train of 20 frames of 1400 B goes from the sender to the receiver of a pair. The rate is that
    of the trains (their bits from start to last arrival, so what other traffic leaves), the delay that of their first
    frames with half the spread as jitter, the loss that of all. Trains take air themselves: 0.2 Mbit each.
    """

    def __init__(
        self,
        radio: RadioParameters,
        nodes: Sequence[str],
        pairs: Sequence[tuple[str, str]],
        interval: float = 0.1,
        folder: Path | None = None,
    ) -> None:
        numbers = {node: number for number, node in enumerate(nodes)}
        for pair in pairs:
            if pair[0] == pair[1] or not {*pair} <= numbers.keys():
                raise ScenarioError(f"ns3: no link from {pair[0]} to {pair[1]}; nodes are {', '.join(nodes)}")
        if radio.access:
            raise ScenarioError("ns3: access points are for real time; stations of a stepped run are ad hoc")
        if not (interval > 0 and math.isfinite(interval)):
            raise ScenarioError(f"ns3: an interval of {interval} s between probes; it must be above 0")
        self._numbers, self._pairs, self._interval = numbers, list(pairs), interval
        self._last: dict[tuple[str, str], LinkState] = dict.fromkeys(pairs, DOWN)
        self.levels: dict[tuple[str, str], float] = {}  # dBm at the receiver, of pairs that have been measured
        self._process = subprocess.Popen(
            [*radio.command(engine(folder)), "--stepped=1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        lines = [f"A {number} 02:00:00:00:{number >> 8:02x}:{number & 255:02x}" for number in numbers.values()]
        lines += [f"F {numbers[a]} {numbers[b]} {interval!r} {FRAMES} {SIZE}" for a, b in pairs]
        try:
            self._write(lines)
        except BaseException:
            self.close()
            raise

    def step(self, positions: Mapping[str, Position], seconds: float) -> dict[tuple[str, str], LinkState]:
        """Move nodes, advance by `seconds`, and return the state of each pair in that time.

        A pair whose trains have not ended in this step keeps its last state. Raises `RunError` when the engine died.
        """
        if not (seconds > 0 and math.isfinite(seconds)):
            raise ValueError(f"a step of {seconds} s")
        moves = [f"P {self._numbers[node]} {x!r} {y!r} {z!r}" for node, (x, y, z) in positions.items()]
        self._write([*moves, f"T {seconds!r}"])
        for (sender, receiver), row in zip(self._pairs, self._answer(), strict=True):
            _, _, sent, received, rate, delay, jitter, signal = row
            if sent:
                lost = 1.0 - received / sent
                self._last[sender, receiver] = LinkState(rate, delay, min(jitter, delay), lost) if received else DOWN
                self.levels[sender, receiver] = signal
        return dict(self._last)

    def close(self) -> None:
        """End the engine; may be called twice."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.kill()
        self._process.wait()

    def _write(self, lines: Sequence[str]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
            self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise RunError(f"ns3: the engine has ended ({error})") from None

    def _answer(self) -> list[list[float]]:
        assert self._process.stdout is not None
        # One question is answered by one line, so nothing lies in the reader's buffer that select would not see.
        if not select.select([self._process.stdout], [], [], STEP)[0]:
            raise RunError(f"ns3: the engine has not ended a step within {STEP:g} s")
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise RunError(f"ns3: the engine has ended with exit code {self._process.wait()}")
        found = json.loads(line)
        if "error" in found:
            raise RunError(f"ns3: the engine refused a command: {found['error']}")
        rows: list[list[float]] = found["links"]
        return rows
