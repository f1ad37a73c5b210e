"""`cosim bench`: one table of all schedulers on a frozen suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cosim.cli.arguments import names_in, time_of
from cosim.cli.console import Json, emit, errors, note
from cosim.contract.errors import SetupError
from cosim.contract.functions import search_in
from cosim.contract.hints import did_you_mean

app = typer.Typer(no_args_is_help=True, help="Frozen comparisons, resumed where they were left.")


@app.callback()
def _group() -> None:
    """Comparisons by name."""


@app.command()
def schedulers(
    only: Annotated[  # as often as there are entries, or once with commas
        list[str], typer.Option(help="These entries, comma between them; default: all that have a name.")
    ] = [],  # noqa: B006 - typer
    entry: Annotated[  # one's own module may lie in the folder that the command is run in
        list[str],
        typer.Option(
            help="One more entry: module:name of your policy, in this folder or installed, or its entry point."
        ),
    ] = [],  # noqa: B006 - typer
    world: Annotated[
        list[str],
        typer.Option(
            help="Worlds of the suite; or scenarios, a name of `cosim scenarios` or a file, as 'city-edge for 60 s'."
        ),
    ] = [],  # noqa: B006
    seeds: Annotated[int, typer.Option(min=1, help="The first so many seeds of the suite.")] = 5,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    limit: Annotated[str, typer.Option(help="Wall-clock limit of each decision of an --entry, as '60 s'.")] = "60 s",
    timeout: Annotated[
        str, typer.Option(help="Wall-clock limit of each run of an --entry (one world, one seed).")
    ] = "10 min",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of results.")] = Path("bench/schedulers"),
    as_json: Json = False,
) -> None:
    """Run what the folder does not hold yet, and write rows.jsonl and leaderboard.md."""
    with errors(as_json):
        from cosim.extensions.metanet.bench import scenarios, suite, table
        from cosim.schedulers import SchedulerError, installed_names, scheduler_names

        search_in(Path())
        worlds = names_in(",".join(world)) or list(suite.names())
        models = {"interval" if one in suite.names() else scenarios.model(one) for one in worlds}
        if len(models) > 1:
            raise SetupError("--world: name worlds of one model at a time, as their schedulers are others")
        (model,) = models
        search_in(Path())  # again: a scenario brings its own folder
        every = table.entries_of(model)
        chosen = names_in(",".join(only))
        names = [*(chosen or every), *entry]
        for option, given in (("--only", chosen), ("--entry", entry)):
            named = (*every, *scheduler_names("task" if model == "continuum" else "interval"), *installed_names())
            strange = [one for one in given if ":" not in one and one not in named]
            if strange:
                hint = did_you_mean(strange[0], every, otherwise="entries")
                raise SetupError(
                    f"{option}: there is no entry '{strange[0]}' ({hint}); a policy of yours is module:name"
                )
        if seeds > len(suite.SEEDS):
            raise SetupError(f"--seeds: the suite has {len(suite.SEEDS)} seeds, not {seeds}")
        if table.REFERENCE not in names:
            names.insert(0, table.REFERENCE)

        def reported(done: int, total: int, row: Any) -> None:  # noqa: ANN401 - table.Row
            if done == total or done % len(entries) == 0:
                note(f"{done}/{total}  {row.world}, seed {row.seed}")

        failed: list[str] = []

        def left(one: object) -> None:  # table.FailedEntry
            failed.append(str(one))
            note(failed[-1])

        limits = table.EntryLimits(time_of(limit, "limit"), time_of(timeout, "timeout"))
        try:
            entries = [table.entry(name, limits, model) for name in dict.fromkeys(names)]
            rows = table.fill(
                out, entries, worlds, suite.SEEDS[:seeds], workers=workers, notify=reported, limits=limits, failed=left
            )
        except SchedulerError as error:
            raise SetupError(str(error)) from error
        if not rows:
            raise SetupError("; ".join(failed))
        there = {row.entry for row in rows}
        found = table.compared(rows, [one for one in entries if one.name in there])
        found["failed"] = failed
        (out / "leaderboard.md").write_text(table.markdown(found), encoding="utf-8")
        emit(found | {"folder": str(out)}, as_json, lambda: _text(found, out))
        if failed:
            raise typer.Exit(1)


def _text(found: dict[str, Any], out: Path) -> str:
    from cosim.extensions.metanet.bench.table import band

    wide = max(16, *(len(line["entry"]) for line in found["board"]))
    lines = [f"{'entry':<{wide}} {'score':>6} {'95 %':>15} {'with best':>9} {'late':>6} {'CPU ms':>7}"]
    for line in found["board"]:
        best = f"{line['with_best']}/{line['worlds']}"
        shown = f"{line['entry']:<{wide}} {line['score']:>6.3f} {band(line):>15} {best:>9}"
        lines.append(f"{shown} {line['late']:>6.1%} {line['cpu']:>7.2f}")
    return "\n".join([*lines, *found["failed"], f"page  {out / 'leaderboard.md'}"])
