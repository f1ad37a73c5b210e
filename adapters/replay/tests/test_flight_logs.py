"""Logs of flights: rows as others read them, places and batteries on the bus, and clear words for broken files."""

from __future__ import annotations

import csv
import gzip
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cosim.adapters.replay import ADAPTER
from cosim.adapters.replay.adapter import ReplayAdapter
from cosim.adapters.replay.backend import UnreadableError, read
from cosim.adapters.replay.config import ReplayConfig
from cosim.adapters.replay.mavlog import _MODES, _PILOT
from cosim.adapters.replay.ulog import MAGIC, ULogError, read_ulog
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Fleet, Geo, Node, Scene
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import fault
from cosim.contract.signals import CATALOGUE, VEHICLE_MODE
from tests.examples import WITH_FIXTURES

ROOT = Path(__file__).resolve().parents[3]
UAV = ROOT.parent / "shared" / "data" / "uav"
PX4 = UAV / "px4_ulog"
TIME = "uint64_t timestamp;"
GEO = Geo(47.0, 8.0, 400.0)


def message(kind, body):
    return struct.pack("<HB", len(body), ord(kind)) + body


def ulog(*messages, version=1, flags=bytes(40)):
    return MAGIC + bytes([version]) + (10**6).to_bytes(8, "little") + message("B", flags) + b"".join(messages)


def subscribed(number, topic, fields, instance=0):
    joined = struct.pack("<BH", instance, number) + topic.encode()
    return message("F", f"{topic}:{fields}".encode()) + message("A", joined)


def row(number, layout, *values):
    return message("D", struct.pack("<H", number) + struct.pack("<" + layout, *values))


def flight(moments=4, **more):
    """A drone that flies east of the origin, climbs, and empties its battery."""
    east = math.degrees(1 / (6_371_000 * math.cos(math.radians(GEO.latitude))))
    parts = [
        subscribed(1, "vehicle_global_position", f"{TIME}double lat;double lon;float alt;uint8_t[4] _padding0;"),
        subscribed(2, "vehicle_attitude", "uint64_t timestamp;float[4] q;"),
        subscribed(3, "battery_status", f"{TIME}float voltage_v;float current_a;float remaining;uint8_t warning;"),
        subscribed(4, "vehicle_status", "uint64_t timestamp;uint8_t nav_state;uint8_t arming_state;bool failsafe;"),
        subscribed(5, "other", "uint64_t timestamp;double[3] numbers;"),
    ]  # fmt: skip
    for k in range(moments):
        now = 5_000_000 + 1_000_000 * k
        parts.append(row(1, "Qddf", now, GEO.latitude, GEO.longitude + 10 * k * east, 400.0 + k))
        half = math.radians(10.0 * k) / 2
        parts.append(row(2, "Q4f", now, math.cos(half), math.sin(half), 0.0, 0.0))
        parts.append(row(3, "QfffB", now, 16.0 - k, 10.0, 1.0 - 0.1 * k, 1 if k > 1 else 0))
        parts.append(row(4, "QBB?", now, 17 if k == 0 else 3, 2, k > 1))
        parts.append(row(5, "Qddd", now, 1.0, 2.0, 3.0))
    return ulog(*parts, **more)


def started(path, geo=GEO, **config):
    scene = Scene.build((), (Fleet("logs", "replay", 0, 5, Node("logs", "uav", "device")),), geo=geo)
    adapter = ADAPTER.build(ReplayConfig.model_validate({"file": str(path), **config}))
    adapter.start(Context("replay", scene, 1.0, 100.0, (1,), str(path.parent), str(path.parent)))
    assert isinstance(adapter, ReplayAdapter)
    return adapter


def test_a_log_gives_places_attitude_and_battery(tmp_path):
    path = tmp_path / "first.flight.ulg"
    path.write_bytes(flight())
    adapter = started(path)
    for k in (0.0, 1.0, 1.5, 3.0):
        mobility, vehicle = adapter.step(k, Inputs())
        for frame in (mobility, vehicle):
            assert fault(frame, CATALOGUE[frame.signal], 10) == ""
        assert mobility.table.ids == ("first",)
        assert mobility["x"][0] == pytest.approx(10 * k, rel=0.01, abs=1e-6)
        assert mobility["z"][0] == pytest.approx(k, abs=0.01)
        assert vehicle["roll"][0] == pytest.approx(10 * k, abs=1e-3)
        assert vehicle["voltage"][0] == pytest.approx(16 - k)
        assert vehicle["charge"][0] == pytest.approx(1 - 0.1 * k)
        assert vehicle["armed"][0]
        assert VEHICLE_MODE[vehicle["mode"][0]] == ("take-off" if k < 1 else "mission")
        assert vehicle["failsafe"][0] == (1 if k > 2 else 0)
    assert vehicle["power"][0] == pytest.approx(130.0)
    assert math.isnan(vehicle["climb"][0])
    mobility, vehicle = adapter.step(3.5, Inputs())
    assert len(mobility.slot) == len(vehicle.slot) == 0


