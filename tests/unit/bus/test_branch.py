"""Branches of a run: those of its own course, worked out by hand, and who may be copied."""

from __future__ import annotations

import numpy as np
import pytest

from cosim.bus import loop_driver
from cosim.bus.branch import SharedAdapter, adapter_states, branch
from cosim.bus.pacer import Pacer
from cosim.bus.runtime import Runtime
from cosim.contract.entities import Event, SlotRange
from cosim.contract.errors import AdapterError
from cosim.contract.frame import Frame
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from tests.unit.bus.chain import SIGNALS, Step, adapter_plan, make_plan


class Summing(Step):
    """Adds up what it reads, twice as fast once an event has come."""

    def start(self, context):
        super().start(context)
        self.sum, self.rate = np.zeros(5), 1.0

    def step(self, time, inputs):
        for event in inputs.events:
            self.rate = {"fail": 2.0, "recover": 1.0, "break": np.nan}[event.do]
        if np.isnan(self.rate):
            raise ValueError("broken")
        (frame,) = super().step(time, inputs)
        self.sum += self.rate * frame[self.column]
        return [Frame(frame.signal, time, frame.slot, {self.column: self.sum.copy()})]


class Last:
    """The last value of `load`, and how many ticks were seen."""

    def __init__(self):
        self.value, self.ticks = np.nan, 0

    def tick(self, tick, time, frames):
        self.ticks += 1
        self.value = next(frame["load"][0] for name, frame in frames if name == "b")

    def figures(self):
        return {"load": self.value, "ticks": float(self.ticks)}


def plan_of(events=(), ticks=20):
    parts = [adapter_plan("a", writes=["place"]), adapter_plan("b", [("place", ["a"], False)], ["load"])]
    return make_plan([*parts, adapter_plan("other", writes=["delay"])], ticks=ticks, events=events)


@pytest.fixture
def at(tmp_path):
    """A runtime of the chain before a tick; its source is shared."""
    opened = []

    def make(tick, events=()):
        adapters = {"a": SharedAdapter(Step("place", "x")), "b": Summing("load", "load", "place")}
        runtime = Runtime(plan_of(events), adapters, SIGNALS, scratch=tmp_path, only=("a", "b"))
        opened.append(runtime)
        runtime.start()
        for k in range(tick):
            runtime.tick(k)
        return runtime

    yield make
    for runtime in opened:
        runtime.close()


def alone(tmp_path, events, last):
    """The figure of an ordinary run."""
    watch = Last()
    adapters = {"a": Step("place", "x"), "b": Summing("load", "load", "place"), "other": Step("delay", "delay")}
    runtime = Runtime(plan_of(events, last), adapters, SIGNALS, scratch=tmp_path, observers=[watch])
    runtime.start()
    loop_driver.drive(runtime, Pacer(0.0, runtime.plan.lag))
    runtime.close()
    return watch.value


def event(at, do):
    return Event(at, do, (SlotRange(0),))


COURSES = [(), (event(4.0, "fail"),), (event(4.0, "fail"), event(5.5, "recover")), (event(6.3, "fail"),)]


def test_every_candidate_is_an_ordinary_run_with_its_events(at, tmp_path):
    runtime = at(8)
    found = branch(runtime, COURSES, 3.0, measure=Last, workers=2)
    assert found["load"].tolist() == [alone(tmp_path, events, 14) for events in COURSES]
    assert found["ticks"].tolist() == [7.0] * 4
    # by hand: the source gives t + 1, the sum of which is taken, plus 1 each; 15 ticks of 0.5 s
    assert found["load"][0] == sum(k / 2 + 2.0 for k in range(15))
    again = branch(runtime, COURSES, 5.0, measure=Last, workers=1)  # further than what the source was asked for
    assert again["load"].tolist() == [alone(tmp_path, events, 18) for events in COURSES]


def test_the_run_goes_on_as_if_it_had_not_been_branched(at, tmp_path):
    runtime = at(8, COURSES[2])
    branch(runtime, [COURSES[2]], 2.0, measure=Last)
    runtime.observers = [watch := Last()]
    for tick in range(8, 20):
        runtime.tick(tick)
    assert watch.value == alone(tmp_path, COURSES[2], 19)


def test_what_cannot_be_branched_is_refused(at):
    runtime = at(8)
    with pytest.raises(ValueError, match="other events before 4 s"):
        branch(runtime, [(event(3.0, "fail"),)], 1.0, measure=Last)
    with pytest.raises(ValueError, match="cannot branch over -1 s"):
        branch(runtime, [()], -1.0, measure=Last)
    with pytest.raises(AdapterError, match=r"adapter 'b' failed in step at 5 s.*broken"):
        branch(runtime, [(), (event(5.0, "break"),)], 2.0, measure=Last)


SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: city
run: {duration: 10 s, step: 1 s}
adapters:
  ADAPTERS
  continuum: {}
  telemetry: {}
nodes:
  phone: {kind: device, at: [0 m, 0 m, 0 m]}
  mast: {kind: edge, at: [50 m, 0 m, 0 m], cpu: 1 x 1 GHz, cell: {power: 33 dBm, carrier: 3.5 GHz, bandwidth: 20 MHz}}
workloads:
  ask: {from: phone, arrivals: poisson 1 Hz, work: 10 Mcycles}
"""


@pytest.mark.parametrize(
    ("block", "how", "why"),
    [
        ("radio: {}", "copied", ""),
        ("radio: {isolated: true}", "refused", "process of its own"),
        ("radio: {connect: 'tcp://127.0.0.1:5555'}", "refused", "elsewhere, at tcp://127.0.0.1:5555"),
    ],
)
def test_every_adapter_has_a_way(tmp_path, block, how, why):
    (tmp_path / "scenario.cosim.yaml").write_text(SCENARIO.replace("ADAPTERS", block))
    found = {way.adapter: way for way in adapter_states(compile_plan(load(tmp_path)), {"task"})}
    first = found.pop(block.partition(":")[0])
    assert (first.how, why in first.why) == (how, True)
    assert {name: way.how for name, way in found.items()} == {"continuum": "copied", "telemetry": "left out"}
