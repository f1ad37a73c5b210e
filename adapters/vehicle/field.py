"""Where a field lies, and the light on it."""

from __future__ import annotations

from collections.abc import Callable

from cosim.adapters.vehicle.config import VehicleConfig
from cosim.contract.entities import Scene
from cosim.contract.geo import LocalFrame
from cosim.physics.vehicles.light import Daylight


def frame_of(scene: Scene) -> LocalFrame | None:
    """The axes of the scenario, if it has a place on the Earth."""
    geo = scene.geo
    return None if geo is None else LocalFrame(geo.latitude, geo.longitude, geo.height)


def light_of(config: VehicleConfig, scene: Scene) -> Callable[[float], float]:
    """Lux on the ground by the time in s. Raises `ValueError` for daylight at no place."""
    part = config.light
    if isinstance(part, float):
        return lambda _time: part
    if scene.geo is None:
        raise ValueError("daylight needs the scenario's origin")
    return Daylight(scene.geo.latitude, scene.geo.longitude, part.begins, part.clouds).at