def test_what_is_replayed_says_what_it_writes():
    def written(file):
        return ADAPTER.ports(ReplayConfig.model_validate({"file": file})).writes

    assert written("a.ulg.gz") == written("b.tlog") == written("c.BIN") == ("mobility", "vehicle")
    assert written("a.csv.gz") == ("mobility",)


def test_without_an_origin_on_earth_places_in_degrees_are_refused(tmp_path):
    path = tmp_path / "a.ulg"
    path.write_bytes(flight())
    with pytest.raises(ScenarioError, match=r"geo: \{origin"):
        started(path, geo=None)


LOCAL = "uint64_t timestamp;float x;float y;float z;bool xy_valid;"


def test_a_local_position_without_an_origin_is_metres_from_the_scenario_s(tmp_path):
    path = tmp_path / "a.ulg"
    rows = [row(1, "Qfff?", 10**6 * k, 3.0 * k, 2.0 * k, -1.0 * k, k != 1) for k in range(3)]
    path.write_bytes(ulog(subscribed(1, "vehicle_local_position", LOCAL), *rows))
    found = read(path, {}, 1e9)
    assert found.columns["time"].tolist() == [0.0, 2.0]
    assert found.columns["y"].tolist() == [0.0, 6.0]  # north
    assert found.columns["z"].tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not begin"),
        (b"ULog" + bytes(20), "does not begin"),
        (ulog(version=7), "version 7"),
        (ulog(flags=bytes(8) + b"\x02" + bytes(31)), "form of ULog"),
        (ulog(message("A", struct.pack("<BH", 0, 1) + b"battery_status")), "no format 'battery_status'"),
        (ulog(subscribed(1, "battery_status", "int_t x;")), "no format 'int_t'"),
        (ulog(subscribed(1, "battery_status", "battery_status x;")), "holds itself"),
        (ulog(subscribed(1, "battery_status", "float[99999] x;")), "larger"),
        (ulog(subscribed(1, "battery_status", "float x;float x;")), "two fields"),
        (ulog(subscribed(1, "battery_status", "x y z;")), "no field"),
        (ulog(row(9, "Q", 1)), "subscription 9"),
        (ulog(subscribed(1, "battery_status", "uint64_t timestamp;"), row(1, "I", 1)), "whose format has 8 B"),
        (ulog(message("\x01", b"")), "kind 1"),
    ],
)
def test_what_breaks_the_format_is_said_with_its_place(data, said):
    with pytest.raises(ULogError, match=said):
        read_ulog(data, {"battery_status"})


def test_a_log_without_a_position_says_so(tmp_path):
    path = tmp_path / "a.ulg"
    path.write_bytes(ulog(subscribed(1, "battery_status", "uint64_t timestamp;")))
    with pytest.raises(UnreadableError, match="no valid position"):
        read(path, {}, 1e9)
    path.write_bytes(flight(50))
    with pytest.raises(UnreadableError, match="'memory' allows"):
        read(path, {}, 100.0)


def test_a_log_that_was_written_anew_after_a_crash_goes_on_behind_the_cut():
    fields = subscribed(1, "battery_status", "uint64_t timestamp;")
    head = ulog(fields, row(1, "Q", 1))
    cut = row(1, "Q", 2)[:-3]
    flags = bytes(8) + b"\x01" + bytes(7) + struct.pack("<3Q", len(head) + len(cut), 0, 0)
    data = ulog(fields, row(1, "Q", 1), flags=flags) + cut + row(1, "Q", 3)
    found = read_ulog(data, {"battery_status"})
    assert found.rows("battery_status")["timestamp"].tolist() == [1, 3]
    assert found.cut


