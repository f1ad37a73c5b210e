"""Who may ask, and what a page may do."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("httpx2")

from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from cosim.report.web.app import STATIC, make_app
from cosim.report.web.finished import FinishedRun
from cosim.report.web.guard import WebGuard


@pytest.fixture(scope="module")
def client(run_folder):
    with TestClient(
        make_app(FinishedRun(run_folder), hosts=["lab.example"]), base_url="http://127.0.0.1:8008"
    ) as client:
        yield client


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True), ("localhost:8008", True), ("127.0.0.1:8008", True), ("[::1]:8008", True), ("::1", False),
        ("192.168.7.2", True), ("lab.example:80", True), ("evil.example", False), ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False), ("", False), ("[", False), ("user@localhost", True), ("lab.example.", False),
    ],
)  # fmt: skip
def test_names_must_be_known_and_numbers_cannot_be_rebound(host, known):
    assert WebGuard(None, ["lab.example"]).knows(host) is known


def test_a_rebound_name_gets_nothing(client):
    for path in ("/", "/api/scene", "/static/app.mjs"):
        assert client.get(path, headers={"host": "evil.example"}).status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("ws://127.0.0.1:8008/api/frames", headers={"host": "evil.example"}),
    ):
        pass


def test_with_a_password_strangers_get_nothing_and_browsers_keep_their_login(run_folder):
    app = make_app(FinishedRun(run_folder), password="s3cret: word")
    with TestClient(app, base_url="http://127.0.0.1:8008") as browser:
        for path in ("/", "/api/scene", "/static/app.mjs"):
            for auth in (None, ("me", "s3cret"), ("s3cret: word", "")):
                found = browser.get(path, auth=auth)
                assert found.status_code == 401
                assert found.headers["www-authenticate"].startswith("Basic ")
                assert "set-cookie" not in found.headers
        for headers in ({}, {"authorization": "Basic ?"}, {"cookie": "cosim-login="}):
            with (
                pytest.raises(WebSocketDisconnect),
                browser.websocket_connect("ws://127.0.0.1:8008/api/frames", headers=headers),
            ):
                pass
        assert browser.get("/", auth=("me", "s3cret: word")).status_code == 200
        assert browser.get("/api/scene").status_code == 200  # by the cookie
        with browser.websocket_connect("ws://127.0.0.1:8008/api/frames") as socket:
            socket.send_json({"at": 1.0})
            assert len(socket.receive_bytes()) > 100


def test_a_foreign_page_can_neither_watch_nor_steer(client):
    foreign = {"origin": "http://evil.example", "host": "127.0.0.1:8008"}
    assert client.post("/api/control", headers=foreign, json={"do": "stop"}).status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("ws://127.0.0.1:8008/api/frames", headers=foreign),
    ):
        pass
    own = {"origin": "http://127.0.0.1:8008", "host": "127.0.0.1:8008"}
    with client.websocket_connect("ws://127.0.0.1:8008/api/frames", headers=own) as socket:
        socket.send_json({"at": 1.0})
        assert len(socket.receive_bytes()) > 100


def test_every_answer_carries_a_strict_policy(client):
    for path in ("/", "/static/app.mjs", "/api/scene", "/nowhere"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/static/app.mjs").headers["content-type"].startswith("text/javascript")
    assert client.get("/docs").status_code == client.get("/openapi.json").status_code == 404
    assert client.get("/static/../app.py").status_code == 404


def test_the_front_end_names_no_other_server():
    for path in STATIC.glob("*.*"):
        text = path.read_text(encoding="utf-8")
        assert "http://" not in text, path
        assert "https://" not in text, path


def test_libraries_come_with_versions_and_licences():
    vendor = STATIC / "vendor"
    words = (vendor / "README.md").read_text(encoding="utf-8")
    for file in ("maplibre-gl.mjs", "maplibre-gl-worker.mjs", "maplibre-gl.css", "uPlot.iife.min.js", "uPlot.min.css"):
        assert (vendor / file).stat().st_size > 500
        assert file in words
    assert "v6.17.0" in (vendor / "maplibre-gl.mjs").read_text(encoding="utf-8")[:300]
    assert "MIT" in (vendor / "uPlot.LICENSE.txt").read_text(encoding="utf-8")
    assert "MapLibre" in (vendor / "maplibre-gl.LICENSE.txt").read_text(encoding="utf-8")
