"""Runs as the log of a 5G core of Open5GS: registrations, sessions and how many there are, and that log read back.

A line is `MM/DD hh:mm:ss.mmm: [amf] INFO: TEXT (FILE:LINE)`; formats by the logs of Open5GS 2.7. A core sees no radio:
a phone appears when it first gets a cell, asks for service again after each radio link failure, and its context at
the base station is released while it has no cell. Its session stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cosim.contract.delimited import StrPath, fault
from cosim.contract.reading.logs import log_lines, understood
from cosim.extensions.radio_logs import EPOCH
from cosim.extensions.radio_logs.srsran import LogFiles, logged, take
from cosim.results.load import load

NETWORK = "00101"  # country and network of test networks, 3GPP TS 23.003
COUNTERS = ("gNBs", "gNB-UEs", "AMF-UEs", "AMF-Sessions", "SMF-UEs", "SMF-Sessions")
_SOURCE = {"amf": "../src/amf/context.c", "gmm": "../src/amf/gmm-sm.c", "smf": "../src/smf/context.c"}
_LINE = re.compile(
    r"(?P<time>\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}): \[(?P<part>[\w-]+)\] +(?P<level>\w+) *: +"
    r"(?P<text>.*?)(?: \([^()]*\))?\s*$"
)
_COUNT = re.compile(r"(?:\[(?:Added|Removed)\] )?Number of ([\w-]+) is now (\d+)")
_JSON = "give the core's own log, whose lines are 'MM/DD hh:mm:ss.mmm: [amf] INFO: ...'"
_WHO = re.compile(r"\[imsi-(\d+)\] (.+)")


@dataclass(frozen=True, slots=True)
class CoreEvent:
    """A line of a core's log about a phone or about the number of phones."""

    time: datetime  # in the year given to the reader; the log has none
    part: str  # amf, gmm, smf
    what: str  # "Registration complete", or the counter
    who: str = ""  # IMSI
    now: int | None = None  # the counter's value


@dataclass(slots=True)
class _Core:
    """What the core has counted so far, and its lines."""

    epoch: datetime
    now: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))
    lines: list[str] = field(default_factory=list)

    def say(self, time: float, part: str, text: str) -> None:
        at = self.epoch + timedelta(seconds=time)
        stamp = f"{at:%m/%d %H:%M:%S}.{at.microsecond // 1000:03d}"
        self.lines.append(f"{stamp}: [{part}] INFO: {text} ({_SOURCE[part]}:0)")

    def count(self, time: float, name: str, step: int) -> None:
        self.now[name] += step
        word = "Added" if step > 0 else "Removed"
        part = "smf" if name.startswith("SMF") else "amf"
        self.say(time, part, f"[{word}] Number of {name} is now {self.now[name]}")


def export(folder: Path, out: Path, *, epoch: datetime = EPOCH, force: bool = False) -> LogFiles:
    """Write the core's log of the run in `folder` as `open5gs.log` in `out`, and who is who as `subscribers.csv`.

    Raises `SetupError` for a run that did not record `ue`, and for files that are there, unless `force`.
    """
    with closing(load(folder)) as run:
        logged(run, "ue")
        cells = [node["id"] for node in run.plan["scene"]["nodes"] if node["cell"] is not None]
        rows = run.sql("SELECT time, node, cell, rnti FROM ue ORDER BY time, node").fetchall()
    phones = dict.fromkeys(node for _, node, _, _ in rows)
    imsi = {node: f"{NETWORK}{k:010d}" for k, node in enumerate(sorted(phones), 1)}
    core = _Core(epoch)
    for _ in cells:
        core.count(rows[0][0] if rows else 0.0, "gNBs", 1)
    _report(core, rows, set(cells), imsi)
    who = ["imsi;node", *(f"{number};{node}" for node, number in sorted(imsi.items()))]
    texts = {"open5gs.log": core.lines, "subscribers.csv": who}
    take(out, texts, force=force)
    return LogFiles(out, {name: len(lines) for name, lines in texts.items()})