@given(st.integers(0, len(flight()) - 1))
@settings(WITH_FIXTURES, max_examples=60)
def test_a_log_that_is_cut_off_has_the_rows_before_or_is_refused(tmp_path, length):
    path = tmp_path / "a.ulg"
    path.write_bytes(flight()[:length])
    try:
        found = read(path, {}, 1e9)
    except UnreadableError:
        return
    whole = read_ulog(flight(), {"vehicle_global_position"}).rows("vehicle_global_position")
    assert found.columns["lon"].tolist() == whole["lon"][: len(found.columns["lon"])].tolist()


@given(st.integers(0, len(flight()) - 1), st.binary(min_size=1, max_size=40))
@settings(WITH_FIXTURES, max_examples=150)
def test_a_log_with_any_bytes_changed_is_read_or_refused(tmp_path, where, noise):
    data = flight()
    assume(where + len(noise) <= len(data))
    path = tmp_path / "a.ulg"
    path.write_bytes(data[:where] + noise + data[where + len(noise) :])
    try:
        started(path).step(1.0, Inputs())
    except ScenarioError as error:
        refusal = str(error)
    else:
        refusal = "a.ulg"
    assert "a.ulg" in refusal


@pytest.mark.data
@pytest.mark.skipif(not PX4.is_dir(), reason="no data beside the checkout")
def test_a_real_log_has_the_rows_that_pyulog_finds():
    tables = {}
    for file in sorted(PX4.glob("*.csv.gz")):
        topic, _, instance = file.name.partition("__")[2].partition(".")[0].rpartition("_")
        with gzip.open(file, "rt") as stream:
            tables[topic, int(instance)] = list(csv.DictReader(stream))
    data = gzip.decompress((PX4 / "sample_log_small.ulg.gz").read_bytes())
    log = read_ulog(data, {topic for topic, _ in tables})
    assert not log.cut
    compared = 0
    for key, expected in tables.items():
        rows = log.topics.get(key, ())
        assert len(rows) == len(expected), key
        for name in rows.dtype.names if len(rows) else ():
            values = rows[name].astype(np.float64).reshape(len(rows), -1)
            columns = [name] if rows[name].ndim == 1 else [f"{name}[{k}]" for k in range(values.shape[1])]
            for k, column in enumerate(columns):
                if column in expected[0]:
                    wanted = [float(one[column] or "nan") for one in expected]
                    np.testing.assert_allclose(values[:, k], wanted, rtol=1e-6, err_msg=f"{key} {column}")
                    compared += 1
    assert compared > 100


@pytest.mark.data
@pytest.mark.skipif(not PX4.is_dir(), reason="no data beside the checkout")
def test_a_real_px4_log_is_replayed_where_its_receiver_was():
    adapter = started(PX4 / "sample_log_small.ulg.gz", geo=Geo(63.41705, 10.40822, 60.0))
    for time in (0.0, 3.0, 6.0):
        mobility, vehicle = adapter.step(time, Inputs())
        assert np.hypot(mobility["x"], mobility["y"])[0] < 3.0  # it stands still
        assert 0.0 < mobility["z"][0] < 10.0
        assert mobility["speed"][0] < 0.2
        assert 23.0 < vehicle["voltage"][0] < 23.6
        assert vehicle["charge"][0] == pytest.approx(0.74, abs=0.01)
        assert bool(vehicle["armed"][0]) == (time < 5.5)
        assert abs(vehicle["roll"][0]) < 5.0


@pytest.mark.data
@pytest.mark.skipif(not PX4.is_dir(), reason="no data beside the checkout")
def test_a_real_dataflash_log_is_replayed(tmp_path):
    pytest.importorskip("pymavlink")
    path = tmp_path / "plane.bin"
    path.write_bytes(gzip.decompress((UAV / "ardupilot_dataflash" / "test.BIN.gz").read_bytes()))
    mobility, vehicle = started(path, geo=Geo(-35.36263, 149.16531, 584.0)).step(0.5, Inputs())
    assert mobility.table.ids == ("plane",)
    assert np.hypot(mobility["x"], mobility["y"])[0] < 1.0
    assert mobility["heading"][0] == pytest.approx(337.1, abs=0.1)
    assert vehicle["voltage"][0] == pytest.approx(12.4, abs=0.05)


