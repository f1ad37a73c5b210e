"""Functions of the user's own, named `module:function` in a scenario.

Their modules may lie beside the scenario file.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cosim.contract.trust import distrusting


class _ScenarioFolder(str):
    """An entry of `sys.path` that stands for a scenario's folder, so that the next scenario can replace it."""

    __slots__ = ()


def lasting_path() -> list[str]:
    """The import path without the folder of a scenario."""
    return [entry for entry in sys.path if not isinstance(entry, _ScenarioFolder)]


def search_in(folder: Path) -> None:
    """Add the scenario's `folder` to the import path, after all installed modules; also in processes started later.

    It replaces the folder of a scenario that was read before, whose modules are forgotten, but for this package and
    what is installed below. An untrusted scenario has no modules.
    """
    if distrusting():
        return
    here = str(folder.resolve())
    former = [entry for entry in sys.path if isinstance(entry, _ScenarioFolder)]
    if former == [here]:
        return
    sys.path[:] = lasting_path()
    for name, module in sys.modules.copy().items():  # at once: threads import
        file, top = getattr(module, "__file__", None) or "", name.partition(".")[0]
        places = [f"{entry}/{top}{end}" for entry in former if entry not in sys.path for end in ("/", ".")]
        if top != "cosim" and file.startswith(tuple(places)):
            del sys.modules[name]
    sys.path.append(_ScenarioFolder(here))
    importlib.invalidate_caches()


def function(target: str, arguments: int | None = None) -> Callable[..., Any]:
    """The function named by `target`, ``module:function``; `arguments` is how many it will be called with.

    Raises `ValueError` with the reason if there is none, or if it takes other arguments.
    """
    module, _, attribute = target.partition(":")
    if re.fullmatch(r"\w+(\.\w+)*", module) is None or module.endswith(".py"):
        name = ".".join(re.findall(r"\w+", module.removesuffix(".py"))) or "module"
        raise ValueError(f"'{target}' cannot be imported: write '{name}:{attribute or 'function'}', not a path")
    if distrusting() and not _comes_with_a_package(target):
        raise ValueError(f"'{target}' is code of a scenario that is not trusted")
    found = attribute_of(module, attribute)
    if not callable(found):
        raise ValueError(f"'{target}' is a {type(found).__name__}, not a function")
    if arguments is not None and not takes(found, arguments):
        raise ValueError(f"'{target}' is called with {arguments} arguments, and takes {inspect.signature(found)}")
    chosen: Callable[..., Any] = found
    return chosen


def _comes_with_a_package(target: str) -> bool:
    """Whether `target` is ours, or stands behind an entry point of a group of ours."""
    from cosim.contract.plugins import settle  # which imports this module

    found = settle().select(value=target)
    return target.startswith("cosim.") or any(point.group.startswith("cosim.") for point in found)


def attribute_of(module: str, name: str) -> Any:  # noqa: ANN401 - whatever the user's module holds
    """What `module` of the user's calls `name`; the module itself for no name. Raises `ValueError` with the reason."""
    try:
        found = importlib.import_module(module)
        return getattr(found, name) if name else found
    except (Exception, SystemExit) as error:  # a module of the user's may fail in any way
        raise ValueError(f"'{f'{module}:{name}'.rstrip(':')}' cannot be imported: {_reason(error, module)}") from error


def takes(called: Callable[..., Any], arguments: int) -> bool:
    """Whether `called` can be called with so many positional arguments; True where that cannot be known."""
    try:
        inspect.signature(called).bind(*range(arguments))
    except TypeError:
        return False
    except ValueError:  # compiled code without a signature
        return True
    return True


def missing_extension(place: str) -> str:
    """The extension that a module, or a `module:name`, is part of, if it is not there; else ""."""
    parts = place.partition(":")[0].split(".")
    if parts[:2] != ["cosim", "extensions"] or (Path(__file__).parents[1] / "extensions" / parts[2]).is_dir():
        return ""
    return parts[2]


def without_extension(place: str) -> str:
    """Why a module, or a `module:name`, cannot be there: it is part of an extension that is not; else ""."""
    extension = missing_extension(place)
    return f"it belongs to the extension '{extension}', which is not there" if extension else ""


def _reason(error: BaseException, module: str) -> str:
    """Why an import failed, and in which line of which file."""
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        missing = f"there is no module '{error.name}' beside the scenario file, installed, or on PYTHONPATH"
        return without_extension(module) or missing
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {error.msg}"
    if isinstance(error, AttributeError) and getattr(error.obj, "__name__", None) == module:
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = (
        "" if last.filename == __file__ or last.filename.startswith("<frozen") else f" ({last.filename}:{last.lineno})"
    )
    return f"{type(error).__name__}: {error}{where}"
