"""The replay adapter: equal frames from every format, sensible presence, errors that help."""

from __future__ import annotations

import gzip
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from typer.testing import CliRunner

from cosim.adapters.replay import ADAPTER
from cosim.adapters.replay.check import problems as reported
from cosim.adapters.replay.config import ReplayConfig
from cosim.cli.main import app
from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Fleet, Geo, Node, Scene
from cosim.contract.errors import RunError, ScenarioError
from cosim.contract.frame import fault
from cosim.contract.geo import LocalFrame
from cosim.contract.signals import MOBILITY
from cosim.results.session import run_plan
from cosim.scenario.plan.compile import plan_of
from cosim.scenario.plan.estimate import estimate
from tests.examples import WITH_FIXTURES

TEMPLATE = Node("cars", "vehicle", "device")


def adapter_scene(capacity, geo=None):
    return Scene.build((Node("bs", "station", "edge"),), (Fleet("cars", "replay", 0, capacity, TEMPLATE),), geo=geo)


def started(root, file, *, capacity=50, geo=None, **config):
    scene = adapter_scene(capacity, geo)
    adapter = ADAPTER.build(ReplayConfig.model_validate({"file": str(file), **config}))
    adapter.start(Context("replay", scene, 1.0, 100.0, (1,), str(root), str(root)))
    return adapter


def problems(config, context):
    """What a check reports of a replay but for the note of what it took of its file."""
    return [one for one in reported(config, context) if not one.note]


def step(adapter, time):
    (frame,) = adapter.step(time, Inputs())
    assert fault(frame, MOBILITY, 10**6) == ""
    return frame


def named(frame):
    """What a frame says, by id."""
    return {
        frame.table.ids[slot - frame.table.first]: tuple(round(float(frame[c][i]), 9) for c in frame.columns)
        for i, slot in enumerate(frame.slot.tolist())
    }


def table(path: Path, rows, header="time,id,x,y"):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def fcd(rows, kind, path):
    """Write rows (time, id, x, y, speed, angle) as SUMO does."""
    if kind.startswith("xml"):
        text, now = "<fcd-export>", None
        for time, name, x, y, speed, angle in sorted(rows):
            if time != now:
                text += ("</timestep>" if now is not None else "") + f'<timestep time="{time}">'
                now = time
            text += f'<vehicle id="{name}" x="{x}" y="{y}" angle="{angle}" speed="{speed}" lane="e_0"/>'
        text += ("</timestep>" if now is not None else "") + "</fcd-export>"
    elif kind.startswith("csv"):
        text = "timestep_time;vehicle_angle;vehicle_id;vehicle_speed;vehicle_x;vehicle_y\n0;;;;;\n"
        text += "".join(f"{t};{a};{i};{v};{x};{y}\n" for t, i, x, y, v, a in rows)
    else:
        names = ("timestep_time", "vehicle_id", "vehicle_x", "vehicle_y", "vehicle_speed", "vehicle_angle")
        parquet.write_table(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), path)
        return path
    path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    return path


number = st.floats(-500, 500).map(lambda v: round(v, 2))
sample = st.tuples(number, number, st.floats(0, 50).map(lambda v: round(v, 2)), st.floats(0, 359.9))
recordings = st.dictionaries(
    st.tuples(st.integers(0, 12).map(lambda k: k * 2.5), st.sampled_from(["a", "b", "c", "d"])), sample, min_size=1
)


@settings(WITH_FIXTURES, max_examples=40)
@given(recordings, st.randoms(use_true_random=False), st.booleans(), st.sampled_from([None, "3 s"]))
def test_every_format_and_every_order_give_equal_frames(tmp_path, recording, random, interpolate, gap):
    rows = [(time, name, *values) for (time, name), values in sorted(recording.items())]
    shuffled = rows.copy()
    random.shuffle(shuffled)
    adapters = [
        started(tmp_path, fcd(order, kind, tmp_path / f"f.{kind}"), interpolate=interpolate, gap=gap)
        for kind, order in (
            ("xml", rows),
            ("xml.gz", rows),
            ("csv", rows),
            ("csv", shuffled),
            ("csv.gz", rows),
            ("parquet", shuffled),
        )
    ]
    for k in range(36):
        frames = [step(adapter, float(k)) for adapter in adapters]
        assert all(frame.same_as(frames[0]) for frame in frames)
        assert all(frame.table.ids == frames[0].table.ids for frame in frames)
        first = {name: min(t for t, n in recording if n == name) for _, name in recording}
        last = {name: max(t for t, n in recording if n == name) for _, name in recording}
        there = {name for name in first if first[name] <= k <= last[name]}
        assert set(named(frames[0])) <= there
        if gap is None:
            assert set(named(frames[0])) == there
        for (time, name), values in recording.items():
            if time == k:
                assert named(frames[0])[name][:2] == values[:2]


