"""`cosim adapters` and `cosim schedulers`: what can be named in a scenario."""

from __future__ import annotations

from cosim.cli.console import Json, emit


def adapters(as_json: Json = False) -> None:
    """List the adapters, and what keeps any of them from being used."""
    from cosim.registry import list_adapters

    listings = list_adapters()
    data = [
        {
            "name": item.name,
            "summary": item.kind.summary if item.kind else "",
            "origin": item.kind.origin if item.kind else None,
            "own_process": item.kind.isolated if item.kind else None,
            "ready": not item.problem,
            "problem": item.problem,
        }
        for item in listings
    ]
    width = max((len(item.name) for item in listings), default=0)
    lines = [
        f"{item.name:<{width}}  {item.kind.summary if item.kind else ''}"
        + (f"\n{'':<{width}}  not ready: {item.problem}" if item.problem else "")
        for item in listings
    ]
    emit({"adapters": data}, as_json, "\n".join(lines))


def schedulers(as_json: Json = False) -> None:
    """List the schedulers that `adapters.continuum.scheduler` can name."""
    from cosim.schedulers import list_schedulers

    found = dict(list_schedulers())
    width = max(map(len, found), default=0)
    emit(
        {"schedulers": [{"name": name, "summary": summary} for name, summary in found.items()]},
        as_json,
        "\n".join(f"{name:<{width}}  {summary}" for name, summary in found.items()),
    )