def _report(core: _Core, rows: list[tuple[Any, ...]], cells: set[str], imsi: dict[str, str]) -> None:
    """Go through the rows of `ue` by time; who is no longer there has left the network."""
    held: dict[str, tuple[str, int]] = {}  # who has a context at a base station
    known: set[str] = set()
    for time, group in _moments(rows):
        for node in sorted(known - group.keys()):
            _leave(core, time, imsi[node], connected=held.pop(node, None) is not None)
            known.discard(node)
        for node, (cell, rnti) in group.items():
            before, now = held.get(node), (cell, rnti) if cell in cells else None
            if now == before:
                continue
            if before is not None and now is not None and before[0] != now[0]:  # a handover
                core.count(time, "gNB-UEs", 1)
                core.count(time, "gNB-UEs", -1)
            elif before is None or now is None or before[1] != now[1]:
                if before is not None:
                    core.say(time, "amf", "UE Context Release [Action:2]")
                    core.count(time, "gNB-UEs", -1)
                if now is not None:
                    _come(core, time, imsi[node], first=node not in known)
                    known.add(node)
            if now is None:
                held.pop(node)
            else:
                held[node] = now


def _moments(rows: list[tuple[Any, ...]]) -> Iterator[tuple[float, dict[str, tuple[str, int]]]]:
    """The phones of each moment, with cell and RNTI."""
    group: dict[str, tuple[str, int]] = {}
    last: float | None = None
    for time, node, cell, rnti in rows:
        if last is not None and time != last:
            yield last, group
            group = {}
        last = time
        group[node] = (cell, rnti)
    if last is not None:
        yield last, group


def _come(core: _Core, time: float, imsi: str, *, first: bool) -> None:
    core.say(time, "amf", "InitialUEMessage")
    core.count(time, "gNB-UEs", 1)
    if not first:
        core.say(time, "gmm", f"[imsi-{imsi}] Service request")
        return
    core.say(time, "gmm", "Registration request")
    core.count(time, "AMF-UEs", 1)
    core.say(time, "gmm", f"[imsi-{imsi}] Registration complete")
    for name in ("AMF-Sessions", "SMF-UEs", "SMF-Sessions"):
        core.count(time, name, 1)


def _leave(core: _Core, time: float, imsi: str, *, connected: bool) -> None:
    core.say(time, "gmm", f"[imsi-{imsi}] Deregistration request")
    for name in ("SMF-Sessions", "SMF-UEs", "AMF-Sessions"):
        core.count(time, name, -1)
    if connected:
        core.say(time, "amf", "UE Context Release [Action:2]")
        core.count(time, "gNB-UEs", -1)
    core.count(time, "AMF-UEs", -1)


def _plain(line: str) -> str:
    """The line of a core in one of JSON, as docker's json-file and journald's exports keep it; others as they are."""
    if not line.lstrip().startswith("{"):
        return line
    try:
        kept = json.loads(line)
    except ValueError:
        return line.lstrip()
    texts = (kept.get(key) for key in ("log", "MESSAGE", "message", "msg"))
    return next((text.rstrip() for text in texts if isinstance(text, str) and _LINE.search(text)), line.lstrip())


def read(path: StrPath, year: int = EPOCH.year) -> list[CoreEvent]:
    """The counters and the events of single phones in a core's log; other lines of the core are skipped.

    Raises `CellsError` where no line is one of a core's.
    """
    found = []
    lines = 0
    for number, line in enumerate(map(_plain, log_lines(path)), 1):
        match = _LINE.search(line)
        if match is None:
            if line.startswith("{"):
                raise fault(path, "is a line of JSON without a line of a core in it", line=number, hint=_JSON)
            continue
        lines += 1
        with understood(path, number):
            time = datetime.strptime(f"{year}/{match['time']}", "%Y/%m/%d %H:%M:%S.%f")
        count, who = _COUNT.fullmatch(match["text"]), _WHO.fullmatch(match["text"])
        if count is not None:
            found.append(CoreEvent(time, match["part"], count[1], now=int(count[2])))
        elif who is not None:
            found.append(CoreEvent(time, match["part"], who[2], who=who[1]))
    if not lines:
        raise fault(path, "has no line 'MM/DD hh:mm:ss.mmm: [amf] INFO: ...', as a core of Open5GS writes them")
    return found
