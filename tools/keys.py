"""Every key of a scenario with unit, bounds, default and meaning: `make schema` writes docs/keys.md.

The page is made of the models that `cosim check` reads a file with. A test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from cosim.contract import registry
from cosim.contract.adapter import AdapterConfig
from cosim.contract.block import OnlyWith
from cosim.contract.quantity import DeclaredQuantity
from cosim.contract.units import DIMENSIONS, Unit, parse, show
from cosim.scenario.model import KindBlock
from cosim.scenario.schema import full_model

HEAD = """# Keys

Every key of a [scenario](write-a-scenario.md), as `cosim check` reads it. A quantity is text with a unit, such as
`20 ms`; its bounds are in the unit named beside it. A key without a default must be given. `cosim schema` writes the
same for editors, and `cosim adapters NAME` lists the keys of one adapter.

A block that stands under a key has a table of its own. Every key may be set by `--set` and [swept](how-to.md); a
calibration may [free](twin.md) all of them but `apiVersion`, `kind`, `name`, `sweep`, `calibrate` and `calibrated`.
Those with a `*` may differ among the runs of one batch, which share a process.
"""
SHARED = {"Kind": KindBlock, "AdapterConfig": AdapterConfig}  # their keys stand there, not with what is based on them
BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def shown(number: float, dimension: str) -> str:
    """A quantity in the unit in which its number is shortest, of several the first."""
    texts = [f"{number / factor:g} {unit}" for unit, factor in DIMENSIONS[dimension].items()] if number else []
    exact = (text for text in texts if parse(text, dimension) == number)
    return min(exact, key=lambda text: text.index(" "), default=show(number, dimension))


def parts(kind: Any) -> Iterator[Any]:  # noqa: ANN401 - a type, or what stands in its brackets
    """`kind` and everything inside its brackets, marks included."""
    yield kind
    for part in get_args(kind):
        yield from parts(part)


def blocks(field: FieldInfo) -> list[type[BaseModel]]:
    """The blocks that stand under a key, in their order."""
    if any(hasattr(mark, "__get_pydantic_core_schema__") for mark in field.metadata):
        return []  # it is written as text
    found = [one for one in parts(field.annotation) if isinstance(one, type) and issubclass(one, BaseModel)]
    return [one for one in dict.fromkeys(found) if not written_as_text(field.annotation, one)]


def written_as_text(kind: Any, block: type[BaseModel]) -> bool:  # noqa: ANN401 - a type
    """Whether `block` is only what a text within `kind` is read to."""
    if get_origin(kind) is Annotated:
        base, *marks = get_args(kind)
        return block in parts(base) and any(hasattr(one, "__get_pydantic_core_schema__") for one in marks)
    return any(written_as_text(part, block) for part in get_args(kind))


def titles(chapters: Mapping[str, type[BaseModel]]) -> dict[type[BaseModel], str]:
    """The blocks of the page in their order, each with a title of its own; `chapters` has their first ones."""
    found: dict[type[BaseModel], str] = {}
    for chapter, first in chapters.items():
        queue = [first]
        while queue:
            block = queue.pop(0)
            if block in found:
                continue
            name = block.__name__.removesuffix("Block")
            found[block] = name if name not in found.values() else f"{name} of {chapter}"
            queue = [one for field in block.model_fields.values() for one in blocks(field)] + queue
    return found


def link(title: str) -> str:
    """A link to a block's table."""
    return f"[{title}](#{title.lower().replace(' ', '-')})"


