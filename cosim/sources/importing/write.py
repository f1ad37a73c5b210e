"""Write an imported scenario: all of its files or none, and only if it passes the checks."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from cosim.contract.errors import ScenarioError, SetupError
from cosim.sources.importing.imported import Imported

FILE = "scenario.cosim.yaml"


def target_of(out: Path) -> Path:
    """The scenario file that `out` means: itself when it ends in .yaml or .yml, else a file in that folder."""
    return out if out.suffix in (".yaml", ".yml") else out / FILE


def write_scenario(out: Path, imported: Imported, *, force: bool = False) -> Path:
    """Write `imported` to `out` and return the path of the scenario file.

    Everything is written to a temporary folder first and loaded from there, then moved into place.
    Raises `SetupError` when a file is there already and `force` is not set, or the folder cannot
    be written, and `ScenarioError` when the scenario does not pass the checks of `cosim check`.
    """
    target = target_of(out)
    names = {target.name: target, **{name: target.parent / name for name in imported.beside}}
    there = [path for path in names.values() if path.exists()]
    if there and not force:
        raise SetupError(f"{there[0]} is there already; choose another --out, or replace it with --force")
    try:
        made = _make(target.parent)
        try:
            _fill(target, imported, names)
        except BaseException:
            for folder in made:  # innermost first; only what this call made and left empty
                folder.rmdir()
            raise
    except OSError as error:
        raise SetupError(f"{target} cannot be written: {error}") from error
    return target


def _make(folder: Path) -> list[Path]:
    """Make `folder`; the folders that were missing, innermost first."""
    missing = []
    at = folder
    while not at.exists():
        missing.append(at)
        at = at.parent
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _fill(target: Path, imported: Imported, names: dict[str, Path]) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=".import-", dir=target.parent))
    try:
        (scratch / target.name).write_text(imported.text, encoding="utf-8")
        for name, write in imported.beside.items():
            write(scratch / name)
        _check(scratch / target.name, target)
        for name, path in names.items():
            (scratch / name).replace(path)
    finally:
        shutil.rmtree(scratch)


def _check(file: Path, target: Path) -> None:
    """Load the scenario in `file`; mistakes are reported as of `target`."""
    from cosim.scenario.load import load

    try:
        load(file)
    except ScenarioError as error:
        raise ScenarioError(
            [replace(problem, file=target if problem.file == file else problem.file) for problem in error.problems]
        ) from error
