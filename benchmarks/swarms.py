"""Do copters of a swarm keep apart? Many groups with crossing ways, in wind, side by side.

python -m benchmarks.swarms [--groups 1000] [--members 100] [--seconds 40] [--margin M] [--workers 1] [--json]

Each group begins on a grid 5 m apart and is told to fly a formation, lanes over a field or a chain of relays. Places
are dealt out at random, so that all ways cross. Half of the groups change what they do halfway. Every group has a wind
of its own of up to 6 m/s and gusts. The distance of two members is the least on straight lines between two looks, ten
times a second, from the end of take-off on. Target: never below 2 m.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from benchmarks.measure import Table, child_seconds, mapped, parser, print_result, verdict
from cosim.contract.records import Floats
from cosim.physics.vehicles import Copter, VehicleFleet
from cosim.physics.vehicles.gusts import Gusts
from cosim.physics.vehicles.swarm import Formation, LaneSweep, Policy, RelayChain, SwarmGroups

KEPT = 2.0  # m
HEIGHT, SPACING, TICK = 15.0, 5.0, 0.1  # m, m, s
MARGIN = 1.5  # m, that of the adapter


def dealt(policy: Policy, order: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Policy:
    """The same places, dealt out in another order."""
    return lambda moment, members: policy(moment, members)[order]


def policy_of(kind: int, members: int, rng: np.random.Generator) -> Policy:
    """Something to do that makes ways cross."""
    x, y = rng.uniform(-40.0, 40.0, 2)
    wide = SPACING * np.sqrt(members)
    made: Policy
    if kind == 0:
        shape = str(rng.choice(["grid", "ring", "vee", "line"]))
        made = Formation([(x, y, HEIGHT), (x + 60.0, y + 60.0, HEIGHT)], shape, spacing=float(rng.uniform(4.0, 8.0)))
    elif kind == 1:
        made = LaneSweep((x, y, x + members * 4.0, y + 80.0), HEIGHT, lane=4.0)
    else:
        made = RelayChain((x - 3.0 * wide, y, HEIGHT), (x + 3.0 * wide, y + wide, HEIGHT))
    return dealt(made, rng.permutation(members))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--groups", type=int, default=1000)
    arguments.add_argument("--first", type=int, default=0, help="seed of the first group")
    arguments.add_argument("--members", type=int, default=100)
    arguments.add_argument("--seconds", type=float, default=40.0, help="of flight after take-off")
    arguments.add_argument("--at-once", type=int, default=100, help="groups that fly side by side")
    arguments.add_argument(
        "--margin", type=float, default=MARGIN, help="m that are kept besides; default: the swarms' own"
    )
    arguments.add_argument("--workers", type=int, default=1, help="processes; what comes out is the same")
    given = arguments.parse_args()
    end = given.first + given.groups
    batches = [range(k, min(k + given.at_once, end)) for k in range(given.first, end, given.at_once)]
    fly = partial(flown, members=given.members, seconds=given.seconds, margin=given.margin)
    begun = time.process_time() + child_seconds()
    parts = mapped(fly, batches, workers=given.workers)
    least = [float(one) for nearest, _ in parts for one in nearest]
    arrived = [float(one) for _, near in parts for one in near]
    cpu = time.process_time() + child_seconds() - begun
    worst = min(least)
    table = Table(f"{given.groups} groups of {given.members}, {given.seconds:g} s", ["figure", "value"])
    table.add(["least distance, m", f"{worst:.2f}{verdict(worst, KEPT, at_least=True)}"])
    table.add(["median of the groups' least, m", f"{np.median(least):.2f}"])
    table.add(["groups below 2 m", sum(one < KEPT for one in least)])
    table.add(["within 5 m of their place at the end", f"{np.mean(arrived):.1%}"])
    table.add(["CPU s", f"{cpu:.0f}"])
    result = {
        "least": worst, "median": float(np.median(least)), "below": sum(one < KEPT for one in least), "cpu_s": cpu,
        "groups": given.groups, "members": given.members, "arrived": float(np.mean(arrived)), "margin": given.margin,
        "first": given.first,
    }  # fmt: skip
    print_result("swarms", result, [table], as_json=given.json)


def flown(seeds: range, members: int, seconds: float, margin: float = MARGIN) -> tuple[Floats, Floats]:
    """Of each group the least distance in m and the share of members near their place at the end."""
    groups = len(seeds)
    rngs = [np.random.default_rng([seed, 15]) for seed in seeds]
    side = int(np.ceil(np.sqrt(members)))
    row, column = np.divmod(np.arange(members), side)
    grid = np.column_stack([SPACING * column, SPACING * row, np.zeros(members)])
    copter = Copter(speed=8.0)
    fleet = VehicleFleet([copter] * (groups * members), np.tile(grid, (groups, 1)), substep=0.05)
    rows = np.arange(groups * members).reshape(groups, members)
    fleet.arm(rows.ravel())
    fleet.take_off(rows.ravel(), HEIGHT)
    fleet.advance(12.0)
    mean = np.array([[*rng.uniform(-4.2, 4.2, 2), 0.0] for rng in rngs]).repeat(members, axis=0)
    gusts = Gusts(len(mean), 5.0, np.random.SeedSequence([seeds[0], 16]))
    swarm = SwarmGroups(
        fleet, rows, [policy_of(k % 3, members, rng) for k, rng in zip(seeds, rngs, strict=True)], KEPT, margin=margin
    )
    began, ticks = fleet.now, round(seconds / TICK)
    for k in range(1, ticks + 1):
        if k == ticks // 2:
            for g in range(0, groups, 2):
                swarm.policies[g] = policy_of((seeds[g] + 1) % 3, members, rngs[g])
        swarm.tick()
        state = fleet.state
        speed = np.sqrt((state["vx"] - mean[:, 0]) ** 2 + (state["vy"] - mean[:, 1]) ** 2 + state["vz"] ** 2)
        fleet.wind[:] = mean + gusts.step(state["z"], speed, TICK)
        fleet.advance(began + TICK * k)
    swarm.watch()
    away = np.linalg.norm(swarm.points() - swarm.places(), axis=-1)
    return swarm.nearest, np.asarray((away < 5.0).mean(axis=1))


if __name__ == "__main__":
    main()
