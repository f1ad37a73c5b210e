"""What authors write for jammers at nodes and events, and what the adapter reads."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cosim.contract.block import EventKey, NodeKey
from cosim.contract.units import Angle, Frequency, Gain, Length, Level, Period, Unit

Width = Annotated[float, Unit("angle", gt=0.0, le=360.0)]  # deg
Depth = Annotated[float, Unit("gain", ge=0.0)]  # dB

# which keys belong to which patterns
_OF_PATTERN = {
    "on": ("intermittent",),
    "off": ("intermittent",),
    "period": ("sine", "ramp", "square"),
    "depth": ("sine", "ramp", "square", "random"),
    "levels": ("random",),
    "hold": ("random",),
}


class Sector(NodeKey):
    """The pattern of a base station's antenna, 3GPP TR 38.901 table 7.3-1; its `cell` has the peak gain."""

    KEY: ClassVar[str] = "sector"
    azimuth: Angle | None = Field(
        None, description="of the main lobe, clockwise from north; default: the antenna sends alike all around"
    )
    beamwidth: Width = Field(65.0, description="horizontal, at -3 dB; TR 36.814 table A.2.1.1-2 has 70 deg")
    downtilt: Annotated[float, Unit("angle", ge=-90.0, le=90.0)] = Field(
        0.0, description="of the main lobe below the horizon; TR 36.814 has 15 deg for 500 m between sites"
    )
    vertical_beamwidth: Width = Field(65.0, description="at -3 dB, of one element; TR 36.814, a column: 10 deg")
    side_lobes: Depth = Field(30.0, description="the most that is lost off the main lobe vertically; TR 36.814: 20 dB")
    front_to_back: Annotated[float, Unit("gain", gt=0.0)] = Field(
        30.0, description="the most that is lost in any direction; TR 36.814: 25 dB"
    )

    def row(self) -> tuple[float, float, float, float, float, float]:
        """As `cosim.radio.sector.attenuate` takes it."""
        around = self.azimuth is None
        azimuth, width = (0.0, float("inf")) if around else (self.azimuth or 0.0, self.beamwidth)
        return azimuth, width, self.downtilt, self.vertical_beamwidth, self.side_lobes, self.front_to_back

    def mistakes(self) -> list[tuple[str, str]]:
        """Keys that do not fit one another, each with what is wrong."""
        if self.azimuth is None and "beamwidth" in self.model_fields_set:
            return [("beamwidth", "'beamwidth' needs an 'azimuth': without one the antenna sends alike all around")]
        return []


class Jammer(NodeKey):
    """A transmitter that disturbs the radio on its band."""

    KEY: ClassVar[str] = "jammer"
    power: Level = Field(20.0, description="transmit power at its strongest, over its whole band")
    gain: Gain = Field(0.0, description="of its antenna, the same in all directions")
    height: Length = Field(1.5, description="of its antenna above the node's position")
    carrier: Frequency = Field(3.5e9, description="middle of its band")
    bandwidth: Frequency = Field(20e6, description="of its band; its power is spread evenly over it")
    blocks: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] | None = Field(
        None, description="first and last resource block of the band on which all its power is put; default: all"
    )
    target: Literal["band", "ssb", "pdcch", "pucch"] = Field(
        "band", description="everything on its band, or only the synchronisation block, downlink or uplink control"
    )
    pattern: Literal["continuous", "intermittent", "random", "sine", "ramp", "square", "reactive"] = Field(
        "continuous", description="how its power changes over time; reactive: on while there is traffic on its band"
    )
    on: Period = Field(2.0, description="mean time on, for intermittent (exponential)")
    off: Period = Field(5.0, description="mean time off, for intermittent (exponential)")
    period: Period = Field(10.0, description="for sine, ramp and square")
    depth: Depth = Field(20.0, description="from the strongest to the weakest, for sine, ramp, square and random")
    levels: int = Field(4, ge=1, le=100, description="steps of power, for random, besides silence")
    hold: Period = Field(1.0, description="time at each level, for random")
    active: bool = Field(True, description="whether it is on from the start; else an event 'jammer-on' starts it")

    def mistakes(self) -> list[tuple[str, str]]:
        """Keys that do not fit one another, each with what is wrong; blocks are merged before this is known."""
        found = []
        for key, patterns in _OF_PATTERN.items():
            if key in self.model_fields_set and self.pattern not in patterns:
                found.append((key, f"'{key}' belongs to the pattern {' or '.join(patterns)}, not to {self.pattern}"))
        if self.blocks is not None and self.blocks[0] > self.blocks[1]:
            found.append(("blocks", f"the blocks {list(self.blocks)} run backwards"))
        if self.blocks is not None and self.target != "band":
            found.append(("blocks", f"'blocks' belongs to the target band, not to {self.target}"))
        return found


class JammerOn(EventKey):
    """A jammer starts, or goes on with its pattern."""

    NEEDS: ClassVar[str] = "jammer"
    UNDO: ClassVar[str] = "jammer-off"
    do: Literal["jammer-on"]
    power: Level | None = Field(None, description="its power from now on; default: as it was")


class JammerOff(EventKey):
    """A jammer falls silent."""

    NEEDS: ClassVar[str] = "jammer"
    do: Literal["jammer-off"]
