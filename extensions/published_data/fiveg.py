"""Drive tests of a 5G network and flights over an LTE network, as radio models of a few parameters.

`throughput`: downloads of a phone, fitted on some days and judged on others. The operator's load is
unknown, so a second's throughput scatters by more than a factor of two whatever the radio is like. Roots
are compared, which scatter alike at all rates; the square of a predicted root is near the median.
`level`: RSRP of cells seen by a drone, fitted at some altitudes and judged at others.

Settings: `set`, `throughput` (default) or `level`; `day`, the day that is judged (default: the last day
of the data), `held_back`, a folder with drives to be judged; then all others are fitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import Problem as Mistake
from cosim.contract.errors import ScenarioError
from cosim.contract.records import Flags, Floats
from cosim.extensions.published_data.models import cellular
from cosim.extensions.published_data.models.cellular import LTE, NR, SLOW, DownloadSamples, Receptions
from cosim.sources.tables.published import column, find, numbers, table
from cosim.twin.jobs import held_back
from cosim.twin.problem import CalibrationProblem, Case, MeasuredSignal

SETTINGS = ("set", "day", "held_back")

MODES = {"5G": NR, "LTE": LTE}  # all others are slow
FLIGHTS = "filtered_even_altitudes.csv*"
RATES = 20e6  # kbit/s, the peak of IMT-2020 (ITU-R M.2410)
KNOWN = {  # what can be measured
    "RSRP": (-160.0, -30.0),  # dBm, what is reported in 3GPP TS 38.133
    "NRxRSRP": (-160.0, -30.0), "Speed": (0.0, 1200.0), "Longitude": (-180.0, 180.0), "Latitude": (-90.0, 90.0),
    "2D_Distance": (0.0, 1e5), "altitude_m": (-500.0, 1e4),
}  # fmt: skip
STRIDE = 10  # s between the seconds that are fitted: neighbours are nearly redundant
_DAY = re.compile(r"\d{4}\.\d{2}\.\d{2}")


@dataclass(frozen=True, slots=True, eq=False)
class Drives:
    """Seconds of downloads; row by row."""

    day: NDArray[np.str_]  # (rows,) YYYY.MM.DD
    cell: NDArray[np.str_]
    samples: DownloadSamples
    others: Floats  # (rows, 5) RSRQ dB, CQI, RSSI dBm, neighbour's RSRP dBm and RSRQ dB; NaN where none
    position: Floats  # (rows, 2) degrees east, north
    throughput: Floats  # (rows,) Mbit/s, downlink
    source: str = ""

    def __len__(self) -> int:
        return len(self.throughput)

    def where(self, kept: Flags) -> Drives:
        """The rows that are kept."""
        s = self.samples
        return Drives(
            self.day[kept], self.cell[kept], DownloadSamples(s.mode[kept], s.snr[kept], s.rsrp[kept], s.speed[kept]),
            self.others[kept], self.position[kept], self.throughput[kept], self.source,
        )  # fmt: skip


def read_drives(data: Path) -> Drives:
    """The downloads below `data`: tables of this project's collection, or the publisher's files.

    Streams of video have pauses that the network is not to blame for, so downloads alone are read.
    Raises `ScenarioError`.
    """
    paths = find(data, "download_*.csv*", "Download/**/B_*.csv*", "*ownload*/**/B_*.csv*")
    parts: list[Drives] = []
    for path in paths:
        found = table(path)
        rates = numbers(found, "DL_bitrate", path, high=RATES)
        files = found.get("source_file", [path.name] * len(rates))
        days = [_DAY.search(file) for file in files]
        if None in days:
            raise ScenarioError(Mistake("names no day as YYYY.MM.DD", file=path, line=days.index(None) + 2))
        values = {name: numbers(found, name, path, *KNOWN.get(name, ())) for name in (
            "SNR", "RSRP", "Speed", "RSRQ", "CQI", "RSSI", "NRxRSRP", "NRxRSRQ", "Longitude", "Latitude",
        )}  # fmt: skip
        mode = np.array([MODES.get(name, SLOW) for name in column(found, "NetworkMode", path)], np.int64)
        drive = Drives(
            np.array([day.group() for day in days if day is not None]),
            np.array(column(found, "RAWCELLID" if "RAWCELLID" in found else "CellID", path)),
            DownloadSamples(mode, values["SNR"], values["RSRP"], values["Speed"]),
            np.stack([values[name] for name in ("RSRQ", "CQI", "RSSI", "NRxRSRP", "NRxRSRQ")], axis=1),
            np.stack([values["Longitude"], values["Latitude"]], axis=1),
            rates / 1e3,
            path.name,
        )
        whole = np.isfinite(drive.throughput) & np.isfinite(values["RSRP"]) & np.isfinite(values["Speed"])
        parts.append(drive.where(whole & (drive.throughput >= 0.0)))
    return _joined(parts)


def throughput(fit: Drives, judged: Drives | None) -> CalibrationProblem:
    """The rate model fitted to the seconds of `fit`, judged on those of `judged`.

    On top of the parameters each cell of `fit` has a factor, which follows from them (`cellular.CellShares`).
    """
    kept = fit.where(np.arange(len(fit)) % STRIDE == 0)
    shares = cellular.CellShares(kept.cell, kept.day, np.sqrt(kept.throughput), STRIDE)

    def case(drives: Drives) -> Case:
        of = shares.index(drives.cell)

        def simulate(values: Floats, _seed: int) -> Mapping[str, Floats]:
            factors = shares.factors(np.sqrt(cellular.throughput(values, kept.samples)))
            return {"throughput.root": factors[:, of] * np.sqrt(cellular.throughput(values, drives.samples))}

        observed = {
            "throughput.root": MeasuredSignal(
                np.sqrt(drives.throughput), "sqrt(Mbit/s)", True, groups=tuple(drives.day)
            )
        }
        return Case(observed, simulate, "days " + ", ".join(sorted(set(drives.day.tolist()))))

    return CalibrationProblem(
        "5g throughput",
        cellular.throughput_space(),
        fit=case(kept),
        held_back=case(judged) if judged is not None and len(judged) else None,
        deterministic=True,
        cost=2e-7 * len(fit) / STRIDE,
        assumptions=(
            "every second of a download asks for all that the network gives",
            "load and scheduling are the same on all days: shares of bandwidth and the cells' factors are constants",
            "the SNR is that of the LTE anchor; the 5G carrier's is not recorded and follows it",
            "older networks give one rate whatever their level is",
        ),
        sources=(
            f"{fit.source}: every {STRIDE}th of {len(fit)} s fitted, {0 if judged is None else len(judged)} s judged",
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class AirLevels:
    """Levels measured from the air; row by row."""

    seen: Receptions
    level: Floats  # (rows,) dBm
    names: tuple[str, ...]  # of the cells
    source: str = ""

    def where(self, kept: Flags) -> AirLevels:
        """The rows that are kept."""
        s = self.seen
        return AirLevels(
            Receptions(s.cell[kept], s.distance[kept], s.height[kept]), self.level[kept], self.names, self.source
        )


def read_flights(data: Path) -> AirLevels:
    """The drone's measurements below `data`, with the publisher's distances on the ground. Raises `ScenarioError`."""
    path = find(data, FLIGHTS)[0]
    found = table(path)
    distance, height, level = (
        numbers(found, name, path, *KNOWN.get(name, ())) for name in ("2D_Distance", "altitude_m", "RSRP")
    )
    name = np.array(column(found, "Cell_id", path))
    whole = np.isfinite(distance) & np.isfinite(height) & np.isfinite(level)
    names = sorted(set(name[whole].tolist()))
    cell = np.array([names.index(one) for one in name[whole]], np.int64)
    return AirLevels(Receptions(cell, distance[whole], height[whole]), level[whole], tuple(names), path.name)


def alternate(flights: AirLevels) -> tuple[AirLevels, AirLevels]:
    """Every other altitude for the fit, those between for the judgement."""
    heights = np.unique(flights.seen.height)
    first = np.isin(flights.seen.height, heights[::2])
    return flights.where(first), flights.where(~first)


def level(fit: AirLevels, judged: AirLevels) -> CalibrationProblem:
    """Path loss, height and antenna fitted to the levels of `fit`, judged on those of `judged`."""

    def case(flights: AirLevels) -> Case:
        def simulate(values: Floats, _seed: int) -> Mapping[str, Floats]:
            return {"rsrp": cellular.level(values, flights.seen)}

        heights = ", ".join(f"{height:g}" for height in np.unique(flights.seen.height))
        groups = tuple(flights.names[k] for k in flights.seen.cell)
        return Case(
            {"rsrp": MeasuredSignal(flights.level, "dBm", True, groups=groups)}, simulate, f"altitudes {heights} m"
        )

    return CalibrationProblem(
        "level from the air",
        cellular.level_space(len(fit.names)),
        fit=case(fit),
        held_back=case(judged),
        deterministic=True,
        cost=2e-7 * len(fit.level),
        assumptions=(
            f"antennas are {cellular.MAST:g} m above ground; azimuth patterns are not modelled",
            "distances on the ground are the publisher's",
        ),
        sources=(f"{fit.source}: {len(fit.level)} rows fitted, {len(judged.level)} judged",),
    )


def _throughput_problem(data: Path, settings: Mapping[str, object]) -> CalibrationProblem:
    drives, later = read_drives(data), held_back(settings)
    if later is not None:
        return throughput(drives, read_drives(later))
    days = sorted(set(drives.day.tolist()))
    last = str(settings.get("day", days[-1]))
    if last not in days or len(days) < 2:
        raise ScenarioError(
            Mistake(f"the day {last} cannot be held back", "calibrate.settings.day", hint="days: " + ", ".join(days))
        )
    return throughput(drives.where(drives.day != last), drives.where(drives.day == last))


def _level_problem(data: Path, settings: Mapping[str, object]) -> CalibrationProblem:
    flights, later = read_flights(data), held_back(settings)
    if later is None:
        return level(*alternate(flights))
    judged = read_flights(later)
    if judged.names != flights.names:
        raise ScenarioError(
            Mistake(f"has the cells {', '.join(judged.names)}, not {', '.join(flights.names)}", file=later)
        )
    return level(flights, judged)


def problems(data: Path, settings: Mapping[str, object]) -> list[CalibrationProblem]:
    """The problem of the set asked for. Raises `ScenarioError`."""
    makers: dict[str, Callable[[], CalibrationProblem]] = {
        "throughput": lambda: _throughput_problem(data, settings),
        "level": lambda: _level_problem(data, settings),
    }
    which = str(settings.get("set", "throughput"))
    if which not in makers:
        raise ScenarioError(Mistake(f"there is no set '{which}'", "calibrate.settings.set", hint=" or ".join(makers)))
    return [makers[which]()]


def _joined(parts: list[Drives]) -> Drives:
    s = [part.samples for part in parts]
    return Drives(
        np.concatenate([p.day for p in parts]),
        np.concatenate([p.cell for p in parts]),
        DownloadSamples(
            *(np.concatenate([getattr(one, name) for one in s]) for name in ("mode", "snr", "rsrp", "speed"))
        ),
        np.concatenate([p.others for p in parts]),
        np.concatenate([p.position for p in parts]),
        np.concatenate([p.throughput for p in parts]),
        ", ".join(p.source for p in parts),
    )
