"""The orders that vehicles got, with simulated times, so that a flight with live clients can be repeated.

One JSON object a line: first what was flown, then {"t": s, "sysid": n, "frame": the MAVLink frame in hex}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from cosim.autopilot.core import Autopilot
from cosim.contract.errors import Problem, ScenarioError
from cosim.physics.vehicles import VehicleFleet


class FlightLogWriter:
    """Writes a log; give `tap` to the autopilots."""

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        self._file = path.open("w", encoding="utf-8", buffering=1)  # by lines, for those who are killed
        self._write(head)

    def _write(self, record: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")

    def tap(self, now: float, sysid: int, frame: bytes) -> None:
        """Write a message that vehicle `sysid` acts on at `now` s."""
        self._write({"t": now, "sysid": sysid, "frame": frame.hex()})

    def __enter__(self) -> FlightLogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read(path: Path) -> tuple[dict[str, Any], list[tuple[float, int, bytes]]]:
    """The head and the messages (s, system id, frame) of a log. A last line that is cut off is left out."""
    lines = path.read_text(encoding="utf-8").splitlines()
    messages: list[tuple[float, int, bytes]] = []
    try:
        head: dict[str, Any] = json.loads(lines[0])
        for number, line in enumerate(lines[1:], 2):
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                if number == len(lines):
                    break
                raise
            messages.append((float(record["t"]), int(record["sysid"]), bytes.fromhex(record["frame"])))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError, IndexError) as error:
        number = len(messages) + 2 if lines else 1
        raise ScenarioError(
            Problem(f"not a line of a command log: {error}", file=path, line=number, hint="write it anew with --log")
        ) from None
    return head, messages


def replay(
    fleet: VehicleFleet,
    autopilots: Iterable[Autopilot],
    messages: Iterable[tuple[float, int, bytes]],
    until: float,
    tick: float,
    each: Callable[[], None] = lambda: None,
) -> None:
    """Fly again up to `until` s in steps of `tick` s; `each` is called after every step.

    With the fleet, the autopilots and the tick of the log the states are the same, bit by bit.
    """
    by_id = {autopilot.sysid: autopilot for autopilot in autopilots}
    waiting = sorted(messages, key=lambda message: message[0])
    at, step = 0, round(fleet.now / tick)
    while step * tick < until - 1e-9:
        while at < len(waiting) and waiting[at][0] <= fleet.now + 1e-9:
            _, sysid, frame = waiting[at]
            at += 1
            if sysid in by_id:
                by_id[sysid].receive(frame, "replay")
        step += 1
        fleet.advance(step * tick)
        for autopilot in by_id.values():
            autopilot.watch(fleet.now)
        each()