def test_positions_between_samples_are_on_the_line(tmp_path):
    adapter = started(tmp_path, table(tmp_path / "t.csv", [(0, "a", 0, 0), (4, "a", 40, 20)]))
    assert named(step(adapter, 1.0))["a"][:2] == (10.0, 5.0)
    assert named(step(adapter, 4.0))["a"][:2] == (40.0, 20.0)


def test_without_interpolation_the_last_sample_holds(tmp_path):
    path = table(tmp_path / "t.csv", [(0, "a", 0, 0), (4, "a", 40, 20)])
    adapter = started(tmp_path, path, interpolate=False)
    assert named(step(adapter, 3.9))["a"][:2] == (0.0, 0.0)
    assert named(step(adapter, 4.0))["a"][:2] == (40.0, 20.0)


def test_speed_and_heading_come_from_the_motion(tmp_path):
    rows = [(0, "a", 0, 0), (1, "a", 10, 0), (2, "a", 10, 5), (3, "a", 10, 5), (0, "z", 1, 1), (3, "z", 1, 1)]
    adapter = started(tmp_path, table(tmp_path / "t.csv", rows), interpolate=False)
    reported = [named(step(adapter, float(k)))["a"][3:] for k in range(4)]
    assert reported == [(10.0, 90.0), (5.0, 0.0), (0.0, 0.0), (0.0, 0.0)]
    assert named(step(adapter, 3.0))["z"][3:] == (0.0, 0.0)


def test_headings_turn_the_short_way(tmp_path):
    path = table(tmp_path / "t.csv", [(0, "a", 0, 0, 350), (2, "a", 0, 1, 20)], "time,id,x,y,heading")
    adapter = started(tmp_path, path)
    assert named(step(adapter, 1.0))["a"][4] == pytest.approx(5.0)
    assert named(step(adapter, 2.0))["a"][4] == pytest.approx(20.0)


def test_a_long_gap_is_an_absence_and_slots_are_reused(tmp_path):
    rows = [(0, "a", 0, 0), (1, "a", 1, 0), (9, "a", 9, 0), (2, "b", 0, 0), (10, "b", 8, 0)]
    adapter = started(tmp_path, table(tmp_path / "t.csv", rows), gap="8 s", capacity=3)
    first = step(adapter, 1.0)
    assert set(named(step(adapter, 5.0))) == {"a", "b"}
    strict = started(tmp_path, tmp_path / "t.csv", gap="5 s", capacity=1)
    assert named(step(strict, 1.0)).keys() == {"a"}
    assert named(step(strict, 2.0)).keys() == {"b"}
    assert step(strict, 2.0).table.generation.tolist() == [1]
    assert len(step(strict, 5.0)) == 0
    assert named(step(strict, 9.0)).keys() == {"a"}
    assert first.table.ids == ("a",)


def test_the_table_stays_the_same_object_while_nobody_arrives(tmp_path):
    adapter = started(tmp_path, table(tmp_path / "t.csv", [(0, "a", 0, 0), (9, "a", 9, 0)]))
    assert step(adapter, 0.0).table is step(adapter, 1.0).table


def test_offset_and_speed_up_choose_the_time_in_the_file(tmp_path):
    path = table(tmp_path / "t.csv", [(3600, "a", 0, 0), (3700, "a", 100, 0)])
    adapter = started(tmp_path, path, offset="1 h", speed_up=10)
    assert named(step(adapter, 3.0))["a"][0] == pytest.approx(30.0)


