"""The data card: Croissant metadata (JSON-LD), version 1.0 of MLCommons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cosim.extensions.detection.dataset.recipe import SPLITS, Recipe

_PLAIN = (
    "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty", "fileSet", "format",
    "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references",
    "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
)  # fmt: skip
_CONTEXT: Mapping[str, Any] = {
    "@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/", "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/", "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"}, "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{name: f"cr:{name}" for name in _PLAIN},
}  # fmt: skip
_IDS = {
    "scene": "the run that the row comes from",
    "node": "the node that it is about",
    "time": "end of its window, in s of simulated time",
    "rows": "rows of the node in the window",
    "weight": "how many rows it stands for, since rows like it were drawn; no feature",
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
    *,
    digests: Mapping[str, str],
    licence: str,
    seeds: Sequence[int],
    sources: Sequence[str],
    leak: Mapping[str, Any],
    recorded: Mapping[str, pa.Schema],
    creator: str = "",
    published: str = "",
) -> dict[str, Any]:
    """The metadata of the data set in `folder`.

    `seeds` are those of the runs, `sources` the names of tables, `digests` SHA-256 by file, `recorded` the columns
    of each signal in the runs, with unit and meaning.
    `published` is an ISO date, "" where there is none: the bytes of a card depend on what it is about alone.
    """
    from cosim import version

    author = creator or "continuum-cosim"
    first = {file.partition("/")[0]: file for file in reversed(list(digests))}
    splits = [split for split in SPLITS if split in first]
    files = [
        {
            "@type": "cr:FileObject", "@id": file, "name": file, "contentUrl": file,
            "encodingFormat": "application/x-parquet", "sha256": digest,
        }
        for file, digest in digests.items()
    ]  # fmt: skip
    sets = [
        {
            "@type": "cr:FileSet", "@id": split, "name": split, "includes": f"{split}/*.parquet",
            "encodingFormat": "application/x-parquet",
        }
        for split in splits
    ]  # fmt: skip
    records = [
        {
            "@type": "cr:RecordSet",
            "@id": f"{split}-rows",
            "name": f"{split}-rows",
            "field": [_field(split, field, recipe, recorded) for field in pq.read_schema(folder / first[split])],
        }
        for split in splits
    ]
    return {
        "@context": dict(_CONTEXT),
        "@type": "sc:Dataset",
        "name": name,
        "description": (
            f"{'Simulated w' if seeds else 'W'}indows of {recipe.window:g} s over {', '.join(recipe.signals) or name}; "
            f"label: {recipe.label}{f', {recipe.ahead:g} s later' if recipe.ahead else ''}. "
            f"Splits keep each {recipe.by} together, and no row was assigned by itself."
        ),
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "license": licence,
        "version": "1.0.0",
        "creator": {"@type": "sc:Organization", "name": author},
        "citeAs": f"@misc{{{re.sub(r'[^A-Za-z0-9-]', '', name)}, title = {{{name}}}, author = {{{author}}}}}",
        **({"datePublished": published} if published else {}),
        "keywords": ["simulation", *recipe.signals] if seeds else ["measurement"],
        "rai:dataCollection": (
            f"simulated by continuum-cosim {version()} with the seeds {', '.join(map(str, seeds))}"
            if seeds
            else f"rows of {', '.join(sources)}, prepared by continuum-cosim {version()}"
        ),
        "rai:dataPreprocessingProtocol": f"recipe: {recipe.as_dict()}",
        "rai:dataAnnotationProtocol": f"label rule: {recipe.label}",
        "rai:dataLimitations": f"leakage test: {dict(leak)}",
        "distribution": [*files, *sets],
        "recordSet": records,
    }


def _field(split: str, field: pa.Field, recipe: Recipe, recorded: Mapping[str, pa.Schema]) -> dict[str, Any]:
    name = str(field.name)
    kind = (
        "sc:Text" if pa.types.is_string(field.type) else "sc:Boolean" if pa.types.is_boolean(field.type) else "sc:Float"
    )
    return {
        "@type": "cr:Field",
        "@id": f"{split}-rows/{name}",
        "name": name,
        "description": _meaning(name, recipe, recorded),
        "dataType": kind,
        "source": {"fileSet": {"@id": split}, "extract": {"column": name}},
    }


def _meaning(name: str, recipe: Recipe, recorded: Mapping[str, pa.Schema]) -> str:
    if name == "label":
        return recipe.label
    if name == "truth_cause":
        return f"the first of {'; '.join(recipe.causes)}; truth, no feature"
    if name in _IDS:
        return _IDS[name]
    truth, rest = name.startswith("truth_"), name.removeprefix("truth_")
    words = next((words for end, words in _HOW.items() if rest.endswith(end)), "")
    for signal in sorted(recorded, key=lambda one: -len(one)):
        for column in recorded[signal]:
            plain = f"{signal}_{column.name}"
            if rest in (plain, *(plain + end for end in _HOW)):
                predicted = {key.decode(): text.decode() for key, text in (column.metadata or {}).items()}
                unit = f" ({predicted['unit']})" if predicted.get("unit", "") not in ("", "1") else ""
                what = f"{words} {signal}.{column.name}: {predicted.get('meaning', '')}{unit}".strip()
                return f"{what}; truth, for judging and no feature" if truth else what
    return name
