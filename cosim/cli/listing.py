"""`cosim adapters` and `cosim schedulers`: what can be named in a scenario."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from cosim.cli.console import Json, beside, emit, errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from cosim.contract.adapter import AdapterKind
    from cosim.contract.signals import Signal


def adapters(
    name: Annotated[
        str, typer.Argument(help="Show the keys of this adapter's block in a scenario, and its signals.")
    ] = "",
    as_json: Json = False,
) -> None:
    """List the adapters, and what keeps any of them from being used; or the keys and signals of one."""
    from cosim.contract.registry import list_adapters

    if name:
        _keys(name, as_json)
        return
    listings = list_adapters()
    data = [
        {
            "name": item.name,
            "summary": item.kind.summary if item.kind else "",
            "origin": item.kind.origin if item.kind else None,
            "own_process": item.kind.isolated if item.kind else None,
            "ready": not item.problem,
            "problem": item.problem,
        }
        for item in listings
    ]
    width = max((len(item.name) for item in listings), default=0)
    lines = [
        beside(f"{item.name:<{width}}  ", item.kind.summary if item.kind else "")
        + ("\n" + beside(f"{'':<{width}}  ", f"not ready: {item.problem}") if item.problem else "")
        for item in listings
    ]
    emit({"adapters": data}, as_json, "\n".join(lines))


def _keys(name: str, as_json: bool) -> None:
    """What may stand in the block of adapter `name`, from the schema that editors use."""
    from cosim.contract.registry import adapter_kind
    from cosim.scenario.schema import block_schema

    with errors(as_json):
        kind = adapter_kind(name)
        block = block_schema(name)
        keys = [
            {"key": key, "default": value.get("default"), "description": value.get("description", "")}
            for key, value in block.get("properties", {}).items()
        ]
        width = max((len(key["key"]) for key in keys), default=0)
        lines = [
            beside(f"{key['key']:<{width}}  ", key["description"] + (
                f" [{str(key['default']).lower() if isinstance(key['default'], bool) else key['default']}]"
                if key["default"] is not None else ""
            ))
            for key in keys
        ]  # fmt: skip
        head = beside(f"{name}: ", kind.summary) + "\n\n"
        tail = f"\n\nFor example\n\n{textwrap.indent(kind.example, '  ')}" if kind.example else ""
        reads, writes = _signals(kind)
        brought = {"nodes": _brought(kind.node_keys()), "events": _brought(kind.event_kinds())}
        for where, found in brought.items():
            for key, (meaning, inside) in found.items():
                parts = [beside(f"{key}, {'a key of nodes' if where == 'nodes' else 'an event'}: ", meaning)]
                parts += [beside(f"  {part:<14} ", text) for part, text in inside.items()]
                tail = tail.rstrip() + "\n\n" + "\n".join(parts)
        reported = (
            f"\n\nSo configured it reads {', '.join(reads) or 'nothing'}, and writes{'' if writes else ' nothing'}"
        )
        for signal in writes:
            rows = [f"{one.name:<14} {one.dtype:<7} {one.unit:<6} {one.meaning}" for one in signal.columns]
            reported += "\n\n  " + "\n    ".join([f"{signal.name}: {signal.meaning}", *rows])
        columns = ("name", "dtype", "unit", "meaning")
        data = {"name": name, "summary": kind.summary, "keys": keys, "example": kind.example}
        emit(
            {
                **data,
                **{w: {k: {"meaning": m, "keys": i} for k, (m, i) in found.items()} for w, found in brought.items()},
                "reads": reads,
                "writes": {
                    one.name: [{key: getattr(c, key) for key in columns} for c in one.columns] for one in writes
                },
            },
            as_json,
            head + "\n".join(lines) + tail.rstrip() + reported,
        )


def _brought(models: Mapping[str, type[BaseModel]]) -> dict[str, tuple[str, dict[str, str]]]:
    """Of each model its meaning, and what may stand in it, besides what may in all events."""
    from cosim.contract.block import EventKey

    common = {"do", *EventKey.model_fields}
    return {
        name: (
            (model.__doc__ or "").partition("\n")[0],
            {one.alias or key: one.description or "" for key, one in model.model_fields.items() if key not in common},
        )
        for name, model in models.items()
    }


def _signals(kind: AdapterKind) -> tuple[list[str], list[Signal]]:
    """What an adapter of this kind reads and writes when it is configured as in its example."""
    from cosim.contract.signals import CATALOGUE

    config = kind.load_config().model_validate(kind.example_block())
    ports, known = kind.ports_of(config), {**CATALOGUE, **{one.name: one for one in kind.signals_of(config)}}
    return [read.signal for read in ports.reads], [known[name] for name in ports.writes]


def schedulers(as_json: Json = False) -> None:
    """List the schedulers and policies with the decisions that they take, and what each model answers to them."""
    from cosim.schedulers import list_schedulers

    found = list_schedulers()
    width = max((len(item.name) for item in found), default=0)
    data = [
        {"name": one.name, "decisions": one.decisions, "models": one.models, "answers": one.answers,
         "summary": one.summary}
        for one in found
    ]  # fmt: skip
    lines = [beside(f"{one.name:<{width}}  {'+'.join(one.decisions):<13}  ", one.summary) for one in found]
    models = list(found[0].answers) if found else []
    notes: dict[str, int] = {}
    lines += ["", *(f"{chr(97 + k)}: {model}" for k, model in enumerate(models))]
    lines += ["", " " * width + "".join(f"  {chr(97 + k)}".ljust(8) for k in range(len(models)))]
    for one in found:
        cells = []
        for answer in one.answers.values():
            takes, _, why = answer.partition(": ")
            mark = f"{takes} {notes.setdefault(why, len(notes) + 1)}" if why else takes
            cells.append(f"  {mark:<6}")
        lines.append("".join([f"{one.name:<{width}}", *cells]).rstrip())
    lines += ["", *(beside(f"{number:>2}  ", why) for why, number in notes.items())]
    emit({"schedulers": data}, as_json, "\n".join(lines))


def scenarios(
    name: Annotated[str, typer.Argument(help="Show this one's description.")] = "", as_json: Json = False
) -> None:
    """List the scenarios that come with the package: copy one with `cosim new --from NAME`."""
    from cosim.scenario.gallery import example, examples

    with errors(as_json):
        found = [example(name)] if name else examples()
        width = min(96, shutil.get_terminal_size((96, 24)).columns)
        data = [one.as_dict() for one in found]
        lines = []
        for one in data:
            lines += [beside(f"{one['name']}: ", one["title"])]
            parts = (one["question"], f"needs: {one['needs']}" if name else one["time"])
            for part in filter(None, parts):
                lines += textwrap.wrap(part, width, initial_indent="    ", subsequent_indent="    ")
        lines += ["", f"copy {'it' if name else 'one'}: cosim new --from {name or 'NAME'}"]
        emit({"scenarios": data}, as_json, "\n".join(lines))