def test_a_loop_brings_new_members(tmp_path):
    path = table(tmp_path / "t.csv", [(k, "a", k, 0) for k in range(5)])
    adapter = started(tmp_path, path, loop=True)
    xs = [float(step(adapter, float(k))["x"][0]) for k in range(11)]
    assert xs == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0]
    frame = step(adapter, 11.0)
    assert frame.table.ids == ("a#3",)
    assert frame.table.generation.tolist() == [2]
    assert adapter.finish()["laps"] == 3


def test_times_that_are_no_binary_fractions_meet_the_ticks(tmp_path):
    path = table(tmp_path / "t.csv", [(f"{k * 0.1:.1f}", "a", k, 0) for k in range(100)])
    adapter = started(tmp_path, path, interpolate=False)
    for k in range(100):
        assert step(adapter, k * 100_000_000 * 1e-9)["x"].tolist() == [float(k)]


def test_own_column_names(tmp_path):
    path = table(tmp_path / "t.csv", [(0, "a", 1, 2)], "when,id,east,y")
    adapter = started(tmp_path, path, columns={"time": "when", "x": "east"})
    assert named(step(adapter, 0.0))["a"][:2] == (1.0, 2.0)


@pytest.mark.parametrize("header", ["time,id,lat,lon,height", "time,id,y,x,z"])
def test_degrees_become_metres(tmp_path, header):
    path = table(tmp_path / "t.csv", [(0, "a", 45.001, 9.0, 110), (0, "b", 45.0, 9.001, 100)], header)
    geo = Geo(45.0, 9.0, 100.0)
    adapter = started(tmp_path, path, geo=geo, coordinates="local" if "lat" in header else "lon-lat")
    at = named(step(adapter, 0.0))
    # arcs of the ellipsoid at 45 degrees: 111.132 m north and 78.847 m east per millidegree
    assert at["a"][:3] == pytest.approx((0.0, 111.132, 10.0), abs=2e-3)
    assert at["b"][:3] == pytest.approx((78.847, 0.0, 0.0), abs=2e-3)


def test_local_frame_of_a_far_point():
    east, north, up = LocalFrame(0.0, 0.0).to_local(np.array([0.0]), np.array([90.0]), np.array([0.0]))
    assert (east[0], north[0], up[0]) == pytest.approx((6378137.0, 0.0, -6378137.0))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "it is empty"),
        ("t.csv", "time,id,x,y\n", "a header and nothing else|no sample"),
        ("t.csv", "time,id,x\n0,a,1\n", r":1: .*no column for y \('vehicle_y' or 'y'\); it has time, id, x"),
        ("t.csv", "time,id,x,y\n0,a,1,two\n", "two"),
        ("t.csv", "time,id,x,y\n0,a,1,nan\n", "y of 'a' at time 0 s is nan, sample 1"),
        ("t.csv", "time,id,x,y\n0,a,1,\n", "y of 'a' at time 0 s is nan"),
        ("t.csv", "time,id,x,y\n1,a,1,2\n1.0,a,1,2\n", "'a' occurs twice at time 1 s"),
        ("t.csv", "time,id,x,y\n0,a,0,0\n1,a,5000,0\n", "moves 5000 m in 1 s.* metres .* seconds"),
        ("t.csv", "time,id,lat,lon\n0,a,0,0\n", "in degrees, but the scenario has no 'geo"),
        ("t.dat", "time,id,x,y\n", "neither .xml, .csv"),
        ("t.parquet", "PAR", "cannot be read as Parquet"),
        ("t.csv.gz", "BZh9 no bzip2", "cannot be read"),
        ("t.xml", "", "not well-formed XML: no element found"),
        ("t.xml", "<fcd-export>\n<timestep time='0'>\n</fcd>", ":3: .*not well-formed"),
        ("t.xml", "<fcd-export/>", "no sample"),
        ("t.xml", "<a>\n<vehicle id='v' x='0' y='0'/></a>", ":2: .*outside of any timestep"),
        ("t.xml", "<a><timestep time='1'/>\n<timestep time='0'/></a>", ":2: .*time 0 s comes after 1 s"),
        ("t.xml", "<a><timestep time='1'/>\n<timestep time='1'/></a>", ":2: .*time 1 s comes after 1 s"),
        ("t.xml", "<a><timestep time='1'>\n<vehicle id='v' x='0'/></timestep></a>", ":2: .*no column for y.* id, x"),
        ("t.xml", "<a><timestep time='1'>\n<vehicle id='v' x='0' y='?'/></timestep></a>", ":2: .*y of 'v' is '\\?'"),
        ("t.xml", "<a><timestep>\n</timestep></a>", ":1: .*time of a timestep is missing"),
    ],
)
def test_errors_say_what_and_where(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ScenarioError, match=message) as caught:
        started(tmp_path, name)
    assert f"adapters.replay.file: '{name}' cannot be replayed" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ScenarioError, match=r"there is no such file \(relative paths start"):
        started(tmp_path, "nowhere.csv")


