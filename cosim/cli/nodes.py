"""`cosim nodes`: the live nodes of a run under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cosim.cli.console import Json, emit, errors, table
from cosim.contract import environment


def nodes(
    where: Annotated[
        str, typer.Argument(metavar="[RUN|ADDRESS]", help="A run's folder or its control address; default: the newest.")
    ] = "",
    evict: Annotated[
        str, typer.Option(metavar="NAME", help="Take the slot from NAME's machine until the run ends.")
    ] = "",
    as_json: Json = False,
) -> None:
    """List the live nodes of a run under way: who is there, since when, clock offset, load and links."""
    from cosim.talk import control

    with errors(as_json):
        address, token = control.find(where, environment.text("COSIM_LIVE_TOKEN"), control.LIVE)
        if evict:
            answer = control.command(address, token, "evict", node=evict)
            emit(answer, as_json, f"{evict} is evicted until the run ends")
            return
        answer = control.command(address, token, "nodes")
        emit(answer, as_json, lambda: _table(answer))


def _table(answer: Mapping[str, Any]) -> str:
    rows = [
        ("node", "state", "since", "offset", "round trip", "load", "tasks", "shaped", ""),
        *map(_row, answer["nodes"]),
    ]
    return "\n".join([f"gateway at {answer['address']}", *table(rows)])


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["name"], row["state"], _time(row["since"]), _time(row["offset"], sign=True), _time(row["round_trip"]),
        "" if row["cpu"] is None else f"{row['cpu']:.0%}", str(row["tasks"]), _shaped(row),
        row["detail"] or row["unshaped"],
    )  # fmt: skip


def _shaped(row: Mapping[str, Any]) -> str:
    """How many links are as they should be, of how many; nothing where the scenario shapes none."""
    if row["shaping"] is None or not row["wished"]:
        return ""
    return "not allowed" if row["shaping"] == "none" else f"{row['shaped']} of {row['wished']}"


def _time(seconds: float | None, *, sign: bool = False) -> str:
    if seconds is None:
        return ""
    plus = "+" if sign else ""
    if abs(seconds) < 1:
        return f"{seconds * 1e3:{plus}.1f} ms"
    return f"{seconds:{plus}.1f} s" if abs(seconds) < 600 else f"{seconds / 60:{plus}.0f} min"
