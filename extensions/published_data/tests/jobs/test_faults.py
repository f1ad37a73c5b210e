"""Faults put into the published data: every job tells them or refuses them, and none is fitted in silence."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.extensions.published_data.tests.jobs.data import DATA, needs
from cosim.sources.tables.published import find, matrix, table
from cosim.twin.jobs import load
from cosim.twin.telemetry.hygiene import vetted

Matrices = dict[str, np.ndarray]
Columns = dict[str, list[str]]


def needing(folder: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a test that reads the data below `folder`."""

    def marked(test: Callable[..., None]) -> Callable[..., None]:
        for mark in needs(folder):
            test = mark(test)
        return test

    return marked


needs_power, needs_flights = needing("edge_power"), needing("uav")
QUANTITIES = ("cpu", "energytotalinterval", "avgresponsetime")


def outcome(job: str, folder: Path, settings: dict[str, object], words: str) -> None:
    """The first problem of the job is refused, or has a warning, with `words` in it."""
    try:
        reported = vetted(load(job)(folder, settings)[0]).warnings
    except ScenarioError as refused:
        reported = (str(refused),)
    assert any(words in line for line in reported), reported


def write_csv(path: Path, columns: Columns) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def put(quantity: str, rows: object, value: float) -> Callable[[Matrices], None]:
    def change(log: Matrices) -> None:
        log[quantity][rows] = value

    return change


def keep(quantities: tuple[str, ...], rows: slice) -> Callable[[Matrices], None]:
    def change(log: Matrices) -> None:
        for name in quantities:
            log[name] = log[name][rows]

    return change


def late(log: Matrices) -> None:
    log["cpu"] = np.roll(log["cpu"], 7, axis=0)


EVERY = slice(None)


@needs_power
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("cpu", (EVERY, 3), 50.0), "CPU of host 4: always 50 %"),
        (put("cpu", (EVERY, 3), np.nan), "CPU have negative or missing values"),
        (put("cpu", (EVERY, 3), -5.0), "CPU have negative or missing values"),
        (put("cpu", (slice(10, 15), 3), 900.0), "the first (900) is above 100 %"),
        (late, "energy: follows CPU 7 rows before"),
        (put("energytotalinterval", EVERY, 6100.0), "energy: always 6100 J"),
        (put("energytotalinterval", (5, 0), 6e5), "energy: 1 outlier"),
        (put("energytotalinterval", (slice(10, 40), 0), 6100.0), "energy: stands still at 6100"),
        (put("avgresponsetime", (5, 0), 6e3), "response: 1 outlier"),
        (put("avgresponsetime", EVERY, 2.0), "response: always 2 intervals"),
        (put("avgresponsetime", (5, 0), np.inf), "response have negative or missing values"),
        (keep(QUANTITIES, slice(0, 60)), "the log has 60 rows"),
        (keep(QUANTITIES, slice(0, 20)), "only 10 values"),
        (keep(QUANTITIES, slice(0, 2)), "2 measured values cannot determine"),
        (keep(("cpu",), slice(5, None)), "do not belong together"),
    ],
)
def test_a_fault_in_the_testbed_log(tmp_path, change, words):
    pytest.importorskip("scipy")
    log = {name: matrix(find(DATA, f"real_{name}_intervals_*.csv*")[0])[:100] for name in QUANTITIES}
    change(log)
    for name, values in log.items():
        np.savetxt(tmp_path / f"real_{name}_intervals_000_099.csv", values, delimiter=",")
    outcome("simtune", tmp_path, {}, words)


def cell(name: str, rows: slice, value: str) -> Callable[[Columns], None]:
    def change(columns: Columns) -> None:
        for row in range(*rows.indices(len(columns[name]))):
            columns[name][row] = value

    return change


def without(name: str) -> Callable[[Columns], None]:
    def change(columns: Columns) -> None:
        del columns[name]

    return change


def only(rows: int) -> Callable[[Columns], None]:
    def change(columns: Columns) -> None:
        for name in columns:
            columns[name] = columns[name][:rows]

    return change


def shifted(columns: Columns) -> None:
    columns["platform_power"] = columns["platform_power"][-9:] + columns["platform_power"][:-9]


def flat(columns: Columns) -> None:
    for name in columns:
        if name == "ActiveIdle" or name.endswith("_AvgPower"):
            columns[name][0] = "100"


FIRST = slice(0, 1)


