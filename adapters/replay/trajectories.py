"""Trajectories as sorted arrays, and where everybody is at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from cosim.contract.records import Flags, Floats, Ints

Indices = Ints

EARTH = 6.371e6  # m, mean radius
FASTEST = 1000.0  # m/s between two samples; a higher speed means wrong units
MOVING = 1.0  # m/s, below which a position that trembles says nothing of a speed
DOUBTFUL, WRONG = 1.8, 10.0  # times that the speeds of a file and the motion in it may differ; 1.94: knots
LONG, WIDE = 10.0, 20.0  # s, and times the usual distance of samples, above which there is a gap
ASIDE = 60.0  # deg between heading and motion, beyond which an angle may be another one
COLUMNS = ("x", "y", "z", "speed", "heading")
HELD = ("mode", "armed", "failsafe")  # what holds until the next sample
ANGLES = ("heading", "roll")  # deg, the short way round


@dataclass(frozen=True)
class TrajectorySamples:
    """Samples as they were read, in any order: (n,) arrays; `lines` are their lines in the file, if known."""

    ids: tuple[str, ...]
    member: Indices  # index into `ids`
    columns: Mapping[str, Floats]  # "time" in s, then x, y or lat, lon, and what else there was
    extras: Mapping[str, Floats] = field(default_factory=dict)  # columns of the signal `vehicle`; NaN: not known
    begin: float = 0.0  # s since 1970 of time 0, where that is known
    declared: bool = True  # the format determines the units
    taken: tuple[str, ...] = ()  # what was taken for what
    doubts: tuple[str, ...] = ()  # what was left out, or contradicts itself


def moments(time: Floats) -> Indices:
    """Times in s as whole ns, so that equal times are equal however they were written."""
    return np.rint(time * 1e9).astype(np.int64)


class Trajectories:
    """Samples of all members, sorted by member id and time.

    Raises `ValueError` when they make no sense: none at all, not finite, two for one member at one
    time, motion that is too fast to be in metres and seconds.
    """

    def __init__(self, samples: TrajectorySamples) -> None:
        time = samples.columns["time"]
        if not len(time):
            raise ValueError("there is no sample in it")
        self._check_finite(samples)
        order_of_id = np.argsort(np.array(samples.ids, dtype=object), kind="stable")
        rank = np.empty(len(order_of_id), np.int64)
        rank[order_of_id] = np.arange(len(order_of_id))
        member, moment = rank[samples.member], moments(time)
        order = np.lexsort((moment, member))
        self.ids = tuple(samples.ids[i] for i in order_of_id)
        self._moment = moment[order]  # (n,) ns
        member = member[order]
        same = member[1:] == member[:-1]
        twice = np.flatnonzero(same & (self._moment[1:] == self._moment[:-1]))
        if len(twice):
            first = int(twice[0])
            raise ValueError(f"'{self.ids[member[first]]}' occurs twice at time {self._moment[first] * 1e-9:g} s")
        self._start = np.searchsorted(member, np.arange(len(self.ids)))  # (members,) first sample
        self._stop = np.append(self._start[1:], len(member))  # (members,) behind the last sample
        x, y = samples.columns["x"][order], samples.columns["y"][order]
        step = np.where(same, np.diff(self._moment) * 1e-9, np.inf)
        travel = np.hypot(np.diff(x), np.diff(y))
        fast = np.flatnonzero(travel > FASTEST * step)
        if len(fast):
            at = int(fast[0])
            raise ValueError(
                f"'{self.ids[member[at]]}' moves {travel[at]:g} m in {step[at]:g} s at time "
                f"{self._moment[at] * 1e-9:g} s; are positions in metres and times in seconds?"
            )
        given = {name: values[order] for name, values in samples.columns.items() if name in COLUMNS}
        given.setdefault("z", np.zeros(len(x)))
        self.begin, self.taken = samples.begin, samples.taken
        found = self._contradiction(given, travel, step, same, declared=samples.declared)
        self.doubts = (*samples.doubts, *found)
        usual = float(np.median(step[same])) if same.any() else 0.0
        wide = np.flatnonzero(same & (step > max(LONG, WIDE * usual)) & (travel > MOVING * LONG))
        self.gaps = ""
        if len(wide):
            at = int(wide[np.argmax(step[wide])])
            self.gaps = (
                f"no positions for {step[at]:.4g} s after {self._moment[at] * 1e-9:.6g} s, in which "
                f"'{self.ids[member[at]]}' moves straight; {len(wide)} gaps in all, {usual:.3g} s are usual"
            )
        if "heading" in given and not samples.declared:
            motion = self._headings(np.diff(x), np.diff(y), travel, same)
            moving = np.flatnonzero(same & (travel > MOVING * step))
            off = np.abs((given["heading"][moving] - motion[moving] + 180.0) % 360.0 - 180.0)
            if len(off) > 1 and (usual := float(np.median(off))) > ASIDE:
                text = f"headings that are {usual:.0f} deg off the motion: are they degrees clockwise from north?"
                self.doubts = (*self.doubts, text)
        if "speed" not in given:
            given["speed"] = self._hold(travel / np.where(same, step, 1.0), same)
        if "heading" not in given:
            given["heading"] = self._headings(np.diff(x), np.diff(y), travel, same)
        self._columns = {name: given[name] for name in COLUMNS}
        self._columns |= {name: values[order] for name, values in samples.extras.items()}
        self.extras = tuple(samples.extras)
        self._first, self._last = self._moment[self._start], self._moment[self._stop - 1]  # (members,) ns
        self.span = (int(self._first.min()), int(self._last.max()))  # ns, times of the first and the last sample
        heights = given["z"] + (x**2 + y**2) / (2.0 * EARTH)  # the ground curves away from the frame
        self.heights = (float(heights.min()), float(heights.max()))  # m above the origin's level
        distinct = np.unique(self._moment)
        # ns, smallest time between two different sample times, 0 when there is but one
        self.spacing = int(np.diff(distinct).min()) if len(distinct) > 1 else 0
        self._at = self._start.copy()  # (members,) latest sample not after the time of the last call
        self._asked = np.iinfo(np.int64).min

    def __len__(self) -> int:
        """Number of samples."""
        return len(self._moment)

    @property
    def summary(self) -> str:
        """What was taken of the file: members, samples, time span (s), and columns under other names or in units."""
        first, last = (time * 1e-9 for time in self.span)
        many = len(self.ids) > 1
        text = f"{len(self)} positions of {len(self.ids)} member{'s' if many else ''} from {first:g} s to {last:g} s"
        return "; ".join((f"gives {text}", *self.taken))

    def at(self, moment: int, *, interpolate: bool, gap: int | None) -> tuple[Indices, dict[str, Floats]]:
        """Who is there at `moment` (ns), as ascending indices into `ids`, and their columns (x, y, z, ..., and extras).

        A member is there from its first to its last sample, except between two samples that are more
        than `gap` ns apart. Cheap for moments that ascend.
        """
        if moment < self._asked:
            self._at = self._start.copy()
        self._asked = moment
        there = np.flatnonzero((self._first <= moment) & (moment <= self._last))
        now, last = self._at[there], self._stop[there] - 1
        behind = np.flatnonzero(now < last)
        while len(behind):
            behind = behind[self._moment[now[behind] + 1] <= moment]
            now[behind] += 1
            behind = behind[now[behind] < last[behind]]
        self._at[there] = now
        then = np.minimum(now + 1, last)
        begin, width = self._moment[now], self._moment[then] - self._moment[now]
        passed = moment - begin
        if gap is not None:
            keep = (width <= gap) | (passed == 0)
            there, now, then, width, passed = there[keep], now[keep], then[keep], width[keep], passed[keep]
        if not interpolate:
            return there, {name: column[now] for name, column in self._columns.items()}
        part = np.where(passed == 0, 0.0, passed / np.maximum(width, 1))
        result = {}
        for name, column in self._columns.items():
            if name in HELD:
                result[name] = column[now]
                continue
            change = column[then] - column[now]
            if name in ANGLES:
                change = (change + 180.0) % 360.0 - 180.0
            result[name] = column[now] + part * change
        result["heading"] %= 360.0
        return there, result

    def _contradiction(
        self, given: Mapping[str, Floats], travel: Floats, step: Floats, same: Flags, *, declared: bool
    ) -> Iterator[str]:
        """A doubt where the speeds of a file are not those of the motion in it.

        Raises `ValueError` where they are far off and the format does not determine the units.
        """
        if "speed" not in given:
            return
        means = (given["speed"][1:] + given["speed"][:-1]) / 2.0
        moving = same & (means > MOVING)
        took = float(step[moving].sum())
        reported, moved = (float(part.sum()) for part in (means[moving] * step[moving], travel[moving]))
        off = max(moved / max(reported, 1e-9), reported / max(moved, 1e-9)) if took > 0.0 else 1.0
        if off > DOUBTFUL:
            text = f"speeds of {reported / took:.3g} m/s on the average, positions that move by {moved / took:.3g} m/s"
            if off > WRONG and not declared:
                raise ValueError(f"{text}; name units in the heads, as 'time [ms]' and 'speed [km/h]'")
            yield f"{text}: in which units are they?"

    def _check_finite(self, samples: TrajectorySamples) -> None:
        for name, values in samples.columns.items():
            bad = np.flatnonzero(~np.isfinite(values))
            if len(bad):
                row = int(bad[0])
                who, when = samples.ids[samples.member[row]], samples.columns["time"][row]
                raise ValueError(f"{name} of '{who}' at time {when:g} s is {values[row]}, sample {row + 1} of the file")

    def _hold(self, forward: Floats, same: Flags) -> Floats:
        """Values (n,) from those of the n - 1 segments: a sample has its segment's, a member's last the one before."""
        n = len(same) + 1
        values = np.zeros(n)
        values[:-1][same] = forward[same]
        ends = np.flatnonzero(np.append(~same, True))
        ends = ends[ends > 0]
        ends = ends[same[ends - 1]]
        values[ends] = forward[ends - 1]
        return values

    def _headings(self, dx: Floats, dy: Floats, travel: Floats, same: Flags) -> Floats:
        """Direction of motion in deg clockwise from north (n,); who stands keeps the last one, 0 before any."""
        heading = self._hold(np.degrees(np.arctan2(dx, dy)) % 360.0, same)
        moving = self._hold(travel, same) > 0.0
        index = np.arange(len(heading))
        begin = np.maximum.accumulate(np.where(np.append(True, ~same), index, 0))
        latest = np.maximum.accumulate(np.where(moving, index, -1))
        return np.where(latest >= begin, heading[np.maximum(latest, 0)], 0.0)
