"""Why is the time until a drone is with its tractor not always the same? Its spread by seed, and what it comes from.

python -m benchmarks.engage [--seeds 1000] [--workers 1] [--json]

Every seed is an engagement with the rule, wind and field of the scenario `smart-farm`. Five sources vary: where the
tractor is when the order is given, gusts, lost reports and orders, errors of positions, and the time to arm. Shares are
variance-based indices (Sobol): `alone` is the part of the variance that a source explains by itself, `with others` the
part that is left when all other sources are as they were (first and total order, estimators of Saltelli et al. 2010,
table 2 b and f). Intervals are of 1,000 bootstraps at 95 %. The first hundred seeds are told apart from the rest.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Table, child_seconds, mapped, parser, print_result
from cosim.physics.vehicles import Copter, Rover, VehicleFleet
from cosim.physics.vehicles.engagement import Engagements
from cosim.physics.vehicles.gusts import Gusts, turned
from cosim.physics.vehicles.receivers import PositionErrors
from cosim.physics.vehicles.reports import PairLinks
from cosim.physics.vehicles.rows import FieldRows
from cosim.physics.vehicles.rule import Follow

Floats = NDArray[np.float64]
FIELD = FieldRows((60.0, 10.0), rows=12, pitch=6.0, length=150.0, headland=3.0, turn=3.5, speeds=(2.0, 1.6))
HOME, WIND = (-12.0, 6.0), (1.5, -1.0, 0.0)  # m, m/s
GUSTS, LOSS, DELAY = 4.0, 0.2, 0.1  # m/s of wind at 6 m, of reports and orders, s
LEVEL, HEIGHT, CORRELATION = 1.0, 1.0, 60.0  # m, m, s: of satellite positions
ARMING, WAITS = 1.0, 2.0  # s at least, and s besides in the mean
SOURCES = ("tractor's place", "gusts", "losses", "position errors", "arming")
HEADLINE, BOOTSTRAPS = 100, 1000
LONGEST, PERIOD, BEFORE = 150.0, 0.1, 5.0  # s


def fly(seeds: dict[str, int], count: int) -> Floats:
    """t_engage (count,) s of engagements side by side, NaN where no contact is made; `seeds` by source."""
    rng = {name: np.random.default_rng([seed, SOURCES.index(name)]) for name, seed in seeds.items()}
    rows, parts = (
        rng["tractor's place"].integers(0, FIELD.rows, count),
        rng["tractor's place"].uniform(0.05, 0.6, count),
    )
    spots = np.array([FIELD.on_row(int(row), float(part)) for row, part in zip(rows, parts, strict=True)])
    arming = ARMING + rng["arming"].exponential(WAITS, count)
    rules = [Follow(behind=6.0, height=15.0, fence=400.0, arming=float(s)) for s in arming]
    starts = np.column_stack([np.concatenate([np.tile(HOME, (count, 1)), spots[:, :2]]), np.zeros(2 * count)])
    headings = np.concatenate([np.zeros(count), spots[:, 2]])
    rover = Rover(steering="ackermann", mass=900.0, speed=2.0, wheelbase=1.6)
    fleet = VehicleFleet([Copter()] * count + [rover] * count, starts, headings, substep=0.02)
    drones, tractors = np.arange(count), np.arange(count, 2 * count)
    course, row_of = FIELD.course()
    fleet.share_mission(tractors, course)
    fleet.arm(tractors)
    for row in np.unique(rows):
        fleet.start_mission(tractors[rows == row], int(np.flatnonzero(row_of == row)[0]))
    keys = rng["losses"].integers(0, 2**63, count, dtype=np.uint64)
    pairs = Engagements(fleet, drones, tractors, rules, keys)
    gusts = Gusts(count, GUSTS, np.random.SeedSequence([seeds["gusts"], 1]))
    errors = PositionErrors(
        2 * count, LEVEL, HEIGHT, CORRELATION, np.random.SeedSequence([seeds["position errors"], 3])
    )
    links, mean, state = PairLinks.steady(count, DELAY, LOSS), np.tile(WIND, (count, 1)), fleet.state
    ordered = False
    while fleet.now < LONGEST:
        if not ordered and fleet.now >= BEFORE - 1e-9:
            pairs.command(drones, engage=True)
            ordered = True
        s = state[:count]
        speed = np.sqrt((s["vx"] - mean[:, 0]) ** 2 + (s["vy"] - mean[:, 1]) ** 2 + s["vz"] ** 2)
        fleet.wind[:count] = mean + turned(gusts.step(s["z"], speed, PERIOD), mean)
        pairs.position_error[:] = errors.step(PERIOD)
        fleet.advance(fleet.now + PERIOD)
        pairs.tick(links)
    found = np.full(count, np.nan)
    pairs.command(drones, engage=False)
    while np.any(state["armed"][drones] != 0) and fleet.now < 4.0 * LONGEST:  # what is under way has no record yet
        fleet.advance(fleet.now + PERIOD)
        pairs.tick(links)
    records = pairs.records()
    first = records[records["number"] == records["number"].min()]
    found[first["pair"]] = first["t_engage"]
    return found


def shares(count: int, workers: int) -> tuple[Floats, dict[str, dict[str, dict[str, float]]]]:
    """The times (count,) with all sources, and by source its share, alone and with others."""
    a, b = (dict.fromkeys(SOURCES, seed) for seed in (1, 2))
    cases = [a, b, *({**a, name: b[name]} for name in SOURCES)]
    all_a, all_b, *others = mapped(partial(fly, count=count), cases, workers=workers)
    found = {}
    for name, mixed in zip(SOURCES, others, strict=True):
        known = np.isfinite(all_a) & np.isfinite(all_b) & np.isfinite(mixed)
        one, other, changed = all_a[known], all_b[known], mixed[known]
        parts = {"alone": (other - other.mean()) * (changed - one), "with others": 0.5 * (one - changed) ** 2}
        found[name] = {kind: interval(values, np.stack([one, other])) for kind, values in parts.items()}
    return all_a, found


def interval(parts: Floats, times: Floats) -> dict[str, float]:
    """The mean of `parts` (n,) over the variance of `times` (2, n), with the bounds of its 95 % interval."""
    drawn = np.random.default_rng(3).integers(0, len(parts), (BOOTSTRAPS, len(parts)))
    spread = [parts[k].mean() / times[:, k].var() for k in drawn]
    low, high = np.quantile(spread, [0.025, 0.975])
    share, deviation = float(parts.mean() / times.var()), float(np.sqrt(max(parts.mean(), 0.0)))
    return {"share": share, "low": float(low), "high": float(high), "deviation_s": deviation}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=1000)
    arguments.add_argument("--workers", type=int, default=1, help="processes; what comes out is the same")
    given = arguments.parse_args()
    begun = time.process_time() + child_seconds()
    times, parts = shares(given.seeds, given.workers)
    head = times[:HEADLINE]
    result = {
        "seeds": len(head), "no_contact": int(np.isnan(head).sum()), "mean_s": float(np.nanmean(head)),
        "deviation_s": float(np.nanstd(head, ddof=1)), "least_s": float(np.nanmin(head)),
        "most_s": float(np.nanmax(head)),
    }  # fmt: skip
    table = Table(f"t_engage over {result['seeds']} seeds, s", ["mean", "deviation", "least", "most", "no contact"])
    figures = [f"{result[name]:.2f}" for name in ("mean_s", "deviation_s", "least_s", "most_s")]
    table.add([*figures, result["no_contact"]])
    second = Table(
        f"share of the variance, {given.seeds:,} seeds", ["source", "alone", "95 %", "with others", "95 %", "s"]
    )
    for name, part in parts.items():
        words = [(f"{one['share']:.3f}", f"{one['low']:.3f} to {one['high']:.3f}") for one in part.values()]
        second.add([name, *(word for pair in words for word in pair), f"{part['with others']['deviation_s']:.2f}"])
    all_figures = {
        "t_engage": result,
        "shares": parts,
        "sampled": given.seeds,
        "cpu_s": time.process_time() + child_seconds() - begun,
    }
    print_result("engage", all_figures, [table, second], as_json=given.json)


if __name__ == "__main__":
    main()
