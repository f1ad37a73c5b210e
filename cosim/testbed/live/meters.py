"""What a Linux machine reports about itself: load, memory, network, temperature and power, read from /proc and /sys.

Where these are missing psutil gives what it can. Values that cannot be read are None: nothing is guessed. `root` lets
tests substitute another machine.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosim.talk.codec import Body
from cosim.testbed.live.pressure import Pressure

_INA = ("ina209", "ina219", "ina220", "ina226", "ina230", "ina231", "ina3221", "ina2xx", "ina228", "ina237", "ina238")


@dataclass(frozen=True, slots=True)
class PowerLine:
    """Electrical power as a line over the load, for machines without a meter."""

    idle: float  # W
    max: float  # W


class MachineMeters:
    """Reads this machine; shares and powers are means since the last call of `read`.

    With `cores` it is one of several nodes on this machine: its load is that of the processes in this process's
    network namespace, of so many cores, and the machine's power, which is not its own, is left out.
    """

    def __init__(
        self, *, root: Path = Path("/"), model: PowerLine | None = None, clock: Callable[[], float] = time.monotonic,
        cores: int = 0,
    ) -> None:  # fmt: skip
        self._proc, self._sys = root / "proc", root / "sys"
        self._cores = cores
        self._own: dict[str, bool] = {}  # process -> whether it is in this network namespace
        self._spent: tuple[float, float] | None = None  # s, s of processor time
        self._model = model
        self._clock = clock
        self._pressure = Pressure(root)
        self._busy: tuple[float, float] | None = None
        self._rapl: dict[Path, tuple[float, float]] = {}  # zone -> s, J
        self.read()

    def read(self) -> Body:
        """The fields of a report besides position and tasks."""
        received, sent = self._network()
        cpu = self._cpu()
        power, meter = self._power(cpu)
        waits = self._pressure.read(self._mine())
        return {
            "cpu": cpu, "memory": self._memory(), "received": received, "sent": sent,
            "temperature": self._temperature(), "power": power, "meter": meter,
            **{f"{kind}_wait": wait for kind, wait in waits.items()},
        }  # fmt: skip

    def _mine(self) -> list[str]:
        """The processes of this node: in its namespace, or in this process's group."""
        if self._cores:
            return [name for name, mine in self._own.items() if mine]
        found = []
        for path in self._proc.glob("[0-9]*/stat"):
            with suppress(OSError, ValueError, IndexError):
                if int(path.read_text().rpartition(")")[2].split()[2]) == os.getpgrp():
                    found.append(path.parent.name)
        return found

    def _cpu(self) -> float | None:
        if self._cores:
            return self._share()
        try:
            fields = [float(field) for field in (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]
        except (OSError, ValueError):
            percent = _psutil("cpu_percent")
            return None if percent is None else min(1.0, max(0.0, percent / 100.0))
        if len(fields) < 5:
            return None
        total, idle = sum(fields), fields[3] + fields[4]
        before, self._busy = self._busy, (total, idle)
        if before is None or total <= before[0]:
            return None
        return min(1.0, max(0.0, 1.0 - (idle - before[1]) / (total - before[0])))

    def _share(self) -> float | None:
        """Of this node's cores, what the processes in this network namespace took, those included that have ended."""
        try:
            here = (self._proc / "self/ns/net").stat().st_ino
            found = [path.name for path in self._proc.iterdir() if path.name.isdecimal()]
        except OSError:
            return None
        known, self._own, ticks = self._own, {}, 0.0
        for name in found:
            try:
                mine = known[name] if name in known else (self._proc / name / "ns/net").stat().st_ino == here
                if mine:
                    # utime, stime, and those of children that have ended; the name before may have blanks
                    fields = (self._proc / name / "stat").read_text().rpartition(")")[2].split()
                    ticks += sum(map(float, fields[11:15]))
            except (OSError, ValueError, IndexError):
                continue
            self._own[name] = mine
        now, spent = self._clock(), ticks / os.sysconf("SC_CLK_TCK")
        before, self._spent = self._spent, (now, spent)
        if before is None or now <= before[0]:
            return None
        return min(1.0, max(0.0, spent - before[1]) / (now - before[0]) / self._cores)

    def _memory(self) -> float | None:
        try:
            lines = (self._proc / "meminfo").read_text().splitlines()
            kilobytes = {line.split(":")[0]: float(line.split()[1]) for line in lines if len(line.split()) > 1}
            return max(0.0, (kilobytes["MemTotal"] - kilobytes["MemAvailable"]) * 1024)
        except (OSError, ValueError, KeyError):
            found = _psutil("virtual_memory")
            return None if found is None else float(found.total - found.available)

    def _network(self) -> tuple[float | None, float | None]:
        """Bytes of all interfaces but loopback."""
        received = sent = 0.0
        try:
            for line in (self._proc / "net/dev").read_text().splitlines()[2:]:
                name, _, counters = line.partition(":")
                if name.strip() != "lo":
                    fields = counters.split()
                    received, sent = received + float(fields[0]), sent + float(fields[8])
        except (OSError, ValueError, IndexError):
            found = _psutil("net_io_counters")
            return (None, None) if found is None else (float(found.bytes_recv), float(found.bytes_sent))
        return received, sent

    def _temperature(self) -> float | None:
        """The hottest thermal zone."""
        values = [_value(path) for path in self._sys.glob("class/thermal/thermal_zone*/temp")]
        known = [value / 1e3 for value in values if value is not None and -273_150 <= value < 1e6]
        return max(known, default=None)

    def _power(self, cpu: float | None) -> tuple[float | None, str]:
        of_machine = (("rapl", self._rapl_power), ("ina", self._ina_power), ("battery", self._battery_power))
        for meter, read in () if self._cores else of_machine:
            power = read()
            if power is not None and 0 <= power < 1e7:
                return power, meter
        if self._model is not None and cpu is not None:
            return self._model.idle + (self._model.max - self._model.idle) * cpu, "modelled"
        return None, "none"

    def _rapl_power(self) -> float | None:
        """Packages of Intel's and AMD's running average power limit; the energy wraps at its range."""
        total, known = 0.0, False
        for zone in sorted(self._sys.glob("class/powercap/intel-rapl:*")):
            if zone.name.count(":") != 1:  # part of a package
                continue
            energy, now = _value(zone / "energy_uj"), self._clock()
            if energy is None:
                continue
            before, self._rapl[zone] = self._rapl.get(zone), (now, energy)
            if before is None or now <= before[0]:
                continue
            used = energy - before[1]
            if used < 0:
                used += _value(zone / "max_energy_range_uj") or 0.0
            if used >= 0:
                total, known = total + used / 1e6 / (now - before[0]), True
        return total if known else None

    def _ina_power(self) -> float | None:
        """Shunt monitors on the board."""
        total, known = 0.0, False
        for chip in sorted(self._sys.glob("class/hwmon/hwmon*")):
            try:
                name = (chip / "name").read_text().strip()
            except OSError:
                continue
            if name not in _INA:
                continue
            powers = [_value(path) for path in sorted(chip.glob("power*_input"))]  # uW
            watts = [value / 1e6 for value in powers if value is not None]
            if not watts:
                for path in sorted(chip.glob("curr*_input")):  # mA
                    current, voltage = _value(path), _value(chip / path.name.replace("curr", "in"))
                    if current is not None and voltage is not None:
                        watts.append(current * voltage / 1e6)
            if watts:
                total, known = total + sum(watts), True
        return total if known else None

    def _battery_power(self) -> float | None:
        """Batteries that are being discharged."""
        total, known = 0.0, False
        for supply in sorted(self._sys.glob("class/power_supply/*")):
            try:
                kind, status = ((supply / name).read_text().strip() for name in ("type", "status"))
            except OSError:
                continue
            if kind != "Battery" or status != "Discharging":
                continue
            power = _value(supply / "power_now")  # uW
            current, voltage = _value(supply / "current_now"), _value(supply / "voltage_now")  # uA, uV
            if power is None and current is not None and voltage is not None:
                power = abs(current) * voltage / 1e6
            if power is not None:
                total, known = total + abs(power) / 1e6, True
        return total if known else None


def clock_rate(root: Path = Path("/")) -> float:
    """The highest clock of the first core (Hz), 1 GHz where the machine does not report it."""
    value = _value(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")  # kHz
    if value:
        return value * 1e3
    with suppress(OSError, ValueError, IndexError):
        for line in (root / "proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith("cpu mhz"):
                return float(line.split(":")[1]) * 1e6
    return 1e9


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _value(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None


def _psutil(name: str) -> Any:  # noqa: ANN401 - what psutil returns
    with suppress(ImportError, OSError):
        return getattr(importlib.import_module("psutil"), name)()
    return None
