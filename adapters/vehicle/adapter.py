"""Vehicles on the bus: links between nodes in, positions and activities of the vehicles out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cosim.adapters.vehicle.cameras import Cameras
from cosim.adapters.vehicle.check import problems
from cosim.adapters.vehicle.config import MavlinkPart, VehicleConfig
from cosim.adapters.vehicle.hearing import Hearing
from cosim.adapters.vehicle.keys import Disengage, Engage
from cosim.adapters.vehicle.looking import others
from cosim.adapters.vehicle.mavlink import STEP, Mavlink
from cosim.adapters.vehicle.ordered import OrderedCopters
from cosim.adapters.vehicle.orders import Go
from cosim.adapters.vehicle.proximity import ImpactLog, ObstacleWatch
from cosim.adapters.vehicle.roster import VehicleRoster
from cosim.adapters.vehicle.signals import EVENTS
from cosim.adapters.vehicle.summary import summary
from cosim.adapters.vehicle.swarms import Swarms
from cosim.adapters.vehicle.triggers import Triggers
from cosim.contract.adapter import Context, Inputs, Summary
from cosim.contract.entities import Event
from cosim.contract.errors import refuse
from cosim.contract.frame import Array, Frame
from cosim.contract.records import Floats
from cosim.physics.vehicles import VehicleFleet
from cosim.physics.vehicles import phases as ph
from cosim.physics.vehicles.engagement import Engagements
from cosim.physics.vehicles.gusts import Gusts, turned
from cosim.physics.vehicles.impact import Contacts
from cosim.physics.vehicles.missions import MissionRunner
from cosim.physics.vehicles.receivers import PositionErrors

if TYPE_CHECKING:
    from cosim.adapters.vehicle.members import Members
    from cosim.adapters.vehicle.outside import Outside
    from cosim.adapters.vehicle.positions import AeroLoop

_SOON = 1e-9  # s


class VehicleAdapter:
    """Flies and drives all nodes with a `vehicle` block.

    Between two steps of the bus the dynamics run at `substep` and behaviours look at the world every
    `period`; the links that they use are those of the bus's last tick.
    """

    def __init__(self, config: VehicleConfig) -> None:
        self._config = config
        self._mavlink: Mavlink | None = None
        self._members: Members | None = None
        self._outside: Outside | None = None
        self._aeroloop: AeroLoop | None = None
        self._news: list[tuple[int, float, str]] = []  # of other autopilots: row, when (s), which of `EVENTS`

    def start(self, context: Context) -> None:
        """Set up fleet, missions and engagements. Raises `ScenarioError` for what `check` finds."""
        config = self._config
        refuse(problems(config, context))
        self._roster = roster = VehicleRoster(context, config)
        self._fleet = VehicleFleet(
            roster.airframes, roster.homes, roster.headings, config.substep, roster.levels, roster.terrain
        )
        self._fleet.wind[:] = config.wind
        if config.altitude is not None:
            self._fleet.set_air(config.altitude)
        self._gusts: Gusts | None = None
        if config.gusts > 0.0:
            self._gusts = Gusts(len(roster.ids), config.gusts, np.random.SeedSequence(context.seed).spawn(1)[0])
        self._errors: PositionErrors | None = None
        if config.position_error is not None:
            wrong, seed = config.position_error, np.random.SeedSequence(context.seed).spawn(2)[1]
            self._errors = PositionErrors(len(roster.ids), wrong.level, wrong.height, wrong.correlation, seed)
            self._fleet.receivers = self._errors
        self._runner = self._mission_runner()
        parts = roster.engagements
        drones = np.array([roster.row[part.drone] for part in parts], np.int64)
        targets = np.array([roster.row[part.target] for part in parts], np.int64)
        seeds = np.random.SeedSequence(context.seed).generate_state(max(len(parts), 1), np.uint64)
        rules = [part.rule() for part in parts]
        self._pairs = Engagements(self._fleet, drones, targets, rules, seeds[: len(parts)], self._area())
        if self._errors is not None:
            self._pairs.position_error[:] = self._errors.now
        self._hearing = Hearing(parts, roster.nodes, context.scene.capacity, config.link)
        self._orders = sorted(
            [(command.at, k, True) for k, part in enumerate(parts) for command in part.commands]
            + [
                (command.at + command.span, k, False)
                for k, part in enumerate(parts)
                for command in part.commands
                if command.span is not None
            ]
        )
        self._swarms = Swarms(config.swarms, roster, self._fleet)
        self._ordered = OrderedCopters(config.missions, roster, self._fleet)
        self._cameras = Cameras(config, context, roster, self._fleet)
        self._fleet.contacts = Contacts(roster.obstacles)
        self._impacts = ImpactLog(roster, self._fleet)
        self._watch: ObstacleWatch | None = None
        if roster.obstacles is not None:
            self._fleet.obstacles = roster.obstacles
            self._watch = ObstacleWatch(roster.obstacles, config.separation, roster, self._fleet)
        self._triggers = Triggers(parts, roster.nodes)
        self._looked_at = others(config)
        worker = {int(row): k for k, row in enumerate(self._runner.vehicles)}
        self._worker_of_pair = np.array([worker.get(int(row), -1) for row in targets], np.int64)
        self._free = np.setdiff1d(np.arange(len(roster.ids)), np.concatenate([drones, self._runner.vehicles]))
        self._travelled = np.zeros(len(roster.ids))
        pitches = [0.0 if mission.field is None else mission.field.pitch for mission in roster.missions]
        self._pitch_of_pair = np.append(pitches, 0.0)[self._worker_of_pair]
        self._weeded = np.zeros(len(parts))
        self._ended = self._pairs.records()
        if config.mavlink is not False:
            part = config.mavlink if isinstance(config.mavlink, MavlinkPart) else MavlinkPart()
            self._mavlink = Mavlink(context, self._fleet, roster, part)
        if context.scene.real:
            from cosim.adapters.vehicle.members import Members  # most runs have no real nodes and need not load sockets

            self._members = Members(context, self._fleet, roster, config)
        if roster.outside or roster.moved:
            from cosim.adapters.vehicle.outside import Outside

            self._outside = Outside(context, self._fleet, roster, config)
        self._elsewhere = [part for part in (self._members, self._outside) if part is not None]
        if config.aeroloop is not None:
            from cosim.adapters.vehicle.positions import AeroLoop

            self._aeroloop = AeroLoop(context, self._fleet, roster, config.aeroloop)

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """Advance all vehicles to `time`."""
        self._hearing.take(inputs.all("peer_link"))
        if any(frame["on"].any() for frame in inputs.all("alarm")):
            parts = [mission.part for mission in self._roster.missions]
            self._runner.begin([k for k, part in enumerate(parts) if part.alarm and part.start <= time])
        self._ordered.take(inputs.all("destination"))
        for signal in self._looked_at:
            self._triggers.take(signal, inputs.all(signal))
        for pair, engage in self._triggers.decide(self._fleet.now, self._pairs):
            self._pairs.command([pair], engage)
        events = sorted(inputs.events, key=lambda event: event.at)
        period = self._config.period if self._mavlink is None else min(self._config.period, STEP)
        while True:
            while events and (events[0].at <= self._fleet.now + _SOON or self._fleet.now >= time - _SOON):
                self._happen(events.pop(0))
            self._behave()
            self._cameras.look()
            if self._mavlink is not None:
                self._mavlink.look()
            if self._aeroloop is not None:
                self._aeroloop.publish()
            if self._fleet.now >= time - _SOON:
                break
            nearest = events[0].at if events else time
            until = min(self._fleet.now + period, time, max(nearest, self._fleet.now + 1e-6))
            s = self._fleet.state
            x, y, z = s["x"].copy(), s["y"].copy(), s["z"].copy()
            until = time if time - until < _SOON else until
            if self._outside is None:
                self._fly(until)
            else:
                self._outside.advance(until, self._fly)
            for part in self._elsewhere:
                self._take_news(part.news())
            moved = np.sqrt((s["x"] - x) ** 2 + (s["y"] - y) ** 2 + (s["z"] - z) ** 2)
            self._travelled += moved
            hits = self._impacts.look()
            if self._watch is not None:
                self._watch.look(hits)
            self._weed(moved)
        frames = [self._mobility(time), self._vehicles(time), self._behaviour(time), self._engagement(time)]
        if self._config.cameras:
            frames += self._cameras.frames(time)
        if self._watch is not None:
            frames.append(self._watch.frame(time))
        frames += [self._autopilot(time), self._impacts.frame(time)]
        for frame in frames:
            self._triggers.take(frame.signal, (frame,))
        return frames

    def finish(self) -> Summary:
        """The engagements, and what every vehicle did and used."""
        rest = self._pairs.records()
        records = np.concatenate([self._ended, rest])
        order = np.argsort(records["t_command"], kind="stable")
        result = summary(records[order], self._pairs, self._roster, self._fleet, self._travelled, self._weeded)
        result = {**result, "impacts": {"crashes": self._impacts.crashes}}
        if self._config.swarms:
            result = {**result, "swarms": self._swarms.summary()}
        if self._config.cameras:
            result = {**result, "cameras": self._cameras.summary()}
        if self._watch is not None:
            result = {**result, "proximity": self._watch.summary()}
        if self._mavlink is not None:
            result = {**result, "mavlink": {slot.name: slot.sysid for slot in self._mavlink.slots}}
        absences = [part.absences for part in self._elsewhere]
        if absences:
            result = {**result, "absences": {name: count for part in absences for name, count in part.items()}}
        return result

    def close(self) -> None:
        """Close all endpoints and part from the programs of real vehicles; may be called twice."""
        for part in (self._mavlink, self._members, self._outside, self._aeroloop):
            if part is not None:
                part.close()

    def _take_news(self, news: list[tuple[int, float, str]]) -> None:
        """Autopilots that are not ours: a drone that could not be armed is not engaged."""
        self._news += news
        refused = [row for row, _, event in news if event == "refused"]
        if refused:
            self._pairs.refuse(np.flatnonzero(np.isin(self._pairs.drones, refused)))

    def _autopilot(self, time: float) -> Frame:
        """What happened with them since the last step."""
        news, self._news = self._news, []
        rows = np.array([row for row, _, _ in news], np.int64)
        columns: dict[str, Array] = {
            "event": np.array([EVENTS.index(event) for _, _, event in news], np.int8),
            "at": np.array([at for _, at, _ in news], np.float64),
        }
        return Frame("autopilot", time, self._roster.slots[rows], columns)

    def _blow(self, until: float) -> None:
        """Gusts that hold until `until` s; a vehicle meets them at its speed against the mean wind."""
        if self._gusts is None:
            return
        s, mean = self._fleet.state, np.broadcast_to(np.asarray(self._config.wind), (len(self._fleet.state), 3))
        speed = np.sqrt((s["vx"] - mean[:, 0]) ** 2 + (s["vy"] - mean[:, 1]) ** 2 + (s["vz"] - mean[:, 2]) ** 2)
        found = self._gusts.step(self._fleet.above_ground(), speed, until - self._fleet.now)
        self._fleet.wind[:] = mean + turned(found, mean)

    def _fly(self, until: float) -> None:
        """Let the vehicles move on that are flown here or by the programs of real nodes."""
        self._blow(until)
        if self._errors is not None:
            self._pairs.position_error[:] = self._errors.step(until - self._fleet.now)
        if self._members is None:
            self._fleet.advance(until)
        else:
            self._members.advance(until)
            self._hear(self._members)

    def _hear(self, members: Members) -> None:
        """Reports between real vehicles are those that their programs have received from each other."""
        ids, reports = self._roster.ids, self._pairs.reports
        for k, (drone, target) in enumerate(zip(self._pairs.drones, self._pairs.targets, strict=True)):
            listener, speaker = ids[drone], ids[target]
            reports.outside[k] = members.flies(listener) and members.flies(speaker)
            heard = members.heard.get(listener, {}).get(speaker)
            if reports.outside[k] and heard is not None:
                reports.hear(k, heard[0], heard[1:])

    def _mission_runner(self) -> MissionRunner:
        missions = self._roster.missions
        longest = max((len(mission.course) for mission in missions), default=1)
        row_of = np.full((len(missions), longest), -1, np.int64)
        for k, mission in enumerate(missions):
            row_of[k, : len(mission.row_of)] = mission.row_of
            self._fleet.set_mission(mission.vehicle, mission.course)
        pauses = [(k, p.at, p.at + p.span) for k, mission in enumerate(missions) for p in mission.part.pauses]
        vehicles = np.array([mission.vehicle for mission in missions], np.int64)
        starts = [math.inf if mission.part.alarm else mission.part.start for mission in missions]
        return MissionRunner(self._fleet, vehicles, starts, row_of, pauses)

    def _area(self) -> tuple[float, float, float, float] | None:
        """What cameras may see: the missions with 20 m around."""
        boxes = [
            mission.field.box(20.0)
            if mission.field is not None
            else (
                min(p.x for p in mission.course) - 20.0, min(p.y for p in mission.course) - 20.0,
                max(p.x for p in mission.course) + 20.0, max(p.y for p in mission.course) + 20.0,
            )
            for mission in self._roster.missions
        ]  # fmt: skip
        if not boxes:
            return None
        west, south, east, north = zip(*boxes, strict=True)
        return min(west), min(south), max(east), max(north)

    def _behave(self) -> None:
        """Whatever is due at the fleet's time."""
        now = self._fleet.now
        while self._orders and self._orders[0][0] <= now + _SOON:
            _, pair, engage = self._orders.pop(0)
            self._pairs.command([pair], engage)
        self._runner.tick()
        self._swarms.tick()
        self._ordered.tick()
        if not len(self._pairs):
            return
        done = np.append(self._runner.done, False)[self._worker_of_pair]
        if self._elsewhere:
            unready = np.any([part.unready() for part in self._elsewhere], axis=0)
            self._pairs.unready[:] = unready[self._pairs.drones]
        self._pairs.tick(self._hearing.links, done)

    def _weed(self, moved: Floats) -> None:
        """Book what targets covered, moving by `moved` m, in a row of a field while their drones followed them."""
        if not len(self._pairs):
            return
        working = np.append(self._runner.state == ph.WORKING, False)[self._worker_of_pair]
        followed = working & (self._pairs.phase == ph.FOLLOW)
        self._weeded += np.where(followed, self._pitch_of_pair * moved[self._pairs.targets], 0.0)

    def _happen(self, event: Event) -> None:
        """A failed copter lands where it is, a failed rover stops; neither sends nor hears until it recovers."""
        if (order := Engage.of(event) or Disengage.of(event)) is not None:
            of_drones = self._roster.slots[self._pairs.drones].tolist()
            pairs = [
                k
                for k, part in enumerate(self._roster.engagements)
                if order.target in (None, part.target)
                and any(where.first <= of_drones[k] < where.first + where.count for where in event.nodes)
            ]
            self._pairs.command(pairs, engage=event.do == "engage")
        if (go := Go.of(event)) is not None:
            self._ordered.send(event.nodes, go.to)
        if event.do not in ("fail", "recover"):
            return  # links are the affair of the radio
        failed = event.do == "fail"
        slots = self._roster.slots
        for where in event.nodes:
            hit = np.flatnonzero((slots >= where.first) & (slots < where.first + where.count))
            self._pairs.fail(np.flatnonzero(np.isin(self._pairs.drones, hit)), failed)
            self._pairs.silent[np.isin(self._pairs.targets, hit)] = failed
            self._runner.fail(np.flatnonzero(np.isin(self._runner.vehicles, hit)), failed)
            self._ordered.fail(hit, failed)
            if failed:
                free = np.intersect1d(hit, self._free)
                self._fleet.hold(free)
                self._fleet.land(free)

    def _mobility(self, time: float) -> Frame:
        s = self._fleet.state
        columns: dict[str, Array] = {
            "x": s["x"].copy(),
            "y": s["y"].copy(),
            "z": s["z"].copy(),
            "speed": np.hypot(s["vx"], s["vy"]),
            "heading": np.degrees(s["heading"]) % 360.0,
        }
        return Frame("mobility", time, self._roster.slots.copy(), columns)

    def _vehicles(self, time: float) -> Frame:
        s = self._fleet.state
        columns: dict[str, Array] = {
            "mode": s["mode"].astype(np.int8),
            "armed": s["armed"] != 0,
            "climb": s["vz"].copy(),
            "roll": np.degrees(s["roll"]),
            "pitch": np.degrees(s["pitch"]),
            "charge": self._fleet.charge(),
            "voltage": s["voltage"].copy(),
            "power": s["power"].copy(),
            "failsafe": s["failsafe"].astype(np.int8),
        }
        if self._outside is not None:
            self._outside.amend(columns)
        return Frame("vehicle", time, self._roster.slots.copy(), columns)

    def _behaviour(self, time: float) -> Frame:
        pairs, runner, slots = self._pairs, self._runner, self._roster.slots
        rows = np.concatenate([pairs.drones, runner.vehicles])
        order = np.argsort(rows, kind="stable")
        sent = pairs.reports.sent
        age = np.where(np.isfinite(sent), time - sent, np.nan)
        none = np.full(len(runner.vehicles), -1, np.int32)
        columns: dict[str, Array] = {
            "state": np.concatenate([pairs.phase, runner.state]).astype(np.int8)[order],
            "row": np.concatenate([np.full(len(pairs), -1), runner.row()]).astype(np.int32)[order],
            "target": np.concatenate([slots[pairs.targets], none]).astype(np.int32)[order],
            "age": np.concatenate([age, np.full(len(runner.vehicles), np.nan)])[order],
        }
        return Frame("behaviour", time, slots[rows[order]], columns)

    def _engagement(self, time: float) -> Frame:
        ended = self._pairs.log.take()
        if len(ended):
            self._ended = np.concatenate([self._ended, ended])
        slots = self._roster.slots
        columns: dict[str, Array] = {
            "target": slots[self._pairs.targets[ended["pair"]]],
            "number": ended["number"].copy(),
            "outcome": ended["outcome"].astype(np.int8),
            "reason": ended["reason"].astype(np.int8),
            **{name: ended[name].copy() for name in ph.METRICS},
        }
        return Frame("engagement", time, slots[self._pairs.drones[ended["pair"]]], columns)
