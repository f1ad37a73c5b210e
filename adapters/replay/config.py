"""The `replay` block of a scenario."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from cosim.contract import units
from cosim.contract.adapter import AdapterConfig, InputFile
from cosim.contract.trust import Words

Quantity = Literal["time", "id", "x", "y", "z", "speed", "heading", "lat", "lon", "height"]


class ReplayConfig(AdapterConfig):
    """Which file, and how its samples become positions at the steps of the run."""

    file: Annotated[str, InputFile()] = Field(
        min_length=1,
        description="FCD as .xml, .csv or .parquet, a table, or a flight's log as .ulg, .tlog or .bin",
    )
    interpolate: bool = Field(True, description="linear between samples; false: the last sample holds")
    gap: units.Period | None = Field(
        None, description="a member is absent between samples farther apart than this; default: never"
    )
    offset: Annotated[float, units.Unit("time")] = Field(
        0.0, description="time in the file at which the run starts: 7 h starts at second 25200 of the file"
    )
    speed_up: float = Field(1.0, gt=0.0, le=1e6, description="seconds of the file per simulated second")
    loop: bool = Field(False, description="start again after the last sample, with new members")
    coordinates: Literal["local", "lon-lat"] = Field(
        "local", description="of x and y: m in the scenario's frame, or degrees (SUMO's --fcd-output.geo)"
    )
    columns: dict[Quantity, Words] = Field(
        {}, description="column of the file for a quantity, where it has a name of its own"
    )
    memory: Annotated[float, units.Unit("bytes", gt=0.0)] = Field(
        2e9, description="most memory that the samples may take; a larger file is refused"
    )
