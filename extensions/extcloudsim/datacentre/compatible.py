"""The decisions of a period in plain Python: ExtCloudSim's under `physics: compatible`, or ours for a user's placer.

ExtCloudSim's rules were found by logging what the program decides. Each that `quirks` names can be switched off alone;
without any, the procedure is the one that `control` has compiled. At period k the program knows u(k), the utilisation
that the period will have ("now"), and u(k - 1) ("last"). Sums are in the order in which machines came to their hosts,
which decides ties.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.extcloudsim.datacentre import decide, govern
from cosim.extensions.extcloudsim.datacentre.account import EMPTY
from cosim.extensions.extcloudsim.datacentre.detect import entries, foreseen, overloaded, spread_limit
from cosim.extensions.extcloudsim.datacentre.layout import DETECTORS, HISTORY, LAN, THR, Bools
from cosim.extensions.extcloudsim.datacentre.quirks import IDLE, SMALL

if TYPE_CHECKING:
    from cosim.extensions.extcloudsim.datacentre.model import Datacentres

REGRESSED: Final = np.arange(10.0) - 4.5  # x of the entries that lr and lrr look at, from their mean
COPIED: Final = LAN / 2.0  # MB/s that lr and lrr expect of a migration
Moves = list[tuple[int, int]]  # machine, host


def in_order(model: Datacentres, homeless: bool = False) -> list[int]:
    """The machines that have a host, or have lost theirs, in the order in which they came there."""
    there = model.alive & ((model.at < 0) & model.crashed if homeless else model.at >= 0)
    return [v for v in np.argsort(model.came).tolist() if there[v]]


def determination(rows: Floats) -> Floats:
    """R^2 of each row regressed on all others, as `control.determination` has it."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    norm = np.sqrt((centred * centred).sum(axis=1, keepdims=True))
    centred /= np.where(norm > 0.0, norm, 1.0)
    c = centred @ centred.T
    np.fill_diagonal(c, 1.0 + 1e-9)
    return np.asarray(1.0 - 1.0 / np.diag(np.linalg.inv(c)))


