"""`cosim reproduce`: tables and figures of published systems, made again beside the source's numbers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cosim.cli.console import Json, emit, errors, note, table
from cosim.contract.errors import RunError, SetupError

if TYPE_CHECKING:
    from cosim.extensions.reproduce.claims import Claim


def reproduce(
    name: Annotated[str, typer.Argument(metavar="[ID]", help="The claim; without it, list all.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Make all claims.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller settings; the page lists them.")] = False,
    seeds: Annotated[int, typer.Option(help="How many; fewer than 5 judge nothing.", min=2)] = 5,
    first: Annotated[int, typer.Option("--first-seed", help="The first of the seeds.", min=1)] = 1,
    jobs: Annotated[int, typer.Option(help="Cases at the same time; 0: one per core.", min=0)] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Another value of a setting: KEY=VALUE. Repeatable.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results; what it holds is not made again.")]
    = Path("reproduce"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the result.")] = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Make a table or figure of a paper again, its numbers beside ours. What was interrupted goes on."""
    with errors(as_json):
        from cosim.extensions.reproduce.claims import claim, claims
        from cosim.extensions.reproduce.judging import OPEN

        changed = dict(_pair(one) for one in settings or ())
        if not name and not everything:
            known = list(claims().values())
            emit({"claims": [_listed(one) for one in known]}, as_json, lambda: "\n".join(_lines(known)))
            return
        if name and everything:
            raise SetupError(f"either '{name}' or --all")
        wanted = list(claims().values()) if everything else [claim(name)]
        used, found = range(first, first + seeds), list[dict[str, Any]]()
        if everything and (strange := changed.keys() - {key for one in wanted for key in one.values(quick, {})}):
            raise SetupError(f"--set {min(strange)}: no claim has such a setting")
        for one in wanted:
            own = {key: value for key, value in changed.items() if not everything or key in one.values(quick, {})}
            try:
                found.append(_made(one, out / one.id, used, quick, jobs, own, quiet or as_json))
            except (RunError, SetupError) as error:  # of this claim; the others are made all the same
                if not everything:
                    raise
                found.append({"id": one.id, "verdict": OPEN, "why": str(error)})
        text = "\n".join(f"{row['id']}: {row['verdict']} ({row['why']})" for row in found)
        pages = [f"report   {row['files']['report']}" for row in found if "files" in row]
        emit({"claims": found}, as_json, "\n".join([text, *pages]))


def _made(
    one: Claim, folder: Path, seeds: range, quick: bool, jobs: int, changed: dict[str, str], quiet: bool
) -> dict[str, Any]:
    from cosim.extensions.reproduce.judging import reproduce as make
    from cosim.extensions.reproduce.page import write

    made = make(
        one, folder, seeds, quick=quick, jobs=jobs or len(os.sched_getaffinity(0)), changed=changed,
        notify=None if quiet else lambda text: note(f"{one.id}  {text}"),
    )  # fmt: skip
    files = {key: str(file) for key, file in write(made).items()}
    return {**made.as_dict(), "why": made.counts(), "files": files}


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign:
        raise SetupError(f"--set {text}: write KEY=VALUE")
    return key.strip(), value.strip()


def _listed(one: Claim) -> dict[str, Any]:
    return {
        "id": one.id, "source": one.source, "paper": one.paper, "what": one.what, "minutes": one.minutes[0],
        "quick_minutes": one.minutes[1], "packages": list(one.packages), "missing": one.missing(),
    }  # fmt: skip


def _lines(known: list[Claim]) -> list[str]:
    """The list as a table of text."""
    heads = ("ID", "source", "what", "minutes", "--quick", "needs")
    rows = [heads, *((one.id, one.source, one.what, f"{one.minutes[0]:g}", f"{one.minutes[1]:g}",
                      ", ".join(one.packages)) for one in known)]  # fmt: skip
    return table(rows)
