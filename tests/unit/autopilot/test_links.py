"""Sockets, the plan of ports, the program, and flying a log again."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time

import pytest
import zmq

from cosim.autopilot import Autopilot
from cosim.autopilot.__main__ import main
from cosim.autopilot.aeroloop import Positions, message
from cosim.autopilot.dialect import mavlink
from cosim.autopilot.geodesy import Ground, Place
from cosim.autopilot.links import Endpoint, LinkEndpoints
from cosim.autopilot.log import FlightLogWriter, read, replay
from cosim.autopilot.serve import serve
from cosim.autopilot.table import Address, address, plan, render
from cosim.contract.errors import ScenarioError, SetupError
from cosim.contract.extras import how_to_install
from cosim.contract.geo import LocalFrame, to_ecef
from cosim.physics.vehicles import Copter, Rover, VehicleFleet
from tests.ports import free_port
from tests.unit.autopilot.wire import ORIGIN


@pytest.fixture
def ground():
    """A UDP socket of a ground station."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.settimeout(5.0)
        yield made


def autopilots(count=1, **options):
    fleet = VehicleFleet([Copter()] * count, [(5.0 * k, 0, 0) for k in range(count)])
    made = [Autopilot(fleet, k, sysid=k + 1, origin=ORIGIN, ready_after=0.0, **options) for k in range(count)]
    return fleet, made


def packed(name, *values):
    return getattr(mavlink, f"MAVLink_{name}_message")(*values).pack(mavlink.MAVLink(None, 255, 190))


def decoded(data):
    return mavlink.MAVLink(None).parse_buffer(data) or []


def test_sends_first_and_answers_whoever_asks(ground):
    fleet, (one,) = autopilots()
    peer = Address(*ground.getsockname())
    endpoint = Endpoint(one, [peer])
    endpoints = LinkEndpoints([endpoint])
    try:
        endpoints.send(fleet.now, 0.0)
        data, source = ground.recvfrom(2048)
        assert decoded(data)[0].get_srcSystem() == 1
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.settimeout(5.0)
            stranger.sendto(packed("command_long", 1, 1, 512, 0, 148, 0, 0, 0, 0, 0, 0), source)
            endpoints.poll(5.0)
            endpoints.send(fleet.now, 0.1)
            heard = set()
            while "COMMAND_ACK" not in heard:
                heard.update(m.get_type() for m in decoded(stranger.recv(2048)))
            assert "AUTOPILOT_VERSION" in heard
    finally:
        endpoints.close()


def test_tcp_serves_several_clients_and_outlives_them():
    fleet, (one,) = autopilots()
    at = Address("127.0.0.1", free_port(socket.SOCK_STREAM))
    endpoints = LinkEndpoints([Endpoint(one, tcp=at)])
    try:
        clients = [socket.create_connection(at, 5.0) for _ in range(3)]
        for k in range(3):
            endpoints.poll(0.2)
            endpoints.send(fleet.now, 1.0 + k)
        assert all("HEARTBEAT" in {m.get_type() for m in decoded(c.recv(65536))} for c in clients)
        clients[0].close()
        for k in range(20):
            endpoints.poll(0.01)
            endpoints.send(fleet.now, 10.0 + k)
        clients[1].sendall(packed("param_request_read", 1, 1, b"WPNAV_SPEED", -1))
        endpoints.poll(1.0)
        endpoints.send(fleet.now, 40.0)
        assert b"WPNAV_SPEED" in clients[1].recv(65536)
        for client in clients[1:]:
            client.close()
    finally:
        endpoints.close()


def test_a_station_gets_the_place_of_a_client_that_says_nothing():
    fleet, (one,) = autopilots()
    at = Address("127.0.0.1", free_port(socket.SOCK_STREAM))
    endpoints = LinkEndpoints([Endpoint(one, tcp=at)])
    clients = []
    try:
        for k in range(40):
            clients.append(socket.create_connection(at, 5.0))
            if k in (0, 39):  # stations
                clients[k].sendall(packed("param_request_read", 1, 1, b"WPNAV_SPEED", -1))
            for _ in range(3):
                endpoints.poll(0.01)
        endpoints.send(fleet.now, 1.0)
        for k in (0, 39):
            clients[k].settimeout(5.0)
            assert b"WPNAV_SPEED" in clients[k].recv(65536)
        assert clients[1].recv(65536) == b""
    finally:
        endpoints.close()
        for client in clients:
            client.close()


