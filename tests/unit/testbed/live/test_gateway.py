"""The gateway on loopback sockets: who gets in, who does not, and what a nuisance can do."""

from __future__ import annotations

import threading
import time

import pytest
import zmq

from cosim.contract.errors import SetupError
from cosim.talk import control, keys
from cosim.testbed.live import agent
from cosim.testbed.live.gateway import Gateway
from cosim.testbed.live.member import SILENT
from cosim.testbed.live.protocol import FROM_AGENT, FROM_GATEWAY, MAX_MESSAGE
from cosim.testbed.live.task_queue import QueuedTask
from tests.unit.testbed.live.pair import FACTS, NO_CALL, slot

PATIENCE = 60.0  # s
LONG = int(1e3 * PATIENCE)  # ms, for an answer that must come


def eventually(condition):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
    return found


@pytest.fixture
def folder(tmp_path):
    """A folder of keys that lets `pi` in; the private keys of `pi` and of a stranger beside it."""
    path = tmp_path / "keys"
    server = keys.server_key(path)
    for name in ("pi", "stranger"):
        _, public = keys.write(keys.make(name, server.public), tmp_path)
        if name == "pi":
            public.rename(path / public.name)
    return path


@pytest.fixture
def gateway(folder, tmp_path):
    gateway = Gateway([slot("pi", lease=3.0, interval=0.2)], [(folder, "tcp://127.0.0.1:*")], queue=4, control=tmp_path)
    yield gateway
    gateway.close()


class Attached:
    """An agent in a thread."""

    def __init__(self, gateway, key, **options):
        self.agent = agent.Agent(agent.Options(key, gateway.addresses[0], concurrency=1, **options))
        self.code = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        self.code = self.agent.run()

    def stop(self):
        self.agent.stop("SIGTERM")
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.code


class Raw:
    """A client that sends what it likes."""

    def __init__(self, address, key=None, server=""):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        if key is not None:
            self.socket.curve_publickey, self.socket.curve_secretkey = key.public.encode(), key.secret.encode()
            self.socket.curve_serverkey = (server or key.server).encode()
        self.socket.connect(address)

    def ask(self, data, wait=1_000):
        self.socket.send(data)
        return FROM_GATEWAY.unpack(self.socket.recv()) if self.socket.poll(wait) else None

    def close(self):
        self.socket.close(0)
        self.context.term()


@pytest.fixture
def raw(gateway, tmp_path):
    opened = []

    def connect(name="pi", **options):
        key = keys.read(tmp_path / f"{name}.key") if name else None
        opened.append(Raw(gateway.addresses[0], key, **options))
        return opened[-1]

    yield connect
    for client in opened:
        client.close()


def hello(nonce=b"n" * 16, **facts):
    return FROM_AGENT.pack("hello", {**FACTS, "instance": b"i" * 16, **facts}, session=nonce)


def test_an_agent_attaches_reports_runs_a_task_and_leaves(gateway, tmp_path):
    attached = Attached(gateway, tmp_path / "pi.key", position="fixed:39.5,22.9,60")
    try:
        assert gateway.wait_for(["pi"], PATIENCE) == []
        standing = gateway.standings()[0]
        report = eventually(lambda: standing.report)
        assert report["position"] == [39.5, 22.9, 60.0]
        assert report["memory"] > 1e6
        body = {
            "task": 5,
            "work": "busy",
            "cycles": 1e6,
            "size": 1,
            "limit": 5.0,
            "output": 300,
            "input": b"x" * 1000,
            **NO_CALL,
        }
        assert gateway.offer("pi", QueuedTask(5, lambda: body, time.monotonic(), 5.0))
        (result,) = eventually(gateway.results)
        assert (result.task, result.status, result.output) == (5, "done", 300)
        times = [result.created, result.sent, result.uploaded, result.started, result.computed, result.ended]
        assert times == sorted(times)
        assert abs(standing.lease.wall.offset) < 0.1  # the same clock
    finally:
        assert attached.stop() == 0
    eventually(lambda: standing.state == "left")
    assert standing.detail == "SIGTERM"


def test_a_stranger_does_not_get_in_until_its_key_is_there(gateway, folder, tmp_path):
    attached = Attached(gateway, tmp_path / "stranger.key", node="pi")
    try:
        eventually(lambda: gateway.refused)
        eventually(lambda: attached.agent._member.said.startswith("the server refuses this key"))
        assert gateway.absent(["pi"]) == ["pi"]
        (tmp_path / "stranger.pub").rename(folder / "stranger.pub")
        eventually(lambda: "no node of the scenario has live.key 'stranger'" in attached.agent._member.said)
        assert gateway.absent(["pi"]) == ["pi"]
    finally:
        attached.stop()


def test_an_agent_that_reaches_nobody_or_somebody_else_says_so_and_seeks_on(gateway, tmp_path):
    keys.write(keys.make("lost", keys.make("other").public), tmp_path)
    attached = Attached(gateway, tmp_path / "lost.key")
    try:
        said = eventually(lambda: attached.agent._member.said)
        assert said == SILENT
        assert attached.agent._member.state in ("seeking", "asking")
    finally:
        attached.stop()