FLASH = {  # layout and columns by message, in ArduPilot's dataflash format (AP_Logger: FMT)
    "MSG": (1, "QZ", "TimeUS,Message"), "POS": (2, "QLLf", "TimeUS,Lat,Lng,Alt"),
    "MODE": (3, "QMBB", "TimeUS,Mode,ModeNum,Rsn"), "ARM": (4, "QB", "TimeUS,ArmState"), "EV": (5, "QB", "TimeUS,Id"),
    "BAT": (6, "QBffB", "TimeUS,Inst,Volt,Curr,RemPct"),
}  # fmt: skip
PACKED = {"Q": "Q", "Z": "64s", "L": "i", "f": "f", "M": "B", "B": "B"}


def dataflash(*messages):
    """A log of (name, values) as ArduPilot writes it."""
    data = b""
    for name, (number, kinds, columns) in {"FMT": (128, "BBnNZ", "Type,Length,Name,Format,Columns"), **FLASH}.items():
        size = 89 if name == "FMT" else 3 + struct.calcsize("<" + "".join(PACKED[kind] for kind in kinds))
        head = struct.pack("<BB4s16s64s", number, size, name.encode(), kinds.encode(), columns.encode())
        data += b"\xa3\x95\x80" + head
    for name, *values in messages:
        number, kinds, _ = FLASH[name]
        layout = "<" + "".join(PACKED[kind] for kind in kinds)
        data += b"\xa3\x95" + bytes((number,)) + struct.pack(layout, *values)
    return data


def test_every_mode_that_pymavlink_names_is_known():
    mavutil = pytest.importorskip("pymavlink.mavutil")
    tables = [vars(mavutil)[name] for name in vars(mavutil) if name.startswith("mode_mapping_")]
    names = {mode for one in tables if isinstance(one, dict) for mode in one.values() if isinstance(mode, str)}
    assert len(names) > 40
    assert sorted((names | set(mavutil.px4_map)) - set(_MODES) - _PILOT) == []


@pytest.mark.parametrize("arming", ["ARM", "EV"])
def test_a_dataflash_log_has_modes_arming_and_the_first_battery(tmp_path, arming):
    pytest.importorskip("pymavlink")
    rows = [("MSG", 0, b"ArduCopter V4.6.0")]
    for k in range(9):
        now = 1_000_000 * k
        rows.append(("POS", now, 470000000, 80000000, 400.0 + k))
        rows += [("BAT", now, 0, 16.0, 10.0, 90 - k), ("BAT", now, 1, 11.0, 1.0, 5)]
        if k in (2, 8):
            rows.append((arming, now, int(k == 2) if arming == "ARM" else {2: 10, 8: 11}[k]))
        if k in (1, 3, 5, 7):
            mode = {1: 2, 3: 3, 5: 6, 7: 9}[k]  # ALT_HOLD, AUTO, RTL, LAND
            rows.append(("MODE", now, mode, mode, 1))
    path = tmp_path / "copter.bin"
    path.write_bytes(dataflash(*rows))
    replayed, seen = started(path), []
    for second in range(1, 9):
        _, vehicle = replayed.step(second + 0.5 if second < 8 else 8.0, Inputs())
        seen.append((VEHICLE_MODE[vehicle["mode"][0]], bool(vehicle["armed"][0])))
        assert vehicle["voltage"][0] == pytest.approx(16.0)
    assert seen == [
        ("manual", False), ("manual", True), ("mission", True), ("mission", True), ("return", True), ("return", True),
        ("land", True), ("land", False),
    ]  # fmt: skip
    assert vehicle["charge"][0] == pytest.approx(0.82)
    assert "of 2 instances of BAT, 0 is taken" in replayed.finish()["doubts"]


def test_the_receiver_s_positions_fill_the_gaps_of_the_estimator(tmp_path):
    gps = subscribed(9, "vehicle_gps_position", f"{TIME}int32_t lat;int32_t lon;int32_t alt;uint8_t fix_type;")
    for k in range(40):  # 4 a second from 5 s to 14.75 s; the estimator ends at 8 s
        gps += row(9, "QiiiB", 5_000_000 + 250_000 * k, 470_000_000 + 1000 * k, 80_000_000, 400_000, 3)
    path = tmp_path / "gap.ulg"
    path.write_bytes(flight() + gps)
    replayed = started(path)
    mobility, _ = replayed.step(9.5, Inputs())  # 14.5 s of the log
    assert mobility["y"][0] == pytest.approx(38 * 1e-4 * 6_371_000 * math.pi / 180, rel=0.01)
    assert any("positions are the receiver's" in line for line in replayed.finish()["taken"])


