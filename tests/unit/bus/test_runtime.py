"""One tick: order, periods, delayed reads, events, event rows, and who is blamed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cosim.bus import loop_driver, mosaik_driver
from cosim.bus.pacer import Pacer
from cosim.bus.runtime import Runtime
from cosim.contract.entities import Event, SlotRange
from cosim.contract.errors import AdapterError, RunError
from cosim.contract.frame import Frame
from tests.unit.bus.chain import NODES, SIGNALS, Step, adapter_plan, make_plan


class Keeper:
    """An observer that keeps a copy of all it sees."""

    def __init__(self):
        self.frames = []

    def tick(self, tick, time, frames):
        self.frames.append((tick, time, [(name, frame.copy()) for name, frame in frames]))


def run(plan, adapters, tmp_path: Path, drive=loop_driver.drive):
    keeper = Keeper()
    runtime = Runtime(plan, adapters, SIGNALS, scratch=tmp_path, observers=[keeper])
    try:
        runtime.start()
        drive(runtime, Pacer(plan.pacing, plan.lag))
        summaries = runtime.finish()
    finally:
        runtime.close()
    return keeper.frames, summaries, runtime


def chain():
    plan = make_plan([
        adapter_plan("a", writes=["place"]),
        adapter_plan("b", [("place", ["a"], False)], ["delay"]),
        adapter_plan("c", [("delay", ["b"], False)], ["load"]),
    ])  # fmt: skip
    adapters = {
        "a": Step("place", "x"),
        "b": Step("delay", "delay", "place", 2.0),
        "c": Step("load", "load", "delay", 10.0),
    }
    return plan, adapters


def test_values_pass_down_the_chain_within_one_tick(tmp_path):
    plan, adapters = chain()
    frames, _, _ = run(plan, adapters, tmp_path)
    last = {name: next(iter(frame.columns.values()))[0] for name, frame in frames[-1][2]}
    assert last == {"a": 3.0, "b": 7.0, "c": 71.0}
    assert [tick for tick, _, _ in frames] == [0, 1, 2, 3, 4]
    assert [time for _, time, _ in frames] == [0.0, 0.5, 1.0, 1.5, 2.0]


def test_both_drivers_give_bit_equal_frames(tmp_path):
    by_loop, _, _ = run(*chain(), tmp_path)
    for stretch in (1, 3, 64):
        by_mosaik, _, _ = run(*chain(), tmp_path, lambda r, p, s=stretch: mosaik_driver.drive(r, p, stretch=s))
        assert len(by_loop) == len(by_mosaik)
        for (tick, _, ours), (other_tick, _, theirs) in zip(by_loop, by_mosaik, strict=True):
            assert tick == other_tick
            assert [name for name, _ in ours] == [name for name, _ in theirs]
            assert all(a.same_as(b) for (_, a), (_, b) in zip(ours, theirs, strict=True))


def test_a_slower_adapter_is_stepped_at_its_period_and_its_frame_is_held(tmp_path):
    plan = make_plan([
        adapter_plan("slow", writes=["place"], period=2),
        adapter_plan("fast", [("place", ["slow"], False)], ["delay"]),
    ])  # fmt: skip
    slow, fast = Step("place", "x"), Step("delay", "delay", "place")
    run(plan, {"slow": slow, "fast": fast}, tmp_path)
    assert [time for kind, time, _ in slow.diary if kind == "step"] == [0.0, 1.0, 2.0]
    assert [seen for kind, _, seen in fast.diary if kind == "step"] == [1.0, 1.0, 2.0, 2.0, 3.0]


@pytest.mark.parametrize("reader_first", [True, False])
def test_a_delayed_read_sees_the_value_from_before_the_tick(tmp_path, reader_first):
    reader = adapter_plan("reader", [("place", ["writer"], True)], ["delay"])
    writer = adapter_plan("writer", writes=["place"])
    plan = make_plan([reader, writer] if reader_first else [writer, reader])
    step = Step("delay", "delay", "place")
    run(plan, {"reader": step, "writer": Step("place", "x")}, tmp_path)
    assert [seen for kind, _, seen in step.diary if kind == "step"] == [None, 1.0, 1.5, 2.0, 2.5]


def test_events_arrive_once_at_the_first_step_not_before_their_time(tmp_path):
    events = [Event(at, "fail", (SlotRange(0),)) for at in (0.0, 0.6, 1.0, 2.0)]
    plan = make_plan(
        [adapter_plan("a", writes=["place"]), adapter_plan("b", writes=["delay"], period=2)], events=events
    )
    fast, slow = Step("place", "x"), Step("delay", "delay")
    run(plan, {"a": fast, "b": slow}, tmp_path)
    assert [time for time, _ in fast.events] == [0.0, 1.0, 1.0, 2.0]
    assert [time for time, _ in slow.events] == [0.0, 1.0, 1.0, 2.0]


class Tasks(Step):
    """Publishes as many event rows as its step has half seconds, in a buffer that it reuses."""

    def start(self, context):
        super().start(context)
        self.buffers = [np.zeros(NODES, np.int64), np.zeros(NODES, np.int64)]
        self.count = 0

    def step(self, time, inputs):
        self.count += 1
        buffer = self.buffers[self.count % 2]
        buffer[:] = self.count
        rows = self.count % 3
        return [Frame("done", time, np.zeros(rows, np.int32), {"task": buffer[:rows]})]


class Reader(Step):
    def step(self, time, inputs):
        self.diary.append(("step", time, [int(v) for frame in inputs.all("done") for v in frame["task"]]))
        return []


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize(("writer_period", "reader_period"), [(1, 1), (1, 2), (2, 1), (1, 4)])
def test_event_rows_reach_a_reader_of_any_period_exactly_once(tmp_path, writer_period, reader_period, delayed):
    plan = make_plan(
        [
            adapter_plan("tasks", writes=["done"], period=writer_period),
            adapter_plan("reader", [("done", ["tasks"], delayed)], period=reader_period),
        ],
        ticks=9,
    )
    tasks, reader = Tasks(), Reader()
    run(plan, {"tasks": tasks, "reader": reader}, tmp_path)
    read = [value for kind, _, values in reader.diary if kind == "step" for value in values]
    written = [count for count in range(1, tasks.count + 1) for _ in range(count % 3)]
    assert read == written[: len(read)]
    assert len(written) - len(read) <= 2 * max(1, reader_period // writer_period)


def test_every_adapter_is_closed_in_reverse_order_when_one_fails_to_start(tmp_path):
    class Refuses(Step):
        def start(self, context):
            raise OSError("no such device")

    plan, adapters = chain()
    adapters["b"] = Refuses()
    with pytest.raises(AdapterError, match="adapter 'b' failed in start: OSError: no such device"):
        run(plan, adapters, tmp_path)
    assert adapters["a"].diary[-1][0] == "close"
    assert adapters["c"].diary == [("close", 0.0, None)]


@pytest.mark.parametrize("drive", [loop_driver.drive, mosaik_driver.drive])
def test_a_failing_step_names_adapter_time_and_cause(tmp_path, drive):
    class Fails(Step):
        def step(self, time, inputs):
            if time == 1.0:
                raise ZeroDivisionError("no load")
            return super().step(time, inputs)

    plan, adapters = chain()
    adapters["b"] = Fails("delay", "delay", "place")
    with pytest.raises(AdapterError, match="adapter 'b' failed in step at 1 s: ZeroDivisionError: no load") as caught:
        run(plan, adapters, tmp_path, drive)
    assert caught.value.phase == "step"
    assert adapters["a"].diary[-1][0] == "close"


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([], "expected delay, found nothing"),
        ([Frame("load", 0.0, np.zeros(0, np.int32), {"load": np.zeros(0)})], "expected delay, found load"),
        ([Frame("delay", 0.0, np.zeros(2, np.int32), {"delay": np.zeros(2)})], "more than one row"),
        ([Frame("delay", 0.0, np.arange(3, dtype=np.int32), {"delay": np.zeros(2)})], "has \\(2,\\) values for 3"),
        ([Frame("delay", 0.0, np.array([9], np.int32), {"delay": np.zeros(1)})], "outside the scene's slots 0..4"),
        ([Frame("delay", 0.0, np.arange(2, dtype=np.int32), {"delay": np.zeros(2, np.float32)})], "must be float64"),
        ([Frame("delay", 0.0, np.arange(2, dtype=np.int32), {"late": np.zeros(2)})], "must have the columns delay"),
    ],
)
def test_a_wrong_frame_is_refused_with_what_is_wrong(tmp_path, frames, message):
    class Wrong(Step):
        def step(self, time, inputs):
            return frames

    plan, adapters = chain()
    adapters["b"] = Wrong()
    with pytest.raises(AdapterError, match=message):
        run(plan, adapters, tmp_path)


@pytest.mark.parametrize(
    ("late", "message"),
    [(np.zeros(NODES, np.float32), "must be float64"), (np.zeros(NODES - 1), "has \\(4,\\) values for 5 rows")],
)
def test_a_frame_that_goes_wrong_later_is_refused_as_well(tmp_path, late, message):
    class Changes(Step):
        def step(self, time, inputs):
            (frame,) = super().step(time, inputs)
            return [frame if time < 2.0 else Frame("delay", time, frame.slot, {"delay": late})]

    plan, adapters = chain()
    adapters["b"] = Changes("delay", "delay", "place")
    with pytest.raises(AdapterError, match=message):
        run(plan, adapters, tmp_path)


@pytest.mark.parametrize("drive", [loop_driver.drive, mosaik_driver.drive])
def test_a_run_that_is_told_to_stop_ends_after_the_tick(tmp_path, drive):
    plan, adapters = chain()
    runtime = Runtime(plan, adapters, SIGNALS, scratch=tmp_path)
    runtime.start()

    class Stops:
        def tick(self, tick, time, frames):
            if tick == 2:
                runtime.stop("enough")

    runtime.observers.append(Stops())
    drive(runtime, Pacer(0.0, plan.lag))
    runtime.close()
    assert runtime.ticks_done == 3
    assert runtime.reached == 1.0


def test_a_mosaik_simulator_connects_to_frames_and_to_single_values(tmp_path):
    import mosaik_api_v3
    from mosaik.starters import PythonStarter

    seen = []

    class Third(mosaik_api_v3.Simulator):
        def __init__(self):
            attributes = ["load", "delay"]
            models = {"Meter": {"public": True, "params": [], "attrs": attributes}}
            super().__init__({"api_version": "3.0", "type": "time-based", "models": models})

        def init(self, sid, time_resolution=1.0, **params):
            return self.meta

        def create(self, num, model, **params):
            return [{"eid": "meter", "type": model}]

        def step(self, time, inputs, max_advance):
            values = inputs["meter"]
            seen.append((time, values["load"]["cosim.node-2"], values["delay"]["cosim.fleet"][0]["delay"][2]))
            return time + 1

        def get_data(self, outputs):
            return {}

    def connect(world, hub):
        meter = world.start(PythonStarter(Third), "third").Meter()
        world.connect(hub.Node(node="node-2"), meter, ("load.load", "load"))
        world.connect(hub.Fleet(), meter, "delay")

    plan, adapters = chain()
    run(plan, adapters, tmp_path, lambda r, p: mosaik_driver.drive(r, p, connect=connect))
    assert seen == [(t, 10 * (2 * (t * 0.5 + 1) + 1) + 1, 2 * (t * 0.5 + 1) + 1) for t in range(5)]


def test_a_mosaik_simulator_that_stops_short_is_named(tmp_path, monkeypatch):
    plan, adapters = chain()
    monkeypatch.setattr(mosaik_driver, "_progress", lambda world: {"cosim": 5, "third": 3})
    with pytest.raises(RunError, match="simulator 'third' stopped at tick 3 of 4"):
        run(plan, adapters, tmp_path, mosaik_driver.drive)


def test_the_account_says_who_took_how_many_steps(tmp_path):
    _, summaries, runtime = run(*chain(), tmp_path)
    assert {row["name"]: row["steps"] for row in runtime.account()} == {"a": 5, "b": 5, "c": 5}
    assert summaries == {"a": {"steps": 5}, "b": {"steps": 5}, "c": {"steps": 5}}
    assert runtime.rows() == {("a", "place"): 25, ("b", "delay"): 25, ("c", "load"): 25}


class Split(Step):
    """A step that is asked for and awaited apart, as a remote adapter's."""

    def begin_start(self, context):
        self.start(context)

    def end_start(self):
        pass

    def begin_step(self, time, inputs):
        self.diary.append(("asked", time, None))
        self._answer = super().step(time, inputs)

    def end_step(self):
        self.diary.append(("awaited", 0.0, None))
        return self._answer


