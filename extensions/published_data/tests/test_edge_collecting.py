"""Loading edge nodes: an open load keeps its times, connections are used again, and what is written can be read."""

from __future__ import annotations

import asyncio
import csv
import gzip
import json
import os
import shutil
import subprocess
import time
from collections import Counter

import numpy as np
import pytest
from benchmarks.edge_telemetry import NETWORKS, SIZES, collect, main

from benchmarks import edge_nodes
from cosim.contract.errors import ScenarioError
from cosim.extensions.published_data.edge_telemetry import read
from cosim.testbed.measuring.open_load import Caller, LoadRequest, picture, poisson


class Service:
    """Answers as the inference service does, after `delay` s; counts connections."""

    def __init__(self, delay: float = 0.0, status: int = 200, hang_up: bool = False) -> None:
        self.delay, self.status, self.hang_up = delay, status, hang_up
        self.connections = self.open = 0
        self.bodies: list[int] = []

    async def serve(self, reader, writer):
        self.connections += 1
        self.open += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = int(head.partition("content-length:")[2].split("\r\n", 1)[0])
                self.bodies.append(len(await reader.readexactly(length)))
                came = time.monotonic()
                if self.hang_up:
                    break
                await asyncio.sleep(self.delay)
                body = json.dumps({"came": came, "queued": 0.25 * self.delay, "computed": 0.5 * self.delay}).encode()
                writer.write(f"HTTP/1.1 {self.status} X\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            self.open -= 1


def ask(service, calls):
    """What `calls` (of a caller) answers with the service running."""

    async def run():
        server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
        caller = Caller("127.0.0.1", server.sockets[0].getsockname()[1])
        try:
            return await calls(caller)
        finally:
            caller.close()
            server.close()
            while service.open:
                await asyncio.sleep(0.01)

    return asyncio.run(run())


def test_an_open_load_does_not_wait_for_answers():
    service = Service(delay=0.2)
    requests = [LoadRequest(0.02 * k, "blur", 64) for k in range(5)]
    _, answers = ask(service, lambda caller: caller.open_loop(requests))
    assert [a.status for a in answers] == [200] * 5
    for a, request in zip(answers, requests, strict=True):
        assert a.request is request
        assert a.assigned >= request.time
        assert a.assigned <= a.uploaded <= a.started <= a.computed <= a.ended
        assert a.started - a.uploaded == pytest.approx(0.05)
        assert a.computed - a.started == pytest.approx(0.1)
    assert answers[4].assigned < answers[0].ended  # the last was sent before the first was answered
    assert service.bodies == [len(picture(64))] * 5


def test_a_closed_load_uses_its_connections_again():
    service = Service(delay=0.005)
    took, answers = ask(service, lambda caller: caller.closed_loop([LoadRequest(0.0, "blur", 8)] * 12, 2))
    assert len(answers) == 12
    assert service.connections == 2
    assert took >= 12 * 0.005 / 2


def test_refusals_and_lost_answers_are_told_apart():
    refused = ask(Service(status=503), lambda caller: caller.ask(LoadRequest(0.0, "blur", 8), time.monotonic()))
    assert refused.status == 503
    assert np.isnan(refused.computed)
    lost = ask(Service(hang_up=True), lambda caller: caller.ask(LoadRequest(0.0, "blur", 8), time.monotonic()))
    assert lost.status == 0
    assert np.isnan(lost.ended)


def test_arrivals_are_poisson_and_repeat():
    services = [(name, size) for name in NETWORKS for size in SIZES]
    one, again = (poisson(50.0, 100.0, services, (1, 2, 350)) for _ in range(2))
    assert one == again
    assert one != poisson(50.0, 100.0, services, (2, 2, 350))
    gaps = np.diff([request.time for request in one])
    assert len(one) == pytest.approx(5000, rel=0.05)
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.06)
    counts = [sum(1 for r in one if (r.service, r.size) == service) for service in services]
    assert min(counts) > 450


def test_wrong_lengths_are_refused(tmp_path, capsys):
    assert main([str(tmp_path), "--seconds", "0.1"]) == 2
    assert "--seconds takes 1 to 600" in capsys.readouterr().err


def test_without_docker_it_says_what_else_there_is(monkeypatch):
    def missing(*_arguments, **_options):
        raise FileNotFoundError("docker")

    monkeypatch.setattr(subprocess, "run", missing)
    with pytest.raises(ScenarioError, match="there is no docker here"):
        edge_nodes._docker("info")


def check(folder):
    """What was collected can be read, and has a row for every request."""
    about = json.loads((folder / "machine.json").read_text())
    assert about["processors"] == os.cpu_count()
    found = read(folder)
    assert {window.node for window in found.windows} == {"edge-1", "edge-2", "edge-3"}
    assert np.all(found.busy > 0.0)
    assert np.all(found.response >= found.busy)
    # `read` leaves out windows that other programs disturbed; what was written has them all
    with (folder / "windows.csv").open(newline="") as text:
        windows = list(csv.DictReader(text))
    with gzip.open(folder / "tasks.csv.gz", "rt", newline="") as text:
        sent = Counter(row["window"] for row in csv.DictReader(text))
    assert {row["part"] for row in windows} == {"pilot", "fit", "held-back", "repeat"}
    again = {row["node"]: sent[row["window"]] for row in windows if row["part"] == "repeat"}
    first = {
        row["node"]: sent[row["window"]] for row in windows if row["part"] == "held-back" and row["load"] == "0.65"
    }
    assert first == again  # the same requests


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not edge_nodes.GROUPS.is_dir(), reason="needs root and control groups")
def test_processes_are_measured(tmp_path):
    collect(tmp_path, "process", seconds=1.5)
    check(tmp_path)


@pytest.mark.slow
@pytest.mark.docker
def test_containers_are_measured(tmp_path):
    image = subprocess.run(["docker", "image", "inspect", edge_nodes.IMAGE], capture_output=True, check=False)
    if not shutil.which("docker") or image.returncode:
        pytest.skip(f"there is no image {edge_nodes.IMAGE}")
    collect(tmp_path, "containers", seconds=3.0)
    check(tmp_path)
