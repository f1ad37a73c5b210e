"""Where things are: the installed SUMO, files inside packages, the cache."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from cosim.contract.environment import inherited, variable
from cosim.contract.errors import Problem, ScenarioError, SetupError
from cosim.contract.extras import how_to_install

PREFIX = "package:"


def package_file(text: str) -> Path:
    """The file that `package:<module>/<path>` names. Raises `ScenarioError` when there is none.

    The module is not imported, and the path cannot lead out of it.
    """
    module, _, inside = text.removeprefix(PREFIX).partition("/")
    try:
        spec = importlib.util.find_spec(module) if module.isidentifier() else None
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ScenarioError(Problem(f"'{text}': there is no installed package '{module}'", hint=_install(module)))
    for folder in spec.submodule_search_locations:
        root = Path(folder).resolve()
        found = (root / inside).resolve()
        if not found.is_relative_to(root):
            raise ScenarioError(Problem(f"'{text}' leads out of the package '{module}'"))
        if found.is_file():
            return found
    raise ScenarioError(Problem(f"'{text}': package '{module}' has no file '{inside}'", hint=_install(module)))


def _install(module: str) -> str:
    extra = how_to_install("sumo")
    return f"another release may have it: {extra} --upgrade" if module == "sumo" else f"is it installed? {extra}"


def home() -> Path | None:
    """SUMO's own folder: `SUMO_HOME`, else the installed package, else None."""
    if variable("SUMO_HOME"):
        return Path(variable("SUMO_HOME"))
    spec = importlib.util.find_spec("sumo")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def binary(name: str) -> Path:
    """The program `name` (sumo, sumo-gui, duarouter, ...). Raises `SetupError` when there is none.

    The one of the installed package comes first: it is of the same release as libsumo.
    """
    spec = importlib.util.find_spec("sumo")
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    if (other := home()) is not None:
        folders.append(other)
    for folder in folders:
        for candidate in (folder / "bin" / name, folder / "bin" / f"{name}.exe"):
            if candidate.is_file():
                return candidate
    found = shutil.which(name)
    if found is None:
        raise SetupError(f"the program '{name}' of SUMO is not installed: {how_to_install('sumo')}")
    return Path(found)


def environment() -> dict[str, str]:
    """The environment for SUMO's programs: ours, with `SUMO_HOME` set where it was not."""
    found = home()
    return inherited(**({"SUMO_HOME": str(found)} if found is not None else {}))
