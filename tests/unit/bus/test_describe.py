"""The scene that travels with a publication, and the totals that let observers miss ticks."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.bus.describe import describe
from cosim.bus.tally import Tally
from cosim.contract.errors import ProtocolError
from cosim.contract.frame import Frame
from cosim.contract.signals import TASK_STATUS
from cosim.scenario.load import load
from cosim.scenario.plan.catalogue import signals_of
from cosim.scenario.plan.compile import compile_plan
from cosim.talk.publish import Publisher, Subscriber, pack_scene, unpack_scene
from tests.unit.talk.test_publish import LIMIT, frame, wait_for_observer

ROOT = Path(__file__).resolve().parents[3]


def test_a_scene_says_what_a_viewer_needs():
    plan = compile_plan(load(ROOT / "tests/scenarios/hello"))
    scene = describe(plan, signals_of(plan))
    assert [node["id"] for node in scene["nodes"]] == ["north", "south", "cloud"]
    assert scene["nodes"][0]["at"] == [-150.0, 320.0, 0.0]
    assert scene["nodes"][2]["at"] is None
    assert scene["fleets"][0]["first"] == 3
    assert scene["geo"] == [39.36, 22.95, 60.0]
    assert scene["links"][0] == [[[0, 1], [1, 1]], [[2, 1]], 100e6, 0.02, 0.0]
    assert scene["signals"]["link"]["columns"]["snr"]["unit"] == "dB"
    assert scene["events"] == [[60.0, "fail"], [75.0, "recover"]]
    assert unpack_scene(pack_scene(scene)) == json.loads(json.dumps(scene))


def test_a_late_observer_gets_scene_and_state():
    scene = {"name": "hello", "nodes": [{"id": "n\u00f8rth"}]}
    asked = []

    def state():
        asked.append(1)
        return {"paused": True, "events": {"count": 1, "recent": [[1.0, "fail", "north", ""]]}}

    with Publisher(scene=scene) as publisher:
        publisher.publish(0, 0.0, [frame(0)], state)
        assert asked == []  # nobody looks
        with Subscriber(publisher.address) as subscriber:
            wait_for_observer(publisher, subscriber)
            publisher.publish(1, 0.5, [frame(1)], state)
            first = subscriber.latest(LIMIT)
            publisher.publish(2, 1.0, [frame(2)])
            second = subscriber.latest(LIMIT)
    assert first.scene == scene
    assert second.scene is first.scene
    assert first.run == second.run != b""
    assert first.state["paused"] is True
    assert second.state == {}


@given(st.binary(max_size=40))
def test_a_damaged_scene_raises_a_wire_error_only(data):
    with contextlib.suppress(ProtocolError):
        assert isinstance(unpack_scene(data), dict)


def test_a_scene_that_inflates_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("cosim.talk.publish.MAX_SCENE", 1000)
    with pytest.raises(ProtocolError, match="cannot be read"):
        unpack_scene(pack_scene({"x": "a" * 100_000}))


@given(st.lists(st.lists(st.tuples(st.integers(0, len(TASK_STATUS) - 1), st.booleans()), max_size=5), max_size=5))
def test_totals_count_every_task_once(ticks):
    tally = Tally()
    for tick, tasks in enumerate(ticks):
        columns = {
            "status": np.array([status for status, _ in tasks], np.int8),
            "created": np.zeros(len(tasks)),
            "ended": np.full(len(tasks), 0.25),
            "late": np.array([late and status == 0 for status, late in tasks], bool),
        }
        ended = Frame("task", float(tick), np.zeros(len(tasks), np.int32), columns)
        tally.tick(tick, float(tick), [("continuum", ended)])
    rows = [task for tasks in ticks for task in tasks]
    found = tally.read()
    assert sum(found["status"]) == len(rows)
    assert found["status"][0] == sum(status == 0 for status, _ in rows)
    assert found["response"] == pytest.approx(0.25 * found["status"][0])
    assert found["late"] == sum(late and status == 0 for status, late in rows)