class Procedure:
    """Who is on which host while one period's decisions are made, and what the loads are."""

    def __init__(self, model: Datacentres, now: Floats, last: Floats, admission: bool = False) -> None:
        self.model, self.s, self.m, self.hosts = model, model.settings, model.machines, model.hosts
        self.now, self.last, self.has = now, last, model.quirk
        self.movable = model.alive & (model.arrival <= model.time)
        small = (now < SMALL * self.m.mips) & (self.has("small-loads") and not admission)
        self.ram = np.where(small, 0.0, self.m.ram)  # MB that machines take of their hosts
        # the program keeps no record of the first period
        past = [now, *model.seen[:0:-1]] if self.has("two-loads") else model.seen[::-1]
        past = [] if admission else past[:HISTORY]
        self.history = np.zeros((len(now), HISTORY))
        self.history[:, : len(past)] = np.array(past).T if past else 0.0
        self.slow = model.kinds.slowdown[self.hosts.kind]  # (hosts, classes, points)
        self.clock = model.kinds.frequency[self.hosts.kind]
        self.rows = np.arange(len(self.slow))
        self.load = np.zeros((len(self.slow), self.slow.shape[2]))  # by the last load, at each point
        self.used, self.held, self.gpus = np.zeros((3, len(self.slow)))  # capacity now, MB, GPUs
        self.on: list[list[int]] = [[] for _ in self.rows]
        for v in in_order(model):
            self.push(v, int(model.at[v]))
        self.top, self.point = decide.judging_point(model), model.point.copy()
        if self.s.governor == "cost" and not admission:
            self.point = np.argmin(govern.powers(self.hosts, model.kinds, self.load) / self.clock, axis=1)
        self.state = model.state(now)
        self.flags = self.s.detector(self.state) if callable(self.s.detector) else model.up
        self.score = decide.score_of(model, self.state)
        if self.s.peer and self.s.selector == "mu":
            self.score = now / self.m.mips
        if self.has("small-loads") and self.s.selector == "mct":
            self.score = np.where(now < IDLE * self.m.mips, np.inf, self.score)

    def share(self, h: int, v: int) -> Floats:
        """(points,) of host h that machine v asks for by its last load."""
        return np.asarray(self.last[v] * self.slow[h, self.m.work[v]] / self.hosts.mips[h])

    def push(self, v: int, h: int) -> None:
        """Put machine v on host h."""
        self.on[h].append(v)
        self.load[h] += self.share(h, v)
        self.used[h] += self.now[v]
        self.held[h] += self.ram[v]
        self.gpus[h] += self.m.gpus[v]

    def pull(self, v: int, h: int) -> None:
        """Take machine v off host h, whose sums are made anew."""
        rest = [w for w in self.on[h] if w != v]
        self.on[h], self.load[h], self.used[h], self.held[h], self.gpus[h] = [], 0.0, 0.0, 0.0, 0.0
        for w in rest:
            self.push(w, h)

    def over(self, h: int, v: int = -1) -> bool:
        """Whether host h is over-loaded, with machine v on it too unless v is -1."""
        on = [*self.on[h], v] if v >= 0 else self.on[h]
        if not on:
            return False
        load = self.load[h] + (self.share(h, v) if v >= 0 else 0.0)
        return self._over_by_peer(h, v, on, load) if self.has("own-detectors") else self._over(h, v, on, load)

    def _over(self, h: int, v: int, on: Sequence[int], load: Floats) -> bool:
        s, judged, past, place = self.s, float(load[self.top[h]]), self.past(h, on), self.hosts.place[h]
        if callable(s.detector):
            return judged > s.threshold if v >= 0 else bool(self.flags[h])
        number = THR if s.predictor else DETECTORS[s.detector]
        ahead = float(np.ceil(self.m.ram[on].max() / self.model.wan.bandwidth[place, place] / s.period))
        return bool(overloaded(number, s.threshold, s.safety, judged, past, entries(past), ahead))

    def _over_by_peer(self, h: int, v: int, on: Sequence[int], load: Floats) -> bool:
        s, mips, detector = self.s, self.hosts.mips[h], str(self.s.detector)
        point = int((self.top if v >= 0 and not self.has("room-with-slow-downs") else self.point)[h])
        past = self.past(h, on, point if detector == "fop" else -1)
        length = entries(past)
        if detector == "fop" and length > 10:
            return bool(foreseen(past) > s.threshold)
        if detector in ("lr", "lrr") and length > 10:  # one unweighted line for both, without the newest entry
            y, x = past[10:0:-1], REGRESSED
            ahead = np.ceil(self.m.ram[on].max() / COPIED / s.period)
            return bool(s.safety * (y.mean() + (x @ y) / (x @ x) * (4.5 + ahead)) > s.threshold)
        if detector in ("iqr", "mad") and length >= 12:
            now = sum(self.now[w] / mips for w in on)
            return bool(now > spread_limit(DETECTORS[detector], s.safety, past, length))
        if detector in ("sno", "foh", "fop"):
            judged = sum(self.last[w] / self.slow[h, self.m.work[w], point] / mips for w in on)
        else:
            judged = load[point if s.governor == "cost" else self.top[h]]
        return bool(min(1.0, judged) > s.threshold)

    def past(self, h: int, on: Sequence[int], point: int = -1) -> Floats:
        """(HISTORY,) load of host h by the past of these machines, newest first, with slow-downs at a point."""
        made = np.zeros(HISTORY)
        for w in on:
            made += self.history[w] * self.slow[h, self.m.work[w], point] / self.hosts.mips[h]
        return made

    def place(self, v: int, closed: Bools) -> int:
        """The host for machine v, -1 if it fits on none."""
        s, rows, mips = self.s, self.rows, self.hosts.mips
        free = self.hosts.ram * s.overcommit - self.held
        room = ~closed & self.model.up & (self.ram[v] <= free) & (self.gpus + self.m.gpus[v] <= self.hosts.gpus)
        if callable(s.placer):
            room &= (self.used + self.now[v]) / mips <= s.threshold
            h = int(s.placer(self.state, v, np.where(room, self.used / mips, np.inf), free))
            return h if 0 <= h < len(rows) and room[h] else -1
        room &= self.used + self.now[v] <= mips
        after = self.load + self.last[v] * self.slow[:, self.m.work[v]] / mips[:, None]
        point = self.point if self.has("room-with-slow-downs") else self.top
        if s.placer == "dvfs":
            point, before = govern.lowest_below(np.minimum(1.0, after), self.top, s.threshold), self.point
            if not self.has("clock-fit"):
                before = govern.lowest_below(self.load, self.top, s.threshold)
                room &= after[rows, self.top] < s.threshold
            rise = self.clock[rows, point] - self.clock[rows, before]
            rise = rise if self.has("clock-fit") else rise / self.clock[rows, self.top]
            badness = rise - np.minimum(1.0, after[rows, point])
        elif s.placer == "first-fit":
            badness = rows.astype(np.float64)
        else:
            badness = s.threshold - after[rows, point]
            room &= after[rows, point] < s.threshold
        fit = np.flatnonzero(room)
        for h in fit[np.argsort(badness[fit], kind="stable")].tolist():
            if self.stays_put() or not self.on[h] or not self.over(h, v):
                if s.placer == "dvfs":
                    self.point[h] = point[h]
                return int(h)
        return -1

    def stays_put(self) -> bool:
        """Whether nothing ever moves: the program's policies sn and dvfs."""
        return self.s.placer == "first-fit" and self.has("placed-once")

    def select(self, h: int, but: Collection[int] = ()) -> int:
        """The machine that leaves host h next, -1 if none may."""
        on = self.on[h]
        can = [v for v in on if self.movable[v] and self.score[v] < np.inf and v not in but]
        if self.s.selector == "mc" and len(on) > 2:
            length = max(2, entries(self.past(h, on)))
            r2 = dict(zip(on, determination(self.history[on, :length]), strict=True))
            return max(can, key=lambda v: r2[v], default=-1)
        return min(can, key=lambda v: self.score[v], default=-1)

    def sheds(self, h: int) -> bool:
        """Whether over-loaded host h, some machines less, must give up another."""
        return bool(self.load[h, self.top[h]] > self.s.threshold) if callable(self.s.detector) else self.over(h)

    def shed(self, hosts: Iterable[int], until_empty: bool = False) -> list[int]:
        """Take machines off these hosts."""
        leaving = []
        for h in hosts:
            while (v := self.select(h)) >= 0:
                self.pull(v, h)
                leaving.append(v)
                if not until_empty and not self.sheds(h):
                    break
        return leaving

    def placed(self, who: Iterable[int], closed: Bools, whole: bool = False) -> Moves:
        """Place machines by falling demand; `whole`: all of them or none."""
        made: Moves = []
        for v in sorted(who, key=lambda v: -self.now[v]):
            h = self.place(v, closed)
            if h >= 0:
                self.push(v, h)
                made.append((v, h))
            elif whole:
                for w, target in made:
                    self.pull(w, target)
                return []
        return made

    def insisted(self, over: Bools, tried: set[int]) -> Moves:
        """Moves of other machines of the hosts whose first choices fitted nowhere."""
        made: Moves = []
        for v in in_order(self.model):
            if v in tried:
                self.push(v, int(self.model.at[v]))
        for h in np.flatnonzero(over).tolist():
            while tried.intersection(self.on[h]) and self.sheds(h) and (v := self.select(h, tried)) >= 0:
                self.pull(v, h)
                target = self.place(v, over)
                self.push(v, target if target >= 0 else h)
                if target >= 0:
                    made.append((v, target))
                else:
                    tried.add(v)
        return made

    def part(self, h: int) -> float:
        """The part of host h that is used; where more is asked for than there is, machines get whole units."""
        used, mips = self.used[h], self.hosts.mips[h]
        if not self.has("two-loads"):
            return float(self.load[h, self.top[h]])
        if used > mips and self.has("whole-units"):
            used = sum(np.floor(self.now[v] * (mips / used)) for v in self.on[h])
        return float(used / mips)

    def moves(self) -> Moves:
        """(machine, host) in the order in which they start."""
        homeless = in_order(self.model, homeless=True)
        if self.stays_put():
            return self.placed(homeless, np.zeros(len(self.rows), np.bool_))
        if self.hosts.place.max() > 0 and self.has("brown-place"):
            brown = self.hosts.place == 0
            return self.placed([*homeless, *self.shed(np.flatnonzero(brown).tolist(), until_empty=True)], brown)
        part = np.array([self.part(h) for h in range(len(self.on))])
        over = np.array([self.over(h) for h in range(len(self.on))])
        leaving = homeless + self.shed(np.repeat(np.flatnonzero(over), 1 + self.has("listed-twice")).tolist())
        made = self.placed(leaving, over)
        if len(made) < len(leaving) and not self.has("one-choice"):
            made += self.insisted(over, set(leaving) - {v for v, _ in made})
        closed = over | (part == 0.0)  # to machines of hosts that are to be emptied
        tried = closed | (part >= 1.0)
        if not self.has("targets-emptied"):
            tried[[h for _, h in made]] = True
        while self.s.evacuate and not tried.all():
            h = int(np.argmin(np.where(tried, np.inf, part)))
            tried[h] = closed[h] = True
            who = list(self.on[h])
            emptied = self.placed(who, closed, whole=True) if all(self.movable[who]) else []
            tried[[target for _, target in emptied]] = True
            for v, _ in emptied:
                self.pull(v, h)
            made += emptied
        return made