def test_a_place_off_the_earth(tmp_path):
    path = table(tmp_path / "t.csv", [(0, "a", 9.0, 200.0)], "time,id,lat,lon")
    with pytest.raises(ScenarioError, match="no place on earth, sample 1"):
        started(tmp_path, path, geo=Geo(0.0, 0.0))


@pytest.mark.parametrize("kind", ["xml", "csv", "parquet"])
def test_a_file_larger_than_the_limit_is_refused(tmp_path, kind):
    path = fcd([(float(k), "a", 0.0, 0.0, 0.0, 0.0) for k in range(20)], kind, tmp_path / f"f.{kind}")
    with pytest.raises(ScenarioError, match=r"more than 6 samples.*raise 'memory'"):
        started(tmp_path, path, memory="1 kB")


def test_a_fleet_that_is_too_small_names_its_key(tmp_path):
    adapter = started(tmp_path, table(tmp_path / "t.csv", [(0, "a", 0, 0), (0, "b", 0, 0)]), capacity=1)
    with pytest.raises(RunError, match=r"set nodes\.cars\.capacity to 2"):
        step(adapter, 0.0)
    context = Context("replay", adapter_scene(1), 1.0, 100.0, (1,), str(tmp_path), "")
    (found,) = problems(ReplayConfig(file="t.csv"), context)
    assert (found.path, found.hint) == ("nodes.cars.capacity", "write  capacity: 2")
    assert problems(ReplayConfig(file="t.csv"), replace(context, scene=adapter_scene(2))) == []


def test_exactly_one_fleet_is_needed(tmp_path):
    adapter = ADAPTER.build(ReplayConfig(file="t.csv"))
    with pytest.raises(ScenarioError, match="exactly one fleet, the scenario has 0"):
        adapter.start(Context("replay", Scene.build(()), 1.0, 1.0, (1,), str(tmp_path), str(tmp_path)))


def test_nobody_yet_is_an_empty_frame(tmp_path):
    adapter = started(tmp_path, table(tmp_path / "t.csv", [(5, "a", 0, 0)]))
    assert len(step(adapter, 0.0)) == 0
    assert len(step(adapter, 5.0)) == 1
    assert len(step(adapter, 6.0)) == 0
    summary = adapter.finish()
    assert (summary["samples"], summary["members"], summary["most_at_once"]) == (1, 1, 1)
    assert math.isclose(summary["first"], 5.0)
    adapter.close()


def checked(root, file, geo, **config):
    scene = adapter_scene(50, geo)
    block = ReplayConfig.model_validate({"file": str(file), **config})
    return problems(block, Context("replay", scene, 1.0, 100.0, (1,), str(root), str(root)))


@pytest.mark.parametrize(("heights", "warned"), [((0, 30), True), ((380, 430), False), ((330, 390), False)])
def test_heights_above_the_ground_beside_an_origin_above_the_sea_are_noted(tmp_path, heights, warned):
    rows = [(k, "uav", 47.4, 8.5 + 0.0001 * k, height) for k, height in enumerate(heights)]
    file = table(tmp_path / "t.csv", rows, "time,id,lat,lon,altitude")
    found = checked(tmp_path, file, Geo(47.4, 8.5, 400.0))
    assert [one.message for one in found] == [f"'{file}' has heights of 0 to 30 m, and the origin is at 400 m"] * warned
    assert not any(one.fatal for one in found)


