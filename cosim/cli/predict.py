"""`cosim predict`: bands for every figure of a scenario, from the draws of a calibration."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.arguments import Overrides, ScenarioPath
from cosim.cli.console import Json, emit, errors, note, table

if TYPE_CHECKING:
    from cosim.twin.prediction.predict import BandPrediction

_EVERY = 2.0  # s between two lines of progress


def predict(
    scenario: ScenarioPath,
    twin: Annotated[Path, typer.Option(help="Folder that 'cosim calibrate' wrote, or its file of draws.")],
    overrides: Overrides = None,
    draws: Annotated[int, typer.Option(help="Runs, each with another draw of the values.", min=10)] = 100,
    level: Annotated[float, typer.Option(help="Share of the runs within a band.", min=0.5, max=0.99)] = 0.9,
    seed: Annotated[int, typer.Option(help="Seed of the runs' seeds.", min=0)] = 1,
    workers: Annotated[int, typer.Option(help="Runs at the same time; 0: one per core.", min=0)] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results.")] = Path("predictions"),
    every: Annotated[bool, typer.Option("--all", help="Show all figures, not only those that vary.")] = False,
    with_report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: Json = False,
) -> None:
    """Predict a scenario with what a calibration leaves open: a band for every figure of its report."""
    with errors(as_json):
        from cosim.contract.seals import sealed
        from cosim.results.folder import write_json
        from cosim.twin.prediction.draws import read
        from cosim.twin.prediction.predict import predict as run

        shown = [0.0]

        def progress(done: int, of: int) -> None:
            if not quiet and not as_json and time.monotonic() - shown[0] > _EVERY:
                shown[0] = time.monotonic()
                note(f"{done} of {of} runs")

        found = run(
            scenario, read(twin), folder=out / "work", settings=overrides or (), count=draws, level=level, seed=seed,
            workers=workers, progress=progress,
        )  # fmt: skip
        with contextlib.suppress(OSError):
            (out / "work").rmdir()  # was emptied, unless another prediction is under way
        folder = out / found.scenario
        folder.mkdir(parents=True, exist_ok=True)
        files = {"prediction": folder / "prediction.json"}
        if with_report:
            from cosim.report.prediction import write_prediction

            files["report"] = write_prediction(found, level, folder / "report.html")
        data = {"format": 1, "level": level, **asdict(found), **{name: str(path) for name, path in files.items()}}
        write_json(files["prediction"], sealed(data))
        emit(data, as_json, _text(found, level, every, lambda: [f"{n:<12} {p}" for n, p in files.items()]))


def _text(found: BandPrediction, level: float, every: bool, files: Callable[[], list[str]]) -> str:
    from cosim.report.tables import unit_of
    from cosim.report.text import figure

    rows = [["figure", "low", "middle", "high", "% per %", "of"]]
    for name, band in found.bands.items():
        if every or band.high > band.low:
            moved = f"{band.amplification:.1f}" if band.by else ""
            shown = (figure(name, value, unit_of(name, {})) for value in (band.low, band.middle, band.high))
            rows.append([name, *shown, moved, band.by])
    head = f"{found.scenario}: {found.runs} runs, {level:.0%} of them within each band"
    return "\n".join([head, *table(rows), *(f"warning: {line}" for line in found.warnings), *files()])