@pytest.fixture
def telemetry(tmp_path):
    """A telemetry log of two vehicles and a ground station, as pymavlink writes it."""
    pytest.importorskip("pymavlink")
    from pymavlink.dialects.v20 import ardupilotmega as dialect

    path, stream = tmp_path / "field.tlog", bytearray()
    for k in range(5):
        for system, part in ((1, 1), (2, 1), (255, 1), (1, 154), (1, 100), (2, 191)):
            link = dialect.MAVLink(None, srcSystem=system, srcComponent=part)
            kind, autopilot = (2, 3) if system < 255 and part == 1 else ({255: 6, 1: 26, 2: 18}[system], 8)
            said = [link.heartbeat_encode(kind, autopilot, 128 + 81 if part == 1 else 0, 4 if part == 1 else 0, 4)]
            if part == 154:  # a gimbal has an attitude and a supply of its own
                said += [link.attitude_encode(1000 * k, 1.5, 1.5, 0.0, 0.0, 0.0, 0.0)]
                said += [link.sys_status_encode(0, 0, 0, 0, 5000, 100, 3, 0, 0, 0, 0, 0, 0)]
            if system < 255 and part == 1:
                said += [
                    link.global_position_int_encode(
                        1000 * k, 470000000 + 1000 * system, 80000000, 410000 + 1000 * k, 0, 300, 400, -100, 9000
                    ),
                    link.attitude_encode(1000 * k, 0.1, -0.2, 0.0, 0.0, 0.0, 0.0),
                    link.sys_status_encode(0, 0, 0, 0, 12000, 500, 70 - k, 0, 0, 0, 0, 0, 0),
                ]
            for one in said:
                stream += struct.pack(">Q", 1_700_000_000_000_000 + 1_000_000 * k) + one.pack(link)
    path.write_bytes(stream)
    return path


def test_a_telemetry_log_has_a_member_for_each_vehicle(telemetry):
    mobility, vehicle = started(telemetry).step(2.0, Inputs())
    assert mobility.table.ids[:2] == ("field-1", "field-2")
    assert mobility["y"].tolist() == pytest.approx([11.1, 22.2], abs=0.1)
    assert mobility["z"].tolist() == pytest.approx([12.0, 12.0], abs=0.01)
    assert mobility["heading"].tolist() == [90.0, 90.0]
    assert mobility["speed"].tolist() == pytest.approx([5.0, 5.0])
    assert vehicle["climb"].tolist() == [1.0, 1.0]
    assert vehicle["charge"].tolist() == pytest.approx([0.68, 0.68])
    assert vehicle["power"].tolist() == pytest.approx([60.0, 60.0])
    assert vehicle["pitch"].tolist() == pytest.approx([math.degrees(-0.2)] * 2, abs=1e-4)
    assert vehicle["armed"].all()
    assert [VEHICLE_MODE[mode] for mode in vehicle["mode"]] == ["go", "go"]


def test_a_telemetry_log_reports_whose_messages_it_took(telemetry):
    summary = started(telemetry).finish()
    assert summary["taken"] == [
        "system 1 is taken by its component 1, without [100, 154]",
        "system 2 is taken by its component 1, without [191]",
    ]
    assert [line.partition(",")[0] for line in summary["doubts"]] == [
        "speeds of 5 m/s on the average"
    ]  # it stands still


def test_a_second_battery_of_a_log_is_not_passed_over_in_silence(tmp_path):
    fields = f"{TIME}float voltage_v;float current_a;float remaining;uint8_t warning;"
    second = subscribed(9, "battery_status", fields, 1) + row(9, "QfffB", 5_000_000, 11.0, 1.0, 0.1, 0)
    path = tmp_path / "two.ulg"
    path.write_bytes(flight() + second)
    summary = started(path).finish()
    assert "of 2 instances of battery_status, 0 is taken" in summary["doubts"]


@pytest.mark.parametrize("name", ["a.tlog", "a.bin"])
@given(data=st.binary(max_size=300))
@settings(WITH_FIXTURES, max_examples=30)
def test_what_is_no_mavlink_log_is_refused(tmp_path, name, data):
    pytest.importorskip("pymavlink")
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UnreadableError):
        read(path, {}, 1e9)


def test_a_log_that_is_cut_off_says_so(tmp_path):
    path = tmp_path / "a.ulg"
    path.write_bytes(flight()[:-3])
    assert "its last message is cut off: the log ends there" in read(path, {}, 1e9).doubts