def test_the_ground_that_curves_away_is_no_depth(tmp_path):
    rows = [(1000 * k, "car", 47.4 + 0.2 + 0.01 * k, 8.5) for k in range(2)]  # 22 km, 39 m below the frame's plane
    assert checked(tmp_path, table(tmp_path / "t.csv", rows, "time,id,lat,lon"), Geo(47.4, 8.5, 400.0)) == []


def test_a_recording_far_from_the_origin_is_told_with_its_place(tmp_path):
    file = table(tmp_path / "t.csv", [(0, "a", 63.4170, 10.4082, 40)], "time,id,lat,lon,height")
    (far,) = checked(tmp_path, file, Geo(47.4, 8.5, 488.0))
    assert not far.fatal
    assert "1,781 km" in far.message
    assert "[63.4170, 10.4082, 40 m]" in far.hint
    assert not checked(tmp_path, file, Geo(63.4, 10.4, 0.0))


def test_a_recording_of_another_time_is_told_with_its_offset(tmp_path):
    file = table(tmp_path / "t.csv", [(25200, "a", 0, 0), (25300, "a", 1, 0)])
    (never,) = checked(tmp_path, file, None)
    assert not never.fatal
    assert "offset: 25200 s" in never.hint
    assert not checked(tmp_path, file, None, offset="7 h")


GEO = Geo(39.36, 22.95, 0.0)
EAST = 360.0 / (2 * math.pi * 6_378_137.0)  # deg of latitude a metre, near enough for a ratio
UNITS = {  # heads, and what turns s, m, m/s into their numbers
    "metric": (("time", "height", "speed"), (lambda t: t, 1.0, 1.0)),
    "feet": (("time(millisecond)", "altitude(feet)", "speed(mph)"), (lambda t: 1e3 * t, 1 / 0.3048, 1 / 0.44704)),
    "suffixes": (("time_us", "altitude_ft", "speed_kmh"), (lambda t: 1e6 * t, 1 / 0.3048, 3.6)),
    "brackets": (("timestamp [ns]", "height [km]", "Speed (knots)"), (lambda t: 1e9 * t, 1e-3, 3600 / 1852)),
    "unix ms": (("timestamp", "alt", "speed"), (lambda t: 1893456000000 + round(1e3 * t), 1.0, 1.0)),
    "unix us": (("t", "alt", "speed m/s"), (lambda t: 1893456000000000 + round(1e6 * t), 1.0, 1.0)),
    "zones": (("time", "alt", "speed"), (lambda t: f"2030-05-01T12:00:{t:012.9f}+02:00", 1.0, 1.0)),
    "no zone": (("time", "alt", "speed"), (lambda t: f"2030-05-01 10:00:{t:06.3f}", 1.0, 1.0)),
    "of day": (("time", "alt", "speed"), (lambda t: f"07:00:{t:06.3f}", 1.0, 1.0)),
}


@pytest.mark.parametrize("how", UNITS)
def test_units_in_heads_and_times_of_any_kind_count(tmp_path, how):
    (time, height, speed), (stamp, metres, pace) = UNITS[how]
    rows = [(stamp(k / 5), "d", 39.36 + 2 * k * EAST, 22.95, 120 * metres, 10 * pace) for k in range(121)]
    path = table(tmp_path / "t.csv", rows, f"{time},id,lat,lon,{height},{speed}")
    offset = "25200 s" if how == "of day" else "0 s"
    adapter = started(tmp_path, path, geo=GEO, offset=offset)
    x, y, z, fast, _ = named(step(adapter, 12.0))["d"]
    assert (x, fast) == pytest.approx((0.0, 10.0), abs=1e-6)
    assert y == pytest.approx(120.0, rel=0.01)  # the radius of the ellipsoid is another one here
    assert z == pytest.approx(120.0, abs=0.01)
    summary = adapter.finish()
    assert summary["last"] - summary["first"] == pytest.approx(24.0, abs=1e-6)
    assert summary["doubts"] == []
    assert len(summary["taken"]) == {"feet": 3, "suffixes": 3, "brackets": 3, "unix us": 2}.get(
        how, 0 if how in ("metric", "of day") else 1
    )


