"""The signal catalogue: the named column sets that frames carry.

A signal has one meaning, one unit per column and one dtype per column wherever it appears: in
frames, in Parquet files, in the report. A column also states which values it may hold; the bus holds
every row of every tick to that. Adapters declare further signals in their `AdapterKind`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from cosim.contract import medium
from cosim.contract.entities import WorkloadQuantities
from cosim.contract.quantity import quantities, those
from cosim.contract.units import DIMENSIONS

Role = Literal["value", "slot", "code", "counter"]

LARGEST = sys.float_info.max
SHARE = 1.0 + 1e-9  # a share that is a sum of parts may be above 1 by its rounding


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `role` slot = refers to a node, code = index into `codes`, counter = only grows.

    Values lie in `low`..`high`, by default anywhere among the finite numbers; `high=inf` makes infinity a
    value. NaN is a fault unless the column is `optional`: then it stands for a value that is not known.
    """

    name: str
    dtype: str  # numpy name
    unit: str  # "" for dimensionless
    meaning: str
    role: Role = "value"
    codes: tuple[str, ...] | Literal["workloads"] = ()
    low: float = -LARGEST
    high: float = LARGEST
    optional: bool = False  # NaN: not known

    def bounds(self, capacity: int, workloads: int) -> tuple[float, float]:
        """Lowest and highest value in a scene with so many slots and workloads."""
        if self.role == "slot":
            return -1.0, capacity - 1.0
        if self.role == "code" and self.codes:
            known = workloads if self.codes == "workloads" else len(self.codes)
            return (-1.0 if self.low == -1.0 else 0.0), known - 1.0
        return (max(self.low, 0.0) if self.role == "counter" else self.low), self.high


