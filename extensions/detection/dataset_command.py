"""`cosim dataset`: a labelled data set out of runs, or of a scenario that is run for it."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from cosim.cli.arguments import Overrides, names_in
from cosim.cli.console import Json, count, emit, errors, note
from cosim.contract.errors import SetupError


def dataset(
    sources: Annotated[
        list[Path], typer.Argument(help="Run folders, sweep folders, one scenario, or CSV and Parquet files.")
    ],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the data set.")],
    preset: Annotated[
        str, typer.Option(help="Recipe to begin with, as jamming or offloading; a wrong name lists all.")
    ] = "",
    signals: Annotated[
        str | None, typer.Option(help="Signals whose columns are the features, as ue,gnb or task,host@host.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="When a row is positive, as 'jamming.loss >= 3'.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns that are features, as task.input; default: all.")] = None,
    overrides: Overrides = None,
    seed: Annotated[str, typer.Option(help="Seeds to run a scenario with, as 1..20.")] = "1..10",
    runs: Annotated[Path, typer.Option(help="Folder for the runs of a scenario.")] = Path("runs"),
    window: Annotated[str | None, typer.Option(help="Length of a window; default: 5 s.")] = None,
    every: Annotated[str | None, typer.Option(help="Time between two rows of a node; default, 0 s: all rows.")] = None,
    at: Annotated[str | None, typer.Option(help="Column that is the time of a row, as created.")] = None,
    within: Annotated[
        str | None, typer.Option(help="How old a row of another signal may be; default, 0 s: of the same time.")
    ] = None,
    ahead: Annotated[
        str | None, typer.Option(help="How much later than the features the label is; default: 0 s.")
    ] = None,
    node: Annotated[str | None, typer.Option(help="Column of a file that names whom a row is about.")] = None,
    blocks: Annotated[int | None, typer.Option(help="Parts of time that each group of a file is cut into.")] = None,
    keep: Annotated[str | None, typer.Option(help="Columns for judging that are no features, as jamming.loss.")] = None,
    cause: Annotated[
        list[str] | None, typer.Option(help="Why a link is bad, as 'jam: jamming.loss >= 3'; the first that holds.")
    ] = None,
    sample: Annotated[
        list[str] | None,
        typer.Option(help="Share of training rows that is drawn, as '5 %: jamming.loss < 1'; the first that holds."),
    ] = None,
    choice: Annotated[
        str | None, typer.Option(help="Column with the node that was chosen among those of a signal NAME@candidate.")
    ] = None,
    drop: Annotated[
        str | None, typer.Option(help="Columns that identify a device or user and are no features; default: rnti.")
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="What splits keep together: seed (default), scene, a swept key, a file's column.")
    ] = None,
    shares: Annotated[str | None, typer.Option(help="Shares of train, valid and test; default: 0.6,0.2,0.2.")] = None,
    split_seed: Annotated[int | None, typer.Option(help="Seed of the splits; default: 1.")] = None,
    name: Annotated[str, typer.Option(help="Name in the data card; default: the scenario's.")] = "",
    licence: Annotated[str, typer.Option(help="Licence in the data card.")] = "https://spdx.org/licenses/CC-BY-4.0",
    creator: Annotated[str, typer.Option(help="Who made it, in the data card; default: continuum-cosim.")] = "",
    published: Annotated[str, typer.Option(help="Date in the data card, as 2026-05-04; default: none.")] = "",
    executor: Annotated[str, typer.Option(help="Where runs and rows are made: local, ray, or ray:ADDRESS.")] = "local",
    workers: Annotated[int, typer.Option(help="Processes; 0: one per core.", min=0)] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: Json = False,
) -> None:
    """Make a labelled data set with splits by scene, a leakage test and a data card."""
    with errors(as_json):
        from cosim.extensions.detection.dataset import Recipe, build
        from cosim.extensions.detection.dataset import preset as recipe_of
        from cosim.extensions.detection.dataset.presets import known
        from cosim.sources.tables.table import is_table

        words = {"signals": signals, "columns": columns, "keep": keep, "drop": drop}
        times = {"window": window, "every": every, "within": within, "ahead": ahead}
        asked = {
            **{key: tuple(names_in(text)) for key, text in words.items() if text is not None},
            **{key: _time(key, text) for key, text in times.items() if text is not None},
            "label": label, "at": at, "node": node, "by": by, "blocks": blocks, "seed": split_seed, "choice": choice,
            "shares": _shares(shares) if shares is not None else None, "causes": tuple(cause) if cause else None,
            "sample": tuple(sample) if sample else None,
        }  # fmt: skip
        when = _date(published)
        given: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
        if not preset:
            if "label" not in given:
                raise SetupError(
                    "a data set needs a rule for its label: --label, or --preset for a recipe that has one"
                )
            recipe = Recipe(**{"signals": (), **given})
            if not recipe.signals and not any(map(is_table, sources)):
                raise SetupError(
                    "a data set needs at least one signal; name one with --signals, or a recipe with --preset"
                )
        else:
            known(preset)  # before anything is run
        processes = workers or os.cpu_count() or 1
        folders = _folders(sources, overrides or [], seed, runs, executor, processes)
        if preset:
            recipe = replace(recipe_of(preset, folders), **given)
        made = build(
            folders, recipe, out, workers=processes, executor=executor, name=name, licence=licence, creator=creator,
            published=when,
            progress=None if quiet or as_json else _shown,
        )  # fmt: skip
        data = {
            "folder": str(made.folder), "rows": dict(made.rows), "positive": dict(made.positive),
            "scenes": dict(made.scenes), "leakage": made.leak.as_dict(), "remarks": list(made.remarks),
        }  # fmt: skip
        lines = [
            f"{s:<6} {made.scenes[s]:>5} scenes {made.rows[s]:>12,} rows {made.positive[s]:>12,} positive"
            for s in made.rows
        ]
        lines += [f"warning: '{n}' alone predicts the label (area {a:.4f})" for n, a in made.leak.telling.items()]
        lines += [f"warning: {made.leak.repeated:.1%} of the test rows are training rows too"] * (
            made.leak.repeated > 0.01
        )
        lines += [f"warning: {text}" for text in made.remarks]
        lines += ["warning: no row has the label, or all have it"] * (
            sum(made.positive.values()) in (0, sum(made.rows.values()))
        )
        emit(data, as_json, "\n".join([str(made.folder), *lines]))


def _shown(done: int, of: int) -> None:
    """Some ten lines, however many scenes there are."""
    if done == of or done % max(1, of // 10) == 0:
        note(f"{done} of {of} scenes")


def _time(option: str, text: str) -> float:
    """Seconds."""
    from cosim.contract.units import parse

    try:
        return parse(text, "time")
    except ValueError as error:
        raise SetupError(f"--{option}: {error}") from None


def _date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat() if text else ""
    except ValueError:
        raise SetupError(f"--published: '{text}' is not a date, as 2026-05-04") from None


def _shares(text: str) -> tuple[float, float, float]:
    try:
        train, valid, test = (float(word) for word in names_in(text))
    except ValueError:
        raise SetupError(f"--shares: '{text}' is not three numbers, as 0.6,0.2,0.2") from None
    return train, valid, test


def _folders(
    sources: list[Path], overrides: list[str], seed: str, runs: Path, executor: str, workers: int
) -> list[Path]:
    """Runs, sweeps and tables among `sources`; a scenario is run first, and what is there already is kept."""
    from cosim.sources.tables.table import is_table

    found = []
    for source in sources:
        if is_table(source):
            if overrides:
                raise SetupError(f"--set changes scenarios; {source} is a table")
            found.append(source)
            continue
        if any((source / file).is_file() for file in ("manifest.json", "sweep.json")):
            if overrides:
                raise SetupError(f"--set changes scenarios; {source} is a run that has been made")
            found.append(source)
            continue
        from cosim import api

        made = api.sweep(source, seeds=seed, overrides=overrides, out=runs, executor=executor, workers=workers)
        note(f"{source}: {count(len(made), 'run')}")
        found += {next(p for p in path.parents if (p / "sweep.json").is_file()) for path in made.paths.values()}
    return found
