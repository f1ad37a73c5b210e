"""The `vehicle` block of a scenario."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AwareDatetime, ConfigDict, Field, model_validator

from cosim.contract import units
from cosim.contract.adapter import AdapterConfig, InputFile
from cosim.contract.block import Block, OnlyWith
from cosim.contract.declared import keys_of
from cosim.contract.quantity import carried
from cosim.contract.trust import FileName, NoCode, PlainText, Trusted, Words
from cosim.contract.units import Angle, Distance, Duration, Fraction, Length, Period, Work
from cosim.physics.vehicles.rule import Follow

if TYPE_CHECKING:
    from cosim.physics.vehicles.camera import Camera
    from cosim.physics.vehicles.weeds import WeedDetector

Place = Annotated[list[Length], Field(min_length=2, max_length=3)]
Fast = Annotated[float, units.Unit("speed", gt=0.0)]
Size = Annotated[float, units.Unit("length", gt=0.0)]
View = Annotated[float, units.Unit("angle", gt=0.0, le=170.0)]
_RULE = Follow()


class Part(Block):
    """A part of the block."""

    model_config = ConfigDict(populate_by_name=True)


class RowsPart(Part):
    """Parallel rows; the first begins at the corner, the next ones lie to the right of it."""

    corner: Annotated[list[Length], Field(min_length=2, max_length=2)] = Field(description="begin of the first row")
    rows: int = Field(8, ge=1, le=10_000, description="how many")
    pitch: Size = Field(6.0, description="between two rows")
    length: Size = Field(200.0, description="of a row")
    heading: Angle = Field(0.0, description="of the first row, clockwise from north")
    headland: Distance = Field(0.0, description="to drive straight on beyond a row's end before turning")
    turn: Distance = Field(0.0, description="radius of the turns; 0: two corners, for who turns on the spot")
    speeds: list[Fast] = Field([], description="of the rows in turn; none: the vehicle's own")
    stop: Duration = Field(0.0, description="to stand at the end of every row")


class PausePart(Part):
    """A time to stand still."""

    at: Duration = Field(description="begin")
    span: Period = Field(alias="for", description="for how long")


class MissionPart(Part):
    """What a vehicle does on its own: rows of a field, points, the line of a GeoJSON file, or what it is ordered."""

    TEXT: ClassVar[str] = "file"
    LIST: ClassVar[str] = "points"
    rows: RowsPart | None = Field(None, description="a field")
    points: list[Place] | None = Field(None, min_length=1, description="[east, north, up] of the scenario's origin")
    file: FileName | None = Field(None, description="a GeoJSON file with a LineString")
    ordered: Literal[True] | None = Field(
        None,
        description="a copter that flies to where the signal destination or the event go sends it, and home",
    )
    start: Duration = Field(0.0, description="when it begins")
    alarm: bool = Field(
        False, description="it begins with the first alarm that a detector raises from `start` on, for whomever"
    )
    speed: Fast | None = Field(None, description="over ground; default: the vehicle's own")
    pauses: list[PausePart] = Field([], description="times to stand still")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, found: object) -> object:
        if isinstance(found, list):
            return {cls.LIST: found}
        return {cls.TEXT: found} if isinstance(found, str) else found

    @model_validator(mode="after")
    def _one(self) -> MissionPart:
        if sum(part is not None for part in (self.rows, self.points, self.file, self.ordered)) != 1:
            raise ValueError("a mission is one of 'rows', 'points', 'file' and 'ordered'")
        beside = sorted({"start", "alarm", "pauses"} & self.model_fields_set)
        if self.ordered and beside:
            raise ValueError(f"'{beside[0]}' belongs to a way of its own; who is ordered flies when it is sent")
        return self


class CommandPart(Part):
    """An order to engage, and when it ends."""

    at: Duration = Field(description="when the controller orders it")
    span: Period | None = Field(None, alias="for", description="until it calls the drone off; default: never")


class TriggerPart(Part):
    """When an order is given: a condition over signals, or a function of your own."""

    when: Annotated[str, NoCode()] = Field(
        min_length=1,
        description="a condition, as target.mobility.speed > 0.5 and drone.vehicle.charge > 0.5, or module:function",
    )
    hysteresis: Duration = Field(0.0, description="for how long it must hold without a break")
    reads: list[Words] = Field([], description="signals that a function of your own is shown")

    @property
    def function(self) -> bool:
        """Whether it names a function."""
        return re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", self.when.strip()) is not None

    @model_validator(mode="after")
    def _apart(self) -> TriggerPart:
        if self.reads and not self.function:
            raise ValueError("'reads' belongs to a function of your own: a condition names what it looks at")
        return self


@keys_of(Follow)
class EngagePart(Part):
    """A drone that is engaged to follow a target, and the rule by which it does."""

    drone: Words = Field(description="node of a copter")
    target: Words = Field(description="node of another vehicle")
    controller: Words | None = Field(None, description="node that sends the orders; default: they arrive at once")
    commands: list[CommandPart] = Field([], description="orders at fixed times; []: only those of events")
    engage: TriggerPart | None = Field(None, description="orders by what is measured, instead of fixed times")
    disengage: TriggerPart | None = Field(None, description="when the drone is called off then; default: never")
    view: Annotated[list[View], Field(min_length=2, max_length=2)] = Field(
        [math.degrees(_RULE.view_across), math.degrees(_RULE.view_along)],
        description="angles of the camera across and along, straight down",
    )

    def rule(self) -> Follow:
        """Raises `ValueError` when the stand-off point is nearer than the separation."""
        across, along = (math.radians(angle) for angle in self.view)
        return Follow(**carried(self, Follow), view_across=across, view_along=along)

    @model_validator(mode="after")
    def _sound(self) -> EngagePart:
        self.rule()
        given = "commands" in self.model_fields_set
        if (self.engage is None) == (not given) or (self.engage is not None and self.commands):
            raise ValueError("an engagement has either 'commands', at fixed times, or 'engage', by a condition")
        if self.disengage is not None and self.engage is None:
            raise ValueError("'disengage' needs 'engage'; commands at fixed times end after their 'for'")
        last = -1.0
        for command in self.commands:
            if command.at <= last:
                raise ValueError("the commands must follow each other in time")
            last = command.at if command.span is None else command.at + command.span
        return self


Curve = list[tuple[Size, Fraction]]
Light = Annotated[float, units.Unit("illuminance", gt=0.0)]


class SunPart(Part):
    """Daylight by where the sun stands over the scenario's origin."""

    begins: Annotated[AwareDatetime, PlainText()] = Field(
        description="moment of the run's beginning, as 2026-05-12T08:00:00+03:00"
    )
    clouds: Fraction = Field(0.0, description="of the sky that is covered")