@dataclass(frozen=True, slots=True)
class Signal:
    """A named set of columns. `rows` node: at most one row per slot; event: any number of rows."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    rows: Literal["node", "event"] = "node"

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"signal '{self.name}' has no column '{name}'; it has {', '.join(c.name for c in self.columns)}")


def grouping(signal: Signal) -> tuple[str, ...]:
    """The columns by which statistics of the signal can be grouped: what they hold are names."""
    return tuple(c.name for c in signal.columns if c.role == "slot" or (c.role == "code" and c.codes))


_TABLES = ("tasks", "nodes", "events", "figures")  # of results, beside the signals
_KEYS = ("time", "node", "run")  # columns that every table of results has


def free_signal(name: str) -> str:
    """`name` of a signal that a scenario brings. Raises `ValueError` where a table of the results has it.

    Tables of results are the same in small and capital letters.
    """
    if name.lower() in _TABLES:
        raise ValueError(f"'{name}' is a table of every run's results; write a signal of another name")
    if name not in CATALOGUE and name.lower() in CATALOGUE:
        raise ValueError(f"'{name}' differs from the signal '{name.lower()}' in capital letters only")
    return name


def free_column(name: str) -> str:
    """`name` of a column that a scenario brings. Raises `ValueError` for one that every table of results has."""
    if name.lower() in _KEYS:
        raise ValueError(f"'{name}' is a column of every table of results; write a column of another name")
    return name


TASK_STATUS = (
    "completed",
    "no-coverage",  # the device had no link when the task needed one, for longer than the patience
    "left",  # the device left the scene with the task in flight
    "capacity",  # the host refused the task: all its places were taken, or it cannot hold or run it at all
    "node-failed",  # the host or the device failed with the task on it
    "link-failed",  # a link on the way was down
    "deadline",  # dropped because its deadline had passed
    "battery-empty",  # the battery of its device or host ran empty
)

ACCELERATORS = ("gpu", "npu", "tpu", "fpga", "dsp")
MACHINE_STATE = ("on", "asleep", "waking", "booting", "off", "absent")

TASK_EVENTS = ("created", "assigned", "uploaded", "started", "computed", "ended")
NODE_EVENTS = (
    "fail",
    "recover",
    "battery-empty",
    "appear",
    "vanish",
    "sleep",
    "wake",  # begins to wake up
    "boot",  # begins to boot
    "ready",  # has woken up or booted
)

MOBILITY = Signal("mobility", "where moving nodes are", (
    Column("x", "float64", "m", "east of the origin"),
    Column("y", "float64", "m", "north of the origin"),
    Column("z", "float64", "m", "above the origin"),
    Column("speed", "float64", "m/s", "ground speed", low=0.0),
    Column("heading", "float64", "deg", "clockwise from north"),
))  # fmt: skip

LINK = Signal("link", "a device's radio link to the cell that serves it", (
    Column("cell", "int32", "", "slot of the serving base station, -1 without coverage", "slot"),
    Column("rsrp", "float64", "dBm", "received power of the serving cell; NaN: a medium without it", optional=True),
    Column("snr", "float64", "dB", "downlink signal to noise and interference"),
    Column("uplink_rate", "float64", "bit/s", "rate that the device's uploads share now, before loss", low=0.0),
    Column("downlink_rate", "float64", "bit/s", "rate that its downloads share", low=0.0),
    Column("delay", "float64", "s", "one-way delay besides the transmission: access, queueing, propagation", low=0.0),
    Column("loss", "float64", "1", "packet loss after retransmissions", low=0.0, high=1.0),
    Column("handovers", "int32", "1", "changes of the serving cell so far", "counter"),
    Column("distance", "float64", "m", "between the antennas, without coverage to the strongest cell; NaN: hears none",
           low=0.0, optional=True),
    Column("pathloss", "float64", "dB", "to that cell, shadowing in, antenna gains and fading out", optional=True),
))  # fmt: skip

NEIGHBOUR_CELL = Signal("neighbour_cell", "the nearest cells of a device as it receives them; its slot is the device", (
    Column("cell", "int32", "", "slot of the base station", "slot"),
    Column("rank", "int32", "1", "1 for the nearest", low=1.0),
    Column("distance", "float64", "m", "between the antennas", low=0.0),
    Column("rsrp", "float64", "dBm", "received power; NaN: out of range", optional=True),
    Column("pathloss", "float64", "dB", "shadowing in, antenna gains and fading out", optional=True),
), rows="event")  # fmt: skip

CELL = Signal("cell", "load of a base station's cell", (
    Column("attached", "int32", "1", "devices served", low=0.0),
    Column("active", "int32", "1", "devices with a transfer under way", low=0.0),
    Column("utilisation", "float64", "1", "part of the airtime in use", low=0.0, high=SHARE),
    Column("rate", "float64", "bit/s", "sum of the rates handed out", low=0.0),
))  # fmt: skip

TRAFFIC = Signal("traffic", "what devices send and receive over the air", (
    Column("uploads", "int32", "1", "uploads under way", low=0.0),
    Column("downloads", "int32", "1", "downloads under way", low=0.0),
    Column("sent", "float64", "B", "bytes sent so far", "counter"),
    Column("received", "float64", "B", "bytes received so far", "counter"),
))  # fmt: skip

HOST = Signal("host", "state of a node that runs tasks", (
    Column("running", "int32", "1", "tasks on the host", low=0.0),
    Column("utilisation", "float64", "1", "mean share of the cores in use since the last row", low=0.0, high=SHARE),
    Column("power", "float64", "W", "mean electrical power since the last row", low=0.0),
    Column("energy", "float64", "J", "energy used so far", "counter"),
    Column("cost", "float64", "1", "cost so far", "counter"),
    Column("completed", "int64", "1", "tasks finished here so far", "counter"),
    Column("up", "bool", "", "false while the node is failed"),
))  # fmt: skip

BATTERY = Signal("battery", "what a node has left to live on", (
    Column("level", "float64", "J", "energy left", low=0.0),
    Column("fraction", "float64", "1", "part of the capacity left", low=0.0, high=SHARE),
    Column("power", "float64", "W", "drain now: the node's power and its radio's"),
    Column("empty", "bool", "", "true once the node is dead"),
))  # fmt: skip

MACHINE = Signal("machine", "what a host with limits, power states or operating points is doing", (
    Column("state", "int8", "", "what it does", "code", MACHINE_STATE),
    Column("waiting", "int32", "1", "tasks that wait for it to be on, or for memory and storage", low=0.0),
    Column("memory", "float64", "B", "memory free, inf: unlimited", low=0.0, high=inf),
    Column("storage", "float64", "B", "storage free, inf: unlimited", low=0.0, high=inf),
    Column("frequency", "float64", "Hz", "clock of the cores", low=0.0),
))  # fmt: skip

ACCELERATOR = Signal("accelerator", "an accelerator of a host; the row's slot is the host", (
    Column("kind", "int8", "", "which kind", "code", ACCELERATORS),
    Column("running", "int32", "1", "tasks that it works on", low=0.0),
    Column("waiting", "int32", "1", "tasks in line for a unit", low=0.0),
    Column("utilisation", "float64", "1", "mean share of the units in use since the last row", low=0.0, high=SHARE),
    Column("power", "float64", "W", "mean electrical power since the last row", low=0.0),
    Column("energy", "float64", "J", "energy used so far", low=0.0),
    Column("completed", "int64", "1", "tasks finished here so far", low=0.0),
), rows="event")  # fmt: skip

OF_WORKLOADS = those(WorkloadQuantities, "reported")
TASK = Signal("task", "a task that ended; the row's slot is the device that made it", (
    Column("task", "int64", "", "serial number in the order of creation", low=0.0),
    Column("workload", "int16", "", "which workload", "code", "workloads"),
    Column("host", "int32", "", "slot of the node that ran it, -1 if it never got to one", "slot"),
    Column("status", "int8", "", "how it ended", "code", TASK_STATUS),
    Column("created", "float64", "s", "creation", low=0.0),
    Column("uploaded", "float64", "s", "input complete at the host, NaN if never", low=0.0, optional=True),
    Column("started", "float64", "s", "first got a core, NaN if never", low=0.0, optional=True),
    Column("computed", "float64", "s", "computation finished, NaN if never", low=0.0, optional=True),
    Column("ended", "float64", "s", "output back at the device, or failure", low=0.0),
    Column("input", "float64", "B", "input size", low=0.0),
    Column("output", "float64", "B", "output size", low=0.0),
    Column("work", "float64", "cycles", "computation", low=0.0),
    *(
        Column(name, "float64", next(iter(DIMENSIONS.get(one.dimension, "1"))), one.reported, low=0.0, high=inf)
        for name, one in quantities(WorkloadQuantities).items()
        if one.reported
    ),
    Column("late", "bool", "", "completed after its deadline"),
), rows="event")  # fmt: skip

DEMAND = Signal("demand", "what the next tasks of a device are like, where it is not as their workload says", (
    Column("workload", "int32", "", "of the tasks", "code", "workloads"),
    Column("work", "float64", "cycles", "of each of them, NaN: as the workload says", low=0.0, optional=True),
), rows="event")  # fmt: skip

TASK_EVENT = Signal("task_event", "what happens to tasks; the row's slot is the device that made the task", (
    Column("task", "int64", "", "serial number in the order of creation", low=0.0),
    Column("workload", "int16", "", "which workload", "code", "workloads"),
    Column("job", "int64", "", "serial number of the job that it is a stage of, -1 for tasks and jobs", low=-1.0),
    Column("stage", "int16", "", "position of the stage in its graph, -1 for tasks and jobs", low=-1.0),
    Column("event", "int8", "", "what happened", "code", TASK_EVENTS),
    Column("at", "float64", "s", "when it happened", low=0.0),
    Column("host", "int32", "", "slot of the node that runs it, -1 while it has none", "slot"),
    Column("status", "int8", "", "how it ended, -1 before", "code", TASK_STATUS, low=-1.0),
    Column("created", "float64", "s", "creation", low=0.0),
), rows="event")  # fmt: skip

NODE_EVENT = Signal("node_event", "what happens to nodes", (
    Column("event", "int8", "", "what happened", "code", NODE_EVENTS),
    Column("at", "float64", "s", "when it happened", low=0.0),
    Column("created", "float64", "s", "since when the node is there", low=0.0),
), rows="event")  # fmt: skip

TAKEN = Signal("taken", "tasks that real machines get from now on instead of a model; the slot is their first source", (
    Column("workload", "int32", "", "of the tasks", "code", "workloads"),
    Column("share", "float64", "1", "of them", low=0.0, high=1.0),
), rows="event")  # fmt: skip

PEER_LINK = Signal("peer_link", "a link from one node straight to another; the row's slot is the sender", (
    Column("peer", "int32", "", "slot of the receiver", "slot"),
    Column("rate", "float64", "bit/s", "what the link carries when no other device sends", low=0.0, high=inf),
    Column("delay", "float64", "s", "one way, besides the transmission", low=0.0),
    Column("jitter", "float64", "s", "half width of the delay's variation", low=0.0),
    Column("loss", "float64", "1", "of packets", low=0.0, high=1.0),
    Column("rssi", "float64", "dBm", "received power, NaN: not known", optional=True),
), rows="event")  # fmt: skip

LINK_INTERFACES = tuple(one.interface for one in medium.MEDIA if one is not medium.UPLINK)
LINK_PROBE = Signal("link_probe", "a link as asked for and as measured between real nodes; the slot is the sender", (
    Column("peer", "int32", "", "slot of the receiver", "slot"),
    Column("interface", "int8", "", "of both nodes", "code", LINK_INTERFACES),
    Column("rate", "float64", "bit/s", "measured, NaN: not probed", low=0.0, optional=True),
    Column("delay", "float64", "s", "measured mean, one way, NaN: not probed", low=0.0, optional=True),
    Column("mdev", "float64", "s", "measured standard deviation of the delay, as ping's mdev", low=0.0, optional=True),
    Column("loss", "float64", "1", "measured share of packets, NaN: not probed", low=0.0, high=1.0, optional=True),
    Column("loss_low", "float64", "1", "lower end of its 99.9 % interval", low=0.0, high=1.0, optional=True),
    Column("loss_high", "float64", "1", "upper end of it", low=0.0, high=1.0, optional=True),
    Column("rate_asked", "float64", "bit/s", "asked for", low=0.0, high=inf, optional=True),
    Column("delay_asked", "float64", "s", "asked for", low=0.0, optional=True),
    Column("loss_asked", "float64", "1", "asked for", low=0.0, high=1.0, optional=True),
    Column("deviation", "float64", "1", "largest of the three, in units of its threshold; NaN: not compared",
           low=0.0, optional=True),
), rows="event")  # fmt: skip

VEHICLE_MODE = (
    "manual", "hold", "take-off", "go", "velocity", "mission", "return", "land", "attitude", "acceleration", "circle",
)  # fmt: skip
FAILSAFE = ("none", "battery-low", "battery-critical", "battery-empty", "fence")

VEHICLE = Signal("vehicle", "what drones and rovers do", (
    Column("mode", "int8", "", "what the autopilot is doing", "code", VEHICLE_MODE),
    Column("armed", "bool", "", "motors may turn"),
    Column("climb", "float64", "m/s", "vertical speed, up", optional=True),
    Column("roll", "float64", "deg", "right side down", optional=True),
    Column("pitch", "float64", "deg", "nose up", optional=True),
    Column("charge", "float64", "1", "part of the battery's charge left", low=0.0, high=SHARE, optional=True),
    Column("voltage", "float64", "V", "of the battery under load", low=0.0, optional=True),
    Column("power", "float64", "W", "from the battery", optional=True),
    Column("failsafe", "int8", "", "which one acts", "code", FAILSAFE),
))  # fmt: skip

NODE_METERS = ("none", "modelled", "rapl", "ina", "battery", "external")

RESOURCES = Signal("resources", "what a real machine or container says about itself", (
    Column("present", "bool", "", "it has a lease"),
    Column("cpu", "float64", "1", "share of all cores in use", low=0.0, high=SHARE, optional=True),
    Column("memory", "float64", "B", "in use", low=0.0, optional=True),
    Column("received", "float64", "B", "by its network interfaces so far", "counter", optional=True),
    Column("sent", "float64", "B", "by its network interfaces so far", "counter", optional=True),
    Column("temperature", "float64", "degC", "of its processor, NaN: no sensor", optional=True),
    Column("power", "float64", "W", "NaN: not known", low=0.0, optional=True),
    Column("meter", "int8", "", "where the power comes from", "code", NODE_METERS),
    Column("cpu_wait", "float64", "1", "time that its threads waited for a core, per time", low=0.0, optional=True),
    Column("memory_wait", "float64", "1", "share of time that a program waited for memory", low=0.0, optional=True),
    Column("io_wait", "float64", "1", "share of time that a program waited for storage", low=0.0, optional=True),
    Column("round_trip", "float64", "s", "of its messages", low=0.0, optional=True),
    Column("clock_offset", "float64", "s", "its clock less ours", optional=True),
))  # fmt: skip
# Above which a node's programs are starved. For a core: 20 ms in a second, as late as packets may be. For memory and
# storage: 150 ms in a second, the trigger that the kernel's documentation shows (Documentation/accounting/psi.rst).
STARVED: Mapping[str, float] = {"cpu_wait": 0.02, "memory_wait": 0.15, "io_wait": 0.15}

CONNECTION_STATES = ("detached", "connected", "out-of-sync", "re-establishing")
_LOG_CELL = Column("cell", "int32", "", "slot of the serving base station, -1 for none", "slot")
_LOG_RNTI = Column("rnti", "int32", "", "its identity in the cell, another one after each access; 0 for none", low=0.0)
_LOG_BLER = Column("bler", "float64", "1", "block errors of first transmissions", low=0.0, high=SHARE)
_LOG_PDR = Column("pdr", "float64", "1", "packets delivered, after all retransmissions", low=0.0, high=SHARE)
_LOG_DROPS = Column("drops", "float64", "1/s", "packets dropped: lost on the air after all retransmissions", low=0.0)
_LOG_PRBS = Column("prbs", "float64", "1", "mean resource blocks in use for it", low=0.0)
_LOG_MCS = Column("mcs", "int8", "1", "modulation and coding scheme, TS 38.214 table 5.1.3.1-1", low=0.0, high=28.0)

UE = Signal("ue", "what a phone logs of its downlink", (
    _LOG_CELL,
    _LOG_RNTI,
    Column("state", "int8", "", "of its connection", "code", CONNECTION_STATES),
    Column("rsrp", "float64", "dBm", "SS-RSRP of the serving or strongest cell"),
    Column("rssi", "float64", "dBm", "all power on the 20 blocks of its synchronisation block"),
    Column("rsrq", "float64", "dB", "SS-RSRQ: 10 log10 blocks + RSRP - RSSI on them"),
    Column("rssi_wide", "float64", "dBm", "all power on the whole channel"),
    Column("sinr", "float64", "dB", "effective over the channel"),
    Column("excess", "float64", "dB", "interference and noise measured, over noise and what other cells should add"),
    Column("cqi", "int8", "1", "as reported, TS 38.214 table 5.2.2.1-2", low=0.0, high=15.0),
    Column("ri", "int8", "1", "layers, 0 without a connection", low=0.0, high=8.0),
    _LOG_MCS,
    _LOG_BLER,
    Column("rate", "float64", "bit/s", "that its downloads share", low=0.0),
    _LOG_PDR,
    _LOG_DROPS,
    _LOG_PRBS,
))  # fmt: skip

GNB = Signal("gnb", "what a base station logs of the uplink of a phone; no row for one that is not connected", (
    _LOG_CELL,
    _LOG_RNTI,
    Column("sinr", "float64", "dB", "effective over the channel"),
    Column("rssi", "float64", "dBm", "all power at its receiver on the whole channel, this phone's included"),
    Column("excess", "float64", "dB", "interference and noise measured, over noise and what other phones should add"),
    Column("excess_cell", "float64", "dB", "excess of the downlink, mean over the cell's phones"),
    _LOG_MCS,
    _LOG_BLER,
    Column("nack", "float64", "1/s", "blocks that were not received at first", low=0.0),
    Column("rate", "float64", "bit/s", "that its uploads share", low=0.0),
    _LOG_PDR,
    _LOG_DROPS,
    _LOG_PRBS,
    Column("buffer", "float64", "B", "mean backlog: rate x queueing delay, by Little's law", low=0.0),
))  # fmt: skip

REACH = Signal("reach", "the hosts that a scheduler has for the tasks of a real device, in its order", (
    Column("host", "int32", "", "slot of the host", "slot"),
    Column("serving", "int32", "", "slot of the node that serves the device, -1: none", "slot"),
    Column("transfer", "float64", "s", "of 100 kB from the serving node to it, inf: no way", low=0.0, high=inf),
    Column("assigned", "int32", "1", "simulated tasks sent to the host and not yet computed", low=0.0),
    Column("up", "bool", "", "false while the host is failed"),
), rows="event")  # fmt: skip
PLACEMENT = Signal("placement", "what policy files have put on a node", (
    Column("components", "int32", "1", "components of applications that are there", low=0.0),
    Column("workloads", "int64", "", "bit k: the tasks of workload k, in the order of the file, may run there"),
))  # fmt: skip
DESTINATION = Signal("destination", "where a node is sent", (
    Column("x", "float64", "m", "east of the origin, NaN: home", optional=True),
    Column("y", "float64", "m", "north of the origin", optional=True),
    Column("z", "float64", "m", "above the origin", optional=True),
))  # fmt: skip
CATALOGUE: Mapping[str, Signal] = {s.name: s for s in (
    MOBILITY, LINK, CELL, TRAFFIC, HOST, BATTERY, MACHINE, ACCELERATOR, TASK, DEMAND, TAKEN, TASK_EVENT, NODE_EVENT,
    PEER_LINK, LINK_PROBE, VEHICLE, RESOURCES, UE, GNB, NEIGHBOUR_CELL, REACH, PLACEMENT,
    DESTINATION,
)}  # fmt: skip


def catalogue(interfaces: Iterable[str] = ()) -> dict[str, Signal]:
    """The catalogue of a scenario whose adapters bring media with these interfaces."""
    known = (*LINK_INTERFACES, *interfaces)
    columns = (replace(one, codes=known) if one.codes is LINK_INTERFACES else one for one in LINK_PROBE.columns)
    return {**CATALOGUE, LINK_PROBE.name: replace(LINK_PROBE, columns=tuple(columns))}