def plainly(model: Datacentres, demand: Floats) -> Moves:
    """The moves of a period with this demand."""
    return Procedure(model, demand, demand).moves()


def begin(model: Datacentres, new: Ints) -> None:
    """Place new machines, send others on their way, set operating points."""
    coming = model.utilisation(model.period) * model.machines.mips
    asked = np.where(model.alive, model.machines.mips, 0.0)
    if len(new):
        loads = np.where(np.isin(np.arange(len(asked)), new), asked, coming)
        procedure = Procedure(model, loads, loads, admission=True)
        for v in new.tolist():
            h = procedure.place(v, np.zeros(len(model.up), np.bool_))
            model.crashed[v] = h < 0
            if h >= 0:
                procedure.push(v, h)
                model.move(v, h, fresh=True)
        model.point = procedure.point
    if model.seen:
        last = model.seen[-1]
        now = coming if model.quirk("two-loads") else last
        still = model.settings.placer == "first-fit" and model.quirk("placed-once")
        _send(model, Procedure(model, asked if still else now, last).moves(), now, last)
        model.point = points(model, last, now)


def _send(model: Datacentres, moves: Moves, now: Floats, last: Floats) -> None:
    """Machines come to their hosts in the order of exact durations; a machine may move twice, which costs once."""
    started, at = [], model.at.copy()
    for v, h in moves:
        started.append((v, int(at[v]), h))
        at[v] = h
    seconds = model.machines.ram / LAN
    ending = last + (now - last) * seconds / model.settings.period  # a period before it arrives
    idle = (np.maximum(last, ending) <= IDLE * model.machines.mips) & model.quirk("small-loads")
    final = {v: i for i, (v, _) in enumerate(moves)}
    for i in sorted(range(len(moves)), key=lambda i: seconds[moves[i][0]]):
        v, h = moves[i]
        free = bool(idle[v] or final[v] != i) and not model.crashed[v]
        model.move(v, h, fresh=free)
        model.sums.moves[v] += int(free)
    model.moves = started