class DimPart(Part):
    """How good a detector is in another light."""

    light: Light = Field(description="illuminance on the ground")
    recall: Curve = Field(min_length=1, description="as that of the camera")
    precision: Curve = Field(min_length=1, description="as that of the camera")


class WorkPart(Part):
    """What a picture takes to look at."""

    workload: Words = Field(description="whose next tasks of the drone are about its latest picture")
    base: Work = Field(0.0, description="of any picture")
    pixel: Work = Field(0.0, description="for each pixel")
    find: Work = Field(0.0, description="for each thing that is found in it")


class CameraPart(Part):
    """A camera on a vehicle or a mast, and a detector of weeds: how good it is has to be given, with its source."""

    view: Annotated[list[View], Field(min_length=2, max_length=2)] = Field(
        [math.degrees(_RULE.view_across), math.degrees(_RULE.view_along)], description="angles across and along"
    )
    pixels: Annotated[list[Annotated[int, Field(ge=1, le=100_000)]], Field(min_length=2, max_length=2)] = Field(
        [4000, 3000], description="of a picture across and along"
    )
    gimbal: bool = Field(True, description="it looks the same way in any attitude; else it is fixed to the frame")
    mount: Distance = Field(0.0, description="height above the vehicle's feet, or above the place of a mast's node")
    pitch: Annotated[float, units.Unit("angle", ge=-90.0, le=0.0)] = Field(
        -90.0, description="of its axis: -90 deg is straight down, 0 deg the horizon"
    )
    heading: Angle = Field(0.0, description="of its view, clockwise from the vehicle's nose or, on a mast, from north")
    every: Period = Field(2.0, description="between two pictures, of copters in flight")
    recall: Curve = Field(min_length=1, description="[ground sample distance, share of the weeds that are found], ...")
    precision: Curve = Field(min_length=1, description="[ground sample distance, share of finds that are weeds], ...")
    light: Light = Field(1e4, description="in which recall and precision were measured")
    lights: list[DimPart] = Field([], description="the same in other lights; the logarithm of the light lies between")
    source: Words = Field(min_length=1, description="where recall and precision were measured")
    work: WorkPart | None = Field(
        None, description="of the tasks that look at pictures; default: as their workload says"
    )

    def camera(self) -> Camera:
        """Raises `ValueError`."""
        from cosim.physics.vehicles.camera import Camera  # needs numpy

        across, along = (math.radians(angle) for angle in self.view)
        tilt, turn = math.radians(90.0 + self.pitch), math.radians(self.heading)
        return Camera(across, along, self.pixels[0], self.pixels[1], self.gimbal, tilt, turn, self.mount)

    def detector(self) -> WeedDetector:
        """Raises `ValueError`."""
        from cosim.physics.vehicles.weeds import WeedDetector  # needs numpy

        return WeedDetector(
            self.recall, self.precision, self.light, [(dim.light, dim.recall, dim.precision) for dim in self.lights]
        )

    @model_validator(mode="after")
    def _sound(self) -> CameraPart:
        self.camera()
        self.detector()
        return self


