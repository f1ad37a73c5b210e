"""`cosim new scenario|adapter`: a start that passes its checker as it is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from cosim.cli.console import errors, note
from cosim.contract.errors import SetupError

app = typer.Typer(invoke_without_command=True, help="Make a scenario or an adapter to start from.")

_TEMPLATES = Path(__file__).parent / "templates"
Parent = Annotated[Path | None, typer.Option("--in", help="Folder to make it in.")]
_NAME = r"[a-z0-9][a-z0-9-]{0,62}"


@app.callback()
def new(
    context: typer.Context,
    source: Annotated[str | None, typer.Option("--from", help="A scenario of `cosim scenarios` to copy.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Of the copy; default: that of the scenario.")] = None,
    parent: Parent = None,
) -> None:
    """Make a scenario or an adapter to start from."""
    if context.invoked_subcommand is not None:
        what = context.invoked_subcommand
        with errors():
            if source or name:
                raise SetupError(f"{'--from' if source else '--name'} is for copies: leave it out, or '{what}'")
            if parent:
                raise SetupError(f"--in stands behind the name: cosim new {what} NAME --in {shlex.quote(str(parent))}")
        return
    if source is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    with errors():
        from cosim.scenario.gallery import copy, example

        one = example(source)
        name = _scenario_name(name or source)
        folder = (parent or Path("scenarios")) / name
        copy(one, folder, name)
        if one.needs:
            note(f"needs: {one.needs}")
        note(f"made {folder}; next: cosim run {folder}")


def _scenario_name(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise SetupError(f"'{name}' is not a scenario name: small letters, digits and '-', for example my-farm")
    return name


@app.command()
def scenario(
    name: Annotated[str, typer.Argument(help="Its name, for example my-farm.")], parent: Parent = None
) -> None:
    """Make a scenario folder: sensors, an edge node, a cloud and one workload."""
    with errors():
        from cosim.scenario.gallery import editor_line

        parent = parent or Path("scenarios")
        _absent(parent / _scenario_name(name))
        words = {"name": name, "schema": editor_line(parent)}
        folder = _make(parent, name, _TEMPLATES / "scenario", words)
        note(f"made {folder}; next: cosim check {folder}, then cosim run {folder}")


@app.command()
def adapter(
    name: Annotated[str, typer.Argument(help="Its name, for example weather.")],
    parent: Parent = None,
) -> None:
    """Make an adapter folder that follows the contract, with its test."""
    with errors():
        from cosim.contract.registry import adapter_names

        if iskeyword(name):
            raise SetupError(f"'{name}' is a word of Python; take another name, for example weather")
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", name):
            raise SetupError(f"'{name}' is not an adapter name: small letters, digits and '_', for example weather")
        if name in adapter_names():
            raise SetupError(f"there is an adapter '{name}' already; take another name, for example weather")
        parent = parent or (Path("adapters") if (Path("adapters") / "__init__.py").exists() else Path())
        taken = None if _package(parent) else find_spec(name)
        if taken is not None and taken.origin is not None:  # a folder without __init__.py has none
            raise SetupError(f"there is a Python module '{name}' already, and imports would find one of both; "
                             "take another name, for example weather")  # fmt: skip
        words = {"name": name, "Name": name.title().replace("_", ""), "package": ".".join([*_package(parent), name])}
        folder = _make(parent, name, _TEMPLATES / "adapter", {**words, **_imports(words, parent)})
        if _package(parent):
            note(f"made {folder}; next: pytest {folder}")
        else:
            path = f"PYTHONPATH={shlex.quote(str(parent))}"
            note(f"made {folder}; next: {path} python -m cosim.testing {name}, or, with pytest, {path} pytest {folder}")
            note(f"in a scenario: '{name}: {{use: {name}:ADAPTER}}', and {path} before cosim")


def _imports(words: Mapping[str, str], parent: Path) -> dict[str, str]:
    """The imports in the order that linters want: cosim is one's own package in this repository, else another's."""
    package = words["package"]
    own = f"from {package}.config import {words['Name']}Config\n"
    adapter, check = f"from {package} import ADAPTER\n", "from cosim.testing import check_adapter\n"
    field = "from pydantic import Field\n"
    if (parent.resolve().parent / "cosim" / "contract").is_dir() and _package(parent):
        first = {"gap": "\n", "own_first": own, "own_last": "", "pydantic_first": f"{field}\n", "pydantic_last": ""}
        return {**first, "test_imports": adapter + check}
    last = {"gap": "", "own_first": "", "own_last": f"\n{own}", "pydantic_first": "", "pydantic_last": field}
    return {**last, "test_imports": f"{check}\n{adapter}"}


def _package(parent: Path) -> list[str]:
    """The packages that `parent` is inside of, outermost first."""
    names: list[str] = []
    folder = parent.resolve()
    while (folder / "__init__.py").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    # Those beside the package in a checkout are in it.
    return ["cosim", *names] if names and (folder / "cosim" / names[0]).is_dir() else names


def _make(parent: Path, name: str, template: Path, words: dict[str, str]) -> Path:
    folder = _absent(parent / name)
    for source in sorted(template.rglob("*.in")):
        target = folder / source.relative_to(template).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(Template(source.read_text(encoding="utf-8")).substitute(words), encoding="utf-8")
    return folder


def _absent(folder: Path) -> Path:
    if folder.exists():
        raise SetupError(f"{folder} is there already; choose another name or remove it")
    return folder
