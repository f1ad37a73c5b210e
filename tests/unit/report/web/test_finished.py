"""Any moment of a finished run, against what its tables say."""

from __future__ import annotations

import contextlib
import math
import shutil
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx2")

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from cosim import load
from cosim.contract.errors import SetupError
from cosim.report.web.app import make_app
from cosim.report.web.finished import FinishedRun
from cosim.results.folder import RunFolder
from cosim.results.session import run_plan
from cosim.scenario.load import load as load_scenario
from cosim.scenario.plan.compile import compile_plan
from tests.examples import WITH_FIXTURES
from tests.unit.report.web.wire import unpack

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def source(run_folder):
    source = FinishedRun(run_folder)
    yield source
    source.close()


@pytest.fixture(scope="module")
def tables(run_folder):
    run = load(run_folder)
    yield run
    run.close()


def test_the_scene_is_the_plans_and_knows_the_members(source):
    scene = source.scene()
    assert [node["id"] for node in scene["nodes"]] == ["north", "south", "cloud"]
    assert scene["members"] == [[3, 3, 2]]
    assert scene["kinds"][2]["name"] == "uav"
    assert (scene["live"], scene["status"], scene["duration"]) == (False, "complete", 20.0)
    assert len(scene["trails"]) > 10
    assert all(math.isfinite(value) for value in scene["trails"])
    names = [figure["name"] for figure in scene["figures"]]
    assert names[:4] == ["task.completed", "task.failed", "task.response", "host.utilisation"]
    assert "run.lag" not in names


@settings(WITH_FIXTURES, max_examples=20)
@given(at=st.floats(-1.0, 30.0))
def test_a_moment_shows_the_last_values_until_then(source, tables, at):
    header, columns = unpack(source.frame(at, 3))
    assert header["time"] == at
    last = "SELECT max(time) FROM mobility WHERE time <= ? + 1e-9"
    rows = tables.execute(f"SELECT node::VARCHAR, x, y FROM mobility WHERE time = ({last}) ORDER BY 1", [at]).fetchall()
    numbers = dict(source.find("uav"))
    found = {
        numbers[int(n)]: (x, y)
        for n, x, y in zip(columns.get("m.node", ()), columns.get("m.x", ()), columns.get("m.y", ()), strict=True)
    }
    assert found.keys() == {row[0] for row in rows}
    for name, x, y in rows:
        assert found[name] == pytest.approx((x, y), abs=1e-3)
    assert header["events"] == sum(time <= at for time in (10.0, 15.0))


@pytest.mark.parametrize(("at", "up"), [(9.0, 1), (12.0, 0), (17.0, 1)])
def test_a_failed_host_is_seen(source, at, up):
    _, columns = unpack(source.frame(at, -1))
    south = columns["h.node"].tolist().index(1)
    assert columns["h.up"][south] == up


def test_a_chosen_node_tells_all_its_signals(source, tables):
    header, columns = unpack(source.frame(12.0, 3))
    detail = header["detail"]
    snr = tables.execute("SELECT snr FROM link WHERE time = 12 AND node::VARCHAR = ?", [detail["name"]]).fetchall()[0][
        0
    ]
    assert detail["signals"]["link"]["snr"] == pytest.approx(snr)
    assert set(detail["signals"]) == {"mobility", "link", "traffic"}
    cell = columns["l.cell"][columns["l.node"].tolist().index(3)]
    assert source.scene()["nodes"][cell]["id"] == detail["signals"]["link"]["cell"]
    assert unpack(source.frame(12.0, 999))[0]["detail"] is None


def test_links_between_peers_are_those_of_the_table(tmp_path):
    plan = compile_plan(load_scenario(ROOT / "scenarios" / "smart-farm", ["run.duration=5 s"]))
    source = FinishedRun(run_plan(plan, tmp_path, driver="loop").folder)
    _, columns = unpack(source.frame(4.0, -1))
    names = [node["id"] for node in source.scene()["nodes"]]
    found = {
        (names[a], names[b]): (rate, loss)
        for a, b, rate, loss in zip(*(columns[f"p.{name}"] for name in ("node", "peer", "rate", "loss")), strict=True)
    }
    source.close()
    with contextlib.closing(load(next(tmp_path.rglob("manifest.json")).parent)) as tables:
        rows = tables.execute(
            "SELECT node::VARCHAR, peer::VARCHAR, rate, loss FROM peer_link WHERE time = 4"
        ).fetchall()
    assert found.keys() == {row[:2] for row in rows} >= {("tractor", "uav-1"), ("uav-1", "tractor")}
    for a, b, rate, loss in rows:
        assert found[a, b] == pytest.approx((rate, loss), rel=1e-6)


def test_series_close_with_the_ledgers(source, tables):
    found = source.series(["task.completed", "task.failed", "host.utilisation", "host.energy", "nothing"], -1.0)[
        "figures"
    ]
    assert "nothing" not in found
    width = 20.0 / 200
    for name, status in (("task.completed", "="), ("task.failed", "<>")):
        (ended,) = tables.execute(f"SELECT count(*) FROM tasks WHERE status {status} 'completed'").fetchall()[0]
        assert sum(found[name]["lines"]["all"]) * width == pytest.approx(ended)
    assert set(found["host.utilisation"]["lines"]) == {"north", "south", "cloud"}
    energy = tables.execute("SELECT max(energy) FROM host WHERE node::VARCHAR = 'north'").fetchall()[0][0]
    assert found["host.energy"]["lines"]["north"][-1] == pytest.approx(energy)


def test_moving_nodes_are_summed_up(source, tables):
    found = source.series(["mobility.speed"], -1.0)["figures"]["mobility.speed"]
    rows = tables.sql("SELECT avg(speed), max(speed) FROM mobility GROUP BY time ORDER BY time").fetchall()
    assert found["lines"]["mean"] == pytest.approx([row[0] for row in rows])
    assert found["lines"]["max"] == pytest.approx([row[1] for row in rows])


def test_a_single_node_has_its_own_line(source, tables):
    name, snr = source.find("uav")[0][1], "link.snr@3"
    found = source.series([snr, "link.snr@99", "link.snr@x"], -1.0)["figures"]
    rows = tables.execute("SELECT time, snr FROM link WHERE node::VARCHAR = ? ORDER BY time", [name]).fetchall()
    assert list(zip(found[snr]["times"], found[snr]["lines"][name], strict=True)) == rows
    assert found[snr]["unit"] == "dB"
    assert found["link.snr@99"]["lines"] == {}
    assert set(found["link.snr@x"]["lines"]) == {"mean", "max"}


def test_a_run_that_was_killed_is_shown_as_far_as_it_got(run_folder, tmp_path):
    folder = tmp_path / "killed"
    shutil.copytree(run_folder, folder)
    RunFolder.open(folder).update(status="running", reached=0.0)
    source = FinishedRun(folder)
    scene = source.scene()
    assert (scene["status"], scene["duration"]) == ("partial", 20.0)
    rates = source.series(["task.completed"], -1.0)["figures"]["task.completed"]
    assert 0.0 < rates["times"][0] < rates["times"][-1] < 20.0
    source.close()


def test_a_run_that_is_still_starting_is_told_as_such(run_folder, tmp_path):
    for name in ("manifest.json", "plan.json"):
        shutil.copy(run_folder / name, tmp_path)
    RunFolder.open(tmp_path).update(status="running", reached=-1.0, files=None, ended=None)
    with pytest.raises(SetupError, match="has written nothing yet"):
        FinishedRun(tmp_path)


def test_what_nobody_has_measured_is_neither_offered_nor_called_measured(tmp_path):
    plan = compile_plan(load_scenario(ROOT / "scenarios/edge-inference", ["run.duration=2 s"]))
    source = FinishedRun(run_plan(plan, tmp_path, driver="loop").folder)  # in one process, where no machine attaches
    scene = source.scene()
    source.close()
    live = next(one for one in scene["adapters"] if one["name"] == "live")
    assert (live["origin"], live["writes"]) == ("measured", [])
    assert next(one for one in scene["adapters"] if one["name"] == "continuum")["writes"][0] == "task"
    names = {figure["name"].partition(".")[0] for figure in scene["figures"]}
    assert "host" in names
    assert not names & {"resources", "mobility"}


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(SetupError, match="is not a run folder"):
        FinishedRun(tmp_path)


def test_the_server_answers_and_refuses_commands(run_folder):
    with TestClient(make_app(FinishedRun(run_folder), token="t"), base_url="http://localhost") as client:
        assert client.get("/").text.startswith("<!doctype html>")
        assert client.get("/api/scene").json()["controllable"] is False
        assert client.get("/api/find", params={"name": "UAV"}).json()["nodes"][0][1].startswith("uav")
        assert len(client.get("/api/events").json()["events"]) == 2
        assert client.get("/api/series", params={"figure": ["host.power"] * 13}).status_code == 422
        answer = client.post("/api/control", json={"do": "pause"}, headers={"authorization": "Bearer t"})
        assert answer.status_code == 409
        with client.websocket_connect("ws://127.0.0.1:8008/api/frames") as socket:
            for at in (0.0, 12.0, 3.5):
                socket.send_json({"at": at, "watch": 0})
                header, _ = unpack(socket.receive_bytes())
                assert header["time"] == at
                assert header["detail"]["name"] == "north"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"at": "now"}', '{"at": 1e999}', '{"watch": 1.5}', '{"after": null}', "x" * 99]
)
def test_nonsense_ends_the_connection_only(run_folder, text):
    from starlette.websockets import WebSocketDisconnect

    with TestClient(make_app(FinishedRun(run_folder)), base_url="http://localhost") as client:
        with client.websocket_connect("ws://127.0.0.1:8008/api/frames") as socket:
            socket.send_text(text)
            with pytest.raises(WebSocketDisconnect):
                socket.receive_bytes()
        assert client.get("/api/scene").status_code == 200


def test_lines_of_adapters_lie_under_the_map(run_folder, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(run_folder, folder)
    (folder / "logs/streets").mkdir(parents=True)
    shape = '{"type": "MultiLineString", "coordinates": [[[0, 0], [50, 20]], [[1e6, 0], [1e6, 9]]]}'
    (folder / "logs/streets/map.geojson").write_text(shape)
    with contextlib.closing(FinishedRun(folder)) as source:
        assert source.scene()["lines"] == [[0.0, 0.0, 50.0, 20.0]]


class Source:
    """A finished run whose node 1 has taken a picture."""

    live = False

    def picture(self, number, at):
        return b"PNG" if number == 1 and at is None else None

    def close(self):
        pass


def test_the_dashboard_streams_the_pictures_of_a_node():
    with TestClient(make_app(Source()), base_url="http://localhost") as client:
        found = client.get("/api/stream?node=1")
        assert found.headers["content-type"] == "multipart/x-mixed-replace; boundary=picture"
        assert found.content.count(b"--picture\r\n") == 1
        assert client.get("/api/stream?node=2").status_code == 404
        assert client.get("/api/stream?node=-1").status_code == 422
