"""Power by load: servers measured for SPECpower_ssj2008, and a node's counters against its meter.

A server's curve is fitted to the watts at some loads and judged at the others, with the other servers
as the prior. The platform power of a node is fitted to its processor's counters on alternate blocks of
time and judged on the blocks between.

Settings: `set`, `servers` (default) or `counters`; `machine`, a part of a server's name (default: every
server); `levels`, the measured loads in % (default 0 20 40 60 80 100); `held_back`, a folder with servers that
are to be predicted with those of the data as the prior.

Result for fields of a scenario: `curve`, the power table, as measured where it was, predicted between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError
from cosim.contract.records import Floats, Ints
from cosim.extensions.published_data.models.power import LEVELS, MeasuredMachines
from cosim.sources.tables.findings import as_warnings
from cosim.sources.tables.published import column, find, numbers, table
from cosim.twin.jobs import held_back
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal, Simulate
from cosim.twin.space import Parameter, Prior, Space, Value
from cosim.twin.telemetry.hygiene import examine_inputs

SETTINGS = ("set", "machine", "levels", "held_back")

LOADS = (0, 20, 40, 60, 80, 100)  # % measured for the fit
COMPONENTS = 4  # of the fleet's shapes that a search moves
BLOCK = 100  # rows of a block of time: 300 s
COUNTERS = ("cpu_cycles", "cpu_instructions", "cache_miss")


@dataclass(frozen=True, slots=True, eq=False)
class Servers:
    """Measured servers."""

    names: tuple[str, ...]  # maker, model and processor
    watts: Floats  # (servers, 11) W at `LEVELS`, at the plug
    source: str


def read_servers(data: Path) -> Servers:
    """The servers of the tables below `data`. Raises `ScenarioError` for a table without the columns or with gaps."""
    names: list[str] = []
    parts: list[Floats] = []
    paths = find(data, "spec_even_years.csv*", "spec_data.csv*", "spec_*.csv*")
    for path in paths:
        found = table(path)
        wanted = ["ActiveIdle", *(f"{load}_AvgPower" for load in range(10, 101, 10))]
        watts = np.stack([numbers(found, name, path) for name in wanted], axis=1)
        bad = np.flatnonzero(~(watts > 0.0).all(axis=1))
        if len(bad):
            raise ScenarioError(
                Mistake("has a power that is missing or not above 0 W", file=path, line=int(bad[0]) + 2)
            )
        makers = (column(found, name, path) for name in ("HW_Vendor", "HW_Model", "HW_CPUName"))
        names += [" ".join(dict.fromkeys(parts)) for parts in zip(*makers, strict=True)]
        parts.append(watts)
    return Servers(tuple(names), np.concatenate(parts), ", ".join(path.name for path in paths))


def server(
    servers: Servers, machine: int, loads: Sequence[int] = LOADS, *, prior: Servers | None = None
) -> CalibrationProblem:
    """The curve of one server from its watts at `loads` (%), judged at the loads between.

    Free are the power at full load and how much the shape of the curve has of the first principal
    components of the other servers' shapes, or of those of `prior`, in their standard deviations.
    """
    fleet = MeasuredMachines(servers.watts).without(machine) if prior is None else MeasuredMachines(prior.watts)
    mean, components = fleet.components(COMPONENTS)
    watts = servers.watts[machine]
    at = _levels(loads)
    full = float(watts[-1])
    scores = [
        Parameter(f"shape.{k + 1}", -4.0, 4.0, start=0.0, prior=Prior("normal", 0.0, 1.0)) for k in range(COMPONENTS)
    ]
    space = Space([Parameter("full", 0.8 * full, 1.2 * full, unit="W", start=full), *scores])

    def simulate(levels: Ints) -> Simulate:
        def run(values: Floats, _seed: int) -> Mapping[str, Floats]:
            return {"power": values[:, :1] * (mean + values[:, 1:] @ components)[:, levels]}

        return run

    def case(levels: Ints) -> Case:
        shares = ", ".join(f"{100 * level:.0f}" for level in LEVELS[levels])
        return Case({"power": MeasuredSignal(watts[levels], "W", paired=True)}, simulate(levels), f"loads {shares} %")

    def curve(values: Mapping[str, Value]) -> dict[str, list[str]]:
        scores = np.array([values[f"shape.{k + 1}"] for k in range(COMPONENTS)], np.float64)
        predicted = float(values["full"]) * (mean + scores @ components)
        predicted[at] = watts[at]
        return {"curve": [f"{value:.4g} W" for value in predicted]}

    rest = np.setdiff1d(np.arange(len(LEVELS)), at)
    return CalibrationProblem(
        servers.names[machine],
        space,
        fit=case(at),
        held_back=case(rest) if len(rest) else None,
        deterministic=True,
        cost=2e-6,
        assumptions=(
            f"the shape of the curve is the mean of {len(fleet.watts)} other servers and {COMPONENTS} components",
            "the actual load is the target load",
        ),
        sources=(f"{servers.source}: {servers.names[machine]}; the other servers are the prior",),
        results=curve,
    )


def counters(data: Path) -> CalibrationProblem:
    """Platform power (W) from the processor's counters of an interval, fitted on every other block of time."""
    path = find(data, "abs_acpi_counteronly.csv*", "*acpi*counteronly*.csv*")[0]
    found = table(path)
    measured = numbers(found, "platform_power", path)
    rows = np.stack([numbers(found, name, path) for name in COUNTERS], axis=1) * 1e-9
    if not (np.isfinite(rows).all() and np.isfinite(measured).all() and (measured > 0.0).all()):
        raise ScenarioError(Mistake("has counters or powers that are missing or negative", file=path))
    findings = [
        finding
        for name, counts in zip(COUNTERS, rows.T, strict=True)
        for finding in examine_inputs(name, counts, limits=(0.0, np.inf), effect=("power", measured))
    ]
    block = np.arange(len(measured)) // BLOCK
    space = Space([
        Parameter("idle", 50.0, 400.0, unit="W", start=150.0),
        Parameter("cycles", 0.01, 100.0, scale="log", unit="W", start=1.0),  # at 1e9 cycles an interval
        Parameter("cycles.exponent", 0.3, 1.5, start=1.0),
        Parameter("instructions", 0.0, 10.0, unit="W", start=0.1),  # per 1e9 an interval
        Parameter("misses", 0.0, 3000.0, unit="W", start=1.0),  # per 1e9 an interval
    ])  # fmt: skip

    def case(odd: int) -> Case:
        kept = block % 2 == odd
        cycles, instructions, misses = rows[kept].T

        def run(values: Floats, _seed: int) -> Mapping[str, Floats]:
            idle, weight, exponent, per_instruction, per_miss = (values[:, k : k + 1] for k in range(5))
            watts = idle + weight * cycles**exponent + per_instruction * instructions + per_miss * misses
            return {"power": watts}

        return Case(
            {"power": MeasuredSignal(measured[kept], "W", paired=True)},
            run,
            f"{'odd' if odd else 'even'} blocks of {BLOCK} rows",
        )

    return CalibrationProblem(
        "platform power by counters",
        space,
        fit=case(0),
        held_back=case(1),
        deterministic=True,
        cost=5e-5,
        assumptions=("power follows the counters of the same interval at once, without heat or fans",),
        sources=(f"{path.name}: {len(measured)} rows",),
        warnings=as_warnings(findings),
    )


