"""The `cosim` command: one file per verb, imported lightly so that help appears at once."""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, NoReturn

# Its scan for plug-ins reads the metadata of every installed package.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

import typer

from cosim.cli.progress import LOADING

# Each command and where it is; those that are groups of commands have a `typer.Typer` there.
_ELSEWHERE = {
    "live-key": "attach:live_key", "adapters": "listing:adapters", "schedulers": "listing:schedulers",
    "scenarios": "listing:scenarios", "import": "importing:app", "export": "exporting:app", "new": "new:app",
}  # fmt: skip
_COMMANDS = {name: _ELSEWHERE.get(name, f"{name}:{name}") for name in (
    "check", "plan", "run", "view", "command", "shell", "render", "report", "compare", "sweep", "size", "figure",
    "calibrate", "predict", "whatif", "attach", "live-key", "nodes", "adapters", "schedulers", "scenarios", "schema",
    "doctor", "import", "export", "new",
)}  # fmt: skip
_GROUPS = {"import": "importers", "export": "exporters"}  # commands whose own are entry points
_PATIENCE = 10.0  # s


def _version(wanted: bool) -> None:
    if wanted:
        from cosim import version

        typer.echo(f"continuum-cosim {version()}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Options of the command itself."""


def _is_command(name: str) -> bool:
    if name in _COMMANDS:
        return True
    from cosim.contract.plugins import installed

    return name in installed("commands")


def _add(app: typer.Typer, name: str, kind: str = "commands", brief: bool = False) -> None:
    """Add the command `name`, ours or that of an installed package; one that is not there fails with the reason.

    One that is `brief` has its line in the list of commands, and no more.
    """
    if kind == "commands" and name in _COMMANDS:
        module, _, attribute = _COMMANDS[name].partition(":")
        found = getattr(import_module(f"cosim.cli.{module}"), attribute)
    else:
        from cosim.contract import plugins
        from cosim.contract.errors import SetupError

        try:
            found = plugins.load(kind, name)
        except SetupError as error:
            settings, reason = {"ignore_unknown_options": True}, f"Not there: {error}"
            app.command(name, help=reason, short_help=reason, context_settings=settings)(_absent(error))
            return
    if brief:
        app.command(name, short_help=_line(found))(options)
        return
    if kind == "commands" and name in _GROUPS:
        from cosim.contract.plugins import installed

        for one in installed(_GROUPS[name]):
            _add(found, one, _GROUPS[name])
    if isinstance(found, typer.Typer):
        for command in found.registered_commands:
            command.short_help = _line(command.callback)
        app.add_typer(found, name=name)
    else:
        app.command(name, short_help=_line(found))(found)


def _line(command: object) -> str:
    """What a list of commands says of one, whole: a short help of its own is not cut off."""
    return str(command.info.help if isinstance(command, typer.Typer) else command.__doc__).partition("\n\n")[0]


def _absent(reason: Exception) -> Callable[..., None]:
    """A command that takes any words and fails with `reason`."""

    def absent(words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:  # noqa: ARG001
        from cosim.cli.console import errors

        with errors():
            raise reason

    return absent


def _app(names: Iterable[str], brief: bool = False) -> typer.Typer:
    """The command line with these commands; what a command declares is read when it is in, unless it is `brief`."""
    app = typer.Typer(
        name="cosim",
        help="Co-simulation of the drone-edge-cloud continuum: check, run, report and compare scenarios.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # rich takes as long to load as numpy
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    for name in names:
        _add(app, name, brief=brief)
    return app


@cache
def _whole(brief: bool = False) -> typer.Typer:
    from cosim.contract.plugins import installed

    return _app((*_COMMANDS, *(name for name in installed("commands") if name not in _COMMANDS)), brief)


def __getattr__(name: str) -> typer.Typer:
    """`app`, the command line with all commands."""
    if name != "app":
        raise AttributeError(f"module 'cosim.cli.main' has no attribute '{name}'")
    return _whole()


def main() -> None:
    """Entry point of the console script.

    A command loads some hundred thousand objects that stay. Python's cycle collector would look at them again
    and again while they are loaded, and taking them apart at the end, one by one, frees nothing that the end
    of the process does not: together a quarter of a short run's time. A run sets what it has loaded aside (see
    `cosim.cli.progress`), so that no collection stops it for long.
    """
    gc.set_threshold(LOADING, 20, 20)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started this
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - stays open
    asked = sys.argv[1:2]  # one command needs no other; help, completion and misspelt names need all
    alone = bool(asked) and _is_command(asked[0])
    app = _app(asked) if alone else _whole(brief=sys.argv[1:] in ([], ["-h"], ["--help"]))
    try:
        if "--json" in sys.argv:
            sys.exit(_in_json(app))
        app()
    except SystemExit as ending:
        if isinstance(ending.code, str):
            raise
        _leave(ending.code or 0)


def _in_json(app: typer.Typer) -> int:
    """Run a command that prints JSON, wrong words behind it included; the exit code."""
    try:
        return int(app(standalone_mode=False) or 0)
    except Exception as error:
        message = getattr(error, "format_message", None)  # what typer's errors of usage have, in any version
        if message is None:
            raise
        typer.echo(json.dumps({"error": {"type": type(error).__name__, "message": message()}}, indent=2))
        return 2


def _leave(status: int) -> NoReturn:
    """End the process as Python does, threads waited for and exit functions run, without freeing its objects.

    A thread that a simulator has forgotten to end is waited for in vain, so not longer than `_PATIENCE`.
    """
    late = threading.Timer(_PATIENCE, _end, (status, True))
    late.daemon = True
    with suppress(RuntimeError):  # the system gives no further threads
        late.start()
    with suppress(KeyboardInterrupt):  # Ctrl-C now asks for the end that comes anyway
        threading._shutdown()  # type: ignore[attr-defined]
    late.cancel()
    _end(status, False)


def _end(status: int, late: bool) -> NoReturn:
    if late:
        names = ", ".join(one.name for one in threading.enumerate()[1:] if not one.daemon)
        with suppress(OSError, ValueError):
            typer.echo(f"warning: not waited for threads that do not end: {names}", err=True)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # closed, or without a reader
            status = status or 1
    os._exit(status)


if __name__ == "__main__":
    main()