def value(kind: Any, marks: list[Any], names: Mapping[type[BaseModel], str]) -> str:  # noqa: ANN401 - a type
    """What may be written, in words: dimension and bounds, words, a number."""
    for mark in marks:
        if isinstance(mark, Unit):
            bounds = ((">=", mark.ge), (">", mark.gt), ("<=", mark.le))
            texts = [
                f"{sign} {shown(bound, mark.dimension)}"
                for sign, bound in bounds
                if bound is not None and isfinite(bound)
            ]
            return ", ".join([mark.dimension, *texts])
    origin = get_origin(kind)
    if origin is Annotated:
        base, *inner = get_args(kind)
        return value(base, [*inner, *marks], names)
    if any(hasattr(mark, "__get_pydantic_core_schema__") for mark in marks):
        return str(described(kind, marks).get("description", "text"))
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(value(one, marks, names) for one in get_args(kind) if one is not type(None)))
    if origin is Literal:
        return ", ".join(f"`{json.dumps(one) if not isinstance(one, str) else one}`" for one in get_args(kind))
    if origin in (list, tuple):
        return f"list of {value(get_args(kind)[0], [], names)}"
    if origin is dict:
        return f"name -> {value(get_args(kind)[1], [], names)}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return link(names[kind])
    name = {bool: "true or false", int: "whole number", float: "number", str: "text"}.get(kind, "any")
    if kind in (int, float):
        schema = described(kind, marks)
        name = ", ".join([name, *(f"{sign} {schema[word]:g}" for word, sign in BOUNDS.items() if word in schema)])
    return name


def described(kind: Any, marks: list[Any]) -> dict[str, Any]:  # noqa: ANN401 - a type
    """The JSON schema of a value."""
    return TypeAdapter(Annotated[kind, *marks]).json_schema() if marks else TypeAdapter(kind).json_schema()


def default(field: FieldInfo) -> str:
    """What holds where a key is left out; "" where nothing does."""
    if field.is_required() or field.default is None or isinstance(field.default, BaseModel):
        return ""
    for mark in (one for kind in parts(field.annotation) for one in (kind, *field.metadata)):
        if isinstance(mark, Unit) and isinstance(field.default, float):
            return f"`{shown(field.default, mark.dimension)}`"
    kind = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    text = TypeAdapter(kind).dump_python(field.default, mode="json", by_alias=True)
    return f"`{text if isinstance(text, str) else json.dumps(text)}`" if text not in ("", [], {}) else ""


def rows(block: type[BaseModel], names: Mapping[type[BaseModel], str]) -> list[str]:
    """The lines of a block's table."""
    found = []
    for name, field in block.model_fields.items():
        key = field.alias or name
        marks = [one for one in field.metadata if not isinstance(one, OnlyWith)]
        without = [one.warning(key) for one in field.metadata if isinstance(one, OnlyWith)]
        must = " (required)" if field.is_required() else ""
        words = "; ".join(text for text in (field.description, *without) if text)
        declared = [one for one in parts(field.annotation) if isinstance(one, DeclaredQuantity)]
        star = " \\*" if any(one.batched for one in (*declared, *marks) if isinstance(one, DeclaredQuantity)) else ""
        cells = (f"`{key}`{star}{must}", value(field.annotation, marks, names), default(field), words)
        found.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return found


def page() -> str:
    """The text of docs/keys.md."""
    kinds = {name: registry.adapter_kind(name) for name in registry.adapter_names()}
    chapters = {
        "": full_model(),
        "every adapter": AdapterConfig,
        **{name: kind.load_config() for name, kind in kinds.items()},
    }
    heads = {
        first: f"## Adapter {name}\n\n{kinds[name].summary}.\n" for name, first in chapters.items() if name in kinds
    }
    heads[AdapterConfig] = "## Adapters\n\nEvery key of an adapter, first those that all have.\n"
    names, lines = titles(chapters), [HEAD]
    tables = {title: rows(block, names) for block, title in names.items()}
    for block, title in names.items():
        about = " ".join((block.__doc__ or "").split("\n\n")[0].split())
        lines += ["", heads.get(block, ""), f"### {title}", "", about, ""]
        own = tables[title]
        for base, shared in SHARED.items():
            if issubclass(block, shared) and title != base:
                own = [row for row in own if row not in tables[base]]
                lines += [f"The keys of {link(base)}" + (", and:" if own else "."), ""]
        if own:
            lines += ["| key | value | default | meaning |", "|---|---|---|---|", *own]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")
