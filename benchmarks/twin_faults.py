"""Faults put into good telemetry of three kinds of system: is one silent, and is it named (`--job faults`)?

Power and tasks of gateways; tables of requests to a service, computed without the engine; transfers of robots over
their links. Each set is drawn anew (laws, loads, true values) and calibrated as by `cosim calibrate`, without a fault
and with one. A fault is silent if there is no word that the sound set has not. It is named if the words of its table
occur, with recording or node where it has one, and the exit code is right.
"""

from __future__ import annotations

import csv
import math
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import process_time

import numpy as np

import cosim
from benchmarks.measure import mapped
from benchmarks.twin_sound import in_turn, sharing
from cosim.contract.errors import CosimError
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.scenario.requests import scenario_of
from cosim.twin.scenario.work import carry_out, works
from cosim.twin.search import Budget

Rows = list[list[str]]
Change = Callable[[Rows], Rows]
Edits = tuple[tuple[str, str], ...]
RUNS, FEW = 800, 40  # for what shows under the fitted model; for what the tables themselves show

SEED, EACH = 11, 20  # sets of each kind
SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: yard
run: {duration: 60 s, step: 1 s, seed: 5}
adapters:
  continuum: {scheduler: nearest}
kinds:
  gateway: {kind: edge, cpu: 2 x 1.5 GHz, power: {idle: 2.7 W, max: 6.4 W}}
nodes:
  camera-[1..2]: {kind: device}
  gate-1: {kind: gateway}
  gate-2: {kind: gateway, power: {idle: 9 W, max: 14 W}}
links:
  - {between: [camera-1, gate-1], rate: 50 Mbit/s, delay: 2 ms}
  - {between: [camera-2, gate-2], rate: 50 Mbit/s, delay: 2 ms}
workloads:
  look: {from: camera-*, arrivals: poisson 2 Hz, input: 80 kB, work: exponential 500 Mcycles}
"""
BLOCK = """\
calibrate:
  observed:
    power: {file: power.csv, signal: host.power, load: util}
    response: {file: tasks.csv, signal: task.response, time: created}
  fit: {until: 40 s}
  free:
    workloads.look.work: {bounds: [exponential 200 Mcycles, exponential 1200 Mcycles]}
    kinds.gateway.power.idle: {bounds: [1 W, 6 W]}
"""
LAWS = (("exponential {} Mcycles", "sharing"), ("log-normal {} Mcycles +- 60 %", "fcfs"),
        ("{} Mcycles +- 50 %", "sharing"))  # fmt: skip
ROBOTS = """\
apiVersion: cosim/v1
kind: Scenario
name: hall
run: {{duration: 240 s, step: 1 s, seed: 5}}
adapters:
  continuum: {{scheduler: nearest}}
nodes:
  robot-[1..3]: {{kind: device}}
  mast: {{kind: edge, cpu: 8 x 2 GHz}}
links:
  - {{between: [robot-*, mast], rate: 12 Mbit/s, delay: 8 ms}}
workloads:
  scan: {{from: robot-*, arrivals: poisson {rate:.3g} Hz, input: {input}, output: exponential 80 kB, work: 20 Mcycles}}
calibrate:
  observed:
    up: {{file: transfers.csv, column: up, signal: task.upload, time: created}}
    down: {{file: transfers.csv, column: down, signal: task.download, time: created}}
  fit: {{until: 160 s}}
  free:
    links.0.rate: {{bounds: [4 Mbit/s, 40 Mbit/s], scale: log}}
    links.0.delay: {{bounds: [1 ms, 50 ms], scale: log}}
"""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Good tables of a system by the names of their files, and its scenario; "" for tables of requests."""

    tables: Mapping[str, Rows]
    scenario: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """What becomes of tables and scenario, and what is to be said of it (a regular expression)."""

    changes: Mapping[str, Change]
    words: str
    code: int = 0
    edits: Edits = ()
    copies: Mapping[str, str] = field(default_factory=dict)  # file -> the one whose rows it has

    def put_into(self, good: Telemetry) -> Telemetry:
        text = good.scenario
        for old, new in self.edits:
            assert old in text
            text = text.replace(old, new)
        rows = {name: good.tables[self.copies.get(name, name)] for name in good.tables}
        return Telemetry({name: self.changes.get(name, same)(rows[name]) for name in rows}, text)