@needs_power
@pytest.mark.parametrize(
    ("pattern", "change", "words"),
    [
        ("spec_even_years.csv*", without("40_AvgPower"), "has no column '40_AvgPower'"),
        ("spec_even_years.csv*", cell("40_AvgPower", FIRST, "-"), "missing or not above 0 W"),
        ("spec_even_years.csv*", cell("40_AvgPower", FIRST, "-5"), "missing or not above 0 W"),
        ("spec_even_years.csv*", cell("40_AvgPower", FIRST, "99999"), "power: 1 outlier"),
        ("spec_even_years.csv*", flat, "power: always 100 W"),
        ("spec_even_years.csv*", only(6), "a fleet of 6 machines says too little"),
        ("*counteronly*.csv*", without("cpu_cycles"), "has no column 'cpu_cycles'"),
        ("*counteronly*.csv*", cell("platform_power", FIRST, ""), "missing or negative"),
        ("*counteronly*.csv*", cell("platform_power", EVERY, "200"), "power: always 200 W"),
        ("*counteronly*.csv*", cell("platform_power", slice(10, 60), "200"), "power: stands still at 200"),
        ("*counteronly*.csv*", cell("platform_power", FIRST, "99999"), "power: 1 outlier"),
        ("*counteronly*.csv*", cell("cpu_cycles", EVERY, "1000"), "cpu_cycles: always"),
        ("*counteronly*.csv*", cell("cpu_cycles", FIRST, "-1000"), "cpu_cycles: 1 of"),
        ("*counteronly*.csv*", cell("cpu_cycles", FIRST, "1e18"), "cpu_cycles: 1 outlier"),
        ("*counteronly*.csv*", shifted, "power: follows cpu_cycles 9 rows after"),
        ("*counteronly*.csv*", only(5), "5 measured values cannot determine"),
        ("*counteronly*.csv*", only(40), "nothing could be held back"),
    ],
)
def test_a_fault_in_measured_power(tmp_path, pattern, change, words):
    path = find(DATA / "edge_power", pattern)[0]
    columns = table(path)
    change(columns)
    write_csv(tmp_path / path.name.removesuffix(".gz"), columns)
    outcome("power", tmp_path, {"set": "counters"} if "counter" in pattern else {}, words)


@needs_power
def test_sound_data_are_taken_as_they_are():
    pytest.importorskip("scipy")
    assert vetted(load("power")(DATA, {"set": "counters"})[0]).warnings == ()
    reported = vetted(load("simtune")(DATA, {})[0]).warnings
    assert all("rows" in warning for warning in reported)  # at most that the log is shorter than the published one


def flight(number: str, change: Callable[[list[float]], list[float]]) -> Callable[[Columns], None]:
    """The voltages of one flight changed."""

    def put_in(columns: Columns) -> None:
        rows = [k for k, name in enumerate(columns["flight"]) if name == number]
        changed = change([float(columns["battery_voltage"][k]) for k in rows])
        for row, value in zip(rows, changed, strict=True):
            columns["battery_voltage"][row] = "" if np.isnan(value) else repr(value)

    return put_in


def halfway(value: float | None) -> Callable[[list[float]], list[float]]:
    """From the middle on `value`, or the value that the middle has."""

    def change(volts: list[float]) -> list[float]:
        middle = len(volts) // 2
        return volts[:middle] + [volts[middle] if value is None else value] * (len(volts) - middle)

    return change


@needs_flights
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("battery_voltage"), "has no column 'battery_voltage'"),
        (only(300), "fewer than two flights"),
        (flight("4", halfway(float("nan"))), "flight 4 has missing values and was left out"),
        (flight("4", halfway(-3.0)), "voltages that no lithium cell has"),
        (flight("4", halfway(9.9)), "voltages that no lithium cell has"),
        (flight("4", halfway(None)), "voltage of 4: stands still"),
        (flight("4", lambda volts: [3.8] * len(volts)), "voltage of 4: always 3.8 V"),
        (flight("4", lambda volts: [*volts[:400], *[2.1] * 10, *volts[410:]]), "outlier"),
    ],
)
def test_a_fault_in_a_flight_log(tmp_path, change, words):
    columns = table(find(DATA / "uav", "flights_10hz.csv*")[0])
    change(columns)
    write_csv(tmp_path / "flights_10hz.csv", columns)
    outcome("battery", tmp_path, {}, words)
