"""`cosim view`: what it says when it cannot start, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("websockets")

import fastapi
from typer.testing import CliRunner

from cosim.cli import view
from cosim.cli.main import app
from cosim.report.web import finished, serve
from cosim.results.folder import RunFolder
from tests.unit.results import synthetic

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60.0


def refused(*arguments):
    found = CliRunner().invoke(app, ["view", *map(str, arguments)])
    assert found.exit_code == 2
    return found.output


def test_wrong_arguments_say_what_to_do(tmp_path, monkeypatch):
    assert "is not a run folder" in refused(tmp_path / "nowhere", "--port", 0)
    assert "cannot connect to" in refused("tcp://nowhere", "--port", 0)
    monkeypatch.chdir(tmp_path)
    assert "make one with: cosim run" in refused("--port", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "choose another --port" in refused("tcp://127.0.0.1:9", "--port", taken.getsockname()[1])


@pytest.mark.parametrize(
    ("published", "said"),
    [
        ("", r"http://localhost:\d+/"),
        ("9000", r"http://localhost:9000/"),
        ("8080-8099", r".*`docker compose port dashboard \d+` prints"),
    ],
)
def test_a_dashboard_in_a_container_tells_the_address_outside(published, said, monkeypatch):
    reported = []
    monkeypatch.setattr(serve.Server, "run", lambda _self, sockets: sockets[0].close())
    serve.serve(fastapi.FastAPI(), serve.bind("0.0.0.0", 0), reported.append, published)
    assert re.fullmatch(said, reported[0])


def test_a_run_under_way_is_said_to_go_on(tmp_path, monkeypatch, capsys):
    folder = RunFolder.create(tmp_path / "runs", synthetic.plan())
    monkeypatch.setattr(finished, "FinishedRun", lambda path, _maps: path)
    assert view._source(str(folder.path)) == folder.path
    assert "this run goes on" in capsys.readouterr().err
    folder.let_go()
    view._source(str(folder.path))
    assert "this run goes on" not in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_its_address_and_ends_cleanly(tmp_path, number):
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "cosim", "view", "tcp://127.0.0.1:9", "--port", "0"],
            stdout=file, stderr=file, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    deadline = time.monotonic() + LIMIT
    while not (found := re.search(r"http://127\.0\.0\.1:\d+/", log.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with urllib.request.urlopen(found.group() + "api/scene", timeout=LIMIT) as answer:
        assert b'"waiting":true' in answer.read()
    process.send_signal(number)
    assert process.wait(LIMIT) == 0
    assert "Traceback" not in log.read_text()
