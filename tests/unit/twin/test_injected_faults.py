"""Faults put into good telemetry, one at a time, through `cosim calibrate` itself: none of them is silent."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import cosim
from cosim.cli.main import app
from cosim.results.session import run_plan
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from cosim.twin.scenario.study import study

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
TRUTH = ["workloads.look.work=exponential 700 Mcycles", "kinds.gateway.power.idle=3.5 W"]
Rows = list[list[str]]
Change = Callable[[Rows], Rows]


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> tuple[Rows, Rows]:
    """Power of two gateways and the responses of their tasks; header, then rows of text."""
    folder = tmp_path_factory.mktemp("faults")
    file = folder / "scenario.cosim.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    run = cosim.load(run_plan(compile_plan(load(file, TRUTH)), folder / "runs").folder)
    power = run.sql(
        "SELECT time, node::VARCHAR, power, utilisation FROM host WHERE node LIKE 'gate-%' ORDER BY time, node"
    ).fetchall()
    tasks = run.sql(
        "SELECT created, node::VARCHAR, ended - created, ended FROM task WHERE status = 'completed' ORDER BY created"
    ).fetchall()
    run.close()
    return (
        [["time", "node", "power", "util"], *([repr(t), n, repr(p), repr(u)] for t, n, p, u in power)],
        [["created", "node", "response", "ended"], *([repr(t), n, repr(r), repr(e)] for t, n, r, e in tasks)],
    )


def calibrated(folder: Path, power: Rows, tasks: Rows, *changes: tuple[str, str], runs: int = 40) -> tuple[int, str]:
    """Exit code, and everything that `cosim calibrate` says; with 40 runs only of the tables themselves."""
    text = SCENARIO + BLOCK
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "scenario.cosim.yaml").write_text(text, encoding="utf-8")
    for name, rows in (("power.csv", power), ("tasks.csv", tasks)):
        with (folder / name).open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows(rows)
    arguments = ["calibrate", str(folder), "--runs", str(runs), "--no-report", "--json", "--workers", "1"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(folder / "out")])
    if result.exit_code == 0:
        (found,) = json.loads(result.stdout)["calibrations"]
        return 0, "\n".join(found["warnings"])
    return result.exit_code, result.output


def column(
    name: str, change: Callable[[str], str], of: str = "", some: Callable[[int], bool] = lambda k: True
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

FAULTS: dict[str, tuple[Change, Change, tuple[tuple[str, str], ...], int, str]] = {
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


# What only shows under the fitted model.
JUDGED = (
    "exchanged nodes", "lost tasks", "a node scaled", "a node with an offset", "missing written as 0", "rounded",
    "interpolated", "averaged power", "averaged responses", "tasks written again", "a load of a hundredth",
    "whole seconds", "tried again", "a block is missing",
)  # fmt: skip
# Quicker tests look for these (scenario_faults, faulty_data, tables_of_tasks), or another of the table does as well.
SLOW = (
    "negative node", "constant node", "empty node", "stuck sensor", "outlier", "gap", "negative times",
    *(name for name in JUDGED if name != "exchanged nodes"),
)  # fmt: skip


@pytest.mark.parametrize(
    "fault", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in FAULTS]
)
def test_no_fault_is_silent(telemetry, tmp_path, fault):
    of_power, of_tasks, changes, code, words = FAULTS[fault]
    power, tasks = telemetry
    runs = 800 if fault in JUDGED else 40
    exit_code, said = calibrated(tmp_path, of_power(power), of_tasks(tasks), *changes, runs=runs)
    assert words in said, said
    assert exit_code == code, said


def test_good_telemetry_has_no_complaint(telemetry, tmp_path):
    assert calibrated(tmp_path, *telemetry, runs=800) == (0, "")


def test_a_load_in_percent_is_taken_for_one(telemetry, tmp_path):
    power, tasks = telemetry
    _, said = calibrated(tmp_path, column("util", times(100.0))(power), tasks)
    assert "its load" not in said
    (found,) = study(tmp_path, folder=tmp_path / "work", workers=1).problem.assumptions[2:]
    assert found == "power: its load goes up to 100 and is a percentage"


def test_a_node_that_is_left_out_leaves_the_simulation_too(telemetry, tmp_path):
    power, tasks = telemetry
    calibrated(tmp_path, column("power", lambda _: "-1", "gate-2")(power), tasks)
    problem = study(tmp_path, folder=tmp_path / "work", workers=1).problem
    assert set(problem.fit.observed["power"].groups or ()) == {"gate-1"}
    truth = np.array([[700.0, 3.5]])
    simulated = problem.fit.simulate(truth, 1)["power"]
    assert simulated.max() < 7.0  # of gate-1 alone; gate-2 takes 9 W when idle
