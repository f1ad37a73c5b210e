"""`cosim dataset`: a labelled data set out of runs, or of a scenario that is run for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.arguments import Overrides
from cosim.cli.console import Json, count, emit, errors, note
from cosim.contract.errors import SetupError
from cosim.contract.units import parse


def dataset(
    sources: Annotated[list[Path], typer.Argument(help="Run folders, sweep folders, or one scenario.")],
    signals: Annotated[str, typer.Option(help="Signals whose columns are the features, as ue,gnb.")],
    label: Annotated[str, typer.Option(help="When a row is positive, as 'jamming.loss >= 3'.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the data set.")],
    overrides: Overrides = None,
    seed: Annotated[str, typer.Option(help="Seeds to run a scenario with, as 1..20.")] = "1..10",
    runs: Annotated[Path, typer.Option(help="Folder for the runs of a scenario.")] = Path("runs"),
    window: Annotated[str, typer.Option(help="Length of a window.")] = "5 s",
    every: Annotated[str, typer.Option(help="Time between two rows of a node; 0 s: all rows.")] = "0 s",
    keep: Annotated[str, typer.Option(help="Columns for judging that are no features, as jamming.loss.")] = "",
    cause: Annotated[
        list[str] | None, typer.Option(help="Why a link is bad, as 'jam: jamming.loss >= 3'; the first that holds.")
    ] = None,
    drop: Annotated[str, typer.Option(help="Columns that name somebody and are no features.")] = "rnti",
    by: Annotated[str, typer.Option(help="What splits keep together: seed, scene, or a swept key.")] = "seed",
    shares: Annotated[str, typer.Option(help="Shares of train, valid and test.")] = "0.6,0.2,0.2",
    split_seed: Annotated[int, typer.Option(help="Seed of the splits.")] = 1,
    name: Annotated[str, typer.Option(help="Name in the data card; default: the scenario's.")] = "",
    licence: Annotated[str, typer.Option(help="Licence in the data card.")] = "https://spdx.org/licenses/CC-BY-4.0",
    workers: Annotated[int, typer.Option(help="Processes; 0: one per core.", min=0)] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: Json = False,
) -> None:
    """Make a labelled data set with splits by scene, a leakage test and a data card."""
    with errors(as_json):
        from cosim.dataset import Recipe, build

        recipe = Recipe(
            _words(signals), label, _time("window", window), _time("every", every), _words(keep), _words(drop), by,
            _shares(shares), split_seed, tuple(cause or ()),
        )  # fmt: skip
        processes = workers or os.cpu_count() or 1
        made = build(
            _folders(sources, overrides or [], seed, runs, processes), recipe, out, workers=processes, name=name,
            licence=licence, progress=None if quiet or as_json else lambda done, of: note(f"{done} of {of} scenes"),
        )  # fmt: skip
        data = {
            "folder": str(made.folder), "rows": dict(made.rows), "positive": dict(made.positive),
            "scenes": dict(made.scenes), "leakage": made.leak.as_dict(),
        }  # fmt: skip
        lines = [
            f"{s:<6} {made.scenes[s]:>5} scenes {made.rows[s]:>12,} rows {made.positive[s]:>12,} positive"
            for s in made.rows
        ]
        lines += [f"warning: '{n}' alone tells the label (area {a:.4f})" for n, a in made.leak.telling.items()]
        lines += [f"warning: {made.leak.repeated:.1%} of the test rows are training rows too"] * (
            made.leak.repeated > 0.01
        )
        emit(data, as_json, "\n".join([str(made.folder), *lines]))


def _time(option: str, text: str) -> float:
    """Seconds."""
    try:
        return parse(text, "time")
    except ValueError as error:
        raise SetupError(f"--{option}: {error}") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _shares(text: str) -> tuple[float, float, float]:
    try:
        train, valid, test = (float(word) for word in _words(text))
    except ValueError:
        raise SetupError(f"--shares: '{text}' is not three numbers, as 0.6,0.2,0.2") from None
    return train, valid, test


def _folders(sources: list[Path], overrides: list[str], seed: str, runs: Path, workers: int) -> list[Path]:
    """The folders of runs and sweeps among `sources`; a scenario is run first, and what is there already is kept."""
    found = []
    for source in sources:
        if any((source / file).is_file() for file in ("manifest.json", "sweep.json")):
            if overrides:
                raise SetupError(f"--set changes scenarios; {source} is a run that has been made")
            found.append(source)
            continue
        from cosim import api

        made = api.sweep(source, seeds=seed, overrides=overrides, out=runs, workers=workers)
        note(f"{source}: {count(len(made), 'run')}")
        found += {next(p for p in path.parents if (p / "sweep.json").is_file()) for path in made.paths.values()}
    return found
