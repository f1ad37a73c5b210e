"""The YAML block of the SUMO adapter."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from cosim.adapters.sumo.inputs import acts
from cosim.contract import units
from cosim.contract.adapter import AdapterConfig, InputFile
from cosim.contract.block import Block
from cosim.contract.trust import Trusted, Words
from cosim.contract.units import Distance, Duration, Length, Period

_WRITES = "has SUMO read and write any files"
_LISTENS = "has SUMO listen on a port"

OWN_OPTIONS = {
    "begin": "begin", "scale": "scale", "seed": "seed", "time-to-teleport": "teleport", "net-file": "network",
    "route-files": "routes", "additional-files": "additional", "configuration-file": "config",
    "step-length": "resolution", "log": "", "remote-port": "", "num-clients": "", "no-step-log": "", "end": "",
    "random": "seed", "abs-rand": "seed", "srand": "seed",
}  # fmt: skip
"""SUMO options that `options` must not hold, and the key of ours to use instead ("" for none)."""


def _read_teleport(value: object) -> object:
    return -1.0 if value == "never" else value if isinstance(value, float) else units.parse(value, "time")


Teleport = Annotated[
    float,
    BeforeValidator(_read_teleport),
    PlainSerializer(lambda s: "never" if s < 0 else units.show(s, "time"), return_type=str),
    WithJsonSchema({"type": "string", "examples": ["never", "120 s"]}),
]


class Demand(Block):
    """Traffic that is generated on first use and kept in the cache.

    Trips start and end on the network's largest part in which every passenger car can get from
    everywhere to everywhere, on edges drawn by their length in lanes. A trip calls at further drawn
    places until its crow-fly length reaches `distance`; the routes are the shortest in free flow.
    """

    vehicles: int = Field(ge=1, le=1_000_000, description="trips in all")
    over: Period = Field(600.0, description="departures are drawn evenly from this span, from `begin` on")
    distance: Distance = Field(2000.0, description="least crow-fly length of a trip, by further places to call at")
    seed: int = Field(1, ge=0, lt=2**32, description="of the trips; the run's seed does not change them")


class Region(Block):
    """The part of the scene whose vehicles are members of the fleet, in the scenario's coordinates."""

    center: Annotated[list[Length], Field(min_length=2, max_length=2)] | None = Field(None, description="east, north")
    radius: Distance | None = Field(None, description="around the center")
    box: Annotated[list[Length], Field(min_length=4, max_length=4)] | None = Field(
        None, description="west, south, east, north"
    )

    @model_validator(mode="after")
    def _one_shape(self) -> Region:
        if (self.center is None) != (self.radius is None) or (self.center is None) == (self.box is None):
            raise ValueError("give either 'center' and 'radius', or 'box: [west, south, east, north]'")
        if self.box is not None and not (self.box[0] < self.box[2] and self.box[1] < self.box[3]):
            raise ValueError("the box is empty; its order is west, south, east, north")
        return self


class SumoConfig(AdapterConfig):
    """What SUMO simulates and which of its vehicles join the fleet."""

    config: Annotated[str | None, InputFile(), Trusted(_WRITES)] = Field(
        None, description=".sumocfg file; package:<module>/<path> for one inside a package"
    )
    network: Annotated[str | None, InputFile(unsafe=acts)] = Field(
        None, description=".net.xml[.gz] file, when there is no `config`"
    )
    routes: Annotated[list[str] | str, InputFile(unsafe=acts)] = Field([], description="files with routes and trips")
    additional: Annotated[list[str] | str, InputFile(), Trusted(_WRITES)] = Field(
        [], description="additional files: stops, signals, detectors"
    )
    demand: Demand | None = Field(None, description="traffic generated on `network`, besides that of `routes`")
    server: Annotated[str | None, Field(pattern=r"^[^:\s]+:\d{1,5}$"), Trusted("connects to a program elsewhere")] = (
        Field(None, description="host:port of a SUMO that runs already (sumo --remote-port); it keeps its own options")
    )
    gui: Annotated[bool, Trusted(_LISTENS)] = Field(
        False, description="show SUMO's own window; slower, since it is driven over TraCI"
    )
    interface: Annotated[Literal["auto", "libsumo", "traci"], Trusted(_LISTENS)] = Field(
        "auto", description="auto: libsumo, but traci for `gui` and `server`; the frames are the same"
    )
    begin: Duration | None = Field(None, description="SUMO's time at time 0 of the run; default: the config's, or 0")
    resolution: Period | None = Field(None, description="SUMO's own step length; default: one per step of the adapter")
    scale: Annotated[float, Field(gt=0)] | None = Field(None, description="factor on the demand of the route files")
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = Field(None, description="default: drawn from run.seed")
    teleport: Teleport | None = Field(None, description="'never', or how long a jammed vehicle waits; SUMO: 300 s")
    classes: list[Words] | None = Field(None, description="SUMO vehicle classes that join the fleet; default: all")
    region: Region | None = Field(None, description="where vehicles are members of the fleet; default: everywhere")
    options: Annotated[dict[str, str | int | float | bool], Trusted(_WRITES)] = Field(
        {}, description="further SUMO options, without the dashes"
    )

    @model_validator(mode="after")
    def _one_source(self) -> SumoConfig:
        sources = [key for key in ("config", "network", "server") if getattr(self, key) is not None]
        if len(sources) != 1:
            found = " and ".join(f"'{key}'" for key in sources) or "none of them"
            raise ValueError(f"give exactly one of 'config', 'network' and 'server'; found {found}")
        if self.network is not None and not self.routes and self.demand is None:
            raise ValueError("'network' needs 'routes' or 'demand', otherwise no vehicle would drive")
        if self.demand is not None and self.network is None:
            raise ValueError("'demand' needs 'network'; a 'config' and a 'server' have their own")
        if self.server is not None:
            theirs = [key for key in ("routes", "additional", "gui", "begin", "scale", "seed", "teleport", "options")
                      if key in self.model_fields_set]  # fmt: skip
            if theirs:
                raise ValueError(
                    f"{', '.join(theirs)}: belong to the SUMO at '{self.server}'; set them where it starts"
                )
        if self.interface == "libsumo" and (self.gui or self.server is not None):
            raise ValueError("'gui' and 'server' need TraCI; leave 'interface' out")
        for option in self.options:
            if option.lstrip("-") in OWN_OPTIONS:
                ours = OWN_OPTIONS[option.lstrip("-")]
                raise ValueError(f"options.{option} is set by the adapter" + (f"; use '{ours}'" if ours else ""))
        return self

    @property
    def over_traci(self) -> bool:
        """True when SUMO is a process behind a socket, false for libsumo in this one."""
        return self.interface == "traci" or self.gui or self.server is not None

    def files(self, key: Literal["routes", "additional"]) -> list[str]:
        """The files under `key` as a list, however they were written."""
        value: list[str] | str = getattr(self, key)
        return [value] if isinstance(value, str) else value


def option(name: str, value: object) -> list[str]:
    """An option of SUMO as its command line takes it."""
    return [f"--{name.lstrip('-')}", str(value).lower() if isinstance(value, bool) else str(value)]