def calibrated(folder: Path, given: Telemetry, runs: int = FEW) -> tuple[int, str]:
    """Exit code, and everything that `cosim calibrate` says; with few runs only of the tables themselves."""
    for name, rows in given.tables.items():
        with (folder / name).open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows(rows)
    path, notes = folder / "scenario.cosim.yaml", list[str]()
    try:
        if given.scenario:
            path.write_text(given.scenario, encoding="utf-8")
        else:
            own = scenario_of(folder / "own", [folder / name for name in given.tables])
            path, notes = own.scenario, list(own.notes)
        loaded = load(path)
        (work,) = works(loaded, folder=folder / "out", workers=1)
        found, _ = carry_out(work, loaded, folder / "out", budget=Budget(runs))
    except CosimError as error:
        return error.exit_code, str(error)
    return 0, "\n".join([*notes, *found.warnings])


def recorded(folder: Path, scenario: str, truth: list[str], *queries: str) -> list[Rows]:
    """Rows of text of each query to a run of `scenario` with the true values."""
    file = folder / "made.cosim.yaml"
    file.write_text(scenario, encoding="utf-8")
    run = cosim.load(run_plan(compile_plan(load(file, truth)), folder / "runs").folder)
    found = [[[cell if isinstance(cell, str) else repr(cell) for cell in row] for row in run.sql(query).fetchall()]
             for query in queries]  # fmt: skip
    run.close()
    return found


def gateways(folder: Path, random: np.random.Generator | None = None) -> Telemetry:
    """Power of two gateways and the responses of their tasks; without `random` the same at any time."""
    scenario, block, work, idle, seed = SCENARIO, BLOCK, 700.0, 3.5, 5
    law = "exponential {} Mcycles"
    if random is not None:
        law, discipline = LAWS[int(random.integers(len(LAWS)))]
        work, idle, seed = random.uniform(500.0, 900.0), random.uniform(2.5, 4.5), int(random.integers(2**31))
        scenario = scenario.replace("scheduler: nearest", f"scheduler: nearest, discipline: {discipline}")
        for mean in (200, 500, 1200):
            written = f"exponential {mean} Mcycles"
            scenario, block = (text.replace(written, law.format(mean)) for text in (scenario, block))
    truth = [f"workloads.look.work={law.format(f'{work:g}')}", f"kinds.gateway.power.idle={idle:g} W"]
    power, tasks = recorded(
        folder, scenario, [*truth, f"run.seed={seed}"],
        "SELECT time, node::VARCHAR, power, utilisation FROM host WHERE node LIKE 'gate-%' ORDER BY time, node",
        "SELECT created, node::VARCHAR, ended - created, ended FROM task WHERE status = 'completed' ORDER BY created",
    )  # fmt: skip
    return Telemetry({
        "power.csv": [["time", "node", "power", "util"], *power],
        "tasks.csv": [["created", "node", "response", "ended"], *tasks],
    }, scenario + block)  # fmt: skip


def requests(folder: Path, random: np.random.Generator) -> Telemetry:
    """Requests to a service of one or two servers under three loads, of which the last is held back."""
    del folder
    servers, shared = int(random.integers(1, 3)), random.random() < 0.3
    mean, spread = math.exp(random.uniform(math.log(0.01), math.log(0.05))), random.uniform(0.2, 0.7)
    sigma, latency, found = math.sqrt(math.log1p(spread**2)), random.uniform(5e-4, 3e-3), dict[str, Rows]()
    for name, load_of in (("low", 0.3), ("mid", 0.5), ("high", 0.7)):
        came = np.cumsum(random.exponential(mean / (load_of * servers), 600))
        there, back = latency * random.lognormal(0.0, 0.2, (2, len(came)))
        order = np.argsort(came + there)
        works = mean * random.lognormal(-(sigma**2) / 2.0, sigma, len(came))
        at = (came + there)[order]
        ends = np.empty(len(came))
        ends[order] = sharing(at, works, servers) if shared else in_turn(at, works, servers)
        rows = [[f"{a:.6f}", f"{b:.6f}"] for a, b in zip(came.tolist(), (ends + back).tolist(), strict=True)]
        found[f"{name}.csv"] = [["created", "ended"], *rows]
    return Telemetry(found)