def test_who_is_evicted_is_told_once(gateway, tmp_path, caplog):
    attached = Attached(gateway, tmp_path / "pi.key")
    assert gateway.wait_for(["pi"], PATIENCE) == []
    with caplog.at_level("WARNING"):
        control.command(*control.find(_run(tmp_path), kind=control.LIVE), "evict", node="pi")
        eventually(lambda: attached.code is not None)
    assert "evicted: evicted from this run" in caplog.messages
    assert attached.stop() == 1


def test_without_a_key_or_with_a_wrong_server_nobody_gets_in(gateway, raw, tmp_path):
    assert raw(name="").ask(hello()) is None
    assert raw(server=keys.make("other").public).ask(hello()) is None
    assert gateway.absent(["pi"]) == ["pi"]
    assert raw().ask(hello(), LONG).kind == "welcome"


def test_noise_repetition_and_oversized_messages_harm_nobody(gateway, raw):
    nuisance, peaceful = raw(), raw()
    for data in (b"", b"noise", hello()[:-3], FROM_AGENT.pack("goodbye", {"reason": ""}, session=b"x" * 16, number=1)):
        nuisance.socket.send(data)
    assert nuisance.socket.poll(LONG)  # no-session, for the farewell
    nuisance.socket.send_multipart([hello(), b"more"])
    nuisance.socket.send(bytes(MAX_MESSAGE + 1))
    assert peaceful.ask(hello(), LONG).kind == "welcome"
    assert peaceful.ask(hello(), LONG).kind in ("ping",)  # repeated: no second welcome
    eventually(lambda: gateway.roster.counts["malformed"] == 4)
    eventually(lambda: gateway.roster.counts["repeated"] == 1)
    gateway.check()


def test_a_flood_does_not_keep_the_gateway_from_answering(gateway, raw, tmp_path):
    raw_one = raw()
    welcome = raw_one.ask(hello(), LONG)
    for number in range(12_000):
        session = welcome.body["session"]
        raw_one.socket.send(FROM_AGENT.pack("accept", {"tasks": []}, session=session, number=number + 1))
    answer = control.command(*control.find(_run(tmp_path), kind=control.LIVE), "nodes")
    eventually(lambda: gateway.roster.counts["flood"] > 0)
    assert answer["nodes"][0]["name"] == "pi"


def _run(tmp_path):
    """A run's folder around the control file."""
    logs = tmp_path / "run/logs/live"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / control.FILE).write_text((tmp_path / control.FILE).read_text())
    return str(tmp_path / "run")


def test_nodes_are_listed_and_evicted_over_the_control_socket(gateway, tmp_path):
    assert (tmp_path / control.FILE).stat().st_mode & 0o777 == 0o600
    address, token = control.find(_run(tmp_path), kind=control.LIVE)
    attached = Attached(gateway, tmp_path / "pi.key")
    gateway.wait_for(["pi"], PATIENCE)
    rows = lambda: control.command(address, token, "nodes")["nodes"]  # noqa: E731
    (row,) = eventually(lambda: [row for row in rows() if row["offset"] is not None])
    assert (row["name"], row["state"], row["key"]) == ("pi", "attached", "pi")
    assert 0 <= row["round_trip"] < 1
    assert control.command(address, token, "evict", node="pi") == {"evicted": "pi"}
    eventually(lambda: attached.code == 1)
    assert attached.stop() == 1
    with pytest.raises(control.ControlError, match="there is no live node 'nobody'; there are pi"):
        control.command(address, token, "evict", node="nobody")
    with pytest.raises(control.ControlError, match="there is no command"):
        control.command(address, token, "stop")


def test_the_control_socket_wants_its_token(gateway, tmp_path):
    address, token = control.find(_run(tmp_path), kind=control.LIVE)
    with pytest.raises(control.ControlError, match="token is wrong"):
        control.command(address, "0" * 64, "nodes")
    with pytest.raises(SetupError, match="COSIM_LIVE_TOKEN"):
        control.find(address, kind=control.LIVE)
    assert control.find(address, token) == (address, token)


def test_no_run_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(SetupError, match="is no run with live nodes under way"):
        control.find(str(tmp_path), kind=control.LIVE)
    with pytest.raises(SetupError, match="no run with live nodes is under way"):
        control.find("", "", control.LIVE, tmp_path)


def test_an_address_that_is_taken_is_named(gateway, folder):
    with pytest.raises(SetupError, match="cannot listen at tcp"):
        Gateway([slot()], [(folder, gateway.addresses[0])])


def test_nothing_is_left_after_close(gateway, tmp_path):
    gateway.close()
    gateway.close()
    assert not (tmp_path / control.FILE).exists()
    assert not [thread for thread in threading.enumerate() if thread.name == "live-gateway"]
