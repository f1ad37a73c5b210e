"""`cosim import philly|helios|alibaba-gpu`: a scenario from the jobs of a GPU cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, errors
from cosim.cli.importing import Force, Out, Strict, finish

_Source = Annotated[Path, typer.Argument(help="The table or log, plain or gzipped.")]
_Jobs = Annotated[int | None, typer.Option(min=1, help="At most so many jobs, the first of the trace.")]
_Leaves = Annotated[int | None, typer.Option(min=2, help="Of 32 GPUs each; default: as many as fill to 70 %.")]


def _make(
    name: str,
    source: Path,
    out: Path,
    jobs: int | None,
    leaves: int | None,
    *,
    force: bool,
    strict: bool,
    as_json: bool,
) -> None:
    with errors(as_json):
        from cosim.extensions.gpu_cluster.importing import read

        finish(read(name, source, jobs=jobs, leaves=leaves), out, force=force, strict=strict, as_json=as_json)


def philly(
    source: _Source, out: Out, jobs: _Jobs = None, leaves: _Leaves = None, force: Force = False,
    strict: Strict = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Import Microsoft's Philly trace: cluster_job_log, or a table with timestamp, duration, num_gpus."""
    _make("philly", source, out, jobs, leaves, force=force, strict=strict, as_json=as_json)


def helios(
    source: _Source, out: Out, jobs: _Jobs = None, leaves: _Leaves = None, force: Force = False,
    strict: Strict = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Import SenseTime's Helios trace: cluster_log.csv."""
    _make("helios", source, out, jobs, leaves, force=force, strict=strict, as_json=as_json)


def alibaba_gpu(
    source: _Source, out: Out, jobs: _Jobs = None, leaves: _Leaves = None, force: Force = False,
    strict: Strict = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Import pods of Alibaba's cluster-trace-gpu-v2023, with shares of GPUs."""
    _make("alibaba", source, out, jobs, leaves, force=force, strict=strict, as_json=as_json)
