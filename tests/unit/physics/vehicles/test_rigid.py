"""The rigid body: mechanics against conservation laws, and flight against the point mass."""

from __future__ import annotations

import numpy as np
import pytest

from cosim.physics.vehicles import Copter, VehicleFleet
from cosim.physics.vehicles.airframe import GRAVITY
from cosim.physics.vehicles.layout import AIRFRAME, STATE
from cosim.physics.vehicles.rigid import STEP, push


def body(**values):
    """One state and its airframe, with fields as attributes for the plain Python form of `push`."""
    state = np.zeros(1, STATE).view(np.recarray)[0]
    state.qw = 1.0
    for name, value in values.items():
        setattr(state, name, value)
    frame = Copter(dynamics="rigid", drag=0.0, drag2=0.0).row().view(AIRFRAME).view(np.recarray)[0]
    return state, frame


def rotation(s):
    w, x, y, z = s.qw, s.qx, s.qy, s.qz
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


def test_torque_free_spin_keeps_its_angular_momentum_and_falls_freely():
    s, a = body(p=3.0, q=0.2, r=-1.0)
    inertia = np.array([a.inertia_x, a.inertia_y, a.inertia_z])
    before = rotation(s) @ (inertia * [s.p, s.q, s.r])
    for _ in range(400):
        push(s, a, (0.0,) * 4, (0.0,) * 3, STEP)
    after = rotation(s) @ (inertia * [s.p, s.q, s.r])
    assert after == pytest.approx(before, abs=0.02 * np.linalg.norm(before))
    assert s.vz == pytest.approx(-GRAVITY * 400 * STEP)


TURNS = [
    ((1, 2), ("p", 1)),
    ((0, 3), ("p", -1)),
    ((1, 3), ("q", 1)),
    ((0, 2), ("q", -1)),
    ((2, 3), ("r", 1)),
    ((0, 1), ("r", -1)),
]


@pytest.mark.parametrize(("rotors", "sign"), TURNS)
def test_rotors_turn_the_body_the_right_way(rotors, sign):
    s, a = body()
    thrust = [a.mass * GRAVITY / 4.0 * (1.1 if k in rotors else 0.9) for k in range(4)]
    s.t0, s.t1, s.t2, s.t3 = thrust
    push(s, a, thrust, (0.0,) * 3, STEP)
    rates = {"p": s.p, "q": s.q, "r": s.r}
    assert np.sign(rates.pop(sign[0])) == sign[1]
    assert list(rates.values()) == pytest.approx([0.0, 0.0])


def test_flies_as_the_point_mass_does():
    both = VehicleFleet([Copter(), Copter(dynamics="rigid")], [(0, 0, 0), (0, 0, 0)])
    both.arm([0, 1])
    both.take_off([0, 1], 20.0)
    both.advance(20.0)
    assert both.state["t0"][1] == pytest.approx(1.5 * GRAVITY / 4.0, rel=1e-3)
    both.wind[:] = (3.0, -2.0, 0.0)
    both.go([0, 1], [[90.0, 40.0, 30.0]])
    apart = 0.0
    for k in range(1, 300):
        both.advance(20.0 + 0.1 * k)
        a, b = both.state
        apart = max(apart, float(np.hypot(a["x"] - b["x"], a["y"] - b["y"])))
    assert apart < 2.0
    for axis, goal in (("x", 90.0), ("y", 40.0), ("z", 30.0)):
        assert both.state[axis] == pytest.approx([goal, goal], abs=0.05)
    # both lean into the wind alike and pay for it alike
    assert both.state["power"][1] == pytest.approx(both.state["power"][0], rel=0.01)
    kept = both.state["heading"].copy()
    both.advance(80.0)
    assert both.state["heading"] == pytest.approx(kept, abs=0.02)


def test_rigid_needs_four_rotors():
    with pytest.raises(ValueError, match="four rotors"):
        VehicleFleet([Copter(dynamics="rigid", rotors=6)], [(0, 0, 0)])
