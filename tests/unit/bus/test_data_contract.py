"""A hostile adapter is named at the tick of its first breach, whenever that is; nobody else is blamed."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.bus import loop_driver
from cosim.bus.inspection import Inspection
from cosim.bus.pacer import Pacer
from cosim.bus.runtime import Runtime
from cosim.contract.entities import Fleet, Node, Scene
from cosim.contract.errors import AdapterError
from cosim.contract.frame import Frame, SlotTable, constant, fault, outside
from cosim.contract.signals import CATALOGUE, LARGEST, Column, Signal
from tests.unit.bus.chain import adapter_plan, make_plan

NODES, CARS, TICKS = 4, 6, 8
EXTRA = Signal("extra", "", (
    Column("count", "int64", "1", "", low=0.0, high=9.0), Column("small", "float32", "1", "", low=0.0, high=1.0),
    Column("sum", "float64", "B", "", "counter"),
))  # fmt: skip
SIGNALS = {**CATALOGUE, "extra": EXTRA}
WRITES = ("mobility", "link", "task", "extra")


def honest(tick, time):
    """What a good owner of the cars publishes; one of them is replaced at tick 4."""
    slot = np.arange(NODES, NODES + 3, dtype=np.int32)
    ids, generation = ("a", "b", "c" if tick < 4 else "d"), np.array([0, 0, tick >= 4], np.int32)
    places = {c: np.full(3, 1.0) for c in ("x", "y", "z", "speed", "heading")}
    links = {column.name: np.full(3, 0.5).astype(column.dtype) for column in CATALOGUE["link"].columns}
    task = {column.name: np.zeros(2, column.dtype) for column in CATALOGUE["task"].columns}
    extra = {"count": np.array([1, 2, 3]), "small": np.ones(3, np.float32), "sum": np.full(3, float(tick))}
    return [
        Frame("mobility", time, slot, places, SlotTable(NODES, ids, generation, 1 + (tick >= 4))),
        Frame("link", time, slot.copy(), links),
        Frame("task", time, np.array([4, 4], np.int32), task),
        Frame("extra", time, slot.copy(), extra),
    ]


def put(signal, column, value, row=-1):
    def spoil(frames):
        next(f for f in frames if f.signal == signal)[column][row] = value

    return spoil


def slots(signal, *values):
    def spoil(frames):
        next(f for f in frames if f.signal == signal).slot[: len(values)] = values

    return spoil


def shaped(change):
    def spoil(frames):
        change(frames[1])

    return spoil


def columns(**changes):
    def spoil(frames):
        frames[1].columns = {**frames[1].columns, **changes}

    return spoil


def table(**changes):
    def spoil(frames):
        frames[0].table = replace(frames[0].table, **changes)

    return spoil


def timed(time, index=1):
    def spoil(frames):
        frames[index].time = time(frames[index].time)

    return spoil


def longer(frame):
    frame.slot = np.zeros(200_000, np.int32)


def less(frames):
    frames[1].columns = {k: v for k, v in frames[1].columns.items() if k != "loss"}


def renamed(frames):
    frames[1].columns = {("lost" if k == "loss" else k): v for k, v in frames[1].columns.items()}


HOSTILE = {
    "slot below": slots("link", -3), "slot above": slots("link", NODES + CARS), "slot huge": slots("extra", 10**8),
    "slot twice": slots("link", 5, 5), "slot twice, unordered": slots("link", 6, 5, 6),
    "slots of an event": slots("task", -1), "200,000 rows": shaped(longer),
    "slot of int64": shaped(lambda f: setattr(f, "slot", f.slot.astype(np.int64))),
    "slot a list": shaped(lambda f: setattr(f, "slot", [4, 5, 6])),
    "slot with holes": shaped(lambda f: setattr(f, "slot", np.array([4, 0, 5, 0, 6, 0], np.int32)[::2])),
    "slot of two dimensions": shaped(lambda f: setattr(f, "slot", f.slot.reshape(1, -1))),
    "NaN rate": put("link", "uplink_rate", np.nan), "NaN in the first row": put("link", "loss", np.nan, 0),
    "infinite delay": put("link", "delay", np.inf), "minus infinity": put("mobility", "x", -np.inf),
    "loss of 500 %": put("link", "loss", 5.0), "negative loss": put("link", "loss", -1e-9),
    "negative rate": put("link", "downlink_rate", -1.0), "negative delay": put("link", "delay", -0.1),
    "cell out of the scene": put("link", "cell", NODES + CARS), "cell -2": put("link", "cell", -2),
    "counter below 0": put("link", "handovers", -1), "unknown status": put("task", "status", 99),
    "status below 0": put("task", "status", -1), "unknown workload": put("task", "workload", 7),
    "host out of the scene": put("task", "host", 4_000), "NaN creation": put("task", "created", np.nan),
    "count above": put("extra", "count", 10), "single above": put("extra", "small", 1.5),
    "single NaN": put("extra", "small", np.nan), "NaN sum": put("extra", "sum", np.nan),
    "column left out": less, "column renamed": renamed, "column too many": columns(more=np.zeros(3)),
    "column too short": columns(loss=np.zeros(2)), "column too long": columns(loss=np.zeros(4)),
    "column of float32": columns(loss=np.zeros(3, np.float32)), "column a list": columns(loss=[0.0, 0.0, 0.0]),
    "column with holes": columns(loss=np.zeros(6)[::2]), "columns None": shaped(lambda f: setattr(f, "columns", None)),
    "time early": timed(lambda t: t - 0.5), "time late": timed(lambda t: t + 0.5), "time NaN": timed(lambda t: np.nan),
    "time a text": timed(str), "time None": timed(lambda t: None),
    "no table": shaped(lambda f: None), "table of others": table(first=0), "table too long": table(
        ids=tuple("abcdefg"), generation=np.zeros(7, np.int32)),
    "table without the id": table(ids=("a", "", "c")), "two of one id": table(ids=("a", "a", "c")),
    "generations of float": table(generation=np.zeros(3)),
    "generations too few": table(generation=np.zeros(2, np.int32)),
    "time an array": timed(lambda t: np.array([t])), "column masked": columns(loss=np.ma.masked_array(np.zeros(3))),
    "signal None": shaped(lambda f: setattr(f, "signal", None)),
    "no such signal": shaped(lambda f: setattr(f, "signal", "nonsense")),
    "signal unhashable": shaped(lambda f: setattr(f, "signal", [])),
}  # fmt: skip


def without_table(frames):
    frames[0].table = None


HOSTILE["no table"] = without_table


class Hostile:
    """Publishes what `honest` says, spoilt at one tick."""

    def __init__(self, spoil, when):
        self.spoil, self.when, self.tick = spoil, when, -1

    def start(self, context):
        pass

    def step(self, time, inputs):
        self.tick += 1
        frames = honest(self.tick, time)
        if self.tick == self.when:
            self.spoil(frames)
        return frames

    def finish(self):
        return {}

    def close(self):
        pass


class Reader(Hostile):
    """Uses the slots as they are, as compiled models do."""

    def step(self, time, inputs):
        seen = np.zeros(NODES + CARS)
        for signal in WRITES:
            for frame in inputs.all(signal):
                seen[frame.slot] += 1.0
        return []


def run(tmp_path, adapter, *, counting=False, writes=WRITES, reader=None):
    fleet = Fleet("car", "bad", 0, CARS, Node("car", "car", "device"))
    scene = Scene.build(tuple(Node(f"n{i}", "edge", "edge") for i in range(NODES)), (fleet,))
    plan = make_plan(
        [adapter_plan("bad", writes=writes), adapter_plan("reader", [(w, ["bad"], False) for w in writes])],
        ticks=TICKS,
    )
    if reader is not None:  # one from outside this package
        plan = replace(plan, adapters=(plan.adapters[0], replace(plan.adapters[1], use="elsewhere.reader:ADAPTER")))
    workload = type("W", (), {"name": "w"})
    plan = replace(plan, scene=replace(scene, workloads=(workload,)))
    runtime = Runtime(
        plan, {"bad": adapter, "reader": reader or Reader(None, 0)}, SIGNALS, scratch=tmp_path, counting=counting
    )
    try:
        runtime.start()
        loop_driver.drive(runtime, Pacer(0.0, plan.lag))
        runtime.finish()
    finally:
        runtime.close()
    return runtime


def test_an_honest_adapter_runs_to_the_end(tmp_path):
    runtime = run(tmp_path, Hostile(None, -1))
    record = runtime.account()[0]["contract"]
    assert runtime.ticks_done == TICKS + 1
    assert record == {"frames": 4 * (TICKS + 1), "rows": 11 * (TICKS + 1), "faults": {}}


@pytest.mark.parametrize("when", [0, TICKS // 2, TICKS])
@pytest.mark.parametrize("mode", HOSTILE)
def test_a_hostile_adapter_is_named_at_once(tmp_path, mode, when):
    with pytest.raises(AdapterError) as caught:
        run(tmp_path, Hostile(HOSTILE[mode], when))
    assert caught.value.adapter == "bad"
    assert caught.value.time == pytest.approx(when * 0.5)


class Mute(BaseException):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), Mute(), ValueError("\udcff\x1b[31m")])
def test_whatever_is_raised_has_a_culprit(tmp_path, error):
    def spoil(_):
        raise error

    with pytest.raises(AdapterError, match=type(error).__name__) as caught:
        run(tmp_path, Hostile(spoil, 2))
    assert (caught.value.adapter, caught.value.phase) == ("bad", "step")
    assert str(caught.value).encode().isascii()


def test_a_foreign_adapter_cannot_write_into_what_it_reads(tmp_path):
    class Vandal(Hostile):
        def step(self, time, inputs):
            inputs.one("mobility")["x"][0] = 1e6
            return []

    with pytest.raises(AdapterError, match="read-only") as caught:
        run(tmp_path, Hostile(None, -1), reader=Vandal(None, -1))
    assert caught.value.adapter == "reader"
    assert run(tmp_path, Hostile(None, -1), reader=Reader(None, 0)).ticks_done == TICKS + 1


@pytest.mark.parametrize("trick", ["flags", "base"])
def test_nor_by_making_it_writable_again(tmp_path, trick):
    class Vandal(Hostile):
        def step(self, time, inputs):
            x = inputs.one("mobility")["x"]
            if trick == "flags":
                x.flags.writeable = True
            else:
                x = x.base
            x[0] = 1e6
            return []

    with pytest.raises(AdapterError, match=r"WRITEABLE|read-only") as caught:
        run(tmp_path, Hostile(None, -1), reader=Vandal(None, -1))
    assert caught.value.adapter == "reader"


@pytest.mark.parametrize("said", [{"a\udcff": 1}, {"a": "\udcff"}, {"a": 10**5000}])
def test_a_summary_that_no_file_can_hold_is_named(tmp_path, said):
    class Odd(Hostile):
        def finish(self):
            return said

    with pytest.raises(AdapterError, match="summary"):
        run(tmp_path, Odd(None, -1))


def test_an_answer_without_end_is_named(tmp_path):
    class Endless(list):
        def __iter__(self):
            while True:
                yield self[0]

    class Odd(Hostile):
        def step(self, time, inputs):
            return Endless(super().step(time, inputs))

    with pytest.raises(AdapterError, match="each of its signals once"):
        run(tmp_path, Odd(None, -1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ids": ("a", "x", "c")}, "changed while its epoch has not"),
        ({"ids": ("a", "x", "c"), "epoch": 9}, "without a new generation"),
        ({"generation": np.array([0, -1, 0], np.int32), "epoch": 9}, "generation that shrinks"),
        ({"ids": ("a",), "generation": np.zeros(1, np.int32), "epoch": 9}, "become shorter"),
    ],
)
@pytest.mark.parametrize("when", [1, TICKS])
def test_a_fleet_keeps_its_generations(tmp_path, change, words, when):
    with pytest.raises(AdapterError, match=words) as caught:
        run(tmp_path, Hostile(lambda frames: table(**change)(frames), when))
    assert caught.value.adapter == "bad"


def test_a_generation_written_over_in_place_is_noticed(tmp_path):
    shared = np.zeros(3, np.int32)

    class Sly(Hostile):
        def step(self, time, inputs):
            frames = super().step(time, inputs)
            shared[0] += self.tick == 3
            frames[0].table = SlotTable(NODES, ("a", "b", "c"), shared, 1)
            return frames

    with pytest.raises(AdapterError, match="epoch has not"):
        run(tmp_path, Sly(None, -1))


def test_faults_of_values_can_be_counted_instead(tmp_path):
    runtime = run(tmp_path, Hostile(put("link", "loss", 5.0), 3), counting=True)
    assert runtime.account()[0]["contract"]["faults"] == {"link.loss": 1}
    with pytest.raises(AdapterError, match="slots are"):
        run(tmp_path, Hostile(put("link", "cell", 99), 3), counting=True)


def looked_at(signal, slot, columns, capacity):
    """Whether a new inspection finds nothing wrong, the second time either; both ways of looking must agree."""
    plan = adapter_plan("one", writes=(signal.name,))
    scene = Scene(nodes=(), capacity=capacity)
    frame = Frame(signal.name, 0.0, slot, columns)
    inspection, plain = Inspection(plan, {signal.name: signal}, scene), Inspection(plan, {signal.name: signal}, scene)
    plain._compiled = False
    found = inspection.look(frame, 0.0)
    assert found == inspection.look(frame, 0.0) == plain.look(frame, 0.0)
    return found == ""


FLOATS = st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=40)
ENDS = st.sampled_from([-LARGEST, -3.0, 0.0, 0.5, 4.0, LARGEST, np.inf])


@settings(deadline=None, max_examples=120)
@given(FLOATS, ENDS, ENDS, st.booleans(), st.sampled_from(["float64", "float32"]))
def test_the_compiled_bounds_are_those_of_plain_python(values, a, b, optional, dtype):
    low, high = min(a, b), max(a, b)
    column = Column("c", dtype, "", "", low=low, high=high, optional=optional)
    expected = [low <= v <= high or (optional and v != v) for v in values]
    array, slot = np.array(values, dtype), np.arange(len(values), dtype=np.int32)
    assert outside(array, column, 1, 1)[0] == expected.count(False)
    assert looked_at(Signal("s", "", (column,)), slot, {"c": array}, 40) == all(expected)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(-5, 30), max_size=40), st.integers(-5, 5), st.integers(5, 30),
    st.sampled_from(["int8", "int16", "int32", "int64", "uint8"]),
)  # fmt: skip
def test_the_compiled_bounds_of_whole_numbers(values, low, high, dtype):
    values = [max(v, 0) for v in values] if dtype == "uint8" else values
    column = Column("c", dtype, "", "", low=low, high=high)
    array, slot = np.array(values, dtype), np.arange(len(values), dtype=np.int32)
    found = looked_at(Signal("s", "", (column,)), slot, {"c": array}, 40)
    assert found == all(low <= v <= high for v in values)


@settings(deadline=None, max_examples=80)
@given(st.lists(st.integers(-1, 21), max_size=20), st.sampled_from(["node", "event"]))
def test_the_compiled_look_at_slots_is_that_of_sets(values, rows):
    good = all(0 <= v < 20 for v in values) and (rows == "event" or len(set(values)) == len(values))
    assert looked_at(Signal("s", "", (), rows=rows), np.array(values, np.int32), {}, 20) == good


@pytest.mark.parametrize("row", [0, 4095, 4096, 8191, 8192, 9999])
@pytest.mark.parametrize("column", ["slot", *"fbihlcs"])
def test_no_row_of_a_long_frame_is_left_out(column, row):
    n = 10_000
    signal = Signal("s", "", (
        Column("f", "float64", "", ""), Column("b", "float64", "", "", low=0.0, high=1.0),
        Column("i", "int8", "", "", low=0.0, high=3.0), Column("h", "int16", "", "", low=0.0, high=3.0),
        Column("l", "int64", "", "", low=0.0, high=3.0), Column("c", "int32", "", "", role="slot"),
        Column("s", "float32", "", "", low=0.0, high=1.0, optional=True),
    ))  # fmt: skip
    slot = np.arange(n, dtype=np.int32)
    columns = {c.name: np.zeros(n, c.dtype) for c in signal.columns}
    assert looked_at(signal, slot, columns, n)
    if column == "slot":
        slot[row] = slot[row - 5]
    elif column == "f":
        columns[column][row] = np.nan
    else:
        columns[column][row] = -2
    assert not looked_at(signal, slot, columns, n)


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # which numpy 2.5 begins to give
def test_what_cannot_change_is_read_once_and_what_can_is_read_every_time():
    signal = Signal("s", "", (Column("v", "float64", "", ""),))
    slot = np.arange(3, dtype=np.int32)
    inspection = Inspection(adapter_plan("one", writes=("s",)), {"s": signal}, Scene(nodes=(), capacity=3))
    fixed, loose = constant(np.ones(3)), np.ones(3)
    shown = loose[:]
    shown.flags.writeable = False  # its owner still writes
    assert not fixed.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        fixed.flags.writeable = True
    for values in (fixed, fixed, shown, shown, loose, fixed):
        assert inspection.look(Frame("s", 0.0, slot, {"v": values}), 0.0) == ""
    loose[1] = np.nan
    for values in (fixed, shown, loose):
        wrong = inspection.look(Frame("s", 0.0, slot, {"v": values}), 0.0)
        assert bool(wrong) == (values is not fixed)
    bad = constant(np.array([1.0, np.inf, 1.0]))
    for values in (bad, bad, fixed, bad):
        assert bool(inspection.look(Frame("s", 0.0, slot, {"v": values}), 0.0)) == (values is bad)
    fixed.shape = (1, 3)
    assert "values for 3 rows" in inspection.look(Frame("s", 0.0, slot, {"v": fixed}), 0.0)


def test_read_only_frames_of_other_processes_are_looked_at_as_well():
    frame = honest(0, 0.0)[1]
    for array in (frame.slot, *frame.columns.values()):
        array.flags.writeable = False
    assert fault(frame, SIGNALS["link"], NODES + CARS) == ""


@pytest.mark.parametrize("rows", [1, 2, 3, 31, 64, 4095, 4096, 4097, 12_290])
def test_a_value_that_is_not_finite_is_found_in_every_place(rows):
    signal = Signal("s", "", (Column("v", "float64", "", ""),))
    slot = np.arange(rows, dtype=np.int32)
    inspection = Inspection(adapter_plan("one", writes=("s",)), {"s": signal}, Scene(nodes=(), capacity=rows))
    values = np.resize([1.0, -0.0, LARGEST, -LARGEST, 5e-324, -3.5], rows)
    frame = Frame("s", 0.0, slot, {"v": values})
    assert inspection.look(frame, 0.0) == ""
    for k in {*range(min(rows, 70)), *range(max(0, rows - 70), rows), *range(0, rows, 97)}:
        kept = values[k]
        for bad in (np.nan, np.inf, -np.inf):
            values[k] = bad
            assert inspection.look(frame, 0.0) != "", (k, bad)
        values[k] = kept
    assert inspection.look(frame, 0.0) == ""
