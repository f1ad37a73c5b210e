"""The JSON schema of scenario files, generated from the model and the adapters that are installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from cosim.contract import registry, units
from cosim.contract.block import NAME
from cosim.contract.errors import SetupError
from cosim.scenario.model import Scenario, scenario_with
from cosim.scenario.parameters import NAME as NAME_OF_PARAMETER

Schema = dict[str, Any]  # JSON values

ID = "urn:continuum-cosim:scenario:v1"
PARAMETER = rf"\$\{{{NAME_OF_PARAMETER}\}}"  # a text that has one may become any other when it is put in


def schema() -> Schema:
    """The schema of a scenario file (JSON Schema 2020-12). Adapters that cannot be imported are left out."""
    whole = full_model().model_json_schema(by_alias=True)
    definitions: Schema = whole.pop("$defs", {})
    blocks: Schema = {}
    for name in registry.adapter_names():
        try:
            kind = registry.adapter_kind(name)
            model = kind.load_config()
        except (SetupError, ImportError, AttributeError, TypeError):
            continue  # `cosim adapters` gives the reason
        definitions.update(_definitions(name, model, kind.summary))
        blocks[name] = {"$ref": f"#/$defs/{_ref(name)}"}
    properties: Schema = whole["properties"]
    properties["adapters"] = _adapters(blocks, str(properties["adapters"].get("description", "")), definitions)
    properties["include"] = {
        "description": "files whose keys this file starts from, relative to its folder; its own keys win",
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    }
    required = whole.pop("required")
    for definition in (whole, *definitions.values()):
        _polish(definition)
    for definition in (whole, *definitions.values()):
        _let_parameters_in(definition)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "title": "continuum-cosim scenario",
        **whole,
        # an included file may supply keys that the including one lacks
        "anyOf": [{"required": ["include"]}, {"required": required}],
        "$defs": dict(sorted(definitions.items())),
    }


def full_model() -> type[Scenario]:
    """The model of scenarios with what all installed adapters bring."""
    kinds = [listing.kind for listing in registry.list_adapters() if listing.kind is not None]
    keys = {key: block for kind in kinds for key, block in kind.node_keys().items()}
    events = {do: event for kind in kinds for do, event in kind.event_kinds().items()}
    return scenario_with(tuple(sorted(keys.items())), tuple(events[do] for do in sorted(events)))


def block_schema(name: str) -> Schema:
    """The schema of the block of adapter `name`. Raises `SetupError` when there is no such adapter."""
    kind = registry.adapter_kind(name)
    block: Schema = _definitions(name, kind.load_config(), kind.summary)[_ref(name)]
    _polish(block)
    return block


def _forms(part: Any) -> Iterator[Schema]:  # noqa: ANN401 - JSON values
    """`part` and every schema within it, each before those within it: it may be changed when it comes."""
    if isinstance(part, list):
        for child in part:
            yield from _forms(child)
    if not isinstance(part, dict):
        return
    yield part
    for key, child in part.items():
        if key in ("properties", "patternProperties"):
            for schema_of_key in child.values():
                yield from _forms(schema_of_key)
        elif key not in ("default", "examples", "enum", "const", "required", "propertyNames"):
            yield from _forms(child)


def _polish(whole: Schema) -> None:
    """Write defaults as an author would, and drop titles that only repeat the key."""
    for part in _forms(whole):
        part.pop("title", None)
        dimension = part.pop("x-dimension", None)
        default = part.get("default")
        if dimension and isinstance(default, (int, float)):
            part["default"] = units.show(float(default), dimension)
        elif default is None or isinstance(default, dict):
            part.pop("default", None)  # nothing to show, or shown at the keys inside
        if "patternProperties" in part:
            part.setdefault("additionalProperties", False)


def _let_parameters_in(whole: Schema) -> None:
    """Accept ${NAME} where a value of the form is: what stands for it is looked at when it has been put in."""
    for part in _forms(whole):
        kind = part.get("type")
        if kind == "string" and "pattern" in part:
            part["pattern"] = f"{part['pattern']}|{PARAMETER}"
        elif kind == "string" and "enum" in part:
            part["anyOf"] = [{"enum": part.pop("enum")}, {"pattern": PARAMETER}]
        elif kind in ("integer", "number", "boolean"):
            part["type"], part["pattern"] = [kind, "string"], PARAMETER


def write(path: Path) -> None:
    """Write the schema to `path`; the same adapters give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _ref(name: str) -> str:
    return f"adapter.{name}"


def _definitions(name: str, model: type[BaseModel], summary: str) -> Schema:
    """The configuration model of adapter `name` under names of its own."""
    own = model.model_json_schema(by_alias=True, ref_template=f"#/$defs/{_ref(name)}.{{model}}")
    inner = own.pop("$defs", {})
    own.setdefault("description", summary)
    return {_ref(name): own, **{f"{_ref(name)}.{part}": definition for part, definition in inner.items()}}


def _adapters(blocks: Schema, description: str, definitions: Schema) -> Schema:
    """Blocks named after their adapter, and blocks of any name with the key `use:`."""
    definitions["adapter-by-use"] = {
        "description": "an adapter whose name in the scenario is not that of its kind",
        "type": "object",
        "required": ["use"],
        "properties": {
            "use": {"anyOf": [{"enum": list(blocks)}, {"type": "string", "pattern": f"^{registry.PLACE}$"}]}
        },
        "allOf": [
            {"if": {"properties": {"use": {"const": name}}, "required": ["use"]}, "then": block}
            for name, block in blocks.items()
        ],
    }
    other = {"$ref": "#/$defs/adapter-by-use"}
    return {
        "type": "object",
        "description": description,
        "minProperties": 1,
        "propertyNames": {"pattern": f"^{NAME}$"},
        "properties": {name: {"anyOf": [block, other, {"type": "null"}]} for name, block in blocks.items()},
        "additionalProperties": other,
    }