def points(model: Datacentres, last: Floats, now: Floats) -> Ints:
    """(hosts,) the operating points of the period, by the last load on the new placement."""
    m, hosts, s = model.machines, model.hosts, model.settings
    if s.governor != "cost" or not model.quirk("billed-point"):
        return decide.governed(model, model.state(last))
    load = govern.loads(hosts, model.kinds, m, model.at, last)
    v = np.flatnonzero((model.at >= 0) & ~((now < SMALL * m.mips) & model.quirk("small-loads")))
    at, top = model.at[v], govern.top(hosts, model.kinds)
    part = 1.0 - (last[v] / m.mips[v])[:, None] / np.maximum(load[at], 1.0) if s.penalty == "proportional" else 1.0
    owed = np.zeros_like(load)
    np.add.at(owed, at, np.where(load[at] > 1.0, (m.rate * m.price)[v][:, None] * part, 0.0))
    watts = np.where(load > EMPTY, govern.powers(hosts, model.kinds, load), 0.0)
    price = np.array([float(one.price.at(model.time)) for one in model.tariffs])[hosts.place]
    allowed = (np.minimum(1.0, load) < s.threshold) | (load[np.arange(len(top)), top] > s.threshold)[:, None]
    allowed[np.arange(len(top)), top] |= ~allowed.any(axis=1)
    return np.asarray(np.argmin(np.where(allowed, watts * price[:, None] + owed, np.inf), axis=1), np.int64)
