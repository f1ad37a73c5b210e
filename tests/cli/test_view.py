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
from typer.testing import CliRunner

from cosim.cli.main import app

pytest.importorskip("fastapi", reason="pip install 'continuum-cosim[web]'")
ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60.0


def refused(*arguments):
    found = CliRunner().invoke(app, ["view", *map(str, arguments)])
    assert found.exit_code == 2
    return found.output


def test_wrong_arguments_say_what_to_do(tmp_path, monkeypatch):
    assert "is not a run folder" in refused(tmp_path / "nowhere", "--port", 0)
    assert "cannot observe" in refused("tcp://nowhere", "--port", 0)
    monkeypatch.chdir(tmp_path)
    assert "make one with: cosim run" in refused("--port", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "choose another --port" in refused("tcp://127.0.0.1:9", "--port", taken.getsockname()[1])


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