def robots(folder: Path, random: np.random.Generator) -> Telemetry:
    """Uploads and downloads of three robots over links of their own, all alike, to a mast."""
    rate, delay = random.uniform(8.0, 20.0), random.uniform(4.0, 20.0)
    law = "exponential {} kB" if random.random() < 0.5 else "log-normal {} kB +- 60 %"
    scenario = ROBOTS.format(input=law.format(300), rate=random.uniform(1.1, 1.9))
    truth = [f"links.0.rate={rate:g} Mbit/s", f"links.0.delay={delay:g} ms", f"run.seed={random.integers(2**31)}"]
    (rows,) = recorded(
        folder, scenario.partition("calibrate:")[0], truth,
        "SELECT created, node::VARCHAR, uploaded - created, ended - computed FROM task WHERE status = 'completed' "
        "ORDER BY created",
    )  # fmt: skip
    return Telemetry({"transfers.csv": [["created", "node", "up", "down"], *rows]}, scenario)


def column(
    name: str, change: Callable[[str], str], of: str = "", some: Callable[[int], bool] = lambda _: True
) -> Change:
    """Change the cells of a column, of one node or of some rows."""

    def changed(rows: Rows) -> Rows:
        at, node = rows[0].index(name), rows[0].index("node")
        return [
            rows[0],
            *(
                [*r[:at], change(r[at]), *r[at + 1 :]] if (not of or r[node] == of) and some(k) else r
                for k, r in enumerate(rows[1:])
            ),
        ]

    return changed


def times(factor: float) -> Callable[[str], str]:
    return lambda cell: repr(float(cell) * factor)


def plus(offset: float) -> Callable[[str], str]:
    return lambda cell: repr(float(cell) + offset)


def exchanged(rows: Rows) -> Rows:
    other = {"gate-1": "gate-2", "gate-2": "gate-1"}
    return [[r[0], other.get(r[1], r[1]), *r[2:]] for r in rows]


def renamed(old: str, new: str) -> Change:
    return lambda rows: [[new if cell == old else cell for cell in row] for row in rows]


def iso(cell: str) -> str:
    return datetime.fromtimestamp(1.9e9 + float(cell), UTC).isoformat()


def without(name: str) -> Change:
    def changed(rows: Rows) -> Rows:
        at = rows[0].index(name)
        return [[*row[:at], *row[at + 1 :]] for row in rows]

    return changed


def same(rows: Rows) -> Rows:
    return rows


def interpolated(rows: Rows) -> Rows:
    """Power as a meter that is read every five rows gives it, filled up by straight lines."""
    found = [rows[0]]
    for node in ("gate-1", "gate-2"):
        own = [row for row in rows[1:] if row[1] == node]
        at, power = (np.array([float(row[k]) for row in own]) for k in (0, 2))
        filled = np.interp(at, at[::5], power[::5])
        found += [[row[0], node, repr(value), row[3]] for row, value in zip(own, filled.tolist(), strict=True)]
    return found


def averaged(rows: Rows) -> Rows:
    """Values as an exporter gives them that averages over its last five."""
    found, last = [rows[0]], dict[str, list[float]]()
    for row in rows[1:]:
        own = last.setdefault(row[1], [])
        own.append(float(row[2]))
        found.append([row[0], row[1], repr(sum(own[-5:]) / len(own[-5:])), row[3]])
    return found


def written_again(rows: Rows) -> Rows:
    """Every eighth row once more, 0.2 s later."""
    more = [[repr(float(row[0]) + 0.2), *row[1:]] for row in rows[1::8]]
    return [rows[0], *sorted([*rows[1:], *more], key=lambda row: float(row[0]))]


def two_meters(rows: Rows) -> Rows:
    return [*rows, *([row[0], "meter", repr(float(row[2]) * 0.9), row[3]] for row in rows[1:] if row[1] == "gate-1")]


def copied(rows: Rows) -> Rows:
    first = {row[0]: row for row in rows[1:] if row[1] == "gate-1"}
    return [rows[0], *([row[0], row[1], *first[row[0]][2:]] for row in rows[1:])]


def again(rows: Rows) -> Rows:
    """Every eighth task once more, as a client writes it that asks again and waits longer."""
    more = [[row[0], row[1], repr(1.7 * float(row[2])), row[3]] for row in rows[::8]]
    return sorted([*rows, *more], key=lambda row: float(row[0]))