class FormationPart(Part):
    """Places around a leader's, which goes along a course."""

    shape: Literal["line", "column", "vee", "grid", "ring"] = Field("line", description="line: abreast")
    spacing: Size = Field(6.0, description="between neighbours")
    course: list[Place] = Field(min_length=1, description="[east, north, up] of the places that the leader passes")


class RelayPart(Part):
    """A chain of members, evenly between two places."""

    begin: Place = Field(description="[east, north, up] of the place before the first")
    end: Place = Field(description="[east, north, up] of the place behind the last")


class SweepPart(Part):
    """Lanes over an area, split among the members."""

    corner: Annotated[list[Length], Field(min_length=2, max_length=2)] = Field(description="south-west of the area")
    size: Annotated[list[Size], Field(min_length=2, max_length=2)] = Field(description="of it to the east and north")
    height: Size = Field(15.0, description="above the origin")
    lane: Size = Field(6.0, description="between two lanes")


class SwarmPart(Part):
    """Copters that fly by one policy and keep apart."""

    members: list[Words] = Field(min_length=2, max_length=1000, description="nodes of copters")
    formation: FormationPart | None = Field(None, description="a formation")
    relay: RelayPart | None = Field(None, description="a chain of relays")
    sweep: SweepPart | None = Field(None, description="lanes over an area")
    speed: Fast = Field(4.0, description="along the course or the lanes; members are at most 1.25 times as fast")
    separation: Size = Field(2.0, description="to keep from each other")
    margin: Distance = Field(1.5, description="kept besides, for gusts")
    start: Duration = Field(0.0, description="of their take-off")

    @model_validator(mode="after")
    def _one(self) -> SwarmPart:
        if sum(part is not None for part in (self.formation, self.relay, self.sweep)) != 1:
            raise ValueError("a swarm flies one of 'formation', 'relay' and 'sweep'")
        if len(set(self.members)) < len(self.members):
            raise ValueError("a member is named twice")
        kept, wide = self.separation + self.margin, None
        if self.formation is not None:
            wide = self.formation.spacing
        elif self.sweep is not None:
            wide = self.sweep.lane
        if wide is not None and wide < kept:
            raise ValueError(f"places {wide:g} m apart are nearer than separation and margin, {kept:g} m")
        return self


class PositionErrorPart(Part):
    """How far satellite positions are off: in GPS_RAW_INT, what targets report, and where drones that follow go."""

    level: Distance = Field(1.0, description="standard deviation, east and north each")
    height: Distance = Field(1.0, description="standard deviation of the height")
    correlation: Period = Field(60.0, description="correlation time, of first order")


class LinkPart(Part):
    """A link that is the same everywhere."""

    delay: Duration = Field(0.0, description="one way")
    loss: Fraction = Field(0.0, description="of packets")


LONGER = "'adapters.vehicle.real.ready' allows more"


class RealPart(Part):
    """Vehicles flown by programs of their own: real nodes, and autopilots that are not built in."""

    ready: Duration = Field(30.0, description="for the programs to come before the run starts")
    patience: Period = Field(1.0, description="for a program to fly its share of a step; then it is flown here")


