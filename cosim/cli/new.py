"""`cosim new scenario|adapter`: a start that passes its checker as it is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from cosim.cli.console import errors, note
from cosim.contract.errors import SetupError

app = typer.Typer(no_args_is_help=True, help="Make a scenario or an adapter to start from.")

_TEMPLATES = Path(__file__).parent / "templates"
Parent = Annotated[Path | None, typer.Option("--in", help="Folder to make it in.")]


@app.command()
def scenario(
    name: Annotated[str, typer.Argument(help="Its name, for example my-farm.")], parent: Parent = None
) -> None:
    """Make a scenario folder: sensors, an edge node, a cloud and one workload."""
    with errors():
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", name):
            raise SetupError(f"'{name}' is not a scenario name: small letters, digits and '-', for example my-farm")
        folder = _make(parent or Path("scenarios"), name, _TEMPLATES / "scenario", {"name": name})
        note(f"made {folder}; next: cosim check {folder}, then cosim run {folder}")


@app.command()
def adapter(
    name: Annotated[str, typer.Argument(help="Its name, for example weather.")],
    parent: Parent = None,
) -> None:
    """Make an adapter folder that follows the contract, with its test."""
    with errors():
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", name):
            raise SetupError(f"'{name}' is not an adapter name: small letters, digits and '_', for example weather")
        parent = parent or (Path("adapters") if (Path("adapters") / "__init__.py").exists() else Path())
        words = {"name": name, "Name": name.title().replace("_", ""), "package": ".".join([*_package(parent), name])}
        folder = _make(parent, name, _TEMPLATES / "adapter", words)
        if _package(parent):
            note(f"made {folder}; next: pytest {folder}")
        else:
            path = f"PYTHONPATH={shlex.quote(str(parent))}"
            note(f"made {folder}; next: {path} python -m pytest {folder}")
            note(f"in a scenario: '{name}: {{use: {name}:ADAPTER}}', and {path} before cosim")


def _package(parent: Path) -> list[str]:
    """The packages that `parent` is inside of, outermost first."""
    names: list[str] = []
    folder = parent.resolve()
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    return names


def _make(parent: Path, name: str, template: Path, words: dict[str, str]) -> Path:
    folder = parent / name
    if folder.exists():
        raise SetupError(f"{folder} is there already; choose another name or remove it")
    for source in sorted(template.rglob("*.in")):
        target = folder / source.relative_to(template).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(source.read_text(encoding="utf-8")).substitute(words), encoding="utf-8")
    return folder
