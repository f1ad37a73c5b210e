"""The page of a prediction: a band for every figure, and what is amplified."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from cosim.contract.errors import SetupError
from cosim.contract.seals import unsealed
from cosim.report.charts import intervals
from cosim.report.compare import unit_for
from cosim.report.page import render, save
from cosim.report.svg import Chart
from cosim.report.tables import ReportTable, TableCell, Tile, amount, unit_of, word
from cosim.report.text import NOTHING, figure, label
from cosim.twin.prediction.predict import Band, BandPrediction

_TILES = ("response_mean", "response_p95", "late_share", "completion_ratio", "energy_total", "utilisation_mean")
_AMPLIFIED = 3.0  # % per %, from which on a row is marked


def write_prediction(prediction: BandPrediction, level: float, out: Path) -> Path:
    """One offline HTML page about `prediction` at `out`."""
    bands = {name: band for name, band in prediction.bands.items() if math.isfinite(band.middle)}
    some = [name for name in _TILES if name in bands]
    text = render(
        "prediction.html.j2",
        title=prediction.scenario,
        level=f"{level:.0%}",
        runs=prediction.runs,
        tiles=[_tile(name, bands[name]) for name in some],
        charts=[_chart(prediction.scenario, name, bands[name]) for name in some],
        bands=ReportTable(
            "bands",
            ("Figure", "Low", "Middle", "High", "% per %", "Of"),
            tuple(_row(name, band) for name, band in bands.items()),
        ),
        warnings=prediction.warnings,
    )
    return save(text, out)


def page_again(file: Path, out: Path | None) -> Path:
    """The page about the prediction that `cosim predict` wrote to `file`, beside it or at `out`.

    Raises `SetupError` for another document, `DamagedError` where it is not as it was written.
    """
    data = unsealed(file, must="format")
    try:
        bands = dict[str, Band]()
        for name, band in data["bands"].items():
            known: dict[str, Any] = {key: math.nan if value is None else value for key, value in band.items()}
            bands[name] = Band(**known)
        found = BandPrediction(data["scenario"], bands, data["runs"], tuple(data["warnings"]))
        return write_prediction(found, data["level"], out or file.with_name("report.html"))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise SetupError(f"{file} is no prediction that 'cosim predict' wrote: {error}") from error


def _chart(scenario: str, name: str, band: Band) -> Chart:
    shown = {"prediction": [(band.middle, band.low, band.high)]}
    unit = unit_for(name, {"unit": unit_of(name, {})}, (band.low, band.middle, band.high))
    return intervals(label(name).capitalize(), [scenario], shown, x_title="", y=label(name), unit=unit)


def _tile(name: str, band: Band) -> Tile:
    unit = unit_of(name, {})
    low, middle, high = (figure(name, value, unit) for value in (band.low, band.middle, band.high))
    return Tile(label(name), f"{low} to {high}", repr(band.middle), f"middle {middle}")


def _row(name: str, band: Band) -> tuple[TableCell, ...]:
    unit = unit_of(name, {})
    mark = "warn" if band.amplification >= _AMPLIFIED else ""
    moved = amount("", band.amplification, "", mark) if band.by else word(NOTHING)
    return (
        word(label(name)),
        *(amount(name, v, unit) for v in (band.low, band.middle, band.high)),
        moved,
        word(band.by),
    )
