"""What is recorded is what is loaded, whatever the frames, the selection and the way the run ends."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cosim
from cosim.contract.errors import AdapterError, RunError
from cosim.contract.frame import Frame, SlotTable
from cosim.contract.signals import CATALOGUE
from cosim.results import stream
from cosim.results.convert import read_stream, recover
from cosim.results.folder import RunFolder
from cosim.results.recorder import Recorder, describe
from cosim.scenario.plan.plan import Recording
from tests.unit.results import synthetic

MOBILITY = ("x", "y", "z", "speed", "heading")


def record(base, plan, ticks):
    """Record `ticks` [(frames of one tick)] and return the run's folder."""
    folder = RunFolder.create(base, plan)
    recorder = Recorder(folder, plan, CATALOGUE)
    for tick, frames in enumerate(ticks):
        recorder.tick(tick, plan.time(tick), frames)
    recorder.close()
    return folder.path


def mobility(time, slots, values, table):
    columns = {name: np.array(values, np.float64) for name in MOBILITY}
    return Frame("mobility", time, np.array(slots, np.int32), columns, table)


def test_all_rows_come_back_bit_equal(tmp_path):
    plan = synthetic.plan(ticks=30)
    ticks = [[(name, frame.copy()) for name, frame in frames] for _, _, frames in synthetic.World(plan).frames()]
    run = cosim.load(record(tmp_path, plan, ticks))
    for name in ("mobility", "link", "host", "task"):
        frames = [frame for tick in ticks for _, frame in tick if frame.signal == name]
        found = run.table(name).fetchnumpy()
        for column in CATALOGUE[name].columns:
            if column.role in ("value", "counter") and column.name != "task":
                sent = np.concatenate([frame[column.name] for frame in frames])
                assert np.ma.getdata(found[column.name]).tobytes() == sent.tobytes(), (name, column.name)
        assert found["time"].tolist() == [frame.time for frame in frames for _ in range(len(frame))]


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_slots_that_are_reused_give_the_right_id_at_every_time(data):
    plan = synthetic.plan(ticks=12, capacity=5)
    ids, generation, epoch, made = [""] * 5, np.zeros(5, np.int32), 0, 0
    ticks, expected = [], []
    for tick in range(data.draw(st.integers(1, 12))):
        for slot in data.draw(st.sets(st.integers(0, 4))):
            generation[slot] += bool(ids[slot])
            ids[slot], made, epoch = f"car.{made}", made + 1, epoch + 1
        present = [i for i in range(5) if ids[i] and data.draw(st.booleans())]
        now = plan.time(tick)
        table = SlotTable(synthetic.CARS, tuple(ids), generation.copy(), epoch)
        values = data.draw(st.lists(st.floats(), min_size=len(present), max_size=len(present)))
        ticks.append([("traffic", mobility(now, [i + synthetic.CARS for i in present], values, table))])
        expected += [(now, ids[i], np.float64(v).tobytes()) for i, v in zip(present, values, strict=True)]
    with tempfile.TemporaryDirectory() as base:
        run = cosim.load(record(Path(base), plan, ticks))
        rows = run.sql("SELECT time, node, x FROM mobility").fetchall()
        assert [(t, node, np.float64(x).tobytes()) for t, node, x in rows] == expected
        seen = dict(run.sql("SELECT node, last_seen FROM nodes WHERE fleet = 'car'").fetchall())
        for node in {node for _, node, _ in expected}:
            assert seen[node] == max(t for t, name, _ in expected if name == node)
        run.close()


@settings(max_examples=15, deadline=None)
@given(
    every=st.integers(0, 7),
    columns=st.sets(st.sampled_from(MOBILITY)),
    slots=st.sets(st.integers(0, 5), min_size=1),
    rows=st.lists(st.integers(0, 6), min_size=1, max_size=15),
    chunk=st.integers(1, 2_000),
)
def test_decimation_selection_and_chunk_size(every, columns, slots, rows, chunk):
    recording = Recording(
        "mobility", True, every * 0.5, tuple(columns), tuple((synthetic.CARS + s, 1) for s in sorted(slots))
    )
    plan = synthetic.plan(ticks=15, capacity=6, recordings=(recording,))
    table = SlotTable(synthetic.CARS, tuple(f"car.{i}" for i in range(6)), np.zeros(6, np.int32), 1)
    ticks = [
        [("traffic", mobility(plan.time(k), range(synthetic.CARS, synthetic.CARS + n), np.arange(n) + 10 * k, table))]
        for k, n in enumerate(rows)
    ]
    before = stream.CHUNK_BYTES
    stream.CHUNK_BYTES = chunk
    try:
        with tempfile.TemporaryDirectory() as base:
            run = cosim.load(record(Path(base), plan, ticks))
            found = run.table("mobility")
            wanted = [name for name in MOBILITY if name in columns or not columns]
            assert found.columns == ["time", "node", *wanted]
            kept = [
                (plan.time(k), f"car.{s}") for k, n in enumerate(rows) for s in range(n)
                if k % max(every, 1) == 0 and s in slots
            ]  # fmt: skip
            assert [row[:2] for row in found.fetchall()] == kept
            run.close()
    finally:
        stream.CHUNK_BYTES = before