def test_an_offset_may_count_from_1970_as_the_file_does(tmp_path):
    rows = [(1893456000 + k, "d", 10 * k, 0) for k in range(9)]
    adapter = started(tmp_path, table(tmp_path / "t.csv", rows), offset="1893456002 s")
    assert named(step(adapter, 1.0))["d"][0] == 30.0


def test_speeds_that_contradict_the_motion_are_refused_or_warned_of(tmp_path):
    context = Context("replay", adapter_scene(5), 1.0, 8.0, (1,), str(tmp_path), str(tmp_path))
    for factor, fatal in ((1.0, None), (3.6, False), (36.0, True)):
        table(tmp_path / "t.csv", [(k, "d", 10 * k, 0, 10 * factor) for k in range(9)], "time,id,x,y,speed")
        found = problems(ReplayConfig(file="t.csv"), context)
        assert [one.fatal for one in found] == ([] if fatal is None else [fatal])
        if fatal is not None:
            assert f"speeds of {10 * factor:g} m/s on the average, positions that move by 10 m/s" in found[0].message


def test_a_unit_that_is_not_known_and_a_time_that_is_none_are_refused(tmp_path):
    with pytest.raises(ScenarioError, match=r"unit 'fathoms' of column 'z \(fathoms\)' is none of length"):
        started(tmp_path, table(tmp_path / "t.csv", [(0, "d", 0, 0, 1)], "time,id,x,y,z (fathoms)"))
    rows = [("2030-05-01T10:00:00Z", "d", 0, 0), ("soon", "d", 0, 1), ("2030-05-01T10:00:02Z", "d", 0, 1)]
    with pytest.raises(ScenarioError, match=r"t\.csv:3: .*holds 'soon', which is no time"):
        started(tmp_path, table(tmp_path / "t.csv", rows))


def test_rows_without_a_member_are_counted(tmp_path):
    adapter = started(tmp_path, table(tmp_path / "t.csv", [(0, "d", 0, 0), (1, "", 1, 0), (2, "d", 2, 0)]))
    assert adapter.finish()["doubts"] == ["1 rows have a place and no id: they are left out"]


def test_sumo_writes_times_of_day_too(tmp_path):
    path = tmp_path / "f.xml"
    steps = "".join(f"<timestep time='07:00:0{k}.00'><vehicle id='a' x='{k}' y='0'/></timestep>" for k in range(5))
    path.write_text(f"<fcd-export>{steps}</fcd-export>")
    assert named(step(started(tmp_path, path, offset="7 h"), 3.0))["a"][0] == 3.0


def test_check_and_run_report_what_a_replay_took_of_its_file(tmp_path):
    (tmp_path / "cars.csv").write_text("time [ms],id,x,y\n0,a,0,0\n2000,a,20,0\n0,b,0,5\n2000,b,20,5\n0,,1,1\n")
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(
        "apiVersion: cosim/v1\nkind: Scenario\nname: took\nrun: {duration: 2 s, step: 1 s}\n"
        "adapters: {replay: {file: cars.csv}}\nnodes:\n  car: {kind: vehicle, fleet: replay, capacity: 4}\n"
    )
    taken = "'cars.csv' gives 4 positions of 2 members from 0 s to 2 s; time is taken from 'time [ms]' in ms"
    plan = plan_of(file)
    assert plan.taken == (f"adapters.replay: {taken}",)
    assert plan.warnings == ("adapters.replay: 'cars.csv': 1 rows have a place and no id: they are left out",)
    assert plan.hash == replace(plan, taken=()).hash
    assert taken in CliRunner().invoke(app, ["check", str(file)]).output
    said = []
    run_plan(plan, tmp_path / "runs", driver="loop", say=said.append)
    assert f"adapters.replay: {taken}" in said


