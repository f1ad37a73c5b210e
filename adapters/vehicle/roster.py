"""The vehicles of the scene and their orders, checked."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cosim.adapters.vehicle.config import EngagePart, MissionPart, RowsPart, TriggerPart, VehicleConfig
from cosim.adapters.vehicle.field import frame_of, light_of
from cosim.adapters.vehicle.keys import Pack, Vehicle, vehicles_of
from cosim.adapters.vehicle.looking import OWN, reads, triggers, unseen
from cosim.contract.adapter import Context
from cosim.contract.delimited import content
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.node_keys import ARDUPILOT
from cosim.contract.quantity import carried
from cosim.contract.reading.geojson import features
from cosim.physics.vehicles import BatteryPack, Copter, Rover, Waypoint
from cosim.physics.vehicles.obstacles import Obstacles, read_obstacles
from cosim.physics.vehicles.quantities import CopterQuantities, PackQuantities, RoverQuantities
from cosim.physics.vehicles.rows import FieldRows
from cosim.physics.vehicles.terrain import MOST_CELLS, Terrain, read_terrain
from cosim.physics.vehicles.weeds import read_weeds

_NEAR = 0.5  # m between the ground and a home of which the height was written
HEIGHT = 15.0  # m above home, for copters whose points have no height


@dataclass(frozen=True, slots=True)
class VehicleMission:
    """Waypoints, the row worked on the way to each (-1: none), and the field, if it is one."""

    vehicle: int  # row of the fleet
    course: list[Waypoint]
    row_of: NDArray[np.int64]
    part: MissionPart
    field: FieldRows | None


class VehicleRoster:
    """The n vehicles in the order of slots; raises `ScenarioError` with everything that is wrong."""

    def __init__(self, context: Context, config: VehicleConfig) -> None:
        self._problems: list[Problem] = []
        self._at = f"adapters.{context.name}"
        scene, self.duration = context.scene, context.duration
        found = vehicles_of(scene)
        self.slots = np.array([slot for slot, _, _ in found], np.int32)  # (n,)
        self.ids = [node.id for _, node, _ in found]
        self.row = {name: k for k, name in enumerate(self.ids)}
        self.nodes = {node.id: slot for slot, node in enumerate(scene.nodes)}
        self.aboard = aboard(scene)
        self.airframes = [self._airframe(node, vehicle) for _, node, vehicle in found]
        self.homes = np.array([node.position or (0.0, 0.0, 0.0) for _, node, _ in found]).reshape(-1, 3)
        self.terrain = self._terrain(context, config)
        self.obstacles = self._obstacles(context, config)
        self.headings = np.radians([vehicle.heading for _, _, vehicle in found])
        self.levels = np.array([vehicle.battery.level for _, _, vehicle in found])
        # vehicles that another autopilot than ours flies, and those of them that take no orders from here
        self.outside = {node.id for _, node, vehicle in found if vehicle.autopilot != "builtin"}
        self._deaf = {node.id for _, node, vehicle in found if vehicle.autopilot == "external"}
        # those that the physics of another program moves
        self.moved = {node.id for _, node, vehicle in found if vehicle.physics is not None}
        self.missions = [self._mission(context, name, part) for name, part in config.missions.items()]
        self.engagements = config.engage
        # vehicles with orders
        self.commanded = {*config.missions, *(part.drone for part in config.engage)}
        self.swarming = {member for part in config.swarms.values() for member in part.members}
        for number, part in enumerate(config.engage):
            self._engagement(number, part, config, context.written)
        self._swarm(config)
        self._see(context, config)
        if self._problems:
            raise ScenarioError(self._problems)
        self.missions = [mission for mission in self.missions if mission.course]

    def _wrong(self, text: str, path: str, hint: str = "") -> None:
        self._problems.append(Problem(text, path=path, hint=hint))

    def _takes_orders(self, name: str, path: str) -> None:
        """Orders go to our autopilots, and to ArduPilots on our physics."""
        if name in self._deaf:
            self._wrong(f"'{name}' is flown by its own autopilot", path, "give it its mission by MAVLink")

    def _airframe(self, node: Node, vehicle: Vehicle) -> Copter | Rover:
        at = f"nodes.{node.id}"
        if node.position is None:
            self._wrong(f"vehicle '{node.id}' has no home", f"{at}.at", "write at: [0 m, 0 m, 0 m]")
        try:
            made = airframe(vehicle, rotors=node.id in self.aboard)
            made.row()
            if isinstance(made, Copter) and vehicle.autopilot != "external":
                made.can_hover()
            return made
        except ValueError as error:
            self._wrong(str(error), f"{at}.vehicle")
            return Rover() if vehicle.frame == "rover" else Copter()

    def _terrain(self, context: Context, config: VehicleConfig) -> Terrain | None:
        """The ground, on which all `homes` are put; None: it is flat."""
        if config.terrain is None:
            return None
        at = f"{self._at}.terrain"
        try:
            land = read_terrain(context.path(config.terrain))
        except (ValueError, OSError) as error:
            self._wrong(f"the terrain '{config.terrain}' cannot be read: {error}", at, "docs/vehicles.md has the form")
            return None
        if context.scene.real and land.heights.size > MOST_CELLS:
            text = f"the terrain has {land.heights.size} cells; programs of vehicles are sent {MOST_CELLS} at most"
            self._wrong(text, at, "take larger cells, or a smaller part of it")
        for k, name in enumerate(self.ids):
            x, y, z = (float(value) for value in self.homes[k])
            if not land.covers(x, y):
                where = f"the terrain '{config.terrain}', which covers {land.extent()}"
                self._wrong(f"'{name}' starts at {x:g} m, {y:g} m, outside {where}", f"nodes.{name}.at", "move either")
                continue
            self.homes[k, 2] = ground = float(land.height(x, y))
            if z != 0.0 and abs(z - ground) > _NEAR:
                text = f"'{name}' starts at a height of {z:g} m, but the ground there is at {ground:.2f} m"
                self._wrong(text, f"nodes.{name}.at", "leave the height out: vehicles start on the ground")
        return land

    def _obstacles(self, context: Context, config: VehicleConfig) -> Obstacles | None:
        """What stands in the way."""
        if config.obstacles is None:
            return None
        at = f"{self._at}.obstacles"
        try:
            found = read_obstacles(context.path(config.obstacles), frame_of(context.scene), self.terrain)
        except (ValueError, OSError) as error:
            self._wrong(
                f"the obstacles '{config.obstacles}' cannot be read: {error}", at, "docs/vehicles.md has the form"
            )
            return None
        for name, home in zip(self.ids, self.homes, strict=True):
            for k in found.hit(home, home):
                self._wrong(f"'{name}' starts inside '{found.names[k]}'", f"nodes.{name}.at", "move it")
        return found

    def _known(self, name: str, path: str) -> int:
        """The fleet's row of the vehicle `name`, -1: there is none."""
        if name not in self.row:
            self._wrong(f"'{name}' is no vehicle", path, f"vehicles: {', '.join(self.ids) or 'none'}")
        return self.row.get(name, -1)

    def _mission(self, context: Context, name: str, part: MissionPart) -> VehicleMission:
        at = f"{self._at}.missions.{name}"
        row = self._known(name, at)
        self._takes_orders(name, at)
        none = VehicleMission(row, [], np.empty(0, np.int64), part, None)
        if row < 0:
            return none
        flies, home = isinstance(self.airframes[row], Copter), self.homes[row]
        if part.ordered:
            if not flies:
                self._wrong(f"'{name}' does not fly", f"{at}.ordered", "name a vehicle with 'frame: copter'")
            return none
        high = float(home[2]) + (HEIGHT if flies else 0.0)
        try:
            field = None
            if part.rows is not None:
                field = rows_of(part.rows)
                course, row_of = field.course()
                course = [replace(point, z=high) for point in course]
            else:
                places = part.points if part.points is not None else _line(context, str(part.file), high)
                course = [Waypoint(p[0], p[1], p[2] if len(p) == 3 else high) for p in places]
                row_of = np.full(len(course), -1, np.int64)
        except OSError as error:
            self._wrong(f"the mission of '{name}' cannot be read: '{part.file}': {error.strerror}", at)
            return none
        except ValueError as error:
            self._wrong(f"the mission of '{name}' cannot be: {error}", at)
            return none
        if part.speed is not None:
            course[0] = replace(course[0], speed=part.speed)
        if flies:
            rise = max(course[0].z - float(home[2]), 1.0)
            up = Waypoint(float(home[0]), float(home[1]), float(home[2]) + rise, what="take-off")
            course = [up, *course, Waypoint(what="return")]
            row_of = np.concatenate([[-1], row_of, [-1]])
        return VehicleMission(row, course, row_of, part, field)

    def _engagement(self, number: int, part: EngagePart, config: VehicleConfig, written: tuple[str, ...]) -> None:
        at = f"{self._at}.engage.{number}"
        drone, target = self._known(part.drone, f"{at}.drone"), self._known(part.target, f"{at}.target")
        self._takes_orders(part.drone, f"{at}.drone")
        if drone >= 0 and isinstance(self.airframes[drone], Rover):
            self._wrong(f"'{part.drone}' does not fly", f"{at}.drone", "name a vehicle with 'frame: copter'")
        if drone >= 0 and drone == target:
            self._wrong(f"'{part.drone}' cannot follow itself", f"{at}.target")
        if part.drone in config.missions:
            self._wrong(f"'{part.drone}' has a mission of its own", f"{at}.drone", "remove one of both")
        if any(part.drone == other.drone for other in config.engage[:number]):
            self._wrong(f"'{part.drone}' is engaged twice", f"{at}.drone", "put all its commands into one entry")
        if part.controller is not None and part.controller not in self.nodes:
            self._wrong(f"there is no node '{part.controller}'", f"{at}.controller")
        for key, trigger in triggers(part):
            self._trigger(part, trigger, f"{at}.{key}", written, config)

    def _swarm(self, config: VehicleConfig) -> None:
        """Members that fly, do nothing else, and stand apart."""
        taken = dict.fromkeys(config.missions, "a mission") | {part.drone: "an engagement" for part in config.engage}
        for name, part in config.swarms.items():
            at = f"{self._at}.swarms.{name}"
            rows = []
            for member in part.members:
                row = self._known(member, f"{at}.members")
                if member in self.outside | self.aboard:
                    hint = "members need our autopilot: how near they may come follows from how it brakes"
                    self._wrong(f"'{member}' is flown by its own autopilot", f"{at}.members", hint)
                if row >= 0 and isinstance(self.airframes[row], Rover):
                    self._wrong(f"'{member}' does not fly", f"{at}.members", "name vehicles with 'frame: copter'")
                if member in taken:
                    self._wrong(f"'{member}' has {taken[member]} besides", f"{at}.members", "remove one of both")
                taken[member] = f"swarm '{name}'"
                rows.append(row)
            homes = self.homes[rows]
            apart = np.linalg.norm(homes[:, None] - homes[None], axis=-1)
            near = np.argwhere(np.triu(apart < part.separation + part.margin, 1))
            if len(near) and min(rows) >= 0:
                first, second = (part.members[k] for k in near[0])
                least = f"{part.separation + part.margin:g} m"
                self._wrong(f"'{first}' and '{second}' stand nearer to each other than {least}", f"{at}.members",
                            "separation and margin hold on the ground as well")  # fmt: skip
            if part.relay is not None:
                ends = [np.array([*place, 15.0][:3]) for place in (part.relay.begin, part.relay.end)]
                hop = float(np.linalg.norm(ends[1] - ends[0])) / (len(part.members) + 1)
                if hop < part.separation + part.margin:
                    self._wrong(f"members of the chain would be {hop:.3g} m apart", f"{at}.relay", "name fewer members")

    def _eye(self, name: str, mount: float, scene: Scene) -> float:
        """m above the ground of a camera `mount` m above where its node is; of copters, in flight."""
        row = self.row.get(name, -1)
        if row >= 0:
            return math.inf if isinstance(self.airframes[row], Copter) else mount
        place = scene.nodes[self.nodes[name]].position
        if place is None:
            return 0.0
        return place[2] + mount - (0.0 if self.terrain is None else float(self.terrain.height(*place[:2])))

    def _see(self, context: Context, config: VehicleConfig) -> None:
        """Cameras on vehicles and masts, and a field for them."""
        for name, part in config.cameras.items():
            at, work = f"{self._at}.cameras.{name}", part.work
            slot = self.nodes.get(name, -1)
            if slot < 0:
                self._wrong(f"there is no node '{name}'", at)
            elif self._eye(name, part.mount, context.scene) <= 0.0:
                self._wrong(f"the camera of '{name}' is not above the ground", at, "write its height, as mount: 2 m")
            load = None if work is None else next((w for w in context.scene.workloads if w.name == work.workload), None)
            if work is not None and load is None:
                known = ", ".join(w.name for w in context.scene.workloads) or "none"
                self._wrong(
                    f"there is no workload '{work.workload}'", f"{at}.work.workload", f"the scenario has {known}"
                )
            elif load is not None and work is not None and slot >= 0:
                if load.graph:
                    self._wrong(
                        f"'{load.name}' has stages of their own sizes", f"{at}.work", "use a workload without 'graph'"
                    )
                if not any(source.first <= slot < source.first + source.count for source in load.sources):
                    self._wrong(f"'{name}' makes no tasks of '{load.name}'", f"{at}.work.workload", "see its 'from'")
        if (config.weeds is None) != (not config.cameras):
            text = "'cameras' need a field to look at" if config.cameras else "no camera looks at 'weeds'"
            at = f"{self._at}.{'cameras' if config.cameras else 'weeds'}"
            self._wrong(text, at, "give both 'weeds' and 'cameras', or neither")
        try:
            light_of(config, context.scene)
        except ValueError as error:
            self._wrong(str(error), f"{self._at}.light", "write geo: {origin: [lat, lon]}, or an illuminance as 10 klx")
        if config.weeds is not None:
            try:
                read_weeds(context.path(config.weeds), frame_of(context.scene))
            except (ValueError, OSError) as error:
                self._wrong(f"the field '{config.weeds}' cannot be read: {error}", f"{self._at}.weeds")

    def _trigger(
        self, part: EngagePart, trigger: TriggerPart, at: str, written: tuple[str, ...], config: VehicleConfig
    ) -> None:
        """Check that a condition can be read and that its signals are `written` ((): not known)."""
        try:
            looked_at = reads(part, trigger)
        except ValueError as error:
            self._wrong(f"the condition cannot be: {error}", f"{at}.when", "docs/conditions.md has what is understood")
            return
        if blind := unseen(part, trigger, config.cameras):
            self._wrong(f"'{blind}' has no camera, and so no pictures", f"{at}.when", "add it to 'cameras'")
        for name in looked_at:
            if written and name not in (*written, *OWN):
                hint = "add an adapter that writes it, or leave it out"
                self._wrong(f"no adapter of the scenario writes '{name}'", f"{at}.when", hint)


