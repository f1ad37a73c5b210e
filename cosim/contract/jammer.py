"""Jammers, of cells and of Wi-Fi: what authors write at nodes and events, and the truth about them as signals."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from cosim.contract.block import EventKey, NodeKey
from cosim.contract.signals import Column, Signal
from cosim.contract.units import Frequency, Gain, Length, Level, Period, Unit

# why a link is bad: labels of data sets, and answers of detectors
CAUSES = ("none", "jam", "fade", "interference", "overload")

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


JAMMING = Signal("jamming", "truth, no input of a detector: what jammers do to a link", (
    Column("jn_down", "float64", "dB", "jammers over noise at the device, -200 for none"),
    Column("js_down", "float64", "dB", "jammers over signal at the device"),
    Column("loss_down", "float64", "dB", "SINR lost against the same moment without jammers", low=0.0),
    Column("jn_up", "float64", "dB", "jammers over noise at the base station or access point"),
    Column("js_up", "float64", "dB", "jammers over signal at the base station or access point"),
    Column("loss_up", "float64", "dB", "SINR lost in the uplink", low=0.0),
    Column("loss", "float64", "dB", "the greatest loss of either direction, control channels included", low=0.0),
))  # fmt: skip

JAMMER = Signal("jammer", "truth: what a jammer does", (
    Column("on", "bool", "", "it sends"),
    Column("power", "float64", "dBm", "that it sends with, -200 for none"),
))  # fmt: skip

TRUTH = (JAMMING, JAMMER)