def test_a_drone_follows_a_rover_that_sends_to_its_port():
    fleet = VehicleFleet([Copter(), Rover()], [(0, 0, 0), (10, 0, 0)])
    drone, tractor = (Autopilot(fleet, k, sysid=k + 1, origin=ORIGIN, ready_after=0.0) for k in range(2))
    own = Address("127.0.0.1", free_port(socket.SOCK_DGRAM))
    endpoints = LinkEndpoints([Endpoint(drone, bind=own), Endpoint(tractor, [own])])
    fleet.arm([0, 1])
    fleet.take_off([0], 12.0)
    fleet.advance(10.0)
    drone.watch(fleet.now)
    assert drone.parameters.set("FOLL_ENABLE", 1.0)
    assert drone.parameters.set("FOLL_OFS_Z", -12.0)
    assert drone.pilot.set_mode("FOLLOW") is None
    fleet.go([1], [(10.0, 60.0, 0.0)])
    for step in range(1, 1001):
        fleet.advance(10.0 + 0.04 * step)
        endpoints.poll()
        endpoints.send(fleet.now, fleet.now)
    endpoints.close()
    place = [float(fleet.state[axis][0]) for axis in "xyz"]
    assert place == pytest.approx([10.0, 50.0, 12.0], abs=1.0)  # FOLL_OFS_X: 10 m behind


def test_two_vehicles_with_one_identity_are_refused(ground):
    peer = Address(*ground.getsockname())
    _, (one,) = autopilots()
    _, (two,) = autopilots()
    first = Endpoint(one, [peer])
    with pytest.raises(SetupError, match="system id 1 sends to"):
        Endpoint(two, [peer])
    first.close()
    Endpoint(two, [peer]).close()


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        at = Address(*taken.getsockname())
        _, (one,) = autopilots()
        with pytest.raises(SetupError, match=f"cannot listen at TCP 127.0.0.1:{at.port}"):
            Endpoint(one, tcp=at)


def test_flies_on_the_wall_clock(ground):
    fleet, made = autopilots(3)
    endpoints = LinkEndpoints([Endpoint(one, [Address(*ground.getsockname())]) for one in made])
    heard = set()

    def listen():
        while len(heard) < 3:
            heard.update(m.get_srcSystem() for m in decoded(ground.recv(2048)))

    thread = threading.Thread(target=listen)
    thread.start()
    begun = time.monotonic()
    pace = serve(fleet, made, endpoints, speedup=10.0, until=3.0)
    thread.join(10.0)
    endpoints.close()
    assert heard == {1, 2, 3}
    assert fleet.now == pytest.approx(3.0)
    assert pace.simulated == pytest.approx(3.0)
    assert time.monotonic() - begun >= 0.29


def test_plan_gives_each_vehicle_its_own_identity():
    slots = plan(
        [(f"uav-{k}", "px4", "copter") for k in range(30)], [address("14550")], Address("127.0.0.1", 5760), taken=[3]
    )
    assert len({slot.sysid for slot in slots}) == 30
    assert 3 not in {slot.sysid for slot in slots}
    assert len({slot.tcp for slot in slots}) == 30
    table = render(slots).splitlines()
    assert len(table) == 31
    assert table[1].split() == ["uav-0", "1", "px4", "copter", "127.0.0.1:14550", "127.0.0.1:5760"]
    with pytest.raises(ScenarioError, match="254 are free"):
        plan([("uav", "px4", "copter")] * 255)
    with pytest.raises(ScenarioError, match="'nowhere' is not an address"):
        address("nowhere")


def fly_with_orders(path):
    """A short flight whose orders come at odd times; the states at its end and the log."""
    with FlightLogWriter(path, {"tick": 0.01}) as log:
        fleet, made = autopilots(2, tap=log.tap)
        orders = {
            10: (0, ("command_long", 1, 1, 176, 0, 1, 4, 0, 0, 0, 0, 0)),
            11: (0, ("command_long", 1, 1, 400, 0, 1, 0, 0, 0, 0, 0, 0)),
            13: (0, ("command_long", 1, 1, 22, 0, 0, 0, 0, 0, 0, 0, 8.0)),
            40: (1, ("command_long", 2, 1, 400, 0, 1, 0, 0, 0, 0, 0, 0)),
            700: (0, ("set_position_target_local_ned", 0, 1, 1, 1, 0xFF8, 30, 20, -9, *[0] * 8)),
        }
        for step in range(1, 1501):
            fleet.advance(step * 0.01)
            for one in made:
                one.watch(fleet.now)
            if step in orders:
                row, (name, *values) = orders[step]
                made[row].receive(packed(name, *values), "gcs")
            if step % 7 == 0:  # telemetry has no influence on the flight
                made[0].emit(fleet.now, 0.01 * step)
    return fleet.state.copy()


