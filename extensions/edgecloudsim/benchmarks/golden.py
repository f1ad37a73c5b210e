"""The data folder of the comparison with EdgeCloudSim: its configurations, and its results."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.equivalence import Sample

from cosim.contract.errors import CosimError
from cosim.extensions.edgecloudsim.importing import study_of
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy

FILES = ("properties", "edge_devices", "applications")
COLUMNS = ("config_id", "metric", "unit", "iterations", "mean", "sd")


class DataError(Exception):
    """The data folder cannot be used; says what, where, what to do."""


@dataclass(frozen=True, slots=True)
class Golden:
    """A figure of theirs."""

    unit: str
    sample: Sample


def read_rows(file: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a CSV file that must have `columns`. Raises `DataError`."""
    try:
        with file.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise DataError(f"{file} has no column {', '.join(missing)}")
            rows = list(reader)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{file} is not a CSV file: {error}") from None
    for number, row in enumerate(rows, 2):
        if None in row or any(row[name] is None for name in columns):
            raise DataError(f"{file}:{number}: the row has another number of columns than the head")
    return rows


def read_golden(file: Path) -> dict[str, dict[str, Golden]]:
    """Their figures by configuration and metric."""
    found: dict[str, dict[str, Golden]] = {}
    for number, row in enumerate(read_rows(file, COLUMNS), 2):
        try:
            mean = float(row["mean"]) if row["mean"] else math.nan
            sample = Sample(int(row["iterations"] or 1), mean, float(row["sd"]) if row["sd"] else 0.0)
        except ValueError as error:
            raise DataError(f"{file}:{number}: {error}") from None
        found.setdefault(row["config_id"], {})[row["metric"]] = Golden(row["unit"], sample)
    return found


def read_studies(folder: Path, wanted: list[str]) -> dict[str, OffloadingStudy]:
    """The study of every configuration that `index.csv` lists, or of the wanted ones."""
    rows = {row["config_id"]: row for row in read_rows(folder / "index.csv", ("config_id", *FILES))}
    unknown = [name for name in wanted if name not in rows]
    if unknown:
        raise DataError(f"{folder / 'index.csv'} has no configuration {', '.join(unknown)}; it has {', '.join(rows)}")
    studies = {}
    for name in wanted or rows:
        paths = [folder / rows[name][key] for key in FILES]
        try:
            studies[name], _ = study_of(paths[0], paths[1], paths[2], physics="compatible")
        except CosimError as error:
            raise DataError(f"configuration {name}: {error}") from None
    return studies