def test_the_estimate_counts_the_tasks_of_the_members_that_the_file_has(tmp_path):
    table(tmp_path / "cars.csv", [(0, "a", 0, 0), (2, "a", 20, 0), (0, "b", 0, 5), (2, "b", 20, 5)])
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(
        "apiVersion: cosim/v1\nkind: Scenario\nname: few\nrun: {duration: 2 s, step: 1 s}\n"
        "adapters: {replay: {file: cars.csv}, continuum: {}}\n"
        "nodes:\n  car: {kind: vehicle, fleet: replay, capacity: 900}\n  edge: {kind: edge, cpu: 1 x 1 GHz}\n"
        "links: [{between: [car, edge], rate: 1 Mbit/s, delay: 1 ms}]\n"
        "workloads: {w: {from: car, arrivals: every 100 ms, input: 1 kB, work: 1 Mcycles}}\n"
    )
    assert estimate(plan_of(file)).tasks == 2 * 20


def test_times_of_day_go_on_behind_midnight(tmp_path):
    context = Context("replay", adapter_scene(5), 1.0, 100.0, (1,), str(tmp_path), "")
    clocks = ("23:59:58", "23:59:59", "00:00:00", "00:00:01")
    both = [(clock, who, 10 * k, 0) for k, clock in enumerate(clocks) for who in "ab"]
    for rows in (both, sorted(both, key=lambda row: row[1])):  # by time, and car by car
        table(tmp_path / "t.csv", rows)
        config = ReplayConfig(file="t.csv", offset="86398 s")
        warned = [one.message for one in problems(config, context) if "midnight" in one.message]
        assert len(warned) == 1
        adapter = started(tmp_path, "t.csv", offset="86398 s")
        assert named(step(adapter, 3.0))["a"][0] == named(step(adapter, 3.0))["b"][0] == 30.0
    table(tmp_path / "t.csv", [("24:29:59", "a", 0, 0), ("24:30:00", "a", 10, 0), ("05:00:00", "b", 0, 0)])
    assert not any("midnight" in one.message for one in problems(ReplayConfig(file="t.csv"), context))


@pytest.mark.parametrize("form", ["csv", "xml2csv", "parquet", "xml"])
def test_persons_among_the_vehicles_of_sumo_are_left_out_and_counted(tmp_path, form):
    head = "timestep_time;vehicle_id;vehicle_x;vehicle_y;vehicle_type;vehicle_lane;vehicle_edge"
    rows = ["0;v;1;2;car;e_0;", "0;p;5;6;DEFAULT_PEDTYPE;;e", "0;q;5;7;walker;;e", "1;v;9;2;car;e_0;"]
    file = tmp_path / f"fcd.{form if form != 'xml2csv' else 'csv'}"
    if form == "csv":
        file.write_text("\n".join([head, *rows]) + "\n")
    elif form == "xml2csv":
        file.write_text(
            "timestep_time;vehicle_id;vehicle_x;vehicle_y;person_id;person_x;person_y\n"
            "0;v;1;2;;;\n0;;;;p;5;6\n0;;;;q;5;7\n1;v;9;2;;;\n"
        )
    elif form == "parquet":
        cells = zip(*(row.split(";") for row in rows), strict=True)
        columns = dict(zip(head.split(";"), map(list, cells), strict=True))
        numbers = ("timestep_time", "vehicle_x", "vehicle_y")
        columns |= {name: list(map(float, columns[name])) for name in numbers}
        parquet.write_table(pa.table({name: [cell or None for cell in column] if name not in numbers else column
                                      for name, column in columns.items()}), file)  # fmt: skip
    else:
        file.write_text(
            '<fcd-export><timestep time="0"><vehicle id="v" x="1" y="2"/><person id="p" x="5" y="6"/>'
            '<container id="q" x="5" y="7"/></timestep><timestep time="1"><vehicle id="v" x="9" y="2"/></timestep>'
            "</fcd-export>"
        )
    context = Context("replay", adapter_scene(5), 1.0, 1.0, (1,), str(tmp_path), "")
    (warned,) = problems(ReplayConfig(file=file.name), context)
    assert "2 rows are of persons or containers: they are left out" in warned.message
    assert list(named(step(started(tmp_path, file.name), 0.0))) == ["v"]


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("time,id,x,y,x", [(0, "a", 0, 0, 5), (1, "a", 1, 0, 5)], "two columns are called 'x'"),
        ("time,id,x,y,altitude_ft", [(0, "a", 0, 0, 5), (1, "a", 1, 0, 5)], "its heights have no effect beside x"),
        ("time,id,x,y,heading", [(t, "a", 10 * t, 0, 1.57) for t in range(4)], "headings that are 88 deg off"),
        ("time,id,x,y,heading", [(t, "a", 10 * t, 0, 95) for t in range(4)], ""),
        ("time,id,x,y", [("2030-01-01T00:00:00+02:00", "a", 0, 0), ("2030-01-01T00:00:01", "a", 1, 0)],
         "1 times name no time zone, and others do"),
    ],
)  # fmt: skip
def test_doubtful_columns_of_strangers_are_told(tmp_path, header, rows, said):
    table(tmp_path / "t.csv", rows, header)
    context = Context("replay", adapter_scene(5), 1.0, 1.0, (1,), str(tmp_path), "")
    found = problems(ReplayConfig(file="t.csv"), context)
    assert [said in one.message for one in found] == ([True] if said else [])