def test_large_frames_are_written_before_their_buffers_are_used_again(tmp_path, monkeypatch):
    monkeypatch.setattr("cosim.results.recorder.DIRECT_BYTES", 1)
    plan = synthetic.plan(ticks=40, capacity=2_000)
    table = SlotTable(synthetic.CARS, tuple(f"car.{i}" for i in range(2_000)), np.zeros(2_000, np.int32), 1)
    slots = np.arange(2_000, dtype=np.int32) + synthetic.CARS
    buffers = [{name: np.empty(2_000) for name in MOBILITY} for _ in range(2)]
    folder = RunFolder.create(tmp_path, plan)
    recorder = Recorder(folder, plan, CATALOGUE)
    for tick in range(41):
        for column in buffers[tick % 2].values():
            column[:] = tick
        recorder.tick(tick, plan.time(tick), [("traffic", Frame("mobility", 0.0, slots, buffers[tick % 2], table))])
    recorder.close()
    x = pq.read_table(folder.path / "frames/mobility/traffic.parquet").column("x").to_numpy()
    assert x.tolist() == np.repeat(np.arange(41.0), 2_000).tolist()


def test_a_task_belongs_to_the_device_that_made_it(tmp_path):
    plan = synthetic.plan(ticks=4, capacity=1)
    task = {c.name: np.zeros(2, c.dtype) for c in CATALOGUE["task"].columns}
    task["created"] = np.array([0.2, 1.0])
    task["host"] = np.array([-1, 0], np.int32)
    rows = Frame("task", 1.0, np.full(2, synthetic.CARS, np.int32), task)
    tables = [SlotTable(synthetic.CARS, (name,), np.array([i], np.int32), i) for i, name in enumerate("ab")]
    ticks = [
        [("traffic", mobility(0.0, [4], [1.0], tables[0]))],
        [],
        [("traffic", mobility(1.0, [4], [1.0], tables[1])), ("continuum", rows)],
    ]
    run = cosim.load(record(tmp_path, plan, ticks))
    assert run.sql("SELECT node, host FROM task").fetchall() == [("a", None), ("b", "edge-1")]


def test_a_slot_without_a_table_gets_a_name(tmp_path):
    plan = synthetic.plan(ticks=1)
    run = cosim.load(record(tmp_path, plan, [[("traffic", mobility(0.0, [5, 0], [1.0, 2.0], None))]]))
    assert run.sql("SELECT node FROM mobility").fetchall() == [("car#1",), ("edge-1",)]


def test_a_signal_without_rows_still_has_its_table(tmp_path):
    run = cosim.load(record(tmp_path, synthetic.plan(ticks=1), [[]]))
    assert run.tasks.columns == ["time", "node", *(c.name for c in CATALOGUE["task"].columns)]
    assert run.tasks.fetchall() == []


def test_signals_that_are_not_kept_have_none(tmp_path):
    recording = Recording("link", False, 0.0, (), ())
    path = synthetic.write_run(tmp_path, ticks=4, recordings=(recording,))
    assert "link" not in cosim.load(path).signals
    assert "link" not in RunFolder.open(path).manifest["signals"]


def test_planned_events_are_noted_when_they_become_due(tmp_path):
    path = synthetic.write_run(tmp_path, ticks=35)
    assert cosim.load(path).events.fetchall() == [(10.0, "fail", "edge-2", ""), (15.0, "recover", "edge-2", "")]


def test_ends_that_are_no_faults_of_code_have_no_traceback():
    with pytest.raises(RunError) as wanted:
        raise RunError("the machine of node 'pi' was evicted")
    assert describe(wanted.value)["traceback"] == ""
    with pytest.raises(RunError) as fault:
        raise RunError("the run could not go on") from KeyError("a")
    assert "KeyError: 'a'" in str(describe(fault.value)["traceback"])


def test_an_adapters_death_is_told_and_the_rest_kept(tmp_path):
    plan = synthetic.plan(ticks=20)
    folder = RunFolder.create(tmp_path, plan)
    recorder = Recorder(folder, plan, CATALOGUE)
    for tick, now, frames in synthetic.World(plan).frames():
        if tick < 10:
            recorder.tick(tick, now, frames)
    recorder.event(4.5, "adapter", "radio", "it died")
    recorder.close("partial", error=AdapterError("gone", adapter="radio", phase="step", remote_traceback="far away"))
    manifest = RunFolder.open(folder.path).manifest
    assert manifest["status"] == "partial"
    assert manifest["ticks_done"] == 10
    reported = manifest["error"]
    assert (reported["type"], reported["adapter"], reported["phase"], reported["traceback"]) == (
        "AdapterError", "radio", "step", "far away",
    )  # fmt: skip
    run = cosim.load(folder.path)
    assert run.sql("SELECT max(time) FROM link").fetchall() == [(4.5,)]
    assert run.events.fetchall()[-1] == (4.5, "adapter", "radio", "it died")


