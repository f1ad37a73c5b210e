"""Fields of a system by name, for runs that differ in their values.

    kind.0.clock       what `PricedQuantities` declares for batches, in SI
    kind.0.power.idle  W, the table's first value; power.max its last, power.2 its third
    workload.*.rate    1/s; also what `WorkloadQuantities` declares for batches
    workload.0.work    cycles, the mean of its law; input and output, B; spread, deviation over mean of a
                       log-normal work; slow_share and slow_times, of its second mode
    link.0.rate        bit/s; also delay (s), loss (1), energy (J/bit)
    patience, threshold, drop_late, scheduler: as in `Engine`

`*` stands for all kinds, workloads or links. A new end of a power table moves the values between in
proportion. A new mean of a uniform law scales both bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cosim.contract.entities import HostQuantities, PricedQuantities, WorkloadQuantities
from cosim.contract.link import LinkQuantities, LinkState
from cosim.contract.quantity import quantities, those
from cosim.contract.records import Floats
from cosim.engine.continuum.layout import UNIFORM, KernelState
from cosim.engine.continuum.numbering import PER_NODE, first_link_station
from cosim.engine.continuum.system import System, mark_plain, transfer_time

Setter = Callable[[KernelState, "Tariffs", float], None]

_SETTINGS = ("patience", "threshold", "drop_late", "scheduler")
_RADIO = ("radio_energy_sent", "radio_energy_received")
KIND = those(PricedQuantities, "batched")
PRICES = tuple(name for name in KIND if name in _RADIO or name not in quantities(HostQuantities))  # the books' alone
SIZES = ("work", "input", "output")  # of tasks, laws
WORKLOAD = ("rate", *those(WorkloadQuantities, "batched"))
LINK = (*those(LinkState, "batched"), *those(LinkQuantities, "batched"))


@dataclass(slots=True)
class Tariffs:
    """What the books multiply by; the kernel does not know it."""

    kinds: Floats  # (len(PRICES), kinds)
    links: Floats  # (links,) J/bit

    @staticmethod
    def of(system: System) -> Tariffs:
        rows = [[getattr(kind, name) for kind in system.kinds] for name in PRICES]
        return Tariffs(np.array(rows, np.float64), np.array(system.link_energy, np.float64))

    def take(self, other: Tariffs) -> None:
        """Become equal to `other`."""
        self.kinds[:] = other.kinds
        self.links[:] = other.links


def _point(field: str) -> int:
    """The number of a point of the power table, -1 when `field` names none."""
    table, _, number = field.partition(".")
    return int(number) if table == "power" and number.isdecimal() else -1


def _set_power(state: KernelState, number: int, field: str, value: float) -> None:
    kind = state.kinds[number]
    table = state.power[kind["first_power"] : kind["first_power"] + kind["powers"]]
    if (point := _point(field)) >= 0:
        table[point] = value
        return
    low, high = table[0], table[-1]
    new_low, new_high = (value, high) if field == "power.idle" else (low, value)
    part = (table - low) / (high - low) if high != low else np.linspace(0.0, 1.0, len(table))
    table[:] = new_low + part * (new_high - new_low)


def _set_kind(state: KernelState, tariffs: Tariffs, number: int, field: str, value: float) -> None:
    if field in PRICES:
        tariffs.kinds[PRICES.index(field), number] = value
        if field in _RADIO:  # batteries feel it
            state.radio[state.kinds["first_radio"][number], _RADIO.index(field)] = value
    elif field.startswith("power"):
        _set_power(state, number, field, value)
    else:
        state.kinds[field][number] = value


def _set_workload(state: KernelState, number: int, field: str, value: float) -> None:
    row = state.workloads[number]
    if field == "spread":
        row["work_b"] = value
    elif field not in SIZES:
        row[field] = value
    elif row[f"{field}_law"] == UNIFORM:
        mean = (row[f"{field}_a"] + row[f"{field}_b"]) / 2
        row[f"{field}_a"] *= value / mean
        row[f"{field}_b"] *= value / mean
    else:
        row[f"{field}_a"] = value


def _set_link(state: KernelState, tariffs: Tariffs, number: int, field: str, value: float) -> None:
    if field == "energy":
        tariffs.links[number] = value
    else:
        state.links[field][number] = value / 8.0 if field == "rate" else value


def _known(system: System, name: str) -> tuple[str, list[int], str]:
    """Table, numbers and field for a name. Raises `ValueError`, which lists the valid names."""
    table, _, rest = name.partition(".")
    number, _, field = rest.partition(".")
    tables: dict[str, tuple[int, tuple[str, ...]]] = {
        "kind": (len(system.kinds), (*KIND, "power.idle", "power.max")),
        "workload": (len(system.workloads), (*WORKLOAD, *SIZES, "spread", "slow_share", "slow_times")),
        "link": (len(system.link_a), LINK),
    }
    if table not in tables:
        raise ValueError(
            f"there is no parameter '{name}'; known: {', '.join(_SETTINGS)}, "
            "kind.N.FIELD, workload.N.FIELD, link.N.FIELD"
        )
    count, fields = tables[table]
    if field not in fields and not (table == "kind" and _point(field) >= 0):
        raise ValueError(f"'{name}' names no field of a {table}; known: {', '.join(fields)}")
    if number == "*":
        return table, list(range(count)), field
    if not number.isdecimal() or int(number) >= count:
        raise ValueError(f"'{name}' names no {table} of the system, which has {count}, numbered from 0")
    return table, [int(number)], field


@dataclass(frozen=True, slots=True)
class Change:
    """How to write one parameter into a state that stands at time 0."""

    write: Setter
    kinds: bool = False  # what follows from the kinds must be worked out again
    links: bool = False  # and what follows from the links


def change(system: System, name: str) -> Change:
    """The change that parameter `name` is. Raises `ValueError` when the system has no such field."""
    if name in _SETTINGS:

        def setting(state: KernelState, tariffs: Tariffs, value: float) -> None:  # noqa: ARG001 - the common signature
            state.meta[name] = value

        return Change(setting, kinds=name == "scheduler")
    table, numbers, field = _known(system, name)
    tables = [len(kind.power) for kind in system.kinds]
    if field.startswith("power") and not all(tables[number] for number in numbers):
        raise ValueError(f"'{name}' changes a power table, but the kind has none")
    if _point(field) >= 0 and not all(_point(field) < tables[number] > 1 for number in numbers):
        raise ValueError(f"'{name}' names no point of the power table")

    if field == "clock" and table == "kind" and any(system.kinds[number].scaling for number in numbers):
        raise ValueError(f"'{name}' changes a clock that operating points decide on")

    def write(state: KernelState, tariffs: Tariffs, value: float) -> None:
        for number in numbers:
            if table == "kind":
                _set_kind(state, tariffs, number, field, value)
            elif table == "workload":
                _set_workload(state, number, field, value)
            else:
                _set_link(state, tariffs, number, field, value)

    return Change(write, kinds=table == "kind" and field not in PRICES, links=table == "link" and field != "energy")


def follow_kinds(state: KernelState) -> None:
    """Carry clock, cores and slots of the kinds over to processors and hosts."""
    processors = state.stations[0 : first_link_station(len(state.nodes)) : PER_NODE]
    kind = state.nodes["kind"]
    processors["rate"], processors["servers"] = state.kinds["clock"][kind], state.kinds["cores"][kind]
    processors["contention"] = state.kinds["contention"][kind]
    mark_plain(state.stations, state.kinds, kind, state.machines)
    own = state.kinds[kind[state.hosts["slot"]]]
    for name in ("clock", "cores", "slots"):
        state.hosts[name] = own[name]
    state.hosts["speed"] = own["cores"] * own["clock"]
    moving = state.machines[state.machines["points"] > 0]
    processors["rate"][moving["node"]] = state.points["clock"][moving["first_point"] + moving["point"]]
    state.hosts["frequency"] = processors["rate"][state.hosts["slot"]]


def follow_links(state: KernelState) -> None:
    """Carry rate, delay and loss of the links over to their costs and stations."""
    links, first = state.links, first_link_station(len(state.nodes))
    goodput = links["rate"] * (1.0 - links["loss"])
    links["cost"] = transfer_time(links)
    behind = int(state.meta["first_accelerator"][0])
    state.stations["rate"][first:behind:2] = goodput
    state.stations["rate"][first + 1 : behind : 2] = goodput * links["back"]


def columns_of(parameters: Mapping[str, Any]) -> tuple[int, dict[str, Floats]]:
    """(sets of parameters, values of each by name). Raises `ValueError` when the lengths differ."""
    columns = {name: np.atleast_1d(np.asarray(values, np.float64)) for name, values in parameters.items()}
    lengths = {len(values) for values in columns.values() if len(values) != 1}
    if any(values.ndim != 1 for values in columns.values()) or len(lengths) > 1:
        raise ValueError("all parameters need lists of the same length, or one value for all sets")
    count = lengths.pop() if lengths else 1
    return count, {name: np.broadcast_to(values, (count,)) for name, values in columns.items()}
