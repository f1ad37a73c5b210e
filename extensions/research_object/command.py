"""`cosim publish` and `cosim rerun`: runs as a research object that anyone can repeat."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, count, emit, errors, note


def publish(
    folder: Annotated[Path, typer.Argument(help="A run folder, or the folder of a sweep.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The crate; default: NAME-crate.")] = None,
    title: Annotated[str, typer.Option(help="Default: the scenario's title.")] = "",
    author: Annotated[str, typer.Option(help="Who has made the runs.")] = "",
    license: Annotated[  # noqa: A002 - the option's name
        str, typer.Option(help="Address of the licence of the whole; default: CC BY 4.0.")
    ] = "",
    archive: Annotated[bool, typer.Option("--zip", help="One .zip file instead of a folder.")] = False,
    as_json: Json = False,
) -> None:
    """Make a Workflow Run RO-Crate: scenario, data, results, versions, and one command to repeat it."""
    with errors(as_json):
        from cosim.extensions.research_object import crate

        name = folder.resolve().name
        path = crate.publish(
            folder, out or Path(f"{name}-crate"), title=title, author=author, license_=license, archive=archive
        )
        emit({"crate": str(path)}, as_json, f"crate  {path}\nrepeat it with: cosim rerun {path}")


def rerun(
    crate: Annotated[Path, typer.Argument(help="The folder or zip of a crate.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Keep the new runs here; default: they are not kept.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the runs of a crate again and compare them bit by bit with those in it."""
    with errors(as_json):
        from cosim.extensions.research_object import crate as crates
        from cosim.results.executor import LocalExecutor

        other = crates.differences(crate)
        if other and not as_json:
            note(f"{count(len(other), 'package')} of other versions than then: {', '.join(other[:6])}")
        with tempfile.TemporaryDirectory(prefix="cosim-rerun-") as scratch:
            base = out or Path(scratch)
            executor = LocalExecutor(1)
            with executor.kept():
                found = list(crates.rerun(crate, executor, base, None if as_json else note))
        different = [one for one in found if one.differences]
        emit(
            {
                "runs": [
                    {"run": one.run, "equal": not one.differences, "differences": one.differences} for one in found
                ],
                "versions": other,
            },
            as_json,
            "\n".join(
                [
                    *(f"{one.run}: {line}" for one in different for line in one.differences),
                    f"{len(found) - len(different)} of {count(len(found), 'run')} bit-equal",
                ]
            ),
        )
        if different:
            raise typer.Exit(1)