def test_a_log_flown_again_gives_the_same_states(tmp_path):
    path = tmp_path / "orders.jsonl"
    flown = fly_with_orders(path)
    assert flown["y"][0] > 10.0
    head, messages = read(path)
    assert len(messages) == 5
    fleet, made = autopilots(2)
    replay(fleet, made, messages, 15.0, head["tick"])
    assert fleet.state.tobytes() == flown.tobytes()
    whole = path.read_text()
    path.write_text(whole[:-20])  # written by a process that was killed
    assert len(read(path)[1]) == 4
    path.write_text(whole.replace('"sysid": 1', '"sysid": "x"', 1))
    with pytest.raises(ScenarioError, match=r"orders\.jsonl:2: not a line of a command log"):
        read(path)


def test_positions_take_aeroloops_form():
    place = Place(38.24, 21.73, 95.5)
    topic, body = message("UAV1", place)
    assert topic == b"UAV1"
    assert list(json.loads(body)) == ["x", "y", "z"]
    x, y, z = to_ecef(*place)
    assert json.loads(body) == pytest.approx({"x": float(x), "y": float(y), "z": float(z)})


def test_positions_are_published():
    places, now = [Place(38.24, 21.73, 95.5), Place(38.25, 21.74, 60.0)], 0.0
    at = Address("127.0.0.1", free_port(socket.SOCK_STREAM))
    context = zmq.Context()
    subscriber = context.socket(zmq.SUB)
    subscriber.setsockopt(zmq.SUBSCRIBE, b"ROV1")
    subscriber.setsockopt(zmq.RCVTIMEO, 50)
    with Positions(at, ["copter", "rover"]) as positions:
        subscriber.connect(f"tcp://{at}")
        got = None
        for _ in range(1200):  # until the subscription has arrived
            assert positions.due(now)
            positions.publish(now, places)
            assert not positions.due(now + 0.2)
            now += 0.3
            try:
                got = subscriber.recv_multipart()
                break
            except zmq.Again:
                continue
        assert got is not None
        assert got == message("ROV1", places[1])
    subscriber.close(0)
    context.term()


@pytest.mark.parametrize("point", [(0.0, 0.0, 0.0), (1500.0, -900.0, 120.0), (-40000.0, 25000.0, 10.0)])
@pytest.mark.parametrize("origin", [ORIGIN, (-60.0, 170.0, 5.0), (0.0, -179.99, 0.0)])
def test_places_agree_with_the_plans_geodesy(origin, point):
    ground, frame = Ground(origin), LocalFrame(*origin)
    place = ground.place(*point)
    assert ground.local(place) == pytest.approx(point, abs=1e-6)
    expected = [float(part) for part in frame.to_local(*place)]
    assert expected == pytest.approx(point, abs=1e-6)


def test_the_program_flies_refuses_and_repeats(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    log = tmp_path / "log.jsonl"
    port = free_port(socket.SOCK_DGRAM)
    words = ["--udp", f"127.0.0.1:{port}", "--vehicles", "2", "--speedup", "20", "--until", "2", "--log", str(log)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert f"127.0.0.1:{port}" in out
    assert "2.0 s simulated" in out
    assert main(["--vehicles", "2", "--replay", str(log), "--until", "1"]) == 0
    assert "system 2: STABILIZE" in capsys.readouterr().out
    assert main(["--home", "here"]) == 2
    for home in ("91,0,0", "0,181,0", "0,0,2e5", "nan,0,0", "0,0,nan"):
        assert main(["--home", home]) == 2
    assert main(["--vehicles", "300", "--frame", "rover"]) == 2
    assert "use several MAVLink networks" in capsys.readouterr().err


def test_without_pymavlink_the_program_says_what_to_install():
    script = (
        "import sys; sys.modules['pymavlink'] = None; from cosim.autopilot.__main__ import main; sys.exit(main([]))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stderr.strip() == f"MAVLink needs pymavlink: {how_to_install('vehicles')}"


def test_what_speaks_no_mavlink_is_there_without_pymavlink():
    script = (
        "import sys; sys.modules['pymavlink'] = None; import cosim.autopilot.json_fdm, cosim.adapters.vehicle.adapter"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
