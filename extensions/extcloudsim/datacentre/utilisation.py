"""Utilisation of virtual machines over time: read from files, or made by a documented random process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosim.contract.delimited import content, records
from cosim.contract.records import Floats

DAY = 86400.0  # s


@dataclass(frozen=True, slots=True)
class Pattern:
    """Utilisation as a daily wave and noise that remembers.

    u(t) = mean + amplitude cos(2 pi (t - peak) / day) + e(t), kept in [least, 1], with
    e(t + dt) = memory e(t) + noise sqrt(1 - memory^2) z and z standard normal, so that e has the
    standard deviation `noise`. A share `shared` of the variance of z is the same for all machines of
    the pattern.
    """

    mean: float = 0.3
    amplitude: float = 0.1
    peak: float = 15 * 3600.0  # s after midnight
    noise: float = 0.1
    memory: float = 0.9  # correlation of the noise from one period to the next
    shared: float = 0.0
    least: float = 0.01

    def draw(self, machines: int, periods: int, seconds: float, rng: np.random.Generator) -> Floats:
        """(machines, periods) utilisation."""
        own = rng.standard_normal((machines, periods))
        common = rng.standard_normal(periods)
        z = math.sqrt(1.0 - self.shared) * own + math.sqrt(self.shared) * common
        z *= self.noise
        step = math.sqrt(1.0 - self.memory**2)
        error = z[:, 0]
        made = np.empty((machines, periods))
        made[:, 0] = error
        for k in range(1, periods):
            error = self.memory * error + step * z[:, k]
            made[:, k] = error
        time = seconds * np.arange(periods)
        wave = self.amplitude * np.cos(2.0 * np.pi * (time - self.peak) / DAY)
        return np.asarray(np.clip(self.mean + wave + made, self.least, 1.0))


def read_folder(path: Path, count: int | None, factor: float, periods: int | None = None) -> Floats:
    """(machines, periods) from a folder with one file per machine, one value a line, in the order of names.

    Files are as long as the shortest, at most `periods`. Raises `ValueError` that names the file.
    """
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))[:count]
    if count is not None and len(files) < count:
        raise ValueError(f"{path}: holds {len(files)} files, {count} machines want one each")
    if not files:
        raise ValueError(f"{path}: holds no files")
    rows = [_numbers(file, periods) for file in files]
    length = min(map(len, rows))
    if length == 0:
        raise ValueError(f"{files[int(np.argmin([len(row) for row in rows]))]}: holds no values")
    return _checked(np.array([row[:length] for row in rows]) * factor, path)


def _numbers(file: Path, periods: int | None) -> Floats:
    found: list[float] = []
    for number, line in enumerate(content(file).splitlines(), 1):
        if len(found) == periods:
            break
        try:
            if line.strip():
                found.append(float(line))
        except ValueError:
            raise ValueError(f"{file}:{number}: '{line.strip()[:40]}' is not a number") from None
    return np.array(found)


def read_table(path: Path, count: int | None, factor: float) -> Floats:
    """(machines, periods) from a table with a column per machine and a line per period, .csv, .csv.gz or .parquet.

    A column named time is left out. Raises `ValueError` that names file and line.
    """
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        names = [name for name in table.column_names if name != "time"]
        columns = [table[name].to_numpy().astype(np.float64) for name in names[:count]]
    else:
        lines = records(content(path), path)
        names = [name.strip() for name in next(lines, (1, []))[1]]
        keep = [i for i, name in enumerate(names) if name != "time"][:count]
        rows: list[list[float]] = []
        for number, cells in lines:
            try:
                rows.append([float(cells[i]) for i in keep])
            except (ValueError, IndexError):
                raise ValueError(f"{path}:{number}: expected {len(names)} numbers") from None
        columns = list(np.array(rows).T) if rows else []
        names = [names[i] for i in keep]
    if count is not None and len(columns) < count:
        raise ValueError(f"{path}: holds {len(columns)} columns, {count} machines want one each")
    if not columns or not len(columns[0]):
        raise ValueError(f"{path}: holds no values")
    return _checked(np.array(columns) * factor, path)


def _checked(values: Floats, path: Path) -> Floats:
    if not np.isfinite(values).all() or values.min() < 0.0:
        raise ValueError(f"{path}: utilisation must be a number of at least 0")
    if values.max() > 1.0 + 1e-6:
        raise ValueError(
            f"{path}: utilisation of {values.max():g} is more than 1; for values in percent write 'scale: 1 %'"
        )
    return np.ascontiguousarray(np.minimum(values, 1.0))


def read(path: Path, count: int | None, factor: float) -> Floats:
    """(machines, periods) from a folder or a table."""
    return read_folder(path, count, factor) if path.is_dir() else read_table(path, count, factor)
