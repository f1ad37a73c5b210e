"""Events that send copters to places."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from cosim.adapters.vehicle.config import Place
from cosim.autopilot.geodesy import HIGHEST
from cosim.contract.adapter import Context
from cosim.contract.block import EventKey
from cosim.contract.entities import Scene
from cosim.contract.errors import CosimError


class Go(EventKey):
    """Copters whose missions are `ordered` fly to a place and hover there, or return home."""

    NEEDS: ClassVar[str] = "vehicle"
    do: Literal["go"]
    to: Place | None = Field(
        None,
        description="one copter: [east, north, up] of the origin, without a height 15 m above home; default: home",
    )

    def refusal(self, config: Any, nodes: Sequence[str]) -> str:  # noqa: ANN401 - `VehicleConfig`
        if self.to is not None and len(nodes) > 1:
            return f"{', '.join(nodes)} are sent to one point, at which they collide; write an event for each"
        other = next((name for name in nodes if name not in config.ordered), "")
        return other and f"'{other}' is sent nowhere: write missions: {{{other}: {{ordered: true}}}} in the adapter"

    def unfit(self, config: Any, scene: Scene, nodes: Sequence[str], root: Path) -> str:  # noqa: ANN401
        if self.to is None or len(self.to) < 3:
            return ""
        from cosim.adapters.vehicle.roster import VehicleRoster  # needs numpy

        try:
            roster = VehicleRoster(Context("vehicle", scene, 0.0, 0.0, (0,), str(root), ""), config)
        except CosimError:  # which the check of the adapter reports
            return ""
        x, y, z = self.to
        sea = scene.geo.height if scene.geo else 0.0
        if sea + z > HIGHEST:
            return f"{sea + z:g} m above the sea is out of reach: {HIGHEST:g} m at most"
        for name in nodes:
            land, home = roster.terrain, float(roster.homes[roster.row[name]][2])
            ground = home if land is None else float(land.height(x, y))
            if z <= ground:
                what = "which is as high as its home" if land is None else f"which is at {ground:.2f} m there"
                return f"{z:g} m is not above the ground of '{name}', {what}; heights count from the scenario's origin"
        return ""