def aboard(scene: Scene) -> set[str]:
    """The vehicles that real ArduPilots fly inside their own nodes: none, unless nodes are real."""
    found = ((node.id, node.runs) for _, node, _ in vehicles_of(scene) if scene.real)
    return {name for name, runs in found if runs is not None and runs.image == ARDUPILOT}


def airframe(vehicle: Vehicle, *, rotors: bool = False) -> Copter | Rover:
    """The airframe of a node's block; values that it omits are those of `cosim.physics.vehicles`.

    `rotors`: another autopilot than ours turns them.
    """
    plain: Copter | Rover = Copter() if vehicle.frame == "copter" else Rover(steering=vehicle.steering)
    if isinstance(plain, Copter):
        # ArduPilot turns rotors; of a vehicle that is only listened to, nothing is known of them
        own = vehicle.dynamics if vehicle.physics is None and not rotors else "rigid"
        dynamics = {"builtin": own, "ardupilot-json": "rigid", "external": "point"}[vehicle.autopilot]
        plain = replace(plain, dynamics=dynamics)
    given = carried(vehicle, CopterQuantities if isinstance(plain, Copter) else RoverQuantities)
    return replace(plain, battery=_battery(vehicle.battery, plain.battery), **given)


def _battery(pack: Pack, usual: BatteryPack) -> BatteryPack:
    capacity = usual.capacity if pack.capacity is None else pack.capacity / 3600.0
    return replace(usual, capacity=capacity, action=pack.action, **carried(pack, PackQuantities))


