"""What control groups allow this process (processors and memory, version 1 and 2), and what may be asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
NO_LIMIT = 1 << 60  # B; version 1 writes a number near 2^63 for "unlimited"
MOST_HELD = 3600.0  # s that a request may ask for a worker to be kept
MAX_PAYLOAD = 8 << 20  # B of a task's input or output
MAX_LINKS = 256  # that one message to a live node may name
MAX_SHAPED = 4096  # links of one machine


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """inf, None: no limit."""

    cores: float
    memory: int | None  # B


def limits(root: Path = ROOT) -> MachineLimits:
    """The limits of the group that a container sees as its root."""
    cores, memory = float("inf"), None
    quota = _numbers(root / "cpu.max")  # version 2: "max 100000" or "200000 100000"
    if len(quota) == 2:
        cores = quota[0] / quota[1]
    else:
        limit, period = _numbers(root / "cpu/cpu.cfs_quota_us"), _numbers(root / "cpu/cpu.cfs_period_us")
        if limit and period and limit[0] > 0:
            cores = limit[0] / period[0]
    for file in ("memory.max", "memory/memory.limit_in_bytes"):
        found = _numbers(root / file)
        if found and found[0] < NO_LIMIT:
            memory = found[0]
            break
    return MachineLimits(cores, memory)


def boot_id() -> str:
    """Names the machine's last start: processes that read the same share a monotonic clock. "" where unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def usable_cores(root: Path = ROOT) -> int:
    """Whole cores that this process may use, at least 1."""
    return max(1, int(min(limits(root).cores, float(len(os.sched_getaffinity(0))))))


def _numbers(file: Path) -> list[int]:
    try:
        return [int(word) for word in file.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []
