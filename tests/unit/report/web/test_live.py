"""A run that publishes, as the dashboard sees it: newest wins, history in bounds, commands with the token."""

from __future__ import annotations

import math
import time
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx2")

from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from cosim.contract.frame import Frame, SlotTable
from cosim.contract.signals import TASK_STATUS
from cosim.report.web import history
from cosim.report.web.app import VIEWERS, make_app
from cosim.report.web.history import ChartHistory
from cosim.report.web.live import LiveSource
from cosim.results.observed import Publishing
from cosim.talk.control import ControlSocket
from cosim.talk.publish import Publisher
from tests.unit.report.web.wire import unpack

LIMIT = 60.0


def column(role="value", unit="1", codes=()):
    return {"unit": unit, "meaning": "", "role": role, "codes": list(codes)}


SCENE = {
    "name": "toy", "title": "", "duration": 100.0, "step": 0.5, "seed": 1, "geo": None,
    "kinds": [{"name": "edge", "tier": "edge", "color": ""}, {"name": "car", "tier": "device", "color": ""}],
    "nodes": [{"id": "edge-1", "kind": "edge", "cores": 4, "at": [0.0, 0.0, 0.0]}],
    "fleets": [{"name": "cars", "first": 1, "count": 10, "kind": "car"}],
    "links": [], "workloads": [], "events": [],
    "adapters": [{"name": "sumo", "use": "sumo", "origin": "simulated", "writes": ["mobility", "link"]}],
    "signals": {
        "mobility": {"meaning": "", "rows": "node", "columns": {name: column() for name in ("x", "y", "z", "heading")}},
        "link": {"meaning": "", "rows": "node", "columns": {
            "cell": column("slot"), "uplink_rate": column(), "loss": column(), "handovers": column("counter")}},
        "peer_link": {"meaning": "", "rows": "event", "columns": {
            "peer": column("slot"), "rate": column(), "loss": column()}},
        "task": {"meaning": "", "rows": "event", "columns": {}},
    },
}  # fmt: skip


def cars(time, count):
    slot = np.arange(1, 1 + count, dtype=np.int32)
    ids = tuple(f"car-{i}" for i in range(count))
    table = SlotTable(1, ids, np.ones(count, np.int32), count)
    places = {name: np.full(count, time) for name in ("x", "y", "z", "heading")}
    link = {
        "cell": np.zeros(count, np.int32), "uplink_rate": np.full(count, 1e6), "loss": np.zeros(count),
        "handovers": np.ones(count, np.int32),
    }  # fmt: skip
    ahead = {"peer": slot[1:].copy(), "rate": np.full(len(slot[1:]), 2e6), "loss": np.full(len(slot[1:]), 0.5)}
    return [
        Frame("mobility", time, slot, places, table),
        Frame("link", time, slot, link),
        Frame("peer_link", time, slot[:-1].copy(), ahead),
    ]


def state(time):
    status = [0] * len(TASK_STATUS)
    status[0] = int(4 * time)
    return lambda: {
        "tasks": {"status": status, "late": 0, "response": 2.0 * time}, "lag": 0.25, "paused": False,
        "events": {"count": 1, "recent": [[1.0, "fail", "edge-1", ""]]}, "control": CONTROL[0],
    }  # fmt: skip


CONTROL = [""]


@pytest.fixture
def publisher():
    CONTROL[0] = ""
    with Publisher(scene=SCENE) as publisher:
        yield publisher


@pytest.fixture
def source(publisher):
    source = LiveSource(publisher.address)
    yield source
    source.close()


def publish(publisher, source, tick, count=3):
    """Publish once, to a source that listens, and wait until it has seen that."""
    shown(source, lambda: publisher.publish(tick, tick * 0.5, cars(tick * 0.5, count), state(tick * 0.5)))


def shown(source, send):
    """What the source shows after `send` has published; it says whether anybody listened."""
    serial, deadline = source.serial, time.monotonic() + LIMIT
    while not send():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while source.serial == serial:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return unpack(source.frame(None, -1))


def test_before_the_first_frame_the_page_waits(source):
    assert source.scene()["waiting"]
    assert source.scene()["address"] == source.address
    header, columns = unpack(source.frame(None, -1))
    assert (header["serial"], columns) == (0, {})
    assert source.events() == []
    assert source.control == ""


def test_the_newest_frame_scene_and_detail(publisher, source):
    publish(publisher, source, 4)
    scene = source.scene()
    assert (scene["name"], scene["waiting"], scene["members"]) == ("toy", False, [[1, 10, 1]])
    header, columns = unpack(source.frame(None, 2))
    assert columns["m.node"].tolist() == [1, 2, 3]
    assert columns["m.x"].tolist() == [2.0] * 3
    assert columns["l.cell"].tolist() == [0, 0, 0]
    assert (columns["p.node"].tolist(), columns["p.peer"].tolist()) == ([1, 2], [2, 3])
    assert (columns["p.rate"].tolist(), columns["p.loss"].tolist()) == ([2e6] * 2, [0.5] * 2)
    assert header["detail"]["name"] == "car-1"
    assert header["detail"]["signals"]["link"]["cell"] == "edge-1"
    assert header["events"] == 1
    assert source.events() == [[1.0, "fail", "edge-1", ""]]
    assert source.find("CAR-2") == [[3, "car-2"]]


def test_two_adapters_that_write_a_signal_do_not_hide_each_other(publisher, source):
    publishing = Publishing(publisher, state(1.0))
    ours, *others = cars(1.0, 3)
    none = Frame("mobility", 1.0, np.zeros(0, np.int32), {name: np.zeros(0) for name in ours.columns})
    theirs = Frame("mobility", 1.0, np.zeros(1, np.int32), {name: np.full(1, 7.0) for name in ours.columns})
    deadline = time.monotonic() + LIMIT
    while not source.serial:
        publishing.tick(2, 1.0, [("sumo", ours), ("live", none), ("replay", theirs), *(("sumo", f) for f in others)])
        assert time.monotonic() < deadline
        time.sleep(0.01)
    header, columns = unpack(source.frame(None, -1))
    assert sorted(columns["m.node"].tolist()) == [0, 1, 2, 3]
    assert "writers" not in header["state"]


def test_an_ended_run_keeps_its_last_places(publisher, source):
    publish(publisher, source, 4)
    ended = {**state(2.5)(), "ended": "complete"}
    header, columns = shown(source, lambda: publisher.publish(5, 2.5, [], lambda: ended))
    assert header["state"]["ended"] == "complete"
    assert len(columns["m.node"]) == 3


def test_seconds_in_which_the_emulation_is_in_doubt_are_told_at_once(publisher, source):
    names = ("doubtful", "doubtful_at", "lag", "late", "unread", "overflowed")

    def reported(tick, *row):
        columns = {name: np.array([value]) for name, value in zip(names, row, strict=True)}
        frame = Frame("emulation", tick * 0.5, np.array([0], np.int32), columns)
        header, _ = shown(source, lambda: publisher.publish(tick, tick * 0.5, [frame], state(tick * 0.5)))
        return header["state"].get("emulation")

    assert reported(1, 0, math.nan, 0.001, 0, 0, 0) is None
    assert reported(2, 1, 0.5, 0.3, 1, 0, 0)["at"] == [0.5]
    assert reported(3, 1, 0.5, 0.3, 1, 0, 0)["at"] == [0.5]
    found = reported(4, 3, 2.0, 0.3, 1, 12, 0)
    assert (found["at"], found["doubtful"], found["lag"], found["unread"]) == ([0.5, 2.0], 3, 0.3, 12)


def test_rates_come_from_totals_so_missed_ticks_lose_nothing(monkeypatch, publisher, source):
    monkeypatch.setattr("cosim.report.web.live._SAMPLE", 0.0)
    for tick in (2, 10, 11, 40):
        publish(publisher, source, tick)
    found = source.series(["task.completed", "task.response", "run.lag", "link.handovers", "nothing"], -1.0)["figures"]
    completed = found["task.completed"]
    assert completed["lines"]["all"][1:] == [4.0] * (len(completed["times"]) - 1)
    assert found["task.response"]["lines"]["mean"][1:] == pytest.approx([0.5] * (len(completed["times"]) - 1))
    assert set(found["run.lag"]["lines"]["run"]) == {0.25}
    assert found["link.handovers"]["lines"]["all"] == [3.0] * len(completed["times"])
    later = source.series(["run.lag"], completed["times"][-2])["figures"]["run.lag"]
    assert later["times"] == completed["times"][-1:]


def test_a_single_node_is_followed_until_another_one_has_its_slot(monkeypatch, publisher, source):
    monkeypatch.setattr("cosim.report.web.live._SAMPLE", 0.0)
    publish(publisher, source, 2)
    assert source.series(["mobility.x@2"], -1.0)["figures"]["mobility.x@2"]["lines"] == {}
    publish(publisher, source, 4)
    publish(publisher, source, 6)
    publish(publisher, source, 8, 1)  # the node at slot 2 has left
    found = source.series(["mobility.x@2"], 1.5)["figures"]["mobility.x@2"]
    assert (found["times"][0], found["times"][-1]) == (2.0, 4.0)
    values = found["lines"]["car-1"]
    assert (values[0], values[found["times"].index(3.0)]) == (2.0, 3.0)
    assert np.isnan(values[-1])
    for nonsense in ("mobility.x@", "mobility.x@-1", "mobility.x@99999999999", "mobility.nothing@1", "@1"):
        assert not source.series([nonsense], -1.0)["figures"].get(nonsense, {"lines": {}})["lines"]
    publish(publisher, source, 9)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=300))
def test_history_stays_in_bounds_and_in_step(gaps):
    history.POINTS, before = 16, history.POINTS
    try:
        kept, now = ChartHistory(SCENE), 0.0
        for gap in gaps:
            now += gap
            frames = {frame.signal: (frame,) for frame in cars(now, gap % 3)}
            kept.add(now, frames, state(now)(), 1.0)
            assert len(kept.times) <= 16
            assert all(len(line) == len(kept.times) for line in kept.lines.values())
        assert kept.times == sorted(set(kept.times))
        kept.add(now, {}, {}, 1.0)
        assert kept.times == sorted(set(kept.times))
    finally:
        history.POINTS = before


def test_a_browser_that_never_asks_holds_up_nobody(publisher, source):
    with (
        TestClient(make_app(source), base_url="http://localhost") as client,
        client.websocket_connect("ws://127.0.0.1:8008/api/frames"),
        client.websocket_connect("ws://127.0.0.1:8008/api/frames") as quick,
    ):
        seen = 0
        for tick in range(1, 8):
            publish(publisher, source, tick, 2000)
            quick.send_json({"after": seen})
            header, columns = unpack(quick.receive_bytes())
            assert header["serial"] > seen
            assert len(columns["m.node"]) == 2000
            seen = header["serial"]


def test_a_browser_gets_the_newest_frame_only(publisher, source):
    with (
        TestClient(make_app(source), base_url="http://localhost") as client,
        client.websocket_connect("ws://127.0.0.1:8008/api/frames") as socket,
    ):
        for tick in range(1, 6):
            publish(publisher, source, tick)
        socket.send_json({"after": 0})
        assert unpack(socket.receive_bytes())[0]["time"] == 2.5
        socket.send_json({"after": source.serial})  # nothing newer: the answer waits for the next frame
        publish(publisher, source, 9)
        assert unpack(socket.receive_bytes())[0]["time"] == 4.5


def test_only_so_many_browsers(publisher, source):
    from contextlib import ExitStack

    from starlette.websockets import WebSocketDisconnect

    with TestClient(make_app(source), base_url="http://localhost") as client, ExitStack() as stack:
        for _ in range(VIEWERS):
            stack.enter_context(client.websocket_connect("ws://127.0.0.1:8008/api/frames"))
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("ws://127.0.0.1:8008/api/frames"):
            pass


def test_commands_need_the_token(publisher, source):
    done = []

    def act(verb, arguments):
        done.append((verb, dict(arguments)))
        return {"paused": verb == "pause"}

    with ControlSocket(act, "s3cret", verbs=("state", "pause", "resume", "pace", "inject", "stop")) as socket:
        CONTROL[0] = socket.address
        publish(publisher, source, 1)
        with TestClient(make_app(source), base_url="http://localhost") as client:  # read-only
            assert client.get("/api/scene").json()["controllable"] is False
            refused = client.post("/api/control", json={"do": "pause"}, headers={"authorization": "Bearer s3cret"})
            assert refused.status_code == 403
        with TestClient(make_app(LiveSource(publisher.address), token="s3cret"), base_url="http://localhost") as client:
            deadline = time.monotonic() + LIMIT
            while client.get("/api/scene").json()["waiting"]:
                publisher.publish(2, 1.0, cars(1.0, 2), state(1.0))
                assert time.monotonic() < deadline
            for headers in ({}, {"authorization": "Bearer "}, {"authorization": "Bearer s3cre"}):
                assert client.post("/api/control", json={"do": "pause"}, headers=headers).status_code == 401
            assert done == []
            right = {"authorization": "Bearer s3cret"}
            assert client.post("/api/control", json={"do": "pause"}, headers=right).json()["paused"] is True
            event = {"do": "fail", "node": "edge-1"}
            assert client.post("/api/control", json={"do": "inject", "event": event}, headers=right).json()["ok"]
            assert done == [("pause", {}), ("inject", {"event": event})]
            for body in ("[]", "{}", "nonsense", '{"do": "explode"}', '{"do": "pause", "address": "tcp://x"}'):
                assert client.post("/api/control", content=body, headers=right).status_code == 400
            assert client.post("/api/control", content=" " * 9000, headers=right).status_code == 413


def test_streets_of_the_run_and_maps_of_ones_own_lie_under_a_live_map(tmp_path, caplog):
    field = tmp_path / "field.geojson"
    field.write_text('{"type": "LineString", "coordinates": [[22.95, 39.36], [22.95, 39.361]]}')
    scene = {**SCENE, "geo": [39.36, 22.95, 0.0]}
    with Publisher(scene=scene) as publisher, closing(LiveSource(publisher.address, [field])) as source:
        publishing = Publishing(publisher, state(0.0), lambda: {**scene, "lines": [[0.0, 0.0, 10.0, 0.0]]})
        deadline = time.monotonic() + LIMIT
        while source.scene()["waiting"]:
            publishing.tick(0, 0.0, [(frame.signal, frame) for frame in cars(0.0, 3)])
            assert time.monotonic() < deadline
            time.sleep(0.01)
        street, own = source.scene()["lines"]
    assert street == [0.0, 0.0, 10.0, 0.0]
    assert own == [0.0, 0.0, 0.0, pytest.approx(111.0, abs=0.1)]
    assert not caplog.records


def test_a_map_without_an_origin_is_told(publisher, tmp_path, caplog):
    field = tmp_path / "field.geojson"
    field.write_text('{"type": "LineString", "coordinates": [[22.95, 39.36], [22.95, 39.361]]}')
    with closing(LiveSource(publisher.address, [field])) as source:
        publish(publisher, source, 1)
        assert source.scene()["lines"] == []
    assert "has no 'geo" in caplog.text
