"""`cosim import planetlab|bitbrains|google|azure|alibaba`: a scenario from a trace of a data centre."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from cosim.cli.console import Json, errors
from cosim.cli.importing import Force, Out, Strict, finish


class TargetModel(StrEnum):
    """The model that the scenario is for."""

    datacentre = "datacentre"
    continuum = "continuum"


_Source = Annotated[Path, typer.Argument(help="File or folder, plain or gzipped.")]
_Model = Annotated[
    TargetModel,
    typer.Option(help="datacentre: machines with their utilisation; continuum: tasks, where the trace has some."),
]
_Vms = Annotated[int | None, typer.Option(min=1, help="datacentre: at most so many machines, the first of the trace.")]
_Periods = Annotated[int | None, typer.Option(min=1, help="datacentre: at most so many periods, the first.")]
_Tasks = Annotated[int | None, typer.Option(min=1, help="continuum: at most so many tasks, the first of the trace.")]
_Hosts = Annotated[int | None, typer.Option(min=1, help="Default: as many as the machines or tasks need.")]
_Full = Annotated[float, typer.Option(help="Value of a machine fully used; 1 for files of fractions.")]
_Table = Annotated[Path | None, typer.Option(help="VM table of the packed form; default: ..._vms.csv.")]
_VmTable = Annotated[Path | None, typer.Option("--vmtable", help="vmtable, for cores and memory.")]
_Containers = Annotated[bool, typer.Option("--containers", help="It is container_usage.")]
_Graphs = Annotated[
    bool,
    typer.Option("--graphs", help="continuum: batch_task of 2018 as jobs, whose tasks wait for one another."),
]
_Token = Annotated[str | None, typer.Option(help="continuum: work of a token of a request, such as '2 Mcycles'.")]

# options of every trace, with their defaults
_COMMON: dict[str, tuple[object, object]] = {
    "model": (_Model, TargetModel.datacentre),
    "vms": (_Vms, None),
    "periods": (_Periods, None),
    "tasks": (_Tasks, None),
    "hosts": (_Hosts, None),
    "force": (Force, False),
    "strict": (Strict, False),
    "as_json": (Json, False),
}
_CONTINUUM = (
    "tasks",
    "context_token",
    "generated_token",
    "graphs",
)  # options of that model only; the other has the rest


def _make(
    source: Path,
    out: Path,
    name: str,
    *,
    model: TargetModel,
    hosts: int | None,
    force: bool,
    strict: bool,
    as_json: bool,
    **options: Any,  # noqa: ANN401
) -> None:
    given = {key for key, value in options.items() if value != _DEFAULTS[key]}
    with errors(as_json):
        wrong = sorted(key for key in given if (key in _CONTINUUM) != (model is TargetModel.continuum))
        if wrong:
            raise typer.BadParameter(f"it does not go with --model {model.value}", param_hint=f"--{wrong[0]}")
        options = {
            key: value for key, value in options.items() if (key in _CONTINUUM) == (model is TargetModel.continuum)
        }
        if options.get("graphs"):
            from cosim.extensions.traces.importing.jobs import read_jobs

            imported = read_jobs(source, hosts=hosts, tasks=options["tasks"])
        elif model is TargetModel.continuum:
            from cosim.extensions.traces.importing.tasks import read as read_tasks

            imported = read_tasks(name, source, hosts=hosts, tasks=options["tasks"], per_token=_tokens(options))
        else:
            from cosim.extensions.traces.importing.machines import read

            imported = read(name, source, hosts=hosts, **options)
        finish(imported, out, force=force, strict=strict, as_json=as_json)


def _tokens(options: dict[str, Any]) -> tuple[float, ...]:
    """Cycles per context token and per generated token; () where neither is given."""
    from cosim.contract import units

    said = {name: options.get(name) for name in ("context_token", "generated_token")}
    if all(text is None for text in said.values()):
        return ()
    found = []
    for name, text in said.items():
        try:
            found.append(units.parse("0 cycles" if text is None else text, "work"))
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=f"--{name.replace('_', '-')}") from None
    return tuple(found)


# what each trace adds: its help, and options of its own
_COMMANDS: dict[str, tuple[str, dict[str, tuple[object, object]]]] = {
    "planetlab": ("Import a PlanetLab day: a folder with a file per machine, or one table.", {"full": (_Full, 100.0)}),
    "bitbrains": ("Import Bitbrains (GWA-T-12): raw files, or the packed tables.", {"table": (_Table, None)}),
    "google": ("Import Google's task_usage of 2011, or task_events for the model continuum.", {}),
    "azure": (
        "Import Azure's vm_cpu_readings (V2); for the model continuum vmtable, invocations of functions, or requests.",
        {"table": (_VmTable, None), "context_token": (_Token, None), "generated_token": (_Token, None)},
    ),
    "alibaba": (
        "Import Alibaba's machine_usage or container_usage (2018), or batch_task (2017, 2018) for the model continuum.",
        {"containers": (_Containers, False), "graphs": (_Graphs, False)},
    ),
}
_DEFAULTS = {key: default for _, own in (("", _COMMON), *_COMMANDS.values()) for key, (_, default) in own.items()}


def _command(name: str) -> Callable[..., None]:
    """The command of one trace: typer reads its options from the signature."""
    text, own = _COMMANDS[name]

    def run(source: Path, out: Path, **options: Any) -> None:  # noqa: ANN401
        _make(source, out, name, **options)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    reported = {**own, **_COMMON}
    parameters = [inspect.Parameter("source", kind, annotation=_Source), inspect.Parameter("out", kind, annotation=Out)]
    parameters += [
        inspect.Parameter(key, kind, annotation=hint, default=default) for key, (hint, default) in reported.items()
    ]
    run.__name__, run.__doc__ = name, text
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


planetlab, bitbrains, google, azure, alibaba = map(_command, _COMMANDS)
