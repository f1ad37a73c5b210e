"""How long it takes to engage a drone: homes against positions of the tractor, thousands of flights side by side.

    from cosim.physics.vehicles.study import study

    found = study(homes=[(0, 0), (-200, 0)], positions=[(0, 0.2), (3, 0.8)])
    found.t_engage            # (homes, positions) s
    found.surface             # t = constant + per_metre * distance + per_speed * speed away from home

Every engagement is a flight of its own: the tractor works its row, the drone is ordered from its home, joins
it, follows, is called off, returns and lands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats, Ints, Records
from cosim.physics.vehicles import phases as ph
from cosim.physics.vehicles.airframe import Copter, Rover
from cosim.physics.vehicles.engagement import Engagements
from cosim.physics.vehicles.fleet import VehicleFleet
from cosim.physics.vehicles.phases import RECORD
from cosim.physics.vehicles.reports import PairLinks
from cosim.physics.vehicles.rows import FieldRows
from cosim.physics.vehicles.rule import Follow

LinkLaw = Callable[[Floats], PairLinks]  # m between target and drone (n,) -> links

_WARM_UP = 5.0  # s that tractors drive before the order, so that they are at speed
_LONGEST = 1800.0  # s of one flight


@dataclass(frozen=True, slots=True)
class Surface:
    """Least squares over completed engagements: t = constant + per_metre d + per_speed v."""

    constant: float  # s
    per_metre: float  # s/m, of the distance from home to the target at the command
    per_speed: float  # s per m/s of the target's speed away from home
    explained: float  # R^2

    def at(self, distance: ArrayLike, away: ArrayLike = 0.0) -> Floats:
        """s until contact at `distance` m, with the target moving away at `away` m/s."""
        return np.asarray(
            self.constant + self.per_metre * np.asarray(distance) + self.per_speed * np.asarray(away), np.float64
        )


@dataclass(frozen=True, slots=True, eq=False)
class EngagementStudy:
    """`t_engage` (h, p) s, NaN: no contact; `records` (h * p,) of `RECORD`, home by home."""

    homes: Floats  # (h, 2) m
    positions: tuple[tuple[int, float], ...]  # row, part of it
    t_engage: Floats
    records: Records
    surface: Surface
    simulated: float  # s, sum over all flights from the tractor's start to the landing


def study(
    homes: ArrayLike,
    positions: Sequence[tuple[int, float]],
    field: FieldRows = FieldRows(),  # noqa: B008 - frozen
    rule: Follow = Follow(),  # noqa: B008
    copter: Copter = Copter(),  # noqa: B008
    rover: Rover = Rover(steering="ackermann"),  # noqa: B008
    *,
    follow: float = 60.0,
    links: LinkLaw | None = None,
    seed: int = 0,
    substep: float = 0.02,
    period: float = 0.1,
    batch: int = 1000,
    coverage: bool = False,
) -> EngagementStudy:
    """Fly every home against every position once; `follow` s in follow, then it is called off.

    `links` gives the links by distance, default: 100 ms, no loss. `batch` flights go side by side; it
    changes the time that this takes, not what comes out. Raises `ValueError` for rows that the field
    does not have.
    """
    place = np.array(homes, np.float64).reshape(-1, 2)
    for row, part in positions:
        if not (0 <= row < field.rows and 0.0 <= part < 1.0):
            raise ValueError(f"there is no place ({row}, {part:g}) in a field of {field.rows} rows")
    cases = [(h, p) for h in range(len(place)) for p in range(len(positions))]
    spots = [field.on_row(*where) for where in positions]
    # flights of like length go together
    far = np.array([math.hypot(spots[p][0] - place[h, 0], spots[p][1] - place[h, 1]) for h, p in cases])
    order = np.argsort(far, kind="stable")
    records: Records = np.zeros(len(cases), RECORD)
    simulated = 0.0
    for first in range(0, len(order), batch):
        numbers = order[first : first + batch]
        made, spent = _fly(
            place[[cases[k][0] for k in numbers]], [positions[cases[k][1]] for k in numbers], field, rule,
            copter=copter, rover=rover, follow=follow, links=links or _steady, keys=numbers + 65536 * seed,
            substep=substep, period=period, coverage=coverage,
        )  # fmt: skip
        made["pair"] = numbers
        records[numbers] = made
        simulated += spent
    times = records["t_engage"].reshape(len(place), len(positions))
    return EngagementStudy(place, tuple(positions), times, records, fit(records), simulated)


def fit(records: Records) -> Surface:
    """The surface of the engagements that made contact; NaN when there are fewer than four."""
    got = records[np.isfinite(records["t_engage"])]
    if len(got) < 4:
        return Surface(math.nan, math.nan, math.nan, math.nan)
    away = np.column_stack([got["target_x"] - got["home_x"], got["target_y"] - got["home_y"]])
    distance = np.maximum(got["distance_command"], 1e-9)
    speed = (got["target_vx"] * away[:, 0] + got["target_vy"] * away[:, 1]) / distance
    known = np.column_stack([np.ones(len(got)), distance, speed])
    found, *_ = np.linalg.lstsq(known, got["t_engage"], rcond=None)
    left = got["t_engage"] - known @ found
    spread = got["t_engage"] - got["t_engage"].mean()
    total = float(spread @ spread)
    explained = 1.0 - float(left @ left) / total if total > 0.0 else 1.0
    return Surface(float(found[0]), float(found[1]), float(found[2]), explained)


def _steady(away: Floats) -> PairLinks:
    return PairLinks.steady(len(away), 0.1)


def _fly(
    homes: Floats, positions: Sequence[tuple[int, float]], field: FieldRows, rule: Follow, *, copter: Copter,
    rover: Rover, follow: float, links: LinkLaw, keys: Ints, substep: float, period: float, coverage: bool,
) -> tuple[Records, float]:  # fmt: skip
    """The records (n,) of n flights side by side, and the s that they took in all."""
    count = len(homes)
    spots = np.array([field.on_row(*where) for where in positions])
    starts = np.column_stack([np.concatenate([homes, spots[:, :2]]), np.zeros(2 * count)])
    fleet = VehicleFleet(
        [copter] * count + [rover] * count, starts, np.concatenate([np.zeros(count), spots[:, 2]]), substep
    )
    drones, tractors = np.arange(count), np.arange(count, 2 * count)
    course, row_of = field.course()
    fleet.share_mission(tractors, course)
    fleet.arm(tractors)
    items = {row: int(np.flatnonzero(row_of == row)[0]) for row, _ in positions}
    for row, item in items.items():
        fleet.start_mission(tractors[[k for k in range(count) if positions[k][0] == row]], item)
    pairs = Engagements(fleet, drones, tractors, rule, keys, field.box(20.0) if coverage else None)
    s = fleet.state

    def tick() -> None:
        fleet.advance(fleet.now + period)
        away = np.sqrt(sum((s[axis][:count] - s[axis][count:]) ** 2 for axis in "xyz"))
        pairs.tick(links(away), s["done"][tractors] != 0)

    while fleet.now < _WARM_UP - 1e-9:
        tick()
    pairs.command(drones, engage=True)
    called = np.zeros(count, bool)
    following = np.full(count, np.inf)
    ended = np.full(count, np.nan)
    while np.isnan(ended).any() and fleet.now < _LONGEST:
        tick()
        following = np.where((pairs.phase == ph.FOLLOW) & np.isinf(following), fleet.now, following)
        due = ~called & (fleet.now - following >= follow - 1e-9)
        if due.any():
            pairs.command(np.flatnonzero(due), engage=False)
            called |= due
        over = np.isnan(ended) & (pairs.phase == ph.HOME_IDLE) & ~pairs.ordered
        ended[over] = fleet.now
    found = pairs.records()
    total = float(np.where(np.isnan(ended), fleet.now, ended).sum())
    return found[np.argsort(found["pair"], kind="stable")], total
