"""A mosaik simulator as its author would publish it: rooms that are heated by what stands in them.

In a scenario: `simulator: {python: "cosim.adapters.mosaik.example:Rooms"}`, or as a process of its own:
`simulator: {command: "%(python)s -m cosim.adapters.mosaik.example %(addr)s"}`.
"""

from __future__ import annotations

import math
from typing import Any, cast

import mosaik_api_v3
from mosaik_api_v3.types import CreateResult, Meta

META = {
    "type": "time-based",
    "models": {"Room": {"public": True, "params": ["outside", "inertia"], "attrs": ["heat", "temperature"]}},
}
RISE = 0.15  # K per W: a small, badly aired cabinet


class Rooms(mosaik_api_v3.Simulator):
    """Each room's temperature follows outside + RISE * heat with a time constant (s)."""

    def __init__(self) -> None:
        super().__init__(META)  # type: ignore[no-untyped-call]
        self.rooms: dict[str, dict[str, float]] = {}
        self.time_resolution = 1.0

    def init(self, sid: str, time_resolution: float = 1.0, **sim_params: Any) -> Meta:  # noqa: ANN401
        self.time_resolution = time_resolution
        return self.meta

    def create(  # type: ignore[override]
        self, num: int, model: str, outside: float = 20.0, inertia: float = 600.0
    ) -> list[CreateResult]:
        names = [f"{model}-{len(self.rooms) + k}" for k in range(num)]
        self.rooms |= {name: {"outside": outside, "inertia": inertia, "temperature": outside} for name in names}
        return [cast(CreateResult, {"eid": name, "type": model}) for name in names]

    def step(self, time: int, inputs: dict[str, dict[str, dict[str, float]]], max_advance: int) -> int:
        for name, room in self.rooms.items():
            heat = sum(inputs.get(name, {}).get("heat", {}).values())
            aim = room["outside"] + RISE * heat
            room["temperature"] += (aim - room["temperature"]) * -math.expm1(-self.time_resolution / room["inertia"])
        return time + 1

    def get_data(self, outputs: dict[str, list[str]]) -> dict[str, dict[str, float]]:
        return {name: {attr: self.rooms[name][attr] for attr in attrs} for name, attrs in outputs.items()}


if __name__ == "__main__":
    mosaik_api_v3.start_simulation(Rooms(), configure_logging=False)
