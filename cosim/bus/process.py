"""A child process that is always stopped, with everything that it started.

The child leads a session and process group of its own: Ctrl-C in the terminal reaches only the
parent, and stopping the group stops what the child started as well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from cosim.contract.children import signal_name

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a device",
    "T": "stopped by a signal",
    "t": "stopped by a debugger",
    "Z": "ended",
}


class Child:
    """A started process whose output goes to the file `log`."""

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str], inherit: Sequence[int] = ()) -> None:
        self.log = log
        with log.open("ab") as output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env),
                pass_fds=tuple(inherit),
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.fd = os.pidfd_open(self.pid)  # readable once the process has ended
        self._stopped = False

    def alive(self) -> bool:
        """Whether the process has not ended yet."""
        return self._ending() is None

    def cpu_seconds(self) -> float:
        """CPU time that the process has used so far, NaN when it has ended."""
        stat = _stat(self.pid)
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK") if stat else float("nan")

    def state(self) -> str:
        """What the process is doing, as the end of a sentence about it."""
        ending = self._ending()
        if ending is not None:
            return ending
        stat = _stat(self.pid)
        return f"is alive ({STATES.get(stat[0], stat[0]) if stat else 'state unknown'})"

    def log_tail(self, lines: int = 6) -> str:
        """The last lines that this process wrote, "" when there are none."""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, end - 4096))
            return "\n".join(file.read().decode("utf-8", "replace").rstrip().splitlines()[-lines:])
        return ""

    def wait(self, limit: float) -> bool:
        """Whether the process ends within `limit` s."""
        end = time.monotonic() + limit
        while self.alive():
            if time.monotonic() >= end:
                return False
            time.sleep(0.005)
        return True

    def stop(self, limit: float) -> None:
        """End the process and its group: SIGTERM, and SIGKILL after `limit` s. May be called twice."""
        if self._stopped:
            return
        self._stopped = True
        if self.alive():
            self._signal(signal.SIGTERM)
            self.wait(limit)
        self._signal(signal.SIGKILL)  # before the leader is reaped: until then its number cannot be given away
        try:
            self._process.wait(10.0)
        finally:
            os.close(self.fd)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _ending(self) -> str | None:
        if self._process.returncode is not None:
            return _ended(self._process.returncode)
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return None
        return _ended(found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)


def _ended(code: int) -> str:
    return f"was killed by {signal_name(-code)}" if code < 0 else f"has ended with exit code {code}"


def _stat(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from the state on, [] when there is no such process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []
