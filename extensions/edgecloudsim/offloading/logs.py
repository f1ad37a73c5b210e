"""EdgeCloudSim's own result files, and those of its UNICAL extension, from an outcome.

Both are tables of `;`-separated values below a comment line. EdgeCloudSim's general files are
`SIMRESULT_<scenario>_<policy>_<n>DEVICES_<application>_GENERIC.log` with six lines of figures (five for
a single application): all tasks; edge; cloud; device; links; run time. The extension's have a line
of names before each of them, a fifteenth figure in the first, decimal commas and the ending .csv.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cosim.contract.records import Records
from cosim.extensions.edgecloudsim.offloading import layout as l
from cosim.extensions.edgecloudsim.offloading.books import LINKS, OffloadingOutcome
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy

Rows = Mapping[str, NDArray[Any]]  # finished tasks, columns of `cosim.extensions.edgecloudsim.offloading.layout.ENDED`
Dialect = Literal["edgecloudsim", "unical"]

WATT_HOUR = 3600.0  # J
COMMENT = "#auto generated file!"
# EdgeCloudSim's numbers in the per-task files.
CLOUD_CENTRE, DEVICE_CENTRE = 1000, 1001
MACHINE_TYPES = {int(l.EDGE): 1, int(l.CLOUD): 2}  # 0: of a device
CAPACITY_REASON, REJECTED_REASON, UNFINISHED_REASON, MOBILITY_REASON, RANGE_REASON = 1, 2, 3, 4, 5
ACCESS_POINTS = (0, 6, 10)  # those whose delays are logged
SCENARIOS = {"app3": "MOBILE_PROCESSING_SCENARIO", "app5": "ITS_SCENARIO"}

ALL_NAMES = (
    "completed", "failed", "uncompleted", "failedDueToBandwidth", "serviceTime", "processingTime", "networkDelay",
    "zero", "cost", "failedDueToVmCapacity", "failedDueToMobility", "qoeOfCompleted", "qoeOfAll",
    "rejectedDueToWlanRange", "failedDueToDeviceDeath",
)  # fmt: skip
TIER_NAMES = (
    "completed", "failed", "uncompleted", "zero", "serviceTime", "processingTime", "zero", "vmLoad",
    "failedDueToVmCapacity",
)  # fmt: skip
LINK_NAMES = (
    "wlanDelay", "manDelay", "wanDelay", "gsmDelay", "failedDueToWlan", "failedDueToMan", "failedDueToWan",
    "failedDueToGsm",
)  # fmt: skip
TASK_NAMES = (
    "taskId", "TASK_STATUS", "deviceId", "datacenterId", "hostId", "vmId", "vmType", "applicationId", "length",
    "upload", "download", "start", "end", "startEnergyWh", "endEnergyWh", "startPercent", "endPercent", "network",
    "wlan", "man", "wan", "gsm", "reason",
)  # fmt: skip


def java(value: float) -> str:
    """`value` as Java's Double.toString writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if size == 0.0 or 1e-3 <= size < 1e7:
        text = np.format_float_positional(value, unique=True, trim="0")
        return str(text)
    text = np.format_float_scientific(value, unique=True, trim="0", exp_digits=1)
    return str(text).replace("e+", "E").replace("e", "E")


def _line(values: Iterable[float | int | str]) -> str:
    return ";".join(value if isinstance(value, str) else _number(value) for value in values)


def _number(value: float | int) -> str:
    return java(value) if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class _Table:
    """Figures of some applications, from the rows of an outcome's tally."""

    rows: Records  # (applications, tiers)
    uncompleted: NDArray[np.int64]  # (applications, tiers)

    def total(self, name: str, tier: int | None = None) -> float:
        column = self.rows[name]
        return float((column if tier is None else column[:, tier]).sum())

    def count(self, name: str, tier: int | None = None) -> int:
        return int(self.total(name, tier))

    def failed(self, tier: int | None = None) -> int:
        causes = ("capacity", "mobility", *LINKS, "range", "death")
        return sum(self.count(cause, tier) for cause in causes)

    def left(self, tier: int | None = None) -> int:
        return int((self.uncompleted if tier is None else self.uncompleted[:, tier]).sum())


def _ratio(a: float, b: float) -> float:
    return a / b if b else 0.0


def general(outcome: OffloadingOutcome, application: int | None, wall: float, dialect: Dialect) -> list[str]:
    """The lines of a general file: of one application, or of all with the run's wall time (s)."""
    chosen = slice(None) if application is None else slice(application, application + 1)
    table = _Table(outcome.tally[1, chosen], outcome.uncompleted[1, chosen])
    figures = outcome.metrics()
    done, failed = table.count("completed"), table.failed()
    sent = done - table.count("completed", 2)
    network = table.total("network")
    delay = network / sent if sent else (math.nan if done else 0.0)
    service = table.total("service")
    bandwidth = sum(table.count(link) for link in LINKS)
    lines: list[tuple[Sequence[str], list[float | int | str]]] = []
    first: list[float | int | str] = [
        done, failed, table.left(), bandwidth, _ratio(service, done), _ratio(service - network, done), delay, 0,
        _ratio(table.total("cost"), done), table.count("capacity"), table.count("mobility"),
        _ratio(table.total("qoe"), done), _ratio(table.total("qoe"), done + failed), table.count("range"),
    ]  # fmt: skip
    lines.append((ALL_NAMES, [*first, *([table.count("death")] if dialect == "unical" else [])]))
    for tier, name in enumerate(l.TIERS):
        here = table.count("completed", tier)
        spent, moved = table.total("service", tier), table.total("network", tier)
        values: list[float | int | str] = [
            here, table.failed(tier), table.left(tier), 0, _ratio(spent, here), _ratio(spent - moved, here), 0.0,
            figures[f"vm_util_{name}_pct"], table.count("capacity", tier),
        ]  # fmt: skip
        lines.append((TIER_NAMES, values))
    delays = [_ratio(table.total(f"{link}_delay"), table.total(f"{link}_uses")) for link in LINKS]
    lines.append((LINK_NAMES, [*delays, *(table.count(link) for link in LINKS)]))
    if application is None:
        lines.append((("minutes", "orchestratorOverhead"), [int(wall * 1000.0) / 60, 0.0]))
    if dialect == "edgecloudsim":
        return [COMMENT, *(_line(values) for _, values in lines)]
    return [COMMENT, *(text for names, values in lines for text in (_line(names), _line(values)))]


def successes_and_failures(study: OffloadingStudy, rows: Rows) -> tuple[list[str], list[str]]:
    """One line per finished task in each of the two per-task files, in the order of the tasks' ends."""
    succeeded, failed = [COMMENT], [COMMENT]
    numbers = machine_numbers(study)
    for row in _each(rows):
        start = [*_head(row, numbers), float(row["created"]), float(row["ended"])]
        if row["cause"] == l.COMPLETED:
            delays = [float(row[link]) for link in LINKS]
            succeeded.append(_line([*start, math.fsum(delays), *delays]))
        else:
            failed.append(_line([*start, reason(row)]))
    return succeeded, failed


def per_task(study: OffloadingStudy, rows: Rows) -> list[str]:
    """The extension's line per finished task. The battery's columns hold NaN: it is not traced per task."""
    numbers = machine_numbers(study)
    lines = [COMMENT, _line(TASK_NAMES)]
    for row in _each(rows):
        head = _head(row, numbers)
        status = "COMPLETED" if row["cause"] == l.COMPLETED else "FAILED"
        delays = [float(row[link]) for link in LINKS]
        times = [float(row["created"]), float(row["ended"])]
        why = 0 if row["cause"] == l.COMPLETED else reason(row)
        lines.append(_line([head[0], status, *head[1:], *times, *[math.nan] * 4, math.fsum(delays), *delays, why]))
    return lines


def machine_numbers(study: OffloadingStudy) -> list[tuple[int, int]]:
    """(datacentre, host) of every machine of edge and cloud, in the order of their numbers."""
    found = []
    hosts = 0
    for place, centre in enumerate(study.places):
        for group in centre.hosts:
            found += [(place, hosts)] * len(group)
            hosts += 1
    for number, group in enumerate(study.cloud):
        found += [(CLOUD_CENTRE, number)] * len(group)
    return found


def _each(rows: Rows) -> Iterator[dict[str, Any]]:
    """The rows one by one, with Python's own numbers."""
    names = list(rows)
    for values in zip(*(rows[name].tolist() for name in names), strict=True):
        yield dict(zip(names, values, strict=True))


def _head(row: Mapping[str, Any], numbers: list[tuple[int, int]]) -> list[float | int | str]:
    """Task, device, datacentre, host, machine, its type, application, length, upload, download."""
    machine = int(row["vm"])
    if machine < 0:
        centre, host = -1, -1
    elif machine < len(numbers):
        centre, host = numbers[machine]
    else:
        centre, host = DEVICE_CENTRE, machine - len(numbers)
    kind = MACHINE_TYPES.get(int(row["tier"]), 0)
    sizes = [int(row[name]) for name in ("length", "upload", "download")]
    return [int(row["serial"]), int(row["device"]), centre, host, machine, kind, int(row["application"]), *sizes]


def reason(row: Mapping[str, Any]) -> int:
    """EdgeCloudSim's number for why a task failed; a device's death counts as unfinished."""
    cause = row["cause"]
    if cause == l.CAPACITY:
        return CAPACITY_REASON
    if cause == l.MOBILITY:
        return MOBILITY_REASON
    if cause == l.RANGE:
        return RANGE_REASON
    return REJECTED_REASON if math.isnan(row["arrived"]) else UNFINISHED_REASON


def _samples(samples: NDArray[np.float64], whole: bool = False) -> list[str]:
    convert: Callable[[float], float | int] = int if whole else float
    return [_line([float(row[0]), *(convert(value) for value in row[1:])]) for row in samples]


def access_delays(outcome: OffloadingOutcome) -> tuple[list[str], list[str]]:
    """s, then the delays of some access points in s: lines of uploads and of downloads."""
    places = len(outcome.study.places)
    points = [point for point in ACCESS_POINTS if point < places]
    up, down = ([0, *(1 + point + offset for point in points)] for offset in (0, places))
    return [COMMENT, *_samples(outcome.access[:, up])], [COMMENT, *_samples(outcome.access[:, down])]


def loads_and_energies(outcome: OffloadingOutcome, meters: NDArray[np.float64] | None) -> list[str]:
    """The extension's lines of loads in % and energies so far in Wh; NaN where no meter was read."""
    head = "time;LoadOnEdge;LoadOnCloud;LoadOnMobile;energyEdge;energyCloud;energyMobile"
    energies = np.full((len(outcome.loads), 3), np.nan)
    if meters is not None:
        energies[: len(meters)] = meters[: len(energies)] / WATT_HOUR
    return [COMMENT, head, *_samples(np.hstack([outcome.loads, energies]))]


def write_logs(
    folder: Path,
    outcome: OffloadingOutcome,
    dialect: Dialect,
    *,
    rows: Rows | None = None,
    meters: NDArray[np.float64] | None = None,
    wall: float = 0.0,
) -> list[Path]:
    """Write the files of one run into `folder`, which must be there, and return their paths.

    `rows` are the finished tasks as `Simulation.drain` gives them, for the per-task files;
    `meters` (n, 3) the J of edge, cloud and devices at each sample of the load, for the extension's
    file of loads; `wall` is the run's wall time in s.
    """
    study = outcome.study
    names = [*(application.name for application in study.applications), "ALL_APPS"]
    numbers = [*range(len(study.applications)), None]
    tables = {name: general(outcome, number, wall, dialect) for name, number in zip(names, numbers, strict=True)}
    texts: dict[str, list[str]] = {}
    prefix = prefix_of(study)
    loads = _samples(outcome.loads)
    counts = _samples(outcome.locations, whole=True)
    if dialect == "edgecloudsim":
        texts |= {f"{prefix}_{name}_GENERIC.log": lines for name, lines in tables.items()}
        texts[f"{prefix}_VM_LOAD.log"] = [COMMENT, *loads]
        texts[f"{prefix}_LOCATION.log"] = [COMMENT, *counts]
        if len(outcome.access):
            texts[f"{prefix}_AP_UPLOAD_DELAY.log"], texts[f"{prefix}_AP_DOWNLOAD_DELAY.log"] = access_delays(outcome)
        if rows is not None:
            texts[f"{prefix}_SUCCESS.log"], texts[f"{prefix}_FAIL.log"] = successes_and_failures(study, rows)
    else:
        texts |= {f"SERVICE_PERFORMANCE_({prefix}_{name}_GENERIC).csv": lines for name, lines in tables.items()}
        texts["VM_LOAD.csv"] = loads_and_energies(outcome, meters)
        head = _line(["TIME", *(f"EDGE SERVER {place}" for place in range(len(study.places)))])
        texts["DEVICES_LOCATION.csv"] = [COMMENT, head, *counts]
        if rows is not None:
            texts["PER_TASK_DETAILS.csv"] = per_task(study, rows)
    written = []
    for name, lines in texts.items():
        body = "\n".join(lines) + "\n"
        path = folder / name
        path.write_text(_with_commas(body) if dialect == "unical" else body, encoding="utf-8")
        written.append(path)
    return written


def prefix_of(study: OffloadingStudy) -> str:
    """SIMRESULT, scenario, policy and number of devices, as the files' names begin."""
    scenario = SCENARIOS.get(study.model, study.architecture.upper().replace("-", "_"))
    policy = study.policy.upper().replace("-", "_")
    return f"SIMRESULT_{scenario}_{policy}_{study.devices}DEVICES"


def _with_commas(text: str) -> str:
    """Decimal points as commas, in all lines but comments and names."""
    return "\n".join(
        line if line[:1].isalpha() or line[:1] == "#" else line.replace(".", ",") for line in text.split("\n")
    )
