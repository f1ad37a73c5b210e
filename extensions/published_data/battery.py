"""Flight logs of a small quadcopter, as discharges of the project's battery model.

The logs hold positions and the voltage of one lithium-polymer cell, no current. Voltage alone determines
power and resistance only relative to the capacity, so the capacity is taken from the data sheet. Flights
alternate: every other one is fitted, and those between are judged, without the first seconds, which are
an input.

Settings: `capacity` (mAh, 240), `seen`, s at the start of each flight that the model may use (10; 0: the
voltage at rest alone), `held_back`, a folder with flights to be judged; then all others are fitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError
from cosim.contract.records import Floats
from cosim.extensions.published_data.models import discharge
from cosim.extensions.published_data.models.discharge import PER_SECOND, DischargeFlights
from cosim.sources.tables.published import column, find, numbers, table
from cosim.twin.jobs import held_back, setting
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal

SETTINGS = ("capacity", "seen", "held_back")

CAPACITY = 240.0  # mAh, data sheet of the Crazyflie 2.0's cell
ENDURANCE = 420.0  # s of hover by the same data sheet
NOMINAL = 3.7  # V
SEEN = 10.0  # s
SHORTEST = 20  # s of a flight that is used


@dataclass(frozen=True, slots=True, eq=False)
class BatteryFlight:
    """One log at 10 Hz."""

    name: str
    voltage: Floats  # (steps,) V


def read(data: Path) -> tuple[list[BatteryFlight], list[str]]:
    """The flights of the logs below `data`, and what was left out and why. Raises `ScenarioError`."""
    flights: list[BatteryFlight] = []
    warnings: list[str] = []
    for path in find(data, "flights_10hz.csv*"):
        found = table(path)
        number = np.array(column(found, "flight", path))
        voltage, time = numbers(found, "battery_voltage", path), numbers(found, "t_s", path)
        for name in dict.fromkeys(number.tolist()):
            here = number == name
            flight, steps = BatteryFlight(str(name), voltage[here]), np.diff(time[here]) * PER_SECOND
            same = [f.name for f in flights if np.array_equal(f.voltage, flight.voltage)]
            if same:
                warnings.append(f"flight {name} is the same log as flight {same[0]} and was left out")
            elif not np.isfinite(flight.voltage).all():
                warnings.append(f"flight {name} has missing values and was left out")
            elif flight.voltage.min() < 2.0 or flight.voltage.max() > 4.5:
                warnings.append(f"flight {name} has voltages that no lithium cell has and was left out")
            elif not (np.abs(steps - 1.0) < 0.5).all():
                warnings.append(f"flight {name} has rows that are not 1/{PER_SECOND} s apart and was left out")
            elif len(flight.voltage) < SHORTEST * PER_SECOND:
                warnings.append(f"flight {name} is shorter than {SHORTEST} s and was left out")
            else:
                flights.append(flight)
    if len(flights) < 2:
        raise ScenarioError(Mistake("there are fewer than two flights that can be used", file=data))
    return flights, warnings


def problem(
    fit: list[BatteryFlight], judged: list[BatteryFlight], *, capacity: float = CAPACITY, seen: float = SEEN
) -> CalibrationProblem:
    """The calibration of the battery to the voltages of `fit`, judged on `judged`."""
    power = NOMINAL * CAPACITY * 3.6 / ENDURANCE
    return CalibrationProblem(
        "battery",
        discharge.space(power, sags=seen > 0.0),
        fit=_case(fit, capacity, seen),
        held_back=_case(judged, capacity, seen) if judged else None,
        deterministic=True,
        cost=2.5e-8 * sum(len(flight.voltage) for flight in fit),
        assumptions=(
            f"capacity {capacity:g} mAh by the data sheet: without a current, voltage gives power per capacity only",
            "the charge at the start is where the open-circuit curve has the voltage at rest",
            f"a flight's resistance is set by its own sag in its first {seen:g} s; later voltages are predicted"
            if seen
            else "all flights have one resistance",
            "power is that of hover, or of motors at full duty; manoeuvres, wind and payload are not modelled",
            "motors run from the first sag of 0.1 V on",
        ),
        sources=(f"{len(fit)} flights fitted, {len(judged)} judged",),
    )


def problems(data: Path, settings: Mapping[str, object]) -> list[CalibrationProblem]:
    """The one problem of the flights below `data`, which take turns in fit and judgement."""
    flights, warnings = read(data)
    later = held_back(settings)
    fit, judged = (flights[::2], flights[1::2]) if later is None else (flights, read(later)[0])
    made = problem(
        fit, judged,
        capacity=setting(settings, "capacity", CAPACITY), seen=setting(settings, "seen", SEEN),
    )  # fmt: skip
    return [replace(made, warnings=tuple(warnings))]


def _case(flights: list[BatteryFlight], capacity: float, seen: float) -> Case:
    """Voltages by the second, those after `seen` s of flight; NaN stands for the model's input."""
    known = [_prepared(flight, seen) for flight in flights]
    first = np.concatenate([[0], np.cumsum([len(load) for load, *_ in known])])
    packed = DischargeFlights(
        first.astype(np.int64),
        np.concatenate([load for load, *_ in known]),
        np.array([rest for _, rest, *_ in known]),
        np.array([sag for _, _, sag, _ in known]),
    )
    measured = np.concatenate([voltage for *_, voltage in known])
    ends = first[1:] // PER_SECOND

    def simulate(values: Floats, _seed: int) -> Mapping[str, Floats]:
        voltage = discharge.simulate(values, packed, capacity=capacity * 3.6, seen=0.75 * seen)
        return {"voltage": voltage, "end": np.stack([voltage[:, e - 5 : e].mean(axis=1) for e in ends], axis=1)}

    names = tuple(flight.name for flight, (load, *_) in zip(flights, known, strict=True) for _ in load[::PER_SECOND])
    observed = {
        "voltage": MeasuredSignal(measured, "V", paired=True, groups=names),
        "end": MeasuredSignal(
            np.array([measured[e - 5 : e].mean() for e in ends]), "V", paired=True, weight=0.0,
            groups=tuple(flight.name for flight in flights),
        ),
    }  # fmt: skip
    return Case(observed, simulate, "flights " + ", ".join(flight.name for flight in flights))


def _prepared(flight: BatteryFlight, seen: float) -> tuple[Floats, float, float, Floats]:
    """Load, voltage at rest, sag and the measured voltage by the second."""
    steps = len(flight.voltage) // PER_SECOND * PER_SECOND
    voltage = flight.voltage[:steps]
    rest = float(voltage[:3].mean())
    start = int(np.argmax(voltage < rest - 0.1)) if (voltage < rest - 0.1).any() else 0
    load = (np.arange(steps) >= start).astype(np.float64)
    at = slice(start + int(0.5 * seen * PER_SECOND), start + int(seen * PER_SECOND))
    sag = rest - float(voltage[at].mean()) if seen > 0.0 else float("nan")
    by_second = voltage.reshape(-1, PER_SECOND).mean(axis=1)
    by_second[: int(np.ceil(start / PER_SECOND + seen)) + 1] = np.nan
    return load, rest, sag, by_second
