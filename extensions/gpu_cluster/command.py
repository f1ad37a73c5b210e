"""`cosim cluster`: the next configurations of a running cluster, and the timeline of a run's cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cosim.cli.console import Json, count, emit, errors, note
from cosim.contract.errors import SetupError

app = typer.Typer(no_args_is_help=True, help="GPU clusters: what a running one should do next; a run as a timeline.")

_YEAR = 3.2e7  # s


@app.command("next")
def next_(
    state: Annotated[Path, typer.Argument(help="State of the running cluster, JSON.")],
    limit: Annotated[float, typer.Option(min=0.01, help="Wall time to search in, s.")] = 1.0,
    most: Annotated[int, typer.Option(min=1, max=120, help="At most so many configurations.")] = 10,
    as_json: Json = False,
) -> None:
    """Rank feasible configurations of the optical switches for the waiting jobs, best first."""
    with errors(as_json):
        from cosim.extensions.gpu_cluster.cluster.feed import configurations, read_state

        now = read_state(state)
        found = [one.as_dict() for one in configurations(now, limit=limit, most=most)]
        reported = {name for one in found for name in one["order"]}
        left = [job.id for job in now.waiting if job.id not in reported]
        if found and left:
            who = f"job '{left[0]}' is" if len(left) == 1 else f"{count(len(left), 'job')}, '{left[0]}' first, are"
            note(f"{who} in no configuration: too large, or too far back in the line")
        lines = [
            f"{i + 1:>2}. order {', '.join(one['order']) or 'none'}; start now "
            f"{', '.join(start['id'] for start in one['starts']) or 'none'}; {one['set_up']} circuits to set up; "
            f"all that can start have ended at {one['end']:.6g} s"
            for i, one in enumerate(found)
        ]
        emit({"configurations": found}, as_json, "\n".join(lines))


@app.command()
def timeline(
    run: Annotated[Path, typer.Argument(help="Folder of a run with a cluster.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File: .parquet, .prom (Prometheus), .json (OTLP).")],
    period: Annotated[float, typer.Option(min=1e-3, max=_YEAR, help="Time between two rows, s.")] = 60.0,
    delay: Annotated[float, typer.Option(min=0.0, max=_YEAR, help="After which a row is out, s.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Write what the cluster did as means over equal periods, as systems that sample take it."""
    with errors(as_json):
        from cosim.extensions.gpu_cluster.cluster.timeline import interpolated, write

        if out.suffix not in (".parquet", ".prom", ".json"):
            raise SetupError(f"--out: '{out.name}' must end in .parquet, .prom or .json")
        columns = interpolated(_rows(run), period, delay)
        if out.suffix == ".parquet":
            write(out, columns)
        else:
            out.write_text(_exported(columns, run.name, prometheus=out.suffix == ".prom"), encoding="utf-8")
        rows = len(columns["time"])
        emit({"file": str(out), "rows": rows}, as_json, f"timeline  {out} - {rows} rows of {period:g} s")


def _rows(folder: Path) -> dict[str, Any]:
    """The event rows that the run recorded. Raises `RunError` when there are none."""
    from cosim.contract.errors import RunError
    from cosim.results.folder import RunFolder
    from cosim.results.load import Run

    loaded = Run(RunFolder.open(folder))
    try:
        if "cluster" not in loaded.signals:
            raise RunError(f"{folder} recorded no cluster")
        query = 'SELECT "at" AS time, busy, down, waiting, running, circuits, power FROM cluster ORDER BY "at"'
        table = loaded.sql(query).fetchnumpy()
    finally:
        loaded.close()
    return {name: values.astype(float) for name, values in table.items()}


def _exported(columns: dict[str, Any], name: str, *, prometheus: bool) -> str:
    """All rows in one file: Prometheus' text with time stamps, or a line of OTLP's JSON per row."""
    from cosim.extensions.gpu_cluster.cluster.timeline import samples
    from cosim.talk.telemetry.export import UNITS, Sample, otlp

    parts = []
    for time, values in samples(columns):
        found = [
            Sample("_".join(filter(None, ("cluster", metric, UNITS[unit]))), value, unit=unit)
            for metric, (value, unit) in values.items()
        ]
        if prometheus:
            parts += [f'{one.name}{{cluster="{name}"}} {one.value!r} {round(time * 1e3)}' for one in found]
        else:
            parts.append(json.dumps(otlp({name: found}, "continuum-cosim", round(time * 1e9), 0)))
    if prometheus:  # samples of a metric must stand together
        parts.sort(key=lambda line: line.partition("{")[0])
    return "\n".join(parts) + "\n"