def with_status(rows: Rows) -> Rows:
    found = [[*rows[0], "status"]]
    for k, row in enumerate(rows[1:]):
        found.append([*row[:2], "0.004", row[3], "500"] if k % 6 == 0 else [*row, "200"])
    return found


def numbered(rows: Rows, left_out: int = 0, twice: int = 0) -> Rows:
    found = [["id", *rows[0]]]
    for k, row in enumerate(rows[1:]):
        if not left_out or k % left_out:
            found.append([str(k), *row])
        if twice and k % twice == 0:
            found.append([str(k), repr(float(row[0]) + 0.01), *row[1:]])
    return found


def sized(input_size: str) -> Change:
    return lambda rows: [[*rows[0], "input"], *([*row, input_size] for row in rows[1:])]


REPLAY = ("  fit:", "  replay: {file: tasks.csv, sizes: [input], time: created}\n  fit:")
PAIRED = ("signal: task.response", "signal: task.response, paired: true")
BY_NODE = (
    "kinds.gateway.power.idle: {bounds: [1 W, 6 W]}",
    "nodes.gate-*.power.max: {share: node, bounds: [9.1 W, 20 W], start: 15 W}",
)

_GATEWAYS: dict[str, tuple[Change, Change, Edits, int, str]] = {
    # name: change of power.csv, of tasks.csv, of the scenario, exit code, words
    "misnamed column": (renamed("power", "pwr"), same, (), 2, "there is no column 'power'"),
    "W said to be mW": (same, same, (("host.power", "host.power, unit: mW"),), 2, "a thousand times too small"),
    "mW said to be W": (column("power", times(1e3)), same, (), 2, "a thousand times too large"),
    "ms said to be s": (same, column("response", times(1e3)), (), 2, "a thousand times too large"),
    "unknown unit": (same, same, (("host.power", "host.power, unit: Watts"),), 2, "unknown unit 'Watts'"),
    "negative node": (column("power", lambda _: "-1", "gate-2"), same, (), 0, "power of gate-2: 61 of 61"),
    "constant node": (column("power", lambda _: "9.5", "gate-2"), same, (), 0, "power of gate-2: always 9.5"),
    "empty node": (column("power", lambda _: "", "gate-2"), same, (), 0, "power of gate-2: all values are missing"),
    "clock of a node": (column("time", plus(3600.0), "gate-2"), same, (), 0, "another clock"),
    "unknown node": (renamed("gate-2", "gatee-2"), same, (), 2, "'gatee-2', which is no node"),
    "exchanged nodes": (exchanged, same, (), 0, "the names of the two nodes exchanged?"),
    "five rows": (lambda rows: rows[:3], lambda rows: rows[:2], (), 2, "cannot determine 2 parameters"),
    "no times": (without("time"), same, (), 0, "the table has no times"),
    "unreadable times": (column("time", lambda cell: f"day {cell}"), same, (), 2, "holds no times"),
    "times in ms": (same, column("created", times(1e3)), (), 2, "lie outside of the run"),
    "one table since 1970": (column("time", iso), same, (), 2, "have times since 1970"),
    "pairs without a replay": (same, same, (PAIRED,), 2, "none is the same"),
    "by node without nodes": (without("node"), same, (BY_NODE, ("load: util", "nodes: gate-*")), 2, "name no node"),
    "stuck sensor": (column("power", lambda _: "4.2", "gate-1", lambda k: 30 < k < 80), same, (), 0, "stands still"),
    "outlier": (column("power", lambda _: "1e6", "", lambda k: k == 9), same, (), 0, "1 outlier"),
    "text": (column("power", lambda _: "err", "", lambda k: k == 9), same, (), 0, "1 cells are not numbers"),
    "gap": (lambda rows: [rows[0], *(r for r in rows[1:] if not 10 < float(r[0]) < 25)], same, (), 0, "gap in time"),
    "copied rows": (lambda rows: [*rows, *rows[1:40]], same, (), 0, "39 rows say"),
    "lost tasks": (same, lambda rows: [rows[0], *rows[1::3]], (), 0, "are missing"),
    "cut at a limit": (same, column("response", lambda cell: repr(min(float(cell), 0.6))), (), 0, "a time-out"),
    "negative times": (same, column("response", lambda cell: "-" + cell, "", lambda k: k % 9 < 1), (), 0, "impossible"),
    "an empty table": (lambda rows: rows[:1], same, (), 2, "nothing was measured"),
    "two columns of one name": (renamed("util", "power"), same, (), 2, "two columns are called 'power'"),
    "kW without a unit": (column("power", times(1e-3)), same, (), 2, "a thousand times too small"),
    "a node scaled": (column("power", times(1.5), "gate-2"), same, (), 0, "of 'power' of gate-2 (fit): measured"),
    "a node with an offset": (column("power", plus(2.0), "gate-1"), same, (), 0, "of gate-1 (fit)"),
    "missing written as 0": (column("power", lambda _: "0", "", lambda k: k % 9 < 1), same, (), 0, "a word for a"),
    "stuck for nine rows": (column("power", lambda _: "4.1", "gate-1", lambda k: 40 < k < 61), same, (), 0, "still"),
    "rounded": (column("power", lambda cell: repr(round(float(cell) * 2) / 2)), same, (), 0, "over their middle half"),
    "interpolated": (interpolated, same, (), 0, "interpolated between fewer"),
    "averaged power": (averaged, same, (), 0, "of gate-1 (fit)"),
    "averaged responses": (same, averaged, (), 0, "averaged over a window"),
    "a clock 1 % fast": (column("time", times(1.01), "gate-2"), same, (), 0, "time goes 1.00% faster"),
    "rows written again": (written_again, same, (), 0, "say what the row before says"),
    "tasks written again": (same, written_again, (), 0, "rows that were written again"),
    "a load of a hundredth": (column("util", times(0.01)), same, (), 0, "percent or a fraction"),
    "another load": (column("util", lambda cell: repr(1.0 - float(cell))), same, (), 0, "does not follow its load"),
    "rows in any order": (lambda rows: [rows[0], *rows[:0:-1]], same, (), 0, "time goes back"),
    "two meters of a node": (two_meters, same, (("util}", "util, names: {meter: gate-1}}"),), 0, "two meters"),
    "a node copied": (copied, same, (), 0, "one is a copy"),
    "whole seconds": (same, column("created", lambda cell: f"{float(cell):.0f}"), (), 0, "rounded times"),
    "tried again": (same, lambda rows: [rows[0], *again(rows[1:])], (), 0, "tried again, and counted twice"),
    "a block is missing": (same, lambda rows: [rows[0], *(r for r in rows[1:] if not 20 < float(r[0]) < 27)], (), 0,
                           "rows are missing"),
    "failures": (same, with_status, (), 0, "of tasks that failed"),
    "holes in numbers": (same, lambda rows: numbered(rows, left_out=9), (), 0, "numbers in 'id' are missing"),
    "a number twice": (same, lambda rows: numbered(rows, twice=9), (), 0, "have the 'id' of another row"),
    "sizes in kB": (same, sized("0.08"), (REPLAY,), 0, "the scenario says 8e+04"),
    "sizes in KiB": (same, sized("81920"), (REPLAY,), 0, "a unit by 1024 and one by 1000"),
    "sizes of 0": (same, sized("0"), (REPLAY,), 0, "are 0: a word for a missing value?"),
    "negative sizes": (same, sized("-1"), (REPLAY,), 2, "are negative or infinite"),
}  # fmt: skip


