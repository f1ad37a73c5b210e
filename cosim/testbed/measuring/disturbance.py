"""Other use of this machine while a service was measured, from the counters of the kernel (Linux).

    watch = MachineWatch(port)
    ...
    found = watch.total(count=300, late=0.0002, alone=0.02)
    found.disturbed, str(found)

A service that waits for a core takes longer, and this does not hold later. `/proc/PID/task/TID/schedstat` gives how
long the threads of the processes that listen at `port` were runnable without a core. Threads that ended took their
counters with them; then the processes are assumed to have waited, for their CPU time, as any program did
(`/proc/pressure/cpu`). The same holds for a service of another user, whose processes cannot be seen: it is taken to
use the processor for as long as its requests take alone, which is the most it can. Of either, only the part that others
caused counts, by their share of the cores used. The sender's own lateness shows the rest.
"""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cosim.testbed.live.pressure import Pressure, scheduled

_WAITED = 0.05  # of a response alone: how long a request may wait for a core because of others
_STOLEN = 0.02  # share of the machine that other machines may take
_LATE, _LATE_LEAST = 0.1, 0.001  # of a response alone, s: how late a sender may be on the average
_KNOWN = 0.5  # of the CPU time of the processes that their present threads ran, at least
_PRESSED = 0.9  # share of the time in which programs waited, at most
_LISTEN = "0A"  # the state of a socket in /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What disturbed a measurement. NaN for what cannot be known here."""

    others: float  # cores that other programs used
    cores: int
    waited: float  # s for which a request waited for a core because of them, on the average
    stolen: float  # share of the machine that other machines took
    late: float  # s, by how much requests left later than they should, on the average
    alone: float  # s of a request alone

    @property
    def disturbed(self) -> bool:
        """Whether the measurement reflects the machine more than the service."""
        return self.severity > 1.0

    @property
    def severity(self) -> float:
        """1 at the limit; of two measurements the one with less is the better."""
        return max((one for one in self._over() if not math.isnan(one)), default=0.0)

    def _over(self) -> tuple[float, float, float]:
        late = self.late / max(_LATE * self.alone, _LATE_LEAST)
        return self.waited / (_WAITED * self.alone), self.stolen / _STOLEN, late

    def __str__(self) -> str:
        parts = []
        if not math.isnan(self.others):
            parts.append(f"other programs used {self.others:.2f} of {self.cores} cores")
        waited, stolen, late = self._over()
        if waited > 1.0:
            parts.append(
                f"a request waited {1e3 * self.waited:.2g} ms for a core because of them, and takes "
                f"{1e3 * self.alone:.2g} ms alone"
            )
        if stolen > 1.0:
            parts.append(f"other machines took {self.stolen:.0%}")
        if late > 1.0:
            parts.append(f"requests left {1e3 * self.late:.2g} ms late")
        return ", ".join(parts) or "nothing is known of this machine"


class _Counters(NamedTuple):
    """s since some moment; NaN for what is not known."""

    busy: float  # of all programs, on all cores
    stolen: float
    own: float  # of this process
    service: float  # of the listening processes
    ran: float  # of the threads they have now
    waited: float


class MachineWatch:
    """Counts from when it is made; `port` is where the service listens on this machine, None elsewhere.

    `root` lets tests substitute another machine.
    """

    def __init__(self, port: int | None, root: Path = Path("/")) -> None:
        self._proc, self._pressure = root / "proc", Pressure(root, time.monotonic)
        self._here, self._processes = port is not None, listening(port) if port is not None else []
        self._began, self._first = time.monotonic(), self._now()

    def total(self, count: int, late: float, alone: float) -> Disturbance:
        """What disturbed `count` requests since then, which left `late` s too late and take `alone` s alone."""
        cores, span = os.cpu_count() or 1, max(time.monotonic() - self._began, 1e-9)
        since = (after - before for after, before in zip(self._now(), self._first, strict=True))
        used, stolen, own, service, ran, waited = since
        if self._here and not self._processes:
            service = min(count * alone, max(used - own, 0.0))
        others = max(0.0, used - own - service)
        mine = others / max(others + service, 1e-9)
        if self._processes and ran >= _KNOWN * service:
            waited *= mine
        else:
            pressure = self._pressure.read()["cpu"]
            pressure = used / span / cores if pressure is None else pressure  # a kernel that does not count it
            pressed = min(mine * pressure, _PRESSED)
            waited = service * pressed / (1.0 - pressed)
        waited = waited / max(count, 1) if self._here else math.nan
        return Disturbance(others / span, cores, waited, stolen / span / cores, late, alone)

    def _now(self) -> _Counters:
        busy = stolen = math.nan
        ticks = float(os.sysconf("SC_CLK_TCK"))
        with suppress(OSError, ValueError):
            words = (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]
            user, nice, system, _, _, hard, soft, stolen = (float(word) / ticks for word in words)
            busy = user + nice + system + hard + soft
        service = ran = waited = 0.0
        for process in self._processes:
            with suppress(OSError, ValueError, IndexError):
                words = (self._proc / str(process) / "stat").read_text().rpartition(")")[2].split()
                service += (float(words[11]) + float(words[12])) / ticks
                for _, one, other in scheduled(self._proc / str(process)):
                    ran, waited = ran + one, waited + other
        return _Counters(busy, stolen, time.process_time(), service, ran, waited)


def listening(port: int) -> list[int]:
    """The processes of this machine that listen at a TCP port, as far as they may be seen."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == _LISTEN and words[1].endswith(f":{port:04X}"):
                sockets.add(f"socket:[{words[9]}]")
    found = []
    for folder in Path("/proc").iterdir() if sockets else ():
        if not folder.name.isdigit():
            continue
        try:
            if any(str(one.readlink()) in sockets for one in (folder / "fd").iterdir()):
                found.append(int(folder.name))
        except OSError:
            continue
    return found