def test_adapters_elsewhere_work_at_the_same_time_when_they_do_not_read_each_other(tmp_path):
    plan = make_plan([
        adapter_plan("a", writes=["place"]),
        adapter_plan("b", [("place", ["a"], False)], ["delay"]),
        adapter_plan("c", [("place", ["a"], False)], ["load"]),
    ])  # fmt: skip
    common: list = []
    b, c = Split("delay", "delay", "place", diary=common), Split("load", "load", "place", diary=common)
    frames, _, _ = run(plan, {"a": Step("place", "x"), "b": b, "c": c}, tmp_path)
    kinds = [kind for kind, _, _ in common if kind in ("asked", "awaited")]
    assert kinds == ["asked", "asked", "awaited", "awaited"] * 5
    assert [name for name, _ in frames[-1][2]] == ["a", "b", "c"]


def test_an_adapter_elsewhere_that_reads_nothing_works_ahead_with_the_same_result(tmp_path):
    def plan_of(name):
        return make_plan(
            [adapter_plan("a", writes=["place"], period=2), adapter_plan("b", [("place", ["a"], False)], ["delay"])],
            ticks=5,
            events=[Event(1.2, "fail", (SlotRange(0),))],
        )

    ahead = Split("place", "x")
    plain = Step("place", "x")
    one, _, _ = run(plan_of("a"), {"a": ahead, "b": Step("delay", "delay", "place")}, tmp_path)
    two, _, _ = run(plan_of("a"), {"a": plain, "b": Step("delay", "delay", "place")}, tmp_path)
    assert all(
        a.same_as(b) for (_, _, x), (_, _, y) in zip(one, two, strict=True) for (_, a), (_, b) in zip(x, y, strict=True)
    )
    assert ahead.events == plain.events == [(2.0, "fail")]
    assert [time for kind, time, _ in ahead.diary if kind == "asked"] == [0.0, 1.0, 2.0]
