"""The `cosim` command: one file per verb, imported lightly so that help appears at once."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from typing import Annotated, NoReturn

# Its scan for plug-ins reads the metadata of every installed package.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

import typer

from cosim.cli import (
    attach,
    bench,
    calibrate,
    check,
    cluster,
    compare,
    dataset,
    detect,
    doctor,
    exporting,
    figure,
    importing,
    importing_city,
    importing_gpu,
    importing_simulators,
    importing_traces,
    listing,
    new,
    nodes,
    plan,
    predict,
    publish,
    render,
    report,
    run,
    schema,
    size,
    sweep,
    view,
    whatif,
)

app = typer.Typer(
    name="cosim",
    help="Co-simulation of the drone-edge-cloud continuum: check, run, report and compare scenarios.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("check")(check.check)
app.command("plan")(plan.plan)
app.command("run")(run.run)
app.command("view")(view.view)
app.command("render")(render.render)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("sweep")(sweep.sweep)
app.command("size")(size.size)
app.command("dataset")(dataset.dataset)
app.command("figure")(figure.figure)
app.command("publish")(publish.publish)
app.command("rerun")(publish.rerun)
app.command("calibrate")(calibrate.calibrate)
app.command("predict")(predict.predict)
app.command("whatif")(whatif.whatif)
app.command("attach")(attach.attach)
app.command("live-key")(attach.live_key)
app.command("nodes")(nodes.nodes)
app.command("adapters")(listing.adapters)
app.command("schedulers")(listing.schedulers)
app.command("scenarios")(listing.scenarios)
app.command("schema")(schema.schema)
app.command("doctor")(doctor.doctor)
importing_traces.add(importing.app)
importing_gpu.add(importing.app)
importing_city.add(importing.app)
importing_simulators.add(importing.app)
app.add_typer(importing.app, name="import")
app.add_typer(exporting.app, name="export")
app.add_typer(new.app, name="new")
app.add_typer(cluster.app, name="cluster")
app.add_typer(detect.app, name="detect")
app.add_typer(bench.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        from cosim import version

        typer.echo(f"continuum-cosim {version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Entry point of the console script.

    A command loads some hundred thousand objects that stay. Python's cycle collector would look at them again
    and again while they are loaded, and taking them apart at the end, one by one, frees nothing that the end
    of the process does not: together a quarter of a short run's time.
    """
    gc.set_threshold(200_000, 20, 20)
    try:
        app()
    except SystemExit as ending:
        if isinstance(ending.code, str):
            raise
        _leave(ending.code or 0)


def _leave(status: int) -> NoReturn:
    """End the process as Python does, threads waited for and exit functions run, without freeing its objects."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # closed, or nobody reads it
            status = status or 1
    os._exit(status)


if __name__ == "__main__":
    main()
