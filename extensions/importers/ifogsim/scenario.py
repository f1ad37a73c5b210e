"""From a topology and a description of its application to the text of a scenario."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from cosim.contract import units
from cosim.contract.errors import Problem
from cosim.contract.hints import did_you_mean
from cosim.extensions.importers.ifogsim.topology import FogDevice, FogEndpoint, FogTopology, GapLaw, read_topology
from cosim.scenario.text import LawOfBytes, LawOfWork
from cosim.sources.importing.document import plain_name, text_of
from cosim.sources.importing.imported import Imported
from cosim.sources.importing.values import Findings, merged

DURATION = "10 s"
# A tuple of iFogSim's examples: some thousand of its units of work, some hundred of data.
WORK, INPUT, OUTPUT = "2 Mcycles", "500 B", "500 B"
_AT_ONCE = "1 Tbit/s"  # of the links of sensors, which have a latency only
_MOST_ROWS = 5_000_000


def read(
    file: Path,
    *,
    work: Sequence[str] = (),
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    scheduler: str = "nearest",
    duration: str = DURATION,
    seed: int = 1,
) -> Imported:
    """A scenario for the adapter `continuum` on the topology in `file`.

    `work`, `inputs` and `outputs` are laws of what a tuple of a sensor costs to compute, and of what it and
    its answer carry: `2 Mcycles` for all types of sensor, `EEG=2 Mcycles` for one. One instruction is one
    cycle. Gaps that are not constant are drawn with `seed` for the whole `duration` and are in a file
    beside the scenario. Raises `ScenarioError` with all mistakes in the topology or in the arguments.
    """
    findings = Findings()
    topology = read_topology(file, findings)
    types = list(dict.fromkeys(sensor.type for sensor in topology.sensors))
    said = [
        _Quantity.of(name, given, default, check, types, findings)
        for name, given, default, check in (
            ("work", work, WORK, TypeAdapter(LawOfWork)),
            ("input", inputs, INPUT, TypeAdapter(LawOfBytes)),
            ("output", outputs, OUTPUT, TypeAdapter(LawOfBytes)),
        )
    ]
    seconds = _seconds(duration, findings)
    findings.check()
    for one in said:
        one.report(file, types, findings)
    loads, beside, rows = _workloads(topology, said, seconds, seed)
    findings.check()
    _remarks(file, topology, findings)
    steps = max(1, round(seconds))
    step = "1 s" if math.isclose(steps, seconds, rel_tol=1e-12) else duration
    document: dict[str, object] = {
        "apiVersion": "cosim/v1",
        "kind": "Scenario",
        "name": "ifogsim",
        "title": "".join(c for c in f"iFogSim topology {file.stem}" if c.isprintable())[:200],
        "description": "Imported from a topology of iFogSim; the application is what was said beside it.",
        "run": {"duration": duration, "step": step, "seed": seed},
        "adapters": {"continuum": {"scheduler": scheduler}},
        "kinds": {
            **{
                f"level-{level}": {"tier": "edge" if level else "cloud"}
                for level in sorted({device.level for device in topology.devices})
            },
            "sensor": {"tier": "device"},
        },
        "nodes": {
            **{device.name: _device(device) for device in topology.devices},
            **{sensor.name: {"kind": "sensor"} for sensor in topology.sensors},
        },
        "links": _links(topology),
        "workloads": loads,
    }
    facts = {
        "devices": len(topology.devices),
        "sensors": len(topology.sensors),
        "actuators": len(topology.actuators),
        "workloads": len(loads),
        "rows": rows,
    }
    return Imported(text_of(document), merged(findings.notices), beside, facts)


@dataclass(frozen=True, slots=True)
class _Quantity:
    """One quantity of the application: by type of sensor, and for the others."""

    name: str
    by_type: dict[str, str]
    others: str
    default: bool  # `others` is not given

    @classmethod
    def of(
        cls, name: str, given: Sequence[str], default: str, law: TypeAdapter[Any], types: list[str], findings: Findings
    ) -> _Quantity:
        by_type: dict[str, str] = {}
        others = ""
        for text in given:
            left, equals, right = text.rpartition("=")
            kind, value = left.strip(), right.strip()
            try:
                law.validate_python(value)
            except ValidationError as error:
                message = error.errors()[0]["msg"].removeprefix("Value error, ")
                findings.problems.append(Problem(message, f"--{name}"))
            if not equals:
                others = value
            elif kind in types:
                by_type[kind] = value
            else:
                hint = did_you_mean(kind, types)
                findings.problems.append(Problem(f"no sensor is of the type '{kind}'", f"--{name}", hint=hint))
        return cls(name, by_type, others or default, not others)

    def report(self, file: Path, types: list[str], findings: Findings) -> None:
        """Note the types for which the default is taken."""
        left = [kind for kind in types if kind not in self.by_type]
        if self.default and left:
            text = f"of {', '.join(left)} is not in a topology; {self.others} is taken, say it with --{self.name}"
            findings.report("note", file, None, self.name, text)

    def __call__(self, kind: str) -> str:
        return self.by_type.get(kind, self.others)


def _seconds(duration: str, findings: Findings) -> float:
    try:
        seconds = units.parse(duration, "time")
    except ValueError as error:
        findings.problems.append(Problem(str(error), "--duration"))
        return 0.0
    if seconds <= 0.0:
        findings.problems.append(Problem("is not above 0", "--duration"))
    return seconds


def _device(device: FogDevice) -> dict[str, object]:
    """The device's node; iFogSim's cost is its rate x MIPS in use x ms."""
    node: dict[str, object] = {"kind": f"level-{device.level}", "cpu": f"1 x {_plain(device.mips)} MHz"}
    if device.ram > 0.0:
        node["memory"] = f"{_plain(device.ram)} MB"
    if device.price > 0.0:
        node["cost"] = {"cpu": f"{_plain(device.price * device.mips * 1e3)} /s"}
    return node


def _links(topology: FogTopology) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for device in topology.devices:
        if device.parent is not None:
            back = {} if device.parent.down == device.up else {"rate_back": f"{_plain(device.parent.down)} kbit/s"}
            rates = {"rate": f"{_plain(device.up)} kbit/s", **back}
            ends = [device.name, device.parent.name]
            found.append({"between": ends, **rates, "delay": f"{_plain(device.latency)} ms"})
    for sensor in topology.sensors:
        assert sensor.gateway is not None
        ends = [sensor.name, sensor.gateway.name]
        found.append({"between": ends, "rate": _AT_ONCE, "delay": f"{_plain(sensor.latency)} ms"})
    return found


def _workloads(
    topology: FogTopology, said: list[_Quantity], seconds: float, seed: int
) -> tuple[dict[str, dict[str, object]], dict[str, Callable[[Path], None]], int]:
    """One workload for each type of sensor and constant gap, and one with a file for all other gaps of a type."""
    groups: dict[tuple[str, float | None], list[FogEndpoint]] = {}
    for sensor in topology.sensors:
        assert sensor.gaps is not None
        constant = sensor.gaps.a if sensor.gaps.law == "deterministic" else None
        groups.setdefault((sensor.type, constant), []).append(sensor)
    loads: dict[str, dict[str, object]] = {}
    beside: dict[str, Callable[[Path], None]] = {}
    taken: set[str] = set()
    total = 0
    for (kind, gap), sensors in groups.items():
        name = plain_name(kind, taken, "sensor")
        load: dict[str, object] = {"from": [sensor.name for sensor in sensors]}
        if gap is None:
            rows: list[tuple[float, str]] = []
            for sensor in sensors:
                rows += _drawn(sensor, seconds, seed, total + len(rows))
            total += len(rows)
            beside[f"{name}.csv"] = partial(_write, sorted(rows))
            load["arrivals"] = f"trace {name}.csv"
        else:
            load["arrivals"] = f"every {_plain(gap)} ms"
        load |= {one.name: one(kind) for one in sorted(said, key=lambda one: one.name)}
        loads[name] = load
    return loads, beside, total


def _drawn(sensor: FogEndpoint, seconds: float, seed: int, there: int) -> list[tuple[float, str]]:
    """When a sensor sends, and its name: the first time after the first gap, as in iFogSim."""
    law = sensor.gaps
    assert law is not None
    mean = (law.a + law.b) / 2.0 if law.law == "uniform" else law.a  # ms
    expected = seconds * 1e3 / mean
    if there + expected > _MOST_ROWS:
        sensor.source.wrong("distribution", f"makes more than {_MOST_ROWS:,} tuples", "take a shorter --duration")
        return []
    stream = np.random.default_rng([seed, *sensor.name.encode()])
    times = np.zeros(0)
    end = 0.0
    while end < seconds * 1e3:
        gaps = _gaps(law, stream, int(expected * 1.1) + 16)
        more = end + np.cumsum(gaps)
        times, end = np.concatenate([times, more]), float(more[-1])
    if law.law == "normal" and law.a < 3.0 * law.b:
        text = "gaps below 0, which iFogSim cannot schedule, count as 0"
        sensor.source.report("note", "stdDev", text)
    text = f"gaps are drawn for {seconds:g} s with seed {seed} and stand in a file; a longer run has no more"
    sensor.source.report("note", "distribution", text)
    return [(float(time), sensor.name) for time in times[times < seconds * 1e3] / 1e3]


def _gaps(law: GapLaw, stream: np.random.Generator, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(count,) ms."""
    if law.law == "uniform":
        return stream.uniform(law.a, law.b, count)
    return np.maximum(stream.normal(law.a, law.b, count), 0.0)