def written_systems(vehicles: Sequence[Vehicle], ids: Sequence[str]) -> dict[str, int]:
    """The MAVLink system ids that the scenario gives, each to one vehicle. Raises `ScenarioError`."""
    named: dict[str, int] = {}
    for name, vehicle in zip(ids, vehicles, strict=True):
        if vehicle.system in named.values():
            other = next(key for key, number in named.items() if number == vehicle.system)
            raise ScenarioError(
                Problem(
                    f"'{name}' and '{other}' have the MAVLink system id {vehicle.system} both",
                    f"nodes.{name}.vehicle.system",
                    hint="give each its own, as clients mix them up, or none",
                )
            )
        if vehicle.system:
            named[name] = vehicle.system
    return named


def rows_of(part: RowsPart) -> FieldRows:
    """The field of a `rows` block."""
    corner = (part.corner[0], part.corner[1])
    return FieldRows(
        corner, part.rows, part.pitch, part.length, math.radians(part.heading), part.headland, part.turn,
        tuple(part.speeds), part.stop,
    )  # fmt: skip


def _line(context: Context, file: str, high: float) -> list[list[float]]:
    """The places (m) of the first LineString of a GeoJSON file; those without a height are at `high` m."""
    frame, geo = frame_of(context.scene), context.scene.geo
    if frame is None or geo is None:
        raise ValueError(f"'{file}' is in degrees, but the scenario has no 'geo: {{origin: [lat, lon]}}'")
    found = features(json.loads(content(Path(context.path(file)))))
    lines = [one["geometry"]["coordinates"] for one in found if one["geometry"]["type"] == "LineString"]
    if not lines:
        raise ValueError(f"'{file}' holds no LineString")
    line = lines[0]
    points = np.array([[*point[:2], point[2] if len(point) > 2 else np.nan] for point in line], np.float64)
    east, north, up = frame.to_local(
        points[:, 1], points[:, 0], np.where(np.isnan(points[:, 2]), geo.height, points[:, 2])
    )
    up = np.where(np.isnan(points[:, 2]), high, up)
    return [[float(x), float(y), float(z)] for x, y, z in zip(east, north, up, strict=True)]