def test_a_full_disk_ends_the_run_and_says_so(tmp_path):
    plan = synthetic.plan(ticks=200, capacity=400)
    folder = RunFolder.create(tmp_path, plan)
    recorder = Recorder(folder, plan, CATALOGUE)
    (folder.path / "frames/link/radio.arrows").symlink_to("/dev/full")  # every write fails: no space left

    def run():
        world = synthetic.World(plan)
        for tick, now, frames in world.frames():
            recorder.tick(tick, now, frames)
            recorder._flush(None)
            time.sleep(0.001)

    with pytest.raises(RunError, match=r"link/radio\.arrows: No space left on device \(.* free there\).*are kept") as e:
        run()
    recorder.close("partial", error=e.value)
    loaded = cosim.load(folder.path)
    assert loaded.status == "partial"
    assert loaded.sql("SELECT count(*) FROM mobility").fetchall()[0][0] > 0
    assert "No space left" in loaded.manifest["error"]["message"]


def unconverted(base, **plan):
    """The folder of a run that has ended, and whose stream files could not be converted."""
    made = synthetic.plan(**plan)
    folder = RunFolder.create(base, made)
    recorder = Recorder(folder, made, CATALOGUE)
    for tick, now, frames in synthetic.World(made).frames():
        recorder.tick(tick, now, frames)
    (folder.path / "frames/host/.continuum.parquet.tmp").symlink_to("/dev/full")
    with pytest.raises(RunError, match="No space left"):
        recorder.close()
    return folder


def test_a_full_disk_at_the_conversion_keeps_the_stream_files(tmp_path):
    folder = unconverted(tmp_path, ticks=10)
    run = cosim.load(folder.path)
    assert run.status == "partial"
    assert run.table("host").aggregate("count(*)").fetchall() == [(44,)]
    assert recover(folder.path).manifest["status"] == "partial"
    assert not list(folder.path.glob("frames/*/*.arrows"))
    assert cosim.load(folder.path).table("host").aggregate("count(*)").fetchall() == [(44,)]


@pytest.mark.parametrize("reads", [0, 1])
def test_a_run_that_is_closed_while_it_is_loaded_is_read_whole(tmp_path, monkeypatch, reads):
    """What waits for the Parquet files is read when it is listed, and anew when it is gone before it is opened."""
    folder = unconverted(tmp_path)
    query = "SELECT node, time, x FROM mobility ORDER BY ALL"
    wanted = cosim.load(folder.path).sql(query).fetchall()
    turns = iter([False] * reads + [True])

    def closing(path):
        if next(turns, False):
            recover(folder.path)
        return read_stream(path)

    monkeypatch.setattr("cosim.results.load.read_stream", closing)
    assert cosim.load(folder.path).sql(query).fetchall() == wanted
    assert next(turns, None) is None


def _half_a_run(base: str) -> None:
    """Record for ever; the parent kills this process."""
    plan = dataclasses.replace(synthetic.plan(ticks=10**6), root=Path(base))
    folder = RunFolder.create(Path(base), plan)
    recorder = Recorder(folder, plan, CATALOGUE)
    for tick, now, frames in synthetic.World(plan).frames():
        recorder.tick(tick, now, frames)
        if tick % 20 == 19:
            recorder._flush(None)
        if tick == 200:
            sys.stdout.write("ready\n")
            sys.stdout.flush()


@pytest.mark.chaos
def test_a_killed_run_is_readable_and_can_be_recovered(tmp_path):
    code = f"from tests.unit.results.test_recorder import _half_a_run; _half_a_run({str(tmp_path)!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ})
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (path,) = tmp_path.glob("synthetic/*")
        assert RunFolder.open(path).status == "running"
        with pytest.raises(RunError, match="written by another process"):
            recover(path)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    victim = next(path.glob("frames/link/*.arrows"))
    with victim.open("r+b") as file:
        file.truncate(victim.stat().st_size - 100)  # the last batch was cut off
    run = cosim.load(path)
    assert run.status == "partial"
    before = run.sql("SELECT node, x FROM mobility").fetchall()
    links = run.sql("SELECT max(time) FROM link").fetchall()
    assert links[0][0] > 50
    folder = recover(path)
    assert folder.manifest["status"] == json.loads((path / "manifest.json").read_text())["status"] == "partial"
    assert folder.manifest["error"]["type"] == "Killed"
    after = cosim.load(path)
    assert after.sql("SELECT node, x FROM mobility").fetchall() == before
    assert after.sql("SELECT max(time) FROM link").fetchall() == links
    assert recover(path).manifest == folder.manifest


def test_rows_that_cannot_be_written_for_any_reason_end_the_run(tmp_path, monkeypatch):
    """A thread that died of them would leave a complete run without rows."""

    def broken(*_):
        raise ValueError("no such row")

    monkeypatch.setattr(stream.SignalStream, "write", broken)
    plan = synthetic.plan(ticks=3)
    folder = RunFolder.create(tmp_path, plan)
    recorder = Recorder(folder, plan, CATALOGUE)
    for tick, now, frames in synthetic.World(plan).frames():
        recorder.tick(tick, now, frames)
    with pytest.raises(RunError, match="ValueError: no such row"):
        recorder.close("complete")
    assert RunFolder.open(folder.path).status == "partial"
