"""What authors write for antennas at nodes, and what the adapter reads."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from cosim.contract.block import NodeKey
from cosim.contract.jammer import Depth
from cosim.contract.units import Angle, Unit

Width = Annotated[float, Unit("angle", gt=0.0, le=360.0)]  # deg


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
        """As `cosim.physics.radio.sector.attenuate` takes it."""
        around = self.azimuth is None
        azimuth, width = (0.0, float("inf")) if around else (self.azimuth or 0.0, self.beamwidth)
        return azimuth, width, self.downtilt, self.vertical_beamwidth, self.side_lobes, self.front_to_back

    def mistakes(self) -> list[tuple[str, str]]:
        """Keys that do not fit one another, each with what is wrong."""
        if self.azimuth is None and "beamwidth" in self.model_fields_set:
            return [("beamwidth", "'beamwidth' needs an 'azimuth': without one the antenna sends alike all around")]
        return []
