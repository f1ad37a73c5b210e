"""What installed packages add to this one, by entry points: names, and where the objects behind them are.

Each kind has a group of its own, and the extensions that come with this package use them as others do:

    cosim.adapters      what can be named under `adapters`: `module:ADAPTER`, an `AdapterKind`
    cosim.agents        policies made of files: a module, see `cosim.schedulers.of_files`
    cosim.calibrations  methods of `calibrate.method`: `module:function`, see `cosim.twin.fitting.methods`
    cosim.claims        tables and figures of sources: a package with a `claims.toml`, see the extension `reproduce`
    cosim.commands      verbs of the command line: `module:name` of a function, or of a `typer.Typer`
    cosim.environments  learning environments `cosim/NAME`: `module:Class`, a `gymnasium.Env`
    cosim.exporters     formats of `cosim export`: `module:function`, a command of typer
    cosim.importers     sources of `cosim import`: `module:function`, a command of typer
    cosim.jobs          `calibrate.job`: a module with `problems` and `SETTINGS`, see `cosim.twin.jobs`
    cosim.models        models that schedulers decide for: `module:name` of a `cosim.schedulers.ScheduledModel`
    cosim.scenarios     scenarios to run and to copy: a package with the folder `scenarios/NAME`
    cosim.schedulers    schedulers and policies: `module:name`, see `cosim.schedulers`
    cosim.vector_environments  many environments `cosim/NAME` at once: `module:Class`, a `gymnasium.vector.VectorEnv`
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.errors import SetupError
from cosim.contract.functions import attribute_of, lasting_path

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


@cache
def settle() -> EntryPoints:
    """What is installed, as it was at the first call: packages beside a scenario are none."""
    from importlib.metadata import EntryPoints, distributions  # takes long, and most scenarios name none of these

    points = [point for one in distributions(path=lasting_path()) for point in one.entry_points]
    return EntryPoints({(point.group, point.name): point for point in reversed(points)}.values())


@cache
def installed(kind: str) -> Mapping[str, str]:
    """The names in the group ``cosim.KIND``, sorted, and where each is. Nothing is imported."""
    return {point.name: point.value for point in sorted(settle().select(group=f"cosim.{kind}"))}


def folder_of(package: str) -> Path | None:
    """The folder of an installed `package`, which is not imported; None where it is not there."""
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:  # nor is the package that it is part of
        return None
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


@cache
def load(kind: str, name: str) -> Any:  # noqa: ANN401 - each kind has objects of its own
    """The object of that name in the group ``cosim.KIND``: an attribute, or a whole module.

    Raises `SetupError` if it cannot be imported, with the missing extension if it is part of one.
    """
    module, _, attribute = installed(kind)[name].partition(":")
    try:
        return attribute_of(module, attribute)
    except ValueError as error:
        raise SetupError(str(error)) from error
