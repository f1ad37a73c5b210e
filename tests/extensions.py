"""What a test needs of the folder `extensions`: it is skipped, with the extension's name, where that is not there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from cosim.contract.functions import missing_extension
from cosim.contract.plugins import installed

PLACES = [
    place for kind in ("adapters", "agents", "calibrations", "jobs", "schedulers") for place in installed(kind).values()
]


def needs(*names: str) -> pytest.MarkDecorator:
    """The mark of what needs these extensions."""
    return pytest.mark.needs(*(f"extensions/{name}" for name in names))


# The mark of what looks at all names that scenarios may use, as their schema does.
needs_all = needs(*sorted({place.split(".")[2] for place in PLACES if place.startswith("cosim.extensions.")}))


def named(kind: str, names: Iterable[str]) -> list[Any]:
    """Parameters, each a name that may be one of the entry-point group ``cosim.KIND``."""
    return [_marked(name, missing_extension(installed(kind).get(name, ""))) for name in names]


def scenarios(*names: str) -> list[Any]:
    """Parameters, each the name of a scenario that comes with a package."""
    return named("scenarios", names)


def _marked(name: str, extension: str) -> Any:
    return pytest.param(name, marks=needs(extension) if extension else ())


def skip_without_packages(text: str) -> None:
    """Skip the test where a package that the check of this scenario needs is missing."""
    for key, package in (("sumo:", "sumo"), ("mlsysops:", "pandas")):
        if key in text:
            pytest.importorskip(package)
