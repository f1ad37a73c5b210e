"""Listening to a vehicle of somebody else: here, one of ours stands in for it."""

from __future__ import annotations

import socket

import pytest

from cosim.autopilot import Autopilot
from cosim.autopilot.external import LOST, External
from cosim.autopilot.links import Endpoint, LinkEndpoints
from cosim.autopilot.table import Address
from cosim.contract.errors import SetupError
from cosim.physics.vehicles import Copter, VehicleFleet
from tests.unit.autopilot.wire import ORIGIN


def free(kind):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return Address(*probe.getsockname())


@pytest.mark.parametrize("way", ["udp", "tcp"])
def test_hears_position_attitude_and_battery(way):
    fleet = VehicleFleet([Copter()], [(10.0, 20.0, 5.0)], headings=1.0)
    one = Autopilot(fleet, 0, sysid=7, origin=ORIGIN, ready_after=0.0)
    fleet.arm([0])
    fleet.take_off([0], 10.0)
    at = free(socket.SOCK_DGRAM if way == "udp" else socket.SOCK_STREAM)
    if way == "udp":
        external = External(udp=at)
        endpoints = LinkEndpoints([Endpoint(one, [at])])
    else:
        endpoints = LinkEndpoints([Endpoint(one, tcp=at)])
        external = External(tcp=at)
    for step in range(1, 200):
        fleet.advance(0.1 * step)
        endpoints.poll()
        endpoints.send(fleet.now, 0.1 * step)
        external.poll(0.1 * step)
    heard = external.vehicles[7]
    state = fleet.state[0]
    assert heard.armed
    assert one.pilot.ground.local(heard.place) == pytest.approx((state["x"], state["y"], state["z"]), abs=0.1)
    assert heard.above == pytest.approx(10.0, abs=0.2)
    assert heard.attitude[2] == pytest.approx(state["heading"], abs=0.01)
    assert heard.voltage == pytest.approx(state["voltage"], abs=0.1)
    assert heard.charge == pytest.approx(fleet.charge()[0], abs=0.02)
    assert one.streams.rates[33] == pytest.approx(10.0)  # it was asked for
    assert not heard.lost(20.0)
    assert heard.lost(20.0 + LOST)
    endpoints.close()
    external.poll(30.0)
    assert external.ended == (way == "tcp")
    external.close()


def test_a_vehicle_that_is_not_there_is_an_error():
    with pytest.raises(SetupError, match="start the autopilot first"):
        External(tcp=free(socket.SOCK_STREAM), patience=0.5)
    with pytest.raises(ValueError, match="one of the two"):
        External()


def test_noise_makes_no_vehicle():
    external = External(udp=free(socket.SOCK_DGRAM))
    external.poll(0.0)
    assert external.vehicles == {}
    external._take(b"\0\xfd\xfenoise" * 20, None, 0.0)
    assert external.vehicles == {}
    external.close()
