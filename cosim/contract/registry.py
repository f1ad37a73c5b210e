"""Discovery of adapters: by folder in the core, by entry point or module:ATTRIBUTE from extensions and outside.

Names are found without importing anything; an adapter's package is imported when its kind is asked
for. A package that cannot be imported does not break the others: it is listed with the reason.
"""

from __future__ import annotations

import importlib.util
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from cosim.contract.adapter import AdapterKind
from cosim.contract.errors import SetupError
from cosim.contract.functions import attribute_of
from cosim.contract.plugins import installed
from cosim.contract.trust import distrusting

PLACE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"  # module:ATTRIBUTE


@dataclass(frozen=True, slots=True)
class AdapterListing:
    """An adapter as `cosim adapters` shows it: its kind, or why there is none."""

    name: str
    kind: AdapterKind | None
    problem: str = ""


@cache
def _folders() -> tuple[str, ...]:
    folder = Path(__file__).parents[1] / "adapters"
    return tuple(sorted(module.name for module in pkgutil.iter_modules([str(folder)]) if module.ispkg))


def adapter_names() -> tuple[str, ...]:
    """Every adapter that can be named in a scenario, sorted."""
    return tuple(sorted({*_folders(), *installed("adapters")}))


def is_place(name: str) -> bool:
    """Whether `name` is the place of an adapter's description (`my_package.my_adapter:ADAPTER`), not its name."""
    return re.fullmatch(PLACE, name) is not None


def is_foreign(name: str) -> bool:
    """Whether adapter `name` comes from outside this package: from a place, or an installed one."""
    return is_place(name) or (name not in _folders() and name in installed("adapters"))


def adapter_kind(name: str) -> AdapterKind:
    """The description of adapter `name`, or at the place `name`.

    Raises `SetupError` when there is none of that name or its package cannot be imported.
    """
    if is_place(name) and not distrusting():
        target = name
    elif name in _folders():
        target = f"cosim.adapters.{name}:ADAPTER"
    elif name in installed("adapters"):
        target = installed("adapters")[name]
    else:
        raise SetupError(f"there is no adapter '{name}'; installed: {', '.join(adapter_names())}")
    module, _, attribute = target.partition(":")
    try:
        kind = attribute_of(module, attribute or "ADAPTER")
    except ValueError as error:  # it must not take the others along
        raise SetupError(str(error)) from error
    if not isinstance(kind, AdapterKind):
        raise SetupError(f"'{target}' is a {type(kind).__name__}, not an AdapterKind")
    return kind


def engine_command(name: str) -> Callable[..., Sequence[str]]:
    """What makes the command of the link engine `name`: `command(scene, options, seed, installed)`.

    It stands in `adapters/NAME/backend.py`. Raises `SetupError` when there is none.
    """
    module = f"cosim.adapters.{name}.backend"
    try:
        command: Callable[..., Sequence[str]] = importlib.import_module(module).command
    except (ImportError, AttributeError) as error:
        raise SetupError(f"there is no network backend '{name}': {module}.command: {error}") from error
    return command


def beside(name: str, module: str) -> ModuleType | None:
    """The module of that name in the package of the adapter `name`; None if there is none, or no such adapter.

    The place of an adapter is no name here: what a folder of results states is not imported.
    """
    package = f"cosim.adapters.{name}" if name in _folders() else installed("adapters").get(name, "").partition(":")[0]
    try:
        there = bool(package) and importlib.util.find_spec(f"{package}.{module}") is not None
    except ModuleNotFoundError:  # it is not there, or is no package
        there = False
    return importlib.import_module(f"{package}.{module}") if there else None


def list_adapters() -> list[AdapterListing]:
    """All adapters, with what keeps each of them from being used."""
    listings = []
    for name in adapter_names():
        try:
            kind = adapter_kind(name)
        except SetupError as error:
            listings.append(AdapterListing(name, None, str(error)))
        else:
            missing = "; ".join({one.extra: text for one in kind.requires if (text := one.missing())}.values())
            listings.append(AdapterListing(name, kind, missing))
    return listings
