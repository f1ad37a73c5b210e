"""Names of a package that are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def on_demand(package: str, **modules: str) -> Callable[[str], Any]:
    """The `__getattr__` of a `package` whose modules have names: ``hardware="Quota NodeBattery"``."""
    places = {name: module for module, names in modules.items() for name in names.split()}

    def found(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
        if name not in places:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f"{package}.{places[name]}"), name)

    return found
