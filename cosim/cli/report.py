"""`cosim report`: write the report of a run, a sweep or a prediction again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, emit, errors


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, a sweep or a prediction.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write it; default: in the folder.")] = None,
    maps: Annotated[
        list[Path] | None, typer.Option("--map", help="GeoJSON to draw under the map; kept in the run folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the report of a run, a sweep or a prediction: one HTML file that needs no network."""
    with errors(as_json):
        from cosim.report import write_report, write_sweep_report

        if (folder / "prediction.json").exists():
            from cosim.report.prediction import page_again

            path = page_again(folder / "prediction.json", out)
            emit({"report": str(path)}, as_json, str(path))
            return
        sweep = (folder / "sweep.json").exists()
        if maps:
            _add_maps(folder, maps, sweep)
        path = (write_sweep_report if sweep else write_report)(folder, out)
        emit({"report": str(path)}, as_json, str(path))
        if sweep:
            _refuse_damage(folder)


def _add_maps(folder: Path, maps: list[Path], sweep: bool) -> None:
    from cosim.contract.errors import SetupError
    from cosim.results.folder import RunFolder
    from cosim.results.layers import add_lines

    if sweep:
        raise SetupError("a sweep has no map; give one of its runs")
    run = RunFolder.open(folder)
    for file in maps:
        add_lines(run.path, file)


def _refuse_damage(sweep: Path) -> None:
    """Raise `DamagedError` when runs of a sweep are not as they were written; its page lists them as failed."""
    from cosim.contract.seals import DamagedError
    from cosim.results.folder import RunFolder

    damaged = []
    for manifest in sorted(sweep.glob("runs/*/*/manifest.json")):
        try:
            RunFolder.open(manifest.parent).verify()
        except DamagedError as error:
            damaged.append(str(error))
    if damaged:
        more = f"; and {len(damaged) - 1} more runs" if len(damaged) > 1 else ""
        raise DamagedError(f"{damaged[0]}{more}")
