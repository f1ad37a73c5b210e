"""The data card: Croissant metadata (JSON-LD), version 1.0 of MLCommons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cosim.contract.signals import CATALOGUE, Signal
from cosim.dataset.recipe import SPLITS, Recipe

_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "includes": "cr:includes",
    "key": "cr:key",
    "md5": "cr:md5",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_IDS = {
    "scene": "the run that the row comes from",
    "node": "the node that it is about",
    "time": "end of its window, in s of simulated time",
    "rows": "rows of the node in the window",
}
_HOW = {
    "_mean": "mean over the window of",
    "_dev": "standard deviation over the window of",
    "_diff": "difference to the row before of",
}


def croissant(
    folder: Path,
    name: str,
    recipe: Recipe,
    digests: Mapping[str, str],
    licence: str,
    seeds: Sequence[int],
    leak: Mapping[str, Any],
) -> dict[str, Any]:
    """The metadata of the data set in `folder`; `digests` are SHA-256 by file."""
    from cosim import version

    first = next(iter(digests))
    schema = pq.read_schema(folder / first)
    splits = [split for split in SPLITS if any(file.startswith(f"{split}/") for file in digests)]
    files = [
        {
            "@type": "cr:FileObject", "@id": file, "name": file, "contentUrl": file,
            "encodingFormat": "application/vnd.apache.parquet", "sha256": digest,
        }
        for file, digest in digests.items()
    ]  # fmt: skip
    sets = [
        {
            "@type": "cr:FileSet", "@id": split, "name": split, "includes": f"{split}/*.parquet",
            "encodingFormat": "application/vnd.apache.parquet",
        }
        for split in splits
    ]  # fmt: skip
    known = signals()
    records = [
        {
            "@type": "cr:RecordSet",
            "@id": f"{split}-rows",
            "name": f"{split}-rows",
            "field": [_field(split, field, recipe, known) for field in schema],
        }
        for split in splits
    ]
    return {
        "@context": dict(_CONTEXT),
        "@type": "sc:Dataset",
        "name": name,
        "description": (
            f"Simulated windows of {recipe.window:g} s over {', '.join(recipe.signals)}; label: {recipe.label}. "
            f"Splits keep each {recipe.by} together, and no row was assigned by itself."
        ),
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "license": licence,
        "version": "1.0.0",
        "creator": {"@type": "sc:SoftwareApplication", "name": "continuum-cosim", "softwareVersion": version()},
        "keywords": ["simulation", *recipe.signals],
        "rai:dataCollection": f"simulated with the seeds {', '.join(map(str, seeds))}",
        "rai:dataPreprocessingProtocol": f"recipe: {recipe.as_dict()}",
        "rai:dataAnnotationProtocol": f"label rule: {recipe.label}",
        "rai:dataLimitations": f"leakage test: {dict(leak)}",
        "distribution": [*files, *sets],
        "recordSet": records,
    }


def signals() -> dict[str, Signal]:
    """All signals that are known without a scenario: the catalogue, and those that adapters add.

    What an adapter adds by keys that a scenario must give (columns of other programs) is not among them.
    """
    from cosim.contract.registry import list_adapters

    found = dict(CATALOGUE)
    for listing in list_adapters():
        kind = listing.kind
        if kind is not None and not isinstance(kind.signals, tuple):
            model = kind.load_config()
            if any(field.is_required() for field in model.model_fields.values()):
                continue
            configured = model.model_construct()
            for change in ({}, {"log": True}):
                config = configured.model_copy(update=change)
                found |= {signal.name: signal for signal in kind.signals_of(config)}
        elif kind is not None and isinstance(kind.signals, tuple):
            found |= {signal.name: signal for signal in kind.signals}
    return found


def _field(split: str, field: pa.Field, recipe: Recipe, known: Mapping[str, Signal]) -> dict[str, Any]:
    name = str(field.name)
    kind = (
        "sc:Text" if pa.types.is_string(field.type) else "sc:Boolean" if pa.types.is_boolean(field.type) else "sc:Float"
    )
    return {
        "@type": "cr:Field",
        "@id": f"{split}-rows/{name}",
        "name": name,
        "description": _meaning(name, recipe, known),
        "dataType": kind,
        "source": {"fileSet": {"@id": split}, "extract": {"column": name}},
    }


def _meaning(name: str, recipe: Recipe, known: Mapping[str, Signal]) -> str:
    if name == "label":
        return recipe.label
    if name in _IDS:
        return _IDS[name]
    truth, rest = name.startswith("truth_"), name.removeprefix("truth_")
    words = next((words for end, words in _HOW.items() if rest.endswith(end)), "")
    for signal in sorted(known.values(), key=lambda one: -len(one.name)):
        for column in signal.columns:
            plain = f"{signal.name}_{column.name}"
            if rest in (plain, *(plain + end for end in _HOW)):
                unit = f" ({column.unit})" if column.unit not in ("", "1") else ""
                told = f"{words} {signal.name}.{column.name}: {column.meaning}{unit}".strip()
                return f"{told}; truth, for judging and no feature" if truth else told
    return name