def test_blanks_around_an_id_are_no_part_of_it(tmp_path):
    table(tmp_path / "t.csv", [(0, " a", 0, 0), (1, "a ", 1, 0)])
    assert list(named(step(started(tmp_path, "t.csv"), 1.0))) == ["a"]


def test_members_whose_names_are_one_number_are_warned_of(tmp_path):
    rows = [(k, name, 10 * k, 0) for name in ("1", "x2", "1.0", "9007199254740992", "9007199254740993") for k in (0, 1)]
    (found,) = checked(tmp_path, table(tmp_path / "t.csv", rows), None)
    assert "'1' and '1.0' are one number and two members" in found.message


def test_two_columns_of_one_quantity_are_refused_until_one_is_named(tmp_path):
    file = table(tmp_path / "t.csv", [(0, "d", 0, 0, 0), (1, "d", 10, 32.8, 0)], "time,id,x,x (ft),y")
    (found,) = checked(tmp_path, file, None)
    assert "'x' and 'x (ft)' are both x" in found.message
    assert checked(tmp_path, file, None, columns={"x": "x (ft)"}) == []


@pytest.mark.parametrize("zone", ["", "+02:00"])
def test_an_hour_that_comes_twice_is_refused_where_no_zone_tells_them_apart(tmp_path, zone):
    """Clocks of the European Union go back from 03:00 to 02:00 on the last Sunday of October."""
    rows = [(f"2026-10-25 02:59:{50 + k}{zone}", "d", 10 * k, 0) for k in range(10)]
    rows += [(f"2026-10-25 02:00:0{k}{zone and '+01:00'}", "d", 100 + 10 * k, 0) for k in range(10)]
    found = checked(tmp_path, table(tmp_path / "t.csv", rows), None)
    assert [("as clocks do when summer time ends" in one.message, one.fatal) for one in found] == [(True, True)] * (
        not zone
    )


@pytest.mark.parametrize(("gap", "after", "warned"), [(None, 600, 1), ("10 s", 600, 0), (None, 90, 0)])
def test_long_gaps_are_warned_of_unless_the_scenario_has_a_key_for_them(tmp_path, gap, after, warned):
    """Where a member stays at its place meanwhile, there is nothing to say."""
    rows = [(k, "d", 10 * k, 0) for k in range(10)] + [(60 + k, "d", after + 10 * k, 0) for k in range(5)]
    found = checked(tmp_path, table(tmp_path / "t.csv", rows), None, **({"gap": gap} if gap else {}))
    said = [
        "no positions for 51 s after 9 s, in which 'd' moves straight; 1 gaps in all" in one.message for one in found
    ]
    assert said == [True] * warned


def test_times_in_two_units_are_refused_by_the_first_that_is_of_another_size(tmp_path):
    rows = [((1777629600 + k) * (1000 if k > 5 else 1), "d", 10 * k, 0) for k in range(11)]
    (found,) = checked(tmp_path, table(tmp_path / "t.csv", rows), None)
    assert "'time' has 5 times of another size, the first 1777629606000" in found.message
