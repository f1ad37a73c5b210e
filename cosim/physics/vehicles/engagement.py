"""Drones that are ordered to join a moving target, follow it, and come home: any number of pairs at once.

    pairs = Engagements(fleet, drones=[0], targets=[1])
    pairs.command([0], engage=True)
    while fleet.now < 120.0:
        fleet.advance(fleet.now + 0.1)
        pairs.tick(Links.steady(1, delay=0.1))
    pairs.records()

States: home-idle, arming, takeoff, approach, follow, return, landing; `failsafe` when the autopilot has
taken over; `abort` when a drone is called off before it flies. A drone knows its target by the last report
that it *received*. Nothing here reads a clock or a socket; all times are the fleet's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Flags, Floats, Ints, Records
from cosim.physics.vehicles import phases as ph
from cosim.physics.vehicles.coverage import FieldCoverage
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.follow import apart, fenced, stand_off
from cosim.physics.vehicles.layout import EMPTY, GO, LAND, NONE, RETURN
from cosim.physics.vehicles.layout import FENCE as FENCED
from cosim.physics.vehicles.logbook import Logbook
from cosim.physics.vehicles.reports import Chance, PairLinks, Reports
from cosim.physics.vehicles.rule import Follow

_ENGAGE, _DISENGAGE = 1, 2
_SOON = 1e-9  # s; moments are sums of steps


def _phases(*which: int) -> Flags:
    """(phases,) a table: looking up is much quicker than a search in few values."""
    table = np.zeros(ph.ABORT + 1, bool)
    table[list(which)] = True
    return table


_OUTWARD = _phases(ph.TAKEOFF, ph.APPROACH, ph.FOLLOW)
_UNDER_WAY = _phases(ph.ARMING, ph.TAKEOFF, ph.APPROACH, ph.FOLLOW)
_CAN_FALL_OUT = _phases(ph.ARMING, ph.TAKEOFF, ph.APPROACH, ph.FOLLOW, ph.RETURN, ph.FAILSAFE)
_EARLY = _phases(ph.ARMING, ph.TAKEOFF)
_LED = _phases(ph.APPROACH, ph.FOLLOW)


class Engagements:
    """n pairs of a drone and its target, both rows of `fleet`; no drone is in two pairs.

    `rules` is one for all or one per pair. `keys` (n,) seed the draws of lost reports and commands: those of
    a pair depend on its own key only. With `area` (west, south, east, north in m) what the cameras see is kept.
    """

    def __init__(
        self,
        fleet: VehicleFleet,
        drones: ArrayLike,
        targets: ArrayLike,
        rules: Follow | Sequence[Follow] = Follow(),  # noqa: B008 - frozen
        keys: ArrayLike | None = None,
        area: tuple[float, float, float, float] | None = None,
    ) -> None:
        self.fleet = fleet
        self.drones = np.atleast_1d(np.asarray(drones, np.int64))
        self.targets = np.atleast_1d(np.asarray(targets, np.int64))
        count = len(self.drones)
        if len(np.unique(self.drones)) != count or len(self.targets) != count:
            raise ValueError("every pair needs a drone of its own and a target")
        every = [rules] * count if isinstance(rules, Follow) else list(rules)
        if len(every) != count:
            raise ValueError(f"{count} pairs, but {len(every)} rules")
        self._rule = {f.name: np.array([getattr(r, f.name) for r in every], np.float64) for f in fields(Follow)}
        self.phase = np.full(count, ph.HOME_IDLE, np.int64)
        self.failed = np.zeros(count, bool)  # drones that take and hear nothing
        self.silent = np.zeros(count, bool)  # whose target sends nothing
        self.unready = np.zeros(count, bool)  # whose autopilot, not ours, is still to be armed; set it at will
        self._chance = Chance(np.arange(count, dtype=np.uint64) if keys is None else np.asarray(keys, np.uint64))
        self.reports = Reports(count, self._chance)
        self.log = Logbook(
            fleet, self.drones, self.targets, self._rule, None if area is None else FieldCoverage(count, area)
        )
        self.position_error = np.zeros((len(fleet.state), 3))  # m, of each of the fleet; set it at will
        self._arming = self._rule["arming"].copy()  # s, of the present engagement
        self._since = np.zeros(count)
        self._report_at = np.zeros(count)
        self._order = np.zeros(count, np.int64)
        self._try_at = np.full(count, np.inf)
        self._tries = np.zeros(count, np.int64)
        self._arrives = np.full(count, np.inf)
        self._arriving = np.zeros(count, np.int64)
        self._wanted = np.zeros(count, bool)  # engaged, but not ready to arm
        self._ready_at = np.full(count, -np.inf)  # s, its battery has been changed
        self._inside = np.full(count, np.nan)  # s, within the radius since
        self._failsafe = fleet.state["failsafe"][self.drones].copy()
        fleet.set_fence(self.drones, self._rule["fence"], self._rule["ceiling"])

    def __len__(self) -> int:
        return len(self.drones)

    @property
    def ordered(self) -> Flags:
        """(n,) whether an order to engage is on its way, or waits until the drone is ready."""
        return np.asarray((self._order == _ENGAGE) | np.isfinite(self._arrives) | self._wanted)

    def command(self, which: ArrayLike, engage: bool) -> None:
        """Let the controller order pairs to engage or to disengage; the order goes over the link at the next tick."""
        w = np.atleast_1d(np.asarray(which, np.int64))
        self._order[w] = _ENGAGE if engage else _DISENGAGE
        self._try_at[w], self._tries[w] = self.fleet.now, self._rule["tries"][w]
        self._arrives[w] = np.inf  # a later order overtakes one on its way
        if engage:
            self.log.order(w)

    def fail(self, which: ArrayLike, failed: bool = True) -> None:
        """Drones that fail land where they are; recovered ones wait for the next order."""
        w = np.atleast_1d(np.asarray(which, np.int64))
        self.failed[w] = failed
        if failed:
            self._drop(w, ph.NODE_FAILED)
            self._descend(w[_CAN_FALL_OUT[self.phase[w]]], ph.LANDING)

    def refuse(self, which: ArrayLike) -> None:
        """Drones whose autopilots, not ours, could not be armed: their engagement ends before they fly."""
        w = np.atleast_1d(np.asarray(which, np.int64))
        w = w[_EARLY[self.phase[w]]]
        self.log.reason(w, ph.REFUSED)
        self._landed(w, self.fleet.now)

    def tick(self, links: PairLinks, done: Flags | None = None) -> None:
        """Read the fleet's present state and command the drones; `done` (n,): the target has finished."""
        if not len(self):
            return  # most fleets: a twentieth of a short run
        now = self.fleet.now
        self.log.book(self.phase)
        self._notify(now, links)
        self.reports.receive(now)
        self._change_batteries(now)
        self._hear(now, links)
        self._watch(now)
        self._go_on(now)
        flying = _LED[self.phase]
        if flying.any():
            self._follow(now, flying, np.zeros(len(self), bool) if done is None else done)
        self.log.measure(self.phase, links, self.reports.sent)

    def records(self) -> Records:
        """What was written down about each engagement so far (`cosim.physics.vehicles.phases.RECORD`), in order of
        command."""
        return self.log.records()

    def _enter(self, which: Ints, phase: int, now: float) -> None:
        self.phase[which] = phase
        self._since[which] = now

    def _notify(self, now: float, links: PairLinks) -> None:
        """The targets report where they are."""
        which = np.flatnonzero(self._report_at <= now + _SOON)
        if not len(which):
            return
        self._report_at[which] += self._rule["report"][which] * np.ceil(
            (now - self._report_at[which] + _SOON) / self._rule["report"][which]
        ).clip(1.0)
        which = which[~(self.failed | self.silent)[which]]
        s, t = self.fleet.state, self.targets[which]
        said = np.column_stack([s[name][t] for name in ("x", "y", "z", "vx", "vy", "vz", "heading")])
        said[:, :3] += self.position_error[t]
        self.reports.send(which, now, said, links.delay[which], links.loss[which])

    def _change_batteries(self, now: float) -> None:
        full = (self.phase == ph.HOME_IDLE) & np.isfinite(self._ready_at) & (now >= self._ready_at - _SOON)
        if full.any():
            self.fleet.recharge(self.drones[full])
            self._ready_at[full] = -np.inf

    def _hear(self, now: float, links: PairLinks) -> None:
        """Commands are sent, lost, sent again, and arrive."""
        which = np.flatnonzero((self._order > 0) & (self._try_at <= now + _SOON))
        if len(which):
            lost = (self._chance.draw(which) < links.command_loss[which]) | self.failed[which]
            sent = which[~lost]
            self._arrives[sent] = now + links.command_delay[sent]
            self._arriving[sent] = self._order[sent]
            self._order[sent] = 0
            again = which[lost]
            self._tries[again] -= 1
            self._try_at[again] += self._rule["retry"][again]
            given_up = again[self._tries[again] <= 0]
            self.log.never(given_up[self._order[given_up] == _ENGAGE], ph.UNHEARD)
            self._order[given_up] = 0
        here = self._arrives <= now + _SOON
        if here.any():
            self._arrives[here] = np.inf
            self._disengaged(np.flatnonzero(here & (self._arriving == _DISENGAGE)), now)
            self._engaged(np.flatnonzero(here & (self._arriving == _ENGAGE)), now)
        waiting = np.flatnonzero(self._wanted & (self.phase == ph.HOME_IDLE) & (now >= self._ready_at - _SOON))
        if len(waiting):
            self._arm(waiting, now)

    def _engaged(self, which: Ints, now: float) -> None:
        self.log.heard(which)
        phase, s = self.phase[which], self.fleet.state
        sound = (s["failsafe"][self.drones[which]] == NONE) & (self._charge(which) > self._rule["reserve"][which])
        turning = (phase == ph.RETURN) & sound
        self.log.begin(which[turning], again=True)
        self._enter(which[turning], ph.APPROACH, now)
        self._inside[which[turning]] = np.nan
        under_way = _UNDER_WAY[phase]
        self.log.forget(which[under_way])  # it is engaged already
        self._wanted[which[~turning & ~under_way]] = True

    def _disengaged(self, which: Ints, now: float) -> None:
        self._drop(which, ph.DISENGAGED)
        self._descend(which[_EARLY[self.phase[which]]], ph.ABORT)
        self._return(which[_LED[self.phase[which]]], ph.DISENGAGED, now)

    def _drop(self, which: Ints, reason: int) -> None:
        """Forget orders that have not been carried out yet."""
        self.log.never(which[self._wanted[which]], reason)
        self._wanted[which] = False

    def _charge(self, which: Ints) -> Floats:
        d = self.drones[which]
        return np.asarray(self.fleet.state["charge"][d] / self.fleet.frames["capacity"][d])

    def _arm(self, which: Ints, now: float) -> None:
        self._wanted[which] = False
        weak = self._charge(which) <= self._rule["reserve"][which]
        self.log.never(which[weak], ph.BATTERY)
        able = which[~weak]
        obeys = self.fleet.arm(self.drones[able])
        self.log.never(able[~obeys], ph.REFUSED)
        armed = able[obeys]
        self.log.begin(armed)
        self._enter(armed, ph.ARMING, now)
        spread = self._rule["arming_spread"][armed]
        self._arming[armed] = self._rule["arming"][armed]
        some = spread > 0.0  # others do not draw
        self._arming[armed[some]] -= spread[some] * np.log1p(-self._chance.draw(armed[some]))
        self._inside[armed] = np.nan

    def _descend(self, which: Ints, phase: int) -> None:
        """Come down where they are; those on the ground disarm."""
        up = self.fleet.state["landed"][self.drones[which]] == 0
        self.fleet.land(self.drones[which[up]])
        self.fleet.arm(self.drones[which[~up]], on=False)
        self.log.reason(which, ph.NODE_FAILED if phase == ph.LANDING else ph.DISENGAGED)
        self._enter(which, phase, self.fleet.now)

    def _return(self, which: Ints, reason: int, now: float) -> None:
        if not len(which):
            return
        self.fleet.go_home(self.drones[which])
        self.log.reason(which, reason)
        self._enter(which, ph.RETURN, now)

    def _watch(self, now: float) -> None:
        """The autopilot's own fail-safes, and drones that are on the ground again."""
        s, d = self.fleet.state, self.drones
        failsafe, mode = s["failsafe"][d], s["mode"][d]
        takes_over = (mode == RETURN) | (mode == LAND) | (failsafe == EMPTY)
        hit = _OUTWARD[self.phase] & (failsafe != self._failsafe) & (failsafe != NONE) & takes_over
        if hit.any():
            self.log.reason(np.flatnonzero(hit & (failsafe == FENCED)), ph.FENCE)
            self.log.reason(np.flatnonzero(hit & (failsafe != FENCED)), ph.BATTERY)
            self._enter(np.flatnonzero(hit), ph.FAILSAFE, now)
        self._failsafe = failsafe
        down = (self.phase >= ph.TAKEOFF) & (s["armed"][d] == 0) & (self._since < now)
        if down.any():
            self._landed(np.flatnonzero(down), now)

    def _landed(self, which: Ints, now: float) -> None:
        d = self.drones[which]
        self.log.reason(which[self.fleet.state["crashed"][d] != 0], ph.CRASHED)
        self.log.close(which, self.phase[which] == ph.LANDING, now - self._since[which])
        self._enter(which, ph.HOME_IDLE, now)
        beyond = which[self.fleet.state["failsafe"][d] == FENCED]
        if len(beyond):  # the fence has done its part
            self.fleet.recharge(self.drones[beyond], self._charge(beyond))
        changed = which[
            (self._charge(which) < self._rule["swap_below"][which]) & np.isfinite(self._rule["swap"][which])
        ]
        self._ready_at[changed] = now + self._rule["swap"][changed]

    def _go_on(self, now: float) -> None:
        """What follows from the state of the vehicle alone."""
        s, d, phase = self.fleet.state, self.drones, self.phase
        up = np.flatnonzero((phase == ph.ARMING) & (now - self._since >= self._arming - _SOON) & ~self.unready)
        if len(up):
            self.fleet.take_off(d[up], self._rule["height"][up])
            self.log.note("t_arm", up, now - self._since[up])
            self._enter(up, ph.TAKEOFF, now)
        mode, stage = s["mode"][d], s["stage"][d]
        high = np.flatnonzero((phase == ph.TAKEOFF) & (mode == GO) & (s["landed"][d] == 0))
        if len(high):
            self.log.note("t_takeoff", high, now - self._since[high])
            self._enter(high, ph.APPROACH, now)
        took_over = (phase == ph.FAILSAFE) & (self._since < now)
        self._enter(np.flatnonzero(took_over & (mode == RETURN)), ph.RETURN, now)
        self._enter(np.flatnonzero(took_over & (mode != RETURN)), ph.LANDING, now)
        home = np.flatnonzero((phase == ph.RETURN) & (((mode == RETURN) & (stage == 3)) | (mode == LAND)))
        if len(home):
            self.log.note("t_return", home, now - self._since[home])
            self._enter(home, ph.LANDING, now)

    def _follow(self, now: float, flying: Flags, done: Flags) -> None:
        """Go where the target is thought to be; hover, and then return, when nothing was heard of it."""
        s, rule, reports = self.fleet.state, self._rule, self.reports
        age = now - reports.sent
        silence = np.minimum(age, now - self._since + rule["stale"])  # a new approach waits as a hover does
        self._return(np.flatnonzero(flying & done), ph.TARGET_DONE, now)
        flying = flying & ~done
        lost = flying & (silence > rule["stale"] + rule["patience"])
        self._return(np.flatnonzero(lost), ph.LINK_LOST, now)
        hover = np.flatnonzero(flying & ~lost & (age > rule["stale"]) & (s["mode"][self.drones] == GO))
        if len(hover):
            self.fleet.hold(self.drones[hover])
        lead = np.flatnonzero(flying & (age <= rule["stale"]))
        if len(lead):
            d = self.drones[lead]
            believed = reports.place[lead] + reports.velocity[lead] * age[lead, None]
            offset = (rule["behind"][lead], rule["aside"][lead], rule["height"][lead])
            point = stand_off(believed, reports.heading[lead], *offset)
            error = self.position_error[d]
            here = np.column_stack([s["x"][d], s["y"][d], s["z"][d]]) + error
            home = np.column_stack([s["home_x"][d], s["home_y"][d], s["home_z"][d]])
            point = apart(point, here, believed, rule["separation"][lead])
            inside = fenced(point, home, rule["fence"][lead], rule["ceiling"][lead])
            held = (inside != point).any(axis=1)  # a point at the fence does not move on
            velocity = np.where(held[:, None], 0.0, reports.velocity[lead])
            self.fleet.go(d, inside - error, velocity)
        self._contact(now, np.flatnonzero(flying & ~lost))

    def _contact(self, now: float, which: Ints) -> None:
        """Whether drones on their way have come to the true stand-off point, to stay."""
        which = which[self.phase[which] == ph.APPROACH]
        if not len(which):
            return
        error, lift = self.log.errors(which)
        radius = self._rule["radius"][which]
        within = (error <= radius) & (np.abs(lift) <= radius)
        since = np.where(within, np.where(np.isnan(self._inside[which]), now, self._inside[which]), np.nan)
        self._inside[which] = since
        stays = now - since >= self._rule["settle"][which] - _SOON
        made = which[stays]
        if len(made):
            self.log.contact(made, self._inside[made], self._inside[made] - self._since[made])
            self._enter(made, ph.FOLLOW, now)
