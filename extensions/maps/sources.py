"""`cosim import osm|stations`: a scenario from a map, and from a table of base stations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cosim.cli.console import Json, errors
from cosim.cli.importing import Force, Out, Strict, finish


def osm(
    source: Annotated[Path, typer.Argument(help="An export of OpenStreetMap: .osm, .osm.gz, .osm.pbf.")],
    out: Out,
    *,
    stations: Annotated[Path | None, typer.Option(help="A table of base stations; default: chosen on roofs.")] = None,
    count: Annotated[int, typer.Option("--most-stations", help="At most so many are chosen.", min=1)] = 64,
    radius: Annotated[float, typer.Option(help="Metres of road around a chosen station.", min=1.0)] = 250.0,
    vehicles: Annotated[int | None, typer.Option(help="Trips; default: four per kilometre of road.", min=1)] = None,
    places: Annotated[
        bool, typer.Option("--to-places", help="Trips end at shops, offices, amenities, sights.")
    ] = False,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import a city: roads, buildings, places for base stations, traffic."""
    with errors(as_json):
        from cosim.extensions.maps.osm import read

        imported = read(source, stations=stations, count=count, radius=radius, vehicles=vehicles, places=places)
        finish(imported, out, force=force, strict=strict, as_json=as_json)


def stations(
    source: Annotated[Path, typer.Argument(help="CSV with latitude and longitude, or JSON with a list of objects.")],
    out: Out,
    users: Annotated[int, typer.Option(help="Devices that stand around the stations.", min=1)] = 100,
    network: Annotated[
        Path | None, typer.Option(help="A network of SUMO with a projection: they are cars on it.")
    ] = None,
    force: Force = False,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Import base stations: latitude, longitude, height, carrier, bandwidth, power, gain, azimuth."""
    with errors(as_json):
        from cosim.extensions.maps.stations import read

        finish(read(source, users=users, network=network), out, force=force, strict=strict, as_json=as_json)
