"""Tasks that ask the service of this node or of another: times, bytes, and what is not asked."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import uvicorn

from cosim.contract.errors import SetupError
from cosim.testbed.inference.kernels import Kernel
from cosim.testbed.inference.service import application
from cosim.testbed.inference.station import Station
from cosim.testbed.live import work
from cosim.testbed.live.__main__ import CALLS, options
from cosim.testbed.live.worker import do
from tests.unit.testbed.live.pair import NO_CALL

LOOPBACK = ("127.0.0.0/8",)


@pytest.fixture(scope="module")
def service():
    """Port of a service with one worker and room for one more; `slow` takes `size` ms."""

    def slow(data: bytes, size: int) -> int:
        time.sleep(size / 1e3)
        return len(data)

    station = Station({"slow": Kernel("slow", "takes size ms", 20, slow)}, 1, 1)
    config = uvicorn.Config(application(station, "edge"), port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def task(port, **fields):
    return {
        "task": 1, "work": "call", "cycles": 0.0, "size": 30, "limit": 5.0, "output": 700, "input": b"", **NO_CALL,
        "kernel": "slow", "to": f"127.0.0.1:{port}", "bytes": 5000, **fields,
    }  # fmt: skip


def test_a_worker_of_the_service_is_kept_for_the_time_that_the_task_names(service):
    answer = work.call(task(service, size=1, least=0.1), 1e9, LOOPBACK, time.monotonic() + 5)
    assert answer.computed - answer.started >= 0.1


def test_connections_stay_open_and_are_made_again_when_the_service_has_closed_them():
    """A server that closes after every second answer, of which it does not tell."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ports = []

        def serve():
            for _ in range(2):
                connection, peer = listening.accept()
                ports.append(peer[1])
                with connection:
                    for _ in range(2):
                        if b"abc" not in connection.recv(9999):
                            connection.recv(9999)  # the body came by itself
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        thread = threading.Thread(target=serve)
        thread.start()
        connections = work.ServiceConnections()
        port = listening.getsockname()[1]
        for _ in range(4):
            assert connections.post("127.0.0.1", port, "/", b"abc", time.monotonic() + 5)[2] == b"ok"
        connections.close()
        thread.join(5)
    assert len(set(ports)) == 2


def test_what_is_done_on_board_is_done_before_the_call(service):
    begun, spent = time.monotonic(), time.thread_time()
    answer = work.call(task(service, cycles=1e8), 1e9, LOOPBACK, begun + 5)
    assert time.thread_time() - spent >= 0.1
    assert answer.uploaded - begun >= 0.1
    with pytest.raises(work.LimitError):
        work.call(task(service, cycles=1e9), 1e9, LOOPBACK, time.monotonic() + 0.05)


def test_a_call_sends_all_bytes_and_tells_every_time(service):
    before = time.monotonic()
    answer = work.call(task(service), 1e9, LOOPBACK, before + 5)
    after = time.monotonic()
    assert before <= answer.uploaded <= answer.started <= answer.computed <= answer.answered <= after
    assert answer.computed - answer.started >= 0.03
    assert len(answer.output) == 700
    assert json.loads(answer.output)["result"] == 5000


@pytest.mark.clock
def test_calls_wait_in_line_and_are_refused_beyond_it(service):
    answers = []

    def ask():
        answers.append(do(task(service, size=400), 1e9, "", LOOPBACK))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer["status"] for answer in answers) == ["done", "done", "refused"]
    done = sorted((answer for answer in answers if answer["status"] == "done"), key=lambda answer: answer["started"])
    assert done[1]["started"] >= done[0]["computed"] - 1e-3  # one worker: the second starts when the first is done
    assert done[1]["started"] - done[1]["uploaded"] > 0.2  # and has waited at the host


def test_times_of_another_machine_are_not_taken_for_ours(service, monkeypatch):
    monkeypatch.setattr(work, "boot_id", lambda: "another")
    answer = work.call(task(service), 1e9, LOOPBACK, time.monotonic() + 60)
    assert (answer.uploaded, answer.started, answer.computed) == (None, None, None)
    assert answer.answered > 0


@pytest.mark.parametrize(
    ("fields", "networks", "said"),
    [
        ({}, (), "owner"),
        ({}, ("10.0.0.0/8",), "owner"),
        ({"to": "127.0.0.1:x"}, LOOPBACK, "owner"),
        ({"to": "localhost:80"}, LOOPBACK, "owner"),
        ({"kernel": "../metrics"}, LOOPBACK, "no name of a kernel"),
        ({"kernel": "nothing"}, LOOPBACK, "there is no kernel 'nothing'"),
    ],
)
def test_what_is_not_called(service, fields, networks, said):
    with pytest.raises(work.WorkError, match=said):
        work.call(task(service, **fields), 1e9, networks, time.monotonic() + 60)


@pytest.mark.clock
def test_a_call_that_takes_too_long_has_timed_out(service):
    result = do(task(service, size=600, limit=0.1), 1e9, "", LOOPBACK)
    assert (result["status"], result["uploaded"]) == ("timeout", None)
    time.sleep(0.6)  # the service is busy until then


def test_a_kernel_of_the_own_service_is_a_path_below_it(service):
    found = work.forward(task(service, input=b"abc"), f"http://127.0.0.1:{service}/run", time.monotonic() + 60)
    assert json.loads(found)["result"] == 3
    assert len(found) == 700


def test_the_environment_says_what_the_agent_does(tmp_path):
    given = {
        "COSIM_GATEWAY": "ipc:///run/g",
        "COSIM_KEY": str(tmp_path / "k"),
        "COSIM_NODE": "edge",
        "COSIM_CORES": "2",
    }
    found = options(given)
    assert (found.server, found.node, found.cores, found.concurrency, found.calls) == ("ipc:///run/g", "edge", 2, 0, ())
    calling = options({**given, "COSIM_CALLS": "10.0.0.0/8 10.1.0.0/16"})
    assert calling.calls == ("10.0.0.0/8", "10.1.0.0/16")
    assert calling.concurrency == CALLS
    for name in ("COSIM_GATEWAY", "COSIM_KEY", "COSIM_NODE"):
        with pytest.raises(SetupError, match=name):
            options({**given, name: ""})
    with pytest.raises(SetupError, match="COSIM_CORES"):
        options({**given, "COSIM_CORES": "two"})
