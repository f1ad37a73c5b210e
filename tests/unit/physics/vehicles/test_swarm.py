"""Swarms: places as their geometry says, and members that keep apart whatever they are told."""

from __future__ import annotations

import numpy as np
import pytest

from cosim.physics.vehicles import Copter, VehicleFleet
from cosim.physics.vehicles.swarm import SHAPES, Formation, LaneSweep, RelayChain, SwarmGroups, assigned


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("members", [1, 2, 5, 12])
def test_neighbours_in_a_formation_have_its_spacing(shape, members):
    places = Formation([(0.0, 0.0, 9.0), (50.0, 80.0, 9.0)], shape, spacing=4.0)(3.0, members)
    assert places.shape == (members, 3)
    assert (places[:, 2] == 9.0).all()
    if members > 1:
        apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
        assert apart[~np.eye(members, dtype=bool)].min() == pytest.approx(4.0)


def test_a_formation_goes_along_its_course_and_looks_ahead():
    march = Formation([(0.0, 0.0, 5.0), (30.0, 0.0, 5.0), (30.0, 40.0, 5.0)], "column", spacing=2.0, speed=3.0)
    assert march(5.0, 3) == pytest.approx(np.array([[17.0, 0.0, 5.0], [15.0, 0.0, 5.0], [13.0, 0.0, 5.0]]))
    assert march(1000.0, 1) == pytest.approx(np.array([[30.0, 40.0, 5.0]]))
    assert march(20.0, 2)[0] - march(20.0, 2)[1] == pytest.approx(np.array([0.0, 2.0, 0.0]))  # to the north now


def test_a_chain_has_equal_hops_and_knows_how_many_it_takes():
    chain = RelayChain((0.0, 0.0, 10.0), (0.0, 100.0, 10.0))
    hops = np.diff(np.array([chain.begin, *chain(0.0, 4), chain.end]), axis=0)
    assert np.linalg.norm(hops, axis=1) == pytest.approx(np.full(5, 20.0))
    assert [chain.needed(hop) for hop in (20.0, 19.9, 100.0, 250.0)] == [4, 5, 0, 0]


@pytest.mark.parametrize("members", [1, 3, 7])
def test_every_place_of_the_area_is_swept(members):
    sweep = LaneSweep((10.0, 5.0, 34.0, 45.0), 12.0, lane=6.0, speed=4.0)
    assert sweep.lanes == 4
    ways = np.array([sweep(time, members) for time in np.arange(0.0, 60.0, 0.25)])
    assert np.abs(np.diff(ways, axis=0)).max() <= 1.0 + 1e-9  # nobody jumps
    inside = ways[(ways[..., 1] > 4.9)]
    for x in (13.0, 19.0, 25.0, 31.0):
        lane = inside[np.abs(inside[:, 0] - x) < 0.01, 1]
        assert np.diff(np.sort(np.concatenate([[5.0], lane, [45.0]]))).max() <= 1.0 + 1e-6


def test_places_are_dealt_out_to_everybody_once_and_the_nearest_first():
    rng = np.random.default_rng(2)
    places, points = rng.uniform(0, 50, (9, 3)), rng.uniform(0, 50, (9, 3))
    found = assigned(places, points)
    assert sorted(found) == list(range(9))
    apart = np.linalg.norm(places[:, None] - points[None], axis=-1)
    nearest = np.unravel_index(apart.argmin(), apart.shape)
    assert found[nearest[0]] == nearest[1]


@pytest.mark.parametrize("seed", range(3))
def test_members_whose_ways_cross_keep_apart_and_arrive(seed):
    rng = np.random.default_rng(seed)
    homes = np.array([[8.0 * (k % 3), 8.0 * (k // 3), 0.0] for k in range(9)])
    fleet = VehicleFleet([Copter()] * 9, homes, substep=0.02)
    fleet.arm(range(9))
    fleet.take_off(range(9), 10.0)
    fleet.advance(10.0)
    ring = Formation([(8.0, 8.0, 10.0)], "ring", spacing=7.0)
    order = rng.permutation(9)
    swarm = SwarmGroups(fleet, [range(9)], [lambda time, members: ring(time, members)[order]])
    fleet.wind[:] = [3.0, -2.0, 0.0]
    for k in range(600):
        swarm.tick()
        fleet.advance(10.0 + 0.1 * (k + 1))
    swarm.watch()
    assert swarm.nearest[0] >= 2.0
    assert np.linalg.norm(swarm.points() - swarm.places(), axis=-1).max() < 1.0


def test_a_member_that_lands_is_left_alone():
    fleet = VehicleFleet([Copter(), Copter()], [(0, 0, 0), (9, 0, 0)])
    fleet.arm([0, 1])
    fleet.take_off([0, 1], 8.0)
    fleet.advance(8.0)
    swarm = SwarmGroups(fleet, [[0, 1]], [RelayChain((0.0, 50.0, 8.0), (60.0, 50.0, 8.0))])
    fleet.land([0])
    swarm.tick()
    assert fleet.mode([0, 1])[0] == "land"
    assert fleet.mode([0, 1])[1] != "land"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: Formation([(0, 0, 0)], "star"), "no formation 'star'"),
        (lambda: Formation([], "line"), "course"),
        (lambda: LaneSweep((0, 0, 0, 5), 3.0), "west < east"),
        (lambda: SwarmGroups(VehicleFleet([Copter()], [(0, 0, 0)]), [[0]], []), "policies"),
        (lambda: SwarmGroups(VehicleFleet([Copter()], [(0, 0, 0)]), [[0]], [_ring], 0.0), "above 0"),
    ],
)
def test_swarms_that_cannot_be_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


def _ring(time, members):
    return np.zeros((members, 3))


def test_nobody_is_told_more_than_its_acceleration_can_follow():
    homes = [[6.0 * (k % 4), 6.0 * (k // 4), 0.0] for k in range(8)]
    fleet = VehicleFleet([Copter(accel=2.0)] * 8, homes, substep=0.02)
    fleet.arm(range(8))
    fleet.take_off(range(8), 10.0)
    fleet.advance(10.0)
    there, back = RelayChain((0.0, 60.0, 10.0), (60.0, 60.0, 10.0)), RelayChain((60.0, -60.0, 10.0), (0.0, -60.0, 10.0))
    swarm = SwarmGroups(fleet, [range(8)], [there])
    for k in range(60):
        swarm.policies[0] = there if k < 30 else back  # all turn round at once
        before = np.column_stack([fleet.state[axis] for axis in ("vx", "vy", "vz")])
        swarm.tick()
        reported = np.column_stack([fleet.state[f"target_{axis}"] for axis in ("vx", "vy", "vz")])
        assert np.linalg.norm(reported - before, axis=1).max() <= 2.0 / 3.0 + 1e-6
        fleet.advance(10.0 + 0.1 * (k + 1))
    swarm.watch()
    assert np.linalg.norm(before, axis=1).max() > 2.0
    assert swarm.nearest[0] >= 3.0