class ArduPilotPart(Part):
    """Where real ArduPilots find the physics of vehicles with `autopilot: ardupilot-json`."""

    bind: Annotated[str, Trusted("listens on a network")] = Field(
        "127.0.0.1:9002",
        pattern=r"^[^:\s]+:\d{1,5}$",
        description="UDP address for the first vehicle, ArduPilot's instance 0; the next ones are 10 ports apart",
    )
    arming: Period = Field(
        60.0, description="to be armed, and then to take off, tried again and again; after it, the order is dropped"
    )


class MavlinkPart(Part):
    """Where ground stations reach the autopilots."""

    udp: Annotated[str | None, Trusted("sends to other programs")] = Field(
        "127.0.0.1:14550", pattern=r"^[^:\s]+:\d{1,5}$", description="ground station to send to"
    )
    tcp: Annotated[int | None, Field(ge=1, le=65535), Trusted("listens on a network")] = Field(
        5760, description="port of the first vehicle's server on the loopback; the next ones are 10 apart"
    )


class VehicleConfig(AdapterConfig):
    """How the vehicles move. What they are stands with the nodes (`vehicle`)."""

    substep: Period = Field(0.01, description="longest step of the dynamics")
    period: Period = Field(0.1, description="longest step of behaviours: how often they look at the world")
    wind: Annotated[
        list[Annotated[float, units.Unit("speed", ge=-120.0, le=120.0)]], Field(min_length=3, max_length=3)
    ] = Field([0.0, 0.0, 0.0], description="to the east, north and up")
    gusts: Annotated[float, units.Unit("speed", ge=0.0, le=120.0)] = Field(
        0.0, description="wind at 6 m above ground that gusts belong to (Dryden, MIL-F-8785C); 0: no gusts"
    )
    altitude: Annotated[float, units.Unit("length", ge=-500.0, le=9000.0)] | None = Field(
        None, description="of the origin above the sea, for air as thin as there (ICAO); default: air at sea level"
    )
    position_error: PositionErrorPart | None = Field(
        None, description="of satellite positions, in engagements and GPS_RAW_INT; default: none"
    )
    terrain: Annotated[str, InputFile()] | None = Field(
        None, description="ESRI ASCII grid of the ground's height, all in m of the scenario's axes; default: flat"
    )
    obstacles: Annotated[str, InputFile()] | None = Field(
        None, description="GeoJSON of polygons with `height`, m above the ground; default: nothing stands in the way"
    )
    separation: Annotated[Size, OnlyWith("obstacles")] = Field(
        2.0, description="from obstacles, below their tops: who comes nearer is counted"
    )
    missions: dict[Words, MissionPart] = Field({}, description="by node: rows, a list of places, or a file")
    engage: list[EngagePart] = Field([], description="drones that follow others")
    swarms: dict[Words, SwarmPart] = Field({}, description="by name: groups of copters that keep apart")
    weeds: Annotated[Annotated[str, InputFile()] | None, OnlyWith("cameras")] = Field(
        None, description="GeoJSON or ESRI ASCII grid of weeds per m2: the field that `cameras` look at"
    )
    light: Annotated[Light | SunPart, OnlyWith("weeds")] = Field(
        1e4, description="on the ground: an illuminance, or daylight by the sun"
    )
    cameras: dict[Words, CameraPart] = Field({}, description="by node: cameras, and how well they find weeds")
    link: LinkPart = Field(LinkPart.si(), description="between nodes, while no adapter writes peer_link")
    real: RealPart = Field(RealPart.si(), description="vehicles with `runs`, when nodes are real, or another autopilot")
    ardupilot: ArduPilotPart = Field(ArduPilotPart.si(), description="for vehicles with `autopilot: ardupilot-json`")
    aeroloop: Annotated[str | None, Trusted("listens on a network")] = Field(
        None,
        pattern=r"^tcp://[^:\s]+:\d{1,5}$",
        description="publish positions there as AeroLoop's network simulator takes them, e.g. tcp://127.0.0.1:5556",
    )
    mavlink: Annotated[bool | MavlinkPart, Trusted("listens on a network")] = Field(
        False, description="MAVLink endpoints for ground stations; for runs paced by the wall clock with short steps"
    )

    @property
    def ordered(self) -> list[str]:
        """The nodes that fly to where the signal `destination` or the event `go` sends them."""
        return [name for name, part in self.missions.items() if part.ordered]

    @property
    def pictures(self) -> dict[str, list[int]]:
        """By node: pixels of its camera across and along."""
        return {name: [*part.pixels] for name, part in self.cameras.items()}
