"""Steering a run: what commands do, and who may give them."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import msgpack
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from cosim.bus import loop_driver, mosaik_driver
from cosim.bus.pacer import Pacer
from cosim.bus.runtime import Runtime
from cosim.bus.steering import VERBS, Steering, event_kinds, read_event
from cosim.contract.entities import Fleet, Node, Scene, SlotRange
from cosim.contract.errors import ScenarioError, SetupError
from cosim.contract.jammer import Jammer, JammerOn
from cosim.talk.control import ControlError, ControlSocket, command, same_token
from tests.unit.bus.chain import SIGNALS, Step, adapter_plan, make_plan

LIMIT = 60.0
DRIVERS = pytest.mark.parametrize("driver", [loop_driver, mosaik_driver], ids=["loop", "mosaik"])
NODE = Node("n-0", "edge", "edge")
SCENE = Scene.build((NODE, Node("n-1", "edge", "edge")), (Fleet("cars", "sumo", 0, 5, Node("cars", "car", "device")),))


def until(condition):
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Run:
    """A run of two small adapters in a thread, under control."""

    def __init__(self, tmp_path, driver, pacing=0.0):
        self.first, self.second = Step("place", "x"), Step("delay", "delay", "place")
        plan = make_plan([
            adapter_plan("a", writes=["place"]), adapter_plan("b", [("place", ["a"], False)], ["delay"], period=2),
        ], ticks=2000)  # fmt: skip
        self.notes, self.due = [], []
        adapters = {"a": self.first, "b": self.second}
        self.runtime = Runtime(plan, adapters, SIGNALS, scratch=tmp_path)
        self.runtime.on_event = self.due.append
        self.pacer = Pacer(pacing, plan.lag, stopping=lambda: bool(self.runtime.stopping), controlled=True)
        self.steering = Steering(self.runtime, self.pacer, lambda *note: self.notes.append(note))
        self.pacer.pause()
        self._thread = threading.Thread(target=self._run, args=(driver,))

    def _run(self, driver):
        self.runtime.start()
        driver.drive(self.runtime, self.pacer)
        self.runtime.close()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.runtime.stop("the test is over")
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()


@DRIVERS
def test_a_paused_run_stands_still_and_goes_on(tmp_path, driver):
    with Run(tmp_path, driver) as run:
        time.sleep(0.1)
        assert run.runtime.ticks_done == 0
        assert run.steering.act("state", {})["paused"]
        assert not run.steering.act("resume", {})["paused"]
        until(lambda: run.runtime.ticks_done == 2001)
    assert [note[1] for note in run.notes] == ["resume"]
    assert not run.steering.interactive


@DRIVERS
@pytest.mark.parametrize(
    "asked",
    [("fail", {"node": "node-0", "for": "5 s"}), ("inject", {"event": {"do": "fail", "node": "node-0", "for": "5 s"}})],
)
def test_an_injected_event_reaches_every_adapter_once_and_is_undone(tmp_path, driver, asked):
    with Run(tmp_path, driver) as run:
        state = run.steering.act(*asked)
        assert state["interactive"]
        assert state["event"] == {"do": "fail", "nodes": ["node-0"], "link": []}
        run.steering.act("resume", {})
        until(lambda: run.runtime.ticks_done == 2001)
    assert run.first.events == run.second.events == [(0.0, "fail"), (5.0, "recover")]
    assert [(event.at, event.do) for event in run.due] == [(0.0, "fail"), (5.0, "recover")]


@DRIVERS
def test_a_pace_and_a_stop(tmp_path, driver):
    with Run(tmp_path, driver, pacing=1.0) as run:
        run.steering.act("resume", {})
        until(lambda: run.runtime.ticks_done >= 1)
        assert run.steering.act("pace", {"factor": 0})["factor"] == 0.0
        until(lambda: run.runtime.ticks_done >= 50)
        run.steering.act("stop", {})
        run._thread.join(LIMIT)
        assert run.runtime.stopping == "a command"
    with pytest.raises(ValueError, match="a pace is a number"):
        run.steering.act("pace", {"factor": "fast"})


PLAN = replace(make_plan([adapter_plan("radio"), adapter_plan("given")]), scene=SCENE)
KINDS = event_kinds(PLAN)


def test_events_in_the_words_of_a_scenario():
    event, undo = read_event({"do": "fail", "node": "cars", "for": "2 min"}, PLAN, KINDS)
    assert (event.do, event.nodes, undo) == ("fail", (SlotRange(2, 5),), replace(event, at=120.0, do="recover"))
    (event,) = read_event({"do": "degrade", "link": "n-*/cars", "delay": "20 ms", "loss": "5 %"}, PLAN, KINDS)
    assert event.link == ((SlotRange(0), SlotRange(1)), (SlotRange(2, 5),))
    assert (event.at, event.delay, event.loss, event.rate) == (0.0, 0.02, 0.05, 1.0)
    (event,) = read_event({"do": "fail", "node": ["n-[1..3]", "cars"]}, PLAN, KINDS)
    assert event.nodes == (SlotRange(1), SlotRange(2, 5))
    for selector in (f"kind:{SCENE.nodes[0].kind}", f"tier:{SCENE.nodes[0].tier}"):
        (event,) = read_event({"do": "fail", "node": selector}, PLAN, KINDS)
        assert event.nodes[:2] == (SlotRange(0), SlotRange(1))


def test_events_that_adapters_bring_are_commands_too():
    jammed = replace(NODE, id="j", keys=(Jammer(carrier="5.18 GHz").written(),))
    plan = replace(PLAN, scene=Scene.build((NODE, jammed)))
    on, off = read_event({"do": "jammer-on", "node": "j", "power": "20 dBm", "for": "5 s"}, plan, KINDS)
    assert (on.do, off.do, off.at, on.nodes) == ("jammer-on", "jammer-off", 5.0, (SlotRange(1),))
    assert JammerOn.of(on).power == 20.0
    for text, words in [
        ({"node": "n-0"}, "needs a node with 'jammer'"), ({}, "needs 'node'"),
        ({"node": "j", "power": "20 W/m"}, "power"), ({"node": "j", "powr": "20 dBm"}, "did you mean 'power'"),
    ]:  # fmt: skip
        with pytest.raises(ScenarioError, match=words):
            read_event({"do": "jammer-on", **text}, plan, KINDS)


def test_a_run_declares_its_commands_and_takes_what_it_declares(tmp_path):
    with Run(tmp_path, loop_driver) as run:
        found = run.steering.act("commands", {})["commands"]
        assert tuple(found) == run.steering.verbs
    events = {do for do, one in found.items() if "event" in one}
    assert events == {"fail", "recover", "degrade", "restore"}  # its adapters bring none
    needed = {do: [key for key, one in found[do]["keys"].items() if one["needed"]] for do in events}
    assert needed == {"fail": ["node"], "recover": ["node"], "degrade": ["link"], "restore": ["link"]}
    assert set(found["degrade"]["keys"]) == {"link", "for", "delay", "loss", "rate"}
    values = {"node": "n-0", "link": "n-0/n-1", "for": "5 s", "delay": "1 s", "loss": "1 %", "rate": "50 %"}
    for do in events:  # whatever is declared is accepted, together and without any key that is not needed
        whole = {key: values[key] for key in found[do]["keys"]}
        assert read_event({"do": do, **whole}, PLAN, KINDS)[0].do == do
        for key in whole.keys() - {"delay", "loss"}:
            part = {name: value for name, value in whole.items() if name != key}
            if key in needed[do]:
                with pytest.raises(ScenarioError):
                    read_event({"do": do, **part}, PLAN, KINDS)
            else:
                read_event({"do": do, **part}, PLAN, KINDS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fail", "an event is a mapping"),
        ({"do": "explode"}, "unknown event"),
        ({"do": ["fail"]}, "unknown event"),
        ({"do": "fail"}, "needs 'node'"),
        ({"do": "fail", "node": "nowhere"}, "nothing is called 'nowhere'"),
        ({"do": "fail", "node": "n-0", "for": 5}, "unit"),
        ({"do": "fail", "node": "n-0", "when": "now"}, "unknown key"),
        ({"do": "fail", "node": "n-0", "at": "5 s"}, "at the next step"),
        ({"do": "recover", "node": "n-0", "for": "5 s"}, "has no end"),
        ({"do": "degrade", "link": "n-0/cars"}, "degrades nothing"),
        ({"do": "degrade", "link": "n-0", "loss": "5 %"}, "needs 'link: a/b'"),
        ({"do": "degrade", "link": "n-0/cars", "loss": "500 %"}, "loss"),
        ({"do": "degrade", "link": "n-0/cars", "delay": "-5 s"}, "delay"),
    ],
)
def test_wrong_events_are_refused_with_a_reason(text, words):
    with pytest.raises(ScenarioError, match=words):
        read_event(text, PLAN, KINDS)


@pytest.fixture
def socket():
    def act(verb, arguments):
        if verb == "pace":
            raise ValueError("too fast")
        if verb == "stop":
            raise KeyError("surprise")
        return {"verb": verb, "arguments": dict(arguments)}

    with ControlSocket(act, "s3cret", verbs=VERBS) as socket:
        yield socket


def test_commands_with_the_token_are_carried_out(socket):
    assert socket.address.startswith("tcp://127.0.0.1:")
    answer = command(socket.address, "s3cret", "inject", event={"do": "fail"})
    assert answer["arguments"] == {"event": {"do": "fail"}}


@pytest.mark.parametrize("token", ["", "s3cre", "s3cret ", "S3CRET", "\u00e9"])
def test_commands_without_the_token_are_refused(socket, token):
    with pytest.raises(ControlError, match="the token is wrong"):
        command(socket.address, token, "state")


def test_refusals_say_why_and_the_run_goes_on(socket):
    for verb, words in [("pace", "too fast"), ("jump", "there is no command"), ("stop", "surprise")]:
        with pytest.raises(ControlError, match=words):
            command(socket.address, "s3cret", verb)
    assert command(socket.address, "s3cret", "state")["verb"] == "state"


@given(st.one_of(st.binary(max_size=60), st.recursive(
    st.one_of(st.none(), st.integers(-5, 2**40), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
).map(msgpack.packb)))  # fmt: skip
def test_whatever_comes_without_the_token_changes_nothing(data):
    done = []
    socket = object.__new__(ControlSocket)
    socket._act, socket._token, socket._verbs = lambda verb, arguments: done.append(verb) or {}, "s3cret", VERBS
    assert socket._answer(data)["ok"] is False
    assert done == []


def test_a_request_that_is_too_long_is_dropped_and_others_are_served(socket):
    with zmq.Context.instance().socket(zmq.REQ) as flood:
        flood.setsockopt(zmq.LINGER, 0)
        flood.connect(socket.address)
        flood.send(bytes(100_000))
        assert command(socket.address, "s3cret", "state")["verb"] == "state"
        assert not flood.poll(100)


def test_nobody_there(socket):
    address = socket.address
    socket.close()
    with pytest.raises(ControlError, match="does not answer"):
        command(address, "s3cret", "state", timeout=0.1)
    with pytest.raises(ControlError, match="cannot connect to"):
        command("nowhere", "s3cret", "state")
    with pytest.raises(SetupError, match="needs a token"):
        ControlSocket(lambda verb, arguments: {}, "", verbs=VERBS)


def test_an_empty_token_is_never_right():
    assert not same_token("", "")
    assert not same_token(None, "x")
    assert same_token("x", "x")