def _write(rows: list[tuple[float, str]], path: Path) -> None:
    text = io.StringIO()
    text.write("time,device\n")
    for time, device in rows:
        text.write(f"{time!r},{device}\n")
    path.write_text(text.getvalue(), encoding="utf-8")


def _remarks(file: Path, topology: FogTopology, findings: Findings) -> None:
    """Note what counts differently here, or not at all."""

    def note(key: str, text: str) -> None:
        findings.report("note", file, None, key, text)

    note("mips", "one instruction counts as one cycle, so n MIPS are one core of n MHz")
    note("upBw, downBw", "are taken as kbit/s, and latencies as ms")
    note("power", "is not in a topology; none is counted until nodes have `power`")
    if any(device.price for device in topology.devices):
        note(
            "ratePerMips",
            "is per MIPS and ms in use, as iFogSim reckons; cost.cpu is 1000 x MIPS x rate per s",
        )
    parents = {id(device.parent) for device in topology.devices if device.parent is not None}
    if len(parents) < sum(device.parent is not None for device in topology.devices):
        note("downBw", "every child has this rate to itself; iFogSim's device serves its children one after another")
    for device in topology.devices:
        if device.parent is None:
            text = "has no effect: it has no parent to send to"
            device.source.report("note", "upBw", text)
            if device.level:
                device.source.report("note", "level", "is not 0, and no link leads to a device above")
        if id(device) not in parents:
            device.source.report("note", "downBw", "has no effect: no device is below; actuators have a latency only")
    for actuator in topology.actuators:
        text = "actuators are no nodes here: the answer returns to the sensor, over the sensor's latency"
        actuator.source.report("ignored", "type", text)


def _plain(value: float) -> str:
    return f"{value:.12g}"
