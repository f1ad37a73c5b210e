"""`cosim command`: give a command to a run under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cosim.cli.console import Json, beside, emit, errors
from cosim.contract import environment
from cosim.contract.errors import Problem, SetupError

_NAMED = 12  # nodes in a line


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND] [VALUE]... [KEY=VALUE]...",
            help="A command, and its values: those that it needs in their order or by their keys, others by their "
            "keys. Default: list the commands that the run takes.",
        ),
    ] = None,
    run: Annotated[
        str,
        typer.Option(metavar="RUN|ADDRESS", help="A run's folder, or where it takes commands; default: the newest."),
    ] = "",
    token: Annotated[
        str | None, typer.Option(help="The run's token; default: COSIM_TOKEN, or that in the run's folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Give a command to a run that was started with --control: an event of its scenario, or pause, pace, stop."""
    from cosim.talk import control

    with errors(as_json):
        address, known = control.find(run, environment.text("COSIM_TOKEN"))
        secret = (known if token is None else token).strip()
        verb, *values = words or ["commands"]
        asked: dict[str, Any] = {}
        if values:
            takes = control.command(address, secret, "commands")["commands"].get(verb, {"keys": {}})["keys"]
            asked = _values(verb, values, [key for key, one in takes.items() if one["needed"]])
        answer = control.command(address, secret, verb, **asked)
        emit(answer, as_json, lambda: _listed(answer["commands"]) if "commands" in answer else _where(answer))


def _values(verb: str, words: list[str], needed: list[str]) -> dict[str, Any]:
    """The arguments that `words` are: `KEY=VALUE` as in a scenario, and values of the needed keys in their order."""
    from cosim.scenario.reading import read_text
    from cosim.scenario.tree import plain

    found: dict[str, Any] = {}
    named = {word.partition("=")[0] for word in words if "=" in word}
    free = [key for key in needed if key not in named]
    for word in words:
        key, equals, text = word.partition("=")
        if not equals and not free:
            keys = ", ".join(f"{key}=…" for key in needed) or "KEY=VALUE"
            raise SetupError(f"'{verb}' has no place for '{word}': write {keys}")
        key, text = (key, text) if equals else (free.pop(0), word)
        if key in found:
            raise SetupError(f"'{key}' is given twice")
        problems: list[Problem] = []
        item = read_text(text, None, problems)
        found[key] = text if item is None or problems else plain(item)
    return found


def _where(answer: Mapping[str, Any]) -> str:
    pace = f"{answer['factor']:g} x" if answer["factor"] else "as fast as possible"
    state = ", stopping" if answer["stopping"] else ", paused" if answer["paused"] else ""
    place = f"{answer['time']:g} s of {answer['duration']:g} s, {pace}{state}"
    event = answer.get("event")
    if event is None:
        return place
    names = "/".join(map(_some, event["link"])) or _some(event["nodes"])
    return f"{event['do']}{f' at {names}' if names else ''} with the next step ({place})"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _listed(commands: Mapping[str, Any]) -> str:
    lines = []
    for verb, about in commands.items():
        lines.append(beside(f"{verb:<16}", about["meaning"]))
        for key, one in about["keys"].items():
            lines.append(beside(f"  {key:<14}", one["meaning"] + (" (needed)" if one["needed"] else "")))
    return "\n".join(lines)