def problems(data: Path, settings: Mapping[str, object]) -> list[CalibrationProblem]:
    """A problem for every server asked for, or that of the counters. Raises `ScenarioError`."""
    which = settings.get("set", "servers")
    if which == "counters":
        if held_back(settings) is not None:
            raise ScenarioError(
                Mistake("the blocks between are judged: no other data can be", "calibrate.settings.held_back")
            )
        return [counters(data)]
    if which != "servers":
        raise ScenarioError(Mistake(f"there is no set '{which}'", "calibrate.settings.set", hint="servers or counters"))
    later = held_back(settings)
    prior = None if later is None else read_servers(data)
    servers = read_servers(data if later is None else later)
    wanted = str(settings.get("machine", "")).lower()
    found = [k for k, name in enumerate(servers.names) if wanted in name.lower()]
    if not found:
        raise ScenarioError(Mistake(f"no server's name has '{wanted}'", "calibrate.settings.machine", file=data))
    loads = settings.get("levels", LOADS)
    if not isinstance(loads, Sequence) or isinstance(loads, str):
        raise ScenarioError(Mistake(f"{loads!r} is no list of loads in %", "calibrate.settings.levels"))
    return [server(servers, k, [int(load) for load in loads], prior=prior) for k in found]


def _levels(loads: Sequence[int]) -> Ints:
    """Loads in % as indices of `LEVELS`."""
    wrong = [load for load in loads if load % 10 or not 0 <= load <= 100]
    if wrong or 100 not in loads:
        raise ScenarioError(
            Mistake(f"the loads {list(loads)} are not multiples of 10 % up to 100 %", "calibrate.settings.levels")
        )
    return np.unique(np.asarray(loads, np.int64) // 10)