GATEWAYS = {
    name: Fault({"power.csv": of_power, "tasks.csv": of_tasks}, re.escape(words), code, edits)
    for name, (of_power, of_tasks, edits, code, words) in _GATEWAYS.items()
}


def asked(change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Change:
    """Change arrivals and responses (s) of a table of requests."""

    def changed(rows: Rows) -> Rows:
        came, ended = np.array(rows[1:], np.float64).T
        came, took = change(came, ended - came)
        return [rows[0], *([f"{a:.6f}", f"{a + b:.6f}"] for a, b in zip(came.tolist(), took.tolist(), strict=True))]

    return changed


def smoothed(values: np.ndarray, share: float = 0.2) -> np.ndarray:
    """An exponential moving average."""
    found, last = np.empty(len(values)), float(values[0])
    for k, value in enumerate(values.tolist()):
        last += share * (value - last)
        found[k] = last
    return found


def paused(came: np.ndarray, took: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As when nothing is answered in the last twentieth of each of ten parts."""
    part = np.ptp(came) / 10.0
    left = part - np.mod(came + took, part)
    return came, took + np.where(left < 0.05 * part, left, 0.0)


def halves(values: np.ndarray) -> np.ndarray:
    return np.concatenate([values[len(values) // 2 :], values[: len(values) // 2]])


def with_probes(rows: Rows) -> Rows:
    """A health check between every sixth and the next, which does nothing."""
    more = [[repr(float(row[0]) + 1e-4), repr(float(row[0]) + 3e-4)] for row in rows[1::6]]
    return [rows[0], *sorted([*rows[1:], *more], key=lambda row: float(row[0]))]


def again_later(rows: Rows) -> Rows:
    """Every eighth request once more, as a client writes it that asks again and waits longer."""
    more = [[row[0], repr(float(row[0]) + 1.7 * (float(row[1]) - float(row[0])))] for row in rows[1::8]]
    return [rows[0], *sorted([*rows[1:], *more], key=lambda row: float(row[0]))]


def failed(rows: Rows) -> Rows:
    found = [[*rows[0], "status"]]
    for k, row in enumerate(rows[1:]):
        found.append([row[0], repr(float(row[0]) + 5e-4), "500"] if k % 6 == 0 else [*row, "200"])
    return found


def _mid(change: Change, words: str, code: int = 0) -> Fault:
    return Fault({"mid.csv": change}, words, code)


OFF = r"recording 'mid' does not fit"
SPARSE = r"'mid [^\n]*(rows are missing|answers awaited)|" + OFF
REQUESTS = {
    "throttled": _mid(asked(lambda a, b: (a, 1.45 * b)), OFF),
    "an offset": _mid(asked(lambda a, b: (a, b + 0.5 * np.median(b))), OFF),
    "milliseconds": Fault({f"{name}.csv": lambda rows: [rows[0], *([f"{1e3 * float(a):.3f}", b] for a, b in rows[1:])]
                           for name in ("low", "mid", "high")}, r"unit|negative|before", 2),
    "a clock that steps": _mid(asked(lambda a, b: (a, b + np.where(a > np.median(a), 4.0 * np.median(b), 0.0))),
                               r"'mid [^\n]*(drift|clock|leave the beginning|two kinds|second mode)|" + OFF),
    "slow rows lost": _mid(lambda rows: [rows[0], *sorted(rows[1:], key=lambda r: float(r[1]) - float(r[0]))[:520]],
                           r"'mid [^\n]*(rows are missing|limit|time-out)|mid[^\n]*(missing|time-out)"),
    "averaged": _mid(asked(lambda a, b: (a, smoothed(b))), r"'mid [^\n]*averaged"),
    "rounded": _mid(asked(lambda a, b: (a, np.maximum(np.round(b / (q := np.median(b))), 1.0) * q)),
                    r"mid[^\n]*(rounded|no other values)"),
    "written at once": _mid(asked(lambda a, b: (a, np.ceil((a + b) / (q := 5.0 * np.median(b))) * q - a)),
                            r"mid[^\n]*(rounded|at once|flush|same time|buffer|between answers)"),
    "tried again": _mid(again_later, r"'mid [^\n]*tried again"),
    "rows twice": _mid(lambda rows: [*rows, *rows[1:100]], r"mid[^\n]*(rows say|rows are|duplicate)"),
    "probes": _mid(with_probes, r"'mid [^\n]*(two kinds|second mode|tried again)|mid[^\n]*two kinds"),
    "halves exchanged": _mid(asked(lambda a, b: (a, halves(b))), r"'mid [^\n]*which response belongs to which"),
    "pauses": _mid(asked(paused), r"'mid [^\n]*(pause|bursts|which response belongs|only some values have)"),
    "failures": _mid(failed, r"mid[^\n]*that failed"),
    "negative": _mid(asked(lambda a, b: (a, np.where(np.arange(len(b)) % 9 == 0, -b, b))), r"mid[^\n]*impossible"),
    "cut at a limit": _mid(asked(lambda a, b: (a, np.minimum(b, np.quantile(b, 0.8)))), r"mid[^\n]*time-out"),
    "every fourth row": _mid(lambda rows: [rows[0], *rows[1::4]], SPARSE),
    "a cold start": _mid(asked(lambda a, b: (a, b + np.where(np.arange(len(b)) < 30, 20.0 * np.median(b), 0.0))),
                         r"mid[^\n]*(leave the beginning out|two kinds|outliers)"),
    "a drift": _mid(asked(lambda a, b: (a, b * np.linspace(0.6, 1.6, len(b)))), r"'mid [^\n]*drifts"),
    "a block is missing": _mid(lambda rows: [rows[0], *rows[1:250], *rows[330:]], r"mid[^\n]*(rows are missing|gap)"),
    "shifted": _mid(asked(lambda a, b: (a, np.roll(b, 3))), r"'mid [^\n]*which response belongs to which"),
    "text": _mid(lambda rows: [*rows[:50], [rows[50][0], "err"], *rows[51:]], r"n(o|ot|ot a) (number|times)"),
    "a copy": Fault({}, r"one is a copy", 2, copies={"mid.csv": "low.csv"}),
    "half of the rows": _mid(lambda rows: [rows[0], *rows[1::2]], SPARSE),
}  # fmt: skip


def _transfers(change: Change, words: str, code: int = 0, edits: Edits = ()) -> Fault:
    return Fault({"transfers.csv": change}, words, code, edits)


def fading(rows: Rows) -> Rows:
    """Uploads of one robot take ever longer."""
    at = [k for k, row in enumerate(rows) if row[1] == "robot-3"]
    factor = dict(zip(at, np.linspace(0.6, 1.8, len(at)).tolist(), strict=True))
    return [[*row[:2], repr(float(row[2]) * factor[k]), row[3]] if k in factor else row for k, row in enumerate(rows)]


def one_like_another(rows: Rows) -> Rows:
    """robot-3 has the rows of robot-2."""
    kept = [row for row in rows[1:] if row[1] != "robot-3"]
    more = [[row[0], "robot-3", *row[2:]] for row in kept if row[1] == "robot-2"]
    return [rows[0], *sorted([*kept, *more], key=lambda row: float(row[0]))]


THIRD = r"of robot-3"
TRANSFERS = {
    "a slow link": _transfers(column("up", times(2.0), "robot-3"), rf"'up' {THIRD}"),
    "a late clock": _transfers(column("up", plus(0.1), "robot-3"), rf"'up' {THIRD}"),
    "ms said to be s": _transfers(column("up", times(1e3)), "a thousand times too large", 2),
    "s said to be ms": _transfers(same, "a thousand times too small", 2,
                                  (("signal: task.upload", "signal: task.upload, unit: ms"),)),
    "ms of one robot": _transfers(column("up", times(1e3), "robot-3"), rf"{THIRD}"),
    "stuck": _transfers(column("up", lambda _: "0.21", "robot-3", lambda k: 120 < k < 420),
                        rf"{THIRD}[^\n]*(stands still|stood still)"),
    "averaged": _transfers(averaged, r"'up'[^\n]*averaged"),
    "rounded": _transfers(column("up", lambda cell: f"{0.1 * round(10.0 * float(cell)):.1f}"), "rounded"),
    "missing written as 0": _transfers(column("up", lambda _: "0", "robot-3", lambda k: k % 3 < 1),
                                       rf"{THIRD}[^\n]*a word for a"),
    "rows lost": _transfers(lambda rows: [row for k, row in enumerate(rows) if row[1] != "robot-3" or k % 2],
                            rf"{THIRD}[^\n]*are missing"),
    "another clock": _transfers(column("created", plus(3600.0), "robot-3"), r"robot-3[^\n]*clock"),
    "negative": _transfers(column("up", lambda cell: "-" + cell, "", lambda k: k % 9 < 1), "impossible"),
    "negative robot": _transfers(column("down", lambda _: "-1", "robot-3"), rf"{THIRD}[^\n]*impossible"),
    "cut at a limit": _transfers(column("up", lambda cell: repr(min(float(cell), 0.3))), "time-out"),
    "an outlier": _transfers(column("down", lambda _: "1e4", "", lambda k: k == 9), "1 outlier"),
    "text": _transfers(column("up", lambda _: "lost", "", lambda k: k == 9), "1 cells are not numbers"),
    "a robot copied": _transfers(one_like_another, r"robot-[23][^\n]*one is a copy"),
    "rows twice": _transfers(lambda rows: [*rows, *rows[1:80]], "79 rows say"),
    "a block is missing": _transfers(
        lambda rows: [rows[0], *(r for r in rows[1:] if not 60 < float(r[0]) < 80)], r"rows are missing|gap"),
    "unknown robot": _transfers(renamed("robot-3", "robbot-3"), "'robbot-3', which is no node", 2),
    "empty robot": _transfers(column("up", lambda _: "", "robot-3"), rf"{THIRD}: all values are missing"),
    "whole seconds": _transfers(column("created", lambda cell: f"{float(cell):.0f}"), "rounded times"),
    "a fading link": _transfers(fading, rf"{THIRD}[^\n]*drifts"),
    "tried again": _transfers(lambda rows: [rows[0], *again(rows[1:])], "tried again"),
    "times in ms": _transfers(column("created", times(1e3)), "lie outside of the run", 2),
    "misnamed column": _transfers(renamed("up", "uplink"), "there is no column 'up'", 2),
    "down for up": _transfers(lambda rows: [rows[0], *([r[0], r[1], r[3], r[2]] for r in rows[1:])],
                              r"another unit or scale|another unit, scale"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of system: how its good telemetry is made, and the faults that are put into it."""

    made: Callable[[Path, np.random.Generator], Telemetry]
    faults: Mapping[str, Fault]


KINDS = {
    "gateways": Kind(gateways, GATEWAYS), "requests": Kind(requests, REQUESTS), "transfers": Kind(robots, TRANSFERS),
}  # fmt: skip
USUAL = re.compile("do not show that the values are better|hardly narrower than its bounds")  # no words on the data


def tried(kind: str, number: int, seed: int) -> dict[str, object]:
    """One set, without a fault and with the one of its number."""
    names = list(KINDS[kind].faults)
    name = names[int(np.random.default_rng([seed, len(kind)]).permutation(len(names))[number % len(names)])]
    fault = KINDS[kind].faults[name]
    said, codes = list[str](), list[int]()
    with tempfile.TemporaryDirectory() as base:
        (Path(base) / "made").mkdir()
        good = KINDS[kind].made(Path(base) / "made", np.random.default_rng([seed, len(kind), number]))
        bad = fault.put_into(good)
        for part, given in (("sound", good), ("faulty", bad)):
            folder = Path(base) / part
            folder.mkdir()
            code, text = calibrated(folder, given, RUNS)
            lines = text.replace(str(folder), ".").splitlines()
            codes.append(code)
            said.append("\n".join(line for line in lines if line and not USUAL.search(line)))
    fresh = set(said[1].splitlines()) - set(said[0].splitlines())
    return {
        "kind": kind, "number": number, "fault": name, "silent": not fresh,
        "named": re.search(fault.words, said[1]) is not None and codes[1] == fault.code,
        "false": bool(said[0]) or codes[0] != 0, "said": said[1], "said of the sound set": said[0], "exit": codes[1],
    }  # fmt: skip


def run(
    data: Path | None, held_back: Path | None, quick: bool, seed: int = SEED, workers: int = 1
) -> dict[str, object]:
    """How many faults were silent and how many were named, by kind of system; how many sound sets had a word."""
    del data, held_back
    each, begun = 1 if quick else EACH, process_time()
    cases = [(kind, number) for number in range(each) for kind in KINDS]
    rows = mapped(tried, *zip(*cases, strict=True), [seed] * len(cases), workers=workers)
    table = [{"kind": kind, "faults": each, **{
        column: sum(bool(row[column]) for row in rows if row["kind"] == kind) for column in ("silent", "named", "false")
    }} for kind in KINDS]  # fmt: skip
    lines = [{"kind": row["kind"], "fault": row["fault"], "words": str(row["said"])[:600].replace("\n", " // ")}
             for row in rows if not row["named"] or row["silent"]]  # fmt: skip
    false = [{"set": f"{row['kind']} {row['number']}", "words": str(row["said of the sound set"])[:600]}
             for row in rows if row["false"]]  # fmt: skip
    return {"kinds": table, "not named": lines, "false words": false, "seed": seed, "CPU s": process_time() - begun}
