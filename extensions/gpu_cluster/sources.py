"""`cosim import philly|helios|alibaba-gpu`: a scenario from the jobs of a GPU cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, errors
from cosim.cli.importing import Force, Out, Strict, finish

_Source = Annotated[Path, typer.Argument(help="The table or log, plain or gzipped.")]
_Jobs = Annotated[int | None, typer.Option(min=1, help="At most so many jobs, the first of the trace.")]
_Leaves = Annotated[int | None, typer.Option(min=2, help="Of 32 GPUs each; default: as many as fill to 70 %.")]

_Law = Annotated[bool, typer.Option("--fit", help="Draw jobs by a law that is fitted to the trace, not its own.")]


def _command(trace: str, text: str) -> Callable[..., None]:
    """The command that imports a trace."""

    def run(
        source: _Source, out: Out, jobs: _Jobs = None, leaves: _Leaves = None, law: _Law = False,
        force: Force = False, strict: Strict = False, as_json: Json = False,
    ) -> None:  # fmt: skip
        with errors(as_json):
            from cosim.extensions.gpu_cluster.importing import read

            finish(
                read(trace, source, jobs=jobs, leaves=leaves, law=law), out, force=force, strict=strict, as_json=as_json
            )

    run.__doc__ = text
    return run


philly = _command(
    "philly", "Import Microsoft's Philly trace: cluster_job_log, or a table with timestamp, duration, num_gpus."
)
helios = _command("helios", "Import SenseTime's Helios trace: cluster_log.csv.")
alibaba_gpu = _command("alibaba", "Import pods of Alibaba's cluster-trace-gpu-v2023, with shares of GPUs.")
