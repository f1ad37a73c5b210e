"""The dataflash logs of a virtual ArduPilot, read by pymavlink and downloaded over links that lose messages."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from pymavlink.DFReader import DFReader_binary

from cosim.autopilot import Autopilot, dataflash
from cosim.physics.vehicles import Copter, Rover, VehicleFleet
from cosim.physics.vehicles.airframe import GRAVITY
from tests.unit.autopilot.wire import ORIGIN, Station, rotation, station

WHOLE = 0xFFFFFFFF
MISSION = [
    (16, 0.0, 0.0, 0.0),
    (22, 0.0, 0.0, 12.0),
    (16, 30.0, 0.0, 15.0),
    (16, 30.0, 20.0, 10.0),
    (20, 0.0, 0.0, 0.0),
]


def upload(s):
    s.upload([(3, number, 0, 0, 0, 0, *s.place(x, y)[:2], z) for number, x, y, z in MISSION])


def fly(s):
    """A mission from arming to the end; the states at the looks of the autopilot, by microseconds."""
    upload(s)
    s.command(176, 1, 4)
    s.command(400, 1)
    s.run(0.5)
    s.command(176, 1, 3)
    seen = {}
    while s.fleet.state["armed"][0]:
        s.fleet.advance(s.fleet.now + 0.05)
        s.wall += 0.05
        s.collect()
        seen[round(1e6 * s.autopilot.now)] = s.autopilot.pilot.look()
        assert s.fleet.now < 300.0
    s.run(0.5)
    return seen


def entries(s):
    s.send("log_request_list", 1, 1, 0, 0xFFFF)
    return [m for m in s.run(0.2) if m.get_type() == "LOG_ENTRY"]


def download(s, number, size, lost=0.0, seed=1):
    """The log, as a client gets it that asks again for what it has not got."""
    chance, got = random.Random(seed), {}
    missing = [(0, WHOLE)]
    for _ in range(200):
        for start, count in missing:
            s.send("log_request_data", 1, 1, number, start, count)
            quiet = 0
            while quiet < 5:
                heard = [m for m in s.run(0.02, step=0.02) if m.get_type() == "LOG_DATA"]
                quiet = 0 if heard else quiet + 1
                got |= {m.ofs: bytes(m.data[: m.count]) for m in heard if chance.random() >= lost}
        missing = [(at, 90) for at in range(0, size, 90) if at not in got]
        if not missing:
            s.send("log_request_end", 1, 1)
            return b"".join(got[at] for at in range(0, size, 90))
    raise AssertionError(f"{len(missing)} parts are missing")


def read(path, data):
    path.write_bytes(data)
    reader, found = DFReader_binary(str(path)), {}
    while (message := reader.recv_msg()) is not None:
        found.setdefault(message.get_type(), []).append(message)
    reader.close()
    return reader, found


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)])
    folder = tmp_path_factory.mktemp("logs")
    s = Station(Autopilot(fleet, 0, origin=ORIGIN, ready_after=0.0, logs=folder))
    s.run(1.0)
    return s, fly(s), folder


def test_pymavlink_reads_what_was_flown(flight, tmp_path):
    s, seen, _ = flight
    (entry,) = entries(s)
    reader, found = read(tmp_path / "flown.bin", download(s, 1, entry.size))
    ground, full = s.autopilot.pilot.ground, 3600.0 * Copter().battery.usable
    times = [m.TimeUS for m in found["POS"]]
    assert {after - before for before, after in itertools.pairwise(times)} <= {100_000, 150_000}  # the client's looks
    assert times[-1] - times[0] > 60e6

    def flown(messages):
        return [m for m in messages if first <= m.TimeUS < last]

    first, last = min(seen), max(seen)
    assert max(v.z for v in seen.values()) > 14.0
    for m in flown(found["POS"]):
        v = seen[m.TimeUS]
        place = ground.place(v.x, v.y, v.z)
        assert m.Lat == pytest.approx(place.latitude, abs=6e-8)
        assert m.Lng == pytest.approx(place.longitude, abs=6e-8)
        assert m.Alt == pytest.approx(place.altitude, abs=1e-4)
        assert m.RelHomeAlt == pytest.approx(v.z, abs=1e-4)
    for m in flown(found["ATT"]):
        v = seen[m.TimeUS]
        wanted = (v.roll, v.pitch, v.heading)
        assert [m.Roll, m.Pitch] == pytest.approx([57.29578 * part for part in wanted[:2]], abs=1e-4)
        assert abs((m.Yaw - 57.29578 * v.heading + 180.0) % 360.0 - 180.0) < 1e-3
    for m in flown(found["BAT"]):
        v = seen[m.TimeUS]
        assert [m.Volt, m.Curr] == pytest.approx([v.voltage, v.current], rel=1e-6, abs=1e-6)
        assert m.CurrTot == pytest.approx((full - v.charge) / 3.6, abs=0.01)
        assert m.EnrgTot == pytest.approx(v.energy / 3600.0, rel=1e-5, abs=1e-6)
        assert m.RemPct == round(100.0 * v.charge / full)
    for m in flown(found["GPS"]):
        v = seen[m.TimeUS]
        assert m.Spd == pytest.approx((v.vx**2 + v.vy**2) ** 0.5, abs=1e-5)
        assert m.Alt == pytest.approx(ground.place(v.x, v.y, v.z).altitude, abs=0.006)
        assert m._timestamp == pytest.approx(s.autopilot.epoch + 1e-6 * m.TimeUS, abs=2e-3)
    assert len(found["GPS"]) == len(found["POS"]) // 2 + len(found["POS"]) % 2
    assert reader.formats[found["BAT"][0].fmt.type].units[2] == "V"


@pytest.mark.parametrize("dynamics", ["point", "rigid"])
def test_sensors_in_the_log_agree_with_the_path_that_was_flown(dynamics, tmp_path):
    fleet = VehicleFleet([Copter(dynamics=dynamics, lag=0.3)], [(0.0, 0.0, 0.0)], substep=0.01)
    s = Station(Autopilot(fleet, 0, origin=ORIGIN, ready_after=0.0, logs=tmp_path))
    s.run(1.0)
    upload(s)
    s.command(176, 1, 4)
    s.command(400, 1)
    s.run(0.5)
    s.command(176, 1, 3)
    places, chance = {}, np.random.default_rng(3)
    while s.fleet.state["armed"][0]:
        v = s.autopilot.pilot.look()
        places[round(1e6 * s.autopilot.now)] = np.array((v.y, v.x, -v.z))
        if len(places) % 20 == 0:
            s.fleet.wind[0] = 3.0 + chance.normal(0.0, 1.0, 3)
        s.fleet.advance(s.fleet.now + 0.01)
        s.wall += 0.01
        s.collect()
        assert s.fleet.now < 300.0
    s.run(0.5)
    s.autopilot.logs.close()
    reader, found = read(tmp_path / "flown.bin", (tmp_path / "00000001.BIN").read_bytes())
    attitude = {m.TimeUS: np.radians((m.Roll, m.Pitch, m.Yaw)) for m in found["ATT"]}
    flown, felt, low = [], [], float(s.autopilot.start[2])
    for m, baro, out, vibe in zip(found["IMU"], found["BARO"], found["RCOU"], found["VIBE"], strict=True):
        assert (m.I, m.GH, m.AH, m.GHz, m.AHz, m.EG, m.EA) == (0, 1, 1, 100, 100, 0, 0)
        if m.TimeUS not in places:
            continue
        height = -places[m.TimeUS][2]
        above = s.autopilot.pilot.ground.place(0.0, 0.0, height).altitude
        assert baro.AltAMSL == pytest.approx(above, abs=0.01)
        assert baro.Press == pytest.approx(101_325.0 * (1.0 - 0.0065 * above / 288.15) ** 5.25588, rel=1e-5)
        shown = 288.15 / 0.0065 * (1.0 - (baro.Press / 101_325.0) ** (1.0 / 5.25588))
        assert shown - ORIGIN[2] - low == pytest.approx(baro.Alt, abs=0.05)
        assert baro.Alt == pytest.approx(height - low, abs=1e-3)
        assert (baro.Temp, baro.SMS) == (pytest.approx(15.0 - 0.0065 * above, abs=0.01), round(1e-3 * m.TimeUS))
        assert [vibe.VibeX, vibe.VibeY, vibe.Clip] == [vibe.VibeZ, vibe.VibeZ, 0]
        parts = [places.get(m.TimeUS + k) for k in (-20_000, -10_000, 0)]
        if any(part is None for part in parts) or height < low + 1.0:
            continue
        flown.append((parts[2] - 2.0 * parts[1] + parts[0]) / 1e-4 - [0.0, 0.0, GRAVITY])
        felt.append(rotation(*attitude[m.TimeUS]) @ (m.AccX, m.AccY, m.AccZ))
        pulses = np.array((out.C1, out.C2, out.C3, out.C4)) - 1000.0
        assert 1000 < min(out.C1, out.C2, out.C3, out.C4) <= 2000
        assert vibe.VibeZ == pytest.approx(0.2 * Copter().thrust_ratio * pulses.mean() / 1000.0, abs=2e-3)
        assert out.C5 == out.C14 == 0
    flown, felt = np.array(flown), np.array(felt)
    assert len(flown) > 300
    assert np.abs(flown[:, :2]).max() > 1.0
    assert np.sqrt(((felt - flown) ** 2).mean() / (flown**2).mean()) < 0.02
    units = [reader.formats[found[name][0].fmt.type].units for name in ("IMU", "BARO", "VIBE", "RCOU")]
    assert (units[0][2], units[0][5], units[1][4], units[2][2], units[3][1]) == ("rad/s", "m/s/s", "Pa", "m/s/s", "us")


def test_the_log_has_modes_arming_events_commands_and_parameters(flight, tmp_path):
    s, _, _ = flight
    (entry,) = entries(s)
    reader, found = read(tmp_path / "flown.bin", download(s, 1, entry.size))
    assert [(m.ModeNum, m.Rsn) for m in found["MODE"]] == [(4, 2), (3, 2)]
    assert [(m.ArmState, m.Method, m.Forced) for m in found["ARM"]] == [(1, 1, 0), (0, 13, 0)]
    assert [m.Id for m in found["EV"]] == [10, 28, 18, 11]
    first, flown = found["CMD"][: len(MISSION)], found["CMD"][len(MISSION) :]
    assert [m.CId for m in first] == [number for number, *_ in MISSION]
    assert {m.CTot for m in first} == {len(MISSION)}
    place = s.place(30.0, 20.0)
    assert (first[3].Lat, first[3].Lng, first[3].Alt) == pytest.approx((place[0] / 1e7, place[1] / 1e7, 10.0))
    assert [m.CNum for m in flown] == [1, 2, 3, 4]
    texts = [m.Message for m in found["MSG"]]
    assert texts[0].startswith("ArduCopter V4.6.0")
    assert "Arming motors" in texts
    assert "Disarming motors" in texts
    values = s.autopilot.parameters
    assert {m.Name: m.Value for m in found["PARM"]} == pytest.approx({name: values[name] for name in values.names})
    assert reader.params["RTL_ALT"] == values["RTL_ALT"]
    assert entry.time_utc == s.autopilot.epoch + 1


def test_a_client_that_loses_a_tenth_of_the_parts_gets_the_file(flight):
    s, _, folder = flight
    (entry,) = entries(s)
    s.autopilot.logs.close()
    assert download(s, 1, entry.size, lost=0.1) == (folder / "00000001.BIN").read_bytes()


def test_the_same_flight_makes_the_same_log():
    logs = []
    for _ in range(2):
        s = station()
        s.run(1.0)
        fly(s)
        (entry,) = entries(s)
        logs.append(download(s, 1, entry.size))
    assert logs[0] == logs[1]


def test_a_log_is_not_handed_out_while_the_vehicle_is_armed():
    s = station()
    s.command(400, 1)
    s.run(1.0)
    assert entries(s) == []
    assert "Disarm for log download" in s.texts()
    s.command(400, 0)
    (entry,) = entries(s)
    assert (entry.id, entry.num_logs, entry.last_log_num) == (1, 1, 1)
    s.command(400, 1)
    s.run(1.0)
    s.command(400, 0)
    (again,) = entries(s)  # of the same boot
    assert again.size > entry.size


def test_logs_are_erased_and_the_next_one_is_whole(tmp_path):
    fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)])
    s = Station(Autopilot(fleet, 0, origin=ORIGIN, ready_after=0.0, logs=tmp_path))
    for _ in range(2):
        s.command(400, 1)
        s.run(1.0)
        s.command(400, 0)
        s.run(0.2)
        (entry,) = entries(s)
        s.autopilot.logs.close()
        assert [path.stat().st_size for path in tmp_path.iterdir()] == [entry.size]
        s.send("log_erase", 1, 1)
        (none,) = entries(s)
        assert (none.id, none.num_logs) == (0, 0)
        assert not list(tmp_path.iterdir())


def test_a_download_ends_when_it_is_told_to_and_goes_to_one_link_at_a_time():
    s = station()
    other = Station(s.autopilot, "other", system=254)
    s.command(400, 1)
    s.run(20.0)
    s.command(400, 0)
    s.send("log_request_data", 1, 1, 1, 0, WHOLE)
    s.send("log_request_data", 1, 1, 1, 0, WHOLE)  # as clients do that fill gaps
    first = [m for m in s.run(0.02, step=0.02) if m.get_type() == "LOG_DATA"]
    assert [m.ofs for m in first] == [90 * k for k in range(40)]
    other.wall = s.wall
    other.send("log_request_data", 1, 1, 1, 0, WHOLE)
    assert "Log download in progress" in [m.text for m in s.run(0.02, step=0.02) if m.get_type() == "STATUSTEXT"]
    s.send("log_request_end", 1, 1)
    assert not [m for m in s.run(0.5) if m.get_type() == "LOG_DATA"]
    other.wall = s.wall
    other.send("log_request_data", 1, 1, 1, 0, 180)
    assert [m.count for m in other.run(0.1) if m.get_type() == "LOG_DATA"] == [90, 90]
    assert not s.autopilot.logs.sending


def test_the_oldest_logs_go_when_there_are_too_many_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(dataflash, "_LARGEST", 60_000)
    monkeypatch.setattr(dataflash, "_ALL", 200_000)
    fleet = VehicleFleet([Copter()], [(0.0, 0.0, 0.0)])
    s = Station(Autopilot(fleet, 0, origin=ORIGIN, ready_after=0.0, logs=tmp_path))
    s.set_parameter("LOG_DISARMED", 1)
    for _ in range(400):
        s.run(1.0)
        assert len(s.autopilot.logs._log.rest if s.autopilot.logs._log else b"") <= dataflash._KEPT + 100
    s.set_parameter("LOG_DISARMED", 0)
    s.autopilot.logs.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[0] > "00000003.BIN"
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 200_000
    found = entries(s)
    assert [m.size for m in found] == [(tmp_path / name).stat().st_size for name in names]
    assert download(s, found[0].id, found[0].size) == (tmp_path / names[0]).read_bytes()


def test_a_rover_logs_its_way_and_px4_has_no_such_logs():
    s = station(vehicle=Rover())
    s.command(400, 1)
    s.run(1.0)
    s.command(400, 0)
    assert len(entries(s)) == 1
    p = station("px4")
    p.command(400, 1)
    p.run(1.0)
    p.command(400, 0, 21196)
    (none,) = entries(p)
    assert none.num_logs == 0
